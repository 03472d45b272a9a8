//! Queues and writes messages.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use godwit_primitives::sha256::sha256d;
use godwit_stream::{DataStream, PooledStream};

use super::Write;
use crate::frame::Command;
use crate::frame::{FRAME_HEADER_SIZE, FrameHeader};
use crate::v2::TAG_SIZE;

/// Most messages that one system call writes.
const MESSAGES_AT_ONCE: usize = 16;

/// Bytes that a queued message is charged beside its payload's buffer: its entries in this queue
/// and in the engine's account, which double when they are full, and the allocator's overhead for a
/// small payload.
pub(crate) const MESSAGE_BYTES: usize = 384;

const _: () = assert!(2 * (size_of::<Outgoing>() + 2 * size_of::<usize>()) + 64 <= MESSAGE_BYTES);

/// An empty queue keeps room for this many messages.
const IDLE_MESSAGES: usize = 16;

/// The messages to be written, in order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    messages: VecDeque<Outgoing>,
    /// Bytes of the first message that are written.
    written: usize,
    /// Size of all messages in the queue, in bytes.
    queued: usize,
    /// Memory that they are charged, in bytes.
    memory: usize,
    total: u64,
    /// Size of the written messages in the plain protocol, in bytes.
    counted: u64,
}

/// A message in the form in which it is written: head, payload, tail.
#[derive(Debug)]
pub(super) struct Outgoing {
    head: [u8; FRAME_HEADER_SIZE],
    head_len: usize,
    payload: PooledStream,
    tail: Option<[u8; TAG_SIZE]>,
    /// Size in the plain protocol, in bytes; 0 for bytes that are no message.
    counts: usize,
}

/// Memory that a message is charged while it is queued, in bytes.
pub(crate) fn message_memory(payload: &PooledStream) -> usize {
    MESSAGE_BYTES + payload.capacity()
}

/// Size in bytes of a message in the plain protocol.
pub(super) fn plain_size(payload: &PooledStream) -> usize {
    FRAME_HEADER_SIZE + payload.len()
}

impl Outgoing {
    /// A message of the plain protocol.
    pub(super) fn plain(magic: [u8; 4], command: Command, payload: PooledStream) -> Self {
        let length = u32::try_from(payload.len()).expect("messages are far below 4 GiB");
        let hash = sha256d(payload.unread());
        let checksum = *hash.first_chunk().expect("32 bytes");
        let head = FrameHeader { magic, command, length, checksum }.to_bytes();
        let counts = plain_size(&payload);
        Self { head, head_len: FRAME_HEADER_SIZE, payload, tail: None, counts }
    }

    /// An encrypted message.
    ///
    /// # Panics
    ///
    /// When `head` is longer than a plain message's.
    pub(super) fn sealed(head: &[u8], payload: PooledStream, tag: [u8; TAG_SIZE]) -> Self {
        let mut message = Self::bytes(payload);
        message.head[..head.len()].copy_from_slice(head);
        message.head_len = head.len();
        message.counts = plain_size(&message.payload);
        message.tail = Some(tag);
        message
    }

    /// Bytes that are no message.
    pub(super) fn bytes(payload: PooledStream) -> Self {
        let head = [0; FRAME_HEADER_SIZE];
        Self { head, head_len: 0, payload, tail: None, counts: 0 }
    }

    fn len(&self) -> usize {
        self.head_len + self.payload.len() + self.tail.map_or(0, |tail| tail.len())
    }

    /// Head, payload and tail, without their first `written` bytes.
    fn parts(&self, written: usize) -> [&[u8]; 3] {
        let tail = self.tail.as_ref().map_or(&[][..], |tail| tail);
        let mut written = written;
        [&self.head[..self.head_len], self.payload.unread(), tail].map(|part| {
            let skipped = written.min(part.len());
            written -= skipped;
            &part[skipped..]
        })
    }
}

impl Queue {
    pub(super) fn push(&mut self, message: Outgoing) {
        self.queued += message.len();
        self.memory += message_memory(&message.payload);
        self.messages.push_back(message);
    }

    /// Queues bytes that are no message.
    pub(super) fn push_bytes(&mut self, bytes: &[u8]) {
        self.push(Outgoing::bytes(DataStream::from(bytes).into()));
    }

    pub(super) fn write(
        &mut self,
        sink: &mut impl io::Write,
        mut budget: usize,
    ) -> io::Result<Write> {
        while !self.messages.is_empty() {
            if budget == 0 {
                return Ok(Write::BudgetUsed);
            }
            match self.write_once(sink, budget) {
                Ok(0) => return Ok(Write::Closed),
                Ok(count) => {
                    budget -= count;
                    self.total += count as u64;
                    self.advance(count);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(Write::Pending),
                Err(error) => return Err(error),
            }
        }
        Ok(Write::Done)
    }

    /// Makes one system call that writes at most `budget` bytes; `budget` is not 0.
    fn write_once(&self, sink: &mut impl io::Write, budget: usize) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); 3 * MESSAGES_AT_ONCE];
        let mut used = 0;
        let mut left = budget;
        for (i, message) in self.messages.iter().take(MESSAGES_AT_ONCE).enumerate() {
            for part in message.parts(if i == 0 { self.written } else { 0 }) {
                let part = &part[..part.len().min(left)];
                left -= part.len();
                // Some systems take an empty first slice for the end of the data.
                if !part.is_empty() {
                    slices[used] = IoSlice::new(part);
                    used += 1;
                }
            }
        }
        let count = sink.write_vectored(&slices[..used])?;
        if count > budget - left {
            return Err(ErrorKind::InvalidData.into());
        }
        Ok(count)
    }

    /// Removes the messages that are completely written.
    fn advance(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.messages.front() {
            let len = first.len();
            if self.written < len {
                return;
            }
            self.written -= len;
            self.queued -= len;
            self.memory -= message_memory(&first.payload);
            self.counted += first.counts as u64;
            self.messages.pop_front();
        }
        // The queue may have held thousands of pongs.
        self.messages.shrink_to(IDLE_MESSAGES);
    }

    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Bytes written, counted as if in the plain protocol.
    pub(super) fn counted(&self) -> u64 {
        let started = self.messages.front().map_or(0, |first| self.written.min(first.counts));
        self.counted + started as u64
    }
}

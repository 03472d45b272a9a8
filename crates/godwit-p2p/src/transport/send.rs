//! Writing messages.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};

use godwit_primitives::sha256::sha256d;
use godwit_stream::PooledStream;

use super::Write;
use crate::Command;
use crate::frame::{FRAME_HEADER_SIZE, FrameHeader};

/// Most messages that one call of the system writes.
const MESSAGES_AT_ONCE: usize = 16;

#[derive(Debug)]
pub(super) struct Sender {
    magic: [u8; 4],
    queue: VecDeque<Outgoing>,
    /// Bytes of the first message, its header included, that are written.
    written: usize,
    /// Size of all messages in the queue.
    queued: usize,
    total: u64,
}

#[derive(Debug)]
struct Outgoing {
    header: [u8; FRAME_HEADER_SIZE],
    payload: PooledStream,
}

impl Outgoing {
    fn len(&self) -> usize {
        FRAME_HEADER_SIZE + self.payload.len()
    }

    /// Header and payload, without their first `written` bytes.
    fn parts(&self, written: usize) -> [&[u8]; 2] {
        let of_payload = written.saturating_sub(FRAME_HEADER_SIZE);
        [&self.header[written - of_payload..], &self.payload.unread()[of_payload..]]
    }
}

impl Sender {
    pub(super) fn new(magic: [u8; 4]) -> Self {
        Self { magic, queue: VecDeque::new(), written: 0, queued: 0, total: 0 }
    }

    pub(super) fn queue(&mut self, command: Command, payload: PooledStream) {
        let length = u32::try_from(payload.len()).expect("messages are far below 4 GiB");
        let hash = sha256d(payload.unread());
        let checksum = *hash.first_chunk().expect("32 bytes");
        let header = FrameHeader { magic: self.magic, command, length, checksum }.to_bytes();
        let message = Outgoing { header, payload };
        self.queued += message.len();
        self.queue.push_back(message);
    }

    pub(super) fn write(
        &mut self,
        sink: &mut impl io::Write,
        mut budget: usize,
    ) -> io::Result<Write> {
        while !self.queue.is_empty() {
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

    /// One write of at most `budget` bytes, which are not zero.
    fn write_once(&self, sink: &mut impl io::Write, budget: usize) -> io::Result<usize> {
        let mut slices = [IoSlice::new(&[]); 2 * MESSAGES_AT_ONCE];
        let mut used = 0;
        let mut left = budget;
        for (i, message) in self.queue.iter().take(MESSAGES_AT_ONCE).enumerate() {
            for part in message.parts(if i == 0 { self.written } else { 0 }) {
                let part = &part[..part.len().min(left)];
                left -= part.len();
                // Some systems take an empty first slice for the end.
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

    /// Lets go of the messages that are written.
    fn advance(&mut self, count: usize) {
        self.written += count;
        while let Some(first) = self.queue.front() {
            let len = first.len();
            if self.written < len {
                return;
            }
            self.written -= len;
            self.queued -= len;
            self.queue.pop_front();
        }
    }

    pub(super) fn queued_bytes(&self) -> usize {
        self.queued
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

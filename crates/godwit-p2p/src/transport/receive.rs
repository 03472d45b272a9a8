//! Reading messages.

use std::io::{self, ErrorKind};
use std::mem;

use godwit_primitives::sha256::Sha256;
use godwit_stream::{BufferPool, DataStream, PooledStream};

use super::{Discard, DiscardReason, Receive, ReceiveLimits, TransportError, payload_limit};
use crate::frame::{FRAME_HEADER_SIZE, FrameHeader, MAX_PAYLOAD};
use crate::{Command, Frame};

/// Capacity in bytes that the first byte of a payload may claim, whatever length is announced.
const FIRST_CAPACITY: usize = 64 * 1024;

/// How much of what is dropped is read at once, in bytes, onto the stack.
const SKIM_STEP: usize = 16 * 1024;

#[derive(Debug)]
pub(super) struct Receiver {
    magic: [u8; 4],
    pool: BufferPool,
    state: State,
    total: u64,
}

#[derive(Debug)]
enum State {
    /// The first `filled` bytes of a header.
    Header { bytes: [u8; FRAME_HEADER_SIZE], filled: usize },
    /// A payload that is kept.
    Payload(Payload),
    /// A payload of which `left` bytes are still to be dropped.
    Skim { discard: Discard, left: usize },
}

#[derive(Debug)]
struct Payload {
    header: FrameHeader,
    /// `None` until the first byte is there.
    stream: Option<PooledStream>,
    hasher: Sha256,
}

/// What one read gave, and whether the source had nothing behind it.
struct Got {
    bytes: usize,
    end: Option<End>,
}

enum End {
    Pending,
    Closed,
}

impl State {
    const START: Self = Self::Header { bytes: [0; FRAME_HEADER_SIZE], filled: 0 };
}

impl Receiver {
    pub(super) fn new(magic: [u8; 4], pool: BufferPool) -> Self {
        Self { magic, pool, state: State::START, total: 0 }
    }

    pub(super) fn receive(
        &mut self,
        source: &mut impl io::Read,
        limits: &ReceiveLimits,
        mut budget: usize,
    ) -> Result<Receive, TransportError> {
        while budget > 0 {
            let got = self.read(source, budget).map_err(TransportError::Io)?;
            budget -= got.bytes;
            self.total += got.bytes as u64;
            if let Some(done) = self.advance(limits)? {
                return Ok(done);
            }
            match got.end {
                Some(End::Pending) => return Ok(Receive::Pending),
                Some(End::Closed) => return Ok(Receive::Closed),
                None => {}
            }
        }
        Ok(Receive::BudgetUsed)
    }

    /// Up to `budget` bytes of what is being received, and none of what follows it.
    fn read(&mut self, source: &mut impl io::Read, budget: usize) -> io::Result<Got> {
        match &mut self.state {
            State::Header { bytes, filled } => {
                let room = bytes[*filled..].len().min(budget);
                let got = read_once(source, &mut bytes[*filled..][..room])?;
                *filled += got.bytes;
                Ok(got)
            }
            State::Payload(payload) => payload.read(source, budget, &self.pool),
            State::Skim { left, .. } => {
                let mut dropped = [0; SKIM_STEP];
                let room = SKIM_STEP.min(*left).min(budget);
                let got = read_once(source, &mut dropped[..room])?;
                *left -= got.bytes;
                Ok(got)
            }
        }
    }

    /// Ends what is complete.
    fn advance(&mut self, limits: &ReceiveLimits) -> Result<Option<Receive>, TransportError> {
        if let State::Header { bytes, filled: FRAME_HEADER_SIZE } = &self.state {
            self.state = begin(FrameHeader::from_bytes(bytes), self.magic, limits)?;
        }
        let complete = match &self.state {
            State::Header { .. } => false,
            State::Payload(payload) => payload.received() == payload.header.length as usize,
            State::Skim { left, .. } => *left == 0,
        };
        if !complete {
            return Ok(None);
        }
        Ok(match mem::replace(&mut self.state, State::START) {
            State::Header { .. } => None,
            State::Payload(payload) => Some(payload.finish()),
            State::Skim { discard, .. } => Some(Receive::Discarded(discard)),
        })
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        match &self.state {
            State::Payload(Payload { stream: Some(stream), .. }) => stream.capacity(),
            _ => 0,
        }
    }

    pub(super) fn incoming(&self) -> Option<(Command, usize, usize)> {
        match &self.state {
            State::Header { .. } => None,
            State::Payload(payload) => {
                let FrameHeader { command, length, .. } = payload.header;
                Some((command, payload.received(), length as usize))
            }
            State::Skim { discard, left } => {
                Some((discard.command, discard.bytes - left, discard.bytes))
            }
        }
    }

    pub(super) fn total(&self) -> u64 {
        self.total
    }
}

/// What is done with a payload, from its header alone.
fn begin(
    header: FrameHeader,
    magic: [u8; 4],
    limits: &ReceiveLimits,
) -> Result<State, TransportError> {
    let FrameHeader { command, length, .. } = header;
    if header.magic != magic {
        return Err(TransportError::WrongMagic(header.magic));
    }
    let limit = payload_limit(command);
    if length > limit.unwrap_or(MAX_PAYLOAD) {
        return Err(TransportError::TooLarge { command, bytes: length });
    }
    let why = if !command.is_valid() {
        DiscardReason::InvalidCommand
    } else if limit.is_none() {
        DiscardReason::Unknown
    } else if is_unexpected(command, limits) {
        DiscardReason::UnexpectedBlock
    } else {
        return Ok(State::Payload(Payload { header, stream: None, hasher: Sha256::new() }));
    };
    let bytes = length as usize;
    Ok(State::Skim { discard: Discard { command, bytes, why }, left: bytes })
}

/// These can have the size of a block; from everybody at once that would be too much.
fn is_unexpected(command: Command, limits: &ReceiveLimits) -> bool {
    match command {
        Command::BLOCK | Command::BLOCKTXN => !limits.expects_block,
        Command::CMPCTBLOCK => !limits.expects_compact,
        _ => false,
    }
}

impl Payload {
    fn received(&self) -> usize {
        self.stream.as_ref().map_or(0, |stream| stream.as_slice().len())
    }

    fn read(
        &mut self,
        source: &mut impl io::Read,
        budget: usize,
        pool: &BufferPool,
    ) -> io::Result<Got> {
        let length = self.header.length as usize;
        // Other messages are small or rare, and would keep a block's buffer busy.
        let pooled = self.header.command == Command::BLOCK;
        let fresh = || if pooled { pool.take() } else { DataStream::new().into() };
        let mut stream = self.stream.take().unwrap_or_else(fresh);
        let before = stream.as_slice().len();
        if stream.capacity() == before {
            let capacity = length.min(FIRST_CAPACITY.max(2 * before));
            stream.reserve(capacity - before);
        }
        let room = stream.capacity().min(length) - before;
        let wanted = room.min(budget);
        let end = match stream.read_from(source, wanted) {
            Ok(bytes) if bytes < wanted => Some(End::Closed),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(End::Pending),
            Err(error) => return Err(error),
        };
        let received = &stream.as_slice()[before..];
        self.hasher.update(received);
        let got = Got { bytes: received.len(), end };
        // A buffer without a byte goes back: a peer that only announces holds nothing.
        self.stream = (!stream.as_slice().is_empty()).then_some(stream);
        Ok(got)
    }

    fn finish(self) -> Receive {
        let FrameHeader { command, length, checksum, .. } = self.header;
        if self.hasher.finalize_double()[..4] != checksum {
            let why = DiscardReason::WrongChecksum;
            return Receive::Discarded(Discard { command, bytes: length as usize, why });
        }
        let payload = self.stream.unwrap_or_else(|| DataStream::new().into());
        Receive::Frame(Frame { command, payload })
    }
}

fn read_once(source: &mut impl io::Read, target: &mut [u8]) -> io::Result<Got> {
    loop {
        return match source.read(target) {
            Ok(0) => Ok(Got { bytes: 0, end: Some(End::Closed) }),
            Ok(bytes) if bytes > target.len() => Err(ErrorKind::InvalidData.into()),
            Ok(bytes) => Ok(Got { bytes, end: None }),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Ok(Got { bytes: 0, end: Some(End::Pending) })
            }
            Err(error) => Err(error),
        };
    }
}

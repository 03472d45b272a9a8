//! Receives messages of the plain protocol.

use std::io;
use std::mem;

use godwit_primitives::sha256::Sha256;
use godwit_stream::BufferPool;

use super::buffer::{Buffer, Got, read_once};
use super::discarding::{DISCARD_STEP, Discarding};
use super::limits::{Admission, admit};
use super::{Discard, DiscardReason, Receive, ReceiveLimits, TransportError};
use crate::frame::{Command, Frame};
use crate::frame::{FRAME_HEADER_SIZE, FrameHeader};

#[derive(Debug)]
pub(super) struct Receiver {
    magic: [u8; 4],
    state: State,
}

#[derive(Debug)]
enum State {
    /// The first `filled` bytes of a header.
    Header { bytes: [u8; FRAME_HEADER_SIZE], filled: usize },
    /// A payload that is kept.
    Payload { header: FrameHeader, buffer: Buffer, hasher: Sha256 },
    /// A payload that is discarded, of which `left` bytes have not arrived.
    Discarding { discarding: Discarding, left: usize },
}

impl State {
    const START: Self = Self::Header { bytes: [0; FRAME_HEADER_SIZE], filled: 0 };
}

impl Receiver {
    pub(super) fn new(magic: [u8; 4]) -> Self {
        Self { magic, state: State::START }
    }

    /// A receiver that has received the bytes `first` already.
    pub(super) fn resumed<const N: usize>(magic: [u8; 4], first: &[u8; N]) -> Self {
        const { assert!(N < FRAME_HEADER_SIZE) };
        let mut bytes = [0; FRAME_HEADER_SIZE];
        bytes[..N].copy_from_slice(first);
        Self { magic, state: State::Header { bytes, filled: N } }
    }

    /// Reads up to `budget` bytes of the header or payload that is being received, and none of what
    /// follows it.
    pub(super) fn read(
        &mut self,
        source: &mut impl io::Read,
        budget: usize,
        pool: &BufferPool,
    ) -> io::Result<Got> {
        match &mut self.state {
            State::Header { bytes, filled } => {
                let room = bytes[*filled..].len().min(budget);
                let got = read_once(source, &mut bytes[*filled..][..room])?;
                *filled += got.bytes;
                Ok(got)
            }
            State::Payload { header, buffer, hasher } => {
                let before = buffer.len();
                let got = buffer.read(source, header.length as usize, budget, pool)?;
                hasher.update(buffer.bytes_from(before));
                Ok(got)
            }
            State::Discarding { discarding, left } => {
                let mut dropped = [0; DISCARD_STEP];
                let room = DISCARD_STEP.min(*left).min(budget);
                let got = read_once(source, &mut dropped[..room])?;
                discarding.pass(&dropped[..got.bytes]);
                *left -= got.bytes;
                Ok(got)
            }
        }
    }

    /// Moves on when the header or payload is complete; returns a message that was completed.
    pub(super) fn advance(
        &mut self,
        limits: &ReceiveLimits,
    ) -> Result<Option<Receive>, TransportError> {
        if let State::Header { bytes, filled: FRAME_HEADER_SIZE } = &self.state {
            self.state = begin(FrameHeader::from_bytes(bytes), self.magic, limits)?;
        }
        let complete = match &self.state {
            State::Header { .. } => false,
            State::Payload { header, buffer, .. } => buffer.len() == header.length as usize,
            State::Discarding { left, .. } => *left == 0,
        };
        if !complete {
            return Ok(None);
        }
        Ok(match mem::replace(&mut self.state, State::START) {
            State::Header { .. } => None,
            State::Payload { header, buffer, hasher } => Some(finish(header, buffer, hasher)),
            State::Discarding { discarding, .. } => Some(Receive::Discarded(discarding.end())),
        })
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        match &self.state {
            State::Payload { buffer, .. } => buffer.capacity(),
            _ => 0,
        }
    }

    pub(super) fn incoming(&self) -> Option<(Command, usize, usize)> {
        match &self.state {
            State::Header { .. } => None,
            State::Payload { header: FrameHeader { command, length, .. }, buffer, .. } => {
                Some((*command, buffer.len(), *length as usize))
            }
            State::Discarding { discarding, left } => {
                Some((discarding.command, discarding.bytes - left, discarding.bytes))
            }
        }
    }
}

/// Decides what is done with a payload, from its header alone.
fn begin(
    header: FrameHeader,
    magic: [u8; 4],
    limits: &ReceiveLimits,
) -> Result<State, TransportError> {
    let FrameHeader { command, length, .. } = header;
    if header.magic != magic {
        return Err(TransportError::WrongMagic(header.magic));
    }
    let bytes = length as usize;
    match admit(command, bytes, limits) {
        Admission::TooLarge => Err(TransportError::TooLarge { command, bytes: length }),
        Admission::Drop(why) => {
            Ok(State::Discarding { discarding: Discarding::new(command, bytes, why), left: bytes })
        }
        Admission::Keep => {
            Ok(State::Payload { header, buffer: Buffer::new(command), hasher: Sha256::new() })
        }
    }
}

fn finish(header: FrameHeader, buffer: Buffer, hasher: Sha256) -> Receive {
    let FrameHeader { command, length, checksum, .. } = header;
    if hasher.finalize_double()[..4] != checksum {
        let why = DiscardReason::WrongChecksum;
        let bytes = length as usize;
        return Receive::Discarded(Discard { command, bytes, why, block: None });
    }
    Receive::Frame(Frame { command, payload: buffer.into_stream() })
}

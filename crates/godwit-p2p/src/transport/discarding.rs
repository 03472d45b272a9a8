//! Payloads that are discarded as they arrive.

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockHash, HEADER_SIZE};

use super::{Discard, DiscardReason};
use crate::frame::Command;

/// Bytes of a discarded payload that are read at once, onto the stack.
pub(super) const DISCARD_STEP: usize = 16 * 1024;

/// A payload that is being discarded. The header of an unrequested block is kept: it tells that the
/// peer has the block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Discarding {
    pub(super) command: Command,
    /// Length of the payload, in bytes.
    pub(super) bytes: usize,
    why: DiscardReason,
    header: [u8; HEADER_SIZE],
    filled: usize,
}

impl Discarding {
    pub(super) fn new(command: Command, bytes: usize, why: DiscardReason) -> Self {
        Self { command, bytes, why, header: [0; HEADER_SIZE], filled: 0 }
    }

    /// Passes over the next bytes of the payload.
    pub(super) fn pass(&mut self, payload: &[u8]) {
        let room = &mut self.header[self.filled..];
        let taken = room.len().min(payload.len());
        room[..taken].copy_from_slice(&payload[..taken]);
        self.filled += taken;
    }

    /// The result when the payload is complete.
    pub(super) fn end(&self) -> Discard {
        let Self { command, bytes, why, .. } = *self;
        let named = command == Command::BLOCK
            && why == DiscardReason::UnexpectedBlock
            && self.filled == HEADER_SIZE;
        let block = named.then(|| BlockHash::from_bytes(sha256d(&self.header)));
        Discard { command, bytes, why, block }
    }
}

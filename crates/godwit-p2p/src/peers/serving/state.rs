//! What serving remembers of one peer.

use std::mem::size_of;

use godwit_primitives::BlockHash;

use super::requests::{Request, Requests};
use crate::message::MAX_INVENTORY;
use crate::peers::action::ReadId;

/// While a peer owes us a block it is read on, however much it has asked for itself, up to this: two
/// nodes that wait for each other's blocks must not both stop reading. In bytes; Core, which has
/// a receive buffer for that, holds the peer all the same.
const READ_ON_BELOW: usize = MAX_INVENTORY * size_of::<Request>();

/// What a peer has asked for.
#[derive(Default)]
pub(in crate::peers) struct ServingState {
    pub(super) requests: Requests,
    /// What is being read for it.
    pub(super) reading: Option<(ReadId, Request)>,
    /// Asking for this block is the sign to announce what follows (Core `m_continuation_block`).
    pub(super) continuation: Option<BlockHash>,
}

impl ServingState {
    /// Memory of what the peer has asked for, in bytes.
    pub(in crate::peers) fn request_bytes(&self) -> usize {
        let reading = self.reading.as_ref().map_or(0, |(_, request)| request.heap_bytes());
        self.requests.bytes() + reading
    }

    /// The peer has asked for something, and nothing is being read for it.
    pub(super) fn is_waiting(&self) -> bool {
        !self.requests.is_empty() && self.reading.is_none()
    }

    /// What the peer sends next may be read: it has what it asked for, or it owes us a block.
    pub(in crate::peers) fn may_read_on(&self, owes_a_block: bool) -> bool {
        let is_done = self.requests.is_empty() && self.reading.is_none();
        is_done || owes_a_block && self.request_bytes() < READ_ON_BELOW
    }

    /// Requests that wait for the peer, for tests of the limits.
    #[cfg(test)]
    pub(in crate::peers) fn waiting_requests(&self) -> usize {
        self.requests.len()
    }
}

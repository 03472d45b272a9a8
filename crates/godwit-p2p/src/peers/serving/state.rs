//! What serving remembers of one peer.

use std::mem::size_of;

use godwit_primitives::BlockHash;

use super::requests::{Request, Requests};
use crate::message::MAX_INVENTORY;
use crate::peers::action::ReadId;
use crate::peers::tx_relay::state::TxRelayState;

/// Bytes of requests up to which a peer that owes us a block is read in any case: two nodes that
/// wait for each other's blocks must not both stop reading. (Core stops reading all the same, but
/// has a receive buffer.)
const READ_ON_BELOW: usize = MAX_INVENTORY * size_of::<Request>();

/// See the module's documentation.
#[derive(Default)]
pub(in crate::peers) struct ServingState {
    pub(super) requests: Requests,
    /// What it is told of, and may have for the asking.
    pub(in crate::peers) transactions: TxRelayState,
    /// The request whose block is being read.
    pub(super) reading: Option<(ReadId, Request)>,
    /// When the peer requests this block, the next batch is announced (Core
    /// `m_continuation_block`).
    pub(super) continuation: Option<BlockHash>,
}

impl ServingState {
    /// Memory of the peer's requests, in bytes.
    pub(in crate::peers) fn request_bytes(&self) -> usize {
        let reading = self.reading.as_ref().map_or(0, |(_, request)| request.heap_bytes());
        self.requests.bytes() + reading
    }

    /// Whether the peer has requests, and no block is being read for it.
    pub(super) fn is_waiting(&self) -> bool {
        !self.requests.is_empty() && self.reading.is_none()
    }

    /// Whether reading from the peer may go on: all its requests are served, or it owes us a block.
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

//! What serving remembers of one peer.

use std::collections::VecDeque;

use godwit_primitives::BlockHash;

use crate::inventory::{Inventory, InventoryKind};
use crate::message::BlockTransactionsRequest;
use crate::peers::action::ReadId;

/// Blocks that a peer may have asked for and not got so far; `notfound` for more. Core takes 50,000
/// and asks for 16 itself; clients that use `getblocks` ask for 500.
pub(super) const MAX_WANTED: usize = 1_000;

/// Requests for transactions of blocks among them: each has up to 128 KiB of positions.
pub(super) const MAX_WANTED_TRANSACTIONS: usize = 16;

/// What a peer has asked for.
#[derive(Default)]
pub(in crate::peers) struct ServingState {
    /// In order; at most [`MAX_WANTED`].
    pub(super) wanted: VecDeque<Wanted>,
    /// What is being read for it.
    pub(super) reading: Option<(ReadId, Wanted)>,
    /// Asking for this block is the sign to announce what follows (Core `m_continuation_block`).
    pub(super) continuation: Option<BlockHash>,
}

/// A block, or parts of it, for a peer.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) hash: BlockHash,
    pub(super) form: Form,
}

#[derive(Clone, Debug)]
pub(super) enum Form {
    Witness,
    Stripped,
    Compact,
    Transactions(Box<BlockTransactionsRequest>),
}

impl ServingState {
    /// Blocks that wait for the peer, for tests of the limits.
    #[cfg(test)]
    pub(in crate::peers) fn waiting_requests(&self) -> usize {
        self.wanted.len()
    }
}

impl Wanted {
    /// As it was asked for by `getdata`; nothing for `getblocktxn`.
    pub(super) fn entry(&self) -> Option<Inventory> {
        let kind = match self.form {
            Form::Witness => InventoryKind::WITNESS_BLOCK,
            Form::Stripped => InventoryKind::BLOCK,
            Form::Compact => InventoryKind::CMPCT_BLOCK,
            Form::Transactions(_) => return None,
        };
        Some(Inventory::block(kind, self.hash))
    }
}

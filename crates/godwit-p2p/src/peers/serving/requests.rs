//! A peer's requests that have not been served.

use std::collections::VecDeque;
use std::mem::size_of;

use godwit_primitives::BlockHash;

use super::filter_span::FilterSpan;
use crate::inventory::{Inventory, InventoryKind};
use crate::message::BlockTransactionsRequest;

/// A request for a block, a transaction or parts of a block.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// An entry of a `getdata`: a transaction, or a block in one of four forms.
    Entry(Inventory),
    /// A `getblocktxn`.
    Transactions(Box<BlockTransactionsRequest>),
    /// A `getcfilters`, `getcfheaders` or `getcfcheckpt`.
    Filters(Box<FilterSpan>),
}

impl Request {
    /// Meaningless for a transaction.
    pub(super) fn block_hash(&self) -> BlockHash {
        match self {
            Self::Entry(entry) => entry.block_hash(),
            Self::Transactions(request) => request.block_hash,
            Self::Filters(span) => span.stop_hash,
        }
    }

    /// The kind of the entry of a `getdata`; `None` for other messages.
    pub(super) fn kind(&self) -> Option<InventoryKind> {
        match self {
            Self::Entry(entry) => Some(entry.kind),
            Self::Transactions(_) | Self::Filters(_) => None,
        }
    }

    /// Whether a block is wanted through a bloom filter (BIP37).
    pub(super) fn is_filtered(&self) -> bool {
        self.kind() == Some(InventoryKind::FILTERED_BLOCK)
    }

    fn transaction(&self) -> Option<Inventory> {
        match self {
            Self::Entry(entry) if entry.kind.is_transaction() => Some(*entry),
            Self::Entry(_) | Self::Transactions(_) | Self::Filters(_) => None,
        }
    }

    /// Memory beside the request itself, in bytes.
    pub(super) fn heap_bytes(&self) -> usize {
        match self {
            Self::Entry(_) => 0,
            Self::Filters(_) => size_of::<FilterSpan>(),
            Self::Transactions(request) => {
                size_of::<BlockTransactionsRequest>()
                    + request.positions.capacity() * size_of::<u16>()
            }
        }
    }
}

/// Requests in order of arrival. Bounded because nothing more is read from the peer while there are
/// any (`reading.rs`).
#[derive(Default)]
pub(super) struct Requests {
    queue: VecDeque<Request>,
    /// Memory of the queued requests beside the queue itself, in bytes.
    heap_bytes: usize,
}

impl Requests {
    pub(super) fn push(&mut self, request: Request) {
        self.heap_bytes += request.heap_bytes();
        self.queue.push_back(request);
    }

    /// Adds the entries of a `getdata` that can be answered. As in Core, unknown kinds are skipped.
    pub(super) fn extend(&mut self, entries: &[Inventory]) {
        let meant = |entry: &&Inventory| entry.kind.is_block() || entry.kind.is_transaction();
        // Exactly: the queue must not double.
        self.queue.reserve_exact(entries.iter().filter(meant).count());
        self.queue.extend(entries.iter().filter(meant).map(|entry| Request::Entry(*entry)));
    }

    pub(super) fn pop(&mut self) -> Option<Request> {
        let request = self.queue.pop_front()?;
        self.heap_bytes -= request.heap_bytes();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Some(request)
    }

    /// Makes what was [popped](Self::pop) the next again.
    pub(super) fn put_back(&mut self, request: Request) {
        self.heap_bytes += request.heap_bytes();
        self.queue.push_front(request);
    }

    /// Removes and returns the transactions before the first block.
    pub(super) fn take_transactions(&mut self) -> Vec<Inventory> {
        let count = self.queue.iter().take_while(|request| request.transaction().is_some()).count();
        let taken = self.queue.drain(..count).filter_map(|request| request.transaction()).collect();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        taken
    }

    /// Makes what is left of [taken](Self::take_transactions) transactions the next again.
    pub(super) fn put_transactions_back(&mut self, entries: &[Inventory]) {
        self.queue.reserve_exact(entries.len());
        entries.iter().rev().for_each(|entry| self.queue.push_front(Request::Entry(*entry)));
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Request>() + self.heap_bytes
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }
}

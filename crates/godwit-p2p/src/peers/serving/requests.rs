//! What peers have asked for and not got so far, and when more is read of what they say.
//!
//! As in Core, nothing that a peer sends behind a request is looked at before the request is served:
//! answers keep their order, and what waits for a peer is bounded by what one message can ask for.
//!
//! ```text
//!           getdata or getblocktxn                    requests empty, or a block is owed to us
//! reading ---------------------------> held, serving -------------- ReadOn ---------------> reading
//! ```
//!
//! Source: Core `net_processing.cpp`, `ProcessMessages`, `ProcessGetData`, `m_getdata_requests`.

use std::collections::VecDeque;
use std::mem::size_of;

use godwit_primitives::BlockHash;

use super::{SEND_PAUSE, Serving};
use crate::PeerId;
use crate::frame::Command;
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{BlockTransactionsRequest, MAX_INVENTORY, Message};
use crate::peers::{Action, Peers, View};

/// Requests that are looked up for one peer before others have their turn, 2 ms at worst: those for
/// blocks that are not given cost the asker nothing but 36 bytes.
const LOOKUPS_AT_ONCE: usize = 1_000;

/// While a peer owes us a block it is read on, however much it has asked for itself, up to this: two
/// nodes that wait for each other's blocks must not both stop reading. In bytes; Core, which has
/// a receive buffer for that, holds the peer all the same.
const READ_ON_BELOW: usize = MAX_INVENTORY * size_of::<Request>();

/// A block, a transaction, or parts of a block, for a peer.
#[derive(Clone, Debug)]
pub(super) enum Request {
    /// An entry of a `getdata`: a transaction, or a block in one of three forms.
    Entry(Inventory),
    /// A `getblocktxn`.
    Transactions(Box<BlockTransactionsRequest>),
}

impl Request {
    /// Meaningless for a transaction.
    pub(super) fn block_hash(&self) -> BlockHash {
        match self {
            Self::Entry(entry) => entry.block_hash(),
            Self::Transactions(request) => request.block_hash,
        }
    }

    /// As it was asked for by `getdata`; nothing for `getblocktxn`.
    pub(super) fn kind(&self) -> Option<InventoryKind> {
        match self {
            Self::Entry(entry) => Some(entry.kind),
            Self::Transactions(_) => None,
        }
    }

    fn transaction(&self) -> Option<Inventory> {
        match self {
            Self::Entry(entry) if entry.kind.is_transaction() => Some(*entry),
            Self::Entry(_) | Self::Transactions(_) => None,
        }
    }

    /// Memory beside the request itself, in bytes.
    fn heap_bytes(&self) -> usize {
        match self {
            Self::Entry(_) => 0,
            Self::Transactions(request) => {
                size_of::<BlockTransactionsRequest>()
                    + request.positions.capacity() * size_of::<u16>()
            }
        }
    }
}

/// Requests in the order in which they came. Who adds to them holds the peer; that bounds them.
#[derive(Default)]
pub(super) struct Requests {
    queue: VecDeque<Request>,
    /// Of those in the queue.
    heap_bytes: usize,
}

impl Requests {
    pub(super) fn push(&mut self, request: Request) {
        self.heap_bytes += request.heap_bytes();
        self.queue.push_back(request);
    }

    /// The entries that can be answered: blocks filtered by a bloom filter, which nobody can give us,
    /// and kinds without a meaning are passed over, as in Core.
    fn extend(&mut self, entries: &[Inventory]) {
        let meant = |entry: &&Inventory| {
            entry.kind.is_block() && entry.kind != InventoryKind::FILTERED_BLOCK
                || entry.kind.is_transaction()
        };
        // Not doubled when it grows.
        self.queue.reserve_exact(entries.len());
        self.queue.extend(entries.iter().filter(meant).map(|entry| Request::Entry(*entry)));
    }

    fn pop(&mut self) -> Option<Request> {
        let request = self.queue.pop_front()?;
        self.heap_bytes -= request.heap_bytes();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        Some(request)
    }

    /// Takes the transactions in front of the first block.
    fn take_transactions(&mut self) -> Vec<Inventory> {
        let count = self.queue.iter().take_while(|request| request.transaction().is_some()).count();
        let taken = self.queue.drain(..count).filter_map(|request| request.transaction()).collect();
        if self.queue.is_empty() {
            self.queue = VecDeque::new();
        }
        taken
    }

    fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    fn bytes(&self) -> usize {
        self.queue.capacity() * size_of::<Request>() + self.heap_bytes
    }
}

impl Serving {
    /// Memory of what the peer has asked for, in bytes.
    pub(in crate::peers) fn request_bytes(&self) -> usize {
        let reading = self.reading.as_ref().map_or(0, |(_, request)| request.heap_bytes());
        self.requests.bytes() + reading
    }

    /// Something can be done for the peer at once.
    fn is_ready(&self) -> bool {
        !self.requests.is_empty() && self.reading.is_none() && self.queued <= SEND_PAUSE
    }

    fn is_done(&self) -> bool {
        self.requests.is_empty() && self.reading.is_none()
    }
}

impl Peers {
    /// A message came behind which the driver reads nothing more of the peer.
    pub(in crate::peers) fn hold(&mut self, id: PeerId, command: Command) {
        if command.stops_reading()
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.serving.held = true;
        }
    }

    /// Lets the driver read on of a peer that is held and need not be any more.
    pub(in crate::peers) fn read_on(&mut self, id: PeerId) {
        let now = self.now.monotonic;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let serving = &mut peer.serving;
        let owes = peer.expects_block && serving.request_bytes() < READ_ON_BELOW;
        if serving.held && (serving.is_done() || owes) {
            serving.held = false;
            peer.ping.excuse(now);
            self.actions.push_back(Action::ReadOn { peer: id });
        }
    }

    /// A `getdata`: its entries wait for their turn.
    pub(in crate::peers) fn on_getdata(
        &mut self,
        view: View<'_>,
        id: PeerId,
        entries: &[Inventory],
    ) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.serving.requests.extend(entries);
            self.serve(view, id);
        }
    }

    /// Goes on with what the peer asked for, as far as it takes it (Core `ProcessGetData`).
    pub(in crate::peers) fn serve(&mut self, view: View<'_>, id: PeerId) {
        for _ in 0..LOOKUPS_AT_ONCE {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            if !peer.serving.is_ready() {
                break;
            }
            let missing = peer.serving.requests.take_transactions();
            if missing.is_empty() {
                let Some(request) = peer.serving.requests.pop() else { break };
                self.serve_block(view, id, request);
            } else if peer.hears_of_transactions() {
                self.send(view.now, id, &Message::NotFound(missing));
            }
        }
        self.read_on(id);
    }

    /// Goes on for those with more requests than are looked up at once.
    pub(in crate::peers) fn serve_ready(&mut self, view: View<'_>) {
        let ready = self.peers.values().filter(|peer| peer.serving.is_ready());
        for id in ready.map(|peer| peer.id).collect::<Vec<_>>() {
            self.serve(view, id);
        }
    }

    /// Whether [`serve_ready`](Self::serve_ready) has something to do.
    pub(in crate::peers) fn anybody_is_ready(&self) -> bool {
        self.peers.values().any(|peer| peer.serving.is_ready())
    }

    /// The driver has written so much to the peer.
    pub(in crate::peers) fn note_sent(&mut self, view: View<'_>, id: PeerId, bytes: usize) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.serving.queued = peer.serving.queued.saturating_sub(bytes);
            if peer.serving.held && bytes > 0 {
                // It has no other way to show that it is there: what it says is not read.
                peer.last_received = view.now.monotonic;
            }
            self.serve(view, id);
        }
    }

    /// Requests that wait for the peer, for tests of the limits.
    #[cfg(test)]
    pub(in crate::peers) fn waiting_requests(&self, id: PeerId) -> usize {
        self.peers.get(&id).map_or(0, |peer| peer.serving.requests.queue.len())
    }
}

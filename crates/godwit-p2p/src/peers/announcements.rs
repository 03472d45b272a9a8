//! Blocks that are announced: by peers in `inv`, and to peers in the form that they asked for.

use godwit_primitives::BlockHash;
use log::debug;

use super::connection::HeaderSync;
use super::{DisconnectReason, Peers, View};
use crate::index::{HeaderId, is_ancestor, last_common_ancestor};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::Message;
use crate::peer_id::PeerId;
use crate::transport::Discard;

/// Blocks announced by headers at once (Core `MAX_BLOCKS_TO_ANNOUNCE`).
const MAX_BLOCKS_TO_ANNOUNCE: usize = 8;

/// Bytes of transactions that cost a peer as much as one announced transaction.
const BYTES_PER_ENTRY: usize = Inventory::SIZE;

/// How a tip is told to a peer.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// It knows already, or would not be able to connect it.
    Nothing,
    Headers(Vec<HeaderId>),
    Compact,
    Inv,
}

impl Peers {
    /// An `inv`: at most one `getheaders` follows, for the last of the unknown blocks (CVE-2024-52915
    /// sent one for each). Transactions are not wanted, as our `version` said; up to a budget they are
    /// ignored.
    pub(super) fn on_inv(&mut self, view: View<'_>, id: PeerId, entries: &[Inventory]) {
        let transactions = entries.iter().filter(|entry| entry.kind.is_transaction()).count();
        if transactions > 0 && !self.tolerate_transactions(view, id, transactions as u64) {
            return;
        }
        let mut wanted = None;
        let blocks = entries.iter().filter(|entry| entry.kind == InventoryKind::BLOCK);
        for hash in blocks.map(Inventory::block_hash) {
            self.announced(view, id, hash);
            if view.index.find(&hash).is_none() {
                wanted = Some(hash);
            }
        }
        if let Some(hash) = wanted {
            self.follow_up(view, id, hash);
        }
    }

    /// A block that was not asked for: dropped (what nobody asked for is kept nowhere), but it tells as
    /// much as an `inv`. Core takes it in if its header connects.
    pub(super) fn on_unrequested_block(&mut self, view: View<'_>, id: PeerId, hash: BlockHash) {
        debug!("peer={}: unrequested block {hash}", id.0);
        self.announced(view, id, hash);
        if view.index.find(&hash).is_none() {
            self.follow_up(view, id, hash);
        }
    }

    /// Spends of the peer's allowance for transactions; false when it was disconnected.
    fn tolerate_transactions(&mut self, view: View<'_>, id: PeerId, entries: u64) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let within = peer.transactions.take(view.now.monotonic, entries);
        if !within {
            self.disconnect(view.now, id, DisconnectReason::UnwantedTransactions);
        }
        within
    }

    /// A transaction was skimmed off.
    pub(super) fn on_discarded_transaction(
        &mut self,
        view: View<'_>,
        id: PeerId,
        discard: &Discard,
    ) {
        self.tolerate_transactions(view, id, 1 + (discard.bytes / BYTES_PER_ENTRY) as u64);
    }

    /// Before the sync with it began, a peer is asked only once because of an `inv`, and only one peer
    /// for each block: a new block then adds one peer to those that headers are fetched from.
    fn follow_up(&mut self, view: View<'_>, id: PeerId, hash: BlockHash) {
        let last = self.last_inv_follow_up;
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let begun = peer.chain.sync != HeaderSync::Idle;
        if !begun {
            if peer.chain.inv_triggered || last == Some(hash) {
                return;
            }
            peer.chain.inv_triggered = true;
            self.last_inv_follow_up = Some(hash);
        }
        if self.ask_for_newer_headers(view, id) {
            debug!("peer={}: getheaders for announced block {hash}", id.0);
        }
    }

    /// Tells everybody of a new tip (Core `UpdatedBlockTip` and the sending of announcements).
    pub(super) fn announce_tip(&mut self, view: View<'_>, old: HeaderId, new: HeaderId) {
        let fork = last_common_ancestor(view.index, old, new);
        let fork_height = view.index.get(fork).height;
        let mut fresh = Vec::new();
        let mut next = Some(new);
        while let Some(id) = next
            && view.index.get(id).height > fork_height
            && fresh.len() < MAX_BLOCKS_TO_ANNOUNCE
        {
            fresh.push(id);
            next = view.index.parent(id);
        }
        fresh.reverse();
        if fresh.is_empty() {
            return;
        }
        self.flush_compact_announcement(view);
        for id in self.established() {
            self.announce_to(view, id, &fresh);
        }
    }

    fn announce_to(&mut self, view: View<'_>, id: PeerId, fresh: &[HeaderId]) {
        self.update_availability(view, id);
        let tip = *fresh.last().expect("not empty");
        match self.form(view, id, fresh) {
            Form::Nothing => {}
            Form::Headers(ids) => self.announce_headers(view, id, &ids),
            Form::Compact => self.announce_compact(view, id, tip),
            Form::Inv => self.announce_inv(view, id, tip),
        }
    }

    /// Headers connect at the other side or are not sent; a compact block only alone; else `inv`.
    fn form(&self, view: View<'_>, id: PeerId, fresh: &[HeaderId]) -> Form {
        let Some(peer) = self.peers.get(&id) else { return Form::Nothing };
        let tip = *fresh.last().expect("not empty");
        if self.has_header(view, id, tip) {
            return Form::Nothing;
        }
        let compact = peer.compact.wants_announcements;
        if !peer.handshake.prefers_headers && (!compact || fresh.len() > 1) {
            return Form::Inv;
        }
        let unknown = fresh.iter().position(|&block| !self.has_header(view, id, block));
        let first = fresh[unknown.expect("the tip is unknown")];
        let connects =
            view.index.parent(first).is_none_or(|parent| self.has_header(view, id, parent));
        if !connects {
            return Form::Inv;
        }
        let ids = fresh[unknown.expect("the tip is unknown")..].to_vec();
        match (ids.len(), compact, peer.handshake.prefers_headers) {
            (1, true, _) => Form::Compact,
            (_, _, true) => Form::Headers(ids),
            (_, _, false) => Form::Inv,
        }
    }

    /// Whether the peer has the header, from itself or from us (Core `PeerHasHeader`).
    pub(super) fn has_header(&self, view: View<'_>, id: PeerId, header: HeaderId) -> bool {
        self.peers.get(&id).is_some_and(|peer| {
            let has = |best: HeaderId| is_ancestor(view.index, header, best);
            peer.chain.best_known.is_some_and(has) || peer.chain.best_sent.is_some_and(has)
        })
    }

    pub(super) fn announce_headers(&mut self, view: View<'_>, id: PeerId, ids: &[HeaderId]) {
        let headers = ids.iter().map(|&id| view.index.get(id).header).collect();
        self.send(view.now, id, &Message::Headers(headers));
        self.sent_header(id, *ids.last().expect("not empty"));
    }

    pub(super) fn sent_header(&mut self, id: PeerId, header: HeaderId) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.chain.best_sent = Some(header);
        }
    }

    pub(super) fn announce_inv(&mut self, view: View<'_>, id: PeerId, tip: HeaderId) {
        let entry = Inventory::block(InventoryKind::BLOCK, view.index.get(tip).hash);
        self.send(view.now, id, &Message::Inv(vec![entry]));
    }
}

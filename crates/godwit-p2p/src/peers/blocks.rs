//! Blocks: asking for them, taking them in, and what their judgement means for who sent them.

use std::collections::{BTreeMap, BTreeSet};

use godwit_consensus::Reject;
use godwit_primitives::BlockHash;
use godwit_stream::PooledStream;
use log::{info, warn};

use super::fault::{Blame, Misbehaviour, Source, blame};
use super::{Action, BlockJudgement, DisconnectReason, Peers, View};
use crate::connection_kind::ConnectionKind;
use crate::download::{OverdueReason, PeerTraits, Receipt};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{Message, NETWORK_LIMITED_MIN_BLOCKS, Services, block_header_of};
use crate::peer_id::PeerId;
use crate::time::Now;

/// Blocks whose sender is remembered. More can not be on their way, stored and not connected, since
/// the download window is smaller; side branches that are never connected are what is left.
const MAX_SOURCES: usize = 4_096;

/// Blocks below the tip whose sender is still remembered: their branch may yet be connected, as long as
/// everybody has the blocks of the other one.
const SOURCE_DEPTH: u32 = NETWORK_LIMITED_MIN_BLOCKS;

/// Who sent the blocks that are not connected so far (Core `mapBlockSource`).
#[derive(Default)]
pub(super) struct BlockSources {
    by_hash: BTreeMap<BlockHash, Sender>,
    by_height: BTreeSet<(u32, BlockHash)>,
}

/// Who sent a block.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sender {
    pub(super) peer: PeerId,
    height: u32,
    via_compact_block: bool,
}

impl BlockSources {
    /// The first sender counts, as in Core.
    fn insert(&mut self, hash: BlockHash, sender: Sender) {
        if self.by_hash.contains_key(&hash) {
            return;
        }
        self.by_hash.insert(hash, sender);
        self.by_height.insert((sender.height, hash));
        if self.by_hash.len() > MAX_SOURCES
            && let Some((_, lowest)) = self.by_height.pop_first()
        {
            self.by_hash.remove(&lowest);
        }
    }

    fn remove(&mut self, hash: &BlockHash) -> Option<Sender> {
        let sender = self.by_hash.remove(hash)?;
        self.by_height.remove(&(sender.height, *hash));
        Some(sender)
    }

    pub(super) fn get(&self, hash: &BlockHash) -> Option<Sender> {
        self.by_hash.get(hash).copied()
    }

    /// Forgets what lies too deep below the tip to be connected.
    pub(super) fn forget_below(&mut self, tip_height: u32) {
        let lowest = (tip_height.saturating_sub(SOURCE_DEPTH), BlockHash::ZERO);
        let kept = self.by_height.split_off(&lowest);
        for (_, hash) in std::mem::replace(&mut self.by_height, kept) {
            self.by_hash.remove(&hash);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.by_hash.len()
    }
}

impl Peers {
    /// The peer may be asked for blocks from now on.
    pub(super) fn start_downloads(&mut self, now: Now, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        if !peer.serves_blocks() || peer.kind == ConnectionKind::AddrFetch {
            return;
        }
        let traits = PeerTraits {
            preferred: peer.preferred(),
            witness: peer.handshake.services.contains(Services::WITNESS),
            limited: peer.limited(),
        };
        self.downloads.add_peer(id, traits, now);
        if let Some(best) = peer.chain.best_known {
            self.downloads.set_best_known(id, best);
        }
    }

    pub(super) fn blocks_in_flight(&self) -> usize {
        self.peers.keys().map(|&id| self.downloads.in_flight(id)).sum()
    }

    /// Asks for what the scheduler wants next, and lets go of those who hold it up.
    pub(super) fn download_blocks(&mut self, view: View<'_>, room: u64) {
        for overdue in self.downloads.overdue(view.now) {
            let why = match overdue.why {
                OverdueReason::Stalled => DisconnectReason::BlockStalled,
                OverdueReason::Silent => DisconnectReason::BlockTimeout,
            };
            self.disconnect(view.now, overdue.peer, why);
        }
        let mut requests: BTreeMap<PeerId, Vec<BlockHash>> = BTreeMap::new();
        for (peer, _, hash) in self.downloads.schedule(view.now, view.index, room) {
            requests.entry(peer).or_default().push(hash);
        }
        for (peer, blocks) in requests {
            self.request_blocks(view, peer, &blocks);
        }
    }

    fn request_blocks(&mut self, view: View<'_>, id: PeerId, blocks: &[BlockHash]) {
        let Some(peer) = self.peers.get(&id) else { return };
        let witness = peer.handshake.services.contains(Services::WITNESS);
        let kind = if witness { InventoryKind::WITNESS_BLOCK } else { InventoryKind::BLOCK };
        // Whoever is asked for transactions may send the whole block instead.
        self.expect_block(id, true);
        let mut entries = Vec::with_capacity(blocks.len());
        for hash in blocks {
            if !self.request_transactions(view, id, hash) {
                entries.push(Inventory::block(kind, *hash));
            }
        }
        if !entries.is_empty() {
            self.send(view.now, id, &Message::GetData(entries));
        }
    }

    pub(super) fn expect_block(&mut self, id: PeerId, expected: bool) {
        if let Some(peer) = self.peers.get_mut(&id)
            && peer.expects_block != expected
        {
            peer.expects_block = expected;
            self.actions.push_back(Action::ExpectBlock { peer: id, expected });
        }
    }

    /// A `block` payload. Only one that was requested of this very peer is taken: what another sends for
    /// the same hash must not end this one's request (CVE-2024-52921).
    pub(super) fn on_block(&mut self, view: View<'_>, id: PeerId, bytes: PooledStream) {
        let Some(header) = block_header_of(bytes.unread()) else {
            return self.misbehave(view.now, id, Misbehaviour::UndecodableBlock);
        };
        let hash = header.block_hash();
        self.take_block(view, id, hash, bytes, false);
    }

    pub(super) fn take_block(
        &mut self,
        view: View<'_>,
        id: PeerId,
        hash: BlockHash,
        bytes: PooledStream,
        via_compact_block: bool,
    ) {
        let receipt = self.downloads.received(id, hash, bytes.len() as u64, view.now);
        let more = self.downloads.in_flight(id) > 0;
        self.expect_block(id, more);
        match receipt {
            Receipt::Requested => {}
            Receipt::Duplicate => return,
            Receipt::Unrequested => return self.on_unrequested_block(view, id, hash),
        }
        let Some(header) = view.index.find(&hash) else { return };
        let height = view.index.get(header).height;
        self.sources.insert(hash, Sender { peer: id, height, via_compact_block });
        self.actions.push_back(Action::SubmitBlock { peer: id, hash, bytes });
    }

    pub(super) fn on_notfound(&mut self, view: View<'_>, id: PeerId, entries: &[Inventory]) {
        let blocks = entries.iter().filter(|entry| entry.kind.is_block());
        for hash in blocks.map(Inventory::block_hash) {
            if self.downloads.is_requested(id, &hash) {
                self.downloads.not_found(id, hash, view.now);
            }
        }
        let more = self.downloads.in_flight(id) > 0;
        self.expect_block(id, more);
    }

    pub(super) fn judge_block(
        &mut self,
        view: View<'_>,
        hash: BlockHash,
        judgement: BlockJudgement,
    ) {
        match judgement {
            BlockJudgement::Stored => {
                self.downloads.judged(hash, true);
                let sender = self.sources.get(&hash).map(|sender| sender.peer);
                if let Some(peer) = sender.and_then(|id| self.peers.get_mut(&id)) {
                    peer.last_block = view.now.monotonic;
                }
            }
            BlockJudgement::Duplicate => self.downloads.judged(hash, true),
            BlockJudgement::Refused(reject) => {
                self.downloads.judged(hash, false);
                self.block_refused(view, hash, reject);
            }
            BlockJudgement::Undecodable => {
                self.downloads.judged(hash, false);
                if let Some(sender) = self.sources.remove(&hash) {
                    self.misbehave(view.now, sender.peer, Misbehaviour::UndecodableBlock);
                }
            }
        }
    }

    /// Blames who sent it, and nobody else: others that announced its header may not know the block
    /// (Core `BlockChecked`).
    pub(super) fn block_refused(&mut self, view: View<'_>, hash: BlockHash, reject: Reject) {
        let Some(sender) = self.sources.remove(&hash) else { return };
        let Some(peer) = self.peers.get(&sender.peer) else { return };
        let via_compact_block = sender.via_compact_block;
        let source = Source { via_compact_block, inbound: peer.inbound() };
        if self.may_log(view.now, sender.peer) {
            info!("peer={}: block {hash} is refused: {reject}", sender.peer.0);
        }
        match blame(reject.class, source) {
            Blame::None => {}
            Blame::Discourage => {
                let what = Misbehaviour::InvalidBlock(reject.reason);
                self.misbehave(view.now, sender.peer, what);
            }
        }
    }

    /// A block came with bytes that are not those that were sent, and nobody can say which it was.
    pub(super) fn on_corrupt_block(&mut self, view: View<'_>, id: PeerId) {
        if self.downloads.in_flight(id) == 0 {
            return;
        }
        if self.may_log(view.now, id) {
            warn!("peer={}: a block arrived with a wrong checksum", id.0);
        }
        self.disconnect(view.now, id, DisconnectReason::CorruptBlock);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(n: u32) -> BlockHash {
        let mut bytes = [0; 32];
        bytes[..4].copy_from_slice(&n.to_le_bytes());
        BlockHash::from_bytes(bytes)
    }

    #[test]
    fn senders_are_bounded_and_the_lowest_are_forgotten_first() {
        let mut sources = BlockSources::default();
        let sender = |height| Sender { peer: PeerId(1), height, via_compact_block: false };
        for n in 0..2 * MAX_SOURCES as u32 {
            sources.insert(hash(n), sender(n));
            assert!(sources.len() <= MAX_SOURCES);
        }
        assert!(sources.get(&hash(MAX_SOURCES as u32 - 1)).is_none());
        assert!(sources.get(&hash(MAX_SOURCES as u32)).is_some());
        let tip = 2 * MAX_SOURCES as u32 - 1;
        sources.forget_below(tip);
        assert_eq!(sources.len(), SOURCE_DEPTH as usize + 1);
        assert!(sources.remove(&hash(tip)).is_some() && sources.remove(&hash(tip)).is_none());
        assert_eq!(sources.by_height.len(), sources.len());
    }

    #[test]
    fn the_first_sender_is_remembered() {
        let mut sources = BlockSources::default();
        for peer in 1..3 {
            let sender = Sender { peer: PeerId(peer), height: 1, via_compact_block: false };
            sources.insert(hash(1), sender);
        }
        assert_eq!(sources.get(&hash(1)).map(|sender| sender.peer), Some(PeerId(1)));
    }
}

//! Compact blocks (BIP152): whom to ask to announce with them, taking them in, announcing with them.
//!
//! Without a mempool a compact block saves no bytes. It saves the time that a peer takes to validate
//! before it announces, and its transactions can be asked for at once. The scheduler decides from whom
//! a block comes; a compact block that this peer sent only changes the form of the request.

use godwit_consensus::check_proof_of_work;
use godwit_primitives::work::block_proof;
use godwit_primitives::{Block, BlockHash};
use godwit_stream::PooledStream;
use log::debug;
use rand::Rng;

use super::connection::Submission;
use super::fault::Misbehaviour;
use super::handshake::COMPACT_BLOCKS;
use super::{Action, Peers, ReadId, View};
use crate::compact::{CompactError, PartialBlock, compact_block};
use crate::index::HeaderId;
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{BlockTransactions, CompactBlock, Message, RawTransactions};
use crate::peer_id::PeerId;
use crate::time::Now;

/// Peers that announce with compact blocks (BIP152; Core: 3). Each can make one partial block be kept.
const MAX_HIGH_BANDWIDTH: usize = 3;

/// Blocks above the tip for which a compact block is of use (Core: 2).
const MAX_AHEAD: u32 = 2;

/// Below so many spacings since the tip, blocks are taken as they are announced (Core
/// `CanDirectFetch`).
const RECENT_SPACINGS: i64 = 20;

/// What concerns compact blocks in one peer.
#[derive(Default)]
pub(super) struct CompactState {
    /// It understands version 2 (Core `m_provides_cmpctblocks`).
    pub(super) provides: bool,
    /// It wants new blocks announced this way (Core `m_requested_hb_cmpctblocks`).
    pub(super) wants_announcements: bool,
    /// We asked it to announce this way (Core `m_bip152_highbandwidth_to`).
    pub(super) selected: bool,
    /// The last compact block that it sent. One at most.
    partial: Partial,
}

#[derive(Default)]
enum Partial {
    #[default]
    None,
    /// Nothing was asked for so far.
    Held(Box<PartialBlock>),
    /// Its transactions were asked for.
    Requested(Box<PartialBlock>),
}

impl Partial {
    fn block(&self) -> Option<&PartialBlock> {
        match self {
            Self::None => None,
            Self::Held(block) | Self::Requested(block) => Some(block),
        }
    }
}

/// The last block that was announced, for those who ask for parts of it.
pub(super) struct RecentBlock {
    pub(super) id: HeaderId,
    pub(super) hash: BlockHash,
    pub(super) block: Block,
    pub(super) compact: CompactBlock,
}

/// Peers that wait until the tip was read from disk.
pub(super) struct PendingAnnouncement {
    pub(super) read: ReadId,
    tip: HeaderId,
    waiting: Vec<PeerId>,
}

impl Peers {
    pub(super) fn on_sendcmpct(&mut self, id: PeerId, announce: bool, version: u64) {
        if version == COMPACT_BLOCKS
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.compact.provides = true;
            peer.compact.wants_announcements = announce;
        }
    }

    /// The tip is young: new blocks are worth having at once (Core `CanDirectFetch`).
    pub(super) fn tip_is_recent(&self, view: View<'_>) -> bool {
        let tip = view.index.get(view.index.tip()).header;
        let spacing = i64::from(self.config.params.pow_target_spacing);
        i64::from(tip.time) > view.now.unix.saturating_sub(RECENT_SPACINGS * spacing)
    }

    /// The peer gave the new tip first: it shall announce the next one by a compact block (Core
    /// `MaybeSetPeerAsAnnouncingHeaderAndIDs`). An outbound peer is not pushed out by inbound ones
    /// when it is the last.
    pub(super) fn select_high_bandwidth(&mut self, now: Now, id: PeerId) {
        let Some(peer) = self.peers.get(&id).filter(|peer| peer.compact.provides) else { return };
        let inbound = peer.inbound();
        if let Some(place) = self.high_bandwidth.iter().position(|&other| other == id) {
            self.high_bandwidth.remove(place);
            self.high_bandwidth.push_back(id);
            return;
        }
        if inbound && self.high_bandwidth.len() >= MAX_HIGH_BANDWIDTH {
            let outbound = |id: &PeerId| self.peers.get(id).is_some_and(|peer| !peer.inbound());
            let number = self.high_bandwidth.iter().filter(|id| outbound(id)).count();
            if number == 1 && self.high_bandwidth.front().is_some_and(outbound) {
                self.high_bandwidth.swap(0, 1);
            }
        }
        self.ask_for_compact_announcements(now, id, true);
        self.high_bandwidth.push_back(id);
        if self.high_bandwidth.len() > MAX_HIGH_BANDWIDTH
            && let Some(oldest) = self.high_bandwidth.pop_front()
        {
            self.ask_for_compact_announcements(now, oldest, false);
        }
    }

    fn ask_for_compact_announcements(&mut self, now: Now, id: PeerId, announce: bool) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.compact.selected = announce;
        self.actions.push_back(Action::ExpectCompact { peer: id, expected: announce });
        if !announce {
            self.drop_partials(|peer, _| peer == id);
        }
        self.send(now, id, &Message::SendCmpct { announce, version: COMPACT_BLOCKS });
    }

    /// Partial blocks at the tip's height or below are of no use any more.
    pub(super) fn drop_old_partials(&mut self, view: View<'_>) {
        let tip = view.index.get(view.index.tip()).height;
        self.drop_partials(|_, partial| {
            let parent = view.index.find(&partial.header().prev_blockhash);
            parent.is_some_and(|parent| view.index.get(parent).height < tip)
        });
    }

    /// Lets go of partial blocks, but for those whose transactions are waited for.
    fn drop_partials(&mut self, useless: impl Fn(PeerId, &PartialBlock) -> bool) {
        for (&id, peer) in &mut self.peers {
            let partial = &mut peer.compact.partial;
            let waits = matches!(partial, Partial::Requested(_));
            let drop = partial.block().is_some_and(|block| {
                useless(id, block) && !(waits && self.downloads.is_requested(id, &block.hash()))
            });
            if drop {
                *partial = Partial::None;
            }
        }
    }

    #[cfg(test)]
    pub(super) fn holds_partial(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.compact.partial.block().is_some())
    }

    /// Takes the header in any case; keeps the rest when it may be of use.
    pub(super) fn on_cmpctblock(&mut self, view: View<'_>, id: PeerId, block: CompactBlock) {
        let Some(peer) = self.peers.get(&id) else { return };
        if !peer.compact.provides {
            return debug!("peer={}: compact block without sendcmpct", id.0);
        }
        let selected = peer.compact.selected;
        let (header, hash) = (block.header, block.header.block_hash());
        let Some(parent) = view.index.find(&header.prev_blockhash) else {
            if !self.initial_download {
                self.ask_for_newer_headers(view, id);
            }
            return;
        };
        if !check_proof_of_work(&hash, header.bits, &self.config.params) {
            return self.misbehave(view.now, id, Misbehaviour::HeaderWithoutWork);
        }
        let parent = view.index.get(parent);
        if parent.chain_work.saturating_add(block_proof(header.bits)) < self.work_threshold(view) {
            return debug!("peer={}: ignoring low-work compact block", id.0);
        }
        let known = view.index.find(&hash).map(|id| view.index.get(id));
        let tip = view.index.get(view.index.tip());
        let useful = selected
            && !self.initial_download
            && self.tip_is_recent(view)
            && parent.height < tip.height + MAX_AHEAD
            && known.is_none_or(|known| !known.stored && !known.failed);
        if useful && !self.hold_partial(view, id, block) {
            return;
        }
        let new = known.is_none();
        let submission = Submission { new, via_compact_block: true, ..Submission::default() };
        self.submit_headers(id, vec![header], submission);
    }

    /// False when the peer was disconnected for it.
    fn hold_partial(&mut self, view: View<'_>, id: PeerId, block: CompactBlock) -> bool {
        let hash = block.header.block_hash();
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        // What was asked for is waited for: neither the same block again (CVE-2024-35202) nor its
        // child changes that. Once the block is here, from whomever, nothing is waited for.
        if let Partial::Requested(partial) = &peer.compact.partial
            && (partial.hash() == hash || self.downloads.is_requested(id, &partial.hash()))
        {
            return true;
        }
        match PartialBlock::new(block) {
            Ok(partial) => peer.compact.partial = Partial::Held(Box::new(partial)),
            Err(CompactError::Failed) => {}
            Err(CompactError::Invalid) => {
                self.misbehave(view.now, id, Misbehaviour::InvalidCompactBlock);
                return false;
            }
        }
        true
    }

    /// Asks for the transactions of a block whose compact form the peer sent. False when the whole
    /// block has to be asked for.
    pub(super) fn request_transactions(
        &mut self,
        view: View<'_>,
        id: PeerId,
        hash: &BlockHash,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let Partial::Held(partial) = &peer.compact.partial else { return false };
        if partial.hash() != *hash {
            return false;
        }
        let request = partial.request();
        if let Partial::Held(partial) = std::mem::take(&mut peer.compact.partial) {
            peer.compact.partial = Partial::Requested(partial);
        }
        match request {
            Some(request) => self.send(view.now, id, &Message::GetBlockTxn(request)),
            // Every transaction came along.
            None => self.complete_partial(view, id, &RawTransactions::new()),
        }
        true
    }

    /// The answer to `getblocktxn`. A second one finds nothing to act on.
    pub(super) fn on_blocktxn(&mut self, view: View<'_>, id: PeerId, answer: &BlockTransactions) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let expected = matches!(
            &peer.compact.partial,
            Partial::Requested(partial) if partial.hash() == answer.block_hash
        );
        if !expected {
            return debug!("peer={}: unexpected transactions of {}", id.0, answer.block_hash);
        }
        let bytes = answer.transactions.bytes().len() as u64;
        self.downloads.bytes_received(id, view.now, bytes);
        self.complete_partial(view, id, &answer.transactions);
    }

    /// Puts the block together. When short ids collided the whole block is asked for instead, of the
    /// same peer: for the scheduler it is still the same request.
    fn complete_partial(&mut self, view: View<'_>, id: PeerId, answer: &RawTransactions) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Partial::Requested(partial) = std::mem::take(&mut peer.compact.partial) else {
            return;
        };
        let hash = partial.hash();
        let mut bytes = self.config.pool.take();
        match partial.complete(answer, &mut bytes) {
            Ok(()) => self.take_block(view, id, hash, bytes, true),
            Err(CompactError::Invalid) => {
                self.misbehave(view.now, id, Misbehaviour::InvalidCompactBlock);
            }
            Err(CompactError::Failed) => {
                self.expect_block(id, true);
                let entry = Inventory::block(InventoryKind::WITNESS_BLOCK, hash);
                self.send(view.now, id, &Message::GetData(vec![entry]));
            }
        }
    }

    /// Announces the tip by a compact block, at once or when it was read.
    pub(super) fn announce_compact(&mut self, view: View<'_>, id: PeerId, tip: HeaderId) {
        if let Some(recent) = self.recent_block.as_ref().filter(|recent| recent.id == tip) {
            let message = Message::CmpctBlock(recent.compact.clone());
            self.send(view.now, id, &message);
            return self.sent_header(id, tip);
        }
        if let Some(pending) = &mut self.pending_announcement {
            return pending.waiting.push(id);
        }
        let read = self.next_read_id();
        self.pending_announcement = Some(PendingAnnouncement { read, tip, waiting: vec![id] });
        self.actions.push_back(Action::ReadBlock { request: read, peer: id, id: tip, raw: false });
    }

    /// The tip was read for those who want it in compact form.
    pub(super) fn announcement_read(&mut self, view: View<'_>, bytes: Option<PooledStream>) {
        let Some(pending) = self.pending_announcement.take() else { return };
        let Some(block) = bytes.and_then(|bytes| Block::decode(bytes).ok()) else {
            return self.announce_otherwise(view, pending);
        };
        let compact = compact_block(block.view(), self.rng.random());
        let (id, hash) = (pending.tip, block.hash());
        self.recent_block = Some(Box::new(RecentBlock { id, hash, block, compact }));
        for peer in pending.waiting {
            if !self.has_header(view, peer, id) {
                self.announce_compact(view, peer, id);
            }
        }
    }

    /// A newer tip is about to be announced: whoever still waits for the last one is told of it.
    pub(super) fn flush_compact_announcement(&mut self, view: View<'_>) {
        if let Some(pending) = self.pending_announcement.take() {
            self.announce_otherwise(view, pending);
        }
    }

    fn announce_otherwise(&mut self, view: View<'_>, pending: PendingAnnouncement) {
        for id in pending.waiting {
            let Some(peer) = self.peers.get(&id) else { continue };
            if self.has_header(view, id, pending.tip) {
                continue;
            }
            if peer.handshake.prefers_headers {
                self.announce_headers(view, id, &[pending.tip]);
            } else {
                self.announce_inv(view, id, pending.tip);
            }
        }
    }
}

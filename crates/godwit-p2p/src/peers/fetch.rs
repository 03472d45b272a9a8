//! Block fetch: requests blocks, receives them, and acts on the verdict about their senders.
//!
//! A block may arrive in compact form (BIP152). Without a memory pool that saves no bytes, but the
//! time that a peer takes to validate before it announces in another way; and its transactions can
//! be requested at once. The scheduler decides from which peer a block comes; a compact block of
//! that peer only changes the form of the request.

mod high_bandwidth;
mod sources;
pub(super) mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_consensus::{Reject, Verdict, check_proof_of_work};
use godwit_primitives::work::block_proof;
use godwit_primitives::{BlockHash, BlockHeader, Params, Work};
use godwit_stream::PooledStream;
use log::{debug, info, warn};

use super::action::ChainRequest;
use super::context::Context;
use super::misbehaviour::{Blame, DisconnectReason, Misbehaviour, Source, blame};
use super::reading::expect_block;
use super::table::PeerTable;
use crate::compact::{CompactError, PartialBlock};
use crate::connection_kind::ConnectionKind;
use crate::download::lost::{LostBlocks, ask_for};
use crate::download::overdue::{OverdueReason, headers_received, set_headers_asked};
use crate::download::{Downloads, PeerTraits, Receipt};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{BlockTransactions, CompactBlock, Message, RawTransactions, block_header_of};
use crate::peer_id::PeerId;
use crate::services::Services;
use high_bandwidth::{HighBandwidth, drop_old_partials};
use sources::{BlockSources, Sender};
use state::Partial;

/// How far above the tip a compact block is of use, in blocks (Core: 2).
const MAX_AHEAD: u32 = 2;

/// Time between two looks how much we have of the peers' chains. Core looks each time that it may send, ten
/// times a second.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What is to be done about a compact block.
pub(super) enum Compact {
    Ignored,
    /// Its parent is unknown.
    Unconnected,
    /// Its header is to be submitted.
    Header(BlockHeader),
}

/// See the module's documentation.
pub(super) struct BlockFetch {
    downloads: Downloads,
    lost: LostBlocks,
    sources: BlockSources,
    high_bandwidth: HighBandwidth,
    /// When the peers' chains are looked at again.
    next_look: Duration,
}

impl BlockFetch {
    /// Only chains with at least `minimum_work` are downloaded.
    pub(super) fn new(params: &Params, minimum_work: Work) -> Self {
        Self {
            downloads: Downloads::new(params, minimum_work),
            lost: LostBlocks::default(),
            sources: BlockSources::default(),
            high_bandwidth: HighBandwidth::default(),
            next_look: Duration::ZERO,
        }
    }

    pub(super) fn downloads(&self) -> &Downloads {
        &self.downloads
    }

    /// The peer is gone. Others will be asked for its blocks.
    pub(super) fn forget(&mut self, cx: &Context<'_>, id: PeerId) {
        self.downloads.remove_peer(id, cx.judged());
        self.high_bandwidth.remove(id);
    }

    /// Bytes of a block arrived.
    pub(super) fn on_bytes(&mut self, cx: &Context<'_>, id: PeerId, bytes: usize) {
        self.downloads.bytes_received(id, cx.judged(), bytes as u64);
    }

    /// Bytes of headers arrived.
    pub(super) fn on_header_bytes(&mut self, id: PeerId) {
        headers_received(&mut self.downloads, id);
    }

    /// The index has another tip. Its sender is asked to announce the next one by a compact block.
    pub(super) fn on_tip(&mut self, cx: &mut Context<'_>) {
        let tip = cx.index.get(cx.index.tip());
        let sender = self.sources.get(&tip.hash);
        self.sources.forget_below(tip.height);
        drop_old_partials(cx, &self.downloads);
        if let Some(sender) = sender
            && !cx.initial_download
            && self.in_flight(cx.table) == 0
        {
            self.high_bandwidth.select(cx, &self.downloads, sender.peer);
        }
    }

    /// The peer may be asked for blocks from now on.
    pub(super) fn start(&mut self, cx: &Context<'_>, id: PeerId) {
        let Some(peer) = cx.table.get(id) else { return };
        if !peer.serves_blocks() || peer.kind == ConnectionKind::AddrFetch {
            return;
        }
        let traits = PeerTraits {
            preferred: peer.preferred(),
            witness: peer.handshake.services.contains(Services::WITNESS),
            limited: peer.limited(),
        };
        self.downloads.add_peer(id, traits, cx.judged());
    }

    /// Number of blocks in flight from all peers.
    pub(super) fn in_flight(&self, table: &PeerTable) -> usize {
        table.iter().map(|peer| self.downloads.in_flight(peer.id)).sum()
    }

    /// Sends the scheduler's requests, and disconnects peers that hold up the download.
    pub(super) fn download(&mut self, cx: &mut Context<'_>, room: u64) {
        for peer in cx.table.iter() {
            set_headers_asked(&mut self.downloads, peer.id, peer.headers.asked());
        }
        for overdue in self.downloads.overdue(cx.judged()) {
            let why = match overdue.why {
                OverdueReason::Stalled => DisconnectReason::BlockStalled,
                OverdueReason::Silent => DisconnectReason::BlockTimeout,
            };
            cx.disconnect(overdue.peer, why);
            self.downloads.remove_peer(overdue.peer, cx.judged());
        }
        for peer in cx.table.iter() {
            if let Some(best) = peer.known.best() {
                self.downloads.set_best_known(peer.id, best);
            }
        }
        self.find_common(cx);
        let mut requests: BTreeMap<PeerId, Vec<BlockHash>> = BTreeMap::new();
        for (peer, _, hash) in self.downloads.schedule(cx.judged(), cx.index, room) {
            requests.entry(peer).or_default().push(hash);
        }
        if room > 0 {
            for (peer, hash) in self.lost.schedule(&mut self.downloads, cx.judged(), cx.index) {
                requests.entry(peer).or_default().push(hash);
            }
        }
        for (peer, blocks) in requests {
            self.request_blocks(cx, peer, &blocks);
        }
    }

    /// Looks from time to time how much we have of the chains of those who may be asked for blocks.
    fn find_common(&mut self, cx: &mut Context<'_>) {
        if cx.now.monotonic < self.next_look {
            return;
        }
        self.next_look = cx.now.monotonic + LOOK_INTERVAL;
        for peer in cx.table.iter_mut() {
            if peer.serves_blocks() && !(cx.initial_download && peer.limited()) {
                peer.known.find_common(cx.index, cx.config.minimum_chain_work);
            }
        }
    }

    /// Asks a peer for a block because the operator wants that.
    pub(super) fn ask_for(&mut self, cx: &mut Context<'_>, id: PeerId, hash: BlockHash) {
        if let Some(header) = cx.index.find(&hash)
            && ask_for(&mut self.downloads, id, header, hash, cx.index, cx.judged())
        {
            self.request_blocks(cx, id, &[hash]);
        }
    }

    fn request_blocks(&mut self, cx: &mut Context<'_>, id: PeerId, blocks: &[BlockHash]) {
        let Some(peer) = cx.table.get(id) else { return };
        let witness = peer.handshake.services.contains(Services::WITNESS);
        let kind = if witness { InventoryKind::WITNESS_BLOCK } else { InventoryKind::BLOCK };
        // Also when only transactions are requested: the peer may send the whole block instead.
        expect_block(cx, id, true);
        let mut entries = Vec::with_capacity(blocks.len());
        for hash in blocks {
            if !self.request_transactions(cx, id, hash) {
                entries.push(Inventory::block(kind, *hash));
            }
        }
        if !entries.is_empty() {
            cx.send(id, &Message::GetData(entries));
        }
    }

    /// A `block` payload. It is accepted only if the block is in flight from this very peer:
    /// another peer's bytes for the same hash must not end this one's request (CVE-2024-52921).
    /// Returns the hash of a block that was not in flight from it.
    pub(super) fn on_block(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        bytes: PooledStream,
    ) -> Option<BlockHash> {
        let Some(header) = block_header_of(bytes.unread()) else {
            cx.misbehave(id, Misbehaviour::UndecodableBlock);
            return None;
        };
        let hash = header.block_hash();
        self.take_block(cx, id, hash, bytes, false)
    }

    fn take_block(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        hash: BlockHash,
        bytes: PooledStream,
        via_compact_block: bool,
    ) -> Option<BlockHash> {
        let receipt = self.downloads.received(id, hash, bytes.len() as u64, cx.judged());
        let more = self.downloads.in_flight(id) > 0;
        expect_block(cx, id, more);
        match receipt {
            Receipt::Requested => {}
            Receipt::Duplicate => return None,
            Receipt::Unrequested => return Some(hash),
        }
        let header = cx.index.find(&hash)?;
        let height = cx.index.get(header).height;
        self.sources.insert(hash, Sender { peer: id, height, via_compact_block });
        cx.out.push(ChainRequest::SubmitBlock { peer: id, hash, bytes });
        None
    }

    pub(super) fn on_notfound(&mut self, cx: &mut Context<'_>, id: PeerId, entries: &[Inventory]) {
        let blocks = entries.iter().filter(|entry| entry.kind.is_block());
        for hash in blocks.map(Inventory::block_hash) {
            if self.downloads.is_requested(id, &hash) {
                self.downloads.not_found(id, hash, cx.judged());
            }
        }
        let more = self.downloads.in_flight(id) > 0;
        expect_block(cx, id, more);
    }

    pub(super) fn on_judged(&mut self, cx: &mut Context<'_>, hash: BlockHash, verdict: Verdict) {
        match verdict {
            Verdict::Stored | Verdict::Connected => {
                self.lost.remove(&hash);
                self.downloads.judged(hash, true);
                let sender = self.sources.get(&hash).map(|sender| sender.peer);
                if let Some(peer) = sender.and_then(|id| cx.table.get_mut(id)) {
                    peer.fetch.last_block = cx.now.monotonic;
                }
            }
            Verdict::Duplicate => {
                self.lost.remove(&hash);
                self.downloads.judged(hash, true);
            }
            Verdict::Rejected(reject) => {
                self.downloads.judged(hash, false);
                self.on_refused(cx, hash, reject);
            }
            Verdict::Undecodable => {
                self.downloads.judged(hash, false);
                if let Some(sender) = self.sources.remove(&hash) {
                    cx.misbehave(sender.peer, Misbehaviour::UndecodableBlock);
                }
            }
        }
    }

    /// A block that was stored is damaged, and wanted again.
    pub(super) fn on_lost(&mut self, hash: BlockHash) {
        self.lost.add(hash);
    }

    /// Blames the sender alone: other peers that announced the header may not know the block (Core
    /// `BlockChecked`).
    pub(super) fn on_refused(&mut self, cx: &mut Context<'_>, hash: BlockHash, reject: Reject) {
        let Some(sender) = self.sources.remove(&hash) else { return };
        let Some(peer) = cx.table.get(sender.peer) else { return };
        let via_compact_block = sender.via_compact_block;
        let source = Source { via_compact_block, inbound: peer.inbound() };
        if cx.take_log_line(sender.peer) {
            info!("peer={}: block {hash} is refused: {reject}", sender.peer.0);
        }
        match blame(reject.class, source) {
            Blame::None => {}
            Blame::Discourage => {
                let what = Misbehaviour::InvalidBlock(reject.reason);
                cx.misbehave(sender.peer, what);
            }
        }
    }

    /// A block arrived with a wrong checksum, so that its hash cannot be known.
    pub(super) fn on_corrupt(&mut self, cx: &mut Context<'_>, id: PeerId) {
        if self.downloads.in_flight(id) == 0 {
            return;
        }
        if cx.take_log_line(id) {
            warn!("peer={}: a block arrived with a wrong checksum", id.0);
        }
        cx.disconnect(id, DisconnectReason::CorruptBlock);
    }

    /// Keeps a compact block that may be of use, and returns what to do with its header.
    pub(super) fn on_compact(
        &self,
        cx: &mut Context<'_>,
        id: PeerId,
        block: CompactBlock,
        least_work: Work,
    ) -> Compact {
        let Some(peer) = cx.table.get(id) else { return Compact::Ignored };
        if !peer.handshake.provides_compact {
            debug!("peer={}: compact block without sendcmpct", id.0);
            return Compact::Ignored;
        }
        let selected = peer.fetch.selected;
        let (header, hash) = (block.header, block.header.block_hash());
        let Some(parent) = cx.index.find(&header.prev_blockhash) else {
            return Compact::Unconnected;
        };
        if !check_proof_of_work(&hash, header.bits, &cx.config.params) {
            cx.misbehave(id, Misbehaviour::HeaderWithoutWork);
            return Compact::Ignored;
        }
        let parent = cx.index.get(parent);
        if parent.chain_work.saturating_add(block_proof(header.bits)) < least_work {
            debug!("peer={}: ignoring low-work compact block", id.0);
            return Compact::Ignored;
        }
        let known = cx.index.find(&hash).map(|id| cx.index.get(id));
        let tip = cx.index.get(cx.index.tip());
        let useful = selected
            && !cx.initial_download
            && cx.tip_is_recent()
            && parent.height < tip.height + MAX_AHEAD
            && known.is_none_or(|known| !known.stored && !known.failed);
        if useful && !self.hold_partial(cx, id, block) {
            return Compact::Ignored;
        }
        Compact::Header(header)
    }

    /// Holds a compact block for its transactions; false when the peer was disconnected for it.
    fn hold_partial(&self, cx: &mut Context<'_>, id: PeerId, block: CompactBlock) -> bool {
        let hash = block.header.block_hash();
        let Some(peer) = cx.table.get_mut(id) else { return false };
        // Keep a block whose transactions are in flight: neither the same block again
        // (CVE-2024-35202) nor its child may replace it. Once the block has arrived from any peer,
        // nothing is in flight.
        if let Partial::Requested(partial) = &peer.fetch.partial
            && (partial.hash() == hash || self.downloads.is_requested(id, &partial.hash()))
        {
            return true;
        }
        match PartialBlock::new(block) {
            Ok(partial) => peer.fetch.partial = Partial::Held(Box::new(partial)),
            Err(CompactError::Failed) => {}
            Err(CompactError::Invalid) => {
                cx.misbehave(id, Misbehaviour::InvalidCompactBlock);
                return false;
            }
        }
        true
    }

    /// Requests the transactions of a block that the peer sent in compact form. False when the
    /// whole block has to be requested.
    fn request_transactions(&mut self, cx: &mut Context<'_>, id: PeerId, hash: &BlockHash) -> bool {
        let Some(peer) = cx.table.get_mut(id) else { return false };
        let Partial::Held(partial) = &peer.fetch.partial else { return false };
        if partial.hash() != *hash {
            return false;
        }
        let request = partial.request();
        if let Partial::Held(partial) = std::mem::take(&mut peer.fetch.partial) {
            peer.fetch.partial = Partial::Requested(partial);
        }
        match request {
            Some(request) => cx.send(id, &Message::GetBlockTxn(request)),
            // All transactions were prefilled.
            None => drop(self.complete_partial(cx, id, &RawTransactions::new())),
        }
        true
    }

    /// The answer to `getblocktxn`. A second one has no effect. Returns the hash of a block that
    /// was not, or is no longer, in flight.
    pub(super) fn on_blocktxn(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        answer: &BlockTransactions,
    ) -> Option<BlockHash> {
        let peer = cx.table.get_mut(id)?;
        let expected = matches!(
            &peer.fetch.partial,
            Partial::Requested(partial) if partial.hash() == answer.block_hash
        );
        if !expected {
            debug!("peer={}: unexpected transactions of {}", id.0, answer.block_hash);
            return None;
        }
        self.complete_partial(cx, id, &answer.transactions)
    }

    /// Completes the block. If short ids collided, or the peer sent nonsense and is not punished for it, the
    /// whole block is requested from it instead: for the scheduler it is the same request.
    fn complete_partial(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        answer: &RawTransactions,
    ) -> Option<BlockHash> {
        let peer = cx.table.get_mut(id)?;
        let Partial::Requested(partial) = std::mem::take(&mut peer.fetch.partial) else {
            return None;
        };
        let hash = partial.hash();
        let mut bytes = cx.config.pool.take();
        match partial.complete(answer, &mut bytes) {
            Ok(()) => return self.take_block(cx, id, hash, bytes, true),
            Err(CompactError::Invalid) => cx.misbehave(id, Misbehaviour::InvalidCompactBlock),
            Err(CompactError::Failed) => {}
        }
        // It may have said meanwhile that it has not the block, and would be expected to send it for ever.
        if self.downloads.is_requested(id, &hash) {
            expect_block(cx, id, true);
            let entry = Inventory::block(InventoryKind::WITNESS_BLOCK, hash);
            cx.send(id, &Message::GetData(vec![entry]));
        }
        None
    }
}

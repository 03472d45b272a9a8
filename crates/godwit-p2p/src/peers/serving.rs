//! Serves peers: blocks, one at a time and only as fast as the peer takes them, and headers.
//!
//! Source: Core `net_processing.cpp`, `ProcessGetBlockData`, `GETHEADERS`, `GETBLOCKS`, `GETBLOCKTXN`.

mod filter_span;
mod filters;
mod locator;
mod requests;
pub(super) mod state;

use std::collections::VecDeque;
use std::time::Duration;

use godwit_consensus::proof_equivalent_time;
use godwit_primitives::{Block, BlockHash};
use godwit_stream::{DataStream, PooledStream};
use log::{debug, error};
use rand::Rng;

use super::action::{ChainRequest, ReadId};
use super::context::{Context, encoded};
use super::memory::account::SharedMemory;
use super::memory::has_room_to_read;
use super::misbehaviour::{DisconnectReason, Misbehaviour};
use super::peer::Peer;
use super::reading::read_on;
use super::relay::recent::RecentBlock;
use super::table::PeerTable;
use super::tx_relay;
use crate::compact::{block_transactions, compact_block};
use crate::frame::Command;
use crate::index::{HeaderId, is_ancestor};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{BlockTransactionsRequest, Locator, MAX_HEADERS, Message};
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::rate_limit::{UploadStatus, UploadTarget};
use crate::services::{NETWORK_LIMITED_MIN_BLOCKS, Services};
use locator::{chain_part, fork_with};
use requests::Request;

/// Most blocks in an answer to `getblocks` (Core: 500).
const MAX_GETBLOCKS: usize = 500;

/// How far below the tip blocks are still sent in compact form (Core `MAX_CMPCTBLOCK_DEPTH`).
const MAX_COMPACT_DEPTH: u32 = 5;

/// How far below the tip single transactions of blocks are sent (Core `MAX_BLOCKTXN_DEPTH`).
const MAX_TRANSACTIONS_DEPTH: u32 = 10;

/// Blocks that a pruned node serves: as many as it promises, and two more because both sides' tips
/// may differ (as in Core).
const LIMITED_SERVED: u32 = NETWORK_LIMITED_MIN_BLOCKS + 2;

/// Blocks that a pruned node announces in answer to `getblocks`: those that it will still have in
/// an hour (as in Core).
const LIMITED_ANNOUNCED: u32 = NETWORK_LIMITED_MIN_BLOCKS - 6;

/// How long a block off the best chain is served, in seconds. Not longer, so that peers cannot
/// recognise this node by old ones (Core `STALE_RELAY_AGE_LIMIT`: a month).
const STALE_AGE_LIMIT: i64 = 30 * 24 * 60 * 60;

/// Age, in seconds, from which a block is old for the upload target (Core `HISTORICAL_BLOCK_AGE`: a
/// week).
const HISTORICAL_AGE: i64 = 7 * 24 * 60 * 60;

/// What is done about a request.
enum Answer {
    Read(HeaderId),
    /// No answer, as in Core.
    Nothing,
    Disconnect(DisconnectReason),
}

/// Requests that are looked up for one peer before others have their turn, 2 ms at worst: a request
/// for a block that is not served costs the peer only 36 bytes.
const LOOKUPS_AT_ONCE: usize = 1_000;

/// The last announced block, if it is in memory.
type Recent<'a> = Option<&'a RecentBlock>;

/// See the module's documentation.
pub(super) struct Serving {
    upload: UploadTarget,
    /// Peers that wait for a block to be read for them, in this order.
    waiting: VecDeque<PeerId>,
}

impl Serving {
    pub(super) fn new(max_upload_target: Option<u64>) -> Self {
        Self { upload: UploadTarget::new(max_upload_target), waiting: VecDeque::new() }
    }

    /// What is left of the upload target.
    pub(super) fn upload(&self, now: Duration) -> UploadStatus {
        self.upload.status(now)
    }

    /// A `getdata`. Its entries are queued.
    pub(super) fn on_getdata(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        entries: &[Inventory],
    ) {
        if let Some(peer) = cx.table.get_mut(id) {
            peer.serving.requests.extend(entries);
            self.serve(cx, recent, id);
        }
    }

    /// Serves the peer's requests as far as it takes the answers (Core `ProcessGetData`).
    fn serve(&mut self, cx: &mut Context<'_>, recent: Recent<'_>, id: PeerId) {
        for _ in 0..LOOKUPS_AT_ONCE {
            let Some(peer) = cx.table.get_mut(id) else { return };
            if !is_ready(cx.memory, peer) {
                break;
            }
            let wanted = peer.serving.requests.take_transactions();
            if wanted.is_empty() {
                let Some(request) = peer.serving.requests.pop() else { break };
                if !self.serve_block(cx, recent, id, request) {
                    break;
                }
            } else if peer.hears_of_transactions() {
                serve_transactions(cx, id, wanted);
            }
        }
        read_on(cx, id);
    }

    /// Goes on with peers that have more requests than are looked up at once.
    pub(super) fn serve_ready(&mut self, cx: &mut Context<'_>, recent: Recent<'_>) {
        let ready = cx.table.iter().filter(|peer| self.is_next(cx.memory, peer));
        for id in ready.map(|peer| peer.id).collect::<Vec<_>>() {
            self.serve(cx, recent, id);
        }
    }

    /// Whether [`serve_ready`](Self::serve_ready) has something to do.
    pub(super) fn has_ready(&self, memory: &SharedMemory, table: &PeerTable) -> bool {
        table.iter().any(|peer| self.is_next(memory, peer))
    }

    fn is_next(&self, memory: &SharedMemory, peer: &Peer) -> bool {
        is_ready(memory, peer) && !self.waiting.contains(&peer.id)
    }

    /// Reads blocks for peers that wait, as far as there is room.
    pub(super) fn serve_waiting(&mut self, cx: &mut Context<'_>, recent: Recent<'_>) {
        while let Some(&first) = self.waiting.front()
            && has_room_to_read(cx)
        {
            self.serve(cx, recent, first);
            self.forget(first);
        }
    }

    /// Whether a peer waits for a block to be read.
    pub(super) fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The peer is gone and waits no longer.
    pub(super) fn forget(&mut self, id: PeerId) {
        self.waiting.retain(|&other| other != id);
    }

    fn wait_for_turn(&mut self, cx: &mut Context<'_>, id: PeerId, request: Request) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.serving.requests.put_back(request);
        if !self.waiting.contains(&id) {
            self.waiting.push_back(id);
        }
    }

    /// Whether it is this peer's turn to have a block read for it.
    fn may_read(&self, cx: &mut Context<'_>, id: PeerId) -> bool {
        self.waiting.front().is_none_or(|&first| first == id) && has_room_to_read(cx)
    }

    /// False when the peer has to wait for its turn to have the block read. What needs no read never
    /// waits: the transactions of the last announced block are wanted at once.
    fn serve_block(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        request: Request,
    ) -> bool {
        if let Request::Filters(span) = request {
            return self.serve_filters(cx, id, span);
        }
        if serve_recent(cx, recent, id, &request) {
            return true;
        }
        match self.answer(cx, id, &request) {
            // Nothing is sent of it, as without `filterload` a peer has no filter; but what follows it.
            Answer::Read(_) if request.is_filtered() => {
                continue_announcing(cx, id, request.block_hash());
            }
            Answer::Read(header) if self.may_read(cx, id) => read(cx, id, header, request),
            Answer::Read(_) => {
                self.wait_for_turn(cx, id, request);
                return false;
            }
            Answer::Nothing => {}
            Answer::Disconnect(why) => cx.disconnect(id, why),
        }
        true
    }

    /// Core `ProcessGetBlockData`.
    fn answer(&self, cx: &Context<'_>, id: PeerId, request: &Request) -> Answer {
        let Some(header) = cx.index.find(&request.block_hash()) else { return Answer::Nothing };
        let Some(peer) = cx.table.get(id) else { return Answer::Nothing };
        if !may_be_served(cx, header) {
            return Answer::Nothing;
        }
        let block = cx.index.get(header);
        let best = cx.index.get(cx.index.best_header());
        let age = i64::from(best.header.time) - i64::from(block.header.time);
        let counts_as_old = age > HISTORICAL_AGE || request.is_filtered();
        let is_limited = counts_as_old && !peer.may(Permissions::DOWNLOAD);
        if is_limited && self.upload.is_reached_for_old_blocks(cx.now.monotonic) {
            return Answer::Disconnect(DisconnectReason::UploadTarget);
        }
        let tip = cx.index.get(cx.index.tip());
        let pruned = !cx.services().contains(Services::NETWORK);
        let is_pruned_for = pruned && !peer.may(Permissions::NO_BAN);
        if is_pruned_for && tip.height.saturating_sub(block.height) > LIMITED_SERVED {
            // The peer would wait for the block; and it should not learn exactly where we pruned.
            debug!("peer={}: asks for pruned block {}", peer.id.0, block.height);
            return Answer::Disconnect(DisconnectReason::PrunedBlock);
        }
        if !block.stored || block.height < cx.index.prune_height() {
            return Answer::Nothing;
        }
        Answer::Read(header)
    }

    /// The peer for which something was read, and its request.
    fn take_reading(&self, cx: &mut Context<'_>, request: ReadId) -> Option<(PeerId, Request)> {
        let waits = |peer: &&Peer| {
            peer.serving.reading.as_ref().is_some_and(|(reading, _)| *reading == request)
        };
        let id = cx.table.iter().find(waits)?.id;
        let (_, wanted) = cx.table.get_mut(id)?.serving.reading.take()?;
        Some((id, wanted))
    }

    /// The answer to a [`ChainRequest::ReadBlock`] for a peer.
    pub(super) fn on_read(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        request: ReadId,
        bytes: Option<PooledStream>,
    ) {
        let Some((id, wanted)) = self.take_reading(cx, request) else { return };
        let Some(bytes) = bytes else {
            if cx.take_log_line(id) {
                error!("peer={}: cannot load block {} from disk", id.0, wanted.block_hash());
            }
            return cx.disconnect(id, DisconnectReason::BlockUnreadable);
        };
        let hash = wanted.block_hash();
        if !send_block(cx, id, wanted, bytes) {
            return;
        }
        continue_announcing(cx, id, hash);
        self.serve(cx, recent, id);
    }

    pub(super) fn on_getblocktxn(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        request: BlockTransactionsRequest,
    ) {
        let hash = request.block_hash;
        let Some(header) = cx.index.find(&hash) else { return };
        let block = cx.index.get(header);
        let tip = cx.index.get(cx.index.tip());
        if !block.stored {
            return debug!("peer={}: getblocktxn for a block that is not here", id.0);
        }
        // An old block is sent whole, so that it costs the peer as much as it costs us to read.
        let request = if block.height + MAX_TRANSACTIONS_DEPTH >= tip.height {
            Request::Transactions(Box::new(request))
        } else {
            Request::Entry(Inventory::block(InventoryKind::WITNESS_BLOCK, hash))
        };
        if let Some(peer) = cx.table.get_mut(id) {
            peer.serving.requests.push(request);
            self.serve(cx, recent, id);
        }
    }

    /// The driver has written bytes to the peer.
    pub(super) fn on_sent(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        bytes: usize,
    ) {
        self.upload.record(cx.now.monotonic, bytes as u64);
        if let Some(peer) = cx.table.get_mut(id) {
            peer.flow.footprint.written(cx.now.monotonic, bytes);
            if peer.flow.held && bytes > 0 {
                // Nothing is read from the peer, so this alone shows that it is alive.
                peer.last_received = cx.now.monotonic;
            }
            self.serve(cx, recent, id);
        }
    }
}

/// Gives the peer those transactions that it was told of, as far as it takes them, and says which are not
/// there.
fn serve_transactions(cx: &mut Context<'_>, id: PeerId, wanted: Vec<Inventory>) {
    let mut missing = Vec::new();
    for (n, entry) in wanted.iter().enumerate() {
        if !tx_relay::give(cx, id, entry) {
            missing.push(*entry);
            continue;
        }
        let Some(peer) = cx.table.get_mut(id) else { return };
        if peer.flow.footprint.queued() > cx.memory.pause_above() {
            peer.serving.requests.put_transactions_back(&wanted[n + 1..]);
            break;
        }
    }
    if !missing.is_empty() {
        cx.send(id, &Message::NotFound(missing));
    }
}

/// Whether a request of the peer can be served, at once or when it is its turn.
fn is_ready(memory: &SharedMemory, peer: &Peer) -> bool {
    peer.serving.is_waiting() && peer.flow.footprint.queued() <= memory.pause_above()
}

fn read(cx: &mut Context<'_>, id: PeerId, header: HeaderId, wanted: Request) {
    let request = cx.out.next_read();
    let raw = wanted.kind() == Some(InventoryKind::WITNESS_BLOCK);
    if let Some(peer) = cx.table.get_mut(id) {
        peer.serving.reading = Some((request, wanted));
        cx.memory.begin_read(request);
        cx.out.push(ChainRequest::ReadBlock { request, peer: id, id: header, raw });
    }
}

/// Whether a block may be served: those on the best chain and on young valid branches (Core
/// `BlockRequestAllowed`).
fn may_be_served(cx: &Context<'_>, header: HeaderId) -> bool {
    if is_ancestor(cx.index, header, cx.index.tip()) {
        return true;
    }
    let block = cx.index.get(header);
    let best = cx.index.get(cx.index.best_header());
    let age = i64::from(best.header.time) - i64::from(block.header.time);
    let (to, from) = (best.chain_work, block.chain_work);
    block.connected
        && !block.failed
        && age < STALE_AGE_LIMIT
        && proof_equivalent_time(to, from, best.header.bits, &cx.config.params) < STALE_AGE_LIMIT
}

/// Serves a request from the last announced block; false if that is not in memory or another one.
fn serve_recent(cx: &mut Context<'_>, recent: Recent<'_>, id: PeerId, wanted: &Request) -> bool {
    let hash = wanted.block_hash();
    // It may have been left since, and declared invalid.
    let recent = recent.filter(|recent| recent.hash == hash && may_be_served(cx, recent.id));
    let Some(recent) = recent else { return false };
    match wanted {
        Request::Entry(entry)
            if entry.kind == InventoryKind::CMPCT_BLOCK && suits_compact(cx, recent.id) =>
        {
            cx.send(id, &Message::CmpctBlock(recent.compact.clone()));
            continue_announcing(cx, id, hash);
        }
        Request::Entry(_) | Request::Filters(_) => return false,
        Request::Transactions(request) => match block_transactions(recent.block.view(), request) {
            Some(answer) => cx.send(id, &Message::BlockTxn(answer)),
            None => cx.misbehave(id, Misbehaviour::TransactionsOutOfRange),
        },
    }
    true
}

/// Answers a request with the block that was read for it; false when the peer was disconnected.
fn send_block(cx: &mut Context<'_>, id: PeerId, wanted: Request, bytes: PooledStream) -> bool {
    if wanted.kind() == Some(InventoryKind::WITNESS_BLOCK) {
        cx.send_block(id, Command::BLOCK, bytes);
        return cx.table.contains(id);
    }
    let Ok(block) = Block::decode(bytes) else {
        if cx.take_log_line(id) {
            error!("Block {} on disk does not decode", wanted.block_hash());
        }
        cx.disconnect(id, DisconnectReason::BlockUnreadable);
        return false;
    };
    let (command, payload) = match wanted {
        Request::Entry(entry) if entry.kind == InventoryKind::CMPCT_BLOCK => in_compact(cx, &block),
        Request::Entry(_) => {
            let mut stripped = cx.config.pool.take_for(block.view().stripped_size());
            strip(&block, &mut stripped);
            (Command::BLOCK, stripped)
        }
        // Of these no block is read.
        Request::Filters(_) => return true,
        Request::Transactions(request) => match block_transactions(block.view(), &request) {
            Some(answer) => (Command::BLOCKTXN, encoded(&Message::BlockTxn(answer))),
            None => {
                cx.misbehave(id, Misbehaviour::TransactionsOutOfRange);
                return cx.table.contains(id);
            }
        },
    };
    cx.send_block(id, command, payload);
    cx.table.contains(id)
}

/// Whether a block is so young that peers may have its transactions in memory (Core `ProcessGetBlockData`).
fn suits_compact(cx: &Context<'_>, header: HeaderId) -> bool {
    let tip = cx.index.get(cx.index.tip()).height;
    cx.index.get(header).height + MAX_COMPACT_DEPTH >= tip && cx.tip_is_recent()
}

/// A block in compact form; an old one whole.
fn in_compact(cx: &mut Context<'_>, block: &Block) -> (Command, PooledStream) {
    if cx.index.find(&block.hash()).is_some_and(|header| suits_compact(cx, header)) {
        let compact = compact_block(block.view(), cx.rng.random());
        (Command::CMPCTBLOCK, encoded(&Message::CmpctBlock(compact)))
    } else {
        let bytes = block.view().bytes();
        let mut whole = cx.config.pool.take_for(bytes.len());
        whole.write(bytes);
        (Command::BLOCK, whole)
    }
}

/// Announces the tip after the last block of a batch that `getblocks` announced, even if it was
/// announced before: it makes the peer ask for the next batch.
fn continue_announcing(cx: &mut Context<'_>, id: PeerId, hash: BlockHash) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    if peer.serving.continuation == Some(hash) {
        peer.serving.continuation = None;
        cx.announce_inv(id, cx.index.tip());
    }
}

pub(super) fn on_getheaders(cx: &mut Context<'_>, id: PeerId, locator: &Locator) {
    let tip = cx.index.get(cx.index.tip());
    let may_download = cx.table.get(id).is_some_and(|peer| peer.may(Permissions::DOWNLOAD));
    if tip.chain_work < cx.config.minimum_chain_work && !may_download {
        // The peer could make no use of our headers. An empty answer tells it that we are alive.
        return cx.send(id, &Message::Headers(Vec::new()));
    }
    let first = if locator.hashes.is_empty() {
        let Some(stop) = cx.index.find(&locator.stop) else { return };
        if !may_be_served(cx, stop) {
            return;
        }
        let header = cx.index.get(stop).header;
        cx.send(id, &Message::Headers(vec![header]));
        return cx.set_sent(id, stop);
    } else {
        fork_with(cx.index, &locator.hashes).saturating_add(1)
    };
    let ids = chain_part(cx.index, first, MAX_HEADERS, locator.stop);
    let headers = ids.iter().map(|&id| cx.index.get(id).header).collect();
    // Even if a better header was sent before: a tip that was announced and is not in this answer
    // is announced again.
    cx.set_sent(id, ids.last().copied().unwrap_or(tip.id));
    cx.send(id, &Message::Headers(headers));
}

pub(super) fn on_getblocks(cx: &mut Context<'_>, id: PeerId, locator: &Locator) {
    let first = fork_with(cx.index, &locator.hashes).saturating_add(1);
    let mut ids = chain_part(cx.index, first, MAX_GETBLOCKS, locator.stop);
    let tip = cx.index.get(cx.index.tip()).height;
    if ids.last().is_some_and(|&last| cx.index.get(last).hash == locator.stop) {
        ids.pop();
    }
    if !cx.services().contains(Services::NETWORK) {
        let kept = |id: &HeaderId| {
            let block = cx.index.get(*id);
            block.stored && block.height.saturating_add(LIMITED_ANNOUNCED) > tip
        };
        let number = ids.iter().take_while(|&id| kept(id)).count();
        ids.truncate(number);
    }
    let full = ids.len() == MAX_GETBLOCKS;
    let hashes: Vec<BlockHash> = ids.iter().map(|&id| cx.index.get(id).hash).collect();
    let Some(last) = hashes.last().copied() else { return };
    if full && let Some(peer) = cx.table.get_mut(id) {
        peer.serving.continuation = Some(last);
    }
    let entry = |&hash| Inventory::block(InventoryKind::BLOCK, hash);
    cx.send(id, &Message::Inv(hashes.iter().map(entry).collect()));
}

/// Writes the block without witnesses (BIP144).
fn strip(block: &Block, out: &mut DataStream) {
    let view = block.view();
    out.put(view.header());
    out.write_compact_size(view.tx_count() as u64);
    for tx in view.txs() {
        tx.to_owned().encode_stripped(out);
    }
}

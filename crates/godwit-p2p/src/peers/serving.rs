//! What peers ask for: blocks, one at a time and only as fast as they are taken, and headers.
//!
//! Source: Core `net_processing.cpp`, `ProcessGetBlockData`, `GETHEADERS`, `GETBLOCKS`, `GETBLOCKTXN`.

mod locator;
pub(super) mod state;

use godwit_consensus::proof_equivalent_time;
use godwit_primitives::{Block, BlockHash};
use godwit_stream::{DataStream, PooledStream};
use log::{debug, error};
use rand::Rng;

use super::action::{ChainRequest, ReadId};
use super::context::Context;
use super::fault::{DisconnectReason, Misbehaviour};
use super::peer::Peer;
use super::relay::recent::RecentBlock;
use super::send_limits::SEND_PAUSE;
use crate::compact::{block_transactions, compact_block};
use crate::frame::Command;
use crate::index::{HeaderId, is_ancestor};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{
    BlockTransactionsRequest, Locator, MAX_HEADERS, Message, NETWORK_LIMITED_MIN_BLOCKS, Services,
};
use crate::peer_id::PeerId;
use crate::rate_limit::UploadTarget;
use locator::{chain_part, fork_with};
use state::{Form, MAX_WANTED, MAX_WANTED_TRANSACTIONS, Wanted};

/// Blocks in an answer to `getblocks` (Core: 500).
const MAX_GETBLOCKS: usize = 500;

/// Blocks below the tip that are still sent in compact form (Core `MAX_CMPCTBLOCK_DEPTH`).
const MAX_COMPACT_DEPTH: u32 = 5;

/// Blocks below the tip whose transactions are sent one by one (Core `MAX_BLOCKTXN_DEPTH`).
const MAX_TRANSACTIONS_DEPTH: u32 = 10;

/// Blocks that a pruned node gives: what it promises, and two more since both sides may be a block
/// apart (Core).
const LIMITED_SERVED: u32 = NETWORK_LIMITED_MIN_BLOCKS + 2;

/// Blocks that a pruned node announces in answer to `getblocks`: those that it will still have in an
/// hour (Core).
const LIMITED_ANNOUNCED: u32 = NETWORK_LIMITED_MIN_BLOCKS - 6;

/// A block off the best chain is served for so long, so that peers can not tell by old ones whom they
/// talk to (Core `STALE_RELAY_AGE_LIMIT`: a month, in seconds).
const STALE_AGE_LIMIT: i64 = 30 * 24 * 60 * 60;

/// From this age on a block is old for the upload target (Core `HISTORICAL_BLOCK_AGE`: a week, in
/// seconds).
const HISTORICAL_AGE: i64 = 7 * 24 * 60 * 60;

/// What can be done about a request.
enum Answer {
    Read(HeaderId),
    NotFound,
    Disconnect(DisconnectReason),
}

/// The last announced block, when it is at hand.
type Recent<'a> = Option<&'a RecentBlock>;

/// What this node gives to others.
pub(super) struct Serving {
    upload: UploadTarget,
}

impl Serving {
    pub(super) fn new(max_upload_target: Option<u64>) -> Self {
        Self { upload: UploadTarget::new(max_upload_target) }
    }

    /// A `getdata`. What is no block, and more blocks than fit the queue, is answered by one `notfound`.
    pub(super) fn on_getdata(
        &self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        entries: &[Inventory],
    ) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        let mut missing = Vec::new();
        for entry in entries {
            let form = match entry.kind {
                InventoryKind::WITNESS_BLOCK => Form::Witness,
                InventoryKind::BLOCK => Form::Stripped,
                InventoryKind::CMPCT_BLOCK => Form::Compact,
                _ => {
                    missing.push(*entry);
                    continue;
                }
            };
            if peer.serving.wanted.len() < MAX_WANTED {
                peer.serving.wanted.push_back(Wanted { hash: entry.block_hash(), form });
            } else {
                missing.push(*entry);
            }
        }
        if !missing.is_empty() {
            cx.send(id, &Message::NotFound(missing));
        }
        self.serve(cx, recent, id);
    }

    /// Goes on with what the peer asked for, as far as it takes it.
    fn serve(&self, cx: &mut Context<'_>, recent: Recent<'_>, id: PeerId) {
        let mut missing = Vec::new();
        loop {
            let Some(peer) = cx.table.get_mut(id) else { return };
            let (queued, serving) = (peer.queued, &mut peer.serving);
            if serving.reading.is_some() || queued > SEND_PAUSE {
                break;
            }
            let Some(wanted) = serving.wanted.pop_front() else { break };
            if serve_recent(cx, recent, id, &wanted) {
                continue;
            }
            match self.answer(cx, id, &wanted) {
                Answer::Read(header) => read(cx, id, header, wanted),
                Answer::NotFound => missing.extend(wanted.entry()),
                Answer::Disconnect(why) => return cx.disconnect(id, why),
            }
        }
        if !missing.is_empty() {
            cx.send(id, &Message::NotFound(missing));
        }
    }

    /// Core `ProcessGetBlockData`, but for saying `notfound` where Core says nothing.
    fn answer(&self, cx: &Context<'_>, id: PeerId, wanted: &Wanted) -> Answer {
        let Some(header) = cx.index.find(&wanted.hash) else { return Answer::NotFound };
        let Some(peer) = cx.table.get(id) else { return Answer::NotFound };
        if !may_be_served(cx, header) {
            return Answer::NotFound;
        }
        let block = cx.index.get(header);
        let best = cx.index.get(cx.index.best_header());
        let age = i64::from(best.header.time) - i64::from(block.header.time);
        if age > HISTORICAL_AGE && self.upload.is_reached_for_old_blocks(cx.now.monotonic) {
            return Answer::Disconnect(DisconnectReason::UploadTarget);
        }
        let tip = cx.index.get(cx.index.tip());
        let pruned = !cx.config.services.contains(Services::NETWORK);
        if pruned && tip.height.saturating_sub(block.height) > LIMITED_SERVED {
            // It would wait for the block; and where exactly we pruned is nobody's business.
            debug!("peer={}: asks for pruned block {}", peer.id.0, block.height);
            return Answer::Disconnect(DisconnectReason::PrunedBlock);
        }
        if !block.stored || block.height < cx.index.prune_height() {
            return Answer::NotFound;
        }
        Answer::Read(header)
    }

    /// The answer to a [`ChainRequest::ReadBlock`] for a peer.
    pub(super) fn on_read(
        &self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        request: ReadId,
        bytes: Option<PooledStream>,
    ) {
        let waits = |peer: &Peer| {
            peer.serving.reading.as_ref().is_some_and(|(reading, _)| *reading == request)
        };
        let Some(peer) = cx.table.iter_mut().find(|peer| waits(peer)) else { return };
        let id = peer.id;
        let Some((_, wanted)) = peer.serving.reading.take() else { return };
        let Some(bytes) = bytes else {
            if cx.take_log_line(id) {
                error!("peer={}: cannot load block {} from disk", id.0, wanted.hash);
            }
            return cx.disconnect(id, DisconnectReason::BlockUnreadable);
        };
        let hash = wanted.hash;
        if !send_block(cx, id, wanted, bytes) {
            return;
        }
        continue_announcing(cx, id, hash);
        self.serve(cx, recent, id);
    }

    pub(super) fn on_getblocktxn(
        &self,
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
        // Sent whole, an old block costs the peer what it costs us to read.
        let form = if block.height + MAX_TRANSACTIONS_DEPTH >= tip.height {
            Form::Transactions(Box::new(request))
        } else {
            Form::Witness
        };
        let Some(peer) = cx.table.get_mut(id) else { return };
        let wanted = &mut peer.serving.wanted;
        let transactions = |wanted: &&Wanted| matches!(wanted.form, Form::Transactions(_));
        if wanted.len() >= MAX_WANTED
            || wanted.iter().filter(transactions).count() >= MAX_WANTED_TRANSACTIONS
        {
            return debug!("peer={}: too many requests, ignoring getblocktxn", id.0);
        }
        wanted.push_back(Wanted { hash, form });
        self.serve(cx, recent, id);
    }

    /// The driver has written so much to the peer.
    pub(super) fn on_sent(
        &mut self,
        cx: &mut Context<'_>,
        recent: Recent<'_>,
        id: PeerId,
        bytes: usize,
    ) {
        self.upload.record(cx.now.monotonic, bytes as u64);
        if let Some(peer) = cx.table.get_mut(id) {
            peer.queued = peer.queued.saturating_sub(bytes);
            self.serve(cx, recent, id);
        }
    }
}

fn read(cx: &mut Context<'_>, id: PeerId, header: HeaderId, wanted: Wanted) {
    let request = cx.out.next_read();
    let raw = matches!(wanted.form, Form::Witness);
    if let Some(peer) = cx.table.get_mut(id) {
        peer.serving.reading = Some((request, wanted));
        cx.out.push(ChainRequest::ReadBlock { request, peer: id, id: header, raw });
    }
}

/// Core `BlockRequestAllowed`: the best chain, and young valid branches.
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

/// The last announced block is at hand.
fn serve_recent(cx: &mut Context<'_>, recent: Recent<'_>, id: PeerId, wanted: &Wanted) -> bool {
    let recent = recent.filter(|recent| recent.hash == wanted.hash);
    let Some(recent) = recent else { return false };
    match &wanted.form {
        Form::Witness | Form::Stripped => return false,
        Form::Compact => {
            let message = Message::CmpctBlock(recent.compact.clone());
            cx.send(id, &message);
        }
        Form::Transactions(request) => match block_transactions(recent.block.view(), request) {
            Some(answer) => cx.send(id, &Message::BlockTxn(answer)),
            None => {
                cx.misbehave(id, Misbehaviour::TransactionsOutOfRange);
            }
        },
    }
    true
}

/// False when the peer was disconnected.
fn send_block(cx: &mut Context<'_>, id: PeerId, wanted: Wanted, bytes: PooledStream) -> bool {
    if let Form::Witness = wanted.form {
        cx.send_payload(id, Command::BLOCK, bytes);
        return cx.table.contains(id);
    }
    let Ok(block) = Block::decode(bytes) else {
        if cx.take_log_line(id) {
            error!("Block {} on disk does not decode", wanted.hash);
        }
        cx.disconnect(id, DisconnectReason::BlockUnreadable);
        return false;
    };
    match wanted.form {
        Form::Witness | Form::Stripped => {
            let mut stripped = cx.config.pool.take();
            strip(&block, &mut stripped);
            cx.send_payload(id, Command::BLOCK, stripped);
        }
        Form::Compact => send_compact(cx, id, &block),
        Form::Transactions(request) => match block_transactions(block.view(), &request) {
            Some(answer) => cx.send(id, &Message::BlockTxn(answer)),
            None => cx.misbehave(id, Misbehaviour::TransactionsOutOfRange),
        },
    }
    cx.table.contains(id)
}

/// Old blocks are sent whole: nobody has their transactions at hand.
fn send_compact(cx: &mut Context<'_>, id: PeerId, block: &Block) {
    let tip = cx.index.get(cx.index.tip()).height;
    let height = cx.index.find(&block.hash()).map(|header| cx.index.get(header).height);
    let young = height.is_some_and(|height| height + MAX_COMPACT_DEPTH >= tip);
    if young && cx.tip_is_recent() {
        let nonce = cx.rng.random();
        cx.send(id, &Message::CmpctBlock(compact_block(block.view(), nonce)));
    } else {
        let mut whole = cx.config.pool.take();
        whole.write(block.view().bytes());
        cx.send_payload(id, Command::BLOCK, whole);
    }
}

/// After the last block of a batch that `getblocks` announced, the tip is announced, even if it was
/// before: that makes the peer ask for the next batch.
fn continue_announcing(cx: &mut Context<'_>, id: PeerId, hash: BlockHash) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    if peer.serving.continuation == Some(hash) {
        peer.serving.continuation = None;
        cx.announce_inv(id, cx.index.tip());
    }
}

pub(super) fn on_getheaders(cx: &mut Context<'_>, id: PeerId, locator: &Locator) {
    let tip = cx.index.get(cx.index.tip());
    if tip.chain_work < cx.config.minimum_chain_work {
        // The peer would have to give up the sync that this began. An empty answer tells that we
        // are alive.
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
    // Not the better of both: a tip that was announced and is not in this answer is announced
    // again.
    cx.set_sent(id, ids.last().copied().unwrap_or(tip.id));
    cx.send(id, &Message::Headers(headers));
}

pub(super) fn on_getblocks(cx: &mut Context<'_>, id: PeerId, locator: &Locator) {
    let first = fork_with(cx.index, &locator.hashes).saturating_add(1);
    let mut ids = chain_part(cx.index, first, MAX_GETBLOCKS, locator.stop);
    let tip = cx.index.get(cx.index.tip()).height;
    let full = ids.len() == MAX_GETBLOCKS;
    if ids.last().is_some_and(|&last| cx.index.get(last).hash == locator.stop) {
        ids.pop();
    }
    if !cx.config.services.contains(Services::NETWORK) {
        let kept = |id: &HeaderId| {
            let block = cx.index.get(*id);
            block.stored && block.height.saturating_add(LIMITED_ANNOUNCED) > tip
        };
        let number = ids.iter().take_while(|&id| kept(id)).count();
        ids.truncate(number);
    }
    let hashes: Vec<BlockHash> = ids.iter().map(|&id| cx.index.get(id).hash).collect();
    let Some(last) = hashes.last().copied() else { return };
    if full && let Some(peer) = cx.table.get_mut(id) {
        peer.serving.continuation = Some(last);
    }
    let entry = |&hash| Inventory::block(InventoryKind::BLOCK, hash);
    cx.send(id, &Message::Inv(hashes.iter().map(entry).collect()));
}

/// The block without witnesses (BIP144).
fn strip(block: &Block, out: &mut DataStream) {
    let view = block.view();
    out.put(view.header());
    out.write_compact_size(view.tx_count() as u64);
    for tx in view.txs() {
        tx.to_owned().encode_stripped(out);
    }
}

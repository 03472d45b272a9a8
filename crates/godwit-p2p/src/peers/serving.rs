//! What peers ask for: blocks, one at a time and only as fast as they are taken, and headers.
//!
//! Source: Core `net_processing.cpp`, `ProcessGetBlockData`, `GETHEADERS`, `GETBLOCKS`, `GETBLOCKTXN`.

use std::collections::VecDeque;

use godwit_consensus::proof_equivalent_time;
use godwit_primitives::{Block, BlockHash};
use godwit_stream::{DataStream, PooledStream};
use log::{debug, error};

use super::fault::Misbehaviour;
use super::{Action, DisconnectReason, Peers, ReadId, View};
use crate::compact::{block_transactions, compact_block};
use crate::frame::{Command, FRAME_HEADER_SIZE, MAX_PAYLOAD};
use crate::index::{HeaderId, is_ancestor};
use crate::inventory::{Inventory, InventoryKind};
use crate::message::{
    BlockTransactionsRequest, Locator, MAX_HEADERS, MAX_INVENTORY, Message,
    NETWORK_LIMITED_MIN_BLOCKS, Services,
};
use crate::peer_id::PeerId;
use rand::Rng;

/// While more bytes than this are queued for a peer, nothing is read for it, and the driver should
/// not read from it unless a block is expected of it (Core `-maxsendbuffer`: 1000 kB).
pub const SEND_PAUSE: usize = 1_000_000;

/// A peer for which more would be queued is left: it does not read what it asks for. A pause, the
/// longest message, and room for a few answers that need no block.
pub const SEND_QUEUE_MAX: usize = 8_000_000;

// A pause, the longest message, and the answer to a full `getdata` of what can not be found.
const _: () = assert!(
    SEND_QUEUE_MAX
        >= SEND_PAUSE
            + MAX_PAYLOAD as usize
            + 3
            + MAX_INVENTORY * Inventory::SIZE
            + 2 * FRAME_HEADER_SIZE
);

/// Blocks that a peer may have asked for and not got so far; `notfound` for more. Core takes 50,000
/// and asks for 16 itself; clients that use `getblocks` ask for 500.
const MAX_WANTED: usize = 1_000;

/// Requests for transactions of blocks among them: each has up to 128 KiB of positions.
const MAX_WANTED_TRANSACTIONS: usize = 16;

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

/// What a peer has asked for.
#[derive(Default)]
pub(super) struct Serving {
    /// In order; at most [`MAX_WANTED`].
    wanted: VecDeque<Wanted>,
    /// What is being read for it.
    reading: Option<(ReadId, Wanted)>,
    /// Bytes handed to the driver that it has not reported as written, message headers included.
    pub(super) queued: usize,
    /// Asking for this block is the sign to announce what follows (Core `m_continuation_block`).
    continuation: Option<BlockHash>,
}

/// A block, or parts of it, for a peer.
#[derive(Clone, Debug)]
struct Wanted {
    hash: BlockHash,
    form: Form,
}

#[derive(Clone, Debug)]
enum Form {
    Witness,
    Stripped,
    Compact,
    Transactions(Box<BlockTransactionsRequest>),
}

/// What can be done about a request.
enum Answer {
    Read(HeaderId),
    NotFound,
    Disconnect(DisconnectReason),
}

impl Peers {
    /// A `getdata`. What is no block, and more blocks than fit the queue, is answered by one `notfound`.
    pub(super) fn on_getdata(&mut self, view: View<'_>, id: PeerId, entries: &[Inventory]) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
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
            self.send(view.now, id, &Message::NotFound(missing));
        }
        self.serve(view, id);
    }

    /// Goes on with what the peer asked for, as far as it takes it.
    pub(super) fn serve(&mut self, view: View<'_>, id: PeerId) {
        let mut missing = Vec::new();
        loop {
            let Some(peer) = self.peers.get_mut(&id) else { return };
            let serving = &mut peer.serving;
            if serving.reading.is_some() || serving.queued > SEND_PAUSE {
                break;
            }
            let Some(wanted) = serving.wanted.pop_front() else { break };
            if self.serve_recent(view, id, &wanted) {
                continue;
            }
            match self.answer(view, id, &wanted) {
                Answer::Read(header) => self.read(id, header, wanted),
                Answer::NotFound => missing.extend(wanted.entry()),
                Answer::Disconnect(why) => return self.disconnect(view.now, id, why),
            }
        }
        if !missing.is_empty() {
            self.send(view.now, id, &Message::NotFound(missing));
        }
    }

    fn read(&mut self, id: PeerId, header: HeaderId, wanted: Wanted) {
        let request = self.next_read_id();
        let raw = matches!(wanted.form, Form::Witness);
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.serving.reading = Some((request, wanted));
            self.actions.push_back(Action::ReadBlock { request, peer: id, id: header, raw });
        }
    }

    /// Core `ProcessGetBlockData`, but for saying `notfound` where Core says nothing.
    fn answer(&self, view: View<'_>, id: PeerId, wanted: &Wanted) -> Answer {
        let Some(header) = view.index.find(&wanted.hash) else { return Answer::NotFound };
        let Some(peer) = self.peers.get(&id) else { return Answer::NotFound };
        if !self.may_be_served(view, header) {
            return Answer::NotFound;
        }
        let block = view.index.get(header);
        let best = view.index.get(view.index.best_header());
        let age = i64::from(best.header.time) - i64::from(block.header.time);
        if age > HISTORICAL_AGE && self.upload.is_reached_for_old_blocks(view.now.monotonic) {
            return Answer::Disconnect(DisconnectReason::UploadTarget);
        }
        let tip = view.index.get(view.index.tip());
        let pruned = !self.config.services.contains(Services::NETWORK);
        if pruned && tip.height.saturating_sub(block.height) > LIMITED_SERVED {
            // It would wait for the block; and where exactly we pruned is nobody's business.
            debug!("peer={}: asks for pruned block {}", peer.id.0, block.height);
            return Answer::Disconnect(DisconnectReason::PrunedBlock);
        }
        if !block.stored || block.height < view.index.prune_height() {
            return Answer::NotFound;
        }
        Answer::Read(header)
    }

    /// Core `BlockRequestAllowed`: the best chain, and young valid branches.
    fn may_be_served(&self, view: View<'_>, header: HeaderId) -> bool {
        if is_ancestor(view.index, header, view.index.tip()) {
            return true;
        }
        let block = view.index.get(header);
        let best = view.index.get(view.index.best_header());
        let age = i64::from(best.header.time) - i64::from(block.header.time);
        let (to, from) = (best.chain_work, block.chain_work);
        block.connected
            && !block.failed
            && age < STALE_AGE_LIMIT
            && proof_equivalent_time(to, from, best.header.bits, &self.config.params)
                < STALE_AGE_LIMIT
    }

    /// The last announced block is at hand.
    fn serve_recent(&mut self, view: View<'_>, id: PeerId, wanted: &Wanted) -> bool {
        let recent = self.recent_block.as_ref().filter(|recent| recent.hash == wanted.hash);
        let Some(recent) = recent else { return false };
        match &wanted.form {
            Form::Witness | Form::Stripped => return false,
            Form::Compact => {
                let message = Message::CmpctBlock(recent.compact.clone());
                self.send(view.now, id, &message);
            }
            Form::Transactions(request) => match block_transactions(recent.block.view(), request) {
                Some(answer) => self.send(view.now, id, &Message::BlockTxn(answer)),
                None => {
                    self.misbehave(view.now, id, Misbehaviour::TransactionsOutOfRange);
                }
            },
        }
        true
    }

    /// The answer to an [`Action::ReadBlock`] for a peer.
    pub(super) fn block_served(
        &mut self,
        view: View<'_>,
        request: ReadId,
        bytes: Option<PooledStream>,
    ) {
        let waits = |peer: &super::Peer| {
            peer.serving.reading.as_ref().is_some_and(|(reading, _)| *reading == request)
        };
        let Some(peer) = self.peers.values_mut().find(|peer| waits(peer)) else { return };
        let id = peer.id;
        let Some((_, wanted)) = peer.serving.reading.take() else { return };
        let Some(bytes) = bytes else {
            if self.may_log(view.now, id) {
                error!("peer={}: cannot load block {} from disk", id.0, wanted.hash);
            }
            return self.disconnect(view.now, id, DisconnectReason::BlockUnreadable);
        };
        let hash = wanted.hash;
        if !self.send_block(view, id, wanted, bytes) {
            return;
        }
        self.continue_announcing(view, id, hash);
        self.serve(view, id);
    }

    /// False when the peer was disconnected.
    fn send_block(
        &mut self,
        view: View<'_>,
        id: PeerId,
        wanted: Wanted,
        bytes: PooledStream,
    ) -> bool {
        if let Form::Witness = wanted.form {
            self.send_payload(view.now, id, Command::BLOCK, bytes);
            return self.peers.contains_key(&id);
        }
        let Ok(block) = Block::decode(bytes) else {
            if self.may_log(view.now, id) {
                error!("Block {} on disk does not decode", wanted.hash);
            }
            self.disconnect(view.now, id, DisconnectReason::BlockUnreadable);
            return false;
        };
        match wanted.form {
            Form::Witness | Form::Stripped => {
                let mut stripped = self.config.pool.take();
                strip(&block, &mut stripped);
                self.send_payload(view.now, id, Command::BLOCK, stripped);
            }
            Form::Compact => self.send_compact(view, id, &block),
            Form::Transactions(request) => match block_transactions(block.view(), &request) {
                Some(answer) => self.send(view.now, id, &Message::BlockTxn(answer)),
                None => self.misbehave(view.now, id, Misbehaviour::TransactionsOutOfRange),
            },
        }
        self.peers.contains_key(&id)
    }

    /// Old blocks are sent whole: nobody has their transactions at hand.
    fn send_compact(&mut self, view: View<'_>, id: PeerId, block: &Block) {
        let tip = view.index.get(view.index.tip()).height;
        let height = view.index.find(&block.hash()).map(|header| view.index.get(header).height);
        let young = height.is_some_and(|height| height + MAX_COMPACT_DEPTH >= tip);
        if young && self.tip_is_recent(view) {
            let nonce = self.rng.random();
            self.send(view.now, id, &Message::CmpctBlock(compact_block(block.view(), nonce)));
        } else {
            let mut whole = self.config.pool.take();
            whole.write(block.view().bytes());
            self.send_payload(view.now, id, Command::BLOCK, whole);
        }
    }

    /// After the last block of a batch that `getblocks` announced, the tip is announced, even if it was
    /// before: that makes the peer ask for the next batch.
    fn continue_announcing(&mut self, view: View<'_>, id: PeerId, hash: BlockHash) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        if peer.serving.continuation == Some(hash) {
            peer.serving.continuation = None;
            self.announce_inv(view, id, view.index.tip());
        }
    }

    pub(super) fn on_getblocktxn(
        &mut self,
        view: View<'_>,
        id: PeerId,
        request: BlockTransactionsRequest,
    ) {
        let hash = request.block_hash;
        let Some(header) = view.index.find(&hash) else { return };
        let block = view.index.get(header);
        let tip = view.index.get(view.index.tip());
        if !block.stored {
            return debug!("peer={}: getblocktxn for a block that is not here", id.0);
        }
        // Sent whole, an old block costs the peer what it costs us to read.
        let form = if block.height + MAX_TRANSACTIONS_DEPTH >= tip.height {
            Form::Transactions(Box::new(request))
        } else {
            Form::Witness
        };
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let wanted = &mut peer.serving.wanted;
        let transactions = |wanted: &&Wanted| matches!(wanted.form, Form::Transactions(_));
        if wanted.len() >= MAX_WANTED
            || wanted.iter().filter(transactions).count() >= MAX_WANTED_TRANSACTIONS
        {
            return debug!("peer={}: too many requests, ignoring getblocktxn", id.0);
        }
        wanted.push_back(Wanted { hash, form });
        self.serve(view, id);
    }

    pub(super) fn on_getheaders(&mut self, view: View<'_>, id: PeerId, locator: &Locator) {
        let tip = view.index.get(view.index.tip());
        if tip.chain_work < self.config.minimum_chain_work {
            // The peer would have to give up the sync that this began. An empty answer tells that we
            // are alive.
            return self.send(view.now, id, &Message::Headers(Vec::new()));
        }
        let first = if locator.hashes.is_empty() {
            let Some(stop) = view.index.find(&locator.stop) else { return };
            if !self.may_be_served(view, stop) {
                return;
            }
            let header = view.index.get(stop).header;
            self.send(view.now, id, &Message::Headers(vec![header]));
            return self.sent_header(id, stop);
        } else {
            fork_with(view, &locator.hashes).saturating_add(1)
        };
        let ids = chain_part(view, first, MAX_HEADERS, locator.stop);
        let headers = ids.iter().map(|&id| view.index.get(id).header).collect();
        // Not the better of both: a tip that was announced and is not in this answer is announced
        // again.
        self.sent_header(id, ids.last().copied().unwrap_or(tip.id));
        self.send(view.now, id, &Message::Headers(headers));
    }

    pub(super) fn on_getblocks(&mut self, view: View<'_>, id: PeerId, locator: &Locator) {
        let first = fork_with(view, &locator.hashes).saturating_add(1);
        let mut ids = chain_part(view, first, MAX_GETBLOCKS, locator.stop);
        let tip = view.index.get(view.index.tip()).height;
        let full = ids.len() == MAX_GETBLOCKS;
        if ids.last().is_some_and(|&last| view.index.get(last).hash == locator.stop) {
            ids.pop();
        }
        if !self.config.services.contains(Services::NETWORK) {
            let kept = |id: &HeaderId| {
                let block = view.index.get(*id);
                block.stored && block.height.saturating_add(LIMITED_ANNOUNCED) > tip
            };
            let number = ids.iter().take_while(|&id| kept(id)).count();
            ids.truncate(number);
        }
        let hashes: Vec<BlockHash> = ids.iter().map(|&id| view.index.get(id).hash).collect();
        let Some(last) = hashes.last().copied() else { return };
        if full && let Some(peer) = self.peers.get_mut(&id) {
            peer.serving.continuation = Some(last);
        }
        let entry = |&hash| Inventory::block(InventoryKind::BLOCK, hash);
        self.send(view.now, id, &Message::Inv(hashes.iter().map(entry).collect()));
    }

    /// The driver has written so much to the peer.
    pub(super) fn note_sent(&mut self, view: View<'_>, id: PeerId, bytes: usize) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.serving.queued = peer.serving.queued.saturating_sub(bytes);
            self.serve(view, id);
        }
    }

    /// Bytes and blocks that wait for the peer, for tests of the limits.
    #[cfg(test)]
    pub(super) fn waiting_requests(&self, id: PeerId) -> usize {
        self.peers.get(&id).map_or(0, |peer| peer.serving.wanted.len())
    }
}

impl Wanted {
    /// As it was asked for by `getdata`; nothing for `getblocktxn`.
    fn entry(&self) -> Option<Inventory> {
        let kind = match self.form {
            Form::Witness => InventoryKind::WITNESS_BLOCK,
            Form::Stripped => InventoryKind::BLOCK,
            Form::Compact => InventoryKind::CMPCT_BLOCK,
            Form::Transactions(_) => return None,
        };
        Some(Inventory::block(kind, self.hash))
    }
}

/// Height of the last block of our chain that a locator shares (Core `FindForkInGlobalIndex`).
fn fork_with(view: View<'_>, hashes: &[BlockHash]) -> u32 {
    let tip = view.index.tip();
    for header in hashes.iter().filter_map(|hash| view.index.find(hash)) {
        if is_ancestor(view.index, header, tip) {
            return view.index.get(header).height;
        }
        if is_ancestor(view.index, tip, header) {
            return view.index.get(tip).height;
        }
    }
    0
}

/// Up to `most` blocks of our chain from height `first`, up to `stop`.
fn chain_part(view: View<'_>, first: u32, most: usize, stop: BlockHash) -> Vec<HeaderId> {
    let tip = view.index.get(view.index.tip());
    let mut last = tip.height.min(first.saturating_add(most as u32 - 1));
    // Found before the walk, which then costs no more than the answer.
    if let Some(stop) = view.index.find(&stop).filter(|&stop| is_ancestor(view.index, stop, tip.id))
    {
        let height = view.index.get(stop).height;
        last = if height >= first { last.min(height) } else { last };
    }
    if first > last {
        return Vec::new();
    }
    // Walked backwards: each step is then one, and not a search.
    let mut ids = Vec::with_capacity((last - first + 1) as usize);
    let mut next = view.index.ancestor(tip.id, last);
    while let Some(id) = next
        && view.index.get(id).height >= first
    {
        ids.push(id);
        next = view.index.parent(id);
    }
    ids.reverse();
    ids
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

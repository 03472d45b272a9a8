//! Block relay: announces new blocks to peers, in the form that each asked for.

pub(super) mod recent;

use godwit_primitives::Block;
use godwit_stream::PooledStream;
use rand::Rng;

use super::action::{ChainRequest, ReadId};
use super::context::Context;
use crate::compact::compact_block;
use crate::index::{HeaderId, last_common_ancestor};
use crate::message::Message;
use crate::peer_id::PeerId;

use recent::RecentBlock;

/// Most blocks that are announced by headers at once (Core `MAX_BLOCKS_TO_ANNOUNCE`).
const MAX_BLOCKS_TO_ANNOUNCE: usize = 8;

/// How a tip is announced to a peer.
#[derive(Debug, PartialEq, Eq)]
enum Form {
    /// Not at all: the peer has it already, or could not connect it.
    Nothing,
    Headers(Vec<HeaderId>),
    Compact,
    Inv,
}

/// An announcement that waits for the tip to be read from disk.
struct PendingAnnouncement {
    read: ReadId,
    tip: HeaderId,
    waiting: Vec<PeerId>,
}

/// See the module's documentation.
pub(super) struct BlockRelay {
    tip: HeaderId,
    recent: Option<Box<RecentBlock>>,
    pending: Option<PendingAnnouncement>,
}

impl BlockRelay {
    /// `tip` is not announced: peers ask for it.
    pub(super) fn new(tip: HeaderId) -> Self {
        Self { tip, recent: None, pending: None }
    }

    /// The last block that was announced in compact form, to serve requests for its parts.
    pub(super) fn recent(&self) -> Option<&RecentBlock> {
        self.recent.as_deref()
    }

    /// Sets the tip; returns the former one if it was another.
    pub(super) fn set_tip(&mut self, tip: HeaderId) -> Option<HeaderId> {
        let old = std::mem::replace(&mut self.tip, tip);
        (old != tip).then_some(old)
    }

    /// Whether this read is for the pending announcement.
    pub(super) fn waits_for(&self, read: ReadId) -> bool {
        self.pending.as_ref().is_some_and(|pending| pending.read == read)
    }

    /// Announces a new tip to all peers (Core `UpdatedBlockTip` and the announcements in
    /// `SendMessages`).
    pub(super) fn announce(&mut self, cx: &mut Context<'_>, old: HeaderId, new: HeaderId) {
        let fork = last_common_ancestor(cx.index, old, new);
        let fork_height = cx.index.get(fork).height;
        let mut fresh = Vec::new();
        let mut next = Some(new);
        while let Some(id) = next
            && cx.index.get(id).height > fork_height
            && fresh.len() < MAX_BLOCKS_TO_ANNOUNCE
        {
            fresh.push(id);
            next = cx.index.parent(id);
        }
        fresh.reverse();
        if fresh.is_empty() {
            return;
        }
        self.flush(cx);
        for id in cx.table.ids() {
            self.announce_to(cx, id, &fresh);
        }
    }

    /// The handshake of a peer is complete. It hears of the tip that came meanwhile: by the height of our
    /// `version` it may believe that it knows the latest (Core keeps `m_blocks_for_headers_relay`).
    pub(super) fn announce_missed(&mut self, cx: &mut Context<'_>, id: PeerId) {
        let tip = self.tip;
        if cx.table.get_mut(id).is_some_and(|peer| peer.known.take_missed_tip()) {
            self.announce_to(cx, id, &[tip]);
        }
    }

    fn announce_to(&mut self, cx: &mut Context<'_>, id: PeerId, fresh: &[HeaderId]) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        if !peer.established() {
            return peer.known.miss_tip();
        }
        peer.known.update(cx.index);
        let tip = *fresh.last().expect("not empty");
        match form(cx, id, fresh) {
            Form::Nothing => {}
            Form::Headers(ids) => announce_headers(cx, id, &ids),
            Form::Compact => self.announce_compact(cx, id, tip),
            Form::Inv => cx.announce_inv(id, tip),
        }
    }

    /// Announces the tip by a compact block, at once or when it has been read; in another form while an
    /// older tip is still being read for this, so that it is one at a time.
    fn announce_compact(&mut self, cx: &mut Context<'_>, id: PeerId, tip: HeaderId) {
        if let Some(recent) = self.recent.as_ref().filter(|recent| recent.id == tip) {
            let message = Message::CmpctBlock(recent.compact.clone());
            cx.send(id, &message);
            return cx.set_sent(id, tip);
        }
        if let Some(pending) = &mut self.pending {
            return pending.waiting.push(id);
        }
        if cx.memory.reads_tip() {
            return announce_otherwise(cx, id, tip);
        }
        let read = cx.out.next_read();
        self.pending = Some(PendingAnnouncement { read, tip, waiting: vec![id] });
        cx.memory.begin_tip_read(read);
        cx.out.push(ChainRequest::ReadBlock { request: read, peer: id, id: tip, raw: false });
    }

    /// The tip was read for peers that want it in compact form.
    pub(super) fn on_read(&mut self, cx: &mut Context<'_>, bytes: Option<PooledStream>) {
        let Some(pending) = self.pending.take() else { return };
        let Some(block) = bytes.and_then(|bytes| Block::decode(bytes).ok()) else {
            return give_up(cx, pending);
        };
        let compact = compact_block(block.view(), cx.rng.random());
        let (id, hash) = (pending.tip, block.hash());
        self.recent = Some(Box::new(RecentBlock { id, hash, block, compact }));
        for peer in pending.waiting {
            if !has_header(cx, peer, id) {
                self.announce_compact(cx, peer, id);
            }
        }
    }

    /// A newer tip is about to be announced: announces the last one to the peers that still wait
    /// for it.
    fn flush(&mut self, cx: &mut Context<'_>) {
        if let Some(pending) = self.pending.take() {
            give_up(cx, pending);
        }
    }
}

/// Headers, if they connect on the other side; a compact block only for a single new block;
/// otherwise `inv`.
fn form(cx: &Context<'_>, id: PeerId, fresh: &[HeaderId]) -> Form {
    let Some(peer) = cx.table.get(id) else { return Form::Nothing };
    let known = &peer.known;
    let tip = *fresh.last().expect("not empty");
    if known.has(cx.index, tip) {
        return Form::Nothing;
    }
    let compact = peer.handshake.wants_compact;
    if !peer.handshake.prefers_headers && (!compact || fresh.len() > 1) {
        return Form::Inv;
    }
    let unknown = fresh.iter().position(|&block| !known.has(cx.index, block));
    let first = fresh[unknown.expect("the tip is unknown")];
    let connects = cx.index.parent(first).is_none_or(|parent| known.has(cx.index, parent));
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

/// Whether the peer, if still connected, has the header.
fn has_header(cx: &Context<'_>, id: PeerId, header: HeaderId) -> bool {
    cx.table.get(id).is_some_and(|peer| peer.known.has(cx.index, header))
}

fn announce_headers(cx: &mut Context<'_>, id: PeerId, ids: &[HeaderId]) {
    let headers = ids.iter().map(|&id| cx.index.get(id).header).collect();
    cx.send(id, &Message::Headers(headers));
    cx.set_sent(id, *ids.last().expect("not empty"));
}

fn give_up(cx: &mut Context<'_>, pending: PendingAnnouncement) {
    for id in pending.waiting {
        announce_otherwise(cx, id, pending.tip);
    }
}

/// Announces the tip in another form than a compact block, unless the peer has it.
fn announce_otherwise(cx: &mut Context<'_>, id: PeerId, tip: HeaderId) {
    let Some(peer) = cx.table.get(id) else { return };
    if peer.known.has(cx.index, tip) {
        return;
    }
    if peer.handshake.prefers_headers {
        announce_headers(cx, id, &[tip]);
    } else {
        cx.announce_inv(id, tip);
    }
}

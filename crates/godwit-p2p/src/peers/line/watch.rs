//! Evidence from peers about our line: data arrives from them, or nothing does although they owe answers.

use std::time::Duration;

use super::super::context::Context;
use super::super::headers::owes_headers;
use super::super::misbehaviour::DisconnectReason;
use super::super::peer::Peer;
use super::super::ping;
use super::{ASK_AFTER, MAX_UNJUDGED, Return};
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;

/// An answer to a ping that is owed for longer may never come, which others need not be asked about.
const PONG_OWED_FOR: Duration = Duration::from_secs(60);

/// Peers that are asked at a time: one may be busy.
const ASK_AT_ONCE: usize = 2;

/// Whether the peer's bytes have passed our line to the outside. Who connects from this machine or a
/// network of ours may not have; who comes from Tor there has.
pub(in crate::peers) fn is_outside(peer: &Peer) -> bool {
    !peer.inbound()
        || peer.privileges.through_onion
        || peer.address.is_none_or(|address| address.is_routable())
}

/// Something arrived from a peer.
pub(in crate::peers) fn heard_from(cx: &mut Context<'_>, id: PeerId) {
    if cx.table.get(id).is_some_and(is_outside) {
        heard(cx);
    }
}

/// Something arrived from outside.
pub(in crate::peers) fn heard(cx: &mut Context<'_>) {
    for address in cx.line.hear(cx.now) {
        cx.book.attempt(cx.now.unix, &address, true);
    }
}

/// A connection that was begun then could not be opened for want of an answer. `address`: what that
/// counts against, if it does.
pub(in crate::peers) fn unanswered(
    cx: &mut Context<'_>,
    begun: Duration,
    address: Option<NetAddress>,
) {
    if cx.line.heard > begun {
        if let Some(address) = address {
            cx.book.attempt(cx.now.unix, &address, true);
        }
        return;
    }
    failed_here(cx);
    if cx.line.unjudged.len() < MAX_UNJUDGED {
        cx.line.unjudged.extend(address);
    }
}

/// A connection failed because of our own network.
pub(in crate::peers) fn failed_here(cx: &mut Context<'_>) {
    cx.line.failed = cx.line.failed.saturating_add(1);
}

/// Asks for a sign of life when it is due, says when there is none, and lets go of connections that did
/// not survive. `owes_block`: the peer was asked for one.
pub(in crate::peers) fn maintain(cx: &mut Context<'_>, owes_block: impl Fn(PeerId) -> bool) {
    let now = cx.now;
    cx.line.peers = cx.table.iter().filter(|peer| peer.established() && is_outside(peer)).count();
    if cx.line.is_asking_due(now) && is_something_owed(cx, owes_block) {
        let first = cx.line.asked.map_or(now.monotonic, |(first, _)| first);
        cx.line.asked = Some((first, now.monotonic));
        ask(cx, ASK_AT_ONCE);
    }
    cx.line.declare(now);
    let Some(Return { at, patience_ends }) = cx.line.returned else { return };
    let silent = |peer: &&Peer| {
        peer.established() && is_outside(peer) && peer.last_received < at && !peer.flow.held
    };
    let silent: Vec<PeerId> = cx.table.iter().filter(silent).map(|peer| peer.id).collect();
    if now.monotonic < patience_ends {
        silent.into_iter().for_each(|id| ping::ask(cx, id));
        return;
    }
    cx.line.returned = None;
    for id in silent {
        let asked = |peer: &Peer| peer.ping.nonce.is_some();
        if cx.table.get(id).is_some_and(asked) {
            cx.disconnect(id, DisconnectReason::LostWithLine);
        }
    }
}

fn is_something_owed(cx: &Context<'_>, owes_block: impl Fn(PeerId) -> bool) -> bool {
    let pong = ASK_AFTER..PONG_OWED_FOR;
    let recent = |since: Duration| pong.contains(&cx.now.monotonic.saturating_sub(since));
    let owes = |peer: &Peer| {
        owes_block(peer.id)
            || owes_headers(cx, peer.id)
            || peer.ping.nonce.is_some() && peer.ping.sent_at.is_some_and(recent)
    };
    cx.line.failed > 0
        || cx.table.iter().any(|peer| peer.established() && is_outside(peer) && owes(peer))
}

/// Pings so many peers, those first that were pinged longest ago.
fn ask(cx: &mut Context<'_>, count: usize) {
    let free = |peer: &&Peer| {
        peer.established() && is_outside(peer) && peer.ping.nonce.is_none() && !peer.flow.held
    };
    let mut free: Vec<_> =
        cx.table.iter().filter(free).map(|peer| (peer.ping.sent_at, peer.id)).collect();
    free.sort_unstable();
    for (_, id) in free.into_iter().take(count) {
        ping::ask(cx, id);
    }
}

//! Pings: does a peer still answer, and how fast?

use std::time::Duration;

use rand::Rng;

use super::context::Context;
use super::misbehaviour::DisconnectReason;
use super::peer::Ping;
use crate::message::Message;
use crate::peer_id::PeerId;

/// Time between pings (Core `PING_INTERVAL`).
const PING_INTERVAL: Duration = Duration::from_secs(2 * 60);

/// Longest wait for the answer to a ping (Core `TIMEOUT_INTERVAL`).
const TIMEOUT_INTERVAL: Duration = Duration::from_secs(20 * 60);

/// In later protocol versions pings have a nonce and are answered (BIP31, Core `BIP0031_VERSION`).
const BIP31_VERSION: i32 = 60_000;

/// Forgets a ping that has not been answered for long: while nothing was read from the peer, its
/// answer may have waited. Another ping will be sent.
pub(super) fn excuse(ping: &mut Ping, now: Duration) {
    if ping.sent_at.is_some_and(|sent| now.saturating_sub(sent) > PING_INTERVAL) {
        ping.nonce = None;
    }
}

/// Pings the peer when a ping is due (Core `MaybeSendPing`); false when it was disconnected.
pub(super) fn maintain(cx: &mut Context<'_>, id: PeerId) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    if peer.flow.held {
        // Its answer would not be read.
        return true;
    }
    let waited = peer.ping.sent_at.map(|sent| cx.now.monotonic.saturating_sub(sent));
    if peer.ping.nonce.is_some() {
        if waited.is_some_and(|waited| waited > TIMEOUT_INTERVAL) {
            cx.disconnect(id, DisconnectReason::PingTimeout);
            return false;
        }
        return true;
    }
    if waited.is_none_or(|waited| waited > PING_INTERVAL) {
        send(cx, id);
    }
    true
}

/// Asks a peer for a sign of life, if it was not asked already and can answer.
pub(super) fn ask(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get(id) else { return };
    if peer.ping.nonce.is_none() && peer.handshake.common_version > BIP31_VERSION {
        send(cx, id);
    }
}

fn send(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    peer.ping.sent_at = Some(cx.now.monotonic);
    let nonce =
        (peer.handshake.common_version > BIP31_VERSION).then(|| cx.rng.random_range(1..=u64::MAX));
    peer.ping.nonce = nonce;
    cx.send(id, &Message::Ping(nonce));
}

pub(super) fn on_ping(cx: &mut Context<'_>, id: PeerId, nonce: Option<u64>) {
    let Some(peer) = cx.table.get(id) else { return };
    if let (true, Some(nonce)) = (peer.handshake.common_version > BIP31_VERSION, nonce) {
        cx.send(id, &Message::Pong(nonce));
    }
}

/// A wrong nonce belongs to an earlier ping and is no answer; zero is a known bug of other software
/// and ends the wait (Core `ProcessPong`).
pub(super) fn on_pong(cx: &mut Context<'_>, id: PeerId, nonce: u64) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    let ping = &mut peer.ping;
    if ping.nonce == Some(nonce) {
        let sent_at = ping.sent_at.unwrap_or(cx.now.monotonic);
        let took = cx.now.monotonic.saturating_sub(sent_at);
        ping.last = Some(took);
        ping.shortest = Some(ping.shortest.map_or(took, |shortest| shortest.min(took)));
    }
    if nonce == 0 || ping.nonce == Some(nonce) {
        ping.nonce = None;
    }
}

//! Timeouts of connections: handshake, silence, address fetch.

use std::time::Duration;

use super::context::Context;
use super::misbehaviour::DisconnectReason;
use crate::connection_kind::ConnectionKind;
use crate::peer_id::PeerId;

/// Longest time from connecting to `version`, and from there to `verack`. (Core has one for both,
/// `DEFAULT_PEER_CONNECT_TIMEOUT`. On a line that is flooded until each message takes half a minute no
/// handshake ends in that.)
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longest silence (Core `TIMEOUT_INTERVAL`).
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// Longest address fetch (Core: ten times the broadcast interval).
const ADDR_FETCH_TIMEOUT: Duration = Duration::from_secs(10 * 30);

/// Disconnects a peer whose time is up. False when it was disconnected, or its handshake is not
/// complete.
pub(super) fn maintain(cx: &mut Context<'_>, id: PeerId) -> bool {
    let now = cx.now.monotonic;
    let Some(peer) = cx.table.get(id) else { return false };
    let age = now.saturating_sub(peer.connected_at);
    let greeting = cx.line.time().saturating_sub(peer.handshake.begun);
    let why = if !peer.established() && greeting > HANDSHAKE_TIMEOUT {
        DisconnectReason::HandshakeTimeout
    } else if now.saturating_sub(peer.last_received) > SILENCE_TIMEOUT {
        DisconnectReason::Idle
    } else if peer.kind == ConnectionKind::AddrFetch && age > ADDR_FETCH_TIMEOUT {
        DisconnectReason::AddrFetchDone
    } else {
        return peer.established();
    };
    cx.disconnect(id, why);
    false
}

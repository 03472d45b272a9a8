//! How long a connection may go on without doing what it is for.

use std::time::Duration;

use super::context::Context;
use super::fault::DisconnectReason;
use crate::connection_kind::ConnectionKind;
use crate::peer_id::PeerId;

/// From connecting to `verack` (Core `DEFAULT_PEER_CONNECT_TIMEOUT`).
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(60);
/// Silence ends the connection after that (Core `TIMEOUT_INTERVAL`).
const SILENCE_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// An address fetch that gave nothing is given up (Core: ten times the broadcast interval).
const ADDR_FETCH_TIMEOUT: Duration = Duration::from_secs(10 * 30);

/// The handshake, an address fetch and silence have their time; false when the peer was let go, or
/// has not said hello yet.
pub(super) fn maintain(cx: &mut Context<'_>, id: PeerId) -> bool {
    let now = cx.now.monotonic;
    let Some(peer) = cx.table.get(id) else { return false };
    let age = now.saturating_sub(peer.connected_at);
    let why = if !peer.established() && age > HANDSHAKE_TIMEOUT {
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

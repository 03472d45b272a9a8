//! When reading from a peer pauses.
//!
//! As in Core, nothing that a peer sends after a request is processed before the request is served:
//! answers keep their order, and the requests that wait are bounded by what one message can ask
//! for.
//!
//! ```text
//!           getdata or getblocktxn                    requests empty, or a block is owed to us
//! reading ---------------------------> held, serving -------------- ReadOn ---------------> reading
//! ```
//!
//! Source: Core `net_processing.cpp`, `ProcessMessages`, `ProcessGetData`, `m_getdata_requests`.

use super::action::NetCommand;
use super::context::Context;
use super::ping;
use crate::frame::Command;
use crate::peer_id::PeerId;

/// A message arrived. If it stops reading, the driver reads nothing more from the peer.
pub(super) fn hold(cx: &mut Context<'_>, id: PeerId, command: Command) {
    if command.stops_reading()
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.flow.held = true;
    }
}

/// Has the driver go on reading from a peer, if reading stopped and need not any longer.
pub(super) fn read_on(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    if peer.flow.held && peer.serving.may_read_on(peer.flow.expects_block) {
        peer.flow.held = false;
        ping::excuse(&mut peer.ping, cx.now.monotonic);
        cx.out.push(NetCommand::ReadOn { peer: id });
    }
}

/// While the chain takes no blocks, those that have arrived wait in the driver's queue, and what their
/// senders say waits behind them, read or not: that is no silence of theirs, however slow our disk is.
pub(super) fn excuse_silence(cx: &mut Context<'_>) {
    let now = cx.now.monotonic;
    for id in cx.table.ids() {
        if let Some(peer) = cx.table.get_mut(id) {
            peer.last_received = now;
            ping::excuse(&mut peer.ping, now);
        }
    }
}

/// Tells the transport whether to keep block payloads from the peer.
pub(super) fn expect_block(cx: &mut Context<'_>, id: PeerId, expected: bool) {
    if let Some(peer) = cx.table.get_mut(id)
        && peer.flow.expects_block != expected
    {
        peer.flow.expects_block = expected;
        if !expected {
            // While the chain took no blocks, nothing was read from the peer, nor heard of what it took.
            peer.flow.footprint.restart(cx.now.monotonic);
        }
        cx.out.push(NetCommand::ExpectBlock { peer: id, expected });
        read_on(cx, id);
    }
}

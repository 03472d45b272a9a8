//! When more is read of what a peer says.
//!
//! As in Core, nothing that a peer sends behind a request is looked at before the request is served:
//! answers keep their order, and what waits for a peer is bounded by what one message can ask for.
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

/// A message came behind which the driver reads nothing more of the peer.
pub(super) fn hold(cx: &mut Context<'_>, id: PeerId, command: Command) {
    if command.stops_reading()
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.flow.held = true;
    }
}

/// Lets the driver read on of a peer that is held and need not be any more.
pub(super) fn read_on(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    if peer.flow.held && peer.serving.may_read_on(peer.flow.expects_block) {
        peer.flow.held = false;
        ping::excuse(&mut peer.ping, cx.now.monotonic);
        cx.out.push(NetCommand::ReadOn { peer: id });
    }
}

/// Whether blocks of the peer are to be kept by the transport.
pub(super) fn expect_block(cx: &mut Context<'_>, id: PeerId, expected: bool) {
    if let Some(peer) = cx.table.get_mut(id)
        && peer.flow.expects_block != expected
    {
        peer.flow.expects_block = expected;
        cx.out.push(NetCommand::ExpectBlock { peer: id, expected });
        read_on(cx, id);
    }
}

//! One budget for what all connections together make this node hold.
//!
//! ```text
//!                 0                                    48 MiB           64 MiB
//! PEER_MEMORY     |-------------------------------------|----------------|
//! reading a block | up to 4 at once, in turn            | as before, but only for a peer
//!   for a peer    | (READS; 1 in our own initial        | that has taken everything
//!                 | download), while the largest        | it was sent
//!                 | block would still fit               |
//! reading from    | while at most SEND_PAUSE is         | while nothing is queued for it
//!   a peer        | queued for it                       |
//! disconnected    | nobody                              | once a peer has to wait for memory: the
//!                 |                                     | one that holds most of those that stall;
//!                 |                                     | above 64 MiB: at once, and if none
//!                 |                                     | stalls, the one that holds most
//! ```
//!
//! The engine keeps the account: it knows the buffers of messages that it hands out, and the driver
//! reports how much was written and what incomplete messages take.

pub(super) mod account;
pub(super) mod footprint;

use std::time::Duration;

use super::action::NetCommand;
use super::context::Context;
use super::misbehaviour::DisconnectReason;
use super::peer::Peer;
use crate::peer_id::PeerId;
use account::{PEER_MEMORY, READS, READS_IN_INITIAL_DOWNLOAD, held};

/// Whether one more block may be read for a peer.
pub(super) fn has_room_to_read(cx: &Context<'_>) -> bool {
    let reads = if cx.initial_download { READS_IN_INITIAL_DOWNLOAD } else { READS };
    cx.memory.reads() < reads && cx.memory.has_room_for_block(cx.table)
}

/// Disconnects peers while the budget is exceeded. To be called after anything that may have taken
/// memory.
pub(super) fn keep_budget(cx: &mut Context<'_>) {
    while cx.memory.total(cx.table) > PEER_MEMORY {
        let now = cx.now.monotonic;
        let holders = cx.table.iter().map(|peer| holder(peer, now));
        let Some(first) = first_to_go(holders) else { break };
        cx.disconnect(first.id, DisconnectReason::HoldsMemory);
    }
    if cx.memory.update(cx.memory.total(cx.table)) {
        cx.out.push(NetCommand::PauseAbove { queued: cx.memory.pause_above() });
    }
}

/// Called while a peer waits for memory: disconnects, of the peers that stall, the one that holds
/// most. False when none stalls.
pub(super) fn make_room(cx: &mut Context<'_>) -> bool {
    let now = cx.now.monotonic;
    let holders = cx.table.iter().map(|peer| holder(peer, now));
    let Some(first) = first_to_go(holders.filter(|holder| holder.stalled)) else { return false };
    cx.disconnect(first.id, DisconnectReason::HoldsMemory);
    true
}

/// What a connection holds, to choose the one to disconnect.
#[derive(Clone, Copy, Debug)]
struct Holder {
    id: PeerId,
    memory: usize,
    stalled: bool,
    inbound: bool,
}

/// The first peer to disconnect: one that stalls before one that does not, then an inbound one
/// before one that we chose, then the one that holds most.
fn first_to_go(holders: impl Iterator<Item = Holder>) -> Option<Holder> {
    holders
        .filter(|holder| holder.memory > 0)
        .max_by_key(|holder| (holder.stalled, holder.inbound, holder.memory))
}

fn holder(peer: &Peer, now: Duration) -> Holder {
    // A block that we requested is our own doing, and has deadlines of its own.
    let ours = if peer.flow.expects_block { peer.flow.footprint.receiving() } else { 0 };
    Holder {
        id: peer.id,
        memory: held(peer) - ours,
        stalled: peer.flow.footprint.is_stalled(now),
        inbound: peer.inbound(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lets_go_of_nothing_goes_first_then_who_came_then_who_holds_most() {
        let holder =
            |id, memory, stalled, inbound| Holder { id: PeerId(id), memory, stalled, inbound };
        let order = [
            holder(1, 5, true, true),
            holder(2, 1, true, true),
            holder(3, 900, true, false),
            holder(4, 50, false, true),
            holder(5, 40, false, true),
            holder(6, 1_000, false, false),
            holder(7, 0, true, true),
        ];
        let mut left: Vec<Holder> = order.into_iter().rev().collect();
        let mut gone = Vec::new();
        while let Some(first) = first_to_go(left.iter().copied()) {
            gone.push(first.id.0);
            left.retain(|holder| holder.id != first.id);
        }
        assert_eq!(gone, [1, 2, 3, 4, 5, 6], "who holds nothing never has to");
    }
}

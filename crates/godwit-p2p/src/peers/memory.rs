//! One budget for the memory that all peers together make this node hold.
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
//! disconnected    | nobody                              | while a peer waits for memory, until it
//!                 |                                     | has it: those that stall; then, while it is
//!                 |                                     | not blocks that take the room, those that
//!                 |                                     | hold most else; above 64 MiB: at once, by
//!                 |                                     | `Rank`
//! ```
//!
//! Blocks that are read for a peer are held against it only while it stalls, so a slow reader of them
//! keeps its connection, whatever others do:
//!
//! 1. Blocks are read in turn, and fill at most `BLOCKS_MEMORY`.
//! 2. All else that peers decide on, the *unscheduled* memory, takes no turn: requests, answers that need
//!    no block to be read, half-received messages. An equal share of `UNSCHEDULED_MEMORY` is held against
//!    nobody: it is no gain that a hundred peers lose a ping.
//! 3. `BLOCKS_MEMORY` and all shares together are `PEER_MEMORY`. So when it is exceeded, some peer holds
//!    more than its share and goes; likewise when a block for a peer does not fit although blocks leave
//!    room for it. Hence the budget holds, and what takes no turn never keeps a peer waiting for long.
//! 4. What this node asked for is not in this budget: the number of peers that are asked bounds it
//!    (`REQUESTED_MEMORY`), and it costs nobody a connection or a turn.
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
use account::{PEER_MEMORY, READS, READS_IN_INITIAL_DOWNLOAD, UNSCHEDULED_MEMORY, Usage};

/// Whether one more block may be read for a peer.
pub(super) fn has_room_to_read(cx: &mut Context<'_>) -> bool {
    has_free_read(cx) && cx.memory.usage(cx.table).has_room_for_block()
}

/// Whether so few blocks are being read for peers that one more may be.
fn has_free_read(cx: &Context<'_>) -> bool {
    cx.memory.reads() < if cx.initial_download { READS_IN_INITIAL_DOWNLOAD } else { READS }
}

/// Disconnects peers while the budget is exceeded. To be called after every event.
pub(super) fn keep_budget(cx: &mut Context<'_>) {
    let mut held = cx.memory.usage(cx.table).of_peers();
    while held > PEER_MEMORY
        && let Some(first) = first_to_go(cx)
    {
        cx.disconnect(first.id, DisconnectReason::HoldsMemory);
        held = cx.memory.usage(cx.table).of_peers();
    }
    if cx.memory.update(held) {
        cx.out.push(NetCommand::PauseAbove { queued: cx.memory.pause_above() });
    }
}

/// Called while a peer waits for a block to be read. If only memory is wanting, disconnects a peer that
/// stalls, or fills memory that blocks should have. False when there is nothing to do.
pub(super) fn make_room(cx: &mut Context<'_>) -> bool {
    let usage = cx.memory.usage(cx.table);
    if !has_free_read(cx) || usage.has_room_for_block() {
        return false;
    }
    let Some(first) = first_to_go(cx) else { return false };
    let goes = first.rank == Rank::Stalled || usage.is_crowded_out();
    if goes {
        cx.disconnect(first.id, DisconnectReason::HoldsMemory);
    }
    goes
}

/// Why a peer might have to go; the last goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It holds more than its share of what waits for no turn.
    Fills,
    /// It makes no progress, and holds blocks or more than its share of the rest.
    Stalled,
}

/// A peer that might have to go for what it holds.
#[derive(Clone, Copy, Debug)]
struct Holder {
    id: PeerId,
    rank: Rank,
    inbound: bool,
    /// Bytes that are held against it.
    weight: usize,
}

impl Holder {
    /// `share` is the unscheduled memory that is not held against a peer. None when nothing is.
    fn of(peer: &Peer, now: Duration, share: usize) -> Option<Self> {
        // While a peer owes us a block, the deadlines of the download judge its progress.
        let stalled = !peer.flow.expects_block && peer.flow.footprint.is_stalled(now);
        let rank = if stalled { Rank::Stalled } else { Rank::Fills };
        Self::new(peer.id, peer.inbound(), rank, Usage::of(peer), share)
    }

    fn new(id: PeerId, inbound: bool, rank: Rank, usage: Usage, share: usize) -> Option<Self> {
        let excess = usage.unscheduled.saturating_sub(share);
        let weight = match rank {
            Rank::Fills => excess,
            Rank::Stalled => usage.blocks + excess,
        };
        (weight > 0).then_some(Self { id, rank, inbound, weight })
    }
}

/// The first peer to disconnect: by rank, then an inbound one before one that we chose, then
/// the one that holds most.
fn first_to_go(cx: &Context<'_>) -> Option<Holder> {
    let share = UNSCHEDULED_MEMORY / cx.table.iter().count().max(1);
    choose(cx.table.iter().filter_map(|peer| Holder::of(peer, cx.now.monotonic, share)))
}

fn choose(holders: impl Iterator<Item = Holder>) -> Option<Holder> {
    holders.max_by_key(|holder| (holder.rank, holder.inbound, holder.weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which they go.
    fn order(holders: &[Option<Holder>]) -> Vec<u64> {
        let mut left: Vec<Holder> = holders.iter().rev().copied().flatten().collect();
        let mut gone = Vec::new();
        while let Some(first) = choose(left.iter().copied()) {
            gone.push(first.id.0);
            left.retain(|holder| holder.id != first.id);
        }
        gone
    }

    #[test]
    fn who_lets_go_of_nothing_goes_first_then_who_came_then_who_holds_most() {
        for of_blocks in [false, true] {
            let holder = |id, memory, rank, inbound| {
                let usage = match of_blocks {
                    true => Usage { blocks: memory, ..Usage::default() },
                    false => Usage { unscheduled: memory, ..Usage::default() },
                };
                Holder::new(PeerId(id), inbound, rank, usage, 0)
            };
            let holders = [
                holder(1, 5, Rank::Stalled, true),
                holder(2, 1, Rank::Stalled, true),
                holder(3, 900, Rank::Stalled, false),
                holder(4, 50, Rank::Fills, true),
                holder(5, 40, Rank::Fills, true),
                holder(6, 1_000, Rank::Fills, false),
                holder(7, 0, Rank::Stalled, true),
            ];
            let expected = [1, 2, 3, 4, 5, 6];
            let goes = if of_blocks { &expected[..3] } else { &expected };
            assert_eq!(order(&holders), goes, "who holds nothing, or takes blocks, never has to");
        }
    }

    #[test]
    fn who_takes_blocks_never_goes_and_who_stalls_keeps_only_its_share_of_the_rest() {
        let holder = |id, blocks, unscheduled, rank| {
            let usage = Usage { blocks, unscheduled, requested: 1_000_000 };
            Holder::new(PeerId(id), true, rank, usage, 100)
        };
        let holders = [
            holder(1, 90, 111, Rank::Stalled),
            holder(2, 100, 100, Rank::Stalled),
            holder(3, 0, 101, Rank::Stalled),
            holder(4, 0, 102, Rank::Fills),
            holder(5, 4_000, 101, Rank::Fills),
            holder(6, 5_000, 100, Rank::Fills),
            holder(7, 0, 100, Rank::Stalled),
            holder(8, 0, 0, Rank::Stalled),
        ];
        assert_eq!(order(&holders), [1, 2, 3, 4, 5]);
    }
}

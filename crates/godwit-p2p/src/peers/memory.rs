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
//! disconnected    | nobody                              | while a peer waits for memory, until it
//!                 |                                     | has it: those that stall; then, while
//!                 |                                     | more than UNSCHEDULED_MEMORY is not
//!                 |                                     | blocks for peers, those that hold it;
//!                 |                                     | above 64 MiB: at once, by `Rank`
//! ```
//!
//! A peer that takes blocks slowly keeps its connection, whatever others do:
//!
//! 1. Blocks are read in turn, and fill at most `BLOCKS_MEMORY`. By themselves they never exceed the
//!    budget.
//! 2. What exceeds it is what peers take without a turn: half-received messages, requests,
//!    pre-syncs, answers that need no block. By that alone peers are compared. An equal share of
//!    `UNSCHEDULED_MEMORY` is held against nobody: it is no gain that a hundred peers lose a ping.
//! 3. It does not keep blocks from being read for long: beyond `UNSCHEDULED_MEMORY` it has to go
//!    when a peer waits.
//!
//! Blocks that we asked for are in the account too, and held against no peer that we chose.
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
pub(super) fn has_room_to_read(cx: &Context<'_>) -> bool {
    let reads = if cx.initial_download { READS_IN_INITIAL_DOWNLOAD } else { READS };
    cx.memory.reads() < reads && cx.memory.has_room_for_block(cx.table)
}

/// Disconnects peers while the budget is exceeded. To be called after anything that may have taken
/// memory.
pub(super) fn keep_budget(cx: &mut Context<'_>) {
    let mut charged = cx.memory.usage(cx.table).charged();
    while charged > PEER_MEMORY {
        let Some(first) = first_to_go(cx) else { break };
        cx.disconnect(first.id, DisconnectReason::HoldsMemory);
        charged = cx.memory.usage(cx.table).charged();
    }
    if cx.memory.update(charged) {
        cx.out.push(NetCommand::PauseAbove { queued: cx.memory.pause_above() });
    }
}

/// Called while a peer waits for memory: disconnects one that stalls, or fills memory that blocks
/// for peers should have. False when there is none.
pub(super) fn make_room(cx: &mut Context<'_>) -> bool {
    let Some(first) = first_to_go(cx) else { return false };
    let goes = match first.rank {
        Rank::Stalled => true,
        Rank::Fills => cx.memory.usage(cx.table).is_crowded_out(),
        Rank::TakesBlocks | Rank::HoldsLittle => false,
    };
    if goes {
        cx.disconnect(first.id, DisconnectReason::HoldsMemory);
    }
    goes
}

/// Why a peer might be the one to disconnect; the last goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It holds so little that without it there would be hardly more room.
    HoldsLittle,
    /// It holds blocks that were read for it in turn, and takes them.
    TakesBlocks,
    /// It holds much that waits for no turn.
    Fills,
    /// It holds much and makes no progress.
    Stalled,
}

/// What a connection holds, to choose the one to disconnect.
#[derive(Clone, Copy, Debug)]
struct Holder {
    id: PeerId,
    rank: Rank,
    inbound: bool,
    /// Bytes by which those of the same rank are compared.
    weight: usize,
}

impl Holder {
    /// `share` is the memory that is not held against a peer.
    fn of(peer: &Peer, now: Duration, share: usize) -> Self {
        // While a peer owes us a block, the deadlines of the download judge its progress.
        let stalled = !peer.flow.expects_block && peer.flow.footprint.is_stalled(now);
        Self::new(peer.id, peer.inbound(), stalled, Usage::of(peer), share)
    }

    fn new(id: PeerId, inbound: bool, stalled: bool, usage: Usage, share: usize) -> Self {
        let Usage { blocks, unscheduled, .. } = usage;
        let (rank, weight) = match blocks + unscheduled {
            little if little <= share => (Rank::HoldsLittle, little),
            memory if stalled => (Rank::Stalled, memory),
            _ if unscheduled > share => (Rank::Fills, unscheduled),
            memory => (Rank::TakesBlocks, memory),
        };
        Self { id, rank, inbound, weight }
    }
}

/// The first peer to disconnect: by rank, then an inbound one before one that we chose, then
/// the one that holds most.
fn first_to_go(cx: &Context<'_>) -> Option<Holder> {
    let share = UNSCHEDULED_MEMORY / cx.table.iter().count().max(1);
    choose(cx.table.iter().map(|peer| Holder::of(peer, cx.now.monotonic, share)))
}

fn choose(holders: impl Iterator<Item = Holder>) -> Option<Holder> {
    holders
        .filter(|holder| holder.weight > 0)
        .max_by_key(|holder| (holder.rank, holder.inbound, holder.weight))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order in which they go.
    fn order(holders: &[Holder]) -> Vec<u64> {
        let mut left: Vec<Holder> = holders.iter().rev().copied().collect();
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
            let holder = |id, memory, stalled, inbound| {
                let usage = match of_blocks {
                    true => Usage { blocks: memory, ..Usage::default() },
                    false => Usage { unscheduled: memory, ..Usage::default() },
                };
                Holder::new(PeerId(id), inbound, stalled, usage, 0)
            };
            let holders = [
                holder(1, 5, true, true),
                holder(2, 1, true, true),
                holder(3, 900, true, false),
                holder(4, 50, false, true),
                holder(5, 40, false, true),
                holder(6, 1_000, false, false),
                holder(7, 0, true, true),
            ];
            assert_eq!(order(&holders), [1, 2, 3, 4, 5, 6], "who holds nothing never has to");
        }
    }

    #[test]
    fn blocks_go_after_all_else_and_trifles_last() {
        let holder = |id, blocks, unscheduled, stalled| {
            let usage = Usage { blocks, unscheduled, ..Usage::default() };
            Holder::new(PeerId(id), true, stalled, usage, 100)
        };
        let holders = [
            holder(1, 90, 11, true),
            holder(2, 0, 102, false),
            holder(3, 4_000, 101, false),
            holder(4, 5_000, 100, false),
            holder(5, 101, 0, false),
            holder(6, 50, 50, true),
            holder(7, 0, 99, false),
        ];
        assert_eq!(order(&holders), [1, 2, 3, 4, 5, 6, 7]);
    }
}

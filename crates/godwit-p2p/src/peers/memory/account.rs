//! The account of the memory that all connections together make this node hold.

use std::collections::{BTreeMap, BTreeSet};

use crate::frame::MAX_PAYLOAD;
use crate::peer_id::PeerId;
use crate::peers::action::ReadId;
use crate::peers::peer::Peer;
use crate::peers::send_limits::SEND_PAUSE;
use crate::peers::table::PeerTable;
use crate::slots::{
    MAX_ADD_NODE_CONNECTIONS, MAX_FEELERS, MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL,
    MAX_TRIED_CONNECTIONS,
};
use crate::transport::{MAX_CONTENTS, MESSAGE_BYTES};
use crate::v2::MAX_GARBAGE;

/// Most memory, in bytes, that peers can make this node hold by what they want and send: messages to
/// be sent, requests that wait, blocks that are read for them, and, of peers that connected to us,
/// half-received messages and pre-syncs of headers.
///
/// ```text
/// CONNECTIONS_MEMORY, 240 MiB
/// |------------- PEER_MEMORY -------------|------- REQUESTED_MEMORY -------|
/// |       BLOCKS_MEMORY       | UNSCHED-  | 27 x (message 4 MiB,           |
/// |  read for peers, in turn  | ULED 16   |       pre-sync 2.3 MB),        |
/// |          48 MiB           |   MiB     | tip that is to be announced    |
/// ```
pub const PEER_MEMORY: usize = 64 << 20;

/// Most memory, in bytes, of what this node itself asks for: half-received messages and pre-syncs of
/// the lasting peers that it connected to, and a tip that is read to be announced. It follows from the
/// number of these peers, and is never held against them or others.
pub(in crate::peers) const REQUESTED_MEMORY: usize = 176 << 20;

/// Most memory, in bytes, that all connections together make this node hold, on the main network. With
/// `-connect` the operator may name more than [`MAX_LASTING_OUTBOUND`] peers: each further one adds up to
/// [`MAX_ARRIVING`] and a pre-sync.
pub const CONNECTIONS_MEMORY: usize = PEER_MEMORY + REQUESTED_MEMORY;

/// The part of [`PEER_MEMORY`] that blocks for peers may take, including those that are being read.
pub(in crate::peers) const BLOCKS_MEMORY: usize = PEER_MEMORY / 4 * 3;

/// The part of [`PEER_MEMORY`] that is always there for what waits for no turn. More is lent until a
/// peer waits for a block to be read.
pub(in crate::peers) const UNSCHEDULED_MEMORY: usize = PEER_MEMORY - BLOCKS_MEMORY;

/// Most peers that this node connects to and asks for headers and blocks: those that it chooses, one
/// more at times, those of `-addnode`, and those that the operator tries once.
pub(in crate::peers) const MAX_LASTING_OUTBOUND: usize = MAX_OUTBOUND_FULL
    + MAX_OUTBOUND_BLOCK_RELAY
    + MAX_FEELERS
    + MAX_ADD_NODE_CONNECTIONS
    + MAX_TRIED_CONNECTIONS;

/// Most memory of a half-received message: the longest packet of an encrypted connection, and what is
/// kept of its handshake.
pub(in crate::peers) const MAX_ARRIVING: usize = 4 << 20;

const _: () = assert!(MAX_CONTENTS + 4 * MAX_GARBAGE <= MAX_ARRIVING);

/// Memory of a pre-sync on the main network in 2026, rounded up. [`memory_bound`] grows by 0.07 MB a
/// year, and is below 5 MB on test networks.
///
/// [`memory_bound`]: crate::presync::memory_bound
const PRESYNC: usize = 2_300_000;

const _: () =
    assert!(MAX_LASTING_OUTBOUND * (MAX_ARRIVING + PRESYNC) + LARGEST_BLOCK <= REQUESTED_MEMORY);

// Three pre-syncs at once with peers that connected to us leave blocks their room.
const _: () = assert!(3 * PRESYNC <= UNSCHEDULED_MEMORY && READS * LARGEST_BLOCK <= BLOCKS_MEMORY);

/// Above this, memory is short: what is left is for peers that take what they ask for.
pub(in crate::peers) const SHORT: usize = PEER_MEMORY / 4 * 3;

/// Down to this, memory stays short, so that not every message changes it.
pub(in crate::peers) const ENOUGH: usize = PEER_MEMORY / 8 * 5;

/// Blocks that are read for peers at once. As many keep a disk busy, and what was read and waits to be
/// taken apart has the size of a block, whatever part of it is to be sent.
pub(in crate::peers) const READS: usize = 4;

/// The same while this node downloads the chain itself: what its own blocks need comes first, and a worker
/// that reads for a peer decodes nothing.
pub(in crate::peers) const READS_IN_INITIAL_DOWNLOAD: usize = 1;

/// What a block that is being read is charged: as much as the longest answer that it is read for.
pub(in crate::peers) const LARGEST_BLOCK: usize = MAX_PAYLOAD as usize + MESSAGE_BYTES;

/// What all connections hold, and memory that belongs to none of them.
#[derive(Debug, Default)]
pub(in crate::peers) struct SharedMemory {
    /// Memory is short.
    short: bool,
    /// Blocks that are being read for peers, also for those that are gone.
    reading: BTreeSet<ReadId>,
    /// The tip that is being read to be announced, also when there is a newer one.
    reading_tip: Option<ReadId>,
    /// What each connection was last found to hold, and the sum of it.
    peers: BTreeMap<PeerId, Usage>,
    sum: Usage,
}

impl SharedMemory {
    pub(in crate::peers) fn begin_read(&mut self, request: ReadId) {
        self.reading.insert(request);
    }

    pub(in crate::peers) fn begin_tip_read(&mut self, request: ReadId) {
        self.reading_tip = Some(request);
    }

    pub(in crate::peers) fn end_read(&mut self, request: ReadId) {
        self.reading.remove(&request);
        self.reading_tip = self.reading_tip.filter(|&tip| tip != request);
    }

    /// Takes what peers hold; returns whether [`pause_above`](Self::pause_above) changes.
    pub(super) fn update(&mut self, of_peers: usize) -> bool {
        let short = of_peers > if self.short { ENOUGH } else { SHORT };
        std::mem::replace(&mut self.short, short) != short
    }

    /// Nothing is read for a peer, nor from it, while more bytes than this are queued for it.
    pub(in crate::peers) fn pause_above(&self) -> usize {
        if self.short { 0 } else { SEND_PAUSE }
    }

    /// What all connections together make this node hold. Looks at those alone that may have changed: at
    /// all 125 of them it takes 18 µs, for every event.
    pub(in crate::peers) fn usage(&mut self, table: &mut PeerTable) -> Usage {
        for id in table.take_touched() {
            let before = self.peers.remove(&id).unwrap_or_default();
            let now = table.get(id).map(Usage::of);
            self.sum = self.sum.plus(now.unwrap_or_default()).minus(before);
            self.peers.extend(now.map(|now| (id, now)));
        }
        self.sum.plus(self.reading())
    }

    /// The same, in bytes, without the running sum; see [`CONNECTIONS_MEMORY`].
    pub(in crate::peers) fn total(&self, table: &PeerTable) -> usize {
        table.iter().map(Usage::of).fold(self.reading(), Usage::plus).total()
    }

    fn reading(&self) -> Usage {
        Usage {
            blocks: self.reading.len() * LARGEST_BLOCK,
            unscheduled: 0,
            requested: self.reading_tip.map_or(0, |_| LARGEST_BLOCK),
        }
    }

    /// Blocks that are being read for peers.
    pub(super) fn reads(&self) -> usize {
        self.reading.len()
    }

    /// Whether a tip is being read to be announced.
    pub(in crate::peers) fn reads_tip(&self) -> bool {
        self.reading_tip.is_some()
    }
}

/// What one connection, or all of them, make this node hold, in bytes, by who decides on it.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::peers) struct Usage {
    /// Blocks for peers, and parts of blocks. They are read in turn and only while there is room.
    pub(super) blocks: usize,
    /// All else that peers decide on: requests, answers that need no block to be read, and what they
    /// send unless it is `requested`.
    pub(super) unscheduled: usize,
    /// What this node asked for, with all that the peers which it asks send beside it.
    pub(super) requested: usize,
}

impl Usage {
    pub(super) fn of(peer: &Peer) -> Self {
        let footprint = &peer.flow.footprint;
        let queued = footprint.unscheduled()
            + peer.serving.request_bytes()
            + peer.serving.transactions.memory();
        let sent = footprint.receiving() + peer.headers.presync_memory();
        // An inbound peer may have arranged that it is asked: it alone may offer a block.
        let (unscheduled, requested) =
            if peer.lasting_outbound() { (queued, sent) } else { (queued + sent, 0) };
        Self { blocks: footprint.blocks(), unscheduled, requested }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            unscheduled: self.unscheduled + other.unscheduled,
            requested: self.requested + other.requested,
        }
    }

    fn minus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks - other.blocks,
            unscheduled: self.unscheduled - other.unscheduled,
            requested: self.requested - other.requested,
        }
    }

    pub(in crate::peers) fn total(&self) -> usize {
        self.of_peers() + self.requested
    }

    /// What is compared with [`PEER_MEMORY`].
    pub(in crate::peers) fn of_peers(&self) -> usize {
        self.blocks + self.unscheduled
    }

    /// Whether blocks for peers leave room for another one among themselves.
    fn fits_block(&self) -> bool {
        self.blocks + LARGEST_BLOCK <= BLOCKS_MEMORY
    }

    /// Whether a block of the largest size may be read for a peer.
    pub(super) fn has_room_for_block(&self) -> bool {
        self.fits_block() && self.of_peers() + LARGEST_BLOCK <= PEER_MEMORY
    }

    /// Whether it is what waits for no turn that keeps a block from being read. Then that is more than
    /// [`UNSCHEDULED_MEMORY`].
    pub(super) fn is_crowded_out(&self) -> bool {
        self.fits_block() && !self.has_room_for_block()
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Network, Params};

    use super::*;
    use crate::presync::memory_bound;

    #[test]
    fn a_pre_sync_takes_no_more_than_is_reserved_for_it() {
        const IN_2026: i64 = 1_790_000_000;
        assert!(memory_bound(&Params::new(Network::Main), IN_2026) <= PRESYNC);
    }

    #[test]
    fn a_block_is_read_if_it_fits_both_its_part_and_the_whole() {
        let room = |blocks, unscheduled| {
            // What we asked for makes no difference.
            let rooms = [0, LARGEST_BLOCK, REQUESTED_MEMORY].map(|requested| {
                let usage = Usage { blocks, unscheduled, requested };
                (usage.has_room_for_block(), usage.is_crowded_out())
            });
            assert!(rooms.iter().all(|room| *room == rooms[0]));
            rooms[0]
        };
        let (full, whole) = (BLOCKS_MEMORY - LARGEST_BLOCK, PEER_MEMORY - LARGEST_BLOCK);
        assert_eq!(room(full, 0), (true, false));
        assert_eq!(room(full + 1, 0), (false, false));
        assert_eq!(room(full + 1, whole), (false, false), "others would gain nothing");
        assert_eq!(room(full, UNSCHEDULED_MEMORY), (true, false));
        assert_eq!(room(full, UNSCHEDULED_MEMORY + 1), (false, true));
        assert_eq!(room(0, whole), (true, false));
        assert_eq!(room(0, whole + 1), (false, true));
    }
}

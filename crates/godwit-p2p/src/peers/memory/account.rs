//! The account of what all connections together make this node hold.

use std::collections::BTreeSet;

use crate::frame::MAX_PAYLOAD;
use crate::peers::action::ReadId;
use crate::peers::peer::Peer;
use crate::peers::send_limits::SEND_PAUSE;
use crate::peers::table::PeerTable;
use crate::slots::{MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL};

/// Most memory, in bytes, that all connections together may make this node hold: messages to be
/// sent, incomplete received messages, queued requests, pre-syncs of headers, and blocks that are
/// being read for peers.
///
/// ```text
/// 0                                        48 MiB               64 MiB
/// |-- BLOCKS_MEMORY: read for peers, in turn --|- UNSCHEDULED_MEMORY -|
/// |-- of this, 4 MB are kept free for each of ten peers that owe us a block
/// ```
///
/// Blocks that this node asked for count for at most [`BLOCK_SENDERS`] blocks of the largest size.
/// More peers than that are asked only with `-addnode` and `-connect`; what they have sent of a
/// block comes on top, at most 4 MB each, and is held against nobody.
pub const PEER_MEMORY: usize = 64 << 20;

/// The part of [`PEER_MEMORY`] that blocks for peers may take, including those that are being read.
pub(in crate::peers) const BLOCKS_MEMORY: usize = PEER_MEMORY / 4 * 3;

/// The part of [`PEER_MEMORY`] that is always there for what waits for no turn. More is lent until a
/// peer waits for a block to be read.
pub(in crate::peers) const UNSCHEDULED_MEMORY: usize = PEER_MEMORY - BLOCKS_MEMORY;

/// Peers that we choose and ask for blocks at once.
pub(in crate::peers) const BLOCK_SENDERS: usize = MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY;

// While no block is held for any peer, one can be read, whatever else peers make us hold and however
// many blocks we are sent. Otherwise requests could fill all memory and wait for ever: only reading
// blocks gives it back.
const _: () =
    assert!(BLOCK_SENDERS * LARGEST_BLOCK + UNSCHEDULED_MEMORY + LARGEST_BLOCK <= PEER_MEMORY);

// Three pre-syncs at once (2.2 MB each on the main network in 2026) leave blocks their room.
const _: () =
    assert!(3 * 2_200_000 <= UNSCHEDULED_MEMORY && READS * LARGEST_BLOCK <= BLOCKS_MEMORY);

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

/// What a block that is being read is charged.
pub(in crate::peers) const LARGEST_BLOCK: usize = MAX_PAYLOAD as usize;

/// Memory that belongs to no single connection.
#[derive(Debug, Default)]
pub(in crate::peers) struct SharedMemory {
    /// Memory is short.
    short: bool,
    /// Blocks that are being read, also for peers that are gone.
    reading: BTreeSet<ReadId>,
}

impl SharedMemory {
    pub(in crate::peers) fn begin_read(&mut self, request: ReadId) {
        self.reading.insert(request);
    }

    pub(in crate::peers) fn end_read(&mut self, request: ReadId) {
        self.reading.remove(&request);
    }

    /// Takes what is charged; returns whether [`pause_above`](Self::pause_above) changes.
    pub(super) fn update(&mut self, charged: usize) -> bool {
        let short = charged > if self.short { ENOUGH } else { SHORT };
        std::mem::replace(&mut self.short, short) != short
    }

    /// Nothing is read for a peer, nor from it, while more bytes than this are queued for it.
    pub(in crate::peers) fn pause_above(&self) -> usize {
        if self.short { 0 } else { SEND_PAUSE }
    }

    /// What all connections together make this node hold, in bytes; see [`PEER_MEMORY`].
    pub(in crate::peers) fn total(&self, table: &PeerTable) -> usize {
        let usage = self.usage(table);
        usage.blocks + usage.requested + usage.unscheduled
    }

    /// What all connections together make this node hold. Looks at each of them.
    pub(super) fn usage(&self, table: &PeerTable) -> Usage {
        let reading = Usage { blocks: self.reading.len() * LARGEST_BLOCK, ..Usage::default() };
        table.iter().map(Usage::of).fold(reading, Usage::plus)
    }

    /// Blocks that are being read.
    pub(super) fn reads(&self) -> usize {
        self.reading.len()
    }

    /// Whether a block of the largest size may be read for a peer.
    pub(in crate::peers) fn has_room_for_block(&self, table: &PeerTable) -> bool {
        self.usage(table).has_room_for_block()
    }
}

/// What one connection, or all of them, make this node hold, in bytes, by who decides on it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usage {
    /// Blocks for peers. They are read in turn and only while there is room.
    pub(super) blocks: usize,
    /// Blocks that we asked for, half received, from peers that we chose.
    pub(super) requested: usize,
    /// All else, which takes memory when a peer wants it: requests, other half-received messages,
    /// pre-syncs, and answers that need no block.
    pub(super) unscheduled: usize,
    /// Peers that we chose and that owe us a block.
    pub(super) senders: usize,
}

impl Usage {
    pub(super) fn of(peer: &Peer) -> Self {
        let footprint = &peer.flow.footprint;
        let memory =
            footprint.memory() + peer.serving.request_bytes() + peer.headers.presync_memory();
        // An inbound peer may have arranged that it is asked: it alone may offer a block.
        let sends = peer.flow.expects_block && !peer.inbound();
        let requested = if sends { footprint.receiving() } else { 0 };
        let blocks = footprint.blocks();
        let unscheduled = memory - blocks - requested;
        Self { blocks, requested, unscheduled, senders: usize::from(sends) }
    }

    fn plus(self, other: Self) -> Self {
        Self {
            blocks: self.blocks + other.blocks,
            requested: self.requested + other.requested,
            unscheduled: self.unscheduled + other.unscheduled,
            senders: self.senders + other.senders,
        }
    }

    /// What is compared with [`PEER_MEMORY`].
    pub(super) fn charged(&self) -> usize {
        let requested = self.requested.min(BLOCK_SENDERS * LARGEST_BLOCK);
        self.blocks + requested + self.unscheduled
    }

    /// Whether blocks for peers leave room for another one among themselves.
    fn fits_block(&self) -> bool {
        self.blocks + LARGEST_BLOCK <= BLOCKS_MEMORY
    }

    /// Whether a block of the largest size may be read for a peer. Room for those that we asked for
    /// is kept.
    fn has_room_for_block(&self) -> bool {
        let requested = self.senders.min(BLOCK_SENDERS) * LARGEST_BLOCK;
        let taken = self.blocks + requested + self.unscheduled;
        self.fits_block() && taken + LARGEST_BLOCK <= PEER_MEMORY
    }

    /// Whether it is what waits for no turn that keeps a block from being read.
    pub(super) fn is_crowded_out(&self) -> bool {
        self.fits_block() && self.unscheduled > UNSCHEDULED_MEMORY && !self.has_room_for_block()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_read_if_it_fits_both_its_part_and_the_whole() {
        let room = |blocks, unscheduled, senders| {
            let usage = Usage { blocks, requested: 0, unscheduled, senders };
            (usage.has_room_for_block(), usage.is_crowded_out())
        };
        let (full, whole) = (BLOCKS_MEMORY - LARGEST_BLOCK, PEER_MEMORY - LARGEST_BLOCK);
        assert_eq!(room(full, 0, 0), (true, false));
        assert_eq!(room(full + 1, 0, 0), (false, false));
        assert_eq!(room(full + 1, whole, 0), (false, false), "others would gain nothing");
        assert_eq!(room(full, whole - full, 0), (true, false));
        assert_eq!(room(full, whole - full + 1, 0), (false, true));
        assert_eq!(room(0, whole, 0), (true, false));
        assert_eq!(room(0, whole + 1, 0), (false, true));
        // Room for the blocks that we asked for is kept, of ten peers.
        let kept = whole - BLOCK_SENDERS * LARGEST_BLOCK;
        for senders in [BLOCK_SENDERS, BLOCK_SENDERS + 8] {
            assert_eq!(room(0, kept, senders), (true, false));
            assert_eq!(room(0, kept + 1, senders), (false, true));
            let blocks = kept - UNSCHEDULED_MEMORY + 1;
            assert_eq!(room(blocks, UNSCHEDULED_MEMORY, senders), (false, false));
            assert_eq!(room(blocks - 1, UNSCHEDULED_MEMORY + 1, senders), (false, true));
        }
        assert!(room(0, kept + 1, BLOCK_SENDERS - 1).0);
    }

    #[test]
    fn blocks_that_we_asked_for_are_charged_for_ten_peers() {
        let charged =
            |requested| Usage { blocks: 5, requested, unscheduled: 7, senders: 18 }.charged();
        let most = BLOCK_SENDERS * LARGEST_BLOCK;
        assert_eq!(
            (charged(most - 1), charged(most), charged(most + 1)),
            (most + 11, most + 12, most + 12)
        );
    }
}

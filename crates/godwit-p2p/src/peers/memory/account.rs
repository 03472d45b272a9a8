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
/// Enough for a nearly complete block of the largest size from each of the ten peers that are asked
/// for blocks (40 MB), three pre-syncs at once (7 MB on the main network in 2026), and as many
/// blocks of the largest size as are read for peers at once (16 MB).
pub const PEER_MEMORY: usize = 64 << 20;

const _: () = assert!(
    (MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY + READS) * LARGEST_BLOCK + 3 * 2_200_000
        <= PEER_MEMORY
);

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
const LARGEST_BLOCK: usize = MAX_PAYLOAD as usize;

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

    /// Takes how much memory is in use; returns whether [`pause_above`](Self::pause_above) changes.
    pub(super) fn update(&mut self, memory: usize) -> bool {
        let short = memory > if self.short { ENOUGH } else { SHORT };
        std::mem::replace(&mut self.short, short) != short
    }

    /// Nothing is read for a peer, nor from it, while more bytes than this are queued for it.
    pub(in crate::peers) fn pause_above(&self) -> usize {
        if self.short { 0 } else { SEND_PAUSE }
    }

    /// What all connections together make this node hold, in bytes; see [`PEER_MEMORY`].
    pub(in crate::peers) fn total(&self, table: &PeerTable) -> usize {
        let peers: usize = table.iter().map(held).sum();
        peers + self.reading.len() * LARGEST_BLOCK
    }

    /// Blocks that are being read.
    pub(super) fn reads(&self) -> usize {
        self.reading.len()
    }

    /// Whether a block of the largest size would fit.
    pub(in crate::peers) fn has_room_for_block(&self, table: &PeerTable) -> bool {
        self.total(table) + LARGEST_BLOCK <= PEER_MEMORY
    }
}

/// What a peer makes this node hold.
pub(super) fn held(peer: &Peer) -> usize {
    let presync = peer.headers.presync_memory();
    peer.flow.footprint.memory() + peer.serving.request_bytes() + presync
}

//! The download scheduler: which peer is asked for which block, and which peer holds the download
//! up.
//!
//! It knows nothing of messages. Compare Core `net_processing.cpp` (`FindNextBlocksToDownload`, the
//! stalling and timeout logic of `SendMessages`). The differences:
//! - The number of blocks in flight from a peer follows its measured rate, up to 128 small blocks;
//!   Core asks every peer for 16.
//! - A block that holds up the window is requested from a second peer (a *hedge*) as soon as that
//!   is expected to be faster. Core first disconnects the peer that it waits for, after 2 to 64
//!   seconds.
//! - A peer is disconnected if another peer delivered what it withholds, or for long silence while
//!   others deliver. The time that it gets grows with the time that the others need for a block, so
//!   that no peer is punished for a slow link of ours.
//!
//! Deadlines are measured by a clock that stands still while the chain can take no blocks.

mod assign;
mod branch;
mod clock;
mod exclusions;
pub(crate) mod lost;
pub(crate) mod overdue;
mod peer;
mod rate;
mod targets;

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_primitives::network::Params;
use godwit_primitives::{BlockHash, Work};

use self::branch::Branch;
use self::clock::Clock;
use self::exclusions::Exclusions;
use self::peer::{Link, MIN_IN_FLIGHT, Measured, Peer, Purpose, Usual};
use crate::index::{HeaderId, HeaderIndex};
use crate::peer_id::PeerId;
use crate::time::Now;

pub use self::assign::MAX_WINDOW_BLOCKS;
pub(crate) use self::peer::PeerTraits;

/// Longest time between two looks at the requests in flight ([`Downloads::next_wakeup`]).
const WAKEUP: Duration = Duration::from_millis(250);

/// Expected size of a block, in bytes, before the first one arrived. Until then no peer is asked
/// for more than two.
const FIRST_SIZE: f64 = 1_000_000.0;

/// Least expected size of a block, in bytes: that of blocks with only a coinbase.
const LEAST_SIZE: f64 = 200.0;

/// Weight of the newest block in the expected size, a moving average.
const SIZE_WEIGHT: f64 = 0.125;

/// How a block that arrived was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receipt {
    /// From this peer. The chain is to judge it.
    Requested,
    /// From this peer, but another one was faster. To be dropped.
    Duplicate,
    /// Not from this peer, or no longer.
    Unrequested,
}

/// What is remembered of a block: that it was requested and is not stored, that a second copy is
/// still in flight, which peers are not to be asked for it, or that what others sent was refused.
#[derive(Debug)]
struct Block {
    id: HeaderId,
    height: u32,
    /// Peers that were asked and have not answered.
    copies: Vec<PeerId>,
    /// When it was last asked for.
    asked: Duration,
    /// The peer whose bytes the chain is judging.
    sender: Option<PeerId>,
    stored: bool,
    /// Peers that failed to deliver it.
    excluded: Exclusions,
    /// How often the chain refused what was sent for it, also by peers that are gone.
    refused: u32,
}

impl Block {
    fn new(id: HeaderId, height: u32) -> Self {
        let (copies, excluded) = (Vec::new(), Exclusions::default());
        let (asked, sender, stored) = (Duration::ZERO, None, false);
        Self { id, height, copies, asked, sender, stored, excluded, refused: 0 }
    }

    fn has_arrived(&self) -> bool {
        self.stored || self.sender.is_some()
    }

    /// Its bytes are in flight and will need room in the chain.
    fn is_pending(&self) -> bool {
        !self.has_arrived() && !self.copies.is_empty()
    }

    fn is_missing(&self) -> bool {
        !self.has_arrived() && self.copies.is_empty()
    }

    /// Nothing is remembered of it that anybody needs.
    fn is_forgettable(&self) -> bool {
        match self.stored {
            true => self.copies.is_empty(),
            false => self.is_missing() && self.excluded.is_empty() && self.refused == 0,
        }
    }

    /// Many have sent something else for it.
    fn is_contested(&self) -> bool {
        self.refused >= assign::MANY_REFUSALS
    }

    fn may_be_asked_of(&self, peer: PeerId, now: Duration) -> bool {
        !self.copies.contains(&peer) && self.excluded.since(peer, now).is_none()
    }
}

/// The download scheduler.
#[derive(Debug)]
pub(crate) struct Downloads {
    minimum_work: Work,
    segwit_height: u32,
    clock: Clock,
    peers: BTreeMap<PeerId, Peer>,
    link: Link,
    blocks: BTreeMap<BlockHash, Block>,
    /// Blocks that are pending.
    pending: usize,
    /// The best header's chain, then other chains that peers have, by falling work.
    branches: Vec<Branch>,
    /// The best header and the end of the history for which the branches were chosen; `None` when they must
    /// be chosen again.
    chosen_for: Option<(HeaderId, Option<HeaderId>)>,
    /// Expected bytes of a block.
    size: f64,
    size_known: bool,
    /// Some blocks in flight are owed by nobody ([`Flight::is_owed`](peer::Flight::is_owed)).
    some_unowed: bool,
}

/// Heights of the blocks that are in flight from the peer.
pub(crate) fn heights_in_flight(downloads: &Downloads, peer: PeerId) -> Vec<u32> {
    let requested = downloads.blocks.values().filter(|block| block.copies.contains(&peer));
    let mut heights: Vec<u32> = requested.map(|block| block.height).collect();
    heights.sort_unstable();
    heights
}

impl Downloads {
    /// A scheduler without peers. Only chains with at least `minimum_work` are downloaded.
    pub(crate) fn new(params: &Params, minimum_work: Work) -> Self {
        Self {
            minimum_work,
            segwit_height: params.segwit_height,
            clock: Clock::default(),
            peers: BTreeMap::new(),
            link: Link::default(),
            blocks: BTreeMap::new(),
            pending: 0,
            branches: Vec::new(),
            chosen_for: None,
            size: FIRST_SIZE,
            size_known: false,
            some_unowed: false,
        }
    }

    /// The peer may be asked for blocks from now on.
    pub(crate) fn add_peer(&mut self, peer: PeerId, traits: PeerTraits, now: Now) {
        let now = self.clock.advance(now);
        self.peers.insert(peer, Peer::new(traits, now));
        self.chosen_for = None;
    }

    /// The peer is gone; others will be asked for its blocks.
    pub(crate) fn remove_peer(&mut self, peer: PeerId, now: Now) {
        self.clock.advance(now);
        let Some(removed) = self.peers.remove(&peer) else { return };
        for flight in removed.queue {
            self.update(flight.hash, |block| block.copies.retain(|copy| *copy != peer));
        }
        for block in self.blocks.values_mut() {
            block.excluded.remove(peer);
        }
        self.blocks.retain(|_, block| !block.is_forgettable());
        self.chosen_for = None;
    }

    /// The best header that the peer is known to have (Core `pindexBestKnownBlock`).
    pub(crate) fn set_best_known(&mut self, peer: PeerId, header: HeaderId) {
        let Some(peer) = self.peers.get_mut(&peer) else { return };
        if peer.best_known != Some(header) {
            peer.best_known = Some(header);
            self.chosen_for = None;
        }
    }

    /// Payload bytes of a block arrived from the peer. Every byte is reported here once, whether
    /// its block is complete or not: [`Self::received`] does not count them again.
    pub(crate) fn bytes_received(&mut self, peer: PeerId, now: Now, bytes: u64) {
        let now = self.clock.advance(now);
        if let Some(peer) = self.peers.get_mut(&peer) {
            peer.arrive(bytes, now);
            self.link.delivered = self.link.delivered.saturating_add(bytes);
        }
    }

    /// A whole block of `length` bytes arrived from the peer. After [`Receipt::Requested`],
    /// [`Self::judged`] has to follow.
    pub(crate) fn received(
        &mut self,
        peer: PeerId,
        hash: BlockHash,
        length: u64,
        now: Now,
    ) -> Receipt {
        let now = self.clock.advance(now);
        let Some(state) = self.peers.get_mut(&peer) else { return Receipt::Unrequested };
        if !state.complete(&hash, now, self.link.delivered) {
            state.take_back(now);
            return Receipt::Unrequested;
        }
        self.link.last_answer = now;
        let mut first = false;
        self.update(hash, |block| {
            block.copies.retain(|copy| *copy != peer);
            if !block.has_arrived() {
                block.sender = Some(peer);
                first = true;
            }
        });
        if !first {
            return Receipt::Duplicate;
        }
        let length = (length as f64).max(LEAST_SIZE);
        let weight = if self.size_known { SIZE_WEIGHT } else { 1.0 };
        self.size += (length - self.size) * weight;
        self.size_known = true;
        Receipt::Requested
    }

    /// The chain has judged a block. If it was not stored, it is requested again, unless the index
    /// says that it failed: from another peer while one has it. Its sender is asked for nothing for
    /// a while.
    pub(crate) fn judged(&mut self, hash: BlockHash, stored: bool) {
        let time = self.clock.time();
        let mut sender = None;
        self.update(hash, |block| {
            sender = block.sender.take();
            block.stored |= stored;
            if let (false, Some(sender)) = (stored, sender) {
                block.refused = block.refused.saturating_add(1);
                block.excluded.add(sender, time);
            }
        });
        if let Some(peer) = sender.and_then(|sender| self.peers.get_mut(&sender)) {
            if stored { peer.stop_resting() } else { peer.rest(time, self.link.delivered) }
        }
        if !stored {
            return;
        }
        // Not before the chain has stored it: what a liar delivers proves nothing against the peers
        // that were asked before.
        for peer in self.peers.values_mut() {
            if let Some(position) = peer.position(&hash) {
                peer.queue[position].overtaken.get_or_insert(time);
            }
        }
    }

    /// The peer does not have a block that it was asked for. For a while, others are asked first; and if it
    /// has claimed to have it, it is asked for nothing.
    pub(crate) fn not_found(&mut self, peer: PeerId, hash: BlockHash, now: Now) {
        let now = self.clock.advance(now);
        if let Some(state) = self.peers.get_mut(&peer) {
            let Some(purpose) = state.forget(&hash, now, self.link.delivered) else { return };
            // Ten blocks that the operator wants would keep the next one waiting for two minutes.
            if purpose != Purpose::Favour {
                state.rest(now, self.link.delivered);
            }
            self.update(hash, |block| {
                block.copies.retain(|copy| *copy != peer);
                block.excluded.add(peer, now);
            });
        }
    }

    /// New requests, in the order in which to send them.
    ///
    /// `room` is the number of bytes of blocks that the chain can take beyond those that it was
    /// given; what is in flight is subtracted here. Zero pauses everything, deadlines included.
    /// With any other value the first missing block is requested: a chain that is full of blocks
    /// which wait for that one must not lock up.
    ///
    /// Costs time proportional to the new requests, and to the window (at most 4096 blocks) when
    /// everything changed; never to the size of the tree.
    pub(crate) fn schedule(
        &mut self,
        now: Now,
        index: &dyn HeaderIndex,
        room: u64,
    ) -> Vec<(PeerId, HeaderId, BlockHash)> {
        let now = self.clock.advance(now);
        self.clock.pause(room == 0);
        self.choose_targets(index, now);
        if room == 0 {
            return Vec::new();
        }
        self.assign(now, index, room)
    }

    /// Average rate, in bytes per second, of the peers that have one; `None` before the first byte
    /// of a block.
    pub(crate) fn usual_rate(&self) -> Option<f64> {
        Usual::of(self.peers.values(), Measured::Now).rate
    }

    /// Number of blocks in flight from the peer.
    pub(crate) fn in_flight(&self, peer: PeerId) -> usize {
        self.peers.get(&peer).map_or(0, |peer| peer.queue.len())
    }

    /// Whether the block is in flight from the peer.
    pub(crate) fn is_requested(&self, peer: PeerId, hash: &BlockHash) -> bool {
        self.blocks.get(hash).is_some_and(|block| block.copies.contains(&peer))
    }

    /// Latest time, on the monotonic clock, for the next [`Self::schedule`] and [`Self::overdue`].
    /// They are due at once when a block arrived or was judged, and when the headers or the
    /// chain's room changed.
    pub(crate) fn next_wakeup(&self, now: Now) -> Option<Duration> {
        let waiting = |peer: &Peer| !peer.queue.is_empty() || peer.is_resting(self.clock.time());
        self.peers.values().any(waiting).then(|| now.monotonic + WAKEUP)
    }

    /// How many blocks may be in flight from the peer.
    fn share(&self, peer: &Peer) -> usize {
        if self.size_known { peer.share(self.size) } else { MIN_IN_FLIGHT }
    }

    /// Changes a block's state, and keeps the count of pending blocks and the windows in step with
    /// it.
    fn update(&mut self, hash: BlockHash, change: impl FnOnce(&mut Block)) {
        let Some(block) = self.blocks.get_mut(&hash) else { return };
        let was_pending = block.is_pending();
        change(block);
        self.pending = self.pending - usize::from(was_pending) + usize::from(block.is_pending());
        let (height, stored, missing) = (block.height, block.stored, block.is_missing());
        for branch in &mut self.branches {
            if stored {
                branch.mark_stored(&hash, height);
            } else if missing {
                branch.mark_missing(&hash, height);
            } else if !block.has_arrived() {
                branch.mark_expected(&hash, height);
            }
        }
        if block.is_forgettable() {
            self.blocks.remove(&hash);
        }
    }
}

#[cfg(test)]
mod tests;

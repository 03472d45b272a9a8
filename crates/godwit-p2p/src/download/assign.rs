//! Assigns missing blocks to peers.

use std::time::Duration;

use godwit_primitives::BlockHash;

use super::peer::{LOST_SECONDS, Measured, Peer, Purpose, Usual};
use super::{Block, Downloads};
use crate::index::{HeaderId, HeaderIndex};
use crate::peer_id::PeerId;
use crate::services::NETWORK_LIMITED_MIN_BLOCKS;

/// Most blocks above the tip that may be requested. Core: 1024, which at 200 bytes each is 0.2 MB,
/// less than a fast link carries in one round trip.
pub const MAX_WINDOW_BLOCKS: usize = 4_096;

/// Expected size of all blocks of the window, in bytes. They are written to disk until the blocks
/// before them are connected, and should still be in the page cache then.
const MAX_WINDOW_BYTES: f64 = 256.0 * 1024.0 * 1024.0;

/// Fewest blocks of a window, whatever their size.
const MIN_WINDOW_BLOCKS: usize = 32;

/// How far below its best block a limited peer is asked: what it promises, less two because its
/// chain may have grown (Core: the same).
pub(super) const LIMITED_REQUESTED: u32 = NETWORK_LIMITED_MIN_BLOCKS - 2;

/// Number of missing blocks at the front of the window for which a hedge is considered.
const HEDGE_DEPTH: usize = 16;

/// Number of slots that are searched for them.
const HEDGE_SCAN: usize = 256;

/// A block is requested a second time only if another peer is expected to need this many times less
/// time; a third time, the square of it; and so on. Estimates are rough, and copies cost bandwidth.
const HEDGE_FACTOR: f64 = 2.0;

/// A hedge must promise to save at least this many seconds, and there are as many between two
/// requests for the same block.
const HEDGE_PAUSE: f64 = 1.0;

/// While no peer has answered anything, those that have begun to are all that is measured: of others no
/// more is expected, and our link seems to be busy for as long. An idle one is asked for the first missing
/// block as well once nothing has come of it for so many seconds, or if after so many [`FIRST_FACTOR`]
/// times as many, two minutes, would be needed for a block of the expected size by all together.
const FIRST_ANSWER: f64 = 30.0;

/// Likewise for a third copy of what is slow the square of it, and so on. Two peers that are slow because
/// our line is must not be followed by all others.
const FIRST_FACTOR: f64 = 4.0;

/// Requests beyond its share that a peer may get for blocks that hold up the window.
const HEDGE_EXTRA: usize = 2;

/// A peer that needs this many times as long as the fastest, and [`SLOW_SECONDS`] more, is asked
/// for blocks further ahead: nearer ones would hold up the window.
const SLOW_FACTOR: f64 = 3.0;

/// See [`SLOW_FACTOR`].
const SLOW_SECONDS: f64 = 2.0;

/// A block of which the chain has refused so many forgeries is asked last of peers that have answered no
/// request: hosts that are let go for a forgery come back as such. Two that came back within each turn of a
/// slow node got a block each time, for twelve hours, that three honest peers had. Further copies of it are
/// asked of anybody: proven peers may withhold it.
pub(super) const MANY_REFUSALS: u32 = 3;

/// Length of the window for blocks of `size` bytes.
pub(super) fn window_blocks(size: f64) -> usize {
    ((MAX_WINDOW_BYTES / size) as usize).clamp(MIN_WINDOW_BLOCKS, MAX_WINDOW_BLOCKS)
}

pub(super) type Requests = Vec<(PeerId, HeaderId, BlockHash)>;

/// The figures that one call of `schedule` works with.
#[derive(Clone, Copy)]
struct Plan {
    now: Duration,
    /// Blocks that may be pending at once.
    budget: usize,
    window: usize,
    usual: Usual,
    /// Rate of all peers together, in bytes per second.
    link: f64,
    /// A peer that is here has answered a request.
    answered: bool,
}

impl Plan {
    /// Seconds that our link needs for everything in flight. Within that time no block is late: a
    /// second copy of one would only delay the others.
    fn link_busy_for(&self, pending: usize, size: f64) -> f64 {
        if self.link > 0.0 { pending as f64 * size / self.link } else { 0.0 }
    }
}

/// A peer that may be asked for more.
struct Candidate {
    peer: PeerId,
    free: usize,
    /// Expected seconds until one more block from it would be complete.
    seconds: f64,
    /// First position in the window that it should be asked for.
    from: usize,
}

impl Downloads {
    pub(super) fn assign(&mut self, now: Duration, index: &dyn HeaderIndex, room: u64) -> Requests {
        for peer in self.peers.values_mut() {
            peer.advance(now);
            peer.rate.remember_blocks(self.size);
        }
        self.link.active = self.peers.values().filter(|peer| !peer.queue.is_empty()).count();
        let quiet = now.saturating_sub(self.link.last_answer).as_secs_f64();
        let measured = if quiet < LOST_SECONDS { Measured::Now } else { Measured::AtAnswers };
        let link = self.peers.values().filter_map(|peer| peer.rate(measured)).sum();
        let usual = Usual::of(self.peers.values(), measured);
        let budget = (room as f64 / self.size) as usize;
        let answered = self.peers.values().any(|peer| peer.rate.has_answered());
        let plan = Plan { now, budget, window: self.window(), usual, link, answered };
        let mut requests = Vec::new();
        for branch in 0..self.branches.len() {
            self.settle(branch);
            self.fill(branch, &plan, index, true, &mut requests);
            self.fill(branch, &plan, index, false, &mut requests);
            // The history waits for all else, its first block too.
            let is_history =
                index.history().is_some_and(|span| span.base == self.branches[branch].target);
            if !is_history || self.peers.values().any(|peer| self.is_done_with_first(peer)) {
                self.hedge(branch, &plan, index, &mut requests);
            }
        }
        requests
    }

    /// Moves the branch's cursors past slots that need no more attention.
    fn settle(&mut self, branch: usize) {
        let branch = &mut self.branches[branch];
        let blocks = &self.blocks;
        let get = |position: usize| {
            let slot = branch.slot(position);
            (slot.stored, blocks.get(&slot.hash))
        };
        let (mut head, mut next) = (branch.head, branch.next);
        while head < branch.len() {
            let (stored, block) = get(head);
            if !stored && !block.is_some_and(Block::has_arrived) {
                break;
            }
            head += 1;
        }
        next = next.max(head);
        while next < branch.len() {
            let (stored, block) = get(next);
            if !stored && block.is_none_or(Block::is_missing) {
                break;
            }
            next += 1;
        }
        (branch.head, branch.next) = (head, next);
    }

    /// Whether the peer has the block at `height` of a branch.
    fn has(&self, peer: &Peer, branch: usize, height: u32) -> bool {
        let deepest = peer.best_height.map_or(0, |best| best.saturating_sub(LIMITED_REQUESTED - 1));
        peer.reach.get(branch).is_some_and(|reach| height <= *reach)
            && (peer.traits.witness || height < self.segwit_height)
            && (!peer.traits.limited || height >= deepest)
    }

    /// Assigns missing blocks in height order, each to the peer that is expected to deliver it
    /// first.
    fn fill(
        &mut self,
        branch: usize,
        plan: &Plan,
        index: &dyn HeaderIndex,
        preferred: bool,
        requests: &mut Requests,
    ) {
        let limit = self.branches[branch].end(plan.window);
        let mut position = self.branches[branch].next;
        if !preferred {
            position = position.max(self.beyond_preferred(branch, plan.now));
        }
        if position >= limit {
            return;
        }
        let mut candidates = self.candidates(branch, plan, preferred);
        while position < limit && !candidates.is_empty() && self.pending < plan.budget {
            let slot = self.branches[branch].slot(position);
            let height = self.branches[branch].height(position);
            let block = self.blocks.get(&slot.hash);
            if !slot.stored && block.is_none_or(Block::is_missing) {
                let info = index.get(slot.id);
                if info.failed {
                    return;
                }
                if info.stored {
                    self.note_stored(branch, position);
                } else {
                    candidates.retain(|one| self.peers[&one.peer].reach[branch] >= height);
                    if let Some(chosen) = self.choose(&candidates, branch, position, plan.now) {
                        let peer = candidates[chosen].peer;
                        self.ask(peer, slot.id, slot.hash, height, Purpose::Window, plan.now);
                        requests.push((peer, slot.id, slot.hash));
                        self.used(&mut candidates, chosen, branch, plan);
                    }
                }
            }
            position += 1;
        }
    }

    /// The first position whose block no preferred peer has, not counting preferred peers that
    /// rest; busy ones do count.
    fn beyond_preferred(&self, branch: usize, now: Duration) -> usize {
        let next = self.branches[branch].height(self.branches[branch].next);
        let serves = |peer: &&Peer| {
            peer.traits.preferred
                && !peer.reported
                && !peer.is_resting(now)
                && self.has(peer, branch, next)
        };
        let reach = |peer: &Peer| peer.reach.get(branch).copied();
        let height = self.peers.values().filter(serves).filter_map(reach).max().unwrap_or(0);
        (height + 1).saturating_sub(self.branches[branch].height(0)) as usize
    }

    fn candidates(&self, branch: usize, plan: &Plan, preferred: bool) -> Vec<Candidate> {
        let next = self.branches[branch].height(self.branches[branch].next);
        let mut candidates = Vec::new();
        for (id, peer) in &self.peers {
            let free = self.share(peer).saturating_sub(peer.queue.len());
            let useful = peer.traits.preferred == preferred
                && free > 0
                && !peer.reported
                && !peer.is_resting(plan.now)
                && peer.reach.get(branch).is_some_and(|reach| *reach >= next)
                && (peer.traits.witness || next < self.segwit_height)
                && (branch == 0 || self.is_done_with_first(peer));
            if useful {
                let mut one = Candidate { peer: *id, free, seconds: 0.0, from: 0 };
                self.estimate(&mut one, branch, plan);
                candidates.push(one);
            }
        }
        candidates
    }

    /// Whether nothing of the best header's chain is left to ask of this peer. That chain comes
    /// first.
    fn is_done_with_first(&self, peer: &Peer) -> bool {
        let first = &self.branches[0];
        peer.reach.first().is_none_or(|reach| first.height(first.next) > *reach)
    }

    fn estimate(&self, one: &mut Candidate, branch: usize, plan: &Plan) {
        let next = |peer: &Peer| {
            let seconds = peer.seconds_until(peer.queue.len(), self.size, plan.usual);
            seconds.max(peer.held_up(plan.now, self.size, plan.usual, &self.link))
        };
        let fastest = self.peers.values().map(next).fold(f64::INFINITY, f64::min);
        one.seconds = next(&self.peers[&one.peer]);
        one.from = 0;
        if one.seconds > SLOW_FACTOR * fastest + SLOW_SECONDS {
            let ahead = (one.seconds * plan.link / self.size) as usize;
            let last = self.branches[branch].end(plan.window).saturating_sub(1);
            one.from = self.branches[branch].head.saturating_add(ahead).min(last);
        }
    }

    fn choose(
        &self,
        candidates: &[Candidate],
        branch: usize,
        position: usize,
        now: Duration,
    ) -> Option<usize> {
        let hash = self.branches[branch].slot(position).hash;
        let height = self.branches[branch].height(position);
        let block = self.blocks.get(&hash);
        let contested = block.is_some_and(Block::is_contested);
        let suits = |one: &Candidate| {
            (contested || position >= one.from)
                && block.is_none_or(|block| block.may_be_asked_of(one.peer, now))
                && self.has(&self.peers[&one.peer], branch, height)
        };
        let suitable = candidates.iter().enumerate().filter(|(_, one)| suits(one));
        let unproven = |one: &Candidate| contested && !self.peers[&one.peer].rate.has_answered();
        let first = suitable.min_by(|(_, a), (_, b)| {
            unproven(a).cmp(&unproven(b)).then(a.seconds.total_cmp(&b.seconds))
        });
        first.map(|(chosen, _)| chosen)
    }

    fn used(&self, candidates: &mut Vec<Candidate>, chosen: usize, branch: usize, plan: &Plan) {
        candidates[chosen].free -= 1;
        if candidates[chosen].free == 0 {
            candidates.remove(chosen);
        } else {
            self.estimate(&mut candidates[chosen], branch, plan);
        }
    }

    /// Requests the blocks that hold up the window from a second peer, where that is expected to be
    /// faster.
    fn hedge(
        &mut self,
        branch: usize,
        plan: &Plan,
        index: &dyn HeaderIndex,
        requests: &mut Requests,
    ) {
        let head = self.branches[branch].head;
        let limit = self.branches[branch].end(plan.window).min(head + HEDGE_SCAN);
        let mut missing = 0;
        for position in head..limit {
            let slot = self.branches[branch].slot(position);
            let block = self.blocks.get(&slot.hash);
            if slot.stored || block.is_some_and(Block::has_arrived) {
                continue;
            }
            if missing == HEDGE_DEPTH {
                return;
            }
            let info = index.get(slot.id);
            if info.failed {
                return;
            }
            if info.stored {
                self.note_stored(branch, position);
                continue;
            }
            let due = missing as f64 * self.size / plan.link.max(1.0);
            missing += 1;
            let expected = match block {
                Some(block) if !block.copies.is_empty() => {
                    self.seconds_left(slot.hash, block, plan)
                }
                // `fill` found no peer with a free share.
                _ if missing == 1 => f64::INFINITY,
                _ => continue,
            };
            let recent = block.is_some_and(|block| {
                !block.copies.is_empty()
                    && plan.now.saturating_sub(block.asked).as_secs_f64() < HEDGE_PAUSE
            });
            if recent {
                continue;
            }
            let last_resort = || Some((self.last_resort(branch, position, plan)?, 0.0));
            let chosen = self.alternative(branch, position, plan).or_else(last_resort);
            let Some((peer, seconds)) = chosen else { continue };
            // Each further copy must promise more, and so must a copy of any but the first missing
            // block.
            let copies = block.map_or(0, |block| block.copies.len()) + usize::from(missing > 1);
            let factor = HEDGE_FACTOR.powi(copies as i32);
            let busy = plan.link_busy_for(self.pending, self.size);
            let faster = expected > due + factor * seconds + HEDGE_PAUSE + busy;
            let untried = || self.untried(branch, position, plan);
            let chosen = if faster { Some(peer) } else { untried().filter(|_| missing == 1) };
            if let Some(peer) = chosen {
                self.ask(peer, slot.id, slot.hash, info.height, Purpose::Window, plan.now);
                requests.push((peer, slot.id, slot.hash));
            }
        }
    }

    /// Expected seconds until one of the peers that were asked delivers the block. A peer that has
    /// been silent, or has answered no request, for some time is expected to go on so for as long
    /// again.
    fn seconds_left(&self, hash: BlockHash, block: &Block, plan: &Plan) -> f64 {
        let left = |id: &PeerId| {
            let peer = &self.peers[id];
            let position = peer.position(&hash).expect("a copy is in its peer's queue");
            if peer.queue[position].skipped {
                return f64::INFINITY;
            }
            let seconds = peer.seconds_until(position, self.size, plan.usual);
            let held_up = peer.held_up(plan.now, self.size, plan.usual, &self.link);
            seconds.max(held_up).max(peer.silence(plan.now))
        };
        block.copies.iter().map(left).fold(f64::INFINITY, f64::min)
    }

    /// The other peer that is expected to deliver the block first, and in how many seconds.
    fn alternative(&self, branch: usize, position: usize, plan: &Plan) -> Option<(PeerId, f64)> {
        let hash = self.branches[branch].slot(position).hash;
        let height = self.branches[branch].height(position);
        let block = self.blocks.get(&hash);
        let mut best: Option<(PeerId, f64)> = None;
        for (id, peer) in &self.peers {
            let useful = !peer.reported
                && !peer.is_resting(plan.now)
                && peer.queue.len() < self.share(peer) + HEDGE_EXTRA
                && block.is_none_or(|block| block.may_be_asked_of(*id, plan.now))
                && self.has(peer, branch, height);
            if !useful {
                continue;
            }
            let mut seconds = peer.seconds_until(peer.queue.len(), self.size, plan.usual);
            if !peer.queue.is_empty() {
                let held_up = peer.held_up(plan.now, self.size, plan.usual, &self.link);
                seconds = seconds.max(held_up).max(peer.silence(plan.now));
            }
            if best.is_none_or(|(_, least)| seconds < least) {
                best = Some((*id, seconds));
            }
        }
        best
    }

    /// An idle peer to ask for a block as well, of which too little comes while no peer has answered anything
    /// ([`FIRST_ANSWER`]); preferred ones first.
    fn untried(&self, branch: usize, position: usize, plan: &Plan) -> Option<PeerId> {
        let block = self.blocks.get(&self.branches[branch].slot(position).hash)?;
        let waited = plan.now.saturating_sub(block.asked).as_secs_f64();
        if plan.answered || block.copies.is_empty() || waited < FIRST_ANSWER {
            return None;
        }
        let silent = |id: &PeerId| self.peers[id].silence(plan.now) >= FIRST_ANSWER;
        let patience = FIRST_ANSWER * FIRST_FACTOR.powi(block.copies.len() as i32);
        if self.size / plan.link <= patience && !block.copies.iter().all(silent) {
            return None;
        }
        let idle = self.peers.iter().filter(|(id, peer)| {
            peer.queue.is_empty()
                && !peer.reported
                && !peer.is_resting(plan.now)
                && block.may_be_asked_of(**id, plan.now)
                && self.has(peer, branch, block.height)
        });
        idle.min_by_key(|(_, peer)| !peer.traits.preferred).map(|(id, _)| *id)
    }

    /// The peer to ask once more for a block that all peers which have it failed to deliver: the
    /// one whose failure is longest ago. `None` while there is a peer that did not fail.
    fn last_resort(&self, branch: usize, position: usize, plan: &Plan) -> Option<PeerId> {
        let block = self.blocks.get(&self.branches[branch].slot(position).hash)?;
        if !block.is_missing() {
            return None;
        }
        let mut oldest: Option<(Duration, PeerId)> = None;
        for (id, peer) in &self.peers {
            if peer.reported || !self.has(peer, branch, block.height) {
                continue;
            }
            let since = block.excluded.since(*id, plan.now)?;
            let free = peer.queue.len() < self.share(peer) + HEDGE_EXTRA;
            if free && !peer.is_resting(plan.now) && oldest.is_none_or(|(least, _)| since < least) {
                oldest = Some((since, *id));
            }
        }
        oldest.map(|(_, peer)| peer)
    }

    pub(super) fn ask(
        &mut self,
        peer: PeerId,
        id: HeaderId,
        hash: BlockHash,
        height: u32,
        purpose: Purpose,
        now: Duration,
    ) {
        let delivered = self.link.delivered;
        self.peers.get_mut(&peer).expect("it was chosen").ask(hash, purpose, now, delivered);
        self.some_unowed |= purpose == Purpose::Favour;
        self.blocks.entry(hash).or_insert_with(|| Block::new(id, height));
        self.update(hash, |block| {
            block.copies.push(peer);
            block.asked = now;
        });
    }

    /// The index has the block already: it arrived otherwise than by a request.
    fn note_stored(&mut self, branch: usize, position: usize) {
        let slot = self.branches[branch].slot(position);
        self.branches[branch].mark_position_stored(position);
        self.update(slot.hash, |block| block.stored = true);
    }
}

//! The window of one chain: the blocks above the tip that may be requested, or above that of a history.

use std::collections::VecDeque;

use godwit_primitives::BlockHash;

use crate::index::{HeaderId, HeaderIndex, last_common_ancestor};

/// A block of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) id: HeaderId,
    pub(super) hash: BlockHash,
    pub(super) stored: bool,
}

/// The window of one target. Positions count from the window's first block.
#[derive(Debug)]
pub(super) struct Branch {
    pub(super) target: HeaderId,
    target_height: u32,
    tip: Option<HeaderId>,
    /// The tip is on another chain.
    forks: bool,
    /// Height of the first slot: one above where the target leaves the tip's chain.
    first: u32,
    slots: VecDeque<Slot>,
    /// Blocks in slots below this one are stored, requested, or being judged.
    pub(super) next: usize,
    /// Blocks in slots below this one have arrived.
    pub(super) head: usize,
}

impl Branch {
    pub(super) fn new(target: HeaderId) -> Self {
        let slots = VecDeque::new();
        let (tip, forks) = (None, false);
        Self { target, target_height: 0, tip, forks, first: 0, slots, next: 0, head: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.slots.len()
    }

    /// The window's end, behind its last position. Of a chain that forks from the tip's none of the first
    /// blocks is connected before the last that it needs for more work is here, so that those which have
    /// arrived are not counted: it may need any number. (Core moves `pindexLastCommonBlock` over all that
    /// are stored.)
    pub(super) fn end(&self, window: usize) -> usize {
        let uncounted = if self.forks { self.head } else { 0 };
        self.slots.len().min(uncounted.saturating_add(window))
    }

    pub(super) fn slot(&self, position: usize) -> Slot {
        self.slots[position]
    }

    pub(super) fn height(&self, position: usize) -> u32 {
        self.first + position as u32
    }

    /// Position of the block in the window.
    pub(super) fn position(&self, hash: &BlockHash, height: u32) -> Option<usize> {
        let position = height.checked_sub(self.first)? as usize;
        (self.slots.get(position)?.hash == *hash).then_some(position)
    }

    pub(super) fn mark_stored(&mut self, hash: &BlockHash, height: u32) {
        if let Some(position) = self.position(hash, height) {
            self.slots[position].stored = true;
        }
    }

    pub(super) fn mark_position_stored(&mut self, position: usize) {
        self.slots[position].stored = true;
    }

    /// A requested block is missing again.
    pub(super) fn mark_missing(&mut self, hash: &BlockHash, height: u32) {
        if let Some(position) = self.position(hash, height) {
            self.slots[position].stored = false;
            self.next = self.next.min(position);
            self.head = self.head.min(position);
        }
    }

    /// The chain refused the bytes that had arrived, but another copy is still in flight.
    pub(super) fn mark_expected(&mut self, hash: &BlockHash, height: u32) {
        if let Some(position) = self.position(hash, height) {
            self.head = self.head.min(position);
        }
    }

    /// Adapts the window to `tip`, the last block that its chain needs no more, and to `target`. Costs time
    /// proportional to what changed; to the whole window only when the tip left the target's chain.
    pub(super) fn follow(
        &mut self,
        index: &dyn HeaderIndex,
        tip: HeaderId,
        target: HeaderId,
        limit: usize,
    ) {
        if self.target != target || self.tip.is_none() {
            self.retarget(index, target);
        }
        if self.tip != Some(tip) {
            self.advance_to(index, tip);
        }
        self.extend(index, limit);
    }

    /// Keeps the slots that the new target's chain shares with the old one.
    fn retarget(&mut self, index: &dyn HeaderIndex, target: HeaderId) {
        self.target = target;
        self.target_height = index.get(target).height;
        let shared = |(position, slot): (usize, &Slot)| {
            index.ancestor(target, self.first + position as u32) == Some(slot.id)
        };
        // Two chains that part never meet again, so that a binary search finds where.
        let kept = match self.slots.iter().enumerate().next_back() {
            Some(last) if shared(last) => self.slots.len(),
            _ => {
                let (mut low, mut high) = (0, self.slots.len());
                while low < high {
                    let middle = low + (high - low) / 2;
                    if shared((middle, &self.slots[middle])) {
                        low = middle + 1
                    } else {
                        high = middle
                    }
                }
                low
            }
        };
        self.slots.truncate(kept);
        if kept == 0 {
            self.tip = None;
        }
    }

    fn advance_to(&mut self, index: &dyn HeaderIndex, tip: HeaderId) {
        let height = index.get(tip).height;
        let inside = height
            .checked_sub(self.first)
            .and_then(|position| self.slots.get(position as usize))
            .is_some_and(|slot| slot.id == tip);
        let fork = match inside {
            true => height,
            false => index.get(last_common_ancestor(index, tip, self.target)).height,
        };
        let first = fork + 1;
        let passed = first.checked_sub(self.first).map(|count| count as usize);
        match passed {
            Some(passed) if self.tip.is_some() && passed <= self.slots.len() => {
                self.slots.drain(..passed);
                self.next = self.next.saturating_sub(passed);
                self.head = self.head.saturating_sub(passed);
            }
            _ => {
                self.slots.clear();
                (self.next, self.head) = (0, 0);
            }
        }
        (self.first, self.tip, self.forks) = (first, Some(tip), fork < height);
    }

    /// Fills the window up to its [end](Self::end) where it has `limit` slots.
    fn extend(&mut self, index: &dyn HeaderIndex, limit: usize) {
        let have = self.slots.len();
        let limit = if self.forks { limit.saturating_add(self.head) } else { limit };
        let room =
            (u64::from(self.target_height) + 1).saturating_sub(u64::from(self.first) + have as u64);
        let added = room.min(limit.saturating_sub(have) as u64) as u32;
        (self.next, self.head) = (self.next.min(have), self.head.min(have));
        let mut id = match added {
            0 => None,
            _ => index.ancestor(self.target, self.first + have as u32 + added - 1),
        };
        let mut above = Vec::with_capacity(added as usize);
        while let Some(current) = id
            && above.len() < added as usize
        {
            let info = index.get(current);
            above.push(Slot { id: current, hash: info.hash, stored: info.stored });
            id = index.parent(current);
        }
        self.slots.extend(above.into_iter().rev());
    }
}

//! How much of its memory a store uses, and what it does when that is not enough.

use super::budget::{MAX_UNFLUSHED, MemoryUsage};
use super::store::UtxoStore;

impl UtxoStore {
    /// Changes the memory budget. Of less, no more is used as soon as what is kept is dropped and the
    /// memtable rotated.
    pub fn set_budget(&mut self, bytes: u64) {
        let before = self.budget.bytes();
        self.budget.set(bytes);
        if self.budget.bytes() != before {
            self.drop_kept();
        }
    }

    /// Memory in use.
    pub fn memory_used(&self) -> MemoryUsage {
        let mut used = self.memtables.memory_used();
        used += self.runs.memory_used();
        used
    }

    /// Bytes of coins that no durable run has yet, as memory counts them: what a clean end has to write.
    pub fn unwritten(&self) -> usize {
        self.unsealed() + self.memtables.sealed().unflushed_memory()
    }

    /// The part of [`Self::unwritten`] that is not being written.
    pub fn unsealed(&self) -> usize {
        let active = self.memtables.active();
        if active.is_empty() { 0 } else { active.memory() }
    }

    /// Bytes of [`Self::unwritten`] that flushes write in a second, as far as they were measured.
    pub fn write_rate(&self) -> u64 {
        self.memtables.write_rate()
    }

    /// Whether the active memtable has used up its share. To be asked after [`Self::poll`], at
    /// least once a block. (A rotation within a block is allowed, but its seal must not be
    /// committed.)
    pub fn wants_rotation(&self) -> bool {
        let (used, active) = (self.memory_used(), self.memtables.active());
        let tables = self.budget.bytes().saturating_sub(used.above_kept() - used.active);
        let limit =
            if used.flushing == 0 { tables / 3 * 2 } else { tables.saturating_sub(used.flushing) };
        let next = active.memory() + active.memory_step();
        let needed = next + self.budget.flush_memory(active);
        // Rotating an empty memtable frees nothing: it would be wanted again at once, and each time
        // followed by a commit, for as long as a merge has the memory. But for one that was large: a
        // new one takes its place, so that this is wanted once.
        let frees = !active.is_empty() || active.is_emptied();
        let worth_it = frees && active.memory() >= self.budget.minima.active;
        (needed > limit && worth_it) || active.is_full()
    }

    /// Whether a rotation now would leave no room for the next memtable.
    pub(super) fn lacks_room(&self) -> bool {
        let sealed = self.memtables.sealed();
        let waiting = sealed.unwritten().count();
        let more = self.budget.flush_memory(self.memtables.active()) + self.budget.minima.active;
        let used = self.memory_used();
        sealed.unflushed() >= MAX_UNFLUSHED
            || waiting > 0 && used.flushing + used.above_kept() + more > self.budget.bytes()
    }

    /// Drops clean and then kept memtables, oldest first, while the budget is exceeded; not within
    /// [`Self::pinned`].
    pub(super) fn drop_kept(&mut self) {
        let beside = self.runs.memory_used().total();
        self.counters.uncovered += self.memtables.drop_kept(self.budget, beside);
    }
}

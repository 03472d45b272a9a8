//! How the memory budget is shared.
//!
//! | part | at most |
//! | --- | --- |
//! | filters | 1/4 of the budget; the largest are halved, then dropped |
//! | block indexes | 1/8; the largest are thinned out, so that lookups read more blocks |
//! | a running merge | its buffers, the filter and the block index it builds; begun when that fits |
//! | memtables | the rest |
//!
//! With no flush under way the active memtable is to be frozen at 2/3 of the rest, so that the next
//! one has 1/3 to grow in while it is flushed; then it may take what the flush leaves.

use super::filter::Filter;
use super::jobs::MergePart;
use super::memtable::Memtable;
use super::merge_policy::MAX_INPUTS;
use super::run::format::PAYLOAD;
use super::store::UtxoStore;

/// The smallest memory budget in bytes; less is raised to it.
pub const MIN_BUDGET: u64 = 4 << 20;
/// An active memtable below this size is never frozen for want of memory: freezing frees nothing.
const MIN_ACTIVE: usize = 512 << 10;
/// Sealed memtables that wait to be written, at most.
const MAX_UNFLUSHED: usize = 4;

/// Memory in use by what it is used for, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The active memtable, with room for the growth of its slots.
    pub active: usize,
    /// Sealed memtables that are being flushed.
    pub frozen: usize,
    /// Flushed memtables kept for older snapshots.
    pub kept: usize,
    /// Memtables that only a snapshot in someone's hands keeps.
    pub snapshots: usize,
    /// Filters of runs.
    pub filters: usize,
    /// Block indexes of runs.
    pub indexes: usize,
    /// What flushes and the running merge need to write.
    pub buffers: usize,
}

impl MemoryUsage {
    /// The sum.
    pub fn total(&self) -> usize {
        self.frozen + self.kept + self.above_kept()
    }

    fn above_kept(&self) -> usize {
        self.active + self.snapshots + self.filters + self.indexes + self.buffers
    }
}

pub(super) fn filter_limit(budget: usize) -> usize {
    budget / 4
}

pub(super) fn index_limit(budget: usize) -> usize {
    budget / 8
}

/// Bytes read or written at once by a flush or a merge.
pub(super) fn io_buffer(budget: usize) -> usize {
    (budget / 256).clamp(16 << 10, 256 << 10)
}

/// Bytes that the filter of one merged segment may take.
pub(super) fn merge_filter_limit(budget: usize) -> usize {
    budget / 20
}

/// Bytes of inputs up to which small merges share one run.
pub(super) fn shared_merge_limit(budget: usize) -> u64 {
    budget as u64
}

/// Bytes that a merge takes.
pub(super) fn merge_memory(parts: &[MergePart], budget: usize) -> usize {
    let filter = |part: &MergePart| {
        Filter::full_bytes(part.expected_entries()).min(merge_filter_limit(budget) as u64)
    };
    let index = |part: &MergePart| part.bytes() / PAYLOAD as u64 * 4;
    let tables: u64 = parts.iter().map(|part| filter(part) + index(part)).sum();
    tables as usize + (MAX_INPUTS + 1) * io_buffer(budget)
}

/// Bytes that flushing a memtable takes: buffer, filters, block indexes.
pub(super) fn flush_memory(table: &Memtable, budget: usize) -> usize {
    let filters = Filter::full_bytes((table.coins() + table.tombstones()) as u64) as usize;
    // Every partition may round its filter up to two blocks more.
    filters + (64 << 6) + table.memory() / PAYLOAD * 4 + io_buffer(budget)
}

impl UtxoStore {
    /// Memory in use.
    pub fn memory_used(&self) -> MemoryUsage {
        let merging = self.merging.as_ref().map_or(0, |merge| merge.memory);
        MemoryUsage {
            active: self.active.memory(),
            frozen: self.sealed.unflushed_memory(),
            kept: self.sealed.kept_memory(),
            snapshots: self.sealed.snapshot_memory(),
            filters: self.segments.filter_memory(),
            indexes: self.segments.index_memory(),
            buffers: merging + self.sealed.flush_memory(),
        }
    }

    /// Whether the active memtable has used up its share: to be asked after [`Self::poll`], at least
    /// once a block. A freeze within a block is allowed, only no commit point.
    pub fn should_freeze(&self) -> bool {
        let used = self.memory_used();
        let tables = self.budget.saturating_sub(used.above_kept() - used.active);
        let limit =
            if used.frozen == 0 { tables / 3 * 2 } else { tables.saturating_sub(used.frozen) };
        let next = self.active.memory() + self.active.memory_step();
        let needed = next + flush_memory(&self.active, self.budget);
        (needed > limit && self.active.memory() >= MIN_ACTIVE) || self.active.is_full()
    }

    /// Whether sealing the active memtable now leaves no room for the next one.
    pub(super) fn lacks_room(&self) -> bool {
        let waiting = self.sealed.unflushed().count();
        let more = flush_memory(&self.active, self.budget) + MIN_ACTIVE;
        let used = self.memory_used();
        waiting >= MAX_UNFLUSHED
            || waiting > 0 && used.frozen + used.above_kept() + more > self.budget
    }

    /// Drops kept memtables, oldest first, while the budget is exceeded.
    pub(super) fn drop_kept(&mut self) {
        while self.memory_used().total() > self.budget && self.sealed.drop_oldest_kept() {
            self.counters.uncovered += 1;
        }
        let used = self.memory_used();
        self.allowance = if used.kept == 0 {
            usize::MAX
        } else {
            self.budget.saturating_sub(used.total() - used.active)
        };
    }
}

//! How the memory budget is shared.
//!
//! | part | at most |
//! | --- | --- |
//! | filters | 1/4 of the budget; the largest are halved, then dropped |
//! | block indexes | 1/8; the largest are thinned out, so that lookups read more blocks |
//! | a running merge | its buffers, the filter and the block index it builds; begun when that fits |
//! | memtables | the rest |
//!
//! What memtables leave free is filled with those that are in runs, the *clean* ones, so that their coins
//! need no read; the oldest go when it is needed.
//!
//! While none is being written, the active memtable is to be rotated at 2/3 of the rest, so that the next
//! one has 1/3 to grow meanwhile; while one is, the active one may take what it leaves. A run that is
//! written and waits for its fsync takes nothing of that.
//!
//! Beside the budget each run that is being written has its parity in memory, at most 256 KiB
//! ([`super::run::parity`]): one flush and one merge, whatever the budget is.

use super::arena::SMALL_STEP;
use super::filter::Filter;
use super::jobs::MergePart;
use super::memtable::Memtable;
use super::merge_policy::MAX_INPUTS;
use super::run::format::PAYLOAD;

/// Most bytes that a flush or a merge reads or writes at once.
const MAX_IO_BUFFER: usize = 256 << 10;
/// Most sealed memtables that wait to be written, or whose runs wait to be synced.
pub(crate) const MAX_UNFLUSHED: usize = 4;

/// How a store is run.
#[derive(Clone, Copy, Debug)]
pub struct UtxoConfig {
    /// Bytes of memory (`-dbcache`); [`CacheMinima::budget`] when less.
    pub budget: u64,
    /// Its lower bounds.
    pub minima: CacheMinima,
}

/// Lower bounds of a store's memory, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct CacheMinima {
    /// The smallest memory budget; less is raised to it.
    pub budget: u64,
    /// An active memtable below this size is never rotated for want of memory, since that would
    /// free nothing. (Nor is an empty one, unless it was large.)
    pub active: usize,
    /// What a flush or a merge reads or writes at once.
    pub io_buffer: usize,
    /// What a memtable takes at once for its first entries; a power of two.
    pub arena_step: usize,
}

impl CacheMinima {
    /// The bounds of the product. Tests use lower ones, so that few coins cause flushes and merges.
    pub const PRODUCT: Self =
        Self { budget: 4 << 20, active: 512 << 10, io_buffer: 16 << 10, arena_step: SMALL_STEP };
}

/// The memory of one store, and how its parts share it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    bytes: usize,
    pub(super) minima: CacheMinima,
}

/// Memory in use by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUsage {
    /// The active memtable, with room for the growth of its slots.
    pub active: usize,
    /// Sealed memtables that are being written.
    pub flushing: usize,
    /// Written memtables that are kept for older snapshots.
    pub kept: usize,
    /// Written memtables that lookups find coins in before they go to the runs; dropped when memory is
    /// needed.
    pub clean: usize,
    /// Memtables that only a snapshot holds, for its reader.
    pub snapshots: usize,
    /// Filters of runs.
    pub filters: usize,
    /// Block indexes of runs.
    pub indexes: usize,
    /// Buffers of flushes and of the running merge.
    pub buffers: usize,
}

impl std::ops::AddAssign for MemoryUsage {
    fn add_assign(&mut self, other: Self) {
        let Self { active, flushing, kept, clean, snapshots, filters, indexes, buffers } = other;
        self.active += active;
        self.flushing += flushing;
        self.kept += kept;
        self.clean += clean;
        self.snapshots += snapshots;
        self.filters += filters;
        self.indexes += indexes;
        self.buffers += buffers;
    }
}

impl MemoryUsage {
    pub fn total(&self) -> usize {
        self.needed() + self.kept + self.clean
    }

    /// All but what is dropped where memory is short.
    pub(super) fn needed(&self) -> usize {
        self.flushing + self.above_kept()
    }

    pub(super) fn above_kept(&self) -> usize {
        self.active + self.snapshots + self.filters + self.indexes + self.buffers
    }
}

impl Budget {
    pub(super) fn new(config: UtxoConfig) -> Self {
        let UtxoConfig { budget, minima } = config;
        let bytes = usize::try_from(budget.max(minima.budget)).unwrap_or(usize::MAX);
        Self { bytes, minima }
    }

    /// Changes the whole; less than the lower bound means that.
    pub(super) fn set(&mut self, bytes: u64) {
        *self = Self::new(UtxoConfig { budget: bytes, minima: self.minima });
    }

    pub(super) fn bytes(self) -> usize {
        self.bytes
    }

    /// See [`CacheMinima::arena_step`].
    pub(super) fn arena_step(self) -> usize {
        self.minima.arena_step
    }

    pub(super) fn filter_limit(self) -> usize {
        self.bytes / 4
    }

    pub(super) fn index_limit(self) -> usize {
        self.bytes / 8
    }

    /// Bytes read at once of each input of a merge.
    pub(super) fn read_buffer(self) -> usize {
        (self.bytes / 256).clamp(self.minima.io_buffer, MAX_IO_BUFFER)
    }

    /// Bytes written at once by a flush or a merge, a power of two: Linux keeps what is written so in a few
    /// large pieces of memory. Of other lengths, such as 28 KiB, it makes many small ones, which takes half
    /// as much time again.
    pub(super) fn write_buffer(self) -> usize {
        let bytes = (self.bytes / 64).clamp(self.minima.io_buffer, MAX_IO_BUFFER);
        1 << bytes.ilog2()
    }

    /// Bytes that the filter of one merged segment may take.
    pub(super) fn merge_filter_limit(self) -> usize {
        self.bytes / 20
    }

    /// Bytes of inputs up to which small merges share one run.
    pub(super) fn shared_merge_limit(self) -> u64 {
        self.bytes as u64
    }

    /// Bytes that a merge takes.
    pub(super) fn merge_memory(self, parts: &[MergePart]) -> usize {
        let filter = |part: &MergePart| {
            Filter::full_bytes(part.expected_entries()).min(self.merge_filter_limit() as u64)
        };
        let index = |part: &MergePart| part.bytes() / PAYLOAD as u64 * 4;
        let tables: u64 = parts.iter().map(|part| filter(part) + index(part)).sum();
        tables as usize + MAX_INPUTS * self.read_buffer() + self.write_buffer()
    }

    /// Bytes that flushing a memtable takes: buffer, filters, block indexes.
    pub(super) fn flush_memory(self, table: &Memtable) -> usize {
        let filters = Filter::full_bytes((table.coins() + table.tombstones()) as u64) as usize;
        // Every partition may round its filter up to two blocks more.
        filters + (64 << 6) + table.memory() / PAYLOAD * 4 + self.write_buffer()
    }
}

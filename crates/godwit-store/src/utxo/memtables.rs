//! The memtables of a store: the active one above the sealed ones. Files belong to [`super::runs`].

use std::sync::Arc;

use super::budget::{Budget, MemoryUsage};
use super::compressed::CompressedCoins;
use super::jobs::Flushed;
use super::key::HashedOutPoint;
use super::memtable::{Memtable, Probe};
use super::sealed::Sealed;
use super::write_rate::WriteRate;

/// The memtables of one store.
pub(super) struct Memtables {
    active: Memtable,
    sealed: Sealed,
    /// What `active` takes at once for its first entries.
    arena_step: usize,
    /// Size of `active`, in bytes, at which kept ones have to be dropped.
    allowance: usize,
    /// Kept ones stay although memory is short.
    pinned: bool,
    write_rate: WriteRate,
}

impl Memtables {
    /// Without coins, after the seal of a manifest.
    pub(super) fn new(seal: u64, arena_step: usize) -> Self {
        Self {
            active: Memtable::new(arena_step),
            sealed: Sealed::new(seal),
            arena_step,
            allowance: 0,
            pinned: false,
            write_rate: WriteRate::assumed(),
        }
    }

    #[inline]
    pub(super) fn active(&self) -> &Memtable {
        &self.active
    }

    /// For a change; where that may add memory, [`Self::is_over_allowance`] is to be asked.
    #[inline]
    pub(super) fn active_mut(&mut self) -> &mut Memtable {
        &mut self.active
    }

    pub(super) fn sealed(&self) -> &Sealed {
        &self.sealed
    }

    #[cfg(test)]
    pub(super) fn sealed_mut(&mut self) -> &mut Sealed {
        &mut self.sealed
    }

    /// What [`super::UtxoStore::take_compressed`] does. Unless the coin is not in memory,
    /// [`Self::is_over_allowance`] is to be asked.
    #[inline]
    pub(super) fn take(&mut self, key: &HashedOutPoint, out: &mut CompressedCoins) -> Probe {
        match self.active.take(key, |coin| out.push(coin)) {
            Probe::NotInMemory => self.take_sealed(key, out),
            known => known,
        }
    }

    fn take_sealed(&mut self, key: &HashedOutPoint, out: &mut CompressedCoins) -> Probe {
        let found = self.sealed.newest_first().find_map(|sealed| sealed.table.get(key));
        let Some(entry) = found else { return Probe::NotInMemory };
        let coin = entry.coin_bytes();
        if coin.is_empty() {
            return Probe::Spent;
        }
        out.push(coin);
        self.active.spend_below(key);
        Probe::Unspent
    }

    /// What is known of a coin.
    #[inline]
    pub(super) fn probe(&self, key: &HashedOutPoint) -> Probe {
        let sealed = self.sealed.newest_first().map(|sealed| &*sealed.table);
        let mut tables = std::iter::once(&self.active).chain(sealed);
        tables.find_map(|table| table.get(key)).map_or(Probe::NotInMemory, |entry| {
            if entry.is_tombstone() { Probe::Spent } else { Probe::Unspent }
        })
    }

    /// See [`super::UtxoStore::warm`].
    #[inline]
    pub(super) fn warm(&self, keys: &[HashedOutPoint]) {
        self.active.warm(keys);
        self.sealed.newest_first().for_each(|sealed| sealed.table.warm(keys));
    }

    /// Begins an active memtable anew that only has the memory of what was taken back.
    pub(super) fn replace_emptied(&mut self) {
        if self.active.is_emptied() {
            self.active = Memtable::new(self.arena_step);
        }
    }

    /// Seals the active memtable, and begins an empty one. Returns its seal, and what is to be written.
    /// `flush_memory` is what that takes.
    pub(super) fn rotate(&mut self, flush_memory: usize) -> (u64, Arc<Memtable>) {
        let next = Memtable::new(self.arena_step);
        let table = std::mem::replace(&mut self.active, next);
        self.sealed.seal(table, flush_memory)
    }

    /// Notes that a memtable is in a run.
    pub(super) fn set_written(&mut self, seal: u64) {
        self.sealed.set_written(seal);
    }

    /// Notes that the run is durable.
    pub(super) fn set_flushed(&mut self, flushed: Flushed) {
        let Flushed { seal, memory, took } = flushed;
        self.write_rate.note(memory, took);
        self.sealed.set_flushed(seal);
    }

    /// Bytes of memory that flushes write in a second.
    pub(super) fn write_rate(&self) -> u64 {
        self.write_rate.bytes_per_second()
    }

    /// Notes which written ones are clean by now.
    pub(super) fn release(&mut self) {
        self.sealed.release();
    }

    /// Memory in use, with what flushes take.
    pub(super) fn memory_used(&self) -> MemoryUsage {
        MemoryUsage {
            active: self.active.memory(),
            flushing: self.sealed.unwritten_memory(),
            kept: self.sealed.kept_memory(),
            clean: self.sealed.clean_memory(),
            snapshots: self.sealed.snapshot_memory(),
            buffers: self.sealed.flush_memory(),
            ..MemoryUsage::default()
        }
    }

    /// Whether the active memtable has grown so that [`Self::drop_kept`] has something to do.
    #[inline]
    pub(super) fn is_over_allowance(&self) -> bool {
        self.active.memory() > self.allowance
    }

    /// From now on, or no longer, [`Self::drop_kept`] does nothing. At the end it is to be called.
    pub(super) fn set_pinned(&mut self, pinned: bool) {
        (self.pinned, self.allowance) = (pinned, usize::MAX);
    }

    /// Drops clean and then kept ones, oldest first, while the budget is exceeded; `beside` are the bytes
    /// that all else takes. Returns how many kept ones were dropped.
    pub(super) fn drop_kept(&mut self, budget: Budget, beside: usize) -> u64 {
        let mut uncovered = 0;
        if self.pinned {
            self.allowance = usize::MAX;
            return uncovered;
        }
        while self.memory_used().total() + beside > budget.bytes() {
            if self.sealed.drop_oldest_clean() {
                continue;
            }
            if !self.sealed.drop_oldest_kept() {
                break;
            }
            uncovered += 1;
        }
        let used = self.memory_used();
        self.allowance = if used.kept + used.clean == 0 {
            usize::MAX
        } else {
            budget.bytes().saturating_sub(used.total() + beside - used.active)
        };
        uncovered
    }
}

//! Sealed memtables: those that are being written, those that are kept because an older snapshot may be in
//! use, and *clean* ones, which are in a run and serve lookups only. [`super::layers`] has the rule and its
//! argument.
//!
//! ```text
//!   sealed ──written──▶ kept ──no epoch needs it──▶ clean ──memory is needed, or too many──▶ dropped
//! ```

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use super::key::HashedOutPoint;
use super::layers::{Epoch, EpochPin};
use super::memtable::Memtable;

/// Most clean memtables: a key that passes the filter of a segment merged of all is looked for in each.
const MAX_CLEAN: usize = 8;

/// What memtables know that were sealed since a snapshot. With it the answers of that snapshot become those
/// of the newest one.
pub struct SealedSince<'s> {
    /// Newest first.
    tables: Vec<&'s Memtable>,
    newest: EpochPin,
}

impl SealedSince<'_> {
    /// Calls `found` with the number of each of `keys` that was changed since, and its coin as it is stored,
    /// unless it is spent.
    pub fn for_each_change(
        &self,
        keys: &[HashedOutPoint],
        mut found: impl FnMut(usize, Option<&[u8]>),
    ) {
        /// Few enough for what is warmed to be in the processor's cache still.
        const BATCH: usize = 64;
        for (batch, keys) in keys.chunks(BATCH).enumerate() {
            self.tables.iter().for_each(|table| table.warm(keys));
            for (n, key) in keys.iter().enumerate() {
                if let Some(entry) = self.tables.iter().find_map(|table| table.get(key)) {
                    let coin = entry.coin_bytes();
                    found(batch * BATCH + n, (!coin.is_empty()).then_some(coin));
                }
            }
        }
    }

    /// Of the newest snapshot.
    pub fn pin(&self) -> EpochPin {
        self.newest.clone()
    }
}

/// Sealed memtables by age.
pub(super) struct Sealed {
    /// Written memtables that no epoch needs and their seals, oldest first; all are older than those of
    /// `tables`.
    clean: VecDeque<(u64, Arc<Memtable>)>,
    /// Oldest first. Written ones come before the others, since writes end in order.
    tables: VecDeque<SealedTable>,
    /// Seals that no durable run has, oldest first, and the memory of their memtables.
    unflushed: VecDeque<(u64, usize)>,
    /// Number of the newest seal.
    newest: u64,
    /// Number of the newest seal whose memtable is clean or was dropped.
    dropped: u64,
    current: EpochPin,
    /// Earlier epochs, oldest first.
    pins: VecDeque<Weak<Epoch>>,
    /// Dropped memtables that a [`super::Layers`] may still hold.
    released: Vec<Weak<Memtable>>,
}

pub(super) struct SealedTable {
    pub(super) seal: u64,
    pub(super) table: Arc<Memtable>,
    /// It is in a run, durable or not.
    pub(super) written: bool,
    /// Memory that writing it takes, in bytes: buffer, filters and block indexes of its run.
    pub(super) flush_memory: usize,
}

impl Sealed {
    /// Without memtables, after the seal of a manifest.
    pub(super) fn new(seal: u64) -> Self {
        Self {
            clean: VecDeque::new(),
            tables: VecDeque::new(),
            unflushed: VecDeque::new(),
            newest: seal,
            dropped: seal,
            current: EpochPin(Arc::new(Epoch(seal))),
            pins: VecDeque::new(),
            released: Vec::new(),
        }
    }

    pub(super) fn newest(&self) -> u64 {
        self.newest
    }

    /// The pin of the newest seal.
    pub(super) fn current(&self) -> &EpochPin {
        &self.current
    }

    /// Seals a memtable and begins a new epoch.
    pub(super) fn seal(&mut self, table: Memtable, flush_memory: usize) -> (u64, Arc<Memtable>) {
        self.newest += 1;
        let (seal, table) = (self.newest, Arc::new(table));
        let kept = Arc::clone(&table);
        self.unflushed.push_back((seal, table.memory()));
        self.tables.push_back(SealedTable { seal, table: kept, written: false, flush_memory });
        self.pins.push_back(Arc::downgrade(&self.current.0));
        self.current = EpochPin(Arc::new(Epoch(seal)));
        (seal, table)
    }

    /// Notes that a memtable is in a run.
    pub(super) fn set_written(&mut self, seal: u64) {
        for table in self.tables.iter_mut().filter(|table| table.seal == seal) {
            table.written = true;
        }
    }

    /// Notes that the run is durable, and with it those of all seals before.
    pub(super) fn set_flushed(&mut self, seal: u64) {
        self.unflushed.retain(|(unflushed, _)| *unflushed > seal);
    }

    /// Every seal up to this one is in runs.
    pub(super) fn written(&self) -> u64 {
        self.unwritten().last().map_or(self.newest, |table| table.seal - 1)
    }

    /// Every seal up to this one is in durable runs.
    pub(super) fn flushed(&self) -> u64 {
        self.unflushed.front().map_or(self.newest, |(seal, _)| seal - 1)
    }

    /// Seals that no durable run has.
    pub(super) fn unflushed(&self) -> usize {
        self.unflushed.len()
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &SealedTable> {
        self.tables.iter().rev()
    }

    /// Memtables that are not yet in a run, newest first.
    pub(super) fn unwritten(&self) -> impl Iterator<Item = &SealedTable> {
        self.newest_first().take_while(|table| !table.written)
    }

    /// Written memtables that are still in memory, with their seals, newest first: those of all seals from
    /// some one up to the newest that is written.
    pub(super) fn written_tables(&self) -> impl Iterator<Item = (u64, &Arc<Memtable>)> {
        let kept = self.newest_first().filter(|sealed| sealed.written);
        let clean = self.clean.iter().rev().map(|(seal, table)| (*seal, table));
        kept.map(|sealed| (sealed.seal, &sealed.table)).chain(clean)
    }

    /// Written memtables kept for older epochs.
    fn kept(&self) -> impl Iterator<Item = &SealedTable> {
        self.tables.iter().take_while(|table| table.written)
    }

    /// Bytes of memtables that are not yet in a run.
    pub(super) fn unwritten_memory(&self) -> usize {
        self.unwritten().map(|table| table.table.memory()).sum()
    }

    /// Bytes of memtables that no durable run has, of those included that are gone.
    pub(super) fn unflushed_memory(&self) -> usize {
        self.unflushed.iter().map(|(_, memory)| memory).sum()
    }

    /// Bytes that writing those takes that are not yet in a run.
    pub(super) fn flush_memory(&self) -> usize {
        self.unwritten().map(|table| table.flush_memory).sum()
    }

    /// Bytes of written memtables that are kept for older epochs.
    pub(super) fn kept_memory(&self) -> usize {
        self.kept().map(|table| table.table.memory()).sum()
    }

    /// Bytes of clean memtables.
    pub(super) fn clean_memory(&self) -> usize {
        self.clean.iter().map(|(_, table)| table.memory()).sum()
    }

    /// Bytes of memtables that only snapshots hold.
    pub(super) fn snapshot_memory(&self) -> usize {
        self.released.iter().filter_map(Weak::upgrade).map(|table| table.memory()).sum()
    }

    /// Whether answers of snapshots under `pin` are still known to be true.
    pub(super) fn covers(&self, pin: &EpochPin) -> bool {
        pin.0.0 >= self.dropped
    }

    /// What was sealed after `pin`; `None` if nothing was, or not all of it is in memory.
    pub(super) fn since(&self, pin: &EpochPin) -> Option<SealedSince<'_>> {
        if pin.0.0 == self.newest || !self.covers(pin) {
            return None;
        }
        let newer = self.newest_first().take_while(|sealed| sealed.seal > pin.0.0);
        let tables = newer.map(|sealed| &*sealed.table).collect();
        Some(SealedSince { tables, newest: self.current.clone() })
    }

    /// Notes which written memtables no living epoch needs: they are clean.
    pub(super) fn release(&mut self) {
        self.released.retain(|table| table.strong_count() > 0);
        while self.pins.front().is_some_and(|pin| pin.strong_count() == 0) {
            self.pins.pop_front();
        }
        let oldest_pin = self.pins.iter().find_map(Weak::upgrade);
        let oldest_epoch = oldest_pin.map_or(self.newest, |epoch| epoch.0);
        while self.kept().next().is_some_and(|table| table.seal <= oldest_epoch) {
            let Some(table) = self.tables.pop_front() else { return };
            self.dropped = table.seal;
            self.clean.push_back((table.seal, table.table));
        }
        while self.clean.len() > MAX_CLEAN {
            self.drop_oldest_clean();
        }
    }

    /// Drops the oldest clean memtable; `false` when there is none.
    pub(super) fn drop_oldest_clean(&mut self) -> bool {
        let table = self.clean.pop_front();
        self.released.extend(table.iter().map(|(_, table)| Arc::downgrade(table)));
        table.is_some()
    }

    /// Drops the oldest memtable that is kept for an epoch, and the clean ones, which are older; `false` when
    /// there is none.
    pub(super) fn drop_oldest_kept(&mut self) -> bool {
        while self.drop_oldest_clean() {}
        if self.kept().next().is_none() {
            return false;
        }
        if let Some(table) = self.tables.pop_front() {
            self.dropped = table.seal;
            self.released.push(Arc::downgrade(&table.table));
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::super::arena::SMALL_STEP;
    use super::*;

    fn sealed(count: u64) -> (Sealed, Vec<EpochPin>) {
        let mut sealed = Sealed::new(10);
        let mut pins = vec![sealed.current().clone()];
        for _ in 0..count {
            sealed.seal(Memtable::new(SMALL_STEP), 0);
            pins.push(sealed.current().clone());
        }
        (sealed, pins)
    }

    fn flush(sealed: &mut Sealed, seal: u64) {
        sealed.set_written(seal);
        sealed.set_flushed(seal);
    }

    fn seals(sealed: &Sealed) -> Vec<u64> {
        sealed.newest_first().map(|table| table.seal).collect()
    }

    #[test]
    fn a_pin_keeps_what_was_sealed_after_it() {
        let (mut sealed, mut pins) = sealed(3);
        assert_eq!((seals(&sealed), sealed.flushed()), (vec![13, 12, 11], 10));
        flush(&mut sealed, 11);
        flush(&mut sealed, 12);
        sealed.release();
        assert_eq!((seals(&sealed), sealed.flushed()), (vec![13, 12, 11], 12));
        pins.remove(0);
        sealed.release();
        assert_eq!(seals(&sealed), [13, 12]);
        assert_eq!((sealed.clean.len(), sealed.written_tables().count()), (1, 2));
        pins.remove(1);
        sealed.release();
        assert_eq!(seals(&sealed), [13, 12], "epoch 11 still lives");
        pins.remove(0);
        sealed.release();
        assert_eq!(seals(&sealed), [13], "not flushed");
        flush(&mut sealed, 13);
        sealed.release();
        assert!(seals(&sealed).is_empty());
        assert_eq!((sealed.flushed(), sealed.clean.len()), (13, 3));
        assert!(sealed.drop_oldest_clean());
        assert_eq!(sealed.clean.len(), 2);
        assert!(sealed.covers(&pins[0]));
    }

    #[test]
    fn clean_memtables_are_few_and_the_oldest_go_first() {
        let (mut sealed, pins) = sealed(MAX_CLEAN as u64 + 2);
        drop(pins);
        let newest: Vec<_> = sealed.newest_first().map(|table| Arc::clone(&table.table)).collect();
        (11..=sealed.newest()).for_each(|seal| flush(&mut sealed, seal));
        sealed.release();
        assert_eq!(sealed.clean.len(), MAX_CLEAN);
        let left: Vec<_> = sealed.written_tables().collect();
        let expected = (11..=sealed.newest()).rev().zip(&newest);
        let is_one = |((seal, table), (expected, newest)): (&(u64, &Arc<_>), (u64, &Arc<_>))| {
            *seal == expected && Arc::ptr_eq(table, newest)
        };
        assert!(left.iter().zip(expected).all(is_one));
    }

    /// Its memory is free, its coins are at risk.
    #[test]
    fn a_memtable_is_dropped_before_its_run_is_durable() {
        let (mut sealed, pins) = sealed(2);
        drop(pins);
        let memory = sealed.unwritten_memory() / 2;
        sealed.set_written(11);
        sealed.release();
        assert_eq!((sealed.written(), sealed.flushed(), sealed.unflushed()), (11, 10, 2));
        assert_eq!((sealed.unwritten_memory(), sealed.unflushed_memory()), (memory, 2 * memory));
        assert!(sealed.drop_oldest_clean());
        assert_eq!((seals(&sealed), sealed.flushed()), (vec![12], 10));
        sealed.set_flushed(11);
        assert_eq!((sealed.flushed(), sealed.unflushed_memory()), (11, memory));
        sealed.set_written(12);
        assert_eq!((sealed.written(), sealed.flushed()), (12, 11));
        sealed.set_flushed(12);
        assert_eq!((sealed.flushed(), sealed.unflushed()), (12, 0));
    }

    #[test]
    fn dropping_early_uncovers_older_pins_only() {
        let (mut sealed, pins) = sealed(2);
        assert!(!sealed.drop_oldest_kept(), "nothing is flushed");
        flush(&mut sealed, 11);
        assert!(sealed.drop_oldest_kept());
        assert!(!sealed.drop_oldest_kept());
        let covered: Vec<bool> = pins.iter().map(|pin| sealed.covers(pin)).collect();
        assert_eq!(covered, [false, true, true]);
    }

    #[test]
    fn a_snapshot_that_outlives_its_memtable_is_counted() {
        let (mut sealed, _pins) = sealed(1);
        let held = Arc::clone(&sealed.newest_first().next().unwrap().table);
        flush(&mut sealed, 11);
        assert!(sealed.drop_oldest_kept());
        assert_eq!(sealed.snapshot_memory(), held.memory());
        drop(held);
        sealed.release();
        assert_eq!((sealed.snapshot_memory(), sealed.kept_memory()), (0, 0));
    }
}

//! Reading several layers as one.

use std::sync::Arc;

use godwit_primitives::OutPoint;

use super::entry_sum::{EntryHasher, EntrySum};
use super::memtable::{KeyedEntry, Memtable, MemtableCursor};
use super::run::reader::SegmentCursor;
use crate::error::StoreError;

/// Entries of one layer in order of key, then outpoint.
pub(super) enum Source {
    Memtable(Arc<Memtable>, MemtableCursor),
    Segment(SegmentCursor),
}

impl Source {
    #[inline]
    fn key(&self) -> Option<u64> {
        match self {
            Self::Memtable(_, cursor) => cursor.key(),
            Self::Segment(cursor) => cursor.key(),
        }
    }

    #[inline]
    fn current(&self) -> Option<KeyedEntry<'_>> {
        match self {
            Self::Memtable(table, cursor) => table.current(cursor),
            Self::Segment(cursor) => cursor.current(),
        }
    }

    fn outpoint(&self) -> Option<OutPoint> {
        self.current().map(|keyed| keyed.outpoint())
    }

    #[inline]
    fn advance(&mut self) -> Result<(), StoreError> {
        match self {
            Self::Memtable(table, cursor) => {
                table.advance(cursor);
                Ok(())
            }
            Self::Segment(cursor) => cursor.advance(),
        }
    }
}

/// The entry under the cursor.
#[derive(Clone, Copy)]
struct Head {
    /// The newest source that stands on it.
    source: usize,
    /// No other source stands on an entry with its key.
    alone: bool,
}

/// The newest entry of each outpoint of several layers, in order of key, then outpoint.
pub(super) struct MergeScan {
    /// Newest first; those that have come to their end are gone.
    sources: Vec<Source>,
    /// Key of the entry that each of them stands on. Beside each other they are in one or two cache lines,
    /// and nearly all comparisons end with them.
    keys: Vec<u64>,
    head: Option<Head>,
    keep_tombstones: bool,
    /// The sum of the entries that do not come out, if it is wanted.
    dropped: Option<(EntryHasher, EntrySum)>,
}

impl MergeScan {
    /// A cursor before the first entry. `sources` come newest first. Without `keep_tombstones` only
    /// coins come out, which is right only when nothing older than these layers exists.
    pub(super) fn new(mut sources: Vec<Source>, keep_tombstones: bool) -> Self {
        sources.retain(|source| source.key().is_some());
        let keys = sources.iter().filter_map(Source::key).collect();
        Self { sources, keys, head: None, keep_tombstones, dropped: None }
    }

    /// From now on sums up what does not come out.
    pub(super) fn sum_dropped(&mut self, hasher: EntryHasher) {
        self.dropped = Some((hasher, EntrySum::default()));
    }

    /// The sum of what did not come out; `None` if it was not asked for.
    pub(super) fn dropped(&self) -> Option<EntrySum> {
        self.dropped.map(|(_, sum)| sum)
    }

    /// Goes to the next entry; `false` at the end.
    pub(super) fn step(&mut self) -> Result<bool, StoreError> {
        loop {
            if let Some(head) = self.head {
                self.leave(head)?;
            }
            self.head = self.lowest();
            let Some(keyed) = self.current() else { return Ok(false) };
            if self.keep_tombstones || !keyed.entry.is_tombstone() {
                return Ok(true);
            }
            if let Some((hasher, sum)) = self.dropped {
                self.dropped = Some((hasher, sum + hasher.term(keyed.entry)));
            }
        }
    }

    /// The entry under the cursor.
    #[inline]
    pub(super) fn current(&self) -> Option<KeyedEntry<'_>> {
        self.sources[self.head?.source].current()
    }

    fn leave(&mut self, head: Head) -> Result<(), StoreError> {
        if head.alone {
            return self.advance(head.source);
        }
        let (key, outpoint) = (self.keys[head.source], self.sources[head.source].outpoint());
        // From the last on: one that comes to its end is removed.
        for n in (0..self.sources.len()).rev() {
            if self.keys[n] != key || self.sources[n].outpoint() != outpoint {
                continue;
            }
            if let Some((hasher, sum)) = &mut self.dropped
                && n != head.source
            {
                let hidden = self.sources[n].current().expect("it stands on an entry");
                *sum += hasher.term(hidden.entry);
            }
            self.advance(n)?;
        }
        Ok(())
    }

    #[inline]
    fn advance(&mut self, n: usize) -> Result<(), StoreError> {
        self.sources[n].advance()?;
        match self.sources[n].key() {
            Some(key) => self.keys[n] = key,
            None => {
                self.keys.remove(n);
                self.sources.remove(n);
            }
        }
        Ok(())
    }

    /// The lowest of the entries that the sources stand on, by key, then outpoint, and of those that
    /// have it the newest.
    fn lowest(&self) -> Option<Head> {
        let lowest = *self.keys.iter().min()?;
        let mut with_it = (0..self.keys.len()).filter(|n| self.keys[*n] == lowest);
        let first = with_it.next()?;
        let mut head = Head { source: first, alone: true };
        for n in with_it {
            head.alone = false;
            if self.sources[n].outpoint() < self.sources[head.source].outpoint() {
                head.source = n;
            }
        }
        Some(head)
    }
}

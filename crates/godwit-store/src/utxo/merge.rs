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
    fn head(&self) -> Option<(u64, OutPoint)> {
        match self {
            Self::Memtable(_, cursor) => cursor.head(),
            Self::Segment(cursor) => cursor.head(),
        }
    }

    #[inline]
    fn key(&self) -> Option<u64> {
        self.head().map(|(key, _)| key)
    }

    fn current(&self) -> Option<KeyedEntry<'_>> {
        match self {
            Self::Memtable(table, cursor) => table.current(cursor),
            Self::Segment(cursor) => cursor.current(),
        }
    }

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

/// The newest entry of each outpoint of several layers, in order of key, then outpoint.
pub(super) struct MergeScan {
    /// Newest first.
    sources: Vec<Source>,
    /// Key of the entry that each of them stands on; `None` behind the last. Beside each other they are in
    /// one or two cache lines, and most comparisons end with them.
    keys: Vec<Option<u64>>,
    /// The entry under the cursor and the newest source that stands on it.
    head: Option<((u64, OutPoint), usize)>,
    keep_tombstones: bool,
    /// The sum of the entries that do not come out, if it is wanted.
    dropped: Option<(EntryHasher, EntrySum)>,
}

impl MergeScan {
    /// A cursor before the first entry. `sources` come newest first. Without `keep_tombstones` only
    /// coins come out, which is right only when nothing older than these layers exists.
    pub(super) fn new(sources: Vec<Source>, keep_tombstones: bool) -> Self {
        let keys = sources.iter().map(Source::key).collect();
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
            if let Some((head, newest)) = self.head {
                self.leave(head, newest)?;
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
        self.sources[self.head?.1].current()
    }

    fn leave(&mut self, head: (u64, OutPoint), newest: usize) -> Result<(), StoreError> {
        for (n, (source, key)) in self.sources.iter_mut().zip(&mut self.keys).enumerate() {
            if *key == Some(head.0) && source.head() == Some(head) {
                if let Some((hasher, sum)) = &mut self.dropped
                    && n != newest
                {
                    let hidden = source.current().expect("it stands on an entry");
                    *sum += hasher.term(hidden.entry);
                }
                source.advance()?;
                *key = source.key();
            }
        }
        Ok(())
    }

    /// The lowest head and, of the sources that have it, the newest.
    fn lowest(&self) -> Option<((u64, OutPoint), usize)> {
        let lowest = self.keys.iter().flatten().min()?;
        let with_it = self.sources.iter().zip(&self.keys).enumerate();
        let with_it = with_it.filter(|(_, (_, key))| **key == Some(*lowest));
        with_it.filter_map(|(n, (source, _))| Some((source.head()?, n))).min()
    }
}

//! Reading several layers as one.

use std::sync::Arc;

use godwit_primitives::OutPoint;

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
    /// The entry under the cursor and the newest source that stands on it.
    head: Option<((u64, OutPoint), usize)>,
    keep_tombstones: bool,
}

impl MergeScan {
    /// A cursor before the first entry. `sources` come newest first. Without `keep_tombstones` only
    /// coins come out, which is right only when nothing older than these layers exists.
    pub(super) fn new(sources: Vec<Source>, keep_tombstones: bool) -> Self {
        Self { sources, head: None, keep_tombstones }
    }

    /// Goes to the next entry; `false` at the end.
    pub(super) fn step(&mut self) -> Result<bool, StoreError> {
        loop {
            if let Some((head, _)) = self.head {
                self.leave(head)?;
            }
            self.head = self.lowest();
            let Some(keyed) = self.current() else { return Ok(false) };
            if self.keep_tombstones || !keyed.entry.is_tombstone() {
                return Ok(true);
            }
        }
    }

    /// The entry under the cursor.
    #[inline]
    pub(super) fn current(&self) -> Option<KeyedEntry<'_>> {
        self.sources[self.head?.1].current()
    }

    fn leave(&mut self, head: (u64, OutPoint)) -> Result<(), StoreError> {
        for source in &mut self.sources {
            if source.head() == Some(head) {
                source.advance()?;
            }
        }
        Ok(())
    }

    /// The lowest head and, of the sources that have it, the newest.
    fn lowest(&self) -> Option<((u64, OutPoint), usize)> {
        let heads = self.sources.iter().enumerate();
        heads.filter_map(|(n, source)| source.head().map(|head| (head, n))).min()
    }
}

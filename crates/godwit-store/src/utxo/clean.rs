//! Clean memtables, as lookups use them: what they hold is in runs too, so that the filters of these tell
//! which of them can know a key.
//!
//! ```text
//!   memtables    9   8  7  6           of seals, newest first
//!   segments   ╰ 9 ╯╰ 6..=8 ╯╰ 2..=5 ╯  a key that passes the filter of 6..=8 is looked for in 8, 7 and 6
//! ```
//!
//! A filter is an eighth as large as the slots of a memtable, lookups need it for the run anyway, and most
//! keys pass none. A segment all of whose seals are in memory need not be asked again. One that was merged
//! of these and of older ones is, for the keys that the memtables do not have.

use std::sync::{Arc, Weak};

use super::entry::Entry;
use super::key::HashedOutPoint;
use super::memtable::Memtable;
use super::run::segment::{SealRange, Segment};

/// A snapshot's memtables that are in runs too, clean ones and kept ones; they may be dropped at any time.
#[derive(Clone, Default)]
pub(super) struct WrittenMemtables(Vec<(u64, Weak<Memtable>)>);

/// Those that are left, held for a lookup.
pub(super) struct Clean(Vec<(u64, Arc<Memtable>)>);

impl WrittenMemtables {
    /// Memtables with their seals, newest first: those of all seals from some one up to the newest that is in
    /// a run.
    pub(super) fn new<'t>(tables: impl Iterator<Item = (u64, &'t Arc<Memtable>)>) -> Self {
        Self(tables.map(|(seal, table)| (seal, Arc::downgrade(table))).collect())
    }

    /// If a newer one is gone, an older one that a reader still holds must not answer for it.
    pub(super) fn hold(&self) -> Clean {
        let held = |(seal, table): &(u64, Weak<Memtable>)| Some((*seal, table.upgrade()?));
        Clean(self.0.iter().map_while(held).collect())
    }
}

impl Clean {
    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    #[cfg(test)]
    pub(super) fn seals(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|(seal, _)| *seal)
    }

    /// Newest first.
    #[cfg(test)]
    pub(super) fn tables(&self) -> impl Iterator<Item = &Memtable> {
        self.0.iter().map(|(_, table)| &**table)
    }

    /// Hands `found` the newest entry of each key of `open` that has one here, and leaves the others there.
    /// `open` are keys of one partition in their order, and `segments` those of that partition, newest first.
    /// Returns how many of these, from the first on, hold nothing of what is left.
    pub(super) fn look_up(
        &self,
        segments: &[Arc<Segment>],
        keys: &[HashedOutPoint],
        open: &mut Vec<u32>,
        mut found: impl FnMut(u32, Entry<'_>),
    ) -> usize {
        let mut wanted = Vec::with_capacity(open.len());
        for segment in segments {
            let tables = self.of(segment.seals);
            if tables.is_empty() {
                break;
            }
            segment.select(keys, open, &mut wanted);
            if wanted.is_empty() {
                continue;
            }
            let asked = wanted.clone();
            for (_, table) in tables {
                table.look_up(keys, &mut wanted, |n, entry| {
                    found(n, entry);
                    false
                });
            }
            keep_unanswered(open, &asked, &wanted);
        }
        segments.iter().take_while(|segment| self.has_all_of(segment.seals)).count()
    }

    /// The memtables of these seals, newest first.
    fn of(&self, seals: SealRange) -> &[(u64, Arc<Memtable>)] {
        let first = self.0.partition_point(|(seal, _)| *seal > seals.newest);
        let end = self.0.partition_point(|(seal, _)| *seal >= seals.oldest);
        &self.0[first..end]
    }

    fn has_all_of(&self, seals: SealRange) -> bool {
        self.0.last().is_some_and(|(oldest, _)| *oldest <= seals.oldest)
    }
}

/// Removes those of `open` that were asked for and are not left, both in the same order.
fn keep_unanswered(open: &mut Vec<u32>, asked: &[u32], left: &[u32]) {
    let (mut asked, mut left) = (asked.iter().peekable(), left.iter().peekable());
    open.retain(|n| asked.next_if_eq(&n).is_none() || left.next_if_eq(&n).is_some());
}

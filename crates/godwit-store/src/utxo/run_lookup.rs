//! Looks up many keys in runs with many reads in flight: a drive that takes 100 µs for one read does many in
//! the same time.
//!
//! Blocks in the system's page cache are looked at directly. For the others the disk is told to fetch them,
//! and other keys are looked up meanwhile. When [`PENDING_BLOCKS`] are in flight, the oldest are waited for;
//! keys that they do not hold after all, despite the filter, go on to the next older segment in the same way.
//!
//! A hard disk takes some ten milliseconds for each read, and half a minute for the coins of a block. So the
//! caller may stop a lookup early: keys without an answer are left for a later one, by which time the disk
//! has fetched what was in flight.

use std::collections::VecDeque;
use std::sync::Arc;

use godwit_stream::DecodeError;

use super::entry::Entry;
use super::key::HashedOutPoint;
use super::run::segment::{AtHand, LookupScratch, Segment};
use crate::error::StoreError;

/// Blocks that the disk fetches for one job, beside those of the keys that are looked up at once: 4 MiB of
/// the system's page cache, and more requests than a drive takes at once.
const PENDING_BLOCKS: usize = 1024;

/// Keys that are looked up in one segment after the other before it is asked how many blocks are on their
/// way.
const KEYS_AT_ONCE: usize = 64;

/// The same where the blocks of so many before were all in memory: the more keys there are of one segment,
/// the more neighbouring blocks one call reads.
const KEYS_AT_HAND: usize = 512;

/// Keys whose blocks are waited for before it is asked again whether to break off.
const WAITING_KEYS: usize = 16;

/// Keys whose blocks of one segment the disk fetches.
struct Pending<'l> {
    keys: Vec<u32>,
    blocks: usize,
    /// That segment, and behind it the older ones of its partition.
    segments: &'l [Arc<Segment>],
}

/// One question to the runs; see the module's documentation.
pub(super) struct RunLookup<'l, F> {
    keys: &'l [HashedOutPoint],
    found: F,
    is_over: &'l dyn Fn() -> bool,
    /// A key has its answer.
    has_begun: bool,
    /// Nothing is on its way behind some keys.
    is_at_hand: bool,
    /// Keys that it was over for.
    left: Vec<u32>,
    pending: VecDeque<Pending<'l>>,
    pending_blocks: usize,
    /// Entries that were found.
    entries: usize,
    scratch: LookupScratch,
    wanted: Vec<u32>,
    answered: Vec<u32>,
}

impl<'l, F: FnMut(u32, Entry<'_>) -> Result<(), DecodeError>> RunLookup<'l, F> {
    /// `found` gets `n` and the newest entry of `keys[n]` for each that is looked up and has one. Once
    /// `is_over` says so, which may be at once, no more is looked up than a little.
    pub(super) fn new(keys: &'l [HashedOutPoint], found: F, is_over: &'l dyn Fn() -> bool) -> Self {
        Self {
            keys,
            found,
            is_over,
            has_begun: false,
            is_at_hand: false,
            left: Vec::new(),
            pending: VecDeque::new(),
            pending_blocks: 0,
            entries: 0,
            scratch: LookupScratch::default(),
            wanted: Vec::new(),
            answered: Vec::new(),
        }
    }

    /// Looks up `open`, keys of one partition in their order, in its segments, newest first.
    pub(super) fn look_up(
        &mut self,
        segments: &'l [Arc<Segment>],
        open: &[u32],
    ) -> Result<(), StoreError> {
        let mut rest = open;
        while !rest.is_empty() {
            let at_once = if self.is_at_hand { KEYS_AT_HAND } else { KEYS_AT_ONCE };
            let (open, behind) = rest.split_at(at_once.min(rest.len()));
            rest = behind;
            if self.breaks_off() {
                self.left.extend(open);
                continue;
            }
            self.look_at_hand(segments, open.to_vec())?;
            self.is_at_hand = self.pending.is_empty();
            while self.pending_blocks > PENDING_BLOCKS && !self.breaks_off() {
                self.wait_for_oldest()?;
            }
        }
        Ok(())
    }

    /// Whether it is over, but not before a key has its answer: so lookups that go on from one another end.
    fn breaks_off(&self) -> bool {
        self.has_begun && (self.is_over)()
    }

    /// Waits for what is pending, unless it is over. Returns how many entries were found, and the keys
    /// that are left, in no order.
    pub(super) fn finish(mut self) -> Result<(usize, Vec<u32>), StoreError> {
        while !self.pending.is_empty() && !self.breaks_off() {
            self.wait_for_oldest()?;
        }
        let mut left = self.left;
        left.extend(self.pending.into_iter().flat_map(|pending| pending.keys));
        Ok((self.entries, left))
    }

    fn look_at_hand(
        &mut self,
        segments: &'l [Arc<Segment>],
        mut open: Vec<u32>,
    ) -> Result<(), StoreError> {
        let Self { keys, found, scratch, wanted, answered, entries, .. } = self;
        let (asked, mut waiting) = (open.len(), 0);
        for (at, segment) in segments.iter().enumerate() {
            if open.is_empty() {
                break;
            }
            segment.select(keys, &open, wanted);
            if wanted.is_empty() {
                continue;
            }
            answered.clear();
            let mut pending = Vec::new();
            let blocks = segment.resolve_at_hand(keys, wanted, scratch, &mut |n, answer| {
                answered.push(n);
                match answer {
                    AtHand::Entry(entry) => {
                        *entries += 1;
                        found(n, entry)
                    }
                    AtHand::Pending => {
                        pending.push(n);
                        Ok(())
                    }
                }
            })?;
            forget(&mut open, answered);
            if !pending.is_empty() {
                waiting += pending.len();
                self.pending_blocks += blocks;
                self.pending.push_back(Pending {
                    keys: pending,
                    blocks,
                    segments: &segments[at..],
                });
            }
        }
        self.has_begun |= waiting < asked;
        Ok(())
    }

    fn wait_for_oldest(&mut self) -> Result<(), StoreError> {
        let Some(Pending { keys: mut open, blocks, segments }) = self.pending.pop_front() else {
            return Ok(());
        };
        let Some((segment, older)) = segments.split_first() else { return Ok(()) };
        // Keys of one block are waited for together: it is read once.
        let together = |at: usize| {
            let [before, behind] = [at - 1, at].map(|at| self.keys[open[at] as usize].key);
            segment.is_of_one_read(before, behind)
        };
        let least = open.len().min(WAITING_KEYS);
        let first = (least..open.len()).find(|at| !together(*at)).unwrap_or(open.len());
        let rest = open.split_off(first);
        match rest.is_empty() {
            true => self.pending_blocks -= blocks,
            false => self.pending.push_front(Pending { keys: rest, blocks, segments }),
        }
        let Self { keys, found, scratch, answered, entries, .. } = self;
        answered.clear();
        segment.resolve(keys, &open, scratch, &mut |n, entry| {
            answered.push(n);
            *entries += 1;
            found(n, entry)
        })?;
        forget(&mut open, answered);
        self.has_begun |= !answered.is_empty();
        self.look_at_hand(older, open)
    }
}

/// Removes `answered`, some of `open` in the same order.
fn forget(open: &mut Vec<u32>, answered: &[u32]) {
    let mut answered = answered.iter().peekable();
    open.retain(|n| answered.next_if_eq(&n).is_none());
}

//! Merges runs, a part at a time, so that the index follows the chain meanwhile.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use godwit_store::disk::StoreDisk;

use super::run::{Run, RunFacts, RunReader, RunWriter};
use crate::error::IndexError;

/// Runs of about one size that become one. Each entry is written once for each size there is.
const FAN_IN: usize = 4;

/// Bytes that a merge leaves to all else that is written meanwhile: more than the chain's own merges leave,
/// so that those of an index are put off before them.
pub(super) const LEFT_FREE: u64 = 256 << 20;

/// How often runs of this size were merged, or would have been: runs of one tier are merged.
fn tier(entries: u64, smallest: u64) -> u32 {
    (entries / smallest.max(1)).checked_ilog(FAN_IN as u64).unwrap_or(0)
}

/// Neighbours that are to be merged, the newest ones first; `sizes` in entries, the oldest run first. Full
/// runs have `smallest` entries.
pub(super) fn due(sizes: &[u64], smallest: u64) -> Option<Range<usize>> {
    let mut end = sizes.len();
    while end > 0 {
        let tier_of_end = tier(sizes[end - 1], smallest);
        // What a clean end has left may be smaller than those after it.
        let start = sizes[..end]
            .iter()
            .rposition(|entries| tier(*entries, smallest) > tier_of_end)
            .map_or(0, |last| last + 1);
        if end - start >= FAN_IN {
            return Some(start..end);
        }
        end = start;
    }
    None
}

/// Bytes that have to be free for a run with the entries of these.
fn needed(runs: &[Arc<Run>]) -> u64 {
    runs.iter().map(|run| run.facts.bytes()).sum::<u64>() + LEFT_FREE
}

/// A merge under way. The runs it reads stay in use until it is done.
pub(super) struct Merge {
    sources: Vec<RunReader>,
    /// Their numbers.
    pub(super) replaces: Vec<u64>,
    writer: RunWriter,
}

impl Merge {
    /// Begins to merge these runs into one of this number, of the index with this key.
    ///
    /// # Errors
    ///
    /// The disk has no room for it, or a call fails.
    pub(super) fn begin(
        disk: &StoreDisk,
        dir: &Path,
        secret: [u8; 16],
        runs: &[Arc<Run>],
        id: u64,
    ) -> Result<Self, IndexError> {
        let (needed, free) = (needed(runs), disk.free_bytes(dir));
        if free < needed {
            return Err(IndexError::LacksRoom { needed, free });
        }
        Ok(Self {
            sources: runs.iter().cloned().map(RunReader::new).collect(),
            replaces: runs.iter().map(|run| run.facts.id).collect(),
            writer: RunWriter::create(disk, dir, secret, id)?,
        })
    }

    /// Goes on by so many entries.
    ///
    /// # Errors
    ///
    /// The disk has filled meanwhile: then what was merged is removed, for it would stand in the way of what
    /// the chain writes. Or a call fails.
    pub(super) fn go_on(
        mut self,
        disk: &StoreDisk,
        dir: &Path,
        entries: usize,
    ) -> Result<Merging, IndexError> {
        let free = disk.free_bytes(dir);
        if free < LEFT_FREE {
            self.writer.give_up(disk, dir)?;
            return Err(IndexError::LacksRoom { needed: LEFT_FREE, free });
        }
        for _ in 0..entries {
            let mut least = None;
            for (n, source) in self.sources.iter_mut().enumerate() {
                if let Some(entry) = source.peek()?
                    && least.is_none_or(|(other, _)| entry < other)
                {
                    least = Some((entry, n));
                }
            }
            let Some((entry, n)) = least else {
                return Ok(Merging::Done(self.writer.finish()?, self.replaces));
            };
            self.writer.add(entry)?;
            self.sources[n].advance();
        }
        Ok(Merging::GoesOn(Box::new(self)))
    }
}

/// What came of a part of a merge.
pub(super) enum Merging {
    GoesOn(Box<Merge>),
    /// The new run, and the numbers of those that it replaces.
    Done(RunFacts, Vec<u64>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_one_size_are_merged_when_there_are_four() {
        assert_eq!(due(&[], 10), None);
        assert_eq!(due(&[10, 10, 10], 10), None);
        assert_eq!(due(&[10, 10, 10, 10], 10), Some(0..4));
        assert_eq!(due(&[40, 10, 10, 10], 10), None);
        assert_eq!(due(&[40, 40, 40, 40], 10), Some(0..4));
        assert_eq!(due(&[160, 39, 10, 10, 3, 10], 10), Some(1..6));
        assert_eq!(due(&[40, 40, 40, 40, 10, 10, 10], 10), Some(0..4));
        // Those of clean ends count as the smallest.
        assert_eq!(due(&[1, 1, 1], 10), None);
        assert_eq!(due(&[1, 0, 1, 1], 10), Some(0..4));
        // One that is smaller than what came after it goes with that.
        assert_eq!(due(&[40, 1, 40, 40, 40], 10), Some(0..5));
    }

    /// 1.3 billion transactions, as main has in 2026.
    #[test]
    fn the_index_of_main_has_few_runs_and_each_entry_was_written_seven_times_at_most() {
        const RUN: u64 = 1 << 18;
        let (mut sizes, mut written, mut largest): (Vec<u64>, u64, u64) = Default::default();
        for _ in 0..1_300_000_000 / RUN {
            sizes.push(RUN);
            written += RUN;
            while let Some(range) = due(&sizes, RUN) {
                let sum = sizes[range.clone()].iter().sum();
                sizes.splice(range, [sum]);
                (written, largest) = (written + sum, largest.max(sum));
            }
            assert!(sizes.len() <= 3 * 7, "{sizes:?}");
        }
        assert_eq!(written / 1_300_000_000, 6, "{written}");
        assert_eq!(largest, RUN << 12);
    }

    #[test]
    fn the_number_of_runs_stays_small_whatever_comes() {
        let mut sizes: Vec<u64> = Vec::new();
        for n in 0..2_000u64 {
            sizes.push(if n % 7 == 3 { n % 10 } else { 10 });
            while let Some(range) = due(&sizes, 10) {
                let sum = sizes[range.clone()].iter().sum();
                sizes.splice(range, [sum]);
            }
            assert!(sizes.len() <= 18, "{sizes:?}");
        }
    }
}

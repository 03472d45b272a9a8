//! The coins that an inspection of runs has found lost.

use std::collections::{BTreeMap, BTreeSet};

use super::manifest::ManifestRun;
use super::run::format::RunId;
use super::run::parity::parity_of;

/// What is lost of a segment that is damaged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SegmentLoss {
    /// Filter or block index: they follow from the entries.
    Derived,
    /// Blocks of entries; the others are as they were written, where parity vouches for them.
    Blocks,
    /// All: the entries are not those that the footer counts, or no entries.
    Entries,
}

/// What of the coins neither the blocks of runs nor their parity have.
#[derive(Clone, Debug, Default)]
pub struct LostCoins {
    /// Runs that are to be replaced.
    pub(super) runs: BTreeSet<RunId>,
    /// What is lost of the entries, by partition.
    pub(super) partitions: BTreeMap<u8, Loss>,
    /// Blocks of parity that do not vouch for the blocks of their stripes, by run.
    doubtful: BTreeMap<RunId, BTreeSet<u32>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// Blocks of these runs.
    Blocks(BTreeSet<RunId>),
    /// All of a run, and nobody knows which keys it had; the runs that it is so with.
    All(BTreeSet<RunId>),
}

impl LostCoins {
    /// Whether all coins can be read, and each run is what it was.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Whether coins have to come from the blocks.
    pub fn needs_blocks(&self) -> bool {
        !self.partitions.is_empty()
    }

    pub(super) fn has_run(&self, run: RunId) -> bool {
        self.runs.contains(&run)
    }

    /// Whether a partition of a run is copied as far as it can be read.
    pub(super) fn is_salvaged(&self, run: RunId, partition: u8) -> bool {
        let loss = self.partitions.get(&partition);
        matches!(loss, Some(Loss::Blocks(runs)) if runs.contains(&run))
    }

    pub(super) fn needs_blocks_for(&self, run: RunId) -> bool {
        self.partitions.values().any(|loss| match loss {
            Loss::Blocks(runs) | Loss::All(runs) => runs.contains(&run),
        })
    }

    /// Segments of a run are damaged, in these partitions; `doubtful` are the blocks of parity that do not
    /// vouch for their stripes. Where there is no parity, nothing says that the blocks of a segment that are
    /// not lost are those that were written.
    pub(super) fn add_segments(
        &mut self,
        named: &ManifestRun,
        damaged: &[(u8, SegmentLoss)],
        doubtful: Option<BTreeSet<u32>>,
    ) {
        for (partition, loss) in damaged {
            let nothing_vouches = *loss == SegmentLoss::Blocks && doubtful.is_none();
            let loss = if nothing_vouches { SegmentLoss::Entries } else { *loss };
            self.add(named, *partition, loss);
        }
        if let Some(doubtful) = doubtful.filter(|_| self.needs_blocks_for(named.id)) {
            self.doubtful.insert(named.id, doubtful);
        }
    }

    /// Whether parity vouches for a block of a damaged run: it is what was written, and not one of another
    /// time whose checksum holds.
    pub(super) fn is_vouched_for(&self, run: RunId, block: u32) -> bool {
        self.doubtful.get(&run).is_some_and(|doubtful| !doubtful.contains(&parity_of(block)))
    }

    /// These partitions of a run are lost altogether.
    pub(super) fn add_partitions(&mut self, named: &ManifestRun, partitions: u64) {
        let lost = (0..64).filter(|partition| partitions >> partition & 1 == 1);
        lost.for_each(|partition| self.add(named, partition, SegmentLoss::Entries));
        self.runs.insert(named.id);
    }

    pub(super) fn add(&mut self, named: &ManifestRun, partition: u8, loss: SegmentLoss) {
        self.runs.insert(named.id);
        // A merge has replaced the others.
        if named.partitions >> partition & 1 == 0 || loss == SegmentLoss::Derived {
            return;
        }
        let of_partition =
            self.partitions.entry(partition).or_insert_with(|| Loss::Blocks(BTreeSet::new()));
        let (Loss::Blocks(runs) | Loss::All(runs)) = of_partition;
        runs.insert(named.id);
        if loss == SegmentLoss::Entries {
            *of_partition = Loss::All(std::mem::take(runs));
        }
    }
}

//! The segments of all partitions, and the memory of their filters and block indexes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::jobs::MergePart;
use super::manifest::ManifestRun;
use super::merge_policy;
use super::run::format::RunId;
use super::run::segment::{BlockIndex, SealRange, Segment};

/// Segments by partition, newest first.
pub(super) struct Segments {
    partitions: Vec<Vec<Arc<Segment>>>,
    /// Bytes of all filters and of all block indexes. The chain asks several times for each block, and
    /// there are a hundred segments.
    filter_memory: usize,
    index_memory: usize,
}

/// Sums over all segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    /// Run files in use.
    pub runs: usize,
    pub segments: usize,
    /// Segments of the partition that has most.
    pub deepest: usize,
    /// Entries, tombstones included.
    pub entries: u64,
    pub tombstones: u64,
    /// Bytes of segments on disk; parts of run files that merges have replaced are not counted.
    pub bytes: u64,
}

impl Segments {
    pub(super) fn new(partitions: usize) -> Self {
        Self { partitions: vec![Vec::new(); partitions], filter_memory: 0, index_memory: 0 }
    }

    pub(super) fn partitions(&self) -> &[Vec<Arc<Segment>>] {
        &self.partitions
    }

    /// Adds segments at their place by age.
    pub(super) fn install(&mut self, segments: Vec<Arc<Segment>>) {
        for segment in segments {
            let list = &mut self.partitions[usize::from(segment.meta.partition)];
            let place = list.partition_point(|other| other.seals.newest > segment.seals.newest);
            list.insert(place, segment);
        }
        self.filter_memory = self.all().map(|segment| segment.filter_memory()).sum();
        self.index_memory = self.all().map(|segment| segment.index.memory()).sum();
    }

    /// Puts the output of a merge in place of its inputs.
    pub(super) fn replace(&mut self, parts: &[MergePart], output: Vec<Arc<Segment>>) {
        for part in parts {
            let merged: BTreeSet<RunId> = part.inputs.iter().map(|input| input.run.id).collect();
            self.partitions[part.partition].retain(|segment| !merged.contains(&segment.run.id));
        }
        self.install(output);
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Segment>> {
        self.partitions.iter().flatten()
    }

    pub(super) fn shape(&self) -> Shape {
        Shape {
            runs: self.run_ids().len(),
            segments: self.all().count(),
            deepest: self.deepest(),
            entries: self.all().map(|segment| segment.meta.entries).sum(),
            tombstones: self.all().map(|segment| segment.meta.tombstones).sum(),
            bytes: self.all().map(|segment| segment.bytes()).sum(),
        }
    }

    /// Segments of the partition that has most.
    pub(super) fn deepest(&self) -> usize {
        self.partitions.iter().map(Vec::len).max().unwrap_or(0)
    }

    pub(super) fn run_ids(&self) -> BTreeSet<RunId> {
        self.all().map(|segment| segment.run.id).collect()
    }

    pub(super) fn filter_memory(&self) -> usize {
        self.filter_memory
    }

    pub(super) fn index_memory(&self) -> usize {
        self.index_memory
    }

    /// Halves the largest filter until all fit, and drops it when it was halved before. The largest
    /// filter is the least useful: it belongs to the oldest segment, where lookups of existing
    /// coins end with a read anyway.
    pub(super) fn limit_filters(&mut self, max: usize) {
        while self.filter_memory > max {
            let all = self.partitions.iter_mut().flatten();
            let Some(largest) = all.max_by_key(|segment| segment.filter_memory()) else { return };
            let folded = largest.filter.as_ref().and_then(|filter| filter.fold()).map(Arc::new);
            self.filter_memory -= largest.filter_memory();
            *largest = Arc::new(Segment { filter: folded, ..Segment::clone(largest) });
            self.filter_memory += largest.filter_memory();
        }
    }

    /// Halves the largest block index until all fit.
    pub(super) fn limit_indexes(&mut self, max: usize) {
        while self.index_memory > max {
            let all = self.partitions.iter_mut().flatten();
            let Some(largest) = all.max_by_key(|segment| segment.index.memory()) else { return };
            if largest.index.memory() <= size_of::<u32>() {
                return;
            }
            let index: Arc<BlockIndex> = Arc::new(largest.index.thinned());
            self.index_memory -= largest.index.memory() - index.memory();
            *largest = Arc::new(Segment { index, ..Segment::clone(largest) });
        }
    }

    /// What to merge next among the segments up to seal `up_to`: a partition that has most
    /// segments, and with it every other whose merge would cover the same seals, while their inputs
    /// are at most `max_bytes` together. One file for several small merges saves files and fsyncs.
    pub(super) fn next_merge(
        &self,
        up_to: u64,
        max_bytes: u64,
    ) -> Option<(SealRange, Vec<MergePart>)> {
        let due: Vec<MergePart> =
            (0..self.partitions.len()).filter_map(|n| self.merge_of(n, up_to)).collect();
        let first = due.iter().max_by_key(|part| self.partitions[part.partition].len())?.clone();
        let (seals, mut bytes) = (covered(&first), first.bytes());
        let mut parts = vec![first];
        for part in due {
            if part.partition != parts[0].partition
                && covered(&part) == seals
                && bytes + part.bytes() <= max_bytes
            {
                bytes += part.bytes();
                parts.push(part);
            }
        }
        parts.sort_by_key(|part| part.partition);
        Some((seals, parts))
    }

    fn merge_of(&self, partition: usize, up_to: u64) -> Option<MergePart> {
        let all = &self.partitions[partition];
        let committed = &all[all.partition_point(|segment| segment.seals.newest > up_to)..];
        // By entries, not bytes: a tombstone is small, but all the more worth merging.
        let sizes: Vec<u64> = committed.iter().map(|segment| segment.meta.entries).collect();
        let range = merge_policy::choose(&sizes)?;
        let with_oldest = range.end == committed.len();
        Some(MergePart { partition, inputs: committed[range].to_vec(), with_oldest })
    }

    /// The runs that hold the coins at seal `up_to`.
    pub(super) fn runs_up_to(&self, up_to: u64) -> Vec<ManifestRun> {
        let mut runs = BTreeMap::new();
        for segment in self.all().filter(|segment| segment.seals.newest <= up_to) {
            let run = runs.entry(segment.run.id).or_insert(ManifestRun {
                id: segment.run.id,
                blocks: segment.run.blocks,
                seals: segment.seals,
                partitions: 0,
            });
            run.partitions |= 1 << segment.meta.partition;
        }
        runs.into_values().collect()
    }
}

/// From the oldest seal of the oldest input to the newest of the newest.
fn covered(part: &MergePart) -> SealRange {
    let oldest = part.inputs.iter().map(|input| input.seals.oldest).min().unwrap_or(0);
    let newest = part.inputs.iter().map(|input| input.seals.newest).max().unwrap_or(0);
    SealRange { oldest, newest }
}

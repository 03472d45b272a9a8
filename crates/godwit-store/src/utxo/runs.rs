//! The runs of a store: the segments that hold its coins, the files that a commit names or that are obsolete,
//! and the merge that is due or running. Only the connector's thread changes them; other threads read a copy
//! of [`Runs::partitions`].

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::budget::{Budget, MemoryUsage};
use super::commits::{Commits, ManifestId};
use super::derived;
use super::jobs::{MergeJob, MergePart};
use super::layers::UtxoContext;
use super::manifest::{Manifest, ManifestRun, VERSION};
use super::merge_policy::STALL_SEGMENTS;
use super::room;
use super::run::file::RunFile;
use super::run::format::{RunId, SegmentMeta};
use super::run::segment::{SealRange, Segment};
use super::segments::{Segments, Shape};
use super::unnamed::unnamed_files;
use crate::error::{Damage, StoreError};

/// What has become of the merge that was due last.
enum Merging {
    /// It was made, or its memory does not fit.
    Idle,
    /// It has no room on the disk, which is asked again at this time of the executor's.
    PutOff {
        until: Duration,
    },
    Running(RunningMerge),
}

impl Merging {
    fn running(&self) -> Option<&RunningMerge> {
        match self {
            Self::Running(merge) => Some(merge),
            Self::Idle | Self::PutOff { .. } => None,
        }
    }

    /// The disk has no room for the merge that is due. Coins are looked up in more segments meanwhile.
    fn put_off(&mut self, lacking: &StoreError, now: Duration) {
        if !matches!(self, Self::PutOff { .. }) {
            log::warn!("{lacking}. This is put off until they are.");
        }
        *self = Self::PutOff { until: now + room::LOOK_AGAIN };
    }
}

struct RunningMerge {
    run: RunId,
    parts: Vec<MergePart>,
    /// As in [`DueMerge`].
    memory: usize,
}

/// A merge that may begin.
pub(super) struct DueMerge {
    seals: SealRange,
    parts: Vec<MergePart>,
    /// Memory that it takes, in bytes: buffers, filter and block index.
    pub(super) memory: usize,
}

/// The runs of one store.
pub(super) struct Runs {
    segments: Segments,
    commits: Commits,
    /// Those that this store or a reader of an older snapshot still uses.
    files: Vec<Weak<RunFile>>,
    merging: Merging,
    next_run: u64,
}

impl Runs {
    /// Opens those that a manifest names, and removes others as [`super::UtxoStore::open`] says.
    pub(super) fn open(
        context: &UtxoContext,
        manifest: &Manifest,
        budget: Budget,
    ) -> Result<Self, StoreError> {
        let unnamed = unnamed_files(context, manifest)?;
        let mut runs = Self {
            segments: Segments::new(context.partitions()),
            commits: Commits::new(manifest),
            files: Vec::new(),
            merging: Merging::Idle,
            next_run: unnamed.next_run.max(manifest.next_run),
        };
        for named in &manifest.runs {
            let (run, metas) = open_run(context, named)?;
            runs.files.push(Arc::downgrade(&run));
            for meta in &metas {
                let segment = derived::load(context, &run, meta, named.seals)?;
                runs.segments.install(vec![Arc::new(segment)]);
                runs.limit_memory(budget);
            }
        }
        unnamed.remove(context)?;
        Ok(runs)
    }

    /// For each partition its segments, newest first.
    pub(super) fn partitions(&self) -> &[Vec<Arc<Segment>>] {
        self.segments.partitions()
    }

    pub(super) fn shape(&self) -> Shape {
        self.segments.shape()
    }

    /// Keeps filters and indexes within their shares.
    pub(super) fn limit_memory(&mut self, budget: Budget) {
        self.segments.limit_filters(budget.filter_limit());
        self.segments.limit_indexes(budget.index_limit());
    }

    /// Memory in use, that of the running merge included.
    pub(super) fn memory_used(&self) -> MemoryUsage {
        MemoryUsage {
            filters: self.segments.filter_memory(),
            indexes: self.segments.index_memory(),
            buffers: self.merging.running().map_or(0, |merge| merge.memory),
            ..MemoryUsage::default()
        }
    }

    /// The number of a run that is to be written.
    pub(super) fn take_run_id(&mut self) -> RunId {
        let run = RunId(self.next_run);
        self.next_run += 1;
        run
    }

    /// Adds the run that a flush has written. Returns its bytes; `None` if it had no entries.
    pub(super) fn add(&mut self, segments: Vec<Arc<Segment>>) -> Option<u64> {
        let bytes = segments.first().map(|segment| {
            self.commits.written(segment.run.id, segment.run.bytes());
            self.files.push(Arc::downgrade(&segment.run));
            segment.run.bytes()
        });
        self.segments.install(segments);
        bytes
    }

    pub(super) fn is_merging(&self) -> bool {
        self.merging.running().is_some()
    }

    /// Whether a merge runs that rotation has to wait for.
    pub(super) fn is_behind(&self) -> bool {
        self.is_merging() && self.are_too_many()
    }

    fn are_too_many(&self) -> bool {
        self.segments.deepest() >= STALL_SEGMENTS
    }

    /// The merge that is due; `None` as well while one is running, and for a while after the disk had no
    /// room.
    pub(super) fn due_merge(&mut self, context: &UtxoContext, budget: Budget) -> Option<DueMerge> {
        match self.merging {
            Merging::Running(_) => return None,
            // Where there are too many segments, it is now or never.
            Merging::PutOff { until } if !self.are_too_many() && context.executor.now() < until => {
                return None;
            }
            Merging::PutOff { .. } | Merging::Idle => {}
        }
        let Some((seals, parts)) = self.next_merge(budget.shared_merge_limit()) else {
            self.merging = Merging::Idle;
            return None;
        };
        let memory = budget.merge_memory(&parts);
        Some(DueMerge { seals, parts, memory })
    }

    fn next_merge(&self, max_bytes: u64) -> Option<(SealRange, Vec<MergePart>)> {
        self.segments.next_merge(self.commits.seal(), max_bytes)
    }

    /// Begins a merge that is due, or puts it off if the disk has no room for it: `None`.
    ///
    /// # Errors
    ///
    /// [`StoreError::LacksRoom`], if it cannot be put off any more.
    pub(super) fn begin_merge(
        &mut self,
        due: DueMerge,
        context: &UtxoContext,
        budget: Budget,
    ) -> Result<Option<MergeJob>, StoreError> {
        let DueMerge { mut seals, mut parts, memory } = due;
        let is_last_chance = self.are_too_many();
        let left = if is_last_chance { 0 } else { room::LEFT_FREE };
        let require = |parts: &[MergePart]| {
            room::require(context, parts.iter().map(MergePart::bytes).sum(), left)
        };
        let mut room = require(&parts);
        if room.is_err() && parts.len() > 1 {
            (seals, parts) =
                self.next_merge(0).expect("as before, without the others that could share its run");
            room = require(&parts);
        }
        if let Err(lacking) = room {
            if is_last_chance {
                return Err(lacking);
            }
            self.merging.put_off(&lacking, context.executor.now());
            return Ok(None);
        }
        let run = self.take_run_id();
        let buffers = (budget.read_buffer(), budget.write_buffer());
        let max_filter = budget.merge_filter_limit() as u64;
        let job = MergeJob { run, parts: parts.clone(), seals, buffers, max_filter };
        self.merging = Merging::Running(RunningMerge { run, parts, memory });
        Ok(Some(job))
    }

    /// Puts the output of the running merge in place of its inputs. Returns the bytes that it has read and
    /// written.
    pub(super) fn end_merge(&mut self, output: Vec<Arc<Segment>>) -> (u64, u64) {
        let Merging::Running(merge) = std::mem::replace(&mut self.merging, Merging::Idle) else {
            panic!("one merge runs at a time");
        };
        let read = merge.parts.iter().map(MergePart::bytes).sum();
        let written = output.first().map_or(0, |segment| segment.run.bytes());
        self.commits.written(merge.run, written);
        self.files.extend(output.first().map(|segment| Arc::downgrade(&segment.run)));
        self.segments.replace(&merge.parts, output);
        self.commits.note_current(&self.segments.run_ids());
        (read, written)
    }

    /// The seal of the last commit.
    pub(super) fn committed_seal(&self) -> u64 {
        self.commits.seal()
    }

    /// Bytes of runs that stay for no other reason than that the last commit names them.
    pub(super) fn replaced_bytes(&self) -> u64 {
        self.commits.replaced()
    }

    /// The manifest of the coins at a seal that is flushed.
    pub(super) fn manifest(&mut self, context: &UtxoContext, up_to: u64) -> (ManifestId, Manifest) {
        assert!(up_to >= self.commits.seal(), "commits do not go back");
        let manifest = Manifest {
            version: VERSION,
            partition_bits: context.partition_bits as u8,
            fingerprint: context.hasher.fingerprint(),
            seal: up_to,
            next_run: self.next_run,
            runs: self.segments.runs_up_to(up_to),
        };
        (self.commits.issue(&manifest), manifest)
    }

    /// Notes that a manifest is durable. Returns the runs whose files nobody needs any more.
    pub(super) fn committed(&mut self, id: ManifestId) -> Vec<RunId> {
        self.commits.committed(id);
        self.commits.note_current(&self.segments.run_ids());
        let in_use = self.in_use();
        self.commits.take_obsolete(&in_use)
    }

    /// The runs of this store, and those that merges have replaced while a snapshot with them is read:
    /// a run is not open all the time, so its file must last as long as its readers.
    fn in_use(&mut self) -> BTreeSet<RunId> {
        self.files.retain(|run| run.strong_count() > 0);
        self.files.iter().filter_map(Weak::upgrade).map(|run| run.id).collect()
    }
}

/// Opens a run; returns it with the descriptions of its segments that are in use.
pub(super) fn open_run(
    context: &UtxoContext,
    named: &ManifestRun,
) -> Result<(Arc<RunFile>, Vec<SegmentMeta>), StoreError> {
    let path = named.id.path(&context.dir);
    let disk = context.disk.clone();
    let repairs = Arc::clone(&context.repairs);
    let (id, blocks) = (named.id, named.blocks);
    let run = Arc::new(RunFile { id, disk, path: path.clone(), blocks, repairs });
    let file = run.open().map_err(|error| match error.is_not_found() {
        true => StoreError::damaged(&path, 0, Damage::MissingFile),
        false => error,
    })?;
    let len = file.file_len()?;
    if len < run.bytes() {
        run.restore_end(len)?;
    }
    let footer = run.read_footer()?;
    let fits = footer.fingerprint == context.hasher.fingerprint()
        && u32::from(footer.partition_bits) == context.partition_bits;
    let mut metas = footer.segments;
    metas.retain(|meta| {
        named.partitions.checked_shr(u32::from(meta.partition)).unwrap_or(0) & 1 == 1
    });
    if !fits || metas.len() != named.partitions.count_ones() as usize {
        return Err(run.damaged(named.blocks.saturating_sub(1), Damage::Format));
    }
    Ok((run, metas))
}

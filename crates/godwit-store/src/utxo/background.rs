//! Rotation, and the results of background jobs.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use super::budget::MAX_UNFLUSHED;
use super::jobs::{FlushJob, Flushed, MergeJob, MergePart, Written};
use super::layers::Layers;
use super::manifest::{Manifest, VERSION};
use super::memtable::Memtable;
use super::merge_policy::STALL_SEGMENTS;
use super::room;
use super::run::format::RunId;
use super::run::segment::Segment;
use super::store::{Merging, RunningMerge, UtxoStore};
use super::worker_pools::{Done, UtxoEvent};
use crate::error::StoreError;

use super::commits::ManifestId;

/// The number of a rotation: stands for every change before it and none after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealId(pub(super) u64);

/// Result of a rotation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The memtable is sealed and being written.
    Sealed(SealId),
    /// Memory is full of earlier memtables, or merges are far behind. To be tried again when a
    /// background job has reported.
    Full,
}

/// The seal of the last rotation.
pub fn newest_seal(store: &UtxoStore) -> SealId {
    SealId(store.sealed.newest())
}

/// The newest seal whose coins, with those of all before it, are in runs, durable or not.
pub fn written_seal(store: &UtxoStore) -> SealId {
    SealId(store.sealed.written())
}

/// Bytes of runs that merges have replaced and whose files stay because the last commit names them: the
/// next one has them removed.
pub fn replaced_bytes(store: &UtxoStore) -> u64 {
    store.commits.replaced()
}

/// As [`UtxoStore::manifest`], of the coins that the last commit has made durable: their runs may be others
/// by now.
pub fn manifest_again(store: &mut UtxoStore) -> (ManifestId, Manifest) {
    store.manifest(SealId(store.commits.seal()))
}

/// A memtable is in a run, which is to be synced.
fn on_written(store: &mut UtxoStore, written: Written) {
    let Written { seal, segments, sync } = written;
    if let Some(segment) = segments.first() {
        store.commits.written(segment.run.id, segment.run.bytes());
        store.runs.push(Arc::downgrade(&segment.run));
        store.counters.flushes += 1;
        store.counters.flushed_bytes += segment.run.bytes();
    }
    store.sealed.set_written(seal);
    store.segments.install(segments);
    store.pools.sync(&store.context, sync);
    store.after_change();
}

impl UtxoStore {
    /// Rotates the memtable: seals it, has it written, and begins an empty one, if there is room
    /// for it. If nothing changed since the last rotation, returns its seal: a memtable that only has
    /// the memory of what was taken back gives way to a new one, and is not written. Never waits.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn rotate(&mut self) -> Result<Rotation, StoreError> {
        self.poll()?;
        if self.active.is_emptied() {
            self.active = Memtable::new(self.budget.arena_step());
        }
        if self.active.is_empty() {
            return Ok(Rotation::Sealed(SealId(self.sealed.newest())));
        }
        if self.must_wait() {
            self.counters.stalls += u64::from(!self.stalled);
            self.stalled = true;
            return Ok(Rotation::Full);
        }
        self.stalled = false;
        Ok(Rotation::Sealed(self.seal_active()))
    }

    /// Seals the memtable, which has entries, and has it written.
    fn seal_active(&mut self) -> SealId {
        let memory = self.budget.flush_memory(&self.active);
        let next = Memtable::new(self.budget.arena_step());
        let table = std::mem::replace(&mut self.active, next);
        log::debug!(
            "rotating {} coins and {} tombstones, {} bytes a coin",
            table.coins(),
            table.tombstones(),
            table.memory() / table.coins().max(1)
        );
        let (seal, table) = self.sealed.seal(table, memory);
        let run = self.take_run_id();
        let buffer = self.budget.write_buffer();
        self.pools.flush(&self.context, FlushJob { run, seal, table, buffer });
        self.after_change();
        SealId(seal)
    }

    /// As [`Self::rotate`], for the last time: no room is left for another memtable, no merge goes on.
    /// Waits only where too many memtables are being written.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn rotate_finally(&mut self) -> Result<SealId, StoreError> {
        self.pools.stop_merges();
        self.poll()?;
        if self.active.is_empty() {
            return Ok(SealId(self.sealed.newest()));
        }
        while self.sealed.unflushed() >= MAX_UNFLUSHED {
            self.wait_event()?;
        }
        Ok(self.seal_active())
    }

    /// As [`Self::rotate`], but waits for room: for commands.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn rotate_blocking(&mut self) -> Result<SealId, StoreError> {
        loop {
            match self.rotate()? {
                Rotation::Sealed(seal) => return Ok(seal),
                Rotation::Full => self.wait_event()?,
            }
        }
    }

    fn must_wait(&self) -> bool {
        let behind =
            self.merging.running().is_some() && self.segments.shape().deepest >= STALL_SEGMENTS;
        behind || self.lacks_room()
    }

    fn take_run_id(&mut self) -> RunId {
        let run = RunId(self.next_run);
        self.next_run += 1;
        run
    }

    /// Handles the reports of background jobs, and starts jobs that are due. Never waits. To be
    /// called once a block, and at intervals while there are none.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn poll(&mut self) -> Result<(), StoreError> {
        self.check()?;
        while let Ok(event) = self.pools.events().try_recv() {
            self.apply_event(event)?;
        }
        self.sealed.release();
        self.start_merge()
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits for a background job to report.
    fn wait_event(&mut self) -> Result<(), StoreError> {
        self.check()?;
        while self.pools.events().is_empty() && self.context.executor.run_one() {}
        let event = self.pools.events().recv().expect("the store holds a sender itself");
        self.apply_event(event)?;
        self.sealed.release();
        self.start_merge()
    }

    fn apply_event(&mut self, event: Result<UtxoEvent, StoreError>) -> Result<(), StoreError> {
        match event.inspect_err(|error| self.failed = Some(error.clone()))?.0 {
            Done::Written(written) => on_written(self, *written),
            Done::Flushed(flushed) => self.on_flushed(flushed),
            Done::Merged(output) => self.on_merged(output),
            Done::Removed => self.pools.removed(&self.context),
        }
        Ok(())
    }

    fn on_flushed(&mut self, flushed: Flushed) {
        let Flushed { seal, memory, took } = flushed;
        self.write_rate.note(memory, took);
        self.sealed.set_flushed(seal);
    }

    fn on_merged(&mut self, output: Vec<Arc<Segment>>) {
        let Merging::Running(merge) = std::mem::replace(&mut self.merging, Merging::Idle) else {
            panic!("one merge runs at a time");
        };
        let bytes = output.first().map_or(0, |segment| segment.run.bytes());
        self.commits.written(merge.run, bytes);
        self.counters.merges += 1;
        self.counters.merge_bytes_read += merge.parts.iter().map(|part| part.bytes()).sum::<u64>();
        self.counters.merge_bytes_written += bytes;
        self.runs.extend(output.first().map(|segment| Arc::downgrade(&segment.run)));
        self.segments.replace(&merge.parts, output);
        self.commits.note_current(&self.segments.run_ids());
        self.after_change();
    }

    /// Restores what must hold after layers have changed: filters and indexes within their shares,
    /// the newest layers published, kept memtables within the budget.
    pub(super) fn after_change(&mut self) {
        self.segments.limit_filters(self.budget.filter_limit());
        self.segments.limit_indexes(self.budget.index_limit());
        self.layers = Arc::new(Layers {
            context: self.context.clone(),
            epoch: self.sealed.current().clone(),
            flushing: self.sealed.unwritten().map(|sealed| Arc::clone(&sealed.table)).collect(),
            written: self.sealed.written_tables().map(Arc::downgrade).collect(),
            partitions: self.segments.partitions().to_vec(),
        });
        self.published.publish(Arc::clone(&self.layers));
        self.sealed.release();
        self.drop_kept();
    }

    /// Starts the merge that is due, if none is running, its memory fits, and the disk has room for it.
    fn start_merge(&mut self) -> Result<(), StoreError> {
        // Where there are too many segments, it is now or never.
        let deepest = self.segments.partitions().iter().map(Vec::len).max();
        let is_last_chance = deepest >= Some(STALL_SEGMENTS);
        match self.merging {
            Merging::Running(_) => return Ok(()),
            Merging::PutOff { until } if !is_last_chance && self.context.executor.now() < until => {
                return Ok(());
            }
            Merging::PutOff { .. } | Merging::Idle => {}
        }
        let due = |max_bytes| self.segments.next_merge(self.commits.seal(), max_bytes);
        let Some((mut seals, mut parts)) = due(self.budget.shared_merge_limit()) else {
            self.merging = Merging::Idle;
            return Ok(());
        };
        let memory = self.budget.merge_memory(&parts);
        if self.memory_used().needed() + memory > self.budget.bytes() {
            return Ok(());
        }
        let left = if is_last_chance { 0 } else { room::LEFT_FREE };
        let require = |parts: &[MergePart]| {
            room::require(&self.context, parts.iter().map(MergePart::bytes).sum(), left)
        };
        let mut room = require(&parts);
        if room.is_err() && parts.len() > 1 {
            (seals, parts) =
                due(0).expect("as before, without the others that could share its run");
            room = require(&parts);
        }
        if let Err(lacking) = room {
            if is_last_chance {
                self.failed = Some(lacking.clone());
                return Err(lacking);
            }
            self.merging.put_off(&lacking, self.context.executor.now());
            return Ok(());
        }
        let run = self.take_run_id();
        let buffers = (self.budget.read_buffer(), self.budget.write_buffer());
        let max_filter = self.budget.merge_filter_limit() as u64;
        let job = MergeJob { run, parts: parts.clone(), seals, buffers, max_filter };
        self.merging = Merging::Running(RunningMerge { run, parts, memory });
        self.pools.merge(&self.context, job);
        self.drop_kept();
        Ok(())
    }

    /// The newest seal whose coins, with those of all before it, are in durable runs.
    pub fn flushed(&self) -> SealId {
        SealId(self.sealed.flushed())
    }

    /// Waits until [`Self::flushed`] has reached `seal`.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn wait_flushed(&mut self, seal: SealId) -> Result<(), StoreError> {
        self.poll()?;
        while self.flushed() < seal {
            self.wait_event()?;
        }
        Ok(())
    }

    /// Waits until no merge is due.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    pub fn wait_merges(&mut self) -> Result<(), StoreError> {
        self.poll()?;
        while self.merging.running().is_some() {
            self.wait_event()?;
        }
        Ok(())
    }

    /// The manifest of the coins at `up_to`, to be made durable by a commit together with the block
    /// that they describe, and the id to confirm it with.
    ///
    /// # Panics
    ///
    /// If `up_to` is not flushed, or older than the last commit.
    pub fn manifest(&mut self, up_to: SealId) -> (ManifestId, Manifest) {
        assert!(up_to <= self.flushed(), "a commit names flushed seals only");
        assert!(up_to.0 >= self.commits.seal(), "commits do not go back");
        let manifest = Manifest {
            version: VERSION,
            partition_bits: self.context.partition_bits as u8,
            fingerprint: self.context.hasher.fingerprint(),
            seal: up_to.0,
            next_run: self.next_run,
            runs: self.segments.runs_up_to(up_to.0),
        };
        (self.commits.issue(&manifest), manifest)
    }

    /// The runs of this store, and those that merges have replaced while a snapshot with them is read:
    /// a run is not open all the time, so its file must last as long as its readers.
    fn runs_in_use(&mut self) -> BTreeSet<RunId> {
        self.runs.retain(|run| run.strong_count() > 0);
        self.runs.iter().filter_map(Weak::upgrade).map(|run| run.id).collect()
    }

    /// Notes that a manifest is durable: files that no manifest needs and no snapshot reads any more are
    /// removed in the background, and its runs may be merged.
    ///
    /// # Errors
    ///
    /// What a background job failed with.
    ///
    /// # Panics
    ///
    /// If a later manifest was confirmed before.
    pub fn committed(&mut self, id: ManifestId) -> Result<(), StoreError> {
        self.commits.committed(id);
        self.commits.note_current(&self.segments.run_ids());
        let in_use = self.runs_in_use();
        let obsolete = self.commits.take_obsolete(&in_use);
        let dir = &self.context.dir;
        let paths = obsolete.into_iter().flat_map(|run| [run.path(dir), run.parity_path(dir)]);
        self.pools.remove(&self.context, paths);
        self.poll()
    }
}

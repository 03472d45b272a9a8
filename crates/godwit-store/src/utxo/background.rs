//! Seals the memtable, and takes in the results of background jobs.

use std::sync::Arc;

use super::budget::MAX_UNFLUSHED;
use super::jobs::{FlushJob, Written};
use super::manifest::Manifest;
use super::run::segment::Segment;
use super::store::{UtxoStore, snapshot};
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
    SealId(store.memtables.sealed().newest())
}

/// The newest seal whose coins, with those of all before it, are in runs, durable or not.
pub fn written_seal(store: &UtxoStore) -> SealId {
    SealId(store.memtables.sealed().written())
}

/// Bytes of runs that merges have replaced and whose files stay because the last commit names them: the
/// next one has them removed.
pub fn replaced_bytes(store: &UtxoStore) -> u64 {
    store.runs.replaced_bytes()
}

/// As [`UtxoStore::manifest`], of the coins that the last commit has made durable: their runs may be others
/// by now.
pub fn manifest_again(store: &mut UtxoStore) -> (ManifestId, Manifest) {
    store.manifest(SealId(store.runs.committed_seal()))
}

/// A memtable is in a run, which is to be synced.
fn on_written(store: &mut UtxoStore, written: Written) {
    let Written { seal, segments, sync } = written;
    if let Some(bytes) = store.runs.add(segments) {
        store.counters.flushes += 1;
        store.counters.flushed_bytes += bytes;
    }
    store.memtables.set_written(seal);
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
        self.memtables.replace_emptied();
        if self.memtables.active().is_empty() {
            return Ok(Rotation::Sealed(newest_seal(self)));
        }
        if self.runs.is_behind() || self.lacks_room() {
            self.counters.stalls += u64::from(!self.stalled);
            self.stalled = true;
            return Ok(Rotation::Full);
        }
        self.stalled = false;
        Ok(Rotation::Sealed(self.seal_active()))
    }

    /// Seals the memtable, which has entries, and has it written.
    fn seal_active(&mut self) -> SealId {
        let memory = self.budget.flush_memory(self.memtables.active());
        let (seal, table) = self.memtables.rotate(memory);
        log::debug!(
            "rotating {} coins and {} tombstones, {} bytes a coin",
            table.coins(),
            table.tombstones(),
            table.memory() / table.coins().max(1)
        );
        let run = self.runs.take_run_id();
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
        if self.memtables.active().is_empty() {
            return Ok(newest_seal(self));
        }
        while self.memtables.sealed().unflushed() >= MAX_UNFLUSHED {
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
        self.memtables.release();
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
        self.memtables.release();
        self.start_merge()
    }

    fn apply_event(&mut self, event: Result<UtxoEvent, StoreError>) -> Result<(), StoreError> {
        match event.inspect_err(|error| self.failed = Some(error.clone()))?.0 {
            Done::Written(written) => on_written(self, *written),
            Done::Flushed(flushed) => self.memtables.set_flushed(flushed),
            Done::Merged(output) => self.on_merged(output),
            Done::Removed => self.pools.removed(&self.context),
        }
        Ok(())
    }

    fn on_merged(&mut self, output: Vec<Arc<Segment>>) {
        let (read, written) = self.runs.end_merge(output);
        self.counters.merges += 1;
        self.counters.merge_bytes_read += read;
        self.counters.merge_bytes_written += written;
        self.after_change();
    }

    /// Restores what must hold after layers have changed: filters and indexes within their shares,
    /// the newest layers published, kept memtables within the budget.
    pub(super) fn after_change(&mut self) {
        self.runs.limit_memory(self.budget);
        self.layers = Arc::new(snapshot(&self.context, &self.memtables, &self.runs));
        self.published.publish(Arc::clone(&self.layers));
        self.memtables.release();
        self.drop_kept();
    }

    /// Starts the merge that is due, if none is running, its memory fits, and the disk has room for it.
    fn start_merge(&mut self) -> Result<(), StoreError> {
        let Some(due) = self.runs.due_merge(&self.context, self.budget) else { return Ok(()) };
        if self.memory_used().needed() + due.memory > self.budget.bytes() {
            return Ok(());
        }
        let begun = self.runs.begin_merge(due, &self.context, self.budget);
        if let Some(job) = begun.inspect_err(|lacking| self.failed = Some(lacking.clone()))? {
            self.pools.merge(&self.context, job);
            self.drop_kept();
        }
        Ok(())
    }

    /// The newest seal whose coins, with those of all before it, are in durable runs.
    pub fn flushed(&self) -> SealId {
        SealId(self.memtables.sealed().flushed())
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
        while self.runs.is_merging() {
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
        self.runs.manifest(&self.context, up_to.0)
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
        let obsolete = self.runs.committed(id);
        let dir = &self.context.dir;
        let paths = obsolete.into_iter().flat_map(|run| [run.path(dir), run.parity_path(dir)]);
        self.pools.remove(&self.context, paths);
        self.poll()
    }
}

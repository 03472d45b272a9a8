//! Freezing, and what the background threads have done since it was last asked.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use crossbeam_channel::select;

use super::budget;
use super::jobs::{FlushEvent, FlushJob, MergeJob};
use super::layers::Layers;
use super::manifest::{Manifest, VERSION};
use super::memtable::Memtable;
use super::merge_policy::STALL_SEGMENTS;
use super::run::format::RunId;
use super::run::segment::Segment;
use super::store::{RunningMerge, UtxoStore};
use crate::error::StoreError;

use super::commits::ManifestId;

/// Names a sealed memtable: everything that was done before it was frozen, nothing after.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealId(pub(super) u64);

impl UtxoStore {
    /// Seals the active memtable and has it written. Nothing changed since the last freeze: returns
    /// its seal. Waits only while memory is full of earlier memtables, or merges are far behind.
    ///
    /// # Errors
    ///
    /// What a background thread failed with.
    pub fn freeze(&mut self) -> Result<SealId, StoreError> {
        self.poll()?;
        if self.active.is_empty() {
            return Ok(SealId(self.sealed.newest()));
        }
        if self.must_wait() {
            self.counters.stalls += 1;
            while self.must_wait() {
                self.wait_event()?;
            }
        }
        let memory = budget::flush_memory(&self.active, self.budget);
        let table = std::mem::replace(&mut self.active, Memtable::new());
        log::debug!(
            "freezing {} coins and {} tombstones, {} bytes a coin",
            table.coins(),
            table.tombstones(),
            table.memory() / table.coins().max(1)
        );
        let (seal, table) = self.sealed.seal(table, memory);
        let run = self.take_run_id();
        let buffer = budget::io_buffer(self.budget);
        self.flusher.submit(FlushJob::Flush { run, seal, table, buffer });
        self.after_change();
        Ok(SealId(seal))
    }

    fn must_wait(&self) -> bool {
        let behind = self.merging.is_some() && self.segments.shape().deepest >= STALL_SEGMENTS;
        behind || self.lacks_room()
    }

    fn take_run_id(&mut self) -> RunId {
        let run = RunId(self.next_run);
        self.next_run += 1;
        run
    }

    /// Takes in what the background threads have finished and gives them what is due. Does not
    /// wait. To be called once a block, and now and then while there are none.
    ///
    /// # Errors
    ///
    /// What a background thread failed with.
    pub fn poll(&mut self) -> Result<(), StoreError> {
        self.check()?;
        while let Ok(event) = self.flusher.events().try_recv() {
            self.on_flush(event)?;
        }
        while let Ok(event) = self.merger.events().try_recv() {
            self.on_merge(event)?;
        }
        self.sealed.release();
        self.start_merge();
        Ok(())
    }

    fn check(&self) -> Result<(), StoreError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Waits for a background thread to finish something.
    fn wait_event(&mut self) -> Result<(), StoreError> {
        self.check()?;
        let (flushed, merged) = (self.flusher.events().clone(), self.merger.events().clone());
        select! {
            recv(flushed) -> event => match event {
                Ok(event) => self.on_flush(event)?,
                Err(_) => return self.fail(self.flusher.ended()),
            },
            recv(merged) -> event => match event {
                Ok(event) => self.on_merge(event)?,
                Err(_) => return self.fail(self.merger.ended()),
            },
        }
        self.sealed.release();
        self.start_merge();
        Ok(())
    }

    fn fail<T>(&mut self, error: StoreError) -> Result<T, StoreError> {
        self.failed = Some(error.clone());
        Err(error)
    }

    fn on_flush(&mut self, event: Result<FlushEvent, StoreError>) -> Result<(), StoreError> {
        match event {
            Err(error) => self.fail(error),
            Ok(FlushEvent::Removed) => Ok(()),
            Ok(FlushEvent::Flushed(segments)) => {
                if let Some(segment) = segments.first() {
                    self.commits.written(segment.run.id);
                    self.runs.push(Arc::downgrade(&segment.run));
                    self.sealed.set_flushed(segment.seals.newest);
                    self.counters.flushes += 1;
                    self.counters.flushed_bytes += segment.run.bytes();
                }
                self.segments.install(segments);
                self.after_change();
                Ok(())
            }
        }
    }

    fn on_merge(&mut self, event: Result<Vec<Arc<Segment>>, StoreError>) -> Result<(), StoreError> {
        let output = match event {
            Err(error) => return self.fail(error),
            Ok(output) => output,
        };
        let merge = self.merging.take().expect("one merge runs at a time");
        self.commits.written(merge.run);
        self.counters.merges += 1;
        self.counters.merge_bytes_read += merge.parts.iter().map(|part| part.bytes()).sum::<u64>();
        if let Some(segment) = output.first() {
            self.runs.push(Arc::downgrade(&segment.run));
            self.counters.merge_bytes_written += segment.run.bytes();
        }
        self.segments.replace(&merge.parts, output);
        self.after_change();
        Ok(())
    }

    /// Restores what must hold after layers have changed: filters and indexes within their shares,
    /// the newest layers published, kept memtables within the budget.
    pub(super) fn after_change(&mut self) {
        self.segments.limit_filters(budget::filter_limit(self.budget));
        self.segments.limit_indexes(budget::index_limit(self.budget));
        self.layers = Arc::new(Layers {
            place: self.place.clone(),
            epoch: self.sealed.current().clone(),
            frozen: self.sealed.unflushed().map(|sealed| Arc::clone(&sealed.table)).collect(),
            partitions: self.segments.partitions().to_vec(),
        });
        self.published.publish(Arc::clone(&self.layers));
        self.sealed.release();
        self.drop_kept();
    }

    /// Starts the merge that is due, if none is running and its memory fits.
    fn start_merge(&mut self) {
        if self.merging.is_some() {
            return;
        }
        let limit = budget::shared_merge_limit(self.budget);
        let Some((seals, parts)) = self.segments.next_merge(self.commits.seal(), limit) else {
            return;
        };
        let memory = budget::merge_memory(&parts, self.budget);
        let used = self.memory_used();
        if used.total() - used.kept + memory > self.budget {
            return;
        }
        let run = self.take_run_id();
        let buffer = budget::io_buffer(self.budget);
        let max_filter = budget::merge_filter_limit(self.budget) as u64;
        let job = MergeJob { run, parts: parts.clone(), seals, buffer, max_filter };
        self.merging = Some(RunningMerge { run, parts, memory });
        self.merger.submit(job);
        self.drop_kept();
    }

    /// The newest seal whose coins, with those of all before it, are in durable runs.
    pub fn flushed(&self) -> SealId {
        SealId(self.sealed.flushed())
    }

    /// Waits until [`Self::flushed`] has reached `seal`.
    ///
    /// # Errors
    ///
    /// What a background thread failed with.
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
    /// What a background thread failed with.
    pub fn wait_merges(&mut self) -> Result<(), StoreError> {
        self.poll()?;
        while self.merging.is_some() {
            self.wait_event()?;
        }
        Ok(())
    }

    /// The manifest of the coins at `up_to`, to be made durable by a commit together with the block
    /// that they describe, and the name to confirm it by.
    ///
    /// # Panics
    ///
    /// If `up_to` is not flushed, or older than the last commit.
    pub fn manifest(&mut self, up_to: SealId) -> (ManifestId, Manifest) {
        assert!(up_to <= self.flushed(), "a commit names flushed seals only");
        assert!(up_to.0 >= self.commits.seal(), "commits do not go back");
        let manifest = Manifest {
            version: VERSION,
            partition_bits: self.place.partition_bits as u8,
            fingerprint: self.place.hasher.fingerprint(),
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
    /// What a background thread failed with.
    ///
    /// # Panics
    ///
    /// If a later manifest was confirmed before.
    pub fn committed(&mut self, id: ManifestId) -> Result<(), StoreError> {
        self.commits.committed(id);
        let in_use = self.runs_in_use();
        let obsolete = self.commits.take_obsolete(&in_use);
        if !obsolete.is_empty() {
            let paths = obsolete.into_iter().map(|run| run.path(&self.place.dir)).collect();
            self.flusher.submit(FlushJob::Remove(paths));
        }
        self.poll()
    }
}

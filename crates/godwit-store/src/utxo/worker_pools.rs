//! The two worker pools of one thread each, one for flushes and removals, one for merges, and how they
//! report.

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};

use super::budget::MAX_UNFLUSHED;
use super::jobs::{self, FlushJob, Flushed, MergeJob, SyncJob, Written};
use super::layers::UtxoContext;
use super::run::segment::Segment;
use super::stop::{Stop, WorkError};
use crate::error::StoreError;
use crate::exec::{Priority, Workers};

/// Names of the threads.
const FLUSHER: &str = "utxo-flush";
const MERGER: &str = "utxo-merge";
/// Jobs of the flusher: memtables that wait to be written or synced, and one removal.
const FLUSHER_JOBS: usize = MAX_UNFLUSHED + 1;
/// Jobs of the merger: [`super::UtxoStore`] has one merge at a time.
const MERGER_JOBS: usize = 1;
/// Reports that wait to be taken in. Each job sends one, so that no server ever waits to report.
const MAX_EVENTS: usize = 16;

const _: () = assert!(FLUSHER_JOBS + MERGER_JOBS <= MAX_EVENTS);

/// What a background job has done. For [`super::UtxoStore::poll`]; others only wait for it.
pub struct UtxoEvent(pub(super) Done);

pub(super) enum Done {
    Written(Box<Written>),
    Flushed(Flushed),
    Merged(Vec<Arc<Segment>>),
    Removed,
}

/// Receives what background jobs report.
pub(super) type Events = Receiver<Result<UtxoEvent, StoreError>>;

/// The worker pools of one store.
pub(super) struct WorkerPools {
    flusher: Workers,
    merger: Workers,
    events: Events,
    outbox: Sender<Result<UtxoEvent, StoreError>>,
    /// Files that wait for the removal under way.
    obsolete: Vec<PathBuf>,
    removing: bool,
    /// Dropped to stop the jobs.
    stop: Option<Sender<Infallible>>,
    stopped: Stop,
    /// Dropped to stop merges.
    stop_merges: Option<Sender<Infallible>>,
    merges_stopped: Stop,
}

impl WorkerPools {
    pub(super) fn start(context: &UtxoContext) -> io::Result<Self> {
        let executor = &*context.executor;
        let (outbox, events) = bounded(MAX_EVENTS);
        let (stop, stopped) = bounded(0);
        let (stop_merges, merges_stopped) = bounded(0);
        Ok(Self {
            flusher: Workers::start(executor, FLUSHER, 1, [FLUSHER_JOBS, 0])?,
            merger: Workers::start(executor, MERGER, 1, [MERGER_JOBS, 0])?,
            events,
            outbox,
            obsolete: Vec::new(),
            removing: false,
            stop: Some(stop),
            stopped: Stop::new(stopped),
            stop_merges: Some(stop_merges),
            merges_stopped: Stop::new(merges_stopped),
        })
    }

    pub(super) fn events(&self) -> &Events {
        &self.events
    }

    /// Has a sealed memtable written; at most [`MAX_UNFLUSHED`] at a time.
    pub(super) fn flush(&self, context: &UtxoContext, job: FlushJob) {
        let (context, stop) = (context.clone(), self.stopped.clone());
        self.run((&self.flusher, FLUSHER), "flush", move || {
            jobs::flush(&context, job, &stop).map(|written| Done::Written(Box::new(written)))
        });
    }

    /// Has a run made durable that a flush has written.
    pub(super) fn sync(&self, context: &UtxoContext, job: SyncJob) {
        let (context, stop) = (context.clone(), self.stopped.clone());
        self.run((&self.flusher, FLUSHER), "sync", move || {
            jobs::sync(&context, job, &stop).map(Done::Flushed)
        });
    }

    /// Merges; one at a time.
    pub(super) fn merge(&self, context: &UtxoContext, job: MergeJob) {
        let (context, stop) = (context.clone(), self.merges_stopped.clone());
        self.run((&self.merger, MERGER), "merge", move || {
            jobs::merge(&context, job, &stop).map(Done::Merged)
        });
    }

    /// Ends the merge that runs at its next write, and every later one before it begins. They do not report.
    pub(super) fn stop_merges(&mut self) {
        self.stop_merges = None;
    }

    /// Removes files that no commit names. What comes while a removal is under way waits for its end.
    pub(super) fn remove(
        &mut self,
        context: &UtxoContext,
        paths: impl IntoIterator<Item = PathBuf>,
    ) {
        self.obsolete.extend(paths);
        self.remove_next(context);
    }

    /// The removal was reported.
    pub(super) fn removed(&mut self, context: &UtxoContext) {
        self.removing = false;
        self.remove_next(context);
    }

    fn remove_next(&mut self, context: &UtxoContext) {
        if self.removing || self.obsolete.is_empty() {
            return;
        }
        self.removing = true;
        let (paths, disk) = (std::mem::take(&mut self.obsolete), context.disk.clone());
        self.run((&self.flusher, FLUSHER), "remove", move || {
            paths.iter().try_for_each(|path| disk.remove(path))?;
            Ok(Done::Removed)
        });
    }

    fn run(
        &self,
        (pool, thread): (&Workers, &'static str),
        name: &'static str,
        job: impl FnOnce() -> Result<Done, WorkError> + Send + 'static,
    ) {
        let outbox = self.outbox.clone();
        pool.run(Priority::Urgent, name, job, move |done| {
            let event = match done {
                Some(Ok(done)) => Ok(UtxoEvent(done)),
                Some(Err(WorkError::Failed(error))) => Err(error),
                Some(Err(WorkError::Stopped)) => return,
                None => Err(StoreError::Panicked { thread }),
            };
            if outbox.send(event).is_err() {
                log::debug!("the coins store was dropped before a background job reported");
            }
        });
    }
}

impl Drop for WorkerPools {
    /// Jobs stop at their next write; files they leave unfinished are removed by the next
    /// [`super::UtxoStore::open`].
    fn drop(&mut self) {
        (self.stop, self.stop_merges) = (None, None);
    }
}

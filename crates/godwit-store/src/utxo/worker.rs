//! The two background threads: one writes flushes, one writes merges.

use std::convert::Infallible;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, unbounded};

use crate::error::StoreError;

/// Why background work ended early.
#[derive(Debug)]
pub(crate) enum WorkError {
    /// The disk failed or held damaged bytes.
    Failed(StoreError),
    /// The store is being dropped.
    Stopped,
}

impl From<StoreError> for WorkError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Stops work when the store is dropped and holds it to a byte rate.
#[derive(Clone)]
pub(crate) struct Pace {
    /// Nothing is ever sent: the store drops the other end to stop the work.
    stop: Receiver<Infallible>,
    rate: Option<NonZeroU64>,
}

impl Pace {
    /// Work that nothing stops or slows.
    pub(crate) fn unlimited() -> Self {
        Self { stop: crossbeam_channel::never(), rate: None }
    }

    pub(crate) fn new(stop: Receiver<Infallible>, rate: Option<NonZeroU64>) -> Self {
        Self { stop, rate }
    }

    /// Stopped by the same drop, but not slowed.
    pub(crate) fn at_full_speed(&self) -> Self {
        Self { rate: None, ..self.clone() }
    }

    /// Called after `bytes` were written: waits as long as the rate demands.
    pub(crate) fn after(&self, bytes: u64) -> Result<(), WorkError> {
        let Some(rate) = self.rate else { return self.check() };
        let nanos = u128::from(bytes) * 1_000_000_000 / u128::from(rate.get());
        let pause = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        match self.stop.recv_timeout(pause) {
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => Err(WorkError::Stopped),
            Ok(never) => match never {},
        }
    }

    fn check(&self) -> Result<(), WorkError> {
        match self.stop.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) => Err(WorkError::Stopped),
            Ok(never) => match never {},
        }
    }
}

/// A thread that takes jobs in order and answers each with an event, also one that panics.
pub(super) struct Worker<J, E> {
    name: &'static str,
    jobs: Option<Sender<J>>,
    events: Receiver<Result<E, StoreError>>,
    thread: Option<JoinHandle<()>>,
}

impl<J: Send + 'static, E: Send + 'static> Worker<J, E> {
    pub(super) fn spawn(
        name: &'static str,
        mut work: impl FnMut(J) -> Result<E, WorkError> + Send + 'static,
    ) -> std::io::Result<Self> {
        let (jobs, inbox) = unbounded::<J>();
        let (outbox, events) = unbounded();
        let body = move || {
            for job in inbox {
                let event = match catch_unwind(AssertUnwindSafe(|| work(job))) {
                    Ok(Ok(event)) => Ok(event),
                    Ok(Err(WorkError::Failed(error))) => Err(error),
                    Ok(Err(WorkError::Stopped)) => return,
                    // The store fails with it, so what the job left half done is not looked at.
                    Err(_panic) => Err(StoreError::Panicked { thread: name }),
                };
                if outbox.send(event).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(body)?;
        Ok(Self { name, jobs: Some(jobs), events, thread: Some(thread) })
    }

    pub(super) fn submit(&mut self, job: J) {
        let jobs = self.jobs.as_ref().expect("jobs end only when the worker is dropped");
        if jobs.send(job).is_err() {
            log::debug!("{} has ended, and its events say why", self.name);
        }
    }

    /// Why there are no events any more. It stops by itself only when the store is dropped.
    pub(super) fn ended(&self) -> StoreError {
        StoreError::Panicked { thread: self.name }
    }

    pub(super) fn events(&self) -> &Receiver<Result<E, StoreError>> {
        &self.events
    }

    /// Waits for the end of the thread.
    pub(super) fn join(&mut self) {
        self.jobs = None;
        if let Some(Err(_)) = self.thread.take().map(JoinHandle::join) {
            log::error!("the thread {} panicked outside a job", self.name);
        }
    }
}

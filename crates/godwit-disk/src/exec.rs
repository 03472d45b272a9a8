//! The interface to the operating system's threads and clock, beside the one to its files.
//!
//! An [`Executor`] runs jobs and tells the time. A [`WorkerPool`] is a group of its threads with their
//! queues: the worker pool, or the one thread that appends, commits, flushes or merges. The node
//! has one executor, `godwit_store::exec::Threads`; simulations run jobs on the caller's thread in
//! virtual time.
//!
//! A job is a closure whose result a second closure, the [`Report`], delivers. They are separate
//! because in virtual time a job runs when it starts and reports when it ends.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// Delivers a job's result.
pub type Report = Box<dyn FnOnce() + Send>;

/// Work that may run on another thread.
pub type Job = Box<dyn FnOnce() -> Report + Send>;

/// The queue of a pool in which a job waits. Jobs are taken from the first queue that is not empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Short, and the connector waits for it.
    Urgent,
    /// Long, and only the verified height waits for it.
    Scripts,
}

impl Priority {
    /// Number of priorities, and so of a pool's queues.
    pub const COUNT: usize = 2;

    /// Index of its queue among a pool's queues.
    pub fn queue(self) -> usize {
        match self {
            Self::Urgent => 0,
            Self::Scripts => 1,
        }
    }
}

/// Where work runs and what time it is.
pub trait Executor: Send + Sync {
    /// Starts a pool that runs up to `threads` jobs at once (at least one). `capacity`: jobs that each
    /// queue holds. With one thread, jobs of one priority run in the order in which they were pushed.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread.
    fn start(
        &self,
        name: &'static str,
        threads: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn WorkerPool>>;

    /// Time since some fixed moment; never goes back. It is for durations: in log lines and the status, and
    /// of stages, from which follows how much may be unwritten, and of rests between commits. Nothing else
    /// depends on it.
    fn now(&self) -> Duration;

    /// In a simulation, runs the next job or report on the caller's thread. `false` when there is
    /// none, or when jobs run on other threads.
    fn run_one(&self) -> bool;

    /// Runs `task` beside the job that calls this. `None`: `task` was run at once and is done.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread; `task` was not run.
    fn spawn_beside(
        &self,
        name: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>>;
}

/// A group of threads with their queues. Dropping it closes the queues and waits until every queued
/// job has run and reported.
pub trait WorkerPool: Send + Sync {
    /// Queues a job; never waits. `name` identifies it in traces.
    ///
    /// # Panics
    ///
    /// When the queue is full: callers count their own jobs and stay below the capacity.
    fn push(&self, priority: Priority, name: &'static str, job: Job);
}

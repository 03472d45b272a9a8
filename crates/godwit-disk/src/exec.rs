//! The seam between godwit and the operating system's threads and clock, beside the one to its files.
//!
//! An [`Executor`] says where work runs and what time it is. A [`Crew`] is a group of its servers: the
//! worker pool, or the one thread that appends, commits, flushes or merges. The product has one
//! executor, `godwit_store::exec::Threads`; simulations run jobs on the caller's thread in virtual
//! time.
//!
//! A job is a closure whose result is told by a second closure, the [`Report`]. They are apart
//! because in virtual time a job runs when it starts and is told when it ends.

use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

/// Tells a job's result to whoever waits for it.
pub type Report = Box<dyn FnOnce() + Send>;

/// Work that may run on another thread.
pub type Job = Box<dyn FnOnce() -> Report + Send>;

/// In which of a crew's queues a job waits: the first one that is not empty comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Short, and the connector waits for it.
    Urgent,
    /// Long, and only the verified height waits for it.
    Scripts,
}

impl Priority {
    /// Number of priorities, and so of a crew's queues.
    pub const COUNT: usize = 2;

    /// Place of its queue among a crew's queues.
    pub fn queue(self) -> usize {
        match self {
            Self::Urgent => 0,
            Self::Scripts => 1,
        }
    }
}

/// Where work runs and what time it is.
pub trait Executor: Send + Sync {
    /// Starts a crew that runs `servers` jobs at once, at least one. `capacity` is the number of jobs
    /// that each queue holds. With one server, jobs of one priority run in the order in which they
    /// were pushed.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread.
    fn start(
        &self,
        name: &'static str,
        servers: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn Crew>>;

    /// Time since some fixed moment; it never goes back. For durations in log lines and the status:
    /// nothing is decided by it.
    fn now(&self) -> Duration;

    /// Runs or tells what comes next on the caller's thread. `false` when there is nothing, or when
    /// work runs on other threads.
    fn run_one(&self) -> bool;

    /// Runs `task` beside the job that calls this. `None`: it was run at once, and is done.
    ///
    /// # Errors
    ///
    /// The operating system gave no thread; `task` was not run.
    fn beside(
        &self,
        name: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>>;
}

/// A group of servers with their queues. Dropping it closes the queues and waits until what they hold
/// has run and was told.
pub trait Crew: Send + Sync {
    /// Queues a job; never waits. `name` says what it is in traces.
    ///
    /// # Panics
    ///
    /// When the queue is full: who pushes counts its own jobs and stays below the capacity.
    fn push(&self, priority: Priority, name: &'static str, job: Job);
}

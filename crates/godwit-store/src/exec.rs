//! Where the node's jobs run: the seam is [`godwit_disk::exec`], [`Threads`] its implementation on the
//! operating system's threads, [`Workers`] what the rest of the program uses.

mod threads;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};

pub use godwit_disk::exec::{Executor, Job, Priority, Report, WorkerPool};
pub use threads::Threads;

/// The typed face of a [`WorkerPool`].
pub struct Workers(Box<dyn WorkerPool>);

impl Workers {
    /// Starts a pool; see [`Executor::start`].
    ///
    /// # Errors
    ///
    /// The operating system gave no thread.
    pub fn start(
        executor: &dyn Executor,
        name: &'static str,
        threads: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Self> {
        executor.start(name, threads, capacity).map(Self)
    }

    /// Queues `job` and has its result given to `reply`: `None` when it panicked. A job that vanished
    /// without a reply would be waited for in vain. What the job holds is dropped before it replies.
    pub fn run<T: Send + 'static>(
        &self,
        priority: Priority,
        name: &'static str,
        job: impl FnOnce() -> T + Send + 'static,
        reply: impl FnOnce(Option<T>) + Send + 'static,
    ) {
        let job = move || -> Report {
            let result = guarded(job);
            Box::new(move || reply(result))
        };
        self.0.push(priority, name, Box::new(job));
    }
}

/// Runs `task`; `None` when it panics.
pub fn guarded<T>(task: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(task)).ok()
}

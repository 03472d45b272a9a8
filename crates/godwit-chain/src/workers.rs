//! The worker threads: everything that may run in any order and beside connecting.
//!
//! Two queues. Urgent work (decoding blocks, fetching prevouts) is short and the connector waits
//! for it; script checks are long and only the verified height waits for them. A worker takes
//! urgent work first, so a full queue of scripts never starves the connector.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread::JoinHandle;

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

/// Most jobs that wait in one of the two queues; who submits more waits. That is safe as long as the
/// connector's inbox, where jobs report, cannot be full (`INBOX_LIMIT`).
const QUEUE_LIMIT: usize = 1024;

/// Which of the queues a job goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Urgency {
    /// The connector waits for it.
    Urgent,
    /// Only the verified height waits for it.
    Scripts,
}

type Job = Box<dyn FnOnce() + Send>;

/// The threads `godwit-worker-N`. Dropping the pool closes the queues and joins the threads; jobs
/// that are queued by then still run.
pub(crate) struct Workers {
    urgent: Option<Sender<Job>>,
    scripts: Option<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl Workers {
    /// Starts `count` threads (at least one).
    pub(crate) fn start(count: usize) -> std::io::Result<Self> {
        let (urgent, urgent_jobs) = bounded::<Job>(QUEUE_LIMIT);
        let (scripts, script_jobs) = bounded::<Job>(QUEUE_LIMIT);
        let mut threads = Vec::new();
        for n in 0..count.max(1) {
            let (urgent_jobs, script_jobs) = (urgent_jobs.clone(), script_jobs.clone());
            let thread = std::thread::Builder::new()
                .name(format!("godwit-worker-{n}"))
                .spawn(move || work(&urgent_jobs, &script_jobs))?;
            threads.push(thread);
        }
        Ok(Self { urgent: Some(urgent), scripts: Some(scripts), threads })
    }

    /// Queues a job. The job itself reports its result, also when it panics: see [`guarded`].
    pub(crate) fn run(&self, urgency: Urgency, job: impl FnOnce() + Send + 'static) {
        let queue = match urgency {
            Urgency::Urgent => &self.urgent,
            Urgency::Scripts => &self.scripts,
        };
        let queue = queue.as_ref().expect("queues stay open until the pool is dropped");
        queue.send(Box::new(job)).expect("workers outlive the queues' senders");
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        self.urgent = None;
        self.scripts = None;
        for thread in self.threads.drain(..) {
            // A panic inside a job was caught and reported by the job's own guard.
            if thread.join().is_err() {
                log::error!("a worker thread panicked outside a job");
            }
        }
    }
}

fn work(urgent: &Receiver<Job>, scripts: &Receiver<Job>) {
    loop {
        let job = select_biased! {
            recv(urgent) -> job => job.or_else(|_| scripts.recv()),
            recv(scripts) -> job => job.or_else(|_| urgent.recv()),
        };
        match job {
            Ok(job) => job(),
            Err(_) => return,
        }
    }
}

/// Runs `task`; `None` when it panics. A job that vanished without a report would leave the
/// connector waiting for ever, so every job sends what this returns.
pub(crate) fn guarded<T>(task: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(task)).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn every_queued_job_runs_before_the_pool_is_gone() {
        let done = Arc::new(AtomicUsize::new(0));
        let workers = Workers::start(2).unwrap();
        for n in 0..3000 {
            let done = Arc::clone(&done);
            let urgency = if n % 3 == 0 { Urgency::Urgent } else { Urgency::Scripts };
            workers.run(urgency, move || {
                done.fetch_add(1, Ordering::Relaxed);
            });
        }
        drop(workers);
        assert_eq!(done.load(Ordering::Relaxed), 3000);
    }

    #[test]
    fn urgent_work_overtakes_queued_scripts() {
        let workers = Workers::start(1).unwrap();
        let (gate, wait) = bounded::<()>(0);
        let (sender, order) = bounded(10);
        workers.run(Urgency::Scripts, move || wait.recv().unwrap());
        for name in ["script 1", "script 2"] {
            let sender = sender.clone();
            workers.run(Urgency::Scripts, move || sender.send(name).unwrap());
        }
        workers.run(Urgency::Urgent, move || sender.send("urgent").unwrap());
        gate.send(()).unwrap();
        drop(workers);
        assert_eq!(order.iter().collect::<Vec<_>>(), ["urgent", "script 1", "script 2"]);
    }

    #[test]
    fn a_panic_is_reported_as_none() {
        assert_eq!(guarded(|| 1), Some(1));
        let panics = || -> u32 { panic!("expected by the test") };
        assert_eq!(guarded(panics), None);
    }
}

//! Where one station hands out work.
//!
//! The answer comes back in the message of that station and of no other, so that a station knows
//! neither the chain nor the other stations' messages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_store::exec::{Priority, Workers};

/// A station's access to a pool of workers; jobs answer with an `R`.
pub(crate) struct JobSender<R> {
    workers: Arc<Workers>,
    /// Given `None` when a job panicked.
    send: Arc<dyn Fn(Option<R>) + Send + Sync>,
    cancelled: Arc<AtomicBool>,
}

impl<R> Clone for JobSender<R> {
    fn clone(&self) -> Self {
        let Self { workers, send, cancelled } = self;
        let (workers, send, cancelled) =
            (Arc::clone(workers), Arc::clone(send), Arc::clone(cancelled));
        Self { workers, send, cancelled }
    }
}

impl<R: Send + 'static> JobSender<R> {
    /// Jobs run on `workers` and give their answers to `send`, which never waits. What has not
    /// started when `cancelled` is set does not run and does not answer.
    pub(crate) fn new(
        workers: Arc<Workers>,
        cancelled: Arc<AtomicBool>,
        send: impl Fn(Option<R>) + Send + Sync + 'static,
    ) -> Self {
        Self { workers, send: Arc::new(send), cancelled }
    }

    /// Runs `job` and answers what it gives. What it holds is dropped before that.
    pub(crate) fn run(
        &self,
        priority: Priority,
        name: &'static str,
        job: impl FnOnce() -> R + Send + 'static,
    ) {
        self.run_part(priority, name, || Some(job()));
    }

    /// Runs one of several jobs that answer for each other: it may have nothing to answer.
    pub(crate) fn run_part(
        &self,
        priority: Priority,
        name: &'static str,
        part: impl FnOnce() -> Option<R> + Send + 'static,
    ) {
        let (send, cancelled) = (Arc::clone(&self.send), Arc::clone(&self.cancelled));
        let part = move || if cancelled.load(Ordering::Relaxed) { None } else { part() };
        self.workers.run(priority, name, part, move |result| match result {
            Some(None) => {}
            Some(answer) => send(answer),
            None => send(None),
        });
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Receiver, bounded};
    use godwit_store::exec::Threads;

    use super::*;

    fn job_sender(cancelled: &Arc<AtomicBool>) -> (JobSender<u32>, Receiver<Option<u32>>) {
        let workers = Workers::start(&Threads::default(), "godwit-test", 1, [8; 2]).unwrap();
        let (sender, answers) = bounded(8);
        let send = move |answer| sender.send(answer).unwrap();
        (JobSender::new(Arc::new(workers), Arc::clone(cancelled), send), answers)
    }

    #[test]
    fn a_job_lets_go_of_what_it_holds_before_it_answers() {
        let (job_sender, answers) = job_sender(&Arc::default());
        let held = Arc::new(());
        for panics in [false, true] {
            let holds = Arc::clone(&held);
            job_sender.run(Priority::Urgent, "test", move || {
                assert!(!panics && Arc::strong_count(&holds) == 2, "expected by the test");
                7
            });
            assert_eq!(answers.recv().unwrap(), (!panics).then_some(7));
            assert_eq!(Arc::strong_count(&held), 1);
        }
    }

    #[test]
    fn parts_answer_once_and_what_is_cancelled_never() {
        let cancelled = Arc::default();
        let (job_sender, answers) = job_sender(&cancelled);
        for part in 0..3 {
            job_sender.run_part(Priority::Scripts, "test", move || (part == 2).then_some(part));
        }
        assert_eq!(answers.recv().unwrap(), Some(2));
        cancelled.store(true, Ordering::Relaxed);
        job_sender.run(Priority::Urgent, "test", || panic!("was cancelled"));
        drop(job_sender);
        assert!(answers.recv().is_err(), "nobody answers any more");
    }
}

//! Threads of the operating system.

use std::io;
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select_biased};

use super::{Executor, Job, Priority, WorkerPool};

/// [`Executor`] on threads. A pool's threads are named after it, and numbered if there are several.
#[derive(Clone, Copy, Debug)]
pub struct Threads {
    started: Instant,
}

impl Default for Threads {
    fn default() -> Self {
        Self { started: Instant::now() }
    }
}

impl Executor for Threads {
    fn start(
        &self,
        name: &'static str,
        threads: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn WorkerPool>> {
        let (queues, jobs) = capacity.map(bounded::<Job>).into_iter().unzip();
        let mut pool = ThreadPool { queues, threads: Vec::new() };
        let jobs: Vec<Receiver<Job>> = jobs;
        for n in 0..threads.max(1) {
            let numbered = if threads > 1 { format!("{name}-{n}") } else { name.to_owned() };
            let (urgent, scripts) = (jobs[0].clone(), jobs[1].clone());
            let thread = Builder::new().name(numbered).spawn(move || work(&urgent, &scripts))?;
            pool.threads.push(thread);
        }
        Ok(Box::new(pool))
    }

    fn now(&self) -> Duration {
        self.started.elapsed()
    }

    fn run_one(&self) -> bool {
        false
    }

    fn spawn_beside(
        &self,
        name: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        Builder::new().name(name.to_owned()).spawn(task).map(Some)
    }
}

struct ThreadPool {
    /// By [`Priority::queue`]; empty once the queues are closed.
    queues: Vec<Sender<Job>>,
    threads: Vec<JoinHandle<()>>,
}

impl WorkerPool for ThreadPool {
    fn push(&self, priority: Priority, name: &'static str, job: Job) {
        if let Err(error) = self.queues[priority.queue()].try_send(job) {
            panic!("job {name}: {error}");
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.queues.clear();
        for thread in self.threads.drain(..) {
            // A panic inside a job was caught and reported.
            if thread.join().is_err() {
                log::error!("a thread panicked outside a job");
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
            Ok(job) => job()(),
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::super::Workers;
    use super::*;

    fn workers(threads: usize, capacity: usize) -> Workers {
        Workers::start(&Threads::default(), "godwit-test", threads, [capacity; 2]).unwrap()
    }

    #[test]
    fn every_queued_job_runs_before_the_pool_is_gone() {
        let done = Arc::new(AtomicUsize::new(0));
        let workers = workers(2, 3000);
        for n in 0..3000 {
            let done = Arc::clone(&done);
            let priority = if n % 3 == 0 { Priority::Urgent } else { Priority::Scripts };
            workers.run(
                priority,
                "count",
                || {},
                move |_| {
                    done.fetch_add(1, Ordering::Relaxed);
                },
            );
        }
        drop(workers);
        assert_eq!(done.load(Ordering::Relaxed), 3000);
    }

    #[test]
    fn urgent_work_overtakes_queued_scripts() {
        let workers = workers(1, 10);
        let (gate, wait) = bounded::<()>(0);
        let (sender, order) = bounded(10);
        workers.run(Priority::Scripts, "wait", move || wait.recv().unwrap(), |_| {});
        let tell = |priority, name: &'static str| {
            let sender = sender.clone();
            workers.run(priority, name, move || sender.send(name).unwrap(), |_| {});
        };
        tell(Priority::Scripts, "script 1");
        tell(Priority::Scripts, "script 2");
        tell(Priority::Urgent, "urgent");
        gate.send(()).unwrap();
        drop((workers, sender));
        assert_eq!(order.iter().collect::<Vec<_>>(), ["urgent", "script 1", "script 2"]);
    }

    #[test]
    fn a_panic_is_replied_as_none() {
        let workers = workers(1, 10);
        let (sender, replies) = bounded(10);
        let tell = |panics: bool| {
            let sender = sender.clone();
            let job = move || assert!(!panics, "expected by the test");
            workers.run(Priority::Urgent, "panic", job, move |reply| sender.send(reply).unwrap());
        };
        tell(true);
        tell(false);
        drop(workers);
        assert_eq!(replies.try_iter().collect::<Vec<_>>(), [None, Some(())]);
    }

    /// A push beyond the capacity is a fault of the caller and must not wait.
    #[test]
    fn a_full_queue_does_not_make_its_caller_wait() {
        let workers = workers(1, 2);
        let (gate, wait) = bounded::<()>(0);
        let (started, running) = bounded::<()>(1);
        let first = move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        };
        workers.run(Priority::Urgent, "wait", first, |_| {});
        running.recv().unwrap();
        workers.run(Priority::Urgent, "second", || {}, |_| {});
        workers.run(Priority::Urgent, "third", || {}, |_| {});
        let fourth = || workers.run(Priority::Urgent, "fourth", || {}, |_| {});
        assert_eq!(super::super::guarded(fourth), None);
        gate.send(()).unwrap();
    }

    #[test]
    fn a_task_beside_is_joined_by_its_caller() {
        let (sender, told) = bounded(1);
        let task = Box::new(move || sender.send(1).unwrap());
        let thread = Threads::default().spawn_beside("godwit-test", task).unwrap();
        thread.expect("threads run beside").join().unwrap();
        assert_eq!(told.recv(), Ok(1));
    }
}

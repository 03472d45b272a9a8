use std::cell::Cell;

use super::*;

thread_local! {
    static CPU: Cell<u64> = const { Cell::new(0) };
}

/// The processor time of the test's thread, in milliseconds that [`work`] has counted.
fn cpu() -> Duration {
    ms(CPU.get())
}

fn work(milliseconds: u64) {
    CPU.set(CPU.get() + milliseconds);
}

fn ms(count: u64) -> Duration {
    Duration::from_millis(count)
}

/// Names in the order in which they were told, with the instant.
#[derive(Clone, Default)]
struct Told(Arc<Mutex<Vec<(&'static str, u64)>>>);

impl Told {
    /// A job that takes so long.
    fn job(&self, threads: &VirtualThreads, name: &'static str, milliseconds: u64) -> Job {
        let (told, threads) = (self.clone(), threads.clone());
        Box::new(move || {
            work(milliseconds);
            Box::new(move || {
                let at = threads.now().as_millis() as u64;
                told.0.lock().unwrap().push((name, at));
            })
        })
    }

    fn take(&self) -> Vec<(&'static str, u64)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn started(count: usize) -> (VirtualThreads, Box<dyn WorkerPool>, Told) {
    let threads = VirtualThreads::new(cpu);
    let pool = threads.start("workers", count, [20; 2]).unwrap();
    (threads, pool, Told::default())
}

#[test]
fn jobs_run_beside_their_owner_and_beside_each_other() {
    let (threads, pool, told) = started(2);
    work(1);
    pool.push(Priority::Urgent, "a", told.job(&threads, "a", 10));
    work(2);
    pool.push(Priority::Urgent, "b", told.job(&threads, "b", 3));
    pool.push(Priority::Urgent, "c", told.job(&threads, "c", 4));
    assert_eq!(threads.now(), ms(3), "jobs cost their owner no time");
    work(2);
    threads.catch_up();
    assert!(told.take().is_empty());
    work(1);
    threads.catch_up();
    assert_eq!(told.take(), [("b", 6)]);
    assert!(threads.run_one());
    assert_eq!(told.take(), [("c", 10)], "it began when the second thread was free");
    assert_eq!(threads.now(), ms(10), "the owner waited for it");
    assert!(threads.run_one() && !threads.run_one());
    assert_eq!(told.take(), [("a", 11)]);
    let schedule = threads.schedule();
    assert_eq!(schedule.total, ms(11));
    assert_eq!(schedule.waits, BTreeMap::from([("a", ms(1)), ("c", ms(4))]));
    let workers = &schedule.pools["workers"];
    assert_eq!(workers.ran_in_waits, ms(9), "both from 6 to 10, then one");
    let c = JobTimes { jobs: 1, ran: ms(4), longest: ms(4), queued: ms(3) };
    assert_eq!(workers.jobs["c"], c);
}

#[test]
fn what_is_told_while_the_owner_works_is_told_at_its_instant() {
    let (threads, pool, told) = started(1);
    for (name, takes) in [("a", 2), ("b", 3), ("c", 4)] {
        pool.push(Priority::Scripts, name, told.job(&threads, name, takes));
    }
    work(7);
    pool.push(Priority::Urgent, "urgent", told.job(&threads, "urgent", 1));
    assert_eq!(told.take(), [("a", 2), ("b", 5)], "pushing looks at what has ended");
    while threads.run_one() {}
    assert_eq!(told.take(), [("c", 9), ("urgent", 10)]);
    // A later job of higher priority comes before those that wait.
    pool.push(Priority::Scripts, "a", told.job(&threads, "a", 1));
    pool.push(Priority::Scripts, "b", told.job(&threads, "b", 1));
    pool.push(Priority::Urgent, "urgent", told.job(&threads, "urgent", 1));
    while threads.run_one() {}
    assert_eq!(told.take(), [("a", 11), ("urgent", 12), ("b", 13)]);
}

#[test]
fn a_job_may_push_jobs_and_wait_for_them() {
    let (threads, pool, told) = started(1);
    let pool: Arc<dyn WorkerPool> = pool.into();
    let other: Arc<dyn WorkerPool> = threads.start("other", 1, [1, 0]).unwrap().into();
    let (inner, inner_told, inner_threads) = (Arc::clone(&other), told.clone(), threads.clone());
    let outer: Job = Box::new(move || {
        work(2);
        inner.push(Priority::Urgent, "inner", inner_told.job(&inner_threads, "inner", 5));
        work(1);
        assert!(inner_threads.run_one());
        assert_eq!(inner_threads.now(), ms(7), "it waited from 3 to 7");
        work(1);
        Box::new(|| ())
    });
    pool.push(Priority::Urgent, "outer", outer);
    assert_eq!(threads.now(), Duration::ZERO);
    assert!(threads.run_one() && !threads.run_one());
    assert_eq!(threads.now(), ms(8));
    assert_eq!(told.take(), [("inner", 7)]);
    let schedule = threads.schedule();
    assert_eq!(schedule.pools["workers"].jobs["outer"].ran, ms(8));
    assert_eq!(schedule.pools["other"].jobs["inner"].ran, ms(5));
    assert_eq!(schedule.waits, BTreeMap::from([("outer", ms(8))]));
}

#[test]
fn what_is_done_beside_takes_no_time() {
    let (threads, _pool, _) = started(1);
    work(1);
    threads.beside(|| work(50));
    work(1);
    let task = threads.spawn_beside("sync", Box::new(|| work(50))).unwrap();
    assert!(task.is_none());
    assert_eq!(threads.now(), ms(2));
}

#[test]
fn dropping_a_pool_runs_what_is_queued() {
    let (threads, pool, told) = started(1);
    for name in ["a", "b"] {
        pool.push(Priority::Urgent, name, told.job(&threads, name, 3));
    }
    drop(pool);
    assert_eq!(told.take(), [("a", 3), ("b", 6)]);
    assert_eq!(threads.now(), ms(6));
}

#[test]
#[should_panic(expected = "the queue is full")]
fn a_full_queue_is_a_fault() {
    let threads = VirtualThreads::new(cpu);
    let pool = threads.start("workers", 1, [1, 0]).unwrap();
    for _ in 0..3 {
        pool.push(Priority::Urgent, "a", Told::default().job(&threads, "a", 1));
    }
}

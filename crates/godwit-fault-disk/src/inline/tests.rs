use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use super::*;

const MILLISECOND: Duration = Duration::from_millis(1);

/// What jobs did, in order: `+name` where one ran, `-name` where it was told, with the time.
#[derive(Clone, Default)]
struct Tale(Arc<Mutex<Vec<String>>>);

impl Tale {
    fn job(&self, name: &'static str) -> Job {
        let tale = self.clone();
        Box::new(move || {
            tale.note(format!("+{name}"));
            Box::new(move || tale.note(format!("-{name}")))
        })
    }

    fn note(&self, line: String) {
        self.0.lock().unwrap().push(line);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn timed(least: u32, most: u32) -> Pace {
    Pace::Timed(least * MILLISECOND..=most * MILLISECOND)
}

fn pool(executor: &InlineExecutor, concurrent: usize) -> Box<dyn WorkerPool> {
    executor.start("test", concurrent, [20; 2]).unwrap()
}

fn panics(action: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(action)).is_err()
}

#[test]
fn a_job_runs_when_it_starts_and_is_told_when_it_ends() {
    let executor = InlineExecutor::new(1, timed(10, 10));
    let (pool, tale) = (pool(&executor, 2), Tale::default());
    for name in ["a", "b", "c"] {
        pool.push(Priority::Urgent, name, tale.job(name));
    }
    assert!(tale.take().is_empty(), "pushing runs nothing");
    assert!(!executor.run_until(Duration::ZERO));
    assert_eq!(tale.take().len(), 2, "as many run as may at once");
    assert_eq!(executor.next_end(), Some(10 * MILLISECOND));
    assert!(!executor.run_until(9 * MILLISECOND));
    assert!(executor.run_until(10 * MILLISECOND));
    assert_eq!(executor.now(), 10 * MILLISECOND);
    let lines = tale.take();
    assert_eq!(lines.iter().filter(|line| line.starts_with('-')).count(), 2, "{lines:?}");
    assert_eq!(executor.next_end(), Some(20 * MILLISECOND), "the third had to wait");
    assert!(executor.run_until(60 * MILLISECOND) && executor.next_end().is_none());
    assert_eq!(executor.now(), 60 * MILLISECOND);
    assert_eq!(executor.ended("a") + executor.ended("c"), 2);
}

#[test]
fn instant_jobs_end_where_they_start() {
    let executor = InlineExecutor::new(1, Pace::Instant);
    let (pool, tale) = (pool(&executor, 1), Tale::default());
    for name in ["a", "b"] {
        pool.push(Priority::Urgent, name, tale.job(name));
    }
    assert!(executor.finish_one());
    assert_eq!(tale.take(), ["+a", "-a"]);
    assert!(executor.run_until(Duration::ZERO));
    assert_eq!(tale.take(), ["+b", "-b"]);
    assert!(!executor.finish_one() && executor.now() == Duration::ZERO);
}

#[test]
fn one_server_keeps_the_order_and_urgent_jobs_come_first() {
    for seed in 0..20 {
        let executor = InlineExecutor::new(seed, timed(0, 5));
        let (pool, tale) = (pool(&executor, 1), Tale::default());
        for name in ["s1", "s2", "s3"] {
            pool.push(Priority::Scripts, name, tale.job(name));
        }
        for name in ["u1", "u2"] {
            pool.push(Priority::Urgent, name, tale.job(name));
        }
        while executor.finish_one() {}
        let order: Vec<String> = tale.take();
        let expected = ["u1", "u2", "s1", "s2", "s3"];
        let expected: Vec<String> =
            expected.iter().flat_map(|name| [format!("+{name}"), format!("-{name}")]).collect();
        assert_eq!(order, expected, "seed {seed}");
    }
}

/// Three jobs of a pool that runs two at once and one of another pool.
fn order(seed: u64) -> Vec<String> {
    let executor = InlineExecutor::new(seed, timed(0, 5));
    let (pool, single, tale) = (pool(&executor, 2), pool(&executor, 1), Tale::default());
    for name in ["a", "b", "c"] {
        pool.push(Priority::Urgent, name, tale.job(name));
    }
    single.push(Priority::Urgent, "d", tale.job("d"));
    while executor.finish_one() {}
    tale.take()
}

#[test]
fn the_order_follows_from_the_seed_alone() {
    let orders: BTreeSet<Vec<String>> = (0..200).map(order).collect();
    assert!(orders.len() > 50, "{} orders", orders.len());
    let starts = |order: &Vec<String>| -> Vec<String> {
        order.iter().filter(|line| line.starts_with('+')).cloned().collect()
    };
    let starts: BTreeSet<Vec<String>> = orders.iter().map(starts).collect();
    // Of three there may be any two first, with the one of the other pool before, between or behind.
    assert_eq!(starts.len(), 18, "any job may be the next one");
    assert!((0..50).all(|seed| order(seed) == order(seed)));
}

#[test]
fn what_is_killed_is_never_told() {
    let executor = InlineExecutor::new(1, timed(10, 10));
    let (old, tale) = (pool(&executor, 1), Tale::default());
    for name in ["a", "b"] {
        old.push(Priority::Urgent, name, tale.job(name));
    }
    executor.run_until(5 * MILLISECOND);
    assert_eq!(tale.take(), ["+a"]);
    assert_eq!(executor.running("a"), Some(Duration::ZERO..10 * MILLISECOND));
    executor.kill();
    old.push(Priority::Urgent, "c", tale.job("c"));
    drop(old);
    assert!(!executor.run_until(50 * MILLISECOND) && executor.running("a").is_none());
    let new = pool(&executor, 1);
    new.push(Priority::Urgent, "d", tale.job("d"));
    executor.run_until(60 * MILLISECOND);
    assert_eq!(tale.take(), ["+d", "-d"]);
}

#[test]
fn every_queued_job_runs_before_the_pool_is_gone() {
    let executor = InlineExecutor::new(1, timed(10, 10));
    let (pool, tale) = (pool(&executor, 1), Tale::default());
    pool.push(Priority::Scripts, "b", tale.job("b"));
    pool.push(Priority::Urgent, "a", tale.job("a"));
    executor.run_until(Duration::ZERO);
    drop(pool);
    assert_eq!(tale.take(), ["+a", "-a", "+b", "-b"]);
    assert_eq!(executor.now(), 20 * MILLISECOND, "its owner waited for both");
}

#[test]
fn a_turn_waits_for_no_job() {
    let executor = InlineExecutor::new(1, Pace::Instant);
    assert!(!executor.run_one());
    executor.arm();
    assert!(panics(|| {
        executor.run_one();
    }));
    assert!(!executor.finish_one(), "whoever drives it may");
    executor.disarm();
    assert!(!executor.run_one());
}

#[test]
fn a_full_queue_is_a_fault() {
    let executor = InlineExecutor::new(1, Pace::Instant);
    let pool = executor.start("test", 1, [1, 0]).unwrap();
    let tale = Tale::default();
    assert!(panics(|| pool.push(Priority::Scripts, "none", tale.job("none"))));
    pool.push(Priority::Urgent, "a", tale.job("a"));
    assert!(panics(|| pool.push(Priority::Urgent, "b", tale.job("b"))));
    drop(pool);
    assert_eq!(tale.take(), ["+a", "-a"]);
}

#[test]
fn a_task_beside_a_job_is_done_at_once() {
    let (executor, tale) = (InlineExecutor::new(1, Pace::Instant), Tale::default());
    let noted = tale.clone();
    let thread = executor.spawn_beside("test", Box::new(move || noted.note("done".to_owned())));
    assert!(thread.unwrap().is_none());
    assert_eq!(tale.take(), ["done"]);
}

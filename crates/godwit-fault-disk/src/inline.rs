//! Jobs on the caller's thread, in virtual time and in an order drawn from a seed.
//!
//! A pushed job only waits. The driver of the simulation lets jobs proceed: with
//! [`InlineExecutor::run_until`] in a test that has a clock of its own, with [`InlineExecutor::finish_one`]
//! where only the order matters. A job starts when its pool has a free thread, and its closure runs then, as
//! a whole; its result is reported at the job's end, which is later by the time that the job takes
//! ([`Pace`]). In between, other jobs start and end. Operations on a simulated disk take place at instants in
//! between ([`crate::FaultDisk::timed`]), so that a crash can come in the middle of jobs.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_disk::exec::{Executor, Job, Priority, Report, WorkerPool};

use crate::journal::Journal;
use crate::random::SplitMix;

/// If a pool runs several jobs at once, the next one is drawn from this many at the front of the queue:
/// threads that took them in order may have been delayed by that much.
const OVERTAKING: usize = 8;

/// What a job takes besides its disk operations.
#[derive(Clone, Debug)]
pub enum Pace {
    /// No time: the job ends at the instant at which it starts.
    Instant,
    /// A time drawn from this range.
    Timed(RangeInclusive<Duration>),
}

/// An [`Executor`] in virtual time; clones share the state.
#[derive(Clone)]
pub struct InlineExecutor(Arc<Mutex<State>>);

struct State {
    clock: Duration,
    pace: Pace,
    random: SplitMix,
    pools: BTreeMap<u64, PoolState>,
    next_pool: u64,
    /// Jobs that have run and are still to be reported, by their end and the order in which they started.
    running: BTreeMap<(Duration, u64), Running>,
    next_job: u64,
    /// The job whose closure runs.
    current: Option<Current>,
    armed: bool,
    /// Number of reported jobs, by name.
    ended: BTreeMap<&'static str, u64>,
    journal: Journal,
}

struct PoolState {
    /// Jobs that run at once, at most.
    concurrent: usize,
    busy: usize,
    capacity: [usize; Priority::COUNT],
    queues: [VecDeque<(&'static str, Job)>; Priority::COUNT],
}

struct Running {
    pool: u64,
    name: &'static str,
    started: Duration,
    report: Report,
}

#[derive(Clone, Copy)]
struct Current {
    job: u64,
    now: Duration,
}

/// A job that is about to run.
struct Start {
    pool: u64,
    name: &'static str,
    closure: Job,
    job: u64,
    at: Duration,
}

/// When something was done, and by which job; job 0 is the thread that drives the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) from: Duration,
    pub(crate) to: Duration,
    pub(crate) job: u64,
    /// The time of the simulation. Everything up to it has been reported.
    pub(crate) clock: Duration,
}

impl PoolState {
    fn is_ready(&self) -> bool {
        self.busy < self.concurrent && self.queues.iter().any(|queue| !queue.is_empty())
    }

    /// Takes the next job: from the highest priority that has any, and the first one if they run one at a
    /// time.
    fn next(&mut self, random: &mut SplitMix) -> Option<(&'static str, Job)> {
        let queue = self.queues.iter_mut().find(|queue| !queue.is_empty())?;
        let choice = if self.concurrent == 1 { 1 } else { queue.len().min(OVERTAKING) };
        queue.remove(random.below(choice as u64) as usize)
    }
}

impl State {
    fn next_start(&mut self) -> Option<Start> {
        let ready = |pools: &BTreeMap<u64, PoolState>| -> Vec<u64> {
            pools.iter().filter(|(_, pool)| pool.is_ready()).map(|(id, _)| *id).collect()
        };
        let ready = ready(&self.pools);
        let last = ready.len().checked_sub(1)?;
        let pool = ready[self.random.below(last as u64 + 1) as usize];
        let state = self.pools.get_mut(&pool)?;
        let (name, closure) = state.next(&mut self.random)?;
        state.busy += 1;
        Some(self.start(pool, name, closure))
    }

    fn start(&mut self, pool: u64, name: &'static str, closure: Job) -> Start {
        self.next_job += 1;
        let (job, at) = (self.next_job, self.clock);
        self.journal.note(at, format_args!("start {name} #{job}"));
        let took = match &self.pace {
            Pace::Instant => Duration::ZERO,
            Pace::Timed(range) => self.random.within(range),
        };
        self.current = Some(Current { job, now: at + took });
        Start { pool, name, closure, job, at }
    }

    /// Moves time to the next end of a job, if that is not after `until`.
    fn next_report(&mut self, until: Duration) -> Option<Report> {
        let next = self.running.first_entry().filter(|next| next.key().0 <= until)?;
        let (key, running) = next.remove_entry();
        if let Some(pool) = self.pools.get_mut(&running.pool) {
            pool.busy -= 1;
        }
        Some(self.end(key, running))
    }

    /// Ends a job, and returns the call that reports it.
    fn end(&mut self, (end, job): (Duration, u64), running: Running) -> Report {
        let Running { name, report, .. } = running;
        self.clock = self.clock.max(end);
        *self.ended.entry(name).or_default() += 1;
        self.journal.note(self.clock, format_args!("end {name} #{job}"));
        report
    }
}

impl InlineExecutor {
    /// An executor without pools, at the instant zero.
    pub fn new(seed: u64, pace: Pace) -> Self {
        Self(Arc::new(Mutex::new(State {
            clock: Duration::ZERO,
            pace,
            random: SplitMix(seed),
            pools: BTreeMap::new(),
            next_pool: 0,
            running: BTreeMap::new(),
            next_job: 0,
            current: None,
            armed: false,
            ended: BTreeMap::new(),
            journal: Journal::default(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion reports itself by its own panic; values dropped after it should not panic as
        // well.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Moves time to `now`; jobs start and end on the way. Returns whether any has ended. To be called before
    /// and after everything that may push jobs at that instant.
    pub fn run_until(&self, now: Duration) -> bool {
        let mut any = false;
        loop {
            self.start_jobs();
            let report = self.state().next_report(now);
            match report {
                Some(report) => report(),
                None => {
                    let mut state = self.state();
                    state.clock = state.clock.max(now);
                    return any;
                }
            }
            any = true;
        }
    }

    /// Starts the jobs that can start, moves time to the next end, and reports it; `false` if nothing runs.
    pub fn finish_one(&self) -> bool {
        self.start_jobs();
        let report = self.state().next_report(Duration::MAX);
        report.map(|report| report()).is_some()
    }

    /// The time at which the next running job ends.
    pub fn next_end(&self) -> Option<Duration> {
        self.state().running.first_key_value().map(|((end, _), _)| *end)
    }

    /// The start and end of the first running job of that name.
    pub fn running(&self, name: &str) -> Option<Range<Duration>> {
        let state = self.state();
        let mut running = state.running.iter().filter(|(_, running)| running.name == name);
        running.next().map(|((end, _), running)| running.started..*end)
    }

    /// Number of jobs of that name that were reported.
    pub fn ended(&self, name: &str) -> u64 {
        self.state().ended.get(name).copied().unwrap_or(0)
    }

    /// The journal of starts and ends of jobs, and of operations on its disks.
    pub fn journal(&self) -> Journal {
        self.state().journal.clone()
    }

    /// From now on only jobs may wait for a disk or for jobs: anything else that does panics.
    pub fn arm(&self) {
        self.state().armed = true;
    }

    /// Everything may wait again.
    pub fn disarm(&self) {
        self.state().armed = false;
    }

    /// The process dies: waiting jobs do not run, running ones are not reported, and existing pools take no
    /// more jobs.
    pub fn kill(&self) {
        let mut state = self.state();
        state.armed = false;
        let pools = std::mem::take(&mut state.pools);
        let running = std::mem::take(&mut state.running);
        drop(state);
        // Jobs may own values that push jobs or drop pools in their turn.
        drop((pools, running));
    }

    /// Charges the job that does something with the time that it takes: `cost` draws or computes it from the
    /// instant at which the thing begins, and from the job. Outside jobs it takes no time.
    ///
    /// # Panics
    ///
    /// Outside jobs, if that is forbidden ([`Self::arm`]); `what` describes the operation in the message.
    pub(crate) fn charge(
        &self,
        cost: impl FnOnce(&mut SplitMix, Span) -> Duration,
        what: impl FnOnce() -> String,
    ) -> Span {
        let mut state = self.state();
        let State { current, random, clock, armed, .. } = &mut *state;
        let (clock, armed) = (*clock, *armed);
        if let Some(Current { job, now }) = current {
            let span = Span { from: *now, to: *now, job: *job, clock };
            *now += cost(random, span);
            return Span { to: *now, ..span };
        }
        drop(state);
        assert!(!armed, "a turn waits for the disk: {}", what());
        Span { from: clock, to: clock, job: 0, clock }
    }

    /// The time of the simulation; the time of a running job is ahead of it.
    pub(crate) fn clock(&self) -> Duration {
        self.state().clock
    }

    fn start_jobs(&self) {
        loop {
            // Not in the loop's condition: there the guard would live while the job runs.
            let start = self.state().next_start();
            let Some(start) = start else { return };
            self.run(start);
        }
    }

    fn run(&self, start: Start) {
        let Start { pool, name, closure, job, at } = start;
        let report = closure();
        let mut state = self.state();
        let end = state.current.take().expect("a job runs by itself").now;
        state.running.insert((end, job), Running { pool, name, started: at, report });
    }
}

impl Executor for InlineExecutor {
    fn start(
        &self,
        _: &'static str,
        threads: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn WorkerPool>> {
        let mut state = self.state();
        let id = state.next_pool;
        state.next_pool += 1;
        let (concurrent, queues) = (threads.max(1), Default::default());
        state.pools.insert(id, PoolState { concurrent, busy: 0, capacity, queues });
        Ok(Box::new(InlinePool { executor: self.clone(), id }))
    }

    fn now(&self) -> Duration {
        let state = self.state();
        state.current.map_or(state.clock, |current| current.now)
    }

    fn run_one(&self) -> bool {
        assert!(!self.state().armed, "a turn waits for a job");
        self.finish_one()
    }

    fn spawn_beside(
        &self,
        _: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        task();
        Ok(None)
    }
}

struct InlinePool {
    executor: InlineExecutor,
    id: u64,
}

impl WorkerPool for InlinePool {
    fn push(&self, priority: Priority, name: &'static str, job: Job) {
        let mut state = self.executor.state();
        let Some(pool) = state.pools.get_mut(&self.id) else { return };
        let queue = &mut pool.queues[priority.queue()];
        let full = queue.len() >= pool.capacity[priority.queue()];
        if !full {
            queue.push_back((name, job));
        }
        drop(state);
        assert!(!full, "job {name}: the queue is full");
    }
}

impl Drop for InlinePool {
    fn drop(&mut self) {
        loop {
            let mut state = self.executor.state();
            let its = |(_, running): &(&(Duration, u64), &Running)| running.pool == self.id;
            let ends = state.running.iter().find(its).map(|(key, _)| *key);
            let running = ends.and_then(|key| state.running.remove(&key));
            if let (Some(key), Some(running)) = (ends, running) {
                let report = state.end(key, running);
                drop(state);
                report();
                continue;
            }
            let Some(pool) = state.pools.get_mut(&self.id) else { return };
            let Some((name, job)) = pool.queues.iter_mut().find_map(VecDeque::pop_front) else {
                state.pools.remove(&self.id);
                return;
            };
            let start = state.start(self.id, name, job);
            drop(state);
            self.executor.run(start);
        }
    }
}

#[cfg(test)]
mod tests;

//! What a run would take on more processors than there are: threads in virtual time, where each job takes
//! what it really took.
//!
//! All jobs run on one thread, the owner's, whose processor time is the clock ([`VirtualThreads::new`] is
//! given it). A job starts at the instant at which a thread of its pool is free, its closure runs then, as a
//! whole, and it ends, and is told, so much later as the closure took. The owner has a clock of its own,
//! which its work moves, and its waits ([`Executor::run_one`]). So a run with sixteen workers follows from
//! one processor, whatever else that is busy with:
//!
//! ```text
//! owner     ██████ push a ███ push b ████░░░░ waits ░░░░█████
//! worker 1         └─▶ aaaaaaaaaaaaaaaaaa┐              told as the owner's clock gets there, or as it waits
//! worker 2                     └─▶ bbbbbbbbbbbbbbbbbbbb┘
//! ```
//!
//! What it leaves out: threads that hinder each other (caches, memory, two threads of one core, locks), and
//! waits for the disk, which are no processor time.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_disk::exec::{Executor, Job, Priority, Report, WorkerPool};

/// What the jobs of a name have taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobTimes {
    pub jobs: u64,
    /// All of them.
    pub ran: Duration,
    pub longest: Duration,
    /// Between their pushes and their starts.
    pub queued: Duration,
}

/// What the threads of a pool did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolTimes {
    pub threads: usize,
    /// By the name of the job.
    pub jobs: BTreeMap<&'static str, JobTimes>,
    /// Of all its threads together, while the owner waited.
    pub ran_in_waits: Duration,
}

/// Who did what, so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// The owner's clock.
    pub total: Duration,
    /// What the owner waited, by the job that ended the wait.
    pub waits: BTreeMap<&'static str, Duration>,
    /// By the name of the pool; pools of one name count as one.
    pub pools: BTreeMap<&'static str, PoolTimes>,
}

/// See the module's documentation. Clones are the same one.
#[derive(Clone)]
pub struct VirtualThreads(Arc<Mutex<State>>);

struct State {
    cpu: fn() -> Duration,
    /// The owner's clock, and above it that of the job that runs, with those of jobs that wait for it.
    clocks: Vec<Clock>,
    /// What is still to happen, in the order of its instants and then of its being planned.
    coming: BTreeMap<(Duration, u64), Coming>,
    planned: u64,
    pools: BTreeMap<u64, PoolState>,
    next_pool: u64,
    schedule: Schedule,
}

/// An instant of virtual time, and what the processor's clock was then.
#[derive(Clone, Copy)]
struct Clock {
    at: Duration,
    seen: Duration,
}

enum Coming {
    Push { pool: u64, priority: Priority, job: Queued },
    End { pool: u64, name: &'static str, report: Report },
}

struct Queued {
    name: &'static str,
    since: Duration,
    closure: Job,
}

struct PoolState {
    name: &'static str,
    threads: usize,
    busy: usize,
    capacity: [usize; Priority::COUNT],
    /// Jobs that were pushed and have not started, by queue.
    waiting: [usize; Priority::COUNT],
    queues: [VecDeque<Queued>; Priority::COUNT],
    /// What its threads have run, all together, up to an instant.
    ran: Duration,
    ran_until: Duration,
}

impl PoolState {
    fn change_busy(&mut self, at: Duration, change: isize) {
        self.count(at);
        self.busy = self.busy.checked_add_signed(change).expect("no more jobs end than start");
    }

    fn count(&mut self, at: Duration) {
        let since = at.saturating_sub(self.ran_until);
        self.ran += since * u32::try_from(self.busy).expect("few threads");
        self.ran_until = self.ran_until.max(at);
    }

    fn next(&mut self) -> Option<Queued> {
        if self.busy == self.threads {
            return None;
        }
        let queue = self.queues.iter().position(|queue| !queue.is_empty())?;
        self.waiting[queue] -= 1;
        self.queues[queue].pop_front()
    }
}

impl State {
    /// The instant for whoever runs.
    fn now(&self) -> Duration {
        let clock = self.clocks.last().expect("the owner's is there");
        clock.at + (self.cpu)().saturating_sub(clock.seen)
    }

    /// Stops the clock of whoever runs; returns its instant.
    fn stop(&mut self) -> Duration {
        let at = self.now();
        self.clocks.last_mut().expect("the owner's is there").at = at;
        at
    }

    /// What passed meanwhile does not count for it.
    fn go_on(&mut self) {
        let seen = (self.cpu)();
        self.clocks.last_mut().expect("the owner's is there").seen = seen;
    }

    fn begin(&mut self, at: Duration) {
        let seen = (self.cpu)();
        self.clocks.push(Clock { at, seen });
    }

    fn end(&mut self) -> Duration {
        let at = self.now();
        self.clocks.pop();
        at
    }

    fn plan(&mut self, at: Duration, coming: Coming) {
        self.planned += 1;
        self.coming.insert((at, self.planned), coming);
    }

    fn take_coming(&mut self, until: Duration) -> Option<(Duration, Coming)> {
        let next = self.coming.first_entry().filter(|next| next.key().0 <= until)?;
        let ((at, _), coming) = next.remove_entry();
        Some((at, coming))
    }

    /// What each pool's threads have run up to an instant, in the order of the pools.
    fn ran(&mut self, at: Duration) -> Vec<Duration> {
        let ran = |pool: &mut PoolState| {
            pool.count(at);
            pool.ran
        };
        self.pools.values_mut().map(ran).collect()
    }
}

impl VirtualThreads {
    /// Without pools. `cpu` gives the processor time of the thread that calls it.
    pub fn new(cpu: fn() -> Duration) -> Self {
        Self(Arc::new(Mutex::new(State {
            cpu,
            clocks: vec![Clock { at: Duration::ZERO, seen: cpu() }],
            coming: BTreeMap::new(),
            planned: 0,
            pools: BTreeMap::new(),
            next_pool: 0,
            schedule: Schedule::default(),
        })))
    }

    /// Does something that takes the owner no time.
    pub fn beside<T>(&self, task: impl FnOnce() -> T) -> T {
        self.state().stop();
        let done = task();
        self.state().go_on();
        done
    }

    /// Has all happen that comes before the owner's instant: to be called before the owner looks at what jobs
    /// have told.
    pub fn catch_up(&self) {
        let now = self.state().stop();
        while self.step(now).is_some() {}
        self.state().go_on();
    }

    /// Who did what until now.
    pub fn schedule(&self) -> Schedule {
        let state = self.state();
        Schedule { total: state.now(), ..state.schedule.clone() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A failed assertion is told by its own panic, not by those of what is dropped behind it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the next thing happen, if it is not behind `until`: its instant, and the job that was told, if one
    /// was.
    fn step(&self, until: Duration) -> Option<(Duration, Option<&'static str>)> {
        let (at, coming) = self.state().take_coming(until)?;
        let (pool, told) = match coming {
            Coming::Push { pool, priority, job } => {
                if let Some(state) = self.state().pools.get_mut(&pool) {
                    state.queues[priority.queue()].push_back(job);
                }
                (pool, None)
            }
            Coming::End { pool, name, report } => {
                let mut state = self.state();
                if let Some(pool) = state.pools.get_mut(&pool) {
                    pool.change_busy(at, -1);
                }
                state.begin(at);
                drop(state);
                report();
                self.state().end();
                (pool, Some(name))
            }
        };
        while self.start_next(pool, at) {}
        Some((at, told))
    }

    /// Starts the pool's next job at that instant, if it has one and a thread for it.
    fn start_next(&self, pool: u64, at: Duration) -> bool {
        let mut state = self.state();
        let next = state.pools.get_mut(&pool).and_then(|pool| {
            let job = pool.next()?;
            pool.change_busy(at, 1);
            Some((pool.name, job))
        });
        let Some((pool_name, Queued { name, since, closure })) = next else { return false };
        state.begin(at);
        drop(state);
        let report = closure();
        let mut state = self.state();
        let end = state.end();
        let ran = end - at;
        let times = state.schedule.pools.entry(pool_name).or_default();
        let times = times.jobs.entry(name).or_default();
        times.jobs += 1;
        times.ran += ran;
        times.longest = times.longest.max(ran);
        times.queued += at - since;
        state.plan(end, Coming::End { pool, name, report });
        true
    }

    /// Has whoever runs wait from that instant until a job is told; whether one is.
    fn wait(&self, from: Duration) -> bool {
        let mut is_told = false;
        while let Some((_, told)) = self.step(from) {
            is_told |= told.is_some();
        }
        if is_told {
            return true;
        }
        let ran = self.state().ran(from);
        while let Some((at, told)) = self.step(Duration::MAX) {
            if let Some(name) = told {
                self.state().clocks.last_mut().expect("the owner's is there").at = at;
                self.note_wait(from, at, name, &ran);
                return true;
            }
        }
        false
    }

    fn note_wait(&self, from: Duration, to: Duration, name: &'static str, ran: &[Duration]) {
        let mut state = self.state();
        // A job that waits is not the owner.
        if state.clocks.len() > 1 {
            return;
        }
        *state.schedule.waits.entry(name).or_default() += to - from;
        let after = state.ran(to);
        let State { pools, schedule, .. } = &mut *state;
        for ((pool, before), after) in pools.values().zip(ran).zip(after) {
            schedule.pools.entry(pool.name).or_default().ran_in_waits += after - *before;
        }
    }
}

impl Executor for VirtualThreads {
    fn start(
        &self,
        name: &'static str,
        threads: usize,
        capacity: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn WorkerPool>> {
        let mut state = self.state();
        let (id, threads) = (state.next_pool, threads.max(1));
        let ran_until = state.now();
        state.next_pool += 1;
        let pool = PoolState {
            name,
            threads,
            busy: 0,
            capacity,
            waiting: [0; Priority::COUNT],
            queues: Default::default(),
            ran: Duration::ZERO,
            ran_until,
        };
        state.pools.insert(id, pool);
        state.schedule.pools.entry(name).or_default().threads += threads;
        Ok(Box::new(VirtualPool { threads: self.clone(), id }))
    }

    fn now(&self) -> Duration {
        self.state().now()
    }

    fn run_one(&self) -> bool {
        let from = self.state().stop();
        let is_told = self.wait(from);
        self.state().go_on();
        is_told
    }

    /// Beside its caller, and for no time: what the store does so is a wait for the disk.
    fn spawn_beside(
        &self,
        _: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        self.beside(task);
        Ok(None)
    }
}

struct VirtualPool {
    threads: VirtualThreads,
    id: u64,
}

impl WorkerPool for VirtualPool {
    fn push(&self, priority: Priority, name: &'static str, closure: Job) {
        let mut state = self.threads.state();
        let since = state.stop();
        let Some(pool) = state.pools.get_mut(&self.id) else { return };
        let waiting = &mut pool.waiting[priority.queue()];
        let is_full = *waiting >= pool.capacity[priority.queue()];
        if !is_full {
            *waiting += 1;
            let job = Queued { name, since, closure };
            state.plan(since, Coming::Push { pool: self.id, priority, job });
        }
        let is_owner = state.clocks.len() == 1;
        state.go_on();
        drop(state);
        assert!(!is_full, "job {name}: the queue is full");
        // What a job pushes happens at an instant to which its owner has still to come.
        if is_owner {
            self.threads.catch_up();
        }
    }
}

impl Drop for VirtualPool {
    fn drop(&mut self) {
        let is_done = |state: &State| {
            state.pools.get(&self.id).is_none_or(|pool| pool.busy == 0 && pool.waiting == [0; 2])
        };
        while !is_done(&self.threads.state()) && self.threads.run_one() {}
        self.threads.state().pools.remove(&self.id);
    }
}

#[cfg(test)]
mod tests;

//! Subjects that take turns.

use std::time::Duration;

use super::{Counters, Epoch, Subject, WorkerError};

/// Epochs of each subject, as many as nanobench has by default.
pub const EPOCHS: usize = 11;

/// The most by which one step of the calibration multiplies the iterations.
const MAX_GROWTH: f64 = 10.0;

/// A subject, wherever it runs.
pub trait Runner {
    /// Runs so many iterations.
    ///
    /// # Errors
    ///
    /// When the process that runs it has failed.
    fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError>;
}

/// A subject of this process.
pub struct Here<'a> {
    subject: &'a mut Subject,
    counters: Option<Counters>,
}

impl<'a> Here<'a> {
    /// With counters of its own, where there are any.
    pub fn new(subject: &'a mut Subject) -> Self {
        Self { subject, counters: Counters::open().ok() }
    }
}

impl Runner for Here<'_> {
    fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError> {
        Ok(Epoch::run(self.subject, iterations, self.counters.as_mut()))
    }
}

impl<R: Runner + ?Sized> Runner for &mut R {
    fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError> {
        (**self).epoch(iterations)
    }
}

/// How long a group runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Turns of each subject.
    pub epochs: usize,
    /// Least time of one subject's epochs together.
    pub min_time: Duration,
    /// One iteration takes so long that each epoch is one. Instead of a calibration there is one
    /// turn whose times are dropped.
    pub long: bool,
}

/// Lets the runners take turns, each turn beginning with another one. `progress` is told how many
/// turns are complete.
///
/// # Errors
///
/// The first failure of a runner.
pub fn take_turns(
    runners: &mut [Box<dyn Runner + '_>],
    plan: &Plan,
    mut progress: impl FnMut(usize),
) -> Result<Vec<Vec<Epoch>>, WorkerError> {
    progress(0);
    let goal = plan.min_time / plan.epochs.max(1) as u32;
    let mut iterations = Vec::new();
    for runner in runners.iter_mut() {
        iterations.push(match plan.long {
            true => runner.epoch(1)?.iterations,
            false => calibrated(runner.as_mut(), goal)?,
        });
    }
    let mut epochs = vec![Vec::with_capacity(plan.epochs); runners.len()];
    for turn in 0..plan.epochs {
        for place in 0..runners.len() {
            let subject = (place + turn) % runners.len();
            epochs[subject].push(runners[subject].epoch(iterations[subject])?);
        }
        progress(turn + 1);
    }
    Ok(epochs)
}

/// Iterations of which one epoch takes `goal`. The runs that find them out also warm caches and
/// branch predictors.
fn calibrated(runner: &mut dyn Runner, goal: Duration) -> Result<u64, WorkerError> {
    let goal = goal.as_nanos() as f64;
    let mut iterations = 1;
    loop {
        let epoch = runner.epoch(iterations)?;
        let missing = goal / epoch.nanoseconds as f64;
        if missing <= 1.25 {
            return Ok(((iterations as f64 * missing).ceil() as u64).max(1));
        }
        iterations = (iterations as f64 * missing.min(MAX_GROWTH)).ceil() as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    /// Takes so many nanoseconds an iteration, by its own account.
    struct Claims<'a> {
        name: char,
        nanoseconds: u64,
        log: &'a RefCell<String>,
    }

    impl Runner for Claims<'_> {
        fn epoch(&mut self, iterations: u64) -> Result<Epoch, WorkerError> {
            self.log.borrow_mut().push(self.name);
            Ok(Epoch { iterations, nanoseconds: iterations * self.nanoseconds, counts: None })
        }
    }

    fn run(long: bool) -> (Vec<Vec<Epoch>>, String) {
        let log = RefCell::new(String::new());
        let claims = |name, nanoseconds| Claims { name, nanoseconds, log: &log };
        let mut runners: Vec<Box<dyn Runner>> =
            vec![Box::new(claims('a', 7)), Box::new(claims('b', 5_000)), Box::new(claims('c', 1))];
        let plan = Plan { epochs: 3, min_time: Duration::from_micros(6), long };
        let epochs = take_turns(&mut runners, &plan, |_| ()).unwrap();
        drop(runners);
        (epochs, log.into_inner())
    }

    #[test]
    fn each_epoch_takes_its_share_of_the_time() {
        let (epochs, log) = run(false);
        assert!(log.ends_with("abcbcacab"), "{log}");
        for (of_one, iterations) in epochs.iter().zip([286, 1, 2_000]) {
            assert_eq!(of_one.len(), 3);
            assert!(of_one.iter().all(|epoch| epoch.iterations == iterations), "{of_one:?}");
        }
    }

    #[test]
    fn a_long_one_is_run_once_an_epoch_and_once_before() {
        let (epochs, log) = run(true);
        assert_eq!(log, "abc".to_owned() + "abcbcacab");
        assert!(epochs.iter().all(|of_one| of_one.len() == 3));
        assert!(epochs.iter().flatten().all(|epoch| epoch.iterations == 1));
    }
}

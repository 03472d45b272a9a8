//! Subjects that run in rounds: one epoch of each, in balanced orders.

use std::time::Duration;

use crate::rotation::{balanced_rounds, williams};

use super::{Counters, Epoch, Subject, WorkerError};

/// Epochs of each subject at least, as many as nanobench has by default.
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

/// How long a group runs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Epochs of each subject at least; as many more as balanced orders of the subjects need.
    pub epochs: usize,
    /// Least time of one subject's epochs together.
    pub min_time: Duration,
    /// One iteration takes so long that each epoch is one. Instead of a calibration there is one
    /// round whose times are dropped.
    pub long: bool,
}

/// Lets the runners run in rounds, in each of which everybody has one epoch: everybody has each place in
/// the order, and comes directly behind each other one, equally often. `progress` is told how many rounds of
/// how many are complete.
///
/// # Errors
///
/// The first failure of a runner.
pub fn run_rounds(
    runners: &mut [Box<dyn Runner + '_>],
    plan: &Plan,
    mut progress: impl FnMut(usize, usize),
) -> Result<Vec<Vec<Epoch>>, WorkerError> {
    let rounds = balanced_rounds(runners.len(), plan.epochs);
    progress(0, rounds);
    let goal = plan.min_time / rounds as u32;
    let mut iterations = Vec::new();
    for runner in runners.iter_mut() {
        iterations.push(match plan.long {
            true => runner.epoch(1)?.iterations,
            false => calibrated(runner.as_mut(), goal)?,
        });
    }
    let mut epochs = vec![Vec::with_capacity(rounds); runners.len()];
    let orders = williams(runners.len());
    for (round, order) in orders.iter().cycle().take(rounds).enumerate() {
        for &subject in order {
            epochs[subject].push(runners[subject].epoch(iterations[subject])?);
        }
        progress(round + 1, rounds);
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
        let epochs = run_rounds(&mut runners, &plan, |_, rounds| assert_eq!(rounds, 6)).unwrap();
        drop(runners);
        (epochs, log.into_inner())
    }

    /// Three rows and their mirrors.
    const ORDERS: &str = "abcbcacabcbaacbbac";

    #[test]
    fn each_epoch_takes_its_share_of_the_time() {
        let (epochs, log) = run(false);
        assert!(log.ends_with(ORDERS), "{log}");
        for (of_one, iterations) in epochs.iter().zip([143, 1, 1_000]) {
            assert_eq!(of_one.len(), 6);
            assert!(of_one.iter().all(|epoch| epoch.iterations == iterations), "{of_one:?}");
        }
    }

    #[test]
    fn a_long_one_is_run_once_an_epoch_and_once_before() {
        let (epochs, log) = run(true);
        assert_eq!(log, "abc".to_owned() + ORDERS);
        assert!(epochs.iter().all(|of_one| of_one.len() == 6));
        assert!(epochs.iter().flatten().all(|epoch| epoch.iterations == 1));
    }
}

//! One thing to be timed, and one stretch of its running.

use std::time::Instant;

use serde::{Deserialize, Serialize};

use super::Counters;

/// What can be run again and again on inputs that were prepared before.
pub struct Subject {
    /// What a figure is given per: `byte`, `block`, `coin` or `op`.
    pub unit: &'static str,
    /// How many of them one call of `body` works through.
    pub units_per_iteration: f64,
    /// One iteration; its result goes to [`black_box`](std::hint::black_box).
    pub body: Box<dyn FnMut()>,
}

impl Subject {
    pub fn new(
        unit: &'static str,
        units_per_iteration: f64,
        body: impl FnMut() + 'static,
    ) -> Subject {
        Self { unit, units_per_iteration, body: Box::new(body) }
    }
}

/// What the processor counted in user mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Instructions retired.
    pub instructions: u64,
    /// Clock cycles of the core.
    pub cycles: u64,
    /// Branches retired.
    pub branches: u64,
    /// Those of them that were predicted wrongly.
    pub branch_misses: u64,
}

/// Iterations in one stretch, and what they took.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Epoch {
    /// Calls of the body.
    pub iterations: u64,
    /// Wall time of all of them.
    pub nanoseconds: u64,
    /// `None` where the system has no counters.
    pub counts: Option<Counts>,
}

impl Epoch {
    /// Wall time of one iteration, in nanoseconds.
    pub fn per_iteration(&self) -> f64 {
        self.nanoseconds as f64 / self.iterations as f64
    }

    /// Runs `subject` so many times; at least once.
    pub fn run(
        subject: &mut Subject,
        iterations: u64,
        mut counters: Option<&mut Counters>,
    ) -> Self {
        let iterations = iterations.max(1);
        if let Some(counters) = counters.as_mut() {
            counters.start();
        }
        let start = Instant::now();
        for _ in 0..iterations {
            (subject.body)();
        }
        let nanoseconds = start.elapsed().as_nanos() as u64;
        let counts = counters.and_then(Counters::stop);
        Self { iterations, nanoseconds: nanoseconds.max(1), counts }
    }
}

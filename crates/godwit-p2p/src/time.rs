//! Time as the driver tells it.

use std::time::Duration;

use rand::Rng;

/// Both clocks of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since the driver's start; never goes back.
    pub monotonic: Duration,
    /// Seconds since 1970; may jump.
    pub unix: i64,
}

/// A time around `mean`, as between events of a Poisson process: nobody can tell when it ends.
pub(crate) fn exponential(mean: Duration, rng: &mut impl Rng) -> Duration {
    let uniform: f64 = rng.random();
    mean.mul_f64(-(1.0 - uniform).ln())
}

//! Time as the driver tells it.

use std::time::Duration;

use rand::Rng;

/// The two clocks at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Time since the driver's start; never decreases.
    pub monotonic: Duration,
    /// Seconds since 1970; may jump.
    pub unix: i64,
}

/// A random time with this mean, as between the events of a Poisson process, so that no observer
/// can tell when it ends.
pub(crate) fn exponential(mean: Duration, rng: &mut impl Rng) -> Duration {
    let uniform: f64 = rng.random();
    mean.mul_f64(-(1.0 - uniform).ln())
}

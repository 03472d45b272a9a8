//! Time as the driver tells it.

use std::time::Duration;

/// Both clocks of one moment.
#[derive(Clone, Copy, Debug)]
pub struct Now {
    /// Since the driver's start; never goes back.
    pub monotonic: Duration,
    /// Seconds since 1970; may jump.
    pub unix: i64,
}

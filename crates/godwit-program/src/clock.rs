//! The clock of the machine.

use std::time::{SystemTime, UNIX_EPOCH};

/// The clock, in seconds since 1970; 0 before that.
pub fn seconds_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

//! The machine's clock.

use std::time::{SystemTime, UNIX_EPOCH};

/// Unix time in seconds; 0 when the clock shows a time before 1970.
pub fn seconds_since_1970() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

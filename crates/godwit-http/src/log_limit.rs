//! Limits log lines that clients can cause as often as they like.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Least time between two lines of one kind.
const INTERVAL: Duration = Duration::from_secs(10);

/// The limit of one kind of lines.
#[derive(Default)]
pub struct LogLimit(Mutex<Counted>);

#[derive(Default)]
struct Counted {
    last: Option<Instant>,
    silent: u64,
}

impl LogLimit {
    /// Logs a warning, or only counts it if there was one a moment ago. The next line tells how many were not
    /// logged.
    pub fn warn(&self, line: impl FnOnce() -> String) {
        if let Some(silent) = self.take(Instant::now()) {
            let more = if silent > 0 { format!(" ({silent} more before)") } else { String::new() };
            log::warn!("{}{more}", line());
        }
    }

    /// The number of lines suppressed since the last one, if it is time for another.
    fn take(&self, now: Instant) -> Option<u64> {
        let mut counted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counted.last.is_some_and(|last| now < last + INTERVAL) {
            counted.silent += 1;
            return None;
        }
        counted.last = Some(now);
        Some(std::mem::take(&mut counted.silent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_in_an_interval_tells_of_the_others() {
        let (limit, start) = (LogLimit::default(), Instant::now());
        assert_eq!(limit.take(start), Some(0));
        assert_eq!(limit.take(start), None);
        assert_eq!(limit.take(start + INTERVAL - Duration::from_nanos(1)), None);
        assert_eq!(limit.take(start + INTERVAL), Some(2));
        assert_eq!(limit.take(start + 2 * INTERVAL), Some(0));
    }
}

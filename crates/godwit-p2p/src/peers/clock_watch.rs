//! Compares our clock with those of outbound peers, and reports when ours seems to be wrong. Nothing else
//! follows: no peer moves our clock.
//!
//! Source: Core `node/timeoffsets.cpp`.

use std::collections::VecDeque;
use std::time::Duration;

use log::{info, warn};

use crate::time::Now;

/// Offsets that are kept; the oldest gives way (Core `MAX_SIZE`).
const MAX_OFFSETS: usize = 50;
/// Fewer say nothing (Core `Median`).
const MIN_OFFSETS: usize = 5;
/// Least median offset, in seconds, with which the clock counts as wrong (Core `WARN_THRESHOLD`).
const TOLERANCE: i64 = 10 * 60;
/// Time between two log lines that it is wrong.
const REPEAT: Duration = Duration::from_secs(60 * 60);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct ClockWatch {
    /// Seconds by which outbound peers' clocks were ahead of ours, oldest first.
    offsets: VecDeque<i64>,
    /// When the log said that the clock is wrong; `None` while it seems right.
    said: Option<Duration>,
    /// When the log said that a header has to wait.
    said_of_header: Option<Duration>,
}

impl ClockWatch {
    /// An outbound peer said what time it is. Inbound ones are not asked: they choose
    /// us.
    pub(super) fn note(&mut self, now: Now, timestamp: i64) {
        if self.offsets.len() == MAX_OFFSETS {
            self.offsets.pop_front();
        }
        self.offsets.push_back(timestamp.saturating_sub(now.unix));
        match (self.wrong_by(), self.said) {
            (None, None) => {}
            (None, Some(_)) => {
                self.said = None;
                info!("This computer's clock agrees with those of the peers again.");
            }
            (Some(_), Some(said)) if now.monotonic.saturating_sub(said) < REPEAT => {}
            (Some(offset), _) => {
                self.said = Some(now.monotonic);
                warn!(
                    "This computer's clock seems to be {} (median of {} peers): check date, time \
                     and time zone. Blocks more than two hours ahead of it are not accepted.",
                    described(offset),
                    self.offsets.len()
                );
            }
        }
    }

    /// A header was refused because it is more than two hours ahead of our clock. Its sender is not at
    /// fault: the clock may be.
    pub(super) fn header_has_to_wait(&mut self, now: Now) {
        if self.said_of_header.is_some_and(|said| now.monotonic.saturating_sub(said) < REPEAT) {
            return;
        }
        self.said_of_header = Some(now.monotonic);
        let ours = match self.wrong_by() {
            Some(offset) => format!("That clock seems to be {}.", described(offset)),
            None => "If more of them come, check date, time and time zone.".to_owned(),
        };
        warn!(
            "A header is more than two hours ahead of this computer's clock and has to wait \
             (time-too-new). {ours}"
        );
    }

    /// Seconds by which the peers' clocks are ahead of ours, negative if behind; zero where few have said
    /// (Core `Median`).
    pub(super) fn median(&self) -> i64 {
        if self.offsets.len() < MIN_OFFSETS {
            return 0;
        }
        let mut sorted: Vec<i64> = self.offsets.iter().copied().collect();
        sorted.sort_unstable();
        sorted[sorted.len() / 2]
    }

    /// The median when that is too much.
    fn wrong_by(&self) -> Option<i64> {
        Some(self.median()).filter(|median| median.unsigned_abs() > TOLERANCE as u64)
    }
}

/// An offset of the peers' clocks as what is wrong with ours.
fn described(offset: i64) -> String {
    let (minutes, which) =
        (offset.unsigned_abs() / 60, if offset > 0 { "behind" } else { "ahead" });
    match minutes {
        0..180 => format!("{minutes} minutes {which}"),
        180..4_320 => format!("{} hours {which}", minutes / 60),
        _ => format!("{} days {which}", minutes / 1_440),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Now {
        Now { monotonic: Duration::from_secs(seconds), unix: 1_700_000_000 }
    }

    fn told(offsets: &[i64]) -> ClockWatch {
        let mut watch = ClockWatch::default();
        for offset in offsets {
            watch.note(at(0), at(0).unix.saturating_add(*offset));
        }
        watch
    }

    #[test]
    fn five_peers_have_to_agree_that_ten_minutes_are_wrong() {
        assert_eq!(told(&[9_000; 4]).wrong_by(), None);
        assert_eq!(told(&[9_000; 5]).wrong_by(), Some(9_000));
        assert_eq!(told(&[600; 9]).wrong_by(), None);
        assert_eq!(told(&[601; 9]).wrong_by(), Some(601));
        assert_eq!(told(&[-600; 9]).wrong_by(), None);
        assert_eq!(told(&[-601; 9]).wrong_by(), Some(-601));
        assert_eq!(told(&[0, 0, 0, 9_000, 9_000]).wrong_by(), None, "most are right");
        assert_eq!(told(&[0, 0, 9_000, 9_001, 9_002]).wrong_by(), Some(9_000));
    }

    #[test]
    fn impossible_times_do_not_overflow() {
        let mut watch = ClockWatch::default();
        for _ in 0..5 {
            watch.note(Now { unix: i64::MAX, ..at(0) }, i64::MIN);
        }
        assert_eq!(watch.wrong_by(), Some(i64::MIN));
        assert!(described(i64::MIN).ends_with("days ahead"));
    }

    #[test]
    fn the_newest_fifty_count_and_a_clock_that_was_set_is_right_again() {
        let mut watch = told(&[9_000; 80]);
        assert_eq!(watch.offsets.len(), MAX_OFFSETS);
        for n in 0..MAX_OFFSETS {
            assert_eq!(watch.wrong_by().is_some(), n <= 25, "{n}");
            watch.note(at(1), at(1).unix);
        }
        assert_eq!(watch.said, None);
    }

    #[test]
    fn the_log_says_it_once_an_hour() {
        let mut watch = told(&[9_000; 5]);
        assert_eq!(watch.said, Some(Duration::ZERO));
        let mut says = |seconds| {
            watch.note(at(seconds), at(0).unix + 9_000);
            watch.said == Some(Duration::from_secs(seconds))
        };
        assert_eq!([says(1), says(3_599), says(3_600), says(3_601)], [false, false, true, false]);
    }

    #[test]
    fn headers_that_wait_fill_no_log() {
        let mut watch = ClockWatch::default();
        for seconds in 0..4_000 {
            watch.header_has_to_wait(at(seconds));
            let last = if seconds < 3_600 { 0 } else { 3_600 };
            assert_eq!(watch.said_of_header, Some(Duration::from_secs(last)));
        }
    }

    #[test]
    fn offsets_are_described_from_our_side() {
        assert_eq!(described(15 * 60), "15 minutes behind");
        assert_eq!(described(-3 * 3_600), "3 hours ahead");
        assert_eq!(described(4 * 86_400), "4 days behind");
    }
}

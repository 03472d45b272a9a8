//! Decides when unsaved changes are committed, and when nothing more is accepted because the disk is slow.
//!
//! ```text
//!   something is noted ──── interval ────▶ commit ──── took ────▶ durable
//!                 what is noted meanwhile: ▲──── rest of it, interval ────▶ commit ──── took ────▶
//! ```
//!
//! Bytes, headers and the verified height become durable within [`MOST_SECONDS_AT_RISK`] wherever a commit
//! takes half of that or less: what arrives just after one commit has begun waits for that one and for the
//! next. Where a commit takes longer than [`SLOW_COMMIT_SECONDS`], no block is accepted during a commit, and
//! the next commit begins sooner, so that what is accepted then waits for the interval and one commit. No
//! more can be promised on a disk that takes a minute for a commit.
//!
//! Headers are accepted even then, since an announcement that is not processed is lost. On a network where
//! headers cost nothing a peer can send them faster than a slow disk writes them: each commit would take
//! longer than the one before, and no block would be accepted meanwhile. So a commit holds only as many
//! records of headers without blocks as the disk can write in time ([`Pace::most_headers`]). The rest, which
//! can be requested again, waits in memory.

use std::ops::Range;
use std::time::Duration;

/// Seconds after which blocks, undo records, headers and the verified height are durable, on a disk that
/// takes at most half of that for a commit.
pub(crate) const MOST_SECONDS_AT_RISK: u64 = 60;

/// A commit is due so many seconds after the first thing that it makes durable.
const CHECKPOINT_SECONDS: u64 = 20;

/// While a commit that takes longer is under way, nothing is taken in.
const SLOW_COMMIT_SECONDS: u64 = 20;

/// A commit that takes longer than this has the next one hold fewer headers.
const HEADERS_SECONDS: u64 = SLOW_COMMIT_SECONDS / 2;

/// Headers that any commit may hold: two operations of 20 ms for each take as long.
const FEWEST_HEADERS: usize = 256;

/// Coins that are written wait for so many times what the last commit took before the next one names them,
/// as long as nothing waits for that and nothing else is to be committed: with a small cache there would be a
/// commit behind the other, each of several syncs.
const RESTS: u32 = 4;

/// But not longer: what a power cut costs is bounded beside a slow disk too.
const LONGEST_REST: Duration = Duration::from_secs(1);

/// Seconds that are left for what is not counted: jobs that wait for a thread, turns of the chain.
const SPARE_SECONDS: u64 = 10;

/// Times of commits, in seconds since 1970 by a clock that may be set.
#[derive(Debug)]
pub(super) struct Pace {
    /// When the first thing was seen that no commit holds yet.
    waiting_since: Option<i64>,
    /// When the commit that is under way began.
    began: Option<i64>,
    /// What the last one took, in seconds.
    last_took: u64,
    /// Records of the block index in the one that is under way.
    records: usize,
    most_headers: usize,
    /// When a commit of coins alone may begin, by the executor's clock.
    rests_until: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            waiting_since: None,
            began: None,
            last_took: 0,
            records: 0,
            most_headers: usize::MAX,
            rests_until: Duration::ZERO,
        }
    }
}

impl Pace {
    /// Whether there is anything that a commit would make durable and none under way holds.
    pub(super) fn note(&mut self, waits: bool, now: i64) {
        if waits {
            self.waiting_since.get_or_insert(now);
        }
    }

    /// A commit begins that holds so many records of the block index.
    pub(super) fn begin(&mut self, now: i64, records: usize) {
        (self.began, self.waiting_since, self.records) = (Some(now), None, records);
    }

    /// The commit has ended that took from and until then, by the executor's clock.
    pub(super) fn end(&mut self, when: Range<Duration>) {
        let took = when.end - when.start;
        (self.began, self.last_took) = (None, took.as_secs());
        self.rests_until = when.end + (RESTS * took).min(LONGEST_REST);
        self.most_headers = if self.last_took > HEADERS_SECONDS {
            let in_time = self.records as u64 * HEADERS_SECONDS / self.last_took;
            self.most_headers.min(in_time as usize).max(FEWEST_HEADERS)
        } else {
            self.most_headers.saturating_mul(2)
        };
    }

    /// Whether a commit of coins alone may begin.
    pub(super) fn has_rested(&self, now: Duration) -> bool {
        now >= self.rests_until
    }

    /// Records of mere headers that the next commit may hold.
    pub(super) fn most_headers(&self) -> usize {
        self.most_headers
    }

    /// A clock that was set back also ends the interval, which would otherwise last until the clock has
    /// caught up.
    pub(super) fn is_due(&self, now: i64) -> bool {
        self.waiting_since.is_some_and(|since| now.abs_diff(since) >= interval(self.last_took))
    }

    /// Whether blocks may be accepted.
    pub(super) fn takes_blocks(&self, now: i64) -> bool {
        self.began.is_none_or(|began| {
            self.last_took <= SLOW_COMMIT_SECONDS && now.abs_diff(began) <= SLOW_COMMIT_SECONDS
        })
    }
}

/// Seconds from the first thing that waits to the commit, after one that took so long.
fn interval(last_took: u64) -> u64 {
    (MOST_SECONDS_AT_RISK - SPARE_SECONDS).saturating_sub(last_took).clamp(1, CHECKPOINT_SECONDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: i64 = CHECKPOINT_SECONDS as i64;

    fn taking(seconds: u64) -> Range<Duration> {
        Duration::ZERO..Duration::from_secs(seconds)
    }

    #[test]
    fn coins_rest_after_a_commit_by_what_it_took() {
        let mut pace = Pace::default();
        assert!(pace.has_rested(Duration::ZERO));
        let millis = Duration::from_millis;
        pace.begin(1_000, 0);
        pace.end(millis(500)..millis(530));
        assert!(!pace.has_rested(millis(530)) && !pace.has_rested(millis(649)));
        assert!(pace.has_rested(millis(650)));
        pace.begin(1_001, 0);
        pace.end(millis(700)..millis(700));
        assert!(pace.has_rested(millis(700)), "what takes no time needs no rest");
        pace.begin(1_001, 0);
        pace.end(millis(1_000)..millis(61_000));
        assert!(!pace.has_rested(millis(61_999)) && pace.has_rested(millis(62_000)));
    }

    #[test]
    fn a_commit_is_due_20_seconds_after_the_first_thing_that_waits_on_a_clock_that_goes_on_or_back()
    {
        let mut pace = Pace::default();
        pace.note(false, 900);
        assert!(!pace.is_due(10_000), "nothing waits");
        pace.note(true, 1_000);
        pace.note(true, 1_015);
        for (after, due) in [(0, false), (LIMIT - 1, false), (LIMIT, true)] {
            assert_eq!(pace.is_due(1_000 + after), due, "{after}");
            assert_eq!(pace.is_due(1_000 - after), due, "-{after}");
        }
        pace.begin(1_020, 0);
        assert!(!pace.is_due(10_000), "the commit holds it");
        let mut pace = Pace::default();
        pace.note(true, i64::MIN);
        assert!(pace.is_due(i64::MAX));
    }

    #[test]
    fn blocks_wait_for_a_slow_commit_and_for_every_one_behind_a_slow_one() {
        let mut pace = Pace::default();
        assert!(pace.takes_blocks(0));
        pace.begin(1_000, 0);
        let slow = SLOW_COMMIT_SECONDS as i64;
        assert!(pace.takes_blocks(1_000 + slow) && !pace.takes_blocks(1_001 + slow));
        pace.end(taking(SLOW_COMMIT_SECONDS));
        pace.begin(2_000, 0);
        assert!(pace.takes_blocks(2_000));
        pace.end(taking(SLOW_COMMIT_SECONDS + 1));
        assert!(pace.takes_blocks(2_500), "none is under way");
        pace.begin(3_000, 0);
        assert!(!pace.takes_blocks(3_000));
        pace.end(taking(0));
        pace.begin(4_000, 0);
        assert!(pace.takes_blocks(4_000), "the last one was fast again");
    }

    #[test]
    fn a_commit_holds_as_many_headers_as_a_slow_disk_writes_in_time_and_then_twice_as_many_each_time()
     {
        let mut pace = Pace::default();
        let mut commit = |records, seconds| {
            pace.begin(1_000, records);
            pace.end(taking(seconds));
            pace.most_headers()
        };
        assert_eq!(commit(1_000_000, HEADERS_SECONDS), usize::MAX);
        assert_eq!(commit(100_000, 10 * HEADERS_SECONDS), 10_000);
        assert_eq!(commit(10_000, HEADERS_SECONDS), 20_000);
        assert_eq!(commit(20_000, 4 * HEADERS_SECONDS), 5_000);
        // Of blocks, or of a disk that stalled.
        assert_eq!(commit(80_000, 2 * HEADERS_SECONDS), 5_000, "no more than before");
        assert_eq!(commit(3, 60), FEWEST_HEADERS);
        assert_eq!(commit(3, 1), 2 * FEWEST_HEADERS);
    }

    /// The worst there is, a second at a time: commits take so long, and something is noted in every second
    /// in which blocks are accepted.
    fn longest_wait(took: i64) -> i64 {
        let (mut pace, mut longest) = (Pace::default(), 0);
        let (mut waiting, mut held): (Vec<i64>, Vec<i64>) = Default::default();
        for now in 0..10_000 {
            if pace.began.is_some_and(|began| now - began >= took) {
                pace.end(taking(took as u64));
                // The first slow one was not foreseen.
                let late = held.drain(..).filter(|_| now > 2 * took + 100).map(|at| now - at).max();
                longest = longest.max(late.unwrap_or(0));
            }
            if pace.began.is_none() && pace.is_due(now) {
                pace.begin(now, 0);
                held = std::mem::take(&mut waiting);
            }
            if pace.takes_blocks(now) {
                waiting.push(now);
            }
            pace.note(!waiting.is_empty(), now);
        }
        assert!(longest > 0, "nothing became durable");
        longest
    }

    #[test]
    fn what_is_accepted_waits_a_minute_at_most_on_disks_that_are_fast_enough_and_one_commit_on_others()
     {
        let bound = MOST_SECONDS_AT_RISK as i64;
        for took in 0..=bound - SPARE_SECONDS as i64 {
            assert!(longest_wait(took) <= bound, "{took}: {}", longest_wait(took));
        }
        for took in [60, 100, 1_000] {
            assert!(longest_wait(took) <= took + 2, "{took}: {}", longest_wait(took));
        }
    }
}

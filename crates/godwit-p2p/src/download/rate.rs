//! How fast a peer delivers.

use std::time::Duration;

/// Shortest memory of a rate, in seconds: bytes that old count a factor e less.
const MEMORY: f64 = 8.0;

/// Longest memory, for a slow peer, in seconds.
const LONGEST_MEMORY: f64 = 300.0;

/// The memory covers this many blocks, within those limits.
const BLOCKS: f64 = 2.0;

/// Bytes per second of busy time; time without requests in flight does not count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    bytes: f64,
    seconds: f64,
    last: Duration,
    memory: f64,
    /// What it was when a request was last answered.
    at_answer: Option<f64>,
}

impl Rate {
    pub(super) fn new(now: Duration) -> Self {
        Self { bytes: 0.0, seconds: 0.0, last: now, memory: MEMORY, at_answer: None }
    }

    /// Adapts the memory to the expected size of blocks. Over a slow link of ours connections take
    /// turns, each longer than the shortest memory.
    pub(super) fn remember_blocks(&mut self, size: f64) {
        if let Some(rate) = self.get() {
            self.memory = (BLOCKS * size / rate).clamp(MEMORY, LONGEST_MEMORY);
        }
    }

    /// Advances the time to `now`; it counts if the peer was `busy`.
    pub(super) fn advance(&mut self, now: Duration, busy: bool) {
        let elapsed = now.saturating_sub(self.last).as_secs_f64();
        self.last = self.last.max(now);
        if !busy {
            return;
        }
        let kept = (-elapsed / self.memory).exp();
        self.bytes *= kept;
        self.seconds = self.seconds * kept + self.memory * (1.0 - kept);
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.bytes += bytes as f64;
    }

    /// Takes bytes back that were added.
    pub(super) fn take_back(&mut self, bytes: u64) {
        self.bytes = (self.bytes - bytes as f64).max(0.0);
    }

    /// A request was answered.
    pub(super) fn note_answer(&mut self) {
        self.at_answer = self.get();
    }

    /// Whether a request was answered, and how fast is known.
    pub(super) fn has_answered(&self) -> bool {
        self.at_answer.is_some()
    }

    /// What it was when a request was last answered, or is, if none was.
    pub(super) fn at_answer(&self) -> Option<f64> {
        self.at_answer.or(self.get())
    }

    /// Bytes per second; `None` before any byte arrived, and while no busy time has passed.
    pub(super) fn get(&self) -> Option<f64> {
        (self.bytes > 0.0 && self.seconds > 0.0).then(|| self.bytes / self.seconds.max(0.001))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seconds(n: u64) -> Duration {
        Duration::from_secs(n)
    }

    #[test]
    fn a_rate_is_right_from_the_first_second_and_idle_time_does_not_count() {
        let mut rate = Rate::new(Duration::ZERO);
        assert_eq!(rate.get(), None);
        for second in 1..100 {
            rate.advance(seconds(second * 10), false);
            rate.advance(seconds(second * 10 + 1), true);
            rate.add(1_000);
            let measured = rate.get().expect("bytes came");
            assert!((measured / 1_000.0 - 1.0).abs() < 0.07, "{measured}");
        }
    }

    #[test]
    fn a_rate_falls_while_nothing_comes_and_follows_a_change() {
        let mut rate = Rate::new(Duration::ZERO);
        rate.advance(seconds(1), true);
        rate.add(1_000);
        let mut before = rate.get().expect("bytes came");
        for second in 2..60 {
            rate.advance(seconds(second), true);
            let now = rate.get().expect("bytes came once");
            assert!(now < before);
            before = now;
        }
        assert!(before < 10.0, "{before}");
        for second in 60..100 {
            rate.advance(seconds(second), true);
            rate.add(50);
        }
        assert!((rate.get().expect("bytes came") / 50.0 - 1.0).abs() < 0.2);
    }

    #[test]
    fn the_rate_of_a_slow_peer_is_that_of_more_than_one_turn() {
        let mut rate = Rate::new(Duration::ZERO);
        for second in 1..2_000u64 {
            rate.advance(seconds(second), true);
            rate.remember_blocks(1e6);
            rate.add(if second / 10 % 8 == 0 { 32_000 } else { 0 });
            if second > 500 {
                let measured = rate.get().expect("bytes came");
                assert!((measured / 4_000.0 - 1.0).abs() < 0.25, "{measured}");
            }
        }
    }
}

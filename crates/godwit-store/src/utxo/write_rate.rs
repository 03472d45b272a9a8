//! How fast memtables are written, so that nobody keeps more unwritten than can be written in time.

use std::time::Duration;

/// Bytes a second, as memory counts them, as long as nothing was measured: a hard disk.
const ASSUMED: u64 = 100_000_000;

/// Smaller flushes take as long as their fsyncs, and tell nothing of a rate.
const SMALLEST_TIMED: usize = 16 << 20;

/// The least that is believed, so that something can always be kept.
const LEAST: u64 = 1_000_000;

/// Bytes of memtables that are written in a second.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriteRate(u64);

impl WriteRate {
    pub(super) fn assumed() -> Self {
        Self(ASSUMED)
    }

    pub(super) fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// A memtable of so many bytes took so long. What is slower than before is believed at once, what is
    /// faster only by and by.
    pub(super) fn note(&mut self, bytes: usize, took: Duration) {
        if bytes < SMALLEST_TIMED {
            return;
        }
        let rate = (bytes as u128 * 1_000 / took.as_millis().max(1)) as u64;
        let believed = if rate < self.0 { rate } else { self.0 + (rate - self.0) / 4 };
        self.0 = believed.max(LEAST);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_disk_is_believed_at_once_and_a_faster_one_by_and_by() {
        let second = Duration::from_secs(1);
        let mut rate = WriteRate::assumed();
        rate.note(SMALLEST_TIMED - 1, 10 * second);
        assert_eq!(rate.bytes_per_second(), ASSUMED, "too small");
        rate.note(SMALLEST_TIMED, second);
        assert_eq!(rate.bytes_per_second(), SMALLEST_TIMED as u64);
        rate.note(5 * SMALLEST_TIMED, second);
        assert_eq!(rate.bytes_per_second(), 2 * SMALLEST_TIMED as u64);
        rate.note(SMALLEST_TIMED, 3_600 * second);
        assert_eq!(rate.bytes_per_second(), LEAST);
        rate.note(SMALLEST_TIMED, Duration::ZERO);
        assert!(rate.bytes_per_second() > ASSUMED, "no division by zero");
    }
}

//! Measures how fast memtables are written, which bounds what may stay unwritten.

use std::time::Duration;

/// Bytes a second, as memory counts them, as long as nothing was measured: a hard disk.
const ASSUMED: u64 = 100_000_000;

/// Smaller flushes take as long as their fsyncs: that one was slow tells nothing of a rate.
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
    ///
    /// Of small memtables only that they were fast is believed, and only up to where the next ones are
    /// large enough to be timed: a drive may take them into its own cache. Without that, one flush that
    /// stalled would stay believed for good: memtables are sealed at what the rate allows, and all that
    /// followed would be too small.
    pub(super) fn note(&mut self, bytes: usize, took: Duration) {
        let mut rate = (bytes as u128 * 1_000 / took.as_millis().max(1)) as u64;
        if bytes < SMALLEST_TIMED {
            rate = rate.min(SMALLEST_TIMED as u64);
            if rate <= self.0 {
                return;
            }
        }
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
        let mut slow = WriteRate(SMALLEST_TIMED as u64);
        slow.note(SMALLEST_TIMED - 1, Duration::ZERO);
        assert_eq!(slow.bytes_per_second(), SMALLEST_TIMED as u64, "a drive's cache");
    }

    #[test]
    fn a_single_flush_that_stalled_is_forgotten() {
        let mut rate = WriteRate::assumed();
        rate.note(200_000_000, Duration::from_secs(40));
        assert_eq!(rate.bytes_per_second(), 5_000_000);
        // As the chain seals them: what two seconds write, on a disk of 100 MB/s.
        let mut flushes = 0;
        while 2 * rate.bytes_per_second() < SMALLEST_TIMED as u64 {
            let bytes = 2 * rate.bytes_per_second();
            rate.note(bytes as usize, Duration::from_millis(50 + bytes / 100_000));
            flushes += 1;
            assert!(flushes < 10, "{rate:?}");
        }
    }
}

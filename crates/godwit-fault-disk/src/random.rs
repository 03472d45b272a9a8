//! Pseudo-random numbers from a seed, so that runs can be repeated.

use std::ops::RangeInclusive;
use std::time::Duration;

pub(crate) struct SplitMix(pub(crate) u64);

impl SplitMix {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    /// A number below `bound`, which is not zero. For a bound of one, nothing is drawn.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        if bound == 1 { 0 } else { self.next() % bound }
    }

    /// A time of the range, both ends included.
    pub(crate) fn within(&mut self, range: &RangeInclusive<Duration>) -> Duration {
        let width = (*range.end() - *range.start()).as_nanos() as u64;
        *range.start() + Duration::from_nanos(self.below(width + 1))
    }
}

//! Intervals of integers in place of words: one run of the code on them is the proof that, whatever the
//! data, no sum exceeds 64 bits, no difference is negative, and no multiplicand is cut unless it says so.
//!
//! The code's control flow depends on no lane, so that a run takes every path; what comes from memory (keys,
//! table entries) is any word at all.

use super::{Entry, LaneMask, MAX_LANES, Multiply32, Multiply52, Vector};
use crate::field::products::Products;
use crate::field::radix52;

/// All integers from `low` to `high`. They are wider than a word, so that an overflow is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Interval {
    pub(crate) low: u128,
    pub(crate) high: u128,
}

const WORD: u128 = u64::MAX as u128;
const LOW_52: u128 = (1 << 52) - 1;
const ANY: Interval = Interval { low: 0, high: WORD };

impl Interval {
    pub(crate) fn new(low: u128, high: u128) -> Interval {
        assert!(low <= high && high <= WORD, "{low:#x} to {high:#x} wraps");
        Interval { low, high }
    }

    pub(crate) fn contains(self, other: Interval) -> bool {
        self.low <= other.low && other.high <= self.high
    }

    /// Product of two operands that must be below 2^`bits`.
    fn product(self, other: Interval, bits: u32) -> (u128, u128) {
        for operand in [self, other] {
            assert!(operand.high < 1 << bits, "multiplicand {:#x}", operand.high);
        }
        (self.low * other.low, self.high * other.high)
    }
}

// No operation is inlined: with its assertions, that would take minutes to compile.
impl Vector for Interval {
    const LANES: usize = 1;

    #[inline(never)]
    fn splat(word: u64) -> Self {
        Interval::new(word.into(), word.into())
    }

    #[inline(never)]
    fn load(_words: &[u64; MAX_LANES]) -> Self {
        ANY
    }

    #[inline(never)]
    fn store(self) -> [u64; MAX_LANES] {
        [0; MAX_LANES]
    }

    #[inline(never)]
    fn gather(_entries: &[&Entry; MAX_LANES]) -> [Self; 8] {
        [ANY; 8]
    }

    #[inline(never)]
    fn add(self, other: Self) -> Self {
        Interval::new(self.low + other.low, self.high + other.high)
    }

    #[inline(never)]
    fn sub(self, other: Self) -> Self {
        assert!(self.low >= other.high, "{:#x} - {:#x} is negative", self.low, other.high);
        Interval::new(self.low - other.high, self.high - other.low)
    }

    #[inline(never)]
    fn and(self, other: Self) -> Self {
        assert!(other.low == other.high && (other.low + 1).is_power_of_two(), "a mask of low bits");
        match self.high <= other.low {
            true => self,
            false => Interval::new(0, other.low),
        }
    }

    #[inline(never)]
    fn shr(self, count: u32) -> Self {
        Interval::new(self.low >> count, self.high >> count)
    }

    #[inline(never)]
    fn shl(self, count: u32) -> Self {
        Interval::new(self.low << count, self.high << count)
    }

    #[inline(never)]
    fn select(_mask: LaneMask, yes: Self, no: Self) -> Self {
        Interval::new(yes.low.min(no.low), yes.high.max(no.high))
    }

    #[inline(never)]
    fn zero_lanes(self) -> LaneMask {
        LaneMask(0)
    }
}

impl Multiply52 for Interval {
    #[inline(never)]
    fn madd_low(self, a: Self, b: Self) -> Self {
        let (low, high) = a.product(b, 52);
        self.add(if high <= LOW_52 { Interval::new(low, high) } else { Interval::new(0, LOW_52) })
    }

    #[inline(never)]
    fn madd_high(self, a: Self, b: Self) -> Self {
        let (low, high) = a.product(b, 52);
        self.add(Interval::new(low >> 52, high >> 52))
    }

    #[inline(never)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        let (low, high) = a.product(b, 52);
        assert!(high <= LOW_52, "the product {high:#x} has a high part");
        self.add(Interval::new(low, high))
    }

    #[inline(never)]
    fn low52(self) -> Self {
        if self.high <= LOW_52 { self } else { Interval::new(0, LOW_52) }
    }
}

/// The products of [`Fused`](crate::field::products::Fused) as integers, without the biases, which cancel
/// modulo 2^64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Nearest;

impl Products<Interval> for Nearest {
    type Factor = Interval;
    const TO_NEAREST: bool = true;
    const BIAS: [u64; 2] = [0, 0];

    #[inline(never)]
    fn factor(limb: Interval) -> Interval {
        assert!(limb.high <= LOW_52, "multiplicand {:#x}", limb.high);
        limb
    }

    #[inline(never)]
    fn add(low: Interval, high: Interval, a: Interval, b: Interval) -> (Interval, Interval) {
        const HALF: u128 = 1 << 51;
        let (least, most) = a.product(b, 52);
        let half = Interval::new(HALF, HALF);
        // Ties go either way.
        let rounded = Interval::new((least + HALF - 1) >> 52, (most + HALF) >> 52);
        (low.sub(half).add(Interval::new(0, 2 * HALF)), high.add(rounded))
    }

    #[inline(never)]
    fn add_small(sum: Interval, a: Interval, b: Interval) -> Interval {
        sum.madd_small(a, b)
    }

    #[inline(never)]
    fn low52(limb: Interval) -> Interval {
        limb.low52()
    }

    #[inline(never)]
    fn mul(a: &[Interval; 5], b: &[Interval; 5]) -> [Interval; 5] {
        radix52::mul_limbs::<Interval, Self>(a, b)
    }

    #[inline(never)]
    fn sqr(a: &[Interval; 5]) -> [Interval; 5] {
        radix52::sqr_limbs::<Interval, Self>(a)
    }
}

impl Multiply32 for Interval {
    type Factor = Self;

    #[inline(never)]
    fn factor(self) -> Self {
        assert!(self.high < 1 << 32, "multiplicand {:#x}", self.high);
        self
    }

    #[inline(never)]
    fn twice(factor: Self) -> Self {
        factor.add(factor).factor()
    }

    #[inline(never)]
    fn mul32(a: Self, b: Self) -> Self {
        let (low, high) = a.product(b, 32);
        Interval::new(low, high)
    }
}

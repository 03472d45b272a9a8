//! The instructions of every backend in plain `u64` and `f64`, bit for bit.

use super::{Doubles, Entry, LaneMask, MAX_LANES, Multiply32, Multiply52, Vector};

const LOW_52: u64 = (1 << 52) - 1;

/// `N` lanes, at most [`MAX_LANES`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Model<const N: usize>([u64; N]);

impl<const N: usize> Model<N> {
    #[inline]
    fn zip(self, other: Self, f: impl Fn(u64, u64) -> u64) -> Self {
        Model(std::array::from_fn(|lane| f(self.0[lane], other.0[lane])))
    }
}

impl<const N: usize> Vector for Model<N> {
    const LANES: usize = N;

    #[inline]
    fn splat(word: u64) -> Self {
        Model([word; N])
    }

    #[inline]
    fn load(words: &[u64; MAX_LANES]) -> Self {
        Model(std::array::from_fn(|lane| words[lane]))
    }

    #[inline]
    fn store(self) -> [u64; MAX_LANES] {
        let mut words = [0; MAX_LANES];
        words[..N].copy_from_slice(&self.0);
        words
    }

    #[inline]
    fn gather(entries: &[&Entry; MAX_LANES]) -> [Self; 8] {
        std::array::from_fn(|word| Model(std::array::from_fn(|lane| entries[lane].0[word])))
    }

    #[inline]
    fn add(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_add)
    }

    #[inline]
    fn sub(self, other: Self) -> Self {
        self.zip(other, u64::wrapping_sub)
    }

    #[inline]
    fn and(self, other: Self) -> Self {
        self.zip(other, |a, b| a & b)
    }

    #[inline]
    fn shr(self, count: u32) -> Self {
        self.zip(self, |word, _| word >> count)
    }

    #[inline]
    fn shl(self, count: u32) -> Self {
        self.zip(self, |word, _| word << count)
    }

    #[inline]
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self {
        Model(std::array::from_fn(
            |lane| if mask.contains(lane) { yes.0[lane] } else { no.0[lane] },
        ))
    }

    #[inline]
    fn zero_lanes(self) -> LaneMask {
        let mut mask = LaneMask::default();
        for (lane, word) in self.0.into_iter().enumerate() {
            mask.insert(lane, word == 0);
        }
        mask
    }
}

impl<const N: usize> Multiply52 for Model<N> {
    #[inline]
    fn madd_low(self, a: Self, b: Self) -> Self {
        self.add(a.zip(b, |a, b| (a & LOW_52).wrapping_mul(b & LOW_52) & LOW_52))
    }

    #[inline]
    fn madd_high(self, a: Self, b: Self) -> Self {
        let high = |a, b| ((u128::from(a & LOW_52) * u128::from(b & LOW_52)) >> 52) as u64;
        self.add(a.zip(b, high))
    }
}

impl<const N: usize> Doubles for Model<N> {
    type Double = [f64; N];

    #[inline]
    fn doubles(self) -> [f64; N] {
        self.0.map(f64::from_bits)
    }

    #[inline]
    fn words(doubles: [f64; N]) -> Self {
        Model(doubles.map(f64::to_bits))
    }

    #[inline]
    fn minus(a: [f64; N], b: [f64; N]) -> [f64; N] {
        std::array::from_fn(|lane| a[lane] - b[lane])
    }

    #[inline]
    fn fused(a: [f64; N], b: [f64; N], c: [f64; N]) -> [f64; N] {
        std::array::from_fn(|lane| a[lane].mul_add(b[lane], c[lane]))
    }
}

impl<const N: usize> Multiply32 for Model<N> {
    type Factor = Self;

    #[inline]
    fn factor(self) -> Self {
        self
    }

    #[inline]
    fn twice(factor: Self) -> Self {
        factor.add(factor)
    }

    #[inline]
    fn mul32(a: Self, b: Self) -> Self {
        a.zip(b, |a, b| u64::from(a as u32) * u64::from(b as u32))
    }
}

//! What the field and point code needs of a vector of 64-bit lanes.
//!
//! The code above is generic over these traits and so runs on real instructions (`backend`), on [`model`], a
//! bit-exact twin in plain `u64` and `f64`, and in tests on intervals that prove that nothing overflows.
//!
//! Everything here and above is `#[inline(always)]` and free of closures: a backend's outermost function
//! carries the `target_feature`, and only what is inlined into it is compiled with those instructions.

#[cfg(test)]
pub(crate) mod interval;
pub(crate) mod model;
#[cfg(target_arch = "x86_64")]
pub(crate) mod pair;

/// Lanes of the widest backend. Arrays by lane have this length everywhere; narrower vectors use the front.
pub(crate) const MAX_LANES: usize = 8;

/// One bit for each lane, lane 0 lowest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LaneMask(pub(crate) u8);

impl LaneMask {
    #[inline(always)]
    pub(crate) fn and(self, other: LaneMask) -> LaneMask {
        LaneMask(self.0 & other.0)
    }

    #[inline(always)]
    pub(crate) fn or(self, other: LaneMask) -> LaneMask {
        LaneMask(self.0 | other.0)
    }

    #[inline(always)]
    pub(crate) fn complement(self) -> LaneMask {
        LaneMask(!self.0)
    }

    /// All ones in the lanes of the mask, of the first four.
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[inline(always)]
    pub(crate) fn four_words(self) -> &'static [u64; 4] {
        &FOUR_WORDS[usize::from(self.0 & 0xf)]
    }

    pub(crate) fn contains(self, lane: usize) -> bool {
        self.0 >> lane & 1 == 1
    }

    #[inline(always)]
    pub(crate) fn insert(&mut self, lane: usize, value: bool) {
        self.0 |= u8::from(value) << lane;
    }
}

/// All ones in the lanes of each mask of four bits.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
static FOUR_WORDS: [[u64; 4]; 16] = {
    let mut masks = [[0; 4]; 16];
    let mut i = 0;
    while i < 64 {
        masks[i / 4][i % 4] = if (i / 4) >> (i % 4) & 1 == 1 { u64::MAX } else { 0 };
        i += 1;
    }
    masks
};

/// An affine point as it lies in memory: four little-endian words of x, four of y, one cache line. A lookup
/// loads one for each lane and transposes, which is several times faster than gathering words
/// (`vector-verification.md`, section 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub(crate) struct Entry(pub(crate) [u64; 8]);

impl Entry {
    pub(crate) const ZERO: Entry = Entry([0; 8]);
}

/// Lanes of unsigned 64-bit words. Arithmetic is modulo 2^64 as the instructions have it; that it never
/// wraps is what the interval test proves.
pub(crate) trait Vector: Copy + 'static {
    const LANES: usize;

    /// The same word in every lane.
    fn splat(word: u64) -> Self;
    /// The front of `words`, one for each lane.
    fn load(words: &[u64; MAX_LANES]) -> Self;
    /// The lanes, and zeros behind them.
    fn store(self) -> [u64; MAX_LANES];
    /// Word `i` of the entry of each lane, for every `i`.
    fn gather(entries: &[&Entry; MAX_LANES]) -> [Self; 8];
    fn add(self, other: Self) -> Self;
    fn sub(self, other: Self) -> Self;
    fn and(self, other: Self) -> Self;
    /// `count` is a constant wherever it is called, so that a shift by an immediate comes of it.
    fn shr(self, count: u32) -> Self;
    fn shl(self, count: u32) -> Self;
    /// `yes` in the lanes of the mask, `no` in the others.
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self;
    /// The lanes that are zero.
    fn zero_lanes(self) -> LaneMask;
}

/// The 52-bit multiply-adds of AVX-512 IFMA and AVX-IFMA.
pub(crate) trait Multiply52: Vector {
    /// `self` + the low 52 bits of the product of the low 52 bits of `a` and `b`.
    fn madd_low(self, a: Self, b: Self) -> Self;
    /// `self` + the high 52 bits of that product.
    fn madd_high(self, a: Self, b: Self) -> Self;

    /// `madd_low` of a product that is below 2^52, so that nothing is left for `madd_high`.
    #[inline(always)]
    fn madd_small(self, a: Self, b: Self) -> Self {
        self.madd_low(a, b)
    }

    /// Marks an operand of which the multiplication is to read only the low 52 bits. No instruction: it
    /// reads no more anyway; the intervals cut it here, and elsewhere take a wider operand for a mistake.
    #[inline(always)]
    fn low52(self) -> Self {
        self
    }

    /// `field::radix52::mul_limbs`: some 90 instructions, or a call where compiling them often is too slow.
    #[inline(always)]
    fn mul5(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        crate::field::radix52::mul_limbs::<Self, crate::field::products::Ifma>(a, b)
    }

    /// `field::radix52::sqr_limbs`, likewise.
    #[inline(always)]
    fn sqr5(a: &[Self; 5]) -> [Self; 5] {
        crate::field::radix52::sqr_limbs::<Self, crate::field::products::Ifma>(a)
    }
}

/// Double-precision arithmetic, rounded to nearest, ties to even, and the words that doubles are made of: the
/// fused multiply-adds of AVX-512F, and of nearly every processor with AVX2.
pub(crate) trait Doubles: Vector {
    /// One double for each lane.
    type Double: Copy;

    /// The doubles that the words are (`f64::from_bits`).
    fn doubles(self) -> Self::Double;
    /// `f64::to_bits`.
    fn words(doubles: Self::Double) -> Self;
    fn minus(a: Self::Double, b: Self::Double) -> Self::Double;
    /// `a` times `b` plus `c`, rounded once.
    fn fused(a: Self::Double, b: Self::Double, c: Self::Double) -> Self::Double;

    /// Ties a factor to columns that are summed up to here. Without it, LLVM computes all products before it
    /// adds the first of them, and where there are 16 registers that means a store and a load for each: a
    /// multiplication with AVX2 took a sixth longer.
    #[inline(always)]
    fn in_order(_columns: &mut [Self; 10], _first: usize, _factor: &mut Self::Double) {}

    /// `field::radix52::mul_limbs`. Some 250 instructions: a call, where a dozen of them would not fit the
    /// instruction cache.
    #[inline(always)]
    fn mul5(a: &[Self; 5], b: &[Self; 5]) -> [Self; 5] {
        crate::field::radix52::mul_limbs::<Self, crate::field::products::Fused>(a, b)
    }

    /// `field::radix52::sqr_limbs`, likewise.
    #[inline(always)]
    fn sqr5(a: &[Self; 5]) -> [Self; 5] {
        crate::field::radix52::sqr_limbs::<Self, crate::field::products::Fused>(a)
    }
}

/// The 32-bit multiplication of NEON.
pub(crate) trait Multiply32: Vector {
    /// What the multiplication takes: the vector itself, or the low halves of its lanes side by side. Made
    /// once for a limb that is multiplied several times.
    type Factor: Copy;

    /// The low 32 bits of each lane.
    fn factor(self) -> Self::Factor;
    /// Twice the factor, which must still be below 2^32.
    fn twice(factor: Self::Factor) -> Self::Factor;
    /// The product in each lane.
    fn mul32(a: Self::Factor, b: Self::Factor) -> Self;

    /// `self` + the product: one instruction.
    #[inline(always)]
    fn mul_add32(self, a: Self::Factor, b: Self::Factor) -> Self {
        Self::mul32(a, b).add(self)
    }

    /// `field::radix29::mul_limbs`. Some 250 instructions: a call, where a
    /// dozen of them would not fit the instruction cache.
    #[inline(always)]
    fn mul9(a: &[Self; 9], b: &[Self; 9]) -> [Self; 9] {
        crate::field::radix29::mul_limbs(a, b)
    }

    /// `field::radix29::sqr_limbs`, likewise.
    #[inline(always)]
    fn sqr9(a: &[Self; 9]) -> [Self; 9] {
        crate::field::radix29::sqr_limbs(a)
    }
}

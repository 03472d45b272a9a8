//! The field of integers modulo p = 2^256 - 2^32 - 977, one element for each lane, in two representations.
//!
//! A *settled* element, as every multiplication and [`Field::settle`] returns it, has limbs of the radix and
//! a value below 2^256 + 2^242. Sums and differences are not carried: they are of the *magnitude* that is
//! the sum of what went in (a difference adds 2 for each magnitude subtracted). What a representation takes:
//!
//! | | radix 2^52, 5 limbs | radix 2^29, 9 limbs |
//! | --- | --- | --- |
//! | magnitude of a factor | carried ([`Field::fit`]), up to 11 | both multiplied up to 6 |
//! | settle | any sum below 2^64 | limbs below 2^40 |
//!
//! The interval test (`crate::tests::intervals`) runs every formula and holds all of this against the words.

pub(crate) mod outlined;
pub(crate) mod products;
pub(crate) mod radix29;
pub(crate) mod radix52;

use crate::vector::{LaneMask, MAX_LANES, Vector};

/// A number of 256 bits, least significant word first.
pub(crate) type Words = [u64; 4];

/// p.
pub(crate) const P: Words = [0xffff_fffe_ffff_fc2f, u64::MAX, u64::MAX, u64::MAX];

/// 2^256 - p.
pub(crate) const C: u64 = 0x1_0000_03d1;

pub(crate) trait Field: Copy + 'static {
    type V: Vector;

    /// Any 256-bit number, settled. Lane by lane: [`load`].
    fn unpack(words: &[Self::V; 4]) -> Self;
    /// The canonical form, below p, of a settled element.
    fn pack(self) -> [Self::V; 4];
    fn mul(&self, other: &Self) -> Self;
    fn sqr(&self) -> Self;
    fn add(self, other: Self) -> Self;
    /// Times 2^`count`, in magnitude too.
    fn times_power(self, count: u32) -> Self;
    /// `self` - `other`, whose magnitude is at most `M`: a multiple of p with large limbs is added first.
    fn sub<const M: u64>(self, other: Self) -> Self;
    /// Carries, and folds what is above 2^256.
    fn settle(self) -> Self;
    /// Carries where the representation cannot multiply sums: magnitude stays, limbs fit.
    fn fit(self) -> Self;
    fn select(mask: LaneMask, yes: Self, no: Self) -> Self;
}

/// The same number in every lane; it may be anything below 2^256.
#[inline(always)]
pub(crate) fn constant<F: Field>(number: &Words) -> F {
    F::unpack(&[
        F::V::splat(number[0]),
        F::V::splat(number[1]),
        F::V::splat(number[2]),
        F::V::splat(number[3]),
    ])
}

/// One number for each lane; each may be anything below 2^256.
#[inline(always)]
pub(crate) fn load<F: Field>(numbers: &[Words; MAX_LANES]) -> F {
    let mut words = [F::V::splat(0); 4];
    for (i, word) in words.iter_mut().enumerate() {
        let mut column = [0; MAX_LANES];
        for lane in 0..MAX_LANES {
            column[lane] = numbers[lane][i];
        }
        *word = F::V::load(&column);
    }
    F::unpack(&words)
}

/// The lanes in which a settled element is 0 mod p: 0, p and 2p alike, by its canonical form.
#[inline(always)]
pub(crate) fn zero_lanes<F: Field>(element: F) -> LaneMask {
    let words = element.pack();
    let mut zero = words[0].zero_lanes();
    zero = zero.and(words[1].zero_lanes());
    zero = zero.and(words[2].zero_lanes());
    zero.and(words[3].zero_lanes())
}

/// The lanes in which the canonical form of a settled element is even.
#[inline(always)]
pub(crate) fn even_lanes<F: Field>(element: F) -> LaneMask {
    element.pack()[0].and(F::V::splat(1)).zero_lanes()
}

/// One step of a power: `squares`, then a product with the result of step `factor`; step 0 is the number.
struct Step {
    squares: u8,
    factor: u8,
}

const fn steps<const N: usize>(list: [(u8, u8); N]) -> [Step; N] {
    let mut steps = [const { Step { squares: 0, factor: 0 } }; N];
    let mut i = 0;
    while i < N {
        steps[i] = Step { squares: list[i].0, factor: list[i].1 };
        i += 1;
    }
    steps
}

/// (p + 1) / 4 but for two squares at the end. The steps are those of libsecp256k1 (`secp256k1_fe_sqrt`):
/// x^(2^n - 1) for n = 2, 3, 6, 9, 11, 22, 44, 88, 176, 220, 223, then the lower bits.
const SQUARE_ROOT: [Step; 13] = steps([
    (1, 0),
    (1, 0),
    (3, 2),
    (3, 2),
    (2, 1),
    (11, 5),
    (22, 6),
    (44, 7),
    (88, 8),
    (44, 7),
    (3, 2),
    (23, 6),
    (6, 1),
]);

/// p - 2 (`secp256k1_fe_inv`).
const INVERSE: [Step; 15] = steps([
    (1, 0),
    (1, 0),
    (3, 2),
    (3, 2),
    (2, 1),
    (11, 5),
    (22, 6),
    (44, 7),
    (88, 8),
    (44, 7),
    (3, 2),
    (23, 6),
    (5, 0),
    (3, 1),
    (2, 0),
]);

/// A loop rather than a chain of statements, so that multiplication and square are compiled once.
#[inline(always)]
fn power<F: Field>(x: F, steps: &[Step]) -> F {
    let mut results = [x; 16];
    let mut last = x;
    for (i, step) in steps.iter().enumerate() {
        for _ in 0..step.squares {
            last = last.sqr();
        }
        last = last.mul(&results[usize::from(step.factor)]);
        results[i + 1] = last;
    }
    last
}

/// x^((p + 1) / 4): the square root of a settled x, if it has one.
#[inline(always)]
pub(crate) fn square_root<F: Field>(x: F) -> F {
    power(x, &SQUARE_ROOT).sqr().sqr()
}

/// x^(p - 2): the inverse of a settled x; 0 of 0.
#[inline(always)]
pub(crate) fn inverse<F: Field>(x: F) -> F {
    power(x, &INVERSE)
}

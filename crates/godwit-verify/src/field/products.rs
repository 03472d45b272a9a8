//! Products of 52-bit limbs: by IFMA, or by fused multiply-adds of doubles.
//!
//! A product is split into 2^52 high + low. IFMA cuts: low is below 2^52. Doubles round (Niall Emmart,
//! "Faster modular exponentiation using double precision floating point arithmetic on the GPU", ARITH 2018):
//!
//! ```text
//! h = a b + 2^104           rounded to a multiple of 2^52, as 2^104 <= h < 2^105: h = 2^104 + 2^52 high
//! l = a b + (2^104 - 3 2^51 - h)           exact: l = low - 3 2^51, -2^51 <= low <= 2^51
//! ```
//!
//! and as all such h have one exponent, and all such l too (but for -2^53, whose word comes next after
//! theirs), the words that they are made of differ from `high` and from -`low` by constants. Nothing is
//! converted: the words are added to and subtracted from columns of integers, and what the constants add up
//! to is taken off before the first product (`radix52::Columns`).
//!
//! This wants the default rounding, to nearest, ties to even, which Rust takes for granted as well. The usual
//! form rounds towards zero and has 2^52 in place of -3 2^51. To nearest, that gives an l on either side of a
//! power of two, where the exponent changes; and 2^104 + 3 2^51 is no double.

use crate::vector::{Doubles, Multiply52, Vector};

/// How the limbs of a vector are multiplied.
pub(crate) trait Products<V: Vector>: Copy + 'static {
    /// A limb as the multiplication takes it.
    type Factor: Copy;
    /// Whether `low` is between -2^51 and 2^51; otherwise it is below 2^52.
    const TO_NEAREST: bool;
    /// What [`Products::add`] adds to the columns of `low` and of `high` beside them, modulo 2^64; even.
    const BIAS: [u64; 2];

    /// A limb below 2^52.
    fn factor(limb: V) -> Self::Factor;
    /// Adds the parts of a product to the columns `low` and `high`, and the bias.
    fn add(low: V, high: V, a: Self::Factor, b: Self::Factor) -> (V, V);
    /// `sum` + a b, where a b is below 2^52.
    fn add_small(sum: V, a: V, b: V) -> V;
    /// The low 52 bits, of which a factor is to be made.
    fn low52(limb: V) -> V;
    /// `radix52::mul_limbs`, inlined or as a call.
    fn mul(a: &[V; 5], b: &[V; 5]) -> [V; 5];
    /// `radix52::sqr_limbs`, likewise.
    fn sqr(a: &[V; 5]) -> [V; 5];

    /// Where a row of products begins: see [`Doubles::in_order`].
    #[inline(always)]
    fn in_order(_columns: &mut [V; 10], _first: usize, _factor: &mut Self::Factor) {}
}

/// The multiply-adds of AVX-512 IFMA and AVX-IFMA.
#[derive(Clone, Copy)]
pub(crate) struct Ifma;

impl<V: Multiply52> Products<V> for Ifma {
    type Factor = V;
    const TO_NEAREST: bool = false;
    const BIAS: [u64; 2] = [0, 0];

    #[inline(always)]
    fn factor(limb: V) -> V {
        limb
    }

    #[inline(always)]
    fn add(low: V, high: V, a: V, b: V) -> (V, V) {
        (low.madd_low(a, b), high.madd_high(a, b))
    }

    #[inline(always)]
    fn add_small(sum: V, a: V, b: V) -> V {
        sum.madd_small(a, b)
    }

    #[inline(always)]
    fn low52(limb: V) -> V {
        limb.low52()
    }

    #[inline(always)]
    fn mul(a: &[V; 5], b: &[V; 5]) -> [V; 5] {
        V::mul5(a, b)
    }

    #[inline(always)]
    fn sqr(a: &[V; 5]) -> [V; 5] {
        V::sqr5(a)
    }
}

/// Fused multiply-adds of doubles.
#[derive(Clone, Copy)]
pub(crate) struct Fused;

const TWO_52: f64 = (1_u64 << 52) as f64;
const TWO_104: f64 = TWO_52 * TWO_52;
/// 3 2^51: as far from 2^52 as from 2^53.
const MIDDLE: f64 = 1.5 * TWO_52;

impl<V: Doubles> Products<V> for Fused {
    type Factor = V::Double;
    const TO_NEAREST: bool = true;
    const BIAS: [u64; 2] = [0_u64.wrapping_sub((-MIDDLE).to_bits()), TWO_104.to_bits()];

    /// 2^52 + limb by its bits, less 2^52.
    #[inline(always)]
    fn factor(limb: V) -> V::Double {
        let above = limb.add(V::splat(TWO_52.to_bits())).doubles();
        V::minus(above, V::splat(TWO_52.to_bits()).doubles())
    }

    #[inline(always)]
    fn add(low: V, high: V, a: V::Double, b: V::Double) -> (V, V) {
        let h = V::fused(a, b, V::splat(TWO_104.to_bits()).doubles());
        let rest = V::minus(V::splat((TWO_104 - MIDDLE).to_bits()).doubles(), h);
        let l = V::fused(a, b, rest);
        (low.sub(V::words(l)), high.add(V::words(h)))
    }

    #[inline(always)]
    fn add_small(sum: V, a: V, b: V) -> V {
        let two_52 = V::splat(TWO_52.to_bits());
        let above = V::fused(Self::factor(a), Self::factor(b), two_52.doubles());
        sum.add(V::words(above).sub(two_52))
    }

    #[inline(always)]
    fn low52(limb: V) -> V {
        limb.and(V::splat((1 << 52) - 1))
    }

    #[inline(always)]
    fn mul(a: &[V; 5], b: &[V; 5]) -> [V; 5] {
        V::mul5(a, b)
    }

    #[inline(always)]
    fn sqr(a: &[V; 5]) -> [V; 5] {
        V::sqr5(a)
    }

    #[inline(always)]
    fn in_order(columns: &mut [V; 10], first: usize, factor: &mut V::Double) {
        V::in_order(columns, first, factor);
    }
}

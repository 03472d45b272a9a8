//! Nine limbs of 29 bits, for NEON's multiplication of 32 by 32 bits. With its fused multiply-adds of doubles
//! and `radix52` a check takes 1.4 times as many instructions: they are of two lanes, and each product takes
//! five of them in place of one.
//!
//! 2^261 = 2^37 + 31,264 mod p: what is above the ninth limb comes back at the bottom by one multiplication
//! by 31,264 and one shift by 8 into the next limb. Of 9 x 29, 10 x 28 and 10 x 26 bits this takes the fewest
//! instructions, because additions cost as much as multiplications; Cheng et al. (SAC 2020) found the same.

use super::{C, Field};
use crate::vector::{LaneMask, Multiply32, Vector};

const BITS: u32 = 29;
const MASK: u64 = (1 << BITS) - 1;
/// Bits of the topmost limb that are below 2^256.
const TOP_BITS: u32 = 256 - 8 * BITS;
const TOP_MASK: u64 = (1 << TOP_BITS) - 1;
/// 2^261 - 2^37 mod p.
const FOLD: u64 = 977 << 5;

/// p in limbs.
const P_LIMBS: [u64; 9] = [0x1fff_fc2f, 0x1fff_fff7, MASK, MASK, MASK, MASK, MASK, MASK, TOP_MASK];

/// Limbs, least significant first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Radix29<V>(pub(crate) [V; 9]);

/// The limbs as the multiplication takes them.
#[inline(always)]
fn factors<V: Multiply32>(limbs: &[V; 9]) -> [V::Factor; 9] {
    let mut factors = [limbs[0].factor(); 9];
    for k in 1..9 {
        factors[k] = limbs[k].factor();
    }
    factors
}

/// Sum of the products of factors by index.
macro_rules! dot {
    ($a:ident $b:ident; $i:literal $j:literal) => { V::mul32($a[$i], $b[$j]) };
    ($a:ident $b:ident; $i:literal $j:literal, $($rest:tt)+) => {
        dot!($a $b; $($rest)+).mul_add32($a[$i], $b[$j])
    };
}

/// The product of two elements, reduced. Written column by column, so that one accumulator is live at a time.
#[inline(always)]
pub(crate) fn mul_limbs<V: Multiply32>(a: &[V; 9], b: &[V; 9]) -> [V; 9] {
    let (a, b) = (factors(a), factors(b));
    reduce([
        dot!(a b; 0 0),
        dot!(a b; 0 1, 1 0),
        dot!(a b; 0 2, 1 1, 2 0),
        dot!(a b; 0 3, 1 2, 2 1, 3 0),
        dot!(a b; 0 4, 1 3, 2 2, 3 1, 4 0),
        dot!(a b; 0 5, 1 4, 2 3, 3 2, 4 1, 5 0),
        dot!(a b; 0 6, 1 5, 2 4, 3 3, 4 2, 5 1, 6 0),
        dot!(a b; 0 7, 1 6, 2 5, 3 4, 4 3, 5 2, 6 1, 7 0),
        dot!(a b; 0 8, 1 7, 2 6, 3 5, 4 4, 5 3, 6 2, 7 1, 8 0),
        dot!(a b; 1 8, 2 7, 3 6, 4 5, 5 4, 6 3, 7 2, 8 1),
        dot!(a b; 2 8, 3 7, 4 6, 5 5, 6 4, 7 3, 8 2),
        dot!(a b; 3 8, 4 7, 5 6, 6 5, 7 4, 8 3),
        dot!(a b; 4 8, 5 7, 6 6, 7 5, 8 4),
        dot!(a b; 5 8, 6 7, 7 6, 8 5),
        dot!(a b; 6 8, 7 7, 8 6),
        dot!(a b; 7 8, 8 7),
        dot!(a b; 8 8),
    ])
}

/// The square of an element, reduced: each mixed product once, with one operand doubled.
#[inline(always)]
pub(crate) fn sqr_limbs<V: Multiply32>(a: &[V; 9]) -> [V; 9] {
    let a = factors(a);
    let mut d = a;
    for k in 1..9 {
        d[k] = V::twice(d[k]);
    }
    reduce([
        dot!(a a; 0 0),
        dot!(a d; 0 1),
        dot!(a d; 0 2).mul_add32(a[1], a[1]),
        dot!(a d; 0 3, 1 2),
        dot!(a d; 0 4, 1 3).mul_add32(a[2], a[2]),
        dot!(a d; 0 5, 1 4, 2 3),
        dot!(a d; 0 6, 1 5, 2 4).mul_add32(a[3], a[3]),
        dot!(a d; 0 7, 1 6, 2 5, 3 4),
        dot!(a d; 0 8, 1 7, 2 6, 3 5).mul_add32(a[4], a[4]),
        dot!(a d; 1 8, 2 7, 3 6, 4 5),
        dot!(a d; 2 8, 3 7, 4 6).mul_add32(a[5], a[5]),
        dot!(a d; 3 8, 4 7, 5 6),
        dot!(a d; 4 8, 5 7).mul_add32(a[6], a[6]),
        dot!(a d; 5 8, 6 7),
        dot!(a d; 6 8).mul_add32(a[7], a[7]),
        dot!(a d; 7 8),
        dot!(a a; 8 8),
    ])
}

/// Columns of weight 2^(29 k) to a settled element.
#[inline(always)]
fn reduce<V: Multiply32>(mut c: [V; 17]) -> [V; 9] {
    let (mask, fold) = (V::splat(MASK), V::splat(FOLD).factor());
    // The upper columns become limbs, for the multiplier reads 32 bits; the lower ones may stay wide.
    for k in 8..16 {
        c[k + 1] = c[k + 1].add(c[k].shr(BITS));
        c[k] = c[k].and(mask);
    }
    let top = c[16].shr(BITS);
    c[16] = c[16].and(mask);
    for k in 0..8 {
        c[k] = c[k].mul_add32(c[k + 9].factor(), fold);
        c[k + 1] = c[k + 1].add(c[k + 9].shl(8));
    }
    c[8] = c[8].mul_add32(top.factor(), fold);
    // The upper part of the fold of `top` is above the ninth limb again.
    let again = top.shl(8);
    c[0] = c[0].mul_add32(again.factor(), fold);
    c[1] = c[1].add(again.shl(8));
    let mut limbs = [c[0], c[1], c[2], c[3], c[4], c[5], c[6], c[7], c[8]];
    carry(&mut limbs);
    fold_top(&mut limbs);
    limbs
}

/// Every limb but the topmost below 2^29.
#[inline(always)]
fn carry<V: Vector>(limbs: &mut [V; 9]) {
    let mask = V::splat(MASK);
    for k in 0..8 {
        limbs[k + 1] = limbs[k + 1].add(limbs[k].shr(BITS));
        limbs[k] = limbs[k].and(mask);
    }
}

/// What is above 2^256 in the topmost limb, which must be below 2^56, goes to the two lowest.
#[inline(always)]
fn fold_top<V: Multiply32>(limbs: &mut [V; 9]) {
    let over = limbs[8].shr(TOP_BITS);
    limbs[8] = limbs[8].and(V::splat(TOP_MASK));
    limbs[0] = limbs[0].mul_add32(over.factor(), V::splat(977).factor());
    limbs[1] = limbs[1].add(over.shl(3));
}

impl<V: Multiply32> Field for Radix29<V> {
    type V = V;

    #[inline(always)]
    fn unpack(words: &[V; 4]) -> Self {
        let [a, b, c, d] = *words;
        let low = |word: V, bits: u32| word.and(V::splat((1 << bits) - 1));
        let mask = V::splat(MASK);
        Radix29([
            a.and(mask),
            a.shr(29).and(mask),
            a.shr(58).add(low(b, 23).shl(6)),
            b.shr(23).and(mask),
            b.shr(52).add(low(c, 17).shl(12)),
            c.shr(17).and(mask),
            c.shr(46).add(low(d, 11).shl(18)),
            d.shr(11).and(mask),
            d.shr(40),
        ])
    }

    #[inline(always)]
    fn pack(self) -> [V; 4] {
        let mut l = self.0;
        carry(&mut l);
        // Now below 2^256 + 2^47, which is below 2p: at least p exactly if adding 2^256 - p reaches 2^256.
        let mut over = l[0].add(V::splat(C & MASK)).shr(BITS);
        over = l[1].add(V::splat(C >> BITS)).add(over).shr(BITS);
        for limb in &l[2..8] {
            over = limb.add(over).shr(BITS);
        }
        over = l[8].add(over).shr(TOP_BITS);
        let over = over.factor();
        l[0] = l[0].mul_add32(over, V::splat(C & MASK).factor());
        l[1] = l[1].mul_add32(over, V::splat(C >> BITS).factor());
        carry(&mut l);
        l[8] = l[8].and(V::splat(TOP_MASK));
        let low = |limb: V, bits: u32| limb.and(V::splat((1 << bits) - 1));
        [
            l[0].add(l[1].shl(29)).add(low(l[2], 6).shl(58)),
            l[2].shr(6).add(l[3].shl(23)).add(low(l[4], 12).shl(52)),
            l[4].shr(12).add(l[5].shl(17)).add(low(l[6], 18).shl(46)),
            l[6].shr(18).add(l[7].shl(11)).add(l[8].shl(40)),
        ]
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        Radix29(V::mul9(&self.0, &other.0))
    }

    #[inline(always)]
    fn sqr(&self) -> Self {
        Radix29(V::sqr9(&self.0))
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for k in 0..9 {
            self.0[k] = self.0[k].add(other.0[k]);
        }
        self
    }

    #[inline(always)]
    fn times_power(mut self, count: u32) -> Self {
        for k in 0..9 {
            self.0[k] = self.0[k].shl(count);
        }
        self
    }

    #[inline(always)]
    fn sub<const M: u64>(mut self, other: Self) -> Self {
        for k in 0..9 {
            self.0[k] = self.0[k].add(V::splat(2 * M * P_LIMBS[k])).sub(other.0[k]);
        }
        self
    }

    #[inline(always)]
    fn settle(mut self) -> Self {
        carry(&mut self.0);
        fold_top(&mut self.0);
        self
    }

    #[inline(always)]
    fn fit(self) -> Self {
        self
    }

    #[inline(always)]
    fn select(mask: LaneMask, yes: Self, mut no: Self) -> Self {
        for k in 0..9 {
            no.0[k] = V::select(mask, yes.0[k], no.0[k]);
        }
        no
    }
}

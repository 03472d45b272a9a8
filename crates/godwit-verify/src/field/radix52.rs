//! Five limbs of 52 bits, for the multiply-adds of IFMA.
//!
//! 2^260 = 2^4 (2^32 + 977) mod p: what is above the fifth limb comes back by one multiplication of 37 bits.
//! There is no spare bit in a limb, and the instruction drops what is above bit 52 silently: an operand must
//! be carried in sequence, and only where [`Multiply52::low52`] stands is the cut meant.

use super::{C, Field};
use crate::vector::{LaneMask, Multiply52, Vector};

const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;
/// Bits of the topmost limb that are below 2^256.
const TOP_BITS: u32 = 256 - 4 * BITS;
const TOP_MASK: u64 = (1 << TOP_BITS) - 1;
/// 2^260 mod p.
const FOLD: u64 = C << 4;

/// p in limbs.
const P_LIMBS: [u64; 5] = [0xf_fffe_ffff_fc2f, MASK, MASK, MASK, TOP_MASK];

/// Limbs, least significant first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Radix52<V>(pub(crate) [V; 5]);

/// Adds the low halves of products to one column and the high halves to the next.
macro_rules! madd {
    ($c:ident, $a:ident, $b:ident; $($i:literal $j:literal),+) => {$(
        $c[$i + $j] = $c[$i + $j].madd_low($a[$i], $b[$j]);
        $c[$i + $j + 1] = $c[$i + $j + 1].madd_high($a[$i], $b[$j]);
    )+};
}

#[inline(always)]
pub(crate) fn mul_limbs<V: Multiply52>(a: &[V; 5], b: &[V; 5]) -> [V; 5] {
    let mut c = [V::splat(0); 10];
    madd!(c, a, b; 0 0, 0 1, 0 2, 0 3, 0 4);
    madd!(c, a, b; 1 0, 1 1, 1 2, 1 3, 1 4);
    madd!(c, a, b; 2 0, 2 1, 2 2, 2 3, 2 4);
    madd!(c, a, b; 3 0, 3 1, 3 2, 3 3, 3 4);
    madd!(c, a, b; 4 0, 4 1, 4 2, 4 3, 4 4);
    reduce(c)
}

/// Each mixed product once; its column is doubled before the squares are added.
#[inline(always)]
pub(crate) fn sqr_limbs<V: Multiply52>(a: &[V; 5]) -> [V; 5] {
    let mut c = [V::splat(0); 10];
    madd!(c, a, a; 0 1, 0 2, 0 3, 0 4, 1 2, 1 3, 1 4, 2 3, 2 4, 3 4);
    for column in &mut c[1..9] {
        *column = column.add(*column);
    }
    madd!(c, a, a; 0 0, 1 1, 2 2, 3 3, 4 4);
    reduce(c)
}

/// Columns of weight 2^(52 k) to a settled element.
#[inline(always)]
fn reduce<V: Multiply52>(mut c: [V; 10]) -> [V; 5] {
    let fold = V::splat(FOLD);
    for k in 5..9 {
        c[k + 1] = c[k + 1].add(c[k].shr(BITS));
        c[k] = c[k].low52();
    }
    let mut over = V::splat(0);
    for k in 0..4 {
        c[k] = c[k].madd_low(c[k + 5], fold);
        c[k + 1] = c[k + 1].madd_high(c[k + 5], fold);
    }
    c[4] = c[4].madd_low(c[9], fold);
    over = over.madd_high(c[9], fold);
    // All that is above 2^256 but for the carry of the lower limbs, which is small.
    let over = over.shl(BITS - TOP_BITS).add(c[4].shr(TOP_BITS));
    let mut limbs = [c[0], c[1], c[2], c[3], c[4].and(V::splat(TOP_MASK))];
    limbs[0] = limbs[0].madd_low(over, V::splat(C));
    limbs[1] = limbs[1].madd_high(over, V::splat(C));
    carry(&mut limbs);
    limbs
}

/// Every limb but the topmost below 2^52.
#[inline(always)]
fn carry<V: Vector>(limbs: &mut [V; 5]) {
    let mask = V::splat(MASK);
    for k in 0..4 {
        limbs[k + 1] = limbs[k + 1].add(limbs[k].shr(BITS));
        limbs[k] = limbs[k].and(mask);
    }
}

/// What is above 2^256 in the topmost limb goes to the lowest: by one multiplication, for it is small.
#[inline(always)]
fn fold_top<V: Multiply52>(limbs: &mut [V; 5]) {
    let over = limbs[4].shr(TOP_BITS);
    limbs[4] = limbs[4].and(V::splat(TOP_MASK));
    limbs[0] = limbs[0].madd_small(over, V::splat(C));
}

impl<V: Multiply52> Field for Radix52<V> {
    type V = V;

    #[inline(always)]
    fn unpack(words: &[V; 4]) -> Self {
        let [a, b, c, d] = *words;
        let low = |word: V, bits: u32| word.and(V::splat((1 << bits) - 1));
        Radix52([
            low(a, 52),
            a.shr(52).add(low(b, 40).shl(12)),
            b.shr(40).add(low(c, 28).shl(24)),
            c.shr(28).add(low(d, 16).shl(36)),
            d.shr(16),
        ])
    }

    #[inline(always)]
    fn pack(self) -> [V; 4] {
        let mut l = self.0;
        fold_top(&mut l);
        carry(&mut l);
        // Now below 2^256 + 2^40: at least p exactly if adding 2^256 - p reaches 2^256.
        let mut over = l[0].add(V::splat(C)).shr(BITS);
        for limb in &l[1..4] {
            over = limb.add(over).shr(BITS);
        }
        over = l[4].add(over).shr(TOP_BITS);
        l[0] = l[0].madd_small(over, V::splat(C));
        carry(&mut l);
        l[4] = l[4].and(V::splat(TOP_MASK));
        let low = |limb: V, bits: u32| limb.and(V::splat((1 << bits) - 1));
        [
            l[0].add(low(l[1], 12).shl(52)),
            l[1].shr(12).add(low(l[2], 24).shl(40)),
            l[2].shr(24).add(low(l[3], 36).shl(28)),
            l[3].shr(36).add(l[4].shl(16)),
        ]
    }

    #[inline(always)]
    fn mul(&self, other: &Self) -> Self {
        Radix52(V::mul5(&self.0, &other.0))
    }

    #[inline(always)]
    fn sqr(&self) -> Self {
        Radix52(V::sqr5(&self.0))
    }

    #[inline(always)]
    fn add(mut self, other: Self) -> Self {
        for k in 0..5 {
            self.0[k] = self.0[k].add(other.0[k]);
        }
        self
    }

    #[inline(always)]
    fn times_power(mut self, count: u32) -> Self {
        for k in 0..5 {
            self.0[k] = self.0[k].shl(count);
        }
        self
    }

    #[inline(always)]
    fn sub<const M: u64>(mut self, other: Self) -> Self {
        for k in 0..5 {
            self.0[k] = self.0[k].add(V::splat(2 * M * P_LIMBS[k])).sub(other.0[k]);
        }
        self
    }

    #[inline(always)]
    fn settle(mut self) -> Self {
        fold_top(&mut self.0);
        carry(&mut self.0);
        self
    }

    #[inline(always)]
    fn fit(mut self) -> Self {
        carry(&mut self.0);
        self
    }

    #[inline(always)]
    fn select(mask: LaneMask, yes: Self, mut no: Self) -> Self {
        for k in 0..5 {
            no.0[k] = V::select(mask, yes.0[k], no.0[k]);
        }
        no
    }
}

//! Five limbs of 52 bits, for multiplications of 52 by 52 bits.
//!
//! 2^260 = 2^4 (2^32 + 977) mod p: what is above the fifth limb comes back by one multiplication of 37 bits.
//! There is no spare bit in a limb: a factor must be carried in sequence, and only where
//! [`Products::low52`] stands is it cut.

use std::marker::PhantomData;

use super::products::Products;
use super::{C, Field};
use crate::vector::{LaneMask, Vector};

const BITS: u32 = 52;
const MASK: u64 = (1 << BITS) - 1;
/// Bits of the topmost limb that are below 2^256.
const TOP_BITS: u32 = 256 - 4 * BITS;
const TOP_MASK: u64 = (1 << TOP_BITS) - 1;
/// 2^260 mod p.
const FOLD: u64 = C << 4;

/// p in limbs.
const P_LIMBS: [u64; 5] = [0xf_fffe_ffff_fc2f, MASK, MASK, MASK, TOP_MASK];

/// Limbs, least significant first, and how they are multiplied.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Radix52<V, P>([V; 5], PhantomData<P>);

impl<V: Vector, P: Products<V>> Radix52<V, P> {
    #[inline(always)]
    pub(crate) fn new(limbs: [V; 5]) -> Self {
        Radix52(limbs, PhantomData)
    }

    #[cfg(test)]
    #[inline(always)]
    pub(crate) fn limbs(&self) -> [V; 5] {
        self.0
    }
}

/// What the ten columns of a product begin with.
///
/// Where low parts may be negative, a multiple of p that keeps every column positive until it is carried,
/// and leaves c9 below 2^52:
///
/// ```text
/// 64 p - 4 FOLD (2^52 + 2^104 + 2^156 + 2^208) + 2^54 (2^260 + 2^312 + 2^364 + 2^416)
/// ```
///
/// of which the second and the third part are the same mod p, as 2^54 2^260 = 2^2 FOLD 2^52. Less all biases
/// that come to a column.
struct Columns<V, P>(PhantomData<(V, P)>);

impl<V: Vector, P: Products<V>> Columns<V, P> {
    const START: [u64; 10] = {
        let mut columns = [0_u64; 10];
        let mut k = 0;
        while P::TO_NEAREST && k < 5 {
            columns[k] = 64 * P_LIMBS[k] - if k > 0 { 4 * FOLD } else { 0 };
            columns[k + 5] = if k < 4 { 1 << 54 } else { 0 };
            k += 1;
        }
        // The products of limbs.
        let mut i = 0;
        while i < 5 {
            let mut j = 0;
            while j < 5 {
                columns[i + j] = columns[i + j].wrapping_sub(P::BIAS[0]);
                columns[i + j + 1] = columns[i + j + 1].wrapping_sub(P::BIAS[1]);
                j += 1;
            }
            i += 1;
        }
        // The upper columns times FOLD, whose last high part has a column of its own.
        let mut k = 0;
        while k < 5 {
            columns[k] = columns[k].wrapping_sub(P::BIAS[0]);
            if k < 4 {
                columns[k + 1] = columns[k + 1].wrapping_sub(P::BIAS[1]);
            }
            k += 1;
        }
        // What is above 2^256, times C.
        columns[0] = columns[0].wrapping_sub(P::BIAS[0]);
        columns[1] = columns[1].wrapping_sub(P::BIAS[1]);
        columns
    };

    /// Shifted to the right: by 0, or by 1 for columns that will be doubled.
    #[inline(always)]
    fn start(halved: u32) -> [V; 10] {
        let mut columns = [V::splat(0); 10];
        for k in 0..10 {
            columns[k] = V::splat(Self::START[k] >> halved);
        }
        columns
    }
}

#[inline(always)]
fn factors<V: Vector, P: Products<V>>(limbs: &[V; 5]) -> [P::Factor; 5] {
    let mut factors = [P::factor(limbs[0]); 5];
    for k in 1..5 {
        factors[k] = P::factor(limbs[k]);
    }
    factors
}

#[inline(always)]
pub(crate) fn mul_limbs<V: Vector, P: Products<V>>(a: &[V; 5], b: &[V; 5]) -> [V; 5] {
    let (a, b) = (factors::<V, P>(a), factors::<V, P>(b));
    let mut c = Columns::<V, P>::start(0);
    for i in 0..5 {
        let mut row = a[i];
        P::in_order(&mut c, i, &mut row);
        for j in 0..5 {
            (c[i + j], c[i + j + 1]) = P::add(c[i + j], c[i + j + 1], row, b[j]);
        }
    }
    reduce::<V, P>(c)
}

/// Each mixed product once; its column is doubled before the squares are added.
#[inline(always)]
pub(crate) fn sqr_limbs<V: Vector, P: Products<V>>(a: &[V; 5]) -> [V; 5] {
    let a = factors::<V, P>(a);
    let mut c = Columns::<V, P>::start(1);
    for i in 0..4 {
        let mut row = a[i];
        P::in_order(&mut c, i, &mut row);
        for j in i + 1..5 {
            (c[i + j], c[i + j + 1]) = P::add(c[i + j], c[i + j + 1], row, a[j]);
        }
    }
    for column in &mut c {
        *column = column.add(*column);
    }
    for i in 0..5 {
        (c[2 * i], c[2 * i + 1]) = P::add(c[2 * i], c[2 * i + 1], a[i], a[i]);
    }
    reduce::<V, P>(c)
}

/// Columns of weight 2^(52 k) to a settled element.
#[inline(always)]
fn reduce<V: Vector, P: Products<V>>(mut c: [V; 10]) -> [V; 5] {
    let fold = P::factor(V::splat(FOLD));
    for k in 5..9 {
        c[k + 1] = c[k + 1].add(c[k].shr(BITS));
        c[k] = P::low52(c[k]);
    }
    for k in 0..4 {
        (c[k], c[k + 1]) = P::add(c[k], c[k + 1], P::factor(c[k + 5]), fold);
    }
    let over;
    (c[4], over) = P::add(c[4], V::splat(0), P::factor(c[9]), fold);
    let over = over.sub(V::splat(P::BIAS[1]));
    // All that is above 2^256 but for the carry of the lower limbs, which is small.
    let over = over.shl(BITS - TOP_BITS).add(c[4].shr(TOP_BITS));
    let mut limbs = [c[0], c[1], c[2], c[3], c[4].and(V::splat(TOP_MASK))];
    let c = P::factor(V::splat(C));
    (limbs[0], limbs[1]) = P::add(limbs[0], limbs[1], P::factor(over), c);
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
fn fold_top<V: Vector, P: Products<V>>(limbs: &mut [V; 5]) {
    let over = limbs[4].shr(TOP_BITS);
    limbs[4] = limbs[4].and(V::splat(TOP_MASK));
    limbs[0] = P::add_small(limbs[0], over, V::splat(C));
}

impl<V: Vector, P: Products<V>> Field for Radix52<V, P> {
    type V = V;

    #[inline(always)]
    fn unpack(words: &[V; 4]) -> Self {
        let [a, b, c, d] = *words;
        let low = |word: V, bits: u32| word.and(V::splat((1 << bits) - 1));
        Self::new([
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
        fold_top::<V, P>(&mut l);
        carry(&mut l);
        // Now below 2^256 + 2^40: at least p exactly if adding 2^256 - p reaches 2^256.
        let mut over = l[0].add(V::splat(C)).shr(BITS);
        for limb in &l[1..4] {
            over = limb.add(over).shr(BITS);
        }
        over = l[4].add(over).shr(TOP_BITS);
        l[0] = P::add_small(l[0], over, V::splat(C));
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
        Self::new(P::mul(&self.0, &other.0))
    }

    #[inline(always)]
    fn sqr(&self) -> Self {
        Self::new(P::sqr(&self.0))
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
        fold_top::<V, P>(&mut self.0);
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

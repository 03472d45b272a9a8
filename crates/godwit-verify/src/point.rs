//! Points of y^2 = x^3 + 7 in Jacobian coordinates: (X, Y, Z) is (X / Z^2, Y / Z^3); all coordinates settled.
//!
//! The formulas are not complete, and need not be: wherever one does not hold, it gives Z = 0, and every
//! formula multiplies the old Z into the new one, so that Z stays 0 until `verdict` looks.
//!
//! | formula | does not hold | its Z |
//! | --- | --- | --- |
//! | [`double`] | at infinity (Y = 0 is no point of odd order) | 2 Y Z |
//! | [`add`] P + Q | P = Q, P = -Q, P at infinity | Z (x(Q) Z^2 - X): 0 in all three |
//! | [`odd_multiples`] | a multiple equal to plus or minus 2 Q | product of all differences of x |

use crate::digits::KEY_ENTRIES;
use crate::field::{Field, Words, constant};
use crate::vector::LaneMask;

/// A point with Z = 1, or with the Z that its table has in common.
#[derive(Clone, Copy)]
pub(crate) struct Affine<F> {
    pub(crate) x: F,
    pub(crate) y: F,
}

#[derive(Clone, Copy)]
pub(crate) struct Jacobian<F> {
    pub(crate) x: F,
    pub(crate) y: F,
    pub(crate) z: F,
}

/// The base point.
pub(crate) const GENERATOR: [Words; 2] = [
    [0x59f2_815b_16f8_1798, 0x029b_fcdb_2dce_28d9, 0x55a0_6295_ce87_0b07, 0x79be_667e_f9dc_bbac],
    [0x9c47_d08f_fb10_d4b8, 0xfd17_b448_a685_5419, 0x5da4_fbfc_0e11_08a8, 0x483a_da77_26a3_c465],
];

/// A cube root of 1: (beta x, y) is lambda (x, y).
pub(crate) const BETA: Words =
    [0xc139_6c28_7195_01ee, 0x9cf0_4975_12f5_8995, 0x6e64_479e_ac34_34e9, 0x7ae9_6a2b_657c_0710];

#[inline(always)]
pub(crate) fn one<F: Field>() -> F {
    constant(&[1, 0, 0, 0])
}

/// 2 P: 3 multiplications, 4 squares.
#[inline(always)]
pub(crate) fn double<F: Field>(p: &Jacobian<F>) -> Jacobian<F> {
    let xx = p.x.sqr();
    let yy = p.y.sqr();
    let slope = xx.add(xx).add(xx).settle();
    let u = p.x.mul(&yy);
    let x = slope.sqr().sub::<8>(u.times_power(3)).settle();
    let run = u.times_power(2).sub::<1>(x).fit();
    let y = slope.mul(&run).sub::<8>(yy.sqr().times_power(3)).settle();
    let z = p.y.add(p.y).fit().mul(&p.z);
    Jacobian { x, y, z }
}

/// P + Q, or P - Q in the lanes of `negate`: 8 multiplications, 3 squares. `z` is P's Z on the curve on which
/// Q is affine: its own, or times the Z that the table of the key has in common, where Q is not of the table.
#[inline(always)]
pub(crate) fn add<F: Field>(p: &Jacobian<F>, q: &Affine<F>, negate: LaneMask, z: F) -> Jacobian<F> {
    let zz = z.sqr();
    let zzz = zz.mul(&z);
    let h = q.x.mul(&zz).sub::<1>(p.x).settle();
    let s = q.y.mul(&zzz);
    let minus_s = constant::<F>(&[0; 4]).sub::<1>(s);
    let r = F::select(negate, minus_s, s).sub::<1>(p.y).settle();
    let hh = h.sqr();
    let hhh = hh.mul(&h);
    let v = p.x.mul(&hh);
    let x = r.sqr().sub::<3>(hhh.add(v).add(v)).settle();
    let run = v.sub::<1>(x).fit();
    let y = r.mul(&run).sub::<1>(p.y.mul(&hhh)).settle();
    let z = p.z.mul(&h);
    Jacobian { x, y, z }
}

/// Q, 3 Q, 5 Q … 31 Q with one Z in common, and that Z: no inversion is needed to make them affine, because
/// (X, Y) is affine on the curve with this Z taken out (libsecp256k1's "effective affine").
///
/// Each step adds 2 Q with the Z that both have in common (Meloni's co-Z addition, 4 multiplications and 2
/// squares without its Z); the ratio of Zs is the difference of x, and going back over the ratios brings all
/// to the last Z.
#[inline(always)]
pub(crate) fn odd_multiples<F: Field>(q: &Affine<F>) -> ([Affine<F>; KEY_ENTRIES], F) {
    let first = double(&Jacobian { x: q.x, y: q.y, z: one() });
    let yy = q.y.sqr();
    let mut twice = Affine { x: first.x, y: first.y };
    let mut point =
        Affine { x: q.x.mul(&yy).times_power(2).settle(), y: yy.sqr().times_power(3).settle() };
    let mut multiples = [point; KEY_ENTRIES];
    let mut ratios = [first.z; KEY_ENTRIES];
    for i in 1..KEY_ENTRIES {
        let dx = twice.x.sub::<1>(point.x).settle();
        let dy = twice.y.sub::<1>(point.y).settle();
        let c = dx.sqr();
        let w1 = twice.x.mul(&c);
        let w2 = point.x.mul(&c);
        let a = twice.y.mul(&w1.sub::<1>(w2).fit());
        let x = dy.sqr().sub::<2>(w1.add(w2)).settle();
        let y = dy.mul(&w1.sub::<1>(x).fit()).sub::<1>(a).settle();
        twice = Affine { x: w1, y: a };
        point = Affine { x, y };
        multiples[i] = point;
        ratios[i] = dx;
    }
    let mut ratio = ratios[KEY_ENTRIES - 1];
    for i in (0..KEY_ENTRIES - 1).rev() {
        let square = ratio.sqr();
        multiples[i].x = multiples[i].x.mul(&square);
        multiples[i].y = multiples[i].y.mul(&square.mul(&ratio));
        ratio = ratio.mul(&ratios[i]);
    }
    (multiples, ratio)
}

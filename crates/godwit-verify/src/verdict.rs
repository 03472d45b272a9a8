//! The only way from a computed sum to a *yes*. Each step is a type that the one before it makes, so that
//! none can be left out:
//!
//! ```text
//! Sum --finite()--> Finite --matching()--> Matching --by_x()------> Proven
//!                                             |------by_parity()--> Proven
//! ```
//!
//! [`Sum::finite`] is what the whole crate rests upon. A formula that did not hold leaves Z = 0 mod p, and
//! 0 = r 0^2 would else make any signature valid.

#[cfg(test)]
use crate::field::inverse;
use crate::field::{Field, even_lanes, zero_lanes};
use crate::point::{Jacobian, one};
use crate::vector::LaneMask;

/// What a ladder computed: in which lanes it means anything is not known.
pub(crate) struct Sum<F> {
    point: Jacobian<F>,
    /// What Z has to be multiplied by: the Z that the table of the key has in common.
    scale: F,
    /// Lanes whose key is a point of the curve.
    on_curve: LaneMask,
}

/// A sum that is a point other than infinity, in the lanes of `lanes`.
pub(crate) struct Finite<F> {
    point: Jacobian<F>,
    lanes: LaneMask,
}

/// Lanes of a finite sum whose x is the expected one.
#[derive(Clone, Copy)]
pub(crate) struct Matching<F> {
    y: F,
    z: F,
    lanes: LaneMask,
}

/// Lanes whose check is valid.
#[derive(Clone, Copy, Default)]
pub(crate) struct Proven(LaneMask);

impl<F: Field> Sum<F> {
    #[inline(always)]
    pub(crate) fn new(point: Jacobian<F>, scale: F, on_curve: LaneMask) -> Self {
        Sum { point, scale, on_curve }
    }

    /// The lanes where Z is not 0 mod p. Their product is 0 if either factor is.
    #[inline(always)]
    pub(crate) fn finite(self) -> Finite<F> {
        let z = self.point.z.mul(&self.scale);
        let lanes = zero_lanes(z).complement().and(self.on_curve);
        Finite { point: Jacobian { z, ..self.point }, lanes }
    }
}

#[cfg(test)]
impl<F: Field> Sum<F> {
    /// X / Z^2 whatever the sum means: what a forger expects.
    pub(crate) fn x_unchecked(&self) -> F {
        let z_inverse = inverse(self.point.z.mul(&self.scale));
        self.point.x.mul(&z_inverse.sqr())
    }
}

impl<F: Field> Finite<F> {
    /// The lanes where X / Z^2 is one of two expected numbers, compared without an inversion.
    #[inline(always)]
    pub(crate) fn matching(self, x: F, or_x: F) -> Matching<F> {
        let zz = self.point.z.sqr();
        let equal = zero_lanes(x.mul(&zz).sub::<1>(self.point.x).settle());
        let or_equal = zero_lanes(or_x.mul(&zz).sub::<1>(self.point.x).settle());
        let lanes = equal.or(or_equal).and(self.lanes);
        Matching { y: self.point.y, z: self.point.z, lanes }
    }
}

impl<F: Field> Matching<F> {
    /// Nothing matches.
    #[inline(always)]
    pub(crate) fn nothing() -> Self {
        Matching { y: one(), z: one(), lanes: LaneMask(0) }
    }

    /// The lanes for which x is all that is asked: those that are not in `with_parity`.
    #[inline(always)]
    pub(crate) fn by_x(&self, with_parity: LaneMask) -> Proven {
        Proven(self.lanes.and(with_parity.complement()))
    }

    /// Z in the lanes that match, where it is not 0, and 1 in the others: one 0 in a product of several would
    /// make the inverse of all of them 0.
    #[inline(always)]
    pub(crate) fn invertible_z(&self) -> F {
        F::select(self.lanes, self.z, one())
    }

    /// The lanes of `with_parity` where Y / Z^3 is odd in the lanes of `odd` and even in the others.
    #[inline(always)]
    pub(crate) fn by_parity(&self, z_inverse: F, with_parity: LaneMask, odd: LaneMask) -> Proven {
        let y = z_inverse.sqr().mul(&z_inverse).mul(&self.y);
        let even = even_lanes(y);
        let right = LaneMask(even.0 ^ odd.0);
        Proven(right.and(self.lanes).and(with_parity))
    }
}

impl Proven {
    #[inline(always)]
    pub(crate) fn or(self, other: Proven) -> Proven {
        Proven(self.0.or(other.0))
    }

    pub(crate) fn contains(self, lane: usize) -> bool {
        self.0.contains(lane)
    }
}

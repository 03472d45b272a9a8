//! The field as it is compiled for each real vector beside the model, limb for limb, on limbs as large as
//! they can get: with signatures they hardly ever are, and that each instruction is right
//! (`instructions`) does not show what the compiler makes of many.

use rand::Rng;

use super::real;
use super::sample::Samples;
use super::twin::Limbs;
#[cfg(target_arch = "aarch64")]
use super::twin::Twin29;
#[cfg(target_arch = "x86_64")]
use super::twin::{TwinFused, TwinIfma};
use crate::backend::BackendKind;
#[cfg(target_arch = "x86_64")]
use crate::backend::{x86_256::V256, x86_512::V512};
use crate::field::outlined::Outlined;
use crate::field::products::Products;
#[cfg(target_arch = "x86_64")]
use crate::field::products::{Fused, Ifma};
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::field::{Field, P, even_lanes, inverse, square_root, zero_lanes};
use crate::point::{Affine, Jacobian, add, double};
use crate::vector::model::Model;
#[cfg(target_arch = "x86_64")]
use crate::vector::pair::Pair;
use crate::vector::{LaneMask, MAX_LANES, Multiply32, Vector};

type Row = [u64; MAX_LANES];

const ROUNDS: usize = 4_000;
/// Room for the limbs of either radix.
const LIMBS: usize = 9;

/// Elements to and from words by lane.
trait Raw: Field {
    fn from_rows(rows: &[Row; LIMBS]) -> Self;
    fn rows(&self) -> [Row; LIMBS];
}

impl<V: Vector, P: Products<V>> Raw for Radix52<V, P> {
    #[inline(always)]
    fn from_rows(rows: &[Row; LIMBS]) -> Self {
        let mut limbs = [V::splat(0); 5];
        for k in 0..5 {
            limbs[k] = V::load(&rows[k]);
        }
        Radix52::new(limbs)
    }

    #[inline(always)]
    fn rows(&self) -> [Row; LIMBS] {
        let limbs = self.limbs();
        let mut rows = [[0; MAX_LANES]; LIMBS];
        for k in 0..5 {
            rows[k] = limbs[k].store();
        }
        rows
    }
}

impl<V: Multiply32> Raw for Radix29<V> {
    #[inline(always)]
    fn from_rows(rows: &[Row; LIMBS]) -> Self {
        let mut limbs = [V::splat(0); 9];
        for k in 0..9 {
            limbs[k] = V::load(&rows[k]);
        }
        Radix29(limbs)
    }

    #[inline(always)]
    fn rows(&self) -> [Row; LIMBS] {
        let mut rows = [[0; MAX_LANES]; LIMBS];
        for k in 0..9 {
            rows[k] = self.0[k].store();
        }
        rows
    }
}

impl<F: Raw> Raw for Outlined<F> {
    fn from_rows(rows: &[Row; LIMBS]) -> Self {
        Outlined(F::from_rows(rows))
    }

    fn rows(&self) -> [Row; LIMBS] {
        self.0.rows()
    }
}

/// What is computed of three elements and a mask.
type Results = [[Row; LIMBS]; 21];

#[inline(always)]
fn packed<F: Raw>(element: F) -> [Row; LIMBS] {
    let words = element.pack();
    let mut rows = [[0; MAX_LANES]; LIMBS];
    for k in 0..4 {
        rows[k] = words[k].store();
    }
    rows
}

#[inline(always)]
fn compute<F: Raw>(of: &[[Row; LIMBS]; 3], mask: LaneMask) -> (Results, [u8; 3]) {
    let [a, b, c] = [F::from_rows(&of[0]), F::from_rows(&of[1]), F::from_rows(&of[2])];
    let p = Jacobian { x: a, y: b, z: c };
    let q = Affine { x: b, y: c };
    let (twice, sum) = (double(&p), add(&p, &q, mask, c));
    let difference = a.sub::<1>(b).settle();
    let results = [
        a.mul(&b).rows(),
        a.sqr().rows(),
        a.add(b).settle().rows(),
        difference.rows(),
        a.times_power(3).settle().rows(),
        a.sub::<8>(b.times_power(3)).settle().rows(),
        a.add(b).fit().mul(&b.sub::<1>(a).fit()).rows(),
        a.add(a).fit().sqr().rows(),
        a.times_power(2).sub::<1>(b).fit().mul(&c).rows(),
        F::select(mask, a, b).rows(),
        packed(a),
        packed(difference),
        F::unpack(&a.pack()).rows(),
        twice.x.rows(),
        twice.y.rows(),
        twice.z.rows(),
        sum.x.rows(),
        sum.y.rows(),
        sum.z.rows(),
        inverse(a).rows(),
        square_root(b).rows(),
    ];
    (results, [zero_lanes(a).0, even_lanes(b).0, zero_lanes(difference).0])
}

/// Limbs at a border as often as not; now and then 0, p or 2 p, or the same twice.
fn elements<T: Limbs>(samples: &mut Samples) -> [[Row; LIMBS]; 3] {
    let [most, top] = T::LARGEST;
    let mut elements = [[[0; MAX_LANES]; LIMBS]; 3];
    for element in &mut elements {
        for (k, row) in element.iter_mut().enumerate().take(T::count()) {
            let most = if k + 1 == T::count() { top } else { most };
            for word in row {
                *word = match samples.rng.random_range(0..6) {
                    0 => 0,
                    1 => most,
                    2 => most - samples.rng.random_range(0..4),
                    3 => samples.rng.random_range(0..4),
                    _ => samples.rng.random_range(0..=most),
                };
            }
        }
    }
    let p = T::unpack(&P.map(Model::splat)).limbs();
    for lane in 0..MAX_LANES {
        let times = samples.rng.random_range(0..12);
        if times < 2 {
            for (row, limb) in elements[0].iter_mut().zip(&p) {
                row[lane] = times * limb.store()[lane];
            }
        } else if times == 2 {
            for k in 0..LIMBS {
                elements[1][k][lane] = elements[0][k][lane];
            }
        }
    }
    elements
}

fn compare<T: Limbs + Raw>(
    kind: BackendKind,
    compiled: impl Fn(&[[Row; LIMBS]; 3], LaneMask) -> (Results, [u8; 3]),
) {
    let mut samples = Samples::new(80);
    let lanes = kind.lanes();
    for _ in 0..ROUNDS {
        let (of, mask) = (elements::<T>(&mut samples), LaneMask(samples.rng.random()));
        let (real, real_masks) = compiled(&of, mask);
        let (model, model_masks) = compute::<T>(&of, mask);
        for (n, (real, model)) in real.iter().zip(&model).enumerate() {
            for (real, model) in real.iter().zip(model) {
                assert_eq!(real[..lanes], model[..lanes], "{kind:?}, result {n} of {of:?}");
            }
        }
        for (real, model) in real_masks.into_iter().zip(model_masks) {
            assert_eq!((real ^ model) << (8 - lanes), 0, "{kind:?}, a mask of {of:?}");
        }
    }
}

/// Compiled with the features of a backend's outermost function.
mod entries {
    #![allow(unsafe_code)]

    #[cfg(target_arch = "aarch64")]
    use super::Radix29;
    #[cfg(target_arch = "x86_64")]
    use super::{Fused, Ifma, Pair, Radix52, V256, V512};
    use super::{LIMBS, Results, Row, compute};
    use crate::vector::LaneMask;

    macro_rules! entry {
        ($name:ident, $features:literal, $field:ty) => {
            #[target_feature(enable = $features)]
            pub(super) fn $name(of: &[[Row; LIMBS]; 3], mask: LaneMask) -> (Results, [u8; 3]) {
                compute::<$field>(of, mask)
            }
        };
    }

    #[cfg(target_arch = "x86_64")]
    entry!(ifma512, "avx512f,avx512ifma", Radix52<V512, Ifma>);
    #[cfg(target_arch = "x86_64")]
    entry!(ifma256, "avx2,avx512ifma,avx512vl", Radix52<V256, Ifma>);
    #[cfg(target_arch = "x86_64")]
    entry!(avx512, "avx512f", Radix52<V512, Fused>);
    #[cfg(target_arch = "x86_64")]
    entry!(avx2, "avx2,fma", Radix52<Pair<V256>, Fused>);
    #[cfg(target_arch = "aarch64")]
    entry!(neon, "neon", Radix29<crate::backend::aarch64::Neon>);
}

#[allow(unsafe_code)]
#[test]
fn the_compiled_field_is_the_model_s_on_the_largest_limbs() {
    for backend in real() {
        let kind = backend.kind();
        // SAFETY: `real` found the features of each.
        #[cfg(target_arch = "x86_64")]
        match kind {
            BackendKind::Ifma512 => {
                compare::<TwinIfma>(kind, |of, mask| unsafe { entries::ifma512(of, mask) });
            }
            BackendKind::Ifma256 => {
                compare::<TwinIfma>(kind, |of, mask| unsafe { entries::ifma256(of, mask) });
            }
            // SAFETY: as above.
            BackendKind::Avx512 => {
                compare::<TwinFused>(kind, |of, mask| unsafe { entries::avx512(of, mask) });
            }
            // SAFETY: as above.
            BackendKind::Avx2 => {
                compare::<TwinFused>(kind, |of, mask| unsafe { entries::avx2(of, mask) });
            }
            other => panic!("{other:?} is of another architecture"),
        }
        #[cfg(target_arch = "aarch64")]
        {
            assert_eq!(kind, BackendKind::Neon);
            // SAFETY: as above.
            compare::<Twin29>(kind, |of, mask| unsafe { entries::neon(of, mask) });
        }
    }
}

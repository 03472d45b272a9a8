//! The whole computation on intervals: the proof that no operation wraps, whatever keys, signatures, tables
//! and masks are. `vector::interval` says what is asserted.

use crate::field::outlined::Outlined;
use crate::field::products::Ifma;
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::field::{Field, constant, load};
use crate::generator::tables;
use crate::group::{GROUPS, Group, prove};
use crate::tests::twin::{Limbs, Twin29, TwinFused, TwinIfma};
use crate::vector::interval::{Interval, Nearest};
use crate::vector::{LaneMask, MAX_LANES};

/// As many groups as share an inversion, with every branch that depends on a group taken.
fn groups() -> Vec<Group> {
    let full = Group { compressed: LaneMask(1), with_parity: LaneMask(1), ..Group::EMPTY };
    vec![full; GROUPS]
}

#[test]
fn nothing_wraps_with_ifma() {
    prove::<Outlined<Radix52<Interval, Ifma>>>(&groups(), tables());
}

#[test]
fn nothing_wraps_with_fused_multiply_adds() {
    prove::<Outlined<Radix52<Interval, Nearest>>>(&groups(), tables());
}

#[test]
fn nothing_wraps_in_radix_29() {
    prove::<Outlined<Radix29<Interval>>>(&groups(), tables());
}

#[test]
fn nothing_wraps_without_square_roots() {
    let group = Group { with_parity: LaneMask(1), ..Group::EMPTY };
    prove::<Outlined<Radix52<Interval, Ifma>>>(std::slice::from_ref(&group), tables());
    prove::<Outlined<Radix52<Interval, Nearest>>>(std::slice::from_ref(&group), tables());
    prove::<Outlined<Radix29<Interval>>>(&[group], tables());
}

/// What the twin's test takes for the largest settled limbs is what a multiplication can at most give, also
/// of operands of magnitude 6 that are made of such limbs.
fn settled_limbs<F: Field<V = Interval>, T: Limbs>(limbs: impl Fn(F) -> Vec<Interval>) {
    let mut element: F = load(&[[0; 4]; MAX_LANES]);
    for _ in 0..4 {
        let wide = element.times_power(2).sub::<1>(element).fit();
        element = wide.mul(&element);
        let squared = element.add(element).fit().sqr();
        let settled = element.times_power(3).sub::<8>(element.times_power(3)).settle();
        let [most, top] = T::LARGEST;
        for result in [element, squared, settled] {
            for (i, limb) in limbs(result).into_iter().enumerate() {
                let most = if i + 1 == T::count() { top } else { most };
                assert!(Interval::new(0, most.into()).contains(limb), "{i}: {:#x}", limb.high);
            }
        }
    }
}

#[test]
fn settled_limbs_are_as_large_as_said() {
    settled_limbs::<Radix52<Interval, Ifma>, TwinIfma>(|element| element.limbs().to_vec());
    settled_limbs::<Radix52<Interval, Nearest>, TwinFused>(|element| element.limbs().to_vec());
    settled_limbs::<Radix29<Interval>, Twin29>(|element| element.0.to_vec());
}

#[test]
#[should_panic(expected = "wraps")]
fn a_sum_that_wraps_is_found() {
    let mut sum: Radix29<Interval> = constant(&[u64::MAX; 4]);
    for _ in 0..40 {
        sum = sum.add(sum);
    }
}

#[test]
#[should_panic(expected = "multiplicand")]
fn an_operand_that_is_not_carried_is_found() {
    let any: Radix52<Interval, Nearest> = load(&[[0; 4]; MAX_LANES]);
    any.add(any).mul(&any);
}

#[test]
#[should_panic(expected = "negative")]
fn a_difference_below_zero_is_found() {
    let any: Radix52<Interval, Nearest> = load(&[[0; 4]; MAX_LANES]);
    any.sub::<1>(any.times_power(2));
}

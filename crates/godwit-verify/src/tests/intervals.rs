//! The whole computation on intervals: the proof that no operation wraps, whatever keys, signatures, tables
//! and masks are. `vector::interval` says what is asserted.

use crate::field::outlined::Outlined;
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::field::{Field, constant, load};
use crate::generator::tables;
use crate::group::{GROUPS, Group, prove};
use crate::vector::interval::Interval;
use crate::vector::{LaneMask, MAX_LANES};

/// As many groups as share an inversion, with every branch that depends on a group taken.
fn groups() -> Vec<Group> {
    let full = Group { compressed: LaneMask(1), with_parity: LaneMask(1), ..Group::EMPTY };
    vec![full; GROUPS]
}

#[test]
fn nothing_wraps_in_radix_52() {
    prove::<Outlined<Radix52<Interval>>>(&groups(), tables());
}

#[test]
fn nothing_wraps_in_radix_29() {
    prove::<Outlined<Radix29<Interval>>>(&groups(), tables());
}

#[test]
fn nothing_wraps_without_square_roots() {
    let group = Group { with_parity: LaneMask(1), ..Group::EMPTY };
    prove::<Outlined<Radix52<Interval>>>(&[group.clone()], tables());
    prove::<Outlined<Radix29<Interval>>>(&[group], tables());
}

/// What the twin's test takes for the largest settled limbs is what a multiplication can at most give.
#[test]
fn settled_limbs_are_as_large_as_said() {
    let any: Radix52<Interval> = load(&[[0; 4]; MAX_LANES]);
    let limbs =
        any.mul(&any).0.iter().chain(&any.mul(&any).settle().0).copied().collect::<Vec<_>>();
    for (i, limb) in limbs.iter().enumerate() {
        let most = if i % 5 == 4 { (1 << 48) + (1 << 6) } else { (1 << 52) - 1 };
        assert!(Interval::new(0, most).contains(*limb), "limb {i}: {:#x}", limb.high);
    }
    let any: Radix29<Interval> = load(&[[0; 4]; MAX_LANES]);
    let product = any.mul(&any);
    let top = Interval::new(0, (1 << 24) - 1);
    assert!(top.contains(product.0[8]) && top.contains(product.settle().0[8]));
    for limb in &product.0[..8] {
        assert!(Interval::new(0, (1 << 29) + (1 << 27)).contains(*limb), "{:#x}", limb.high);
    }
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
    let any: Radix52<Interval> = load(&[[0; 4]; MAX_LANES]);
    any.add(any).mul(&any);
}

#[test]
#[should_panic(expected = "negative")]
fn a_difference_below_zero_is_found() {
    let any: Radix52<Interval> = load(&[[0; 4]; MAX_LANES]);
    any.sub::<1>(any.times_power(2));
}

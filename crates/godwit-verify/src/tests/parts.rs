//! Digits, tables and verdicts for themselves.

use super::sample::{Samples, secret_key};
use crate::digits::{Digits, GENERATOR_WINDOW, KEY_WINDOW, entry_of};
use crate::field::outlined::Outlined;
use crate::field::products::{Fused, Ifma};
use crate::field::radix29::Radix29;
use crate::field::radix52::Radix52;
use crate::field::{Field, P, constant};
use crate::generator::tables;
use crate::point::{BETA, GENERATOR, Jacobian, one};
use crate::scalar::{HALF, LAMBDA, N, Scalar, split, words};
use crate::vector::LaneMask;
use crate::vector::model::Model;
use crate::verdict::Sum;

const ZERO: Scalar = Scalar::ONE.minus(Scalar::ONE);

fn number(value: u64) -> Scalar {
    Scalar::new([value, 0, 0, 0]).expect("below n")
}

/// The number that windows stand for.
fn value(windows: impl DoubleEndedIterator<Item = usize>, bits: usize) -> Scalar {
    let mut sum = ZERO;
    for window in windows.rev() {
        for _ in 0..bits {
            sum = sum.plus(sum);
        }
        let (index, negative) = entry_of(window, bits);
        let digit = number(2 * index as u64 + 1);
        sum = if negative { sum.minus(digit) } else { sum.plus(digit) };
    }
    sum
}

#[test]
fn digits_stand_for_the_factors() {
    let mut samples = Samples::new(60);
    let mut factors = vec![ZERO, Scalar::ONE, ZERO.minus(Scalar::ONE), LAMBDA, LAMBDA.negated()];
    factors.extend((0..256).map(|bit| {
        let mut words = [0; 4];
        words[bit / 64] = 1 << (bit % 64);
        Scalar::reduced(words)
    }));
    factors.extend((0..2_000).map(|_| samples.scalar()));
    let high = Scalar::new([0, 0, 1, 0]).expect("below n").factor();
    for pair in factors.windows(2) {
        let [u1, u2] = [pair[0], pair[1]];
        let digits = Digits::of_halves(u1.times(&HALF), u2.times(&HALF)).expect("it splits");
        let [low_part, high_part] = digits
            .generator
            .map(|part| value(part.iter().map(|window| usize::from(*window)), GENERATOR_WINDOW));
        assert_eq!(low_part.plus(high_part.times(&high)), u1);
        let [q, lambda_q] = digits
            .key
            .map(|part| value(part.iter().map(|window| usize::from(*window)), KEY_WINDOW));
        assert_eq!(q.plus(lambda_q.times(&LAMBDA.factor())), u2);
    }
}

#[test]
fn every_number_splits_into_two_short_halves() {
    let mut samples = Samples::new(61);
    for k in [ZERO, Scalar::ONE, LAMBDA].into_iter().chain((0..10_000).map(|_| samples.scalar())) {
        for k in [k, k.negated()] {
            let [first, second] = split(k).expect("it splits");
            for half in [first, second] {
                assert!(half[3] == 0 && half[2] < 2);
            }
        }
    }
}

#[test]
fn lambda_is_beta_on_the_curve() {
    let secp = Samples::new(62).secp;
    let point = secret_key(LAMBDA).public_key(&secp).serialize_uncompressed();
    let x: Radix52<Model<1>, Ifma> = constant(&GENERATOR[0]);
    let x = x.mul(&constant(&BETA)).pack().map(crate::vector::Vector::store).map(|word| word[0]);
    assert_eq!(words(point[1..33].try_into().expect("32 bytes")), x);
    assert_eq!(words(point[33..].try_into().expect("32 bytes")), GENERATOR[1]);
}

#[test]
fn every_entry_of_the_generators_tables_is_what_libsecp256k1_computes() {
    let secp = Samples::new(63).secp;
    let high = Scalar::new([0, 0, 1, 0]).expect("below n").factor();
    for (i, (low_entry, high_entry)) in tables().0[0].iter().zip(&tables().0[1]).enumerate() {
        let multiple = number(2 * i as u64 + 1);
        for (entry, scalar) in [(low_entry, multiple), (high_entry, multiple.times(&high))] {
            let point = secret_key(scalar).public_key(&secp).serialize_uncompressed();
            let x = words(point[1..33].try_into().expect("32 bytes"));
            let y = words(point[33..].try_into().expect("32 bytes"));
            assert!(entry.0[..4] == x && entry.0[4..] == y, "entry {i}");
        }
    }
}

#[test]
fn windows_of_either_sign_have_the_same_entries() {
    for bits in [KEY_WINDOW, GENERATOR_WINDOW] {
        let last = (1 << bits) - 1;
        assert_eq!(entry_of(last, bits), (last / 2, false));
        assert_eq!(entry_of(0, bits), (last / 2, true));
        for window in 0..=last {
            let (index, negative) = entry_of(window, bits);
            assert_eq!(entry_of(last - window, bits), (index, !negative));
        }
    }
}

/// A sum with this Z, whose X is what makes any x match if Z is not looked at.
fn matches_with_z<F: Field>(z: F) -> bool {
    let zero = constant::<F>(&[0; 4]);
    let sum = Sum::new(Jacobian { x: zero, y: one(), z }, one(), LaneMask(0xff));
    let matching = sum.finite().matching(zero, zero);
    matching.by_x(LaneMask(0)).contains(0)
}

fn z_must_not_be_zero<F: Field>() {
    let p = constant::<F>(&P);
    for zero in [constant(&[0; 4]), p, p.add(p).fit()] {
        assert!(!matches_with_z::<F>(zero));
    }
    for other in [one::<F>(), p.add(one()).fit(), p.add(p).add(one()).fit()] {
        assert!(matches_with_z::<F>(other));
    }
}

#[test]
fn z_is_zero_as_zero_and_as_p_and_as_twice_p() {
    z_must_not_be_zero::<Outlined<Radix52<Model<8>, Ifma>>>();
    z_must_not_be_zero::<Outlined<Radix52<Model<8>, Fused>>>();
    z_must_not_be_zero::<Outlined<Radix29<Model<8>>>>();
}

#[test]
fn a_scalar_is_below_n() {
    assert!(Scalar::new(N).is_none() && Scalar::reduced(N) == ZERO);
    assert!(ZERO.non_zero().is_none() && Scalar::ONE.non_zero().is_some());
    assert_eq!(number(6).times(&HALF), number(3));
}

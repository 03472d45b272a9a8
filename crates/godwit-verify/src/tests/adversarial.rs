//! Checks by someone who knows the code: sums that are exceptional at a chosen step, numbers at every border.

use super::sample::{Samples, joined, secret_key, to_bytes};
use super::{all, lanes};
use crate::check::{Check, KeyBytes, parse};
use crate::digits::{Digits, GENERATOR_DIGITS, GENERATOR_WINDOW, KEY_DIGITS, KEY_WINDOW, entry_of};
use crate::field::outlined::Outlined;
use crate::field::products::Ifma;
use crate::field::radix52::Radix52;
use crate::field::{Field, P};
use crate::generator::tables;
use crate::group::{Group, sum};
use crate::scalar::{HALF, LAMBDA, N, Scalar, half_inverses, is_below, plus, words};
use crate::vector::model::Model;
use crate::vector::{MAX_LANES, Vector};
use crate::{Answer, BackendKind, Verifier, single};
use secp256k1::PublicKey;

pub(super) const ZERO: Scalar = Scalar::ONE.minus(Scalar::ONE);

pub(super) fn number(value: u64) -> Scalar {
    Scalar::new([value, 0, 0, 0]).expect("below n")
}

pub(super) fn divide(a: Scalar, b: Scalar) -> Scalar {
    let half = a.times(&half_inverses(&[b.non_zero().expect("a divisor")])[0]);
    half.plus(half)
}

pub(super) fn times(a: Scalar, b: Scalar) -> Scalar {
    a.times(&b.factor())
}

/// The check with these u1 and u2 and this key, which is valid: r = x(R), s = r / u2, m = u1 s.
pub(super) fn with_factors(samples: &Samples, u1: Scalar, u2: Scalar, key: Scalar) -> Check {
    let sum = secret_key(u1.plus(times(u2, key))).public_key(&samples.secp).serialize();
    let r = Scalar::reduced(words(sum[1..].try_into().expect("32 bytes")));
    let s = divide(r, u2);
    Check::Ecdsa {
        key: KeyBytes::Compressed(secret_key(key).public_key(&samples.secp).serialize()),
        signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
        message: to_bytes(times(u1, s).words()),
    }
}

/// Checks with a key d G for which u1 + u2 d = 0. Whatever r is, it is not x of infinity.
fn to_infinity(samples: &mut Samples) -> Check {
    let (r, s, key) = (samples.scalar(), samples.scalar(), samples.scalar());
    Check::Ecdsa {
        key: KeyBytes::Compressed(secret_key(key).public_key(&samples.secp).serialize()),
        signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
        message: to_bytes(times(r, key).negated().words()),
    }
}

/// Whole windows as numbers: the digit that `entry_of` makes of them.
fn digit(window: usize, bits: usize) -> Scalar {
    let (index, negative) = entry_of(window, bits);
    let value = number(2 * index as u64 + 1);
    if negative { value.negated() } else { value }
}

/// Valid checks each of which makes one addition of the ladder exceptional, for both signs.
fn exceptional_steps(samples: &mut Samples) -> Vec<Check> {
    related_steps(samples, &[Scalar::ONE, Scalar::ONE.negated()])
}

/// Valid checks for every addition of the ladder after the second and for each of `relations`: the sum so far
/// is what is added to it, times the relation. The key is solved for.
pub(super) fn related_steps(samples: &mut Samples, relations: &[Scalar]) -> Vec<Check> {
    let mut checks = Vec::new();
    let places = (0..KEY_WINDOW * KEY_DIGITS).rev();
    let steps: Vec<(usize, bool, usize)> = places
        .flat_map(|place| {
            let key = [(place, true, 0), (place, true, 1)];
            let generator = [(place, false, 0), (place, false, 1)];
            let has_generator =
                place % GENERATOR_WINDOW == 0 && place / GENERATOR_WINDOW < GENERATOR_DIGITS;
            let key = key.into_iter().filter(move |_| place % KEY_WINDOW == 0);
            key.chain(generator.into_iter().filter(move |_| has_generator))
        })
        .collect();
    for target in 2..steps.len() {
        for relation in relations {
            let (u1, u2) = (samples.scalar(), samples.scalar());
            let digits = Digits::of_halves(u1.times(&HALF), u2.times(&HALF)).expect("it splits");
            // The sum so far is a + b d times G, where d is the key.
            let (mut a, mut b) = (ZERO, ZERO);
            let mut last_place = steps[0].0;
            for (i, (place, is_key, part)) in steps.iter().enumerate().take(target + 1) {
                for _ in *place..last_place {
                    (a, b) = (a.plus(a), b.plus(b));
                }
                last_place = *place;
                let entry = if *is_key {
                    let window = digits.key[*part][place / KEY_WINDOW];
                    let digit = digit(usize::from(window), KEY_WINDOW);
                    (ZERO, if *part == 0 { digit } else { times(digit, LAMBDA) })
                } else {
                    let window = digits.generator[*part][place / GENERATOR_WINDOW];
                    let digit = digit(usize::from(window), GENERATOR_WINDOW);
                    let high = Scalar::new([0, 0, 1, 0]).expect("below n");
                    (if *part == 0 { digit } else { times(digit, high) }, ZERO)
                };
                if i == target {
                    // a + b d = (entry's a + entry's b d) times the relation.
                    let entry = (times(entry.0, *relation), times(entry.1, *relation));
                    let (rest, factor) = (entry.0.minus(a), b.minus(entry.1));
                    if rest != ZERO && factor != ZERO {
                        let key = divide(rest, factor);
                        // Opposite at the last addition is infinity, and no valid check.
                        if u1.plus(times(u2, key)) != ZERO {
                            checks.push(with_factors(samples, u1, u2, key));
                        }
                    }
                }
                (a, b) = (a.plus(entry.0), b.plus(entry.1));
            }
        }
    }
    checks
}

/// Checks that no lane can prove, each for another reason.
pub(crate) fn not_provable(samples: &mut Samples) -> Vec<Check> {
    let mut bad = exceptional_steps(samples);
    bad.truncate(20);
    for i in 0..20 {
        bad.push(to_infinity(samples));
        let mut wrong = samples.valid();
        match &mut wrong {
            Check::Ecdsa { message, .. } | Check::Schnorr { message, .. } => message[i] ^= 1,
            Check::Commitment { odd, .. } => *odd = !*odd,
        }
        bad.push(wrong);
        let secret = samples.scalar();
        let key = samples.key_pair(secret);
        let Check::Ecdsa { key: KeyBytes::Full(mut off), signature, message } =
            samples.ecdsa(&key, false)
        else {
            unreachable!("as it was asked for")
        };
        off[64] ^= 1;
        bad.push(Check::Ecdsa { key: KeyBytes::Full(off), signature, message });
    }
    bad
}

#[test]
fn exceptional_additions_are_not_proven_in_lanes_and_valid_all_the_same() {
    let mut samples = Samples::new(20);
    let checks = exceptional_steps(&mut samples);
    // 52 additions of the key and 20 of the generator; before the first of these there is no solution.
    assert!(checks.len() >= 130, "{}", checks.len());
    for backend in all() {
        assert!(!lanes(backend, &checks).contains(&true), "{:?}", backend.kind());
    }
    let mut verifier = Verifier::new();
    for check in &checks {
        verifier.push((), *check);
    }
    verifier.run(|(), answer| assert_eq!(answer, Answer::Yes));
}

#[test]
fn without_a_second_opinion_what_lanes_do_not_prove_is_left_to_the_caller() {
    let mut samples = Samples::new(28);
    let mut exceptional = exceptional_steps(&mut samples);
    exceptional.truncate(64);
    let rest: Vec<Check> = (0..2).map(|_| samples.valid()).collect();
    for backend in all() {
        let kind = backend.kind();
        let mut verifier =
            Verifier::with_backend(kind).expect("it was there").without_second_opinion();
        let checks = exceptional.iter().chain(&rest).copied().enumerate();
        checks.for_each(|(at, check)| verifier.push(at, check));
        let expected = |at| if at < exceptional.len() { Answer::NotProven } else { Answer::Yes };
        verifier.run(|at, answer| assert_eq!(answer, expected(at), "{kind:?}"));
        let counts = verifier.counts();
        assert_eq!((counts.refused, counts.single, counts.in_lanes), (64, 2, 0), "{kind:?}");
    }
    let single = Verifier::with_backend(BackendKind::Single).expect("it runs everywhere");
    let mut single = single.without_second_opinion();
    exceptional.iter().for_each(|check| single.push((), *check));
    single.run(|(), answer| assert_eq!(answer, Answer::Yes));
}

#[test]
fn infinity_is_nobodys_x() {
    let mut samples = Samples::new(21);
    let checks: Vec<Check> = (0..64).map(|_| to_infinity(&mut samples)).collect();
    for check in &checks {
        assert!(parse(check).is_some() && !single::verify(check));
    }
    for backend in all() {
        assert!(!lanes(backend, &checks).contains(&true), "{:?}", backend.kind());
    }
}

#[test]
fn keys_near_the_generator_never_get_a_false_answer() {
    let mut samples = Samples::new(22);
    let mut checks = Vec::new();
    for k in 1..=64 {
        let lambda_k = times(number(k), LAMBDA);
        let keys = [number(k), lambda_k, times(lambda_k, LAMBDA)];
        for key in keys.into_iter().flat_map(|key| [key, key.negated()]) {
            let key = samples.key_pair(key);
            checks.push(samples.ecdsa(&key, true));
            checks.push(samples.schnorr(&key));
            checks.push(samples.commitment(&key));
        }
    }
    // Both factors small, so that most digits are the same in all lanes.
    for k in 1..=64 {
        checks.push(with_factors(&samples, number(k), number(k + 1), number(k)));
        checks.push(with_factors(&samples, number(k).negated(), number(k), number(k + 3)));
    }
    assert!(checks.iter().all(single::verify));
    for backend in all() {
        let proven = lanes(backend, &checks).into_iter().filter(|proven| *proven).count();
        // Some are exceptional; most are not.
        assert!(
            proven * 10 > checks.len() * 9,
            "{proven} of {} by {:?}",
            checks.len(),
            backend.kind()
        );
    }
}

/// Valid checks with a given R, of which no discrete logarithm is known: Q = (R - u1 G) / u2.
pub(super) fn with_sum(samples: &mut Samples, r: Scalar, sum: &PublicKey) -> Check {
    let (u1, u2) = (samples.scalar(), samples.scalar());
    let minus = secret_key(u1.negated()).public_key(&samples.secp);
    let inverse = to_bytes(divide(Scalar::ONE, u2).words());
    let tweak = secp256k1::Scalar::from_be_bytes(inverse).expect("below n");
    let key = sum.combine(&minus).expect("not infinity");
    let key = key.mul_tweak(&samples.secp, &tweak).expect("not infinity");
    let s = divide(r, u2);
    Check::Ecdsa {
        key: KeyBytes::Compressed(key.serialize()),
        signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
        message: to_bytes(times(u1, s).words()),
    }
}

pub(super) fn point_with_x(x: &[u64; 4]) -> Option<PublicKey> {
    let mut bytes = [2; 33];
    bytes[1..].copy_from_slice(&to_bytes(x));
    PublicKey::from_slice(&bytes).ok()
}

/// From this r on, r + n is not below p.
const P_MINUS_N: [u64; 4] = [0x402d_a172_2fc9_baee, 0x4551_2319_50b7_5fc4, 1, 0];

#[test]
fn x_of_the_sum_may_be_r_or_r_plus_n() {
    let mut samples = Samples::new(23);
    let mut checks = Vec::new();
    for i in 1..40 {
        for r in [[i, 0, 0, 0], [P_MINUS_N[0] - i, P_MINUS_N[1], P_MINUS_N[2], 0]] {
            let above = plus(&r, &N).expect("below 2^256");
            assert!(is_below(&above, &P));
            for x in [r, above] {
                if let Some(sum) = point_with_x(&x) {
                    checks.push(with_sum(&mut samples, Scalar::new(r).expect("below n"), &sum));
                }
            }
        }
    }
    assert!(checks.len() > 40, "{}", checks.len());
    assert!(checks.iter().all(single::verify));
    let mut wrong: Vec<Check> = checks
        .iter()
        .map(|check| match *check {
            Check::Ecdsa { key, mut signature, message } => {
                signature[31] ^= 1;
                Check::Ecdsa { key, signature, message }
            }
            other => other,
        })
        .collect();
    // r + n is p or more, and what is left of it modulo p is x of the sum: that is no match.
    for x in 1..80 {
        if let Some(sum) = point_with_x(&[x, 0, 0, 0]) {
            let r = [P_MINUS_N[0] + x, P_MINUS_N[1], P_MINUS_N[2], 0];
            wrong.push(with_sum(&mut samples, Scalar::new(r).expect("below n"), &sum));
        }
    }
    assert!(!wrong.iter().any(single::verify));
    for backend in all() {
        let full = checks.len() - checks.len() % 64;
        assert!(lanes(backend, &checks)[..full].iter().all(|proven| *proven));
        assert!(!lanes(backend, &wrong).contains(&true), "{:?}", backend.kind());
    }
}

#[test]
fn numbers_out_of_range_and_doubtful_keys_are_left_to_libsecp256k1() {
    let mut samples = Samples::new(24);
    let secret = samples.scalar();
    let key = samples.key_pair(secret);
    let Check::Ecdsa { key: KeyBytes::Full(full), signature, message } = samples.ecdsa(&key, false)
    else {
        unreachable!("as it was asked for")
    };
    let (r, s) = signature.split_at(32);
    let (r, s): ([u8; 32], [u8; 32]) =
        (r.try_into().expect("32 bytes"), s.try_into().expect("32 bytes"));
    let with = |r: &[u8; 32], s: &[u8; 32]| Check::Ecdsa {
        key: KeyBytes::Full(full),
        signature: joined(r, s),
        message,
    };
    let [zero, n, p] = [[0; 32], to_bytes(&N), to_bytes(&P)];
    for check in
        [with(&zero, &s), with(&n, &s), with(&r, &zero), with(&r, &n), with(&[255; 32], &s)]
    {
        assert!(parse(&check).is_none() && !single::verify(&check));
    }
    // One of the two is in the upper half.
    let mirrored = to_bytes(Scalar::new(words(&s)).expect("below n").negated().words());
    for check in [with(&r, &s), with(&r, &mirrored)] {
        assert!(parse(&check).is_some() && single::verify(&check));
    }
    // Hybrid: libsecp256k1 takes it if the parity is right.
    for (form, valid) in [(6 + full[64] % 2, true), (7 - full[64] % 2, false), (5, false)] {
        let mut hybrid = full;
        hybrid[0] = form;
        let check = Check::Ecdsa { key: KeyBytes::Full(hybrid), signature, message };
        assert!(parse(&check).is_none());
        assert_eq!(single::verify(&check), valid);
    }
    for x in [p, to_bytes(&[u64::MAX; 4])] {
        let schnorr = Check::Schnorr { key: x, signature, message };
        let commitment =
            Check::Commitment { internal_key: x, tweak: message, output_key: x, odd: false };
        for check in [schnorr, commitment] {
            assert!(parse(&check).is_none() && !single::verify(&check));
        }
    }
}

/// What a forger would sign who knows the ladder: keys off the curve, with the x that the ladder makes of
/// them.
fn forged(samples: &mut Samples, key: &dyn Fn(&mut Samples) -> KeyBytes) -> Vec<Check> {
    let mut group = Group::EMPTY;
    let mut factors = Vec::new();
    for lane in 0..MAX_LANES {
        let (u1, u2, key) = (samples.scalar(), samples.scalar(), key(samples));
        let one = to_bytes(Scalar::ONE.words());
        let check = Check::Ecdsa { key, signature: joined(&one, &one), message: one };
        let digits = Digits::of_halves(u1.times(&HALF), u2.times(&HALF)).expect("it splits");
        group.set(lane, &parse(&check).expect("a usual encoding"), digits);
        factors.push((u1, u2, key));
    }
    let words = sum::<Outlined<Radix52<Model<8>, Ifma>>>(&group, tables()).x_unchecked().pack();
    let words = words.map(Vector::store);
    let forge = |(lane, (u1, u2, key)): (usize, (Scalar, Scalar, KeyBytes))| {
        let r = Scalar::new(words.map(|word| word[lane])).expect("below n but for 1 in 2^128");
        let s = divide(r, u2);
        Check::Ecdsa {
            key,
            signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
            message: to_bytes(times(u1, s).words()),
        }
    };
    factors.into_iter().enumerate().map(forge).collect()
}

#[test]
fn keys_off_the_curve_are_not_proven_whatever_their_sum_is() {
    let mut samples = Samples::new(27);
    let compressed = |samples: &mut Samples| loop {
        let x = samples.scalar();
        if point_with_x(x.words()).is_none() {
            let mut key = [2; 33];
            key[0] += samples.bytes()[0] & 1;
            key[1..].copy_from_slice(&to_bytes(x.words()));
            return KeyBytes::Compressed(key);
        }
    };
    let full = |samples: &mut Samples| {
        let mut key = [4; 65];
        key[1..33].copy_from_slice(&to_bytes(samples.scalar().words()));
        key[33..].copy_from_slice(&to_bytes(samples.scalar().words()));
        KeyBytes::Full(key)
    };
    let on_curve = |samples: &mut Samples| {
        let key = secret_key(samples.scalar()).public_key(&samples.secp);
        KeyBytes::Compressed(key.serialize())
    };
    // The forger knows the ladder: with a key on the curve this is a signature.
    let honest = forged(&mut samples, &on_curve);
    assert!(honest.iter().all(single::verify));
    let forged = [forged(&mut samples, &compressed), forged(&mut samples, &full)].concat();
    assert!(!forged.iter().any(single::verify));
    for backend in all() {
        assert!(!lanes(backend, &honest).contains(&false), "{:?}", backend.kind());
        assert!(!lanes(backend, &forged).contains(&true), "{:?}", backend.kind());
    }
}

#[test]
fn a_zero_message_and_a_zero_tweak_are_proven() {
    let samples = Samples::new(25);
    let checks: Vec<Check> = (1..=8)
        .map(|k| with_factors(&samples, ZERO, number(1_000 + k), number(777 * k)))
        .chain((1..=8).map(|k| {
            let (x, _) = secret_key(number(k + 99)).x_only_public_key(&samples.secp);
            let key = x.serialize();
            Check::Commitment { internal_key: key, tweak: [0; 32], output_key: key, odd: false }
        }))
        .collect();
    assert!(checks.iter().all(single::verify));
    for backend in all() {
        assert!(!lanes(backend, &checks).contains(&false), "{:?}", backend.kind());
    }
}

/// So that the tests above do not pass because a backend proves nothing.
#[test]
fn every_backend_proves_what_is_valid() {
    let mut samples = Samples::new(26);
    let checks: Vec<Check> = (0..128).map(|_| samples.valid()).collect();
    for backend in all() {
        assert!(!lanes(backend, &checks).contains(&false), "{:?}", backend.kind());
    }
}

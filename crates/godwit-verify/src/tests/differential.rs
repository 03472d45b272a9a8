//! The lanes beside libsecp256k1.

use rand::seq::SliceRandom;

use super::{all, lanes, real};
use crate::backend::Backend;
use crate::check::{Check, parse};
use crate::tests::sample::Samples;
use crate::vector::MAX_LANES;
use crate::{Answer, BackendKind, KeyBytes, Verifier, single};

/// Distinct checks that are made at once, and then put into groups.
const DISTINCT: usize = 4_096;

/// What a comparison saw.
#[derive(Default)]
struct Seen {
    /// Distinct checks that are valid, and that are not.
    valid: usize,
    invalid: usize,
    /// Answers compared, of all backends.
    answers: usize,
}

/// Makes `count` checks and puts each into the lanes of every backend in `companies` different groups; what
/// is parsed must be answered exactly as by libsecp256k1, and what is not, never with yes.
fn compare(backends: &[Backend], seed: u64, count: usize, companies: usize) -> Seen {
    let mut samples = Samples::new(seed);
    let mut seen = Seen::default();
    for made in (0..count).step_by(DISTINCT) {
        let mut checks: Vec<(Check, bool)> = (0..DISTINCT.min(count - made))
            .map(|_| {
                let check = samples.any();
                (check, single::verify(&check))
            })
            .collect();
        let valid = checks.iter().filter(|(_, valid)| *valid).count();
        seen.valid += valid;
        seen.invalid += checks.len() - valid;
        for _ in 0..companies {
            checks.shuffle(&mut samples.rng);
            for backend in backends {
                checks
                    .chunks(Verifier::<()>::BATCH)
                    .for_each(|batch| compare_batch(*backend, batch));
                seen.answers += checks.len();
            }
        }
    }
    seen
}

fn compare_batch(backend: Backend, batch: &[(Check, bool)]) {
    let proven = lanes(backend, &batch.iter().map(|(check, _)| *check).collect::<Vec<_>>());
    // Those that cannot be parsed leave no lane empty but in the last group, which may be too small.
    let parsed = batch.iter().filter(|(check, _)| parse(check).is_some()).count();
    let mut left = parsed - parsed % MAX_LANES;
    for ((check, valid), proven) in batch.iter().zip(proven) {
        assert!(*valid || !proven, "a false yes by {:?}: {check:?}", backend.kind());
        if parse(check).is_some() && left > 0 {
            assert_eq!(proven, *valid, "{:?}: {check:?}", backend.kind());
            left -= 1;
        }
    }
}

#[test]
fn models_answer_as_libsecp256k1_does() {
    let models = [BackendKind::ModelIfma, BackendKind::ModelFused, BackendKind::ModelNeon];
    let models = models.map(|kind| Backend::detect(kind).expect("a model runs everywhere"));
    let seen = compare(&models, 1, 10_000, 1);
    assert!(seen.valid > 4_000 && seen.invalid > 3_000, "{} {}", seen.valid, seen.invalid);
    assert_eq!(seen.answers, 30_000);
}

#[test]
fn real_lanes_answer_as_libsecp256k1_does() {
    let seen = compare(&real(), 2, 20_000, 4);
    assert!(seen.valid > 8_000 && seen.invalid > 6_000, "{} {}", seen.valid, seen.invalid);
}

/// Half a million distinct checks on the fastest backend that the machine has, of them a sixteenth of a
/// million on the others too, which are slower.
fn compare_half_a_million(seed: u64) {
    let backends = real();
    let Some(fastest) = backends.first() else { return };
    let alone = compare(&[*fastest], seed, 437_500, 1);
    let together = compare(&backends, seed + 1, 62_500, 1);
    eprintln!(
        "{} checks on {:?}, the last {} on {} backends: {} answers as of libsecp256k1",
        alone.valid + alone.invalid + together.valid + together.invalid,
        fastest.kind(),
        together.valid + together.invalid,
        backends.len(),
        alone.answers + together.answers
    );
}

// Two tests, as libtest runs each on one processor.

#[test]
fn real_lanes_answer_half_a_million_checks_as_libsecp256k1_does() {
    compare_half_a_million(200);
}

#[test]
fn real_lanes_answer_another_half_a_million_checks_as_libsecp256k1_does() {
    compare_half_a_million(300);
}

/// Fifty million distinct checks on the fastest backend, two million of them on the others too, which are
/// slower.
fn compare_fifty_millions(seed: u64) {
    let backends = real();
    let Some(fastest) = backends.first() else { return };
    for million in 1..=50 {
        let all = if million % 25 == 0 { &backends[..] } else { &backends[..1] };
        let Seen { valid, invalid, answers } = compare(all, seed + million, 1_000_000, 1);
        eprintln!(
            "million {million} of seed {seed}: {valid} valid and {invalid} invalid checks on {:?}, {answers} \
             answers of {} backends as of libsecp256k1",
            fastest.kind(),
            all.len()
        );
    }
}

#[test]
#[ignore = "fifty million checks: an hour"]
fn real_lanes_answer_fifty_million_checks_as_libsecp256k1_does() {
    compare_fifty_millions(1_000);
}

#[test]
#[ignore = "fifty million checks: an hour"]
fn real_lanes_answer_another_fifty_million_checks_as_libsecp256k1_does() {
    compare_fifty_millions(2_000);
}

#[test]
fn every_lane_with_every_mask_of_bad_lanes() {
    let mut samples = Samples::new(3);
    let good: Vec<Check> = (0..64).map(|_| samples.valid()).collect();
    let bad: Vec<Check> = super::adversarial::not_provable(&mut samples);
    for backend in all() {
        let lanes_of = backend.kind().lanes();
        for mask in 0..1_usize << lanes_of {
            let is_good = |lane: usize| mask >> lane & 1 == 0;
            let group: Vec<Check> = (0..lanes_of)
                .map(|lane| match is_good(lane) {
                    true => good[(7 * mask + lane) % good.len()],
                    false => bad[(mask + lane) % bad.len()],
                })
                .collect();
            // A group of the other sort behind it, so that the inversion is shared.
            let all_good: Vec<Check> = (0..lanes_of).map(|lane| good[(mask + lane) % 64]).collect();
            let both: Vec<Check> = group.into_iter().chain(all_good).collect();
            let expected = (0..2 * lanes_of).map(|lane| lane >= lanes_of || is_good(lane));
            assert!(
                lanes(backend, &both).into_iter().eq(expected),
                "{mask:#b} {:?}",
                backend.kind()
            );
        }
    }
}

#[test]
fn every_number_of_checks_is_answered_once_and_in_order() {
    let mut samples = Samples::new(4);
    let checks: Vec<Check> = (0..150).map(|_| samples.any()).collect();
    for kind in BackendKind::ALL {
        let Some(mut verifier) = Verifier::with_backend(kind) else { continue };
        for count in (0..=19).chain([63, 64, 65, 66, 67, 128, 150]) {
            for (id, check) in checks[..count].iter().enumerate() {
                verifier.push(id, *check);
            }
            assert_eq!(verifier.pending(), count);
            let before = verifier.counts();
            let mut answers = Vec::new();
            verifier.run(|id, answer| answers.push((id, answer == Answer::Yes)));
            let expected = checks[..count].iter().map(single::verify).enumerate();
            assert!(answers.into_iter().eq(expected), "{count} checks by {kind:?}");
            assert_eq!(verifier.pending(), 0);
            let after = verifier.counts();
            let in_lanes = after.in_lanes - before.in_lanes;
            assert_eq!(in_lanes + after.single - before.single, count as u64);
            assert!(count >= 3 || in_lanes == 0, "a rest of {count} went into lanes");
        }
    }
}

#[test]
fn a_machine_without_lanes_gives_the_same_answers() {
    let mut verifier = Verifier::with_backend(BackendKind::Single).expect("it runs everywhere");
    let mut samples = Samples::new(5);
    for id in 0..50 {
        verifier.push(id, samples.valid());
    }
    verifier.run(|_, answer| assert_eq!(answer, Answer::Yes));
    assert_eq!((verifier.counts().in_lanes, verifier.counts().single), (0, 50));
    assert_eq!(KeyBytes::from_slice(&[2; 34]), None);
}

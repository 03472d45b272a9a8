//! The lanes beside libsecp256k1.

use super::{all, lanes, real};
use crate::backend::Backend;
use crate::check::{Check, parse};
use crate::tests::sample::Samples;
use crate::vector::MAX_LANES;
use crate::{Answer, BackendKind, KeyBytes, Verifier, single};

/// Distinct checks that are made; making one takes as long as verifying it several times, so that they are
/// put into other company again and again.
const DISTINCT: usize = 4_000;

/// Runs `count` checks in groups of ever different company; what is parsed must be answered exactly as by
/// libsecp256k1. Returns how many were valid.
fn compare(backends: &[Backend], seed: u64, count: usize) -> usize {
    let mut samples = Samples::new(seed);
    let checks: Vec<(Check, bool)> = (0..DISTINCT.min(count))
        .map(|_| {
            let check = samples.any();
            (check, single::verify(&check))
        })
        .collect();
    for backend in backends {
        let mut next = seed as usize;
        for _ in 0..count.div_ceil(64) {
            let batch: Vec<_> = (0..64)
                .map(|_| {
                    next = next
                        .wrapping_mul(0x5851_f42d_4c95_7f2d)
                        .wrapping_add(0x1405_7b7e_f767_814f);
                    &checks[(next >> 33) % checks.len()]
                })
                .collect();
            let proven =
                lanes(*backend, &batch.iter().map(|(check, _)| *check).collect::<Vec<_>>());
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
    }
    checks.iter().filter(|(_, valid)| *valid).count()
}

#[test]
fn models_answer_as_libsecp256k1_does() {
    let models = [BackendKind::Model52, BackendKind::Model29];
    let models = models.map(|kind| Backend::detect(kind).expect("a model runs everywhere"));
    assert!(compare(&models, 1, 10_000) > 2_000);
}

#[test]
fn real_lanes_answer_as_libsecp256k1_does() {
    compare(&real(), 2, 1_000_000 / real().len().max(1));
}

#[test]
#[ignore = "10^8 checks: hours"]
fn real_lanes_answer_as_libsecp256k1_does_for_long() {
    for seed in 0..100 {
        compare(&real(), 1_000 + seed, 1_000_000);
        eprintln!("{} million checks of each backend", seed + 1);
    }
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

#[test]
fn the_fastest_backend_of_this_machine_is_chosen() {
    let fastest = BackendKind::BY_SPEED.into_iter().find(|kind| Backend::detect(*kind).is_some());
    assert_eq!(Some(Verifier::<()>::new().backend()), fastest);
}

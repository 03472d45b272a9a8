//! Fills the lanes of a backend with checks, and says which of them it proves.

use crate::backend::{Backend, BackendKind};
use crate::check::{Check, digits, parse};
use crate::group::{GROUPS, Group};

/// Fewer checks than this in a group are cheaper one at a time: a group takes as long whether its lanes are
/// full or not. On a Zen 5 that is as long as 1.5 checks by libsecp256k1 with AVX-512 IFMA, 3 with AVX-512F
/// and 4.5 with AVX2.
fn least_checks(kind: BackendKind) -> usize {
    match kind {
        BackendKind::Avx2 => 5,
        _ => 3,
    }
}

/// What came of some checks in lanes.
pub(crate) struct Lanes {
    /// For each check.
    pub(crate) found: Vec<Found>,
    /// Lanes that ran.
    pub(crate) count: usize,
}

impl Lanes {
    /// For each check whether it was proven.
    pub(crate) fn proven(self) -> Vec<bool> {
        self.found.into_iter().map(|found| found == Found::Proven).collect()
    }
}

/// What lanes say of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Proven,
    /// It is not valid, or its sum was exceptional.
    Refused,
    /// It was in no lane.
    NotTried,
}

/// Which checks the lanes prove, at most [`Verifier::BATCH`] of them.
pub(crate) fn prove<'a>(
    backend: Backend,
    checks: impl ExactSizeIterator<Item = &'a Check>,
) -> Lanes {
    let (mut found, mut count) = (vec![Found::NotTried; checks.len()], 0);
    let lanes = backend.kind().lanes();
    let least = least_checks(backend.kind());
    if lanes == 0 || checks.len() < least {
        return Lanes { found, count };
    }
    let (positions, parsed): (Vec<usize>, Vec<_>) =
        checks.enumerate().filter_map(|(position, check)| Some((position, parse(check)?))).unzip();
    let digits = digits(&parsed);
    let ready: Vec<_> = positions
        .into_iter()
        .zip(parsed.iter().zip(digits))
        .filter_map(|(position, (parsed, digits))| Some((position, parsed, digits?)))
        .collect();
    for batch in ready.chunks(lanes * GROUPS) {
        let full = batch.chunks(lanes).filter(|group| group.len() >= least);
        let mut groups = Vec::with_capacity(GROUPS);
        for group in full.clone() {
            let mut filled = Group::EMPTY;
            for (lane, (_, parsed, digits)) in group.iter().enumerate() {
                filled.set(lane, parsed, *digits);
            }
            groups.push(filled);
        }
        count += groups.len() * lanes;
        let answers = backend.prove(&groups);
        // By the checks that were put in, so that an empty lane has nobody to say yes for.
        for (group, answer) in full.zip(answers) {
            for (lane, (position, ..)) in group.iter().enumerate() {
                found[*position] =
                    if answer.contains(lane) { Found::Proven } else { Found::Refused };
            }
        }
    }
    Lanes { found, count }
}

//! Checks in, answers out.

use std::ops::{AddAssign, Sub};
use std::sync::OnceLock;

use crate::backend::{Backend, BackendKind};
use crate::check::Check;
use crate::known_answers;
use crate::lanes::{Found, Lanes, prove};
use crate::single;

/// What is known of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// It is valid.
    Yes,
    /// Neither the lanes nor libsecp256k1 found it valid.
    NotProven,
}

/// How checks were answered, since the verifier was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Proven in lanes.
    pub in_lanes: u64,
    /// Left to libsecp256k1, whatever it said.
    pub single: u64,
    /// Not proven in lanes and left to the caller ([`Verifier::without_second_opinion`]).
    pub refused: u64,
    /// Lanes that ran, with a check in them or without.
    pub lanes: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.in_lanes += other.in_lanes;
        self.single += other.single;
        self.refused += other.refused;
        self.lanes += other.lanes;
    }
}

/// Those since an earlier moment.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            in_lanes: self.in_lanes - earlier.in_lanes,
            single: self.single - earlier.single,
            refused: self.refused - earlier.refused,
            lanes: self.lanes - earlier.lanes,
        }
    }
}

/// Collects checks, each with an identity of the caller's, and answers them in batches. It starts no thread;
/// each thread has one of its own.
///
/// Lanes may only say yes. What they do not prove goes to libsecp256k1, and so do encodings that are
/// doubtful and rests that would leave most lanes empty.
pub struct Verifier<Id> {
    backend: Backend,
    after_refusal: AfterRefusal,
    pending: Vec<(Id, Check)>,
    counts: Counts,
}

/// What becomes of a check that lanes did not prove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AfterRefusal {
    AskLibsecp256k1,
    LeaveToCaller,
}

impl<Id> Verifier<Id> {
    /// Checks that fill all groups of one batch at any number of lanes: the best count to run at once. More
    /// are run in batches of this size.
    pub const BATCH: usize = 64;

    /// With the fastest backend of this processor that passes its known answers.
    pub fn new() -> Self {
        static FASTEST: OnceLock<Backend> = OnceLock::new();
        let fastest = || fastest_of(&BackendKind::BY_SPEED, known_answers::hold);
        Self::with(*FASTEST.get_or_init(fastest))
    }

    /// With a given backend; `None` where the processor lacks a feature of it, or fails its known answers.
    pub fn with_backend(kind: BackendKind) -> Option<Self> {
        let backend = Backend::detect(kind).filter(|backend| known_answers::hold(*backend))?;
        Some(Self::with(backend))
    }

    fn with(backend: Backend) -> Self {
        let (pending, counts) = Default::default();
        Verifier { backend, after_refusal: AfterRefusal::AskLibsecp256k1, pending, counts }
    }

    /// Answers [`Answer::NotProven`] where lanes do not prove a check, without asking libsecp256k1. For a
    /// caller with another judge, who would do the same work a third time, and for one who expects that many
    /// checks are not valid, as those of m-of-n signatures with other keys. What was in no lane still goes to
    /// libsecp256k1.
    pub fn without_second_opinion(mut self) -> Self {
        self.after_refusal = AfterRefusal::LeaveToCaller;
        self
    }

    /// The backend in use.
    pub fn backend(&self) -> BackendKind {
        self.backend.kind()
    }

    /// How checks were answered so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Adds a check to the next [`Verifier::run`]. How many wait is the caller's to bound.
    pub fn push(&mut self, id: Id, check: Check) {
        self.pending.push((id, check));
    }

    /// Checks that wait.
    pub fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Answers every check that waits, in the order in which they came.
    pub fn run(&mut self, mut answer: impl FnMut(Id, Answer)) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut checks = pending.drain(..);
        loop {
            let batch: Vec<(Id, Check)> = checks.by_ref().take(Self::BATCH).collect();
            if batch.is_empty() {
                break;
            }
            let Lanes { found, count } = prove(self.backend, batch.iter().map(|(_, check)| check));
            self.counts.lanes += count as u64;
            for ((id, check), found) in batch.into_iter().zip(found) {
                let counted = match (found, self.after_refusal) {
                    (Found::Proven, _) => &mut self.counts.in_lanes,
                    (Found::Refused, AfterRefusal::LeaveToCaller) => &mut self.counts.refused,
                    (Found::Refused | Found::NotTried, _) => &mut self.counts.single,
                };
                *counted += 1;
                let valid = match (found, self.after_refusal) {
                    (Found::Proven, _) => true,
                    (Found::Refused, AfterRefusal::LeaveToCaller) => false,
                    (Found::Refused | Found::NotTried, _) => single::verify(&check),
                };
                answer(id, if valid { Answer::Yes } else { Answer::NotProven });
            }
        }
        drop(checks);
        self.pending = pending;
    }
}

impl<Id> Default for Verifier<Id> {
    fn default() -> Self {
        Self::new()
    }
}

/// The first of `kinds` that the processor can run. If its known answers do not hold, no lanes at all: a
/// processor that computes otherwise than documented is not asked again in another width.
pub(crate) fn fastest_of(kinds: &[BackendKind], hold: impl Fn(Backend) -> bool) -> Backend {
    let Some(backend) = kinds.iter().find_map(|kind| Backend::detect(*kind)) else {
        return Backend::single();
    };
    if hold(backend) {
        return backend;
    }
    log::error!("{:?} fails its known answers: signatures go to libsecp256k1", backend.kind());
    Backend::single()
}

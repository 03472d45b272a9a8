//! Verifies the inputs of transactions: by claims first, then by Core's engine for the rest.

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::ops::{AddAssign, Range, Sub};
use std::time::{Duration, Instant};

use godwit_engine::{ENGINE_MEMORY, EngineMemory};
use godwit_primitives::ScriptFlags;
use godwit_verify::BackendKind;

use crate::ScriptError;
use crate::claim::claim;
use crate::losses::Losses;
use crate::queue::{ClaimQueue, Proof};
use crate::spending_tx::{Asked, SpendingTx};

/// Some inputs of a transaction.
pub struct Work<'s, 'a> {
    /// The transaction.
    pub tx: &'s SpendingTx<'a>,
    /// The inputs to verify.
    pub inputs: Range<usize>,
}

/// Inputs that get one verdict: a part of a block.
pub struct Group<'s, 'a> {
    /// In the order in which Core would meet them.
    pub works: Vec<Work<'s, 'a>>,
    /// The flags for all inputs.
    pub flags: ScriptFlags,
    /// One in this many proven inputs is also judged by Core's engine; `None`: no input is.
    pub crosscheck: Option<NonZeroU32>,
}

/// The verdict on a group: success, or the position of the first work that has an error, and the error.
///
/// [`ScriptError::Rejected`] and [`ScriptError::Contradicted`] name the first input of that work that the
/// engine refuses; [`ScriptError::BadRange`] and [`ScriptError::WitnessWithoutP2sh`] come before any script
/// of the work runs.
pub type Verdict = Result<(), (usize, ScriptError)>;

/// How inputs were accepted, since the verifier was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Inputs accepted because their claims were proven.
    pub proven: u64,
    /// Inputs without a claim, either because their form has none or because too many earlier claims were not
    /// proven.
    pub unclaimed: u64,
    /// Inputs whose claim was not proven.
    pub unproven: u64,
    /// Proven inputs that the engine judged as well.
    pub crosschecked: u64,
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Self) {
        self.proven += other.proven;
        self.unclaimed += other.unclaimed;
        self.unproven += other.unproven;
        self.crosschecked += other.crosschecked;
    }
}

/// The counts since an earlier moment.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            proven: self.proven - earlier.proven,
            unclaimed: self.unclaimed - earlier.unclaimed,
            unproven: self.unproven - earlier.unproven,
            crosschecked: self.crosschecked - earlier.crosschecked,
        }
    }
}

/// Verifies inputs; each thread has one of its own.
pub struct Scripts {
    prover: Prover,
    /// Chooses the inputs to cross-check. It is keyed, so that nobody can make an input that is never chosen.
    choice: RandomState,
    counts: Counts,
    losses: Losses,
    memory: &'static EngineMemory,
    waited: Duration,
}

enum Prover {
    Queue(Box<ClaimQueue<usize>>),
    /// Core's engine judges everything.
    None,
    /// The queue panicked, and holds claims for which no caller waits.
    Broken,
}

/// Which inputs of some groups are proven, in the order of all their inputs.
pub struct Proofs<'g, 's, 'a> {
    groups: &'g [Group<'s, 'a>],
    proven: Vec<bool>,
    is_broken: bool,
}

impl Scripts {
    /// Uses the fastest lanes of this processor, or only Core's engine if it has none: the engine is faster
    /// at one check after another.
    pub fn new() -> Self {
        let queue = ClaimQueue::new();
        match queue.backend() {
            BackendKind::Single => Self::engine_only(),
            _ => Self::with(Prover::Queue(Box::new(queue))),
        }
    }

    /// Uses the given backend; `None` if the processor cannot run it.
    pub fn with_backend(kind: BackendKind) -> Option<Self> {
        let queue = ClaimQueue::with_backend(kind)?;
        Some(Self::with(Prover::Queue(Box::new(queue))))
    }

    /// Uses only Core's engine.
    pub fn engine_only() -> Self {
        Self::with(Prover::None)
    }

    fn with(prover: Prover) -> Self {
        let (counts, losses, waited) = Default::default();
        Self { prover, choice: RandomState::new(), counts, losses, memory: &ENGINE_MEMORY, waited }
    }

    #[cfg(test)]
    pub(crate) fn within(self, memory: &'static EngineMemory) -> Self {
        Self { memory, ..self }
    }

    #[cfg(test)]
    pub(crate) fn losses(&mut self) -> &mut Losses {
        &mut self.losses
    }

    /// How inputs were accepted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How long this has waited so far for the engine's memory, and for threads that had the engine read the
    /// same transaction.
    pub fn waited(&self) -> Duration {
        self.waited
    }

    /// How the checks of signatures were answered so far.
    pub fn check_counts(&self) -> godwit_verify::Counts {
        match &self.prover {
            Prover::Queue(queue) => queue.check_counts(),
            Prover::None | Prover::Broken => godwit_verify::Counts::default(),
        }
    }

    /// Verifies the inputs of `groups`, whose checks share the lanes, and returns a verdict for each group. A
    /// transaction is serialised for the engine only if the engine is asked about one of its inputs.
    ///
    /// After a panic all verdicts are [`ScriptError::Engine`].
    pub fn verify(&mut self, groups: &[Group<'_, '_>]) -> Vec<Verdict> {
        let proofs = self.prove(groups);
        self.judge(proofs)
    }

    /// The first half of [`Scripts::verify`]: makes claims and proves them. Makes none while earlier ones
    /// took too much time in vain.
    pub fn prove<'g, 's, 'a>(&mut self, groups: &'g [Group<'s, 'a>]) -> Proofs<'g, 's, 'a> {
        let works = || groups.iter().flat_map(|group| group.sound().0);
        let mut proven = vec![false; works().map(|work| work.inputs.len()).sum()];
        let mut queue = match std::mem::replace(&mut self.prover, Prover::Broken) {
            Prover::Queue(queue) if self.losses.are_small() => queue,
            prover @ (Prover::Queue(_) | Prover::None) => {
                self.prover = prover;
                self.counts.unclaimed += proven.len() as u64;
                return Proofs { groups, proven, is_broken: false };
            }
            Prover::Broken => return Proofs { groups, proven, is_broken: true },
        };
        let (start, before) = (Instant::now(), queue.effort());
        let mut claimed = 0;
        let mut settle = |place: usize, proof| proven[place] = proof == Proof::Proven;
        let inputs = groups.iter().flat_map(|group| {
            let inputs = |work: &'g Work<'s, 'a>| work.inputs.clone().map(|input| (work.tx, input));
            group.sound().0.iter().flat_map(inputs).map(|(tx, input)| (tx, input, group.flags))
        });
        for (place, (tx, input, flags)) in inputs.enumerate() {
            if (queue.effort() - before).is_in_vain() {
                break;
            }
            if let Some(claim) = claim(tx, input, flags) {
                claimed += 1;
                queue.push(place, claim, &mut settle);
            }
        }
        queue.flush(settle);
        self.losses.claims_took(start.elapsed(), queue.effort() - before);
        let all_proven = proven.iter().filter(|proven| **proven).count() as u64;
        self.counts.proven += all_proven;
        self.counts.unproven += claimed - all_proven;
        self.counts.unclaimed += proven.len() as u64 - claimed;
        self.prover = Prover::Queue(queue);
        Proofs { groups, proven, is_broken: false }
    }

    /// The second half: asks Core's engine about every input that is not proven or is chosen for a
    /// cross-check, group by group in order, in each group up to the first input that the engine refuses. The
    /// engine's objects for one transaction are dropped before it reads the next one and waits for memory
    /// ([`ENGINE_MEMORY`]): the thread holds none of that memory before and after the call.
    pub fn judge(&mut self, proofs: Proofs<'_, '_, '_>) -> Vec<Verdict> {
        let start = Instant::now();
        let Proofs { groups, proven, is_broken } = proofs;
        let mut proven = &proven[..];
        let mut take = |count| {
            let (first, others) = proven.split_at(count);
            proven = others;
            first
        };
        let mut asked = None;
        let verdicts = groups.iter().map(|group| match is_broken {
            true => Err((0, ScriptError::Engine)),
            false => {
                let (works, malformed) = group.sound();
                let proven = take(works.iter().map(|work| work.inputs.len()).sum());
                self.ask_engine(group, works, proven, &mut asked)?;
                malformed.map_or(Ok(()), Err)
            }
        });
        let verdicts = verdicts.collect();
        let waited = asked.as_ref().map_or(Duration::ZERO, Asked::waited);
        self.waited += waited;
        self.losses.engine_took(start.elapsed().saturating_sub(waited));
        assert!(is_broken || proven.is_empty(), "each input belongs to one group");
        verdicts
    }

    fn ask_engine(
        &mut self,
        group: &Group<'_, '_>,
        works: &[Work<'_, '_>],
        mut proven: &[bool],
        asked: &mut Option<Asked>,
    ) -> Verdict {
        for (at, Work { tx, inputs }) in works.iter().enumerate() {
            let (of_tx, others) = proven.split_at(inputs.len());
            proven = others;
            let mut is_asked = false;
            for (input, proven) in inputs.clone().zip(of_tx) {
                if *proven {
                    if !self.chooses(group, tx, input) {
                        continue;
                    }
                    self.counts.crosschecked += 1;
                }
                if !is_asked {
                    *asked = Some(tx.ask(asked.take(), self.memory));
                    is_asked = true;
                }
                let engine = asked.as_ref().map_or(Err(ScriptError::Engine), Asked::prepared);
                let verdict = engine.and_then(|tx| tx.verify_input(input, group.flags));
                // If the engine cannot even read a transaction whose input was proven, the two differ as
                // well.
                verdict.map_err(|error| match error {
                    ScriptError::Engine => (at, error),
                    _ if *proven => (at, ScriptError::Contradicted { input }),
                    _ => (at, error),
                })?;
            }
        }
        Ok(())
    }

    /// Whether a proven input is cross-checked.
    fn chooses(&self, group: &Group<'_, '_>, tx: &SpendingTx<'_>, input: usize) -> bool {
        let Some((one_in, view)) = group.crosscheck.zip(tx.input(input)) else { return false };
        let hash = self.choice.hash_one(view.prevout.to_bytes());
        hash.is_multiple_of(u64::from(one_in.get()))
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}

impl<'s, 'a> Group<'s, 'a> {
    /// The works before the first one that asks something invalid, and its error.
    fn sound(&self) -> (&[Work<'s, 'a>], Option<(usize, ScriptError)>) {
        let malformed = self.works.iter().zip(0..).find_map(|(work, at)| {
            let error = work.error(self.flags)?;
            Some((at, error))
        });
        (&self.works[..malformed.map_or(self.works.len(), |(at, _)| at)], malformed)
    }
}

impl Work<'_, '_> {
    /// What is invalid about the question.
    fn error(&self, flags: ScriptFlags) -> Option<ScriptError> {
        if flags.contains(ScriptFlags::WITNESS) && !flags.contains(ScriptFlags::P2SH) {
            return Some(ScriptError::WitnessWithoutP2sh);
        }
        let (Range { start, end }, inputs) = (self.inputs.clone(), self.tx.input_count());
        let is_within = start <= end && end <= inputs;
        (!is_within).then_some(ScriptError::BadRange { start, end, inputs })
    }
}

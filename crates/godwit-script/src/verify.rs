//! The inputs of transactions: claims first, Core's engine for what is left.

use std::ops::Range;

use godwit_primitives::ScriptFlags;
use godwit_verify::BackendKind;

use crate::claim::claim;
use crate::queue::{ClaimQueue, Proof};
use crate::spending_tx::SpendingTx;
use crate::{PreparedTx, ScriptError};

/// Some inputs of a transaction.
pub struct Work<'s, 'a> {
    /// The transaction.
    pub tx: &'s SpendingTx<'a>,
    /// Which of its inputs.
    pub inputs: Range<usize>,
}

/// How inputs were accepted, since the verifier was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// By their claims.
    pub proven: u64,
    /// Inputs that made no claim.
    pub unclaimed: u64,
    /// Inputs whose claim was not proven.
    pub unproven: u64,
}

/// Verifies inputs, each thread with one of its own.
pub struct Scripts {
    /// `None` after a panic, which left claims in it that no caller waits for.
    queue: Option<ClaimQueue<usize>>,
    counts: Counts,
}

impl Scripts {
    /// With the fastest lanes of this processor.
    pub fn new() -> Self {
        Self { queue: Some(ClaimQueue::new()), counts: Counts::default() }
    }

    /// With given lanes; `None` where the processor cannot run them.
    pub fn with_backend(kind: BackendKind) -> Option<Self> {
        let queue = ClaimQueue::with_backend(kind)?;
        Some(Self { queue: Some(queue), counts: Counts::default() })
    }

    /// How inputs were accepted so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Verifies the inputs of `works`. No transaction is serialised for the engine unless the engine is
    /// asked about one of its inputs.
    ///
    /// # Errors
    /// As those of [`PreparedTx::verify_range`] for the first of `works` that has any, with its position.
    /// [`ScriptError::Engine`] for all that follows a panic.
    pub fn verify(
        &mut self,
        works: &[Work<'_, '_>],
        flags: ScriptFlags,
    ) -> Result<(), (usize, ScriptError)> {
        let malformed = works.iter().zip(0..).find_map(|(work, at)| Some((at, work.error(flags)?)));
        let works = &works[..malformed.map_or(works.len(), |(at, _)| at)];
        let mut queue = self.queue.take().ok_or((0, ScriptError::Engine))?;
        let proven = self.prove(&mut queue, works, flags);
        self.queue = Some(queue);
        ask_engine(works, &proven, flags)?;
        malformed.map_or(Ok(()), Err)
    }

    /// Which of the inputs of `works`, counted through, are proven.
    fn prove(
        &mut self,
        queue: &mut ClaimQueue<usize>,
        works: &[Work<'_, '_>],
        flags: ScriptFlags,
    ) -> Vec<bool> {
        let mut proven = vec![false; works.iter().map(|work| work.inputs.len()).sum()];
        let mut claimed = 0;
        let mut settle = |place: usize, proof| proven[place] = proof == Proof::Proven;
        let inputs =
            works.iter().flat_map(|work| work.inputs.clone().map(|input| (work.tx, input)));
        for (place, (tx, input)) in inputs.enumerate() {
            if let Some(claim) = claim(tx, input, flags) {
                claimed += 1;
                queue.push(place, claim, &mut settle);
            }
        }
        queue.flush(settle);
        let all_proven = proven.iter().filter(|proven| **proven).count() as u64;
        self.counts.proven += all_proven;
        self.counts.unproven += claimed - all_proven;
        self.counts.unclaimed += proven.len() as u64 - claimed;
        proven
    }
}

/// Asks Core's engine about every input that is not proven, in their order, up to the first that fails.
fn ask_engine(
    works: &[Work<'_, '_>],
    mut proven: &[bool],
    flags: ScriptFlags,
) -> Result<(), (usize, ScriptError)> {
    for (at, Work { tx, inputs }) in works.iter().enumerate() {
        let (of_tx, others) = proven.split_at(inputs.len());
        proven = others;
        let mut left = inputs.clone().zip(of_tx).filter(|(_, proven)| !**proven).peekable();
        if left.peek().is_none() {
            continue;
        }
        PreparedTx::new(tx.view().bytes(), tx.spent().iter().copied())
            .and_then(|tx| left.try_for_each(|(input, _)| tx.verify_input(input, flags)))
            .map_err(|error| (at, error))?;
    }
    Ok(())
}

impl Work<'_, '_> {
    /// What is wrong with the question.
    fn error(&self, flags: ScriptFlags) -> Option<ScriptError> {
        if flags.contains(ScriptFlags::WITNESS) && !flags.contains(ScriptFlags::P2SH) {
            return Some(ScriptError::WitnessWithoutP2sh);
        }
        let (Range { start, end }, inputs) = (self.inputs.clone(), self.tx.input_count());
        let is_within = start <= end && end <= inputs;
        (!is_within).then_some(ScriptError::BadRange { start, end, inputs })
    }
}

impl Default for Scripts {
    fn default() -> Self {
        Self::new()
    }
}

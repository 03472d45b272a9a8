//! What may still fail after a block's coins are resolved, on workers and in any order: the limit of
//! signature operations and the scripts. Its undo record is encoded here too.
//!
//! Blocks overlap: the scripts of one run while the next ones are fetched, applied and verified. The
//! worker that finishes a block's last part reports it; blocks retire in height order elsewhere.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use godwit_consensus::{Reject, RejectReason};
use godwit_script::{PreparedTx, ScriptError, SpentOutput};
use godwit_store::exec::Priority;
use godwit_store::{BlockPosition, Store, StoreError, UndoPosition, UndoRecord, WrittenUndo};
use godwit_stream::BufferPool;

use crate::apply::{Resolved, sigops_exceeded};
use crate::job_sender::JobSender;
use crate::limits::INPUTS_PER_PART;
use crate::structure::Structured;
use crate::tree::NodeId;

/// A block whose signature operations are within the limit and whose scripts hold or need not run.
/// Nothing but [`verify`] makes one.
pub(crate) struct Verified {
    resolved: Arc<Resolved>,
    /// Where one was asked for.
    undo: Option<UndoRecord>,
}

impl Verified {
    pub(crate) fn id(&self) -> NodeId {
        self.resolved.id()
    }

    /// The block with its undo record on disk, if it is there already.
    pub(crate) fn recorded_before(self) -> Result<Recorded, Self> {
        match self.undo {
            None => Ok(Recorded { resolved: self.resolved, undo: None }),
            Some(_) => Err(self),
        }
    }

    /// Takes the place of the undo record of a block whose own bytes are at `block`.
    pub(crate) fn reserve_undo(&self, store: &Store, block: BlockPosition) -> UndoPosition {
        store.reserve_undo(block, self.undo_record())
    }

    /// Writes the undo record to its place; not durable before the next commit.
    pub(crate) fn write_undo(
        self,
        store: &Store,
        place: UndoPosition,
    ) -> Result<(Recorded, WrittenUndo), StoreError> {
        let written = store.write_undo(place, self.undo_record())?;
        Ok((Recorded { resolved: self.resolved, undo: Some(written.position()) }, written))
    }

    fn undo_record(&self) -> &UndoRecord {
        self.undo.as_ref().expect("it is written where it was asked for")
    }
}

/// A verified block whose undo record is in its file: it may be connected.
pub(crate) struct Recorded {
    resolved: Arc<Resolved>,
    /// Where the record lies, if it was not stored before.
    undo: Option<UndoPosition>,
}

impl Recorded {
    pub(crate) fn id(&self) -> NodeId {
        self.resolved.id()
    }

    pub(crate) fn block(&self) -> &Structured {
        self.resolved.block()
    }

    pub(crate) fn undo(&self) -> Option<UndoPosition> {
        self.undo
    }
}

/// Which checks a block still needs.
pub(crate) struct Needs {
    pub(crate) scripts: bool,
    /// The undo record, unless it is stored already.
    pub(crate) undo: Option<UndoFormat>,
}

/// How undo records are encoded.
#[derive(Clone)]
pub(crate) struct UndoFormat {
    /// Message start of the network, which frames the record.
    pub(crate) magic: [u8; 4],
    /// Where the record's memory comes from.
    pub(crate) buffers: BufferPool,
}

/// Why verification did not succeed.
#[derive(Debug)]
pub(crate) enum VerifyError {
    /// The block breaks a rule.
    Rejected(Reject),
    /// The engine failed; says nothing about the block.
    Engine(ScriptError),
    /// The undo record cannot be encoded.
    Undo(StoreError),
}

/// What comes of verifying a block.
pub(crate) type Outcome = Result<Verified, VerifyError>;

enum Part {
    Sigops,
    Undo(UndoFormat),
    Txs(Range<usize>),
    /// Some inputs of one transaction that is too long for a single job.
    Inputs {
        tx: usize,
        inputs: Range<usize>,
        prepared: Arc<OnceLock<Result<PreparedTx, ScriptError>>>,
    },
}

/// A failure and its place in the order in which Core would have met it.
type Found = ((usize, usize), VerifyError);

struct Verification {
    resolved: Arc<Resolved>,
    parts_left: AtomicUsize,
    failure: Mutex<Option<Found>>,
    undo: Mutex<Option<UndoRecord>>,
}

/// Verifies a block on the workers of `job_sender`; `answer` makes the answer out of the outcome.
/// `parts_out` counts the parts that are queued or running, of this and other blocks.
pub(crate) fn verify<R: Send + 'static>(
    job_sender: &JobSender<R>,
    resolved: Arc<Resolved>,
    needs: Needs,
    parts_out: &Arc<AtomicUsize>,
    answer: impl Fn(Outcome) -> R + Clone + Send + 'static,
) {
    let mut parts = vec![Part::Sigops];
    parts.extend(needs.undo.map(Part::Undo));
    if needs.scripts {
        split(&resolved.spent().first, &mut parts);
    }
    let verification = Arc::new(Verification {
        resolved,
        parts_left: AtomicUsize::new(parts.len()),
        failure: Mutex::new(None),
        undo: Mutex::new(None),
    });
    parts_out.fetch_add(parts.len(), Ordering::Relaxed);
    for part in parts {
        let (verification, answer) = (Arc::clone(&verification), answer.clone());
        let parts_out = Arc::clone(parts_out);
        job_sender.run_part(Priority::Scripts, "verify", move || {
            let outcome = verification.run(&part);
            parts_out.fetch_sub(1, Ordering::Relaxed);
            outcome.map(answer)
        });
    }
}

/// Splits the scripts of a block; `first` is as in [`SpentCoins`](crate::apply::SpentCoins).
fn split(first: &[u32], parts: &mut Vec<Part>) {
    let inputs_of = |tx: usize| (first[tx + 1] - first[tx]) as usize;
    let tx_count = first.len() - 1;
    let (mut start, mut inputs) = (1, 0);
    for tx in 1..tx_count {
        let count = inputs_of(tx);
        if count > 2 * INPUTS_PER_PART {
            if start < tx {
                parts.push(Part::Txs(start..tx));
            }
            split_inputs(tx, count, parts);
            (start, inputs) = (tx + 1, 0);
            continue;
        }
        inputs += count;
        if inputs >= INPUTS_PER_PART {
            parts.push(Part::Txs(start..tx + 1));
            (start, inputs) = (tx + 1, 0);
        }
    }
    if start < tx_count {
        parts.push(Part::Txs(start..tx_count));
    }
}

fn split_inputs(tx: usize, count: usize, parts: &mut Vec<Part>) {
    let prepared = Arc::new(OnceLock::new());
    for from in (0..count).step_by(INPUTS_PER_PART) {
        let inputs = from..count.min(from + INPUTS_PER_PART);
        parts.push(Part::Inputs { tx, inputs, prepared: Arc::clone(&prepared) });
    }
}

/// A job that panicked while holding a lock left a whole value behind: each is set in one step.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Verification {
    /// Checks a part; with the last one the outcome is known.
    fn run(&self, part: &Part) -> Option<Outcome> {
        if !self.is_settled(part) {
            self.check(part);
        }
        let is_last = self.parts_left.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| self.finish())
    }

    fn prepare(&self, tx: usize) -> Result<PreparedTx, ScriptError> {
        let outputs = self
            .resolved
            .spent()
            .of_tx(tx)
            .iter()
            .map(|coin| SpentOutput { value: coin.value, script_pubkey: &coin.script_pubkey });
        PreparedTx::new(self.resolved.block().view().tx(tx).bytes(), outputs)
    }

    /// Whether the part's result cannot change the outcome any more.
    fn is_settled(&self, part: &Part) -> bool {
        let place = match part {
            Part::Sigops | Part::Undo(_) => (0, 0),
            Part::Txs(txs) => (txs.start, 0),
            Part::Inputs { tx, inputs, .. } => (*tx, inputs.start),
        };
        let failure = lock(&self.failure);
        let found = failure.as_ref().map(|(found, _)| *found);
        found.is_some_and(|found| found < place)
    }

    fn check(&self, part: &Part) {
        let (block, spent) = (self.resolved.block(), self.resolved.spent());
        let flags = self.resolved.flags();
        match part {
            Part::Sigops => {
                // Core meets the limit before it looks at any script's result.
                if sigops_exceeded(block, spent, flags, block.view().tx_count()) {
                    let reject = Reject::new(RejectReason::BadBlkSigops);
                    self.fail((0, 0), VerifyError::Rejected(reject));
                }
            }
            Part::Undo(UndoFormat { magic, buffers }) => {
                let txs = (1..spent.first.len() - 1).map(|tx| spent.of_tx(tx));
                let prev = &block.header().prev_blockhash;
                match UndoRecord::encode(*magic, prev, txs, buffers) {
                    Ok(undo) => *lock(&self.undo) = Some(undo),
                    Err(error) => self.fail((0, 0), VerifyError::Undo(error)),
                }
            }
            Part::Txs(txs) => {
                for tx in txs.clone() {
                    let result = self.prepare(tx).and_then(|tx| tx.verify(flags));
                    if self.note(tx, result) {
                        return;
                    }
                }
            }
            Part::Inputs { tx, inputs, prepared } => {
                let result = match prepared.get_or_init(|| self.prepare(*tx)) {
                    Ok(prepared) => prepared.verify_range(inputs.clone(), flags),
                    Err(error) => Err(*error),
                };
                self.note(*tx, result);
            }
        }
    }

    /// Takes note of a transaction's result; whether it failed.
    fn note(&self, tx: usize, result: Result<(), ScriptError>) -> bool {
        match result {
            Ok(()) => return false,
            Err(ScriptError::Rejected { input }) => {
                let reject = Reject::new(RejectReason::BlockScriptVerifyFlagFailed);
                self.fail((tx, input), VerifyError::Rejected(reject));
            }
            Err(error) => self.fail((tx, 0), VerifyError::Engine(error)),
        }
        true
    }

    fn fail(&self, place: (usize, usize), error: VerifyError) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(earlier, _)| place < *earlier) {
            *failure = Some((place, error));
        }
    }

    fn finish(&self) -> Outcome {
        let undo = lock(&self.undo).take();
        match lock(&self.failure).take() {
            Some((_, error)) => Err(error),
            None => Ok(Verified { resolved: Arc::clone(&self.resolved), undo }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{MAX_BLOCK_INPUTS, MAX_PARTS};

    /// The parts of a block whose transactions have so many inputs, the coinbase aside.
    fn parts(inputs: &[usize]) -> Vec<Part> {
        let mut first = vec![0, 0];
        let mut end = 0;
        for count in inputs {
            end += *count as u32;
            first.push(end);
        }
        // As `verify` begins.
        let mut parts = vec![Part::Sigops];
        split(&first, &mut parts);
        parts
    }

    #[test]
    fn every_input_is_in_one_part_and_no_block_has_more_parts_than_the_limit_says() {
        const MOST: usize = 2 * INPUTS_PER_PART;
        let patterns: [&[usize]; 8] = [
            &[1],
            &[INPUTS_PER_PART - 1],
            &[INPUTS_PER_PART],
            &[MOST, MOST - 1],
            &[MOST + 1],
            // Each large one ends a part and has a short last part of its own.
            &[1, MOST + 1],
            &[INPUTS_PER_PART - 1, MOST + 1],
            &[MAX_BLOCK_INPUTS],
        ];
        for pattern in patterns {
            let mut left = MAX_BLOCK_INPUTS;
            let fits = |count: &&usize| {
                let fits = **count <= left;
                left -= if fits { **count } else { 0 };
                fits
            };
            let inputs: Vec<usize> = pattern.iter().cycle().take_while(fits).copied().collect();
            let parts = parts(&inputs);
            // One more encodes the undo record.
            assert!(parts.len() < MAX_PARTS, "{} parts of {pattern:?}", parts.len());
            let mut seen = vec![0; inputs.len()];
            for part in &parts {
                match part {
                    Part::Sigops | Part::Undo(_) => {}
                    Part::Txs(txs) => txs.clone().for_each(|tx| seen[tx - 1] += inputs[tx - 1]),
                    Part::Inputs { tx, inputs, .. } => seen[tx - 1] += inputs.len(),
                }
            }
            assert_eq!(seen, inputs, "{pattern:?}");
        }
    }
}

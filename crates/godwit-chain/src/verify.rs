//! What may still fail after a block's coins are found, on workers and in any order: the rules about
//! amounts, lock times and signature operations, and the scripts. Its undo record is encoded here too.
//!
//! Blocks overlap: the scripts of one run while the next ones are fetched, applied and verified. The
//! worker that finishes a block's last part reports it; blocks retire in height order elsewhere.
//!
//! Signatures are checked in the lanes of vector registers, which want many checks at once, and a block of
//! the first years has few. So scripts are not handed to a worker with its job: they wait in one row for
//! all blocks, and a job takes from the front as many as make up its share.
//!
//! 1. There is a job for each part that waits: a job that starts takes at least one if there is any.
//! 2. What a job takes it ends; nothing waits for a block that has not arrived.
//! 3. A job sends one message, with the outcomes of all blocks whose last part it ended.

use std::num::NonZeroU32;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_consensus::{Reject, ScriptCheckReason};
use godwit_primitives::Txid;
use godwit_script::{
    CheckCounts, Counts, Group, Precomputed, ScriptError, Scripts, SpendingTx, SpentOutput,
    Verdict, Work, broken_rule,
};
use godwit_store::exec::{Executor, Priority};
use godwit_store::{BlockPosition, Store, StoreError, UndoPosition, UndoRecord, WrittenUndo};
use godwit_stream::BufferPool;

use crate::apply::Resolved;
use crate::contradiction::Contradiction;
use crate::job_sender::JobSender;
use crate::limits::{INPUTS_PER_PART, MAX_TIP_AGE, PARTS_PER_TX, SCRIPT_PARTS};
use crate::options::{ScriptEngine, ScriptOptions};
use crate::script_row::Row;
use crate::structure::Structured;
use crate::tree::NodeId;

/// A block that keeps the rules over the coins that it spends and whose scripts hold or need not run.
/// Nothing but a [`Verifier`] makes one.
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

    pub(crate) fn shared(&self) -> Arc<Resolved> {
        Arc::clone(&self.resolved)
    }

    pub(crate) fn undo(&self) -> Option<UndoPosition> {
        self.undo
    }
}

/// Whether the scripts of a block run, and how.
#[derive(Clone, Copy)]
pub(crate) enum ScriptRun {
    Skipped,
    At {
        /// Seconds since 1970: recent blocks are cross-checked more often.
        unix_time: i64,
        /// Core's engine runs them, without claims.
        engine_alone: bool,
    },
}

impl ScriptRun {
    /// They run if there is a reason for it.
    pub(crate) fn of(
        reason: Option<ScriptCheckReason>,
        unix_time: i64,
        engine_alone: bool,
    ) -> Self {
        reason.map_or(Self::Skipped, |_| Self::At { unix_time, engine_alone })
    }
}

/// How undo records are encoded.
#[derive(Clone)]
pub(crate) struct UndoFormat {
    /// Message start of the network, which frames the record.
    pub(crate) magic: [u8; 4],
    /// Where the record's memory comes from.
    pub(crate) buffers: BufferPool,
}

/// How scripts were verified.
#[derive(Clone, Copy, Debug, Default)]
pub struct ScriptTotals {
    pub inputs: Counts,
    /// Checks of signatures.
    pub checks: CheckCounts,
    /// Time that workers spent on claims and lanes.
    pub native_time: Duration,
    /// Time that they spent with Core's engine, without that in which they waited for its memory.
    pub engine_time: Duration,
}

/// Why verification did not succeed.
#[derive(Debug)]
pub(crate) enum VerifyError {
    /// The block breaks a rule.
    Rejected(Reject),
    /// The engine failed; says nothing about the block.
    Engine(ScriptError),
    /// Signatures that make an input valid hold, and the engine refuses it.
    Contradicted(Box<Contradiction>),
    /// The undo record cannot be encoded.
    Undo(StoreError),
}

/// What comes of verifying a block.
pub(crate) type Outcome = Result<Verified, VerifyError>;

/// A part that is no script.
enum Part {
    /// All that needs coins: amounts, lock times, signature operations.
    Rules,
    Undo(UndoFormat),
}

/// Scripts of one block that a worker checks in one go.
enum ScriptPart {
    Txs(Range<usize>),
    /// Some inputs of one transaction that is too long for a single worker.
    Inputs {
        tx: usize,
        inputs: Range<usize>,
        precomputed: Arc<Precomputed>,
    },
}

/// What a worker found against a block.
enum Failure {
    /// The script of the input at its place is refused.
    Script,
    Other(VerifyError),
}

impl From<VerifyError> for Failure {
    fn from(error: VerifyError) -> Self {
        Self::Other(error)
    }
}

/// A failure and its place in the order in which Core would have met it.
type Found = ((usize, usize), Failure);

struct Verification {
    /// Distinguishes its outcome from that of an earlier application of the same block.
    token: u64,
    resolved: Arc<Resolved>,
    engine_alone: bool,
    crosscheck: Option<NonZeroU32>,
    parts_left: AtomicUsize,
    failure: Mutex<Option<Found>>,
    undo: Mutex<Option<UndoRecord>>,
    /// How often it was asked which rule a script breaks.
    #[cfg(test)]
    rules_asked: AtomicUsize,
}

/// Scripts in the row.
struct Waiting {
    verification: Arc<Verification>,
    part: ScriptPart,
}

/// Verifies blocks on the workers of a station whose jobs answer with an `R`.
pub(crate) struct Verifier<R> {
    job_sender: JobSender<R>,
    /// Makes an answer out of blocks' tokens and outcomes.
    answer: fn(Vec<(u64, Outcome)>) -> R,
    shared: Arc<Shared>,
}

/// What judges scripts, and where.
pub(crate) struct Engines {
    pub(crate) options: ScriptOptions,
    pub(crate) executor: Arc<dyn Executor>,
    /// Of the station's job sender.
    pub(crate) workers: usize,
}

/// What the jobs share.
struct Shared {
    engines: Engines,
    /// Makes a contradiction durable. Workers do that at once: its block may never be answered for.
    record: Box<dyn Fn(&Contradiction) + Send + Sync>,
    row: Mutex<Row<Waiting>>,
    /// One for each worker that ever verified scripts while the others did; each has tables and lanes of
    /// its own, so that workers wait for none of them.
    idle: Mutex<Vec<Scripts>>,
    totals: Mutex<ScriptTotals>,
    /// Jobs that are queued or running, of blocks that were taken back too.
    jobs_out: AtomicUsize,
}

impl<R: Send + 'static> Verifier<R> {
    /// On the workers of `job_sender`; `record` makes a contradiction durable.
    pub(crate) fn new(
        engines: Engines,
        record: impl Fn(&Contradiction) + Send + Sync + 'static,
        job_sender: JobSender<R>,
        answer: fn(Vec<(u64, Outcome)>) -> R,
    ) -> Self {
        let (row, idle, totals, jobs_out) = Default::default();
        let record = Box::new(record);
        let shared = Arc::new(Shared { engines, record, row, idle, totals, jobs_out });
        Self { job_sender, answer, shared }
    }

    /// Jobs that are queued or running.
    pub(crate) fn jobs_out(&self) -> usize {
        self.shared.jobs_out.load(Ordering::Relaxed)
    }

    /// What was verified so far, and how.
    pub(crate) fn totals(&self) -> ScriptTotals {
        *lock(&self.shared.totals)
    }

    /// Verifies a block; the outcome is answered with its token. Its undo record is made in that format,
    /// unless it is stored already.
    pub(crate) fn verify(
        &self,
        token: u64,
        resolved: Arc<Resolved>,
        run: ScriptRun,
        undo: Option<UndoFormat>,
    ) {
        let mut scripts = Vec::new();
        let (engine_alone, crosscheck) = match run {
            ScriptRun::Skipped => (false, None),
            ScriptRun::At { unix_time, engine_alone } => {
                let txids = resolved.block().view().txids();
                split(resolved.block().first_inputs(), |tx| txids[tx], &mut scripts);
                let time = resolved.block().header().time;
                (engine_alone, self.crosscheck(time, unix_time))
            }
        };
        let mut parts = vec![Part::Rules];
        parts.extend(undo.map(Part::Undo));
        let jobs = parts.len() + scripts.len();
        let verification = Arc::new(Verification {
            token,
            resolved,
            engine_alone,
            crosscheck,
            parts_left: AtomicUsize::new(jobs),
            failure: Mutex::new(None),
            undo: Mutex::new(None),
            #[cfg(test)]
            rules_asked: AtomicUsize::new(0),
        });
        self.shared.jobs_out.fetch_add(jobs, Ordering::Relaxed);
        for part in parts {
            let verification = Arc::clone(&verification);
            self.run(move |_| {
                verification.check(&part);
                verification.part_done().into_iter().collect()
            });
        }
        let script_jobs = scripts.len();
        let mut row = lock(&self.shared.row);
        for part in scripts {
            let verification = Arc::clone(&verification);
            row.push(verification.inputs(&part), Waiting { verification, part });
        }
        drop(row);
        for _ in 0..script_jobs {
            self.run(Shared::verify_share);
        }
    }

    /// Of how many proven inputs of a block of that time the engine judges one, too.
    fn crosscheck(&self, time: u32, now: i64) -> Option<NonZeroU32> {
        let ScriptOptions { crosscheck_download, crosscheck_recent, .. } =
            self.shared.engines.options;
        match now - i64::from(time) < MAX_TIP_AGE {
            true => crosscheck_recent,
            false => crosscheck_download,
        }
    }

    fn run(&self, job: impl FnOnce(&Shared) -> Vec<(u64, Outcome)> + Send + 'static) {
        let (shared, answer) = (Arc::clone(&self.shared), self.answer);
        self.job_sender.run_part(Priority::Scripts, "verify", move || {
            let outcomes = job(&shared);
            let before = shared.jobs_out.fetch_sub(1, Ordering::Relaxed);
            // Also without an outcome where the window may have waited for just this.
            (!outcomes.is_empty() || before == SCRIPT_PARTS).then(|| answer(outcomes))
        });
    }
}

impl Shared {
    fn verify_share(&self) -> Vec<(u64, Outcome)> {
        let share = lock(&self.row).take_share(self.engines.workers.max(1));
        let (alone, together): (Vec<_>, Vec<_>) =
            share.into_iter().partition(|waiting| waiting.verification.engine_alone);
        if !alone.is_empty() {
            self.verify_together(&mut ScriptEngine::Core.start(), &alone);
        }
        if !together.is_empty() {
            let idle = lock(&self.idle).pop();
            let mut scripts = idle.unwrap_or_else(|| self.engines.options.engine.start());
            self.verify_together(&mut scripts, &together);
            // Not after a panic: claims are left in it for which nobody waits.
            lock(&self.idle).push(scripts);
        }
        let done = alone.into_iter().chain(together);
        done.filter_map(|waiting| waiting.verification.part_done()).collect()
    }

    fn verify_together(&self, scripts: &mut Scripts, share: &[Waiting]) {
        let open: Vec<&Waiting> = share.iter().filter(|waiting| !waiting.is_settled()).collect();
        let txs: Vec<Vec<SpendingTx<'_>>> = open.iter().map(|waiting| waiting.txs()).collect();
        let groups: Vec<Group<'_, '_>> =
            open.iter().zip(&txs).map(|(waiting, txs)| waiting.group(txs)).collect();
        let (inputs, checks, waited) = (scripts.counts(), scripts.check_counts(), scripts.waited());
        let start = self.engines.executor.now();
        let proofs = scripts.prove(&groups);
        let proven = self.engines.executor.now();
        let verdicts = scripts.judge(proofs);
        let judged = self.engines.executor.now();
        assert_eq!(verdicts.len(), open.len(), "what has no verdict would pass");
        for (waiting, verdict) in open.iter().zip(verdicts) {
            waiting.note(verdict, &self.record);
        }
        let mut totals = lock(&self.totals);
        totals.inputs += scripts.counts() - inputs;
        totals.checks += scripts.check_counts() - checks;
        totals.native_time += proven - start;
        // Memory that others have is waited for: no processor works meanwhile.
        totals.engine_time += (judged - proven).saturating_sub(scripts.waited() - waited);
    }
}

/// Splits the scripts of a block; `first` is as in [`Structured::first_inputs`].
fn split(first: &[u32], txid: impl Fn(usize) -> Txid, parts: &mut Vec<ScriptPart>) {
    let inputs_of = |tx: usize| (first[tx + 1] - first[tx]) as usize;
    let tx_count = first.len() - 1;
    let (mut start, mut inputs) = (1, 0);
    for tx in 1..tx_count {
        let count = inputs_of(tx);
        if count > 2 * INPUTS_PER_PART {
            if start < tx {
                parts.push(ScriptPart::Txs(start..tx));
            }
            split_inputs(tx, count, txid(tx), parts);
            (start, inputs) = (tx + 1, 0);
            continue;
        }
        inputs += count;
        if inputs >= INPUTS_PER_PART {
            parts.push(ScriptPart::Txs(start..tx + 1));
            (start, inputs) = (tx + 1, 0);
        }
    }
    if start < tx_count {
        parts.push(ScriptPart::Txs(start..tx_count));
    }
}

fn split_inputs(tx: usize, count: usize, txid: Txid, parts: &mut Vec<ScriptPart>) {
    let precomputed = Arc::new(Precomputed::of(txid));
    // Each part reads the whole transaction.
    let step = INPUTS_PER_PART.max(count.div_ceil(PARTS_PER_TX));
    for from in (0..count).step_by(step) {
        let inputs = from..count.min(from + step);
        parts.push(ScriptPart::Inputs { tx, inputs, precomputed: Arc::clone(&precomputed) });
    }
}

/// A job that panicked while holding a lock ends the chain: what it left behind is not used.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Waiting {
    /// Place of its first input in the order in which Core would meet it.
    fn place(&self) -> (usize, usize) {
        match &self.part {
            ScriptPart::Txs(txs) => (txs.start, 0),
            ScriptPart::Inputs { tx, inputs, .. } => (*tx, inputs.start),
        }
    }

    /// Whether the result cannot change the outcome any more.
    fn is_settled(&self) -> bool {
        self.verification.failed_before(self.place())
    }

    fn txs(&self) -> Vec<SpendingTx<'_>> {
        let resolved = &self.verification.resolved;
        let tx = |tx: usize, precomputed: Option<&Arc<Precomputed>>| {
            let view = resolved.block().view().tx(tx);
            let spent = resolved.spent_by(tx).iter();
            let spent = spent
                .map(|coin| SpentOutput { value: coin.value, script_pubkey: &coin.script_pubkey });
            let spending = match precomputed {
                Some(precomputed) => SpendingTx::with_precomputed(view, spent, precomputed),
                None => SpendingTx::new(view, spent),
            };
            spending.expect("a coin was found for each input")
        };
        match &self.part {
            ScriptPart::Txs(txs) => txs.clone().map(|n| tx(n, None)).collect(),
            ScriptPart::Inputs { tx: n, precomputed, .. } => vec![tx(*n, Some(precomputed))],
        }
    }

    fn group<'s, 'a>(&self, txs: &'s [SpendingTx<'a>]) -> Group<'s, 'a> {
        let works = match &self.part {
            ScriptPart::Txs(_) => {
                txs.iter().map(|tx| Work { tx, inputs: 0..tx.input_count() }).collect()
            }
            ScriptPart::Inputs { inputs, .. } => {
                txs.iter().map(|tx| Work { tx, inputs: inputs.clone() }).collect()
            }
        };
        let Verification { resolved, crosscheck, .. } = &*self.verification;
        Group { works, flags: resolved.flags(), crosscheck: *crosscheck }
    }

    /// Takes note of what was found.
    fn note(&self, verdict: Verdict, record: &dyn Fn(&Contradiction)) {
        let Err((at, error)) = verdict else { return };
        let tx = match &self.part {
            ScriptPart::Txs(txs) => txs.start + at,
            ScriptPart::Inputs { tx, .. } => *tx,
        };
        let verification = &self.verification;
        match error {
            ScriptError::Rejected { input } => verification.fail((tx, input), Failure::Script),
            ScriptError::Contradicted { input } => {
                let contradiction = Contradiction::new(&verification.resolved, tx, input);
                record(&contradiction);
                verification.contradicted(contradiction);
            }
            error => verification.fail((tx, 0), VerifyError::Engine(error)),
        }
    }
}

impl Verification {
    /// Inputs that a part checks.
    fn inputs(&self, part: &ScriptPart) -> usize {
        let first = self.resolved.block().first_inputs();
        match part {
            ScriptPart::Txs(txs) => (first[txs.end] - first[txs.start]) as usize,
            ScriptPart::Inputs { inputs, .. } => inputs.len(),
        }
    }

    /// Which rule a script that was refused breaks. To find that out costs a copy of all that the transaction
    /// spends, so it is asked once a block: not of each part that has such a script.
    fn broken_rule(&self, tx: usize, input: usize) -> Option<&'static str> {
        #[cfg(test)]
        self.rules_asked.fetch_add(1, Ordering::Relaxed);
        let spent = self.resolved.spent_by(tx);
        let spent: Vec<SpentOutput<'_>> = spent
            .iter()
            .map(|coin| SpentOutput { value: coin.value, script_pubkey: &coin.script_pubkey })
            .collect();
        let bytes = self.resolved.block().view().tx(tx).bytes();
        broken_rule(bytes, &spent, input, self.resolved.flags())
    }

    /// Counts a part; with the last one the outcome is known.
    fn part_done(&self) -> Option<(u64, Outcome)> {
        let is_last = self.parts_left.fetch_sub(1, Ordering::AcqRel) == 1;
        is_last.then(|| (self.token, self.outcome()))
    }

    fn check(&self, part: &Part) {
        match part {
            Part::Rules => {
                // Core meets all of them before it looks at any script's result.
                if let Err(reject) = self.resolved.check() {
                    self.fail((0, 0), VerifyError::Rejected(reject));
                }
            }
            Part::Undo(UndoFormat { magic, buffers }) => {
                let (block, coins) = (self.resolved.block(), self.resolved.spent().compressed());
                let prev = &block.header().prev_blockhash;
                match UndoRecord::encode(*magic, prev, coins, block.spent_counts(), buffers) {
                    Ok(undo) => *lock(&self.undo) = Some(undo),
                    Err(error) => self.fail((0, 0), VerifyError::Undo(error)),
                }
            }
        }
    }

    fn failed_before(&self, place: (usize, usize)) -> bool {
        lock(&self.failure).as_ref().is_some_and(|(found, _)| *found < place)
    }

    fn fail(&self, place: (usize, usize), error: impl Into<Failure>) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(earlier, _)| place < *earlier) {
            *failure = Some((place, error.into()));
        }
    }

    /// Goes before every other failure: no verdict on the block is believed.
    fn contradicted(&self, contradiction: Contradiction) {
        let error = VerifyError::Contradicted(Box::new(contradiction));
        *lock(&self.failure) = Some(((0, 0), error.into()));
    }

    fn outcome(&self) -> Outcome {
        let undo = lock(&self.undo).take();
        let failure = lock(&self.failure).take();
        match failure {
            Some(((tx, input), Failure::Script)) => {
                Err(VerifyError::Rejected(Reject::by_script(self.broken_rule(tx, input))))
            }
            Some((_, Failure::Other(error))) => Err(error),
            None => Ok(Verified { resolved: Arc::clone(&self.resolved), undo }),
        }
    }
}

#[cfg(test)]
mod tests;

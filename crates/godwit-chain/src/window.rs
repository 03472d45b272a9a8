//! The window: blocks that are applied to the coins and not yet connected, and the way back.
//!
//! Core does this in `ActivateBestChain`; the difference is that here the blocks of one branch
//! overlap. A change of branch waits until the window is empty, so that at most one branch is ever in
//! flight.
//!
//! ```text
//!                 tip                        applied
//!   connected ─────▼── writing ── verified ── verifying ──▼── next blocks
//!                     └──────────── the window ─────────┘
//! ```
//!
//! 1. An undo record is written only when its block and all blocks below it have passed.
//! 2. A block is connected only when that write has returned and it stands on the tip.
//! 3. When a block fails, it and all blocks above it are taken back, last first, from coins that the window
//!    still holds. A memtable may be sealed between two blocks of the window. What a block created is then
//!    in a sealed memtable, or in a run alone: it is known to be there, and is not read. Nor is a coinbase
//!    that it has overwritten (the two pairs of BIP30), which is given back. (Where such a block is
//!    disconnected, neither coinbase is left, as in Core.)
//! 4. The connector reads no coin from a disk: a tip that is to be disconnected is read back by a
//!    worker, with its undo record and the coins that it created.

mod disconnecting;

use std::collections::VecDeque;
use std::sync::{Arc, Once};

use godwit_consensus::{Reject, is_bip30_unspendable, script_flags};
use godwit_primitives::network::Deployment;
use godwit_store::StoreError;
use godwit_store::exec::Priority;
use godwit_store::utxo::{Layers, UtxoStore};

pub(crate) use disconnecting::Disconnect;
use disconnecting::{Disconnecting, Reading};

use crate::apply::{
    Below, BlockRules, Mismatch, Ready, Resolved, SpentCoins, apply, overwritten_by, unapply,
};
use crate::confirm::Confirmation;
use crate::contradiction::Contradiction;
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::BlockIndex;
use crate::job_sender::JobSender;
use crate::limits::{SCRIPT_PARTS, WINDOW_BLOCKS};
use crate::options::ScriptOptions;
use crate::own_block::ReadError;
use crate::status::ChainStatus;
use crate::structure::Structured;
use crate::tree::NodeId;
use crate::verify::{
    Engines, Outcome, Recorded, ScriptRun, UndoFormat, Verified, Verifier, VerifyError,
};

/// A block of the window.
struct Applied {
    /// Distinguishes its outcome from that of an earlier application of the same block.
    token: u64,
    resolved: Arc<Resolved>,
    /// Memory of the block and of the coins that it spent.
    bytes: usize,
    progress: Progress,
}

enum Progress {
    /// Workers run its checks.
    Verifying,
    /// It did not pass. The blocks above it can only be taken back with it.
    Failed(VerifyError),
    /// It passed, and waits for the blocks below it.
    Verified(Verified),
    /// Its undo record is being written, after those of all blocks below.
    Writing,
    /// Its undo record is written: it will be connected when it is the first.
    Recorded(Recorded),
}

/// What a job found.
pub(crate) enum Answer {
    /// The outcomes of applied blocks, by their tokens.
    Verified(Vec<(u64, Outcome)>),
    /// The tip, read back to be disconnected under this token.
    Read(u64, Result<Reading, ReadError>),
    /// Coins of the block that was refused twice are compared.
    Confirmed(Result<Box<Confirmation>, StoreError>),
}

/// What became of the first block of the window.
pub(crate) enum Retired {
    /// It is on top of the tip and is to be connected.
    Recorded(Recorded),
    /// It breaks a rule: it and the blocks above it were taken back.
    TakenBack(Arc<Resolved>, Reject),
}

/// See the module's documentation.
pub(crate) struct Window {
    blocks: VecDeque<Applied>,
    /// The last block that is applied to the coins.
    applied: NodeId,
    /// A block that could not be applied. It is judged when the window is empty: if an ancestor
    /// turns out to be invalid, it gets no verdict of its own.
    refused: Option<(NodeId, Reject)>,
    /// Its coins are being compared with their creators, because it was refused twice.
    confirming: bool,
    /// The branch that is taken, once it and the way to it were found to be stored, and how often
    /// blocks had been pruned by then.
    checked_branch: Option<(NodeId, u32)>,
    disconnecting: Option<Disconnecting>,
    /// A worker reads a tip back.
    reading: bool,
    next_token: u64,
    /// Most memory of its blocks, not counting the last one.
    limit: usize,
    verifier: Verifier<Answer>,
    job_sender: JobSender<Answer>,
}

impl Window {
    /// An empty window of at most `limit` bytes over the coins of block `applied`.
    pub(crate) fn new(
        env: &Environment,
        applied: NodeId,
        limit: usize,
        scripts: ScriptOptions,
        job_sender: JobSender<Answer>,
    ) -> Self {
        let store = Arc::clone(&env.store);
        // One file, whichever worker finds the first.
        let once = Once::new();
        let record = move |contradiction: &Contradiction| {
            once.call_once(|| contradiction.record(store.disk(), store.dir()));
        };
        let verifier = Verifier::new(
            Engines { options: scripts, executor: Arc::clone(&env.executor), workers: env.workers },
            record,
            job_sender.clone(),
            Answer::Verified,
        );
        Self {
            blocks: VecDeque::new(),
            applied,
            refused: None,
            confirming: false,
            checked_branch: None,
            disconnecting: None,
            reading: false,
            next_token: 0,
            limit,
            verifier,
            job_sender,
        }
    }

    pub(crate) fn applied(&self) -> NodeId {
        self.applied
    }

    /// Sets the block whose coins the store holds.
    pub(crate) fn set_applied(&mut self, applied: NodeId) {
        assert!(self.blocks.is_empty(), "nothing is in flight");
        self.applied = applied;
    }

    /// As [`Self::new`] sets it.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// The last applied block and the token of its verification.
    #[cfg(test)]
    pub(crate) fn newest(&self) -> Option<(u64, &Arc<Resolved>)> {
        self.blocks.back().map(|applied| (applied.token, &applied.resolved))
    }

    /// The first block whose checks run, by the token of its verification.
    #[cfg(test)]
    pub(crate) fn first_verifying(&self) -> Option<u64> {
        let verifying = |applied: &&Applied| matches!(applied.progress, Progress::Verifying);
        self.blocks.iter().find(verifying).map(|applied| applied.token)
    }

    /// Whether the undo record of an applied block is on its way to its file.
    #[cfg(test)]
    pub(crate) fn is_recording(&self, id: NodeId) -> bool {
        let is_recording =
            |progress: &Progress| matches!(progress, Progress::Writing | Progress::Recorded(_));
        self.blocks.iter().any(|block| block.resolved.id() == id && is_recording(&block.progress))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Its blocks, from the lowest up.
    pub(crate) fn above_tip(&self) -> Vec<Arc<Resolved>> {
        self.blocks.iter().map(|applied| Arc::clone(&applied.resolved)).collect()
    }

    pub(crate) fn status(&self, status: &mut ChainStatus) {
        status.memory.window = self.bytes();
        status.scripts = self.verifier.totals();
    }

    fn bytes(&self) -> usize {
        self.blocks.iter().map(|applied| applied.bytes).sum()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.blocks.len() >= WINDOW_BLOCKS
            || self.bytes() > self.limit
            || self.verifier.jobs_out() >= SCRIPT_PARTS
    }

    /// Whether a block was refused, and the blocks below it are still verified, or its coins compared.
    pub(crate) fn has_refused(&self) -> bool {
        self.refused.is_some() || self.confirming
    }

    /// Takes the block that was refused, once everything below it is connected and its coins are compared.
    pub(crate) fn take_refused(&mut self) -> Option<(NodeId, Reject)> {
        if self.blocks.is_empty() && !self.confirming { self.refused.take() } else { None }
    }

    /// Has the coins compared with their creators of a block that was refused twice, before that is believed.
    pub(crate) fn confirm(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        resolved: &Resolved,
        reject: Reject,
    ) {
        self.refused = Some((resolved.id(), reject));
        self.confirming = true;
        self.go_on_confirming(env, Box::new(Confirmation::new(index, resolved)));
    }

    fn go_on_confirming(&self, env: &Environment, confirmation: Box<Confirmation>) {
        let (store, hasher) = (Arc::clone(&env.store), env.hasher);
        self.job_sender.run(Priority::Urgent, "confirm", move || {
            Answer::Confirmed(confirmation.go_on(&store, &hasher).map(Box::new))
        });
    }

    fn confirmed(
        &mut self,
        env: &Environment,
        confirmation: Box<Confirmation>,
    ) -> Result<(), ChainError> {
        if let Some(outpoint) = confirmation.wrong() {
            return Err(ChainError::ChangedCoin(outpoint));
        }
        self.confirming = !confirmation.is_done();
        if self.confirming {
            self.go_on_confirming(env, confirmation);
        }
        Ok(())
    }

    /// Applies a block to the coins and starts its verification, or takes note that it is refused.
    pub(crate) fn apply(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        ready: Ready,
        run: ScriptRun,
    ) {
        let Ready { id, block, prefetched, .. } = ready;
        let tree = index.tree();
        let median_time_past = |height| {
            let block = tree.ancestor(id, height).expect("coins come from below the block");
            tree.median_time_past(block)
        };
        let node = index.node(id);
        let rules = BlockRules {
            height: node.height,
            flags: script_flags(node.height, &node.hash, &env.params),
            sequence_locks: env.params.is_active(Deployment::Csv, node.height),
            no_overwrite: index.enforces_bip30(id),
            prev_median_time_past: median_time_past(node.height - 1),
            params: Arc::clone(&env.params),
        };
        let pin = prefetched.pin.clone();
        let result = coins
            .pinned(&pin, |coins| apply(coins, id, block, prefetched, rules, &median_time_past));
        match result.expect("the look-ahead hands out only blocks whose pin is covered") {
            Ok(resolved) => self.verify(env, index, resolved, run),
            Err(reject) => self.refused = Some((id, reject)),
        }
    }

    fn verify(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        resolved: Resolved,
        run: ScriptRun,
    ) {
        self.next_token += 1;
        let (token, id) = (self.next_token, resolved.id());
        let bytes = resolved.spent().bytes() + resolved.block().memory();
        let resolved = Arc::new(resolved);
        let buffers = env.store.block_buffers().clone();
        let format = UndoFormat { magic: env.params.magic, buffers };
        let needs_undo = index.node(id).undo.is_none() || index.damaged.has_rotted_undo(id);
        let undo = needs_undo.then_some(format);
        self.verifier.verify(token, Arc::clone(&resolved), run, undo);
        let progress = Progress::Verifying;
        self.blocks.push_back(Applied { token, resolved, bytes, progress });
        self.applied = id;
    }

    /// A job has answered; `layers` are those of now. An answer about a block that was taken back
    /// meanwhile, or a tip that is no longer to be disconnected, is ignored. Returns a block whose bytes
    /// are damaged.
    pub(crate) fn answered(
        &mut self,
        env: &Environment,
        index: &BlockIndex,
        layers: Arc<Layers>,
        answer: Answer,
    ) -> Result<Option<NodeId>, ChainError> {
        match answer {
            Answer::Verified(outcomes) => {
                for (token, outcome) in outcomes {
                    self.verified(token, outcome)?;
                }
            }
            Answer::Read(token, read) => {
                return self.read_answered(env, index, layers, token, read);
            }
            Answer::Confirmed(compared) => self.confirmed(env, compared?)?,
        }
        Ok(None)
    }

    fn verified(&mut self, token: u64, outcome: Outcome) -> Result<(), ChainError> {
        let progress = match outcome {
            Ok(verified) => Progress::Verified(verified),
            // At once, whatever becomes of the blocks below: nothing that was verified is believed.
            Err(VerifyError::Contradicted(contradiction)) => {
                return Err(ChainError::ScriptContradiction(contradiction));
            }
            Err(error) => Progress::Failed(error),
        };
        let applied = self.blocks.iter_mut().find(|applied| applied.token == token);
        if let Some(applied) = applied {
            applied.progress = progress;
        }
        Ok(())
    }

    /// Takes the next verified block whose undo record can be written, because those of all blocks
    /// below it are written or being written (rule 1).
    pub(crate) fn next_to_record(&mut self) -> Option<Verified> {
        let on_its_way =
            |progress: &Progress| matches!(progress, Progress::Writing | Progress::Recorded(_));
        let next = self.blocks.iter_mut().find(|applied| !on_its_way(&applied.progress))?;
        match std::mem::replace(&mut next.progress, Progress::Writing) {
            Progress::Verified(verified) => Some(verified),
            other => {
                next.progress = other;
                None
            }
        }
    }

    /// The undo record of a block is written.
    pub(crate) fn recorded(&mut self, recorded: Recorded) {
        let id = recorded.id();
        let applied = self.blocks.iter_mut().find(|applied| applied.resolved.id() == id);
        let applied = applied.expect("what is being written is not taken back");
        assert!(matches!(applied.progress, Progress::Writing), "written once");
        applied.progress = Progress::Recorded(recorded);
    }

    /// Takes the first block out, if it can be connected or did not pass.
    pub(crate) fn retire(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
    ) -> Result<Option<Retired>, ChainError> {
        let is_done =
            |front: &Applied| matches!(front.progress, Progress::Recorded(_) | Progress::Failed(_));
        if !self.blocks.front().is_some_and(is_done) {
            return Ok(None);
        }
        let Some(front) = self.blocks.pop_front() else { return Ok(None) };
        match front.progress {
            Progress::Recorded(recorded) => Ok(Some(Retired::Recorded(recorded))),
            Progress::Failed(VerifyError::Rejected(reject)) => {
                while let Some(above) = self.blocks.pop_back() {
                    self.take_back(index, coins, &above.resolved)?;
                }
                self.take_back(index, coins, &front.resolved)?;
                // A refused block above it gets no verdict.
                self.refused = None;
                Ok(Some(Retired::TakenBack(front.resolved, reject)))
            }
            Progress::Failed(VerifyError::Engine(error)) => Err(ChainError::Engine(error)),
            Progress::Failed(VerifyError::Undo(error)) => Err(error.into()),
            // Returned when it was answered.
            Progress::Failed(VerifyError::Contradicted(contradiction)) => {
                Err(ChainError::ScriptContradiction(contradiction))
            }
            Progress::Verifying | Progress::Verified(_) | Progress::Writing => {
                unreachable!("just seen")
            }
        }
    }

    fn take_back(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        resolved: &Resolved,
    ) -> Result<(), ChainError> {
        let (id, block, spent) = (resolved.id(), resolved.block(), resolved.spent());
        let node = index.node(id);
        let overwritten = overwritten_by(node.height, &node.hash);
        self.unapply(index, coins, id, block, spent, Below::AsCreated { overwritten })
    }

    /// Takes back the failed blocks at the end, but for those whose undo records are on their way to their
    /// files: these are connected first, and then disconnected.
    pub(crate) fn take_back_failed(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
    ) -> Result<(), ChainError> {
        let failed = |id: NodeId| index.node(id).failed;
        self.refused.take_if(|(id, _)| failed(*id));
        while let Some(last) = self.blocks.back()
            && failed(last.resolved.id())
            && !matches!(last.progress, Progress::Writing | Progress::Recorded(_))
        {
            let resolved = Arc::clone(&last.resolved);
            self.blocks.pop_back();
            self.take_back(index, coins, &resolved)?;
        }
        Ok(())
    }

    /// Takes all blocks back: the chain ends.
    pub(crate) fn give_up(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
    ) -> Result<(), ChainError> {
        while let Some(last) = self.blocks.pop_back() {
            self.take_back(index, coins, &last.resolved)?;
        }
        self.refused = None;
        Ok(())
    }

    fn unapply(
        &mut self,
        index: &BlockIndex,
        coins: &mut UtxoStore,
        id: NodeId,
        block: &Structured,
        spent: &SpentCoins,
        below: Below<'_>,
    ) -> Result<(), ChainError> {
        let node = index.node(id);
        // A coinbase that a later one overwrote is missing (the two pairs of BIP30).
        let overwritten = is_bip30_unspendable(node.height, &node.hash);
        let mismatch = if overwritten { Mismatch::Tolerated } else { Mismatch::Reported };
        if !unapply(coins, block, spent, node.height, mismatch, below) {
            return Err(ChainError::DamagedUndo(node.hash));
        }
        self.applied = node.parent().expect("genesis is never applied");
        Ok(())
    }

    /// Whether the way to `target` is there: all blocks of its branch are stored, and the active chain can be
    /// left for it; `lowest` is the lowest block of the active chain that is stored, `prunings` how often
    /// blocks were deleted. Where a block of the branch is missing, `target`, which is the best candidate, is
    /// set aside until that one has come (Core `FindMostWorkChain`).
    ///
    /// # Errors
    ///
    /// The two chains part below what can be taken back, or a block is missing that was verified and is to be
    /// applied again.
    pub(crate) fn prepare_way(
        &mut self,
        index: &mut BlockIndex,
        target: NodeId,
        lowest: u32,
        prunings: u32,
    ) -> Result<bool, ChainError> {
        if self.checked_branch == Some((target, prunings)) {
            return Ok(true);
        }
        let tree = index.tree();
        let fork = tree.fork(self.applied, target);
        // A branch that grows is walked down once.
        let known = self.checked_branch.filter(|(_, before)| *before == prunings);
        let known = known.map(|(known, _)| known).filter(|known| {
            index.height(*known) > index.height(fork) && tree.is_ancestor(*known, target)
        });
        let end = known.unwrap_or(fork);
        let missing = tree.walk_stored(target, end);
        if missing != end {
            if index.best() != Some(target) {
                return Err(ChainError::DamagedIndex(index.node(missing).hash));
            }
            index.set_aside(missing, target);
            return Ok(false);
        }
        if fork != self.applied {
            let fork = index.height(fork);
            if let Some(assumed) = index.assumed()
                && fork < assumed.base.height
            {
                return Err(ChainError::ForkBelowSnapshot { fork, base: assumed.base });
            }
            if fork + 1 < lowest {
                return Err(ChainError::ForkBelowPruned { fork, lowest });
            }
        }
        self.checked_branch = Some((target, prunings));
        Ok(true)
    }
}

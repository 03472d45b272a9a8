//! Moving the tip: which block is next, applying it, retiring it when its scripts have passed, and
//! taking blocks back.
//!
//! Core does this in `ActivateBestChain`; the difference is that here the blocks of one branch
//! overlap. A change of branch waits until the window is empty, so that at most one branch is ever in
//! flight.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crossbeam_channel::RecvTimeoutError;
use godwit_consensus::{
    AssumedBlock, Reject, ScriptCheckReason, Standing, enforces_bip30, is_bip30_unspendable,
    script_check_reason, script_flags,
};
use godwit_primitives::network::Deployment;
use godwit_primitives::{BlockHash, ScriptFlags};
use godwit_store::{BlockUndo, UndoRecord};

use crate::apply::{ApplyError, BlockRules, Mismatch, Prefetched, SpentCoins, apply, unapply};
use crate::chain::{Applied, Chain};
use crate::error::ChainError;
use crate::event::{Connected, Event};
use crate::message::{Message, send};
use crate::structure::Structured;
use crate::tree::{NodeId, Validity};
use crate::verify::{Needs, Outcome, Resolved, VerifyError, verify};

/// Blocks applied whose scripts still run.
const WINDOW_BLOCKS: usize = 32;

/// Bytes of the coins that the blocks in the window spent, the last block aside.
const WINDOW_COIN_BYTES: usize = 64 << 20;

/// Longest time without a look at the stop flag.
const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something changed; there may be more to do.
    Progress,
    /// Nothing can be done before a worker or the commit thread reports.
    Waiting,
    /// The tip is the best candidate and everything about it is verified.
    Idle,
}

impl Chain {
    /// Does what can be done without waiting, one step at a time.
    pub(crate) fn step(&mut self) -> Result<Step, ChainError> {
        self.check_threads()?;
        while let Ok(message) = self.inbox.try_recv() {
            self.receive(message)?;
        }
        if self.retire()? || self.maintain()? {
            return Ok(Step::Progress);
        }
        if let Some((id, reject)) = self.refused {
            if !self.window.is_empty() {
                return Ok(Step::Waiting);
            }
            self.reject(id, reject)?;
            return Ok(Step::Progress);
        }
        let stopped = self.reached_stop_height();
        let best = if self.known_only { self.replay } else { self.candidates.best() };
        let target = match best {
            Some(best) if best != self.applied && !stopped => best,
            _ if self.window.is_empty() => {
                // What is connectable is connected; the rest of an import is read back when its turn
                // comes.
                self.cache.release_permits();
                return Ok(Step::Idle);
            }
            _ => return Ok(Step::Waiting),
        };
        if !self.tree.is_ancestor(self.applied, target) {
            if !self.window.is_empty() {
                return Ok(Step::Waiting);
            }
            self.ahead.clear();
            if self.can_switch_to(target)? {
                self.disconnect_tip()?;
            }
            return Ok(Step::Progress);
        }
        self.look_ahead(target)?;
        if self.wants_flush() || self.window_is_full() {
            return Ok(Step::Waiting);
        }
        match self.take_ready() {
            Some((id, block, prefetched)) => self.apply_next(id, block, prefetched),
            None => Ok(Step::Waiting),
        }
    }

    /// Waits for one message, and not for long, so that whoever drives the chain can look whether it
    /// is to stop.
    pub(crate) fn wait(&mut self) -> Result<(), ChainError> {
        self.check_threads()?;
        let start = Instant::now();
        let message = self.inbox.recv_timeout(LONGEST_WAIT);
        self.times.wait += start.elapsed();
        match message {
            Ok(message) => self.receive(message),
            Err(RecvTimeoutError::Timeout) => Ok(()),
            Err(RecvTimeoutError::Disconnected) => {
                unreachable!("the chain holds a sender itself")
            }
        }
    }

    /// Runs until the best candidate is the tip and verified.
    pub fn settle(&mut self) -> Result<(), ChainError> {
        loop {
            match self.step()? {
                Step::Progress => {}
                Step::Waiting => self.wait()?,
                Step::Idle => return Ok(()),
            }
        }
    }

    pub(crate) fn receive(&mut self, message: Message) -> Result<(), ChainError> {
        match message {
            Message::Loaded { token, block } => self.loaded(token, block)?,
            Message::Fetched { token, prefetched } => self.fetched(token, prefetched)?,
            Message::Verified { token, outcome } => self.note_outcome(token, outcome),
            Message::Committed(manifest) => {
                if let Some(manifest) = manifest? {
                    self.utxo.committed(manifest)?;
                }
                self.committer.idle();
                self.durable_headers = self.headers_in_commit;
            }
            Message::Received { sequence, received } => {
                self.arrivals.insert(sequence, received);
            }
            Message::Arrived(arrival) => self.note_arrival(arrival),
            Message::Read { ticket, bytes } => self.note_read(ticket, bytes),
            Message::ReaderFailed(error) => return Err(error.into()),
            Message::Panicked => {
                self.panicked = true;
                return self.check_threads();
            }
        }
        Ok(())
    }

    /// Fails for good once a thread has panicked: a wait for what it was to report would have no end.
    pub(crate) fn check_threads(&self) -> Result<(), ChainError> {
        if self.panicked { Err(ChainError::ThreadPanicked) } else { Ok(()) }
    }

    /// Whether connecting has reached `-stopatheight`.
    pub(crate) fn reached_stop_height(&self) -> bool {
        let height = self.tree.node(self.applied).height;
        self.options.stop_at_height.is_some_and(|stop| height >= stop)
    }

    fn window_is_full(&self) -> bool {
        let bytes: usize = self.window.iter().map(|applied| applied.coin_bytes).sum();
        self.window.len() >= WINDOW_BLOCKS || bytes > WINDOW_COIN_BYTES
    }

    fn apply_next(
        &mut self,
        id: NodeId,
        block: Arc<Structured>,
        prefetched: Option<Prefetched>,
    ) -> Result<Step, ChainError> {
        let start = Instant::now();
        let scripts = self.needs_scripts(id);
        let tree = &self.tree;
        let median_time_past = |height| {
            let block = tree.ancestor(id, height).expect("coins come from below the block");
            tree.median_time_past(block)
        };
        let node = tree.node(id);
        let flags = script_flags(node.height, &node.hash, &self.params);
        let rules = BlockRules {
            height: node.height,
            flags,
            sequence_locks: self.params.is_active(Deployment::Csv, node.height),
            no_overwrite: self.enforces_bip30(id),
            prev_median_time_past: median_time_past(node.height - 1),
            median_time_past: &median_time_past,
            params: &self.params,
        };
        let result = apply(&mut self.utxo, &block, prefetched, &rules);
        self.times.apply += start.elapsed();
        match result {
            Ok(spent) => self.start_verification(id, block, spent, flags, scripts),
            Err(ApplyError::Rejected(reject)) => self.refused = Some((id, reject)),
            Err(ApplyError::Store(error)) => return Err(error.into()),
        }
        Ok(Step::Progress)
    }

    pub(crate) fn enforces_bip30(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        let ancestor = |height| {
            let id = self.tree.ancestor(id, height).expect("asked for heights below the block");
            self.tree.node(id).hash
        };
        enforces_bip30(node.height, &node.hash, &ancestor, &self.params)
    }

    /// Whether the scripts of a block still have to run: not where they ran before, and not below
    /// the assumed block under Core's conditions.
    fn needs_scripts(&mut self, id: NodeId) -> bool {
        if self.tree.node(id).validity == Validity::Scripts {
            return false;
        }
        let reason = self.script_check_reason(id);
        let scripts = reason.is_some();
        if self.script_state != Some(scripts) {
            self.script_state = Some(scripts);
            let godwit_store::ChainPoint { hash, height } = self.point(id);
            match reason {
                Some(reason) => log::info!(
                    "Enabling script verification at block #{height} ({hash}): {reason}."
                ),
                None => log::info!("Disabling script verification at block #{height} ({hash})."),
            }
        }
        scripts
    }

    fn script_check_reason(&self, id: NodeId) -> Option<ScriptCheckReason> {
        let assumed = match self.options.assume_valid {
            None => AssumedBlock::None,
            Some(hash) => match self.tree.find(&hash) {
                None => AssumedBlock::Unknown,
                Some(assumed) => AssumedBlock::Known {
                    height: self.tree.node(assumed).height,
                    descends: self.tree.is_ancestor(id, assumed),
                },
            },
        };
        let best = self.tree.best_header();
        let standing = Standing {
            height: self.tree.node(id).height,
            in_best_chain: self.tree.is_ancestor(id, best),
            chain_work: self.tree.node(id).chain_work,
            best_chain_work: self.tree.node(best).chain_work,
            best_bits: self.tree.node(best).header.bits,
        };
        script_check_reason(assumed, &standing, self.params.minimum_chain_work, &self.params)
    }

    fn start_verification(
        &mut self,
        id: NodeId,
        block: Arc<Structured>,
        spent: SpentCoins,
        flags: ScriptFlags,
        scripts: bool,
    ) {
        let token = self.token();
        let magic = self.params.magic;
        let coin_bytes = spent.bytes();
        let buffers = self.store.block_buffers().clone();
        let resolved = Arc::new(Resolved { block, spent, flags, magic, buffers });
        let needs = Needs { scripts, undo: self.tree.node(id).undo.is_none() };
        let outbox = self.outbox.clone();
        let report = move |outcome| send(&outbox, Message::Verified { token, outcome });
        let cancelled = Arc::clone(&self.cancelled);
        verify(&self.workers, Arc::clone(&resolved), needs, cancelled, report);
        self.window.push_back(Applied { id, token, resolved, coin_bytes, outcome: None });
        self.applied = id;
        self.cache.forget_up_to(self.tree.node(id).height);
    }

    fn note_outcome(&mut self, token: u64, outcome: Outcome) {
        if let Some(applied) = self.window.iter_mut().find(|applied| applied.token == token) {
            applied.outcome = Some(outcome);
        }
    }

    /// Connects the blocks at the window's front whose checks are done; whether there were any.
    fn retire(&mut self) -> Result<bool, ChainError> {
        let mut any = false;
        while let Some(outcome) = self.window.front_mut().and_then(|front| front.outcome.take()) {
            any = true;
            let Some(Applied { id, resolved, .. }) = self.window.pop_front() else { break };
            match outcome {
                Ok(undo) => self.connected(id, &resolved, undo)?,
                Err(VerifyError::Rejected(reject)) => {
                    while let Some(above) = self.window.pop_back() {
                        self.unapply(above.id, &above.resolved.block, &above.resolved.spent)?;
                    }
                    self.unapply(id, &resolved.block, &resolved.spent)?;
                    self.reject(id, reject)?;
                }
                Err(VerifyError::Engine(error)) => return Err(ChainError::Engine(error)),
                Err(VerifyError::Undo(error)) => return Err(error.into()),
                Err(VerifyError::Panicked) => self.receive(Message::Panicked)?,
            }
        }
        Ok(any)
    }

    fn connected(
        &mut self,
        id: NodeId,
        resolved: &Resolved,
        undo: Option<UndoRecord>,
    ) -> Result<(), ChainError> {
        let node = self.tree.node(id);
        if let Some(undo) = undo {
            let start = Instant::now();
            let block = node.position.expect("stored before it was applied");
            let position = self.store.reserve_undo(block, &undo);
            self.store.note_written(self.store.write_undo(position, &undo)?);
            self.tree.node_mut(id).undo = Some(position);
            self.times.undo += start.elapsed();
        }
        let node = self.tree.node_mut(id);
        let verified_before = node.validity == Validity::Scripts;
        node.validity = Validity::Scripts;
        self.note_replayed(id, verified_before);
        self.tip = id;
        self.blocks_since_commit += 1;
        self.candidates.prune(&self.tree, id);
        let (point, bytes) = (self.point(id), resolved.block.view().total_size());
        self.events.push_back(Event::Connected(Connected { point, bytes }));
        Ok(())
    }

    fn unapply(
        &mut self,
        id: NodeId,
        block: &Structured,
        spent: &SpentCoins,
    ) -> Result<(), ChainError> {
        let node = self.tree.node(id);
        // A coinbase that a later one overwrote is not there (BIP30's two pairs).
        let overwritten = is_bip30_unspendable(node.height, &node.hash);
        let mismatch = if overwritten { Mismatch::Tolerated } else { Mismatch::Reported };
        if !unapply(&mut self.utxo, block, spent, node.height, mismatch)? {
            return Err(ChainError::DamagedUndo(node.hash));
        }
        self.applied = node.parent().expect("genesis is never applied");
        Ok(())
    }

    /// Disconnects the tip, which is verified, with its undo record.
    fn disconnect_tip(&mut self) -> Result<(), ChainError> {
        let id = self.applied;
        let node = self.tree.node(id);
        let hash = node.hash;
        let (Some(position), Some(undo)) = (node.position, node.undo) else {
            return Err(ChainError::DamagedIndex(hash));
        };
        let prev = node.header.prev_blockhash;
        let bytes = self.store.read_block(position)?;
        let block = Structured::from_own_file(bytes, hash, None, &self.hasher())
            .ok_or(ChainError::DamagedBlock(hash))?;
        let undo = self.store.read_undo(undo, &prev)?;
        let spent = spent_coins(&block, undo).ok_or(ChainError::DamagedUndo(hash))?;
        self.unapply(id, &block, &spent)?;
        self.tip = self.applied;
        self.events.push_back(Event::Disconnected(self.point(id)));
        Ok(())
    }

    fn reject(&mut self, id: NodeId, reject: Reject) -> Result<(), ChainError> {
        self.refused = None;
        let node = self.tree.node(id);
        let hash: BlockHash = node.hash;
        if node.validity == Validity::Scripts {
            return Err(ChainError::Contradiction(hash, reject));
        }
        log::warn!("ConnectBlock {hash} failed: {reject}");
        self.events.push_back(Event::Invalid { hash, reject });
        self.fail(id, reject);
        self.ahead.clear();
        Ok(())
    }

    /// Gives up what is in flight: nothing of the window is connected.
    pub(crate) fn cancel(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

/// The coins of an undo record, if they fit the block.
fn spent_coins(block: &Structured, undo: BlockUndo) -> Option<SpentCoins> {
    let inputs = block.view().txs().skip(1).map(|tx| tx.input_count());
    if !inputs.eq(undo.transactions().map(|coins| coins.len())) {
        return None;
    }
    let mut first = vec![0, 0];
    let mut end = 0;
    for coins in undo.transactions() {
        end += coins.len() as u32;
        first.push(end);
    }
    Some(SpentCoins { coins: undo.into_coins(), first })
}

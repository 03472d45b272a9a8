//! The history: the blocks below a loaded snapshot's, validated from genesis by coins of their own.
//!
//! ```text
//!   genesis              history tip          base                    tip
//!   ───┤ these coins follow ──┤ to be validated ──┤ coins of the snapshot ──┤
//!      └─ lookahead, window, coins of this station  └─ those of the chain
//! ```
//!
//! 1. The tip goes first: nothing of the history is applied while something can be applied to the chain.
//! 2. A block goes the same way as one of the chain, through a look-ahead, a window and the appender, by the
//!    same rules, and gets a second look before it is refused. Its scripts run unless they ran before or are
//!    taken as valid.
//! 3. What a restart goes on from are coins that a commit has named with their block. Blocks above it that
//!    were connected are applied again without scripts, and within the same bound as those of the chain.
//! 4. At the snapshot's block the coins are hashed, from runs alone. If the hash is the snapshot's, one
//!    commit takes the assumption away with these coins; what lies above has then been validated, too.
//!    Otherwise, or when a block of the history is invalid, one commit says so and forgets these coins, and
//!    the process ends; the next start validates it again. If that ends so too, no later start goes on.
//! 5. Damage to these coins is no reason to disbelieve a snapshot: they are forgotten, and the next start
//!    begins again, without scripts up to where they ran. This process goes on without.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use godwit_consensus::Reject;
use godwit_store::utxo::{Layers, ManifestId, Rotation, UtxoStore};
use godwit_store::{HistoryCoins, HistoryCommit, Refutation, StoreError};

use crate::appender::Appender;
use crate::durability::Durability;
use crate::durability::flushes::Flush;
use crate::durability::writing::{Application, Writing};
use crate::environment::Environment;
use crate::error::ChainError;
use crate::goal::Goal;
use crate::index::{BlockIndex, HistoryProgress, HistorySpan, Stored, assumed};
use crate::job_sender::JobSender;
use crate::limits::AHEAD_BLOCKS;
use crate::lookahead::Lookahead;
use crate::second_look::log_untrusted;
use crate::status::ChainStatus;
use crate::tree::{NodeId, Validity};
use crate::verify::ScriptRun;
use crate::window::{Retired, Window};

/// Blocks that the tip may be behind the best header for the history to get half of the coins' memory.
const CAUGHT_UP: u32 = 144;

/// Of so many bytes for coins those of the history, while the tip is so many blocks behind the best header.
/// They are given back with the last commit.
pub(crate) fn share(coins: u64, behind: u32) -> u64 {
    if behind > CAUGHT_UP { coins / 8 } else { coins / 2 }
}

/// The hash of the coins at the snapshot's block.
pub(crate) struct Answer(pub(crate) Result<[u8; 32], ChainError>);

enum Stage {
    Connecting,
    /// All coins are on disk.
    Ended,
    /// A job hashes the coins.
    Hashing,
    Hashed([u8; 32]),
}

/// What a turn did.
pub(crate) enum Turn {
    Moved(bool),
    /// The coins at the snapshot's block are on disk, and to be hashed.
    Ended,
    /// The coins are the snapshot's.
    Validated,
    Refuted(Refutation),
}

/// The stations that the history shares with the chain.
pub(crate) struct Shared<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) index: &'a mut BlockIndex,
    pub(crate) appender: &'a mut Appender,
    pub(crate) durability: &'a mut Durability,
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Nothing can be applied to the chain.
    pub(crate) chain_rests: bool,
}

/// See the module's documentation.
pub(crate) struct History {
    pub(crate) coins: UtxoStore,
    pub(crate) lookahead: Lookahead,
    pub(crate) window: Window,
    /// Which scripts run, and which block gets a second look.
    goal: Goal,
    /// The last block that is known to be stored with all between it and the window.
    stored: NodeId,
    writing: Writing,
    flush: Option<Flush>,
    /// What the commit that is under way will have made durable.
    committing: Option<(ManifestId, NodeId)>,
    /// The block whose coins are on disk.
    durable: NodeId,
    stage: Stage,
    /// Tells the job that hashes its coins that nobody waits for it any more.
    pub(crate) given_up: Arc<AtomicBool>,
    job_sender: JobSender<Answer>,
}

/// What the history has of its own, as the chain has it, too.
pub(crate) struct HistoryStations {
    pub(crate) lookahead: Lookahead,
    pub(crate) window: Window,
    pub(crate) goal: Goal,
    pub(crate) writing: Writing,
}

impl History {
    /// Of `coins`, which are on disk and those of block `tip`.
    pub(crate) fn new(
        tip: NodeId,
        coins: UtxoStore,
        stations: HistoryStations,
        job_sender: JobSender<Answer>,
    ) -> Self {
        let HistoryStations { lookahead, window, goal, writing } = stations;
        Self {
            coins,
            lookahead,
            window,
            goal,
            stored: tip,
            writing,
            flush: None,
            committing: None,
            durable: tip,
            stage: Stage::Connecting,
            given_up: Arc::default(),
            job_sender,
        }
    }

    /// Does what can be done without waiting, a little at a time.
    pub(crate) fn advance(&mut self, with: &mut Shared<'_>) -> Result<Turn, ChainError> {
        match self.stage {
            Stage::Connecting => {}
            Stage::Ended => return Ok(Turn::Ended),
            Stage::Hashing => return Ok(Turn::Moved(false)),
            Stage::Hashed(found) => {
                let assumed = with.index.assumed().expect("until it is validated");
                return Ok(match found == assumed.utxo_hash {
                    true => Turn::Validated,
                    false => Turn::Refuted(Refutation::OtherCoins(found)),
                });
            }
        }
        let mut any = false;
        if with.chain_rests {
            self.look_ahead(with)?;
            any |= self.apply_next(with);
        }
        any |= self.record_verified(with);
        while let Some(retired) = self.window.retire(with.index, &mut self.coins)? {
            any = true;
            if let Some(refutation) = self.retired(with, retired)? {
                return Ok(Turn::Refuted(refutation));
            }
        }
        if let Some((id, reject)) = self.window.take_refused() {
            any = true;
            if let Some(refutation) = self.reject(with.index, id, reject)? {
                return Ok(Turn::Refuted(refutation));
            }
        }
        any |= self.maintain(with)?;
        Ok(Turn::Moved(any))
    }

    /// The block that the look-ahead leads to: the last one before the first that is not stored.
    fn target(&mut self, index: &BlockIndex) -> Option<NodeId> {
        if self.window.has_refused() {
            return None;
        }
        let (applied, span) = (self.window.applied(), index.history()?);
        let end = index.height(applied).saturating_add(2 * AHEAD_BLOCKS as u32);
        if index.height(self.stored) < index.height(applied) {
            self.stored = applied;
        }
        while index.height(self.stored) < end.min(index.height(span.base)) {
            let next = index.tree().ancestor(span.base, index.height(self.stored) + 1)?;
            if index.node(next).position.is_none() {
                break;
            }
            self.stored = next;
        }
        let target = self.goal.doubted().unwrap_or(self.stored);
        (target != applied).then_some(target)
    }

    fn look_ahead(&mut self, with: &Shared<'_>) -> Result<(), ChainError> {
        let Some(target) = self.target(with.index) else { return Ok(()) };
        let (applied, doubted) = (self.window.applied(), self.goal.doubted());
        self.lookahead.fill(with.index, &self.coins, applied, target, doubted)
    }

    fn wants_rotation(&self) -> bool {
        self.coins.wants_rotation()
            || self.writing.must_seal(self.coins.unsealed(), self.coins.write_rate())
    }

    fn apply_next(&mut self, with: &Shared<'_>) -> bool {
        if self.window.is_full() || self.window.has_refused() || self.wants_rotation() {
            return false;
        }
        let Shared { env, index, now, .. } = with;
        let start = env.now();
        let Some(ready) = self.lookahead.take_ready(index, &self.coins) else { return false };
        let id = ready.id;
        let bytes = ready.block.view().total_size() as u64;
        let below = ready.prefetched.coins.iter().flatten().count();
        let scripts = self.goal.scripts_for(index, &env.params, id);
        self.goal.log_script_change(index, id, scripts);
        let run = ScriptRun::of(scripts, *now, ready.again);
        self.window.apply(env, index, &mut self.coins, ready, run);
        self.writing.note_read(self.lookahead.take_reads());
        self.writing.note_applied(Application { took: env.now() - start, bytes, below }, *now);
        self.lookahead.forget_up_to(index.height(self.window.applied()));
        true
    }

    /// As the chain does it: strictly in height order.
    fn record_verified(&mut self, with: &mut Shared<'_>) -> bool {
        let mut any = false;
        while let Some(verified) = self.window.next_to_record() {
            any = true;
            let block = with.index.node(verified.id()).position;
            let block = block.expect("stored before it was applied");
            if let Some(recorded) = with.appender.append_undo(with.env, verified, block) {
                self.window.recorded(recorded);
            }
        }
        any
    }

    fn retired(
        &mut self,
        with: &mut Shared<'_>,
        retired: Retired,
    ) -> Result<Option<Refutation>, ChainError> {
        match retired {
            Retired::Recorded(recorded) => {
                let id = recorded.id();
                assumed::connect(with.index, &recorded);
                if let Some(first) = self.goal.clear_doubt(id) {
                    log_untrusted(with.index.node(id).hash, first);
                }
                if let Some(flush) = self.flush.as_mut().filter(|flush| flush.tip == id) {
                    flush.connected = true;
                }
                Ok(None)
            }
            Retired::TakenBack(resolved, reject) => {
                let (id, applied) = (resolved.id(), self.window.applied());
                let holds_one = |flush: &mut Flush| {
                    !flush.connected && !with.index.tree().is_ancestor(flush.tip, applied)
                };
                if self.flush.take_if(holds_one).is_some() {
                    self.writing.note_given_up();
                }
                if self.goal.doubted() == Some(id) {
                    self.window.confirm(with.env, with.index, &resolved, reject);
                    return Ok(None);
                }
                self.reject(with.index, id, reject)
            }
        }
    }

    /// A block is refused: for good, if it was at a second look.
    fn reject(
        &mut self,
        index: &BlockIndex,
        id: NodeId,
        reject: Reject,
    ) -> Result<Option<Refutation>, ChainError> {
        let hash = index.node(id).hash;
        self.lookahead.forget(index, &[id]);
        if self.goal.doubt(id, reject) {
            log::warn!("Block {hash} is refused ({reject}): it is looked at again.");
            return Ok(None);
        }
        if index.node(id).validity == Validity::Scripts {
            return Err(ChainError::Contradiction(hash, reject));
        }
        log::error!("ConnectBlock {hash} failed: {reject}");
        Ok(Some(Refutation::InvalidBlock(index.point(id))))
    }

    /// Seals coins, hands over to a commit what is written, and has the last ones hashed.
    fn maintain(&mut self, with: &mut Shared<'_>) -> Result<bool, ChainError> {
        let is_written = |flush: &mut Flush| flush.connected && self.coins.flushed() >= flush.seal;
        if let Some(Flush { seal, tip, .. }) = self.flush.take_if(is_written) {
            let (id, manifest) = self.coins.manifest(seal);
            let mut encoded = godwit_stream::DataStream::new();
            encoded.put(&manifest);
            self.committing = Some((id, tip));
            let (tip, manifest) = (with.index.point(tip), encoded.into_vec());
            let coins = HistoryCoins { tip, manifest };
            with.durability.commit_history(HistoryCommit::Coins(coins), None);
            return Ok(true);
        }
        if self.flush.is_some() || self.committing.is_some() {
            return Ok(false);
        }
        let Some(HistorySpan { tip, base }) = with.index.history() else { return Ok(false) };
        let is_at_end = tip == base && self.window.is_empty();
        if is_at_end && self.durable == base {
            self.stage = Stage::Ended;
            return Ok(true);
        }
        if !is_at_end && !self.wants_rotation() && !self.writing.interval_is_over(with.now) {
            return Ok(false);
        }
        let Rotation::Sealed(seal) = self.coins.rotate()? else { return Ok(false) };
        let applied = self.window.applied();
        self.flush = Some(Flush { seal, tip: applied, connected: applied == tip });
        self.writing.note_sealed();
        Ok(true)
    }

    /// The coins at the snapshot's block, as they lie on disk, and where the job runs that hashes them.
    pub(crate) fn begin_hashing(&mut self) -> (Arc<Layers>, &JobSender<Answer>, Arc<AtomicBool>) {
        self.stage = Stage::Hashing;
        (self.coins.layers(), &self.job_sender, Arc::clone(&self.given_up))
    }

    /// A job has hashed the coins.
    pub(crate) fn hashed(&mut self, Answer(found): Answer) -> Result<(), ChainError> {
        self.stage = match found {
            // The chain is being closed.
            Err(ChainError::Store(StoreError::Stopped)) => return Ok(()),
            found => Stage::Hashed(found?),
        };
        Ok(())
    }

    /// Whether a commit is to name its coins, and has not returned.
    #[cfg(test)]
    pub(crate) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// The commit has returned that names its coins.
    pub(crate) fn committed(&mut self, index: &BlockIndex) -> Result<(), StoreError> {
        let Some((manifest, tip)) = self.committing.take() else { return Ok(()) };
        self.coins.committed(manifest)?;
        self.writing.note_committed(1);
        self.durable = tip;
        if let Some(HistoryProgress { validated, base }) = assumed::progress(index) {
            log::info!(
                "The history below the snapshot is validated up to height {} of {}, and its coins are durable up \
                 to height {}.",
                validated.height,
                base.height,
                index.height(tip)
            );
        }
        Ok(())
    }

    /// Keeps a stored block in memory, if it is next or nearly next.
    pub(crate) fn keep(&mut self, index: &BlockIndex, stored: &Stored) {
        self.lookahead.keep(index, stored, self.window.applied());
    }

    /// Adds what it holds to that of the chain.
    pub(crate) fn status(&self, status: &mut ChainStatus) {
        let mut own = *status;
        self.lookahead.status(&mut own);
        self.window.status(&mut own);
        let (memory, own) = (&mut status.memory, own.memory);
        memory.near += own.near;
        memory.lookahead += own.lookahead;
        memory.window += own.window;
        memory.coins += self.coins.memory_used();
        let counters = self.coins.counters();
        status.written.flushed += counters.flushed_bytes;
        status.written.merged += counters.merge_bytes_written;
    }
}

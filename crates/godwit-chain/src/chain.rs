//! The chain: owns the stations of a block's journey and passes on what leaves one station to the next.
//!
//! One thread, the connector, owns the chain. Blocks enter through [`Chain::receive_block`] (from peers, many
//! at once), [`import`](crate::import()) (from files) or [`Chain::submit`] (one at a time, to a verdict);
//! [`Chain::poll`] moves them on. Work that may run in parallel with connecting runs on workers, whose
//! results come back through the inbox to the station that asked for them.
//!
//! The chain has two ends: `applied` is the last block applied to the coins, `tip` the last connected one,
//! whose scripts have passed too. Between them lies the window, whose blocks are taken back when one of them
//! fails. Only the tip is reported to callers or written to disk.

pub(crate) mod assembly;
pub(crate) mod deliver;
mod history;

use std::sync::atomic::Ordering;

use crossbeam_channel::Receiver;
use godwit_consensus::{Reject, ResultClass, Verdict};
use godwit_primitives::BlockHash;
use godwit_store::utxo::UtxoStore;
use godwit_store::{ChainPoint, Refutation, WrittenBlock};

use crate::appender::{Appended, Appender, Sender};
use crate::durability::writing::Application;
use crate::durability::{Durability, State};
use crate::ending::Ending;
use crate::environment::Environment;
use crate::error::ChainError;
use crate::event::{Connected, Disconnected, Event, Events};
use crate::found_block::FoundBlock;
use crate::goal::Goal;
use crate::history::History;
use crate::index::{Acceptance, Accepted, BlockIndex};
use crate::intake::{Arrival, Intake};
use crate::lookahead::Lookahead;
use crate::message::Message;
use crate::reads::Reads;
use crate::recovery::Recovery;
use crate::second_look::{accept_twice, log_untrusted};
use crate::status::ChainStatus;
use crate::structure::Received;
use crate::tree::{NodeId, Validity};
use crate::verify::{Recorded, ScriptRun};
use crate::window::{Disconnect, Retired, Window};

type Outbox = crossbeam_channel::Sender<Message>;

/// Both ends of the messages of jobs and threads.
pub(crate) struct Mailbox {
    pub(crate) inbox: Receiver<Message>,
    pub(crate) outbox: Outbox,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Something changed; there may be more to do.
    Progress,
    /// Nothing can be done before a job reports.
    Waiting,
    /// The tip is the best candidate and everything about it is verified, or a block on the way is lost.
    Idle,
}

/// What [`Chain::poll`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Something changed; there may be more to do.
    Progress,
    /// Nothing can be done before a job reports.
    Waiting,
    /// Every received block has its verdict and the best candidate is the tip, or a stored block on the way
    /// is lost ([`Event::Lost`]).
    Idle,
}

/// See the module's documentation.
pub struct Chain {
    /// The first field, because it has to be dropped first: jobs that still run then find the inbox closed,
    /// and the drop waits for them.
    pub(crate) mailbox: Mailbox,
    pub(crate) goal: Goal,
    pub(crate) index: BlockIndex,
    pub(crate) coins: UtxoStore,
    pub(crate) intake: Intake,
    pub(crate) recovery: Recovery,
    pub(crate) appender: Appender,
    pub(crate) lookahead: Lookahead,
    pub(crate) window: Window,
    pub(crate) durability: Durability,
    pub(crate) reads: Reads,
    /// Validates the blocks below a loaded snapshot, if the chain was opened for that.
    pub(crate) history: Option<Box<History>>,
    /// Events since they were last taken, which the driver does after each turn.
    pub(crate) events: Events,
    pub(crate) status: ChainStatus,
    pub(crate) ending: Ending,
    /// Seconds since 1970, as of the last turn. Used to judge the times of headers, and to decide
    /// when a checkpoint is due.
    pub(crate) now: i64,
    /// The last field, so that a cancelled job is never the last holder of the store, which would close it.
    pub(crate) env: Environment,
}

/// Whether nothing can be applied: either everything that can be connected is, or a block on the way is lost.
pub fn is_at_rest(chain: &Chain) -> bool {
    let Chain { index, window, goal, recovery, .. } = chain;
    let waits_for_copy = |target| window.waits_for_copy(index, target);
    window.is_empty()
        && recovery.is_done()
        && goal.target(index, window.applied()).is_none_or(waits_for_copy)
}

/// See [`Window::prepare_way`].
pub(crate) fn prepare_way(chain: &mut Chain, target: NodeId) -> Result<bool, ChainError> {
    let pruning = chain.durability.pruning();
    let (lowest, prunings) = (pruning.lowest(), pruning.prunings());
    chain.window.prepare_way(&mut chain.index, target, lowest, prunings)
}

/// Cancels jobs that have not started: a chain that is dropped after a fault or a signal need not wait for
/// their scripts.
impl Drop for Chain {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Chain {
    /// One step of every station, in the order of a block's journey except for the first station. Each line
    /// calls a station, which returns whether it did anything.
    ///
    /// The next block is accepted only when no other station could move, which leaves work for the time in
    /// which a flush or a commit holds up applying. When a block was accepted in every step, nothing was left
    /// for these pauses, and an import with a cache of 7 MiB took 7 % longer.
    pub(crate) fn step(&mut self, now: i64) -> Result<Step, ChainError> {
        self.now = now;
        self.ending.check_threads()?;
        self.deliver()?; //                        what jobs found, to the station that asked for it
        if matches!(self.ending, Ending::AfterCommit(_)) {
            self.recover()?;
            self.maintain(now)?;
            self.check_damage()?;
            return Ok(Step::Waiting);
        }
        let mut any = self.keep_appended(); //     Appender: written -> stored, and has its verdict
        let target = self.target()?;
        self.look_ahead(target)?; //               Lookahead: read back, coins fetched
        any |= self.apply_next(target); //         Window: resolved; its scripts start
        any |= self.record_verified(); //          Window: verified -> its undo record on its way to its file
        any |= self.retire()?; //                  Window: recorded -> connected, or taken back
        any |= self.change_branch()?; //           Window: a refused block judged, a branch left
        any |= self.maintain(now)?; //             Durability: rotation, flush, commit, pruning
        any |= self.recover()?; //                 Recovery: read back -> stored
        any = any || self.accept_arrival(now)?; // Intake: decoded -> accepted, on its way to its file
        any = any || history::validate(self)?; // History: a block below a snapshot, from look-ahead to connected
        self.appender.start(&self.env); //        Appender: all that was gathered, as one job
        self.publish();
        let step = self.progress(any);
        if step == Step::Idle && self.history.is_none() {
            // Scrub: what is at rest, checked while nothing else is to be done
            let (durability, state) = self.durability_at(now);
            durability.scrub(&state);
        }
        Ok(step)
    }

    /// Publishes the status; each station adds its part.
    fn publish(&mut self) {
        let status = &mut self.status;
        status.tip = self.index.point(self.index.tip());
        status.best_header = self.index.point(self.index.tree().best_header());
        self.intake.status(status);
        self.appender.status(status);
        self.lookahead.status(status);
        self.window.status(status);
        self.durability.status(self.appender.written(), status);
        status.scrub = self.durability.scrub.status();
        status.damaged.lost = self.index.damaged.lost().len() as u64;
        let counters = self.coins.counters();
        status.written.flushed = counters.flushed_bytes;
        status.written.merged = counters.merge_bytes_written;
        status.memory.tree = self.index.tree().memory();
        let coins = self.env.memory.coins.beside(status.memory.tree);
        history::share_memory(self, coins);
    }

    fn progress(&mut self, any: bool) -> Step {
        if any {
            Step::Progress
        } else if self.appender.is_idle() && is_at_rest(self) {
            // The other blocks of an import are read back when their
            // turn comes.
            self.lookahead.release_permits();
            Step::Idle
        } else {
            Step::Waiting
        }
    }

    /// Judges the next block that arrived, and has it written.
    fn accept_arrival(&mut self, now: i64) -> Result<bool, ChainError> {
        let Some(next) = self.intake.next() else { return Ok(false) };
        if !self.recovery.is_done() || !self.durability.takes_blocks(now) {
            return Ok(false);
        }
        if let Received::Structured(block) = &next.received {
            let parent = self.index.tree().find(&block.header().prev_blockhash);
            let first = parent.is_some_and(|parent| self.appender.is_writing(parent));
            if !first && !self.durability.names(&self.index, parent) {
                // The commit that is under way may be the one that names it. Otherwise the next step
                // starts one, unless bytes are being pushed out: then the step behind that.
                if self.durability.is_busy() {
                    return Ok(false);
                }
                self.durability.want_named(parent);
                return Ok(true);
            }
        }
        let arrival = self.intake.pop().expect("just seen");
        let start = self.env.now();
        let result = self.accept(arrival, now);
        self.status.times.accept += self.env.now() - start;
        result.map(|()| true)
    }

    fn accept(&mut self, arrival: Arrival, now: i64) -> Result<(), ChainError> {
        let Arrival { source, received, charge, permit, .. } = arrival;
        // The block holds its own clone of the permit.
        drop(permit);
        let (hash, verdict) = match received {
            Received::Undecodable => (None, Verdict::Undecodable),
            Received::Unjudged(error) => return Err(ChainError::Engine(error)),
            Received::Malformed { hash, reject, .. } => (Some(hash), Verdict::Rejected(reject)),
            Received::Structured(block) => {
                let hash = block.hash();
                let verdict = match accept_twice(&self.env, &mut self.index, block, now)? {
                    Acceptance::New(accepted) => {
                        let sender = Sender { source, charge };
                        let keeps_apart =
                            self.durability.pruning().is_on() && self.index.history().is_some();
                        let is_history = keeps_apart.then(|| self.index.is_history(accepted.id()));
                        self.appender.append_block(&self.env, accepted, sender, is_history)?;
                        return Ok(());
                    }
                    Acceptance::Copy(accepted, place) => {
                        let sender = Sender { source, charge };
                        return self.appender.append_copy(accepted, sender, place);
                    }
                    Acceptance::Known => Verdict::Duplicate,
                    Acceptance::Refused { reject, id } => {
                        log::debug!("block {hash} was not accepted: {reject}");
                        let of_history = id.filter(|id| self.index.is_history(*id));
                        match of_history.filter(|_| reject.class != ResultClass::Mutated) {
                            // Not marked: it is judged once more before the snapshot is refuted.
                            Some(id) => {
                                let point = self.index.point(id);
                                history::refute(self, Refutation::InvalidBlock(point));
                            }
                            None => {
                                let failed = id.map(|id| self.index.fail(id, reject));
                                self.lookahead.forget(&self.index, &failed.unwrap_or_default());
                            }
                        }
                        Verdict::Rejected(reject)
                    }
                };
                (Some(hash), verdict)
            }
        };
        self.judged(Sender { source, charge }, hash, verdict);
        Ok(())
    }

    fn judged(&mut self, sender: Sender, hash: Option<BlockHash>, verdict: Verdict) {
        let Sender { source, charge } = sender;
        self.intake.release_charge(charge);
        self.events.push_back(Event::Judged { source, hash, verdict });
    }

    /// Notes what was written, in the turn in which it enters the index (rule 2 of `appender.rs`).
    pub(crate) fn keep_appended(&mut self) -> bool {
        let returned = self.appender.take_returned();
        let any = !returned.is_empty();
        for appended in returned {
            match appended {
                Appended::Block { accepted, sender, written } => {
                    self.keep_block(accepted, sender, written);
                }
                Appended::Undo { recorded, written } => {
                    self.env.store.note_written(written);
                    match &mut self.history {
                        _ if !self.index.is_history(recorded.id()) => {
                            self.window.recorded(recorded)
                        }
                        Some(history) => history.window.recorded(recorded),
                        None => {}
                    }
                }
                Appended::Copy { accepted, sender, checksum } => {
                    let point = self.index.point(accepted.id());
                    log::info!("Block {} at height {} is written again.", point.hash, point.height);
                    let was_lost = self.index.rewritten(accepted.id(), checksum);
                    self.status.damaged.rewritten += u64::from(was_lost);
                    self.judged_stored(accepted.id(), sender, point.hash);
                }
            }
        }
        any
    }

    /// Judges the blocks that an earlier process had received but not committed, as they are read back.
    pub(crate) fn recover(&mut self) -> Result<bool, ChainError> {
        self.recovery.start();
        let mut any = false;
        while let Some(FoundBlock { found, checksum, received }) = self.recovery.take_next() {
            any = true;
            let block = match received {
                Received::Structured(block) => block,
                Received::Unjudged(error) => return Err(ChainError::Engine(error)),
                // A torn record whose length happens to fit, or a rotten one: the block is fetched again.
                Received::Undecodable | Received::Malformed { .. } => continue,
            };
            if let Acceptance::New(accepted) = self.index.accept(block, self.now) {
                let stored = self.index.receive_recovered(accepted, &found, checksum);
                self.durability.note_stored(&self.index, &stored);
                self.lookahead.keep(&self.index, &stored, self.window.applied());
            }
        }
        Ok(any)
    }

    fn keep_block(&mut self, accepted: Accepted, sender: Sender, written: WrittenBlock) {
        let stored = self.index.receive(accepted, &written);
        self.env.store.note_written(written);
        self.durability.note_stored(&self.index, &stored);
        // It was missing below the tip: from the lowest block on all may be stored again.
        let (id, tree) = (stored.id(), self.index.tree());
        if self.index.height(id) + 1 == self.durability.pruning().lowest()
            && tree.is_ancestor(id, self.index.tip())
        {
            self.durability.find_prune_height(&self.index);
        }
        match &mut self.history {
            Some(history) if self.index.is_history(stored.id()) => {
                history.keep(&self.index, &stored)
            }
            _ => self.lookahead.keep(&self.index, &stored, self.window.applied()),
        }
        self.judged_stored(stored.id(), sender, stored.block().hash());
    }

    fn judged_stored(&mut self, id: NodeId, sender: Sender, hash: BlockHash) {
        self.judged(sender, Some(hash), Verdict::Stored);
        for copy in self.appender.take_copies(id) {
            self.judged(copy, Some(hash), Verdict::Duplicate);
        }
    }

    /// The block that the look-ahead leads to; `None` while the window has to become empty before anything is
    /// applied. Candidates with a missing block on the way are set aside.
    fn target(&mut self) -> Result<Option<NodeId>, ChainError> {
        while !self.window.has_refused()
            && let Some(target) = self.goal.target(&self.index, self.window.applied())
            && self.index.tree().is_ancestor(self.window.applied(), target)
        {
            if prepare_way(self, target)? {
                return Ok(Some(target));
            }
        }
        Ok(None)
    }

    fn look_ahead(&mut self, target: Option<NodeId>) -> Result<(), ChainError> {
        let Some(target) = target else { return Ok(()) };
        let Self { index, coins, window, goal, .. } = self;
        self.lookahead.fill(index, coins, window.applied(), target, goal.doubted())
    }

    fn apply_next(&mut self, target: Option<NodeId>) -> bool {
        let full = self.window.is_full() || self.durability.wants_rotation(&self.coins);
        if full || target.is_none() {
            return false;
        }
        let start = self.env.now();
        let Self { env, index, coins, goal, .. } = self;
        let Some(ready) = self.lookahead.take_ready(index, coins) else { return false };
        let id = ready.id;
        let bytes = ready.block.view().total_size() as u64;
        let below = ready.prefetched.coins.iter().flatten().count();
        let scripts = goal.scripts_for(index, &env.params, id);
        goal.log_script_change(index, id, scripts);
        let now = self.now;
        let run = ScriptRun::of(scripts, now, ready.again);
        self.window.apply(env, index, coins, ready, run);
        let took = self.env.now() - start;
        self.status.times.apply += took;
        let reads = self.lookahead.take_reads();
        self.durability.note_applied(Application { took, bytes, below }, reads, now);
        self.lookahead.forget_up_to(self.index.height(self.window.applied()));
        true
    }

    /// Has the undo records of verified blocks written, strictly in height order.
    fn record_verified(&mut self) -> bool {
        let mut any = false;
        while let Some(verified) = self.window.next_to_record() {
            any = true;
            let block =
                self.index.node(verified.id()).position.expect("stored before it was applied");
            if let Some(recorded) = self.appender.append_undo(&self.env, verified, block) {
                self.window.recorded(recorded);
            }
        }
        any
    }

    /// Connects the blocks at the window's front whose checks are done.
    pub(crate) fn retire(&mut self) -> Result<bool, ChainError> {
        let mut any = false;
        while let Some(retired) = self.window.retire(&self.index, &mut self.coins)? {
            any = true;
            match retired {
                Retired::Recorded(recorded) => self.connect(&recorded),
                Retired::TakenBack(resolved, reject) => {
                    self.durability.note_taken_back(&self.index, self.window.applied());
                    let id = resolved.id();
                    match self.goal.doubted() == Some(id) {
                        true => self.window.confirm(&self.env, &self.index, &resolved, reject),
                        false => self.reject(id, reject)?,
                    }
                }
            }
        }
        Ok(any)
    }

    fn connect(&mut self, recorded: &Recorded) {
        let id = recorded.id();
        let verified_before = self.index.connect(recorded);
        if let Some(first) = self.goal.clear_doubt(id) {
            log_untrusted(self.index.node(id).hash, first);
        }
        self.goal.note_connected(&self.index, id, verified_before);
        self.durability.note_connected(id);
        let (point, block) = (self.index.point(id), recorded.block());
        let bytes = block.view().total_size();
        let connected = &mut self.status.connected;
        connected.blocks += 1;
        connected.bytes += bytes as u64;
        connected.coins += (block.input_count() + block.creates().len()) as u64;
        self.events.connected(recorded, Connected { point, bytes });
    }

    fn reject(&mut self, id: NodeId, reject: Reject) -> Result<(), ChainError> {
        let node = self.index.node(id);
        let hash = node.hash;
        if self.goal.doubt(id, reject) {
            log::warn!("Block {hash} is refused ({reject}): it is looked at again.");
            self.lookahead.forget(&self.index, &[id]);
            return Ok(());
        }
        if node.validity == Validity::Scripts {
            return Err(ChainError::Contradiction(hash, reject));
        }
        log::warn!("ConnectBlock {hash} failed: {reject}");
        self.events.push_back(Event::Invalid { hash, reject });
        let failed = self.index.fail(id, reject);
        self.lookahead.forget(&self.index, &failed);
        self.lookahead.clear_queue();
        Ok(())
    }

    /// With an empty window, rejects the block that could not be applied, or disconnects the tip to switch to
    /// a better branch.
    fn change_branch(&mut self) -> Result<bool, ChainError> {
        if !self.window.is_empty() {
            return Ok(false);
        }
        if let Some((id, reject)) = self.window.take_refused() {
            self.reject(id, reject)?;
            return Ok(true);
        }
        if self.window.has_refused() {
            return Ok(false);
        }
        let applied = self.window.applied();
        let Some(target) = self.goal.target(&self.index, applied) else { return Ok(false) };
        if self.index.tree().is_ancestor(applied, target) {
            self.window.forget_disconnecting();
            return Ok(false);
        }
        self.lookahead.clear_queue();
        if !prepare_way(self, target)? {
            return Ok(true);
        }
        // What a disconnected block changes goes into the memtable, too: not over a full one. `maintain`
        // rotates it, or what keeps it from that reports when it is over.
        if self.durability.wants_rotation(&self.coins) {
            return Ok(false);
        }
        match self.window.disconnect(&self.env, &self.index, &mut self.coins, target)? {
            Disconnect::Waits => Ok(false),
            Disconnect::Done { undo_intact, coinbase } => {
                self.index.disconnect(undo_intact);
                let point = self.index.point(applied);
                self.events.disconnected(applied, Disconnected { point, coinbase });
                Ok(true)
            }
        }
    }

    fn maintain(&mut self, now: i64) -> Result<bool, ChainError> {
        let start = self.env.now();
        let (durability, state) = self.durability_at(now);
        let any = durability.advance(state)?;
        self.status.times.flush += self.env.now() - start;
        Ok(any)
    }

    /// The durability station and what it works with.
    pub(crate) fn durability_at(&mut self, now: i64) -> (&mut Durability, State<'_>) {
        let Self { env, index, coins, durability, goal, appender, window, recovery, .. } = self;
        let (replay, appended, applied) = (goal.replay(), appender.written(), window.applied());
        let may_commit = recovery.is_done();
        (durability, State { env, index, coins, applied, replay, now, appended, may_commit })
    }

    /// Handles damage of a stored block. If a copy can be fetched, it is written in the block's place. The
    /// chain ends where the driver fetches none, or where the place is damaged again; a block that was never
    /// connected is forgotten before that. Several damaged blocks may be found before the chain ends: the
    /// first one's error ends it, and events report all of them.
    fn lose(&mut self, id: NodeId) {
        let Some(at) = self.index.node(id).position else { return };
        let ChainPoint { hash, height } = self.index.point(id);
        let (path, offset) = (self.env.store.block_file(at.file), at.offset);
        let error = ChainError::DamagedBlock { hash, height, path, offset };
        if !self.goal.copies_come() || self.index.damaged.was_rewritten(id) {
            self.index.forget_damaged(id);
            self.durability.want_commit();
            log::error!("{error}.");
            self.ending.begin(error);
            self.events.push_back(Event::Lost { hash });
        } else if self.index.damaged.lose(id) {
            log::error!("{error}.");
            self.lookahead.clear_queue();
            if let Some(history) = &mut self.history {
                history.lookahead.clear_queue();
            }
            self.events.push_back(Event::Lost { hash });
        }
    }

    /// Fails once the index that forgets a damaged block is durable.
    pub(crate) fn check_damage(&mut self) -> Result<(), ChainError> {
        if self.durability.is_settled() { self.ending.after_commit() } else { Ok(()) }
    }

    /// Does what can be done without waiting, a little at a time. `now` is in seconds since 1970.
    ///
    /// # Errors
    ///
    /// A fault of this node, after which the chain is to be dropped.
    pub fn poll(&mut self, now: i64) -> Result<Poll, ChainError> {
        Ok(match self.step(now)? {
            Step::Progress => Poll::Progress,
            Step::Idle if self.intake.is_idle() && self.reads.is_idle() => Poll::Idle,
            Step::Waiting | Step::Idle => Poll::Waiting,
        })
    }

    /// Gives up the work in flight: no block of the window is connected any more.
    pub(crate) fn cancel(&mut self) {
        self.env.cancelled.store(true, Ordering::Relaxed);
        self.durability.scrub.stop_files();
    }
}

#[cfg(test)]
pub(crate) mod tests;

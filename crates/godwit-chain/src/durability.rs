//! Durability: decides when the chain's state becomes durable.
//!
//! A *flush* seals the memtable, between any two blocks that are applied, and commits its run with the
//! block whose coins it completes, when the run is durable and that block is connected: so no commit
//! names a coin of a block whose scripts have not passed. Where such a block is taken back instead, the
//! seal is given up; its run stays, and the next seal, which says what was taken back, is committed with
//! both. A flush starts when memory is short, before a power cut would cost too much ([`writing`]), where
//! block files can be deleted behind it ([`pruning`]), and for readers of the coins of the tip
//! ([`crate::coins_view`]). The next one need not wait for the commit, but for the run: a commit takes
//! several syncs, and names whatever runs are durable by then. A *checkpoint* commits the block index and
//! the verified height alone: it costs a few syncs, and after a crash the blocks above the last flush are
//! applied again from godwit's own files without running their scripts again. It is due a while after the
//! first thing that is not durable ([`pace`]), whether or not anything connects. So that its syncs are
//! short, blocks and undo records are *pushed out* between commits, every
//! [`ChainOptions::push_bytes`](crate::ChainOptions). Where merges have replaced runs since the last
//! flush was committed, a checkpoint commits its coins once more, by the runs that they are in by now, so
//! that the files of the others go; it is due at once where these are large.
//!
//! When the memtable is sealed, [`Durability::reason_to_seal`] and [`flushes`] say, which holds what is being
//! written; which job is begun then, [`due`], by what [`flushes`], [`pace`] and [`pruning`] say.

mod commit;
pub(crate) mod due;
pub(crate) mod flushes;
mod history_change;
pub(crate) mod pace;
pub(crate) mod pruning;
pub(crate) mod writing;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use godwit_store::exec::Priority;
use godwit_store::utxo::{
    Manifest, ManifestId, Rotation, SealId, UtxoStore, manifest_again, newest_seal,
};
use godwit_store::{ChainPoint, Commit, StoreError, UtxoCommit};
use godwit_stream::DataStream;

use crate::apply::CoinReads;
use crate::coins_view::Viewers;
use crate::durability::due::{Due, Pending};
use crate::durability::flushes::{Flush, Flushes, SealFor};
pub(crate) use crate::durability::history_change::Closed;
use crate::durability::history_change::HistoryChange;
use crate::durability::pace::Pace;
use crate::durability::pruning::Pruning;
use crate::durability::writing::{Application, Backlog, Writing};
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::{BlockIndex, Stored};
use crate::job_sender::JobSender;
use crate::options::ChainOptions;
use crate::scrub::Scrub;
use crate::status::ChainStatus;
use crate::tree::NodeId;

/// Coins that a commit names.
struct SealedCoins {
    utxo: UtxoCommit,
    manifest: ManifestId,
}

impl SealedCoins {
    /// Those of the block `tip`.
    fn new(index: &BlockIndex, tip: ChainPoint, (id, manifest): (ManifestId, Manifest)) -> Self {
        let mut encoded = DataStream::new();
        encoded.put(&manifest);
        let assumed = index.assumed().copied();
        Self { utxo: UtxoCommit { tip, manifest: encoded.into_vec(), assumed }, manifest: id }
    }
}

/// The job that is under way.
enum Job {
    Commit(Committing),
    /// Bytes of blocks and undo records are pushed out.
    PushOut,
}

/// The commit that is under way.
struct Committing {
    /// What it will have made durable.
    durable: Durable,
    /// The entries of the block index that it holds.
    ids: Vec<NodeId>,
}

/// What commits have made durable.
#[derive(Clone, Copy)]
struct Durable {
    verified: ChainPoint,
    coins: ChainPoint,
    /// Bytes of blocks and undo records that were written by then, since the chain was opened.
    appended: u64,
}

/// What a job has done.
pub(crate) enum Answer {
    /// A commit has returned, and when it began and ended.
    Committed(Result<(Option<ManifestId>, Range<Duration>), StoreError>),
    /// What was written by then is on the disk, though not named by a commit.
    PushedOut(Result<(), StoreError>),
}

/// What a commit is put together from.
pub(crate) struct State<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) index: &'a mut BlockIndex,
    pub(crate) coins: &'a mut UtxoStore,
    /// The block whose coins those are.
    pub(crate) applied: NodeId,
    /// The last block that an earlier run verified, while the coins do not reach it.
    pub(crate) replay: Option<NodeId>,
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Bytes of blocks and undo records that were written since the chain was opened.
    pub(crate) appended: u64,
    /// No blocks are still being recovered.
    pub(crate) may_commit: bool,
}

impl State<'_> {
    /// The last block that a restart need not verify. An interrupted replay must not lower it.
    fn verified(&self) -> ChainPoint {
        self.index.point(self.replay.unwrap_or(self.index.tip()))
    }
}

/// See the module's documentation.
pub(crate) struct Durability {
    flushes: Flushes,
    /// One at a time.
    job: Option<Job>,
    durable: Durable,
    /// Something waits for a commit of the block index.
    wanted: bool,
    /// A header whose commit a block waits for.
    awaited: Option<NodeId>,
    pace: Pace,
    /// Bytes of blocks and undo records that were pushed out or are in a commit, as in [`State::appended`].
    pushed: u64,
    /// So many more are pushed out at once.
    push_bytes: u64,
    /// What has become known of the history below a snapshot.
    history: HistoryChange,
    pruning: Pruning,
    pub(crate) scrub: Scrub,
    viewers: Viewers,
    /// Jobs here are never cancelled.
    job_sender: JobSender<Answer>,
}

impl Durability {
    /// For an `index` and coins of its tip that were just read from disk.
    pub(crate) fn new(
        index: &BlockIndex,
        verified: ChainPoint,
        options: &ChainOptions,
        scrub: Scrub,
        job_sender: JobSender<Answer>,
    ) -> Self {
        let ChainOptions { prune_bytes, push_bytes, coin_writing, workers, .. } = *options;
        Self {
            flushes: Flushes::new(Writing::new(coin_writing, workers)),
            job: None,
            durable: Durable { verified, coins: index.point(index.tip()), appended: 0 },
            wanted: false,
            awaited: None,
            pace: Pace::default(),
            pushed: 0,
            push_bytes,
            history: HistoryChange::None,
            pruning: Pruning::new(prune_bytes, index),
            scrub,
            viewers: Viewers::default(),
            job_sender,
        }
    }

    /// Those who wait for the coins of the tip: the memtable is sealed for them.
    pub(crate) fn viewers(&mut self) -> &mut Viewers {
        &mut self.viewers
    }

    /// What is deleted, and when.
    pub(crate) fn pruning(&self) -> &Pruning {
        &self.pruning
    }

    /// As [`Pruning::keep_above`].
    pub(crate) fn keep_above(&mut self, reader: &'static str, height: Option<u32>) {
        self.pruning.keep_above(reader, height);
    }

    /// Has files deleted that have no block above this height.
    pub(crate) fn prune_to(&mut self, height: u32) {
        self.pruning.request(height);
        self.wanted = true;
    }

    /// Finds the lowest stored block of the active chain again, after the active chain has changed.
    pub(crate) fn find_prune_height(&mut self, index: &BlockIndex) {
        self.pruning.find_lowest(index);
    }

    /// A snapshot was loaded.
    pub(crate) fn begin_history(&mut self, index: &BlockIndex) {
        self.pruning.begin_history(index);
        self.pruning.find_lowest(index);
    }

    pub(crate) fn note_stored(&mut self, index: &BlockIndex, stored: &Stored) {
        let id = stored.id();
        self.pruning.note_stored(id, index.height(id), stored.position().file);
    }

    /// Whether a block on top of `parent` may be stored now. One whose parent is not stored has to
    /// wait for the commit of an index that holds the headers below: after a crash it would be a block
    /// without a known parent, and be fetched again. (A parent that is on its way to the files comes
    /// before it there.)
    pub(crate) fn names(&self, index: &BlockIndex, parent: Option<NodeId>) -> bool {
        parent.is_none_or(|parent| {
            index.tree().is_named(parent) || index.node(parent).position.is_some()
        })
    }

    /// Asks for a commit soon that holds a header and its ancestors.
    pub(crate) fn want_named(&mut self, header: Option<NodeId>) {
        (self.wanted, self.awaited) = (true, header);
    }

    /// Asks for a commit soon.
    pub(crate) fn want_commit(&mut self) {
        self.wanted = true;
    }

    /// A block was applied, and workers have done these reads since the last one. `now` is in seconds since
    /// 1970.
    pub(crate) fn note_applied(&mut self, application: Application, reads: CoinReads, now: i64) {
        self.flushes.note_applied(application, reads, now);
    }

    /// A block was connected.
    pub(crate) fn note_connected(&mut self, id: NodeId) {
        self.flushes.note_connected(id);
    }

    /// Blocks of the window were taken back down to `applied`. What was sealed with one of them is not
    /// committed alone.
    pub(crate) fn note_taken_back(&mut self, index: &BlockIndex, applied: NodeId) {
        self.flushes.note_taken_back(index, applied);
    }

    /// Whether no block may be applied before the memtable is rotated.
    pub(crate) fn wants_rotation(&self, coins: &UtxoStore) -> bool {
        self.flushes.wants_rotation(coins)
    }

    /// The coins are those of no block from now on, until those of a snapshot are committed.
    pub(crate) fn replace_coins(&mut self) {
        self.flushes.replace_coins();
    }

    /// Whether the coins of the tip, which are those of the window's end, are on disk, or must not be.
    pub(crate) fn needs_no_flush(&self, index: &BlockIndex, coins: &UtxoStore) -> bool {
        let written = self.flushes.none_waits() && coins.unsealed() == 0;
        self.flushes.is_replacing() || written && self.durable.coins == index.point(index.tip())
    }

    /// Whether no commit is under way or wanted.
    pub(crate) fn is_settled(&self) -> bool {
        self.committing().is_none() && !self.wanted
    }

    /// Whether a job of this station is under way.
    pub(crate) fn is_busy(&self) -> bool {
        self.job.is_some()
    }

    /// Of each seal that no commit holds, oldest first, whether its block is connected.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> Vec<bool> {
        self.flushes.waiting()
    }

    fn committing(&self) -> Option<&Committing> {
        match &self.job {
            Some(Job::Commit(commit)) => Some(commit),
            Some(Job::PushOut) | None => None,
        }
    }

    /// Whether blocks may be accepted: not while the disk is behind. `now` is in seconds since 1970.
    pub(crate) fn takes_blocks(&self, now: i64) -> bool {
        self.pace.takes_blocks(now)
    }

    /// Shows the coins of the tip to those who wait for them, where these are on disk.
    fn serve_viewers(&mut self, state: &State<'_>) {
        if self.viewers.wait() && self.needs_no_flush(state.index, state.coins) {
            self.viewers.serve(state.index, state.index.tip(), &state.coins.layers());
        }
    }

    /// For what the memtable is to be sealed, if for anything.
    fn reason_to_seal(&mut self, state: &State<'_>) -> Option<SealFor> {
        if self.viewers.wait() {
            Some(SealFor::Viewers)
        } else if self.wants_rotation(state.coins) || self.flushes.interval_is_over(state.now) {
            Some(SealFor::Bounds)
        } else {
            // Coins that are being written might do for pruning.
            let may_want = self.flushes.all_committed() && !self.flushes.is_replacing();
            let wants = may_want && self.pruning.want_coins(state.env, state.index, state.replay);
            wants.then_some(SealFor::Pruning)
        }
    }

    /// Starts what is due; returns whether there was anything.
    pub(crate) fn advance(&mut self, mut state: State<'_>) -> Result<bool, ChainError> {
        self.serve_viewers(&state);
        let seal_for = self.reason_to_seal(&state);
        // If memory is full, or too much unwritten, while the last flush is still being written, nothing is
        // applied until that is done. Everything else goes on.
        let may_seal = seal_for.is_some_and(|reason| self.flushes.may_seal(state.coins, reason));
        let sealed = may_seal && self.rotate(&mut state)?;
        self.pace.note(self.is_behind(&state), state.now);
        let may_start = !self.is_busy() && state.may_commit;
        let started = may_start && self.start_due(&mut state, seal_for);
        Ok(sealed || started)
    }

    /// Starts the job that is due, if any; returns whether there was one.
    fn start_due(&mut self, state: &mut State<'_>, seal_for: Option<SealFor>) -> bool {
        let due = self.pending(state, seal_for).due();
        if self.scrub.reads_files() {
            // What it reads of the database, a commit would change.
            if matches!(due, Some(Due::Coins | Due::Index)) {
                self.scrub.stop_files();
            }
            return false;
        }
        match due {
            Some(Due::Coins) => self.commit_flush(state),
            Some(Due::Index) => self.start_commit(state, None, self.pace.most_headers()),
            Some(Due::PushOut) => self.push_out(state),
            None => {}
        }
        self.pruning.note_looked();
        due.is_some()
    }

    /// What waits for a job, and whether the memtable, which is to be sealed for that reason, waits for it.
    fn pending(&self, state: &State<'_>, seal_for: Option<SealFor>) -> Pending {
        let State { env, index, coins, replay, now, appended, .. } = state;
        let waits_for_commit = |reason| !self.flushes.may_seal_ahead(coins, reason);
        Pending {
            has_coins: self.flushes.has_complete(coins),
            are_coins_awaited: seal_for.is_some_and(waits_for_commit),
            have_coins_rested: self.pace.has_rested(env.now()),
            is_wanted: self.wanted,
            entries: index.tree().changes(),
            is_old: self.pace.is_due(*now),
            frees_files: self.pruning.is_due(env, index, *replay),
            replaced: self.flushes.replaced_bytes(coins),
            unpushed: appended - self.pushed,
            push_bytes: self.push_bytes,
        }
    }

    /// Has what is durable checked, while there is nothing else to do.
    pub(crate) fn scrub(&mut self, state: &State<'_>) {
        if self.flushes.none_waits() && !self.is_busy() {
            let settled = !self.is_behind(state);
            let State { env, index, coins, now, .. } = state;
            self.scrub.advance(env, index, coins, *now, settled);
        }
    }

    /// Whether there is anything that the next commit would make durable. Every header, stored block and
    /// connected block is a change of the index.
    fn is_behind(&self, state: &State<'_>) -> bool {
        let durable = self.committing().map_or(&self.durable, |commit| &commit.durable);
        state.index.tree().changes() > 0 || state.verified() != durable.verified
    }

    /// Has the bytes that were written since the last time written to the disk, so that the syncs of the next
    /// commit are short.
    fn push_out(&mut self, state: &State<'_>) {
        (self.job, self.pushed) = (Some(Job::PushOut), state.appended);
        let store = Arc::clone(&state.env.store);
        self.job_sender
            .run(Priority::Urgent, "push out", move || Answer::PushedOut(store.push_out()));
    }

    /// Seals the memtable, if there is room for the next one.
    fn rotate(&mut self, state: &mut State<'_>) -> Result<bool, StoreError> {
        match state.coins.rotate()? {
            Rotation::Sealed(seal) => {
                let connected = state.applied == state.index.tip();
                self.flushes.begin(Flush { seal, tip: state.applied, connected });
                Ok(true)
            }
            Rotation::Full => Ok(false),
        }
    }

    /// The memtables up to `seal` hold the coins of the tip.
    pub(crate) fn note_sealed(&mut self, seal: SealId, tip: NodeId) {
        self.flushes.begin(Flush { seal, tip, connected: true });
    }

    /// Commits the run of the last flush that is complete, if any, with the tip that it describes.
    pub(crate) fn commit_flush(&mut self, state: &mut State<'_>) {
        let Some(Flush { seal, tip, .. }) = self.flushes.take_complete(state.coins) else { return };
        let manifest = state.coins.manifest(seal);
        let coins = SealedCoins::new(state.index, state.index.point(tip), manifest);
        self.pruning.note_coins(tip);
        // Otherwise what is newer is in runs too: they see what the next commit names.
        if seal == newest_seal(state.coins) {
            self.viewers.serve(state.index, tip, &state.coins.layers());
        }
        self.start_commit(state, Some(coins), self.pace.most_headers());
    }

    /// Commits the block index and the verified height; every header, however long that takes.
    pub(crate) fn commit_index(&mut self, state: &mut State<'_>) {
        self.start_commit(state, None, usize::MAX);
    }

    /// The coins on disk once more, by the runs that they are in by now, where that frees any.
    fn coins_again(&self, state: &mut State<'_>) -> Option<SealedCoins> {
        if self.flushes.replaced_bytes(state.coins) == 0 {
            return None;
        }
        let manifest = manifest_again(state.coins);
        Some(SealedCoins::new(state.index, self.durable.coins, manifest))
    }

    fn start_commit(
        &mut self,
        state: &mut State<'_>,
        sealed: Option<SealedCoins>,
        most_headers: usize,
    ) {
        assert!(!self.is_busy(), "one job at a time");
        let sealed = sealed.or_else(|| self.coins_again(state));
        let verified = state.verified();
        let State { env, index, replay, now, appended: bytes, .. } = state;
        let appended = env.store.take_appended();
        let pruned = self.pruning.prune(env, index, *replay);
        let tips = self.awaited.take().into_iter().chain(*replay);
        let (ids, blocks) = index.take_some_changes(tips, most_headers);
        let coins = sealed.as_ref().map_or(self.durable.coins, |sealed| sealed.utxo.tip);
        let durable = Durable { verified, coins, appended: *bytes };
        self.job = Some(Job::Commit(Committing { durable, ids }));
        let (utxo, manifest) = sealed.map(|sealed| (sealed.utxo, sealed.manifest)).unzip();
        let (verified_tip, scrub) = (Some(verified), self.scrub.take_place(index));
        let (history, closed) = self.history.begin(&mut self.pruning).unzip();
        self.pace.begin(*now, blocks.len());
        let commit = Commit { appended, blocks, pruned, verified_tip, utxo, history, scrub };
        self.wanted = false;
        self.pushed = *bytes;
        let env = env.clone();
        self.job_sender.run(Priority::Urgent, "commit", move || {
            drop(closed);
            Answer::Committed(commit::run(&env, commit).map(|when| (manifest, when)))
        });
    }

    /// A job has returned.
    pub(crate) fn answered(
        &mut self,
        index: &mut BlockIndex,
        coins: &mut UtxoStore,
        answer: Answer,
    ) -> Result<(), StoreError> {
        let job = self.job.take();
        match answer {
            Answer::PushedOut(pushed) => pushed,
            Answer::Committed(committed) => {
                let Some(Job::Commit(commit)) = job else { unreachable!("a commit was under way") };
                let Committing { durable, ids } = commit;
                let seals = self.flushes.end_commit();
                let (manifest, when) = committed?;
                index.note_named(&ids);
                self.pace.end(when);
                if let Some(manifest) = manifest {
                    coins.committed(manifest)?;
                }
                self.flushes.note_committed(seals);
                self.history.end();
                self.durable = durable;
                let Backlog { blocks, time } = self.flushes.backlog();
                log::info!(
                    "Durable: verified up to height {}, coins at height {}. A power cut now would have {blocks} \
                     blocks applied again, in about {:.1} s.",
                    durable.verified.height,
                    durable.coins.height,
                    time.as_secs_f64()
                );
                Ok(())
            }
        }
    }

    /// Adds what is durable to the status; `appended` is as in [`State`].
    pub(crate) fn status(&self, appended: u64, status: &mut ChainStatus) {
        let Durable { verified, coins, appended: durable, .. } = self.durable;
        (status.verified_durable, status.coins_durable) = (verified, coins);
        status.bytes_at_risk = appended - durable;
        let backlog = self.flushes.backlog();
        (status.unwritten_blocks, status.replay) = (backlog.blocks, backlog.time);
    }
}

//! Durability: decides when the chain's state becomes durable.
//!
//! A *flush* seals the memtable and, when its run is written, commits the run with the tip that it
//! describes. It starts only when the window is empty, so a run never holds a coin of a block whose
//! scripts have not passed. A *checkpoint* commits the block index and the verified height alone: it
//! costs a few syncs, and after a crash the blocks above the last flush are applied again from
//! godwit's own files without running their scripts again.

mod commit;
pub(crate) mod pruning;

use godwit_store::exec::Priority;
use godwit_store::utxo::{ManifestId, Rotation, SealId, UtxoStore};
use godwit_store::{ChainPoint, Commit, StoreError, UtxoCommit};

use crate::durability::pruning::Pruning;
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::{BlockIndex, Stored};
use crate::job_sender::JobSender;
use crate::status::ChainStatus;
use crate::tree::NodeId;

/// A checkpoint is due after this many connected blocks.
const CHECKPOINT_BLOCKS: u32 = 2_000;

/// A checkpoint is due after this long, if any block was connected.
const CHECKPOINT_SECONDS: u64 = 20;

/// A sealed memtable on its way to disk, and the tip whose coins it completes.
struct Flush {
    seal: SealId,
    tip: NodeId,
}

/// What commits have made durable.
#[derive(Clone, Copy)]
struct Durable {
    /// Number of headers in the block index on disk: those below this index of the tree.
    headers: u32,
    verified: ChainPoint,
    coins: ChainPoint,
    /// Bytes of blocks and undo records that were written by then, since the chain was opened.
    appended: u64,
}

/// A commit has returned.
pub(crate) struct Committed(Result<Option<ManifestId>, StoreError>);

/// What a commit is put together from.
pub(crate) struct State<'a> {
    pub(crate) env: &'a Environment,
    pub(crate) index: &'a mut BlockIndex,
    pub(crate) coins: &'a mut UtxoStore,
    /// The last block that an earlier run verified, while the coins do not reach it.
    pub(crate) replay: Option<NodeId>,
    /// Seconds since 1970.
    pub(crate) now: i64,
    /// Bytes of blocks and undo records that were written since the chain was opened.
    pub(crate) appended: u64,
}

/// See the module's documentation.
pub(crate) struct Durability {
    flush: Option<Flush>,
    /// What the commit that is under way will have made durable.
    committing: Option<Durable>,
    durable: Durable,
    /// A block waits for a commit of the block index.
    wanted: bool,
    connected_since: u32,
    last_commit: i64,
    pruning: Pruning,
    /// Jobs here are never cancelled.
    job_sender: JobSender<Committed>,
}

impl Durability {
    /// For an `index` and coins of its tip that were just read from disk. `now` is in seconds since
    /// 1970.
    pub(crate) fn new(
        index: &BlockIndex,
        verified: ChainPoint,
        prune_bytes: Option<u64>,
        now: i64,
        job_sender: JobSender<Committed>,
    ) -> Self {
        Self {
            flush: None,
            committing: None,
            durable: Durable {
                headers: index.tree().len() as u32,
                verified,
                coins: index.point(index.tip()),
                appended: 0,
            },
            wanted: false,
            connected_since: 0,
            last_commit: now,
            pruning: Pruning::new(prune_bytes, index),
            job_sender,
        }
    }

    /// Lowest height from which on every block up to the tip is stored.
    pub(crate) fn prune_height(&self) -> u32 {
        self.pruning.lowest()
    }

    /// How often blocks were deleted.
    pub(crate) fn prunings(&self) -> u32 {
        self.pruning.prunings()
    }

    /// Finds the lowest stored block of the active chain again, after the active chain has changed.
    pub(crate) fn find_prune_height(&mut self, index: &BlockIndex) {
        self.pruning.find_lowest(index);
    }

    pub(crate) fn note_stored(&mut self, index: &BlockIndex, stored: &Stored) {
        let id = stored.id();
        self.pruning.note_stored(id, index.height(id), stored.position().file);
    }

    pub(crate) fn note_connected(&mut self) {
        self.connected_since += 1;
    }

    /// Whether a block on top of `parent` may be stored now. One whose parent is not stored has to
    /// wait for the commit of an index that holds the headers below: after a crash it would be a block
    /// without a known parent, and be fetched again. (A parent that is on its way to the files comes
    /// before it there.)
    pub(crate) fn names(&self, index: &BlockIndex, parent: Option<NodeId>) -> bool {
        parent.is_none_or(|parent| {
            parent.index() < self.durable.headers || index.node(parent).position.is_some()
        })
    }

    /// Asks for a commit soon.
    pub(crate) fn want_commit(&mut self) {
        self.wanted = true;
    }

    /// Whether no block may be applied before the memtable is rotated.
    pub(crate) fn wants_rotation(&self, coins: &UtxoStore) -> bool {
        coins.wants_rotation()
    }

    /// Whether no commit is under way or wanted.
    pub(crate) fn is_settled(&self) -> bool {
        self.committing.is_none() && !self.wanted
    }

    pub(crate) fn is_committing(&self) -> bool {
        self.committing.is_some()
    }

    /// Starts what is due; returns whether there was anything. With an empty window, the coins are
    /// those of the tip.
    pub(crate) fn advance(
        &mut self,
        mut state: State<'_>,
        window_is_empty: bool,
    ) -> Result<bool, ChainError> {
        let mut any = false;
        if self.wants_rotation(state.coins) && window_is_empty {
            // If memory is full while the last flush is still being written or committed, nothing
            // is applied until that is done: the one stall, bounded by the time to write a
            // memtable. Everything else goes on.
            any = self.flush.is_none() && self.rotate(state.index, state.coins)?;
        }
        if self.committing.is_none() {
            let seal = self.flushing();
            if seal.is_some_and(|seal| state.coins.flushed() >= seal) {
                self.commit_flush(&mut state);
                any = true;
            } else if self.wanted
                || self.checkpoint_is_due(state.now)
                || self.pruning.is_due(state.env, state.index, state.replay)
            {
                self.commit_index(&mut state);
                any = true;
            }
            self.pruning.note_looked();
        }
        Ok(any)
    }

    fn checkpoint_is_due(&self, now: i64) -> bool {
        self.connected_since >= CHECKPOINT_BLOCKS
            || (self.connected_since > 0 && interval_is_over(self.last_commit, now))
    }

    /// The flush whose run is not committed yet.
    pub(crate) fn flushing(&self) -> Option<SealId> {
        self.flush.as_ref().map(|flush| flush.seal)
    }

    /// Seals the memtable, whose coins are those of the tip, if there is room for the next one.
    fn rotate(&mut self, index: &BlockIndex, coins: &mut UtxoStore) -> Result<bool, StoreError> {
        match coins.rotate()? {
            Rotation::Sealed(seal) => {
                self.note_sealed(seal, index.tip());
                Ok(true)
            }
            Rotation::Full => Ok(false),
        }
    }

    /// The memtables up to `seal` hold the coins of `tip`.
    pub(crate) fn note_sealed(&mut self, seal: SealId, tip: NodeId) {
        self.flush = Some(Flush { seal, tip });
    }

    /// Commits the run of the last flush, which is written, with the tip that it describes.
    pub(crate) fn commit_flush(&mut self, state: &mut State<'_>) {
        let Some(Flush { seal, tip }) = self.flush.take() else { return };
        let (id, manifest) = state.coins.manifest(seal);
        let mut encoded = godwit_stream::DataStream::new();
        encoded.put(&manifest);
        let utxo = UtxoCommit {
            manifest: encoded.into_vec(),
            tip: state.index.point(tip),
            assumed: state.index.assumed().copied(),
        };
        self.pruning.note_coins(tip);
        self.start_commit(state, Some(utxo), Some(id));
    }

    /// Commits the block index and the verified height.
    pub(crate) fn commit_index(&mut self, state: &mut State<'_>) {
        self.start_commit(state, None, None);
    }

    fn start_commit(
        &mut self,
        state: &mut State<'_>,
        utxo: Option<UtxoCommit>,
        manifest: Option<ManifestId>,
    ) {
        assert!(self.committing.is_none(), "one commit at a time");
        let State { env, index, replay, now, appended: bytes, .. } = state;
        let appended = env.store.take_appended();
        let pruned = self.pruning.prune(env, index, *replay);
        let blocks = index.take_changes();
        // An interrupted replay must not lower the verified height.
        let verified = index.point(replay.unwrap_or(index.tip()));
        let coins = utxo.as_ref().map_or(self.durable.coins, |utxo| utxo.tip);
        let headers = index.tree().len() as u32;
        self.committing = Some(Durable { headers, verified, coins, appended: *bytes });
        let commit = Commit { appended, blocks, pruned, verified_tip: Some(verified), utxo };
        self.wanted = false;
        self.connected_since = 0;
        self.last_commit = *now;
        let env = env.clone();
        self.job_sender.run(Priority::Urgent, "commit", move || {
            Committed(commit::run(&env, commit).map(|()| manifest))
        });
    }

    /// A commit has returned.
    pub(crate) fn committed(
        &mut self,
        coins: &mut UtxoStore,
        committed: Committed,
    ) -> Result<(), StoreError> {
        let durable = self.committing.take().expect("a commit was under way");
        if let Some(manifest) = committed.0? {
            coins.committed(manifest)?;
        }
        self.durable = durable;
        Ok(())
    }

    /// Adds what is durable to the status; `appended` is as in [`State`].
    pub(crate) fn status(&self, appended: u64, status: &mut ChainStatus) {
        let Durable { verified, coins, appended: durable, .. } = self.durable;
        (status.verified_durable, status.coins_durable) = (verified, coins);
        status.bytes_at_risk = appended - durable;
    }
}

/// Whether a checkpoint is due at `now`. A clock that was set back also ends the interval, which
/// would otherwise last until the clock has caught up.
fn interval_is_over(last_commit: i64, now: i64) -> bool {
    now.abs_diff(last_commit) > CHECKPOINT_SECONDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_ends_on_a_clock_that_goes_on_or_back() {
        let limit = CHECKPOINT_SECONDS as i64;
        for (now, over) in [(0, false), (limit, false), (limit + 1, true)] {
            assert_eq!(interval_is_over(1_000, 1_000 + now), over, "{now}");
            assert_eq!(interval_is_over(1_000, 1_000 - now), over, "-{now}");
        }
        assert!(interval_is_over(i64::MIN, i64::MAX));
    }
}

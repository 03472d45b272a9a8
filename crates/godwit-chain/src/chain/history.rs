//! The part of each turn of the chain that validates the history below a snapshot.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use godwit_store::exec::Priority;
use godwit_store::{HistoryCommit, Refutation};

use super::{Chain, is_at_rest};
use crate::coins_view::CoinsView;
use crate::durability::Closed;
use crate::error::ChainError;
use crate::history::{Answer, Shared, Turn, share};
use crate::index::{HistoryProgress, assumed};
use crate::stats::{CoinsHash, VIEW_SORT_BYTES};

/// Lets the history advance, where nothing can be applied to the chain. At `-stopatheight` no block of it is
/// begun: the node is about to end. Returns whether that did anything.
pub(super) fn validate(chain: &mut Chain) -> Result<bool, ChainError> {
    let has_stopped = chain.goal.is_reached(&chain.index, chain.index.tip());
    let chain_rests = is_at_rest(chain) && !has_stopped;
    let Chain { env, index, appender, durability, history, now, .. } = chain;
    let Some(history) = history else { return Ok(false) };
    let mut shared = Shared { env, index, appender, durability, now: *now, chain_rests };
    match history.advance(&mut shared) {
        Ok(Turn::Moved(any)) => return Ok(any),
        Ok(Turn::Validated) => {
            log::info!("The coins of the history are those of the snapshot.");
            end(chain, HistoryCommit::Validated);
        }
        Ok(Turn::Ended) => hash(chain),
        Ok(Turn::Refuted(refutation)) => refute(chain, refutation),
        Err(error) => failed(chain, error)?,
    }
    Ok(true)
}

/// Has the coins at the snapshot's block hashed as they lie on disk.
fn hash(chain: &mut Chain) {
    let (Some(station), Some(HistoryProgress { base, .. })) =
        (&mut chain.history, assumed::progress(&chain.index))
    else {
        return;
    };
    log::info!(
        "The history is validated up to the snapshot's block {} at height {}: its coins are hashed.",
        base.hash,
        base.height
    );
    let (layers, job_sender, given_up) = station.begin_hashing();
    let (view, cancelled) = (CoinsView::new(base, &layers), Arc::clone(&chain.env.cancelled));
    job_sender.run(Priority::Urgent, "hash", move || {
        let is_over = || cancelled.load(Ordering::Relaxed) || given_up.load(Ordering::Relaxed);
        let stats = view.stats(CoinsHash::Serialized, VIEW_SORT_BYTES, &is_over);
        Answer(stats.map(|stats| stats.hash))
    });
}

/// Nothing more of the history is validated in this process. It is closed on the thread that commits: that
/// may wait for a merge of its coins, and for the job that hashes them.
fn end(chain: &mut Chain, commit: HistoryCommit) {
    let history = chain.history.take();
    if let Some(history) = &history {
        history.given_up.store(true, Ordering::Relaxed);
    }
    chain.durability.commit_history(commit, history.map(|history| history as Closed));
}

/// Ends: the snapshot is wrong, or the memory of this machine. Only the second time is it the snapshot, and
/// that is final.
pub(super) fn refute(chain: &mut Chain, refutation: Refutation) {
    let Some(assumed) = chain.index.assumed().copied() else { return };
    let (error, commit) = match chain.index.doubted {
        true => (
            ChainError::SnapshotRefuted { assumed, refutation },
            HistoryCommit::Refuted(refutation),
        ),
        false => (
            ChainError::SnapshotDoubted { assumed, refutation },
            HistoryCommit::Doubted(refutation),
        ),
    };
    log::error!("{error}.");
    end(chain, commit);
    chain.ending.begin(error);
}

/// An error of the history. Where its coins are damaged, or nothing but wrong ones explain it, they are
/// forgotten, and the chain goes on: nothing of it depends on them.
pub(super) fn failed(chain: &mut Chain, error: ChainError) -> Result<(), ChainError> {
    let is_of_its_coins = match &error {
        ChainError::Store(error) => error.is_rotten(),
        ChainError::DamagedCoin(_)
        | ChainError::ChangedCoin(_)
        | ChainError::Contradiction(..)
        | ChainError::DamagedUndo(_) => true,
        _ => false,
    };
    if !is_of_its_coins {
        return Err(error);
    }
    log::error!(
        "{error}. This damage is in the coins of the history below the snapshot. The node goes on without them; \
         at the next start the history is validated from genesis again, without the scripts that have run."
    );
    end(chain, HistoryCommit::Forgotten);
    Ok(())
}

/// A job has hashed its coins.
pub(super) fn hashed(chain: &mut Chain, answer: Answer) -> Result<(), ChainError> {
    let Some(history) = &mut chain.history else { return Ok(()) };
    match history.hashed(answer) {
        Ok(()) => Ok(()),
        Err(error) => failed(chain, error),
    }
}

/// A commit has returned: if it was that of something about the history, that is in force.
pub(super) fn committed(chain: &mut Chain) -> Result<(), ChainError> {
    let Some(committed) = chain.durability.take_committed_history() else { return Ok(()) };
    if let Some(history) = &mut chain.history {
        // The store of its coins also looks at its own jobs there, of which a merge may have met damage.
        return match history.committed(&chain.index) {
            Ok(()) => Ok(()),
            Err(error) => failed(chain, error.into()),
        };
    }
    if !committed.is_validated {
        return Ok(());
    }
    let Some(HistoryProgress { base, .. }) = assumed::progress(&chain.index) else { return Ok(()) };
    assumed::end(&mut chain.index);
    chain.durability.find_prune_height(&chain.index);
    let memory = chain.env.memory;
    chain.lookahead.set_limit(memory.waiting);
    chain.window.set_limit(memory.window);
    log::info!(
        "The chain is validated from genesis: the snapshot of block {} at height {} was right, and nothing is \
         assumed any more.",
        base.hash,
        base.height
    );
    Ok(())
}

/// Divides the coins' memory, and adds to the status what the history holds.
pub(super) fn share_memory(chain: &mut Chain, coins: u64) {
    let (status, history) = (&mut chain.status, &mut chain.history);
    let behind = status.best_header.height.saturating_sub(status.tip.height);
    let share = history.as_ref().map_or(0, |_| share(coins, behind));
    chain.coins.set_budget(coins - share);
    status.memory.coins = chain.coins.memory_used();
    status.history = assumed::progress(&chain.index).filter(|_| history.is_some());
    if let Some(history) = history {
        history.coins.set_budget(share);
        history.status(status);
    }
}

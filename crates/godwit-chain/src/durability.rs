//! When the chain's state becomes durable.
//!
//! A *flush* seals the memtable and, when its run is written, commits the run with the tip that it
//! describes. It starts only when the window is empty, so a run never holds a coin of a block whose
//! scripts have not passed. A *checkpoint* commits the block index and the verified height alone: it
//! costs a few syncs, and after a crash the blocks above the last flush are applied again from
//! godwit's own files without running their scripts again.

pub(crate) mod committer;
pub(crate) mod pruning;

use std::time::Instant;

use godwit_store::utxo::{ManifestId, SealId};
use godwit_store::{BlockRecord, BlockStatus, Commit, UtxoCommit};

use crate::chain::{Chain, Flush};
use crate::durability::committer::Request;
use crate::error::ChainError;
use crate::tree::{Node, Validity};

/// A checkpoint is due after this many connected blocks.
const CHECKPOINT_BLOCKS: u32 = 2_000;

/// A checkpoint is due after this long, if any block was connected.
const CHECKPOINT_SECONDS: u64 = 20;

impl Chain {
    /// Whether no block may be applied before the memtable is sealed.
    pub(crate) fn wants_flush(&self) -> bool {
        self.utxo.should_freeze()
    }

    /// Starts what is due and finishes what is done; whether there was anything.
    pub(crate) fn maintain(&mut self) -> Result<bool, ChainError> {
        let start = Instant::now();
        self.utxo.poll()?;
        let mut any = false;
        if self.wants_flush() && self.window.is_empty() {
            // Memory is full and the last flush still being written or committed: the one stall,
            // bounded by the time that writing a memtable takes.
            match &self.flush {
                None => self.seal()?,
                Some(flush) if self.utxo.flushed() < flush.seal => {
                    self.utxo.wait_flushed(flush.seal)?;
                }
                Some(_) if self.committer.is_busy() => self.wait()?,
                Some(_) => {}
            }
            any = true;
        }
        let flushed = self.flush.as_ref().is_some_and(|flush| self.utxo.flushed() >= flush.seal);
        if !self.committer.is_busy() {
            if flushed {
                self.commit_flush()?;
                any = true;
            } else if self.checkpoint_is_due() || self.prune_is_due() {
                self.commit_index();
                any = true;
            }
        }
        self.times.flush += start.elapsed();
        Ok(any)
    }

    fn checkpoint_is_due(&self) -> bool {
        self.blocks_since_commit >= CHECKPOINT_BLOCKS
            || (self.blocks_since_commit > 0
                && interval_is_over(self.last_commit, (self.options.clock)()))
    }

    fn seal(&mut self) -> Result<(), ChainError> {
        debug_assert_eq!(self.applied, self.tip);
        let seal = self.utxo.freeze()?;
        self.flush = Some(Flush { seal, tip: self.tip });
        Ok(())
    }

    fn commit_flush(&mut self) -> Result<(), ChainError> {
        let Some(Flush { seal, tip }) = self.flush.take() else { return Ok(()) };
        let (id, manifest) = self.utxo.manifest(seal);
        let mut encoded = godwit_stream::DataStream::new();
        encoded.put(&manifest);
        let utxo = UtxoCommit {
            manifest: encoded.into_vec(),
            tip: self.point(tip),
            assumed: self.assumed,
        };
        self.pruning.note_coins(tip);
        self.start_commit(Some(utxo), Some(id));
        Ok(())
    }

    pub(crate) fn commit_index(&mut self) {
        self.start_commit(None, None);
    }

    fn start_commit(&mut self, utxo: Option<UtxoCommit>, manifest: Option<ManifestId>) {
        let appended = self.store.take_appended();
        let pruned = self.prune();
        let blocks = self.tree.take_dirty();
        let blocks = blocks.iter().map(|id| {
            let node = self.tree.node(*id);
            (node.hash, record(node))
        });
        let blocks = blocks.collect();
        // A replay that is interrupted takes nothing back.
        let verified_tip = Some(self.point(self.replay.unwrap_or(self.tip)));
        let commit = Commit { appended, blocks, pruned, verified_tip, utxo };
        self.committer.commit(Request { commit, manifest });
        self.headers_in_commit = self.tree.len() as u32;
        self.blocks_since_commit = 0;
        self.last_commit = (self.options.clock)();
    }

    fn wait_commit(&mut self) -> Result<(), ChainError> {
        self.check_threads()?;
        while self.committer.is_busy() {
            self.wait()?;
        }
        Ok(())
    }

    /// Makes the block index and the verified height durable and waits for it.
    pub(crate) fn checkpoint(&mut self) -> Result<(), ChainError> {
        self.wait_commit()?;
        self.commit_index();
        self.wait_commit()
    }

    /// Makes everything verified durable, coins included, and waits for it.
    pub fn flush(&mut self) -> Result<(), ChainError> {
        self.settle()?;
        if let Some(flush) = &self.flush {
            self.utxo.wait_flushed(flush.seal)?;
            self.wait_commit()?;
            self.commit_flush()?;
        }
        self.seal()?;
        let seal = self.flush.as_ref().expect("just sealed").seal;
        // Blocks and undo records are synced while the run is written, so that the commit that names
        // both waits for neither.
        self.checkpoint()?;
        self.utxo.wait_flushed(seal)?;
        self.commit_flush()?;
        self.wait_commit()
    }

    /// Makes the coins of a snapshot, written up to `seal`, durable as those of the tip, and waits for
    /// it. One commit holds them, the tip and what is assumed: a verified height that is durable before
    /// the coins would be replayed after a crash, from blocks that never came.
    pub(crate) fn commit_snapshot(&mut self, seal: SealId) -> Result<(), ChainError> {
        self.flush = Some(Flush { seal, tip: self.tip });
        self.commit_flush()?;
        self.wait_commit()
    }

    /// Stops soon: nothing in flight is waited for, the index and the verified height become
    /// durable, and coins that were not flushed are rebuilt from godwit's own files at the next
    /// start.
    pub fn close(mut self) -> Result<(), ChainError> {
        self.cancel();
        self.checkpoint()
    }
}

/// Whether a checkpoint is due at `now`. A clock that was set back ends the interval too: it would
/// otherwise not end before that clock has caught up.
fn interval_is_over(last_commit: i64, now: i64) -> bool {
    now.abs_diff(last_commit) > CHECKPOINT_SECONDS
}

/// What the database keeps of a node.
fn record(node: &Node) -> BlockRecord {
    let mut status = match node.validity {
        Validity::Header => BlockStatus::HEADER,
        Validity::Structured => BlockStatus::STRUCTURED,
        Validity::Scripts => BlockStatus::SCRIPTS,
    };
    if node.failed {
        status = status | BlockStatus::FAILED;
    }
    BlockRecord {
        header: node.header,
        height: node.height,
        status,
        tx_count: node.tx_count,
        sequence: node.sequence,
        position: node.position,
        undo: node.undo,
    }
}

/// Validity and failure of a stored node.
pub(crate) fn standing(status: BlockStatus) -> (Validity, bool) {
    let validity = if status.contains(BlockStatus::SCRIPTS) {
        Validity::Scripts
    } else if status.contains(BlockStatus::STRUCTURED) {
        Validity::Structured
    } else {
        Validity::Header
    };
    (validity, status.contains(BlockStatus::FAILED))
}

/// Nodes in the order in which a chain needs them: parents first.
pub(crate) fn by_height(mut records: Vec<BlockRecord>) -> Vec<BlockRecord> {
    records.sort_unstable_by_key(|record| (record.height, record.sequence));
    records
}

/// A node and its record agree on where the block lies.
pub(crate) fn restore(node: &mut Node, record: &BlockRecord) {
    let (validity, failed) = standing(record.status);
    node.validity = validity;
    node.failed |= failed;
    node.tx_count = record.tx_count;
    node.sequence = record.sequence;
    node.position = record.position;
    node.undo = record.undo;
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

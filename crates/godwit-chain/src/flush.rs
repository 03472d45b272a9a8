//! Makes everything durable and waits for it, for commands and for the shutdown of a node.

use std::sync::atomic::Ordering;

use godwit_store::utxo::SealId;

use crate::chain::Chain;
use crate::error::ChainError;

impl Chain {
    fn wait_commit(&mut self) -> Result<(), ChainError> {
        self.ending.check_threads()?;
        // What the scrub reads of the database, a commit would change; a job that is cancelled may never
        // answer.
        self.durability.scrub.stop_files();
        let scrubs = |chain: &Self| {
            chain.durability.scrub.reads_files() && !chain.env.cancelled.load(Ordering::Relaxed)
        };
        while self.durability.is_busy() || scrubs(self) {
            self.wait()?;
        }
        // A block that was read meanwhile may be damaged.
        self.check_damage()
    }

    /// Makes the block index and the verified height durable and waits for it, blocks that are recovered
    /// included.
    pub(crate) fn checkpoint(&mut self) -> Result<(), ChainError> {
        self.finish_recovery()?;
        self.wait_commit()?;
        let (durability, mut state) = self.durability_at(self.now);
        durability.commit_index(&mut state);
        self.wait_commit()
    }

    /// Judges the blocks that an earlier process had received and not committed, and waits for them.
    pub(crate) fn finish_recovery(&mut self) -> Result<(), ChainError> {
        while !self.recovery.is_done() {
            if !self.recover()? {
                self.wait()?;
            }
        }
        Ok(())
    }

    fn commit_flush(&mut self) -> Result<(), ChainError> {
        self.wait_commit()?;
        let (durability, mut state) = self.durability_at(self.now);
        durability.commit_flush(&mut state);
        self.wait_commit()
    }

    /// Makes everything verified durable, coins included, and waits for it.
    pub fn flush(&mut self) -> Result<(), ChainError> {
        self.settle(self.now)?;
        let seal = self.coins.rotate_blocking()?;
        self.commit_coins(seal)
    }

    /// Makes the coins of the tip, which are sealed, durable with all else.
    fn commit_coins(&mut self, seal: SealId) -> Result<(), ChainError> {
        self.durability.note_sealed(seal, self.index.tip());
        // Blocks and undo records are synced while the run is written, so that the commit that names
        // both waits for neither.
        self.checkpoint()?;
        self.coins.wait_flushed(seal)?;
        self.commit_flush()
    }

    /// Makes the coins of a snapshot, written up to `seal`, durable as those of the tip, and waits
    /// for it. They, the tip and the assumption are in one commit: a verified height that became
    /// durable before the coins would be replayed after a crash, from blocks that never arrived.
    pub(crate) fn commit_snapshot(&mut self, seal: SealId) -> Result<(), ChainError> {
        self.durability.note_sealed(seal, self.index.tip());
        self.commit_flush()
    }

    /// Closes the chain quickly, with everything verified durable, coins included: a restart has nothing to
    /// apply again. Waits for no script, no merge and no block: those of the window are taken back. What
    /// has to be written is bounded by [`CoinWriting::ending`](crate::CoinWriting).
    pub fn close(mut self) -> Result<(), ChainError> {
        self.cancel();
        if !self.recovery.is_done() {
            // The last commit stays in force: nothing that this process did is worth the wait for the rest.
            return self.wait_commit();
        }
        self.deliver()?;
        self.keep_appended();
        self.retire()?;
        self.window.give_up(&self.index, &mut self.coins)?;
        self.durability.note_taken_back(&self.index, self.window.applied());
        if self.window.applied() != self.index.tip() {
            // A fault has ended the chain between a block and its coins: no commit may name these.
            return self.wait_commit();
        }
        if self.durability.needs_no_flush(&self.index, &self.coins) {
            return self.checkpoint();
        }
        let seal = self.coins.rotate_finally()?;
        self.commit_coins(seal)
    }
}

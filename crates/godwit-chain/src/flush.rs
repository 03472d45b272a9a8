//! Makes everything durable and waits for it: for commands, and for the end of a node.

use godwit_store::utxo::SealId;

use crate::chain::Chain;
use crate::error::ChainError;

impl Chain {
    fn wait_commit(&mut self) -> Result<(), ChainError> {
        self.ending.check_threads()?;
        while self.durability.is_committing() {
            self.wait()?;
        }
        // A block that was read meanwhile may be damaged.
        self.check_damage()
    }

    /// Makes the block index and the verified height durable and waits for it.
    pub(crate) fn checkpoint(&mut self) -> Result<(), ChainError> {
        self.wait_commit()?;
        let (durability, mut state) = self.durability_at(self.now);
        durability.commit_index(&mut state);
        self.wait_commit()
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
        if let Some(seal) = self.durability.flushing() {
            self.coins.wait_flushed(seal)?;
            self.commit_flush()?;
        }
        let seal = self.coins.rotate_blocking()?;
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

    /// Closes the chain quickly: waits for nothing in flight, and makes the index and the verified
    /// height durable. Coins that were not flushed are rebuilt from godwit's own files at the next
    /// start.
    pub fn close(mut self) -> Result<(), ChainError> {
        self.cancel();
        self.checkpoint()
    }
}

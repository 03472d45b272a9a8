//! The operator overrules the verdict on a block, or which of two with equal work came first: Core's
//! `invalidateblock`, `reconsiderblock` and `preciousblock` (`validation.cpp`, `InvalidateBlock`,
//! `ResetBlockFailureFlags`, `PreciousBlock`).
//!
//! None of them waits: the block index is changed at once, and the next turns of the chain leave the blocks
//! that failed, one after the other, and go to what is the best chain now. A commit is wanted at once, so
//! that the word survives a power cut; until it has returned, it may be lost.
//!
//! Blocks that arrive on a chain that failed are refused as invalid ones are. They are not stored, and after
//! [`Chain::reconsider_block`] they have to be fetched again.

use std::fmt;

use godwit_primitives::BlockHash;
use godwit_store::ChainPoint;

use crate::chain::{Chain, prepare_way};
use crate::error::ChainError;
use crate::index::operator::{prefer, set_sequences};

/// Why the verdict on a block is what it was.
#[derive(Debug)]
pub enum OverruleError {
    /// No header has this hash.
    Unknown(BlockHash),
    /// The first block cannot fail.
    Genesis,
    /// The chain that would then be the best leaves the active one below the blocks that pruning kept.
    BelowPruned {
        /// Height of the last block that the two chains share.
        fork: u32,
        /// Height of the lowest block that is kept.
        lowest: u32,
    },
    /// It leaves the active one below the block of a snapshot.
    BelowSnapshot {
        /// Height of the last block that the two chains share.
        fork: u32,
        /// The snapshot's block.
        base: ChainPoint,
    },
    /// A local fault, after which the chain is to be dropped.
    Chain(ChainError),
}

impl fmt::Display for OverruleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(hash) => write!(f, "no block {hash} is known"),
            Self::Genesis => f.write_str("the genesis block cannot be invalidated"),
            Self::BelowPruned { fork, lowest } => write!(
                f,
                "the best chain would then leave the active one at height {fork}, but blocks below height \
                 {lowest} were pruned and cannot be disconnected"
            ),
            Self::BelowSnapshot { fork, base: ChainPoint { hash, height } } => write!(
                f,
                "the best chain would then leave the active one at height {fork}, but the coins were loaded \
                 from a snapshot of block {hash} at height {height}, which cannot be disconnected"
            ),
            Self::Chain(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for OverruleError {}

impl From<ChainError> for OverruleError {
    fn from(error: ChainError) -> Self {
        match error {
            ChainError::ForkBelowPruned { fork, lowest } => Self::BelowPruned { fork, lowest },
            ChainError::ForkBelowSnapshot { fork, base } => Self::BelowSnapshot { fork, base },
            error => Self::Chain(error),
        }
    }
}

impl Chain {
    /// Takes a block and its descendants for invalid, whatever was found of them, and leaves them if they are
    /// in the active chain. A block that failed before stays as it is.
    ///
    /// # Errors
    ///
    /// The block is unknown or the first one, or it cannot be left; then nothing changes. Or a local fault.
    pub fn invalidate_block(&mut self, hash: &BlockHash) -> Result<(), OverruleError> {
        let id = self.tree().find(hash).ok_or(OverruleError::Unknown(*hash))?;
        if id == self.tree().genesis() {
            return Err(OverruleError::Genesis);
        }
        let failed = self.index.invalidate(id);
        if let Err(error) = check_way(self) {
            self.index.set_failed(&failed, false);
            return Err(error.into());
        }
        let ChainPoint { hash, height } = self.index.point(id);
        log::warn!(
            "InvalidateBlock: block={hash} height={height}: {} blocks and headers are taken for invalid.",
            failed.len()
        );
        self.window.take_back_failed(&self.index, &mut self.coins)?;
        self.durability.note_taken_back(&self.index, self.window.applied());
        self.goal.note_failed(&self.index);
        self.lookahead.forget(&self.index, &failed);
        self.durability.want_commit();
        Ok(())
    }

    /// Forgets that a block, its ancestors and its descendants failed, for whatever reason. What had never
    /// been connected is verified again.
    ///
    /// # Errors
    ///
    /// The block is unknown, or the best chain could then not be reached; then nothing changes.
    pub fn reconsider_block(&mut self, hash: &BlockHash) -> Result<(), OverruleError> {
        let id = self.tree().find(hash).ok_or(OverruleError::Unknown(*hash))?;
        let failed = self.tree().failed_in_line(id);
        self.index.set_failed(&failed, false);
        if let Err(error) = check_way(self) {
            self.index.set_failed(&failed, true);
            return Err(error.into());
        }
        let ChainPoint { hash, height } = self.index.point(id);
        log::info!(
            "ReconsiderBlock: block={hash} height={height}: {} blocks and headers may be valid again.",
            failed.len()
        );
        self.durability.want_commit();
        Ok(())
    }

    /// Takes a block as if it had come before all others of the same work. One with less work than the tip
    /// stays where it is. Core forgets it at its end, but not which block is the tip: here the order is kept.
    ///
    /// # Errors
    ///
    /// The block is unknown, or it cannot become the tip; then nothing changes. Or a local fault.
    pub fn prefer_block(&mut self, hash: &BlockHash) -> Result<(), OverruleError> {
        let id = self.tree().find(hash).ok_or(OverruleError::Unknown(*hash))?;
        if self.tree().chain_work(id) < self.tree().chain_work(self.tip()) {
            return Ok(());
        }
        let before = prefer(&mut self.index, id);
        if let Err(error) = check_way(self) {
            set_sequences(&mut self.index, &before);
            return Err(error.into());
        }
        self.durability.want_commit();
        Ok(())
    }
}

/// Makes sure that the best candidate can become the tip.
fn check_way(chain: &mut Chain) -> Result<(), ChainError> {
    while let Some(target) = chain.goal.target(&chain.index, chain.window.applied())
        && !prepare_way(chain, target)?
    {}
    Ok(())
}

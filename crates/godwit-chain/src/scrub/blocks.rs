//! Reads a stored block and its undo record, as a job of the scrub.

use godwit_primitives::BlockHash;
use godwit_store::error::Damage;
use godwit_store::{BlockChecksum, StoreError, UndoPosition};

use crate::environment::Environment;
use crate::reads::{self, StoredBlock};
use crate::tree::NodeId;

/// A stored block that is to be read.
pub(super) struct Wanted {
    pub(super) id: NodeId,
    pub(super) block: StoredBlock,
    pub(super) prev: BlockHash,
    pub(super) undo: Option<UndoPosition>,
}

/// What was found of a stored block.
pub(crate) struct CheckedBlock {
    pub(super) wanted: Wanted,
    pub(super) block: Result<BlockChecksum, StoreError>,
    pub(super) undo: Result<(), StoreError>,
}

impl Wanted {
    pub(super) fn check(self, env: &Environment) -> CheckedBlock {
        let read = || match self.block.read(&env.store, &env.hasher) {
            Ok(intact) => Ok(intact.checksum),
            Err(reads::ReadError::Store(error)) => Err(error),
            Err(reads::ReadError::Damaged(at)) => {
                let (path, offset) = (env.store.block_file(at.file), at.offset.into());
                let damage = Damage::Disagreement("it is not the block of the index");
                Err(StoreError::Damaged { path, offset, damage })
            }
        };
        let block = env.store.scrub_block(self.block.position, read);
        let undo = self.undo.map_or(Ok(()), |at| env.store.scrub_undo(at, &self.prev));
        CheckedBlock { wanted: self, block, undo }
    }
}

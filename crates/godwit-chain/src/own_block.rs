//! A connected block, read back from its file.

use godwit_primitives::{BlockHash, BlockView};
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockPosition, BlockUndo, Store, StoreError};

use crate::structure::{Structured, WitnessCheck};
use crate::tree::NodeId;

/// Why a connected block could not be read back.
#[derive(Debug)]
pub(crate) enum ReadError {
    /// The bytes of this block, or of one that created what it spent, are not what was written.
    Block(NodeId),
    /// A read failed.
    Store(StoreError),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// A connected block, read back from its file.
pub(crate) fn read_own_block(
    store: &Store,
    hasher: &UtxoHasher,
    id: NodeId,
    position: BlockPosition,
    hash: BlockHash,
) -> Result<Structured, ReadError> {
    let bytes = match store.read_block(position) {
        Err(error) if error.is_rotten() => {
            log::error!("A stored block cannot be read: {error}");
            return Err(ReadError::Block(id));
        }
        bytes => bytes?,
    };
    let block = Structured::from_own_file(bytes, hash, WitnessCheck::Skip, hasher);
    block.ok_or(ReadError::Block(id))
}

/// Whether an undo record has as many coins as each of the block's transactions has inputs.
pub(crate) fn has_coins_of(block: BlockView<'_>, undo: &BlockUndo) -> bool {
    let inputs = block.txs().skip(1).map(|tx| tx.input_count());
    inputs.eq(undo.transactions().map(|coins| coins.len()))
}

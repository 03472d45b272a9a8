//! Stored blocks and undo records, read and decoded for methods.

use godwit_primitives::Block;
use godwit_rpc::{RpcError, code};
use godwit_store::BlockUndo;

use super::{BlockSource, Call};

/// The coins that the block spent, if that is known.
pub(crate) fn undo(source: &BlockSource) -> Result<Option<BlockUndo>, RpcError> {
    let BlockSource::Stored(reader, stored) = source else { return Ok(None) };
    reader.undo(stored).map_err(|error| {
        log::error!("An undo record cannot be read: {error}");
        no_undo()
    })
}

/// There is no undo record where the caller expects one (Core `getrawtransaction`).
pub(super) fn no_undo() -> RpcError {
    let text = "Undo data expected but can't be read. This could be due to disk corruption or a conflict \
                with a pruning event.";
    RpcError::new(code::INTERNAL_ERROR, text)
}

/// A stored block; `None` where it cannot be read, because it is damaged or gone.
pub(super) fn readable(call: &Call<'_>, source: &BlockSource) -> Result<Option<Block>, RpcError> {
    let Some(bytes) = call.read_if_intact(source)? else { return Ok(None) };
    Ok(Block::from_bytes(&bytes).ok())
}

/// A stored block, which was decoded before it was stored.
pub(super) fn decoded(bytes: Vec<u8>) -> Result<Block, RpcError> {
    Block::from_bytes(&bytes).map_err(|error| {
        RpcError::new(code::INTERNAL_ERROR, format!("a stored block does not decode: {error}"))
    })
}

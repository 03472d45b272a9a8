//! The last block that was announced.

use godwit_primitives::{Block, BlockHash};

use crate::index::HeaderId;
use crate::message::CompactBlock;

/// The last block that was announced, to serve requests for it and its parts.
pub(in crate::peers) struct RecentBlock {
    pub(in crate::peers) id: HeaderId,
    pub(in crate::peers) hash: BlockHash,
    pub(in crate::peers) block: Block,
    pub(in crate::peers) compact: CompactBlock,
}

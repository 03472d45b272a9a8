//! What is stored of a block.

use godwit_store::BlockPosition;

use super::BlockIndex;
use crate::tree::NodeId;

/// What is stored of a block. The appender knows of one that is on its way to its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// It is the genesis block, which no file holds: every node has it.
    Genesis,
    /// It has not come, as far as the index knows: one that was damaged may be forgotten.
    Absent,
    /// It is at this place, and not known to be damaged.
    Stored(BlockPosition),
    /// What is at its place is damaged, until it is written there again.
    Lost(BlockPosition),
    /// It was stored, and its file is deleted.
    Pruned,
}

impl Body {
    pub(crate) fn of(index: &BlockIndex, id: NodeId) -> Self {
        let node = index.tree.node(id);
        match node.position {
            _ if node.parent().is_none() => Self::Genesis,
            Some(place) if index.is_lost(id) => Self::Lost(place),
            Some(place) => Self::Stored(place),
            // The number of transactions is kept.
            None if node.tx_count > 0 => Self::Pruned,
            None => Self::Absent,
        }
    }
}

//! Which stored blocks are known to be damaged. Not durable: after a restart the next reader finds out again.

use std::collections::BTreeSet;

use crate::tree::NodeId;

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct Damaged {
    /// Blocks whose bytes are damaged, until they are written again.
    pub(super) lost: BTreeSet<NodeId>,
    /// Blocks that were lost once and are written again.
    pub(super) rewritten: BTreeSet<NodeId>,
    /// Blocks that were disconnected and whose undo records have rotted. The index names these until others
    /// are made: the coins on disk may be those of such a block, which is connected again after a crash.
    pub(super) rotted_undo: BTreeSet<NodeId>,
}

impl Damaged {
    /// The bytes of a stored block are damaged. Returns whether that is news.
    pub(crate) fn lose(&mut self, id: NodeId) -> bool {
        self.lost.insert(id)
    }

    /// The blocks that are to be written again.
    pub(crate) fn lost(&self) -> &BTreeSet<NodeId> {
        &self.lost
    }

    /// Whether the bytes of a stored block were damaged before: its place cannot be trusted.
    pub(crate) fn was_rewritten(&self, id: NodeId) -> bool {
        self.rewritten.contains(&id)
    }

    /// Whether a block that is connected needs another undo record than the one it has.
    pub(crate) fn has_rotted_undo(&self, id: NodeId) -> bool {
        self.rotted_undo.contains(&id)
    }

    /// The block is pruned.
    pub(super) fn forget(&mut self, id: NodeId) {
        for blocks in [&mut self.lost, &mut self.rewritten, &mut self.rotted_undo] {
            blocks.remove(&id);
        }
    }
}

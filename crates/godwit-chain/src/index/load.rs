//! Loads the block index, record by record.

use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Params;
use godwit_store::{AssumedSnapshot, BlockRecord, ChainPoint};

use crate::error::ChainError;
use crate::index::{BlockIndex, Body};
use crate::record::restore;
use crate::tree::NodeId;

/// An index that is being read. Records come by height, so that a parent comes before its children, and of
/// all of them only those of one height are in memory beside the tree.
pub(crate) struct Loading {
    index: BlockIndex,
    same_height: Vec<(BlockHash, BlockRecord)>,
    /// The nodes whose blocks are or were stored, parents first.
    received: Vec<NodeId>,
    failed: Option<ChainError>,
}

impl Loading {
    pub(crate) fn new(params: Arc<Params>) -> Self {
        let index = BlockIndex::new(params);
        Self { index, same_height: Vec::new(), received: Vec::new(), failed: None }
    }

    /// Bytes of the tree so far.
    pub(crate) fn memory(&self) -> usize {
        self.index.tree.memory()
    }

    /// Adds the next record. What is wrong with it is told at the end.
    pub(crate) fn add(&mut self, hash: BlockHash, record: BlockRecord) {
        if self.same_height.last().is_some_and(|(_, last)| last.height != record.height)
            && self.failed.is_none()
        {
            self.failed = self.insert().err();
        }
        self.same_height.push((hash, record));
    }

    /// Puts the records of one height into the tree, those first that became connectable first.
    fn insert(&mut self) -> Result<(), ChainError> {
        self.same_height.sort_by_key(|(_, record)| record.sequence);
        for (hash, record) in self.same_height.drain(..) {
            let parent = self.index.find(&record.header.prev_blockhash)?;
            let tree = &mut self.index.tree;
            let id = tree.restore(record.header, hash, parent, |node| restore(node, &record));
            let id = id.ok_or(ChainError::DamagedIndex(hash))?;
            // A pruned block has no position, but still its number of transactions.
            if record.tx_count > 0 {
                self.received.push(id);
            }
        }
        Ok(())
    }

    /// The index, whose coins are those of `tip` (`None`: of genesis).
    ///
    /// # Errors
    ///
    /// [`ChainError::DamagedIndex`] where a record's parent, the tip or the snapshot's block is not among
    /// the records, or one says what no block can have.
    pub(crate) fn finish(
        mut self,
        tip: Option<&ChainPoint>,
        assumed: Option<AssumedSnapshot>,
    ) -> Result<BlockIndex, ChainError> {
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        self.insert()?;
        let Self { mut index, received, .. } = self;
        index.assumed = assumed;
        if let Some(point) = tip {
            index.tip = index.find(&point.hash)?;
        }
        index.relink(&received)?;
        Ok(index)
    }
}

/// Has pruned blocks wait for those below that are not indexed yet: for an index that is being made again.
pub(crate) fn await_parents(index: &mut BlockIndex) {
    for place in 0..index.tree.len() as u32 {
        let id = index.tree.at(place);
        let node = index.tree.node(id);
        if let Some(parent) = node.parent()
            && Body::of(index, id) == Body::Pruned
            && !node.has_chain()
        {
            index.unlinked.entry(parent).or_default().push(id);
        }
    }
}

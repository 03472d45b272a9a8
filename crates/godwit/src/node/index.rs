//! The chain's header tree as the peer-to-peer engine reads it.

use godwit_chain::{Chain, NodeId, Validity};
use godwit_p2p::{HeaderId, HeaderIndex, HeaderInfo, HistorySpan};
use godwit_primitives::BlockHash;

/// A view of a chain's headers; a [`HeaderId`] is the place of a header in the tree.
#[derive(Clone, Copy)]
pub struct ChainIndex<'a>(pub &'a Chain);

impl ChainIndex<'_> {
    /// The engine's id of a node of the tree.
    pub fn header_id(id: NodeId) -> HeaderId {
        HeaderId(id.index())
    }

    /// The node with this id.
    pub fn node_id(&self, id: HeaderId) -> NodeId {
        self.0.tree().at(id.0)
    }
}

impl HeaderIndex for ChainIndex<'_> {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        self.0.tree().find(hash).map(Self::header_id)
    }

    fn get(&self, id: HeaderId) -> HeaderInfo {
        let tree = self.0.tree();
        let node_id = self.node_id(id);
        let node = tree.node(node_id);
        HeaderInfo {
            id,
            hash: node.hash,
            header: node.header,
            height: node.height,
            chain_work: tree.chain_work(node_id),
            // No file holds the genesis block, and every peer has it.
            stored: node.position.is_some() || node_id == tree.genesis(),
            failed: node.failed,
            connected: node.validity == Validity::Scripts,
        }
    }

    fn median_time_past(&self, id: HeaderId) -> u32 {
        self.0.tree().median_time_past(self.node_id(id))
    }

    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        self.0.tree().ancestor(self.node_id(id), height).map(Self::header_id)
    }

    fn parent(&self, id: HeaderId) -> Option<HeaderId> {
        self.0.tree().node(self.node_id(id)).parent().map(Self::header_id)
    }

    fn tip(&self) -> HeaderId {
        Self::header_id(self.0.tip())
    }

    fn best_header(&self) -> HeaderId {
        Self::header_id(self.0.tree().best_header())
    }

    fn prune_height(&self) -> u32 {
        self.0.prune_height()
    }

    fn history(&self) -> Option<HistorySpan> {
        let span = godwit_chain::history(self.0)?;
        Some(HistorySpan { tip: Self::header_id(span.tip), base: Self::header_id(span.base) })
    }
}

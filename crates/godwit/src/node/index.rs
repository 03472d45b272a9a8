//! The chain's header tree as the peer-to-peer engine reads it.

use godwit_chain::{Chain, NodeId, Validity};
use godwit_p2p::{HeaderId, HeaderIndex, HeaderInfo, HistorySpan};
use godwit_primitives::BlockHash;

/// A view of a chain's headers; a [`HeaderId`] is the place of a header in the tree.
#[derive(Clone, Copy)]
pub struct ChainIndex<'a> {
    chain: &'a Chain,
    tip: NodeId,
}

impl<'a> ChainIndex<'a> {
    pub fn new(chain: &'a Chain) -> Self {
        Self::at_tip(chain, chain.tip())
    }

    /// A chain that others see at another tip than its own: it is on its way to a better one.
    pub(super) fn at_tip(chain: &'a Chain, tip: NodeId) -> Self {
        Self { chain, tip }
    }

    /// The engine's id of a node of the tree.
    pub fn header_id(id: NodeId) -> HeaderId {
        HeaderId(id.index())
    }

    /// The node with this id.
    pub fn node_id(&self, id: HeaderId) -> NodeId {
        self.chain.tree().at(id.0)
    }
}

impl HeaderIndex for ChainIndex<'_> {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        self.chain.tree().find(hash).map(Self::header_id)
    }

    fn get(&self, id: HeaderId) -> HeaderInfo {
        let tree = self.chain.tree();
        let node_id = self.node_id(id);
        let node = tree.node(node_id);
        HeaderInfo {
            id,
            hash: node.hash,
            header: node.header,
            height: node.height,
            chain_work: tree.chain_work(node_id),
            // No file holds the genesis block, and every peer has it. A block that is lost is wanted by its
            // name.
            stored: node.position.is_some() || node_id == tree.genesis(),
            failed: node.failed,
            connected: node.validity == Validity::Scripts,
        }
    }

    fn median_time_past(&self, id: HeaderId) -> u32 {
        self.chain.tree().median_time_past(self.node_id(id))
    }

    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        self.chain.tree().ancestor(self.node_id(id), height).map(Self::header_id)
    }

    fn parent(&self, id: HeaderId) -> Option<HeaderId> {
        self.chain.tree().node(self.node_id(id)).parent().map(Self::header_id)
    }

    fn tip(&self) -> HeaderId {
        Self::header_id(self.tip)
    }

    fn best_header(&self) -> HeaderId {
        Self::header_id(self.chain.tree().best_header())
    }

    fn prune_height(&self) -> u32 {
        self.chain.prune_height()
    }

    fn history(&self) -> Option<HistorySpan> {
        let span = godwit_chain::history(self.chain)?;
        Some(HistorySpan { tip: Self::header_id(span.tip), base: Self::header_id(span.base) })
    }
}

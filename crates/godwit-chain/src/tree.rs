//! The header tree: every known header with its chain work and what is known of its block.
//!
//! Nodes live in an arena and are named by [`NodeId`], so that links between them are numbers and
//! the tree can be walked while other parts of the chain are borrowed. A node is never removed.
//! Ancestors are found in O(log n) through one skip link a node (Core `chain.cpp`, `GetAncestor`).

use std::collections::HashMap;

use godwit_primitives::{BlockHash, BlockHeader, Work, work};
use godwit_store::{BlockPosition, UndoPosition};

/// A node of the tree. Valid only for the tree that gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);

impl NodeId {
    /// Its place in the order in which headers came, from 0 for genesis.
    pub fn index(self) -> u32 {
        self.0
    }
}

/// How far a block's own content has been checked; each level includes the ones before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Validity {
    /// The header is valid in its place; of the block nothing is known.
    Header,
    /// The block is stored and keeps every rule that needs no coins (Core `BLOCK_VALID_TRANSACTIONS`).
    Structured,
    /// It was connected once: coins and scripts hold (Core `BLOCK_VALID_SCRIPTS`).
    Scripts,
}

/// One header and what is known of its block.
#[derive(Clone, Debug)]
pub struct Node {
    pub header: BlockHeader,
    pub hash: BlockHash,
    /// Distance from genesis.
    pub height: u32,
    /// Work of the chain that ends here, genesis included.
    pub chain_work: Work,
    /// How far the block is checked.
    pub validity: Validity,
    /// The block or one of its ancestors breaks a rule.
    pub failed: bool,
    /// Number of transactions; zero until the block is stored, and kept when it is pruned.
    pub tx_count: u32,
    /// Transactions of the chain up to here; zero until every block of it was stored once.
    pub chain_tx_count: u64,
    /// Order in which blocks became connectable: among tips of equal work the earlier one wins.
    pub sequence: u64,
    /// Where the block is stored, until it is pruned.
    pub position: Option<BlockPosition>,
    /// Where its undo record is stored, until it is pruned.
    pub undo: Option<UndoPosition>,
    parent: Option<NodeId>,
    skip: Option<NodeId>,
}

impl Node {
    /// The node before; `None` for genesis.
    pub fn parent(&self) -> Option<NodeId> {
        self.parent
    }

    /// Whether every block from genesis to here was stored once; some may be pruned.
    pub fn has_chain(&self) -> bool {
        self.chain_tx_count != 0
    }
}

/// The arena of nodes with an index by hash and the nodes that changed since the last commit.
#[derive(Debug)]
pub struct HeaderTree {
    nodes: Vec<Node>,
    by_hash: HashMap<BlockHash, NodeId>,
    best_header: NodeId,
    dirty: Vec<NodeId>,
    is_dirty: Vec<bool>,
}

/// Number of blocks whose times give the median (BIP113).
const MEDIAN_TIME_SPAN: usize = 11;

fn skip_height(height: u32) -> u32 {
    let clear_lowest = |n: u32| n & n.wrapping_sub(1);
    if height < 2 {
        return 0;
    }
    if height & 1 == 1 { clear_lowest(clear_lowest(height - 1)) + 1 } else { clear_lowest(height) }
}

impl HeaderTree {
    /// A tree of the genesis block alone, which needs no storing: its coinbase cannot be spent.
    pub fn new(genesis: BlockHeader) -> Self {
        let hash = genesis.block_hash();
        let node = Node {
            header: genesis,
            hash,
            height: 0,
            chain_work: work::block_proof(genesis.bits),
            validity: Validity::Scripts,
            failed: false,
            tx_count: 1,
            chain_tx_count: 1,
            sequence: 0,
            position: None,
            undo: None,
            parent: None,
            skip: None,
        };
        Self {
            nodes: vec![node],
            by_hash: HashMap::from([(hash, NodeId(0))]),
            best_header: NodeId(0),
            dirty: Vec::new(),
            is_dirty: vec![false],
        }
    }

    /// The genesis block.
    pub fn genesis(&self) -> NodeId {
        NodeId(0)
    }

    /// Number of headers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of memory, the spare room of its parts included.
    pub fn memory(&self) -> usize {
        let Self { nodes, by_hash, dirty, is_dirty, .. } = self;
        // The table has a control byte for each place.
        let entry = size_of::<(BlockHash, NodeId)>() + 1;
        nodes.capacity() * size_of::<Node>()
            + by_hash.capacity() * entry
            + dirty.capacity() * size_of::<NodeId>()
            + is_dirty.capacity()
    }

    /// Number of blocks that are stored.
    pub fn stored(&self) -> usize {
        self.nodes.iter().filter(|node| node.position.is_some()).count()
    }

    /// Never: genesis is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The node of a hash.
    pub fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        self.by_hash.get(hash).copied()
    }

    /// The node at a place in the order in which headers came.
    ///
    /// # Panics
    ///
    /// When there are not as many.
    pub fn at(&self, index: u32) -> NodeId {
        assert!((index as usize) < self.nodes.len(), "a place of this tree");
        NodeId(index)
    }

    pub fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    /// A node to change; it will be part of the next commit.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        let index = id.0 as usize;
        if !self.is_dirty[index] {
            self.is_dirty[index] = true;
            self.dirty.push(id);
        }
        &mut self.nodes[index]
    }

    /// The nodes that changed since the last call.
    pub fn take_dirty(&mut self) -> Vec<NodeId> {
        for id in &self.dirty {
            self.is_dirty[id.0 as usize] = false;
        }
        std::mem::take(&mut self.dirty)
    }

    /// Adds a header that keeps every header rule. Returns the node it already has, if any.
    pub fn insert(&mut self, header: BlockHeader, hash: BlockHash, parent: NodeId) -> NodeId {
        if let Some(known) = self.find(&hash) {
            return known;
        }
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 headers exist"));
        let before = self.node(parent);
        let height = before.height + 1;
        // An overflow of the total would need 2^256 hashes.
        let chain_work = before.chain_work + work::block_proof(header.bits);
        let failed = before.failed;
        let skip = self.ancestor(parent, skip_height(height));
        self.nodes.push(Node {
            header,
            hash,
            height,
            chain_work,
            validity: Validity::Header,
            failed,
            tx_count: 0,
            chain_tx_count: 0,
            sequence: 0,
            position: None,
            undo: None,
            parent: Some(parent),
            skip,
        });
        self.by_hash.insert(hash, id);
        self.is_dirty.push(true);
        self.dirty.push(id);
        let best = self.node(self.best_header);
        if !failed && (best.failed || chain_work > best.chain_work) {
            self.best_header = id;
        }
        id
    }

    /// The header with the most work that is not known to be invalid; the first seen among equals.
    pub fn best_header(&self) -> NodeId {
        self.best_header
    }

    /// The ancestor at `height`, the node itself included; `None` above it.
    pub fn ancestor(&self, id: NodeId, height: u32) -> Option<NodeId> {
        let mut walk = id;
        if height > self.node(walk).height {
            return None;
        }
        while self.node(walk).height > height {
            let node = self.node(walk);
            let skip_to = skip_height(node.height);
            let skip_to_of_parent = skip_height(node.height - 1);
            // Follow the skip link only where the parent's would not be the better one.
            let skip_pays = skip_to == height
                || (skip_to > height
                    && !(skip_to_of_parent + 2 < skip_to && skip_to_of_parent >= height));
            walk = match node.skip {
                Some(skip) if skip_pays => skip,
                _ => node.parent?,
            };
        }
        Some(walk)
    }

    /// Whether `ancestor` is on the chain that ends in `id`.
    pub fn is_ancestor(&self, ancestor: NodeId, id: NodeId) -> bool {
        self.ancestor(id, self.node(ancestor).height) == Some(ancestor)
    }

    /// The last block that two chains share.
    pub fn fork(&self, a: NodeId, b: NodeId) -> NodeId {
        let height = self.node(a).height.min(self.node(b).height);
        let at = |id| self.ancestor(id, height).expect("not above the node");
        let (mut a, mut b) = (at(a), at(b));
        while a != b {
            let up = |id| self.node(id).parent.expect("chains share genesis");
            (a, b) = (up(a), up(b));
        }
        a
    }

    /// Median of the times of the last eleven blocks up to and including `id` (BIP113).
    pub fn median_time_past(&self, id: NodeId) -> u32 {
        let mut times = [0u32; MEDIAN_TIME_SPAN];
        let mut count = 0;
        let mut walk = Some(id);
        while let Some(node) = walk.map(|id| self.node(id))
            && count < MEDIAN_TIME_SPAN
        {
            times[count] = node.header.time;
            count += 1;
            walk = node.parent;
        }
        let times = &mut times[..count];
        times.sort_unstable();
        times[count / 2]
    }

    /// Marks `id` and every descendant as failed and finds the best header anew
    /// (Core `SetBlockFailureFlags`). Returns the nodes that were newly marked.
    pub fn mark_failed(&mut self, id: NodeId) -> Vec<NodeId> {
        let first = id.0 as usize;
        let mut marked = Vec::new();
        // A descendant always comes after its ancestor in the arena.
        for index in first..self.nodes.len() {
            let candidate = NodeId(index as u32);
            let parent_failed = self.nodes[index].parent.is_some_and(|p| self.node(p).failed);
            if (candidate == id || parent_failed) && !self.nodes[index].failed {
                self.node_mut(candidate).failed = true;
                marked.push(candidate);
            }
        }
        if self.node(self.best_header).failed {
            self.find_best_header();
        }
        marked
    }

    /// Finds the best header anew, after nodes were changed behind its back.
    pub(crate) fn find_best_header(&mut self) {
        let mut best = NodeId(0);
        for (index, node) in self.nodes.iter().enumerate() {
            if !node.failed && node.chain_work > self.node(best).chain_work {
                best = NodeId(index as u32);
            }
        }
        self.best_header = best;
    }
}

#[cfg(test)]
mod tests;

//! A header tree whose hashes are its ids.

use std::cell::Cell;

use godwit_primitives::{BlockHash, BlockHeader, MerkleRoot, Work};

use crate::index::last_common_ancestor;
use crate::{HeaderId, HeaderIndex, HeaderInfo, HistorySpan};

#[derive(Clone, Debug)]
pub(super) struct Node {
    height: u32,
    work: u64,
    /// Ancestors 1, 2, 4... below.
    up: Vec<u32>,
    pub(super) size: u64,
    pub(super) stored: bool,
    pub(super) failed: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    pub(super) tip: HeaderId,
    best: HeaderId,
    pub(super) history: Option<HistorySpan>,
}

pub(super) const GENESIS: HeaderId = HeaderId(0);

pub(super) fn hash_of(id: HeaderId) -> BlockHash {
    let mut bytes = [0x5a; 32];
    // Not in the order of the ids.
    bytes[..4].copy_from_slice(&id.0.wrapping_mul(0x9e37_79b1).to_le_bytes());
    bytes[4..8].copy_from_slice(&id.0.to_le_bytes());
    BlockHash::from_bytes(bytes)
}

impl Tree {
    pub(super) fn new() -> Self {
        let (stored, failed) = (true, false);
        let genesis = Node { height: 0, work: 1, up: Vec::new(), size: 285, stored, failed };
        Self { nodes: vec![genesis], tip: GENESIS, best: GENESIS, history: None }
    }

    pub(super) fn add(&mut self, parent: HeaderId, size: u64, work: u64) -> HeaderId {
        let id = self.nodes.len() as u32;
        let mut up = vec![parent.0];
        while let Some(next) = self.nodes[*up.last().unwrap() as usize].up.get(up.len() - 1) {
            up.push(*next);
        }
        let below = &self.nodes[parent.0 as usize];
        let (height, work, failed) = (below.height + 1, below.work + work, below.failed);
        self.nodes.push(Node { height, work, up, size, stored: false, failed });
        if !failed && work > self.node(self.best).work {
            self.best = HeaderId(id);
        }
        HeaderId(id)
    }

    /// `count` blocks of `size` bytes on top of `parent`; the last one.
    pub(super) fn grow(&mut self, parent: HeaderId, count: u32, size: u64) -> HeaderId {
        (0..count).fold(parent, |parent, _| self.add(parent, size, 1))
    }

    pub(super) fn node(&self, id: HeaderId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(super) fn fail(&mut self, id: HeaderId) {
        self.nodes[id.0 as usize].failed = true;
        for child in id.0 + 1..self.nodes.len() as u32 {
            let parent = self.nodes[child as usize].up[0];
            self.nodes[child as usize].failed |= self.nodes[parent as usize].failed;
        }
        while self.node(self.tip).failed {
            self.tip = HeaderId(self.node(self.tip).up[0]);
        }
        let valid = self.nodes.iter().zip(0..).filter(|(node, _)| !node.failed);
        let best = valid.max_by_key(|(node, id)| (node.work, std::cmp::Reverse(*id)));
        self.best = HeaderId(best.expect("genesis is valid").1);
    }

    /// Connects what is stored of the best header's chain, if that has more work than the tip's.
    pub(super) fn connect(&mut self) {
        let best = self.best;
        let mut last = last_common_ancestor(self, self.tip, best);
        let target = self.node(best).height;
        while self.node(last).height < target {
            let next = self.ancestor(best, self.node(last).height + 1).unwrap();
            if !self.node(next).stored {
                break;
            }
            last = next;
        }
        if self.node(last).work > self.node(self.tip).work {
            self.tip = last;
        }
    }

    /// Connects up to `count` stored blocks of the best header's chain.
    pub(super) fn connect_some(&mut self, count: u32) {
        for _ in 0..count {
            let next = self.ancestor(self.best, self.node(self.tip).height + 1);
            match next {
                Some(next) if self.node(next).stored => self.tip = next,
                _ => return,
            }
        }
    }

    /// Stores and connects the chain that ends in `id`.
    pub(super) fn store_chain(&mut self, id: HeaderId) {
        let mut next = Some(id);
        while let Some(block) = next {
            self.nodes[block.0 as usize].stored = true;
            next = self.parent(block);
        }
        self.tip = id;
    }
}

impl HeaderIndex for Tree {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        let id = u32::from_le_bytes(hash.as_bytes()[4..8].try_into().unwrap());
        ((id as usize) < self.nodes.len()).then_some(HeaderId(id))
    }

    fn get(&self, id: HeaderId) -> HeaderInfo {
        let node = self.node(id);
        let prev_blockhash = node.up.first().map_or(BlockHash::ZERO, |up| hash_of(HeaderId(*up)));
        let (version, merkle_root) = (4, MerkleRoot::ZERO);
        let (time, bits, nonce) = (node.height, 0x207f_ffff, 0);
        HeaderInfo {
            id,
            hash: hash_of(id),
            header: BlockHeader { version, prev_blockhash, merkle_root, time, bits, nonce },
            height: node.height,
            chain_work: Work::from(node.work),
            stored: node.stored,
            failed: node.failed,
            connected: false,
        }
    }

    fn median_time_past(&self, id: HeaderId) -> u32 {
        self.node(id).height
    }

    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        let mut current = id;
        let mut distance = self.node(id).height.checked_sub(height)?;
        while distance > 0 {
            let step = distance.ilog2();
            current = HeaderId(self.node(current).up[step as usize]);
            distance -= 1 << step;
        }
        Some(current)
    }

    fn parent(&self, id: HeaderId) -> Option<HeaderId> {
        self.node(id).up.first().map(|up| HeaderId(*up))
    }

    fn history(&self) -> Option<HistorySpan> {
        self.history
    }

    fn tip(&self) -> HeaderId {
        self.tip
    }

    fn best_header(&self) -> HeaderId {
        self.best
    }

    fn prune_height(&self) -> u32 {
        0
    }
}

/// Counts what is asked of the index.
pub(super) struct Counting {
    pub(super) tree: Tree,
    pub(super) calls: Cell<usize>,
}

impl HeaderIndex for Counting {
    fn find(&self, hash: &BlockHash) -> Option<HeaderId> {
        self.calls.set(self.calls.get() + 1);
        self.tree.find(hash)
    }
    fn get(&self, id: HeaderId) -> HeaderInfo {
        self.calls.set(self.calls.get() + 1);
        self.tree.get(id)
    }
    fn median_time_past(&self, id: HeaderId) -> u32 {
        self.tree.median_time_past(id)
    }
    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId> {
        self.calls.set(self.calls.get() + 1);
        self.tree.ancestor(id, height)
    }
    fn parent(&self, id: HeaderId) -> Option<HeaderId> {
        self.calls.set(self.calls.get() + 1);
        self.tree.parent(id)
    }
    fn tip(&self) -> HeaderId {
        self.tree.tip()
    }
    fn best_header(&self) -> HeaderId {
        self.tree.best_header()
    }
    fn prune_height(&self) -> u32 {
        0
    }
}

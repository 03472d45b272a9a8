//! The header tree: every known header with its chain work and what is known of its block.
//!
//! Nodes live in an arena and are named by [`NodeId`], so that links between them are numbers and
//! the tree can be walked while other parts of the chain are borrowed. A node is never removed.
//! Ancestors are found in O(log n) through one skip link a node (Core `chain.cpp`, `GetAncestor`).

mod chain_work;
mod packed;

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};

use godwit_primitives::{BlockHash, BlockHeader, Work};
use godwit_store::{BlockChecksum, BlockPosition, UndoPosition};
use hashbrown::HashTable;

use chain_work::ChainWork;
use packed::Packed;

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

/// One header and what is known of its block, as the tree has it at the moment of asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Node {
    pub header: BlockHeader,
    pub hash: BlockHash,
    /// Distance from genesis.
    pub height: u32,
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
    /// Of its bytes there; unknown of a block that schema 1 has stored and that was not checked since.
    pub checksum: Option<BlockChecksum>,
    /// Where its undo record is stored, until it is pruned.
    pub undo: Option<UndoPosition>,
    parent: Option<NodeId>,
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

/// Nodes of a chunk of the arena, a megabyte. A list that doubles would have room for as many again.
const CHUNK: usize = 1 << 13;

/// The arena. Nodes stay where they are.
#[derive(Debug, Default)]
struct Nodes {
    chunks: Vec<Vec<Packed>>,
}

impl Nodes {
    fn len(&self) -> usize {
        self.chunks.last().map_or(0, |last| (self.chunks.len() - 1) * CHUNK + last.len())
    }

    fn get(&self, id: NodeId) -> &Packed {
        &self.chunks[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    fn get_mut(&mut self, id: NodeId) -> &mut Packed {
        &mut self.chunks[id.0 as usize / CHUNK][id.0 as usize % CHUNK]
    }

    fn push(&mut self, node: Packed) -> NodeId {
        let id = NodeId(u32::try_from(self.len()).expect("fewer than 2^32 headers exist"));
        if self.len() == self.chunks.len() * CHUNK {
            // The first one grows by doubling: most chains of tests have few headers.
            let room = if self.chunks.is_empty() { 1 } else { CHUNK };
            self.chunks.push(Vec::with_capacity(room));
        }
        self.chunks.last_mut().expect("just looked").push(node);
        id
    }

    /// All nodes, parents before their children.
    fn iter(&self) -> impl Iterator<Item = (NodeId, &Packed)> {
        (0..).map(NodeId).zip(self.chunks.iter().flatten())
    }

    fn memory(&self) -> usize {
        let chunks = self.chunks.iter().map(Vec::capacity).sum::<usize>() * size_of::<Packed>();
        chunks + self.chunks.capacity() * size_of::<Vec<Packed>>()
    }
}

/// The arena of nodes with an index by hash and the nodes that changed since the last commit. 140 bytes a
/// header, all told.
#[derive(Debug)]
pub struct HeaderTree {
    nodes: Nodes,
    chain_work: ChainWork,
    by_hash: HashTable<NodeId>,
    /// Unknown to a peer, which could otherwise mine headers that collide in the table.
    hash_keys: RandomState,
    best_header: NodeId,
    /// Those without children.
    ends: BTreeSet<NodeId>,
    dirty: Vec<NodeId>,
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
        let mut tree = Self {
            nodes: Nodes::default(),
            chain_work: ChainWork::default(),
            by_hash: HashTable::new(),
            hash_keys: RandomState::new(),
            best_header: NodeId(0),
            ends: BTreeSet::new(),
            dirty: Vec::new(),
        };
        let hash = genesis.block_hash();
        let id = tree.push(Packed::new(&genesis, hash, 0, None, None));
        tree.update(id, |genesis| {
            genesis.validity = Validity::Scripts;
            (genesis.tx_count, genesis.chain_tx_count) = (1, 1);
        });
        tree.take_dirty();
        tree
    }

    fn push(&mut self, node: Packed) -> NodeId {
        let Self { nodes, chain_work, by_hash, hash_keys, ends, .. } = self;
        let id = nodes.push(node);
        if let Some(parent) = node.parent() {
            ends.remove(&parent);
        }
        ends.insert(id);
        chain_work.add(nodes, id);
        let key = |id: &NodeId| hash_keys.hash_one(nodes.get(*id).hash());
        by_hash.insert_unique(key(&id), id, key);
        id
    }

    pub fn genesis(&self) -> NodeId {
        NodeId(0)
    }

    /// Number of headers.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Bytes of memory, the spare room of its parts included.
    pub fn memory(&self) -> usize {
        let Self { nodes, chain_work, by_hash, dirty, .. } = self;
        nodes.memory()
            + chain_work.memory()
            + by_hash.allocation_size()
            + dirty.capacity() * size_of::<NodeId>()
    }

    /// Number of blocks that are stored.
    pub fn stored(&self) -> usize {
        self.nodes.iter().filter(|(_, node)| node.is_stored()).count()
    }

    /// Never: genesis is always there.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The headers on which no other one is known to be built.
    pub fn ends(&self) -> impl Iterator<Item = NodeId> {
        self.ends.iter().copied()
    }

    /// The node of a hash.
    pub fn find(&self, hash: &BlockHash) -> Option<NodeId> {
        let key = self.hash_keys.hash_one(hash);
        self.by_hash.find(key, |id| self.nodes.get(*id).hash() == *hash).copied()
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

    pub fn node(&self, id: NodeId) -> Node {
        let node = self.nodes.get(id);
        let prev = node.parent().map_or(BlockHash::ZERO, |parent| self.nodes.get(parent).hash());
        node.unpack(prev)
    }

    /// Work of the chain that ends in `id`, genesis included.
    pub fn chain_work(&self, id: NodeId) -> Work {
        self.chain_work.of(&self.nodes, id)
    }

    /// Changes what is known of a block; it will be part of the next commit.
    ///
    /// # Panics
    ///
    /// If `change` makes it a node that no chain can have: see [`try_update`](Self::try_update).
    pub fn update(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) {
        self.try_update(id, change).expect("within the bounds of a block and a file");
    }

    /// As [`update`](Self::update), with values from a file: `None`, and no change, if they exceed what a
    /// block or a block file can have (`tree/packed.rs`).
    pub fn try_update(&mut self, id: NodeId, change: impl FnOnce(&mut Node)) -> Option<()> {
        let mut node = self.node(id);
        let (hash, height) = (node.hash, node.height);
        change(&mut node);
        assert_eq!((node.hash, node.height), (hash, height), "only what is known of the block");
        let packed = self.nodes.get_mut(id);
        packed.set_block(&node)?;
        if !packed.set_dirty() {
            self.dirty.push(id);
        }
        Some(())
    }

    /// How many nodes have changed and were not taken.
    pub fn changes(&self) -> usize {
        self.dirty.len()
    }

    /// All nodes that changed since they were taken, for a commit before anything else.
    pub fn take_dirty(&mut self) -> Vec<NodeId> {
        let taken = std::mem::take(&mut self.dirty);
        for id in &taken {
            self.nodes.get_mut(*id).clear_dirty();
        }
        self.note_named(&taken);
        taken
    }

    /// Of the nodes that changed those that a commit is to hold which begins now, and whose end
    /// [`note_named`](Self::note_named) is told: blocks, `tips`, what an earlier commit holds, all their
    /// ancestors, and `most` others, the first that came. Those are mere headers; the rest of them stays. So
    /// nothing is on disk without its ancestors, and no word about what is on disk waits.
    pub fn take_some_dirty(&mut self, tips: &[NodeId], most: usize) -> Vec<NodeId> {
        let must_go = |id: &NodeId| self.nodes.get(*id).is_named() || self.node(*id).tx_count > 0;
        let mut next: Vec<NodeId> = self.dirty.iter().copied().filter(must_go).collect();
        next.extend(tips);
        let mut taken = Vec::new();
        for end in next {
            let mut next = Some(end);
            while let Some(id) = next.filter(|id| self.nodes.get(*id).is_dirty()) {
                self.nodes.get_mut(id).clear_dirty();
                taken.push(id);
                next = self.nodes.get(id).parent();
            }
        }
        let mut headers = std::mem::take(&mut self.dirty);
        headers.retain(|id| self.nodes.get(*id).is_dirty());
        if headers.len() > most {
            // A parent comes before its children.
            headers.sort_unstable();
            self.dirty = headers.split_off(most);
        }
        for id in &headers {
            self.nodes.get_mut(*id).clear_dirty();
        }
        taken.append(&mut headers);
        taken
    }

    /// A commit that holds them has returned.
    pub fn note_named(&mut self, ids: &[NodeId]) {
        for id in ids {
            self.nodes.get_mut(*id).set_named();
        }
    }

    /// Whether a commit that holds it has returned.
    pub fn is_named(&self, id: NodeId) -> bool {
        self.nodes.get(id).is_named()
    }

    /// Adds a header that keeps every header rule. Returns the node it already has, if any.
    pub fn insert(&mut self, header: BlockHeader, hash: BlockHash, parent: NodeId) -> NodeId {
        self.restore(header, hash, parent, |_| {}).expect("nothing is known of its block")
    }

    /// As [`insert`](Self::insert), with what a file says of the block, as in
    /// [`try_update`](Self::try_update).
    pub fn restore(
        &mut self,
        header: BlockHeader,
        hash: BlockHash,
        parent: NodeId,
        known: impl FnOnce(&mut Node),
    ) -> Option<NodeId> {
        if let Some(id) = self.find(&hash) {
            return self.try_update(id, known).map(|()| id);
        }
        let before = *self.nodes.get(parent);
        let height = before.height + 1;
        let skip = self.ancestor(parent, skip_height(height));
        let id = self.push(Packed::new(&header, hash, height, Some(parent), skip));
        self.try_update(id, |node| {
            known(node);
            node.failed |= before.failed();
        })?;
        let (best, new) = (self.nodes.get(self.best_header), self.nodes.get(id));
        let is_better = || self.chain_work(id) > self.chain_work(self.best_header);
        if !new.failed() && (best.failed() || is_better()) {
            self.best_header = id;
        }
        Some(id)
    }

    /// The header with the most work that is not known to be invalid; the first seen among equals.
    pub fn best_header(&self) -> NodeId {
        self.best_header
    }

    /// The ancestor at `height`, the node itself included; `None` above it.
    pub fn ancestor(&self, id: NodeId, height: u32) -> Option<NodeId> {
        let mut walk = id;
        if height > self.nodes.get(walk).height {
            return None;
        }
        while self.nodes.get(walk).height > height {
            let node = self.nodes.get(walk);
            let skip_to = skip_height(node.height);
            let skip_to_of_parent = skip_height(node.height - 1);
            // Follow the skip link only where the parent's would not be the better one.
            let skip_pays = skip_to == height
                || (skip_to > height
                    && !(skip_to_of_parent + 2 < skip_to && skip_to_of_parent >= height));
            walk = match node.skip() {
                Some(skip) if skip_pays => skip,
                _ => node.parent()?,
            };
        }
        Some(walk)
    }

    /// Whether `ancestor` is on the chain that ends in `id`.
    pub fn is_ancestor(&self, ancestor: NodeId, id: NodeId) -> bool {
        self.ancestor(id, self.nodes.get(ancestor).height) == Some(ancestor)
    }

    /// The last block that two chains share.
    pub fn fork(&self, a: NodeId, b: NodeId) -> NodeId {
        let height = self.nodes.get(a).height.min(self.nodes.get(b).height);
        let at = |id| self.ancestor(id, height).expect("not above the node");
        let (mut a, mut b) = (at(a), at(b));
        while a != b {
            let up = |id| self.nodes.get(id).parent().expect("chains share genesis");
            (a, b) = (up(a), up(b));
        }
        a
    }

    /// From `id` down as far as blocks are stored: the first that is not, or `end`, or genesis. Of a chain of
    /// 900,000 blocks that is read through memory, which took 40 ms.
    pub(crate) fn walk_stored(&self, id: NodeId, end: NodeId) -> NodeId {
        let mut walk = id;
        while let Some(parent) = self.nodes.get(walk).parent()
            && walk != end
            && self.nodes.get(walk).is_stored()
        {
            walk = parent;
        }
        walk
    }

    /// Median of the times of the last eleven blocks up to and including `id` (BIP113).
    pub fn median_time_past(&self, id: NodeId) -> u32 {
        let mut times = [0u32; MEDIAN_TIME_SPAN];
        let mut count = 0;
        let mut walk = Some(id);
        while let Some(node) = walk.map(|id| self.nodes.get(id))
            && count < MEDIAN_TIME_SPAN
        {
            times[count] = node.time;
            count += 1;
            walk = node.parent();
        }
        let times = &mut times[..count];
        times.sort_unstable();
        times[count / 2]
    }

    /// Marks `id` and every descendant as failed and finds the best header anew
    /// (Core `SetBlockFailureFlags`). Returns the nodes that were newly marked.
    pub fn mark_failed(&mut self, id: NodeId) -> Vec<NodeId> {
        let mut marked = Vec::new();
        // A descendant always comes after its ancestor in the arena.
        for candidate in (id.0..self.len() as u32).map(NodeId) {
            let node = self.nodes.get(candidate);
            let parent_failed = node.parent().is_some_and(|parent| self.nodes.get(parent).failed());
            if (candidate == id || parent_failed) && !node.failed() {
                self.update(candidate, |node| node.failed = true);
                marked.push(candidate);
            }
        }
        if self.nodes.get(self.best_header).failed() {
            self.find_best_header();
        }
        marked
    }

    /// Those of `id`, its ancestors and its descendants that are failed.
    pub fn failed_in_line(&self, id: NodeId) -> Vec<NodeId> {
        let is_failed = |other: &NodeId| self.nodes.get(*other).failed();
        let parent = |other: NodeId| self.nodes.get(other).parent();
        let (mut below, mut above) = (vec![false; self.len()], vec![false; self.len()]);
        for other in std::iter::successors(Some(id), |other| parent(*other)).take_while(is_failed) {
            below[other.0 as usize] = true;
        }
        let mut failed = self.above(|other| is_failed(&other));
        failed.retain(|other| {
            // A parent comes before its children, and is here if it is failed.
            let is_above = match parent(*other).filter(is_failed) {
                _ if *other == id => true,
                Some(parent) => above[parent.0 as usize],
                None => self.is_ancestor(id, *other),
            };
            above[other.0 as usize] = is_above;
            is_above || below[other.0 as usize]
        });
        failed
    }

    /// The nodes whose chains have at least this much work. That takes a step for each of them, and one for
    /// each end of the tree.
    pub(crate) fn with_work(&self, least: Work) -> Vec<NodeId> {
        self.above(|id| self.chain_work(id) >= least)
    }

    /// The nodes of which something holds that holds for all descendants of a node where it holds for that,
    /// parents before their children. It is asked of these nodes, and of one below each branch of them.
    fn above(&self, holds: impl Fn(NodeId) -> bool) -> Vec<NodeId> {
        let (mut found, mut seen) = (Vec::new(), vec![false; self.len()]);
        for end in self.ends() {
            let mut walk = Some(end);
            while let Some(id) = walk.filter(|id| !seen[id.0 as usize] && holds(*id)) {
                seen[id.0 as usize] = true;
                found.push(id);
                walk = self.nodes.get(id).parent();
            }
        }
        found.sort_unstable();
        found
    }

    /// Marks these nodes as failed or not, and finds the best header anew. A descendant of a failed block
    /// is failed: that is for the caller to keep.
    pub fn set_failed(&mut self, ids: &[NodeId], failed: bool) {
        for id in ids {
            self.update(*id, |node| node.failed = failed);
        }
        self.find_best_header();
    }

    /// The block itself, if it is not failed, or the last of its ancestors that is not.
    pub fn last_valid(&self, id: NodeId) -> NodeId {
        let node = self.nodes.get(id);
        if !node.failed() {
            return id;
        }
        let at = |height| self.ancestor(id, height).expect("below the block");
        let (mut valid, mut failed) = (0, node.height);
        while failed - valid > 1 {
            let middle = valid + (failed - valid) / 2;
            let found = self.nodes.get(at(middle)).failed();
            *(if found { &mut failed } else { &mut valid }) = middle;
        }
        at(valid)
    }

    /// It is the last on the way to an end that is not failed.
    fn find_best_header(&mut self) {
        let valid = self.ends().map(|end| self.last_valid(end));
        let best = valid.max_by_key(|id| (self.chain_work(*id), Reverse(*id)));
        self.best_header = best.expect("a tree has an end");
    }
}

#[cfg(test)]
mod tests;

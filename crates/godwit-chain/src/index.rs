//! The block index: every header, which blocks are stored, which of those could become the tip, and which one
//! is the tip.
//!
//! Nothing here does I/O. A block advances only by a value that proves the step before:
//! [`BlockIndex::accept`] gives an [`Accepted`], [`BlockIndex::receive`] takes it back together with the
//! store's word that its bytes are written, and [`BlockIndex::connect`], the only function that moves the tip
//! up, takes a [`Recorded`], which is made only from a verified block.

pub(crate) mod assumed;
pub(crate) mod body;
mod candidates;
mod damaged;
mod load;
pub(crate) mod operator;

use std::cell::Cell;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use godwit_consensus::{
    PrevContext, Reject, RejectReason, ResultClass, check_header, contextual_check_block,
    contextual_check_header, enforces_bip30,
};
use godwit_primitives::network::Params;
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_store::{
    AssumedSnapshot, BlockChecksum, BlockPosition, BlockRecord, ChainPoint, RecoveredBlock,
    UndoPosition, WrittenBlock,
};

pub(crate) use assumed::{HistoryProgress, HistorySpan};
pub(crate) use body::Body;
pub(crate) use load::{Loading, await_parents};

use crate::error::ChainError;
use crate::index::candidates::Candidates;
use crate::index::damaged::Damaged;
use crate::record::record;
use crate::structure::Structured;
use crate::tree::{HeaderTree, Node, NodeId, Validity};
use crate::verify::Recorded;

/// A block whose header is in the tree and that keeps the rules of its place there.
pub(crate) struct Accepted {
    id: NodeId,
    block: Arc<Structured>,
}

impl Accepted {
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn block(&self) -> &Arc<Structured> {
        &self.block
    }
}

/// A block whose bytes are in a block file, at a position that the index knows.
pub(crate) struct Stored {
    id: NodeId,
    block: Arc<Structured>,
    position: BlockPosition,
}

impl Stored {
    pub(crate) fn id(&self) -> NodeId {
        self.id
    }

    pub(crate) fn block(&self) -> &Arc<Structured> {
        &self.block
    }

    pub(crate) fn position(&self) -> BlockPosition {
        self.position
    }
}

/// Result of [`BlockIndex::accept`].
pub(crate) enum Acceptance {
    /// It is to be stored.
    New(Accepted),
    /// It is stored, and the bytes of that place are damaged: it is to be written there again.
    Copy(Accepted, BlockPosition),
    /// It is stored, or was before it was pruned.
    Known,
    /// It breaks a rule. If the header is in the tree, that is its node.
    Refused { reject: Reject, id: Option<NodeId> },
}

/// See the module's documentation.
pub(crate) struct BlockIndex {
    params: Arc<Params>,
    tree: HeaderTree,
    candidates: Candidates,
    /// Stored blocks that wait for an ancestor, by parent.
    unlinked: BTreeMap<NodeId, Vec<NodeId>>,
    next_sequence: u64,
    pub(crate) damaged: Damaged,
    /// Pruned blocks that the operator wants stored, the last one that was asked for last.
    wanted_again: VecDeque<NodeId>,
    /// The snapshot that the coins below its block were loaded from.
    assumed: Option<AssumedSnapshot>,
    /// What is not validated of the chain below its block.
    history: Option<HistorySpan>,
    /// Its validation has ended against the snapshot once.
    pub(crate) doubted: bool,
    /// It was said that the chain with the most work does not contain its block.
    warned_of_rival: bool,
    /// The last connected block.
    tip: NodeId,
}

impl BlockIndex {
    /// An index that knows nothing but the genesis block.
    fn new(params: Arc<Params>) -> Self {
        let tree = HeaderTree::new(params.genesis);
        let tip = tree.genesis();
        Self {
            params,
            tree,
            candidates: Candidates::default(),
            unlinked: BTreeMap::new(),
            next_sequence: 1,
            damaged: Damaged::default(),
            wanted_again: VecDeque::new(),
            assumed: None,
            history: None,
            doubted: false,
            warned_of_rival: false,
            tip,
        }
    }

    /// Gives the blocks that are or were stored their places among the candidates again.
    fn relink(&mut self, received: &[NodeId]) -> Result<(), ChainError> {
        for id in received {
            self.next_sequence = self.next_sequence.max(self.tree.node(*id).sequence + 1);
        }
        self.candidates.add(&self.tree, self.tree.last_valid(self.tip), self.tip);
        let base = assumed::find_base(self)?;
        if let Some(base) = base {
            assumed::adopt_base(self, base);
        }
        for id in received {
            let parent = self.tree.node(*id).parent().expect("genesis is not stored");
            let before = self.tree.node(parent).chain_tx_count;
            if before == 0 {
                // A pruned one of the active chain waits too: one below it is missing.
                let is_stored = self.tree.node(*id).position.is_some();
                if is_stored || self.tree.is_ancestor(*id, self.tip) {
                    self.unlinked.entry(parent).or_default().push(*id);
                }
                continue;
            }
            self.count_chain(*id, before, |_| {});
        }
        if let Some(base) = base {
            assumed::link_above(self, base);
        }
        let best = self.tree.best_header();
        assumed::warn_of_rival(self, best);
        // What was just read from disk need not be written again.
        self.tree.take_dirty();
        Ok(())
    }

    pub(crate) fn tree(&self) -> &HeaderTree {
        &self.tree
    }

    pub(crate) fn node(&self, id: NodeId) -> Node {
        self.tree.node(id)
    }

    /// The last connected block.
    pub(crate) fn tip(&self) -> NodeId {
        self.tip
    }

    /// The best block that could become the tip, the tip included.
    pub(crate) fn best(&self) -> Option<NodeId> {
        self.candidates.best()
    }

    pub(crate) fn height(&self, id: NodeId) -> u32 {
        self.tree.node(id).height
    }

    pub(crate) fn point(&self, id: NodeId) -> ChainPoint {
        let node = self.tree.node(id);
        ChainPoint { hash: node.hash, height: node.height }
    }

    /// The node of a hash that the database names.
    pub(crate) fn find(&self, hash: &BlockHash) -> Result<NodeId, ChainError> {
        self.tree.find(hash).ok_or(ChainError::DamagedIndex(*hash))
    }

    /// Whether a block need not be stored: it is stored, or was connected and pruned.
    pub(crate) fn has_block(&self, id: NodeId) -> bool {
        match Body::of(self, id) {
            Body::Genesis | Body::Stored(_) => true,
            Body::Absent | Body::Lost(_) => false,
            Body::Pruned => {
                self.tree.is_ancestor(id, self.tip)
                    && !self.wanted_again.contains(&id)
                    && !assumed::is_unvalidated(self, id)
            }
        }
    }

    pub(crate) fn enforces_bip30(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        let ancestor = |height| {
            let id = self.tree.ancestor(id, height).expect("asked for heights below the block");
            self.tree.node(id).hash
        };
        enforces_bip30(node.height, &node.hash, &ancestor, &self.params)
    }

    /// Adds a header to the tree (Core `AcceptBlockHeader`). `now` is in seconds since 1970.
    pub(crate) fn accept_header(
        &mut self,
        new: &BlockHeader,
        hash: BlockHash,
        now: i64,
    ) -> Result<NodeId, Reject> {
        if let Some(known) = self.tree.find(&hash) {
            let failed = self.tree.node(known).failed;
            let reject = Reject::new(RejectReason::DuplicateInvalid);
            return if failed { Err(reject) } else { Ok(known) };
        }
        check_header(&hash, new, &self.params)?;
        let parent = self.tree.find(&new.prev_blockhash);
        let parent = parent.ok_or(Reject::new(RejectReason::PrevBlkNotFound))?;
        if self.tree.node(parent).failed {
            return Err(Reject::new(RejectReason::BadPrevblk));
        }
        self.with_prev_context(parent, |context, params| {
            contextual_check_header(new, context, params, now)
        })?;
        let id = self.tree.insert(*new, hash, parent);
        assumed::warn_of_rival(self, id);
        Ok(id)
    }

    /// What is asked of a block on top of `parent` is asked with what is known there.
    pub(crate) fn with_prev_context<T>(
        &self,
        parent: NodeId,
        check: impl FnOnce(&PrevContext<'_>, &Params) -> T,
    ) -> T {
        let node = self.tree.node(parent);
        // The 20-minute rule of testnet3 walks down one by one, through up to a whole period.
        let cursor = Cell::new(parent);
        let ancestor = |height| {
            let above = self.tree.node(cursor.get());
            let id = match above.parent() {
                Some(below) if above.height == height + 1 => below,
                _ => {
                    let id = self.tree.ancestor(parent, height);
                    id.expect("asked for heights up to the parent's")
                }
            };
            cursor.set(id);
            self.tree.node(id).header
        };
        let context = PrevContext {
            height: node.height,
            header: node.header,
            median_time_past: self.tree.median_time_past(parent),
            ancestor: &ancestor,
        };
        check(&context, &self.params)
    }

    /// Judges a block by its place in the tree (Core `AcceptBlock`).
    pub(crate) fn accept(&mut self, new: Arc<Structured>, now: i64) -> Acceptance {
        // One that is lost is wanted even if it has failed since: it is to be disconnected.
        let lost = self.tree.find(&new.hash()).filter(|known| self.is_lost(*known));
        let id = match lost.map_or_else(|| self.accept_header(new.header(), new.hash(), now), Ok) {
            Ok(id) => id,
            Err(reject) => return Acceptance::Refused { reject, id: None },
        };
        let Some(parent) = self.tree.node(id).parent() else { return Acceptance::Known };
        if self.has_block(id) {
            return Acceptance::Known;
        }
        let checked = self.with_prev_context(parent, |context, params| {
            contextual_check_block(new.view(), new.place_facts(), context, params)
        });
        match checked {
            Ok(()) => match Body::of(self, id) {
                Body::Lost(at) => Acceptance::Copy(Accepted { id, block: new }, at),
                _ => Acceptance::New(Accepted { id, block: new }),
            },
            Err(reject) => Acceptance::Refused { reject, id: Some(id) },
        }
    }

    /// The bytes of an accepted block are in its file (Core `ReceivedBlockTransactions`).
    pub(crate) fn receive(&mut self, accepted: Accepted, written: &WrittenBlock) -> Stored {
        self.receive_at(accepted, written.position(), written.checksum())
    }

    /// An accepted block was found in its file, behind the committed end. `checksum` is that of the bytes
    /// that were accepted.
    pub(crate) fn receive_recovered(
        &mut self,
        accepted: Accepted,
        found: &RecoveredBlock,
        checksum: BlockChecksum,
    ) -> Stored {
        self.receive_at(accepted, found.position, checksum)
    }

    /// The bytes of a stored block were read and checked, and have this checksum.
    pub(crate) fn set_checksum(&mut self, id: NodeId, checksum: BlockChecksum) {
        if self.tree.node(id).position.is_some() {
            self.tree.update(id, |node| node.checksum = Some(checksum));
        }
    }

    /// A block that was connected before the database was lost.
    pub(crate) fn restore_verified(&mut self, id: NodeId) {
        self.tree.update(id, |node| node.validity = Validity::Scripts);
    }

    /// The undo record of a block was found again.
    pub(crate) fn restore_undo(&mut self, id: NodeId, position: UndoPosition) {
        self.tree.update(id, |node| node.undo = Some(position));
    }

    fn receive_at(
        &mut self,
        accepted: Accepted,
        position: BlockPosition,
        checksum: BlockChecksum,
    ) -> Stored {
        let Accepted { id, block } = accepted;
        operator::want_no_longer(self, id);
        self.tree.update(id, |node| {
            node.tx_count = block.view().tx_count() as u32;
            (node.position, node.checksum) = (Some(position), Some(checksum));
            node.validity = node.validity.max(Validity::Structured);
        });
        self.link(id);
        Stored { id, block, position }
    }

    /// Adds a stored block, and those that waited for it, to the candidates, if the chain below is
    /// complete.
    fn link(&mut self, id: NodeId) {
        let parent = self.tree.node(id).parent().expect("genesis is never received");
        if !self.tree.node(parent).has_chain() {
            self.unlinked.entry(parent).or_default().push(id);
            return;
        }
        let mut queue = VecDeque::from([id]);
        while let Some(id) = queue.pop_front() {
            let parent = self.tree.node(id).parent().expect("genesis is never received");
            let before = self.tree.node(parent).chain_tx_count;
            // A tip above a missing block is one without a chain, and its place depends on its sequence.
            self.candidates.remove(&self.tree, id);
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            self.count_chain(id, before, |node| {
                // The base of an assumed snapshot is a candidate before its block arrives.
                if !node.has_chain() {
                    node.sequence = sequence;
                }
            });
            queue.extend(self.unlinked.remove(&id).unwrap_or_default());
        }
    }

    /// The chain below a block, of `before` transactions, is complete: it is a candidate.
    fn count_chain(&mut self, id: NodeId, before: u64, change: impl FnOnce(&mut Node)) {
        self.tree.update(id, |node| {
            change(node);
            node.chain_tx_count = before + u64::from(node.tx_count);
        });
        if !self.tree.node(id).failed && assumed::may_lead(self, id) {
            self.candidates.add(&self.tree, id, self.tip);
        }
    }

    /// Marks a block and its descendants as invalid, unless only these bytes are at fault (Core
    /// `InvalidBlockFound`). Returns the newly marked nodes.
    pub(crate) fn fail(&mut self, id: NodeId, reject: Reject) -> Vec<NodeId> {
        if reject.class == ResultClass::Mutated {
            return Vec::new();
        }
        let failed = self.tree.mark_failed(id);
        for failed in &failed {
            self.candidates.remove(&self.tree, *failed);
        }
        let ChainPoint { hash, height } = self.point(id);
        log::warn!("InvalidChainFound: invalid block={hash} height={height} reason={reject}");
        failed
    }

    /// Marks a block and its descendants as failed by the operator's word. Returns the newly marked nodes.
    pub(crate) fn invalidate(&mut self, id: NodeId) -> Vec<NodeId> {
        let failed = self.tree.mark_failed(id);
        assumed::list_candidates(self);
        failed
    }

    /// As [`HeaderTree::set_failed`].
    pub(crate) fn set_failed(&mut self, ids: &[NodeId], failed: bool) {
        self.tree.set_failed(ids, failed);
        assumed::list_candidates(self);
    }

    /// Makes a verified block on top of the tip, whose undo record is written, the new tip. Returns
    /// whether an earlier run had verified it.
    pub(crate) fn connect(&mut self, recorded: &Recorded) -> bool {
        let id = recorded.id();
        assert_eq!(self.tree.node(id).parent(), Some(self.tip), "blocks are connected to the tip");
        let verified_before = self.tree.node(id).validity == Validity::Scripts;
        self.tree.update(id, |node| {
            node.undo = recorded.undo().or(node.undo);
            assert!(node.undo.is_some(), "a connected block can be disconnected");
            node.validity = Validity::Scripts;
        });
        self.damaged.rotted_undo.remove(&id);
        self.tip = id;
        self.candidates.prune(&self.tree, id);
        verified_before
    }

    /// The tip's coins were taken back: its parent is the tip. If its undo record was damaged, another one is
    /// made when it is connected again.
    pub(crate) fn disconnect(&mut self, undo_intact: bool) {
        if !undo_intact {
            self.damaged.rotted_undo.insert(self.tip);
        }
        self.tip = self.tree.node(self.tip).parent().expect("genesis is never disconnected");
    }

    /// The bytes of a stored block are damaged. One that was never connected is forgotten, so that a
    /// good copy is stored in its place after the next start.
    pub(crate) fn forget_damaged(&mut self, id: NodeId) {
        self.tree.update(id, |node| {
            if node.validity < Validity::Scripts {
                (node.position, node.checksum) = (None, None);
                (node.validity, node.tx_count) = (Validity::Header, 0);
            }
        });
    }

    /// Whether the bytes of a stored block are known to be damaged.
    pub(crate) fn is_lost(&self, id: NodeId) -> bool {
        self.damaged.lost.contains(&id)
    }

    /// The bytes of a lost block are at its place again, and have this checksum. Returns whether it was lost
    /// still: otherwise it was pruned meanwhile.
    pub(crate) fn rewritten(&mut self, id: NodeId, checksum: BlockChecksum) -> bool {
        let was_lost = self.damaged.lost.remove(&id);
        if was_lost {
            self.damaged.rewritten.insert(id);
            self.set_checksum(id, checksum);
        }
        was_lost
    }

    /// Block file `file` will be deleted: forgets the block's position. Returns whether the block
    /// was in it.
    pub(crate) fn forget_pruned(&mut self, id: NodeId, file: u32) -> bool {
        let node = self.tree.node(id);
        if node.position.is_none_or(|position| position.file != file) {
            return false;
        }
        self.damaged.forget(id);
        // One of the active chain that waits for a missing block below need not come again: it counts without
        // its bytes.
        if let Some(parent) = node.parent()
            && !self.tree.is_ancestor(id, self.tip)
            && let Some(waiting) = self.unlinked.get_mut(&parent)
        {
            waiting.retain(|child| *child != id);
        }
        self.tree.update(id, |node| {
            (node.position, node.checksum, node.undo) = (None, None, None);
        });
        true
    }

    /// Removes `target` from the candidates, with the blocks of its branch above `missing`, until that one
    /// arrives again (Core `FindMostWorkChain`).
    pub(crate) fn set_aside(&mut self, missing: NodeId, target: NodeId) {
        self.candidates.remove(&self.tree, target);
        let mut id = target;
        while id != missing {
            self.candidates.remove(&self.tree, id);
            let parent = self.tree.node(id).parent().expect("above another block");
            let waiting = self.unlinked.entry(parent).or_default();
            if !waiting.contains(&id) {
                waiting.push(id);
            }
            id = parent;
        }
    }

    /// The entries of the block index that changed since they were taken, for a commit before anything else.
    pub(crate) fn take_changes(&mut self) -> Vec<(BlockHash, BlockRecord)> {
        let dirty = self.tree.take_dirty();
        entries(&self.tree, &dirty)
    }

    /// Entries for a commit that begins, with `most` of those that are mere headers, and their nodes, which
    /// [`note_named`](Self::note_named) is told when it has returned: see [`HeaderTree::take_some_dirty`].
    /// `tips` go with it, and the tip.
    pub(crate) fn take_some_changes(
        &mut self,
        tips: impl IntoIterator<Item = NodeId>,
        most: usize,
    ) -> (Vec<NodeId>, Vec<(BlockHash, BlockRecord)>) {
        let tips: Vec<NodeId> = tips.into_iter().chain([self.tip]).collect();
        let dirty = self.tree.take_some_dirty(&tips, most);
        let entries = entries(&self.tree, &dirty);
        (dirty, entries)
    }

    pub(crate) fn note_named(&mut self, ids: &[NodeId]) {
        self.tree.note_named(ids);
    }
}

fn entries(tree: &HeaderTree, ids: &[NodeId]) -> Vec<(BlockHash, BlockRecord)> {
    let entry = |id: &NodeId| {
        let node = tree.node(*id);
        (node.hash, record(&node))
    };
    ids.iter().map(entry).collect()
}

#[cfg(test)]
impl BlockIndex {
    /// Adds a candidate whose block is not stored.
    pub(crate) fn add_candidate_without_block(&mut self, header: BlockHeader) -> NodeId {
        let parent = self.tree.find(&header.prev_blockhash).expect("a known parent");
        let id = self.tree.insert(header, header.block_hash(), parent);
        self.tree.update(id, |node| node.tx_count = 1);
        self.candidates.add(&self.tree, id, self.tip);
        id
    }
}

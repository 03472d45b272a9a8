//! Deleting old block and undo files (`-prune`).
//!
//! Files go with the commits that happen anyway, oldest first, while all block and undo files
//! together exceed the target. Never deleted is the file that is being appended to, nor one that
//! holds a block above the tip less [`MIN_BLOCKS_TO_KEEP`], nor one that holds a block which a
//! restart would apply or take back: those above the block whose coins the commit leaves on disk.
//! What is kept for one of these reasons may exceed the target; no flush is made for its sake.
//!
//! The commit's transaction takes the positions of the blocks out of the index, and only behind it
//! are the files deleted. A pruned block keeps its number of transactions, by which it counts as
//! received: chains over it stay chains. Core: `node/blockstorage.cpp`, `FindFilesToPrune`.

use std::collections::BTreeMap;

use crate::chain::Chain;
use crate::error::ChainError;
use crate::tree::NodeId;

/// Blocks below the tip that are never deleted, for reorganisations and for peers (Core
/// `validation.h`).
pub const MIN_BLOCKS_TO_KEEP: u32 = 288;

/// What is known of the files, and what was deleted.
pub(crate) struct Pruning {
    /// Bytes that all block and undo files together may have; `None` keeps everything.
    target: Option<u64>,
    /// The blocks of each file; empty without a target.
    files: BTreeMap<u32, Blocks>,
    /// The block whose coins are on disk.
    coins: NodeId,
    /// Lowest height from which on the active chain's blocks are stored.
    lowest: u32,
    /// Whether there is a new file since the last look.
    due: bool,
    /// The branch that is being switched to, once its blocks and the way to it are known to be
    /// there.
    checked_branch: Option<NodeId>,
}

/// The blocks of one file.
#[derive(Default)]
struct Blocks {
    highest: u32,
    ids: Vec<NodeId>,
}

impl Pruning {
    pub(crate) fn new(target: Option<u64>, coins: NodeId) -> Self {
        let files = BTreeMap::new();
        Self { target, files, coins, lowest: 0, due: false, checked_branch: None }
    }

    /// A block lies in a file.
    pub(crate) fn note_stored(&mut self, id: NodeId, height: u32, file: u32) {
        if self.target.is_some() {
            let known = self.files.len();
            let blocks = self.files.entry(file).or_default();
            blocks.highest = blocks.highest.max(height);
            blocks.ids.push(id);
            self.due |= self.files.len() > known;
        }
    }

    /// The commit that is being put together holds the coins of this block.
    pub(crate) fn note_coins(&mut self, id: NodeId) {
        self.coins = id;
    }
}

impl Chain {
    /// The lowest height from which on every block up to the tip can be served: 0 unless blocks were
    /// pruned, or the coins loaded from a snapshot.
    pub fn prune_height(&self) -> u32 {
        self.pruning.lowest
    }

    /// Whether a block need not be stored: it is, or it was before it was connected and pruned.
    pub(crate) fn has_block(&self, id: NodeId) -> bool {
        let node = self.tree.node(id);
        node.position.is_some() || (node.tx_count > 0 && self.tree.is_ancestor(id, self.tip))
    }

    /// Finds the lowest stored block of the active chain.
    pub(crate) fn find_prune_height(&mut self) {
        let (mut walk, genesis) = (self.tip, self.tree.genesis());
        while walk != genesis && self.tree.node(walk).position.is_some() {
            walk = self.tree.node(walk).parent().expect("above genesis");
        }
        let missing = walk != genesis;
        self.pruning.lowest = if missing { self.tree.node(walk).height + 1 } else { 0 };
    }

    /// Whether a file can be deleted that could not be when the last commit was put together.
    pub(crate) fn prune_is_due(&mut self) -> bool {
        std::mem::take(&mut self.pruning.due) && !self.files_to_prune().is_empty()
    }

    /// Takes the blocks of the files to be deleted with the next commit out of the tree.
    pub(crate) fn prune(&mut self) -> Vec<u32> {
        let files = self.files_to_prune();
        for file in &files {
            let Some(blocks) = self.pruning.files.remove(file) else { continue };
            blocks.ids.into_iter().for_each(|id| self.forget_stored(id, *file));
        }
        if !files.is_empty() {
            self.pruning.checked_branch = None;
            log::info!(
                "Pruning {} block files: blocks are kept from height {} on.",
                files.len(),
                self.pruning.lowest
            );
        }
        files
    }

    fn forget_stored(&mut self, id: NodeId, file: u32) {
        let node = self.tree.node(id);
        if node.position.is_none_or(|position| position.file != file) {
            return;
        }
        if self.tree.is_ancestor(id, self.tip) {
            self.pruning.lowest = self.pruning.lowest.max(node.height + 1);
        }
        if let Some(parent) = node.parent()
            && let Some(waiting) = self.unlinked.get_mut(&parent)
        {
            waiting.retain(|child| *child != id);
        }
        let node = self.tree.node_mut(id);
        (node.position, node.undo) = (None, None);
    }

    fn files_to_prune(&self) -> Vec<u32> {
        let Some(target) = self.pruning.target else { return Vec::new() };
        let files = self.store.file_bytes();
        let mut total: u64 = files.values().sum();
        let (limit, open) = (self.prunable_height(), self.store.first_open_file());
        let mut found = Vec::new();
        for (file, bytes) in files {
            if total <= target {
                break;
            }
            let highest = self.pruning.files.get(&file).map_or(0, |blocks| blocks.highest);
            if file < open && highest <= limit {
                found.push(file);
                total -= bytes;
            }
        }
        found
    }

    /// Files with no block above this height may be deleted.
    fn prunable_height(&self) -> u32 {
        let height = |id| self.tree.node(id).height;
        // A restart takes back the blocks down from the coins on disk to the fork, and applies those
        // from there on.
        let fork = |tip| height(self.tree.fork(self.pruning.coins, tip));
        let replayed = self.replay.map_or(u32::MAX, fork);
        height(self.tip).saturating_sub(MIN_BLOCKS_TO_KEEP).min(fork(self.tip)).min(replayed)
    }

    /// Whether the active chain can be left for the one that ends in `target`. Where a block of that
    /// one is missing, it is no candidate until the block arrives again (Core `FindMostWorkChain`).
    pub(crate) fn can_switch_to(&mut self, target: NodeId) -> Result<bool, ChainError> {
        if self.pruning.checked_branch == Some(target) {
            return Ok(true);
        }
        let fork = self.tree.fork(self.applied, target);
        let mut branch = vec![target];
        while let Some(&id) = branch.last()
            && id != fork
            && self.tree.node(id).position.is_some()
        {
            branch.extend(self.tree.node(id).parent());
        }
        if branch.pop() != Some(fork) {
            self.set_aside(&branch, target);
            return Ok(false);
        }
        let fork_height = self.tree.node(fork).height;
        if let Some(assumed) = &self.assumed
            && fork_height < assumed.base.height
        {
            return Err(ChainError::ForkBelowSnapshot { fork: fork_height, base: assumed.base });
        }
        if fork_height + 1 < self.pruning.lowest {
            let lowest = self.pruning.lowest;
            return Err(ChainError::ForkBelowPruned { fork: fork_height, lowest });
        }
        self.pruning.checked_branch = Some(target);
        Ok(true)
    }

    /// Takes `target`, and the blocks of its branch above a missing one, out of the candidates.
    fn set_aside(&mut self, above_missing: &[NodeId], target: NodeId) {
        self.candidates.remove(&self.tree, target);
        for id in above_missing {
            self.candidates.remove(&self.tree, *id);
            let parent = self.tree.node(*id).parent().expect("above another block");
            let waiting = self.unlinked.entry(parent).or_default();
            if !waiting.contains(id) {
                waiting.push(*id);
            }
        }
    }
}

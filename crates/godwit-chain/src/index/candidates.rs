//! Candidates for the tip: blocks stored back to genesis and not known to be invalid (Core
//! `setBlockIndexCandidates`).
//!
//! Ordered by chain work, then by which became connectable earlier, so that of two equal branches
//! the first seen stays (Core `CBlockIndexWorkComparator`).

use std::cmp::Reverse;
use std::collections::BTreeSet;

use godwit_primitives::Work;

use crate::tree::{HeaderTree, NodeId};

/// Sort key of a tip; the greatest is the best.
pub(crate) type Rank = (Work, Reverse<u64>, Reverse<NodeId>);

pub(crate) fn rank(tree: &HeaderTree, id: NodeId) -> Rank {
    let node = tree.node(id);
    (tree.chain_work(id), Reverse(node.sequence), Reverse(id))
}

/// The set of candidate tips.
#[derive(Debug, Default)]
pub(crate) struct Candidates {
    tips: BTreeSet<Rank>,
}

/// The rank that a candidate has at least. An active tip that failed is left, for its last valid ancestor if
/// there is nothing better.
fn least_rank(tree: &HeaderTree, active_tip: NodeId) -> Rank {
    rank(tree, tree.last_valid(active_tip))
}

impl Candidates {
    /// Those of a whole tree for which `may_lead`, and the last valid block of the active chain, after blocks
    /// have failed or do no longer.
    pub(crate) fn of(
        tree: &HeaderTree,
        active_tip: NodeId,
        may_lead: impl Fn(NodeId) -> bool,
    ) -> Self {
        let mut candidates = Self::default();
        let valid = tree.last_valid(active_tip);
        candidates.add(tree, valid, active_tip);
        // What is below it has less work.
        for id in tree.with_work(tree.chain_work(valid)) {
            let node = tree.node(id);
            if node.has_chain() && !node.failed && may_lead(id) {
                candidates.add(tree, id, active_tip);
            }
        }
        candidates
    }

    /// Adds a connectable block unless it is worse than the active tip.
    pub(crate) fn add(&mut self, tree: &HeaderTree, id: NodeId, active_tip: NodeId) {
        let new = rank(tree, id);
        if new >= least_rank(tree, active_tip) {
            self.tips.insert(new);
        }
    }

    /// Removes a block.
    pub(crate) fn remove(&mut self, tree: &HeaderTree, id: NodeId) {
        self.tips.remove(&rank(tree, id));
    }

    /// The best tip, if any.
    pub(crate) fn best(&self) -> Option<NodeId> {
        self.tips.last().map(|(_, _, Reverse(id))| *id)
    }

    /// Forgets the tips that are worse than the active one.
    pub(crate) fn prune(&mut self, tree: &HeaderTree, active_tip: NodeId) {
        let least = least_rank(tree, active_tip);
        while self.tips.first().is_some_and(|first| *first < least) {
            self.tips.pop_first();
        }
    }
}

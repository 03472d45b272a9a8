//! Branches that the chain joined and left between two questions of an index. The index visits them too,
//! because Core's indexes are told of each connected block and can still find its entry later.
//!
//! Nothing waits for these visits or depends on them. An index makes them once it has reached the tip, skips
//! blocks that it cannot read, and after a restart no longer knows of branches that it has not visited.

use godwit_chain::{Chain, NodeId, StoredData, is_unvalidated, left_blocks, lowest_for_indexes};
use godwit_store::ChainPoint;

/// Where an index goes.
pub(crate) struct Goal {
    pub(crate) block: NodeId,
    /// It was left, and is not where the index will stay.
    pub(crate) is_detour: bool,
    /// Of the blocks that the chain has left, those that come before it.
    pub(crate) seen: Option<u64>,
}

/// Where an index goes from a block: to the first one that the chain has left since the first `seen`, and the
/// index has not come to; if there is none, to the tip.
pub(crate) fn goal(chain: &Chain, from: Option<NodeId>, seen: Option<u64>) -> Goal {
    let detour = from.zip(seen).and_then(|(from, seen)| {
        let mut left = left_blocks(chain).since(seen);
        left.find(|(_, id)| !chain.tree().is_ancestor(*id, from) && can_go(chain, from, *id))
    });
    match detour {
        Some((seen, block)) => Goal { block, is_detour: true, seen: Some(seen) },
        None => Goal {
            block: chain.tip(),
            is_detour: false,
            seen: seen.map(|_| left_blocks(chain).count()),
        },
    }
}

/// Whether an index can go to a block that was left, and comes back: what is above the place where the ways
/// part is not deleted.
fn can_go(chain: &Chain, from: NodeId, to: NodeId) -> bool {
    let tree = chain.tree();
    let first = tree.node(tree.fork(from, to)).height + 1;
    let is_there = |id| StoredData::of(chain).block(id).is_some() && !is_unvalidated(chain, id);
    first >= lowest_for_indexes(chain) && tree.ancestor(to, first).is_some_and(is_there)
}

/// Whether an index whose last block is `best` has come to the tip, and to all blocks before it that the
/// chain has left since the first `seen`.
pub fn has_followed(chain: &Chain, best: Option<ChainPoint>, seen: Option<u64>) -> bool {
    let tree = chain.tree();
    let Some(best) = best.and_then(|best| tree.find(&best.hash)) else { return false };
    let has = |id| tree.is_ancestor(id, best);
    has(chain.tip())
        && seen.is_none_or(|seen| left_blocks(chain).since(seen).all(|(_, id)| has(id)))
}

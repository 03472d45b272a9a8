//! What the operator may say about blocks besides that they are invalid.

use super::BlockIndex;
use super::assumed::list_candidates;
use crate::tree::NodeId;

/// Pruned blocks that are wanted again at once.
const WANTED_AGAIN: usize = 1_000;

/// Gives a block whose chain is complete the first place among all such blocks of its work, failed ones too;
/// the others keep their order. Returns those that moved, with their places before.
pub(crate) fn prefer(index: &mut BlockIndex, id: NodeId) -> Vec<(NodeId, u64)> {
    let (tree, node, work) = (&index.tree, index.tree.node(id), index.tree.chain_work(id));
    if !node.has_chain() {
        return Vec::new();
    }
    let is_before = |other: &NodeId| {
        let rival = tree.node(*other);
        rival.has_chain() && rival.sequence <= node.sequence && tree.chain_work(*other) == work
    };
    let rivals = tree.with_work(work).into_iter().filter(is_before);
    let mut line: Vec<(NodeId, u64)> =
        rivals.map(|other| (other, tree.node(other).sequence)).collect();
    line.sort_unstable_by_key(|(other, sequence)| (*sequence, *other));
    let ids = line.iter().map(|(other, _)| *other).filter(|other| *other != id);
    let ids = std::iter::once(id).chain(ids);
    let moved: Vec<_> = ids.zip(line.iter().map(|(_, sequence)| *sequence)).collect();
    set_sequences(index, &moved);
    line
}

/// Sets the places of blocks among those of equal work.
pub(crate) fn set_sequences(index: &mut BlockIndex, sequences: &[(NodeId, u64)]) {
    for (id, sequence) in sequences {
        index.tree.update(*id, |node| node.sequence = *sequence);
    }
    list_candidates(index);
}

/// A block that was pruned is to be stored again when it comes. Of too many at once those are forgotten that
/// were asked for first. Returns whether it was not wanted before.
pub(crate) fn want_again(index: &mut BlockIndex, id: NodeId) -> bool {
    let is_new = !index.wanted_again.contains(&id);
    want_no_longer(index, id);
    if index.wanted_again.len() == WANTED_AGAIN {
        index.wanted_again.pop_front();
    }
    index.wanted_again.push_back(id);
    is_new
}

/// A block that was pruned is not to be stored again any more.
pub(crate) fn want_no_longer(index: &mut BlockIndex, id: NodeId) {
    index.wanted_again.retain(|wanted| *wanted != id);
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use godwit_primitives::{BlockHash, Network, Params};

    use super::*;

    /// Whatever their places in the tree.
    #[test]
    fn of_too_many_pruned_blocks_the_first_to_be_asked_for_are_not_wanted_any_more() {
        let mut index = BlockIndex::new(Arc::new(Params::new(Network::Regtest)));
        let genesis = index.tree.genesis();
        let header = index.tree.node(genesis).header;
        let ids: Vec<NodeId> = (0..=WANTED_AGAIN as u32)
            .map(|n| {
                let mut hash = [0; 32];
                hash[..4].copy_from_slice(&n.to_le_bytes());
                index.tree.insert(header, BlockHash::from_bytes(hash), genesis)
            })
            .collect();
        let (lowest, others) = ids.split_first().expect("more than one");
        assert!(others.iter().all(|id| want_again(&mut index, *id)));
        // It takes the place of the first one, which takes that of the next.
        for (id, gone) in [(*lowest, others[0]), (others[0], others[1])] {
            assert!(want_again(&mut index, id) && !want_again(&mut index, id));
            assert!(index.wanted_again.contains(&id) && !index.wanted_again.contains(&gone));
            assert_eq!(index.wanted_again.len(), WANTED_AGAIN);
        }
        want_no_longer(&mut index, *lowest);
        assert!(!index.wanted_again.contains(lowest));
    }
}

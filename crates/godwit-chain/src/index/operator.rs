//! What the operator says of blocks, beside that they are invalid.

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

/// A block that was pruned is to be stored again when it comes. Of too many at once the first are forgotten.
/// Returns whether it was not wanted before.
pub(crate) fn want_again(index: &mut BlockIndex, id: NodeId) -> bool {
    let is_new = index.wanted_again.insert(id);
    if index.wanted_again.len() > WANTED_AGAIN {
        index.wanted_again.pop_first();
    }
    is_new
}

/// A block that was pruned is not to be stored again any more.
pub(crate) fn want_no_longer(index: &mut BlockIndex, id: NodeId) {
    index.wanted_again.remove(&id);
}

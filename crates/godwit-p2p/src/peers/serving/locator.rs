//! Finds the part of our chain that a peer asks for.

use godwit_primitives::BlockHash;

use crate::index::{HeaderId, HeaderIndex, is_ancestor};

/// Height of the last block of our chain that a locator shares (Core `FindForkInGlobalIndex`).
pub(super) fn fork_with(index: &dyn HeaderIndex, hashes: &[BlockHash]) -> u32 {
    let tip = index.tip();
    for header in hashes.iter().filter_map(|hash| index.find(hash)) {
        if is_ancestor(index, header, tip) {
            return index.get(header).height;
        }
        if is_ancestor(index, tip, header) {
            return index.get(tip).height;
        }
    }
    0
}

/// At most `most` blocks of our chain, from height `first` up to `stop`.
pub(super) fn chain_part(
    index: &dyn HeaderIndex,
    first: u32,
    most: usize,
    stop: BlockHash,
) -> Vec<HeaderId> {
    let tip = index.get(index.tip());
    let mut last = tip.height.min(first.saturating_add(most as u32 - 1));
    // Looked up before the walk, so that it costs no more than the answer.
    if let Some(stop) = index.find(&stop).filter(|&stop| is_ancestor(index, stop, tip.id)) {
        let height = index.get(stop).height;
        last = if height >= first { last.min(height) } else { last };
    }
    if first > last {
        return Vec::new();
    }
    // Walked backwards: the parent is one step, the block at a height is a search.
    let mut ids = Vec::with_capacity((last - first + 1) as usize);
    let mut next = index.ancestor(tip.id, last);
    while let Some(id) = next
        && index.get(id).height >= first
    {
        ids.push(id);
        next = index.parent(id);
    }
    ids.reverse();
    ids
}

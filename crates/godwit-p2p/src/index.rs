//! Read access to the headers that the driver has accepted.

use godwit_primitives::{BlockHash, BlockHeader, Work};

/// A header of the driver's tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HeaderId(pub u32);

/// What the driver knows of a header and its block.
#[derive(Clone, Copy, Debug)]
pub struct HeaderInfo {
    /// Its id in the index.
    pub id: HeaderId,
    pub hash: BlockHash,
    pub header: BlockHeader,
    /// Distance from genesis.
    pub height: u32,
    /// Work of the chain that ends here.
    pub chain_work: Work,
    /// The block is on disk.
    pub stored: bool,
    /// The block or one below it breaks a rule.
    pub failed: bool,
    /// It was connected once (Core `BLOCK_VALID_SCRIPTS`).
    pub connected: bool,
}

/// Blocks below the one whose coins were loaded from a snapshot, while the driver validates them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// The last block that is validated.
    pub tip: HeaderId,
    /// The snapshot's block, the last that is wanted.
    pub base: HeaderId,
}

/// The driver's header tree. Every header has its ancestors in it.
pub trait HeaderIndex {
    /// The header with this hash.
    fn find(&self, hash: &BlockHash) -> Option<HeaderId>;
    /// A header and its state. The id must come from this index. Must take O(1): it is called a
    /// lot.
    fn get(&self, id: HeaderId) -> HeaderInfo;
    /// Median of the times of the eleven blocks that end here (BIP113).
    fn median_time_past(&self, id: HeaderId) -> u32;
    /// The ancestor at `height`, the header itself included; `None` above it. O(log n).
    fn ancestor(&self, id: HeaderId, height: u32) -> Option<HeaderId>;
    /// The previous header; `None` for genesis.
    fn parent(&self, id: HeaderId) -> Option<HeaderId>;
    /// The last connected block.
    fn tip(&self) -> HeaderId;
    /// The header with the most work that is not known to be invalid.
    fn best_header(&self) -> HeaderId;
    /// Lowest height whose block can be served; 0 when nothing was pruned.
    fn prune_height(&self) -> u32;
    /// Blocks below the tip that are wanted once there is nothing to be asked above it.
    fn history(&self) -> Option<HistorySpan> {
        None
    }
}

/// Whether `ancestor` is on the chain that ends in `id`.
pub(crate) fn is_ancestor(index: &dyn HeaderIndex, ancestor: HeaderId, id: HeaderId) -> bool {
    index.ancestor(id, index.get(ancestor).height) == Some(ancestor)
}

/// The last header that two chains share (Core `LastCommonAncestor`).
pub(crate) fn last_common_ancestor(index: &dyn HeaderIndex, a: HeaderId, b: HeaderId) -> HeaderId {
    let height = index.get(a).height.min(index.get(b).height);
    let at = |id, height| index.ancestor(id, height).expect("not above the header");
    // Two chains that part never meet again, so a binary search finds where: below the end of the shorter one
    // in growing steps, since most part near it.
    let (mut agree, mut differ, mut step) = (height, height + 1, 1);
    while agree > 0 && at(a, agree) != at(b, agree) {
        (differ, agree, step) = (agree, agree.saturating_sub(step), step.saturating_mul(2));
    }
    while differ - agree > 1 {
        let middle = agree + (differ - agree) / 2;
        if at(a, middle) == at(b, middle) { agree = middle } else { differ = middle }
    }
    at(a, agree)
}

/// Number of successive hashes with which a locator starts (Core `LocatorEntries`).
const DENSE: usize = 10;

/// A locator of the chain that ends in `from`: hashes of ten successive headers, then at doubling
/// distances, genesis last (Core `LocatorEntries`).
pub(crate) fn locator(index: &dyn HeaderIndex, from: HeaderId) -> Vec<BlockHash> {
    let mut hashes = Vec::with_capacity(32);
    let mut height = index.get(from).height;
    let mut step = 1;
    loop {
        let id = index.ancestor(from, height).expect("not above the header");
        hashes.push(index.get(id).hash);
        if height == 0 {
            return hashes;
        }
        height = height.saturating_sub(step);
        if hashes.len() > DENSE {
            step *= 2;
        }
    }
}

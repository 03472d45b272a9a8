//! The snapshot that the coins were loaded from, and how far the history below its block is validated.
//!
//! ```text
//!   genesis        history            base: the snapshot's block              tip
//!   ───┤ validated ──┤ not validated ───┤ on coins that are assumed at base ───┤
//! ```

use godwit_primitives::BlockHash;
use godwit_store::{AssumedSnapshot, ChainPoint};

use super::BlockIndex;
use super::candidates::Candidates;
use crate::error::ChainError;
use crate::tree::{NodeId, Validity};
use crate::verify::Recorded;

/// The blocks below a snapshot's that are not validated yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistorySpan {
    /// The last block that is validated.
    pub tip: NodeId,
    /// The snapshot's block.
    pub base: NodeId,
}

/// A [`HistorySpan`] as points, for readers without the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistoryProgress {
    /// The last block that is validated.
    pub validated: ChainPoint,
    /// The snapshot's block.
    pub base: ChainPoint,
}

impl BlockIndex {
    pub(crate) fn assumed(&self) -> Option<&AssumedSnapshot> {
        self.assumed.as_ref()
    }

    /// What is not validated of the history, while something is assumed.
    pub(crate) fn history(&self) -> Option<HistorySpan> {
        self.history
    }

    /// Whether the block is the snapshot's or below it, and so of the history.
    pub(crate) fn is_history(&self, id: NodeId) -> bool {
        self.history.is_some_and(|span| self.tree.is_ancestor(id, span.base))
    }

    /// Makes the block of a snapshot the tip, assumed to be valid.
    pub(crate) fn assume(&mut self, base: NodeId, utxo_hash: [u8; 32]) {
        if let Some(before) = self.history {
            distrust_above(self, before.base);
        }
        self.assumed = Some(AssumedSnapshot { base: self.point(base), utxo_hash });
        self.history = Some(HistorySpan { tip: self.tree.genesis(), base });
        self.tip = base;
        adopt_base(self, base);
        link_above(self, base);
    }
}

/// Forgets that blocks above the base of an earlier snapshot were connected: its coins, which no history has
/// confirmed, decided about their scripts and are in their undo records. They may now be of the history of
/// another snapshot, which is to be validated from genesis.
fn distrust_above(index: &mut BlockIndex, base: NodeId) {
    let height = index.height(base);
    for place in base.index() + 1..index.tree.len() as u32 {
        let id = index.tree.at(place);
        let node = index.tree.node(id);
        if node.validity == Validity::Scripts
            && node.height > height
            && index.tree.is_ancestor(base, id)
        {
            index.tree.update(id, |node| {
                (node.validity, node.undo) = (Validity::Structured, None);
            });
        }
    }
}

/// Whether the block is one of the history that is not validated yet.
pub(crate) fn is_unvalidated(index: &BlockIndex, id: NodeId) -> bool {
    index.is_history(id)
        && index.history.is_some_and(|span| index.height(id) > index.height(span.tip))
}

/// The coins on disk, which follow from genesis, are those of `tip`. Returns whether that is a block of
/// the history: otherwise they are of no use.
pub(crate) fn begin(index: &mut BlockIndex, tip: &BlockHash) -> bool {
    let (Some(span), Some(tip)) = (&mut index.history, index.tree.find(tip)) else {
        return false;
    };
    let is_below = index.tree.is_ancestor(tip, span.base);
    if is_below {
        span.tip = tip;
    }
    is_below
}

/// Makes a verified block on top of the history's tip, whose undo record is written, its new tip.
pub(crate) fn connect(index: &mut BlockIndex, recorded: &Recorded) {
    let id = recorded.id();
    let span = index.history.as_mut().expect("the history is validated while it is assumed");
    assert_eq!(index.tree.node(id).parent(), Some(span.tip), "blocks are connected to its tip");
    span.tip = id;
    index.tree.update(id, |node| {
        node.undo = recorded.undo().or(node.undo);
        assert!(node.undo.is_some(), "a connected block can be disconnected");
        node.validity = Validity::Scripts;
    });
    index.damaged.rotted_undo.remove(&id);
}

/// The history is validated, and has the coins of the snapshot: the chain is as if it had come from genesis.
pub(crate) fn end(index: &mut BlockIndex) {
    let Some(HistorySpan { base, .. }) = index.history.take() else { return };
    index.assumed = None;
    // Where the number of the snapshot's transactions was not known, counting had started there.
    let height = index.height(base);
    for place in base.index() + 1..index.tree.len() as u32 {
        let id = index.tree.at(place);
        let node = index.tree.node(id);
        let Some(parent) = node.parent().filter(|_| node.has_chain() && node.height > height)
        else {
            continue;
        };
        let count = index.tree.node(parent).chain_tx_count + u64::from(node.tx_count);
        if count != node.chain_tx_count && index.tree.is_ancestor(base, id) {
            index.tree.update(id, |node| node.chain_tx_count = count);
        }
    }
    list_candidates(index);
}

/// The nodes of a snapshot that was loaded by an earlier process.
pub(super) fn find_base(index: &mut BlockIndex) -> Result<Option<NodeId>, ChainError> {
    let base = index.assumed.map(|assumed| index.find(&assumed.base.hash)).transpose()?;
    let tip = index.tree.genesis();
    index.history = base.map(|base| HistorySpan { tip, base });
    Ok(base)
}

/// Whether a block may be a candidate. One that does not descend from an assumed snapshot's block is none:
/// the coins at its fork are not known. With the end of the history it becomes one, like any other.
pub(super) fn may_lead(index: &BlockIndex, id: NodeId) -> bool {
    index.history.is_none_or(|span| index.tree.is_ancestor(span.base, id))
}

/// Finds the candidates anew.
pub(super) fn list_candidates(index: &mut BlockIndex) {
    index.candidates = Candidates::of(&index.tree, index.tip, |id| may_lead(index, id));
}

/// Warns once of a chain with the most work that does not contain an assumed snapshot's block, and has to
/// wait.
pub(super) fn warn_of_rival(index: &mut BlockIndex, header: NodeId) {
    let Some(HistorySpan { base, .. }) = index.history else { return };
    if index.warned_of_rival || index.tree.best_header() != header || may_lead(index, header) {
        return;
    }
    index.warned_of_rival = true;
    let (base, best) = (index.point(base), index.point(header));
    let fork = index.height(index.tree.fork(index.tip, header));
    log::warn!(
        "The chain with the most work, up to block {} at height {}, forks off at height {fork}, below block {} at \
         height {}, whose coins were loaded from a snapshot. It is fetched when the history below that one is \
         validated.",
        best.hash,
        best.height,
        base.hash,
        base.height
    );
}

/// Lets chains start at the block of an assumed snapshot: its descendants need nothing below.
pub(super) fn adopt_base(index: &mut BlockIndex, base: NodeId) {
    let hash = index.tree.node(base).hash;
    let compiled_in = index.params.assumeutxo.iter().find(|known| known.blockhash == hash);
    // If the number of transactions is not known, counting starts at the base.
    let chain_tx_count = compiled_in.map_or(1, |known| known.chain_tx_count);
    index.tree.update(base, |node| {
        node.chain_tx_count = node.chain_tx_count.max(chain_tx_count);
        // It is the tip before its block arrives, so no branch of equal work was first.
        node.sequence = 0;
    });
    // Its place among the candidates depends on its sequence.
    list_candidates(index);
}

/// Links the stored blocks that waited for the block of an assumed snapshot.
pub(super) fn link_above(index: &mut BlockIndex, base: NodeId) {
    for child in index.unlinked.remove(&base).unwrap_or_default() {
        index.link(child);
    }
}

/// How far the history is validated.
pub(crate) fn progress(index: &BlockIndex) -> Option<HistoryProgress> {
    index.history.map(|HistorySpan { tip, base }| HistoryProgress {
        validated: index.point(tip),
        base: index.point(base),
    })
}

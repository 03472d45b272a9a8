//! A request for compact block filters, and how far it is served.

use godwit_primitives::BlockHash;

use crate::index::{HeaderId, HeaderIndex};
use crate::message::{CHECKPOINT_INTERVAL, FilterData, FilterQuery};
use crate::peers::action::{FilterBlock, FilterRead};

/// Filters that are asked for at once. Of long ones fewer are read ([`FILTER_BYTES`](crate::FILTER_BYTES)).
const FILTERS_AT_ONCE: u32 = 100;

/// A request that keeps the rules, and how far it is served.
#[derive(Clone, Debug)]
pub(super) struct FilterSpan {
    pub(super) query: FilterQuery,
    stop: HeaderId,
    pub(super) stop_hash: BlockHash,
    last: u32,
    /// Height of the next block.
    next: u32,
}

fn block(index: &dyn HeaderIndex, id: HeaderId) -> FilterBlock {
    let header = index.get(id);
    FilterBlock { hash: header.hash, height: header.height }
}

impl FilterSpan {
    /// Of the blocks from a height to one that is not below it.
    pub(super) fn new(
        index: &dyn HeaderIndex,
        query: FilterQuery,
        start: u32,
        stop: HeaderId,
    ) -> Self {
        let FilterBlock { hash, height } = block(index, stop);
        Self { query, stop, stop_hash: hash, last: height, next: start }
    }

    /// Blocks of these heights, walking down.
    fn range(&self, index: &dyn HeaderIndex, first: u32, last: u32) -> Vec<FilterBlock> {
        let mut walk = index.ancestor(self.stop, last);
        let mut blocks = Vec::with_capacity((last - first) as usize + 1);
        for _ in first..=last {
            let Some(id) = walk else { break };
            blocks.push(block(index, id));
            walk = index.parent(id);
        }
        blocks.reverse();
        blocks
    }

    /// What is to be read next.
    pub(super) fn read(&self, index: &dyn HeaderIndex) -> FilterRead {
        let at = |height: u32| index.ancestor(self.stop, height).map(|id| block(index, id));
        let (previous, blocks) = match self.query {
            FilterQuery::Filters => {
                let last = self.last.min(self.next.saturating_add(FILTERS_AT_ONCE - 1));
                (None, self.range(index, self.next, last))
            }
            FilterQuery::Headers => {
                let previous = self.next.checked_sub(1).and_then(at);
                (previous, self.range(index, self.next, self.last))
            }
            FilterQuery::Checkpoints => {
                let heights =
                    (CHECKPOINT_INTERVAL..=self.last).step_by(CHECKPOINT_INTERVAL as usize);
                (None, heights.filter_map(at).collect())
            }
        };
        FilterRead { query: self.query, stop: block(index, self.stop), previous, blocks }
    }

    /// What is left behind an answer.
    pub(super) fn behind(mut self, data: &FilterData) -> Option<Self> {
        let FilterData::Filters(filters) = data else { return None };
        self.next += filters.len() as u32;
        (!filters.is_empty() && self.next <= self.last).then_some(self)
    }
}

//! Blocks that were connected and later left, for readers that ask the chain only now and then: such a reader
//! would miss a branch that came and went between two questions.

use std::collections::VecDeque;

use crate::tree::NodeId;

/// The latest ones that are remembered: as many as an index tells of.
const MAX_LEFT: usize = 1_000;

/// See the module's documentation. Not durable, and empty when the chain is opened.
#[derive(Debug, Default)]
pub struct LeftBlocks {
    /// In the order in which they were left.
    latest: VecDeque<NodeId>,
    /// Those that are forgotten.
    forgotten: u64,
}

impl LeftBlocks {
    pub(crate) fn note(&mut self, id: NodeId) {
        if self.latest.len() == MAX_LEFT {
            self.latest.pop_front();
            self.forgotten += 1;
        }
        self.latest.push_back(id);
    }

    /// How many were left since the chain was opened; one that was left twice counts twice.
    pub fn count(&self) -> u64 {
        self.forgotten + self.latest.len() as u64
    }

    /// Those that were left after the first `seen`, as far as they are remembered, in the order in which that
    /// happened, each with how many were left before it.
    pub fn since(&self, seen: u64) -> impl Iterator<Item = (u64, NodeId)> + '_ {
        let first = seen.max(self.forgotten);
        let skipped = usize::try_from(first - self.forgotten).unwrap_or(usize::MAX);
        (first..).zip(self.latest.iter().copied().skip(skipped))
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Network, Params};

    use super::*;
    use crate::tree::HeaderTree;

    #[test]
    fn the_latest_are_remembered_with_their_numbers() {
        let mut left = LeftBlocks::default();
        let mut header = Params::new(Network::Regtest).genesis;
        let mut tree = HeaderTree::new(header);
        let mut ids = vec![tree.genesis()];
        while ids.len() < MAX_LEFT + 3 {
            header.nonce += 1;
            ids.push(tree.insert(header, header.block_hash(), ids[0]));
        }
        ids[..2].iter().for_each(|id| left.note(*id));
        assert_eq!((left.count(), left.since(0).count(), left.since(1).count()), (2, 2, 1));
        ids[2..].iter().for_each(|id| left.note(*id));
        assert_eq!(left.count(), ids.len() as u64);
        let expected: Vec<_> = (3..).zip(ids[3..].iter().copied()).collect();
        for seen in 0..=3 {
            assert_eq!(left.since(seen).collect::<Vec<_>>(), expected, "{seen}");
        }
        assert_eq!(left.since(left.count() - 1).collect::<Vec<_>>(), expected[MAX_LEFT - 1..]);
        assert_eq!(left.since(left.count()).count(), 0);
    }
}

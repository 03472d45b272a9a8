//! Near blocks: stored blocks that wait in memory for their turn.
//!
//! A block that is not here is read back from its file and decoded again, so this is a matter of
//! speed alone. Kept are the blocks nearest to the tip, as many as the limit and the queue of the look-ahead
//! leave room for.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::structure::Structured;
use crate::tree::NodeId;

/// Height first, so that the farthest block is last.
type HeightKey = (u32, NodeId);

/// See the module's documentation.
pub(crate) struct NearBlocks {
    blocks: BTreeMap<HeightKey, Arc<Structured>>,
    limit: usize,
    memory: usize,
    /// Number of blocks that hold a permit of an import.
    permits: usize,
}

impl NearBlocks {
    /// Without blocks; at most `limit` bytes of memory.
    pub(crate) fn new(limit: usize) -> Self {
        Self { blocks: BTreeMap::new(), limit, memory: 0, permits: 0 }
    }

    /// Changes the limit for blocks that come.
    pub(crate) fn set_limit(&mut self, limit: usize) {
        self.limit = limit;
    }

    /// Keeps a block. Above the limit, of which the queued blocks take `queued_bytes`, the farthest ones are
    /// dropped, perhaps this one.
    pub(crate) fn insert(&mut self, key: HeightKey, block: Arc<Structured>, queued_bytes: usize) {
        match block.holds_permit() {
            true => self.permits += 1,
            false => self.memory += block.memory(),
        }
        if let Some(before) = self.blocks.insert(key, block) {
            self.uncount(&before);
        }
        while self.memory + queued_bytes > self.limit
            && self.memory > 0
            && let Some((_, farthest)) = self.blocks.pop_last()
        {
            self.uncount(&farthest);
        }
    }

    pub(crate) fn contains(&self, key: HeightKey) -> bool {
        self.blocks.contains_key(&key)
    }

    pub(crate) fn remove(&mut self, key: HeightKey) -> Option<Arc<Structured>> {
        let block = self.blocks.remove(&key)?;
        self.uncount(&block);
        Some(block)
    }

    /// Forgets the blocks up to a height: a block of that height was applied.
    pub(crate) fn forget_up_to(&mut self, height: u32) {
        while let Some(first) = self.blocks.first_entry()
            && first.key().0 <= height
        {
            let block = first.remove();
            self.uncount(&block);
        }
    }

    /// Forgets the blocks of an import.
    pub(crate) fn release_permits(&mut self) {
        if self.permits > 0 {
            self.blocks.retain(|_, block| !block.holds_permit());
            self.permits = 0;
        }
    }

    pub(crate) fn clear(&mut self) {
        *self = Self::new(self.limit);
    }

    /// Memory that counts towards the limit.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    fn uncount(&mut self, block: &Structured) {
        match block.holds_permit() {
            true => self.permits -= 1,
            false => self.memory -= block.memory(),
        }
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::{Network, Params};
    use godwit_store::utxo::UtxoHasher;
    use godwit_stream::DataStream;

    use super::*;
    use crate::chain::tests::blocks as chain_of_tests;
    use crate::permits::Permits;
    use crate::structure::{Received, structure};
    use crate::tree::HeaderTree;

    /// The first blocks of a chain, all of one size.
    fn blocks(permits: Option<&Permits>) -> Vec<Arc<Structured>> {
        let (params, hasher) = (Params::new(Network::Regtest), UtxoHasher::new([1; 16]));
        let structured = |block: &Vec<u8>| {
            let permit = permits.map(|permits| permits.acquire(1).expect("open"));
            let bytes = DataStream::from(block.as_slice());
            match structure(bytes, &params, &hasher, permit) {
                Received::Structured(block) => block,
                _ => panic!("the generator's blocks are sound"),
            }
        };
        chain_of_tests().iter().take(8).map(structured).collect()
    }

    fn any_id() -> NodeId {
        HeaderTree::new(Params::new(Network::Regtest).genesis).genesis()
    }

    fn heights(waiting: &NearBlocks) -> Vec<u32> {
        waiting.blocks.keys().map(|(height, _)| *height).collect()
    }

    #[test]
    fn the_nearest_blocks_stay_whatever_their_order() {
        let blocks = blocks(None);
        let (id, size) = (any_id(), blocks[0].memory());
        let mut waiting = NearBlocks::new(3 * size);
        for height in [5, 7, 2, 6, 4, 1] {
            waiting.insert((height, id), Arc::clone(&blocks[height as usize]), 0);
            assert!(waiting.memory() <= 3 * size);
        }
        assert_eq!(heights(&waiting), [1, 2, 4]);
        // Again: nothing is counted twice.
        waiting.insert((2, id), Arc::clone(&blocks[2]), 0);
        assert_eq!((heights(&waiting), waiting.memory()), (vec![1, 2, 4], 3 * size));
        assert!(waiting.remove((2, id)).is_some() && waiting.remove((2, id)).is_none());
        assert_eq!(waiting.memory(), 2 * size);
        waiting.forget_up_to(1);
        assert_eq!((heights(&waiting), waiting.memory()), (vec![4], size));
        waiting.clear();
        assert_eq!((heights(&waiting), waiting.memory(), waiting.limit), (vec![], 0, 3 * size));
    }

    #[test]
    fn queued_blocks_take_from_what_waits() {
        let blocks = blocks(None);
        let (id, size) = (any_id(), blocks[0].memory());
        let mut waiting = NearBlocks::new(3 * size);
        let mut insert = |height: u32, queued_bytes| {
            waiting.insert((height, id), Arc::clone(&blocks[height as usize]), queued_bytes);
            heights(&waiting)
        };
        assert_eq!(insert(1, size), [1]);
        assert_eq!(insert(2, size), [1, 2]);
        assert_eq!(insert(3, size), [1, 2]);
        assert_eq!(insert(3, size + 1), [1]);
        assert!(insert(2, 3 * size).is_empty() && insert(2, 9 * size).is_empty());
    }

    #[test]
    fn blocks_of_an_import_are_not_counted_and_go_first() {
        let permits = Permits::new(100);
        let (of_import, of_peers) = (blocks(Some(&permits)), blocks(None));
        let (id, size) = (any_id(), of_peers[0].memory());
        let mut waiting = NearBlocks::new(size);
        for height in 1..=3 {
            waiting.insert((height, id), Arc::clone(&of_import[height as usize]), 0);
        }
        waiting.insert((4, id), Arc::clone(&of_peers[4]), 0);
        assert_eq!((heights(&waiting), waiting.memory()), (vec![1, 2, 3, 4], size));
        waiting.release_permits();
        assert_eq!((heights(&waiting), waiting.memory()), (vec![4], size));
    }
}

//! Chains as peers have them.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bitcoin::consensus::serialize;
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::SpanReader;

use crate::miner;

/// A block that a peer can send.
#[derive(Debug)]
pub struct StoredBlock {
    pub hash: BlockHash,
    pub header: BlockHeader,
    /// The whole block, as it is sent.
    pub bytes: Vec<u8>,
}

impl StoredBlock {
    fn new(bytes: Vec<u8>) -> Self {
        let header: BlockHeader =
            SpanReader::new(&bytes).get().expect("a block starts with its header");
        Self { hash: header.block_hash(), header, bytes }
    }
}

/// A chain from genesis to some tip. Branches share their blocks.
#[derive(Clone, Debug)]
pub struct Branch {
    blocks: Vec<Arc<StoredBlock>>,
    heights: HashMap<BlockHash, u32>,
}

impl Branch {
    /// The chain that consists of the genesis block alone.
    pub fn genesis() -> Self {
        let genesis = Arc::new(StoredBlock::new(serialize(&miner::genesis())));
        let heights = HashMap::from([(genesis.hash, 0)]);
        Self { blocks: vec![genesis], heights }
    }

    /// This chain with more blocks, each on the one before.
    pub fn extended(&self, blocks: impl IntoIterator<Item = Vec<u8>>) -> Self {
        let mut branch = self.clone();
        for bytes in blocks {
            let block = StoredBlock::new(bytes);
            assert_eq!(block.header.prev_blockhash, branch.tip().hash, "not on the tip");
            branch.heights.insert(block.hash, branch.height() + 1);
            branch.blocks.push(Arc::new(block));
        }
        branch
    }

    /// This chain up to a height.
    pub fn truncated(&self, height: u32) -> Self {
        let blocks = self.blocks[..=height as usize].to_vec();
        let heights = (0..).zip(&blocks).map(|(height, block)| (block.hash, height)).collect();
        Self { blocks, heights }
    }

    /// Height of the tip; genesis has 0.
    pub fn height(&self) -> u32 {
        self.blocks.len() as u32 - 1
    }

    pub fn tip(&self) -> &Arc<StoredBlock> {
        self.blocks.last().expect("genesis is there")
    }

    /// The block at a height.
    pub fn at(&self, height: u32) -> Option<&Arc<StoredBlock>> {
        self.blocks.get(height as usize)
    }

    /// The block of a hash.
    pub fn find(&self, hash: &BlockHash) -> Option<&Arc<StoredBlock>> {
        self.heights.get(hash).map(|height| &self.blocks[*height as usize])
    }

    /// Height of a block of this chain.
    pub fn height_of(&self, hash: &BlockHash) -> Option<u32> {
        self.heights.get(hash).copied()
    }

    /// All blocks, genesis first.
    pub fn blocks(&self) -> &[Arc<StoredBlock>] {
        &self.blocks
    }

    /// Headers after the first hash that this chain has, up to `stop` or to the tip (Core's answer to
    /// `getheaders`).
    pub fn headers_after(
        &self,
        locator: &[BlockHash],
        stop: &BlockHash,
        most: usize,
    ) -> Vec<BlockHeader> {
        let fork = locator.iter().find_map(|hash| self.height_of(hash)).unwrap_or(0);
        let last = self.height_of(stop).unwrap_or(self.height());
        let wanted = self.blocks.iter().take(last as usize + 1).skip(fork as usize + 1);
        wanted.take(most).map(|block| block.header).collect()
    }

    /// Hashes for a `getheaders` to continue this chain: the last ten, then at doubling distances.
    pub fn locator(&self) -> Vec<BlockHash> {
        let mut hashes = Vec::new();
        let (mut height, mut step) = (self.height(), 1);
        loop {
            hashes.push(self.blocks[height as usize].hash);
            if height == 0 {
                return hashes;
            }
            height = height.saturating_sub(step);
            if hashes.len() > 10 {
                step *= 2;
            }
        }
    }
}

/// Which chain a peer has at which time.
#[derive(Clone, Debug)]
pub struct View(Vec<(Duration, Arc<Branch>)>);

impl View {
    /// The same chain always.
    pub fn constant(branch: Arc<Branch>) -> Self {
        Self(vec![(Duration::ZERO, branch)])
    }

    /// From then on, another chain. Times must increase.
    pub fn then(mut self, at: Duration, branch: Arc<Branch>) -> Self {
        assert!(self.0.last().is_some_and(|(before, _)| *before < at), "times increase");
        self.0.push((at, branch));
        self
    }

    /// The chain at that time.
    pub fn at(&self, now: Duration) -> &Arc<Branch> {
        let step = self.0.iter().rev().find(|(from, _)| *from <= now);
        &step.expect("the first is from the start").1
    }

    /// A block of a chain that the peer has or had.
    pub fn find(&self, now: Duration, hash: &BlockHash) -> Option<&Arc<StoredBlock>> {
        let mut had = self.0.iter().filter(|(from, _)| *from <= now);
        had.find_map(|(_, branch)| branch.find(hash))
    }

    /// When the chain changes next.
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        self.0.iter().map(|(from, _)| *from).find(|from| *from > now)
    }
}

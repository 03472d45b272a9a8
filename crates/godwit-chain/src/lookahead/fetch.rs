//! Fetches the coins of one or more blocks from below the memtable. Each job takes a share of bounded time,
//! because a node that shuts down waits for running jobs: on a hard disk the coins of a full block can take
//! half a minute.

use std::sync::Arc;
use std::time::Duration;

use godwit_store::StoreError;
use godwit_store::utxo::{CompressedCoins, HashedOutPoint, Layers};

use crate::apply::{CoinReads, Prefetched};
use crate::environment::Environment;
use crate::limits::FETCH_TIME;
use crate::structure::Structured;

/// A block whose coins are fetched.
pub(super) struct FetchedBlock {
    /// That of the look-ahead.
    pub(super) token: u64,
    block: Arc<Structured>,
    /// No output may exist already, which is still to be looked up.
    no_overwrite: bool,
    found: Prefetched,
}

/// See the module's documentation.
pub(super) struct Fetch {
    blocks: Vec<FetchedBlock>,
    layers: Arc<Layers>,
    /// What the blocks spend, one behind the other: looked up together, coins of several blocks are read at
    /// once where they are neighbours in a run. The first job lists them.
    keys: Vec<HashedOutPoint>,
    /// Number of each block's first key.
    firsts: Vec<u32>,
    /// Numbers of the keys that have no answer yet.
    left: Vec<u32>,
    costs: FetchCosts,
}

/// What a fetch took.
#[derive(Clone, Copy, Default)]
pub(super) struct FetchCosts {
    pub(super) reads: CoinReads,
    /// Time that the answers about outputs took.
    pub(super) probe_time: Duration,
}

impl Fetch {
    pub(super) fn new(layers: Arc<Layers>) -> Self {
        let (keys, firsts, left) = (Vec::new(), Vec::new(), Vec::new());
        Self { blocks: Vec::new(), layers, keys, firsts, left, costs: FetchCosts::default() }
    }

    /// Another block, before the first job.
    pub(super) fn add(&mut self, token: u64, block: Arc<Structured>, no_overwrite: bool) {
        let mut found = Prefetched::nothing(self.layers.pin());
        found.coins = CompressedCoins::absent(block.spends().len());
        self.blocks.push(FetchedBlock { token, block, no_overwrite, found });
    }

    /// Whether it has no blocks.
    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Those of its blocks.
    pub(super) fn tokens(&self) -> Vec<u64> {
        self.blocks.iter().map(|fetched| fetched.token).collect()
    }

    /// Inputs of its blocks.
    pub(super) fn inputs(&self) -> usize {
        self.blocks.iter().map(|fetched| fetched.block.spends().len()).sum()
    }

    fn list_keys(&mut self) {
        if !self.firsts.is_empty() {
            return;
        }
        self.keys.reserve_exact(self.inputs());
        for fetched in &self.blocks {
            self.firsts.push(self.keys.len() as u32);
            self.keys.extend_from_slice(fetched.block.spends());
        }
        self.left = (0..self.keys.len() as u32).collect();
    }

    /// Fetches for about [`FETCH_TIME`].
    pub(super) fn go_on(mut self, env: &Environment) -> Result<Self, StoreError> {
        self.list_keys();
        let Self { blocks, layers, keys, firsts, left, costs } = &mut self;
        let start = env.now();
        let is_over = || env.now() - start >= FETCH_TIME;
        let probes = blocks.iter().any(|fetched| fetched.no_overwrite);
        let mut found = |n, coin: &[u8]| {
            let of = firsts.partition_point(|first| *first <= n) - 1;
            blocks[of].found.coins.set((n - firsts[of]) as usize, coin);
        };
        if !probes {
            *layers = layers.take_memtables(keys, left, &mut found);
        }
        costs.reads.coins += layers.get_some_compressed(keys, left, &is_over, &mut found)?;
        costs.reads.time += env.now() - start;
        let probed = env.now();
        for FetchedBlock { block, no_overwrite, found, .. } in blocks {
            if *no_overwrite && left.is_empty() && !is_over() {
                layers.contains_many(block.creates(), &mut found.outputs_exist)?;
                *no_overwrite = false;
            }
        }
        costs.probe_time += env.now() - probed;
        Ok(self)
    }

    /// Whether everything was fetched.
    pub(super) fn is_done(&self) -> bool {
        self.left.is_empty() && self.blocks.iter().all(|fetched| !fetched.no_overwrite)
    }

    /// What was found, by the blocks' tokens, and what it took.
    pub(super) fn into_found(self) -> (Vec<(u64, Prefetched)>, FetchCosts) {
        let found = |FetchedBlock { token, mut found, .. }: FetchedBlock| {
            found.count_memory();
            (token, found)
        };
        (self.blocks.into_iter().map(found).collect(), self.costs)
    }
}

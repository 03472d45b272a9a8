//! Fetches a block's coins from below the memtable, for a job a share that takes a bounded time: a disk
//! that moves a head needs half a minute for the coins of a full block, and a node that is to end waits
//! for the jobs that run.

use std::sync::Arc;

use godwit_store::StoreError;
use godwit_store::utxo::{CompressedCoins, Layers};

use crate::apply::Prefetched;
use crate::environment::Environment;
use crate::limits::FETCH_TIME;
use crate::structure::Structured;

/// See the module's documentation.
pub(super) struct Fetch {
    block: Arc<Structured>,
    layers: Arc<Layers>,
    /// Numbers of the block's spends that have no answer yet.
    left: Vec<u32>,
    /// No output may exist already, which is still to be looked up.
    no_overwrite: bool,
    found: Prefetched,
}

impl Fetch {
    pub(super) fn new(block: Arc<Structured>, layers: Arc<Layers>, no_overwrite: bool) -> Self {
        let spends = block.spends().len();
        let mut found = Prefetched::nothing(layers.pin());
        found.coins = CompressedCoins::absent(spends);
        Self { block, layers, left: (0..spends as u32).collect(), no_overwrite, found }
    }

    /// Fetches for about [`FETCH_TIME`].
    pub(super) fn go_on(mut self, env: &Environment) -> Result<Self, StoreError> {
        let Self { block, layers, left, no_overwrite, found } = &mut self;
        let start = env.now();
        let is_over = || env.now() - start >= FETCH_TIME;
        found.reads +=
            layers.get_some_compressed(block.spends(), left, &mut found.coins, &is_over)?;
        found.read_time += env.now() - start;
        if left.is_empty() && *no_overwrite {
            let start = env.now();
            layers.contains_many(block.creates(), &mut found.outputs_exist)?;
            found.probe_time = env.now() - start;
            *no_overwrite = false;
        }
        Ok(self)
    }

    /// Whether everything was fetched.
    pub(super) fn is_done(&self) -> bool {
        self.left.is_empty() && !self.no_overwrite
    }

    /// What was found.
    pub(super) fn into_found(mut self) -> Prefetched {
        self.found.count_memory();
        self.found
    }
}

//! The prices of the last blocks, so that each block is read once.

use std::sync::{Mutex, PoisonError};

use godwit_primitives::BlockHash;

use crate::fee_history::Price;

/// Those of the active chain when they were asked for, at most [`DEPTH`](crate::fee_history::DEPTH).
#[derive(Default)]
pub(crate) struct PriceCache(Mutex<Vec<(BlockHash, Price)>>);

impl PriceCache {
    pub(crate) fn find(&self, block: &BlockHash) -> Option<Price> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.iter().find(|(of, _)| of == block).map(|(_, price)| *price)
    }

    pub(crate) fn replace(&self, prices: &[(BlockHash, Price)]) {
        prices.clone_into(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

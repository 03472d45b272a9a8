//! One coin as of the tip, for whoever asks the node.
//!
//! The store's coins are those of the last block that is applied, which may lie above the tip. What the
//! blocks between did to this coin is undone: of those that concern it, the lowest decides.

use std::sync::Arc;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::StoreError;
use godwit_store::utxo::{HashedOutPoint, Layers, UtxoHasher, UtxoStore, unsealed_coin};

use crate::window::Window;

/// What is known of a coin without reading.
pub enum CoinAtTip {
    /// It, or that it does not exist.
    Known(Option<Coin>),
    /// The layers below memory know.
    Below(CoinBelow),
}

/// The layers of one moment, and the coin that is to be looked for. Keeps memory and files while it lives.
pub struct CoinBelow {
    layers: Arc<Layers>,
    key: HashedOutPoint,
}

impl CoinAtTip {
    pub(crate) fn find(
        window: &Window,
        coins: &UtxoStore,
        hasher: &UtxoHasher,
        outpoint: &OutPoint,
    ) -> Self {
        if let Some(before) = window.coin_below(outpoint) {
            return Self::Known(before);
        }
        let key = hasher.hash(*outpoint);
        match unsealed_coin(coins, &key) {
            Some(known) => Self::Known(known),
            None => Self::Below(CoinBelow { layers: coins.layers(), key }),
        }
    }
}

impl CoinBelow {
    /// Reads the coin.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block of a run.
    pub fn read(self) -> Result<Option<Coin>, StoreError> {
        let mut found = Vec::new();
        self.layers.get_many(&[self.key], &mut found)?;
        Ok(found.pop().flatten())
    }
}

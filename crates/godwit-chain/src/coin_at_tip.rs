//! One coin as of the tip, for RPC methods.
//!
//! The store's coins are those of the last block that is applied, which may lie above the tip. What the
//! blocks between did to this coin is undone: of those that concern it, the lowest decides.

use std::sync::Arc;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::StoreError;
use godwit_store::utxo::{HashedOutPoint, KnownCoin, Layers, UtxoHasher, UtxoStore, unsealed_coin};

use crate::apply::Resolved;
use crate::window::Window;

/// What is known of a coin without reading.
pub enum CoinAtTip {
    /// It, or that it does not exist.
    Known(Option<Coin>),
    /// The layers below memory know.
    Below(CoinBelow),
}

/// Blocks and layers of one moment, and the coin that is to be looked for. Keeps memory and files while it
/// lives. The blocks are searched where there is time for it: on the thread of the method that asks.
pub struct CoinBelow {
    /// Those above the tip, from the lowest up.
    above: Vec<Arc<Resolved>>,
    outpoint: OutPoint,
    /// What memory knows of it, as of the last of these blocks.
    known: Option<KnownCoin>,
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
        let key = hasher.hash(*outpoint);
        match (window.above_tip(), unsealed_coin(coins, &key)) {
            (above, Some(known)) if above.is_empty() => Self::Known(known.unspent()),
            (above, known) => {
                let (outpoint, layers) = (*outpoint, coins.layers());
                Self::Below(CoinBelow { above, outpoint, known, layers, key })
            }
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
        let before = self.above.iter().find_map(|block| block.coin_before(&self.outpoint));
        if let Some(known) = before.or(self.known) {
            return Ok(known.unspent());
        }
        let mut found = Vec::new();
        self.layers.get_many(&[self.key], &mut found)?;
        Ok(found.pop().flatten())
    }
}

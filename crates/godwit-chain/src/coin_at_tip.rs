//! One coin as of the tip, for RPC methods.
//!
//! The store's coins are those of the last applied block, which may lie above the tip. The changes that the
//! blocks between made to the coin are undone: of the blocks that created or spent it, the lowest decides.

use std::sync::Arc;

use godwit_primitives::{Coin, OutPoint};
use godwit_store::StoreError;
use godwit_store::utxo::{HashedOutPoint, KnownCoin, Layers, UtxoHasher, UtxoStore, unsealed_coin};

use crate::apply::Resolved;
use crate::window::Window;

/// What memory tells about a coin, without reading from a disk.
pub enum CoinAtTip {
    /// The coin, or `None` if it does not exist.
    Known(Option<Coin>),
    /// Memory does not tell: the layers below have to be read.
    Below(CoinBelow),
}

/// The blocks and layers of one moment, in which the coin is looked up. Holds memory and files open while it
/// lives. The lookup runs where there is time for it: on the thread of the method that asks.
pub struct CoinBelow {
    /// The applied blocks above the tip, in height order.
    above: Vec<Arc<Resolved>>,
    outpoint: OutPoint,
    /// The coin as memory has it after the last of these blocks.
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

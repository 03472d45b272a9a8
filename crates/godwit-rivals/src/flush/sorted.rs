//! Coins in key order, for stores that are filled fastest so.

use super::{CoinKey, CoinRecord};

/// Keys, sorted, and where their values are.
pub(super) struct SortedCoins<'a> {
    coins: Vec<(CoinKey, &'a [u8])>,
}

impl<'a> SortedCoins<'a> {
    pub(super) fn new(coins: &mut dyn Iterator<Item = CoinRecord<'a>>) -> Self {
        let mut sorted = Vec::with_capacity(coins.size_hint().0);
        sorted.extend(coins.map(|record| (CoinKey::new(&record.outpoint), record.coin)));
        sorted.sort_unstable_by(|a: &(CoinKey, _), b| a.0.as_bytes().cmp(b.0.as_bytes()));
        Self { coins: sorted }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.coins.iter().map(|(key, coin)| (key.as_bytes(), *coin))
    }
}

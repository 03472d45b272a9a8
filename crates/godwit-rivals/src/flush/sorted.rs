//! Coins in key order, for stores that are filled fastest so.

use super::{CoinKey, CoinRecord};

/// Keys, sorted, and where their values are.
pub(super) struct SortedCoins {
    keys: Vec<(CoinKey, u32, usize)>,
    values: Vec<u8>,
}

impl SortedCoins {
    pub(super) fn new(coins: &mut dyn Iterator<Item = CoinRecord<'_>>) -> Self {
        let mut sorted = Self { keys: Vec::new(), values: Vec::new() };
        for record in coins {
            let start = sorted.values.len();
            sorted.values.extend_from_slice(record.coin);
            let len = u32::try_from(record.coin.len()).expect("scripts are below 10,000 bytes");
            sorted.keys.push((CoinKey::new(&record.outpoint), len, start));
        }
        sorted.keys.sort_unstable_by(|a, b| a.0.as_bytes().cmp(b.0.as_bytes()));
        sorted
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.keys
            .iter()
            .map(|(key, len, start)| (key.as_bytes(), &self.values[*start..*start + *len as usize]))
    }
}

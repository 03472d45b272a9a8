//! The coins of `CCoinsViewDBFlush`, and how many of them there are.
//!
//! The pull request fills Bitcoin Core's coins cache until its `DynamicMemoryUsage` reaches a
//! threshold of 300 MB. Each program should then flush the same coins, so the threshold is turned into
//! a number of coins by what one costs there (x86-64, GNU libc and libstdc++, the branch's own
//! `coins.h`): a hash table's node of 120 bytes, a heap block of 80 for a script of 56, 8 for each
//! bucket of the table.

use godwit_primitives::{Coin, MAX_MONEY, OutPoint, ScriptBytes, Txid};
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// 300,000,000 bytes and the database's own cache of 1,677,721.
pub const THRESHOLD: u64 = 301_677_721;

/// Where the version with prepared coins stops: ten MiB below.
const PREPARED_THRESHOLD: u64 = THRESHOLD - (10 << 20);

/// Coins of the version that generates them while the time runs.
pub const GENERATED: usize = coins_at(THRESHOLD);

/// Coins of the version that has them prepared.
pub const PREPARED: usize = coins_at(PREPARED_THRESHOLD);

const NODE: u64 = 120;
const SCRIPT: u64 = 80;
const BUCKET: u64 = 8;

/// Buckets of a growing `std::unordered_map`; it grows when it has as many elements.
const BUCKETS: [u64; 4] = [712_697, 1_447_153, 2_938_679, 5_967_347];

const SCRIPT_BYTES: usize = 56;

/// The first number of coins at which the cache's memory is `threshold` or more.
const fn coins_at(threshold: u64) -> usize {
    let mut size = 0;
    while size < BUCKETS.len() {
        let table = BUCKETS[size] * BUCKET;
        let coins = threshold.saturating_sub(table).div_ceil(NODE + SCRIPT);
        // The coin that makes the table grow is the first one above its buckets.
        let smallest = if size == 0 { 0 } else { BUCKETS[size - 1] + 1 };
        let coins = if coins < smallest { smallest } else { coins };
        if coins <= BUCKETS[size] {
            return coins as usize;
        }
        size += 1;
    }
    panic!("a threshold beyond the table")
}

/// Random coins without end: a random txid, output 0, a random height, a random amount, a script that
/// pushes 55 bytes.
pub struct RandomCoins(StdRng);

impl RandomCoins {
    /// The same coins for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(StdRng::seed_from_u64(seed))
    }

    /// Random bytes.
    pub fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.0.fill_bytes(&mut bytes);
        bytes
    }
}

impl Iterator for RandomCoins {
    type Item = (OutPoint, Coin);

    fn next(&mut self) -> Option<Self::Item> {
        let outpoint = OutPoint { txid: Txid::from_bytes(self.bytes()), vout: 0 };
        let mut script = self.bytes::<SCRIPT_BYTES>();
        script[0] = SCRIPT_BYTES as u8 - 1;
        let coin = Coin {
            value: self.0.random_range(0..=MAX_MONEY),
            script_pubkey: ScriptBytes::from_slice(&script),
            height: self.0.next_u32() >> 1,
            coinbase: false,
        };
        Some((outpoint, coin))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threshold_is_reached_by_the_coin_that_makes_the_table_grow() {
        // With 1,447,153 coins in as many buckets: 301,007,824 bytes.
        assert_eq!(GENERATED, 1_447_154);
        assert_eq!(PREPARED, 1_398_074);
    }

    #[test]
    fn coins_are_the_same_each_time() {
        let coins = |seed| RandomCoins::new(seed).take(3).collect::<Vec<_>>();
        assert_eq!(coins(1), coins(1));
        assert_ne!(coins(1), coins(2));
        for (outpoint, coin) in coins(1) {
            assert_eq!((outpoint.vout, coin.script_pubkey.len()), (0, 56));
            assert!(coin.script_pubkey[0] == 55 && coin.height < 1 << 31);
        }
    }
}

//! What is compared: scripts run or assumed valid, with a cache that holds everything or one that
//! does not.

use serde::Serialize;

/// `-dbcache` in MiB at which nothing of a chain of this size leaves memory before the end.
const COMFORTABLE_MIB: u64 = 450;

/// The smallest `-dbcache` in MiB; both programs raise less to it.
const MIN_MIB: u64 = 4;

/// The small cache is at most this part of the final UTXO set. Mainnet's set is about twelve times
/// Bitcoin Core's default cache, and only misses show what the store behind the cache costs.
pub const SMALL_PART: u64 = 12;

/// Bytes in memory by which the final set is sized: what godwit aims at for each coin. Bitcoin Core
/// takes more, so that its set is larger still against the same cache.
pub const COIN_BYTES: u64 = 80;

/// Flushes that the small cache must have caused, so that the case means what it says.
pub const MIN_FLUSHES: u64 = 10;
/// Merges, likewise.
pub const MIN_MERGES: u64 = 3;

/// How much memory the UTXO set gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Cache {
    /// More than the whole set needs.
    Comfortable,
    /// A twelfth of it or less.
    Small,
}

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Case {
    /// Name in arguments and reports.
    pub name: &'static str,
    /// Whether every script runs (`-assumevalid=0`).
    pub scripts: bool,
    /// `-dbcache`.
    pub cache: Cache,
    /// Bitcoin Core's time over godwit's that the project set out to reach.
    pub aim: f64,
}

impl Case {
    /// All, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self { name: "scripts", scripts: true, cache: Cache::Comfortable, aim: 1.2 },
        Self { name: "scripts-small-cache", scripts: true, cache: Cache::Small, aim: 1.2 },
        Self { name: "assumevalid", scripts: false, cache: Cache::Comfortable, aim: 2.0 },
        Self { name: "assumevalid-small-cache", scripts: false, cache: Cache::Small, aim: 2.0 },
    ];

    /// The case of that name.
    pub fn by_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|case| case.name == name)
    }

    /// `-dbcache` in MiB for a chain that ends with `txouts` coins.
    pub fn dbcache(&self, txouts: u64) -> u64 {
        match self.cache {
            Cache::Comfortable => COMFORTABLE_MIB,
            Cache::Small => ((txouts * COIN_BYTES / SMALL_PART) >> 20).max(MIN_MIB),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_cache_follows_the_set_down_to_the_least() {
        let small = Case::by_name("assumevalid-small-cache").unwrap();
        assert_eq!(small.dbcache(1_244_744), 7);
        assert_eq!(small.dbcache(53_896), MIN_MIB);
        let comfortable = Case::by_name("scripts").unwrap();
        assert_eq!(comfortable.dbcache(1_244_744), COMFORTABLE_MIB);
    }
}

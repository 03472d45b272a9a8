//! The cases of a comparison: blocks from a file or from peers, scripts run or assumed valid, with a cache
//! that holds all coins or one that does not.

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

impl Cache {
    /// `-dbcache` in MiB for a chain that ends with `txouts` coins.
    pub fn mib(self, txouts: u64) -> u64 {
        match self {
            Self::Comfortable => COMFORTABLE_MIB,
            Self::Small => ((txouts * COIN_BYTES / SMALL_PART) >> 20).max(MIN_MIB),
        }
    }
}

/// Where the blocks come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// A block file.
    File,
    /// That many peers on this machine.
    Peers(usize),
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
    /// What is read or downloaded.
    pub source: Source,
    /// Whether both look every output up in their databases (BIP30), as they do on regtest, signet and
    /// testnet4, or neither.
    pub probes: bool,
    /// Least ratio of Bitcoin Core's time to godwit's that the project wants; none where Core probes.
    pub target: Option<f64>,
}

impl Case {
    /// Those of `import-vs-core`, in the order of reports.
    pub const IMPORT: [Self; 6] = [
        Self::new("scripts", true, Cache::Comfortable, Source::File),
        Self::new("scripts-small-cache", true, Cache::Small, Source::File),
        Self::new("assumevalid", false, Cache::Comfortable, Source::File),
        Self::new("assumevalid-small-cache", false, Cache::Small, Source::File),
        Self::probing("assumevalid-probes", Cache::Comfortable),
        Self::probing("assumevalid-small-cache-probes", Cache::Small),
    ];

    /// Those of `sync-vs-core`.
    pub const SYNC: [Self; 4] = [
        Self::new("scripts-1-peer", true, Cache::Comfortable, Source::Peers(1)),
        Self::new("scripts-8-peers", true, Cache::Comfortable, Source::Peers(8)),
        Self::new("assumevalid-1-peer", false, Cache::Comfortable, Source::Peers(1)),
        Self::new("assumevalid-8-peers", false, Cache::Comfortable, Source::Peers(8)),
    ];

    const fn new(name: &'static str, scripts: bool, cache: Cache, source: Source) -> Self {
        let target = match (scripts, cache) {
            (true, _) => 4.0,
            (false, Cache::Comfortable) => 8.0,
            (false, Cache::Small) => 6.0,
        };
        Self { name, scripts, cache, source, probes: false, target: Some(target) }
    }

    const fn probing(name: &'static str, cache: Cache) -> Self {
        Self { name, scripts: false, cache, source: Source::File, probes: true, target: None }
    }

    /// `-dbcache` in MiB for a chain that ends with `txouts` coins.
    pub fn dbcache(&self, txouts: u64) -> u64 {
        self.cache.mib(txouts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_small_cache_follows_the_set_down_to_the_least() {
        let [comfortable, small, ..] = Case::IMPORT;
        assert_eq!(small.dbcache(1_244_744), 7);
        assert_eq!(small.dbcache(53_896), MIN_MIB);
        assert_eq!(comfortable.dbcache(1_244_744), COMFORTABLE_MIB);
    }
}

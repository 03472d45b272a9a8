//! The scenarios in which the policies are compared. No script runs, because memory then has the largest
//! share in the time.

use crate::case::{Cache, Source};

/// `-prune` in MiB of the pull request's runs, the least that there is.
const PRUNE_MIB: u64 = 550;

/// One comparison.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scenario {
    /// Name in arguments and reports.
    pub name: &'static str,
    /// What is read or downloaded.
    pub source: Source,
    /// `-dbcache`.
    pub cache: Cache,
    /// `-prune` in MiB. An import keeps its blocks.
    pub prune: Option<u64>,
}

impl Scenario {
    /// All of them, in the order of reports.
    pub const ALL: [Self; 4] = [
        Self::new("files", Source::File, Cache::Comfortable, None),
        Self::new("files-small-cache", Source::File, Cache::Small, None),
        Self::new("peer", Source::Peers(1), Cache::Comfortable, None),
        Self::new("peer-small-cache-pruned", Source::Peers(1), Cache::Small, Some(PRUNE_MIB)),
    ];

    const fn new(name: &'static str, source: Source, cache: Cache, prune: Option<u64>) -> Self {
        Self { name, source, cache, prune }
    }

    /// Whether blocks come from a peer.
    pub fn has_peer(&self) -> bool {
        self.source != Source::File
    }

    /// The one with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name == name)
    }
}

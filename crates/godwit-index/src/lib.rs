//! Optional indexes of the active chain.
//!
//! An index follows the chain from beside, at its own pace: its thread asks the chain where it has to go
//! from its last block ([`next`]), which is arithmetic in memory, reads the blocks that are stored there,
//! and takes them in ([`Follower`]). The chain knows nothing of it and waits for nothing; an index that
//! fails stops, and the node goes on. What it has on disk and how far that goes is one commit, so a kill
//! costs no more than reading some blocks again. It may be ahead of what the chain has made durable: it
//! remembers its last blocks, and goes back to the one that the chain has ([`Position`]).
//!
//! Building the indexes in the connector's pipeline would save a second read of each block in the first
//! sync, and would make the tip's commit, and with it the sync and its faults, depend on them.

mod candidates;
mod coin_stats;
mod detours;
mod error;
mod filters;
mod follow;
mod inspect;
mod position;
mod reading;
mod records;
mod shared;
mod status;
mod txindex;

use std::sync::Arc;

pub use candidates::{Candidate, candidates, transaction_at};
pub use coin_stats::{
    BlockAmounts, COIN_STATS_INDEX_FILES, COIN_STATS_INDEX_MEMORY, CoinStats, CoinStatsIndex,
    CoinStatsIndexWriter, SetTotals, Unspendables,
};
pub use detours::has_followed;
pub use error::IndexError;
pub use filters::{
    BlockFilter, FILTER_INDEX_FILES, FILTER_INDEX_MEMORY, FilterHashes, FilterIndex,
    FilterIndexWriter,
};
pub use follow::{Follower, Index, IndexState, Outcome, Step, next, resumes_above};
pub use inspect::IndexInspection;
pub use position::Position;
pub use reading::{IndexDamage, IndexRemedy, IndexWatch};
pub use status::Status;
pub use txindex::{TX_INDEX_FILES, TX_INDEX_MEMORY, TxBlock, TxIndex, TxIndexWriter, TxPlace};

/// The indexes that a node keeps, for readers on any thread.
#[derive(Clone, Default)]
pub struct Indexes {
    /// `-txindex`
    pub transactions: Option<Arc<TxIndex>>,
    /// `-blockfilterindex`
    pub filters: Option<Arc<FilterIndex>>,
    /// `-coinstatsindex`
    pub coin_stats: Option<Arc<CoinStatsIndex>>,
}

impl Indexes {
    /// Whether there is one.
    pub fn any(&self) -> bool {
        self.transactions.is_some() || self.filters.is_some() || self.coin_stats.is_some()
    }
}

/// The directory in the network's part of a data directory in which each index has one.
pub const INDEXES_DIR: &str = "indexes";

//! Optional indexes of the active chain.
//!
//! An index follows the chain at its own pace: its thread asks the chain for the next step from its last
//! block ([`next`]), which is arithmetic in memory, reads the stored blocks of that step, and takes them in
//! ([`Follower`]). The chain does not know its indexes and never waits for them; an index that fails stops,
//! and the node goes on. The files of an index and its position are one commit, so a kill costs no more than
//! reading some blocks again. An index may be ahead of what the chain has made durable: it remembers its last
//! blocks, and goes back to the last one that the chain still has ([`Position`]).
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
    /// Whether the node keeps any index.
    pub fn any(&self) -> bool {
        self.transactions.is_some() || self.filters.is_some() || self.coin_stats.is_some()
    }
}

/// The subdirectory of the network's directory that holds a directory for each index.
pub const INDEXES_DIR: &str = "indexes";

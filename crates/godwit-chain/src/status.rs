//! The status of the chain as one plain value.

use std::time::Duration;

use godwit_store::ChainPoint;
use godwit_store::utxo::MemoryUsage;

use crate::index::{BlockIndex, HistoryProgress};
use crate::scrub::ScrubStatus;
use crate::verify::ScriptTotals;

/// The chain at the end of its last turn.
#[derive(Clone, Copy, Debug)]
pub struct ChainStatus {
    /// The last connected block.
    pub tip: ChainPoint,
    /// The header with the most work that is not known to be invalid.
    pub best_header: ChainPoint,
    /// The last block that a restart takes as verified.
    pub verified_durable: ChainPoint,
    /// The block whose coins are on disk: those of the blocks above are applied again after a restart.
    pub coins_durable: ChainPoint,
    /// Bytes at risk: blocks and undo records that the last commit does not name, which a power cut
    /// may cost.
    pub bytes_at_risk: u64,
    /// Applied blocks whose coins are not on disk: a restart applies them again, without scripts up to
    /// `verified_durable`.
    pub unwritten_blocks: u32,
    /// How long applying them again is estimated to take.
    pub replay: Duration,
    /// Bytes written since the chain was opened.
    pub written: BytesWritten,
    /// Memory in use, in bytes.
    pub memory: ChainMemory,
    /// Where the time went since the chain was opened.
    pub times: StageTimes,
    /// How scripts were verified since the chain was opened.
    pub scripts: ScriptTotals,
    /// What was connected since the chain was opened.
    pub connected: ConnectedTotals,
    /// Blocks whose coins were fetched again, because memory ran out after the first time.
    pub refetched: u64,
    pub scrub: ScrubStatus,
    /// Stored blocks that were found damaged, by any reader.
    pub damaged: DamagedBlocks,
    /// Progress of the history below a snapshot; `None` if none is being validated.
    pub history: Option<HistoryProgress>,
}

impl ChainStatus {
    /// The status of a chain whose index and coins were just read from disk.
    pub(crate) fn at_start(index: &BlockIndex, verified: ChainPoint) -> Self {
        let tip = index.point(index.tip());
        Self {
            tip,
            best_header: index.point(index.tree().best_header()),
            verified_durable: verified,
            coins_durable: tip,
            bytes_at_risk: 0,
            unwritten_blocks: 0,
            replay: Duration::ZERO,
            written: BytesWritten::default(),
            memory: ChainMemory::default(),
            times: StageTimes::default(),
            scripts: ScriptTotals::default(),
            connected: ConnectedTotals::default(),
            refetched: 0,
            scrub: ScrubStatus::default(),
            damaged: DamagedBlocks::default(),
            history: None,
        }
    }
}

/// Stored blocks that were found damaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DamagedBlocks {
    /// Blocks that were fetched and written again since the chain was opened.
    pub rewritten: u64,
    /// Blocks that have yet to be fetched.
    pub lost: u64,
}

/// Bytes written to disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BytesWritten {
    /// Blocks and undo records.
    pub appended: u64,
    /// Runs of the coins store.
    pub flushed: u64,
    /// Runs that merges made.
    pub merged: u64,
}

/// Memory in use by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChainMemory {
    /// Blocks of peers that are decoded, wait to be accepted or are being written.
    pub receiving: u64,
    /// Blocks of peers that wait in memory for their turn.
    pub near: usize,
    /// Blocks that are queued for the tip and the coins that were fetched for them.
    pub lookahead: usize,
    /// Blocks in the window and the coins that they spent.
    pub window: usize,
    /// Blocks and undo records that are being written.
    pub appending: u64,
    /// Headers and what is known of their blocks.
    pub tree: usize,
    pub coins: MemoryUsage,
}

/// What was connected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ConnectedTotals {
    pub blocks: u64,
    pub bytes: u64,
    /// Coins that were spent, and outputs that were created.
    pub coins: u64,
}

/// Where the connector's time went, and the time of other threads that the chain waits for.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    /// Checking the rules that depend on the place of a block.
    pub accept: Duration,
    /// Resolving and applying coins.
    pub apply: Duration,
    /// Waiting for jobs.
    pub wait: Duration,
    /// Rotating memtables and preparing commits.
    pub flush: Duration,
    /// Writing blocks and undo records; on workers.
    pub append: Duration,
    /// Looking below the memtable for outputs that exist already (BIP30); on workers.
    pub bip30: Duration,
}

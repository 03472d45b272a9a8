//! How a chain is to be run.

use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Params;
use godwit_store::exec::Executor;
use godwit_store::utxo::CacheMinima;

use crate::limits::{NEAR_BLOCKS_BYTES, RECEIVING_BYTES};

/// How a chain is to be run.
pub struct ChainOptions {
    /// Rules and constants of the network.
    pub params: Arc<Params>,
    /// The block below which scripts are taken as valid, if any (`-assumevalid`).
    pub assume_valid: Option<BlockHash>,
    /// Where jobs run.
    pub executor: Arc<dyn Executor>,
    /// Worker threads (`-par`).
    pub workers: usize,
    /// Bytes for the coins store (`-dbcache`).
    pub cache_bytes: u64,
    /// Lower bounds of the coins store. Tests set lower ones, to flush and merge few coins.
    pub cache_minima: CacheMinima,
    /// Stop connecting at this height (`-stopatheight`).
    pub stop_at_height: Option<u32>,
    /// Bytes that block and undo files together should not exceed (`-prune`); `None` keeps all.
    pub prune_bytes: Option<u64>,
    /// Memory for blocks from peers.
    pub block_memory: BlockMemory,
}

/// Memory that blocks from peers may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMemory {
    /// Bytes that are being decoded, wait to be accepted or are being written; one block more at
    /// worst.
    pub receiving: u64,
    /// Bytes of stored blocks that wait for their turn, indexes included.
    pub waiting: usize,
}

impl Default for BlockMemory {
    fn default() -> Self {
        Self { receiving: RECEIVING_BYTES, waiting: NEAR_BLOCKS_BYTES }
    }
}

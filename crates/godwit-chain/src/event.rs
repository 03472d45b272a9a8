//! What the chain tells those who watch it.

use std::sync::Arc;
use std::time::Duration;

use godwit_consensus::Reject;
use godwit_primitives::BlockHash;
use godwit_store::ChainPoint;

use crate::structure::Structured;
use crate::verify::Resolved;

/// Something that happened to the active chain.
pub enum Event {
    /// A block was connected: everything about it is verified, or was assumed valid.
    Connected(Connected),
    /// A block was disconnected; its parent is the tip.
    Disconnected(ChainPoint),
    /// A block was found invalid when it was connected.
    Invalid {
        /// The block.
        hash: BlockHash,
        /// The rule.
        reject: Reject,
    },
}

/// A connected block and the coins that it spent.
pub struct Connected {
    /// Hash and height.
    pub point: ChainPoint,
    pub(crate) resolved: Arc<Resolved>,
}

impl Connected {
    /// The block.
    pub fn block(&self) -> &Structured {
        &self.resolved.block
    }

    /// The coins that it spent, in the order of its inputs.
    pub fn spent_coins(&self) -> &[godwit_primitives::Coin] {
        &self.resolved.spent.coins
    }
}

/// Where the connector's time went. Workers' time is not in it.
#[derive(Clone, Copy, Debug, Default)]
pub struct StageTimes {
    /// Contextual rules and appending to the block file.
    pub accept: Duration,
    /// Resolving and applying coins.
    pub apply: Duration,
    /// Writing undo records.
    pub undo: Duration,
    /// Waiting for workers or for the reader.
    pub wait: Duration,
    /// Sealing memtables and preparing commits.
    pub flush: Duration,
}

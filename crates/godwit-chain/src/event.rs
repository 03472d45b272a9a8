//! Events of the chain, for its driver.

use godwit_consensus::{Reject, Verdict};
use godwit_primitives::BlockHash;
use godwit_store::ChainPoint;
use godwit_stream::PooledStream;

/// Where a block came from; its verdict names this again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A peer; the number is the caller's ([`Chain::receive_block`](crate::Chain::receive_block)).
    Peer {
        /// The caller's number.
        ticket: u64,
    },
    /// A record of an import.
    Record {
        /// Its place in the order of the plan.
        sequence: u64,
    },
    /// A caller that waits ([`Chain::submit`](crate::Chain::submit)).
    Caller,
}

/// What happened to the active chain, or to a block that was handed in or requested.
pub enum Event {
    /// A block was connected: everything about it is verified, or was assumed valid.
    Connected(Connected),
    /// A block was disconnected; its parent is the tip.
    Disconnected(ChainPoint),
    /// A block was found invalid when it was connected.
    Invalid { hash: BlockHash, reject: Reject },
    /// The bytes of a stored block are damaged: it is to be fetched and handed in again
    /// ([`Chain::expect_copies`](crate::Chain::expect_copies)).
    Lost { hash: BlockHash },
    /// A block that was handed in has its verdict. One that is stored will be connected when its chain
    /// is complete and the best.
    Judged {
        /// Where it came from.
        source: Source,
        /// The block; `None` for bytes that are no block.
        hash: Option<BlockHash>,
        verdict: Verdict,
    },
    /// A stored block was read.
    Read {
        /// As given to [`Chain::read_block`](crate::Chain::read_block).
        ticket: u64,
        /// Exactly the block; `None` where it is not stored or could not be read.
        bytes: Option<PooledStream>,
    },
}

/// A connected block. The block itself is not part of it: events may wait for long, and blocks are
/// large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Hash and height.
    pub point: ChainPoint,
    /// Length of the block in bytes.
    pub bytes: usize,
}

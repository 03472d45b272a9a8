//! The input of a sync report: the node at one moment, as its thread hands it in.

use std::time::Duration;

use godwit_chain::{Chain, ChainStatus, history};
use godwit_p2p::TrafficTotals;

/// The node at one moment.
#[derive(Clone, Debug)]
pub struct SyncFacts {
    /// Since the start of the run.
    pub now: Duration,
    /// Seconds since 1970 (UTC).
    pub unix: i64,
    pub tip: Tip,
    pub best: Tip,
    pub status: ChainStatus,
    /// Bytes of blocks that arrived out of order, and are stored until their turn.
    pub stored_ahead: u64,
    pub initial_download: bool,
    pub verification: Verification,
    /// The warnings of Bitcoin Core that apply.
    pub warnings: Vec<String>,
    /// Processor time of all threads.
    pub processor: Duration,
    pub repaired_coins: u64,
    pub memory: MemoryFacts,
    /// Bytes of block and undo files.
    pub bytes_on_disk: u64,
    /// Transactions of the chain up to the tip.
    pub transactions: u64,
    /// As other methods count them.
    pub connections: Connections,
    /// In the order of their ids.
    pub peers: Vec<PeerFacts>,
}

/// A block's place.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tip {
    pub height: u32,
    /// Seconds since 1970, from its header.
    pub time: u32,
}

/// What is verified, and what is assumed to be valid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verification {
    /// Scripts run from this height on; those of blocks below are, or were in this run, taken as valid. 0:
    /// all run.
    pub scripts_from: u32,
    /// As long as coins of a snapshot are taken as right.
    pub unvalidated: Option<UnvalidatedHistory>,
}

/// The history below a snapshot's block, by heights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnvalidatedHistory {
    /// The snapshot's block.
    pub base: u32,
    /// The last block that is validated.
    pub validated: u32,
}

impl UnvalidatedHistory {
    /// While the coins of a snapshot are taken as right.
    pub fn of(chain: &Chain) -> Option<Self> {
        let assumed = chain.assumed()?;
        let validated = history(chain).map_or(0, |span| chain.tree().node(span.tip).height);
        Some(Self { base: assumed.base.height, validated })
    }
}

/// All connections, those included whose handshake is not complete.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// With all peers, since the start of the run.
    pub traffic: TrafficTotals,
    pub inbound: usize,
    pub outbound: usize,
}

/// Memory that is not the chain's, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryFacts {
    /// Bytes that peers make the node hold.
    pub peers: u64,
    /// Answers to programs, made or sent.
    pub answers: u64,
    /// Locked, for keys of connections.
    pub locked: u64,
    /// Resident memory of the process in bytes; `None` if the system does not tell.
    pub resident: Option<u64>,
    /// `-memory`.
    pub budget: u64,
}

/// A connection whose handshake is complete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PeerFacts {
    pub id: u64,
    pub address: String,
    /// The name by which the peer calls itself. It can be any text.
    pub agent: String,
    pub inbound: bool,
    pub received: u64,
    /// How many blocks are asked of it, and the height of the lowest.
    pub in_flight: u32,
    pub lowest: Option<u32>,
}

//! The six workloads of bitcoin/bitcoin#30987, on the product's own code.
//!
//! What they do is what the pull request's branch does (`src/bench/` at 3292a21e93 and later); where
//! godwit's design makes a step mean something else, the workload's own text says so.

mod blocks;
pub mod coins;
pub mod flush;
mod message;
pub mod policy;
pub mod streams;

use std::path::PathBuf;

use crate::harness::Subject;

/// What the workloads work on.
#[derive(Clone, Debug)]
pub struct Input {
    /// One serialised mainnet block.
    pub block: Vec<u8>,
    /// A directory on a real disk that is emptied and removed.
    pub datadir: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// A stream made of 8,192 bytes, and dropped.
    DataStreamAlloc,
    /// A script of 1,002 bytes written to an empty stream.
    DataStreamSerializeScript,
    /// A block as a message, there and back.
    ProcessMessageBlock,
    /// A block decoded, txids included.
    DeserializeBlock,
    /// A block decoded without hashing its transactions.
    DeserializeBlockUnhashed,
    /// A block decoded and checked.
    DeserializeAndCheckBlock,
    /// Coins generated and flushed, by the byte of Bitcoin Core's cache.
    FlushGenerated,
    Flush,
}

impl Workload {
    pub const ALL: [Self; 8] = [
        Self::DataStreamAlloc,
        Self::DataStreamSerializeScript,
        Self::ProcessMessageBlock,
        Self::DeserializeBlock,
        Self::DeserializeBlockUnhashed,
        Self::DeserializeAndCheckBlock,
        Self::FlushGenerated,
        Self::Flush,
    ];

    /// The pull request's name of it, with a word on what differs.
    pub fn name(self) -> &'static str {
        match self {
            Self::DataStreamAlloc => "DataStreamAlloc",
            Self::DataStreamSerializeScript => "DataStreamSerializeScript",
            Self::ProcessMessageBlock => "ProcessMessageBlock",
            Self::DeserializeBlock => "DeserializeBlockTest",
            Self::DeserializeBlockUnhashed => "DeserializeBlockTest, no hashing",
            Self::DeserializeAndCheckBlock => "DeserializeAndCheckBlockTest",
            Self::FlushGenerated => "CCoinsViewDBFlush, generating",
            Self::Flush => "CCoinsViewDBFlush",
        }
    }

    /// The workload of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|workload| workload.name() == name)
    }

    /// Whether one iteration takes so long that an epoch is one.
    pub fn is_long(self) -> bool {
        matches!(self, Self::FlushGenerated | Self::Flush)
    }

    /// The workload with its inputs prepared.
    ///
    /// # Panics
    ///
    /// When the block does not decode; the body also when it fails its check or the disk fails.
    pub fn subject(self, input: &Input) -> Subject {
        // A directory of its own: it is wiped each time, and others keep theirs beside it.
        let datadir = input.datadir.join("godwit");
        match self {
            Self::DataStreamAlloc => streams::alloc(),
            Self::DataStreamSerializeScript => streams::serialize_script(),
            Self::ProcessMessageBlock => message::process_block(&input.block),
            Self::DeserializeBlock => blocks::deserialize(&input.block),
            Self::DeserializeBlockUnhashed => blocks::deserialize_unhashed(&input.block),
            Self::DeserializeAndCheckBlock => blocks::deserialize_and_check(&input.block),
            Self::FlushGenerated => flush::generating(&datadir, coins::GENERATED),
            Self::Flush => flush::prepared(&datadir, coins::PREPARED),
        }
    }
}

#[cfg(test)]
mod tests;

//! The two ways in which a chain reaches a node, each with a benchmark of its own: their names, and the texts
//! of their reports.

use serde::Serialize;

use crate::case::Case;

/// How the chain comes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Intake {
    /// `godwit import` against `bitcoind -loadblock`.
    Import,
    /// A chain from peers.
    Sync,
}

impl Intake {
    /// Name of the program and of its reports.
    pub fn program(self) -> &'static str {
        match self {
            Intake::Import => "import-vs-core",
            Intake::Sync => "sync-vs-core",
        }
    }

    pub fn cases(self) -> &'static [Case] {
        match self {
            Intake::Import => &Case::IMPORT,
            Intake::Sync => &Case::SYNC,
        }
    }

    /// Headline of the page.
    pub fn title(self) -> &'static str {
        match self {
            Intake::Import => "Import of a synthetic chain: godwit against Bitcoin Core",
            Intake::Sync => "Sync of a synthetic chain from peers: godwit against Bitcoin Core",
        }
    }

    /// One go of one program, in a sentence.
    pub fn one(self) -> &'static str {
        match self {
            Intake::Import => "an import",
            Intake::Sync => "a sync, the servers aside",
        }
    }

    /// How it was measured, as far as the two differ.
    pub fn method(self) -> &'static str {
        match self {
            Intake::Import => "The file was read once before, so both find it in memory.",
            Intake::Sync => {
                "The servers are bitcoinds on the same machine and the same two processors, the same \
                 processes for both programs throughout a case; each has a data directory of its own \
                 (the block files are hard links, so that they are in memory once) and a cache of 4 \
                 MiB. Both programs are left at their default transport, which is the encrypted one \
                 (v2, BIP324). The chain's blocks are stamped up to the time of the benchmark: \
                 bitcoind would ask one peer alone for headers, and so for blocks, as long as its best \
                 header is a day old. Time counts from the client's start, with no header yet, to its \
                 exit."
            }
        }
    }
}

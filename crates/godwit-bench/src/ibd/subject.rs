//! The subjects: one program under three memory policies, and the rival that wipes.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::node::Node;

/// A program under a memory policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Subject {
    /// godwit as it ships.
    Plain,
    /// godwit with the barrier of a wipe before each free, and no wipe.
    BarrierOnly,
    /// godwit with a wipe before each free, as Bitcoin Core's streams have it.
    ZeroAfterFree,
    /// Bitcoin Core.
    Bitcoind,
}

impl Subject {
    /// The policies, the one that ships first.
    pub const POLICIES: [Self; 3] = [Self::Plain, Self::BarrierOnly, Self::ZeroAfterFree];
    /// All that a round measures.
    pub const ALL: [Self; 4] =
        [Self::Plain, Self::BarrierOnly, Self::ZeroAfterFree, Self::Bitcoind];

    /// Name in reports, of features of the build and of their directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::BarrierOnly => "barrier-only",
            Self::ZeroAfterFree => "zero-after-free",
            Self::Bitcoind => "bitcoind",
        }
    }

    /// Whose command line it understands.
    pub fn node(self) -> Node {
        match self {
            Self::Bitcoind => Node::Bitcoind,
            Self::Plain | Self::BarrierOnly | Self::ZeroAfterFree => Node::Godwit,
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

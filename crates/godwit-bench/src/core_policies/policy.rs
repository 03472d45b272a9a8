//! The memory policies of Core's streams, and the names of the programs built with them.

use std::fmt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A memory policy of Bitcoin Core's `DataStream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// What Core ships: overwritten with zeros behind a compiler barrier when it is freed.
    AsIs,
    /// The call and the barrier without the zeros.
    Barrier,
    /// `std::vector<std::byte>`.
    Plain,
    /// An allocator of its own type that does what the standard one does.
    Custom,
    /// A copy of the programs of [`Policy::AsIs`]: a difference that is known to be none.
    Again,
}

impl Policy {
    /// All of them, the one that ships first.
    pub const ALL: [Self; 5] = [Self::AsIs, Self::Barrier, Self::Plain, Self::Custom, Self::Again];

    /// Name in reports and of directories.
    pub fn name(self) -> &'static str {
        match self {
            Self::AsIs => "as-is",
            Self::Barrier => "barrier",
            Self::Plain => "plain",
            Self::Custom => "custom",
            Self::Again => "again",
        }
    }

    /// The one with that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|policy| policy.name() == name)
    }

    /// Those of some policies that are held against what ships.
    pub fn others(policies: &[Self]) -> impl Iterator<Item = Self> {
        policies.iter().copied().filter(|policy| *policy != Self::AsIs)
    }
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How many orders each program is linked in.
pub const LINK_ORDERS: usize = 3;

/// Where a program of `tools/build-core-policies` lies. Link orders count from 0 here, from 1 on the disk.
pub fn program(programs: &Path, policy: Policy, link_order: usize, name: &str) -> PathBuf {
    programs.join(format!("{policy}-{}", link_order + 1)).join(name)
}

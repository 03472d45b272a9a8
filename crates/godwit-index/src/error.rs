//! Errors of an index. They stop it or have it rebuilt, and never reach the chain.

use std::fmt;
use std::path::{Path, PathBuf};

use godwit_store::StoreError;

/// See the module's documentation.
#[derive(Debug)]
pub enum IndexError {
    /// A call to the disk failed.
    Store(StoreError),
    /// Bytes of the index are not what was written.
    Damaged { path: PathBuf, offset: u64 },
    /// Another version of the program wrote it.
    OtherVersion {
        path: PathBuf,
        version: u32,
        /// The one that this program reads.
        known: u32,
    },
    /// Its files are too many, and the disk has no room to merge some.
    LacksRoom {
        /// Bytes that have to be free.
        needed: u64,
        /// Bytes that are.
        free: u64,
    },
    /// The chain has more blocks than the format can number.
    TooHigh { height: u32 },
    /// The chain does not know its blocks, and has deleted those that it would be built again from.
    UnknownBlocks,
}

impl IndexError {
    pub(crate) fn damaged(path: &Path, offset: u64) -> Self {
        Self::Damaged { path: path.to_owned(), offset }
    }

    /// Whether the index is not what was written, or not what this program writes: then it is built again, if
    /// all blocks are there. Otherwise it stops.
    pub fn is_damage(&self) -> bool {
        match self {
            Self::Store(error) => error.is_rotten(),
            Self::Damaged { .. } | Self::OtherVersion { .. } => true,
            Self::LacksRoom { .. } | Self::TooHigh { .. } | Self::UnknownBlocks => false,
        }
    }
}

impl From<StoreError> for IndexError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Damaged { path, offset } => {
                write!(f, "{} is damaged at byte {offset}", path.display())
            }
            Self::OtherVersion { path, version, known } => {
                write!(f, "{} has version {version}, this program reads {known}", path.display())
            }
            Self::LacksRoom { needed, free } => write!(
                f,
                "its files have to be merged, and the disk lacks {} MiB of {} MiB that have to be free for it",
                needed.saturating_sub(*free).div_ceil(1 << 20),
                needed.div_ceil(1 << 20)
            ),
            Self::UnknownBlocks => f.write_str(
                "the chain does not know its last blocks, and blocks that it would be built again from are deleted",
            ),
            Self::TooHigh { height } => write!(f, "no index has room for height {height}"),
        }
    }
}

impl std::error::Error for IndexError {}

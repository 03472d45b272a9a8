//! Reasons for which a hand-over fails, or Core's coins cannot be read.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use godwit_store::inspect::Found;
use godwit_store::{ChainPoint, StoreError};

use crate::leveldb::LevelDbError;

/// Every failure of this crate. None leaves the source changed.
#[derive(Debug)]
pub enum HandOverError {
    Store(StoreError),
    /// A system call on the target failed.
    Io(PathBuf, io::Error),
    /// An operation failed on a database of Core's, in this directory.
    Database(PathBuf, LevelDbError),
    /// The source is damaged.
    Damaged(Box<Found>),
    /// A stored file, given by name, is missing or too short.
    ShortFile(PathBuf),
    /// A block of the chain lacks something that Core needs.
    Incomplete {
        block: ChainPoint,
        missing: Missing,
    },
    /// The source's coins came from a snapshot, at this height.
    Assumed(u32),
    /// The source has connected no block.
    NothingStored(PathBuf),
    /// The target holds something that no hand-over can have left there.
    NotEmpty(PathBuf),
    /// Core was started on a target that is not complete.
    Started(PathBuf),
    /// Source and target are not beside each other, so deleting one would delete the other.
    NotApart {
        target: PathBuf,
        source: PathBuf,
    },
    /// The target, or a path above it, exists and is not a directory.
    NoDirectory(PathBuf),
    /// The target and the files of the source that it is to share are on different file systems.
    OtherFileSystem {
        target: PathBuf,
        /// Where the block files are, or one of them.
        source: PathBuf,
    },
    NoSpace {
        dir: PathBuf,
        needed: u64,
        free: u64,
    },
    /// An undo record of the source, in this file, lies beyond the positions that Core's index can express.
    BeyondReach(PathBuf),
    /// The database read back differs from what was written.
    ReadBack(PathBuf),
    /// Core was killed while it wrote its coins.
    InFlush(PathBuf),
    /// The database does not say which block its coins belong to.
    NoBestBlock(PathBuf),
    /// A record is not one of Core's.
    BadRecord(PathBuf),
    Spawn(io::Error),
    ThreadPanicked,
    /// The caller stopped the work.
    Stopped,
}

impl HandOverError {
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |error| Self::Io(path, error)
    }
}

impl From<StoreError> for HandOverError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Stopped => Self::Stopped,
            error => Self::Store(error),
        }
    }
}

/// What a block of the chain lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Its entry in the index.
    Header,
    /// Its transactions: the block was never received.
    Transactions,
    /// A verdict: the block was not verified, or it broke a rule.
    Validation,
    /// Its data, which was lost: nothing was pruned in this directory.
    Data,
    /// Its undo record, although the block is stored.
    Undo,
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Header => "is not in the index",
            Self::Transactions => "was not received",
            Self::Validation => "is not verified",
            Self::Data => "is not stored",
            Self::Undo => "has no undo record",
        })
    }
}

impl From<Found> for HandOverError {
    fn from(found: Found) -> Self {
        Self::Damaged(Box::new(found))
    }
}

impl fmt::Display for HandOverError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Io(path, error) => write!(f, "{}: {error}", path.display()),
            Self::Database(dir, LevelDbError::Locked) => {
                write!(f, "{} is in use: stop the bitcoind that runs on it first", dir.display())
            }
            Self::Database(dir, error) => write!(f, "{}: {error}", dir.display()),
            Self::Damaged(found) => found.fmt(f),
            Self::ShortFile(path) => write!(
                f,
                "{} is missing or too short; `godwit verify` says what is damaged",
                path.display()
            ),
            Self::Incomplete { block: ChainPoint { hash, height }, missing } => write!(
                f,
                "block {hash} at height {height} {missing}: start godwit once, so that it fetches or repairs what it \
                 can, or run `godwit verify -repair`"
            ),
            Self::Assumed(height) => write!(
                f,
                "the coins come from a snapshot at height {height}, whose blocks were not validated here: \
                 Bitcoin Core would take them for validated"
            ),
            Self::NothingStored(dir) => {
                write!(f, "{} has no block connected: there is nothing to hand over", dir.display())
            }
            Self::NotEmpty(dir) => write!(f, "{} is not empty", dir.display()),
            Self::Started(dir) => write!(
                f,
                "the hand-over to {} was not completed, and Bitcoin Core was started on it: remove it, or choose \
                 another directory",
                dir.display()
            ),
            Self::NotApart { target, source } => write_not_apart(f, target, source),
            Self::NoDirectory(path) => write!(f, "{} is no directory", path.display()),
            Self::OtherFileSystem { target, source } => write_elsewhere(f, target, source),
            Self::NoSpace { dir, needed, free } => write!(
                f,
                "{} bytes are needed on the file system of {}, and {free} are free",
                needed,
                dir.display()
            ),
            Self::BeyondReach(path) => {
                write!(f, "{} is too large for Bitcoin Core's index", path.display())
            }
            Self::ReadBack(dir) => write!(
                f,
                "the coins that were read back from {} are not those that were written: memory or disk are not \
                 sound",
                dir.display()
            ),
            Self::InFlush(dir) => write!(
                f,
                "Bitcoin Core was killed while it wrote {}: start and stop it once",
                dir.display()
            ),
            Self::NoBestBlock(dir) => write!(f, "{} holds the coins of no block", dir.display()),
            Self::BadRecord(dir) => {
                write!(f, "{} holds a record that is not Core's", dir.display())
            }
            Self::Spawn(error) => write!(f, "a thread cannot be started: {error}"),
            Self::ThreadPanicked => f.write_str("a thread panicked"),
            Self::Stopped => f.write_str("stopped"),
        }
    }
}

fn write_elsewhere(f: &mut fmt::Formatter<'_>, target: &Path, source: &Path) -> fmt::Result {
    write!(
        f,
        "{} is not on the file system of the block files ({}), so that they cannot be shared",
        target.display(),
        source.display()
    )
}

fn write_not_apart(f: &mut fmt::Formatter<'_>, target: &Path, source: &Path) -> fmt::Result {
    write!(
        f,
        "{} and {} overlap: deleting one would delete the other; choose a separate directory",
        target.display(),
        source.display()
    )
}

impl std::error::Error for HandOverError {}

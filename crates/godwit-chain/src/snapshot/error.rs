//! Why a snapshot is not written or not loaded.

use std::fmt;
use std::path::PathBuf;

use godwit_primitives::{BlockHash, ReversedHex};
use godwit_store::{AssumedSnapshot, ChainPoint, StoreError};

use super::header::{BaseFault, HeaderFault};
use crate::error::ChainError;

/// Why a snapshot was not written or not loaded. A refused snapshot changes nothing.
#[derive(Debug)]
pub enum SnapshotError {
    Chain(ChainError),
    /// The file to write exists.
    Exists(PathBuf),
    /// The file does not start as a snapshot does.
    NotASnapshot(PathBuf),
    /// An unknown version.
    Version(PathBuf, u16),
    /// It belongs to another network.
    OtherNetwork(PathBuf),
    /// A snapshot of its block is loaded already. A load that was cut off may have taken effect before it
    /// could say so.
    AlreadyLoaded(PathBuf, AssumedSnapshot),
    /// The header of its block is not in the datadir.
    UnknownBase(PathBuf, BlockHash),
    /// Its block or an ancestor is invalid.
    InvalidBase(PathBuf, BlockHash),
    /// A chain of headers that does not contain its block has more work: the best header of that
    /// chain.
    NotInBestChain(PathBuf, ChainPoint),
    /// The datadir's chain has at least as much work as the snapshot's block, or a stored branch
    /// has more and would replace it at once: its last block.
    NotAhead(PathBuf, ChainPoint),
    /// Neither the user nor the compiled-in list gives the expected hash.
    NoExpectedHash(PathBuf, ChainPoint),
    /// The bytes at this offset are no coin, or an impossible one.
    Malformed {
        path: PathBuf,
        offset: u64,
        /// Coins before it.
        coins: u64,
        flaw: SnapshotFlaw,
    },
    /// There are bytes behind the last coin.
    TrailingBytes {
        path: PathBuf,
        offset: u64,
        /// Coins that the header announces.
        coins: u64,
    },
    /// Its coins do not have the expected hash.
    WrongHash {
        path: PathBuf,
        /// The hash of its coins, as the hash function gives it.
        found: [u8; 32],
        /// The expected hash.
        expected: [u8; 32],
    },
}

/// Why a snapshot that was begun is not finished.
#[derive(Debug)]
pub enum DumpError {
    /// Its coins could not be read or sorted, or it was told to stop.
    Coins(StoreError),
    /// Its file could not be written, made durable or given its name.
    File(StoreError),
}

/// What is wrong with the bytes of a snapshot behind its header (Core `PopulateAndValidateSnapshot`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFlaw {
    /// They are no coin, or end within one.
    Format,
    /// A transaction has more coins than are left of those that the header announces.
    Count,
    /// A coin is of a later block than the snapshot's, or of an impossible output.
    Coin,
    /// A coin's amount is out of range.
    Amount,
    /// A coin cannot be spent. No dump has one, and the store would drop it without a word.
    Unspendable,
}

impl SnapshotError {
    pub(super) fn of_header(path: PathBuf, fault: HeaderFault) -> Self {
        match fault {
            HeaderFault::CutOff | HeaderFault::Magic => Self::NotASnapshot(path),
            HeaderFault::Version(version) => Self::Version(path, version),
            HeaderFault::OtherNetwork(_) => Self::OtherNetwork(path),
        }
    }

    pub(super) fn of_base(path: PathBuf, base: BlockHash, fault: BaseFault) -> Self {
        match fault {
            BaseFault::AlreadyLoaded(assumed) => Self::AlreadyLoaded(path, assumed),
            BaseFault::Unknown => Self::UnknownBase(path, base),
            BaseFault::Invalid => Self::InvalidBase(path, base),
            BaseFault::NotInBestChain(best) => Self::NotInBestChain(path, best),
            BaseFault::NotAhead(tip) => Self::NotAhead(path, tip),
        }
    }

    /// Whether the load was told to stop.
    pub fn is_stop(&self) -> bool {
        matches!(self, Self::Chain(ChainError::Store(StoreError::Stopped)))
    }
}

impl From<ChainError> for SnapshotError {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<StoreError> for SnapshotError {
    fn from(error: StoreError) -> Self {
        Self::Chain(error.into())
    }
}

impl From<DumpError> for SnapshotError {
    fn from(error: DumpError) -> Self {
        let (DumpError::Coins(error) | DumpError::File(error)) = error;
        error.into()
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(error) => error.fmt(f),
            Self::Exists(path) => {
                write!(f, "{} exists already; delete it or name another file", path.display())
            }
            Self::NotASnapshot(path) => write!(f, "{} is not a UTXO snapshot", path.display()),
            Self::Version(path, version) => {
                write!(f, "{} is a snapshot of unknown version {version}", path.display())
            }
            Self::OtherNetwork(path) => write!(f, "{} is of another network", path.display()),
            Self::AlreadyLoaded(path, AssumedSnapshot { base, utxo_hash }) => write!(
                f,
                "{}: the snapshot of its block at height {} is loaded already, with coins that hash to {}",
                path.display(),
                base.height,
                ReversedHex(utxo_hash)
            ),
            Self::UnknownBase(path, hash) => write!(
                f,
                "{}: the header of its block {hash} is not known; run the node until it has downloaded the headers",
                path.display()
            ),
            Self::InvalidBase(path, hash) => {
                write!(f, "{}: its block {hash} is invalid", path.display())
            }
            Self::NotInBestChain(path, best) => write!(
                f,
                "{}: its block is not in the chain of headers with the most work, which ends in {} \
                 at height {}",
                path.display(),
                best.hash,
                best.height
            ),
            Self::NotAhead(path, tip) => write!(
                f,
                "{}: a chain that is stored here has as much work already (height {})",
                path.display(),
                tip.height
            ),
            Self::NoExpectedHash(path, base) => write!(
                f,
                "{}: no hash is known for height {}; give the one you trust with -utxohash",
                path.display(),
                base.height
            ),
            Self::Malformed { path, offset, .. } => {
                write!(f, "{} is damaged or cut off at offset {offset}", path.display())
            }
            Self::TrailingBytes { path, offset, .. } => {
                write!(f, "{} has bytes after its last coin, at offset {offset}", path.display())
            }
            Self::WrongHash { path, found, expected } => write!(
                f,
                "{}: its coins hash to {}, not to {}",
                path.display(),
                ReversedHex(found),
                ReversedHex(expected)
            ),
        }
    }
}

impl std::error::Error for SnapshotError {}

//! Why a database is refused.

use std::error::Error;
use std::fmt;
use std::io;

use godwit_secret::{LockError, Releasable};

/// Why the file of a wallet cannot be read.
#[derive(Debug)]
pub enum DatabaseError {
    /// There is no locked memory for its pages.
    Memory(LockError),
    /// The file system fails.
    Read(io::Error),
    /// Another program has it open for writing.
    InUse,
    /// Neither SQLite nor Berkeley DB wrote it.
    NotSqlite,
    /// A wallet of Bitcoin Core's older kind.
    BerkeleyDb,
    /// Rows may be in a write-ahead log instead of the file.
    WriteAheadLog,
    /// A transaction was not finished.
    Journal,
    /// Fewer bytes than the header tells.
    Truncated,
    /// It is an SQLite database without the table that was asked for.
    NoTable,
    /// A row that matters is larger than any that Core writes.
    RowSize {
        /// In bytes.
        size: u64,
    },
    /// Something that no SQLite database has.
    Damaged {
        /// Where, from 1.
        page: u32,
        /// What is wrong there.
        what: &'static str,
    },
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Read(error) => write!(f, "cannot read the wallet: {error}"),
            Self::InUse => f.write_str(
                "the wallet is in use: unload it in Bitcoin Core (unloadwallet) or stop bitcoind",
            ),
            Self::NotSqlite => f.write_str("the file is no wallet of Bitcoin Core"),
            Self::BerkeleyDb => f.write_str(
                "this is a legacy wallet (Berkeley DB): make a descriptor wallet of it first, with \
                 Bitcoin Core's migratewallet",
            ),
            Self::WriteAheadLog | Self::Journal => f.write_str(
                "the last change of the wallet was not finished: load and unload it in Bitcoin Core, \
                 then try again",
            ),
            Self::Truncated => f.write_str("the wallet is cut off: its file is shorter than it says"),
            Self::NoTable => {
                f.write_str("the file is an SQLite database, but no wallet of Bitcoin Core")
            }
            Self::RowSize { size } => write!(
                f,
                "the wallet has a record of {size} bytes, more than {}",
                super::MAX_ROW_SIZE
            ),
            Self::Damaged { page, what } => {
                write!(f, "the wallet is damaged: page {page} of its file has a wrong {what}")
            }
        }
    }
}

impl Releasable for DatabaseError {}

impl Error for DatabaseError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Read(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LockError> for DatabaseError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

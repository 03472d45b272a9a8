//! The findings of an inspection, and the trait of their receiver.

use std::fmt;
use std::path::PathBuf;

use crate::error::{Damage, Remedy, StoreError};

/// Damage that an inspection found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    /// Of the first byte that is concerned.
    pub offset: u64,
    /// How many are, as far as it is known; 0 for the whole file.
    pub bytes: u64,
    pub damage: Damage,
    pub remedy: Remedy,
}

impl Found {
    /// What an error says, if it tells of damage; the error otherwise.
    pub fn of(error: StoreError, remedy: Remedy) -> Result<Self, StoreError> {
        match error {
            StoreError::Damaged { path, offset, damage } => {
                Ok(Self { path, offset, bytes: 0, damage, remedy })
            }
            other => Err(other),
        }
    }

    /// Takes damage in that follows this one and is of its kind; `false` if it is not.
    pub(crate) fn joins(&mut self, next: &Self) -> bool {
        let follows = self.path == next.path && self.offset + self.bytes == next.offset;
        let same = (&self.damage, self.remedy) == (&next.damage, next.remedy);
        if follows && same {
            self.bytes += next.bytes;
        }
        follows && same
    }
}

/// One line: where, what, and what repairs it.
impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, offset, bytes, damage, remedy } = self;
        write!(f, "{} at byte {offset}", path.display())?;
        if *bytes > 0 {
            write!(f, " ({bytes} bytes)")?;
        }
        write!(f, ": {damage}; {remedy}")
    }
}

/// What an inspection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Blocks and their undo records.
    Blocks,
    /// Blocks again, for the coins that damaged undo records had.
    Undo,
    /// Blocks again, for coins that are lost.
    LostCoins,
    Runs,
    /// All coins, for their hash or an audit.
    Coins,
    /// Blocks and their undo records again, for coins that do not agree.
    Culprits,
}

/// Who follows an inspection.
pub trait Watch {
    fn found(&mut self, found: Found);
    /// A line for the user about how a repair goes on.
    fn note(&mut self, _line: &str) {}
    /// `done` of `total` bytes are read.
    fn progress(&mut self, stage: Stage, done: u64, total: u64);
    /// Whether it is to end; then it does with [`StoreError::Stopped`].
    fn is_stopped(&self) -> bool;
}

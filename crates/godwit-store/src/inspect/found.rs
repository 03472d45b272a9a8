//! What an inspection finds, and who is told of it.

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
}

/// What an inspection is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Blocks and their undo records.
    Blocks,
    /// Blocks again, for the coins that damaged undo records had.
    Undo,
    Runs,
    /// All coins, for their hash.
    Coins,
}

/// Who follows an inspection.
pub trait Watch {
    fn found(&mut self, found: Found);
    /// `done` of `total` bytes are read.
    fn progress(&mut self, stage: Stage, done: u64, total: u64);
    /// Whether it is to end; then it does with [`StoreError::Stopped`].
    fn is_stopped(&self) -> bool;
}

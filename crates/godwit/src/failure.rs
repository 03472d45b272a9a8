//! Why a run failed: one line for the user and an exit code.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use godwit_chain::{ChainError, SnapshotError};
use godwit_program::OutputError;
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::error::{DamagedPart, Remedy};
use godwit_store::{StoreError, has_whole_history};

use crate::exit::Exit;
use crate::process::EntropyError;

/// An error that ends the run. `Display` is one line for the user. Each part of the program
/// implements this for its own errors, so that this module knows only errors of other crates.
pub(crate) trait Fatal: fmt::Debug + fmt::Display {
    fn exit(&self) -> Exit;

    /// What of the data directory is damaged, if that is what it says.
    fn damaged(&self) -> Option<DamagedPart> {
        None
    }
}

/// A failure of the run.
#[derive(Debug)]
pub(crate) struct Failure(Box<dyn Fatal>);

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        self.0.exit()
    }

    /// With the command that repairs what is damaged in `dir`, a network's directory, if one does.
    pub(crate) fn with_remedy(self, dir: &Path) -> Self {
        match self.0.damaged() {
            Some(part) => {
                let disk = StoreDisk::new(Arc::new(RealDisk));
                let remedy = part.remedy(has_whole_history(&disk, dir));
                Remedied { failure: self, remedy }.into()
            }
            None => self,
        }
    }
}

/// A failure, and what to do about it.
#[derive(Debug)]
struct Remedied {
    failure: Failure,
    remedy: Remedy,
}

impl fmt::Display for Remedied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.failure, self.remedy)
    }
}

impl Fatal for Remedied {
    fn exit(&self) -> Exit {
        self.failure.exit()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<E: Fatal + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        Self(Box::new(error))
    }
}

impl Fatal for ChainError {
    fn exit(&self) -> Exit {
        match self {
            ChainError::Store(error) => error.exit(),
            ChainError::DamagedBlock { .. }
            | ChainError::Contradiction(..)
            | ChainError::DamagedUndo(_)
            | ChainError::LostUndo { .. }
            | ChainError::DamagedCoin(_)
            | ChainError::SnapshotRefuted { .. }
            | ChainError::DamagedIndex(_) => Exit::Damaged,
            ChainError::Engine(_)
            | ChainError::ChangedInMemory(_)
            | ChainError::ChangedCoin(_)
            | ChainError::Spawn(_)
            | ChainError::ForkBelowPruned { .. }
            | ChainError::ForkBelowSnapshot { .. }
            | ChainError::SnapshotDoubted { .. } => Exit::Failure,
            ChainError::ThreadPanicked | ChainError::ScriptContradiction(..) => Exit::Bug,
        }
    }

    fn damaged(&self) -> Option<DamagedPart> {
        match self {
            ChainError::Store(error) => error.damaged(),
            ChainError::DamagedCoin(_) => Some(DamagedPart::Coins),
            ChainError::DamagedIndex(_)
            | ChainError::DamagedBlock { .. }
            | ChainError::DamagedUndo(_)
            | ChainError::LostUndo { .. }
            | ChainError::Contradiction(..) => Some(DamagedPart::Index),
            _ => None,
        }
    }
}

impl Fatal for StoreError {
    fn exit(&self) -> Exit {
        match self {
            error if error.is_disk_full() => Exit::DiskFull,
            StoreError::Locked { .. }
            | StoreError::OtherNetwork { .. }
            | StoreError::NewerSchema { .. }
            | StoreError::UnsuitableFileSystem { .. }
            | StoreError::CoreDirectory { .. }
            | StoreError::ForeignFile { .. } => Exit::DatadirUnusable,
            StoreError::Damaged { .. } => Exit::Damaged,
            StoreError::Panicked { .. } => Exit::Bug,
            StoreError::IncompleteHistory { .. } => Exit::Configuration,
            StoreError::Stopped => Exit::Interrupted,
            _ => Exit::Failure,
        }
    }

    fn damaged(&self) -> Option<DamagedPart> {
        self.damaged_part()
    }
}

impl Fatal for SnapshotError {
    fn exit(&self) -> Exit {
        match self {
            SnapshotError::Chain(error) => error.exit(),
            _ => Exit::InputRefused,
        }
    }

    fn damaged(&self) -> Option<DamagedPart> {
        match self {
            SnapshotError::Chain(error) => error.damaged(),
            _ => None,
        }
    }
}

impl Fatal for OutputError {
    fn exit(&self) -> Exit {
        OutputError::exit(self)
    }
}

impl Fatal for EntropyError {
    fn exit(&self) -> Exit {
        Exit::Failure
    }
}

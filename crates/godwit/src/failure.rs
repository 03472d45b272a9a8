//! Why a run failed: one line for the user and an exit code.

use std::fmt;

use godwit_chain::{ChainError, SnapshotError};
use godwit_program::OutputError;
use godwit_store::StoreError;

use crate::exit::Exit;
use crate::process::EntropyError;

/// An error that ends the run. `Display` is one line for the user. Each part of the program
/// implements this for its own errors, so that this module knows only errors of other crates.
pub(crate) trait Fatal: fmt::Debug + fmt::Display {
    fn exit(&self) -> Exit;
}

/// A failure of the run.
#[derive(Debug)]
pub(crate) struct Failure(Box<dyn Fatal>);

impl Failure {
    pub(crate) fn exit(&self) -> Exit {
        self.0.exit()
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
            | ChainError::DamagedCoin(_)
            | ChainError::DamagedIndex(_) => Exit::Damaged,
            ChainError::Engine(_)
            | ChainError::ChangedInMemory(_)
            | ChainError::Spawn(_)
            | ChainError::ForkBelowPruned { .. }
            | ChainError::ForkBelowSnapshot { .. } => Exit::Failure,
            ChainError::ThreadPanicked | ChainError::ScriptContradiction(..) => Exit::Bug,
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
            | StoreError::CoreDirectory { .. } => Exit::DatadirUnusable,
            StoreError::Damaged { .. } => Exit::Damaged,
            StoreError::Panicked { .. } => Exit::Bug,
            _ => Exit::Failure,
        }
    }
}

impl Fatal for SnapshotError {
    fn exit(&self) -> Exit {
        match self {
            SnapshotError::Chain(error) => error.exit(),
            _ => Exit::InputRefused,
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

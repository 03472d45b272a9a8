//! Reasons why a run failed, each with one line for the user and an exit code.

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

    /// The damaged part of the data directory, if this failure reports damage.
    fn damaged(&self) -> Option<DamagedPart> {
        None
    }

    /// The path that may not be used, or is of the wrong kind, if this failure reports one.
    fn unusable(&self) -> Option<&Path> {
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

    /// Adds what the failure means for `dir`, a network's directory: the command that repairs the damage, if
    /// there is one, and an exit code of its own if this process may not use a file in it. Failures of files
    /// elsewhere, which a command reads or writes, stay as they are.
    pub(crate) fn of_directory(self, dir: &Path) -> Self {
        if let Some(part) = self.0.damaged() {
            let disk = StoreDisk::new(Arc::new(RealDisk));
            let remedy = part.remedy(has_whole_history(&disk, dir));
            return Remedied { failure: self, remedy }.into();
        }
        match self.0.unusable().is_some_and(|path| path.starts_with(dir)) {
            true => Unusable(self).into(),
            false => self,
        }
    }
}

/// A failure after which the same command fails again until somebody has changed the data directory.
#[derive(Debug)]
struct Unusable(Failure);

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Fatal for Unusable {
    fn exit(&self) -> Exit {
        Exit::DatadirUnusable
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

    fn unusable(&self) -> Option<&Path> {
        match self {
            ChainError::Store(error) => error.unusable(),
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
            | StoreError::CoreStarted { .. }
            | StoreError::AllMissing { .. }
            | StoreError::ForeignFile { .. }
            | StoreError::ObfuscatedFiles { .. } => Exit::DatadirUnusable,
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

    fn unusable(&self) -> Option<&Path> {
        self.unusable_path()
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

    fn unusable(&self) -> Option<&Path> {
        match self {
            SnapshotError::Chain(error) => error.unusable(),
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use godwit_store::error::{IoFailure, Operation};

    use super::*;

    fn exit(path: &str, kind: ErrorKind) -> Exit {
        let failure = IoFailure::new(Path::new(path), Operation::Create, &kind.into());
        let of = |failure: Failure| failure.of_directory(Path::new("d/regtest")).exit();
        let (just_now, closed) = (StoreError::Io(failure.clone()), StoreError::Closed(failure));
        let snapshot = SnapshotError::from(just_now.clone());
        let exits = [of(just_now.into()), of(ChainError::from(closed).into()), of(snapshot.into())];
        assert!(exits.iter().all(|exit| *exit == exits[0]), "{exits:?}");
        exits[0]
    }

    #[test]
    fn what_may_not_be_used_of_the_data_directory_has_an_exit_code_and_other_files_do_not() {
        let refusals = [
            ErrorKind::PermissionDenied,
            ErrorKind::ReadOnlyFilesystem,
            ErrorKind::IsADirectory,
            ErrorKind::NotADirectory,
            ErrorKind::NotSeekable,
        ];
        for kind in refusals {
            assert_eq!(exit("d/regtest/blocks/xor.dat", kind), Exit::DatadirUnusable, "{kind}");
            assert_eq!(exit("chain.dat", kind), Exit::Failure, "{kind}");
        }
        assert_eq!(exit("d/regtest/blocks/xor.dat", ErrorKind::Other), Exit::Failure);
        assert_eq!(exit("d/regtest/blocks/xor.dat", ErrorKind::StorageFull), Exit::DiskFull);
    }
}

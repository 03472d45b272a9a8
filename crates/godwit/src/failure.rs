//! Why a run did not succeed: one line, and the exit code that goes with it.

use std::fmt;
use std::io;
use std::path::PathBuf;

use godwit_chain::ChainError;
use godwit_store::StoreError;

use crate::exit::Exit;
use crate::keys::KeysFailure;
use crate::node::sockets::BindError;
use crate::psbt::PsbtFailure;

/// A failure of the run.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The chain or its store.
    Chain(ChainError),
    /// A snapshot cannot be used.
    Snapshot(godwit_chain::SnapshotError),
    /// The data directory could not be made.
    Directory(PathBuf, io::Error),
    /// The log could not be opened.
    Log(PathBuf, io::Error),
    /// The file for verdicts could not be written.
    Verdicts(PathBuf, io::Error),
    /// Standard output could not be written.
    Output(io::Error),
    /// Signals could not be caught.
    Signals(io::Error),
    /// The system gave no random bytes.
    Entropy(io::Error),
    /// An address can not be listened on.
    Bind(BindError),
    /// Keys or the key file.
    Keys(KeysFailure),
    /// A PSBT.
    Psbt(PsbtFailure),
    /// Sockets can not be used at all.
    Sockets(io::Error),
}

impl Failure {
    /// The exit code.
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Chain(error) => of_chain(error),
            Self::Snapshot(godwit_chain::SnapshotError::Chain(error)) => of_chain(error),
            Self::Snapshot(_) => Exit::InputRefused,
            Self::Directory(_, error) | Self::Log(_, error) => match error.kind() {
                io::ErrorKind::StorageFull => Exit::DiskFull,
                _ => Exit::DatadirUnusable,
            },
            Self::Verdicts(_, error) | Self::Output(error) => match error.kind() {
                io::ErrorKind::StorageFull => Exit::DiskFull,
                _ => Exit::Failure,
            },
            Self::Signals(_) | Self::Entropy(_) | Self::Sockets(_) => Exit::Failure,
            Self::Bind(_) => Exit::CannotListen,
            Self::Keys(failure) => failure.exit(),
            Self::Psbt(failure) => failure.exit(),
        }
    }
}

fn of_chain(error: &ChainError) -> Exit {
    match error {
        ChainError::Store(error) => of_store(error),
        ChainError::DamagedBlock(_)
        | ChainError::Contradiction(..)
        | ChainError::DamagedUndo(_)
        | ChainError::DamagedCoin(_)
        | ChainError::DamagedIndex(_) => Exit::Damaged,
        ChainError::Engine(_)
        | ChainError::Spawn(_)
        | ChainError::ForkBelowPruned { .. }
        | ChainError::ForkBelowSnapshot { .. } => Exit::Failure,
        ChainError::ThreadPanicked => Exit::Bug,
    }
}

fn of_store(error: &StoreError) -> Exit {
    match error {
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

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chain(error) => error.fmt(f),
            Self::Snapshot(error) => error.fmt(f),
            Self::Directory(path, error) => {
                write!(f, "the data directory {} cannot be made: {error}", path.display())
            }
            Self::Log(path, error) => {
                write!(f, "the log in {} cannot be opened: {error}", path.display())
            }
            Self::Verdicts(path, error) => {
                write!(f, "verdicts cannot be written to {}: {error}", path.display())
            }
            Self::Output(error) => write!(f, "standard output cannot be written: {error}"),
            Self::Signals(error) => write!(f, "signals cannot be caught: {error}"),
            Self::Entropy(error) => write!(f, "the system gives no random bytes: {error}"),
            Self::Bind(error) => error.fmt(f),
            Self::Keys(error) => error.fmt(f),
            Self::Psbt(failure) => failure.fmt(f),
            Self::Sockets(error) => write!(f, "sockets can not be used: {error}"),
        }
    }
}

impl From<PsbtFailure> for Failure {
    fn from(failure: PsbtFailure) -> Self {
        Self::Psbt(failure)
    }
}

impl From<KeysFailure> for Failure {
    fn from(failure: KeysFailure) -> Self {
        Self::Keys(failure)
    }
}

impl From<ChainError> for Failure {
    fn from(error: ChainError) -> Self {
        Self::Chain(error)
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        Self::Chain(error.into())
    }
}

impl From<godwit_chain::SnapshotError> for Failure {
    fn from(error: godwit_chain::SnapshotError) -> Self {
        Self::Snapshot(error)
    }
}

//! The faults that end a chain: a thread that panicked, or a damaged stored block.

use crate::error::ChainError;

/// Whether the chain is about to end.
pub(crate) enum Ending {
    No,
    /// A thread panicked, and its report will never come.
    Panicked,
    /// It ends with this error once the wanted commit has returned.
    AfterCommit(ChainError),
}

impl Ending {
    /// Fails for good once a thread has panicked: a wait for its report would never end.
    pub(crate) fn check_threads(&self) -> Result<(), ChainError> {
        match self {
            Self::Panicked => Err(ChainError::ThreadPanicked),
            Self::No | Self::AfterCommit(_) => Ok(()),
        }
    }

    /// It ends with `error` once the wanted commit has returned, unless something ends it already.
    pub(crate) fn begin(&mut self, error: ChainError) {
        if matches!(self, Self::No) {
            *self = Self::AfterCommit(error);
        }
    }

    /// Fails with the error that waited for a commit, which has returned.
    pub(crate) fn after_commit(&mut self) -> Result<(), ChainError> {
        match std::mem::replace(self, Self::No) {
            Self::AfterCommit(error) => Err(error),
            other => {
                *self = other;
                Ok(())
            }
        }
    }
}

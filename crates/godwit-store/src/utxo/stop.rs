//! How background work ends early.

use std::convert::Infallible;

use crossbeam_channel::{Receiver, TryRecvError};

use crate::error::StoreError;

/// Why background work ended early.
#[derive(Debug)]
pub(crate) enum WorkError {
    /// The disk failed or held damaged bytes.
    Failed(StoreError),
    /// The store is being dropped.
    Stopped,
}

impl From<StoreError> for WorkError {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Stops work when the store is dropped.
#[derive(Clone)]
pub(crate) struct Stop {
    /// Nothing is ever sent: the store drops the other end to stop the work.
    dropped: Receiver<Infallible>,
}

impl Stop {
    /// Work that nothing stops.
    pub(crate) fn never() -> Self {
        Self { dropped: crossbeam_channel::never() }
    }

    pub(crate) fn new(dropped: Receiver<Infallible>) -> Self {
        Self { dropped }
    }

    /// To be asked before a job and between its writes.
    pub(crate) fn check(&self) -> Result<(), WorkError> {
        match self.dropped.try_recv() {
            Err(TryRecvError::Empty) => Ok(()),
            Err(TryRecvError::Disconnected) => Err(WorkError::Stopped),
            Ok(never) => match never {},
        }
    }
}

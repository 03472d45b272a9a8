//! The request of `loadtxoutset` to the node, which ends its run to load the snapshot.

use std::path::{Path, PathBuf};

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_chain::{SnapshotError, SnapshotInfo};

/// What programs that ask are told while a snapshot is loaded.
pub const LOADING: &str = "Loading UTXO snapshot…";

/// How a load ended: what was loaded, or why nothing was.
pub type LoadOutcome = Result<SnapshotInfo, SnapshotError>;

/// A snapshot to be loaded. Its caller waits, and hears that the node ends where this is dropped.
pub struct SnapshotLoad {
    path: PathBuf,
    caller: Sender<LoadOutcome>,
}

impl SnapshotLoad {
    /// With the end at which its caller waits.
    pub fn new(path: PathBuf) -> (Self, Receiver<LoadOutcome>) {
        let (caller, outcome) = bounded(1);
        (Self { path, caller }, outcome)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Tells the caller, who may be gone.
    pub fn tell(self, outcome: LoadOutcome) {
        if self.caller.try_send(outcome).is_err() {
            log::debug!("nobody waits any more for a snapshot to be loaded");
        }
    }
}

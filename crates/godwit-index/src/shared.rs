//! The part of an index that its thread shares with readers: its state, its position, and whether any of them
//! has read damage.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use godwit_store::ChainPoint;
use godwit_store::disk::StoreDisk;

use crate::error::IndexError;
use crate::records::Records;
use crate::status::Status;

/// The state of an index, which only its thread changes.
pub(crate) struct Shared<S> {
    state: RwLock<S>,
    status: Status,
    /// Damage was read: the index is to be built again, if all blocks are stored.
    damaged: AtomicBool,
}

impl<S> Shared<S> {
    /// The shared part of an index whose last block is `best`.
    pub(crate) fn new(state: S, best: Option<ChainPoint>) -> Self {
        let status = Status::default();
        status.set_best(best);
        Self { state: RwLock::new(state), status, damaged: AtomicBool::new(false) }
    }

    pub(crate) fn read(&self) -> RwLockReadGuard<'_, S> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self) -> RwLockWriteGuard<'_, S> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn status(&self) -> &Status {
        &self.status
    }

    /// Passes a result on. If it reports damage, this is remembered, and the first such place is logged: an
    /// index that cannot be built again may be asked for it for ever.
    pub(crate) fn noted<T>(&self, read: Result<T, IndexError>) -> Result<T, IndexError> {
        if let Err(error) = &read
            && error.is_damage()
        {
            let was_known = self.damaged.swap(true, Ordering::Relaxed);
            if !was_known {
                log::error!("An index cannot be read: {error}.");
            }
        }
        read
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.damaged.load(Ordering::Relaxed)
    }

    /// Forgets earlier damage, because the index is being built again.
    pub(crate) fn note_cleared(&self) {
        self.damaged.store(false, Ordering::Relaxed);
    }
}

/// Loads an index made of records. A damaged index is begun anew, unless `lowest` is above 0, which means
/// that blocks are missing to build it again.
pub(crate) fn load_or_begin<S>(
    name: &str,
    disk: &StoreDisk,
    dir: &Path,
    lowest: u32,
    load: impl Fn() -> Result<S, IndexError>,
) -> Result<S, IndexError> {
    match load() {
        Err(error) if error.is_damage() && lowest == 0 => {
            log::error!("The {name}: {error}. It is built again from the beginning.");
            Records::remove_all(disk, dir)?;
            load()
        }
        loaded => loaded,
    }
}

//! What the thread of an index shares with its readers: its state, how far it is, and whether one of them has
//! read damage.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use godwit_store::ChainPoint;
use godwit_store::disk::StoreDisk;

use crate::error::IndexError;
use crate::records::Records;
use crate::status::Status;

/// The state of an index, which its thread alone changes.
pub(crate) struct Shared<S> {
    state: RwLock<S>,
    status: Status,
    /// Damage was read: it is to be built again, if all blocks are there.
    damaged: AtomicBool,
}

impl<S> Shared<S> {
    /// Of an index that is at this block.
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

    /// Remembers it if what was read is damaged, and logs the first such place: where the index cannot be
    /// built again, it may be asked for ever.
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

    /// It is built again: what was read before says nothing.
    pub(crate) fn note_cleared(&self) {
        self.damaged.store(false, Ordering::Relaxed);
    }
}

/// Loads an index that is made of records, or begins it anew where it is damaged: not if `lowest` says that
/// it cannot be built again.
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

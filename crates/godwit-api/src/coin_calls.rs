//! Calls that read all coins: of those that sort them one at a time goes on, and of searches one at all.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct CoinCalls {
    /// Held by the call that sorts.
    pub(crate) sorting: Mutex<()>,
    search: Mutex<Option<Arc<Progress>>>,
}

/// Of the search that is under way.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) percent: AtomicU32,
    pub(crate) aborted: AtomicBool,
}

impl Progress {
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::SeqCst)
    }
}

/// Ends the search when it is dropped.
pub(crate) struct Running<'a> {
    calls: &'a CoinCalls,
    pub(crate) progress: Arc<Progress>,
}

impl CoinCalls {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Progress>>> {
        self.search.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a search; `None` while there is another one.
    pub(crate) fn begin_search(&self) -> Option<Running<'_>> {
        let mut search = self.lock();
        if search.is_some() {
            return None;
        }
        let progress = Arc::new(Progress::default());
        *search = Some(Arc::clone(&progress));
        Some(Running { calls: self, progress })
    }

    /// The search that is under way.
    pub(crate) fn search(&self) -> Option<Arc<Progress>> {
        self.lock().clone()
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.calls.lock() = None;
    }
}

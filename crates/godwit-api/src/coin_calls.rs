//! Limits calls that read all coins or the filters of all blocks: of the calls that sort coins, one runs and
//! one waits; of each kind of search, only one is accepted.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// See the module's documentation.
#[derive(Default)]
pub(crate) struct CoinCalls {
    turns: Mutex<Turns>,
    /// Of coins.
    pub(crate) search: Searches,
    /// Of blocks, by their filters.
    pub(crate) blocks: Searches,
}

/// The search of a kind that is under way.
#[derive(Default)]
pub(crate) struct Searches(Mutex<Option<Arc<Progress>>>);

/// Those who sort: one does, and one waits.
#[derive(Default)]
struct Turns {
    sorts: bool,
    waits: bool,
}

/// A place among them, until it is dropped.
pub(crate) struct Turn<'a> {
    calls: &'a CoinCalls,
    sorts: bool,
}

/// Of the search that is under way.
#[derive(Default)]
pub(crate) struct Progress {
    pub(crate) percent: AtomicU32,
    /// The last block that was looked at, where they are.
    pub(crate) height: AtomicU32,
    pub(crate) aborted: AtomicBool,
}

impl Progress {
    pub(crate) fn is_aborted(&self) -> bool {
        self.aborted.load(Ordering::SeqCst)
    }
}

/// Ends the search when it is dropped.
pub(crate) struct Running<'a> {
    of: &'a Searches,
    pub(crate) progress: Arc<Progress>,
}

impl CoinCalls {
    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lines up to sort; `None` while another call waits already.
    pub(crate) fn queue_to_sort(&self) -> Option<Turn<'_>> {
        let mut turns = self.turns();
        if turns.waits {
            return None;
        }
        let sorts = !turns.sorts;
        *turns = Turns { sorts: true, waits: !sorts };
        Some(Turn { calls: self, sorts })
    }
}

impl Searches {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Progress>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a search; `None` while there is another one.
    pub(crate) fn begin(&self) -> Option<Running<'_>> {
        let mut search = self.lock();
        if search.is_some() {
            return None;
        }
        let progress = Arc::new(Progress::default());
        *search = Some(Arc::clone(&progress));
        Some(Running { of: self, progress })
    }

    /// The search that is under way.
    pub(crate) fn under_way(&self) -> Option<Arc<Progress>> {
        self.lock().clone()
    }

    /// Has the search end, if there is one; whether there was.
    pub(crate) fn abort(&self) -> bool {
        let running = self.under_way();
        if let Some(progress) = &running {
            progress.aborted.store(true, Ordering::SeqCst);
        }
        running.is_some()
    }
}

impl Turn<'_> {
    /// Begins to sort where no other call does. Whether this one sorts.
    pub(crate) fn begin(&mut self) -> bool {
        let mut turns = self.calls.turns();
        if !self.sorts && !turns.sorts {
            *turns = Turns { sorts: true, waits: false };
            self.sorts = true;
        }
        self.sorts
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut turns = self.calls.turns();
        if self.sorts {
            turns.sorts = false;
        } else {
            turns.waits = false;
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        *self.of.lock() = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_sorts_and_one_waits() {
        let calls = CoinCalls::default();
        let mut first = calls.queue_to_sort().expect("nobody sorts");
        assert!(first.begin());
        let gone = calls.queue_to_sort().expect("nobody waits");
        assert!(calls.queue_to_sort().is_none());
        drop(gone);
        let mut second = calls.queue_to_sort().expect("nobody waits any more");
        assert!(!second.begin());
        drop(first);
        assert!(calls.queue_to_sort().is_none(), "it is the turn of the one who waits");
        assert!(second.begin() && second.begin());
        let mut third = calls.queue_to_sort().expect("nobody waits");
        assert!(!third.begin() && calls.queue_to_sort().is_none());
        drop(second);
        assert!(third.begin());
    }
}

//! How far an index is, for readers that ask or wait.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use godwit_store::ChainPoint;

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    best: Option<ChainPoint>,
    caught_up: bool,
    stopped: bool,
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub struct Status {
    progress: Mutex<Progress>,
    moved: Condvar,
}

impl Status {
    fn lock(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, change: impl FnOnce(&mut Progress)) {
        change(&mut self.lock());
        self.moved.notify_all();
    }

    /// The last block that it has.
    pub fn best(&self) -> Option<ChainPoint> {
        self.lock().best
    }

    /// Whether it has been at the tip since it was opened, and follows it.
    pub fn is_synced(&self) -> bool {
        let progress = self.lock();
        progress.caught_up && !progress.stopped
    }

    /// Waits until it has another last block than `known`, stops, or the time is over.
    pub fn wait_for_move(&self, known: Option<ChainPoint>, timeout: Duration) {
        let progress = self.lock();
        if progress.best == known && !progress.stopped {
            drop(self.moved.wait_timeout(progress, timeout));
        }
    }

    pub(crate) fn set_best(&self, best: Option<ChainPoint>) {
        self.change(|progress| progress.best = best);
    }

    /// Sets it caught up, and says whether it was not before.
    pub(crate) fn set_caught_up(&self) -> bool {
        let mut progress = self.lock();
        !std::mem::replace(&mut progress.caught_up, true)
    }

    /// It is built again.
    pub(crate) fn begin_again(&self) {
        self.change(|progress| *progress = Progress::default());
    }

    pub(crate) fn stop(&self) {
        self.change(|progress| progress.stopped = true);
    }
}

//! The progress of an index, for readers that ask or wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use godwit_store::ChainPoint;

/// How long an index may be many blocks behind before it no longer counts as in step. Core has its chain wait
/// for an index that was in step once; here the chain goes on, and a call must not wait for an index that
/// cannot follow it. Hundreds of blocks that `generatetoaddress` makes at once take less.
const LAG: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    best: Option<ChainPoint>,
    /// Of the blocks that the chain has left, how many it has to do with no more: it has come to them, or
    /// leaves them out. `None` before it has caught up.
    seen: Option<u64>,
    caught_up: bool,
    /// Since when it is many blocks behind.
    behind: Option<Instant>,
    stopped: bool,
}

impl Progress {
    fn is_synced(&self, now: Instant) -> bool {
        let lags = self.behind.is_some_and(|since| now.saturating_duration_since(since) >= LAG);
        self.caught_up && !lags && !self.stopped
    }
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

    /// The same, and how many of the blocks that the chain has left it has to do with no more
    /// ([`has_followed`](crate::has_followed)).
    pub fn place(&self) -> (Option<ChainPoint>, Option<u64>) {
        let progress = self.lock();
        (progress.best, progress.seen)
    }

    /// Whether it has been at the tip since it was opened, and follows it.
    pub fn is_synced(&self) -> bool {
        self.lock().is_synced(Instant::now())
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

    pub(crate) fn set_seen(&self, seen: Option<u64>) {
        self.change(|progress| progress.seen = seen);
    }

    /// Sets it caught up with a chain that has left so many blocks, and says whether it never was before.
    pub(crate) fn set_caught_up(&self, left: u64) -> bool {
        let mut progress = self.lock();
        (progress.behind, progress.seen) = (None, Some(left));
        !std::mem::replace(&mut progress.caught_up, true)
    }

    /// It goes on, and whether the next step ends at the tip.
    pub(crate) fn go_on(&self, to_tip: bool) {
        let mut progress = self.lock();
        progress.behind =
            if to_tip { None } else { progress.behind.or_else(|| Some(Instant::now())) };
    }

    /// It is built again.
    pub(crate) fn begin_again(&self) {
        self.change(|progress| *progress = Progress::default());
    }

    pub(crate) fn stop(&self) {
        self.change(|progress| progress.stopped = true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_that_stays_behind_is_not_synced_until_its_step_ends_at_the_tip() {
        let status = Status::default();
        status.go_on(false);
        assert!(!status.is_synced());
        assert!(status.set_caught_up(0));
        assert!(status.is_synced());
        status.go_on(false);
        let since = status.lock().behind.expect("it is behind");
        // Further blocks do not begin it anew.
        status.go_on(false);
        assert_eq!(status.lock().behind, Some(since));
        assert!(status.lock().is_synced(since + LAG - Duration::from_millis(1)));
        assert!(!status.lock().is_synced(since + LAG));
        status.go_on(true);
        assert!(status.lock().is_synced(since + LAG));
        assert!(!status.set_caught_up(0));
        status.stop();
        assert!(!status.is_synced());
    }
}

//! The clock by which peers are timed.

use std::time::Duration;

use crate::time::Now;

/// Longest step that counts. While something is in flight the scheduler is called far more often. A
/// longer gap is the driver's own doing (a suspended machine), and peers' answers wait in the
/// sockets meanwhile.
const MAX_STEP: Duration = Duration::from_secs(2);

/// Time that counts against peers: it stands still while the chain can take no blocks, and a gap
/// between two calls counts for at most [`MAX_STEP`].
#[derive(Debug, Default)]
pub(super) struct Clock {
    last: Duration,
    time: Duration,
    paused: bool,
}

impl Clock {
    /// Advances the clock to `now`, and returns its time.
    pub(super) fn advance(&mut self, now: Now) -> Duration {
        if !self.paused {
            self.time += now.monotonic.saturating_sub(self.last).min(MAX_STEP);
        }
        self.last = self.last.max(now.monotonic);
        self.time
    }

    pub(super) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub(super) fn time(&self) -> Duration {
        self.time
    }
}

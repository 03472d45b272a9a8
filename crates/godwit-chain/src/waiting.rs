//! How the chain waits for its jobs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crossbeam_channel::{Receiver, Select, never};

use crate::chain::{Chain, Poll};
use crate::error::ChainError;

/// Longest time without a look at the stop flag.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_millis(100);

/// As [`Chain::wait_with`], with two others.
pub fn wait_with_both<T, U>(
    chain: &mut Chain,
    one: &Receiver<T>,
    two: &Receiver<U>,
    timeout: Duration,
) {
    let start = chain.env.now();
    let mut select = Select::new();
    select.recv(&chain.mailbox.inbox);
    select.recv(chain.coins.events());
    if let Some(history) = &chain.history {
        select.recv(history.coins.events());
    }
    select.recv(one);
    select.recv(two);
    // Whichever it was, the caller looks again.
    let (Ok(_) | Err(_)) = select.ready_timeout(timeout);
    chain.status.times.wait += chain.env.now() - start;
}

impl Chain {
    /// Waits until a job has reported, `other` has a message (which is not taken) or is closed, or
    /// `timeout` is over.
    pub fn wait_with<T>(&mut self, other: &Receiver<T>, timeout: Duration) {
        wait_with_both(self, other, &never::<()>(), timeout);
    }

    /// Waits until a job has reported, but not for long, so that the caller can look at its stop
    /// flag.
    pub(crate) fn wait(&mut self) -> Result<(), ChainError> {
        self.ending.check_threads()?;
        if !self.env.executor.run_one() {
            self.wait_with(&never::<()>(), LONGEST_WAIT);
        }
        self.deliver()
    }

    /// Runs until every block has its verdict and the best candidate is the tip and verified.
    pub fn settle(&mut self, now: i64) -> Result<(), ChainError> {
        settle_until(self, &AtomicBool::new(false), now, &mut |_| {}).map(|_| ())
    }
}

/// As [`Chain::settle`], until `stop` is set, and telling `progress` of each step. Returns whether it came to
/// its end.
pub fn settle_until(
    chain: &mut Chain,
    stop: &AtomicBool,
    now: i64,
    progress: &mut dyn FnMut(&mut Chain),
) -> Result<bool, ChainError> {
    while !stop.load(Ordering::Relaxed) {
        match chain.poll(now)? {
            Poll::Progress => progress(chain),
            Poll::Waiting => chain.wait()?,
            Poll::Idle => return Ok(true),
        }
    }
    Ok(false)
}

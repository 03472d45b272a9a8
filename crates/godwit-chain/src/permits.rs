//! A byte budget for blocks in memory: the import's reader waits until earlier blocks have left.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Shared {
    limit: u64,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: u64,
    closed: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // No code under the lock can panic and leave the state half changed.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Permits {
    shared: Arc<Shared>,
}

/// A share of an import's budget; dropping its last clone gives the bytes back.
#[derive(Clone, Debug)]
pub struct Permit(#[expect(dead_code, reason = "held for its drop")] Arc<Share>);

#[derive(Debug)]
struct Share {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Permits {
    /// A budget of `limit` bytes.
    pub(crate) fn new(limit: u64) -> Self {
        let (state, changed) = (Mutex::new(State::default()), Condvar::new());
        Self { shared: Arc::new(Shared { limit, state, changed }) }
    }

    /// Waits for `bytes`; `None` once the budget is closed. A request above the whole budget is
    /// granted when there is no other permit, so that a large block does not wait for ever.
    pub(crate) fn acquire(&self, bytes: u64) -> Option<Permit> {
        let waits = |state: &mut State| {
            let fits = state.used == 0 || state.used.saturating_add(bytes) <= self.shared.limit;
            !fits && !state.closed
        };
        let state = self.shared.changed.wait_while(self.shared.lock(), waits);
        let mut state = state.unwrap_or_else(PoisonError::into_inner);
        if state.closed {
            return None;
        }
        state.used += bytes;
        drop(state);
        Some(Permit(Arc::new(Share { shared: Arc::clone(&self.shared), bytes })))
    }

    /// Ends every wait, now and later: further blocks would not be used.
    pub(crate) fn close(&self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shared.lock().used -= self.bytes;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_full_budget_makes_the_next_wait_until_bytes_return() {
        let permits = Permits::new(100);
        let first = permits.acquire(60);
        let second = permits.acquire(40);
        assert!(first.is_some() && second.is_some());
        let (sender, receiver) = crossbeam_channel::bounded(1);
        let waiting = permits.clone();
        let thread = std::thread::spawn(move || {
            let permit = waiting.acquire(50);
            sender.send(()).unwrap();
            drop(permit);
        });
        assert!(receiver.recv_timeout(Duration::from_millis(50)).is_err());
        drop(first);
        receiver.recv().unwrap();
        thread.join().unwrap();
        drop(second);
    }

    #[test]
    fn closing_ends_a_wait() {
        let permits = Permits::new(100);
        let all = permits.acquire(100);
        let waiting = permits.clone();
        let thread = std::thread::spawn(move || waiting.acquire(1).is_none());
        std::thread::sleep(Duration::from_millis(20));
        permits.close();
        assert!(thread.join().unwrap());
        drop(all);
        assert!(permits.acquire(1).is_none());
    }

    #[test]
    fn more_than_the_whole_budget_is_granted_alone() {
        let permits = Permits::new(10);
        assert!(permits.acquire(11).is_some());
        assert!(permits.acquire(11).is_some());
    }
}

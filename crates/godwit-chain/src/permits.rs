//! A byte budget for blocks in memory: who brings blocks in waits until earlier ones have left.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

#[derive(Debug)]
struct Shared {
    limit: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

/// The budget.
#[derive(Clone, Debug)]
pub struct Permits {
    shared: Arc<Shared>,
}

/// A share of the budget; dropping it gives the bytes back.
#[derive(Debug)]
pub struct Permit {
    shared: Arc<Shared>,
    bytes: u64,
}

impl Permits {
    /// A budget of `limit` bytes.
    pub fn new(limit: u64) -> Self {
        let shared = Shared { limit, used: Mutex::new(0), freed: Condvar::new() };
        Self { shared: Arc::new(shared) }
    }

    /// Waits for `bytes`. A request above the whole budget is granted when nothing else is out, so
    /// that one large block never waits for ever.
    pub fn acquire(&self, bytes: u64) -> Permit {
        let fits = |used: u64| used == 0 || used.saturating_add(bytes) <= self.shared.limit;
        let used = self.shared.used.lock().unwrap_or_else(PoisonError::into_inner);
        let mut used = self
            .shared
            .freed
            .wait_while(used, |used| !fits(*used))
            .unwrap_or_else(PoisonError::into_inner);
        *used += bytes;
        Permit { shared: Arc::clone(&self.shared), bytes }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut used = self.shared.used.lock().unwrap_or_else(PoisonError::into_inner);
        *used -= self.bytes;
        drop(used);
        self.shared.freed.notify_all();
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
    fn more_than_the_whole_budget_is_granted_alone() {
        let permits = Permits::new(10);
        drop(permits.acquire(11));
        drop(permits.acquire(11));
    }
}

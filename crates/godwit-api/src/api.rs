//! The state that every method can reach besides the node: memory of answers, waiting calls, bans, log,
//! interfaces.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use godwit_http::LogLimit;

use crate::added_names::AddedNames;
use crate::answers::Answers;
use crate::ban_file::BanFile;
use crate::coin_calls::CoinCalls;
use crate::interfaces::Interfaces;
use crate::log_categories::LogCategories;
use crate::price_cache::PriceCache;
use crate::stage::Stage;
use crate::whitelist::Whitelist;

/// See the module's documentation.
pub(crate) struct Api {
    pub(crate) stage: Stage,
    pub(crate) answers: Answers,
    pub(crate) whitelist: Whitelist,
    pub(crate) program: Program,
    pub(crate) log_path: PathBuf,
    pub(crate) added: AddedNames,
    /// Set by `stop`.
    pub(crate) stop: Arc<AtomicBool>,
    pub(crate) active: ActiveCalls,
    pub(crate) waits: Waits,
    pub(crate) coins: CoinCalls,
    pub(crate) prices: PriceCache,
    pub(crate) bans: Arc<BanFile>,
    pub(crate) interfaces: Interfaces,
    pub(crate) log_categories: &'static LogCategories,
    pub(crate) forbidden: LogLimit,
    /// A block was assembled, whether or not it was mined.
    pub(crate) has_assembled: AtomicBool,
}

/// The program that runs.
pub(crate) struct Program {
    /// As `0.1.0`.
    pub(crate) version: &'static str,
    pub(crate) started: Instant,
}

/// Calls that may wait for blocks or read all coins at once, and those that do: one thread is left for the
/// others, if there are several.
pub(crate) struct Waits {
    pub(crate) most: usize,
    pub(crate) count: AtomicUsize,
}

/// A call that waits for blocks, or reads all coins.
pub(crate) struct Waiting<'a>(pub(crate) &'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The requests under way.
#[derive(Default)]
pub(crate) struct ActiveCalls {
    /// Calls of JSON-RPC.
    all: Mutex<Vec<Active>>,
    next: AtomicU64,
    /// Others: of REST, and for figures.
    others: AtomicUsize,
}

/// A request under way that is no call of JSON-RPC.
pub(crate) struct ActiveRequest<'a>(&'a AtomicUsize);

impl Drop for ActiveRequest<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl ActiveCalls {
    fn lock(&self) -> MutexGuard<'_, Vec<Active>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds one, and gives its number.
    pub(crate) fn begin(&self, method: &'static str) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().push(Active { number, method, since: Instant::now() });
        number
    }

    pub(crate) fn end(&self, number: u64) {
        self.lock().retain(|active| active.number != number);
    }

    pub(crate) fn list(&self) -> Vec<Active> {
        self.lock().clone()
    }

    /// Adds a request that is no call of JSON-RPC, until what this returns is dropped.
    pub(crate) fn begin_other(&self) -> ActiveRequest<'_> {
        self.others.fetch_add(1, Ordering::SeqCst);
        ActiveRequest(&self.others)
    }

    #[cfg(test)]
    pub(crate) fn other_count(&self) -> usize {
        self.others.load(Ordering::SeqCst)
    }

    /// Whether there is a request that may hold what it reads of the node's files. Those that have a snapshot
    /// loaded hold nothing: they wait for the end of the load.
    pub(crate) fn may_read(&self) -> bool {
        self.others.load(Ordering::SeqCst) > 0
            || self.lock().iter().any(|active| active.method != "loadtxoutset")
    }
}

/// A call under way.
#[derive(Clone)]
pub(crate) struct Active {
    number: u64,
    pub(crate) method: &'static str,
    pub(crate) since: Instant,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_may_read_counts_and_who_has_a_snapshot_loaded_does_not() {
        let active = ActiveCalls::default();
        let load = active.begin("loadtxoutset");
        assert!(!active.may_read());
        let call = active.begin("getblock");
        assert!(active.may_read());
        active.end(call);
        assert!(!active.may_read());
        let both = [active.begin_other(), active.begin_other()];
        assert_eq!(active.list().len(), 1, "getrpcinfo lists calls alone");
        for request in both {
            assert!(active.may_read());
            drop(request);
        }
        assert!(!active.may_read());
        active.end(load);
    }
}

//! The resources that all stations share, unchanged from opening to closing.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use godwit_primitives::network::Params;
use godwit_store::Store;
use godwit_store::exec::Executor;
use godwit_store::utxo::UtxoHasher;

use crate::options::CoinsMemory;

/// Shares of memory that the chain itself deals with.
#[derive(Clone, Copy)]
pub(crate) struct Memory {
    pub(crate) coins: CoinsMemory,
    /// Bytes of an import's blocks between its reader and the tip.
    pub(crate) importing: u64,
    /// As in [`BlockMemory`](crate::BlockMemory).
    pub(crate) waiting: usize,
    pub(crate) window: usize,
}

/// The data directory and the rules of its network.
#[derive(Clone)]
pub(crate) struct Environment {
    pub(crate) store: Arc<Store>,
    pub(crate) params: Arc<Params>,
    /// The keyed hash of the coins store.
    pub(crate) hasher: UtxoHasher,
    pub(crate) executor: Arc<dyn Executor>,
    pub(crate) workers: usize,
    pub(crate) memory: Memory,
    /// Once it is set, jobs that have not started do nothing.
    pub(crate) cancelled: Arc<AtomicBool>,
}

impl Environment {
    /// Time since some fixed moment; used only to time stages.
    pub(crate) fn now(&self) -> Duration {
        self.executor.now()
    }
}

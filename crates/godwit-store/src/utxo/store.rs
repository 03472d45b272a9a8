//! The store as the connector uses it: coins in and out, in block order, from one thread.

use std::path::Path;
use std::sync::{Arc, RwLock};

use crossbeam_channel::Receiver;
use godwit_primitives::Coin;
use godwit_primitives::coin::is_unspendable;

use super::budget::{Budget, UtxoConfig};
use super::clean::WrittenMemtables;
use super::compressed::CompressedCoins;
use super::entry::CoinParts;
use super::key::{HashedOutPoint, UtxoHasher};
use super::layers::{EpochPin, Layers, LayersReader, UtxoContext};
use super::manifest::Manifest;
use super::memtable::{KnownCoin, Probe, Taken};
use super::memtables::Memtables;
use super::run::file::repair::Repairs;
use super::runs::Runs;
use super::sealed::SealedSince;
use super::segments::Shape;
use super::worker_pools::{UtxoEvent, WorkerPools};
use crate::disk::StoreDisk;
use crate::error::{IoFailure, Operation, StoreError};
use crate::exec::Executor;

/// What a store did since it was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Memtables written as runs.
    pub flushes: u64,
    /// Bytes of those runs.
    pub flushed_bytes: u64,
    pub merges: u64,
    /// Bytes of segments that merges read.
    pub merge_bytes_read: u64,
    /// Bytes of runs that merges wrote.
    pub merge_bytes_written: u64,
    /// Times that a rotation had to wait for a flush or a merge.
    pub stalls: u64,
    /// Kept memtables that were dropped for want of memory while an older snapshot was pinned.
    pub uncovered: u64,
    /// Damaged blocks of runs that were written again from parity.
    pub repaired_blocks: u64,
}

/// The coins of the chain: memtables over immutable runs.
///
/// [`super::layers`] explains what other threads may read meanwhile, [`super`] how commits work.
pub struct UtxoStore {
    pub(super) context: UtxoContext,
    pub(super) budget: Budget,
    pub(super) memtables: Memtables,
    pub(super) runs: Runs,
    pub(super) layers: Arc<Layers>,
    pub(super) published: LayersReader,
    pub(super) pools: WorkerPools,
    /// The first failure of a background job. Nothing works after it.
    pub(super) failed: Option<StoreError>,
    pub(super) counters: Counters,
    /// Whether the last rotation was refused for want of room.
    pub(super) stalled: bool,
}

impl UtxoStore {
    /// Opens the store that `manifest` describes in directory `dir`, which is created when absent.
    /// Run files that the manifest does not name are removed once all that it names have opened: there
    /// was a crash after they were written and before they were committed, or after a commit and before
    /// they were removed. A manifest that names none may be that of a new database in place of a lost
    /// one: then they stay until there is a commit.
    ///
    /// # Errors
    ///
    /// A failed system call, a missing run or one that is damaged beyond repair, a manifest made under
    /// another key or by a later version.
    pub fn open(
        disk: &StoreDisk,
        dir: &Path,
        hasher: UtxoHasher,
        manifest: &Manifest,
        config: UtxoConfig,
        executor: &Arc<dyn Executor>,
    ) -> Result<Self, StoreError> {
        let repairs = Repairs::default();
        let context = UtxoContext::for_manifest(disk, dir, hasher, manifest, executor, repairs)?;
        context.disk.create_dir_all(&context.dir)?;
        let budget = Budget::new(config);
        let runs = Runs::open(&context, manifest, budget)?;
        let memtables = Memtables::new(manifest.seal, budget.arena_step());
        let layers = Arc::new(snapshot(&context, &memtables, &runs));
        let no_thread =
            |error| StoreError::Io(IoFailure::new(&context.dir, Operation::Spawn, &error));
        let pools = WorkerPools::start(&context).map_err(no_thread)?;
        let mut store = Self {
            context,
            budget,
            memtables,
            runs,
            published: LayersReader(Arc::new(RwLock::new(Arc::clone(&layers)))),
            layers,
            pools,
            failed: None,
            counters: Counters::default(),
            stalled: false,
        };
        store.after_change();
        Ok(store)
    }

    /// Adds a coin. Unspendable outputs are ignored, as Bitcoin Core does.
    ///
    /// `possible_overwrite`: the coin may exist, which is so for coinbases (the exceptions of
    /// BIP30) and for coins that a disconnected block gives back. Otherwise the caller knows that
    /// it does not.
    #[inline]
    pub fn add(&mut self, key: &HashedOutPoint, coin: &Coin, possible_overwrite: bool) {
        let Coin { value, script_pubkey: script, height, coinbase } = coin;
        if is_unspendable(script) {
            return;
        }
        let parts = CoinParts { value: *value, script, height: *height, coinbase: *coinbase };
        self.memtables.active_mut().add(key, parts, possible_overwrite);
        self.after_growth();
    }

    /// As [`Self::add`], of a coin that is compressed already, in two parts, and that can be spent.
    #[inline]
    pub fn insert(
        &mut self,
        key: &HashedOutPoint,
        compressed: [&[u8]; 2],
        possible_overwrite: bool,
    ) {
        self.memtables.active_mut().insert(key, compressed, possible_overwrite);
        self.after_growth();
    }

    /// Spends a coin that memory knows. [`Taken::NotInMemory`] means that what any snapshot said
    /// about it is still true, if its pin is covered ([`Self::covers`]).
    pub fn take(&mut self, key: &HashedOutPoint) -> Taken {
        let mut coins = CompressedCoins::default();
        match self.take_compressed(key, &mut coins) {
            Probe::Unspent => Taken::Coin(coins.coin(0).expect("in memory as it was encoded")),
            Probe::Spent => Taken::Spent,
            Probe::NotInMemory => Taken::NotInMemory,
        }
    }

    /// As [`Self::take`], and appends the coin to `out`. Returns what memory knew of it.
    #[inline]
    pub fn take_compressed(&mut self, key: &HashedOutPoint, out: &mut CompressedCoins) -> Probe {
        let known = self.memtables.take(key, out);
        if known != Probe::NotInMemory {
            self.after_growth();
        }
        known
    }

    /// Spends a coin that a snapshot has and that [`Self::take`] said is not in memory.
    #[inline]
    pub fn spend_below(&mut self, key: &HashedOutPoint) {
        self.memtables.active_mut().spend_below(key);
        self.after_growth();
    }

    /// Takes back what [`Self::spend_below`] did, so that the coin is where it was; `false` if that is
    /// sealed, and the coin has to be added again.
    pub fn unspend_below(&mut self, key: &HashedOutPoint) -> bool {
        self.memtables.active_mut().forget_spend(key)
    }

    /// Spends a coin wherever it is; `None` if there is no such coin.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn spend(&mut self, key: &HashedOutPoint) -> Result<Option<Coin>, StoreError> {
        match self.take(key) {
            Taken::Coin(coin) => Ok(Some(coin)),
            Taken::Spent => Ok(None),
            Taken::NotInMemory => {
                let coin = read(&self.layers, key)?;
                if coin.is_some() {
                    self.spend_below(key);
                }
                Ok(coin)
            }
        }
    }

    /// The coin, wherever it is.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn get(&self, key: &HashedOutPoint) -> Result<Option<Coin>, StoreError> {
        match self.memtables.active().coin(key) {
            Some(known) => Ok(known.unspent()),
            None => read(&self.layers, key),
        }
    }

    /// What memory knows of a coin.
    #[inline]
    pub fn probe(&self, key: &HashedOutPoint) -> Probe {
        self.memtables.probe(key)
    }

    /// The first of `keys` that memory knows to be unspent.
    pub fn probe_any(&self, keys: &[HashedOutPoint]) -> Option<usize> {
        self.warm(keys);
        keys.iter().position(|key| self.probe(key) == Probe::Unspent)
    }

    /// Loads what adding or taking `keys` will touch of the memtables; their cache misses then
    /// overlap. Worth it for the keys of the next few transactions, not for more than the
    /// processor's cache holds.
    #[inline]
    pub fn warm(&self, keys: &[HashedOutPoint]) {
        self.memtables.warm(keys);
    }

    /// As [`Self::warm`], for keys that no memtable is expected to know.
    #[inline]
    pub fn warm_slots<'k>(&self, keys: impl Iterator<Item = &'k HashedOutPoint>) {
        self.memtables.active().warm_slots(keys);
    }

    /// The newest snapshot.
    pub fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.layers)
    }

    /// A handle for other threads to get the newest snapshot.
    pub fn reader(&self) -> LayersReader {
        self.published.clone()
    }

    /// Whether what was read under `pin` can be combined with [`Self::take`] and [`Self::probe`].
    /// Turns false only within [`Self::add`], [`Self::take`], [`Self::spend_below`] and at the end of
    /// [`Self::pinned`] (when memory runs out), [`Self::rotate_blocking`], [`Self::rotate`],
    /// [`Self::poll`] and [`Self::committed`], and then for good.
    pub fn covers(&self, pin: &EpochPin) -> bool {
        self.memtables.sealed().covers(pin)
    }

    /// Runs `change` if the pin is covered, and keeps it covered until `change` returns: only then
    /// are kept memtables dropped for want of memory. So a block is applied wholly from memory or
    /// not begun. Memory may exceed the budget by what `change` adds.
    pub fn pinned<T>(&mut self, pin: &EpochPin, change: impl FnOnce(&mut Self) -> T) -> Option<T> {
        if !self.covers(pin) {
            return None;
        }
        self.memtables.set_pinned(true);
        let result = change(self);
        self.memtables.set_pinned(false);
        self.drop_kept();
        Some(result)
    }

    /// The channel on which background jobs report. The caller may select on it, to wait, but must
    /// not receive: [`Self::poll`] does.
    pub fn events(&self) -> &Receiver<Result<UtxoEvent, StoreError>> {
        self.pools.events()
    }

    /// What was done since the store was opened.
    pub fn counters(&self) -> Counters {
        Counters { repaired_blocks: self.context.repairs.blocks(), ..self.counters }
    }

    /// Numbers and sizes of the runs.
    pub fn shape(&self) -> Shape {
        self.runs.shape()
    }

    /// Coins and tombstones of the active memtable.
    pub fn active_entries(&self) -> (usize, usize) {
        let active = self.memtables.active();
        (active.coins(), active.tombstones())
    }

    #[inline]
    fn after_growth(&mut self) {
        if self.memtables.is_over_allowance() {
            self.drop_kept();
        }
    }
}

/// What the active memtable knows of a coin. Of all others [`UtxoStore::layers`] know, taken at the same
/// moment.
pub fn unsealed_coin(store: &UtxoStore, key: &HashedOutPoint) -> Option<KnownCoin> {
    store.memtables.active().coin(key)
}

/// What was sealed since the snapshot of `pin`; `None` if nothing was, or the pin is not covered.
pub fn sealed_since<'s>(store: &'s UtxoStore, pin: &EpochPin) -> Option<SealedSince<'s>> {
    store.memtables.sealed().since(pin)
}

/// All that is below the active memtable.
pub(super) fn snapshot(context: &UtxoContext, memtables: &Memtables, runs: &Runs) -> Layers {
    let sealed = memtables.sealed();
    Layers {
        context: context.clone(),
        epoch: sealed.current().clone(),
        flushing: sealed.unwritten().map(|sealed| Arc::clone(&sealed.table)).collect(),
        written: WrittenMemtables::new(sealed.written_tables()),
        partitions: runs.partitions().to_vec(),
    }
}

fn read(layers: &Layers, key: &HashedOutPoint) -> Result<Option<Coin>, StoreError> {
    let mut out = Vec::with_capacity(1);
    layers.get_many(std::slice::from_ref(key), &mut out)?;
    Ok(out.pop().flatten())
}

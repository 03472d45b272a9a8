//! `CCoinsViewDBFlush`: coins into an empty, durable store.
//!
//! Both versions open a wiped data directory, add the coins, flush, and close. Bitcoin Core's flush
//! leaves the last writes to the operating system; this one ends as every flush of the node does, with
//! runs and directory synced and the database transaction that names them.

use std::borrow::Borrow;
use std::fs;
use std::hint::black_box;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::network::{Network, Params};
use godwit_primitives::{BlockHash, Coin, OutPoint};
use godwit_store::disk::RealDisk;
use godwit_store::exec::{Executor, Threads};
use godwit_store::utxo::{CacheMinima, Manifest, SealId, UtxoConfig, UtxoHasher, UtxoStore};
use godwit_store::{
    BLOCK_BUFFERS, ChainPoint, Commit, NetworkId, Rebuild, Store, StoreError, StoreOptions,
    UtxoCommit,
};
use godwit_stream::DataStream;

use super::coins::{RandomCoins, THRESHOLD};
use crate::harness::Subject;

/// The default of `-dbcache`, in Bitcoin Core at the time of the pull request as in godwit.
const BUDGET: u64 = 450 << 20;

/// As the chain opens its store.
const PARTITION_BITS: u8 = 4;

/// Coins that the memtable is told of before they are added, as the chain does when it applies a block.
const WARM_COINS: usize = 64;

/// Such groups between two questions whether the memtable is full: about the coins of a block.
const BLOCK_GROUPS: usize = 64;

/// The first version: coins are generated while the time runs. A figure is given per byte of Bitcoin
/// Core's threshold.
pub(super) fn generating(datadir: &Path, coins: usize) -> Subject {
    let datadir = datadir.to_owned();
    let mut seed = 0;
    Subject::new("byte", THRESHOLD as f64, move || {
        seed += 1;
        let mut random = RandomCoins::new(seed);
        let tip = BlockHash::from_bytes(random.bytes());
        let written = flush(&datadir, tip, random.take(coins));
        black_box(written.expect("the disk works"));
    })
}

/// The second version: coins were prepared before; the memtable copies them. A figure is given per coin.
pub(super) fn prepared(datadir: &Path, coins: usize) -> Subject {
    let datadir = datadir.to_owned();
    let coins: Vec<_> = RandomCoins::new(0).take(coins).collect();
    Subject::new("coin", coins.len() as f64, move || {
        let written = flush(&datadir, BlockHash::from_bytes([1; 32]), coins.iter());
        black_box(written.expect("the disk works"));
    })
}

/// An open store, wiped before.
struct Opened {
    store: Store,
    utxo: UtxoStore,
    hasher: UtxoHasher,
}

/// Makes `coins` the durable UTXO set of a new data directory. Returns the bytes of the runs.
///
/// # Errors
///
/// What the store says.
pub fn flush(
    datadir: &Path,
    tip: BlockHash,
    mut coins: impl Iterator<Item = impl Borrow<(OutPoint, Coin)>>,
) -> Result<u64, StoreError> {
    wipe(datadir);
    let mut opened = open(datadir.to_owned())?;
    let Opened { utxo, hasher, .. } = &mut opened;
    let (mut group, mut keys) = (Vec::with_capacity(WARM_COINS), Vec::with_capacity(WARM_COINS));
    for n in 0.. {
        group.extend(coins.by_ref().take(WARM_COINS));
        if group.is_empty() {
            break;
        }
        keys.extend(group.iter().map(|coin| hasher.hash(coin.borrow().0)));
        utxo.warm(&keys);
        for (key, coin) in keys.drain(..).zip(group.drain(..)) {
            utxo.add(&key, &coin.borrow().1, false);
        }
        if n % BLOCK_GROUPS == 0 {
            utxo.poll()?;
            if utxo.wants_rotation() {
                utxo.rotate_blocking()?;
            }
        }
    }
    let seal = utxo.rotate_blocking()?;
    commit(&mut opened, seal, tip)?;
    Ok(opened.utxo.counters().flushed_bytes)
}

/// How many coins the last flush left in `datadir`, by what its commit names.
///
/// # Errors
///
/// What the store says.
#[cfg(test)]
pub(super) fn coins_in(datadir: &Path) -> Result<usize, StoreError> {
    let store = open_store(datadir.to_owned())?;
    let state = store.state()?;
    let encoded = state.utxo_manifest.expect("the flush has committed");
    let manifest = godwit_stream::SpanReader::new(&encoded).get::<Manifest>();
    let manifest = manifest.map_err(|error| store.damaged_manifest(error))?;
    let hasher = UtxoHasher::new(store.utxo_hash_key());
    let config = UtxoConfig { budget: BUDGET, minima: CacheMinima::PRODUCT };
    let utxo =
        UtxoStore::open(store.disk(), &store.utxo_dir(), hasher, &manifest, config, &executor())?;
    let mut scan = utxo.layers().scan()?;
    let mut coins = 0;
    while scan.next()?.is_some() {
        coins += 1;
    }
    Ok(coins)
}

fn executor() -> Arc<dyn Executor> {
    Arc::new(Threads::default())
}

fn open_store(dir: PathBuf) -> Result<Store, StoreError> {
    let params = Params::new(Network::Regtest);
    let network = NetworkId { magic: params.magic, genesis: params.genesis_hash.to_bytes() };
    let options = StoreOptions {
        dir,
        network,
        new_hash_key: [7; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    Ok(Store::open(Arc::new(RealDisk), options)?.0)
}

fn open(dir: PathBuf) -> Result<Opened, StoreError> {
    let store = open_store(dir)?;
    let hasher = UtxoHasher::new(store.utxo_hash_key());
    let manifest = Manifest::empty(PARTITION_BITS, &hasher);
    let config = UtxoConfig { budget: BUDGET, minima: CacheMinima::PRODUCT };
    let utxo =
        UtxoStore::open(store.disk(), &store.utxo_dir(), hasher, &manifest, config, &executor())?;
    Ok(Opened { store, utxo, hasher })
}

fn commit(opened: &mut Opened, seal: SealId, tip: BlockHash) -> Result<(), StoreError> {
    let Opened { store, utxo, .. } = opened;
    utxo.wait_flushed(seal)?;
    let (id, manifest) = utxo.manifest(seal);
    let mut encoded = DataStream::new();
    encoded.put(&manifest);
    let tip = ChainPoint { hash: tip, height: 1 };
    let named = UtxoCommit { tip, manifest: encoded.into_vec(), assumed: None };
    store.commit(Commit { utxo: Some(named), ..Commit::default() })?;
    utxo.committed(id)
}

fn wipe(datadir: &Path) {
    match fs::remove_dir_all(datadir) {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            panic!("{}: {error}", datadir.display())
        }
        _ => {}
    }
}

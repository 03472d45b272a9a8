mod beyond_parity;
mod clean;
mod cold;
mod damage;
mod faults;
mod inspect;
mod layout;
mod limits;
mod many_coins;
mod model;
mod panics;
mod pinned;
mod repair;
mod room;
mod rotation;
mod saved_repair;
mod scans;
mod scrub;
mod searches;
mod speed;
mod unsynced;

use std::path::Path;
use std::sync::Arc;

use godwit_fault_disk::FaultDisk;
use godwit_primitives::Coin;

use super::fixtures::hasher;
use super::*;
use crate::disk::StoreDisk;
use crate::exec::{Executor, Threads};

const DIR: &str = "/data/utxo";
const MIN_BUDGET: u64 = CacheMinima::PRODUCT.budget;
const CONFIG: UtxoConfig = UtxoConfig { budget: MIN_BUDGET, minima: CacheMinima::PRODUCT };

fn open(disk: &FaultDisk, manifest: &Manifest) -> Result<UtxoStore, crate::StoreError> {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    UtxoStore::open(&disk, Path::new(DIR), hasher(), manifest, CONFIG, &executor())
}

fn executor() -> Arc<dyn Executor> {
    Arc::new(Threads::default())
}

fn add(store: &mut UtxoStore, key: &HashedOutPoint, coin: &Coin, overwrite: bool) {
    store.add(key, coin, overwrite);
}

/// Rotates, waits, and makes the result the committed state.
fn commit(store: &mut UtxoStore) -> Manifest {
    let seal = store.rotate_blocking().unwrap();
    store.wait_flushed(seal).unwrap();
    let (id, manifest) = store.manifest(seal);
    store.committed(id).unwrap();
    manifest
}

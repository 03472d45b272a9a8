//! Measurements on the real disk.

use std::time::Instant;

use super::super::fixtures::{Random, coin, hasher, outpoint};
use super::*;
use crate::disk::{OpenMode, RealDisk};

/// Prints nanoseconds of wall time for each of `count` operations.
fn measure<T>(what: &str, count: u64, work: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let result = work();
    println!("{what}: {} ns", start.elapsed().as_nanos() / u128::from(count));
    result
}

fn look_up(store: &UtxoStore, first: u64, count: u64, random: &mut Random) {
    let layers = store.layers();
    let (mut coins, mut exist) = (Vec::new(), Vec::new());
    let batch = |random: &mut Random, from: u64| -> Vec<HashedOutPoint> {
        (0..2000).map(|_| outpoint(from + random.below(count))).collect()
    };
    let present: Vec<_> = (0..50).map(|_| batch(random, first)).collect();
    let absent: Vec<_> = (0..50).map(|_| batch(random, first + (1 << 40))).collect();
    measure("  look up a coin that exists", 100_000, || {
        for keys in &present {
            layers.get_many(keys, &mut coins).unwrap();
            assert!(coins.iter().all(Option::is_some));
        }
    });
    measure("  probe an absent coin", 100_000, || {
        for keys in &absent {
            layers.contains_many(keys, &mut exist).unwrap();
            assert!(!exist.contains(&true));
        }
    });
}

fn add_coins(store: &mut UtxoStore, count: u64) {
    let coins: Vec<Coin> = (0..1000).map(coin).collect();
    measure("add, with flushes and merges", count, || {
        for n in 0..count {
            add(store, &outpoint(n), &coins[n as usize % 1000], false);
            if n % 5000 == 0 {
                store.poll().unwrap();
                if store.wants_rotation() {
                    store.rotate_blocking().unwrap();
                    let (id, _) = store.manifest(store.flushed());
                    store.committed(id).unwrap();
                }
            }
        }
    });
}

/// `cargo test --release -p godwit-store -- --ignored --nocapture store_speed`
///
/// Wall time: run it on an idle machine.
#[test]
#[ignore = "a measurement"]
fn store_speed() {
    const COINS: u64 = 5_000_000;
    for budget in [32 << 20, 1 << 30] {
        println!("{COINS} coins, budget {} MiB", budget >> 20);
        let dir = tempfile::tempdir().unwrap();
        let disk = StoreDisk::new(Arc::new(RealDisk));
        let config = UtxoConfig { budget, minima: CacheMinima::PRODUCT };
        let manifest = Manifest::empty(4, &hasher());
        let mut store =
            UtxoStore::open(&disk, dir.path(), hasher(), &manifest, config, &executor()).unwrap();
        add_coins(&mut store, COINS);
        let manifest = measure("last flush", COINS, || commit(&mut store));
        println!("{:?} {:?}", store.counters(), store.shape());
        let mut random = Random(1);
        look_up(&store, 0, COINS, &mut random);
        measure("merges that were due", COINS, || store.wait_merges().unwrap());
        println!("{:?} {:?}", store.counters(), store.shape());
        look_up(&store, 0, COINS, &mut random);
        println!("{:?}", store.memory_used());
        measure("scan", COINS, || {
            let layers = store.layers();
            let mut scan = layers.scan().unwrap();
            while scan.next().unwrap().is_some() {}
        });
        measure("scan in outpoint order, 64 MiB", COINS, || {
            let mut scan =
                store.layers().sorted(OutPointOrder::Numeric, 64 << 20, &|| false).unwrap();
            while scan.next().unwrap().is_some() {}
        });
        drop(store);
        measure("open", COINS, || {
            UtxoStore::open(&disk, dir.path(), hasher(), &manifest, config, &executor())
                .map(drop)
                .unwrap()
        });
    }
}

/// `cargo test --release -p godwit-store -- --ignored --nocapture cold_lookups`
///
/// Coins that are in no memory, blocks of them in one question as the look-ahead asks: the page cache is
/// emptied before each round. Wall time, of the directory for temporary files.
#[test]
#[ignore = "a measurement"]
fn cold_lookups() {
    const COINS: u64 = 20_000_000;
    /// Of a block of main that are below the memtable.
    const KEYS: usize = 3_300;
    let dir = tempfile::tempdir().unwrap();
    let disk = StoreDisk::new(Arc::new(RealDisk));
    let config = UtxoConfig { budget: 256 << 20, minima: CacheMinima::PRODUCT };
    let manifest = Manifest::empty(4, &hasher());
    let mut store =
        UtxoStore::open(&disk, dir.path(), hasher(), &manifest, config, &executor()).unwrap();
    add_coins(&mut store, COINS);
    commit(&mut store);
    store.wait_merges().unwrap();
    let manifest = commit(&mut store);
    drop(store);
    let store =
        UtxoStore::open(&disk, dir.path(), hasher(), &manifest, config, &executor()).unwrap();
    println!("{:?}", store.shape());
    let (layers, mut coins, mut random) = (store.layers(), Vec::new(), Random(1));
    for _ in 0..3 {
        for file in disk.list(dir.path()).unwrap() {
            disk.open(&file, OpenMode::Read).unwrap().release_cache(0..u64::MAX);
        }
        let block = |_| (0..KEYS).map(|_| outpoint(random.below(COINS))).collect();
        let blocks: Vec<Vec<HashedOutPoint>> = (0..10).map(block).collect();
        for state in ["cold", "warm"] {
            measure(state, 10 * KEYS as u64, || {
                for keys in &blocks {
                    layers.get_many(keys, &mut coins).unwrap();
                    assert!(coins.iter().all(Option::is_some));
                }
            });
        }
    }
}

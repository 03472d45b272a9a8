//! Every operation on the disk fails once, and the power goes at that moment.

use std::collections::BTreeMap;

use godwit_fault_disk::Survival;
use godwit_primitives::Coin;

use super::super::fixtures::{coin, hasher, outpoint};
use super::*;
use crate::error::StoreError;

type Coins = BTreeMap<u64, Coin>;

/// What a database would hold: the last durable manifest and the coins that it stands for.
struct Durable {
    manifest: Manifest,
    coins: Coins,
}

/// Blocks that create and spend, each committed; merges become due on the way.
fn live(disk: &FaultDisk, durable: &mut Durable) -> Result<(), StoreError> {
    let mut store = open(disk, &durable.manifest)?;
    let mut coins = durable.coins.clone();
    for block in 0..9u64 {
        for n in 0..40 {
            let n = n + block * 30;
            if coins.remove(&n).is_some() {
                assert!(store.spend(&outpoint(n))?.is_some());
            } else {
                add(&mut store, &outpoint(n), &coin(n), true);
                coins.insert(n, coin(n));
            }
        }
        let seal = store.rotate_blocking()?;
        store.wait_flushed(seal)?;
        let (id, manifest) = store.manifest(seal);
        *durable = Durable { manifest, coins: coins.clone() };
        store.committed(id)?;
        store.wait_merges()?;
    }
    // The last removals happen in the background: a failure there counts as well.
    add(&mut store, &outpoint(1_000_000), &coin(0), false);
    let seal = store.rotate_blocking()?;
    store.wait_flushed(seal)?;
    store.poll()
}

fn check(disk: &FaultDisk, durable: &Durable) {
    let store = open(disk, &durable.manifest).unwrap();
    for n in 0..400 {
        assert_eq!(store.get(&outpoint(n)).unwrap().as_ref(), durable.coins.get(&n), "coin {n}");
    }
    let mut scan = store.layers().scan().unwrap();
    let mut count = 0;
    while scan.next().unwrap().is_some() {
        count += 1;
    }
    assert_eq!(count, durable.coins.len());
}

#[test]
fn whatever_fails_the_last_commit_is_there() {
    let mut failures = 0;
    for n in 1.. {
        let survival = [Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3];
        let disk = FaultDisk::new();
        let empty = Manifest::empty(1, &hasher());
        let mut durable = Durable { manifest: empty, coins: Coins::new() };
        disk.fail_change(n);
        let ended = live(&disk, &mut durable);
        if !disk.has_failed() {
            ended.unwrap();
            break;
        }
        failures += 1;
        assert!(
            matches!(ended, Err(StoreError::Io(_) | StoreError::Closed(_)) | Ok(())),
            "{ended:?}"
        );
        disk.crash(survival);
        check(&disk, &durable);
        live(&disk, &mut durable).unwrap();
    }
    println!("{failures} operations failed, one after the other");
    assert!(failures > 60, "{failures}");
}

/// After a failure the store says so forever instead of going on.
#[test]
fn a_failed_store_stays_failed() {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    add(&mut store, &outpoint(1), &coin(1), false);
    disk.fail_change(1);
    let seal = store.rotate_blocking().unwrap();
    let error = store.wait_flushed(seal).unwrap_err();
    assert_eq!(store.wait_flushed(seal), Err(error.clone()));
    assert_eq!(store.poll(), Err(error.clone()));
    assert_eq!(store.rotate_blocking(), Err(error.clone()));
    assert_eq!(store.wait_merges(), Err(error));
}

/// A run so long that it is synced while it is written: what fails then fails the flush, and what
/// was not committed leaves no trace; without a failure every coin survives the power.
#[test]
fn a_long_run_is_whole_or_nothing() {
    const COINS: u64 = 4_000;
    let mut failures = 0;
    for n in 1.. {
        let disk = FaultDisk::new();
        let empty = Manifest::empty(1, &hasher());
        let mut store = open(&disk, &empty).unwrap();
        (0..COINS).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
        disk.fail_change(n);
        let seal = store.rotate_blocking().unwrap();
        let ended = store.wait_flushed(seal).map(|()| store.manifest(seal).1);
        drop(store);
        let failed = disk.has_failed();
        disk.crash(Survival::Nothing);
        let Err(error) = ended else {
            assert!(!failed);
            let store = open(&disk, &ended.unwrap()).unwrap();
            assert!((0..COINS).all(|n| store.get(&outpoint(n)).unwrap() == Some(coin(n))));
            break;
        };
        failures += 1;
        assert!(matches!(error, StoreError::Io(_) | StoreError::Closed(_)), "{error:?}");
        assert!(open(&disk, &empty).unwrap().layers().is_empty());
    }
    // Besides creation, last sync and directory: writes of 16 KiB and a sync for every fourth.
    assert!(failures > 15, "{failures}");
}

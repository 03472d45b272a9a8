//! Reading a whole snapshot, in any order and in outpoint order.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

use godwit_fault_disk::{Counted, DiskError, Fault, Lasting};
use godwit_primitives::{OutPoint, Txid};
use godwit_stream::DataStream;

use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::super::run::format::RunId;
use super::super::sort::SortedScan;
use super::*;
use crate::StoreError;
use crate::disk::Disk;

/// Coins by the bytes of txid and VarInt of vout: the keys of Core's database.
type ByLevelDbKey = BTreeMap<Vec<u8>, (OutPoint, Coin)>;

fn level_db_key(outpoint: &OutPoint) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(&outpoint.txid);
    out.write_var_int(u64::from(outpoint.vout));
    out.as_slice().to_vec()
}

fn insert(store: &mut UtxoStore, model: &mut ByLevelDbKey, outpoint: OutPoint, coin: Coin) {
    add(store, &hasher().hash(outpoint), &coin, false);
    model.insert(level_db_key(&outpoint), (outpoint, coin));
}

/// Coins in three layers, some spent, with output numbers around each length of VarInt.
fn layered() -> (FaultDisk, UtxoStore, ByLevelDbKey) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(2, &hasher())).unwrap();
    let mut model = ByLevelDbKey::new();
    let outputs = [0, 1, 127, 128, 16_511, 16_512, 20_000, 2_113_663, 2_113_664, u32::MAX];
    for txid in 0..60u8 {
        for vout in outputs {
            let outpoint = OutPoint { txid: Txid::from_bytes([txid; 32]), vout };
            let n = u64::from(txid) << 32 | u64::from(vout);
            let coin = if n % 17 == 0 { long_coin(n, 9000) } else { coin(n) };
            insert(&mut store, &mut model, outpoint, coin);
        }
        if txid % 20 == 19 {
            commit(&mut store);
        }
        let spent = OutPoint { txid: Txid::from_bytes([txid / 2; 32]), vout: 128 };
        let known = model.remove(&level_db_key(&spent)).map(|(_, coin)| coin);
        assert_eq!(store.spend(&hasher().hash(spent)).unwrap(), known);
    }
    store.rotate_blocking().unwrap();
    (disk, store, model)
}

fn sorted(store: &UtxoStore, order: OutPointOrder, memory: usize) -> Vec<(OutPoint, Coin)> {
    let mut scan = store.layers().sorted(order, memory, &|| false).unwrap();
    let mut seen = Vec::new();
    while let Some(entry) = scan.next().unwrap() {
        seen.push((entry.outpoint, entry.coin().unwrap()));
    }
    seen
}

#[test]
fn partitions_together_are_the_whole() {
    let (_disk, store, model) = layered();
    let layers = store.layers();
    let mut seen = BTreeMap::new();
    for partition in 0..layers.partitions() {
        let mut scan = layers.scan_partition(partition).unwrap();
        while let Some(entry) = scan.next().unwrap() {
            let mut compressed = DataStream::new();
            compressed.put(&entry.coin().unwrap());
            assert_eq!(compressed.as_slice(), entry.compressed);
            let value = (entry.outpoint, entry.coin().unwrap());
            assert!(seen.insert(level_db_key(&entry.outpoint), value).is_none());
        }
    }
    assert_eq!(seen, model);
}

#[test]
fn both_orders_are_those_of_core() {
    let (disk, store, model) = layered();
    let before = disk.list(Path::new(DIR)).unwrap().len();
    let by_bytes: Vec<_> = model.values().cloned().collect();
    assert_eq!(sorted(&store, OutPointOrder::LevelDb, 0), by_bytes);
    let mut by_number = by_bytes;
    by_number.sort_by_key(|(outpoint, _)| *outpoint);
    assert_eq!(sorted(&store, OutPointOrder::Numeric, 64 << 20), by_number);
    assert_eq!(disk.list(Path::new(DIR)).unwrap().len(), before, "scratch files are removed");
}

#[test]
fn an_empty_store_has_nothing_to_sort() {
    let store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    assert!(sorted(&store, OutPointOrder::Numeric, 0).is_empty());
    assert!(store.layers().scan().unwrap().next().unwrap().is_none());
}

/// More scratch runs than the least memory can merge at once.
#[test]
fn a_sort_in_little_memory_takes_several_passes() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(2, &hasher())).unwrap();
    let mut random = Random(9);
    let mut expected = Vec::new();
    for n in 0..160_000 {
        let key = outpoint(random.next() >> 20);
        add(&mut store, &key, &coin(n), false);
        expected.push(key.outpoint);
        if store.wants_rotation() {
            store.rotate_blocking().unwrap();
        }
    }
    store.rotate_blocking().unwrap();
    expected.sort();
    expected.dedup();
    let seen = sorted(&store, OutPointOrder::Numeric, 0);
    assert!(seen.iter().map(|(outpoint, _)| outpoint).eq(&expected));
}

/// Names of scratch files do not depend on what other stores of the process have sorted.
#[test]
fn scratch_runs_are_counted_by_each_store() {
    let next = || {
        let (_disk, store, _) = layered();
        let first = store.context.next_scratch.load(Ordering::Relaxed);
        sorted(&store, OutPointOrder::Numeric, 0);
        (first, store.context.next_scratch.load(Ordering::Relaxed))
    };
    let (first, after) = next();
    assert!(first == RunId::FIRST_SCRATCH && after > first);
    assert_eq!(next(), (first, after));
}

/// A scan goes on over the coins of its moment while the store changes under it.
#[test]
fn a_snapshot_does_not_change() {
    let (_disk, mut store, model) = layered();
    let layers = store.layers();
    let mut scan = layers.scan().unwrap();
    let mut count = 0;
    while scan.next().unwrap().is_some() {
        if count % 40 == 0 {
            let known = model.values().nth(count).unwrap();
            store.spend(&hasher().hash(known.0)).unwrap();
            commit(&mut store);
            store.wait_merges().unwrap();
        }
        count += 1;
    }
    assert_eq!(count, model.len());
    assert!(store.counters().merges > 0);
}

/// A reader of all coins keeps neither filters nor later memtables in memory, and sees its moment still.
#[test]
fn layers_for_scans_keep_files_and_no_memory() {
    let (_disk, mut store, model) = layered();
    commit(&mut store);
    let layers = store.layers().for_scans();
    assert!(layers.flushing.is_empty() && layers.bytes() > 0);
    let expected = layers.expected_coins();
    assert!((1..=model.len() as u64).contains(&expected), "{expected} of {}", model.len());
    let known = model.values().next().unwrap();
    for n in 0..20 {
        let key = outpoint(1 << 40 | n);
        add(&mut store, &key, &coin(n), false);
        commit(&mut store);
    }
    store.spend(&hasher().hash(known.0)).unwrap();
    commit(&mut store);
    store.wait_merges().unwrap();
    assert!(store.counters().merges > 0);
    assert_eq!(store.memory_used().kept, 0, "no memtable is kept for it");
    let mut scan = layers.sorted(OutPointOrder::LevelDb, 0, &|| false).unwrap();
    let mut seen = Vec::new();
    while let Some(entry) = scan.next().unwrap() {
        seen.push((entry.outpoint, entry.coin().unwrap()));
    }
    assert!(seen.iter().eq(model.values()));
}

/// Scratch files that are there.
fn scratch_files(store: &UtxoStore) -> usize {
    let is_scratch = |path: &&PathBuf| RunId::of_path(path).is_some_and(|run| run.is_scratch());
    store.context.disk.list(Path::new(DIR)).unwrap().iter().filter(is_scratch).count()
}

#[test]
fn a_sort_ends_when_nobody_wants_it_and_leaves_nothing() {
    let (_disk, mut store, _) = layered();
    (0..3_000).for_each(|n| add(&mut store, &outpoint(1 << 40 | n), &coin(n), false));
    store.rotate_blocking().unwrap();
    for looks in 0..3 {
        let left = Cell::new(looks);
        let is_over = || left.get() == 0 || left.replace(left.get() - 1) == 0;
        let sorted = store.layers().sorted(OutPointOrder::Numeric, 0, &is_over);
        assert!(matches!(sorted, Err(StoreError::Stopped)), "after {looks} looks");
        assert_eq!((left.get(), scratch_files(&store)), (0, 0));
    }
}

/// A sort that fills the disk fails, what it has written goes, and the store goes on.
#[test]
fn a_scratch_file_that_cannot_be_written_does_not_close_the_store() {
    let mut failures = 0;
    for n in 1.. {
        let (disk, mut store, model) = layered();
        commit(&mut store);
        store.wait_merges().unwrap();
        let (counted, error, lasting) = (Counted::Changes, DiskError::Full, Lasting::Once);
        disk.plan(Fault { counted, nth: n, error, lasting, forgets: false });
        let count = |mut scan: SortedScan| {
            let mut count = 0;
            while scan.next()?.is_some() {
                count += 1;
            }
            Ok(count)
        };
        let sorted = store.layers().sorted(OutPointOrder::Numeric, 0, &|| false).and_then(count);
        let failed = disk.has_failed();
        disk.fail_nothing();
        match sorted {
            Ok(count) => assert_eq!(count, model.len()),
            Err(error) => {
                assert!(failed && matches!(error, StoreError::Io(_)), "{error:?}");
                assert_eq!(scratch_files(&store), 0, "change {n}");
                failures += 1;
            }
        }
        add(&mut store, &outpoint(1 << 40), &coin(1), false);
        commit(&mut store);
        assert_eq!(self::sorted(&store, OutPointOrder::Numeric, 0).len(), model.len() + 1);
        if !failed {
            break;
        }
    }
    assert!(failures > 2, "{failures}");
}

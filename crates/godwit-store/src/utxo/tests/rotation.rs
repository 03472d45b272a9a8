//! Rotation does not wait, and works without a thread.

use godwit_fault_disk::{InlineExecutor, Pace};

use super::super::budget::MAX_UNFLUSHED;
use super::super::fixtures::{coin, hasher, outpoint};
use super::*;
use crate::disk::{Disk, OpenMode};
use crate::error::Operation;
use crate::gate_disk::{Gate, GateDisk};

/// A slow disk: memtables pile up to their limit, and then a rotation says so and returns.
#[test]
fn a_rotation_without_room_does_not_wait() {
    let (disk, gate) = GateDisk::new(&FaultDisk::new());
    let disk = StoreDisk::new(Arc::new(disk));
    let manifest = Manifest::empty(0, &hasher());
    let config = UtxoConfig { budget: 64 << 20, ..CONFIG };
    let mut store =
        UtxoStore::open(&disk, Path::new(DIR), hasher(), &manifest, config, &executor()).unwrap();
    gate.close(Operation::Write);
    let mut seals = Vec::new();
    for n in 0.. {
        add(&mut store, &outpoint(n), &coin(n), false);
        match store.rotate().unwrap() {
            Rotation::Sealed(seal) => seals.push(seal),
            Rotation::Full => break,
        }
    }
    assert_eq!(seals.len(), MAX_UNFLUSHED);
    assert_eq!(store.rotate(), Ok(Rotation::Full));
    assert_eq!(store.counters().stalls, 1, "one stall, however often it is asked");
    assert!(store.flushed() < seals[0] && store.events().is_empty());
    // Reading and changing coins goes on.
    let last = MAX_UNFLUSHED as u64;
    assert!((0..=last).all(|n| store.get(&outpoint(n)).unwrap().is_some()));
    assert!(matches!(store.take(&outpoint(0)), Taken::Coin(_)));
    gate.open();
    let seal = store.rotate_blocking().unwrap();
    assert!(seal > seals[3]);
    store.wait_flushed(seal).unwrap();
    assert_eq!((store.counters().flushes, store.counters().stalls), (last + 1, 1));
    assert_eq!(store.get(&outpoint(0)).unwrap(), None);
}

fn open_slow(config: UtxoConfig) -> (UtxoStore, Arc<Gate>) {
    let (disk, gate) = GateDisk::new(&FaultDisk::new());
    let (disk, manifest) = (StoreDisk::new(Arc::new(disk)), Manifest::empty(0, &hasher()));
    let store = UtxoStore::open(&disk, Path::new(DIR), hasher(), &manifest, config, &executor());
    (store.unwrap(), gate)
}

fn rotate(store: &mut UtxoStore) -> SealId {
    match store.rotate().unwrap() {
        Rotation::Sealed(seal) => seal,
        Rotation::Full => panic!("there is room"),
    }
}

fn wait_written(store: &mut UtxoStore, seal: SealId) {
    while written_seal(store) < seal {
        store.poll().unwrap();
        std::thread::yield_now();
    }
}

/// A disk whose fsyncs take long: coins are read from the run meanwhile, and no commit may name it.
#[test]
fn the_memory_of_a_memtable_is_free_before_its_run_is_durable() {
    let (mut store, gate) = open_slow(CONFIG);
    gate.close(Operation::Sync);
    add(&mut store, &outpoint(0), &coin(0), false);
    let first = rotate(&mut store);
    wait_written(&mut store, first);
    gate.wait_for_one();
    assert!(store.flushed() < first && newest_seal(&store) == first);
    assert_eq!(store.memory_used().flushing, 0);
    assert!(store.unwritten() > 0, "a clean end would wait for it");
    assert!(store.memtables.sealed_mut().drop_oldest_clean());
    assert_eq!(store.get(&outpoint(0)).unwrap(), Some(coin(0)), "from the run");
    add(&mut store, &outpoint(1), &coin(1), false);
    let second = rotate(&mut store);
    assert!(written_seal(&store) < second && store.flushed() < first);
    gate.open();
    store.wait_flushed(second).unwrap();
    assert_eq!((written_seal(&store), store.flushed(), store.unwritten()), (second, second, 0));
}

/// Beside a lookup by the whole snapshot, where a memtable changes what a run says and knows more.
#[test]
fn a_snapshot_without_its_memtables_answers_for_the_keys_that_these_left() {
    let (mut store, gate) = open_slow(CONFIG);
    (0..100).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
    commit(&mut store);
    assert!((0..10).all(|n| store.spend(&outpoint(n)).unwrap().is_some()));
    (100..120).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
    gate.close(Operation::Write);
    let seal = rotate(&mut store);
    let keys: Vec<HashedOutPoint> = (0..130).rev().map(outpoint).collect();
    let layers = store.layers();
    let memtable = Arc::downgrade(&layers.flushing[0]);
    let mut expected = CompressedCoins::default();
    layers.get_compressed(&keys, &mut expected).unwrap();
    let mut found = CompressedCoins::absent(keys.len());
    let mut open: Vec<u32> = (0..130).collect();
    let runs = layers.take_memtables(&keys, &mut open, &mut |n, coin| found.set(n as usize, coin));
    drop(layers);
    let mut left = open.clone();
    left.sort_unstable();
    let of_runs = (0..130).filter(|n| (10..100).contains(&(129 - n)) || 129 - n >= 120);
    assert!(left.into_iter().eq(of_runs));
    gate.open();
    wait_written(&mut store, seal);
    while store.memtables.sealed_mut().drop_oldest_clean() {}
    assert!(memtable.upgrade().is_none(), "nobody holds it");
    let set = &mut |n, coin: &[u8]| found.set(n as usize, coin);
    runs.get_some_compressed(&keys, &mut open, &|| false, set).unwrap();
    assert!((0..130).all(|n| found.get(n) == expected.get(n)));
    assert_eq!((0..130).filter(|n| found.has(*n)).count(), 110);
}

/// A removal that takes long: what becomes obsolete meanwhile goes with the next one.
#[test]
fn removals_follow_one_another() {
    let fault = FaultDisk::new();
    let (disk, gate) = GateDisk::new(&fault);
    let disk = StoreDisk::new(Arc::new(disk));
    let manifest = Manifest::empty(0, &hasher());
    let mut store =
        UtxoStore::open(&disk, Path::new(DIR), hasher(), &manifest, CONFIG, &executor()).unwrap();
    let context = store.context.clone();
    let paths = ["a", "b", "c", "d"].map(|name| Path::new(DIR).join(name));
    for path in &paths {
        fault.open(path, OpenMode::ReadWrite).unwrap();
    }
    gate.close(Operation::Remove);
    let [first, rest @ ..] = paths;
    store.pools.remove(&context, [first]);
    gate.wait_for_one();
    // More than the queue of the flusher holds.
    (0..20).for_each(|_| store.pools.remove(&context, rest.clone()));
    assert_eq!(fault.list(Path::new(DIR)).unwrap().len(), 4);
    gate.open();
    while !fault.list(Path::new(DIR)).unwrap().is_empty() {
        store.poll().unwrap();
        std::thread::yield_now();
    }
}

/// Flushes, merges, fsyncs beside them and removals, all on one thread; twice the same bytes.
#[test]
fn a_store_needs_no_thread_of_its_own() {
    let run = || {
        let fault = FaultDisk::new();
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        let executor: Arc<dyn Executor> = Arc::new(InlineExecutor::new(1, Pace::Instant));
        let manifest = Manifest::empty(2, &hasher());
        let open = |manifest: &Manifest| {
            UtxoStore::open(&disk, Path::new(DIR), hasher(), manifest, CONFIG, &executor).unwrap()
        };
        let mut store = open(&manifest);
        for n in 0..8_000 {
            add(&mut store, &outpoint(n), &coin(n), false);
            if n % 1_000 == 999 {
                commit(&mut store);
                store.wait_merges().unwrap();
            }
        }
        let counters = store.counters();
        assert!(counters.flushes == 8 && counters.merges > 0, "{counters:?}");
        let manifest = commit(&mut store);
        while executor.run_one() {}
        store.poll().unwrap();
        drop(store);
        let store = open(&manifest);
        assert!((0..8_000).all(|n| store.get(&outpoint(n)).unwrap() == Some(coin(n))));
        let names = fault.list(Path::new(DIR)).unwrap();
        let files = names.into_iter().map(|name| {
            let path = Path::new(DIR).join(&name);
            (name, fault.contents(&path))
        });
        files.collect::<std::collections::BTreeMap<_, _>>()
    };
    let (first, second) = (run(), run());
    assert!(first == second, "{:?} and {:?}", first.keys(), second.keys());
}

#[test]
fn a_coin_that_is_given_back_before_a_seal_is_where_it_was() {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    let (key, other) = (outpoint(1), outpoint(2));
    add(&mut store, &key, &coin(1), false);
    add(&mut store, &other, &coin(2), false);
    commit(&mut store);
    assert_eq!(store.take(&key), Taken::NotInMemory);
    store.spend_below(&key);
    assert_eq!(store.take(&key), Taken::Spent);
    assert!(store.unspend_below(&key) && !store.unspend_below(&key));
    assert_eq!((store.take(&key), store.active_entries()), (Taken::NotInMemory, (0, 0)));
    assert_eq!(store.get(&key).unwrap(), Some(coin(1)));
    // Sealed, it cannot be taken back; and what is unspent is left alone.
    store.spend_below(&key);
    commit(&mut store);
    assert!(!store.unspend_below(&key));
    add(&mut store, &key, &coin(1), true);
    assert!(!store.unspend_below(&key) && !store.unspend_below(&other));
    assert_eq!(store.get(&key).unwrap(), Some(coin(1)));
}

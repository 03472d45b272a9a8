//! Rotation does not wait, and works without a thread.

use std::collections::VecDeque;
use std::io;
use std::sync::Mutex;
use std::thread::JoinHandle;
use std::time::Duration;

use super::super::budget::MAX_UNFLUSHED;
use super::super::fixtures::{coin, hasher, outpoint};
use super::*;
use crate::disk::{Disk, OpenMode};
use crate::error::Operation;
use crate::exec::{Job, Priority, WorkerPool};
use crate::gate_disk::GateDisk;

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

/// Runs jobs when it is asked to, on the thread that asks.
#[derive(Clone, Default)]
struct Queue(Arc<Mutex<VecDeque<Job>>>);

struct QueuePool(Queue);

impl Executor for Queue {
    fn start(
        &self,
        _: &'static str,
        _: usize,
        _: [usize; Priority::COUNT],
    ) -> io::Result<Box<dyn WorkerPool>> {
        Ok(Box::new(QueuePool(self.clone())))
    }

    fn now(&self) -> Duration {
        Duration::ZERO
    }

    fn run_one(&self) -> bool {
        let job = self.0.lock().unwrap().pop_front();
        job.map(|job| job()()).is_some()
    }

    fn spawn_beside(
        &self,
        _: &'static str,
        task: Box<dyn FnOnce() + Send>,
    ) -> io::Result<Option<JoinHandle<()>>> {
        task();
        Ok(None)
    }
}

impl WorkerPool for QueuePool {
    fn push(&self, _: Priority, _: &'static str, job: Job) {
        self.0.0.lock().unwrap().push_back(job);
    }
}

/// Flushes, merges, fsyncs beside them and removals, all on one thread; twice the same bytes.
#[test]
fn a_store_needs_no_thread_of_its_own() {
    let run = || {
        let fault = FaultDisk::new();
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        let executor: Arc<dyn Executor> = Arc::new(Queue::default());
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

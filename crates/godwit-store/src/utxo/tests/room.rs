//! Merges and repairs that have no room on the disk.

use std::path::PathBuf;
use std::sync::Mutex;
use std::time::Duration;

use godwit_fault_disk::forward_jobs;

use super::super::fixtures::{coin, hasher, outpoint};
use super::super::merge_policy::STALL_SEGMENTS;
use super::super::room::{LEFT_FREE, LOOK_AGAIN, needed};
use super::beyond_parity::{
    History, Notes, check, hand_over, history, inspection, zero_beyond_parity,
};
use super::damage::run_paths;
use super::*;
use crate::disk::Disk;
use crate::error::StoreError;

const COINS: u64 = 300;

/// More than a flush of so many coins takes, and less than any merge.
const SOME: u64 = 300 << 10;

/// Adds coins and commits them. The manifest is in force whatever comes after it.
fn add_round(store: &mut UtxoStore, round: u64, manifest: &mut Manifest) -> Result<(), StoreError> {
    for n in round * COINS..(round + 1) * COINS {
        add(store, &outpoint(n), &coin(n), false);
    }
    let seal = store.rotate_blocking()?;
    store.wait_flushed(seal)?;
    let (id, named) = store.manifest(seal);
    *manifest = named;
    store.committed(id)
}

/// Threads with a clock that the test sets.
#[derive(Clone, Default)]
struct StoppedClock {
    threads: Threads,
    time: Arc<Mutex<Duration>>,
}

impl StoppedClock {
    fn pass(&self, time: Duration) {
        *self.time.lock().unwrap() += time;
    }
}

impl Executor for StoppedClock {
    forward_jobs!(threads);

    fn now(&self) -> Duration {
        *self.time.lock().unwrap()
    }
}

fn open_by(clock: &StoppedClock, disk: &FaultDisk, manifest: &Manifest) -> UtxoStore {
    let disk = StoreDisk::new(Arc::new(disk.clone()));
    let executor: Arc<dyn Executor> = Arc::new(clock.clone());
    UtxoStore::open(&disk, Path::new(DIR), hasher(), manifest, CONFIG, &executor).unwrap()
}

fn has_all(store: &UtxoStore, rounds: u64) -> bool {
    (0..rounds * COINS).all(|n| store.get(&outpoint(n)) == Ok(Some(coin(n))))
}

#[test]
fn a_merge_without_room_is_put_off_until_there_is() {
    let (disk, mut manifest) = (FaultDisk::new(), Manifest::empty(0, &hasher()));
    let clock = StoppedClock::default();
    let mut store = open_by(&clock, &disk, &manifest);
    (0..3).for_each(|round| add_round(&mut store, round, &mut manifest).unwrap());
    disk.set_capacity(Some(disk.used() + SOME));
    add_round(&mut store, 3, &mut manifest).unwrap();
    store.wait_merges().unwrap();
    assert_eq!((store.counters().merges, store.shape().segments), (0, 4));
    let run = needed(store.shape().bytes);
    let needed = run + LEFT_FREE;
    for (missing, passes, merges) in [
        (1, LOOK_AGAIN, 0),
        // The answer that the disk gave last is kept.
        (0, LOOK_AGAIN - Duration::from_nanos(1), 0),
        (0, Duration::from_nanos(1), 1),
    ] {
        disk.set_capacity(Some(disk.used() + needed - missing));
        let before = disk.used();
        clock.pass(passes);
        store.poll().unwrap();
        store.wait_merges().unwrap();
        assert_eq!(store.counters().merges, merges);
        assert!(disk.used() - before <= run, "{} of {run}", disk.used() - before);
        assert!(has_all(&store, 4));
    }
    assert_eq!(store.shape().segments, 1);
}

/// A merge of many partitions that has room for one of them.
#[test]
fn of_merges_that_share_a_run_one_is_made_where_there_is_no_room_for_all() {
    const BITS: u8 = 4;
    let (disk, mut manifest) = (FaultDisk::new(), Manifest::empty(BITS, &hasher()));
    let clock = StoppedClock::default();
    let mut store = open_by(&clock, &disk, &manifest);
    (0..3).for_each(|round| add_round(&mut store, round, &mut manifest).unwrap());
    disk.set_capacity(Some(disk.used() + LEFT_FREE / 2));
    add_round(&mut store, 3, &mut manifest).unwrap();
    store.wait_merges().unwrap();
    let (all, segments) = (store.shape().bytes, store.shape().segments);
    assert_eq!((store.counters().merges, segments), (0, 4 << BITS));
    disk.set_capacity(Some(disk.used() + needed(all) + LEFT_FREE - 1));
    clock.pass(LOOK_AGAIN);
    store.poll().unwrap();
    store.wait_merges().unwrap();
    assert!(store.counters().merges >= 1 && store.shape().segments < segments);
    assert!(has_all(&store, 4));
}

/// Nothing is begun that would fill the disk: the store ends with what it lacks, as often as it is opened.
#[test]
fn too_many_segments_without_room_for_a_merge_end_the_store_and_harm_nothing() {
    let (disk, mut manifest) = (FaultDisk::new(), Manifest::empty(0, &hasher()));
    let mut store = open(&disk, &manifest).unwrap();
    let mut rounds = 0;
    let lacking = loop {
        disk.set_capacity(Some(disk.used() + SOME));
        let added = add_round(&mut store, rounds, &mut manifest);
        rounds += 1;
        if let Err(error) = added {
            break error;
        }
        assert!(has_all(&store, rounds), "{rounds}");
    };
    assert_eq!(rounds, STALL_SEGMENTS as u64);
    let line = lacking.to_string();
    assert!(matches!(lacking, StoreError::LacksRoom { .. }) && lacking.is_disk_full(), "{line}");
    assert!(line.contains("the disk lacks 2 MiB of 2 MiB"), "{line}");
    assert_eq!(store.poll(), Err(lacking), "it stays so");
    drop(store);
    let committed = rounds - 1;
    for _ in 0..2 {
        let mut store = open(&disk, &manifest).unwrap();
        assert!(has_all(&store, committed));
        let again = add_round(&mut store, committed, &mut manifest);
        assert!(matches!(again, Err(StoreError::LacksRoom { .. })), "{again:?}");
        drop(store);
        // One for each flush: no merge was begun.
        assert_eq!(run_paths(&disk).len() as u64, rounds);
    }
    disk.set_capacity(None);
    let mut store = open(&disk, &manifest).unwrap();
    add_round(&mut store, committed, &mut manifest).unwrap();
    store.wait_merges().unwrap();
    assert!(store.counters().merges > 0 && store.shape().deepest < STALL_SEGMENTS);
    assert!(has_all(&store, rounds));
}

#[test]
fn a_repair_without_room_is_not_begun() {
    let history = history(5, 2);
    let (disk, mut manifest) = (history.disk.copy(), history.manifest.clone());
    let lost = run_paths(&disk).into_iter().next().unwrap();
    disk.remove(&lost).unwrap();
    disk.remove(&lost.with_extension("parity")).unwrap();
    let coins = inspection(&disk, &manifest);
    let runs = coins.inspect_runs(&mut Notes::default()).unwrap();
    let needed = needed_to_begin(&disk, &manifest);
    let files = disk.list(Path::new(DIR)).unwrap();
    let begin = || CoinsRepair::begin(&coins, &runs.lost, 1 << 30, &Arc::default());
    disk.set_capacity(Some(disk.used() + needed - 1));
    let refused = begin().err().unwrap();
    assert!(matches!(refused, StoreError::LacksRoom { .. }), "{refused}");
    assert_eq!(disk.list(Path::new(DIR)).unwrap(), files);
    disk.set_capacity(Some(disk.used() + needed));
    complete(begin().unwrap(), &history, &mut manifest);
    disk.set_capacity(None);
    check(&history, &disk, &manifest, "repaired");
}

/// Repairs all, from the blocks of the history; `named` is what the last commit names. The scratch runs go
/// with the repair.
fn complete(mut repair: CoinsRepair, history: &History, named: &mut Manifest) {
    let mut commit = |manifest: &Manifest| {
        *named = manifest.clone();
        Ok(())
    };
    repair.copy_intact(&mut commit).unwrap();
    while repair.wants_blocks() {
        hand_over(&mut repair, &history.blocks);
        repair.end_pass(&mut commit).unwrap();
    }
}

fn begin(disk: &FaultDisk, manifest: &Manifest) -> Result<CoinsRepair, StoreError> {
    let coins = inspection(disk, manifest);
    let runs = coins.inspect_runs(&mut Notes::default()).unwrap();
    CoinsRepair::begin(&coins, &runs.lost, 1 << 30, &Arc::default())
}

/// Bytes that have to be free for a repair.
fn needed_to_begin(disk: &FaultDisk, manifest: &Manifest) -> u64 {
    disk.set_capacity(Some(disk.used()));
    let Err(StoreError::LacksRoom { needed, .. }) = begin(disk, manifest) else {
        panic!("it begins without room")
    };
    disk.set_capacity(None);
    needed
}

/// Copies what is whole of damaged runs, and is interrupted. Returns what the last commit has named.
fn copy_intact(disk: &FaultDisk, manifest: &Manifest) -> Manifest {
    let mut named = manifest.clone();
    let mut commit = |manifest: &Manifest| {
        named = manifest.clone();
        Ok(())
    };
    begin(disk, manifest).unwrap().copy_intact(&mut commit).unwrap();
    named
}

/// What it has copied is in no need of room any more.
#[test]
fn a_repair_that_was_interrupted_goes_on_in_the_room_that_is_left() {
    let history = history(5, 2);
    let (disk, manifest) = (history.disk.copy(), &history.manifest);
    let len = |path: &PathBuf| disk.contents(path).unwrap().len();
    let largest = run_paths(&disk).into_iter().max_by_key(len).unwrap();
    zero_beyond_parity(&disk, &largest, vec![0]);
    let needed = needed_to_begin(&disk, manifest);
    let on_another = disk.copy();
    let before = on_another.used();
    copy_intact(&on_another, manifest);
    let copied = on_another.used() - before;
    disk.set_capacity(Some(disk.used() + needed + copied - 1));
    let mut named = copy_intact(&disk, manifest);
    assert_ne!(&named, manifest);
    complete(begin(&disk, &named).unwrap(), &history, &mut named);
    disk.set_capacity(None);
    check(&history, &disk, &named, "repaired");
}

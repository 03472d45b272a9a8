//! Runs that are written and read, and not yet synced: a power cut, a sync that fails, and what commits name.

use std::panic::{AssertUnwindSafe, catch_unwind};

use godwit_fault_disk::{Counted, DiskError, Fault, Lasting, Survival};

use super::super::fixtures::{coin, outpoint};
use super::*;
use crate::error::{Operation, StoreError};
use crate::gate_disk::{Gate, GateDisk};

/// Opens the gate when a test fails: a store that is dropped waits for its jobs.
struct OpenedAtLast(Arc<Gate>);

impl Drop for OpenedAtLast {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// A store whose operations can be held up, and the disk below the gate, which is to be dropped before the
/// store.
fn open_gated() -> (UtxoStore, FaultDisk, OpenedAtLast) {
    let disk = FaultDisk::new();
    let (gated, gate) = GateDisk::new(&disk);
    let (gated, manifest) = (StoreDisk::new(Arc::new(gated)), Manifest::empty(1, &hasher()));
    let store =
        UtxoStore::open(&gated, Path::new(DIR), hasher(), &manifest, CONFIG, &executor()).unwrap();
    (store, disk, OpenedAtLast(gate))
}

/// Seals what was added, and waits until it is in a run that waits at the gate to be synced.
fn write_unsynced(store: &mut UtxoStore, OpenedAtLast(gate): &OpenedAtLast) -> SealId {
    gate.close(Operation::Sync);
    let Rotation::Sealed(seal) = store.rotate().unwrap() else { panic!("there is room") };
    while written_seal(store) < seal {
        store.poll().unwrap();
        std::thread::yield_now();
    }
    gate.wait_for_one();
    while store.memtables.sealed_mut().drop_oldest_clean() {}
    seal
}

fn is_refused(store: &mut UtxoStore, seal: SealId) -> bool {
    catch_unwind(AssertUnwindSafe(|| store.manifest(seal))).is_err()
}

fn runs(disk: &FaultDisk) -> usize {
    let is_run = |path: &Path| path.extension().is_some_and(|extension| extension == "run");
    disk.paths().iter().filter(|path| is_run(path)).count()
}

/// Whatever the power leaves of the run: all of it, too.
#[test]
fn a_power_cut_before_the_sync_of_a_run_that_is_read_leaves_the_last_commit() {
    for survival in [Survival::All, Survival::Nothing].into_iter().chain((0..8).map(Survival::Part))
    {
        let (mut store, disk, gate) = open_gated();
        (0..20).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
        let manifest = commit(&mut store);
        assert!((0..5).all(|n| store.spend(&outpoint(n)).unwrap().is_some()));
        (20..25).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
        let seal = write_unsynced(&mut store, &gate);
        // From the run.
        assert!((0..25).all(|n| store.get(&outpoint(n)).unwrap() == (n >= 5).then(|| coin(n))));
        assert_eq!((runs(&disk), is_refused(&mut store, seal)), (2, true));
        disk.crash(survival);
        gate.0.open();
        drop(store);
        let store = open(&disk, &manifest).unwrap();
        let expected = |n| (n < 20).then(|| coin(n));
        assert!((0..25).all(|n| store.get(&outpoint(n)).unwrap() == expected(n)), "{survival:?}");
        assert_eq!(runs(&disk), 1, "nobody names the other: {survival:?}");
    }
}

/// The run, its parity and its directory: each of them.
#[test]
fn a_sync_that_fails_closes_the_store_although_the_run_was_read() {
    for nth in 1..=3 {
        let (mut store, disk, gate) = open_gated();
        add(&mut store, &outpoint(0), &coin(0), false);
        let seal = write_unsynced(&mut store, &gate);
        assert_eq!(store.get(&outpoint(0)).unwrap(), Some(coin(0)));
        let (counted, error) = (Counted::Syncs, DiskError::Device);
        disk.plan(Fault { counted, nth, error, lasting: Lasting::Once, forgets: true });
        gate.0.open();
        let error = store.wait_flushed(seal).unwrap_err();
        assert!(matches!(error, StoreError::Io(_)) && disk.has_failed(), "{nth}: {error:?}");
        add(&mut store, &outpoint(1), &coin(1), false);
        assert_eq!(store.poll(), Err(error.clone()));
        assert_eq!(store.rotate(), Err(error.clone()));
        assert_eq!(store.rotate_finally(), Err(error.clone()));
        assert_eq!(store.wait_flushed(seal), Err(error));
        assert!(store.flushed() < seal && is_refused(&mut store, seal), "{nth}");
    }
    // There are no more.
    let (mut store, disk, gate) = open_gated();
    add(&mut store, &outpoint(0), &coin(0), false);
    let seal = write_unsynced(&mut store, &gate);
    let syncs = disk.count(Counted::Syncs);
    gate.0.open();
    store.wait_flushed(seal).unwrap();
    assert_eq!(disk.count(Counted::Syncs) - syncs, 3);
}

/// One commit for several seals, and one for the first of them.
#[test]
fn a_commit_has_all_runs_up_to_its_seal_and_nothing_of_a_later_one() {
    let (mut store, disk, gate) = open_gated();
    add(&mut store, &outpoint(0), &coin(0), false);
    let first = write_unsynced(&mut store, &gate);
    assert!(store.spend(&outpoint(0)).unwrap().is_some());
    add(&mut store, &outpoint(1), &coin(1), false);
    let Rotation::Sealed(second) = store.rotate().unwrap() else { panic!("there is room") };
    assert!(store.flushed() < first);
    gate.0.open();
    store.wait_flushed(second).unwrap();
    let manifests = [first, second].map(|seal| store.manifest(seal).1);
    drop(store);
    disk.crash(Survival::Nothing);
    for (manifest, left) in manifests.iter().zip([0, 1]) {
        let store = open(&disk.copy(), manifest).unwrap();
        assert!((0..2).all(|n| store.get(&outpoint(n)).unwrap().is_some() == (n == left)));
    }
}

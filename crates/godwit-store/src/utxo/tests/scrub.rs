//! Runs at rest are read in steps.

use std::sync::atomic::AtomicBool;

use godwit_disk::Disk;
use godwit_fault_disk::{Anomaly, Counted, DiskError, Fault, Lasting, PlannedAnomaly, Seen};

use super::super::fixtures::{hasher, long_coin, outpoint};
use super::super::run::format::BLOCK;
use super::super::run::parity::{GROUP, STRIPES};
use super::super::scrub::Scrubbed;
use super::damage::run_paths;
use super::*;
use crate::error::Remedy;

/// Coins of three groups of blocks.
const COINS: u64 = 2_400;

fn one_run() -> (FaultDisk, Manifest) {
    run_of(COINS)
}

fn run_of(coins: u64) -> (FaultDisk, Manifest) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    (0..coins).for_each(|n| add(&mut store, &outpoint(n), &long_coin(n, 9000), false));
    let manifest = commit(&mut store);
    assert_eq!(store.shape().runs, 1);
    (disk, manifest)
}

/// Before the first step of a reading, or behind it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    Behind,
}

/// Reads the one run, and does something once at this moment.
fn scrubbed(
    disk: &FaultDisk,
    manifest: &Manifest,
    moment: Moment,
    once: impl FnOnce(),
) -> Scrubbed {
    let store = open(disk, manifest).unwrap();
    let (layers, mut all, mut once) = (store.layers(), Scrubbed::default(), Some(once));
    let mut run = layers.scrub_from(0).unwrap();
    if moment == Moment::Before {
        once.take().into_iter().for_each(|once| once());
    }
    for _ in 0..100 {
        let step = run.step(&layers, Remedy::Restart, &AtomicBool::new(false)).unwrap();
        all.bytes += step.bytes;
        all.found.extend(step.found);
        if step.is_done {
            return all;
        }
        once.take().into_iter().for_each(|once| once());
    }
    panic!("it does not end");
}

/// What was read of a run whose parity was harmed, and how often a place was told.
#[test]
fn parity_that_is_missing_or_short_is_written_again_in_two_readings_at_most() {
    let (good, manifest) = one_run();
    let run = &run_paths(&good)[0];
    let parity = &run.with_extension("parity");
    let (blocks, expected) = (good.contents(run).unwrap().len() / BLOCK, good.contents(parity));
    assert!(blocks > 2 * GROUP as usize, "{blocks} blocks");
    let whole = scrubbed(&good, &manifest, Moment::Before, || {});
    assert_eq!(whole.found, []);
    let cut = |disk: &FaultDisk, len: usize| {
        disk.overwrite(parity, expected.as_ref().unwrap()[..len].to_vec());
    };
    let groups = blocks.div_ceil(GROUP as usize);
    type Harm<'a> = &'a dyn Fn(&FaultDisk);
    let harms: [(&str, Harm<'_>, usize); 4] = [
        ("missing", &|disk| disk.remove(parity).unwrap(), 1),
        ("empty", &|disk| cut(disk, 0), groups),
        ("short", &|disk| cut(disk, 3 * BLOCK), groups),
        ("short by a byte", &|disk| cut(disk, expected.as_ref().unwrap().len() - 1), 1),
    ];
    for (name, harm, told) in harms {
        for later in [false, true] {
            let disk = good.copy();
            let all = match later {
                false => {
                    harm(&disk);
                    scrubbed(&disk, &manifest, Moment::Before, || {})
                }
                true => scrubbed(&disk, &manifest, Moment::Behind, || harm(&disk)),
            };
            let what = format!("{name}, later: {later}: {} of {}", all.bytes, whole.bytes);
            let again = if later && name == "missing" { GROUP as usize * 2 * BLOCK } else { 0 };
            assert!(all.bytes <= whole.bytes + again as u64 * 17 / 16, "{what}");
            assert!((1..=told).contains(&all.found.len()), "{what}: {:?}", all.found);
            let after = scrubbed(&disk, &manifest, Moment::Before, || {});
            let is_later_cut = later && name != "missing";
            assert!(is_later_cut || after.found.is_empty(), "{what}: {:?}", after.found);
            assert!(disk.contents(parity) == expected, "{what}");
        }
    }
}

/// Each read of a pass in turn fails once, or gives another bit.
#[test]
fn what_is_misread_once_is_no_damage() {
    let (good, manifest) = run_of(300);
    let state = |disk: &FaultDisk| -> Vec<_> {
        disk.paths().into_iter().map(|path| (disk.contents(&path), path)).collect()
    };
    let (before, counted) = (state(&good), Counted::Reads);
    let mut disturbed = 0;
    for nth in 1..1000 {
        let mut is_over = true;
        for flips in [false, true] {
            let disk = good.copy();
            let found = scrubbed(&disk, &manifest, Moment::Before, || match flips {
                true => {
                    let (anomaly, seen, seed) = (Anomaly::FlippedBit, Seen::AtOnce, nth);
                    disk.plan_anomaly(PlannedAnomaly { counted, nth, anomaly, seen, seed });
                }
                false => {
                    let (error, lasting) = (DiskError::Device, Lasting::Once);
                    disk.plan(Fault { counted, nth, error, lasting, forgets: false });
                }
            });
            assert_eq!(found.found, [], "read {nth}, flips: {flips}");
            assert!(state(&disk) == before, "read {nth}, flips: {flips}");
            is_over &= if flips { disk.awaits_anomaly() } else { !disk.has_failed() };
        }
        if is_over {
            break;
        }
        disturbed += 1;
    }
    // All parity among them.
    assert!((STRIPES as u64..999).contains(&disturbed), "{disturbed} reads");
}

//! Runs at rest are read in steps.

use std::sync::atomic::AtomicBool;

use godwit_disk::Disk;

use super::super::fixtures::{hasher, long_coin, outpoint};
use super::super::run::format::BLOCK;
use super::super::run::parity::GROUP;
use super::super::scrub::Scrubbed;
use super::damage::run_paths;
use super::*;
use crate::error::Remedy;

/// Coins of three groups of blocks.
const COINS: u64 = 2_400;

fn one_run() -> (FaultDisk, Manifest) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    (0..COINS).for_each(|n| add(&mut store, &outpoint(n), &long_coin(n, 9000), false));
    let manifest = commit(&mut store);
    assert_eq!(store.shape().runs, 1);
    (disk, manifest)
}

/// Reads the one run, and does `first` after the first step.
fn scrubbed(disk: &FaultDisk, manifest: &Manifest, first: impl FnOnce()) -> Scrubbed {
    let store = open(disk, manifest).unwrap();
    let (layers, mut all, mut first) = (store.layers(), Scrubbed::default(), Some(first));
    let mut run = layers.scrub_from(0).unwrap();
    for _ in 0..100 {
        let step = run.step(&layers, Remedy::Restart, &AtomicBool::new(false)).unwrap();
        all.bytes += step.bytes;
        all.found.extend(step.found);
        if step.is_done {
            return all;
        }
        first.take().into_iter().for_each(|first| first());
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
    let whole = scrubbed(&good, &manifest, || {});
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
                    scrubbed(&disk, &manifest, || {})
                }
                true => scrubbed(&disk, &manifest, || harm(&disk)),
            };
            let what = format!("{name}, later: {later}: {} of {}", all.bytes, whole.bytes);
            let again = if later && name == "missing" { GROUP as usize * 2 * BLOCK } else { 0 };
            assert!(all.bytes <= whole.bytes + again as u64 * 17 / 16, "{what}");
            assert!((1..=told).contains(&all.found.len()), "{what}: {:?}", all.found);
            let after = scrubbed(&disk, &manifest, || {});
            let is_later_cut = later && name != "missing";
            assert!(is_later_cut || after.found.is_empty(), "{what}: {:?}", after.found);
            assert!(disk.contents(parity) == expected, "{what}");
        }
    }
}

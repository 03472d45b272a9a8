//! Damaged runs are repaired from their parity while they are used.

use std::ops::Range;
use std::thread;

use godwit_disk::Disk;
use godwit_fault_disk::Survival;

use super::super::entry_sum::EntrySum;
use super::super::fixtures::{Random, coin, hasher, long_coin, outpoint};
use super::super::jobs::{self, MergeJob, MergePart};
use super::super::run::format::{BLOCK, RunId};
use super::super::run::segment::{SealRange, Segment};
use super::super::stop::{Stop, WorkError};
use super::damage::run_paths;
use super::*;
use crate::error::{Damage, KeyRange, StoreError};

/// About 150 blocks of entries in each of two partitions and two runs.
const COINS: u64 = 36_000;

fn coin_at(n: u64) -> Coin {
    if n.is_multiple_of(1000) { long_coin(n, 9000) } else { coin(n) }
}

/// Two runs and their manifest.
fn two_runs() -> (FaultDisk, Manifest) {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    for n in 0..COINS {
        add(&mut store, &outpoint(n), &coin_at(n), false);
        if n == COINS / 2 {
            commit(&mut store);
        }
    }
    let manifest = commit(&mut store);
    assert_eq!(store.shape().runs, 2);
    (disk, manifest)
}

/// Looks every coin up and scans all; the number of blocks that were repaired meanwhile.
fn read_all(disk: &FaultDisk, manifest: &Manifest) -> Result<u64, StoreError> {
    let store = open(disk, manifest)?;
    let layers = store.layers();
    let keys: Vec<HashedOutPoint> = (0..COINS).map(outpoint).collect();
    let mut out = Vec::new();
    for (keys, first) in keys.chunks(1000).zip((0..).step_by(1000)) {
        layers.get_many(keys, &mut out)?;
        for (n, found) in (first..).zip(&out) {
            assert_eq!(found.as_ref(), Some(&coin_at(n)), "coin {n}");
        }
    }
    let (mut scan, mut count) = (layers.scan()?, 0);
    while scan.next()?.is_some() {
        count += 1;
    }
    assert_eq!(count, COINS);
    Ok(store.counters().repaired_blocks)
}

/// A way in which a page of a file comes to hold something else.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Bit,
    Zeros,
    Swapped,
    Stale,
    Cut,
    Missing,
}

/// Harms a file of pages at a random place. `other` is a file of the same kind.
fn harmed(good: &[u8], other: &[u8], harm: Harm, random: &mut Random) -> Option<Vec<u8>> {
    let mut bad = good.to_vec();
    let pages = (good.len() / BLOCK) as u64;
    let page = |number: u64| number as usize * BLOCK..(number as usize + 1) * BLOCK;
    let at = random.below(pages);
    match harm {
        Harm::Bit => bad[random.below(good.len() as u64) as usize] ^= 1 << random.below(8),
        Harm::Zeros => bad[page(at)].fill(0),
        Harm::Swapped => {
            let with = (at + 1 + random.below(pages - 1)) % pages;
            bad[page(at)].copy_from_slice(&good[page(with)]);
            bad[page(with)].copy_from_slice(&good[page(at)]);
        }
        Harm::Stale => {
            let at = at.min((other.len() / BLOCK) as u64 - 1);
            bad[page(at)].copy_from_slice(&other[page(at)]);
        }
        Harm::Cut => bad.truncate(random.below(good.len() as u64) as usize),
        Harm::Missing => return None,
    }
    Some(bad)
}

/// The rows of the matrix that concern runs and their parity: five places for each harm.
#[test]
fn whatever_happens_to_a_page_no_coin_is_wrong() {
    let (disk, manifest) = two_runs();
    let runs = run_paths(&disk);
    let parity = runs.iter().map(|path| path.with_extension("parity")).collect::<Vec<_>>();
    let mut random = Random(77);
    for harm in [Harm::Bit, Harm::Zeros, Harm::Swapped, Harm::Stale, Harm::Cut, Harm::Missing] {
        for (files, is_run) in [(&runs, true), (&parity, false)] {
            let mut refused = 0;
            for _ in 0..5 {
                let disk = disk.copy();
                let n = random.below(2) as usize;
                let (good, other) =
                    (disk.contents(&files[n]).unwrap(), disk.contents(&files[1 - n]).unwrap());
                match harmed(&good, &other, harm, &mut random) {
                    Some(bad) => disk.overwrite(&files[n], bad),
                    None => disk.remove(&files[n]).unwrap(),
                }
                match read_all(&disk, &manifest) {
                    Ok(0) => assert!(!is_run, "nobody noticed: {harm:?}"),
                    Ok(_) => {
                        assert_eq!(disk.contents(&files[n]), Some(good), "{harm:?}");
                        assert_eq!(read_all(&disk, &manifest), Ok(0), "{harm:?}");
                    }
                    Err(StoreError::Damaged { path, .. }) if path == files[n] => refused += 1,
                    Err(error) => panic!("{harm:?}: {error}"),
                }
            }
            match harm {
                // Damaged parity is noticed when it is needed, or by who checks it.
                _ if !is_run => assert_eq!(refused, 0, "{harm:?}"),
                Harm::Bit | Harm::Zeros | Harm::Stale => assert_eq!(refused, 0, "{harm:?}"),
                Harm::Missing => assert_eq!(refused, 5),
                // Two pages of one stripe; more than 64 pages.
                Harm::Swapped | Harm::Cut => println!("{harm:?}: {refused} of 5 refused"),
            }
        }
    }
}

fn damage(disk: &FaultDisk, path: &Path, blocks: Range<usize>) {
    let mut bytes = disk.contents(path).unwrap();
    bytes[blocks.start * BLOCK..blocks.end * BLOCK].fill(0xee);
    disk.overwrite(path, bytes);
}

#[test]
fn sixty_four_neighbours_are_repaired_wherever_they_are() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[0];
    let good = disk.contents(path).unwrap();
    let blocks = good.len() / BLOCK;
    for first in [0, 1, 63, 100, blocks - 64] {
        damage(&disk, path, first..first + 64);
        assert_eq!(read_all(&disk, &manifest), Ok(64), "from {first}");
        assert!(disk.contents(path).as_ref() == Some(&good));
    }
}

#[test]
fn one_more_is_told_with_the_coins_concerned_and_the_others_can_be_read() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[0];
    damage(&disk, path, 10..75);
    let store = open(&disk, &manifest).unwrap();
    let mut lost: Vec<KeyRange> = Vec::new();
    for key in (0..COINS).map(outpoint) {
        match store.get(&key) {
            Ok(coin) => assert!(coin.is_some()),
            Err(StoreError::Damaged { path: of, damage: Damage::Coins(keys), offset }) => {
                assert_eq!(&of, path);
                let block = offset as usize / BLOCK;
                assert!(block == 10 || block == 74, "63 others were repaired: {block}");
                assert!((keys.first..=keys.last).contains(&key.key));
                assert_eq!(key.key >> 63, u64::from(keys.partition));
                lost.push(keys);
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert_eq!(store.counters().repaired_blocks, 63);
    lost.dedup();
    assert!(!lost.is_empty() && lost.len() < 300, "{}", lost.len());
}

/// Without its last pages a run still opens, since the footer is among what parity brings back.
#[test]
fn an_end_that_is_missing_is_restored_at_open() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[1];
    let good = disk.contents(path).unwrap();
    for (missing, repaired) in [(1, 1), (BLOCK, 1), (BLOCK + 1, 2), (64 * BLOCK, 64)] {
        disk.overwrite(path, good[..good.len() - missing].to_vec());
        let store = open(&disk, &manifest).unwrap();
        assert_eq!(store.counters().repaired_blocks, repaired);
        assert!(disk.contents(path).as_ref() == Some(&good));
    }
    let len = good.len() - 64 * BLOCK - 1;
    disk.overwrite(path, good[..len].to_vec());
    let expected = StoreError::damaged(path, len as u64, Damage::Short);
    assert_eq!(open(&disk, &manifest).err(), Some(expected));
}

#[test]
fn many_readers_of_damaged_blocks_all_get_their_coins() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[0];
    let good = disk.contents(path).unwrap();
    damage(&disk, path, 5..40);
    let store = open(&disk, &manifest).unwrap();
    let layers = store.layers();
    thread::scope(|scope| {
        for thread in 0..4u64 {
            let layers = &layers;
            scope.spawn(move || {
                let mut out = Vec::new();
                for n in 0..COINS / 4 {
                    let n = (n * 4 + thread) * 7 % COINS;
                    layers.get_many(&[outpoint(n)], &mut out).unwrap();
                    assert_eq!(out[0], Some(coin_at(n)));
                }
            });
        }
    });
    assert_eq!(store.counters().repaired_blocks, 35, "each once");
    assert!(disk.contents(path).as_ref() == Some(&good));
}

/// Every operation of a repair fails once, and the power goes at that moment.
#[test]
fn a_repair_that_is_cut_short_is_done_again() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[0];
    let good = disk.contents(path).unwrap();
    damage(&disk, path, 20..22);
    let mut failures = 0;
    for n in 1.. {
        for survival in [Survival::All, Survival::Nothing, Survival::Part(n)] {
            let disk = disk.copy();
            disk.fail_change(n);
            let read = read_all(&disk, &manifest);
            if !disk.has_failed() {
                assert_eq!(read, Ok(2));
                // For each block a write and an fsync.
                assert_eq!(failures, 3 * 4);
                return;
            }
            failures += 1;
            assert!(matches!(read, Err(StoreError::Io(_) | StoreError::Closed(_))), "{read:?}");
            disk.crash(survival);
            assert!(read_all(&disk, &manifest).unwrap() <= 2);
            assert!(disk.contents(path).as_ref() == Some(&good));
        }
    }
}

/// A bad sector gives no wrong bytes but an error. Writing to it has the drive put another in its place.
#[test]
fn a_sector_that_cannot_be_read_is_written_again() {
    let (disk, manifest) = two_runs();
    let path = &run_paths(&disk)[0];
    for at in [3 * BLOCK + 512, 9 * BLOCK] {
        disk.lose_sectors(path, at as u64..at as u64 + 512);
    }
    let store = open(&disk, &manifest).unwrap();
    for n in 0..COINS {
        assert_eq!(store.get(&outpoint(n)).unwrap(), Some(coin_at(n)));
    }
    assert_eq!(store.counters().repaired_blocks, 2);
    assert!(disk.is_readable());
}

#[test]
fn a_merge_of_damaged_runs_writes_the_right_coins() {
    let disk = FaultDisk::new();
    let mut store = open(&disk, &Manifest::empty(1, &hasher())).unwrap();
    let mut manifest = Manifest::empty(1, &hasher());
    for round in 0..3 {
        (0..100).for_each(|n| add(&mut store, &outpoint(n + 100 * round), &coin(n), false));
        manifest = commit(&mut store);
    }
    drop(store);
    run_paths(&disk).iter().for_each(|path| damage(&disk, path, 0..2));
    let mut store = open(&disk, &manifest).unwrap();
    (0..100).for_each(|n| add(&mut store, &outpoint(n + 300), &coin(n), false));
    commit(&mut store);
    store.wait_merges().unwrap();
    let counters = store.counters();
    assert_eq!(counters.merges, 1);
    assert!(counters.repaired_blocks >= 3, "{counters:?}");
    assert!((0..400).all(|n| store.get(&outpoint(n)).unwrap() == Some(coin(n % 100))));
}

/// One segment of each run, newest first.
fn inputs(store: &UtxoStore) -> Vec<Arc<Segment>> {
    store.runs.partitions()[0].clone()
}

fn merge_inputs(
    store: &UtxoStore,
    inputs: Vec<Arc<Segment>>,
    with_oldest: bool,
) -> Result<Vec<Arc<Segment>>, WorkError> {
    let parts = vec![MergePart { partition: 0, inputs, with_oldest }];
    let seals = SealRange { oldest: 1, newest: 2 };
    let (run, buffer) = (RunId(77), 1 << 16);
    let job = MergeJob { run, parts, seals, buffers: (buffer, buffer), max_filter: 1 << 20 };
    jobs::merge(&store.context, job, &Stop::never())
}

/// Entries that are hidden, spent, and spent below what is merged: sums add up, and a sum that does not
/// is a fault.
#[test]
fn a_merge_accounts_for_every_entry() {
    let mut store = open(&FaultDisk::new(), &Manifest::empty(0, &hasher())).unwrap();
    (0..400).for_each(|n| add(&mut store, &outpoint(n), &coin(n), false));
    commit(&mut store);
    (0..100).for_each(|n| assert!(store.spend(&outpoint(n)).unwrap().is_some()));
    (50..60).for_each(|n| add(&mut store, &outpoint(n), &coin(n + 1), false));
    (200..210).for_each(|n| add(&mut store, &outpoint(n), &coin(n + 1), true));
    commit(&mut store);
    let all = inputs(&store);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|input| input.meta.sum.is_some()));
    for (with_oldest, entries) in [(true, 310), (false, 400)] {
        let output = merge_inputs(&store, all.clone(), with_oldest).unwrap();
        assert_eq!(output[0].meta.entries, entries);
    }
    for changed in 0..2 {
        let mut wrong = all.clone();
        let mut segment = Segment::clone(&wrong[changed]);
        segment.meta.sum = segment.meta.sum.map(|sum| sum + EntrySum(1));
        wrong[changed] = Arc::new(segment);
        let result = merge_inputs(&store, wrong.clone(), true);
        let is_told = |error| {
            matches!(error, WorkError::Failed(StoreError::Damaged { damage, .. })
                if damage == Damage::EntrySum)
        };
        assert!(result.is_err_and(is_told));
        // A run of schema 1 has no sum, and nothing to compare.
        let mut segment = Segment::clone(&wrong[changed]);
        segment.meta.sum = None;
        wrong[changed] = Arc::new(segment);
        let output = merge_inputs(&store, wrong, true).unwrap();
        assert!(output[0].meta.sum.is_some());
    }
}

/// `cargo test --release -p godwit-store -- --ignored --nocapture sum_and_parity_speed`
///
/// The quickest of many short rounds, so that others on the machine do not count.
#[test]
#[ignore = "a measurement"]
fn sum_and_parity_speed() {
    use super::super::entry::{CoinParts, Entry, whole};
    use super::super::entry_sum::EntryHasher;
    use super::super::run::parity::xor_into;
    const ENTRIES: u32 = 5_000;
    let quickest = |work: &mut dyn FnMut()| {
        let rounds = (0..300).map(|_| {
            let started = std::time::Instant::now();
            work();
            started.elapsed()
        });
        rounds.min().expect("some rounds")
    };
    let hasher = EntryHasher::new(&hasher());
    let mut bytes = Vec::new();
    for n in 0..u64::from(ENTRIES) {
        let Coin { value, script_pubkey, height, coinbase } = &coin(n);
        let parts = CoinParts {
            value: *value,
            script: script_pubkey,
            height: *height,
            coinbase: *coinbase,
        };
        bytes.extend_from_slice(&whole::coin(&outpoint(n).outpoint, false, parts));
    }
    let mut sum = EntrySum::default();
    let terms = quickest(&mut || {
        let mut rest = &bytes[..];
        while let Some(entry) = Entry::first_of(rest) {
            sum += hasher.term(entry);
            rest = &rest[entry.bytes().len()..];
        }
    });
    println!("{:?} an entry, of {} bytes: {sum:?}", terms / ENTRIES, bytes.len() as u32 / ENTRIES);
    let (mut parity, blocks) = (vec![[0u8; BLOCK]; 64], vec![[1u8; BLOCK]; 64]);
    let each = quickest(&mut || {
        parity.iter_mut().zip(&blocks).for_each(|(parity, block)| xor_into(parity, block));
    });
    println!("{:?} for the parity of a block, {:?}", each / 64, parity[3][..2].to_vec());
}

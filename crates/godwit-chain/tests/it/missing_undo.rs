//! Undo records that the index lacks: which ones a start finds without the database, and what makes the
//! others again.

use std::path::Path;

use godwit_fault_disk::{FaultDisk, Survival};
use godwit_sim::blocks::mined;
use godwit_store::Rebuild;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;

use crate::datadir::{clock, submit};
use crate::inspect::{Notes, run_within, verify};
use crate::pruned_branches::{branch, coinbase, spending};
use crate::pruning::{BLOCKS, DIR, hash, header, open, stats_of, submit_all};
use crate::reindex::{
    CONNECTED, FILE_SIZE, contents, database, rebuilding, start, without_undo_files,
};

/// Height of two siblings, below the tip: what they spend is old enough there.
const HEIGHT: u32 = 261;

fn remedies(disk: &FaultDisk, repair: bool) -> Vec<Remedy> {
    verify(disk, repair).1.iter().map(|found| found.remedy).collect()
}

#[test]
fn c5_missing_undo_records_are_made_again_by_the_commands_that_verify_names() {
    let disk = without_undo_files();
    open(&disk, None, FILE_SIZE).close().unwrap();
    assert_eq!(remedies(&disk, false), [Remedy::Repair]);
    let repaired = disk.copy();
    assert_eq!(remedies(&repaired, true), [Remedy::Done]);
    assert_eq!(verify(&repaired, false).1, []);
    let fork = 125;
    let mut chain = open(&repaired, None, FILE_SIZE);
    chain.invalidate_block(&hash(&BLOCKS[fork])).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..fork]));
    chain.reconsider_block(&hash(&BLOCKS[fork])).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..CONNECTED]));
    // What is named where a repair leaves some.
    let left = Remedy::WhenDisconnected.to_string();
    assert!(left.contains("; `godwit -reindex-chainstate` makes all of them"), "{left}");
    let mut chain = start(&disk, FILE_SIZE, rebuilding(Rebuild::Coins)).unwrap();
    chain.settle(clock()).unwrap();
    chain.close().unwrap();
    assert_eq!(verify(&disk, false).1, []);
}

/// A chain with two siblings of the same shape, of which the first one was left, without its database.
struct Siblings {
    disk: FaultDisk,
    below: Vec<Vec<u8>>,
    siblings: [Vec<u8>; 2],
    active: Vec<Vec<u8>>,
}

/// Each of the two spends the coinbase of the block at this place of those below, above block 150.
fn siblings(spent: [usize; 2]) -> Siblings {
    let mut below = BLOCKS[..150].to_vec();
    below.extend(branch(&below, 150, HEIGHT - 151));
    let before = header(below.last().unwrap());
    let siblings = [(1, spent[0]), (2, spent[1])].map(|(later, spent)| {
        let time = before.time + later;
        let txs = [coinbase(0, HEIGHT, time), spending(&below[spent])];
        mined(before.block_hash(), time, &txs)
    });
    let with_second = [&below[..], &siblings[1..]].concat();
    let active = [&with_second[..], &branch(&with_second, HEIGHT, 1)].concat();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, 1 << 27);
    submit_all(&mut chain, &below);
    submit_all(&mut chain, &siblings[..1]);
    for block in &active[below.len()..] {
        submit(&mut chain, block);
    }
    assert_eq!(chain.tip_point().hash, hash(active.last().unwrap()), "the other one was left");
    chain.flush().unwrap();
    chain.close().unwrap();
    disk.remove(&database()).unwrap();
    Siblings { disk, below, siblings, active }
}

impl Siblings {
    /// Whether each block up to the tip has its undo record, as far as it is known without searching.
    fn undo(disk: &FaultDisk) -> Vec<bool> {
        contents(disk).0.iter().map(|(.., undo)| undo.is_some()).collect()
    }

    /// That nothing is missing, and that the second sibling is disconnected as it was connected.
    fn check(&self, disk: &FaultDisk) {
        assert_eq!(verify(disk, false).1, []);
        assert_eq!(Self::undo(disk), vec![true; self.active.len()]);
        let mut chain = open(disk, None, FILE_SIZE);
        chain.settle(clock()).unwrap();
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&self.active));
        chain.invalidate_block(&hash(&self.siblings[1])).unwrap();
        chain.settle(clock()).unwrap();
        let expected = stats_of(&[&self.below[..], &self.siblings[..1]].concat());
        assert_eq!(chain.utxo_stats().unwrap(), expected);
    }
}

/// As a reorganisation leaves them between two blocks that were made of the same mempool.
#[test]
fn c5_undo_records_of_siblings_that_spend_the_same_are_found_without_the_database() {
    let siblings = siblings([150, 150]);
    assert_eq!(Siblings::undo(&siblings.disk), vec![true; siblings.active.len()]);
    siblings.check(&siblings.disk);
}

/// The records say nothing of which of the two they are.
#[test]
fn c5_the_undo_record_of_one_of_two_siblings_that_spend_other_coins_is_made_again_by_a_repair() {
    let siblings = siblings([150, 151]);
    let path = Path::new(DIR).join("blocks/rev00000.dat");
    let before = siblings.disk.contents(&path).unwrap();
    for started in [false, true] {
        let disk = siblings.disk.copy();
        if started {
            let mut expected = vec![true; siblings.active.len()];
            expected[HEIGHT as usize - 1] = false;
            assert_eq!(Siblings::undo(&disk), expected);
            assert_eq!(remedies(&disk, false), [Remedy::Repair]);
        }
        let remedies = remedies(&disk, true);
        assert!(!remedies.is_empty(), "{started}");
        assert!(remedies.iter().all(|remedy| *remedy == Remedy::Done), "{started}: {remedies:?}");
        let now = disk.contents(&path).unwrap();
        assert!(now.starts_with(&before), "{started}: what was there stays");
        siblings.check(&disk);
    }
}

/// Every operation of the repair fails once, and the power goes at that moment.
#[test]
fn c5_a_repair_that_adds_undo_records_may_be_cut_short_anywhere() {
    let before = siblings([150, 151]).disk;
    open(&before, None, FILE_SIZE).close().unwrap();
    let mut failures = 0;
    for n in 1.. {
        let disk = before.copy();
        disk.fail_change(n);
        let repaired = run_within(4 << 20, &disk, true, &mut Notes::default());
        if !disk.has_failed() {
            repaired.unwrap();
            break;
        }
        failures += 1;
        disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
        verify(&disk, true);
        assert_eq!(verify(&disk, false).1, [], "operation {n}");
    }
    println!("{failures} operations failed, one after the other");
    assert!(failures > 5, "{failures}");
}

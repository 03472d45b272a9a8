//! The scrub of a chain that is open: what is damaged at rest is found, and repaired where it can be.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::never;
use godwit_chain::{
    Chain, ChainError, CoinsMemory, Event, Poll, SCRUB_BYTES_PER_SECOND, ScrubStatus, UtxoStats,
};
use godwit_fault_disk::FaultDisk;
use godwit_primitives::BlockHash;
use godwit_primitives::network::{Network, Params};
use godwit_sim::blocks::mined;
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::inspect::Found;
use godwit_store::{ScrubPlace, UndoPosition};
use godwit_stream::{DataStream, PooledStream};

use crate::damage::{HARMS, Harm, files, harmed};
use crate::datadir::{clock, options, submit_at};
use crate::inspect::{refusal, verify};
use crate::pruned_branches::{branch, coinbase, empty_block, spending};
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, hash, header, stats_of, submit_all};
use crate::reindex::{FILE_SIZE, database, datadir};

/// Seconds between two passes, and more.
const MONTH: i64 = 31 * 24 * 60 * 60;

const PLACES: usize = 1;

/// At a time that is long after every block, so that the scrub does not begin.
fn open(disk: &FaultDisk, prune: Option<u64>, size: u32) -> Chain {
    open_with_rate(disk, prune, size, SCRUB_BYTES_PER_SECOND)
}

fn open_with_rate(disk: &FaultDisk, prune: Option<u64>, size: u32, rate: u64) -> Chain {
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(4 << 20);
    (options.prune_bytes, options.scrub) = (prune, Some(rate));
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let opened = Chain::open_with_file_size(disk, DIR.into(), options, [7; 16], clock(), size);
    let mut chain = opened.expect("a datadir");
    chain.expect_copies();
    chain.settle(clock()).expect("no fault");
    chain
}

/// Whoever drives a chain, fetches what it has lost, and looks at the clock once a second.
struct Driver {
    chain: Chain,
    now: i64,
    /// What peers have.
    copies: HashMap<BlockHash, Vec<u8>>,
    /// Peers send nothing.
    alone: bool,
    lost: Vec<BlockHash>,
}

impl Driver {
    fn new(chain: Chain, blocks: &[Vec<u8>]) -> Self {
        let now = i64::from(chain.tree().node(chain.tip()).header.time) + 3_600;
        let copies = blocks.iter().map(|block| (hash(block), block.clone())).collect();
        Self { chain, now, copies, alone: false, lost: Vec::new() }
    }

    fn scrub(&self) -> ScrubStatus {
        self.chain.status().scrub
    }

    fn place(&self) -> Option<ScrubPlace> {
        self.scrub().pass.map(|pass| pass.place)
    }

    /// Until nothing is left to do at this time, jobs of the scrub aside.
    fn settle(&mut self) {
        loop {
            let mut poll = self.chain.poll(self.now).expect("no fault");
            for event in self.chain.take_events() {
                if let Event::Lost { hash } = event {
                    self.lost.push(hash);
                    if !self.alone {
                        self.send(hash);
                    }
                    poll = Poll::Progress;
                }
            }
            match poll {
                Poll::Progress => {}
                Poll::Waiting => self.chain.wait_with(&never::<()>(), Duration::from_millis(20)),
                Poll::Idle => return,
            }
        }
    }

    fn send(&mut self, hash: BlockHash) {
        let bytes = DataStream::from(&self.copies[&hash][..]);
        self.chain.receive_block(PooledStream::from(bytes), 0);
    }

    /// A second goes by; whatever the scrub reads meanwhile is read.
    fn second(&mut self) {
        self.settle();
        let before = self.scrub();
        self.chain.wait_with(&never::<()>(), Duration::from_millis(1));
        self.settle();
        self.now += i64::from(self.scrub() == before);
    }

    fn run_until(&mut self, done: impl Fn(&Self) -> bool) {
        for _ in 0..20_000 {
            if done(self) {
                return;
            }
            self.second();
        }
        panic!("{:?} at {}", self.scrub(), self.now);
    }

    /// The pass that is due or goes on, to its end.
    fn pass(&mut self) -> ScrubStatus {
        self.settle();
        self.run_until(|driver| driver.place() == Some(ScrubPlace::Done));
        self.scrub()
    }

    /// A pass that is not due by the clock but by what it was set to.
    fn another_pass(&mut self) -> ScrubStatus {
        self.now -= MONTH;
        let before = self.scrub();
        self.run_until(|driver| driver.scrub().pass != before.pass);
        let after = self.pass();
        ScrubStatus {
            bytes: after.bytes - before.bytes,
            repaired: after.repaired - before.repaired,
            lost: after.lost - before.lost,
            left: after.left - before.left,
            ..after
        }
    }

    fn stats(&mut self) -> UtxoStats {
        self.chain.utxo_stats().expect("no fault")
    }
}

fn harm(disk: &FaultDisk, old: &FaultDisk, path: &Path, harm: Harm, rng: &mut Rng) -> bool {
    let good = disk.contents(path).expect("a file");
    let bad = harmed(&good, &old.contents(path).unwrap_or_default(), harm, rng);
    let differs = bad.as_ref() != Some(&good);
    match bad {
        Some(bad) => disk.overwrite(path, bad),
        None => disk.remove(path).expect("a file"),
    }
    differs
}

/// What is not repaired: coins that no parity brings back, and the database, of which the node has in memory
/// what it needs.
fn may_be_left(kind: &str, harm: Harm) -> bool {
    match kind {
        "godwit.redb" => true,
        ".run" => matches!(harm, Harm::Missing | Harm::Foreign),
        _ => false,
    }
}

#[test]
fn c5_each_damage_at_rest_is_found_and_repaired_while_the_node_runs() {
    let (good, old) = (datadir(false), datadir(true));
    let rng = &mut Rng::new(14);
    for (kind, paths) in files(&good) {
        if ["godwit.damaged", "peers.dat"].contains(&&kind[..]) {
            continue;
        }
        for how in HARMS {
            for _ in 0..PLACES {
                let disk = good.copy();
                let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
                let expected = driver.stats();
                let first = driver.pass();
                assert_eq!((first.repaired, first.lost, first.left), (0, 0, 0), "{kind}");
                let path = &paths[rng.below(paths.len() as u64) as usize];
                let differs = harm(&disk, &old, path, how, rng);
                let found = driver.another_pass();
                let what = format!("{how:?} of {}: {found:?}", path.display());
                println!("{what}");
                let any = found.repaired + found.lost + found.left;
                // Not every byte of these says anything.
                let is_whole =
                    matches!(how, Harm::Missing | Harm::Cut | Harm::Zeros | Harm::Foreign);
                let may_be_nothing =
                    ["godwit.redb", "godwit.control"].contains(&&kind[..]) && !is_whole;
                assert!(any > 0 || !differs || may_be_nothing, "{what}");
                assert!(found.left == 0 || may_be_left(&kind, how), "{what}");
                assert_eq!(found.lost, driver.lost.len() as u64, "{what}");
                if found.left == 0 {
                    let again = driver.another_pass();
                    assert_eq!((again.repaired, again.lost, again.left), (0, 0, 0), "{what}");
                    assert_eq!(driver.stats(), expected, "{what}");
                }
                driver.chain.close().expect("no fault");
                if kind == "godwit.redb" {
                    let mut chain = open(&disk, None, FILE_SIZE);
                    assert_eq!(chain.utxo_stats().expect("no fault"), expected, "{what}");
                } else if found.left == 0 {
                    assert_eq!(verify(&disk, false).1, [], "{what}");
                }
            }
        }
    }
}

/// Blocks of which an undo record is made again have rotted as well.
#[test]
fn c5_undo_records_are_made_again_also_of_blocks_that_are_fetched() {
    let disk = datadir(false);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    let expected = driver.stats();
    driver.pass();
    let paths = files(&disk);
    let rng = &mut Rng::new(3);
    for kind in ["rev.dat", "blk.dat"] {
        paths[kind].iter().for_each(|path| assert!(harm(&disk, &disk, path, Harm::Bit, rng)));
    }
    paths["rev.dat"].iter().for_each(|path| assert!(harm(&disk, &disk, path, Harm::Missing, rng)));
    let found = driver.another_pass();
    assert!(found.lost > 0 && found.repaired > 20 && found.left == 0, "{found:?}");
    driver.chain.close().expect("no fault");
    assert_eq!(verify(&disk, false).1, []);
    assert_eq!(Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS).stats(), expected);
}

/// A pruned chain, and the heights of two of its blocks that are kept: one spends what a kept block has
/// created, and the one above it what a pruned one has.
fn pruned() -> (FaultDisk, Vec<Vec<u8>>, [u32; 2]) {
    let mut blocks = BLOCKS[..150].to_vec();
    blocks.extend(branch(&blocks, 150, 300));
    let mut add = |created: usize| {
        let (height, before) = (blocks.len() as u32 + 1, header(blocks.last().unwrap()));
        let txs = [coinbase(0, height, before.time), spending(&blocks[created - 1])];
        blocks.push(mined(before.block_hash(), before.time + 1, &txs));
        height
    };
    let heights = [add(200), add(155)];
    blocks.extend(branch(&blocks, blocks.len() as u32, 8));
    let disk = FaultDisk::new();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &blocks);
    chain.flush().expect("no fault");
    assert!((160..200).contains(&chain.prune_height()), "{}", chain.prune_height());
    chain.close().expect("no fault");
    (disk, blocks, heights)
}

fn undo_of(chain: &Chain, height: u32) -> (PathBuf, UndoPosition) {
    let id = chain.tree().ancestor(chain.tip(), height).expect("it is below the tip");
    let undo = chain.tree().node(id).undo.expect("it was connected");
    (Path::new(DIR).join(format!("blocks/rev{:05}.dat", undo.file)), undo)
}

/// The one that can be made again is, and the other one is named with the way out.
#[test]
fn c5_of_a_pruned_chain_s_undo_records_those_are_made_again_whose_coins_come_of_stored_blocks() {
    let (disk, blocks, all) = pruned();
    for heights in [&all[..], &all[..1], &all[1..]] {
        let disk = disk.copy();
        let mut driver = Driver::new(open(&disk, Some(1), ONE_BLOCK), &blocks);
        driver.pass();
        let good: Vec<(PathBuf, Vec<u8>)> = heights
            .iter()
            .map(|height| {
                let (path, undo) = undo_of(&driver.chain, *height);
                let good = disk.contents(&path).expect("a file");
                let mut bytes = good.clone();
                bytes[undo.offset as usize] ^= 1;
                disk.overwrite(&path, bytes);
                (path, good)
            })
            .collect();
        let found = driver.another_pass();
        let is_left = |height: u32| height == all[1];
        let left = heights.iter().filter(|height| is_left(**height)).count();
        let repaired = heights.len() - left;
        assert_eq!((found.repaired, found.left), (repaired as u64, left as u64), "{heights:?}");
        for (height, (path, good)) in heights.iter().zip(&good) {
            assert_eq!(disk.contents(path).as_ref() != Some(good), is_left(*height), "{height}");
        }
        driver.chain.close().expect("no fault");
        let named = verify(&disk, false).1;
        let named: Vec<Remedy> = named.iter().map(|found| found.remedy).collect();
        assert_eq!(named, vec![Remedy::RepairWhereStored; left]);
    }
}

/// So does a repair, at once.
#[test]
fn c5_verify_makes_those_undo_records_again_whose_coins_come_of_stored_blocks() {
    let (disk, _, heights) = pruned();
    let chain = open(&disk, Some(1), ONE_BLOCK);
    let places = heights.map(|height| undo_of(&chain, height));
    chain.close().expect("no fault");
    let goods = places.clone().map(|(path, undo)| {
        let good = disk.contents(&path).expect("a file");
        let mut bytes = good.clone();
        bytes[undo.offset as usize] ^= 1;
        disk.overwrite(&path, bytes);
        good
    });
    let remedies = |repair| -> Vec<(bool, Remedy)> {
        let of_first = |found: &Found| (found.path == places[0].0, found.remedy);
        verify(&disk, repair).1.iter().map(of_first).collect()
    };
    let named = remedies(false);
    assert_eq!(named.len(), 2, "{named:?}");
    assert!(named.iter().all(|(_, remedy)| *remedy == Remedy::RepairWhereStored), "{named:?}");
    for (repair, expected) in [
        (true, &[(true, Remedy::Done), (false, Remedy::LacksCoins)][..]),
        (true, &[(false, Remedy::LacksCoins)]),
        (false, &[(false, Remedy::RepairWhereStored)]),
    ] {
        assert_eq!(remedies(repair), expected);
    }
    for (n, (path, _)) in places.iter().enumerate() {
        assert_eq!(disk.contents(path).as_ref() == Some(&goods[n]), n == 0);
    }
}

/// The record that can be made again would be written over the one that is nowhere else.
#[test]
fn c5_of_undo_files_that_changed_their_names_no_record_is_written_over() {
    let (disk, blocks, heights) = pruned();
    let mut driver = Driver::new(open(&disk, Some(1), ONE_BLOCK), &blocks);
    driver.pass();
    let [first, second] = heights.map(|height| undo_of(&driver.chain, height).0);
    let [of_first, of_second] = [&first, &second].map(|path| disk.contents(path).expect("a file"));
    disk.overwrite(&first, of_second.clone());
    disk.overwrite(&second, of_first.clone());
    let found = driver.another_pass();
    assert_eq!((found.repaired, found.left), (0, 2), "{found:?}");
    driver.chain.close().expect("no fault");
    let refused = refusal(&disk).to_string();
    assert!(refused.contains("has the records of /node/blocks/rev"), "{refused}");
    assert_eq!(disk.contents(&first), Some(of_second.clone()));
    assert_eq!(disk.contents(&second), Some(of_first.clone()));
    disk.overwrite(&first, of_first);
    disk.overwrite(&second, of_second);
    assert_eq!(verify(&disk, true).1, []);
}

/// The index that was made again does not know the record at all.
#[test]
fn c5_an_undo_record_that_is_nowhere_and_cannot_be_made_again_is_named_with_its_file() {
    let (disk, blocks, [_, height]) = pruned();
    let path = undo_of(&open(&disk, None, ONE_BLOCK), height).0;
    disk.remove(&path).expect("a file");
    disk.remove(&database()).expect("a file");
    let mut chain = open(&disk, None, ONE_BLOCK);
    let block = hash(&blocks[height as usize - 1]);
    chain.invalidate_block(&block).expect("it is known");
    let error = chain.settle(clock()).expect_err("its coins are nowhere");
    let text = error.to_string();
    assert!(text.contains("was not found in /node/blocks/rev"), "{text}");
    let ChainError::LostUndo { hash: named, height: at, path: file, offset } = error else {
        panic!("{text}")
    };
    assert_eq!((named, at, file, offset), (block, height, path, None));
}

#[test]
fn a_pass_keeps_its_pace_and_begins_again_after_a_month() {
    const RATE: u64 = 16 << 10;
    let disk = datadir(false);
    let mut driver = Driver::new(open_with_rate(&disk, None, FILE_SIZE, RATE), &BLOCKS);
    let began = driver.now;
    let (mut before, mut jobs) = (0, 0);
    driver.settle();
    while driver.place() != Some(ScrubPlace::Done) {
        driver.second();
        let bytes = driver.scrub().bytes;
        if bytes != before {
            // What a job reads at once comes in front of its rest.
            let seconds = (driver.now - began).unsigned_abs();
            assert!(before <= RATE * seconds, "{before} in {seconds} s");
            (before, jobs) = (bytes, jobs + 1);
        }
        assert!(driver.now < began + 10_000, "{:?}", driver.scrub());
    }
    let stored: u64 = files(&disk).values().flatten().map(|path| len(&disk, path)).sum();
    let all = driver.scrub().bytes;
    assert!(all > stored * 9 / 10 && all < stored * 2, "{all} of {stored}");
    assert!(jobs > 20, "{jobs}");
    // Nothing is read before a month is over, though the tip is a recent one.
    let days = 24 * 60 * 60;
    for (later, is_due) in [(30 * days - 1_000, false), (30 * days, true)] {
        driver.now = began + later;
        let tip = driver.chain.tip_point();
        let new = empty_block(tip.hash, tip.height + 1, driver.now as u32);
        submit_at(&mut driver.chain, &new, driver.now);
        driver.chain.flush().expect("no fault");
        for _ in 0..500 {
            driver.second();
        }
        assert_eq!(driver.scrub().bytes > all, is_due, "{later}");
    }
    driver.pass();
}

fn len(disk: &FaultDisk, path: &Path) -> u64 {
    disk.contents(path).map_or(0, |bytes| bytes.len() as u64)
}

#[test]
fn nothing_is_read_while_there_is_something_to_synchronise() {
    let disk = datadir(false);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    let day = 24 * 60 * 60;
    let now = driver.now;
    let quiet = |driver: &mut Driver| {
        (0..20).for_each(|_| driver.second());
        driver.scrub()
    };
    driver.now = now + day;
    assert_eq!(quiet(&mut driver), ScrubStatus::default(), "the tip is old");
    driver.now = now;
    let tip = driver.chain.tip_point().height;
    let next = branch(&BLOCKS[..tip as usize], tip, 1).pop().expect("one");
    let new = header(&next);
    driver.chain.accept_header(&new, new.block_hash(), now).expect("a good header");
    assert_eq!(quiet(&mut driver), ScrubStatus::default(), "a block is missing");
    submit_at(&mut driver.chain, &next, driver.now);
    let found = driver.pass();
    assert!(found.bytes > 0 && found.left == 0, "{found:?}");
}

#[test]
fn a_restart_goes_on_where_the_last_pass_was() {
    let disk = datadir(false);
    let whole = Driver::new(open(&disk.copy(), None, FILE_SIZE), &BLOCKS).pass().bytes;
    let (mut restarts, mut bytes) = (0, 0);
    loop {
        let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
        let before = driver.place();
        driver.run_until(|driver| {
            let moved = driver.place() != before && driver.scrub().bytes > 0;
            moved || driver.place() == Some(ScrubPlace::Done)
        });
        let (place, found) = (driver.place(), driver.scrub());
        bytes += found.bytes;
        assert_eq!((found.repaired, found.lost, found.left), (0, 0, 0));
        driver.chain.close().expect("no fault");
        if place == Some(ScrubPlace::Done) {
            break;
        }
        restarts += 1;
        assert!(restarts < 100, "{place:?}");
    }
    assert!(restarts >= 3, "{restarts}");
    assert!(bytes <= whole * 2, "{bytes}, {whole} in one");
}

#[test]
fn what_is_pruned_meanwhile_is_no_damage() {
    let disk = FaultDisk::new();
    let first = &BLOCKS[..320];
    let mut driver = Driver::new(open(&disk, Some(1), ONE_BLOCK), &BLOCKS);
    driver.now = i64::from(header(BLOCKS.last().expect("blocks")).time);
    for block in first {
        submit_at(&mut driver.chain, block, driver.now);
    }
    driver.chain.take_events();
    let end = std::mem::replace(&mut driver.now, i64::from(header(&BLOCKS[319]).time) + 3_600);
    driver.run_until(|driver| matches!(driver.place(), Some(ScrubPlace::Blocks { .. })));
    driver.now = end;
    for block in &BLOCKS[320..] {
        // A job of the scrub may be out.
        driver.chain.poll(driver.now).expect("no fault");
        submit_at(&mut driver.chain, block, driver.now);
        driver.chain.flush().expect("no fault");
    }
    driver.chain.take_events();
    assert!(driver.chain.prune_height() > 0);
    let found = driver.pass();
    assert_eq!((found.repaired, found.lost, found.left), (0, 0, 0));
    assert_eq!(driver.stats(), stats_of(&BLOCKS));
}

/// A job that was out had read a part at most.
#[test]
fn what_was_not_read_when_a_node_ended_is_read_in_the_next_life() {
    let disk = datadir(false);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    // The length of the database changes from life to life.
    driver.run_until(|driver| matches!(driver.place(), Some(ScrubPlace::Blocks { .. })));
    driver.chain.close().expect("no fault");
    let whole = Driver::new(open(&disk.copy(), None, FILE_SIZE), &BLOCKS).pass().bytes;
    let mut bytes = 0;
    for life in 0..40 {
        let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
        (0..life % 4).for_each(|_| driver.second());
        driver.now += 60;
        driver.chain.poll(driver.now).expect("no fault");
        bytes += driver.scrub().bytes;
        driver.chain.close().expect("no fault");
    }
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    bytes += driver.pass().bytes;
    assert!(bytes >= whole, "{bytes} of {whole}");
}

/// What is known of damage is known in memory only.
#[test]
fn c5_damage_that_was_not_repaired_when_a_node_ended_is_found_in_the_next_life() {
    let disk = datadir(false);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    let expected = driver.stats();
    driver.pass();
    let (paths, rng) = (files(&disk), &mut Rng::new(7));
    assert!(harm(&disk, &disk, &paths["rev.dat"][1], Harm::Bit, rng));
    assert!(harm(&disk, &disk, &paths["blk.dat"][0], Harm::Bit, rng));
    driver.alone = true;
    driver.now -= MONTH;
    driver.run_until(|driver| {
        let is_beyond = matches!(driver.place(), Some(ScrubPlace::Runs { .. } | ScrubPlace::Undo));
        is_beyond && driver.lost.len() == 1
    });
    let found = driver.scrub();
    assert_eq!((found.repaired, found.lost, found.left), (0, 1, 0));
    driver.chain.close().expect("no fault");
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    assert!(matches!(driver.place(), Some(ScrubPlace::Blocks { .. })), "{:?}", driver.place());
    driver.now -= MONTH;
    let found = driver.pass();
    assert_eq!((found.repaired, found.lost, found.left), (1, 1, 0));
    driver.chain.close().expect("no fault");
    assert_eq!(verify(&disk, false).1, []);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    assert_eq!(driver.place(), Some(ScrubPlace::Done), "nothing is left to find");
    assert_eq!(driver.stats(), expected);
}

#[test]
fn no_more_than_64_blocks_are_asked_of_peers_at_a_time() {
    let disk = datadir(false);
    let mut driver = Driver::new(open(&disk, None, FILE_SIZE), &BLOCKS);
    driver.pass();
    for path in &files(&disk)["blk.dat"] {
        disk.overwrite(path, vec![0; len(&disk, path) as usize]);
    }
    driver.alone = true;
    driver.now -= MONTH;
    driver.run_until(|driver| driver.lost.len() >= 64);
    (0..100).for_each(|_| driver.second());
    assert_eq!(driver.lost.len(), 64);
    driver.alone = false;
    driver.lost.clone().into_iter().for_each(|hash| driver.send(hash));
    let found = driver.pass();
    assert!(found.lost >= 149 && found.left == 0, "{found:?}");
    assert_eq!(found.lost, driver.lost.len() as u64, "each once");
    driver.chain.close().expect("no fault");
    assert_eq!(verify(&disk, false).1, []);
}

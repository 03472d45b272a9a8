//! States that a power cut could leave of an import, as it was recorded at the disk seam: the real engine on
//! the real disk and on threads, with flushes, merges and pruning. Each is opened by the real store and
//! chain, has what commits had made durable, and goes on to the same coins.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{Chain, CoinsMemory, MIN_BLOCKS_TO_KEEP, UtxoStats, Verdict};
use godwit_fault_disk::{FaultDisk, Recorder, Recording, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use godwit_sim::rng::Rng;
use godwit_store::disk::{Disk, RealDisk};
use godwit_store::utxo::CacheMinima;

use crate::datadir::{clock, import_file, options, submit};
use crate::pruning::{check_kept, hash};

/// Cuts in the test of every build.
const CUTS: u64 = 120;
const SOAK_CUTS: u64 = 6_000;
/// Of these, one in so many is written into a directory and opened there.
const REAL: u64 = 16;

const FILE_SIZE: u32 = 60_000;
const PRUNE_TO: u64 = 400_000;
/// So little that a few blocks make a flush.
const CACHE: CacheMinima =
    CacheMinima { budget: 192 << 10, active: 80 << 10, io_buffer: 4 << 10, arena_step: 4 << 10 };

/// What was durable at an instant, by the chain's own word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Durable {
    at: u64,
    verified: u32,
    coins: u32,
}

/// An import, and what is to come of it.
struct Import {
    blocks: Vec<Vec<u8>>,
    dir: PathBuf,
    recording: Recording,
    instants: u64,
    durable: Vec<Durable>,
    expected: UtxoStats,
}

fn blocks() -> Vec<Vec<u8>> {
    generated(&ChainPlan { block_weight: 60_000, empty_tail: 300, ..ChainPlan::small(8) })
}

fn open(disk: Arc<dyn Disk>, dir: &Path) -> Chain {
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(CACHE.budget);
    options.cache_minima = CACHE;
    options.prune_bytes = Some(PRUNE_TO);
    let chain =
        Chain::open_with_file_size(disk, dir.to_owned(), options, [7; 16], clock(), FILE_SIZE);
    chain.unwrap_or_else(|error| panic!("{}: {error}", dir.display()))
}

/// Times that an import is recorded: how often it commits depends on how fast the disk is at the moment, and
/// beside other tests one of some dozens commits too seldom.
const RECORDED: usize = 5;

/// Imports a chain onto a disk that is recorded, with enough commits.
fn record() -> Import {
    let blocks = blocks();
    let enough = |import: &Import| import.durable.len() > 5;
    let found = (0..RECORDED).map(|_| record_once(&blocks)).find(enough);
    found.expect("an import with more than four commits")
}

fn record_once(blocks: &[Vec<u8>]) -> Import {
    let temp = tempfile::tempdir().unwrap();
    let (dir, file) = (temp.path().join("node"), temp.path().join("blocks.dat"));
    let magic = Params::new(Network::Regtest).magic;
    let frames = blocks
        .iter()
        .flat_map(|block| [&magic[..], &(block.len() as u32).to_le_bytes(), block].concat());
    std::fs::write(&file, frames.collect::<Vec<u8>>()).unwrap();
    let recorder = Recorder::new(Arc::new(RealDisk));
    let mut durable = vec![Durable::default()];
    let mut chain = open(Arc::new(recorder.clone()), &dir);
    let (_, bad) = import_file(&mut chain, &file, |chain, _| {
        let status = chain.status();
        let (verified, coins) = (status.verified_durable.height, status.coins_durable.height);
        let last = durable.last().expect("one is there");
        if (last.verified, last.coins) != (verified, coins) {
            durable.push(Durable { at: recorder.instant(), verified, coins });
        }
    });
    assert!(bad.is_empty(), "{bad:?}");
    let counters = chain.utxo().counters();
    let expected = chain.utxo_stats().unwrap();
    assert_eq!(expected.tip.height as usize, blocks.len());
    let lowest = chain.prune_height();
    eprintln!("{counters:?}, {} commits, pruned below {lowest}", durable.len());
    assert!(counters.flushes >= 5 && counters.merges >= 1, "{counters:?}");
    assert!(lowest > 50, "{lowest}");
    chain.close().unwrap();
    let (instants, recording) = (recorder.instant(), recorder.recording());
    Import { blocks: blocks.to_vec(), dir, recording, instants, durable, expected }
}

/// What must have survived, and the same coins in the end.
fn check(import: &Import, disk: Arc<dyn Disk>, dir: &Path, durable: Durable, context: &str) {
    let mut chain = open(Arc::clone(&disk), dir);
    let status = *chain.status();
    let found = (status.verified_durable.height, status.coins_durable.height);
    assert!(found.0 >= durable.verified && found.1 >= durable.coins, "{context}: {found:?}");
    chain.settle(clock()).unwrap_or_else(|error| panic!("{context}: {error}"));
    let tip = chain.tip_point();
    assert!(tip.height >= durable.verified, "{context}: {tip:?}");
    for block in &import.blocks[tip.height as usize..] {
        if chain
            .tree()
            .find(&hash(block))
            .is_some_and(|id| chain.tree().is_ancestor(id, chain.tip()))
        {
            continue;
        }
        let verdict = submit(&mut chain, block);
        assert!(
            matches!(verdict, Verdict::Connected | Verdict::Duplicate),
            "{context}: {verdict:?}"
        );
    }
    let stats = chain.utxo_stats().unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(stats, import.expected, "{context}");
    chain.close().unwrap_or_else(|error| panic!("{context}: {error}"));
    let mut chain = open(Arc::clone(&disk), dir);
    assert_eq!(chain.status().coins_durable, import.expected.tip, "{context}");
    assert!(chain.prune_height() as usize <= import.blocks.len() - MIN_BLOCKS_TO_KEEP as usize + 1);
    check_kept(&mut chain, &*disk, dir);
}

/// Writes what is on a simulated disk into a directory.
fn write_out(disk: &FaultDisk, from: &Path, to: &Path) {
    for path in disk.paths() {
        let place = to.join(path.strip_prefix(from).expect("nothing is elsewhere"));
        std::fs::create_dir_all(place.parent().expect("a file lies in a directory")).unwrap();
        std::fs::write(place, disk.contents(&path).expect("it is there")).unwrap();
    }
}

/// One power cut, decided by its number.
fn cut(import: &Import, turning_points: &[u64], n: u64) {
    let rng = &mut Rng::new(n);
    // Half of them around what something depends on.
    let at = match rng.chance(500) {
        true => rng.between(1, import.instants),
        false => {
            let turn = turning_points[rng.below(turning_points.len() as u64) as usize];
            (turn + rng.below(8)).saturating_sub(4).clamp(1, import.instants)
        }
    };
    let survival = match rng.below(8) {
        0 => Survival::Nothing,
        1 => Survival::All,
        _ => Survival::Part(rng.next_u64()),
    };
    let context = format!("cut {n} at {at} of {}: {survival:?}", import.instants);
    let durable = *import.durable.iter().rfind(|durable| durable.at <= at).expect("the first is 0");
    let disk = import.recording.cut(at, survival);
    if n.is_multiple_of(REAL) {
        let temp = tempfile::tempdir().unwrap();
        write_out(&disk, &import.dir, temp.path());
        check(import, Arc::new(RealDisk), temp.path(), durable, &context);
    } else {
        check(import, Arc::new(disk), &import.dir, durable, &context);
    }
}

fn cut_often(cuts: std::ops::Range<u64>) {
    let import = record();
    let turning_points = import.recording.turning_points();
    let (import, turning_points, next) = (&import, &turning_points, std::sync::Mutex::new(cuts));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let n = next.lock().expect("no cut fails under it").next();
                    let Some(n) = n else { return };
                    cut(import, turning_points, n);
                }
            });
        }
    });
}

#[test]
fn c2_any_state_that_a_power_cut_leaves_of_an_import_has_what_was_durable_and_goes_on() {
    cut_often(0..CUTS);
}

#[test]
#[ignore = "soak"]
fn c2_thousands_of_states_that_power_cuts_leave_of_an_import_have_what_was_durable_and_go_on() {
    cut_often(CUTS..CUTS + SOAK_CUTS);
}

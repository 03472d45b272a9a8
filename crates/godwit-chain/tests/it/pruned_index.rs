//! Pruned datadirs whose database is lost: the index comes back from what is kept of pruned blocks and from
//! the block files that are left.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use godwit_chain::{
    Chain, ChainError, Validity, Verdict, has_pruned, is_below_lowest, lowest_for_indexes,
    may_return,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::BlockHash;
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk as _;
use godwit_store::error::{Damage, Remedy};
use godwit_store::{BlockPosition, StoreError, UndoPosition};

use crate::damage::{HARMS, Harm, harmed};
use crate::datadir::{clock, submit};
use crate::inspect::verify;
use crate::pruned_branches::{branch, empty_block};
use crate::pruning::{
    BLOCKS, DIR, check_kept, cut_short_at_each_change, hash, header, open, stats_of, submit_all,
    try_open,
};
use crate::pruning_on_request::prune;
use crate::reindex::{database, give, lost, without_database};

/// Some blocks each.
const FILE_SIZE: u32 = 6_000;
/// Blocks above those of the chain that the tests share.
const MORE: u32 = 200;
/// Heights of the blocks below the branches: one of pruned blocks, one of which the upper blocks are stored.
const FORKS: [u32; 2] = [140, 300];
/// Blocks of the second branch that come with those around them; the others come last.
const EARLY: usize = 4;

fn pruned() -> PathBuf {
    Path::new(DIR).join("godwit.pruned")
}

/// All blocks of the active chain.
fn active() -> Vec<Vec<u8>> {
    [&BLOCKS[..], &branch(&BLOCKS, BLOCKS.len() as u32, MORE)].concat()
}

/// Stale branches: each begins with a block of another time than the active chain's.
fn stale(active: &[Vec<u8>]) -> Vec<Vec<Vec<u8>>> {
    let of = |fork: u32, len: u32| {
        let mut blocks = active[..fork as usize].to_vec();
        let parent = header(blocks.last().unwrap());
        blocks.push(empty_block(parent.block_hash(), fork + 1, parent.time + 900));
        let above = branch(&blocks, fork + 1, len - 1);
        blocks.extend(above);
        blocks.split_off(fork as usize)
    };
    vec![of(FORKS[0], 3), of(FORKS[1], 8)]
}

/// A datadir whose blocks came in any order, pruned or not; the last blocks have no coins on disk.
fn datadir(prune: bool) -> FaultDisk {
    let disk = FaultDisk::new();
    let active = active();
    let stale = stale(&active);
    let mut chain = open(&disk, prune.then_some(1), FILE_SIZE);
    let (before, last) = active.split_at(active.len() - 10);
    for part in before.chunks(120) {
        let hashes: Vec<_> = part.iter().map(|block| hash(block)).collect();
        let mut blocks: Vec<&Vec<u8>> = part.iter().collect();
        for branch in &stale {
            if hashes.contains(&header(&branch[0]).prev_blockhash) {
                blocks.extend(branch.iter().take(EARLY));
            }
        }
        give(&mut chain, &blocks);
        chain.flush().unwrap();
    }
    give(&mut chain, &stale[1][EARLY..].iter().collect::<Vec<_>>());
    chain.flush().unwrap();
    submit_all(&mut chain, last);
    chain.close().unwrap();
    disk
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    height: u32,
    tx_count: u32,
    chain_tx_count: u64,
    failed: bool,
}

/// What the index has of each block, and of those of the active chain.
struct Index {
    all: BTreeMap<BlockHash, (Known, Option<BlockPosition>)>,
    active: Vec<(BlockHash, Validity, Option<BlockPosition>, Option<UndoPosition>)>,
}

fn index(chain: &Chain) -> Index {
    let tree = chain.tree();
    let nodes = (0..tree.len() as u32).map(|place| tree.node(tree.at(place)));
    let all = nodes.map(|node| {
        let (height, tx_count) = (node.height, node.tx_count);
        let (chain_tx_count, failed) = (node.chain_tx_count, node.failed);
        (node.hash, (Known { height, tx_count, chain_tx_count, failed }, node.position))
    });
    let active = (0..=chain.tip_point().height).map(|height| {
        let node = tree.node(tree.ancestor(chain.tip(), height).unwrap());
        (node.hash, node.validity, node.position, node.undo)
    });
    Index { all: all.collect(), active: active.collect() }
}

fn opened(disk: &FaultDisk) -> Chain {
    let mut chain = open(disk, Some(1), FILE_SIZE);
    chain.settle(clock()).expect("no local fault, and no block is missing");
    chain
}

fn check_same(chain: &Chain, expected: &Index, what: &str) {
    let found = index(chain);
    assert!(found.all == expected.all, "{what}: {} of {}", found.all.len(), expected.all.len());
    let differs = found.active.iter().zip(&expected.active).find(|(found, before)| found != before);
    assert_eq!(differs, None, "{what}");
    assert_eq!(found.active.len(), expected.active.len(), "{what}");
}

/// The twin is a directory that has all blocks of the same chain, and loses its database too.
#[test]
fn c5_without_its_database_a_pruned_datadir_has_all_headers_blocks_and_coins() {
    let whole = datadir(false);
    whole.remove(&database()).unwrap();
    let twin = index(&open(&whole, None, FILE_SIZE));
    let disk = datadir(true);
    let mut chain = opened(&disk);
    let (before, lowest) = (index(&chain), chain.prune_height());
    assert!(lowest > FORKS[1] + 8, "{lowest}");
    let of_branches: Vec<bool> = stale(&active())
        .iter()
        .flatten()
        .map(|block| before.all[&hash(block)].1.is_some())
        .collect();
    let (first, second) = of_branches.split_at(3);
    let (early, late) = second.split_at(EARLY);
    assert!(first == [false; 3] && early.contains(&false) && late == [true; 4], "{of_branches:?}");
    let expected = stats_of(&active());
    assert_eq!(chain.utxo_stats().unwrap(), expected);
    chain.close().unwrap();

    for disk in without_database(&disk) {
        for start in ["the first start", "the next one"] {
            let mut chain = opened(&disk);
            check_same(&chain, &before, start);
            let known = |index: &Index| -> Vec<_> {
                index.all.iter().map(|(hash, (known, _))| (*hash, known.clone())).collect()
            };
            assert!(known(&index(&chain)) == known(&twin), "{start}");
            assert_eq!(chain.prune_height(), lowest);
            assert_eq!(chain.utxo_stats().unwrap(), expected);
            check_kept(&mut chain, &disk, Path::new(DIR));
            chain.close().unwrap();
        }
        assert_eq!(verify(&disk, false).1, []);

        // Pruning goes on, and so does what is kept of it: the database may be lost again.
        let mut chain = opened(&disk);
        let above = branch(&active(), active().len() as u32, 200);
        submit_all(&mut chain, &above);
        chain.flush().unwrap();
        assert!(chain.prune_height() > lowest + 30, "{}", chain.prune_height());
        let before = index(&chain);
        chain.close().unwrap();
        disk.remove(&database()).unwrap();
        let mut chain = opened(&disk);
        check_same(&chain, &before, "lost again");
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&[active(), above].concat()));
    }
}

/// Flipped bits, zeroed pages and the rest, wherever they are.
#[test]
fn c5_any_damage_of_a_pruned_datadir_s_database_is_repaired_at_the_start_or_by_verify() {
    let disk = datadir(true);
    let before = index(&opened(&disk));
    let good = disk.contents(&database()).unwrap();
    let mut rng = Rng::new(3);
    let (mut rebuilt, mut told) = (0, 0);
    for harm in HARMS {
        for n in 0..8 {
            let what = format!("{harm:?} {n}");
            let disk = disk.copy();
            match harmed(&good, &[], harm, &mut rng) {
                Some(bytes) => disk.overwrite(&database(), bytes),
                None => disk.remove(&database()).unwrap(),
            }
            if n % 2 == 0 {
                let repaired = disk.copy();
                let (_, found) = verify(&disk, false);
                told += usize::from(!found.is_empty());
                assert!(
                    found.iter().all(|found| found.remedy == Remedy::Repair),
                    "{what}: {found:?}"
                );
                let (_, found) = verify(&repaired, true);
                assert!(
                    found.iter().all(|found| found.remedy == Remedy::Done),
                    "{what}: {found:?}"
                );
                assert_eq!(verify(&repaired, false).1, [], "{what}");
                check_same(&opened(&repaired), &before, &what);
            }
            let chain = opened(&disk);
            check_same(&chain, &before, &what);
            rebuilt += usize::from(
                disk.paths()
                    .iter()
                    .any(|path| path.extension().is_some_and(|name| name == "damaged")),
            );
        }
    }
    println!("{rebuilt} of {} made again, {told} told of", HARMS.len() * 8);
    assert!(rebuilt > 20 && told > 10, "{rebuilt}, {told}");
}

#[test]
fn c5_damage_of_what_is_kept_of_pruned_blocks_is_found_harmless_and_repaired() {
    let disk = datadir(true);
    let before = index(&opened(&disk));
    let good = disk.contents(&pruned()).unwrap();
    let mut rng = Rng::new(4);
    for harm in HARMS {
        for n in 0..5 {
            let disk = disk.copy();
            // A stale page is one of zeros here, and a foreign file an empty one.
            let bad = harmed(&good, &vec![0; good.len() / 2], harm, &mut rng);
            match &bad {
                Some(bytes) => disk.overwrite(&pruned(), bytes.clone()),
                None => disk.remove(&pruned()).unwrap(),
            }
            let what = format!("{harm:?} {n}");
            if bad.as_ref() == Some(&good) {
                continue;
            }
            let (_, found) = verify(&disk, false);
            // Records may have changed places, and all be there.
            if matches!(harm, Harm::Swapped) && found.is_empty() {
                continue;
            }
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            assert_eq!((&found[0].path, found[0].remedy), (&pruned(), Remedy::Repair), "{what}");

            // With the database lost too, either all that matters is there, or it is named.
            let lost = disk.copy();
            lost.remove(&database()).unwrap();
            let (paths, files) = (lost.paths(), lost.contents(&pruned()));
            match try_open(&lost, Some(1), FILE_SIZE) {
                Ok(mut chain) => {
                    chain.settle(clock()).unwrap();
                    let missing = before.all.len() - chain.tree().len();
                    assert!(missing < 8, "{what}: {missing}, more than the branches have");
                    assert_eq!(index(&chain).active, before.active, "{what}");
                }
                Err(ChainError::Store(StoreError::Damaged { path, .. })) => {
                    assert_eq!(path, database(), "{what}");
                    assert_eq!((lost.paths(), lost.contents(&pruned())), (paths, files));
                }
                Err(other) => panic!("{what}: {other}"),
            }

            // Harmless, and written again where its length tells.
            let started = disk.copy();
            let chain = opened(&started);
            check_same(&chain, &before, &what);
            chain.close().unwrap();
            if matches!(harm, Harm::Cut | Harm::Missing | Harm::Foreign) {
                assert_eq!(verify(&started, false).1, [], "{what}");
            }

            let (_, found) = verify(&disk, true);
            assert_eq!((found.len(), found[0].remedy), (1, Remedy::Done), "{what}");
            assert_eq!(verify(&disk, false).1, [], "{what}");
            disk.remove(&database()).unwrap();
            check_same(&opened(&disk), &before, &what);
        }
    }
}

/// The power goes at each operation of a node that prunes; then the database is lost too.
#[test]
fn c2_a_cut_at_any_operation_of_a_pruning_and_a_lost_database_leave_no_block_missing() {
    const FILE_SIZE: u32 = 100 << 10;
    let chain_of = active();
    let full = FaultDisk::new();
    let mut chain = open(&full, None, FILE_SIZE);
    submit_all(&mut chain, &chain_of);
    chain.flush().unwrap();
    chain.close().unwrap();
    let (mut rebuilt, mut torn) = (0, 0);
    for n in 1.. {
        let disk = full.copy();
        disk.fail_change(n);
        let run = || {
            let mut chain = try_open(&disk, Some(u64::MAX), FILE_SIZE)?;
            chain.settle(clock())?;
            for height in [126, 240] {
                prune(&mut chain, height)?;
            }
            chain.close()
        };
        let ended = run();
        let finished = !disk.has_failed();
        assert!(ended.is_ok() || !finished, "operation {n}: {ended:?}");
        disk.crash([Survival::Part(n), Survival::All, Survival::Nothing][n as usize % 3]);
        let left = disk.contents(&pruned()).unwrap_or_default().len();
        torn += usize::from(!left.is_multiple_of(88));
        disk.remove(&database()).unwrap();
        let mut chain = try_open(&disk, Some(u64::MAX), FILE_SIZE)
            .unwrap_or_else(|error| panic!("operation {n}: {error}"));
        chain.settle(clock()).unwrap();
        assert_eq!(chain.tip_point().height as usize, chain_of.len(), "operation {n}");
        let lowest = chain.prune_height();
        rebuilt += usize::from(lowest > 0);
        // A crash may have left a block file whose undo file is gone: its blocks are stored again, until
        // the next pruning.
        let height = chain.tip_point().height;
        assert!(prune(&mut chain, height).unwrap() >= lowest, "operation {n}");
        check_kept(&mut chain, &disk, Path::new(DIR));
        chain.close().unwrap();
        assert_eq!(verify(&disk, false).1, [], "operation {n}");
        if finished {
            println!("{n} operations, {rebuilt} pruned, {torn} torn");
            assert!(n > 20 && rebuilt > 5, "{n}, {rebuilt}");
            return;
        }
    }
}

#[test]
fn c2_an_index_of_a_pruned_datadir_that_is_half_made_is_made_again() {
    let disk = datadir(true);
    let before = index(&opened(&disk));
    disk.remove(&database()).unwrap();
    cut_short_at_each_change(&disk, Some(1), FILE_SIZE, |disk, moment| {
        check_same(&opened(disk), &before, moment);
    });
}

#[test]
fn c5_what_is_not_there_of_a_pruned_datadir_is_named_and_nothing_is_touched() {
    let disk = datadir(true);
    disk.remove(&database()).unwrap();
    let good = disk.contents(&pruned()).unwrap();
    let mut middle = good.clone();
    // Of the active chain: the first blocks are no others.
    middle[88 * 50 + 10] ^= 1;
    for kept in
        [None, Some(Vec::new()), Some(good[..good.len() / 88 / 2 * 88].to_vec()), Some(middle)]
    {
        let disk = disk.copy();
        match kept {
            Some(bytes) => disk.overwrite(&pruned(), bytes),
            None => disk.remove(&pruned()).unwrap(),
        }
        let before = disk.paths();
        let Err(ChainError::Store(error)) = try_open(&disk, Some(1), FILE_SIZE) else {
            panic!("it opens")
        };
        let StoreError::Damaged { path, damage, .. } = &error else { panic!("{error}") };
        assert_eq!((path, damage), (&database(), &Damage::MissingFile));
        assert_eq!(disk.paths(), before);
        let (_, found) = verify(&disk, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((&found[0].path, found[0].remedy), (&database(), Remedy::Download));
    }
    // A record that is torn at the end is none of what is missing: the blocks are still stored.
    let torn = [&good[..], &[1; 50]].concat();
    disk.overwrite(&pruned(), torn);
    opened(&disk).close().unwrap();
    assert_eq!(disk.contents(&pruned()).unwrap().len(), good.len());
}

/// Pruned blocks are among those above it, since blocks of a download lie in the files in any order.
#[test]
fn c5_a_rotten_block_of_a_pruned_datadir_without_database_is_asked_for_and_named() {
    let disk = datadir(true);
    let before = index(&opened(&disk));
    let last_pruned = before.active.iter().rposition(|(.., at, _)| at.is_none()).unwrap();
    let stored = before.active[..last_pruned].iter().enumerate();
    let (height, at) = stored.clone().find_map(|(n, (.., at, _))| Some((n, (*at)?))).unwrap();
    let path = Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file));
    let mut bytes = disk.contents(&path).unwrap();
    bytes[(at.offset + at.len) as usize - 1] ^= 1;
    disk.overwrite(&path, bytes);
    disk.remove(&database()).unwrap();
    open(&disk, Some(1), FILE_SIZE).close().unwrap();
    let named: Vec<_> =
        verify(&disk, false).1.into_iter().map(|found| (found.path, found.remedy)).collect();
    assert_eq!(named, [(database(), Remedy::Peers)]);
    let mut chain = opened(&disk);
    assert_eq!(lost(&mut chain), [before.active[height].0]);
    let above = branch(&active(), active().len() as u32, 2);
    assert_eq!(submit(&mut chain, &above[0]), Verdict::Stored);
    assert_eq!(submit(&mut chain, &active()[height - 1]), Verdict::Stored);
    assert_eq!(chain.tip_point().hash, hash(&above[0]));
    assert_eq!(submit(&mut chain, &above[1]), Verdict::Connected);
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&[active(), above].concat()));
}

/// What is pruned above it while it is under way counts without its bytes.
#[test]
fn c5_a_missing_block_that_comes_is_enough_also_if_others_above_it_were_pruned_meanwhile() {
    const ON_REQUEST: Option<u64> = Some(u64::MAX);
    let disk = datadir(false);
    let mut chain = open(&disk, ON_REQUEST, FILE_SIZE);
    let lowest = prune(&mut chain, 126).unwrap();
    let place = index(&chain).active[lowest as usize].2.expect("it is the lowest that is stored");
    chain.close().unwrap();
    let path = Path::new(DIR).join(format!("blocks/blk{:05}.dat", place.file));
    let mut bytes = disk.contents(&path).unwrap();
    bytes[(place.offset + place.len) as usize - 1] ^= 1;
    disk.overwrite(&path, bytes);
    disk.remove(&database()).unwrap();
    let mut chain = open(&disk, ON_REQUEST, FILE_SIZE);
    chain.settle(clock()).unwrap();
    let rotten = &active()[lowest as usize - 1];
    assert_eq!(lost(&mut chain), [hash(rotten)]);
    // It was not deleted, as those below it were.
    assert!(has_pruned(&chain));
    assert_eq!((chain.prune_height(), lowest_for_indexes(&chain)), (lowest + 1, lowest));
    let at = |height| chain.tree().ancestor(chain.tip(), height).expect("not above the tip");
    for height in lowest - 3..lowest + 3 {
        let is_next = height == lowest - 1 || height == lowest;
        assert_eq!(is_below_lowest(&chain, at(height)), is_next, "height {height}");
        assert_eq!(may_return(&chain, at(height)), height < lowest - 1, "height {height}");
    }
    let stored = |chain: &Chain| {
        let active = index(chain).active;
        active[lowest as usize + 1..].iter().filter(|(.., at, _)| at.is_some()).count()
    };
    let before = stored(&chain);
    prune(&mut chain, 240).unwrap();
    assert!(stored(&chain) < before, "of {before} above it some are pruned");
    let above = branch(&active(), active().len() as u32, 2);
    assert_eq!(submit(&mut chain, &above[0]), Verdict::Stored, "one is missing");
    assert_eq!(submit(&mut chain, rotten), Verdict::Stored);
    assert_eq!(submit(&mut chain, &above[1]), Verdict::Connected);
}

#[test]
fn a_block_that_was_pruned_twice_is_there_once() {
    let disk = datadir(true);
    let before = index(&opened(&disk));
    let good = disk.contents(&pruned()).unwrap();
    disk.overwrite(&pruned(), [&good[..], &good[..880], &good[..]].concat());
    assert_eq!(verify(&disk, false).1, []);
    check_same(&opened(&disk), &before, "with the database");
    disk.remove(&database()).unwrap();
    check_same(&opened(&disk), &before, "without it");
    let mut chain = opened(&disk);
    assert_eq!(submit(&mut chain, &BLOCKS[3]), Verdict::Duplicate);
}

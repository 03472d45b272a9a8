//! Indexes where blocks cannot be read: they are deleted, or belong to the history below a snapshot.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use godwit_chain::{
    Chain, ChainOptions, Event, PRUNE_ON_REQUEST, is_pruning, lowest_for_indexes, note_unreadable,
    prune_to,
};
use godwit_fault_disk::FaultDisk;
use godwit_index::{
    CoinStatsIndex, FilterIndex, Follower, Index, IndexError, Outcome, Position, Step, next,
    resumes_above,
};
use godwit_primitives::Network;
use godwit_store::disk::Disk;
use godwit_store::{BlockPosition, ChainPoint, MAX_BLOCK_FILE_SIZE};

use crate::beside::{
    BLOCKS, DIR, NOW, branch, chain_of, flip_in_each_file, follow, hash, header, open_with,
    options, points, settle, submit,
};
use crate::per_block::{PerBlock, entries, expected, follower};

/// Empty blocks behind those with transactions: more than a pruned node keeps.
const TAIL: usize = 320;

/// So small that nearly every block has a file of its own.
const ONE_BLOCK: u32 = 300;

/// Blocks that an index has not read when it is damaged.
const NEW: usize = 3;

fn long_chain() -> Vec<Vec<u8>> {
    [&BLOCKS[..], &branch(&BLOCKS, BLOCKS.len(), TAIL, 0)[..]].concat()
}

/// All but the last [`NEW`] blocks are followed by the index of `open`, old blocks are deleted, and then
/// those come. Returns what the index has on its disk.
fn pruned<I: Index>(
    blocks: &[Vec<u8>],
    open: impl Fn(&FaultDisk, &Chain) -> Result<I, IndexError>,
) -> (Chain, FaultDisk) {
    let options = ChainOptions { prune_bytes: Some(PRUNE_ON_REQUEST), ..options(Network::Regtest) };
    let mut chain = open_with(&FaultDisk::new(), options, ONE_BLOCK);
    let (old, new) = blocks.split_at(blocks.len() - NEW);
    old.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let index_disk = FaultDisk::new();
    let mut follower = Follower::new(open(&index_disk, &chain).expect("it opens"));
    follow(&chain, &mut follower).expect("no fault");
    follower.close().expect("no fault");
    chain.flush().expect("no local fault");
    prune_to(&mut chain, u32::MAX);
    while is_pruning(&chain) {
        chain.flush().expect("no local fault");
    }
    assert!(chain.prune_height() > 1, "{}", chain.prune_height());
    new.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    (chain, index_disk)
}

/// It was turned off on a block that the chain has left since, and the one in that place is deleted: the last
/// block of the index is not below the lowest one, and yet there is no way.
#[test]
fn an_index_beside_the_chain_resumes_above_where_the_ways_part() {
    let options = ChainOptions { prune_bytes: Some(PRUNE_ON_REQUEST), ..options(Network::Regtest) };
    let mut chain = open_with(&FaultDisk::new(), options, ONE_BLOCK);
    let fork = BLOCKS.len() as u32;
    let left = branch(&BLOCKS, BLOCKS.len(), 1, 1);
    [&BLOCKS[..], &left[..]].concat().iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let index_disk = FaultDisk::new();
    let writer = FilterIndex::writer(&index_disk, &chain).expect("it opens");
    assert_eq!(resumes_above(&chain, &Position::default()), None);
    let mut follower = Follower::new(writer);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(resumes_above(&chain, &follower.position()), Some(fork + 1));
    follower.close().expect("no fault");

    let end = branch(&BLOCKS, BLOCKS.len(), TAIL, 0);
    end.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    chain.flush().expect("no local fault");
    prune_to(&mut chain, fork + 1);
    while is_pruning(&chain) {
        chain.flush().expect("no local fault");
    }
    let writer = FilterIndex::writer(&index_disk, &chain).expect("it opens");
    assert_eq!((writer.durable_height(), lowest_for_indexes(&chain)), (fork + 1, fork + 2));
    assert_eq!(resumes_above(&chain, &writer.position()), Some(fork));
    let step = next(&chain, &Follower::new(writer).state());
    assert!(matches!(step, Step::Missing { height } if height == fork + 1));
    chain.close().expect("no fault");
}

fn files(disk: &FaultDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    disk.paths()
        .into_iter()
        .filter_map(|path| Some((path.clone(), disk.contents(&path)?)))
        .collect()
}

/// Flips a bit of a file that may be open.
fn flip(disk: &FaultDisk, name: &str, at: usize) {
    let is_it = |path: &PathBuf| path.ends_with(name);
    let path = disk.paths().into_iter().find(is_it).expect("the file");
    let mut bytes = disk.contents(&path).expect("a file");
    bytes[at] ^= 4;
    disk.overwrite(&path, bytes);
}

/// Follows the chain to its tip with what is damaged; only blocks of which something is damaged are not
/// answered, all others as `expected`. Returns how many these are.
fn goes_on<I: Index, T: PartialEq + Debug>(
    chain: &Chain,
    disk: &FaultDisk,
    writer: I,
    read: &dyn Fn(ChainPoint) -> Result<Option<T>, IndexError>,
    (blocks, expected): (&[Vec<u8>], &[T]),
) -> usize {
    let before = files(disk);
    let mut follower = Follower::new(writer);
    let mut damaged = 0;
    for is_followed in [false, true] {
        if is_followed {
            follow(chain, &mut follower).expect("it goes on");
            assert_eq!(follower.position().best(), Some(chain.tip_point()));
        }
        let known = if is_followed { blocks.len() } else { blocks.len() - NEW - 1 };
        let found = points(1, blocks).zip(expected).take(known);
        let found: Vec<_> = found.map(|(point, expected)| (read(point), expected)).collect();
        let errors = found.iter().filter(|(found, _)| found.is_err()).count();
        // The last block of before is among the others then.
        assert!(!is_followed || errors.abs_diff(damaged) <= 1, "{errors}, {damaged}");
        damaged = errors;
        for (found, expected) in found {
            match found {
                Ok(found) => assert_eq!(found.as_ref(), Some(expected)),
                Err(error) => assert!(error.is_damage(), "{error}"),
            }
        }
    }
    follower.close().expect("it can be written");
    let after = files(disk);
    for (path, bytes) in before {
        // Of the last record, which may have been cut off as a crash's, another is written.
        let kept = bytes.len().min(bytes.len().saturating_sub(1_000).max(64));
        let is_there = after.get(&path).is_some_and(|now| now.starts_with(&bytes[..kept]));
        assert!(is_there, "{}", path.display());
    }
    damaged
}

/// Damage that is seen at the start.
fn is_refused(disk: &FaultDisk, error: &IndexError, before: &FaultDisk, place: &str) {
    assert!(error.is_damage(), "{place}: {error}");
    assert_eq!(files(disk), files(before), "{place}");
}

#[test]
fn a_damaged_filter_index_of_a_pruned_node_loses_what_is_damaged_alone() {
    let blocks = long_chain();
    let expected = expected::<FilterIndex>(&blocks);
    let (chain, start) = pruned(&blocks, FilterIndex::writer);
    let (mut refused, mut damaged) = (0, 0);
    let check = |disk: &FaultDisk, harm: &dyn Fn(&FaultDisk), place: &str| {
        let before = disk.copy();
        match FilterIndex::writer(disk, &chain) {
            Err(error) => {
                is_refused(disk, &error, &before, place);
                (1, 0)
            }
            Ok(writer) => {
                let reader = writer.reader();
                harm(disk);
                let read = |block| reader.filter(block);
                (0, goes_on(&chain, disk, writer, &read, (&blocks, &expected)))
            }
        }
    };
    let found = std::cell::RefCell::new(Vec::new());
    flip_in_each_file(&start, 3, |disk, place| {
        found.borrow_mut().push(check(disk, &|_| {}, place));
    });
    for (is_refused, blocks) in found.take() {
        refused += is_refused;
        damaged += blocks;
    }
    assert!((2..5).contains(&refused) && (1..=2).contains(&damaged), "{refused}, {damaged}");
    // The record of block 5 rots, or a sector with filters cannot be read.
    let rots = |disk: &FaultDisk| flip(disk, "records.dat", 64 + 5 * 112 + 40);
    assert_eq!(check(&start.copy(), &rots, "a record"), (0, 1));
    let path = Path::new(DIR).join("indexes/blockfilter/basic/fltr00000.dat");
    let lost = |disk: &FaultDisk| disk.lose_sectors(&path, 512..1_024);
    let (refused, damaged) = check(&start.copy(), &lost, "a sector");
    assert!(refused == 0 && (1..60).contains(&damaged), "{damaged}");
    chain.close().expect("no fault");
}

#[test]
fn a_damaged_statistics_index_of_a_pruned_node_loses_what_is_damaged_alone() {
    let blocks = long_chain();
    let expected = expected::<CoinStatsIndex>(&blocks);
    let (chain, start) = pruned(&blocks, CoinStatsIndex::writer);
    let refused = std::cell::Cell::new(0);
    flip_in_each_file(&start, 2, |disk, place| {
        let before = disk.copy();
        if let Err(error) = CoinStatsIndex::writer(disk, &chain) {
            is_refused(disk, &error, &before, place);
            refused.set(refused.get() + 1);
        }
    });
    // Not for the last record, which a crash may leave so, nor for the file of blocks that were left.
    assert_eq!(refused.get(), 2);
    let disk = start.copy();
    let writer = CoinStatsIndex::writer(&disk, &chain).expect("it is sound");
    let reader = writer.reader();
    flip(&disk, "records.dat", 64 + 5 * 508 + 40);
    let read = |block| reader.stats(block);
    assert_eq!(goes_on(&chain, &disk, writer, &read, (&blocks, &expected)), 1);
    chain.close().expect("no fault");
}

/// It stops, and nothing of it is deleted.
#[test]
fn damage_in_the_way_of_an_index_of_a_pruned_node_stops_it() {
    let blocks = long_chain();
    let (mut chain, disk) = pruned(&blocks, FilterIndex::writer);
    let writer = FilterIndex::writer(&disk, &chain).expect("it is sound");
    let reader = writer.reader();
    let mut follower = Follower::new(writer);
    follow(&chain, &mut follower).expect("no fault");
    let best = reader.status().best();
    let fork = blocks.len() - NEW - 6;
    flip(&disk, "records.dat", 64 + (fork + 2) * 112 + 40);
    let before = files(&disk);
    let other = branch(&blocks, fork, NEW + 7, 9);
    other.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let error = follow(&chain, &mut follower).expect_err("a record that it goes back over");
    assert!(error.is_damage(), "{error}");
    assert_eq!((reader.status().best(), reader.status().is_synced()), (best, false));
    for (path, bytes) in before {
        let now = disk.contents(&path).expect("it is there");
        assert!(now.starts_with(&bytes), "{}", path.display());
    }
    chain.close().expect("no fault");
}

/// A stored block that has a file of its own, and its place.
fn alone(chain: &Chain) -> (u32, BlockPosition) {
    let at = |height| {
        let id = chain.tree().ancestor(chain.tip(), height).expect("not above the tip");
        chain.tree().node(id).position.expect("it is stored")
    };
    let is_alone = |height: &u32| {
        [height - 1, height + 1].iter().all(|other| at(*other).file != at(*height).file)
    };
    let height = (20..100).find(is_alone).expect("nearly every block is");
    (height, at(height))
}

#[test]
fn an_index_has_a_missing_block_fetched_and_tells_once_of_a_place_that_rots_again() {
    let disk = FaultDisk::new();
    let open = || open_with(&disk, options(Network::Regtest), ONE_BLOCK);
    let mut chain = open();
    BLOCKS.iter().for_each(|block| _ = submit(&mut chain, block));
    chain.close().expect("no fault");
    let mut chain = open();
    chain.expect_copies();
    settle(&mut chain);
    let (height, at) = alone(&chain);
    let path = Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file));
    disk.remove(&path).expect("it is there");
    let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &chain);
    let mut take = |chain: &Chain| loop {
        let outcome = follower.take(next(chain, &follower.state()), &|| false).expect("no fault");
        if outcome != Outcome::GoesOn {
            return outcome;
        }
    };
    let tell = |chain: &mut Chain, outcome: Outcome| {
        let Outcome::Unreadable(unreadable) = outcome else { panic!("{outcome:?}") };
        note_unreadable(chain, &unreadable);
        let events = chain.take_events();
        events.iter().filter(|event| matches!(event, Event::Lost { .. })).count()
    };
    let outcome = take(&chain);
    assert_eq!(tell(&mut chain, outcome), 1, "its file is missing");
    assert_eq!(take(&chain), Outcome::Waits);
    submit(&mut chain, &BLOCKS[height as usize - 1]);
    settle(&mut chain);
    let sound = disk.contents(&path).expect("it is there again");
    let mut rotten = sound.clone();
    rotten[(at.offset + at.len) as usize - 1] ^= 1;
    disk.overwrite(&path, rotten);
    let outcome = take(&chain);
    assert_eq!(tell(&mut chain, outcome), 0, "nobody fetches it a second time");
    for _ in 0..3 {
        assert_eq!(take(&chain), Outcome::StaysUnreadable);
    }
    assert_eq!(reader.status().best().map(|best| best.height), Some(height - 1));
    disk.overwrite(&path, sound);
    assert_eq!(take(&chain), Outcome::Waits);
    assert_eq!(entries(&*reader, 1, &BLOCKS), expected::<FilterIndex>(&BLOCKS));
    chain.close().expect("no fault");
}

/// Height of the snapshot's block.
const BASE: usize = 140;

/// A directory with a snapshot's coins, which knows the headers of [`BLOCKS`].
fn loaded() -> FaultDisk {
    let (source, disk, file) = (FaultDisk::new(), FaultDisk::new(), Path::new("/node/coins.dat"));
    let mut chain = chain_of(&source, &BLOCKS[..BASE]);
    let info = chain.dump_snapshot(file).expect("a new file");
    chain.close().expect("no fault");
    disk.overwrite(file, source.contents(file).expect("the dump"));
    let mut chain = open_with(&disk, options(Network::Regtest), MAX_BLOCK_FILE_SIZE);
    for block in BLOCKS.iter() {
        chain.accept_header(&header(block), hash(block), NOW).expect("a good header");
    }
    chain.connect_known_only();
    chain
        .load_snapshot(file, Some(info.hash_serialized), &|_| ControlFlow::Continue(()))
        .expect("a good snapshot");
    chain.close().expect("no fault");
    disk
}

/// Stored blocks of the history have no undo records before they are validated: that is no damage.
#[test]
fn an_index_of_what_blocks_spend_waits_for_the_history_to_be_validated() {
    let disk = loaded();
    // The history is not validated yet, only stored.
    let mut chain = open_with(&disk, options(Network::Regtest), MAX_BLOCK_FILE_SIZE);
    BLOCKS[..60].iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    assert!(chain.assumed().is_some());
    let (filter_disk, stats_disk) = (FaultDisk::new(), FaultDisk::new());
    let first = FilterIndex::writer(&filter_disk, &chain).expect("it opens");
    let mut first = Follower::new(first);
    assert_eq!(first.take(next(&chain, &first.state()), &|| false).ok(), Some(Outcome::GoesOn));
    for _ in 0..2 {
        let step = next(&chain, &first.state());
        assert!(matches!(step, Step::Unvalidated));
        assert_eq!(first.take(step, &|| false).expect("no fault"), Outcome::Waits);
        assert_eq!(first.position().best().map(|best| best.height), Some(0));
    }
    let mut second = Follower::new(CoinStatsIndex::writer(&stats_disk, &chain).expect("it opens"));
    follow(&chain, &mut second).expect("no fault");
    assert!(matches!(next(&chain, &second.state()), Step::Unvalidated));
    first.close().expect("no fault");
    second.close().expect("no fault");
    chain.close().expect("no fault");

    let mut options = options(Network::Regtest);
    options.start.validates_history = true;
    let mut chain = open_with(&disk, options, MAX_BLOCK_FILE_SIZE);
    let filter_index = FilterIndex::writer(&filter_disk, &chain).expect("it opens");
    let stats_index = CoinStatsIndex::writer(&stats_disk, &chain).expect("it opens");
    let (of_filters, of_stats) = (filter_index.reader(), stats_index.reader());
    let (mut first, mut second) = (Follower::new(filter_index), Follower::new(stats_index));
    let mut rest = BLOCKS[60..].iter();
    while chain.assumed().is_some() || rest.len() > 0 {
        if let Some(block) = rest.next() {
            submit(&mut chain, block);
        }
        settle(&mut chain);
        for outcome in [
            first.take(next(&chain, &first.state()), &|| false),
            second.take(next(&chain, &second.state()), &|| false),
        ] {
            let outcome = outcome.expect("no fault");
            assert!(matches!(outcome, Outcome::GoesOn | Outcome::Waits), "{outcome:?}");
        }
        thread::sleep(Duration::from_millis(1));
    }
    follow(&chain, &mut first).expect("no fault");
    follow(&chain, &mut second).expect("no fault");
    assert_eq!(entries(&*of_filters, 1, &BLOCKS), expected::<FilterIndex>(&BLOCKS));
    assert_eq!(entries(&*of_stats, 1, &BLOCKS), expected::<CoinStatsIndex>(&BLOCKS));
    chain.close().expect("no fault");
}

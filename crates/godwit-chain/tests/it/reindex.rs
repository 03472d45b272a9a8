//! Datadirs whose database is lost, damaged or of another time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::never;
use godwit_chain::{
    Chain, ChainError, CoinsMemory, Event, Indexed, Poll, StartOptions, UtxoStats, Verdict,
    has_pruned, lowest_for_indexes,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::BlockHash;
use godwit_primitives::network::{Network, Params};
use godwit_primitives::sha256::sha256d;
use godwit_sim::rng::Rng;
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::{BlockPosition, Rebuild, StoreError, UndoPosition};
use godwit_stream::{DataStream, PooledStream};

use crate::damage::files;
use crate::datadir::{clock, options, submit};
use crate::inspect::verify;
use crate::pruned_branches::branch;
use crate::pruning::{
    BLOCKS, DIR, ONE_BLOCK, STATS, cut_short_at_each_change, hash, header, open, stats_of,
    submit_all, try_open,
};

/// Some blocks each.
pub(crate) const FILE_SIZE: u32 = 200_000;
/// Bytes of a sector.
const SECTOR: u64 = 512;
/// Blocks of the chain that the datadirs have.
pub(crate) const CONNECTED: usize = 150;
/// Blocks whose coins are on disk.
const FLUSHED: usize = 140;

pub(crate) fn database() -> PathBuf {
    Path::new(DIR).join("godwit.redb")
}

pub(crate) fn give(chain: &mut Chain, blocks: &[&Vec<u8>]) {
    for block in blocks {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    let mut shuffled = blocks.to_vec();
    let mut rng = Rng::new(5);
    for index in (1..shuffled.len()).rev() {
        shuffled.swap(index, rng.below(index as u64 + 1) as usize);
    }
    for (ticket, block) in shuffled.iter().enumerate() {
        let bytes = DataStream::from(&block[..]);
        chain.receive_block(PooledStream::from(bytes), ticket as u64);
    }
    loop {
        match chain.poll(clock()).expect("no local fault") {
            Poll::Idle => break,
            Poll::Waiting => chain.wait_with(&never::<()>(), Duration::from_secs(1)),
            Poll::Progress => {}
        }
    }
    chain.take_events();
}

/// A datadir whose blocks came in any order, with runs and blocks behind them; or as it was when it had
/// half of them.
pub(crate) fn datadir(half: bool) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    give(&mut chain, &BLOCKS[..FLUSHED / 2].iter().collect::<Vec<_>>());
    chain.flush().unwrap();
    if half {
        chain.close().unwrap();
        return disk;
    }
    give(&mut chain, &BLOCKS[FLUSHED / 2..FLUSHED].iter().collect::<Vec<_>>());
    chain.flush().unwrap();
    submit_all(&mut chain, &BLOCKS[FLUSHED..CONNECTED]);
    chain.close().unwrap();
    disk
}

pub(crate) type Stored = (BlockHash, Option<BlockPosition>, Option<UndoPosition>);

/// What the index says of each block of the active chain, and the coins.
pub(crate) fn contents(disk: &FaultDisk) -> (Vec<Stored>, UtxoStats) {
    let mut chain = open(disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    let tip = chain.tip();
    let stored = (1..=chain.tip_point().height).map(|height| {
        let node = chain.tree().node(chain.tree().ancestor(tip, height).unwrap());
        (node.hash, node.position, node.undo)
    });
    let stored = stored.collect();
    (stored, chain.utxo_stats().unwrap())
}

/// The disk with its database removed, emptied, without its first page, and cut off.
pub(crate) fn without_database(disk: &FaultDisk) -> [FaultDisk; 4] {
    let intact = disk.contents(&database()).unwrap();
    let mut zeroed = intact.clone();
    zeroed[..4096].fill(0);
    [None, Some(Vec::new()), Some(zeroed), Some(intact[..5000].to_vec())].map(|database_now| {
        let disk = disk.copy();
        match database_now {
            Some(bytes) => disk.overwrite(&database(), bytes),
            None => disk.remove(&database()).unwrap(),
        }
        disk
    })
}

#[test]
fn without_its_database_a_datadir_has_all_blocks_and_coins_and_replays_no_more_than_before() {
    let disk = datadir(false);
    let expected = contents(&disk);
    assert_eq!(expected.1, stats_of(&BLOCKS[..CONNECTED]));
    let intact = disk.contents(&database()).unwrap();
    let mut old = disk.copy();
    let mut chain = open(&old, None, FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[CONNECTED..CONNECTED + 5]);
    chain.flush().unwrap();
    chain.close().unwrap();
    old.overwrite(&database(), intact.clone());
    let later = contents(&old);
    assert_eq!(later.1, stats_of(&BLOCKS[..CONNECTED + 5]), "that of another time");
    old = disk.copy();

    for disk in without_database(&old) {
        let found = contents(&disk);
        assert!(found == expected, "{} of {}", found.0.len(), expected.0.len());
        // Once more, from what the first start has left.
        assert!(contents(&disk) == expected);
        let mut chain = open(&disk, None, FILE_SIZE);
        for block in &BLOCKS[CONNECTED..] {
            assert_eq!(submit(&mut chain, block), Verdict::Connected);
        }
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS));
    }
}

/// In a block, and in the frame of an undo record.
#[test]
fn bad_sectors_do_not_keep_a_datadir_without_database_from_its_other_blocks() {
    let disk = datadir(false);
    let expected = contents(&disk).1;
    disk.remove(&database()).unwrap();
    for (file, at) in
        [("rev00000.dat", 0..1), ("rev00000.dat", 5_000..5_512), ("blk00000.dat", 90_000..90_001)]
    {
        let disk = disk.copy();
        disk.lose_sectors(&Path::new(DIR).join("blocks").join(file), at.clone());
        let mut chain = open(&disk, None, FILE_SIZE);
        chain.settle(clock()).expect("it is no reason to end");
        let missing = (1..).zip(&BLOCKS[..CONNECTED]).find(|(height, _)| {
            let id = chain.tree().ancestor(chain.tip(), *height);
            id.is_some_and(|id| chain.tree().node(id).position.is_none())
        });
        assert_eq!(missing.is_some(), file.starts_with("blk"), "{file}, {at:?}");
        assert_eq!(chain.utxo_stats().unwrap(), expected, "{file}, {at:?}");
        let wanted = missing.map(|(_, block)| block);
        let expected_lost: Vec<BlockHash> = wanted.map(|block| hash(block)).into_iter().collect();
        assert_eq!(chain.prune_height() > 0, wanted.is_some(), "{file}, {at:?}");
        assert!(!has_pruned(&chain), "{file}, {at:?}: it is to come");
        assert_eq!(lowest_for_indexes(&chain), 0, "{file}, {at:?}");
        assert_eq!(lost(&mut chain), expected_lost, "{file}, {at:?}");
        chain.close().unwrap();
        // So does the next start, and `verify` names it.
        let named = verify(&disk, false).1.into_iter().filter(|found| found.path == database());
        let remedies: Vec<Remedy> = named.map(|found| found.remedy).collect();
        assert_eq!(remedies.contains(&Remedy::Peers), wanted.is_some(), "{file}: {remedies:?}");
        let mut chain = open(&disk, None, FILE_SIZE);
        assert_eq!(lost(&mut chain), expected_lost, "{file}, {at:?}");
        chain.settle(clock()).unwrap();
        if let Some(block) = wanted {
            assert_eq!(submit(&mut chain, &BLOCKS[CONNECTED]), Verdict::Stored, "one is missing");
            assert_eq!(submit(&mut chain, block), Verdict::Stored);
            assert_eq!(chain.tip_point().height as usize, CONNECTED + 1);
            assert_eq!(chain.prune_height(), 0, "nothing is missing any more");
        }
        submit_all(&mut chain, &BLOCKS[CONNECTED + usize::from(wanted.is_some())..]);
        assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS));
    }
}

/// The blocks that the chain wants again.
pub(crate) fn lost(chain: &mut Chain) -> Vec<BlockHash> {
    let lost = chain.take_events().into_iter().filter_map(|event| match event {
        Event::Lost { hash } => Some(hash),
        _ => None,
    });
    lost.collect()
}

#[test]
fn an_index_that_is_half_made_is_made_again() {
    let disk = datadir(false);
    let expected = contents(&disk);
    disk.remove(&database()).unwrap();
    cut_short_at_each_change(&disk, None, FILE_SIZE, |disk, moment| {
        assert!(contents(disk) == expected, "{moment}");
    });
}

pub(crate) fn start(
    disk: &FaultDisk,
    file_size: u32,
    start: StartOptions,
) -> Result<Chain, ChainError> {
    start_on(Arc::new(disk.clone()), file_size, start)
}

fn start_on(disk: Arc<dyn Disk>, file_size: u32, start: StartOptions) -> Result<Chain, ChainError> {
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(4 << 20);
    options.start = start;
    Chain::open_with_file_size(disk, DIR.into(), options, [7; 16], clock(), file_size)
}

pub(crate) fn rebuilding(rebuild: Rebuild) -> StartOptions {
    StartOptions { rebuild, ..StartOptions::default() }
}

fn runs(disk: &FaultDisk) -> Vec<PathBuf> {
    let dir = Path::new(DIR).join("utxo");
    let mut names = disk.list(&dir).unwrap();
    names.sort();
    names.into_iter().map(|name| dir.join(name)).collect()
}

#[test]
fn coins_and_index_are_made_again_from_the_block_files() {
    let before = datadir(false);
    let expected = contents(&before);
    // Even where nothing of them is right.
    for path in runs(&before) {
        before.overwrite(&path, vec![1; 5000]);
    }
    for (rebuild, scripts_run) in [(Rebuild::Coins, false), (Rebuild::Index, true)] {
        let disk = before.copy();
        let mut chain = start(&disk, FILE_SIZE, rebuilding(rebuild)).unwrap();
        assert_eq!(chain.tip_point().height, 0);
        chain.settle(clock()).unwrap();
        let inputs = chain.status().scripts.inputs;
        let judged = inputs.proven + inputs.unclaimed + inputs.unproven;
        assert_eq!(judged > 0, scripts_run, "{rebuild:?}: {inputs:?}");
        chain.flush().unwrap();
        chain.close().unwrap();
        assert!(contents(&disk) == expected, "{rebuild:?}");
    }
}

/// Every operation of the start fails once, and the power goes at that moment. The next start needs no
/// option, whatever was there when the first one ended.
#[test]
fn a_rebuild_that_is_cut_short_anywhere_is_gone_on_with() {
    let before = datadir(false);
    let expected = contents(&before);
    for rebuild in [Rebuild::Coins, Rebuild::Index] {
        let (mut failures, mut began) = (0, 0);
        for n in 1.. {
            let disk = before.copy();
            disk.fail_change(n);
            let opened = start(&disk, FILE_SIZE, rebuilding(rebuild));
            if !disk.has_failed() {
                opened.unwrap();
                break;
            }
            drop(opened);
            failures += 1;
            disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
            let chain = try_open(&disk, None, FILE_SIZE).unwrap();
            began += usize::from(chain.tip_point().height == 0);
            drop(chain);
            assert!(contents(&disk) == expected, "{rebuild:?}, operation {n}");
        }
        println!("{rebuild:?}: {failures} operations failed, {began} times the coins were gone");
        assert!(
            failures > 5 && began > 0 && began < failures,
            "{rebuild:?}: {began} of {failures}"
        );
    }
}

/// A start that is told to stop once it has indexed some blocks.
fn stopped_after(disk: &FaultDisk, batches: usize, rebuild: Rebuild) -> Option<Indexed> {
    let last = Arc::new(Mutex::new(Indexed::default()));
    let stop = Arc::new(AtomicBool::new(batches == 0));
    let indexed = {
        let (last, stop, mut left) = (Arc::clone(&last), Arc::clone(&stop), batches);
        move |indexed| {
            *last.lock().unwrap() = indexed;
            left = left.saturating_sub(1);
            stop.store(left == 0, Ordering::Relaxed);
        }
    };
    let options =
        StartOptions { validates_history: false, rebuild, stop, indexed: Some(Box::new(indexed)) };
    match start(disk, FILE_SIZE, options) {
        Err(ChainError::Store(StoreError::Stopped)) => Some(*last.lock().unwrap()),
        Err(error) => panic!("{error}"),
        Ok(_) => None,
    }
}

#[test]
fn an_index_that_is_stopped_on_the_way_goes_on_where_it_was() {
    let before = datadir(false);
    let expected = contents(&before);
    before.remove(&database()).unwrap();
    for rebuild in [Rebuild::Nothing, Rebuild::Index] {
        // Before the first block is found, and in every batch.
        let disk = before.copy();
        let (mut stops, mut totals) = (0, Vec::new());
        assert!(stopped_after(&disk, 0, rebuild).is_some());
        while let Some(indexed) = stopped_after(&disk, 1, Rebuild::Nothing) {
            stops += 1;
            totals.push(indexed.total);
            assert!(indexed.bytes <= indexed.total, "{indexed:?}");
            disk.crash(Survival::Nothing);
            assert!(stops < 20, "it never ends: {totals:?}");
        }
        println!("{rebuild:?}: left to index {totals:?}");
        assert!(stops >= 2, "{totals:?}");
        assert!(totals.is_sorted_by(|a, b| a > b), "nothing is indexed twice: {totals:?}");
        assert!(contents(&disk) == expected, "{rebuild:?}");
    }
}

#[test]
fn a_pruned_datadir_keeps_its_coins_or_begins_again() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    assert!(chain.prune_height() > 0);
    chain.close().unwrap();
    let expected = disk.copy();
    let refused = start(&disk, ONE_BLOCK, rebuilding(Rebuild::Coins)).err();
    let Some(ChainError::Store(StoreError::IncompleteHistory { .. })) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(open(&disk, None, ONE_BLOCK).utxo_stats().unwrap(), *STATS, "nothing was touched");
    // A crash after the index is given up, and before the files are removed.
    let mut n = 0;
    loop {
        // Most operations remove one of hundreds of files.
        n += if n < 20 { 1 } else { 17 };
        let disk = expected.copy();
        disk.fail_change(n);
        let opened = start(&disk, ONE_BLOCK, rebuilding(Rebuild::Index));
        let failed = disk.has_failed();
        if failed {
            drop(opened);
            disk.crash(Survival::All);
        } else {
            disk.fail_nothing();
            opened.unwrap().close().unwrap();
        }
        let mut chain = open(&disk, None, ONE_BLOCK);
        if chain.tip_point().height == 0 {
            let blocks = disk.list(&Path::new(DIR).join("blocks")).unwrap();
            assert_eq!(blocks, ["xor.dat"], "operation {n}");
            assert_eq!(chain.prune_height(), 0);
        } else {
            assert_eq!(chain.utxo_stats().unwrap(), *STATS, "operation {n}");
        }
        if !failed {
            submit_all(&mut chain, &BLOCKS);
            assert_eq!(chain.utxo_stats().unwrap(), *STATS);
            break;
        }
    }
}

/// Its block is fetched again, and nothing else is in its way.
#[test]
fn c4_a_sector_that_cannot_be_read_keeps_no_index_from_being_made_again() {
    let good = datadir(false);
    let (stored, expected) = contents(&good);
    let without_database = good.copy();
    without_database.remove(&database()).unwrap();
    // One whose transactions fill sectors of their own.
    let in_a_sector = |at: &BlockPosition| u64::from(at.len) > 3 * SECTOR;
    let at = stored.iter().filter_map(|(_, at, _)| *at).filter(in_a_sector).nth(3).unwrap();
    let file = Path::new(DIR).join(format!("blocks/blk{:05}.dat", at.file));
    let body = (u64::from(at.offset) + 80).next_multiple_of(SECTOR);
    let head = u64::from(at.offset) / SECTOR * SECTOR;
    let everything: Vec<&Vec<u8>> = BLOCKS[..CONNECTED].iter().collect();
    let cases = [(&good, Rebuild::Index, body), (&good, Rebuild::Index, head)];
    let cases = cases.into_iter().chain([(&without_database, Rebuild::Nothing, body)]);
    for (disk, rebuild, at) in cases {
        let disk = disk.copy();
        disk.lose_sectors(&file, at..at + SECTOR);
        let mut chain = start_on(Arc::new(disk), FILE_SIZE, rebuilding(rebuild)).unwrap();
        if at == body {
            assert_eq!(chain.tree().stored() + 1, CONNECTED, "{rebuild:?}");
        }
        if rebuild == Rebuild::Index {
            give(&mut chain, &everything);
        }
        assert_eq!(chain.utxo_stats().unwrap(), expected, "{rebuild:?}, byte {at}");
        chain.close().unwrap();
    }
    // A page of the database is as good as damaged.
    let pages = good.contents(&database()).unwrap().len() as u64 / 4096;
    let mut made_again = 0;
    let aside = Path::new(DIR).join("godwit.damaged");
    for page in (0..pages).step_by(5) {
        let disk = good.copy();
        let bad = page * 4096 + SECTOR;
        disk.lose_sectors(&database(), bad..bad + SECTOR);
        let start = rebuilding(Rebuild::Nothing);
        let mut chain = start_on(Arc::new(disk.clone()), FILE_SIZE, start).unwrap();
        made_again += usize::from(disk.contents(&aside).is_some());
        chain.settle(clock()).unwrap();
        assert_eq!(chain.utxo_stats().unwrap(), expected, "page {page}");
    }
    assert!(made_again > 0, "of {pages} pages");
}

/// All blocks are connected; the database and all undo records are lost.
pub(crate) fn without_undo_files() -> FaultDisk {
    let disk = datadir(false);
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.settle(clock()).unwrap();
    chain.flush().unwrap();
    chain.close().unwrap();
    disk.remove(&database()).unwrap();
    for path in files(&disk).remove("rev.dat").unwrap() {
        disk.remove(&path).unwrap();
    }
    disk
}

/// What an index lacks that was made again without undo files.
#[test]
fn c5_blocks_that_have_no_undo_record_are_disconnected_all_the_same() {
    let disk = without_undo_files();
    let mut chain = open(&disk, None, FILE_SIZE);
    let fork = 125;
    let first = hash(&BLOCKS[fork]);
    let id = chain.tree().find(&first).unwrap();
    assert_eq!(chain.tree().node(id).undo, None);
    chain.invalidate_block(&first).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..fork]));
    chain.reconsider_block(&first).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..CONNECTED]));
    assert!(chain.tree().node(id).undo.is_some(), "it is made again with the block");
}

/// Whose frames are damaged too: blocks and undo records are known by what they hold.
#[test]
fn c5_an_index_is_made_again_where_frames_are_damaged() {
    let disk = datadir(false);
    let expected = contents(&disk);
    let kinds = files(&disk);
    for kind in ["blk.dat", "rev.dat"] {
        for path in &kinds[kind] {
            let disk = disk.copy();
            disk.remove(&database()).unwrap();
            let mut bytes = disk.contents(path).unwrap();
            let len = u32::from_le_bytes(bytes[4..8].try_into().unwrap()) as usize;
            let second = 8 + len + if kind == "rev.dat" { 32 } else { 0 };
            (bytes[0], bytes[second + 5]) = (!bytes[0], !bytes[second + 5]);
            disk.overwrite(path, bytes);
            assert!(contents(&disk) == expected, "{}", path.display());
        }
    }
}

/// All blocks connected, their undo records in one file, and no database.
fn in_one_file() -> (FaultDisk, Vec<Stored>) {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, 1 << 27);
    submit_all(&mut chain, &BLOCKS[..CONNECTED]);
    chain.flush().unwrap();
    chain.close().unwrap();
    let stored = contents(&disk).0;
    disk.remove(&database()).unwrap();
    (disk, stored)
}

fn undo_file() -> PathBuf {
    Path::new(DIR).join("blocks/rev00000.dat")
}

/// More in a row than a record may be out of order by, as one page of small ones has: those behind them are
/// found, and stay.
#[test]
fn c5_records_behind_any_number_of_lost_ones_are_found() {
    let (disk, stored) = in_one_file();
    let intact = disk.contents(&undo_file()).unwrap();
    for lost in [10..74, 10..75, 1..130, 60..149] {
        let start = |height: usize| stored[height - 1].2.unwrap().offset as usize - 8;
        let disk = disk.copy();
        let mut bytes = intact.clone();
        bytes[start(lost.start)..start(lost.end)].fill(0);
        disk.overwrite(&undo_file(), bytes.clone());
        for (height, found) in (1..).zip(contents(&disk).0) {
            let mut expected = stored[height - 1];
            if lost.contains(&height) {
                expected.2 = None;
            }
            assert!(found == expected, "{height} of {lost:?}: {found:?}, not {expected:?}");
        }
        let kept = disk.contents(&undo_file()).unwrap();
        assert!(kept == bytes, "{lost:?}: {} of {} bytes", kept.len(), bytes.len());
    }
}

/// The checksum of a record tells the block before, and so not which of its children it is of.
#[test]
fn c5_the_record_of_a_stale_sibling_is_not_taken_for_a_lost_one() {
    let (_, stored) = in_one_file();
    let (height, _) = (1..).zip(&stored).max_by_key(|(_, (.., undo))| undo.unwrap().len).unwrap();
    let before = height - 1;
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, 1 << 27);
    submit_all(&mut chain, &BLOCKS[..before]);
    submit_all(&mut chain, &branch(&BLOCKS, before as u32, 1));
    for block in &BLOCKS[before..CONNECTED] {
        submit(&mut chain, block);
    }
    assert_eq!(chain.tip_point().height as usize, CONNECTED);
    chain.flush().unwrap();
    chain.close().unwrap();
    let (with_sibling, coins) = contents(&disk);
    disk.remove(&database()).unwrap();
    assert!(contents(&disk.copy()) == (with_sibling.clone(), coins), "each has its own");
    let at = with_sibling[before].2.unwrap();
    assert!(at.len > 100, "it spends: {at:?}");
    let mut bytes = disk.contents(&undo_file()).unwrap();
    bytes[at.offset as usize + 3] ^= 1;
    disk.overwrite(&undo_file(), bytes);
    assert_eq!(contents(&disk).0[before].2, None);
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.invalidate_block(&hash(&BLOCKS[before])).unwrap();
    chain.settle(clock()).expect("it is looked for");
    let sibling = branch(&BLOCKS, before as u32, 1);
    let expected = stats_of(&[&BLOCKS[..before], &sibling].concat());
    assert_eq!(chain.utxo_stats().unwrap(), expected);
}

/// As Bitcoin Core writes a length within undo data.
fn var_int(mut n: usize) -> Vec<u8> {
    let mut bytes = vec![n as u8 & 0x7f];
    while n > 0x7f {
        n = (n >> 7) - 1;
        bytes.insert(0, n as u8 & 0x7f | 0x80);
    }
    bytes
}

/// An index may name such a record for a block that has rotted since.
#[test]
fn c5_a_record_that_does_not_fit_its_block_is_made_again() {
    let disk = datadir(false);
    let (stored, _) = contents(&disk);
    let of_block = |(_, (.., undo)): &(usize, &Stored)| undo.unwrap().len;
    let (height, (.., at)) = (1..).zip(&stored).max_by_key(of_block).unwrap();
    let at = at.unwrap();
    // One coin with a script that fills the record.
    let script = (0..at.len as usize).rev().find(|len| {
        let data = 5 + var_int(len + 6).len() + len;
        data == at.len as usize
    });
    let script = script.expect("there is such a length");
    let data = [vec![1, 1, 2, 0, 0], var_int(script + 6), vec![0x51; script]].concat();
    let prev = header(&BLOCKS[height - 1]).prev_blockhash.to_bytes();
    let checksum = sha256d(&[&prev[..], &data].concat());
    let path = Path::new(DIR).join(format!("blocks/rev{:05}.dat", at.file));
    let mut bytes = disk.contents(&path).unwrap();
    let record = [data, checksum.to_vec()].concat();
    bytes[at.offset as usize..][..record.len()].copy_from_slice(&record);
    disk.overwrite(&path, bytes);
    let mut chain = open(&disk, None, FILE_SIZE);
    chain.invalidate_block(&hash(&BLOCKS[height - 1])).unwrap();
    chain.settle(clock()).expect("it is looked for");
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..height - 1]));
}

use std::collections::BTreeSet;
use std::sync::Arc;

use godwit_fault_disk::FaultDisk;

use super::*;
use crate::disk::Disk;
use crate::fixtures::{MAGIC, append_block, block, header, record};
use crate::record::BlockRecord;
use crate::{BLOCK_BUFFERS, Commit, NetworkId, Rebuild, Store, StoreOptions};

const DIR: &str = "/node";
const BLOCKS: u32 = 20;

fn open_store(fault: &FaultDisk) -> Store {
    let options = StoreOptions {
        dir: PathBuf::from(DIR),
        network: NetworkId { magic: MAGIC, genesis: [9; 32] },
        new_hash_key: [3; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    let disk: Arc<dyn Disk> = Arc::new(fault.clone());
    // Two blocks in each file.
    Store::open_with_file_size(disk, options, 900).unwrap().0
}

/// A store with blocks of these numbers from `first` on; of the records those that have places.
fn append_blocks(store: &Store, first: u32) -> Vec<BlockRecord> {
    let records: Vec<BlockRecord> = (first..first + BLOCKS)
        .map(|n| {
            let position = append_block(store, &block(n, 400)).unwrap();
            BlockRecord { position: Some(position), ..record(n, n) }
        })
        .collect();
    commit(store, &records, Vec::new());
    records
}

fn commit(store: &Store, records: &[BlockRecord], pruned: Vec<u32>) {
    let blocks = records.iter().map(|record| (record.header.block_hash(), *record)).collect();
    let appended = store.take_appended();
    store.commit(Commit { appended, blocks, pruned, ..Commit::default() }).unwrap();
}

/// Prunes files of these numbers; returns the numbers of their blocks.
fn prune(store: &Store, records: &mut [BlockRecord], files: &[u32]) -> Vec<u32> {
    let mut gone = Vec::new();
    for record in records.iter_mut() {
        if record.position.is_some_and(|position| files.contains(&position.file)) {
            record.position = None;
            gone.push(*record);
        }
    }
    commit(store, &gone, files.to_vec());
    gone.iter().map(|record| record.height).collect()
}

fn kept(fault: &FaultDisk) -> (BTreeSet<u32>, Contents) {
    let (disk, mut numbers) = (StoreDisk::new(Arc::new(fault.clone())), BTreeSet::new());
    let contents = read(&disk, Path::new(DIR), &AtomicBool::new(false), &mut |block| {
        assert_eq!(block, PrunedBlock { header: header(block.header.nonce), tx_count: 1 });
        numbers.insert(block.header.nonce);
    });
    (numbers, contents.unwrap())
}

fn check(fault: &FaultDisk, expected: &[u32]) {
    let (numbers, contents) = kept(fault);
    assert_eq!(numbers, expected.iter().copied().collect());
    assert_eq!(contents.damage, None);
    assert_eq!(contents.bytes, contents.end);
}

#[test]
fn a_record_is_read_as_it_was_written_and_no_flipped_bit_passes() {
    let block = PrunedBlock { header: header(5), tx_count: 70_000 };
    let good = block.encoded();
    assert_eq!(PrunedBlock::decoded(&good), Some(block));
    for bit in 0..good.len() * 8 {
        let mut bad = good;
        bad[bit / 8] ^= 1 << (bit % 8);
        assert_eq!(PrunedBlock::decoded(&bad), None, "bit {bit}");
    }
    assert_eq!(PrunedBlock::decoded(&[0; RECORD]), None);
    assert_eq!(PrunedBlock::decoded(&good[1..]), None);
}

#[test]
fn nothing_is_written_before_something_is_pruned() {
    let fault = FaultDisk::new();
    let store = open_store(&fault);
    append_blocks(&store, 1);
    drop(store);
    drop(open_store(&fault));
    assert!(fault.paths().iter().all(|path| !path.ends_with(FILE)), "{:?}", fault.paths());
}

#[test]
fn each_pruned_block_is_kept_and_a_torn_tail_is_cut_off() {
    let fault = FaultDisk::new();
    let store = open_store(&fault);
    let mut records = append_blocks(&store, 1);
    let mut gone = prune(&store, &mut records, &[0, 1]);
    assert_eq!(gone, [1, 2, 3, 4]);
    check(&fault, &gone);
    gone.extend(prune(&store, &mut records, &[3]));
    check(&fault, &gone);
    drop(store);
    let good = fault.contents(&path(Path::new(DIR))).unwrap();
    // What a crash has left: whole records are true, whatever the database says.
    let whole = PrunedBlock { header: header(9), tx_count: 1 }.encoded();
    let tails: [(&[u8], bool); 4] =
        [(&[], false), (&whole, true), (&whole[..87], false), (&[0; 4000], false)];
    for (tail, is_kept) in tails {
        let fault = fault.copy();
        fault.overwrite(&path(Path::new(DIR)), [&good[..], tail].concat());
        let store = open_store(&fault);
        let mut expected = gone.clone();
        expected.extend(is_kept.then_some(9));
        check(&fault, &expected);
        expected.extend(prune(&store, &mut records.clone(), &[5]));
        check(&fault, &expected);
    }
}

/// An earlier version has pruned, before or in between, or somebody has touched the file.
#[test]
fn a_directory_without_the_file_or_with_one_of_before_gets_it_from_its_database() {
    let fault = FaultDisk::new();
    let store = open_store(&fault);
    let mut records = append_blocks(&store, 1);
    let mut gone = prune(&store, &mut records, &[0, 1]);
    let before = fault.contents(&path(Path::new(DIR))).unwrap();
    gone.extend(prune(&store, &mut records, &[2]));
    drop(store);

    // It never knew the file.
    let older = fault.copy();
    older.remove(&path(Path::new(DIR))).unwrap();
    let store = open_store(&older);
    let mut batch = store.db.batch().unwrap();
    batch.remove(&PRUNED_END, ONLY).unwrap();
    batch.commit().unwrap();
    drop(store);
    older.remove(&path(Path::new(DIR))).unwrap();
    drop(open_store(&older));
    check(&older, &gone);

    // It pruned a file in between.
    let turns = fault.copy();
    turns.overwrite(&path(Path::new(DIR)), before.clone());
    let store = open_store(&turns);
    let mut batch = store.db.batch().unwrap();
    let of_before = PrunedEnd { end: before.len() as u64, files: 2 };
    batch.put(&PRUNED_END, ONLY, &of_before).unwrap();
    batch.commit().unwrap();
    drop(store);
    turns.overwrite(&path(Path::new(DIR)), before.clone());
    drop(open_store(&turns));
    check(&turns, &gone);

    // It is gone or cut short, at rest or while the store is open.
    for left in [None, Some(Vec::new()), Some(before[..100].to_vec())] {
        for is_open in [false, true] {
            let fault = fault.copy();
            let store = is_open.then(|| open_store(&fault));
            match &left {
                Some(bytes) => fault.overwrite(&path(Path::new(DIR)), bytes.clone()),
                None => fault.remove(&path(Path::new(DIR))).unwrap(),
            }
            let store = store.unwrap_or_else(|| open_store(&fault));
            let mut expected = gone.clone();
            if !is_open {
                check(&fault, &expected);
            }
            expected.extend(prune(&store, &mut records.clone(), &[4]));
            check(&fault, &expected);
        }
    }
}

#[test]
fn c5_a_scrub_writes_it_again_where_it_is_damaged() {
    let fault = FaultDisk::new();
    let store = open_store(&fault);
    let mut records = append_blocks(&store, 1);
    let gone = prune(&store, &mut records, &[0, 1]);
    let good = fault.contents(&path(Path::new(DIR))).unwrap();
    let mut flipped = good.clone();
    flipped[100] ^= 4;
    let short = good[..RECORD * 2].to_vec();
    for (bytes, at) in [(flipped, RECORD as u64), (short, RECORD as u64 * 2)] {
        fault.overwrite(&path(Path::new(DIR)), bytes);
        let stopped = store.scrub_files(&Arc::new(AtomicBool::new(true))).unwrap();
        assert_eq!(stopped.found, []);
        let scrubbed = store.scrub_files(&Arc::default()).unwrap();
        let found: Vec<_> =
            scrubbed.found.iter().map(|found| (found.path.as_path(), found.offset)).collect();
        assert_eq!(found, [(&*path(Path::new(DIR)), at)]);
        assert_eq!(scrubbed.found[0].remedy, crate::error::Remedy::Done);
        check(&fault, &gone);
        assert_eq!(store.scrub_files(&Arc::default()).unwrap().found, []);
    }
    let gone = [gone, prune(&store, &mut records, &[2])].concat();
    check(&fault, &gone);
}

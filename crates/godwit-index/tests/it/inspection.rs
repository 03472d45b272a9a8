//! The inspection of indexes: what is damaged is named with its file, and what a crash leaves is not.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::Chain;
use godwit_fault_disk::FaultDisk;
use godwit_index::{
    CoinStatsIndex, FilterIndex, Follower, INDEXES_DIR, Index, IndexDamage, IndexError,
    IndexInspection, IndexRemedy, IndexWatch,
};
use godwit_store::StoreError;
use godwit_store::disk::StoreDisk;

use crate::beside::{BLOCKS, DIR, branch, chain_of, follow, kill_at_any_operation, settle, submit};
use crate::per_block::PerBlock;
use crate::transactions;

#[derive(Default)]
struct Noted {
    found: Vec<IndexDamage>,
    last: (u64, u64),
    is_stopped: bool,
}

impl IndexWatch for Noted {
    fn found(&mut self, damage: IndexDamage) {
        self.found.push(damage);
    }

    fn progress(&mut self, done: u64, total: u64) {
        assert!(done <= total && done >= self.last.0, "{done} of {total}, {:?}", self.last);
        self.last = (done, total);
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped
    }
}

fn run(
    disk: &FaultDisk,
    chain: &Chain,
    (lowest, repair): (u32, bool),
    watch: &mut Noted,
) -> Result<usize, StoreError> {
    let store = StoreDisk::new(Arc::new(disk.clone()));
    let (dir, genesis) = (Path::new(DIR).join(INDEXES_DIR), chain.params().genesis_hash);
    IndexInspection { disk: &store, dir: &dir, genesis, lowest, repair }.run(watch)
}

/// What is found, where blocks below `lowest` are deleted.
fn inspect(disk: &FaultDisk, chain: &Chain, lowest: u32, repair: bool) -> Vec<IndexDamage> {
    let mut noted = Noted::default();
    run(disk, chain, (lowest, repair), &mut noted).expect("no fault");
    assert_eq!(noted.last.0, noted.last.1);
    noted.found
}

fn walk<I: Index>(chain: &Chain, index: Result<I, IndexError>) {
    let mut follower = Follower::new(index.expect("it opens"));
    follow(chain, &mut follower).expect("no fault");
    follower.close().expect("no fault");
}

/// Lets all indexes follow the chain, and closes them.
fn walk_all(disk: &FaultDisk, chain: &Chain) {
    walk(chain, transactions::index(disk, chain));
    walk(chain, FilterIndex::writer(disk, chain));
    walk(chain, CoinStatsIndex::writer(disk, chain));
}

/// A chain behind a reorganisation, and a disk with all indexes of it.
fn indexed() -> (Chain, FaultDisk) {
    let (mut chain, disk) = (chain_of(&FaultDisk::new(), &BLOCKS), FaultDisk::new());
    walk_all(&disk, &chain);
    let other = branch(&BLOCKS, BLOCKS.len() - 12, 13, 0);
    other.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    walk_all(&disk, &chain);
    (chain, disk)
}

fn files(disk: &FaultDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |path: PathBuf| Some((path.clone(), disk.contents(&path)?));
    disk.paths().into_iter().filter_map(file).collect()
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("ASCII")
}

/// Where bytes of a file are flipped. What is before a filter nobody reads, and so few records may be what a
/// crash has left.
fn places(path: &Path, len: usize) -> Vec<usize> {
    match name(path) {
        "records.dat" => vec![0, 20],
        "stale.dat" => vec![0, len / 3],
        "manifest" => vec![0, len / 2, len - 1],
        name if name.starts_with("fltr") => vec![len - 1],
        _ => vec![0, len / 2, len - 1],
    }
}

fn flipped(disk: &FaultDisk, path: &Path, at: usize) -> FaultDisk {
    let disk = disk.copy();
    let mut bytes = disk.contents(path).expect("a file");
    bytes[at] ^= 4;
    disk.overwrite(path, bytes);
    disk
}

#[test]
fn sound_indexes_are_read_to_their_ends_and_nothing_is_found() {
    let (chain, disk) = indexed();
    for lowest in [0, 100, u32::MAX] {
        let mut noted = Noted::default();
        assert_eq!(run(&disk, &chain, (lowest, true), &mut noted), Ok(3));
        assert!(noted.found.is_empty(), "{:?}", noted.found);
        let total = files(&disk).values().map(|bytes| bytes.len() as u64).sum();
        assert_eq!(noted.last, (total, total));
    }
    let mut stopped = Noted { is_stopped: true, ..Noted::default() };
    assert_eq!(run(&disk, &chain, (0, false), &mut stopped), Err(StoreError::Stopped));
    let mut none = Noted::default();
    assert_eq!(run(&FaultDisk::new(), &chain, (0, true), &mut none), Ok(0));
    chain.close().expect("no fault");
}

#[test]
fn each_damaged_or_missing_file_of_an_index_is_named_once() {
    let (chain, start) = indexed();
    for (path, bytes) in files(&start) {
        let mut cases: Vec<(String, FaultDisk)> = (places(&path, bytes.len()).into_iter())
            .map(|at| (format!("{} at {at}", path.display()), flipped(&start, &path, at)))
            .collect();
        let missing = start.copy();
        let store = StoreDisk::new(Arc::new(missing.clone()));
        store.remove(&path).expect("no fault");
        cases.push((format!("{} missing", path.display()), missing));
        for (what, disk) in cases {
            let found = inspect(&disk, &chain, 0, false);
            assert_eq!(found.len(), 1, "{what}: {found:?}");
            let line = found[0].to_string();
            assert!(line.contains(&path.display().to_string()), "{what}: {line}");
            assert!(found[0].error.is_damage(), "{what}: {line}");
            let is_of_left_blocks = found[0].remedy == IndexRemedy::CutOff;
            assert_eq!(is_of_left_blocks, name(&path) == "stale.dat", "{what}: {line}");
        }
    }
    chain.close().expect("no fault");
}

#[test]
fn a_repair_removes_what_can_be_built_again_and_nothing_else() {
    let (chain, start) = indexed();
    // Nothing brings back what is in the others.
    for (path, bytes) in files(&start).into_iter().filter(|(path, _)| name(path) != "stale.dat") {
        let disk = flipped(&start, &path, places(&path, bytes.len())[0]);
        let before = files(&disk);
        // Blocks are deleted.
        let found = inspect(&disk, &chain, 1, true);
        assert_eq!(found.len(), 1, "{}: {found:?}", path.display());
        assert_eq!(found[0].remedy, IndexRemedy::Download);
        assert_eq!(files(&disk), before);
        // None is.
        assert_eq!(inspect(&disk, &chain, 0, false)[0].remedy, IndexRemedy::Rebuild);
        assert_eq!(files(&disk), before);
        assert_eq!(inspect(&disk, &chain, 0, true)[0].remedy, IndexRemedy::Removed);
        let index = path.parent().expect("it is in a directory");
        let others = before.keys().filter(|path| !path.starts_with(index));
        assert!(files(&disk).keys().eq(others));
        assert!(inspect(&disk, &chain, 0, false).is_empty());
        walk_all(&disk, &chain);
        let mut noted = Noted::default();
        assert_eq!(run(&disk, &chain, (0, false), &mut noted), Ok(3));
        assert!(noted.found.is_empty(), "{:?}", noted.found);
    }
    chain.close().expect("no fault");
}

#[test]
fn what_a_crash_leaves_of_the_last_records_is_no_damage_unless_their_blocks_are_deleted() {
    let (chain, start) = indexed();
    let path = Path::new(DIR).join(INDEXES_DIR).join("coinstats/records.dat");
    let len = start.contents(&path).expect("the records").len();
    // Of what is written together any sectors may be missing.
    for at in [len - 1, len / 2] {
        let disk = flipped(&start, &path, at);
        assert!(inspect(&disk, &chain, 0, true).is_empty());
        let found = inspect(&disk, &chain, u32::MAX, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].remedy, IndexRemedy::Download);
        walk_all(&disk, &chain);
        assert!(inspect(&disk, &chain, u32::MAX, false).is_empty());
    }
    let short = start.copy();
    short.overwrite(&path, start.contents(&path).expect("the records")[..len - 7].to_vec());
    assert!(inspect(&short, &chain, 0, true).is_empty());
    chain.close().expect("no fault");
}

/// From before there was an index to behind a reorganisation.
#[test]
fn no_kill_leaves_what_an_inspection_calls_damaged() {
    let before = chain_of(&FaultDisk::new(), &BLOCKS);
    let (after, _) = indexed();
    let is_sound = |disk: &FaultDisk, moment: &str| {
        let found = inspect(disk, &after, 0, false);
        assert!(found.is_empty(), "{moment}: {found:?}");
    };
    let (chains, empty) = ([&before, &after], FaultDisk::new());
    let transactions = |disk: &FaultDisk| transactions::index(disk, &after);
    assert!(kill_at_any_operation(&empty, &chains, transactions, is_sound) > 10);
    let filters = |disk: &FaultDisk| FilterIndex::writer(disk, &after);
    assert!(kill_at_any_operation(&empty, &chains, filters, is_sound) > 10);
    let coin_stats = |disk: &FaultDisk| CoinStatsIndex::writer(disk, &after);
    assert!(kill_at_any_operation(&empty, &chains, coin_stats, is_sound) > 10);
    before.close().expect("no fault");
    after.close().expect("no fault");
}

/// They are not found any more, and `verify` does not name the place for ever.
#[test]
fn a_start_cuts_off_what_is_behind_a_damaged_record_of_a_block_that_was_left() {
    let (chain, start) = indexed();
    for index in ["coinstats", "blockfilter/basic"] {
        let path = Path::new(DIR).join(INDEXES_DIR).join(index).join("stale.dat");
        let len = start.contents(&path).expect("left blocks").len();
        let disk = flipped(&start, &path, len / 3);
        // Also where it repairs: a rebuild would not bring them back.
        assert_eq!(inspect(&disk, &chain, 0, true)[0].remedy, IndexRemedy::CutOff);
        walk_all(&disk, &chain);
        assert!(inspect(&disk, &chain, 0, false).is_empty());
        assert!(disk.contents(&path).is_some_and(|bytes| bytes.len() < len / 3));
    }
    chain.close().expect("no fault");
}

/// Whether blocks are deleted or not: nothing but those records is lost.
#[test]
fn a_start_begins_the_file_of_blocks_that_were_left_again_where_its_beginning_is_damaged() {
    let (chain, start) = indexed();
    for index in ["coinstats", "blockfilter/basic"] {
        let dir = Path::new(DIR).join(INDEXES_DIR).join(index);
        let path = dir.join("stale.dat");
        let header = start.contents(&path).expect("left blocks")[..64].to_vec();
        let (missing, short) = (start.copy(), start.copy());
        StoreDisk::new(Arc::new(missing.clone())).remove(&path).expect("no fault");
        short.overwrite(&path, header[..20].to_vec());
        for disk in [flipped(&start, &path, 0), flipped(&start, &path, 63), missing, short] {
            let records = disk.contents(&dir.join("records.dat"));
            for lowest in [0, 100] {
                // Also where it repairs: a rebuild would not bring them back.
                let found = inspect(&disk, &chain, lowest, true);
                assert_eq!(found.len(), 1, "{found:?}");
                assert_eq!(found[0].remedy, IndexRemedy::CutOff);
            }
            walk_all(&disk, &chain);
            assert_eq!(disk.contents(&path).as_ref(), Some(&header));
            assert_eq!(disk.contents(&dir.join("records.dat")), records);
            assert!(inspect(&disk, &chain, 100, false).is_empty());
        }
    }
    chain.close().expect("no fault");
}

/// The same chain, numbers and lengths.
#[test]
fn a_run_of_another_directory_is_named() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let (own, foreign) = (FaultDisk::new(), FaultDisk::new());
    walk(&chain, transactions::index(&own, &chain));
    walk(&chain, transactions::index_of_other_key(&foreign, &chain));
    let mut runs = files(&foreign);
    runs.retain(|path, _| path.extension().is_some_and(|name| name == "txs"));
    assert!(!runs.is_empty());
    for (path, bytes) in runs {
        let disk = own.copy();
        assert_eq!(disk.contents(&path).map(|own| own.len()), Some(bytes.len()));
        disk.overwrite(&path, bytes);
        let found = inspect(&disk, &chain, 0, false);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].to_string().starts_with(&path.display().to_string()), "{found:?}");
    }
    chain.close().expect("no fault");
}

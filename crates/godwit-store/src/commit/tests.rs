//! Each operation that changes the disk fails once, the machine goes down in every way that the
//! fault disk knows, and nothing that a commit has promised may be missing afterwards.

mod appends;
mod slow;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use godwit_fault_disk::{Counted, FaultDisk, Survival};
use godwit_primitives::Coin;

use super::*;
use crate::block_files::file_number;
use crate::disk::Disk;
use crate::error::NetworkId;
use crate::fixtures::{
    MAGIC, append_block, append_undo, block, coin, header, point, record, undo_record,
};
use crate::record::{BlockPosition, CommittedState, FileEnds};
use crate::store::{BLOCK_BUFFERS, Rebuild, StoreOptions};
use crate::{RecoveredBlock, UndoRecord};

/// Small, so that the workload fills several files.
const MAX_FILE_SIZE: u32 = 2000;
const COMMITS: u32 = 5;
const BLOCKS_PER_COMMIT: u32 = 3;
/// Blocks below the highest one whose files a workload with pruning does not delete.
const KEPT: u32 = 4;

fn open(fault: &FaultDisk) -> Result<(Store, Vec<RecoveredBlock>), StoreError> {
    open_on(Arc::new(fault.clone()))
}

fn open_on(disk: Arc<dyn Disk>) -> Result<(Store, Vec<RecoveredBlock>), StoreError> {
    let network = NetworkId { magic: MAGIC, genesis: [9; 32] };
    let options = StoreOptions {
        dir: "/node".into(),
        network,
        new_hash_key: [3; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    Store::open_with_file_size(disk, options, MAX_FILE_SIZE)
}

fn block_of(height: u32) -> Vec<u8> {
    block(height, 150 + 97 * height as usize)
}

fn spent_by(height: u32) -> Vec<Vec<Coin>> {
    (0..height % 4).map(|tx| (0..tx).map(|input| coin(height * 100 + input)).collect()).collect()
}

/// What a restart must find.
#[derive(Clone, Default, PartialEq, Debug)]
struct Model {
    state: CommittedState,
    blocks: BTreeMap<u32, BlockRecord>,
    pruned: BTreeSet<u32>,
}

impl Model {
    /// Takes the blocks out of the files before `last` that hold none of the highest ones; those
    /// files, and the heights of their blocks.
    fn prune(&mut self, last: u32) -> (Vec<u32>, Vec<u32>) {
        let newest = self.blocks.last_key_value().map_or(0, |(height, _)| *height);
        let mut highest = BTreeMap::new();
        for (height, record) in &self.blocks {
            highest.extend(record.position.map(|position| (position.file, *height)));
        }
        highest.retain(|file, height| *file < last && *height + KEPT <= newest);
        let mut heights = Vec::new();
        for (height, record) in &mut self.blocks {
            if record.position.is_some_and(|position| highest.contains_key(&position.file)) {
                (record.position, record.undo) = (None, None);
                heights.push(*height);
            }
        }
        self.pruned.extend(highest.keys());
        (highest.into_keys().collect(), heights)
    }
}

/// What the workload has come to.
#[derive(Default)]
struct Progress {
    /// Whether the workload deletes old files.
    pruning: bool,
    committed: Model,
    /// The commit that failed, if one did: it may or may not be in force.
    attempted: Option<Model>,
    /// Blocks appended after the last commit.
    appended: Vec<(u32, BlockPosition)>,
}

fn append(store: &Store, height: u32, progress: &mut Progress) -> Result<BlockRecord, StoreError> {
    let mut record = record(height, height);
    let position = append_block(store, &block_of(height))?;
    progress.appended.push((height, position));
    record.position = Some(position);
    let spent = spent_by(height);
    let undo = undo_record(&record.header.prev_blockhash, &spent, store.block_buffers());
    record.undo = Some(append_undo(store, position, &undo)?);
    Ok(record)
}

/// Commits of both kinds, from `first` on; stops at the first error.
fn work(store: &Store, first: u32, progress: &mut Progress) -> Result<(), StoreError> {
    for round in 0..COMMITS {
        let mut next = progress.committed.clone();
        let start = first + round * BLOCKS_PER_COMMIT;
        let mut changed = BTreeSet::new();
        for height in start..start + BLOCKS_PER_COMMIT {
            next.blocks.insert(height, append(store, height, progress)?);
            changed.insert(height);
        }
        let mut pruned = Vec::new();
        if progress.pruning {
            let (files, heights) = next.prune(store.first_open_file());
            pruned = files;
            changed.extend(heights);
        }
        let entry = |height: &u32| (next.blocks[height].header.block_hash(), next.blocks[height]);
        let blocks = changed.iter().map(entry).collect();
        let tip = point(start, start);
        next.state.verified_tip = Some(tip);
        let utxo = (round % 2 == 1).then(|| {
            let manifest = SerializeData::from_iter([round as u8; 300]);
            (next.state.utxo_tip, next.state.utxo_manifest) = (Some(tip), Some(manifest.clone()));
            UtxoCommit { tip, manifest, assumed: None }
        });
        progress.attempted = Some(next.clone());
        store.commit(Commit {
            appended: store.take_appended(),
            blocks,
            pruned,
            verified_tip: Some(tip),
            utxo,
            history: None,
            scrub: None,
        })?;
        progress.committed = next;
        progress.attempted = None;
        progress.appended.clear();
    }
    Ok(())
}

/// Reads everything back, every byte that the index names.
fn found(store: &Store) -> Model {
    let mut model = Model { state: store.state().unwrap(), ..Model::default() };
    store
        .for_each_block(|_, record| {
            model.blocks.insert(record.height, record);
            Ok(())
        })
        .unwrap();
    for (height, record) in &model.blocks {
        let (Some(position), Some(undo)) = (record.position, record.undo) else {
            assert_eq!((record.position, record.undo), (None, None));
            continue;
        };
        let bytes = store.read_block(position).unwrap();
        assert_eq!(bytes.as_slice(), block_of(*height));
        let undo = store.read_undo(undo, &record.header.prev_blockhash).unwrap();
        assert!(undo.transactions().eq(spent_by(*height).iter().map(Vec::as_slice)));
    }
    let ends = store.ends.lock().unwrap();
    let pruned = ends.files.iter().filter(|(_, ends)| **ends == FileEnds::PRUNED);
    model.pruned = pruned.map(|(file, _)| *file).collect();
    model
}

/// Numbers of the files that the disk has.
fn on_disk(fault: &FaultDisk, prefix: &str) -> BTreeSet<u32> {
    let names = fault.list(Path::new("/node/blocks")).unwrap();
    names.iter().filter_map(|name| file_number(Path::new(name), prefix)).collect()
}

fn survivals(n: u64) -> [Survival; 4] {
    [Survival::All, Survival::Nothing, Survival::Part(n), Survival::Part(n + 1_000_000)]
}

/// After a crash: the store opens, has what it must have, and works on.
fn check_after_crash(
    fault: &FaultDisk,
    progress: &mut Progress,
    survival: Survival,
    context: &str,
) {
    let (store, recovered) = open(fault).unwrap_or_else(|error| panic!("{context}: {error}"));
    let model = found(&store);
    let attempted = progress.attempted.as_ref() == Some(&model);
    assert!(attempted || model == progress.committed, "{context}: {model:?}");
    for prefix in ["blk", "rev"] {
        let left = on_disk(fault, prefix);
        assert!(left.is_disjoint(&model.pruned), "{context}: {prefix} {left:?} of {model:?}");
    }
    if !attempted && matches!(survival, Survival::All) {
        // The process died alone: what was appended completely need not be downloaded again.
        let expected = progress.appended.iter().map(|(height, position)| RecoveredBlock {
            position: *position,
            header: header(*height),
        });
        let expected: Vec<_> = expected.collect();
        assert!(recovered.starts_with(&expected), "{context}: {recovered:?}");
        for (height, position) in &progress.appended {
            assert_eq!(store.read_block(*position).unwrap().as_slice(), block_of(*height));
        }
    }
    let pruning = progress.pruning;
    *progress = Progress { pruning, committed: model, ..Progress::default() };
    let next = progress.committed.blocks.last_key_value().map_or(1, |(height, _)| height + 1);
    work(&store, next, progress).unwrap();
    assert_eq!(found(&store), progress.committed, "{context}");
    drop(store);
    fault.crash(Survival::Nothing);
    let (store, recovered) = open(fault).unwrap();
    assert_eq!(recovered, []);
    assert_eq!(found(&store), progress.committed, "{context}: after the second crash");
}

#[test]
fn nothing_durable_is_lost_whichever_operation_fails() {
    any_operation_may_fail(false);
}

#[test]
fn nothing_that_is_needed_is_lost_whichever_operation_of_pruning_fails() {
    any_operation_may_fail(true);
}

fn any_operation_may_fail(pruning: bool) {
    for n in 1.. {
        let mut finished = false;
        for survival in survivals(n) {
            let context = format!("operation {n}, {survival:?}");
            let fault = FaultDisk::new();
            let mut progress = Progress { pruning, ..Progress::default() };
            fault.fail_change(n);
            match open(&fault).and_then(|(store, _)| {
                let result = work(&store, 1, &mut progress);
                if let Err(error) = &result {
                    assert!(error.is_disk_full(), "{context}: {error}");
                    let later = append_block(&store, &block_of(1)).unwrap_err();
                    assert!(matches!(later, StoreError::Closed(_)), "{context}: {later}");
                    assert!(matches!(
                        store.commit(Commit {
                            appended: store.take_appended(),
                            ..Commit::default()
                        }),
                        Err(StoreError::Closed(_))
                    ));
                }
                result
            }) {
                Ok(()) => finished = !fault.has_failed(),
                Err(error) => assert!(error.is_disk_full(), "{context}: {error}"),
            }
            fault.crash(survival);
            check_after_crash(&fault, &mut progress, survival, &context);
        }
        if finished {
            let least = if pruning { 70 } else { 60 };
            assert!(n > least, "the workload has only {n} operations");
            return;
        }
    }
}

#[test]
fn a_crash_while_recovering_from_a_crash_loses_nothing() {
    recovering_may_fail(false);
}

#[test]
fn a_crash_while_removing_what_a_crash_has_left_of_pruned_files_loses_nothing() {
    recovering_may_fail(true);
}

fn recovering_may_fail(pruning: bool) {
    for n in 1.. {
        let mut finished = false;
        for survival in survivals(n) {
            let context = format!("recovery operation {n}, {survival:?}");
            let fault = FaultDisk::new();
            let mut progress = Progress { pruning, ..Progress::default() };
            let (store, _) = open(&fault).unwrap();
            work(&store, 1, &mut progress).unwrap();
            for height in 16..20 {
                append(&store, height, &mut progress).unwrap();
            }
            drop(store);
            fault.crash(Survival::Part(n));
            fault.fail_change(n);
            let opened = open(&fault).map(drop);
            // Dropping the store writes too, and tells nobody.
            finished = opened.is_ok() && !fault.has_failed();
            fault.crash(survival);
            // What the first crash has left of the appended blocks is not known here.
            progress.appended.clear();
            check_after_crash(&fault, &mut progress, survival, &context);
        }
        if finished {
            return;
        }
    }
}

#[test]
fn a_block_appended_beside_a_commit_belongs_to_the_next() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let mut progress = Progress::default();
    let mut records = Vec::new();
    std::thread::scope(|scope| {
        let appender = scope.spawn(|| {
            (1..40).map(|height| append(&store, height, &mut progress).unwrap()).collect()
        });
        for _ in 0..10 {
            store.commit(Commit { appended: store.take_appended(), ..Commit::default() }).unwrap();
        }
        records = appender.join().unwrap();
    });
    let entry = |record: &BlockRecord| (record.header.block_hash(), *record);
    let blocks = records.iter().map(entry).collect();
    store.commit(Commit { appended: store.take_appended(), blocks, ..Commit::default() }).unwrap();
    drop(store);
    fault.crash(Survival::Nothing);
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, []);
    assert!(found(&store).blocks.into_values().eq(records));
}

/// The connector appends a block after it has put a commit together and before that is written. The
/// block has no entry in the index yet, so it must be found behind the committed end.
#[test]
fn a_block_appended_before_a_prepared_commit_is_written_is_found_again() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let mut progress = Progress::default();
    let first = append(&store, 1, &mut progress).unwrap();
    let commit = Commit {
        appended: store.take_appended(),
        blocks: vec![(first.header.block_hash(), first)],
        ..Commit::default()
    };
    let second = append(&store, 2, &mut progress).unwrap();
    store.commit(commit).unwrap();
    drop(store);
    fault.crash(Survival::All);
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(
        recovered.iter().map(|block| Some(block.position)).collect::<Vec<_>>(),
        [second.position]
    );
    assert!(found(&store).blocks.into_values().eq([first]));
}

/// Undo data may reach a file whose block's bytes the same commit has not yet counted.
#[test]
fn the_tail_begins_in_the_last_file_with_committed_blocks() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let mut progress = Progress::default();
    work(&store, 1, &mut progress).unwrap();
    let mut batch = store.db.batch().unwrap();
    let last = progress.committed.blocks.last_key_value().unwrap().1.position.unwrap();
    let ends = FileEnds { blocks: 0, undo: 1 };
    batch.put(&FILE_ENDS, last.file + 1, &ends).unwrap();
    batch.commit().unwrap();
    let appended = append_block(&store, &block(99, 80)).unwrap();
    assert_eq!(appended.file, last.file);
    drop(store);
    let (_, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, [RecoveredBlock { position: appended, header: header(99) }]);
}

/// Reads and writes of a commit of 20,000 records of branches on top of 100,000, in that order of them.
fn operations_of_many_branches(reorder: impl FnOnce(&mut Vec<(BlockHash, BlockRecord)>)) -> u64 {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let branches = |numbers: std::ops::Range<u32>| -> Vec<_> {
        let entry = |n| {
            let record = record(n, 1 + n % 80);
            (record.header.block_hash(), record)
        };
        numbers.map(entry).collect()
    };
    store.commit(Commit { blocks: branches(0..100_000), ..Commit::default() }).unwrap();
    let mut blocks = branches(100_000..120_000);
    reorder(&mut blocks);
    let count = || fault.count(Counted::Reads) + fault.count(Counted::Writes);
    let before = count();
    store.commit(Commit { blocks, ..Commit::default() }).unwrap();
    count() - before
}

/// A peer that mines branches at no cost, as one can on regtest, gives records all over the database.
#[test]
fn a_commit_of_many_branches_costs_the_same_in_whatever_order_they_came() {
    let in_order = operations_of_many_branches(|blocks| {
        blocks.sort_by_key(|(hash, record)| (record.height, *hash));
    });
    assert_eq!(operations_of_many_branches(|_| {}), in_order);
}

#[test]
fn c5_a_commit_goes_on_without_a_block_file_that_was_removed_since_the_start() {
    let fault = FaultDisk::new();
    let mut progress = Progress::default();
    work(&open(&fault).unwrap().0, 0, &mut progress).unwrap();
    let (store, _) = open(&fault).unwrap();
    let (path, record) = (store.block_file(store.first_open_file()), record(1000, 1000));
    let fill = fault.contents(&path).unwrap().len();
    fault.remove(&path).unwrap();
    let blocks = vec![(record.header.block_hash(), record)];
    store.commit(Commit { appended: store.take_appended(), blocks, ..Commit::default() }).unwrap();
    drop(store);
    // As a start without it.
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!((recovered, fault.contents(&path).unwrap().len()), (vec![], fill));
    let mut last = 0;
    let visit = |_, record: BlockRecord| {
        last = record.height;
        Ok(())
    };
    store.for_each_block(visit).unwrap();
    assert_eq!(last, 1000);
}

#[test]
fn an_empty_commit_is_a_commit() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    store.commit(Commit { appended: store.take_appended(), ..Commit::default() }).unwrap();
    assert_eq!(store.state().unwrap(), CommittedState::default());
    assert!(fault.contents(Path::new("/node/blocks/blk00000.dat")).is_none());
}

#[test]
fn pruned_files_are_gone_when_the_commit_returns_and_the_rest_is_counted() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let mut progress = Progress { pruning: true, ..Progress::default() };
    work(&store, 1, &mut progress).unwrap();
    let pruned = &progress.committed.pruned;
    assert!(pruned.len() >= 3, "{pruned:?}");
    assert_eq!(found(&store), progress.committed);
    let len = |prefix: &str, file: u32| {
        let path = format!("/node/blocks/{prefix}{file:05}.dat");
        fault.contents(Path::new(&path)).map_or(0, |bytes| bytes.len() as u64)
    };
    let left = on_disk(&fault, "blk");
    assert!(left.is_disjoint(pruned) && on_disk(&fault, "rev").is_subset(&left));
    let bytes = left.iter().map(|file| (*file, len("blk", *file) + len("rev", *file)));
    assert_eq!(store.file_bytes(), bytes.collect());
    assert_eq!(left.last(), Some(&store.first_open_file()));
}

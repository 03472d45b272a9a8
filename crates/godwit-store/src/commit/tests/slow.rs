//! A disk that lets an append wait: what the connector calls returns meanwhile.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use super::*;
use crate::error::Operation;
use crate::exec::{Priority, Threads, Workers};
use crate::gate_disk::{Gate, GateDisk};
use crate::{WrittenBlock, WrittenUndo};

/// Undo files that are open when the gate closes: one more has the others synced.
const OPEN_UNDO_FILES: u32 = 16;

/// Long enough that it ends only a test that would otherwise not end.
const NEVER: Duration = Duration::from_secs(120);

fn undo_of(store: &Store, n: u32) -> UndoRecord {
    let spent = [vec![coin(n)]];
    let prev = &header(n).prev_blockhash;
    undo_record(prev, &spent, store.block_buffers())
}

/// Longer than half a file, so that each block has a file of its own.
fn own_file(n: u32) -> Vec<u8> {
    block(n, 1500)
}

/// A store with one block and undo record in each of the first files.
fn filled(fault: &FaultDisk) -> (Arc<Store>, Arc<Gate>, Vec<BlockRecord>) {
    let (disk, gate) = GateDisk::new(fault);
    let (store, _) = open_on(Arc::new(disk)).unwrap();
    let append = |n| {
        let position = append_block(&store, &own_file(n)).unwrap();
        assert_eq!(position.file, n);
        let undo = append_undo(&store, position, &undo_of(&store, n)).unwrap();
        BlockRecord { position: Some(position), undo: Some(undo), ..record(n, n) }
    };
    let records = (0..OPEN_UNDO_FILES).map(append).collect();
    // A record that no commit names lies behind the next undo file's end: it has to be cut off.
    let rev = format!("/node/blocks/rev{OPEN_UNDO_FILES:05}.dat");
    let left = Disk::open(fault, Path::new(&rev), crate::disk::OpenMode::ReadWrite).unwrap();
    left.write_all_at(0, &[7; 50]).unwrap();
    (Arc::new(store), gate, records)
}

fn commit_of(store: &Store, records: &[BlockRecord]) -> Commit {
    let blocks = records.iter().map(|record| (record.header.block_hash(), *record)).collect();
    Commit { appended: store.take_appended(), blocks, ..Commit::default() }
}

/// The index has these records and nothing else, and what they name is there.
fn check(store: &Store, records: &[BlockRecord]) {
    let mut found = Vec::new();
    let visited = store.for_each_block(|_, record| {
        found.push(record);
        Ok(())
    });
    visited.unwrap();
    assert_eq!(found, records);
    for record in records {
        let (position, undo) = (record.position.unwrap(), record.undo.unwrap());
        let bytes = store.read_block(position).unwrap();
        assert!(bytes.as_slice() == own_file(record.height), "block {}", record.height);
        let spent = store.read_undo(undo, &record.header.prev_blockhash).unwrap();
        assert_eq!(spent.coins(), [coin(record.height)]);
    }
}

/// What the connector does while an append waits, on a thread that a held lock may stop.
fn connector(store: &Arc<Store>, next: BlockPosition) -> impl FnOnce() + Send + use<> {
    let store = Arc::clone(store);
    move || {
        assert_eq!(store.first_open_file(), OPEN_UNDO_FILES - 1);
        let after = store.reserve_block(1500, false).unwrap();
        assert_eq!(after.file, next.file + 1, "its place lies behind the one being written to");
        let undo = undo_of(&store, 99);
        let place = store.reserve_undo(after, &undo);
        assert_eq!((place.file, place.offset), (after.file, 8));
        let bytes = store.file_bytes();
        assert!(bytes[&next.file] >= 1508 && bytes[&after.file] > 1508, "{bytes:?}");
    }
}

/// Whichever operation of an append waits for the disk, the connector does not.
#[test]
fn the_connector_does_not_wait_for_an_append() {
    let operations = [
        Operation::Create,
        Operation::Write,
        Operation::Sync,
        Operation::Length,
        Operation::SetLength,
    ];
    for operation in operations {
        let fault = FaultDisk::new();
        let (store, gate, records) = filled(&fault);
        let next = store.reserve_block(1500, false).unwrap();
        let undo = undo_of(&store, OPEN_UNDO_FILES);
        let undo_place = store.reserve_undo(next, &undo);

        let executor = Threads::default();
        let pool = |name| Workers::start(&executor, name, 1, [1, 0]).unwrap();
        let (append_pool, commit_pool) = (pool("append"), pool("commit"));
        let (told, appended) = channel();
        gate.close(operation);
        let writer = Arc::clone(&store);
        let job = move || {
            let block = writer.write_block(next, &own_file(OPEN_UNDO_FILES)).unwrap();
            (block, writer.write_undo(undo_place, &undo).unwrap())
        };
        append_pool.run(Priority::Urgent, "append", job, move |written| {
            told.send(written.unwrap()).unwrap();
        });
        gate.wait_for_one();

        let (done, ended) = channel();
        let work = connector(&store, next);
        let connector = std::thread::spawn(move || {
            work();
            done.send(()).unwrap();
        });
        assert_ne!(ended.recv_timeout(NEVER), Err(RecvTimeoutError::Timeout), "{operation}");
        connector.join().unwrap();

        // What a commit names was gathered, and the commit begun, before the append has returned.
        let commit = commit_of(&store, &records);
        let (committed, commits) = channel();
        let committer = Arc::clone(&store);
        commit_pool.run(
            Priority::Urgent,
            "commit",
            move || committer.commit(commit),
            move |result| committed.send(result.unwrap()).unwrap(),
        );
        gate.open();
        commits.recv().unwrap().unwrap();
        let (block, undo) = appended.recv().unwrap();
        drop((append_pool, commit_pool));

        crash_before_it_is_noted(&fault, &records, next);
        note_and_crash(&fault, store, block, undo, records);
    }
}

/// The block has no entry; it is found again where it was written.
fn crash_before_it_is_noted(fault: &FaultDisk, records: &[BlockRecord], written: BlockPosition) {
    let after_crash = fault.copy();
    after_crash.crash(Survival::All);
    let (crashed, recovered) = open(&after_crash).unwrap();
    check(&crashed, records);
    let recovered: Vec<_> = recovered.iter().map(|block| block.position).collect();
    assert_eq!(recovered, [written]);
}

/// Noted and committed, it is there even if nothing else survives.
fn note_and_crash(
    fault: &FaultDisk,
    store: Arc<Store>,
    block: WrittenBlock,
    undo: WrittenUndo,
    mut records: Vec<BlockRecord>,
) {
    let (position, undo_position) = (Some(block.position()), Some(undo.position()));
    store.note_written(block);
    store.note_written(undo);
    let n = OPEN_UNDO_FILES;
    records.push(BlockRecord { position, undo: undo_position, ..record(n, n) });
    store.commit(commit_of(&store, &records[n as usize..])).unwrap();
    assert_eq!(store.first_open_file(), n);
    drop(store);
    fault.crash(Survival::Nothing);
    let (store, recovered) = open(fault).unwrap();
    assert_eq!(recovered, []);
    check(&store, &records);
}

#[test]
#[should_panic(expected = "written in order of reservation")]
fn a_block_cannot_be_written_before_the_one_that_lies_before_it() {
    let (store, _) = open(&FaultDisk::new()).unwrap();
    let (_first, second) =
        (store.reserve_block(100, false).unwrap(), store.reserve_block(100, false).unwrap());
    let (Ok(_) | Err(_)) = store.write_block(second, &block(2, 100));
}

/// The reserved places stay behind the end that commits name.
#[test]
fn what_was_not_written_is_named_by_no_commit() {
    let fault = FaultDisk::new();
    let (store, _) = open(&fault).unwrap();
    let position = append_block(&store, &block(1, 100)).unwrap();
    let never_written = store.reserve_block(100, false).unwrap();
    assert_eq!(never_written.offset, position.offset + 108);
    let first = BlockRecord { position: Some(position), ..record(1, 1) };
    store.commit(commit_of(&store, &[first])).unwrap();
    drop(store);
    fault.crash(Survival::All);
    let (store, recovered) = open(&fault).unwrap();
    assert_eq!(recovered, []);
    assert_eq!(store.reserve_block(100, false).unwrap(), never_written, "its place is free again");
}

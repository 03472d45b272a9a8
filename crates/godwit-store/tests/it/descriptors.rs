//! Far more files than a process may have open.

use std::fs::{self, File};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use godwit_primitives::{BlockHash, BlockHeader, Coin, HEADER_SIZE, OutPoint, ScriptBytes, Txid};
use godwit_store::disk::{RealDisk, StoreDisk};
use godwit_store::exec::{Executor, Threads};
use godwit_store::utxo::{
    CacheMinima, CompressedCoins, Manifest, SealId, UtxoConfig, UtxoHasher, UtxoStore,
};
use godwit_store::{
    BLOCK_BUFFERS, BlockPosition, ChainPoint, Commit, MAX_OPEN_FILES, NetworkId, Rebuild,
    RecoveredBlock, Store, StoreOptions, UndoPosition, UndoRecord, UtxoCommit,
};
use godwit_stream::{DataStream, SpanReader};

use crate::child;

/// What a login shell usually gives.
const DESCRIPTORS: u32 = 1_024;
/// Those that a node's connections and all else may take meanwhile. A few are the test's own.
const TAKEN: usize = DESCRIPTORS as usize - MAX_OPEN_FILES - 12;

const BLOCK_FILES: u32 = 2_000;
const RUNS: u32 = 400;
/// One block in each file.
const FILE_SIZE: u32 = 200;
const COINS_PER_RUN: u32 = 3;

fn block(n: u32) -> Vec<u8> {
    let mut bytes = vec![n as u8; 150];
    bytes[..4].copy_from_slice(&n.to_le_bytes());
    bytes
}

fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(&block[..HEADER_SIZE]).get().expect("any 80 bytes are a header")
}

fn open(dir: &Path) -> (Store, Vec<RecoveredBlock>) {
    let network = NetworkId { magic: [1, 2, 3, 4], genesis: [5; 32] };
    let options = StoreOptions {
        dir: dir.to_owned(),
        network,
        new_hash_key: [6; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    Store::open_with_file_size(Arc::new(RealDisk), options, FILE_SIZE).expect("it opens")
}

fn hasher() -> UtxoHasher {
    UtxoHasher::new([6; 16])
}

fn outpoint(n: u32) -> godwit_store::utxo::HashedOutPoint {
    let mut txid = [0; 32];
    txid[..4].copy_from_slice(&n.to_le_bytes());
    hasher().hash(OutPoint { txid: Txid::from_bytes(txid), vout: 0 })
}

fn coins(store: &Store, manifest: &Manifest) -> UtxoStore {
    let config = UtxoConfig { budget: 0, minima: CacheMinima::PRODUCT };
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    UtxoStore::open(store.disk(), &store.utxo_dir(), hasher(), manifest, config, &executor)
        .expect("it opens")
}

/// Appends the blocks, each with an undo record, and looks at how many files that leaves open.
fn append(store: &Store, blocks: Range<u32>) -> Vec<(BlockPosition, UndoPosition)> {
    let undo = |position: BlockPosition| {
        let (coins, counts) = (CompressedCoins::default(), std::iter::empty());
        let (magic, buffers) = (store.magic(), store.block_buffers());
        let record = UndoRecord::encode(magic, &BlockHash::ZERO, &coins, counts, buffers);
        let record = record.expect("a small record");
        let place = store.reserve_undo(position, &record);
        store.note_written(store.write_undo(place, &record).expect("it is written"));
        place
    };
    let appended = blocks.map(|n| {
        let position = store.reserve_block(block(n).len(), false).expect("a small block");
        store.note_written(store.write_block(position, &block(n)).expect("it is written"));
        assert_eq!(position.file, n, "one block in a file");
        (position, undo(position))
    });
    appended.collect()
}

fn read_all(store: &Store, positions: &[(BlockPosition, UndoPosition)], first: u32) {
    for (n, (position, undo)) in (first..).zip(positions) {
        assert_eq!(store.read_block(*position).expect("it is read").as_slice(), block(n));
        assert!(store.read_undo(*undo, &BlockHash::ZERO).expect("it is read").coins().is_empty());
    }
}

fn open_files() -> usize {
    fs::read_dir("/proc/self/fd").expect("this process has some").count()
}

fn small_coin(height: u32) -> Coin {
    Coin { value: 546, script_pubkey: ScriptBytes::from_slice(&[0x51]), height, coinbase: false }
}

/// Without a commit in between no two runs may be merged.
fn write_runs(coins: &mut UtxoStore) -> SealId {
    let mut seal = None;
    for run in 0..RUNS {
        for n in 0..COINS_PER_RUN {
            coins.add(&outpoint(run * COINS_PER_RUN + n), &small_coin(run), false);
        }
        let sealed = coins.rotate_blocking().expect("it rotates");
        coins.wait_flushed(sealed).expect("it is written");
        seal = Some(sealed);
    }
    assert_eq!(coins.shape().runs, RUNS as usize);
    seal.expect("there are runs")
}

fn commit_all(store: &Store, coins: &mut UtxoStore, seal: SealId) -> Manifest {
    let (_, manifest) = coins.manifest(seal);
    let mut encoded = DataStream::new();
    encoded.put(&manifest);
    let tip = ChainPoint { hash: BlockHash::ZERO, height: 0 };
    let utxo = UtxoCommit { manifest: encoded.into_vec(), tip, assumed: None };
    let appended = store.take_appended();
    store.commit(Commit { appended, utxo: Some(utxo), ..Commit::default() }).expect("it commits");
    manifest
}

#[test]
fn two_thousand_block_files_and_four_hundred_runs_need_few_descriptors() {
    let test = "descriptors::two_thousand_block_files_and_four_hundred_runs_need_few_descriptors";
    child::with_descriptors(DESCRIPTORS, test, || {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let others: Vec<File> =
            (0..TAKEN).map(|_| File::open("/dev/null").expect("it opens")).collect();
        let before = open_files();
        let within = |what: &str| {
            let more = open_files() - before;
            assert!(more <= MAX_OPEN_FILES, "{more} more files are open {what}");
        };
        let (store, _) = open(temp.path());
        let positions = append(&store, 0..BLOCK_FILES);
        within("with uncommitted blocks");
        let mut set = coins(&store, &Manifest::empty(4, &hasher()));
        let seal = write_runs(&mut set);
        let manifest = commit_all(&store, &mut set, seal);
        read_all(&store, &positions, 0);
        within("after a commit");
        drop((set, store));

        // With the database.
        let (store, recovered) = open(temp.path());
        assert_eq!(recovered, []);
        let set = coins(&store, &manifest);
        within("with 400 runs");
        let layers = set.layers();
        let keys: Vec<_> = (0..RUNS * COINS_PER_RUN).map(outpoint).collect();
        let mut found = Vec::new();
        for _ in 0..2 {
            found.clear();
            layers.get_many(&keys, &mut found).expect("it reads");
            assert!(found.iter().all(Option::is_some));
        }
        let (mut scan, mut count) = (layers.scan().expect("it scans"), 0);
        while scan.next().expect("it reads").is_some() {
            count += 1;
            if count % 100 == 0 {
                within("in a scan of all runs");
            }
        }
        assert_eq!(count, RUNS * COINS_PER_RUN);
        read_all(&store, &positions, 0);
        within("after reading everything");
        drop((scan, layers, set, store));

        // Without it everything is found again, and made durable with the next commit.
        fs::remove_file(temp.path().join("godwit.redb")).expect("it was there");
        let (store, recovered) = open(temp.path());
        within("after a recovery");
        assert_eq!(recovered.len(), BLOCK_FILES as usize);
        for (n, (found, (position, _))) in (0..).zip(recovered.iter().zip(&positions)) {
            assert_eq!((found.position, found.header), (*position, header(&block(n))));
        }
        append(&store, BLOCK_FILES..BLOCK_FILES + 20);
        let appended = store.take_appended();
        store.commit(Commit { appended, ..Commit::default() }).expect("it commits");
        within("after a recovery's commit");
        drop(store);
        let (store, recovered) = open(temp.path());
        assert_eq!((recovered, store.first_open_file()), (vec![], BLOCK_FILES + 19));
        drop(others);
    });
}

/// The files of removed runs last as long as somebody reads an older snapshot.
#[test]
fn a_snapshot_reads_runs_that_merges_have_replaced() {
    // Some in each of the sixteen partitions.
    const PER_RUN: u32 = 100;
    let temp = tempfile::tempdir().expect("a temporary directory");
    let disk = StoreDisk::new(Arc::new(RealDisk));
    let config = UtxoConfig { budget: 0, minima: CacheMinima::PRODUCT };
    let manifest = Manifest::empty(4, &hasher());
    let executor: Arc<dyn Executor> = Arc::new(Threads::default());
    let mut set = UtxoStore::open(&disk, temp.path(), hasher(), &manifest, config, &executor)
        .expect("it opens");
    let mut snapshot = None;
    let run_files = || {
        let files = fs::read_dir(temp.path()).expect("it is a directory");
        let is_run = |path: &Path| path.extension().is_some_and(|extension| extension == "run");
        files.filter(|file| is_run(&file.as_ref().expect("it is listed").path())).count()
    };
    for n in 0..12 {
        for coin in 0..PER_RUN {
            set.add(&outpoint(n * PER_RUN + coin), &small_coin(n), false);
        }
        let seal = set.rotate_blocking().expect("it rotates");
        set.wait_flushed(seal).expect("it is written");
        let (id, _) = set.manifest(seal);
        set.committed(id).expect("it is noted");
        set.wait_merges().expect("it merges");
        if n == 2 {
            snapshot = Some((set.layers(), set.shape().runs));
        }
    }
    assert!(set.counters().merges > 1, "{:?}", set.counters());
    // Other files are read until those of the snapshot are closed.
    let others: Vec<_> = (0..MAX_OPEN_FILES).map(|n| temp.path().join(format!("{n}"))).collect();
    for path in &others {
        fs::write(path, [1]).expect("a small file");
    }
    for path in &others {
        let scanner = godwit_store::scan::BlockFileScanner::open(&disk, path, [1, 2, 3, 4]);
        assert!(scanner.expect("it is a file").scan().next().is_some());
    }
    let (layers, runs) = snapshot.expect("taken on the way");
    let with_snapshot = run_files();
    let keys: Vec<_> = (0..3 * PER_RUN).map(outpoint).collect();
    let mut found = Vec::new();
    layers.get_many(&keys, &mut found).expect("its files are there");
    assert!(runs > 0 && found.iter().all(Option::is_some), "{runs} runs: {found:?}");
    drop(layers);
    let seal = set.rotate_blocking().expect("nothing to rotate");
    let (id, _) = set.manifest(seal);
    set.committed(id).expect("it is noted");
    set.add(&outpoint(12 * PER_RUN), &small_coin(100), false);
    let seal = set.rotate_blocking().expect("it rotates");
    // Behind the removal, which has the same thread.
    set.wait_flushed(seal).expect("it is written");
    assert!(run_files() <= with_snapshot, "{} and {with_snapshot}", run_files());
    assert_eq!(run_files(), set.shape().runs, "what nobody reads any more is removed");
}

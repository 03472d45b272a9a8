//! Lookups on a disk that has nothing in memory, or nothing of some files.

use std::cell::Cell;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use godwit_fault_disk::{Counted, forward_disk, forward_file};

use super::super::fixtures::{coin, hasher, outpoint};
use super::super::run::format::BLOCK;
use super::*;
use crate::disk::{Disk, DiskFile, OpenMode};

#[derive(Clone, Debug, PartialEq, Eq)]
enum Access {
    /// The disk was told to fetch it.
    Fetched(PathBuf, u64),
    /// Somebody waited for it.
    Waited(PathBuf, u64),
}

/// Of a block of a file.
type IsCold = fn(&Path, u64) -> bool;

/// Notes reads of runs, and has in memory none of the blocks that are cold.
#[derive(Clone)]
struct ColdDisk {
    disk: FaultDisk,
    is_cold: Arc<Mutex<IsCold>>,
    accesses: Arc<Mutex<Vec<Access>>>,
}

struct ColdFile {
    file: Arc<dyn DiskFile>,
    path: PathBuf,
    disk: ColdDisk,
}

impl ColdDisk {
    fn new() -> Self {
        let is_cold: IsCold = |_, _| true;
        let is_cold = Arc::new(Mutex::new(is_cold));
        Self { disk: FaultDisk::new(), is_cold, accesses: Arc::default() }
    }

    /// What `work` does on it.
    fn accesses_of(&self, work: impl FnOnce()) -> Vec<Access> {
        self.accesses.lock().unwrap().clear();
        work();
        self.accesses.lock().unwrap().clone()
    }
}

impl Disk for ColdDisk {
    forward_disk!(disk: create_dir_all, sync_dir, rename, remove, list, free_bytes, try_lock);

    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.disk.open(path, mode)?;
        Ok(Arc::new(ColdFile { file, path: path.to_owned(), disk: self.clone() }))
    }
}

impl DiskFile for ColdFile {
    forward_file!(file: read_stream_at, write_all_at, sync, file_len, set_len);

    fn read_exact_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.disk.accesses.lock().unwrap().push(Access::Waited(self.path.clone(), offset));
        self.file.read_exact_at(offset, out)
    }

    fn read_or_fetch_at(&self, offset: u64, out: &mut [u8]) -> io::Result<bool> {
        let is_cold = *self.disk.is_cold.lock().unwrap();
        let mut blocks = (offset..offset + out.len() as u64).step_by(BLOCK);
        if !blocks.any(|block| is_cold(&self.path, block)) {
            return self.file.read_exact_at(offset, out).map(|()| true);
        }
        self.disk.accesses.lock().unwrap().push(Access::Fetched(self.path.clone(), offset));
        out.fill(0xa5);
        Ok(false)
    }
}

/// A store of three runs with `count` coins each, reopened, so that no memtable answers.
fn three_runs(disk: &ColdDisk, count: u64) -> UtxoStore {
    let store_disk = StoreDisk::new(Arc::new(disk.clone()));
    let config = UtxoConfig { budget: 64 << 20, minima: CacheMinima::PRODUCT };
    let open = |manifest: &Manifest| {
        UtxoStore::open(&store_disk, Path::new("/utxo"), hasher(), manifest, config, &executor())
            .unwrap()
    };
    let mut store = open(&Manifest::empty(2, &hasher()));
    let mut manifest = None;
    for run in 0..3 {
        for n in run * count..(run + 1) * count {
            add(&mut store, &outpoint(n), &coin(n), false);
        }
        manifest = Some(commit(&mut store));
    }
    drop(store);
    open(&manifest.unwrap())
}

#[test]
fn whatever_is_waited_for_was_fetched_before_and_many_are_at_once() {
    const COUNT: u64 = 60_000;
    let disk = ColdDisk::new();
    let store = three_runs(&disk, COUNT);
    let shape = store.shape();
    assert_eq!((shape.runs, shape.entries), (3, 3 * COUNT), "{shape:?}");
    let layers = store.layers();
    // Each block of the runs has some of them; the last are in none.
    let absent = 1 << 40;
    let numbers: Vec<u64> = (0..3 * COUNT).step_by(7).chain(absent..absent + 3_000).collect();
    let keys: Vec<HashedOutPoint> = numbers.iter().map(|n| outpoint(*n)).collect();
    let (mut coins, mut exist) = (Vec::new(), Vec::new());
    let accesses = disk.accesses_of(|| {
        layers.get_many(&keys, &mut coins).unwrap();
    });
    for (n, found) in numbers.iter().zip(&coins) {
        assert_eq!(*found, (*n < absent).then(|| coin(*n)), "{n}");
    }
    let (mut pending, mut most, mut waited) = (Vec::new(), 0, 0);
    let first_wait = accesses.iter().position(|access| matches!(access, Access::Waited(..)));
    for access in &accesses {
        match access {
            Access::Fetched(path, offset) => {
                pending.push((path, offset));
                most = most.max(pending.len());
            }
            Access::Waited(path, offset) => {
                let fetched = pending.iter().position(|place| *place == (path, offset));
                pending.remove(fetched.unwrap_or_else(|| panic!("{path:?} at {offset} unasked")));
                waited += 1;
            }
        }
    }
    assert!(pending.is_empty(), "{} were fetched for nothing", pending.len());
    // The blocks of a look-up are more than may be pending.
    assert!(waited > 2_000, "{waited}");
    // Some reads are of two blocks.
    assert!(first_wait > Some(700), "{first_wait:?}");
    assert!((700..1_100).contains(&most), "{most} pending");
    // Whether they exist is told the same.
    layers.contains_many(&keys, &mut exist).unwrap();
    assert!(exist.iter().zip(&coins).all(|(exists, coin)| *exists == coin.is_some()));
}

/// About one in five, whatever their neighbours are.
const SOME_BLOCKS: IsCold =
    |_, offset| (offset / BLOCK as u64).wrapping_mul(0x9e37_79b9).is_multiple_of(5);

/// Neighbours are read together, and some of those that are tried together have to be waited for.
#[test]
fn neighbours_of_which_some_are_cold_are_each_found_and_waited_for_after_they_were_fetched() {
    const COUNT: u64 = 20_000;
    let disk = ColdDisk::new();
    let store = three_runs(&disk, COUNT);
    let layers = store.layers();
    for (step, reads_each) in [(1, false), (7, false), (400, true)] {
        let numbers: Vec<u64> = (0..3 * COUNT).step_by(step).collect();
        let keys: Vec<HashedOutPoint> = numbers.iter().map(|n| outpoint(*n)).collect();
        *disk.is_cold.lock().unwrap() = SOME_BLOCKS;
        let mut coins = Vec::new();
        let accesses = disk.accesses_of(|| {
            layers.get_many(&keys, &mut coins).unwrap();
        });
        assert!(numbers.iter().zip(&coins).all(|(n, found)| *found == Some(coin(*n))));
        let is_fetched = |at: usize, path: &PathBuf, offset: u64| {
            accesses[..at].contains(&Access::Fetched(path.clone(), offset))
        };
        let mut waited = 0;
        for (at, access) in accesses.iter().enumerate() {
            if let Access::Waited(path, offset) = access {
                waited += 1;
                assert!(is_fetched(at, path, *offset), "{path:?} at {offset} unasked");
            }
        }
        assert!(waited > 10, "{step}: {waited}");
        *disk.is_cold.lock().unwrap() = |_, _| false;
        let before = disk.disk.count(Counted::Reads);
        layers.get_many(&keys, &mut coins).unwrap();
        let reads = disk.disk.count(Counted::Reads) - before;
        assert_eq!(reads > keys.len() as u64 / 2, reads_each, "{step}: {reads} reads");
    }
}

/// The newer run has to be waited for, and says that the coin is spent; the older one, which has it, is in
/// memory.
#[test]
fn what_is_waited_for_goes_before_what_is_at_hand_and_older() {
    let disk = ColdDisk::new();
    let store_disk = StoreDisk::new(Arc::new(disk.clone()));
    let config = UtxoConfig { budget: 64 << 20, minima: CacheMinima::PRODUCT };
    let open = |manifest: &Manifest| {
        UtxoStore::open(&store_disk, Path::new("/utxo"), hasher(), manifest, config, &executor())
            .unwrap()
    };
    let mut store = open(&Manifest::empty(0, &hasher()));
    for n in 0..10 {
        add(&mut store, &outpoint(n), &coin(n), false);
    }
    commit(&mut store);
    for n in 0..5 {
        store.spend(&outpoint(n)).unwrap().unwrap();
    }
    let manifest = commit(&mut store);
    drop(store);
    let store = open(&manifest);
    assert_eq!(store.shape().runs, 2, "{:?}", store.shape());
    let is_newer: IsCold = |path, _| path.to_string_lossy().contains("00000002");
    let is_older: IsCold = |path, _| path.to_string_lossy().contains("00000001");
    let keys: Vec<HashedOutPoint> = (0..12).map(outpoint).collect();
    for is_cold in [is_newer, is_older, |_: &Path, _| true, |_: &Path, _| false] {
        *disk.is_cold.lock().unwrap() = is_cold;
        let mut coins = Vec::new();
        store.layers().get_many(&keys, &mut coins).unwrap();
        for (n, found) in (0..).zip(&coins) {
            assert_eq!(*found, (5..10).contains(&n).then(|| coin(n)), "{n}");
        }
    }
}

/// Between what is looked up at once it is asked whether to break off.
#[test]
fn where_all_is_at_hand_more_is_looked_up_at_once() {
    const COUNT: u64 = 12_000;
    let disk = ColdDisk::new();
    let store = three_runs(&disk, COUNT);
    let keys: Vec<HashedOutPoint> = (0..3 * COUNT).step_by(7).map(outpoint).collect();
    let layers = store.layers();
    let pieces = |is_cold: IsCold| {
        *disk.is_cold.lock().unwrap() = is_cold;
        let mut open: Vec<u32> = (0..keys.len() as u32).collect();
        let asked = Cell::new(0);
        let is_over = || asked.replace(asked.get() + 1) == usize::MAX;
        layers.get_some_compressed(&keys, &mut open, &is_over, &mut |_, _| {}).unwrap();
        assert!(open.is_empty());
        asked.get()
    };
    let (warm, cold) = (pieces(|_, _| false), pieces(|_, _| true));
    assert!(warm >= keys.len() / 512 && warm < keys.len() / 128, "{warm}");
    assert!(cold > keys.len() / 64, "{cold}");
}

/// Lookups that break off as soon as they may find together what one does, and each of them something.
#[test]
fn lookups_that_go_on_from_one_another_find_what_one_does() {
    // So many that all at hand are more than ten times what is looked up at once.
    const COUNT: u64 = 12_000;
    let disk = ColdDisk::new();
    let store = three_runs(&disk, COUNT);
    let layers = store.layers();
    let numbers = (0..3 * COUNT).step_by(7).chain(1 << 40..(1 << 40) + 500);
    let keys: Vec<HashedOutPoint> = numbers.map(outpoint).collect();
    let is_one: IsCold = |path, _| path.to_string_lossy().contains("00000002");
    for is_cold in [is_one, SOME_BLOCKS, |_: &Path, _| true, |_: &Path, _| false] {
        *disk.is_cold.lock().unwrap() = is_cold;
        let mut whole = CompressedCoins::default();
        let expected = layers.get_compressed(&keys, &mut whole).unwrap();
        assert!(expected > 1_000 && expected < keys.len());
        for questions in [0, 1, 5, 50] {
            let mut open: Vec<u32> = (0..keys.len() as u32).collect();
            let (mut out, mut found, mut lookups) = (CompressedCoins::absent(keys.len()), 0, 0);
            while !open.is_empty() {
                let (before, asked) = (open.len(), Cell::new(0));
                let is_over = || asked.replace(asked.get() + 1) >= questions;
                found += layers
                    .get_some_compressed(&keys, &mut open, &is_over, &mut |n, coin| {
                        out.set(n as usize, coin);
                    })
                    .unwrap();
                assert!(open.len() < before, "{questions}: {before} are left");
                lookups += 1;
            }
            assert!(out.iter().eq(whole.iter()), "{questions}");
            assert_eq!(found, expected, "{questions}");
            assert!(lookups > 10 || questions > 0, "{lookups} lookups");
        }
    }
}

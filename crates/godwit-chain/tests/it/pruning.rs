//! Datadirs whose old files are deleted.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use crossbeam_channel::never;
use godwit_chain::{
    Chain, ChainError, CoinsMemory, Event, MIN_BLOCKS_TO_KEEP, Poll, UtxoStats, Verdict,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use godwit_store::disk::{Disk, RealDisk};
use godwit_stream::SpanReader;

use crate::datadir::{clock, end_after_checkpoint, import_file, options, submit};
use crate::pruned_branches::branch;

/// So small that nearly every block has a file of its own.
pub(crate) const ONE_BLOCK: u32 = 300;
pub(crate) const DIR: &str = "/node";

/// Forty blocks with transactions that 320 empty ones bury.
pub(crate) static BLOCKS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    generated(&ChainPlan { block_weight: 40_000, empty_tail: 320, ..ChainPlan::small(3) })
});

pub(crate) static STATS: LazyLock<UtxoStats> = LazyLock::new(|| stats_of(&BLOCKS));

/// The coins of a chain that nothing is deleted of.
pub(crate) fn stats_of(blocks: &[Vec<u8>]) -> UtxoStats {
    let mut chain = open(&FaultDisk::new(), None, ONE_BLOCK);
    submit_all(&mut chain, blocks);
    chain.utxo_stats().unwrap()
}

fn open_on(disk: Arc<dyn Disk>, dir: &Path, prune: Option<u64>, size: u32) -> Chain {
    try_open_on(disk, dir, prune, size).expect("datadir opens")
}

fn try_open_on(
    disk: Arc<dyn Disk>,
    dir: &Path,
    prune: Option<u64>,
    size: u32,
) -> Result<Chain, ChainError> {
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(4 << 20);
    options.prune_bytes = prune;
    Chain::open_with_file_size(disk, dir.to_path_buf(), options, [7; 16], clock(), size)
}

pub(crate) fn try_open(
    disk: &FaultDisk,
    prune: Option<u64>,
    size: u32,
) -> Result<Chain, ChainError> {
    try_open_on(Arc::new(disk.clone()), Path::new(DIR), prune, size)
}

/// Every change of the disk in a start fails once, and the power goes at that moment. `check` looks at what
/// is left each time.
pub(crate) fn cut_short_at_each_change(
    start: &FaultDisk,
    prune: Option<u64>,
    size: u32,
    check: impl Fn(&FaultDisk, &str),
) {
    let mut failures = 0;
    for n in 1.. {
        let survival = [Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3];
        let disk = start.copy();
        disk.fail_change(n);
        let opened = try_open(&disk, prune, size);
        if !disk.has_failed() {
            opened.unwrap();
            break;
        }
        drop(opened);
        failures += 1;
        disk.crash(survival);
        check(&disk, &format!("operation {n}, {survival:?}"));
    }
    println!("{failures} operations failed, one after the other");
    assert!(failures > 10, "{failures}");
}

pub(crate) fn open(disk: &FaultDisk, prune: Option<u64>, size: u32) -> Chain {
    open_on(Arc::new(disk.clone()), Path::new(DIR), prune, size)
}

pub(crate) fn submit_all(chain: &mut Chain, blocks: &[Vec<u8>]) {
    for block in blocks {
        assert_eq!(submit(chain, block), Verdict::Connected);
    }
    chain.take_events();
}

pub(crate) fn header(block: &[u8]) -> BlockHeader {
    SpanReader::new(block).get().expect("a block starts with a header")
}

pub(crate) fn hash(block: &[u8]) -> BlockHash {
    header(block).block_hash()
}

/// Numbers and lengths of the files that the directory has.
fn files_on(disk: &dyn Disk, dir: &Path) -> Vec<(PathBuf, u64)> {
    let blocks = dir.join("blocks");
    let mut files = Vec::new();
    for name in disk.list(&blocks).unwrap() {
        let path = blocks.join(&name);
        if name != "xor.dat" {
            // It may be deleted meanwhile.
            let Ok(file) = disk.open(&path, godwit_store::disk::OpenMode::Read) else { continue };
            files.push((path, file.file_len().unwrap()));
        }
    }
    files
}

pub(crate) fn bytes_on(disk: &dyn Disk, dir: &Path) -> u64 {
    files_on(disk, dir).iter().map(|(_, len)| len).sum()
}

/// The last blocks are there, and every file belongs to a block.
pub(crate) fn check_kept(chain: &mut Chain, disk: &dyn Disk, dir: &Path) {
    let tip = chain.tip();
    let height = chain.tip_point().height;
    let lowest = chain.prune_height();
    assert!(lowest <= height.saturating_sub(MIN_BLOCKS_TO_KEEP) + 1, "{lowest} of {height}");
    for kept in lowest.max(1)..=height {
        let id = chain.tree().ancestor(tip, kept).unwrap();
        let node = chain.tree().node(id);
        assert!(node.position.is_some() && node.undo.is_some(), "height {kept}, {lowest}");
        chain.read_block(id, u64::from(kept));
    }
    let mut read = 0;
    loop {
        let poll = chain.poll(clock()).unwrap();
        for event in chain.take_events() {
            if let Event::Read { ticket, bytes } = event {
                let bytes = bytes.expect("a block that is kept can be served");
                let id = chain.tree().ancestor(tip, ticket as u32).unwrap();
                assert_eq!(hash(bytes.as_slice()), chain.tree().node(id).hash);
                read += 1;
            }
        }
        match poll {
            Poll::Idle => break,
            Poll::Progress => {}
            Poll::Waiting => chain.wait_with(&never::<()>(), Duration::from_secs(1)),
        }
    }
    assert_eq!(read, height + 1 - lowest.max(1));
    let tree = chain.tree();
    let nodes = (0..tree.len() as u32).map(|index| tree.node(tree.at(index)));
    let named: BTreeSet<u32> = nodes.filter_map(|node| Some(node.position?.file)).collect();
    for (path, len) in files_on(disk, dir) {
        let name = path.file_name().unwrap().to_str().unwrap();
        let number: u32 = name[3..8].parse().unwrap();
        // What a crash has left behind the last block's file is written over.
        let in_use = named.contains(&number) || named.last().is_none_or(|last| number > *last);
        assert!(in_use, "{name} of {len} bytes is of no use");
    }
}

/// As [`check_kept`], once what a crash has emptied is behind a commit.
fn check_next_start(disk: &FaultDisk) {
    let disk = disk.copy();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    chain.settle(clock()).unwrap();
    chain.close().unwrap();
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    chain.settle(clock()).unwrap();
    check_kept(&mut chain, &disk, Path::new(DIR));
}

#[test]
fn old_files_go_and_the_coins_are_those_of_an_unpruned_run() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    let disk = RealDisk;
    let open = |prune| open_on(Arc::new(RealDisk), dir, prune, 64 << 10);
    let target = 300 << 10;
    let mut chain = open(Some(target));
    for part in BLOCKS.chunks(60) {
        submit_all(&mut chain, part);
        chain.flush().unwrap();
        check_kept(&mut chain, &disk, dir);
    }
    assert!(chain.prune_height() > 100, "{}", chain.prune_height());
    assert!(bytes_on(&disk, dir) <= target);
    assert_eq!(chain.utxo_stats().unwrap(), *STATS);
    let lowest = chain.prune_height();
    chain.close().unwrap();
    // Pruning may be turned off: what is left goes on.
    for prune in [Some(target), None] {
        let mut chain = open(prune);
        assert_eq!(chain.prune_height(), lowest);
        check_kept(&mut chain, &disk, dir);
        assert_eq!(chain.utxo_stats().unwrap(), *STATS);
        chain.close().unwrap();
    }
    let mut chain = open(None);
    let more = branch(&BLOCKS, BLOCKS.len() as u32, 5);
    submit_all(&mut chain, &more);
    assert_eq!(chain.prune_height(), lowest);
}

#[test]
fn no_more_is_deleted_than_the_target_asks_for() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    chain.close().unwrap();
    let all = bytes_on(&disk, Path::new(DIR));
    // At the target nothing goes; a byte below it one pair of files.
    for (target, pruned) in [(all, 0), (all - 1, 1), (all - 1000, 4)] {
        let disk = disk.copy();
        let mut chain = open(&disk, Some(target), ONE_BLOCK);
        chain.flush().unwrap();
        let left = bytes_on(&disk, Path::new(DIR));
        assert!(left <= target && all - left < all - target + 500, "{target}: {left}");
        assert!(chain.prune_height() >= pruned && chain.prune_height() < 10);
        check_kept(&mut chain, &disk, Path::new(DIR));
    }
}

#[test]
fn nothing_is_deleted_that_has_no_coins_on_disk() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, ONE_BLOCK);
    submit_all(&mut chain, &BLOCKS);
    end_after_checkpoint(chain);
    let mut chain = open(&disk, Some(1), ONE_BLOCK);
    assert_eq!(chain.prune_height(), 0);
    chain.settle(clock()).unwrap();
    assert_eq!(chain.utxo_stats().unwrap(), *STATS);
    chain.flush().unwrap();
    assert_eq!(chain.prune_height(), BLOCKS.len() as u32 + 1 - MIN_BLOCKS_TO_KEEP);
    check_kept(&mut chain, &disk, Path::new(DIR));
}

/// Lets the chain work until so many bytes are left, or for 20 seconds: coins are written beside it.
fn wait_for_bytes(chain: &mut Chain, disk: &FaultDisk, most: u64) -> u64 {
    let end = Instant::now() + Duration::from_secs(20);
    loop {
        chain.poll(clock()).unwrap();
        let bytes = bytes_on(disk, Path::new(DIR));
        if bytes <= most || Instant::now() > end {
            return bytes;
        }
        chain.wait_with(&never::<()>(), Duration::from_millis(5));
    }
}

/// All coins fit into memory, and neither a replay nor an end would take long: nothing but the target has
/// them written.
#[test]
fn coins_are_written_for_files_that_exceed_the_target() {
    const FILE: u32 = 3_000;
    // More than the last 288 blocks, and less than those with transactions.
    const TARGET: u64 = 160 << 10;
    let blocks = [&BLOCKS[..], &branch(&BLOCKS, BLOCKS.len() as u32, 900)].concat();
    let disk = FaultDisk::new();
    let mut chain = open(&disk, Some(TARGET), FILE);
    let (first, rest) = blocks.split_at(BLOCKS.len());
    submit_all(&mut chain, first);
    for part in std::iter::once(&rest[..0]).chain(rest.chunks(10)) {
        submit_all(&mut chain, part);
        // One file that is not new any more, one that came while coins were written, and their undo records.
        let most = TARGET + 3 * u64::from(FILE);
        let bytes = wait_for_bytes(&mut chain, &disk, most);
        assert!(bytes <= most, "{bytes} bytes at height {}", chain.tip_point().height);
    }
    // One frees all files below the tip of its time.
    let flushes = chain.utxo().counters().flushes;
    assert!((1..=5).contains(&flushes), "{flushes}");
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&blocks));
    drop(chain);
    disk.crash(Survival::Nothing);
    let mut chain = open(&disk, Some(TARGET), FILE);
    chain.settle(clock()).unwrap();
    chain.flush().unwrap();
    check_kept(&mut chain, &disk, Path::new(DIR));
}

/// Flushes here and there, power failures between them: a restart must find what it applies again.
#[test]
fn a_restart_finds_the_blocks_above_the_last_flush() {
    for (n, flush_every) in [(1, 40), (2, 97), (3, 390)] {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, Some(1), ONE_BLOCK);
        let (mut height, mut flushed, mut crashes) = (0, 0, 0);
        while height < BLOCKS.len() {
            submit_all(&mut chain, &BLOCKS[height..height + 1]);
            // A crash may lose a block whose header a commit has named, and leave the one above it: that
            // waits for its parent and is connected with it.
            height = chain.tip_point().height as usize;
            if height % flush_every == 0 {
                chain.flush().unwrap();
                flushed = height;
            }
            if height * 7919 % 53 < n {
                drop(chain);
                crashes += 1;
                let survivals = [Survival::All, Survival::Nothing, Survival::Part(height as u64)];
                disk.crash(survivals[crashes % 3]);
                chain = open(&disk, Some(1), ONE_BLOCK);
                chain.settle(clock()).unwrap();
                check_next_start(&disk);
                height = chain.tip_point().height as usize;
                // What a power failure took is fetched again.
                assert!(height >= flushed, "{height}, flushed at {flushed}");
            }
        }
        assert!(crashes >= 7, "{crashes}");
        assert_eq!(chain.utxo_stats().unwrap(), *STATS);
        assert!(chain.prune_height() > 0);
    }
}

/// Each operation of a start that prunes fails once, and the power with it.
#[test]
fn a_crash_at_any_operation_while_pruning_loses_nothing_and_leaves_nothing() {
    const FILE_SIZE: u32 = 100 << 10;
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, FILE_SIZE);
    submit_all(&mut chain, &BLOCKS);
    chain.flush().unwrap();
    chain.close().unwrap();
    let expected = {
        let disk = disk.copy();
        let mut chain = open(&disk, Some(1), FILE_SIZE);
        chain.flush().unwrap();
        (chain.prune_height(), files_on(&disk, Path::new(DIR)).len())
    };
    let all = files_on(&disk, Path::new(DIR)).len();
    assert!(expected.0 > 0 && expected.1 + 4 <= all, "{expected:?} of {all}");
    for n in 1.. {
        let disk = disk.copy();
        let run = |disk: &FaultDisk| {
            let node = Arc::new(disk.clone());
            let mut chain = try_open_on(node, Path::new(DIR), Some(1), FILE_SIZE)?;
            chain.settle(clock())?;
            chain.close()
        };
        disk.fail_change(n);
        let result = run(&disk);
        let finished = !disk.has_failed();
        if let Err(error) = result {
            assert!(matches!(&error, ChainError::Store(error) if error.is_disk_full()), "{error}");
        }
        let parts = [Survival::Part(n), Survival::All, Survival::Nothing];
        disk.crash(parts[n as usize % 3]);
        // Removals that a power failure took back are made again.
        let mut chain = open(&disk, Some(1), FILE_SIZE);
        chain.settle(clock()).unwrap();
        chain.flush().unwrap();
        assert_eq!(chain.tip_point(), STATS.tip, "operation {n}");
        check_kept(&mut chain, &disk, Path::new(DIR));
        assert_eq!(chain.prune_height(), expected.0, "operation {n}");
        if n % 5 == 0 || finished {
            assert_eq!(chain.utxo_stats().unwrap(), *STATS);
        }
        if finished {
            assert!(n > 20, "only {n} operations");
            return;
        }
    }
}

#[test]
fn an_import_does_not_store_pruned_blocks_again() {
    let temp = tempfile::tempdir().unwrap();
    let (dir, file) = (temp.path().join("node"), temp.path().join("blocks.dat"));
    let record = |block: &Vec<u8>| {
        let len = (block.len() as u32).to_le_bytes();
        [&Params::new(Network::Regtest).magic[..], &len, block].concat()
    };
    let (before, after) = BLOCKS.split_at(BLOCKS.len() - 20);
    let open = || open_on(Arc::new(RealDisk), &dir, Some(1), ONE_BLOCK);
    let mut chain = open();
    std::fs::write(&file, before.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    let (summary, _) = import_file(&mut chain, &file, |_, _| {});
    assert_eq!(summary.stored, before.len() as u64);
    assert!(chain.prune_height() > 0);
    check_kept(&mut chain, &RealDisk, &dir);
    let files = files_on(&RealDisk, &dir);
    for restarted in [false, true] {
        if restarted {
            chain.close().unwrap();
            chain = open();
        }
        let (summary, bad) = import_file(&mut chain, &file, |_, _| {});
        assert_eq!((summary.stored, bad), (0, vec![]), "restarted: {restarted}");
        assert_eq!(submit(&mut chain, &before[3]), Verdict::Duplicate);
        assert_eq!(files_on(&RealDisk, &dir).len(), files.len());
    }
    std::fs::write(&file, BLOCKS.iter().flat_map(record).collect::<Vec<u8>>()).unwrap();
    let (summary, bad) = import_file(&mut chain, &file, |_, _| {});
    assert_eq!((summary.stored, bad), (after.len() as u64, vec![]));
    assert_eq!(chain.utxo_stats().unwrap(), *STATS);
    check_kept(&mut chain, &RealDisk, &dir);
}

#[test]
fn a_datadir_that_began_with_a_snapshot_is_pruned_above_it() {
    const BASE: usize = 180;
    let temp = tempfile::tempdir().unwrap();
    let snapshot = temp.path().join("coins.dat");
    let open =
        |name: &str, prune| open_on(Arc::new(RealDisk), &temp.path().join(name), prune, ONE_BLOCK);
    let mut chain = open("first", None);
    submit_all(&mut chain, &BLOCKS[..BASE]);
    let info = chain.dump_snapshot(&snapshot).unwrap();
    let mut chain = open("second", Some(1));
    let dir = temp.path().join("second");
    for block in BLOCKS.iter() {
        chain.accept_header(&header(block), hash(block), clock()).unwrap();
    }
    chain
        .load_snapshot(&snapshot, Some(info.hash_serialized), &|_| ControlFlow::Continue(()))
        .unwrap();
    assert_eq!(chain.prune_height() as usize, BASE + 1);
    let more = branch(&BLOCKS, BLOCKS.len() as u32, 200);
    submit_all(&mut chain, &BLOCKS[BASE..]);
    submit_all(&mut chain, &more);
    chain.flush().unwrap();
    let tip = BLOCKS.len() as u32 + 200;
    assert_eq!(chain.prune_height(), tip - MIN_BLOCKS_TO_KEEP + 1);
    chain.close().unwrap();
    let mut chain = open("second", Some(1));
    check_kept(&mut chain, &RealDisk, &dir);
    let expected = stats_of(&[&BLOCKS[..], &more].concat());
    assert_eq!(chain.utxo_stats().unwrap(), expected);
}

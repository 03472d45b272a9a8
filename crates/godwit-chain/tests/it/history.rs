//! Loaded snapshots whose history is validated from genesis.

use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use godwit_chain::{
    Chain, ChainError, ChainOptions, CoinWriting, CoinsMemory, Verdict, history, structure,
};
use godwit_fault_disk::{FaultDisk, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::Disk;
use godwit_store::error::Remedy;
use godwit_store::inspect::Found;
use godwit_store::utxo::CacheMinima;
use godwit_store::{
    AssumedSnapshot, Commit, HistoryCommit, MAX_BLOCK_FILE_SIZE, Rebuild, Refutation,
};
use godwit_stream::DataStream;

use crate::datadir::{clock, options};
use crate::inspect::{Notes, run_within, verify};
use crate::pruned_branches::{block_paying, branch};
use crate::pruning::{BLOCKS, DIR, ONE_BLOCK, hash, header, stats_of};
use crate::snapshots::{Snapshot, commit};

/// Height of the snapshot's block, above all blocks with transactions.
const BASE: usize = 140;

/// Blocks that are connected above it.
const TOP: usize = BASE + 6;

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| Snapshot::of(&BLOCKS[..BASE]));

/// As a node opens a chain, with caches that few coins fill.
pub(crate) fn opening() -> ChainOptions {
    let mut options = options(Params::new(Network::Regtest));
    options.coins_memory = CoinsMemory::Fixed(512 << 10);
    options.cache_minima =
        CacheMinima { budget: 64 << 10, active: 16 << 10, io_buffer: 4 << 10, arena_step: 4 << 10 };
    options.push_bytes = 64 << 10;
    options.start.validates_history = true;
    options
}

pub(crate) fn try_open(
    disk: &FaultDisk,
    options: ChainOptions,
    file: u32,
) -> Result<Chain, ChainError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Chain::open_with_file_size(disk, DIR.into(), options, [7; 16], clock(), file)
}

fn open(disk: &FaultDisk) -> Chain {
    try_open(disk, opening(), MAX_BLOCK_FILE_SIZE).expect("a datadir")
}

/// A datadir with `snapshot` loaded, that knows the headers of `blocks`.
pub(crate) fn loaded(snapshot: &Snapshot, blocks: &[Vec<u8>]) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut chain = crate::pruning::open(&disk, None, MAX_BLOCK_FILE_SIZE);
    for block in blocks {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    chain.close().expect("no local fault");
    snapshot.load(&disk).expect("a good snapshot");
    disk
}

fn give(chain: &mut Chain, block: &[u8]) -> Result<Verdict, ChainError> {
    let params = Arc::clone(chain.params());
    chain.submit(structure(DataStream::from(block), &params, &chain.hasher(), None), clock())
}

pub(crate) fn give_all(chain: &mut Chain, blocks: &[Vec<u8>]) -> Result<(), ChainError> {
    for block in blocks {
        let verdict = give(chain, block)?;
        assert!(
            matches!(verdict, Verdict::Connected | Verdict::Stored | Verdict::Duplicate),
            "{verdict:?}"
        );
    }
    Ok(())
}

/// Lets the chain go on until `end` says so. Its coins never take more than their memory and what one block
/// adds.
pub(crate) fn run_until(chain: &mut Chain, end: impl Fn(&Chain) -> bool) -> Result<(), ChainError> {
    while !end(chain) {
        chain.poll(clock())?;
        chain.take_events();
        let coins = chain.status().memory.coins.total();
        assert!(coins <= (512 << 10) + (64 << 10), "{coins}");
        chain.wait_with(&crossbeam_channel::never::<()>(), Duration::from_millis(1));
    }
    Ok(())
}

fn validate(chain: &mut Chain) -> Result<(), ChainError> {
    run_until(chain, |chain| chain.assumed().is_none())
}

/// Number of files of the history's coins.
fn history_files(disk: &FaultDisk) -> usize {
    disk.list(&Path::new(DIR).join("utxo-history")).map_or(0, |files| files.len())
}

/// The chain is as if it had been validated from genesis alone.
#[track_caller]
fn is_whole(disk: &FaultDisk, blocks: &[Vec<u8>]) {
    assert_eq!(history_files(disk), 0);
    let mut chain = open(disk);
    assert_eq!((chain.assumed(), history(&chain), chain.prune_height()), (None, None, 0));
    assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(blocks));
    let tip = chain.tip();
    let transactions = chain.tree().node(tip).chain_tx_count;
    for height in 1..=blocks.len() as u32 {
        let id = chain.tree().ancestor(tip, height).expect("below the tip");
        let node = chain.tree().node(id);
        assert!(node.position.is_some() && node.undo.is_some(), "height {height}");
    }
    chain.close().expect("no local fault");
    let mut plain = crate::pruning::open(&FaultDisk::new(), None, MAX_BLOCK_FILE_SIZE);
    crate::pruning::submit_all(&mut plain, blocks);
    assert_eq!(plain.tree().node(plain.tip()).chain_tx_count, transactions);
}

#[test]
fn a_history_in_any_order_is_validated_and_the_mark_goes() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    let mut chain = open(&disk);
    let span = history(&chain).expect("it is to be validated");
    assert_eq!((chain.tree().node(span.tip).height, chain.tip_point().height), (0, BASE as u32));
    // The last block first, which waits for all others.
    let mut blocks = BLOCKS[..TOP].to_vec();
    blocks.reverse();
    give_all(&mut chain, &blocks).expect("no local fault");
    validate(&mut chain).expect("the snapshot is right");
    assert_eq!((history(&chain), chain.prune_height()), (None, 0));
    let counted = chain.tree().node(chain.tip()).chain_tx_count;
    // A branch that leaves the chain below the snapshot's block is like any other.
    let rival = branch(&BLOCKS, BASE as u32 - 3, TOP as u32 - BASE as u32 + 4);
    give_all(&mut chain, &rival).expect("no local fault");
    let expected = stats_of(&[&BLOCKS[..BASE - 3], &rival].concat());
    assert_eq!(chain.utxo_stats().expect("no local fault"), expected);
    chain.close().expect("no local fault");
    let disk = {
        let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
        let mut chain = open(&disk);
        give_all(&mut chain, &BLOCKS[..TOP]).expect("no local fault");
        validate(&mut chain).expect("the snapshot is right");
        assert_eq!(chain.tree().node(chain.tip()).chain_tx_count, counted);
        chain.close().expect("no local fault");
        disk
    };
    is_whole(&disk, &BLOCKS[..TOP]);
}

/// Commands look at the coins and do not validate; a node goes on from there.
#[test]
fn the_validation_goes_on_after_any_number_of_ends() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    for part in 1..=7 {
        let mut chain = open(&disk);
        let end = part * BASE / 7;
        give_all(&mut chain, &BLOCKS[..end]).expect("no local fault");
        let reached = move |chain: &Chain| {
            history(chain).is_none_or(|span| chain.tree().node(span.tip).height as usize >= end)
        };
        run_until(&mut chain, reached).expect("no local fault");
        chain.close().expect("no local fault");
        let command = crate::pruning::open(&disk, None, MAX_BLOCK_FILE_SIZE);
        assert_eq!(history(&command), None);
        command.close().expect("no local fault");
    }
    let mut chain = open(&disk);
    validate(&mut chain).expect("the snapshot is right");
    give_all(&mut chain, &BLOCKS[BASE..TOP]).expect("no local fault");
    chain.close().expect("no local fault");
    is_whole(&disk, &BLOCKS[..TOP]);
}

pub(crate) fn validated(chain: &Chain) -> Option<usize> {
    history(chain).map(|span| chain.tree().node(span.tip).height as usize)
}

/// The node ends then, and does not wait for hours of validation that goes on at the next start anyway.
#[test]
fn at_the_height_to_stop_at_no_more_of_the_history_is_validated() {
    const PART: usize = 20;
    for stop_at_height in [Some(TOP as u32), None] {
        let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
        let mut options = opening();
        options.stop_at_height = stop_at_height;
        let mut chain = try_open(&disk, options, MAX_BLOCK_FILE_SIZE).expect("a datadir");
        give_all(&mut chain, &BLOCKS[..PART]).expect("no local fault");
        run_until(&mut chain, |chain| validated(chain) == Some(PART)).expect("no local fault");
        give_all(&mut chain, &BLOCKS[BASE..TOP]).expect("no local fault");
        assert_eq!(chain.tip_point().height as usize, TOP);
        give_all(&mut chain, &BLOCKS[PART..BASE]).expect("no local fault");
        chain.flush().expect("no local fault");
        let went_on = validated(&chain) != Some(PART);
        assert_eq!(went_on, stop_at_height.is_none(), "{:?}", validated(&chain));
        chain.close().expect("no local fault");
        let mut chain = open(&disk);
        validate(&mut chain).expect("the snapshot is right");
        chain.close().expect("no local fault");
        is_whole(&disk, &BLOCKS[..TOP]);
    }
}

/// What a node does from the first start behind a load to the end of the validation.
fn node(disk: &FaultDisk, top: usize) -> Result<(), ChainError> {
    let mut options = opening();
    options.coin_writing = CoinWriting { interval: Some(0), ..CoinWriting::PRODUCT };
    let mut chain = try_open(disk, options, MAX_BLOCK_FILE_SIZE)?;
    give_all(&mut chain, &BLOCKS[..top])?;
    validate(&mut chain)?;
    chain.close()
}

/// Operations of a validation fail once, and then the process dies or the power goes; the next process goes
/// on, whatever is left. Every fifth, and from just before the commit that takes the mark away on each.
#[test]
fn power_may_go_at_any_operation_of_a_validation() {
    const BASE: usize = 24;
    let snapshot = Snapshot::of(&BLOCKS[..BASE]);
    let top = BASE + 2;
    let start = loaded(&snapshot, &BLOCKS[..top]);
    let (mut n, mut step, mut left, mut tries) = (1, 5, [0, 0], 0);
    loop {
        let disk = start.copy();
        disk.fail_change(n);
        let result = node(&disk, top);
        if !disk.has_failed() {
            result.expect("no local fault");
            disk.fail_nothing();
            is_whole(&disk, &BLOCKS[..top]);
            // How many operations there are depends on the threads, and those behind that commit may be less
            // than a step, or than in the runs before: then its neighbours are tried once more.
            if step > 1 {
                (n, step) = (n - step + 1, 1);
                continue;
            }
            if left[0] <= 1 && tries < 50 {
                (n, tries) = (n - 4, tries + 1);
                continue;
            }
            println!("{n} operations, the mark is gone and is there: {left:?}");
            assert!(left[0] > 1 && left[1] > 20, "{n} operations, {left:?}");
            return;
        }
        let survival = [Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3];
        disk.crash(survival);
        let chain = open(&disk);
        let is_assumed = chain.assumed().is_some();
        drop(chain);
        left[usize::from(is_assumed)] += 1;
        node(&disk, top).unwrap_or_else(|error| panic!("operation {n}, {survival:?}: {error}"));
        is_whole(&disk, &BLOCKS[..top]);
        if !is_assumed && step > 1 {
            (n, step) = (n - step, 1);
        }
        n += step;
    }
}

fn refuted(result: Result<(), ChainError>) -> (AssumedSnapshot, Refutation, String) {
    let error = result.expect_err("the snapshot is wrong");
    let text = error.to_string();
    let ChainError::SnapshotRefuted { assumed, refutation } = error else { panic!("{text}") };
    (assumed, refutation, text)
}

/// What a node finds that gets these blocks: once, which is only a doubt, and again after a power cut.
pub(crate) fn found_wrong(
    disk: &FaultDisk,
    blocks: &[Vec<u8>],
) -> (AssumedSnapshot, Refutation, String) {
    let run = || {
        let mut chain = open(disk);
        give_all(&mut chain, blocks).and_then(|()| validate(&mut chain))
    };
    let first = run().expect_err("the snapshot is wrong");
    let text = first.to_string();
    let ChainError::SnapshotDoubted { assumed, refutation } = first else { panic!("{text}") };
    assert!(text.contains("Start again: "), "{text}");
    disk.crash(Survival::Nothing);
    let second = refuted(run());
    assert_eq!((second.0, second.1), (assumed, refutation));
    second
}

/// No later start goes on, whoever starts; one that makes everything again does.
fn is_final(disk: &FaultDisk, said: &str, right: &[Vec<u8>]) {
    for survival in [Survival::Nothing, Survival::All] {
        disk.crash(survival);
        let node = try_open(disk, opening(), MAX_BLOCK_FILE_SIZE).map(drop);
        assert_eq!(refuted(node).2, said);
        let command = crate::pruning::try_open(disk, None, MAX_BLOCK_FILE_SIZE).map(drop);
        assert_eq!(refuted(command).2, said);
    }
    let mut options = opening();
    options.start.rebuild = Rebuild::Index;
    let mut chain = try_open(disk, options, MAX_BLOCK_FILE_SIZE).expect("the way out");
    chain.settle(clock()).expect("no local fault");
    // The chain had ended before it had them all.
    give_all(&mut chain, right).expect("no local fault");
    assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(right));
    chain.close().expect("no local fault");
    assert_eq!(history_files(disk), 0);
}

#[test]
fn a_snapshot_with_another_coin_is_refuted_for_good() {
    // A coin's last byte, and its hash accepted by whoever loads it.
    let mut bytes = SNAPSHOT.bytes.clone();
    *bytes.last_mut().expect("a file") ^= 1;
    let forged = Snapshot::accepted(bytes, &BLOCKS[..BASE]);
    assert_ne!(forged.hash, SNAPSHOT.hash);
    let disk = loaded(&forged, &BLOCKS[..TOP]);
    let (assumed, refutation, said) = found_wrong(&disk, &BLOCKS[..TOP]);
    assert_eq!(assumed.utxo_hash, forged.hash);
    assert_eq!(refutation, Refutation::OtherCoins(SNAPSHOT.hash));
    for part in ["height 140 is wrong", "-reindex", "empty data directory"] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let (inspected, found) = verify(&disk, false);
    assert_eq!((inspected.assumed, inspected.refuted), (Some(assumed), Some(refutation)));
    assert_eq!(found, [], "what was written is what is read");
    is_final(&disk, &said, &BLOCKS[..TOP]);
}

/// Its coinbase takes too much, which is found when it is connected.
#[test]
fn an_invalid_block_below_a_snapshot_refutes_it() {
    let prefix = 132;
    let before = header(&BLOCKS[prefix - 1]);
    let bad = block_paying(6_000_000_000, before.block_hash(), prefix as u32 + 1, before.time + 1);
    let stem = [&BLOCKS[..prefix], std::slice::from_ref(&bad)].concat();
    let above = branch(&stem, stem.len() as u32, 7);
    let blocks = [stem, above].concat();
    let mut bytes = SNAPSHOT.bytes.clone();
    bytes[11..43].copy_from_slice(&hash(&blocks[BASE - 1]).to_bytes());
    let forged = Snapshot::accepted(bytes, &blocks[..BASE]);
    let disk = loaded(&forged, &blocks[..BASE]);
    let (assumed, refutation, said) = found_wrong(&disk, &blocks[..BASE]);
    assert_eq!(assumed.base.height as usize, BASE);
    let Refutation::InvalidBlock(point) = refutation else { panic!("{said}") };
    assert_eq!((point.hash, point.height as usize), (hash(&bad), prefix + 1));
    assert!(said.contains(&format!("block {} at height {}", point.hash, point.height)), "{said}");
    is_final(&disk, &said, &BLOCKS[..prefix]);
}

#[test]
fn a_reorganisation_above_the_snapshot_goes_first() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    let mut chain = open(&disk);
    give_all(&mut chain, &BLOCKS[BASE..TOP]).expect("no local fault");
    give_all(&mut chain, &BLOCKS[..BASE / 2]).expect("no local fault");
    let rival = branch(&BLOCKS, BASE as u32 + 1, TOP as u32 - BASE as u32);
    give_all(&mut chain, &rival).expect("no local fault");
    let all = [&BLOCKS[..BASE + 1], &rival].concat();
    assert_eq!(chain.tip_point().height as usize, all.len());
    give_all(&mut chain, &BLOCKS[BASE / 2..BASE]).expect("no local fault");
    validate(&mut chain).expect("the snapshot is right");
    chain.close().expect("no local fault");
    is_whole(&disk, &all);
}

/// Nearly every block has a file of its own.
#[test]
fn what_is_not_validated_is_not_pruned_and_goes_afterwards() {
    let (all, base) = (BLOCKS.len(), BLOCKS.len() - 2);
    let snapshot = Snapshot::of(&BLOCKS[..base]);
    let disk = loaded(&snapshot, &BLOCKS);
    let mut options = opening();
    options.prune_bytes = Some(1);
    let mut chain = try_open(&disk, options, ONE_BLOCK).expect("a datadir");
    // The first block comes last.
    give_all(&mut chain, &BLOCKS[1..]).expect("no local fault");
    chain.flush().expect("no local fault");
    let is_stored = |chain: &Chain, height: usize| {
        let id = chain.tree().ancestor(chain.tip(), height as u32).expect("below the tip");
        chain.tree().node(id).position.is_some()
    };
    assert!((2..=all).all(|height| is_stored(&chain, height)));
    give_all(&mut chain, &BLOCKS[..1]).expect("no local fault");
    validate(&mut chain).expect("the snapshot is right");
    chain.flush().expect("no local fault");
    chain.flush().expect("no local fault");
    let kept = (1..=all).filter(|height| is_stored(&chain, *height)).count();
    assert!(kept <= 300, "{kept} blocks are left");
    assert_eq!(chain.utxo_stats().expect("no local fault"), stats_of(&BLOCKS));
}

/// A bit that flips in memory would end one validation against a snapshot, but not two.
#[test]
fn a_snapshot_that_was_doubted_once_is_validated_again() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    let mut chain = open(&disk);
    give_all(&mut chain, &BLOCKS[..BASE / 2]).expect("no local fault");
    chain.close().expect("no local fault");
    let doubted = Some(HistoryCommit::Doubted(Refutation::OtherCoins([1; 32])));
    commit(&disk, Commit { history: doubted, ..Commit::default() });
    assert_eq!(history_files(&disk), 0);
    let mut chain = open(&disk);
    assert_eq!(chain.tree().node(history(&chain).expect("begun again").tip).height, 0);
    give_all(&mut chain, &BLOCKS[..TOP]).expect("no local fault");
    validate(&mut chain).expect("the snapshot is right");
    chain.close().expect("no local fault");
    is_whole(&disk, &BLOCKS[..TOP]);
}

/// What is stored below a snapshot is promised to nobody before it is validated.
#[test]
fn blocks_of_a_history_count_as_absent_until_it_is_validated() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    // A command stores them, and validates nothing.
    let mut chain = crate::pruning::open(&disk, None, MAX_BLOCK_FILE_SIZE);
    give_all(&mut chain, &BLOCKS[..TOP]).expect("no local fault");
    chain.close().expect("no local fault");
    let mut chain = open(&disk);
    assert_eq!(chain.prune_height() as usize, BASE + 1);
    validate(&mut chain).expect("the snapshot is right");
    assert_eq!(chain.prune_height(), 0);
    chain.close().expect("no local fault");
    is_whole(&disk, &BLOCKS[..TOP]);
}

/// A chain with all of the history but its last block, the coins of which are on disk.
fn nearly_validated(disk: &FaultDisk) -> Chain {
    let mut options = opening();
    options.coin_writing = CoinWriting { interval: Some(0), ..CoinWriting::PRODUCT };
    let mut chain = try_open(disk, options, MAX_BLOCK_FILE_SIZE).expect("a datadir");
    give_all(&mut chain, &BLOCKS[..BASE - 1]).expect("no local fault");
    run_until(&mut chain, |chain| {
        history(chain).is_some_and(|span| chain.tree().node(span.tip).height as usize == BASE - 1)
    })
    .expect("no local fault");
    chain
}

/// Beyond parity.
fn rot_coins_of_history(disk: &FaultDisk) {
    let dir = Path::new(DIR).join("utxo-history");
    let files = disk.list(&dir).expect("it is there");
    assert!(!files.is_empty());
    for name in files {
        let path = dir.join(name);
        let len = disk.contents(&path).expect("a file").len();
        disk.overwrite(&path, vec![7; len]);
    }
}

/// The coins of the history are no reason to disbelieve a snapshot.
#[test]
fn damaged_coins_of_the_history_are_made_again() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    nearly_validated(&disk).close().expect("no local fault");
    rot_coins_of_history(&disk);
    let mut chain = open(&disk);
    assert_eq!(chain.tree().node(history(&chain).expect("begun again").tip).height, 0);
    give_all(&mut chain, &BLOCKS[BASE - 1..TOP]).expect("no local fault");
    validate(&mut chain).expect("the snapshot is right");
    chain.close().expect("no local fault");
    is_whole(&disk, &BLOCKS[..TOP]);
}

/// Nothing of the chain depends on them.
#[test]
fn a_chain_goes_on_when_the_coins_of_its_history_rot_under_it() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    let mut chain = nearly_validated(&disk);
    let durable = |chain: &mut Chain| chain.flush().expect("no local fault");
    durable(&mut chain);
    rot_coins_of_history(&disk);
    give_all(&mut chain, &BLOCKS[BASE - 1..BASE]).expect("no local fault");
    run_until(&mut chain, |chain| chain.status().history.is_none()).expect("no local fault");
    assert!(chain.assumed().is_some(), "nothing has validated it");
    give_all(&mut chain, &BLOCKS[BASE..TOP]).expect("no local fault");
    assert_eq!(chain.tip_point().height as usize, TOP);
    durable(&mut chain);
    assert_eq!(history_files(&disk), 0, "they are removed at once");
    chain.close().expect("no local fault");
    let mut chain = open(&disk);
    assert_eq!(chain.tree().node(history(&chain).expect("begun again").tip).height, 0);
    validate(&mut chain).expect("the snapshot is right");
    chain.close().expect("no local fault");
    is_whole(&disk, &BLOCKS[..TOP]);
}

/// Files of the history's coins, by name.
fn coins_of_history(disk: &FaultDisk) -> Vec<(PathBuf, Vec<u8>)> {
    let dir = Path::new(DIR).join("utxo-history");
    let paths = disk.list(&dir).expect("it is there").into_iter().map(|name| dir.join(name));
    let with_bytes = |path: PathBuf| disk.contents(&path).map(|bytes| (path, bytes));
    let mut files: Vec<_> = paths.filter_map(with_bytes).collect();
    files.sort();
    files
}

#[test]
fn verify_reads_the_coins_of_a_history_and_repairs_what_parity_repairs() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    nearly_validated(&disk).close().expect("no local fault");
    // A start removes what merges have replaced.
    open(&disk).close().expect("no local fault");
    let good = coins_of_history(&disk);
    let (inspected, found) = verify(&disk, false);
    assert_eq!((found, inspected.runs), (Vec::new(), 1 + good.len() as u64 / 2));
    let base = inspected.assumed.map(|assumed| assumed.base.height as usize);
    assert_eq!((base, inspected.refuted), (Some(BASE), None));
    let muhash = inspected.coins.expect("those of the snapshot").muhash;
    for (path, bytes) in &good {
        for at in [9, bytes.len() / 2, bytes.len() - 9] {
            let bad = disk.copy();
            let mut changed = bytes.clone();
            changed[at] ^= 4;
            bad.overwrite(path, changed);
            for (repair, remedy) in [(false, Remedy::Repair), (true, Remedy::Done)] {
                let (inspected, found) = verify(&bad, repair);
                let [told] = &found[..] else { panic!("{at} of {}: {found:?}", path.display()) };
                assert_eq!((&told.path, told.remedy), (path, remedy), "byte {at}");
                assert_eq!(inspected.coins.expect("the same").muhash, muhash);
            }
            assert!(coins_of_history(&bad) == good, "byte {at} of {}", path.display());
            assert_eq!(verify(&bad, true).1, []);
        }
    }
}

/// Not without being told to: until then a start may find another way.
#[test]
fn a_repair_gives_up_coins_of_a_history_that_parity_does_not_bring_back() {
    let disk = loaded(&SNAPSHOT, &BLOCKS[..TOP]);
    nearly_validated(&disk).close().expect("no local fault");
    let (one, _) = coins_of_history(&disk).swap_remove(0);
    disk.remove(&one).expect("a file");
    if one.extension().is_some_and(|extension| extension == "parity") {
        disk.remove(&one.with_extension("run")).expect("a file");
    }
    disk.crash(Survival::All);
    let left = coins_of_history(&disk);
    let (_, found) = verify(&disk, false);
    assert!(found.iter().any(|found| found.remedy == Remedy::Validation), "{found:?}");
    assert!(coins_of_history(&disk) == left, "nothing is changed");
    // Every operation of the repair fails once.
    for n in 1.. {
        let disk = disk.copy();
        disk.fail_change(n);
        let mut notes = Notes::default();
        let repaired = run_within(4 << 20, &disk, true, &mut notes);
        let has_failed = disk.has_failed();
        disk.crash([Survival::All, Survival::Nothing, Survival::Part(n)][n as usize % 3]);
        if has_failed {
            notes.found = verify(&disk, true).1;
        } else {
            repaired.expect("no local fault");
        }
        let is_done = |found: &Found| found.remedy == Remedy::Done;
        assert!(notes.found.iter().all(is_done), "operation {n}: {:?}", notes.found);
        assert_eq!(verify(&disk, false).1, [], "operation {n}");
        let mut chain = open(&disk);
        assert_eq!(validated(&chain), Some(0), "operation {n}");
        assert_eq!(history_files(&disk), 0, "operation {n}");
        if !has_failed {
            assert!(n > 5, "{n} operations");
            give_all(&mut chain, &BLOCKS[BASE - 1..TOP]).expect("no local fault");
            validate(&mut chain).expect("the snapshot is right");
            chain.close().expect("no local fault");
            return is_whole(&disk, &BLOCKS[..TOP]);
        }
    }
}

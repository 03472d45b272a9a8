//! Datadirs whose coins were loaded from a snapshot: a crash at the end of the load, and branches that
//! leave the chain below, at and above the snapshot's block.

use std::cell::Cell;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock};

use godwit_chain::{
    BaseFault, Chain, ChainError, LoadWatch, Loading, OverruleError, SnapshotError, UtxoStats,
    Verdict, check_snapshot_base,
};
use godwit_fault_disk::{Counted, DiskError, Fault, FaultDisk, Lasting, Survival};
use godwit_primitives::network::{Network, Params};
use godwit_store::disk::Disk;
use godwit_store::{
    BLOCK_BUFFERS, BlockRecord, BlockStatus, ChainPoint, Commit, MAX_BLOCK_FILE_SIZE, NetworkId,
    Rebuild, Store, StoreOptions,
};

use crate::datadir::{clock, end_after_checkpoint, options, submit};
use crate::history;
use crate::pruned_branches::branch;
use crate::pruning::{BLOCKS, DIR, STATS, hash, header, open, stats_of, submit_all};

/// Height of the snapshot's block.
const BASE: u32 = 180;

/// Blocks that were connected before the snapshot was loaded.
const BEFORE: usize = 10;

const FILE: &str = "/node/coins.dat";

/// Nobody stops a load.
pub(crate) const GO_ON: LoadWatch<'static> = &|_| ControlFlow::Continue(());

/// A snapshot's bytes and its hash.
pub(crate) struct Snapshot {
    pub(crate) bytes: Vec<u8>,
    pub(crate) hash: [u8; 32],
}

static SNAPSHOT: LazyLock<Snapshot> = LazyLock::new(|| Snapshot::of(&BLOCKS[..BASE as usize]));

impl Snapshot {
    pub(crate) fn of(blocks: &[Vec<u8>]) -> Self {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        submit_all(&mut chain, blocks);
        let info = chain.dump_snapshot(Path::new(FILE)).expect("a new file");
        let bytes = disk.contents(Path::new(FILE)).expect("the dump");
        Self { bytes, hash: info.hash_serialized }
    }

    /// One of other coins, with the hash that a user would have to accept; `blocks` end with its block.
    pub(crate) fn accepted(bytes: Vec<u8>, blocks: &[Vec<u8>]) -> Self {
        let disk = FaultDisk::new();
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        for block in blocks {
            chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
        }
        disk.overwrite(Path::new(FILE), bytes.clone());
        let refused = chain.load_snapshot(Path::new(FILE), Some([0; 32]), GO_ON);
        let Err(SnapshotError::WrongHash { found, .. }) = refused else { panic!("{refused:?}") };
        Self { bytes, hash: found }
    }

    /// As `godwit utxo load` does it.
    pub(crate) fn load(&self, disk: &FaultDisk) -> Result<(), SnapshotError> {
        disk.overwrite(Path::new(FILE), self.bytes.clone());
        let mut chain = open(disk, None, MAX_BLOCK_FILE_SIZE);
        chain.connect_known_only();
        chain.load_snapshot(Path::new(FILE), Some(self.hash), GO_ON)?;
        Ok(chain.close()?)
    }
}

/// A datadir that knows the first `headers` headers of [`BLOCKS`] and has connected [`BEFORE`] blocks.
fn with_headers(headers: usize) -> FaultDisk {
    with_blocks(BEFORE, headers)
}

fn with_blocks(blocks: usize, headers: usize) -> FaultDisk {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    for block in &BLOCKS[..headers] {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    submit_all(&mut chain, &BLOCKS[..blocks]);
    chain.flush().expect("no local fault");
    chain.close().expect("no local fault");
    disk
}

/// A datadir with the snapshot loaded, which no header lies above.
fn loaded() -> FaultDisk {
    let disk = with_headers(BASE as usize);
    SNAPSHOT.load(&disk).expect("a good snapshot");
    disk
}

fn base_point() -> ChainPoint {
    ChainPoint { hash: hash(&BLOCKS[BASE as usize - 1]), height: BASE }
}

/// As `godwit utxo stats` does it, with what is said of the snapshot.
fn stats(disk: &FaultDisk) -> (UtxoStats, Option<ChainPoint>) {
    let mut chain = open(disk, None, MAX_BLOCK_FILE_SIZE);
    chain.connect_known_only();
    let stats = chain.utxo_stats().expect("no local fault");
    let base = chain.assumed().map(|assumed| assumed.base);
    chain.close().expect("no local fault");
    (stats, base)
}

/// The datadir after a crash has the coins from before the load or the loaded ones. Whether the snapshot
/// is loaded.
fn coins_are_either(disk: &FaultDisk, before: &UtxoStats, after: &UtxoStats, moment: &str) -> bool {
    let (found, base) = stats(disk);
    let is_loaded = base.is_some();
    assert_eq!(base, is_loaded.then(base_point), "{moment}");
    assert_eq!(found, if is_loaded { *after } else { *before }, "{moment}");
    is_loaded
}

/// As [`coins_are_either`], and every command works and gives the same as without the crash.
fn works(disk: &FaultDisk, before: &UtxoStats, after: &UtxoStats, moment: &str) -> bool {
    let is_loaded = coins_are_either(disk, before, after, moment);
    let found = if is_loaded { after } else { before };

    let node = disk.copy();
    let mut chain = open(&node, None, MAX_BLOCK_FILE_SIZE);
    chain.settle(clock()).expect("no local fault");
    let height = if is_loaded { BASE as usize } else { BEFORE };
    submit_all(&mut chain, &BLOCKS[height..height + 2]);
    assert_eq!(chain.tip_point().height as usize, height + 2, "{moment}");
    chain.close().expect("no local fault");

    let dump = Path::new("/node/dump.dat");
    let mut chain = open(disk, None, MAX_BLOCK_FILE_SIZE);
    chain.connect_known_only();
    assert_eq!(chain.dump_snapshot(dump).expect("a new file").base, found.tip, "{moment}");
    chain.close().expect("no local fault");

    let again = SNAPSHOT.load(disk);
    let refused = matches!(&again, Err(SnapshotError::AlreadyLoaded(_, assumed))
        if (assumed.base, assumed.utxo_hash) == (base_point(), SNAPSHOT.hash));
    assert!(if is_loaded { refused } else { again.is_ok() }, "{moment}: {again:?}");
    assert_eq!(stats(disk), (*after, Some(base_point())), "{moment}");
    is_loaded
}

/// Each operation of a load fails once, and then the process dies or the power goes.
#[test]
fn a_crash_at_any_operation_of_a_load_leaves_the_old_coins_or_the_loaded_ones() {
    let start = with_headers(BLOCKS.len());
    let (before, after) = (stats_of(&BLOCKS[..BEFORE]), stats_of(&BLOCKS[..BASE as usize]));
    let mut outcomes = [0, 0];
    for n in 1.. {
        let disk = start.copy();
        disk.overwrite(Path::new(FILE), SNAPSHOT.bytes.clone());
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        chain.connect_known_only();
        disk.fail_change(n);
        let result = chain.load_snapshot(Path::new(FILE), Some(SNAPSHOT.hash), GO_ON);
        drop(chain);
        let finished = !disk.has_failed();
        assert!(result.is_ok() || !finished, "operation {n}: {result:?}");
        let survivals =
            [Survival::All, Survival::Nothing, Survival::Part(n), Survival::Part(1_000 + n)];
        for survival in survivals {
            let disk = disk.copy();
            disk.crash(survival);
            let moment = format!("operation {n}, {survival:?}");
            // All commands where they tell most: the process dies, or the power takes what it may.
            let is_loaded = match survival {
                Survival::Part(_) => coins_are_either(&disk, &before, &after, &moment),
                Survival::All | Survival::Nothing => works(&disk, &before, &after, &moment),
            };
            assert!(is_loaded || result.is_err(), "{moment}");
            outcomes[usize::from(is_loaded)] += 1;
        }
        if finished {
            let [old, new] = outcomes;
            println!("{n} operations; the old coins {old} times, the loaded ones {new} times");
            assert!(n > 20 && old > 20 && new > 4, "{n} operations, {outcomes:?}");
            return;
        }
    }
}

/// A load looks whether it goes on before it begins, within each of its parts, and never behind its end.
#[test]
fn a_load_that_is_stopped_leaves_the_old_coins() {
    let start = with_headers(BLOCKS.len());
    let (before, after) = (stats_of(&BLOCKS[..BEFORE]), stats_of(&BLOCKS[..BASE as usize]));
    let mut stopped_at = Vec::new();
    for looks in 0_u32.. {
        let disk = start.copy();
        disk.overwrite(Path::new(FILE), SNAPSHOT.bytes.clone());
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        chain.connect_known_only();
        let (left, last) = (Cell::new(looks), Cell::new(None));
        let watch = |at: Loading| {
            last.set(Some(at));
            match left.replace(left.get().saturating_sub(1)) {
                0 => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        };
        let result = chain.load_snapshot(Path::new(FILE), Some(SNAPSHOT.hash), &watch);
        drop(chain);
        let moment = format!("{looks} looks, {:?}", last.get());
        let is_stopped = match &result {
            Ok(_) => false,
            Err(error) => error.is_stop(),
        };
        assert!(is_stopped || result.is_ok(), "{moment}: {result:?}");
        if !is_stopped {
            break;
        }
        assert!(!coins_are_either(&disk, &before, &after, &moment), "{moment}");
        stopped_at.extend(last.get());
    }
    let of = |wanted: fn(&Loading) -> bool| stopped_at.iter().filter(|at| wanted(at)).count();
    assert!(of(|at| *at == Loading::Forgetting) >= 2, "{stopped_at:?}");
    assert!(of(|at| matches!(at, Loading::Coins { .. })) >= 1, "{stopped_at:?}");
    assert!(of(|at| *at == Loading::Hashing) >= 1, "{stopped_at:?}");
}

/// The coins of a snapshot are gigabytes, and whoever was refused tries again.
#[test]
fn a_refused_load_leaves_no_runs_behind() {
    for blocks in [0, BEFORE] {
        let disk = with_blocks(blocks, BLOCKS.len());
        let runs = || {
            let is_run = |path: &PathBuf| path.starts_with(Path::new(DIR).join("utxo"));
            disk.paths().into_iter().filter(is_run).collect::<Vec<_>>()
        };
        let before = runs();
        disk.overwrite(Path::new(FILE), SNAPSHOT.bytes.clone());
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        chain.connect_known_only();
        let refused = chain.load_snapshot(Path::new(FILE), Some([7; 32]), GO_ON);
        refused.expect_err("another hash");
        drop(chain);
        assert_ne!(runs(), before, "{blocks} blocks: coins were written");
        drop(open(&disk, None, MAX_BLOCK_FILE_SIZE));
        assert_eq!(runs(), before, "{blocks} blocks");
    }
}

/// Each change of the disk fails once. What fails of the file concerns nothing else: another dump is made
/// right after.
#[test]
fn a_dump_that_fails_leaves_no_file_and_closes_no_store() {
    let start = with_blocks(BEFORE, BEFORE);
    let mut told = Vec::new();
    for nth in 1.. {
        let disk = start.copy();
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        chain.connect_known_only();
        disk.plan(Fault {
            counted: Counted::Changes,
            nth,
            error: DiskError::Full,
            lasting: Lasting::Once,
            forgets: false,
        });
        let result = chain.dump_snapshot(Path::new(FILE));
        if !disk.has_failed() {
            result.expect("no local fault");
            break;
        }
        let Err(error) = result else { continue };
        let text = error.to_string();
        let is_of_dump = |path: &PathBuf| path.display().to_string().starts_with(FILE);
        let left: Vec<_> = disk.paths().into_iter().filter(is_of_dump).collect();
        assert!(left.is_empty(), "{text}: {left:?}");
        // The store syncs that directory, too, but not behind the renaming.
        let is_last = told.len() == 4 && text.starts_with("fsync directory /node: ");
        if text.contains(FILE) || is_last {
            let again = chain.dump_snapshot(Path::new("/node/again.dat"));
            assert!(again.is_ok(), "{text}: {again:?}");
            told.push(text);
        }
    }
    let full = |what: &str| format!("{what}: No space left on device (os error 28)");
    let file = |what: &str| full(&format!("{what} {FILE}.incomplete"));
    let each = ["open for writing", "write", "fsync", "rename"].map(file);
    assert_eq!(told, [&each[..], &[full("fsync directory /node")]].concat());
}

/// Both sides of each: the block is known or not, valid or not, in the best chain of headers or not, ahead of
/// the tip or not.
#[test]
fn what_cannot_be_loaded_is_known_before() {
    let node = with_headers(BASE as usize);
    let mut chain = open(&node, None, MAX_BLOCK_FILE_SIZE);
    let block = |height: usize| hash(&BLOCKS[height - 1]);
    let check = |chain: &Chain, height| check_snapshot_base(chain, &block(height));
    assert_eq!(check(&chain, BASE as usize), Ok(()));
    assert_eq!(check(&chain, BASE as usize + 1), Err(BaseFault::Unknown));
    chain.settle(clock()).expect("no local fault");
    let tip = chain.tip_point();
    assert_eq!(tip.height as usize, BEFORE);
    assert_eq!(check(&chain, BEFORE), Err(BaseFault::NotAhead(tip)));
    assert_eq!(check(&chain, BEFORE + 1), Ok(()));

    // Another branch of headers, of as much work and then of more.
    let branch = branch(&BLOCKS, BASE - 2, 3);
    let (last, rest) = branch.split_last().expect("three blocks");
    for block in rest {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    assert_eq!(check(&chain, BASE as usize), Ok(()));
    chain.accept_header(&header(last), hash(last), clock()).expect("a good header");
    let best = ChainPoint { hash: hash(last), height: BASE + 1 };
    assert_eq!(check(&chain, BASE as usize), Err(BaseFault::NotInBestChain(best)));
    assert_eq!(check(&chain, BASE as usize - 2), Ok(()), "both branches have it");

    chain.invalidate_block(&block(BASE as usize - 3)).expect("it is known");
    assert_eq!(check(&chain, BASE as usize - 4), Ok(()));
    assert_eq!(check(&chain, BASE as usize - 3), Err(BaseFault::Invalid));
    assert_eq!(check(&chain, BASE as usize), Err(BaseFault::Invalid));
    chain.close().expect("no local fault");
}

/// Whatever else could be said of its block: a load that was cut off may have taken effect.
#[test]
fn of_a_snapshot_that_is_loaded_it_is_said_before_all_else() {
    let disk = loaded();
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    let block = |height: usize| hash(&BLOCKS[height - 1]);
    let loaded = Err(BaseFault::AlreadyLoaded(*chain.assumed().expect("it is loaded")));
    assert_eq!(check_snapshot_base(&chain, &block(BASE as usize)), loaded);
    for block in branch(&BLOCKS, BASE - 2, 3) {
        chain.accept_header(&header(&block), hash(&block), clock()).expect("a good header");
    }
    assert_eq!(check_snapshot_base(&chain, &block(BASE as usize)), loaded);
    let below = check_snapshot_base(&chain, &block(BASE as usize - 2));
    assert_eq!(below, Err(BaseFault::NotAhead(base_point())), "another one is judged as ever");
    chain.close().expect("no local fault");
}

/// Commits something to a datadir that nobody has open.
pub(crate) fn commit(disk: &FaultDisk, commit: Commit) {
    let params = Params::new(Network::Regtest);
    let network = NetworkId { magic: params.magic, genesis: params.genesis_hash.to_bytes() };
    let store_options = StoreOptions {
        dir: DIR.into(),
        network,
        new_hash_key: [7; 16],
        buffers: BLOCK_BUFFERS,
        rebuild: Rebuild::Nothing,
        stop: Arc::default(),
    };
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let (store, recovered) = Store::open(disk, store_options).expect("a datadir");
    assert!(recovered.is_empty());
    store.commit(commit).expect("no local fault");
}

/// What an earlier version left when it was killed between the two commits at the end of a load.
#[test]
fn a_verified_height_whose_blocks_never_came_is_forgotten() {
    let disk = with_headers(BLOCKS.len());
    commit(&disk, Commit { verified_tip: Some(base_point()), ..Commit::default() });
    let (before, after) = (stats_of(&BLOCKS[..BEFORE]), stats_of(&BLOCKS[..BASE as usize]));
    assert!(!works(&disk, &before, &after, "between two commits"));
}

/// As [`a_verified_height_whose_blocks_never_came_is_forgotten`], with some of the blocks stored: what
/// is there is applied again, and nothing above a gap.
#[test]
fn a_replay_ends_below_the_first_block_that_is_not_stored() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[..BEFORE]);
    chain.flush().expect("no local fault");
    submit_all(&mut chain, &BLOCKS[BEFORE..30]);
    let gap = chain.tree().find(&hash(&BLOCKS[20])).expect("a known header");
    let node = chain.tree().node(gap);
    end_after_checkpoint(chain);
    let record = BlockRecord {
        header: node.header,
        height: node.height,
        status: BlockStatus::HEADER,
        tx_count: 0,
        sequence: node.sequence,
        position: None,
        checksum: None,
        undo: None,
    };
    commit(&disk, Commit { blocks: vec![(node.hash, record)], ..Commit::default() });
    assert_eq!(stats(&disk), (stats_of(&BLOCKS[..20]), None));
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    assert_eq!(submit(&mut chain, &BLOCKS[20]), Verdict::Connected);
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..30]));
}

/// Gives a node the history, and lets it validate that.
fn validate(disk: &FaultDisk) -> Chain {
    let mut chain = history::try_open(disk, history::opening(), MAX_BLOCK_FILE_SIZE).unwrap();
    chain.settle(clock()).expect("a branch that waits is no reason to stop");
    history::give_all(&mut chain, &BLOCKS[..BASE as usize]).expect("no local fault");
    history::run_until(&mut chain, |chain| chain.assumed().is_none()).expect("it is right");
    chain.settle(clock()).expect("no local fault");
    chain
}

/// The fork's own block was never stored, nor any below the snapshot's.
#[test]
fn a_branch_that_replaces_the_snapshots_block_waits_for_the_history() {
    let after = stats_of(&BLOCKS[..BASE as usize]);
    for (fork, in_order) in [(BASE - 1, true), (BASE - 1, false), (BASE - 20, true)] {
        let rival = branch(&BLOCKS, fork, BASE - fork + 1);
        let disk = loaded();
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        for block in &rival {
            chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
        }
        chain.settle(clock()).expect("a header is no reason to stop");
        let mut given = rival.clone();
        if !in_order {
            given.rotate_left(1);
        }
        for block in &given {
            assert_eq!(submit(&mut chain, block), Verdict::Stored);
            assert_eq!(chain.tip_point(), base_point());
        }
        let refused = chain.invalidate_block(&base_point().hash);
        assert!(
            matches!(refused, Err(OverruleError::BelowSnapshot { fork, base })
                if (fork, base) == (BASE - 1, base_point())),
            "{refused:?}"
        );
        chain.close().expect("no local fault");
        for _ in 0..2 {
            let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
            chain.settle(clock()).expect("a restart does not take it either");
            drop(chain);
            assert_eq!(stats(&disk), (after, Some(base_point())));
        }
        let active = [&BLOCKS[..fork as usize], &rival].concat();
        let more = branch(&active, active.len() as u32, 3);
        // A snapshot of the other chain is there sooner.
        let other = disk.copy();
        Snapshot::of(&active).load(&other).expect("it has more work");
        let mut chain = open(&other, None, MAX_BLOCK_FILE_SIZE);
        chain.settle(clock()).expect("its own block is the tip");
        submit_all(&mut chain, &more);
        let expected = stats_of(&[&active[..], &more].concat());
        assert_eq!(chain.utxo_stats().unwrap(), expected);
        let mut chain = validate(&disk);
        assert_eq!(chain.tip_point().hash, hash(rival.last().unwrap()));
        submit_all(&mut chain, &more);
        assert_eq!(chain.utxo_stats().unwrap(), expected);
    }
}

/// The chain went on above the snapshot before the branch overtook it.
#[test]
fn a_branch_from_below_the_snapshot_waits_while_the_chain_goes_on() {
    let (fork, top) = (BASE - 3, BASE + 5);
    let disk = loaded();
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[BASE as usize..top as usize]);
    let rival = branch(&BLOCKS, fork, top - fork + 1);
    for block in &rival {
        assert_eq!(submit(&mut chain, block), Verdict::Stored);
    }
    assert_eq!(chain.tip_point().height, top);
    let own = &BLOCKS[top as usize];
    submit_all(&mut chain, std::slice::from_ref(own));
    chain.close().expect("no local fault");
    let equal = validate(&disk.copy()).tip_point();
    assert_eq!(equal.hash, hash(own), "of equal work the first one stays");

    let active = [&BLOCKS[..fork as usize], &rival].concat();
    let more = branch(&active, top + 1, 1);
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    assert_eq!(submit(&mut chain, &more[0]), Verdict::Stored);
    assert_eq!(chain.tip_point().hash, hash(own));
    chain.close().expect("no local fault");
    let mut chain = validate(&disk);
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&[active, more].concat()));
    // And back, below the block that was the snapshot's.
    chain.invalidate_block(&hash(&rival[0])).expect("nothing is assumed any more");
    chain.settle(clock()).expect("no local fault");
    assert_eq!(chain.utxo_stats().unwrap(), stats_of(&BLOCKS[..=top as usize]));
}

#[test]
fn a_branch_above_the_snapshot_reorganises() {
    for restarted in [false, true] {
        let disk = loaded();
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        submit_all(&mut chain, &BLOCKS[BASE as usize..BASE as usize + 5]);
        if restarted {
            chain.close().expect("no local fault");
            chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        }
        let rival = branch(&BLOCKS, BASE, 6);
        for block in &rival {
            submit(&mut chain, block);
        }
        let expected = stats_of(&[&BLOCKS[..BASE as usize], &rival].concat());
        assert_eq!(chain.utxo_stats().unwrap(), expected, "restarted: {restarted}");
    }
}

/// The branch and the snapshot's block were stored before the load, and not connected.
#[test]
fn a_stored_branch_keeps_a_snapshot_out_only_when_it_would_replace_its_block() {
    let fork = 130;
    for (rival_top, refused) in [(BASE, false), (BASE + 1, true)] {
        let disk = with_headers(BLOCKS.len());
        let mut stopped = options(Params::new(Network::Regtest));
        stopped.stop_at_height = Some(BEFORE as u32);
        let node = Arc::new(disk.clone());
        let mut chain =
            Chain::open(node, DIR.into(), stopped, [7; 16], clock()).expect("a datadir");
        for block in &BLOCKS[BEFORE..fork as usize] {
            submit(&mut chain, block);
        }
        for block in branch(&BLOCKS, fork, rival_top - fork) {
            assert_eq!(submit(&mut chain, &block), Verdict::Stored);
        }
        for block in &BLOCKS[fork as usize..BASE as usize] {
            submit(&mut chain, block);
        }
        chain.close().expect("no local fault");
        let result = SNAPSHOT.load(&disk);
        if refused {
            let Err(SnapshotError::NotAhead(_, rival)) = result else { panic!("{result:?}") };
            assert_eq!(rival.height, rival_top);
            assert_eq!(stats(&disk), (stats_of(&BLOCKS[..BEFORE]), None));
            continue;
        }
        result.expect("of equal work the snapshot's block stays, though it came later");
        let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
        chain.settle(clock()).expect("of equal work the snapshot's block stays");
        assert_eq!(chain.tip_point(), base_point());
        submit_all(&mut chain, &BLOCKS[BASE as usize..]);
        assert_eq!(chain.utxo_stats().unwrap(), *STATS);
    }
}

/// Blocks that connect to genesis are kept, though coins were loaded once.
#[test]
fn a_reindex_keeps_the_blocks_from_genesis_on() {
    let disk = loaded();
    let mut options = options(Params::new(Network::Regtest));
    options.start.rebuild = Rebuild::Index;
    let fault = Arc::new(disk.clone());
    let mut chain = Chain::open(fault, DIR.into(), options, [7; 16], clock()).unwrap();
    chain.settle(clock()).unwrap();
    assert_eq!(chain.tip_point().height as usize, BEFORE);
}

/// What the block spent was created below the snapshot's block, where nothing is stored.
#[test]
fn c5_an_undo_record_that_cannot_be_made_again_is_named_with_its_place() {
    let base = BLOCKS.iter().rposition(|block| block.len() > 5_000).expect("some spend much");
    let disk = FaultDisk::new();
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    for block in &BLOCKS[..base] {
        chain.accept_header(&header(block), hash(block), clock()).expect("a good header");
    }
    chain.close().expect("no local fault");
    Snapshot::of(&BLOCKS[..base]).load(&disk).expect("a good snapshot");
    let mut chain = open(&disk, None, MAX_BLOCK_FILE_SIZE);
    submit_all(&mut chain, &BLOCKS[base..base + 1]);
    let undo = chain.tree().node(chain.tip()).undo.expect("it was connected");
    let rev = Path::new(DIR).join("blocks/rev00000.dat");
    let mut bytes = disk.contents(&rev).expect("it was written");
    bytes[undo.offset as usize] ^= 4;
    disk.overwrite(&rev, bytes);
    let tip = hash(&BLOCKS[base]);
    chain.invalidate_block(&tip).expect("it is above the snapshot");
    let error = chain.settle(clock()).expect_err("its coins are nowhere");
    let text = error.to_string();
    assert!(text.contains("/node/blocks/rev00000.dat at byte"), "{text}");
    let ChainError::LostUndo { hash: found, height, path, offset } = error else {
        panic!("{text}")
    };
    assert_eq!((found, height as usize, path, offset), (tip, base + 1, rev, Some(undo.offset)));
}

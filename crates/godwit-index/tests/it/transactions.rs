//! The transaction index, beside a map of all transactions.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_chain::{Chain, StoredData};
use godwit_fault_disk::{Counted, FaultDisk, Survival};
use godwit_index::{
    Candidate, Follower, INDEXES_DIR, IndexError, Outcome, TxIndex, TxIndexWriter, candidates,
    has_followed, next, transaction_at,
};
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{Block, BlockHash, Txid};
use godwit_store::disk::StoreDisk;

use crate::beside::{
    BLOCKS, DIR, branch, chain_of, follow, hash, kill_at_any_operation, open, settle, small_block,
    submit,
};

/// So few that the chain's transactions make many runs.
const RUN: usize = 150;

pub(crate) fn index(disk: &FaultDisk, chain: &Chain) -> Result<TxIndexWriter, IndexError> {
    index_of_runs(RUN, disk, chain)
}

fn index_of_runs(
    entries: usize,
    disk: &FaultDisk,
    chain: &Chain,
) -> Result<TxIndexWriter, IndexError> {
    index_with_key([3; 16], entries, disk, chain)
}

/// One that was begun elsewhere, or at another time.
pub(crate) fn index_of_other_key(
    disk: &FaultDisk,
    chain: &Chain,
) -> Result<TxIndexWriter, IndexError> {
    index_with_key([4; 16], RUN, disk, chain)
}

fn index_with_key(
    secret: [u8; 16],
    entries: usize,
    disk: &FaultDisk,
    chain: &Chain,
) -> Result<TxIndexWriter, IndexError> {
    let store = StoreDisk::new(Arc::new(disk.clone()));
    let (dir, genesis) = (Path::new(DIR).join(INDEXES_DIR), chain.params().genesis_hash);
    TxIndexWriter::open_with_run_size(&store, &dir, genesis, secret, entries)
}

pub(crate) fn follower(disk: &FaultDisk, chain: &Chain) -> (Follower<TxIndexWriter>, Arc<TxIndex>) {
    follower_of_runs(RUN, disk, chain)
}

fn follower_of_runs(
    entries: usize,
    disk: &FaultDisk,
    chain: &Chain,
) -> (Follower<TxIndexWriter>, Arc<TxIndex>) {
    let writer = index_of_runs(entries, disk, chain).expect("it opens");
    let reader = writer.reader();
    (Follower::new(writer), reader)
}

/// Block and bytes of each transaction of blocks: of the one of the active chain that has it, otherwise of
/// the last one.
fn naive(chain: &Chain, blocks: &[Vec<u8>]) -> BTreeMap<Txid, (BlockHash, Vec<u8>)> {
    let mut active = BTreeSet::new();
    let mut walk = Some(chain.tip());
    while let Some(id) = walk {
        let node = chain.tree().node(id);
        active.insert(node.hash);
        walk = node.parent();
    }
    let mut all = BTreeMap::new();
    for is_active in [false, true] {
        for bytes in blocks {
            let block = Block::from_bytes(bytes).expect("a block");
            if active.contains(&block.hash()) != is_active {
                continue;
            }
            for (txid, tx) in block.view().txids().iter().zip(block.view().txs()) {
                all.insert(*txid, (block.hash(), tx.bytes().to_vec()));
            }
        }
    }
    all
}

/// What the index leads to.
fn look_up(chain: &Chain, index: &TxIndex, txid: &Txid) -> Option<(BlockHash, Vec<u8>)> {
    let places = index.find(txid).expect("it can be read");
    candidates(chain, &places).into_iter().find_map(|Candidate { block, offset }| {
        let stored = StoredData::of(chain).block(block)?;
        let bytes = StoredData::of(chain).reader().block(&stored).expect("it is there");
        let (_, tx) = transaction_at(bytes.as_slice(), offset as usize)?;
        (tx.txid() == *txid).then(|| (chain.tree().node(block).hash, tx.bytes().to_vec()))
    })
}

#[track_caller]
pub(crate) fn is_as(chain: &Chain, index: &TxIndex, blocks: &[Vec<u8>], moment: &str) {
    for (txid, expected) in naive(chain, blocks) {
        assert_eq!(look_up(chain, index, &txid), Some(expected), "{moment}: {txid}");
    }
    let unknown = Txid::from_bytes([9; 32]);
    assert_eq!(look_up(chain, index, &unknown), None, "{moment}");
    let genesis = Txid::from_bytes(chain.params().genesis.merkle_root.to_bytes());
    assert_eq!(look_up(chain, index, &genesis), None, "{moment}");
}

#[test]
fn an_index_that_is_built_later_has_what_one_has_that_was_there_from_the_start() {
    let disk = FaultDisk::new();
    let mut chain = open(&disk);
    let (mut early, reader) = follower(&FaultDisk::new(), &chain);
    follow(&chain, &mut early).expect("no fault");
    assert!(reader.status().is_synced());
    for block in BLOCKS.iter() {
        submit(&mut chain, block);
        follow(&chain, &mut early).expect("no fault");
    }
    is_as(&chain, &reader, &BLOCKS, "from the start");
    assert_eq!(reader.status().best(), Some(chain.tip_point()));

    let late_disk = FaultDisk::new();
    let (mut late, reader) = follower(&late_disk, &chain);
    assert!(!reader.status().is_synced());
    follow(&chain, &mut late).expect("no fault");
    assert!(reader.status().is_synced());
    is_as(&chain, &reader, &BLOCKS, "later");
    late.close().expect("no fault");

    // After a clean end nothing is read again.
    let opened = index(&late_disk, &chain).expect("it opens");
    assert_eq!(opened.reader().status().best(), Some(chain.tip_point()));
    is_as(&chain, &opened.reader(), &BLOCKS, "opened again");
    chain.close().expect("no fault");
}

#[test]
fn what_a_reorganisation_leaves_is_found_and_what_it_brings_is_found_first() {
    let disk = FaultDisk::new();
    let fork = BLOCKS.len() - 12;
    let mut chain = chain_of(&disk, &BLOCKS);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower(&index_disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    let left = branch(&BLOCKS, fork, 13, 0);
    left.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    assert_eq!(chain.tip_point().hash, hash(&left[12]));
    // The index is behind, on a branch that was left: what it has is found there.
    is_as(&chain, &reader, &BLOCKS, "before it follows");
    follow(&chain, &mut follower).expect("no fault");
    is_as(&chain, &reader, &[&BLOCKS[..], &left[..]].concat(), "there");
    // And back, and away once more.
    let end = branch(&BLOCKS, BLOCKS.len(), 2, 7);
    end.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(chain.tip_point().hash, hash(&end[1]));
    let all = [&left[..], &BLOCKS[..], &end[..]].concat();
    is_as(&chain, &reader, &all, "back");
    follower.close().expect("no fault");
    let reader = index(&index_disk, &chain).expect("it opens").reader();
    is_as(&chain, &reader, &all, "opened again");
    chain.close().expect("no fault");
}

/// The operator may declare many blocks invalid at once. None of them is forgotten, neither while the index
/// waits above them nor when it has come back to other blocks.
#[test]
fn all_that_a_deep_reorganisation_leaves_is_found() {
    let deep = branch(&BLOCKS, BLOCKS.len(), 400, 0);
    let all = [&BLOCKS[..], &deep[..]].concat();
    let mut chain = chain_of(&FaultDisk::new(), &all);
    let index_disk = FaultDisk::new();
    let (mut first, reader) = follower(&index_disk, &chain);
    follow(&chain, &mut first).expect("no fault");
    chain.invalidate_block(&hash(&deep[0])).expect("it may be");
    settle(&mut chain);
    assert_eq!(chain.tip_point().height as usize, BLOCKS.len());
    follow(&chain, &mut first).expect("no fault");
    is_as(&chain, &reader, &all, "above the tip");

    let other = branch(&BLOCKS, BLOCKS.len(), 2, 1);
    other.iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut first).expect("no fault");
    let all = [&all[..], &other[..]].concat();
    is_as(&chain, &reader, &all, "on other blocks");
    first.close().expect("no fault");
    let reader = index(&index_disk, &chain).expect("it opens").reader();
    is_as(&chain, &reader, &all, "opened again");
    chain.close().expect("no fault");
}

/// The last block, with some above it, whose second transaction has no witness: as many blocks as this are
/// below it.
fn below_plain_transaction() -> usize {
    let has_plain = |block: &Vec<u8>| {
        let block = Block::from_bytes(block).expect("a block");
        block.view().txs().nth(1).is_some_and(|tx| !tx.has_witness())
    };
    let end = BLOCKS.len() - 3;
    (128..end).rev().find(|n| has_plain(&BLOCKS[*n])).expect("a block")
}

/// Whichever of them has it at the higher byte, or at the greater height.
#[test]
fn a_transaction_of_two_branches_is_found_in_the_active_one() {
    let fork = below_plain_transaction();
    let known = Block::from_bytes(&BLOCKS[fork]).expect("a block");
    let tx = known.view().txs().nth(1).expect("it has it");
    let parent = BLOCKS[fork - 1].clone();
    for delay in 0..3 {
        let mut other = vec![parent.clone()];
        let count = BLOCKS.len() - fork + 1;
        for n in 0..count {
            let height = (fork + 1 + n) as u32;
            let (before, taken) = (&other[other.len() - 1], (n == delay).then_some(tx));
            other.push(small_block(before, height, 3, taken));
        }
        let other = &other[1..];
        let mut chain = chain_of(&FaultDisk::new(), &BLOCKS);
        let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
        let txid = tx.txid();
        let mut is_found_in = |chain: &Chain, block: &[u8], moment: &str| {
            follow(chain, &mut follower).expect("no fault");
            let found = look_up(chain, &reader, &txid).expect("it is there");
            assert_eq!(found.0, hash(block), "{moment}, {delay}");
        };
        is_found_in(&chain, &BLOCKS[fork], "first");
        other.iter().for_each(|block| _ = submit(&mut chain, block));
        settle(&mut chain);
        assert_eq!(chain.tip_point().hash, hash(&other[count - 1]));
        is_found_in(&chain, &other[delay], "on the other branch");
        let back = branch(&BLOCKS, BLOCKS.len(), 2, 7);
        back.iter().for_each(|block| _ = submit(&mut chain, block));
        settle(&mut chain);
        assert_eq!(chain.tip_point().hash, hash(&back[1]));
        is_found_in(&chain, &BLOCKS[fork], "back");
        let all = [other, &BLOCKS[..], &back[..]].concat();
        is_as(&chain, &reader, &all, "all");
        chain.close().expect("no fault");
    }
}

/// Neither in the highest one nor in the one that was seen first: in Core's index, what is connected replaces
/// what was there.
#[test]
fn a_transaction_of_two_branches_that_were_left_is_found_in_the_one_connected_last() {
    let fork = below_plain_transaction();
    let known = Block::from_bytes(&BLOCKS[fork]).expect("a block");
    let tx = known.view().txs().nth(1).expect("it has it");
    // With the transaction in block `place` of the branch.
    let branch_with = |count: usize, seed: u32, place: Option<usize>| {
        let mut blocks = vec![BLOCKS[fork - 1].clone()];
        for n in 0..count {
            let height = (fork + 1 + n) as u32;
            let taken = (Some(n) == place).then_some(tx);
            blocks.push(small_block(&blocks[n], height, seed, taken));
        }
        blocks.split_off(1)
    };
    let (high, low) = (branch_with(6, 1, Some(2)), branch_with(4, 2, Some(0)));
    let without = branch_with(7, 3, None);
    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS[..fork]);
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = follower(&index_disk, &chain);
    let txid = tx.txid();
    let mut go_to = |chain: &mut Chain, blocks: &[Vec<u8>], [before, after]: [&[u8]; 2]| {
        blocks.iter().for_each(|block| _ = submit(chain, block));
        settle(chain);
        let tip = hash(&blocks[blocks.len() - 1]);
        assert_eq!(chain.tip_point().hash, tip);
        let found_in = |chain: &Chain| look_up(chain, &reader, &txid).map(|found| found.0);
        assert_eq!(found_in(chain), (!before.is_empty()).then(|| hash(before)), "to {tip}");
        follow(chain, &mut follower).expect("no fault");
        assert_eq!(found_in(chain), Some(hash(after)), "at {tip}");
    };
    // The index is asked before it follows, too: then it is on a branch that was left.
    go_to(&mut chain, &high[..3], [&[], &high[2]]);
    go_to(&mut chain, &low, [&high[2], &low[0]]);
    go_to(&mut chain, &without[..5], [&low[0], &low[0]]);
    let all = [&BLOCKS[..fork], &high[..3], &low[..], &without[..5]].concat();
    is_as(&chain, &reader, &all, "both are left");
    // The branch that was there first is connected once more, and is the later one then.
    go_to(&mut chain, &high[3..], [&high[2], &high[2]]);
    go_to(&mut chain, &without[5..], [&high[2], &high[2]]);
    follower.close().expect("no fault");
    let reader = index(&index_disk, &chain).expect("it opens").reader();
    let all = [&BLOCKS[..fork], &low[..], &high[..], &without[..]].concat();
    is_as(&chain, &reader, &all, "opened again");
    chain.close().expect("no fault");
}

/// What the operator takes for invalid is left by the chain, and stays in the index until there is another
/// block (as in Core).
#[test]
fn an_index_waits_above_a_tip_that_goes_down() {
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS);
    let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
    follow(&chain, &mut follower).expect("no fault");
    let best = chain.tip_point();
    chain.invalidate_block(&hash(&BLOCKS[BLOCKS.len() - 4])).expect("it may be");
    settle(&mut chain);
    assert_eq!(chain.tip_point().height, best.height - 4);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(reader.status().best(), Some(best));
    assert!(reader.status().is_synced());
    is_as(&chain, &reader, &BLOCKS, "above the tip");
    let end = branch(&BLOCKS, BLOCKS.len() - 4, 1, 3);
    submit(&mut chain, &end[0]);
    settle(&mut chain);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    is_as(&chain, &reader, &[&BLOCKS[..], &end[..]].concat(), "on another branch");
    chain.close().expect("no fault");
}

/// One part of a merge for each block: the next one does not wait for the rest.
#[test]
fn a_block_at_the_tip_does_not_wait_for_a_merge() {
    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS[..130]);
    let (mut follower, reader) = follower(&FaultDisk::new(), &chain);
    follow(&chain, &mut follower).expect("no fault");
    let mut went_on = 0;
    for block in &BLOCKS[130..] {
        submit(&mut chain, block);
        settle(&mut chain);
        let mut take = || follower.take(next(&chain, &follower.state()), &|| false);
        assert_eq!(take().expect("no fault"), Outcome::GoesOn);
        assert_eq!(reader.status().best(), Some(chain.tip_point()));
        went_on += usize::from(take().expect("no fault") == Outcome::GoesOn);
    }
    assert!(went_on > 0, "a merge was under way when a block had been taken in");
    is_as(&chain, &reader, &BLOCKS, "with a merge under way");
    chain.close().expect("no fault");
}

/// Who else writes may fill the disk while a merge is under way: what it has written makes room again.
#[test]
fn a_merge_is_given_up_where_the_disk_fills_meanwhile() {
    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS[..130]);
    let disk = FaultDisk::new();
    let runs = || disk.paths().iter().filter(|path| path.extension().is_some()).count();
    let (mut follower, reader) = follower(&disk, &chain);
    follow(&chain, &mut follower).expect("no fault");
    let mut given_up = 0;
    for block in &BLOCKS[130..] {
        submit(&mut chain, block);
        settle(&mut chain);
        let mut take = || follower.take(next(&chain, &follower.state()), &|| false);
        assert_eq!(take().expect("no fault"), Outcome::GoesOn);
        let before = runs();
        if given_up == 0 && take().expect("no fault") == Outcome::GoesOn && runs() >= before {
            let under_way = runs();
            disk.set_capacity(Some(disk.used() + (1 << 20)));
            assert_ne!(take().expect("it is put off"), Outcome::GoesOn);
            assert_eq!(runs(), under_way - 1);
            disk.set_capacity(None);
            given_up += 1;
        }
    }
    assert_eq!(given_up, 1, "no merge was under way");
    follow(&chain, &mut follower).expect("there is room");
    is_as(&chain, &reader, &BLOCKS, "with room again");
    chain.close().expect("no fault");
}

/// What fills the disk ends the node. An index stops before that, with all that it has.
#[test]
fn merges_without_room_are_put_off_and_stop_the_index_where_its_runs_are_too_many() {
    /// A run a block.
    const SMALL: usize = 10;
    const MAX_RUNS: usize = 36;
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let disk = FaultDisk::new();
    disk.set_capacity(Some(64 << 20));
    let runs = || disk.paths().iter().filter(|path| path.extension().is_some()).count();
    let (mut full, reader) = follower_of_runs(SMALL, &disk, &chain);
    let error = follow(&chain, &mut full).expect_err("there is no room for a merge");
    assert!(matches!(error, IndexError::LacksRoom { needed, free } if needed > free), "{error}");
    assert_eq!(runs(), MAX_RUNS, "the manifest has no extension");
    let best = full.position().best().expect("it has come far");
    assert!(!reader.status().is_synced() && best.height < chain.tip_point().height);
    let height = best.height as usize;
    for txid in naive(&chain, &BLOCKS[..height]).keys() {
        assert!(look_up(&chain, &reader, txid).is_some(), "it is asked all the same");
    }
    full.close().expect("what is in memory has room");

    let (mut again, reader) = follower_of_runs(SMALL, &disk, &chain);
    assert_eq!(reader.status().best(), Some(best));
    disk.set_capacity(None);
    follow(&chain, &mut again).expect("there is room");
    assert!(runs() < MAX_RUNS / 2, "{}", runs());
    is_as(&chain, &reader, &BLOCKS, "with room again");
    chain.close().expect("no fault");
}

/// Each operation of the index's disk fails, and then the process dies or the power goes: what is opened
/// afterwards ends as one without a fault does. The chain has a disk without faults, and does not notice.
#[test]
fn an_index_that_was_killed_at_any_operation_is_as_a_fresh_one() {
    let chain_disk = FaultDisk::new();
    let mut chain = chain_of(&chain_disk, &BLOCKS[..130]);
    let start = FaultDisk::new();
    let (mut first, _) = follower(&start, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    BLOCKS[130..].iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    let is_whole = |disk: &FaultDisk, moment: &str| {
        let (mut again, reader) = follower(disk, &chain);
        follow(&chain, &mut again).expect("no fault any more");
        is_as(&chain, &reader, &BLOCKS, moment);
        assert_eq!(reader.status().best(), Some(chain.tip_point()), "{moment}");
    };
    let failed = kill_at_any_operation(&start, &[&chain], |disk| index(disk, &chain), is_whole);
    assert!(failed > 30, "{failed}");
    chain.close().expect("no fault");
}

/// The power goes for both: the index then has blocks that the chain has lost, and gets them again, or
/// others.
#[test]
fn an_index_that_is_ahead_of_what_the_chain_made_durable_finds_back_to_it() {
    for other in [false, true] {
        let disk = FaultDisk::new();
        let chain = chain_of(&disk, &BLOCKS[..150]);
        chain.close().expect("no fault");
        let mut chain = open(&disk);
        settle(&mut chain);
        BLOCKS[150..160].iter().for_each(|block| _ = submit(&mut chain, block));
        let (mut writer, _) = follower(&disk, &chain);
        follow(&chain, &mut writer).expect("no fault");
        writer.close().expect("no fault");
        let lost = chain.tip_point();
        disk.crash(Survival::Nothing);
        drop(chain);

        let mut chain = open(&disk);
        settle(&mut chain);
        assert!(chain.tip_point().height < lost.height, "the chain has lost blocks");
        let (mut again, reader) = follower(&disk, &chain);
        assert_eq!(reader.status().best(), Some(lost));
        follow(&chain, &mut again).expect("no fault");
        // Nobody waits for what the index cannot do.
        let (best, seen) = reader.status().place();
        assert_eq!(best, Some(chain.tip_point()));
        assert!(has_followed(&chain, best, seen) && reader.status().is_synced());
        let end = match other {
            true => branch(&BLOCKS, 150, 12, 1),
            false => BLOCKS[150..].to_vec(),
        };
        end.iter().for_each(|block| _ = submit(&mut chain, block));
        settle(&mut chain);
        follow(&chain, &mut again).expect("no fault");
        assert_eq!(reader.status().best(), Some(chain.tip_point()));
        is_as(&chain, &reader, &[&BLOCKS[..150], &end[..]].concat(), "after the power cut");
        chain.close().expect("no fault");
    }
}

/// Wherever bytes of the index rot, it never gives what is not so, and is built again once that shows.
#[test]
fn a_damaged_index_is_built_again() {
    let chain_disk = FaultDisk::new();
    let chain = chain_of(&chain_disk, &BLOCKS);
    let start = FaultDisk::new();
    let (mut first, _) = follower(&start, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    let files: Vec<_> =
        start.paths().into_iter().filter(|path| start.contents(path).is_some()).collect();
    assert!(files.len() > 1, "{files:?}");
    let mut found = 0;
    for path in &files {
        let bytes = start.contents(path).expect("a file");
        let places = [0, bytes.len() / 2, bytes.len() - 1].map(Some).into_iter().chain([None]);
        for place in places {
            let disk = start.copy();
            match place {
                Some(at) => {
                    let mut harmed = bytes.clone();
                    harmed[at] ^= 4;
                    disk.overwrite(path, harmed);
                }
                None => disk.overwrite(path, bytes[..bytes.len() / 2].to_vec()),
            }
            let (mut again, reader) = follower(&disk, &chain);
            let all = naive(&chain, &BLOCKS);
            let damage = all.keys().find_map(|txid| reader.find(txid).err());
            found += usize::from(damage.is_some());
            assert!(damage.is_none_or(|error| error.is_damage()));
            let reads = disk.count(Counted::Reads);
            follow(&chain, &mut again).expect("it is built again");
            assert!(disk.count(Counted::Reads) >= reads);
            is_as(&chain, &reader, &BLOCKS, &format!("{} at {place:?}", path.display()));
        }
    }
    assert!(found > 0, "no damage showed in a search");
    chain.close().expect("no fault");
}

fn files(disk: &FaultDisk) -> BTreeMap<PathBuf, Vec<u8>> {
    let file = |path: PathBuf| Some((path.clone(), disk.contents(&path)?));
    disk.paths().into_iter().filter_map(file).collect()
}

/// Two nodes number their runs alike, and these are of one length: that of the other node has the same
/// transactions under another key, where nobody finds them.
#[test]
fn a_file_of_the_index_of_another_directory_is_not_believed() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let [own, foreign] = [index, index_of_other_key].map(|open| {
        let disk = FaultDisk::new();
        let mut first = Follower::new(open(&disk, &chain).expect("it opens"));
        follow(&chain, &mut first).expect("no fault");
        first.close().expect("no fault");
        disk
    });
    let foreign = files(&foreign);
    assert!(files(&own).keys().eq(foreign.keys()) && foreign.len() > 2, "{:?}", foreign.keys());
    for (path, bytes) in &foreign {
        let disk = own.copy();
        disk.overwrite(path, bytes.clone());
        let (mut again, reader) = follower(&disk, &chain);
        let all = naive(&chain, &BLOCKS);
        let damage = all.keys().find_map(|txid| reader.find(txid).err());
        assert!(damage.is_some_and(|error| error.is_damage()), "{}", path.display());
        follow(&chain, &mut again).expect("it is built again");
        is_as(&chain, &reader, &BLOCKS, &path.display().to_string());
    }
    chain.close().expect("no fault");
}

/// Version 1, as the manifest of a program before this one has it.
#[test]
fn an_index_of_an_older_version_is_built_again() {
    let chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let disk = FaultDisk::new();
    let (mut first, _) = follower(&disk, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    let path = Path::new(DIR).join(INDEXES_DIR).join("txindex/manifest");
    let mut bytes = disk.contents(&path).expect("the manifest");
    bytes.truncate(bytes.len() - 32);
    assert_eq!(bytes[8..12], 2u32.to_le_bytes());
    bytes[8] = 1;
    let hash = sha256d(&bytes);
    bytes.extend_from_slice(&hash);
    disk.overwrite(&path, bytes);
    let (mut again, reader) = follower(&disk, &chain);
    assert_eq!(reader.status().best(), None);
    follow(&chain, &mut again).expect("it is built again");
    is_as(&chain, &reader, &BLOCKS, "built again");
    chain.close().expect("no fault");
}

/// More blocks than an index remembers: of a chain that begins anew it does not know whether it comes to
/// them.
#[test]
fn an_index_waits_for_blocks_that_the_chain_may_come_to_and_is_built_again_where_it_does_not() {
    let long = [&BLOCKS[..], &branch(&BLOCKS, BLOCKS.len(), 1_010, 0)[..]].concat();
    let chain = chain_of(&FaultDisk::new(), &long);
    let index_disk = FaultDisk::new();
    let (mut first, _) = follower(&index_disk, &chain);
    follow(&chain, &mut first).expect("no fault");
    first.close().expect("no fault");
    let best = chain.tip_point();
    chain.close().expect("no fault");

    let mut chain = chain_of(&FaultDisk::new(), &BLOCKS);
    let (mut again, reader) = follower(&index_disk, &chain);
    follow(&chain, &mut again).expect("no fault");
    assert_eq!((reader.status().best(), reader.status().is_synced()), (Some(best), false));
    let other = branch(&BLOCKS, BLOCKS.len(), 1_011, 1);
    other[..5].iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut again).expect("no fault");
    assert_eq!(reader.status().best(), Some(best));
    other[5..].iter().for_each(|block| _ = submit(&mut chain, block));
    settle(&mut chain);
    follow(&chain, &mut again).expect("no fault");
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    assert!(reader.status().is_synced());
    is_as(&chain, &reader, &[&BLOCKS[..], &other[..]].concat(), "on the other chain");
    chain.close().expect("no fault");
}

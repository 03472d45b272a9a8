//! Blocks that the chain connected and left again between two looks of an index.

use std::sync::Arc;

use godwit_chain::{Chain, left_blocks};
use godwit_fault_disk::FaultDisk;
use godwit_index::{CoinStatsIndex, FilterIndex, Follower, Index, Outcome, has_followed, next};
use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, TxView, Txid};
use godwit_stream::DataStream;

use crate::beside::{
    BLOCKS, branch, chain_of, follow, hash, kill_at_any_operation, points, settle, small_block,
    submit,
};
use crate::per_block::{PerBlock, closed, entries, expected, follower};
use crate::transactions;

/// Blocks of the chain, before one more ends all that.
const COUNT: usize = 150;
/// Where the branch begins that turns out to be bad.
const FORK: usize = 140;
/// Blocks on the chain that come and go one after the other.
const QUICK: u32 = 5;

/// A block that keeps each rule that needs no coins, and spends one that there is not.
fn bad_block(parent: &[u8], height: u32) -> Vec<u8> {
    let prevout = OutPoint { txid: Txid::from_bytes([9; 32]), vout: 0 };
    let input = TxIn { prevout, script_sig: Vec::new(), sequence: u32::MAX, witness: Vec::new() };
    let output = TxOut { value: 0, script_pubkey: vec![0x51; 30] };
    let tx = Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 };
    let mut bytes: DataStream = DataStream::new();
    bytes.put(&tx);
    let tx = TxView::parse(bytes.as_slice()).expect("a transaction");
    small_block(parent, height, 0, Some(tx))
}

/// A branch with as much work as the chain, which its bad end would make longer.
fn good_part() -> Vec<Vec<u8>> {
    branch(&BLOCKS, FORK, COUNT - FORK, 0)
}

fn fail_to_reorganise(chain: &mut Chain) {
    let good = good_part();
    good.iter().for_each(|block| _ = submit(chain, block));
    submit(chain, &bad_block(&good[good.len() - 1], COUNT as u32 + 1));
    settle(chain);
    assert_eq!(chain.tip_point().hash, hash(&BLOCKS[COUNT - 1]));
    let was_left = |block: &Vec<u8>| {
        let id = chain.tree().find(&hash(block)).expect("it is known");
        left_blocks(chain).since(0).any(|(_, left)| left == id)
    };
    assert!(BLOCKS[FORK..COUNT].iter().chain(&good).all(was_left), "both were left");
}

/// Blocks of one height, each of which is replaced by the next.
fn replaced() -> Vec<Vec<u8>> {
    let parent = &BLOCKS[COUNT - 1];
    (1..=QUICK).map(|seed| small_block(parent, COUNT as u32 + 1, seed, None)).collect()
}

fn replace_quickly(chain: &mut Chain) {
    for block in replaced() {
        submit(chain, &block);
        settle(chain);
        assert_eq!(chain.tip_point().hash, hash(&block));
        chain.invalidate_block(&hash(&block)).expect("it may be");
        settle(chain);
    }
}

/// As it is before, and the same chain after all that.
fn before_and_after() -> [Chain; 2] {
    let chain = || chain_of(&FaultDisk::new(), &BLOCKS[..COUNT]);
    let mut after = chain();
    fail_to_reorganise(&mut after);
    replace_quickly(&mut after);
    submit(&mut after, &BLOCKS[COUNT]);
    settle(&mut after);
    assert_eq!(after.tip_point().hash, hash(&BLOCKS[COUNT]));
    [chain(), after]
}

/// An index that was at the tip before, and goes on: whether it notices that it is not through.
fn go_on<I: Index>(
    [before, after]: [&Chain; 2],
    follower: &mut Follower<I>,
    status: impl Fn() -> bool,
) {
    follow(before, follower).expect("no fault");
    assert!(!status(), "there is something left to see");
    follow(after, follower).expect("no fault");
    assert!(status(), "all was seen");
}

#[test]
fn transactions_of_what_came_and_went_are_found() {
    let [before, after] = before_and_after();
    let index_disk = FaultDisk::new();
    let (mut follower, reader) = transactions::follower(&index_disk, &before);
    go_on([&before, &after], &mut follower, || {
        let (best, seen) = reader.status().place();
        has_followed(&after, best, seen)
    });
    assert_eq!(reader.status().best(), Some(after.tip_point()));
    let all = [&good_part()[..], &replaced()[..], &BLOCKS[..=COUNT]].concat();
    transactions::is_as(&after, &reader, &all, "after it");
    follower.close().expect("no fault");
    let reader = transactions::index(&index_disk, &after).expect("it opens").reader();
    transactions::is_as(&after, &reader, &all, "opened again");
}

/// Checks that an index that was at the tip has every block that the chain has left since. Returns the chain
/// and the index's reader.
fn has_what_came_and_went<R: PerBlock>() -> (Chain, Arc<R>) {
    let [before, after] = before_and_after();
    let (mut follower, reader) = follower::<R>(&FaultDisk::new(), &before);
    go_on([&before, &after], &mut follower, || {
        let (best, seen) = reader.state().place();
        has_followed(&after, best, seen)
    });
    assert_eq!(reader.state().best(), Some(after.tip_point()));
    let good = good_part();
    let fresh = expected::<R>(&[&BLOCKS[..FORK], &good[..]].concat());
    assert_eq!(entries(&*reader, FORK as u32 + 1, &good), fresh[FORK..]);
    for block in replaced() {
        let found = entries(&*reader, COUNT as u32 + 1, std::slice::from_ref(&block));
        let fresh = expected::<R>(&[&BLOCKS[..COUNT], &[block]].concat());
        assert_eq!(found, fresh[COUNT..]);
    }
    let kept = &BLOCKS[..=COUNT];
    assert_eq!(entries(&*reader, 1, kept), expected::<R>(kept));
    (after, reader)
}

#[test]
fn filters_of_what_came_and_went_are_found() {
    let (_chain, reader) = has_what_came_and_went::<FilterIndex>();
    let good = good_part();
    let bad = bad_block(&good[good.len() - 1], COUNT as u32 + 1);
    for point in points(COUNT as u32 + 1, &[bad]) {
        assert_eq!(reader.filter(point).expect("it can be read"), None);
    }
}

#[test]
fn statistics_of_what_came_and_went_are_found() {
    has_what_came_and_went::<CoinStatsIndex>();
}

/// An index that has not been at the tip since it was opened follows the active chain alone.
#[test]
fn what_came_and_went_before_an_index_was_at_the_tip_is_not_in_it() {
    let [_, after] = before_and_after();
    let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &after);
    follow(&after, &mut follower).expect("no fault");
    assert_eq!(reader.status().best(), Some(after.tip_point()));
    let (best, seen) = reader.status().place();
    assert!(has_followed(&after, best, seen));
    for point in points(FORK as u32 + 1, &good_part()) {
        assert_eq!(reader.filter(point).expect("it can be read"), None);
    }
}

/// What is deleted above the place where the ways part would be missing when the index comes back.
#[test]
fn what_an_index_comes_back_to_is_kept_while_it_is_beside() {
    let beside = |seed| branch(&BLOCKS, FORK, 70, seed);
    let mut chain = chain_of(&FaultDisk::new(), &[&BLOCKS[..FORK], &beside(1)].concat());
    let tip = chain.tip_point();
    let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &chain);
    follow(&chain, &mut follower).expect("no fault");
    let good = beside(2);
    good.iter().for_each(|block| _ = submit(&mut chain, block));
    submit(&mut chain, &bad_block(&good[good.len() - 1], tip.height + 1));
    settle(&mut chain);
    assert_eq!(chain.tip_point(), tip);
    let mut kept = Vec::new();
    loop {
        let step = next(&chain, &follower.state());
        kept.push(step.goes_back_to().map(|height| height as usize));
        if follower.take(step, &|| false).expect("no fault") != Outcome::GoesOn {
            break;
        }
    }
    // 64 blocks of the branch, the others, and the same of the chain.
    assert_eq!(kept, [Some(FORK), Some(FORK), Some(FORK), None, None]);
    assert_eq!(reader.status().best(), Some(tip));
}

/// A block of the branch whose undo record is damaged is left out, and nothing waits for it.
#[test]
fn what_cannot_be_read_of_it_is_left_out() {
    let disk = FaultDisk::new();
    let mut chain = chain_of(&disk, &BLOCKS[..COUNT]);
    let (mut follower, reader) = follower::<FilterIndex>(&FaultDisk::new(), &chain);
    follow(&chain, &mut follower).expect("no fault");
    fail_to_reorganise(&mut chain);
    let is_undo = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"rev"))
    };
    let path = disk.paths().into_iter().filter(is_undo).max().expect("undo records");
    let mut bytes = disk.contents(&path).expect("a file");
    // The record that was written last is that of the branch's last good block.
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("a record");
    bytes[end] ^= 4;
    disk.overwrite(&path, bytes);
    follow(&chain, &mut follower).expect("no fault");
    assert_eq!(reader.status().best(), Some(chain.tip_point()));
    assert!(reader.status().is_synced());
    let (good, last) = (good_part(), COUNT - FORK - 1);
    let fresh = expected::<FilterIndex>(&[&BLOCKS[..FORK], &good[..]].concat());
    let found = entries(&*reader, FORK as u32 + 1, &good[..last]);
    assert_eq!(found, fresh[FORK..COUNT - 1]);
    for point in points(COUNT as u32, &good[last..]) {
        assert_eq!(reader.filter(point).expect("it can be read"), None);
    }
    let (kept, fresh) = (&BLOCKS[..COUNT], expected::<FilterIndex>(&BLOCKS[..COUNT]));
    assert_eq!(entries(&*reader, 1, kept), fresh);
}

/// Kills an index at each operation on its way to the blocks that were left and back: what is opened
/// afterwards has to end as a fresh one does, and to pass `check`.
fn survives_kills_beside<R: PerBlock>(chains: &[&Chain; 2], check: impl Fn(&R, &str)) {
    let [before, after] = chains;
    let kept = &BLOCKS[..=COUNT];
    let fresh = expected::<R>(kept);
    let is_whole = |disk: &FaultDisk, moment: &str| {
        let (mut again, reader) = follower::<R>(disk, after);
        follow(after, &mut again).expect("no fault any more");
        assert_eq!(reader.state().best(), Some(after.tip_point()), "{moment}");
        assert_eq!(entries(&*reader, 1, kept), fresh, "{moment}");
        check(&reader, moment);
    };
    let index = |disk: &FaultDisk| R::writer(disk, after);
    let failed = kill_at_any_operation(&closed::<R>(before), chains, index, is_whole);
    assert!(failed > 20, "{failed}");
}

/// The index may lack what was left, but has nothing wrong of it.
#[test]
fn an_index_that_was_killed_beside_the_chain_is_as_a_fresh_one() {
    let [before, after] = before_and_after();
    let chains = [&before, &after];
    let (kept, good) = (&BLOCKS[..=COUNT], good_part());

    let beside = expected::<FilterIndex>(&[&BLOCKS[..FORK], &good[..]].concat());
    survives_kills_beside(&chains, |reader: &FilterIndex, moment| {
        for (point, beside) in points(FORK as u32 + 1, &good).zip(&beside[FORK..]) {
            let found = reader.filter(point).expect("it can be read");
            assert!(found.is_none_or(|found| found == *beside), "{moment}");
        }
    });
    survives_kills_beside(&chains, |_: &CoinStatsIndex, _| {});

    let start = FaultDisk::new();
    let (mut first, _) = transactions::follower(&start, &before);
    follow(&before, &mut first).expect("no fault");
    first.close().expect("no fault");
    let is_whole = |disk: &FaultDisk, moment: &str| {
        let (mut again, reader) = transactions::follower(disk, &after);
        follow(&after, &mut again).expect("no fault any more");
        assert_eq!(reader.status().best(), Some(after.tip_point()), "{moment}");
        transactions::is_as(&after, &reader, kept, moment);
    };
    let index = |disk: &FaultDisk| transactions::index(disk, &after);
    kill_at_any_operation(&start, &chains, index, is_whole);
}

//! Lock times (IsFinalTx, BIP113) and relative locks (BIP68).

use bitcoin::transaction::Version;
use bitcoin::{OutPoint, Sequence, Transaction, absolute};

use super::stage::Stage;
use super::{Suite, Verdict};
use crate::lock::Coin;
use crate::miner;

const NONFINAL: Verdict = Some("bad-txns-nonfinal");
const THRESHOLD: u32 = 500_000_000;
/// Sequence bit that makes a relative lock count units of 512 seconds.
const TIME_FLAG: u32 = 1 << 22;
/// Sequence bit that switches the relative lock off.
const DISABLE_FLAG: u32 = 1 << 31;
const TIME_SHIFT: u32 = 9;

pub(super) fn suite(mut stage: Stage) -> Suite {
    absolute_heights(&mut stage);
    absolute_times(&mut stage);
    finality_details(&mut stage);
    relative_heights(&mut stage);
    relative_times(&mut stage);
    relative_details(&mut stage);
    stage.into_suite()
}

fn with_lock(stage: &mut Stage, lock_time: u32, sequence: u32) -> Transaction {
    let mut tx = stage.any_tx();
    tx.lock_time = absolute::LockTime::from_consensus(lock_time);
    tx.input[0].sequence = Sequence(sequence);
    tx
}

fn judge_tx(stage: &mut Stage, name: &str, tx: Transaction, verdict: Verdict) {
    let block = stage.sealed(vec![tx]);
    stage.judge(name, &block, verdict);
}

fn absolute_heights(stage: &mut Stage) {
    for (name, offset, verdict) in [
        ("lock time of the parent's height", -1, None),
        ("lock time of the block's height", 0, NONFINAL),
        ("lock time of the next height", 1, NONFINAL),
    ] {
        let lock_time = stage.height().wrapping_add_signed(offset);
        let tx = with_lock(stage, lock_time, 0xffff_fffe);
        judge_tx(stage, name, tx, verdict);
    }
    let tx = with_lock(stage, THRESHOLD - 1, 0xffff_fffe);
    judge_tx(stage, "the highest lock height", tx, NONFINAL);
    let tx = with_lock(stage, 1, 0);
    judge_tx(stage, "lock time of height 1", tx, None);
}

fn absolute_times(stage: &mut Stage) {
    for (name, offset, verdict) in [
        ("lock time one below the median time", -1, None),
        ("lock time of the median time", 0, NONFINAL),
        ("lock time one above the median time", 1, NONFINAL),
        ("lock time of the parent's time", 3_000, NONFINAL),
    ] {
        let lock_time = stage.median_time().wrapping_add_signed(offset);
        let tx = with_lock(stage, lock_time, 0xffff_fffe);
        judge_tx(stage, name, tx, verdict);
    }
    let tx = with_lock(stage, THRESHOLD, 0xffff_fffe);
    judge_tx(stage, "the lowest lock time that is a time", tx, None);
    let tx = with_lock(stage, u32::MAX, 0xffff_fffe);
    judge_tx(stage, "the highest lock time", tx, NONFINAL);
}

fn finality_details(stage: &mut Stage) {
    let tx = with_lock(stage, u32::MAX, u32::MAX);
    judge_tx(stage, "lock time with final sequences only", tx, None);

    let coins = [stage.bare(), stage.bare()];
    let mut tx = stage.move_coins(&coins);
    tx.lock_time = absolute::LockTime::from_consensus(u32::MAX);
    tx.input[1].sequence = Sequence(0xffff_fffe);
    judge_tx(stage, "lock time with one sequence of two not final", tx, NONFINAL);

    for (name, lock_offset, sequence, verdict) in [
        ("coinbase with a passed lock time", -1, 0, None),
        ("coinbase locked at its own height", 0, 0xffff_fffe, NONFINAL),
        ("coinbase locked, but final", 0, u32::MAX, None),
    ] {
        let lock_time = stage.height().wrapping_add_signed(lock_offset);
        let mut block = stage.draft(vec![]);
        block.txdata[0].lock_time = absolute::LockTime::from_consensus(lock_time);
        block.txdata[0].input[0].sequence = Sequence(sequence);
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
    let mut tx = with_lock(stage, stage.height(), 0xffff_fffe);
    tx.input[0].previous_output.vout = 99_999;
    judge_tx(stage, "locked and without its coin", tx, NONFINAL);
}

/// A version 2 spend of a base coin with that sequence number.
fn relative(stage: &mut Stage, sequence: u32) -> Transaction {
    let mut tx = stage.any_tx();
    tx.version = Version(2);
    tx.input[0].sequence = Sequence(sequence);
    tx
}

fn relative_heights(stage: &mut Stage) {
    for (name, excess, verdict) in [
        ("relative lock of one block less than the age", -1, None),
        ("relative lock of the coin's age", 0, None),
        ("relative lock one block too long", 1, NONFINAL),
    ] {
        let coin = stage.bare();
        let age = stage.height() - coin.height;
        let mut tx = stage.move_coins(&[coin]);
        tx.input[0].sequence = Sequence(age.wrapping_add_signed(excess));
        judge_tx(stage, name, tx, verdict);
    }
    let tx = relative(stage, 0xffff);
    judge_tx(stage, "the longest relative lock", tx, NONFINAL);
    let tx = relative(stage, 0);
    judge_tx(stage, "relative lock of zero", tx, None);

    for (name, blocks, verdict) in [
        ("relative lock of zero inside a block", 0, None),
        ("relative lock of one inside a block", 1, NONFINAL),
    ] {
        let parent = stage.any_tx();
        let outpoint = OutPoint { txid: parent.compute_txid(), vout: 0 };
        let coin = Coin { outpoint, ..stage.bare() };
        let mut child = stage.move_coins(&[coin]);
        child.input[0].sequence = Sequence(blocks);
        let block = stage.sealed(vec![parent, child]);
        stage.judge(name, &block, verdict);
    }
}

fn relative_times(stage: &mut Stage) {
    // 64 blocks of 600 seconds are exactly 75 units of 512 seconds.
    stage.case("time passes");
    stage.mine_empty(20);
    for (name, excess, verdict) in [
        ("relative time below the coin's", -1, None),
        ("relative time of the coin's age, rounded down", 0, None),
        ("relative time one unit too long", 1, NONFINAL),
    ] {
        let coin = stage.bare();
        let units = passed_time(stage, coin.height) >> TIME_SHIFT;
        let mut tx = stage.move_coins(&[coin]);
        tx.input[0].sequence = Sequence(TIME_FLAG | units.wrapping_add_signed(excess));
        judge_tx(stage, name, tx, verdict);
    }
    exact_relative_time(stage);
    let tx = relative(stage, TIME_FLAG | 0xffff);
    judge_tx(stage, "the longest relative time", tx, NONFINAL);
    let tx = relative(stage, TIME_FLAG);
    judge_tx(stage, "relative time of zero", tx, None);
}

/// Seconds between the median times that BIP68 compares for a coin of that height.
fn passed_time(stage: &Stage, height: u32) -> u32 {
    stage.median_time() - stage.median_time_at(height - 1)
}

/// Both sides of a lock that ends exactly at the median time: the block times are chosen so that
/// the time since the coin is a whole number of units.
fn exact_relative_time(stage: &mut Stage) {
    let coin = stage.bare();
    stage.case("until the coin's age is a whole number of units");
    while !passed_time(stage, coin.height).is_multiple_of(1 << TIME_SHIFT) {
        stage.mine_empty(1);
    }
    let units = passed_time(stage, coin.height) >> TIME_SHIFT;
    for (name, units, verdict) in [
        ("relative time of exactly the age, and one more unit", units + 1, NONFINAL),
        ("relative time of exactly the age", units, None),
    ] {
        let mut tx = stage.move_coins(std::slice::from_ref(&coin));
        tx.input[0].sequence = Sequence(TIME_FLAG | units);
        judge_tx(stage, name, tx, verdict);
    }
}

fn relative_details(stage: &mut Stage) {
    for (name, version, verdict) in [
        ("relative lock in version 1", 1, None),
        ("relative lock in version 0", 0, None),
        ("relative lock in version 3", 3, NONFINAL),
        ("relative lock in version -1, which is large", -1, NONFINAL),
        ("relative lock in the lowest version, which is large", i32::MIN, NONFINAL),
    ] {
        let mut tx = relative(stage, 0xffff);
        tx.version = Version(version);
        judge_tx(stage, name, tx, verdict);
    }
    let tx = relative(stage, DISABLE_FLAG | 0xffff);
    judge_tx(stage, "disabled relative lock", tx, None);
    let tx = relative(stage, DISABLE_FLAG | TIME_FLAG | 0xffff);
    judge_tx(stage, "disabled relative time", tx, None);
    let tx = relative(stage, 0x7fbf_0000);
    judge_tx(stage, "bits outside the mask", tx, None);

    let coins = [stage.bare(), stage.bare()];
    let mut tx = stage.move_coins(&coins);
    tx.input[1].sequence = Sequence(0xffff);
    judge_tx(stage, "the second input locked", tx, NONFINAL);

    let mut tx = relative(stage, 0xffff);
    tx.input[0].previous_output.vout = 88_888;
    let missing = Some("bad-txns-inputs-missingorspent");
    judge_tx(stage, "relative lock on a missing coin", tx, missing);

    let mut block = stage.draft(vec![]);
    block.txdata[0].input[0].sequence = Sequence(0xffff);
    miner::seal(&mut block);
    stage.accept("coinbase with a sequence number", &block);
}

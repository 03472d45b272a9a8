//! Header rules: proof of work, difficulty, time, version.

use bitcoin::block::Version;
use bitcoin::hashes::Hash;
use bitcoin::{Block, BlockHash, CompactTarget, Target, TxMerkleNode};

use super::stage::Stage;
use super::{Suite, Verdict};
use crate::miner;

/// Tolerance for the time between making and judging a block.
const CLOCK_MARGIN: u32 = 1_800;
const TWO_HOURS: u32 = 7_200;

pub(super) fn suite(mut stage: Stage) -> Suite {
    work(&mut stage);
    times(&mut stage);
    versions(&mut stage);
    precedence(&mut stage);
    stage.into_suite()
}

fn work(stage: &mut Stage) {
    let mut block = stage.draft(vec![]);
    miner::set_merkle_root(&mut block);
    miner::mine_above_target(&mut block.header);
    stage.reject("hash above target", &block, "high-hash");
    miner::mine(&mut block.header);
    stage.accept("the same block with work", &block);

    let bits: [(&str, u32, Verdict); 10] = [
        ("target one step below", 0x207f_fffe, Some("bad-diffbits")),
        ("harder target", 0x1f7f_ffff, Some("bad-diffbits")),
        ("another exponent, nearly the same target", 0x2100_7fff, Some("bad-diffbits")),
        ("negative target", 0x20ff_ffff, Some("high-hash")),
        ("negative zero", 0x2080_0000, Some("high-hash")),
        ("zero target", 0, Some("high-hash")),
        ("target of zero after the shift", 0x0100_3456, Some("high-hash")),
        ("target above the limit", 0x2100_ffff, Some("high-hash")),
        ("overflowing target", 0xff7f_ffff, Some("high-hash")),
        ("mainnet's first target", 0x1d00_ffff, Some("high-hash")),
    ];
    for (name, bits, verdict) in bits {
        let mut block = stage.draft(vec![]);
        block.header.bits = CompactTarget::from_consensus(bits);
        miner::set_merkle_root(&mut block);
        mine_to_own_bits(&mut block, verdict == Some("bad-diffbits"));
        stage.judge(name, &block, verdict);
    }
}

/// Mines to the target that the header itself names, if that can be met at all.
fn mine_to_own_bits(block: &mut Block, possible: bool) {
    let target = Target::from_compact(block.header.bits);
    while possible && !target.is_met_by(block.block_hash()) {
        block.header.nonce += 1;
    }
}

fn times(stage: &mut Stage) {
    let median = stage.median_time();
    let cases: [(&str, u32, Verdict); 5] = [
        ("time zero", 0, Some("time-too-old")),
        ("time one below the median", median - 1, Some("time-too-old")),
        ("time equal to the median", median, Some("time-too-old")),
        ("time one above the median, below the parent's", median + 1, None),
        ("time between the last two blocks'", median + 700, None),
    ];
    for (name, time, verdict) in cases {
        let mut block = stage.draft(vec![]);
        block.header.time = time;
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
    // The blocks above are out of order; bring the clock back before other cases count on it.
    let mut block = stage.draft(vec![]);
    block.header.time = median + 10 * miner::BLOCK_SPACING;
    miner::seal(&mut block);
    stage.accept("time jumps ahead", &block);
}

fn versions(stage: &mut Stage) {
    let cases: [(&str, i32, Verdict); 9] = [
        ("version 0", 0, Some("bad-version(0x00000000)")),
        ("version 1", 1, Some("bad-version(0x00000001)")),
        ("version 2", 2, Some("bad-version(0x00000002)")),
        ("version 3", 3, Some("bad-version(0x00000003)")),
        ("version 4", 4, None),
        ("version -1", -1, Some("bad-version(0xffffffff)")),
        ("lowest version", i32::MIN, Some("bad-version(0x80000000)")),
        ("highest version", i32::MAX, None),
        ("version 5", 5, None),
    ];
    for (name, version, verdict) in cases {
        let mut block = stage.draft(vec![]);
        block.header.version = Version::from_consensus(version);
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
}

/// Blocks with two faults: which one is found first.
fn precedence(stage: &mut Stage) {
    let mut block = stage.draft(vec![]);
    block.header.merkle_root = TxMerkleNode::from_byte_array([7; 32]);
    miner::mine_above_target(&mut block.header);
    stage.reject("no work and a wrong merkle root", &block, "high-hash");

    block.header.time = 0;
    miner::mine(&mut block.header);
    stage.reject("wrong merkle root and time", &block, "bad-txnmrklroot");

    let mut block = stage.draft(vec![]);
    block.header.time = 0;
    block.header.version = Version::from_consensus(1);
    miner::seal(&mut block);
    stage.reject("wrong time and version", &block, "time-too-old");

    let mut block = stage.draft(vec![]);
    block.header.prev_blockhash = BlockHash::from_byte_array([9; 32]);
    block.header.time = 0;
    miner::seal(&mut block);
    stage.reject("unknown parent and wrong time", &block, "prev-blk-not-found");

    let mut block = stage.draft(vec![]);
    block.header.time = 0;
    block.header.bits = CompactTarget::from_consensus(0x207f_fffe);
    miner::set_merkle_root(&mut block);
    mine_to_own_bits(&mut block, true);
    stage.reject("wrong bits and time", &block, "bad-diffbits");
}

/// The only cases that need the judge's clock; last, because they end far in the future.
pub(super) fn future_suite(mut stage: Stage, now: u32) -> Suite {
    let limit = now.saturating_add(TWO_HOURS);
    let cases: [(&str, u32, Verdict); 4] = [
        ("latest time there is", u32::MAX, Some("time-too-new")),
        ("over two hours ahead", limit.saturating_add(CLOCK_MARGIN), Some("time-too-new")),
        ("nearly two hours ahead", limit - CLOCK_MARGIN, None),
        ("now", now, None),
    ];
    for (name, time, verdict) in cases {
        let mut block = stage.draft(vec![]);
        block.header.time = time;
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
    stage.into_suite()
}

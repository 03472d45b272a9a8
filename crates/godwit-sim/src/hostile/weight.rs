//! Size and weight limits.

use bitcoin::{Block, Witness};

use super::Suite;
use super::scripts::taproot;
use super::stage::{COIN_VALUE, Stage};
use super::structure::pad_to_stripped_size;
use crate::lock::Lock;
use crate::miner;

const MAX_STRIPPED_SIZE: usize = 1_000_000;

pub(super) fn suite(mut stage: Stage) -> Suite {
    stripped_size(&mut stage);
    weight(&mut stage);
    stage.into_suite()
}

fn stripped_size(stage: &mut Stage) {
    for (name, size, verdict) in [
        ("a million bytes without witness", MAX_STRIPPED_SIZE, None),
        ("a million bytes and one", MAX_STRIPPED_SIZE + 1, Some("bad-blk-length")),
    ] {
        let tx = stage.any_tx();
        let mut block = stage.draft(vec![tx]);
        pad_to_stripped_size(&mut block, size);
        miner::seal(&mut block);
        stage.judge(name, &block, verdict);
    }
    // The limit is on the bytes without witness, whatever the block itself is worth otherwise.
    let tx = stage.any_tx();
    let mut block = stage.draft(vec![tx]);
    pad_to_stripped_size(&mut block, 1_500_000);
    block.txdata.remove(0);
    miner::seal(&mut block);
    stage.reject("too large and without a coinbase", &block, "bad-blk-length");
}

/// Blocks of an exact weight, nearly all of it one witness item.
fn weight(stage: &mut Stage) {
    for (name, weight, verdict) in [
        ("weight of exactly four million", miner::MAX_BLOCK_WEIGHT, None),
        ("weight of four million and one", miner::MAX_BLOCK_WEIGHT + 1, Some("bad-blk-weight")),
        ("weight one below four million", miner::MAX_BLOCK_WEIGHT - 1, None),
        ("weight of eight million", 2 * miner::MAX_BLOCK_WEIGHT, Some("bad-blk-weight")),
    ] {
        stage.case(name);
        let block = heavy_block(stage, weight, false);
        stage.submit(&block, verdict);
    }
    stage.case("too heavy and no commitment");
    let block = heavy_block(stage, miner::MAX_BLOCK_WEIGHT + 1, true);
    stage.submit(&block, Some("unexpected-witness"));
}

fn heavy_block(stage: &mut Stage, weight: u64, bare: bool) -> Block {
    // OP_SUCCESS lets a witness item be of any size (BIP342).
    let spend = taproot::anything_goes(stage);
    let output = stage.output(COIN_VALUE, Lock::Bare);
    let mut block = stage.draft(vec![spend.transaction(output)]);
    let mut size = 1_000_000;
    // The second round sees the length of the item's length as it will be.
    for _ in 0..2 {
        block.txdata[0].output.truncate(1);
        block.txdata[0].input[0].witness = Witness::new();
        block.txdata[1].input[0].witness = spend.witness_with(&vec![0; size]);
        if !bare {
            miner::commit_witness(&mut block);
        }
        size = size.wrapping_add_signed((weight as i64 - block.weight().to_wu() as i64) as isize);
    }
    assert_eq!(block.weight().to_wu(), weight);
    miner::set_merkle_root(&mut block);
    miner::mine(&mut block.header);
    block
}

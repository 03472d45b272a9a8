//! What a node remembers about blocks: duplicates, failed blocks, their descendants, side branches.

use bitcoin::consensus::serialize;
use bitcoin::hashes::Hash;
use bitcoin::{Amount, Block, BlockHash};

use super::Suite;
use super::stage::Stage;
use crate::miner::{self, Tip};

pub(super) fn suite(mut stage: Stage) -> Suite {
    duplicates(&mut stage);
    unknown_parents(&mut stage);
    failed_in_connect(&mut stage);
    failed_in_context(&mut stage);
    failed_without_trace(&mut stage);
    side_branches(&mut stage);
    invalid_branches(&mut stage);
    unverified_ancestor(&mut stage);
    deep_invalid_branch(&mut stage);
    stage.into_suite()
}

fn duplicates(stage: &mut Stage) {
    stage.case("genesis again");
    stage.submit_bytes(serialize(&miner::genesis()), Some("duplicate"));
    let tx = stage.any_tx();
    let block = stage.sealed(vec![tx]);
    stage.case("the tip again");
    stage.submit(&block, None);
    stage.submit_bytes(serialize(&block), Some("duplicate"));
    stage.case("an older block again");
    stage.mine_empty(2);
    stage.submit_bytes(serialize(&block), Some("duplicate"));
}

fn unknown_parents(stage: &mut Stage) {
    for (name, hash) in [("unknown parent", [0xee; 32]), ("parent of all zeros", [0; 32])] {
        let mut block = stage.draft(vec![]);
        block.header.prev_blockhash = BlockHash::from_byte_array(hash);
        miner::seal(&mut block);
        stage.reject(name, &block, "prev-blk-not-found");
    }
    stage.case("child before parent, then in order");
    let parent = stage.sealed(vec![]);
    let parent_tip = stage.tip().extended_by(&parent);
    let mut child = stage.draft_on(&parent_tip, vec![]);
    miner::seal(&mut child);
    stage.submit_bytes(serialize(&child), Some("prev-blk-not-found"));
    stage.submit(&parent, None);
    stage.submit(&child, None);
}

fn greedy(stage: &mut Stage, parent: &Tip) -> Block {
    let mut block = stage.draft_on(parent, vec![]);
    block.txdata[0].output[0].value += Amount::from_sat(1);
    miner::seal(&mut block);
    block
}

fn child_of(stage: &mut Stage, parent: &Tip, block: &Block) -> Block {
    let mut child = stage.draft_on(&parent.extended_by(block), vec![]);
    miner::seal(&mut child);
    child
}

/// A block that fails against the UTXO set is remembered.
fn failed_in_connect(stage: &mut Stage) {
    let tip = stage.tip();
    let bad = greedy(stage, &tip);
    let child = child_of(stage, &tip, &bad);
    stage.case("failed in connect, again, and its child");
    stage.submit(&bad, Some("bad-cb-amount"));
    stage.submit(&bad, Some("duplicate-invalid"));
    stage.submit(&child, Some("bad-prevblk"));
    stage.submit(&child, Some("bad-prevblk"));
    let grandchild = child_of(stage, &tip.extended_by(&bad), &child);
    stage.submit(&grandchild, Some("prev-blk-not-found"));
}

/// A block that fails a contextual rule is remembered too, because its header was valid.
fn failed_in_context(stage: &mut Stage) {
    let tip = stage.tip();
    let mut bad = stage.draft(vec![]);
    let elsewhere = miner::coinbase(tip.height + 2, 0, 1, Default::default());
    bad.txdata[0].input[0].script_sig = elsewhere.input[0].script_sig.clone();
    miner::seal(&mut bad);
    let child = child_of(stage, &tip, &bad);
    stage.case("failed in context, again, and its child");
    stage.submit(&bad, Some("bad-cb-height"));
    stage.submit(&bad, Some("duplicate-invalid"));
    stage.submit(&child, Some("bad-prevblk"));
}

/// A block that fails before its header is looked at, or whose header fails, leaves no trace.
fn failed_without_trace(stage: &mut Stage) {
    let tip = stage.tip();
    let mut bad = stage.draft(vec![]);
    bad.txdata[0].output.clear();
    miner::seal(&mut bad);
    let child = child_of(stage, &tip, &bad);
    stage.case("failed in itself, again, and its child");
    stage.submit(&bad, Some("bad-txns-vout-empty"));
    stage.submit(&bad, Some("bad-txns-vout-empty"));
    stage.submit(&child, Some("prev-blk-not-found"));

    let mut bad = stage.draft(vec![]);
    bad.header.time = 1;
    miner::seal(&mut bad);
    let child = child_of(stage, &tip, &bad);
    stage.case("failed by header, again, and its child");
    stage.submit(&bad, Some("time-too-old"));
    stage.submit(&bad, Some("time-too-old"));
    stage.submit(&child, Some("prev-blk-not-found"));
}

fn side_branches(stage: &mut Stage) {
    let (fork, fork_height) = (stage.tip(), stage.tip().height);
    let tx = stage.any_tx();
    let first = stage.sealed(vec![tx.clone()]);
    let mut rival = stage.draft_on(&fork, vec![tx]);
    miner::seal(&mut rival);
    let winner = child_of(stage, &fork, &rival);
    stage.case("equal work waits, more work wins, and back");
    stage.submit(&first, None);
    stage.submit_bytes(serialize(&rival), Some("inconclusive"));
    stage.submit_bytes(serialize(&rival), Some("duplicate"));
    stage.submit_bytes(serialize(&winner), None);
    let second = child_of(stage, &fork, &first);
    let third = child_of(stage, &fork.extended_by(&first), &second);
    stage.submit_bytes(serialize(&second), Some("inconclusive"));
    stage.submit_bytes(serialize(&third), None);
    stage.reorganise(fork_height, &[first, second, third]);

    let old = stage.at(20);
    let mut low = stage.draft_on(&old, vec![]);
    miner::seal(&mut low);
    let child = child_of(stage, &old, &low);
    stage.case("a branch far below the tip");
    stage.submit_bytes(serialize(&low), Some("inconclusive"));
    stage.submit_bytes(serialize(&child), Some("inconclusive"));
    stage.case("a block on genesis");
    let mut low = stage.draft_on(&miner::genesis_tip(), vec![]);
    low.header.time = stage.at(1).time + 7;
    miner::seal(&mut low);
    stage.submit_bytes(serialize(&low), Some("inconclusive"));
}

/// Branches that become the best and then turn out invalid: the old tip stays.
fn invalid_branches(stage: &mut Stage) {
    let fork = stage.tip();
    let tx = stage.any_tx();
    let active = stage.sealed(vec![tx]);

    let mut good = stage.draft_on(&fork, vec![]);
    miner::seal(&mut good);
    let bad = greedy(stage, &fork.extended_by(&good));
    stage.case("the block that makes a branch best is invalid");
    stage.submit(&active, None);
    stage.submit_bytes(serialize(&good), Some("inconclusive"));
    stage.submit_bytes(serialize(&bad), Some("bad-cb-amount"));
    stage.submit_bytes(serialize(&bad), Some("duplicate-invalid"));

    let bad = greedy(stage, &fork);
    let child = child_of(stage, &fork, &bad);
    let grandchild = child_of(stage, &fork.extended_by(&bad), &child);
    stage.case("an ancestor on the branch is invalid");
    stage.submit_bytes(serialize(&bad), Some("inconclusive"));
    stage.submit_bytes(serialize(&child), Some("inconclusive"));
    stage.submit_bytes(serialize(&child), Some("duplicate-invalid"));
    stage.submit_bytes(serialize(&bad), Some("duplicate-invalid"));
    stage.submit_bytes(serialize(&grandchild), Some("bad-prevblk"));

    stage.case("the old tip goes on");
    stage.mine_empty(2);
}

/// If a script of a block fails, no verdict is given on a descendant with wrong coins, though its coins may
/// well be looked at first.
fn unverified_ancestor(stage: &mut Stage) {
    let mut tx = stage.any_witness_tx();
    tx.input[0].witness.clear();
    let fork = stage.tip();
    let active = stage.sealed(vec![]);
    let mut bad = stage.draft_on(&fork, vec![tx]);
    miner::seal(&mut bad);
    let child = greedy(stage, &fork.extended_by(&bad));
    stage.case("a script fails below a block with wrong coins");
    stage.submit(&active, None);
    stage.submit_bytes(serialize(&bad), Some("inconclusive"));
    stage.submit_bytes(serialize(&child), Some("inconclusive"));
    stage.submit_bytes(serialize(&child), Some("duplicate-invalid"));
    stage.submit_bytes(serialize(&bad), Some("duplicate-invalid"));
}

/// A longer branch whose fifth of nine blocks is invalid: the eight blocks of the active branch,
/// spends included, have to come back.
fn deep_invalid_branch(stage: &mut Stage) {
    let fork = stage.tip();
    let txs: Vec<_> = (0..8).map(|_| stage.any_tx()).collect();
    stage.case("eight blocks");
    for tx in &txs {
        let block = stage.sealed(vec![tx.clone()]);
        stage.submit(&block, None);
    }
    stage.case("nine rivals, the fifth invalid");
    let mut parent = fork;
    for number in 1..=9 {
        // The same coins, spent in another order.
        let spent = txs.get(9 - number).cloned();
        let mut block = stage.draft_on(&parent, spent.into_iter().collect());
        if number == 5 {
            block.txdata[0].output[0].value += Amount::from_sat(1);
        }
        miner::seal(&mut block);
        stage.submit_bytes(serialize(&block), Some("inconclusive"));
        parent = parent.extended_by(&block);
    }
    stage.case("the eight blocks go on");
    stage.mine_empty(1);
}

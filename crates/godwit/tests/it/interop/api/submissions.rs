//! Blocks that are handed in out of order, and what is said of those that break a rule, beside bitcoind.

use godwit_primitives::{Block, OutPoint, Txid};
use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::{bitcoind, block, chain, wait_until};
use super::Answering;
use super::methods::assert_same;
use crate::blocks::header;
use crate::node::Node;

type Asked = (&'static str, Value);

fn submit(block: &[u8]) -> Asked {
    ("submitblock", json!([hex::encode(block)]))
}

fn submit_header(block: &[u8]) -> Asked {
    ("submitheader", json!([hex::encode(header(block).to_bytes())]))
}

/// What is asked after each block: the answer to it has to be behind all that follows from it.
fn after() -> Vec<Asked> {
    ["getbestblockhash", "getchaintips"].map(|method| (method, json!([]))).to_vec()
}

/// A branch above the chain's end without its last `back` blocks, whose last block spends what is not there
/// if `is_broken`.
fn branch(
    chain: &[Vec<u8>],
    (back, count): (usize, usize),
    nonce: u8,
    is_broken: bool,
) -> Vec<Vec<u8>> {
    let mut blocks = vec![chain[chain.len() - 1 - back].clone()];
    let first = chain.len() - back + 1;
    for height in first..first + count {
        let nowhere = OutPoint { txid: Txid::from_bytes([nonce; 32]), vout: 0 };
        let is_last = height + 1 == first + count;
        let spend = (is_broken && is_last).then(|| block::spend(nowhere, 1, Vec::new()));
        let parent = blocks.last().expect("it has a block");
        blocks.push(block::on(parent, height as u32, nonce, spend.as_slice()));
    }
    blocks.split_off(1)
}

#[test]
fn the_block_that_completes_a_branch_is_answered_when_the_chain_has_come_to_rest() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let mut active = chain.blocks.clone();
    let cases: [(usize, usize, bool, &[usize]); 9] = [
        (0, 2, false, &[1, 0]),
        (0, 5, false, &[4, 3, 2, 1, 0]),
        (1, 3, false, &[2, 1, 0]),
        (2, 4, false, &[1, 2, 3, 0]),
        (1, 2, false, &[0, 1]),
        // As long as what is there: it is not gone to.
        (2, 2, false, &[1, 0]),
        // The block itself is connected, and what was stored above it is not.
        (0, 3, true, &[2, 1, 0]),
        (1, 4, true, &[3, 2, 0, 1]),
        (5, 40, false, &[]),
    ];
    for (nonce, (back, count, is_broken, order)) in (1..).zip(cases) {
        let branch = branch(&active, (back, count), nonce, is_broken);
        let headers: Vec<Asked> = branch.iter().map(|block| submit_header(block)).collect();
        assert_same(ours, theirs, &headers);
        let reversed: Vec<usize> = (0..count).rev().collect();
        for place in if order.is_empty() { &reversed } else { order } {
            assert_same(ours, theirs, &[submit(&branch[*place])]);
            assert_same(ours, theirs, &after());
        }
        let valid = count - usize::from(is_broken);
        if valid > back {
            active.truncate(active.len() - back);
            active.extend_from_slice(&branch[..valid]);
        }
        let tip = chain::hash(active.last().expect("it has a block"));
        assert_eq!(godwit.call("getbestblockhash", &json!([])), tip, "{back} {count}");
    }
}

#[test]
fn the_block_at_which_the_node_stops_is_answered() {
    let chain = chain::recent();
    let height = chain.summary.height + 1;
    let node = Node::new("regtest");
    let stop = format!("-stopatheight={height}");
    let mut godwit = Answering::with_chain(&node, chain, &[stop]);
    let (method, params) = submit(&block::on(chain.tip(), height, 1, &[]));
    assert_eq!(godwit.call(method, &params), Value::Null);
    assert!(godwit.running.wait().success());
}

#[test]
fn the_blocks_up_to_which_the_node_generates_and_stops_are_answered() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let stop = format!("-stopatheight={}", chain.summary.height + 3);
    let mut godwit = Answering::with_chain(&node, chain, &[stop]);
    let hashes = godwit.call("generatetodescriptor", &json!([3, "raw(51)"]));
    assert_eq!(hashes.as_array().map(Vec::len), Some(3), "{hashes}");
    assert!(godwit.running.wait().success());
}

#[test]
fn of_more_blocks_than_the_node_goes_on_for_those_that_are_there_are_answered() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let stop = format!("-stopatheight={}", chain.summary.height + 3);
    let mut godwit = Answering::with_chain(&node, chain, &[stop]);
    let hashes = godwit.call("generatetodescriptor", &json!([40, "raw(51)"]));
    assert_eq!(hashes.as_array().map(Vec::len), Some(3), "{hashes}");
    assert!(godwit.running.wait().success());
}

/// Blocks on the tip that break a rule of scripts.
fn broken_scripts(chain: &RecentChain) -> Vec<Vec<u8>> {
    let height = chain.summary.height + 1;
    let (bare, satoshi) = chain.bare[0];
    // No witness belongs to it.
    let mut spends = vec![block::spend(bare, satoshi, vec![vec![1]])];
    // Before what it spends, OP_RETURN, OP_VERIFY of nothing, a push that has no end, and no opcode.
    for script in [[0x6a], [0x69], [0x4c], [0xff]] {
        let mut spend = block::spend(bare, satoshi, Vec::new());
        spend.inputs[0].script_sig = script.to_vec();
        spends.push(spend);
    }
    let blocks = (10..).zip(&spends);
    blocks
        .map(|(nonce, spend)| block::on(chain.tip(), height, nonce, std::slice::from_ref(spend)))
        .collect()
}

#[test]
fn the_rule_that_a_script_breaks_is_named_as_bitcoind_names_it() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let mut blocks = broken_scripts(chain);
    blocks.push(chain.invalid_taproot_spend());
    let asked: Vec<Asked> = blocks.iter().map(|block| submit(block)).collect();
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    let line = "block-script-verify-flag-failed (Invalid Schnorr signature)";
    wait_until("the log says why", || godwit.running.log().0.contains(line));
}

fn txids(block: &[u8]) -> Vec<String> {
    let block = Block::from_bytes(block).expect("a block");
    block.view().txids().iter().map(ToString::to_string).collect()
}

/// Each transaction of a block, in every detail.
fn of_transactions(block: &[u8]) -> Vec<Asked> {
    let (hash, txids) = (chain::hash(block), txids(block));
    let of = |txid: &String| [0, 1, 2].map(|verbosity| json!([txid, verbosity, hash]));
    let params = txids.iter().flat_map(of);
    params.map(|params| ("getrawtransaction", params)).collect()
}

#[test]
fn what_a_block_spends_that_was_never_connected_is_not_known() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    // No higher than the tip, so that nobody looks whether there is what it spends.
    let side = branch(&chain.blocks, (1, 1), 77, true).remove(0);
    assert_same(ours, theirs, &[submit(&side)]);
    assert_same(ours, theirs, &of_transactions(&side));
    assert_same(ours, theirs, &[("getblock", json!([chain::hash(&side), 3]))]);
    let params = json!([txids(&side)[1], 2, chain::hash(&side)]);
    let refused = godwit.rpc.try_call("getrawtransaction", &params);
    assert!(format!("{refused:?}").contains("Undo data expected but can't be read"), "{refused:?}");
    // A block that was connected keeps its record when the chain has left it.
    let spends = chain.blocks.iter().rev().find(|block| txids(block).len() > 1);
    let spends = spends.expect("a block with two transactions");
    assert_same(ours, theirs, &[("invalidateblock", json!([chain::hash(spends)]))]);
    assert_same(ours, theirs, &of_transactions(spends));
}

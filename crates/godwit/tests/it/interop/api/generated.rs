//! Blocks that `generateblock` refuses, beside bitcoind.

use godwit_primitives::{Block, OutPoint, Transaction, Txid};
use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain};
use super::methods::assert_same;
use super::{Answering, RpcError};
use crate::node::Node;

/// The transaction of a block that created the coin.
fn confirmed(chain: &RecentChain, coin: OutPoint) -> Transaction {
    let mut blocks = chain.blocks.iter().map(|block| Block::from_bytes(block).expect("a block"));
    let found = blocks.find_map(|block| {
        let block = block.view();
        let place = block.txids().iter().position(|txid| *txid == coin.txid)?;
        assert!(place > 0, "it is no coinbase");
        Some(block.tx(place).to_owned())
    });
    found.expect("it is in the chain")
}

/// Lists of transactions with a mistake, or with two of them.
fn invalid(chain: &RecentChain) -> Vec<Vec<Transaction>> {
    let [(first, satoshi), (second, other_satoshi)] = chain.bare;
    let good = block::spend(first, satoshi, Vec::new());
    let with = |change: &dyn Fn(&mut Transaction)| {
        let mut tx = good.clone();
        change(&mut tx);
        tx
    };
    let output = |tx: &Transaction| OutPoint { txid: tx.txid(), vout: 0 };
    let child = block::spend(output(&good), satoshi, Vec::new());
    let unknown = OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 };
    let missing = block::spend(unknown, 1, Vec::new());
    let too_much = block::spend(first, satoshi + 1, Vec::new());
    let other = block::spend(second, other_satoshi, Vec::new());
    let coinbase_of =
        |block: &[u8]| Block::from_bytes(block).expect("a block").view().tx(0).to_owned();
    let young = coinbase_of(&chain.blocks[chain.blocks.len() - 50]);
    let repeated = confirmed(chain, first);
    let late = with(&|tx| (tx.lock_time, tx.inputs[0].sequence) = (u32::MAX, 0));
    let no_coin = with(&|tx| tx.outputs[0].script_pubkey = vec![0x6a]);
    vec![
        vec![missing.clone()],
        vec![good.clone(), good.clone()],
        // What is repeated at the end of four leaves the merkle root as it was.
        vec![other.clone(), good.clone(), good.clone()],
        vec![child.clone(), good.clone()],
        vec![good.clone(), block::spend(output(&good), satoshi + 100_000_000, Vec::new())],
        vec![good.clone(), child, other, missing.clone()],
        vec![no_coin.clone(), block::spend(output(&no_coin), 1, Vec::new())],
        vec![too_much.clone()],
        vec![block::spend(output(&young), young.outputs[0].value, Vec::new())],
        vec![coinbase_of(chain.tip())],
        vec![with(&|tx| tx.outputs.clear())],
        vec![with(&|tx| tx.outputs[0].value = -1)],
        vec![with(&|tx| tx.outputs[0].value = i64::MAX)],
        vec![with(&|tx| tx.inputs.push(tx.inputs[0].clone()))],
        vec![with(&|tx| tx.inputs[0].prevout = OutPoint::NULL), missing.clone()],
        vec![with(&|tx| {
            tx.inputs.push(tx.inputs[0].clone());
            tx.inputs[1].prevout = OutPoint::NULL;
        })],
        vec![with(&|tx| (tx.lock_time, tx.inputs[0].sequence) = (499_999_999, 0))],
        // Not the first transaction, but the first rule.
        vec![missing.clone(), with(&|tx| tx.outputs.clear())],
        vec![missing.clone(), late.clone()],
        // It is in a block, and has unspent outputs: in the block before, which is what counts (BIP30).
        vec![repeated.clone()],
        vec![missing, repeated.clone()],
        vec![good.clone(), repeated.clone()],
        vec![repeated, late],
    ]
}

/// What is told of the last block that was assembled.
fn assembled(rpc: &Rpc) -> [Value; 2] {
    let info = rpc.call("getmininginfo", &json!([]));
    ["currentblockweight", "currentblocktx"].map(|name| info[name].clone())
}

#[test]
fn blocks_with_invalid_transactions_are_refused_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let mut asked: Vec<(&str, Value)> = Vec::new();
    for txs in invalid(chain) {
        let txs: Vec<String> = txs.iter().map(block::hex_of).collect();
        asked.push(("generateblock", json!(["raw(51)", txs])));
        asked.push(("generateblock", json!(["raw(51)", txs, false])));
    }
    let none = [Value::Null, Value::Null];
    assert_eq!([assembled(&godwit.rpc), assembled(&bitcoind.rpc)], [none.clone(), none.clone()]);
    // No block was made of them.
    asked.push(("getchaintips", json!([])));
    assert_same(ours, theirs, &asked);
    for (_, params) in &asked[..asked.len() - 1] {
        let refused = godwit.rpc.try_call("generateblock", params);
        assert!(matches!(refused, Err(RpcError::Refused(error)) if error["code"] == -25));
    }
    // In the right order they may depend on each other, and a block of them is valid.
    let good = block::spend(chain.bare[0].0, chain.bare[0].1, Vec::new());
    let output = OutPoint { txid: good.txid(), vout: 0 };
    let child = block::spend(output, chain.bare[0].1 - 1_000, Vec::new());
    let params = json!(["raw(51)", [block::hex_of(&good), block::hex_of(&child)], false]);
    let made = godwit.call("generateblock", &params);
    assert_same(ours, theirs, &[("submitblock", json!([made["hex"]]))]);
    assert_eq!(bitcoind.tip(), made["hash"].as_str().expect("a hash"));
    // The block counts as it was before the transactions were put into it, even if it is refused then.
    let empty = [json!(8_000), json!(0)];
    assert_eq!([assembled(&godwit.rpc), assembled(&bitcoind.rpc)], [empty.clone(), empty]);
    godwit.restart(&node, &[]);
    assert_eq!(assembled(&godwit.rpc), none);
}

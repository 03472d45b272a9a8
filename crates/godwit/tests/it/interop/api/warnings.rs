//! What an operator is warned of, beside bitcoind.

use godwit_primitives::{OutPoint, Txid};
use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain, wait_until};
use super::Answering;
use super::methods::assert_same;
use crate::node::Node;

/// Who tells of warnings, and what goes with them.
fn of_warnings() -> Vec<(&'static str, Value)> {
    // Not `getmininginfo`: at bitcoind, what was in blocks that are left waits.
    ["getblockchaininfo", "getnetworkinfo", "getchaintips"]
        .map(|method| (method, json!([])))
        .to_vec()
}

/// Whether one of godwit's warnings begins so.
#[track_caller]
fn is_warned(godwit: &Answering<'_>, beginning: &str) -> bool {
    let of = |method: &str| godwit.call(method, &json!([]))["warnings"].clone();
    let warnings = of("getblockchaininfo");
    assert_eq!((&of("getmininginfo"), &of("getnetworkinfo")), (&warnings, &warnings));
    let warnings = warnings.as_array().expect("a list");
    warnings.iter().any(|text| text.as_str().is_some_and(|text| text.starts_with(beginning)))
}

/// Blocks on the tip, of which the first is invalid when it is connected.
fn invalid(chain: &RecentChain, count: u32, nonce: u8) -> Vec<Vec<u8>> {
    let unknown = OutPoint { txid: Txid::from_bytes([7; 32]), vout: 0 };
    let unspendable = block::spend(unknown, 1, Vec::new());
    let mut blocks = vec![chain.tip().to_vec()];
    for n in 0..count {
        let spends = if n == 0 { std::slice::from_ref(&unspendable) } else { &[] };
        let parent = blocks.last().expect("it has a block");
        blocks.push(block::on(parent, chain.summary.height + 1 + n, nonce, spends));
    }
    blocks.split_off(1)
}

/// Gives a node all of these blocks before it can look at the first.
fn hand_in(rpc: Rpc, blocks: &[Vec<u8>]) {
    for block in blocks {
        rpc.call("submitheader", &json!([hex::encode(&block[..80])]));
    }
    for block in blocks[1..].iter().chain(&blocks[..1]) {
        rpc.call("submitblock", &json!([hex::encode(block)]));
    }
    let end = chain::hash(blocks.last().expect("a block"));
    wait_until("they are invalid", || {
        let tips = rpc.call("getchaintips", &json!([]));
        let is_it = |tip: &&Value| tip["hash"] == end;
        tips.as_array().into_iter().flatten().find(is_it).is_some_and(|t| t["status"] == "invalid")
    });
}

#[test]
fn an_invalid_chain_with_far_more_work_is_warned_of_as_by_bitcoind() {
    const INVALID: &str = "Warning: Found invalid chain more than 6 blocks longer";
    let chain = chain::recent();
    let Some(mut bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let theirs = bitcoind.rpc.port();
    for (count, warned) in [(6, false), (7, true)] {
        let blocks = invalid(chain, count, count as u8);
        hand_in(godwit.rpc, &blocks);
        hand_in(bitcoind.rpc, &blocks);
        assert_eq!(is_warned(&godwit, INVALID), warned, "{count}");
        assert_same(godwit.port, theirs, &of_warnings());
    }
    godwit.restart(&node, &[]);
    bitcoind.restart();
    assert!(is_warned(&godwit, INVALID));
    assert_same(godwit.port, theirs, &of_warnings());
    // One more block, and it is no longer that far ahead.
    let next = hex::encode(chain.honest_successor());
    assert_same(godwit.port, theirs, &[("submitblock", json!([next]))]);
    assert!(!is_warned(&godwit, INVALID));
    assert_same(godwit.port, theirs, &of_warnings());
    // What the operator leaves is no reason to worry, until it is forgotten who said so.
    let deep = chain::hash(&chain.blocks[chain.blocks.len() - 10]);
    assert_same(godwit.port, theirs, &[("invalidateblock", json!([deep]))]);
    assert_same(godwit.port, theirs, &of_warnings());
    godwit.restart(&node, &[]);
    bitcoind.restart();
    assert!(is_warned(&godwit, INVALID));
    assert_same(godwit.port, theirs, &of_warnings());
    godwit.restart(&node, &["-deprecatedrpc=warnings".to_owned()]);
    for method in ["getblockchaininfo", "getmininginfo", "getnetworkinfo"] {
        let warnings = godwit.call(method, &json!([]))["warnings"].clone();
        assert!(warnings.as_str().is_some_and(|text| text.starts_with(INVALID)), "{warnings}");
    }
    godwit.restart(&node, &[]);
    assert_same(godwit.port, theirs, &[("reconsiderblock", json!([deep]))]);
    assert!(!is_warned(&godwit, INVALID));
    assert_same(godwit.port, theirs, &of_warnings());
}

/// It is never stored: a rule of its place is broken, its height in the coinbase.
#[test]
fn a_block_far_ahead_that_is_refused_at_once_is_warned_of_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let theirs = bitcoind.rpc.port();
    let mut blocks = vec![chain.tip().to_vec()];
    for n in 1..=7 {
        let parent = blocks.last().expect("it has a block");
        let told = chain.summary.height + n + u32::from(n == 7);
        blocks.push(block::on(parent, told, 9, &[]));
    }
    for block in &blocks[1..] {
        let header = hex::encode(&block[..80]);
        assert_same(godwit.port, theirs, &[("submitheader", json!([header]))]);
    }
    assert!(!is_warned(&godwit, "Warning: Found invalid chain"));
    let last = hex::encode(&blocks[7]);
    assert_same(godwit.port, theirs, &[("submitblock", json!([last]))]);
    assert!(is_warned(&godwit, "Warning: Found invalid chain"));
    assert_same(godwit.port, theirs, &of_warnings());
}

/// Nobody has found it invalid: only the operator left it.
#[test]
fn a_block_far_ahead_that_was_set_aside_is_not_warned_of_when_it_comes_again_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let theirs = bitcoind.rpc.port();
    let deep = chain.blocks[chain.blocks.len() - 10].as_slice();
    let params = json!([chain::hash(deep)]);
    assert_same(godwit.port, theirs, &[("invalidateblock", params)]);
    for block in [chain.tip(), deep] {
        let params = json!([hex::encode(block)]);
        assert_eq!(godwit.call("submitblock", &params), "duplicate-invalid");
        assert_same(godwit.port, theirs, &[("submitblock", params)]);
        assert!(!is_warned(&godwit, "Warning: Found invalid chain"));
        assert_same(godwit.port, theirs, &of_warnings());
    }
}

#[test]
fn rules_that_are_not_known_are_warned_of_as_by_bitcoind() {
    // A period of regtest, and the first of the bits that its blocks have. Of the others none can ask.
    const PERIOD: u64 = 144;
    const UNKNOWN: &str = "Unknown new rules activated (versionbit 4)";
    let version = format!("-blockversion={}", 0x2000_0000 + (1 << 4) + (1 << 5) + (1 << 28));
    let start = bitcoind::Start { options: &[&version], ..bitcoind::Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let theirs = bitcoind.rpc.port();
    let mine = |count: u64| {
        let mined = bitcoind.rpc.call("generatetodescriptor", &json!([count, "raw(51)"]));
        for hash in mined.as_array().expect("a list") {
            let block = bitcoind.rpc.call("getblock", &json!([hash, 0]));
            assert_eq!(godwit.call("submitblock", &json!([block])), Value::Null);
        }
    };
    // The first period does not count, and what the second one locks in is in force behind the third.
    mine(3 * PERIOD - 2);
    assert!(!is_warned(&godwit, UNKNOWN));
    assert_same(godwit.port, theirs, &of_warnings());
    mine(1);
    assert!(is_warned(&godwit, UNKNOWN));
    assert_same(godwit.port, theirs, &of_warnings());
    // It stays, also below.
    let tip = bitcoind.tip();
    assert_same(godwit.port, theirs, &[("invalidateblock", json!([tip]))]);
    assert!(is_warned(&godwit, UNKNOWN));
    assert_same(godwit.port, theirs, &of_warnings());
}

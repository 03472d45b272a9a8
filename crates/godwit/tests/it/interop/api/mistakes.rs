//! Calls with two mistakes at once: both nodes tell of the same one.

use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::{bitcoind, block, chain};
use super::Answering;
use super::methods::assert_same;
use crate::node::Node;

/// No number of these methods is as large, and no type as long.
const LARGE: u64 = 99_999_999_999;

/// What is asked of blocks: of none, of one that was left, and of the tip.
fn of_blocks(chain: &RecentChain, left: &str) -> Vec<(&'static str, Value)> {
    let (nothing, tip) = ("00".repeat(32), chain::hash(chain.tip()));
    let mut all: Vec<(&str, Value)> = Vec::new();
    for hash in [nothing.as_str(), left, tip.as_str(), "zz"] {
        all.push(("getchaintxstats", json!([LARGE, hash])));
        all.push(("getchaintxstats", json!([-1, hash])));
        all.push(("getblockstats", json!([hash, [1]])));
        all.push(("getblockstats", json!([hash, ["nonsense", 1]])));
        for other in [json!("zz"), json!(1), json!(nothing), json!(left)] {
            all.push(("getdescriptoractivity", json!([[hash, other], []])));
            all.push(("getdescriptoractivity", json!([[hash, other], ["nonsense"]])));
        }
    }
    for height in [json!(chain.height()), json!(chain.height() + 1), json!(-1), json!(LARGE)] {
        all.push(("getblockstats", json!([height, [1]])));
    }
    all
}

/// Where there is no index.
fn of_searches() -> Vec<(&'static str, Value)> {
    let wrong = json!({ "filter_false_positives": 1 });
    [
        json!(["start", ["nonsense"]]),
        json!(["start", [], -1]),
        json!(["start", [], LARGE]),
        json!(["start", [], null, null, "basic", wrong]),
        json!(["start", [], LARGE, null, "basic", wrong]),
        json!(["start", [], null, null, "extended", wrong]),
    ]
    .map(|params| ("scanblocks", params))
    .to_vec()
}

#[test]
fn of_two_mistakes_the_same_one_is_told_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let left = block::on(&chain.blocks[chain.blocks.len() - 2], chain.summary.height, 3, &[]);
    assert_same(ours, theirs, &[("submitblock", json!([hex::encode(&left)]))]);
    assert_same(ours, theirs, &of_blocks(chain, &chain::hash(&left)));
    assert_same(ours, theirs, &of_searches());
    let too_long = json!(u64::MAX);
    let bans = [
        json!(["10.1.2.3", "add"]),
        json!(["10.1.2.3", "add", too_long]),
        json!(["10.1.2.3", "add", too_long, true]),
        json!(["10.1.2.4", "add", too_long]),
        json!(["10.1.2.4", "add", too_long, true]),
        json!(["x", "add", too_long]),
    ];
    assert_same(ours, theirs, &bans.map(|params| ("setban", params)));
}

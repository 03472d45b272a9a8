//! Searches by block filters, and what blocks do with scripts, beside bitcoind's.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::FILTERS;
use super::super::{bitcoind, block, chain, wait_until};
use super::Answering;
use super::descriptors::{EXTENDED, KEY};
use super::methods::assert_same;
use crate::node::Node;

const NAME: &str = "basic block filter index";

/// Scripts that a block creates and spends, as descriptors.
fn scripts(godwit: &Answering<'_>, hash: &Value) -> BTreeSet<String> {
    let block = godwit.call("getblock", &json!([hash, 3]));
    let txs = block["tx"].as_array().expect("a list").clone();
    let of_tx = |tx: &Value| {
        let created = tx["vout"].as_array().cloned().unwrap_or_default();
        let spent = tx["vin"].as_array().cloned().unwrap_or_default();
        let created = created.into_iter().map(|output| output["scriptPubKey"]["hex"].clone());
        let spent = spent.into_iter().map(|input| input["prevout"]["scriptPubKey"]["hex"].clone());
        created.chain(spent).collect::<Vec<_>>()
    };
    let all = txs.iter().flat_map(of_tx);
    all.filter_map(|hex| Some(format!("raw({})", hex.as_str().filter(|hex| !hex.is_empty())?)))
        .collect()
}

/// What is asked for and refused.
fn misuse(tip: &str, height: u64) -> Vec<(&'static str, Value)> {
    let other = json!(["raw(51)"]);
    let mut asked: Vec<(&str, Value)> = [
        json!(["status"]),
        json!(["abort"]),
        json!(["nonsense"]),
        json!(["start"]),
        json!(["start", null]),
        json!(["start", []]),
        json!(["start", other, -1]),
        json!(["start", other, height + 1]),
        json!(["start", other, height]),
        json!(["start", other, 5, 4]),
        json!(["start", other, 5, 5]),
        json!(["start", other, 0, height + 1]),
        json!(["start", other, 0, -1]),
        json!(["start", other, null, 7]),
        // The first mistake counts.
        json!(["start", [], 999_999, 99_999_999_999_u64]),
        json!(["start", [], 99_999_999_999_u64, 999_999]),
        json!(["start", ["nonsense"], 999_999, 99_999_999_999_u64]),
        json!(["start", ["nonsense"], 0, 99_999_999_999_u64]),
        json!(["start", [], 5, 4, "basic", { "filter_false_positives": 1 }]),
        json!(["start", other, "5"]),
        json!(["start", other, 0, 9, "extended"]),
        json!(["start", other, 0, 9, "basic", {}]),
        json!(["start", other, 0, 9, "basic", { "filter_false_positives": true }]),
        json!(["start", other, 0, 9, "basic", { "filter_false_positives": 1 }]),
        json!(["start", other, 0, 9, "basic", { "nonsense": 1 }]),
        json!(["start", ["nonsense"]]),
        json!(["start", [format!("combo({KEY})")]]),
        json!(["start", [{ "desc": format!("wpkh({EXTENDED}/0/*)"), "range": [0, 3] }]]),
    ]
    .map(|params| ("scanblocks", params))
    .to_vec();
    asked.extend(
        [
            json!([[], []]),
            json!([[tip], []]),
            json!([[tip, tip], ["raw(51)"]]),
            json!([["00".repeat(32)], ["raw(51)"]]),
            json!([["zz"], ["raw(51)"]]),
            json!([[1], ["raw(51)"]]),
            json!([[tip], ["nonsense"]]),
            json!([[tip], [1]]),
            json!([[tip], ["raw(51)"], false]),
            json!([[tip], ["raw(51)"], true]),
        ]
        .map(|params| ("getdescriptoractivity", params)),
    );
    asked
}

#[test]
fn blocks_of_descriptors_and_their_activity_are_bitcoind_s() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[FILTERS]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[FILTERS.to_owned()]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    // A block that spends, and one that was left.
    let left = block::on(&chain.blocks[chain.blocks.len() - 2], chain.summary.height, 3, &[]);
    for block in [left.clone(), chain.honest_successor()] {
        assert_same(ours, theirs, &[("submitblock", json!([hex::encode(block)]))]);
    }
    let height = chain.height() + 1;
    for rpc in [godwit.rpc, bitcoind.rpc] {
        wait_until("the index is there", || {
            let info = &rpc.call("getindexinfo", &json!([]))[NAME];
            info["synced"] == true && info["best_block_height"] == height
        });
    }
    let tip = godwit.call("getbestblockhash", &json!([]));
    let mut asked = misuse(tip.as_str().expect("a hash"), height);
    asked.push(("getdescriptoractivity", json!([[chain::hash(&left)], ["raw(51)"]])));
    let genesis = godwit.call("getblockhash", &json!([0]));
    for object in scripts(&godwit, &genesis) {
        asked.push(("getdescriptoractivity", json!([[genesis], [object]])));
        asked.push(("scanblocks", json!(["start", [object], 0, 3])));
    }
    assert_same(ours, theirs, &asked);
    let mut found = 0;
    for height in (1..=height).rev().step_by(7).take(25) {
        let hash = godwit.call("getblockhash", &json!([height]));
        let objects: Vec<String> = scripts(&godwit, &hash).into_iter().take(40).collect();
        let mut asked = vec![
            ("scanblocks", json!(["start", objects])),
            (
                "scanblocks",
                json!(["start", objects[..1], 9, height, null, { "filter_false_positives": true }]),
            ),
            ("getdescriptoractivity", json!([[hash], objects])),
        ];
        let relevant = godwit.call("scanblocks", &asked[0].1)["relevant_blocks"].clone();
        found += relevant.as_array().expect("a list").len();
        assert!(relevant.as_array().expect("a list").contains(&hash));
        asked.push(("getdescriptoractivity", json!([relevant, objects])));
        assert_same(ours, theirs, &asked);
    }
    assert!(found > 25);
    let none = Node::new("regtest");
    let without = Answering::start(&none, &[]);
    let refused = without.rpc.try_call("scanblocks", &json!(["start", []]));
    assert!(format!("{refused:?}").contains("Index is not enabled for filtertype basic"));
}

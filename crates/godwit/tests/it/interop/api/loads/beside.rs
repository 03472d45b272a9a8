//! What a node tells of itself behind a snapshot, beside bitcoind.

use std::fs;

use serde_json::json;

use super::super::super::bitcoind;
use super::super::Answering;
use super::super::methods::assert_same;
use super::{BASE, CHAIN, SNAPSHOT, snapshot_of, states};
use crate::node::Node;

#[test]
fn both_chains_of_a_loaded_snapshot_are_told_of_as_bitcoind_tells_of_them() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    fs::write(snapshot_of(&node), &*SNAPSHOT).expect("a file");
    let path = snapshot_of(&node).display().to_string();
    for rpc in [godwit.rpc, bitcoind.rpc] {
        for block in &*CHAIN {
            rpc.call("submitheader", &json!([hex::encode(&block[..80])]));
        }
        rpc.call("loadtxoutset", &json!([path]));
    }
    assert_eq!(states(&godwit), [(0, true), (BASE, false)]);
    let asked = ["getchainstates", "getblockchaininfo", "getmininginfo", "getnetworkinfo"];
    let asked = asked.map(|method| (method, json!([])));
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    // The share of the history, and that of the network's transactions, which is far smaller.
    let history = &godwit.call("getchainstates", &json!([]))["chainstates"][0];
    let info = godwit.call("getblockchaininfo", &json!([]));
    let progress = |of: &serde_json::Value| of["verificationprogress"].as_f64().expect("a share");
    let (network, own) = (progress(history), progress(&info["backgroundvalidation"]));
    assert!(network > 0.0 && network < 1e-5 && own > 1e-3, "{network} {own}");
}

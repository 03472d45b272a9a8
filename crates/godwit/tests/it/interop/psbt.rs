//! What `godwit-signer psbt` signed, before bitcoind.

use bitcoin::consensus::encode::serialize_hex;
use serde_json::json;

use super::bitcoind::{Start, start};
use crate::node::Node;
use crate::psbt_chain;

#[test]
fn bitcoind_accepts_and_mines_every_kind_of_spend() {
    let Some(bitcoind) = start(&Start::default()) else { return };
    let chain = psbt_chain::make(&Node::new("regtest"));
    for block in &chain.before {
        assert_eq!(bitcoind.submit(block), None);
    }
    for spend in &chain.spends {
        let answer = bitcoind.rpc.call("testmempoolaccept", &json!([[serialize_hex(spend)]]));
        assert_eq!(answer[0]["allowed"], true, "{answer}");
    }
    assert_eq!(bitcoind.submit(&chain.last(&chain.spends)), None);
    assert_eq!(bitcoind.height(), chain.before.len() as u64 + 1);
}

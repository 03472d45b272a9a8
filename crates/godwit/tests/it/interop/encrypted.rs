//! The encrypted transport (BIP324) between godwit and nodes that have it, and nodes that do not.

use std::ffi::OsString;

use serde_json::{Value, json};

use super::bitcoind::{self, Start};
use super::chain;
use super::follower::{self, Follower};
use super::process::ForeignNode;
use super::{btcd, free_port, wait_until};
use crate::node::Node;

/// bitcoind's only peer, once both have said hello.
#[track_caller]
fn peer_of(bitcoind: &ForeignNode) -> Value {
    let mut peer = Value::Null;
    wait_until("bitcoind has a peer", || {
        peer = bitcoind.rpc.call("getpeerinfo", &json!([]))[0].clone();
        peer["version"].as_u64().is_some_and(|version| version > 0)
    });
    peer
}

/// Both sides speak the encrypted protocol and have the same keys.
#[track_caller]
fn assert_encrypted(bitcoind: &ForeignNode, godwit: &mut Follower<'_>, inbound: bool) {
    let peer = peer_of(bitcoind);
    assert_eq!(peer["transport_protocol_type"], "v2", "{peer}");
    assert_eq!(peer["inbound"], inbound, "{peer}");
    let session = peer["session_id"].as_str().expect("a text");
    assert_eq!(session.len(), 64);
    // Lines about peers that connected to us are for debugging.
    if inbound {
        let line = format!("session_id={session}");
        wait_until("godwit has the same keys", || godwit.logged(&line));
        assert!(godwit.logged("New manual peer connected: transport: v2, version: "));
    }
    let names = peer["servicesnames"].as_array().expect("services");
    assert!(names.contains(&json!("P2P_V2")), "{names:?}");
}

#[test]
fn godwit_fetches_a_chain_from_bitcoind_encrypted() {
    let chain = chain::recent();
    let with_chain = Start { chain: Some(chain), ..Start::default() };
    let Some(bitcoind) = bitcoind::start(&with_chain) else { return };
    let node = Node::new("regtest");
    let mut godwit = Follower::start(&node, &[bitcoind.port], None);
    godwit.wait_for_tip(&chain.summary.tip);
    assert_encrypted(&bitcoind, &mut godwit, true);
    assert_eq!(godwit.stop()["muhash"], chain.muhash);
}

#[test]
fn bitcoind_fetches_a_chain_from_godwit_encrypted() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let (mut godwit, port) = Follower::serving(&node, chain);
    let start = Start { connect: Some(port), ..Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    wait_until("bitcoind has the chain", || bitcoind.tip() == chain.summary.tip);
    assert_encrypted(&bitcoind, &mut godwit, false);
    assert_eq!(godwit.stop()["bestblock"], bitcoind.tip());
}

#[test]
fn godwit_finds_its_way_back_to_bitcoind_in_plain() {
    let chain = chain::recent();
    let start = Start { chain: Some(chain), plain: true, ..Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    let node = Node::new("regtest");
    let mut godwit = Follower::start(&node, &[bitcoind.port], None);
    godwit.wait_for_tip(&chain.summary.tip);
    assert!(godwit.logged("New manual peer connected: transport: v1"));
    assert_eq!(peer_of(&bitcoind)["transport_protocol_type"], "v1");
    assert_eq!(godwit.stop()["muhash"], chain.muhash);
}

#[test]
fn godwit_finds_its_way_back_to_btcd_in_plain() {
    let chain = chain::recent();
    let Some(btcd) = btcd::start_with(chain) else { return };
    let node = Node::new("regtest");
    let mut godwit = Follower::start(&node, &[btcd.port], None);
    godwit.wait_for_tip(&chain.summary.tip);
    assert!(godwit.logged("New manual peer connected: transport: v1"));
    assert_eq!(godwit.stop()["bestblock"], btcd.tip());
}

#[test]
fn without_the_option_godwit_speaks_in_plain_and_bitcoind_finds_its_way_back() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    chain.write(&node.beside("chain.dat"));
    node.import(&node.beside("chain.dat"));
    let port = free_port();
    let mut options = follower::options(&[], Some(port));
    options.push(OsString::from("-v2transport=0"));
    let mut godwit = Follower::start_with(&node, options);
    godwit.wait_for_listening(port);
    let start = Start { connect: Some(port), ..Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    wait_until("bitcoind has the chain", || bitcoind.tip() == chain.summary.tip);
    let peer = peer_of(&bitcoind);
    assert_eq!(peer["transport_protocol_type"], "v1", "{peer}");
    let names = peer["servicesnames"].as_array().expect("services");
    assert!(!names.contains(&json!("P2P_V2")), "{names:?}");
    assert_eq!(godwit.stop()["bestblock"], bitcoind.tip());
}

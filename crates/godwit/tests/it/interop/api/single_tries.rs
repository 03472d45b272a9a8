//! `addnode` with `onetry`.

use std::net::TcpListener;

use serde_json::{Value, json};

use super::{Answering, RpcError};
use crate::interop::wait_until;
use crate::node::Node;

#[test]
fn a_try_without_a_place_is_refused_and_added_peers_have_their_own() {
    const PLACES: usize = 8;
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let listen = |_| TcpListener::bind(("127.0.0.1", 0)).expect("a free port");
    let listeners: Vec<TcpListener> = (0..PLACES + 2).map(listen).collect();
    let name = |listener: &TcpListener| listener.local_addr().expect("it listens").to_string();
    let names: Vec<String> = listeners.iter().map(name).collect();
    let tries = |name: &String| godwit.rpc.try_call("addnode", &json!([name, "onetry"]));
    for name in &names[..PLACES] {
        assert_eq!(tries(name).expect("there is a place"), Value::Null);
    }
    match tries(&names[PLACES]) {
        Err(RpcError::Refused(error)) => assert_eq!(error["code"], -37, "{error}"),
        answer => panic!("{answer:?}"),
    }
    assert_eq!(tries(&names[0]).expect("it is called already"), Value::Null);
    let added = &names[PLACES + 1];
    godwit.call("addnode", &json!([added, "add"]));
    wait_until("all but the refused one are connected", || {
        let peers = godwit.call("getpeerinfo", &json!([]));
        let addresses = peers.as_array().expect("a list").iter().map(|peer| &peer["addr"]);
        addresses.eq(names[..PLACES].iter().chain([added]))
    });
}

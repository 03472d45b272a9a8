//! The addresses at which a node can be called, beside bitcoind.

use serde_json::json;

use super::Answering;
use super::methods::assert_same;
use crate::interop::{bitcoind, free_port};
use crate::node::Node;

const ONION: &str = "pg6mmjiyjmcrsslvykfwnntlaru7p5svn6y2ymmju6nubxndf4pscryd.onion";

#[test]
fn own_addresses_are_those_of_bitcoind() {
    let onion = format!("-externalip={ONION}:5");
    let named = [
        "-externalip=9.9.9.9:1",
        "-externalip=[2a02::1]:2",
        "-externalip=9.9.9.9:3",
        "-externalip=10.0.0.1:4",
        &onion,
    ];
    for discover in ["-discover=0", "-discover=1"] {
        let options = [&named[..], &[discover]].concat();
        let start = bitcoind::Start { options: &options, ..bitcoind::Start::default() };
        let Some(bitcoind) = bitcoind::start(&start) else { return };
        let theirs = bitcoind.rpc.call("getnetworkinfo", &json!([]));
        let node = Node::new("regtest");
        let listen = ["-listen=1".to_owned(), format!("-bind=127.0.0.1:{}", free_port())];
        let options = options.iter().map(|option| (*option).to_owned());
        let options: Vec<String> = options.chain(listen).collect();
        let godwit = Answering::start(&node, &options);
        let ours = godwit.call("getnetworkinfo", &json!([]));
        assert_eq!(ours["localaddresses"], theirs["localaddresses"], "{discover}");
        assert_eq!(ours["localaddresses"].as_array().map(Vec::len), Some(3));
    }
}

#[test]
fn proxies_are_told_of_as_by_bitcoind() {
    let own: [&[&str]; 3] = [
        &["-proxy=127.0.0.1:9"],
        &["-proxy=127.0.0.1:9", "-onion=127.0.0.1:10"],
        &["-onion=127.0.0.1:10"],
    ];
    for options in own {
        let start = bitcoind::Start { options, ..bitcoind::Start::default() };
        let Some(bitcoind) = bitcoind::start(&start) else { return };
        let node = Node::new("regtest");
        let options: Vec<String> = options.iter().map(|option| (*option).to_owned()).collect();
        let godwit = Answering::start(&node, &options);
        assert_same(godwit.port, bitcoind.rpc.port(), &[("getnetworkinfo", json!([]))]);
    }
}

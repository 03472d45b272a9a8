//! Nodes that group peers by autonomous system (`-asmap`). A proxy of the test stands for the internet.

use std::fs;

use godwit::exit::Exit;
use serde_json::Value;

use crate::client;
use crate::node::Node;
use crate::proxies::Proxy;
use crate::running::Running;
use crate::sync::{free_port, serve, stops_in_time, wait_until, with_small_chain};

/// Core `test/data/asmap.raw`: 101.n.0.0/16 is of system n, from 1 to 8.
const MAP: &str = "fb03ec0fb03fc0fe00fb03ec0fb03fc0fe00fb03ec0fb0fffffeffedb0ff\
     d486e628290000400000400040990100800180040000050006001cf039";

/// A data directory with this file in that of the network.
fn with_map(name: &str, bytes: &[u8]) -> Node {
    let node = Node::new("regtest");
    fs::create_dir_all(node.network_dir()).expect("a directory");
    fs::write(node.network_dir().join(name), bytes).expect("the file");
    node
}

fn peers(node: &Node, rpc: u16) -> Option<Value> {
    let datadir = node.datadir();
    let words =
        ["-regtest", &format!("-datadir={}", datadir.display()), &format!("-rpcport={rpc}")];
    let words: Vec<String> =
        words.iter().copied().chain(["getpeerinfo"]).map(String::from).collect();
    let said = client::ask(&words, "");
    (said.code == Some(0)).then(|| serde_json::from_str(&said.out).expect("JSON"))
}

#[test]
fn the_operator_sees_the_systems_of_peers_and_which_map_tells_them() {
    let server = with_small_chain();
    let (port, rpc) = (free_port(), free_port());
    let serving = serve(&server, port);
    let proxy = Proxy::start(port);
    let node = with_map("ip.map", &hex::decode(MAP).expect("hexadecimal"));
    let through = format!("-proxy=127.0.0.1:{}", proxy.port);
    let at = format!("-rpcport={rpc}");
    let mut running = Running::start(
        &node,
        &[&"-asmap=ip.map", &through, &at, &"-connect=101.3.0.1:77", &"-connect=9.9.9.9:77"],
    );
    let mut told = Value::Null;
    wait_until("both are connected", || {
        told = peers(&node, rpc).unwrap_or_default();
        let is_whole = |peer: &Value| peer["version"] != 0;
        told.as_array().is_some_and(|peers| peers.len() == 2 && peers.iter().all(is_whole))
    });
    let system = |address: &str| {
        let found = told.as_array().and_then(|all| all.iter().find(|peer| peer["addr"] == address));
        found.unwrap_or_else(|| panic!("{address} in {told}")).get("mapped_as").cloned()
    };
    assert_eq!(system("101.3.0.1:77"), Some(3.into()));
    assert_eq!(system("9.9.9.9:77"), None);
    // Lines go into the log behind what an answer tells of.
    wait_until("the log tells of both", || {
        running.log().0.matches(" peer connected: ").count() >= 2
    });
    let log = running.log().0.to_owned();
    assert!(log.contains(" (59 bytes) from disk"), "{log}");
    assert!(log.contains("Using asmap version "), "{log}");
    assert!(log.contains(", mapped_as=3"), "{log}");
    let health =
        "ASMap Health Check: 0 clearnet peers are mapped to 0 ASNs with 0 peers being unmapped";
    assert!(log.contains(health), "{log}");
    stops_in_time(running);
    stops_in_time(serving);
}

#[test]
fn a_start_is_refused_with_a_line_where_there_is_no_map() {
    let node = with_map("bad.map", &[0xff; 8]);
    for (option, told) in [
        ("-asmap=none.map", "Could not find asmap file"),
        ("-asmap=bad.map", "Could not parse asmap file"),
        ("-asmap=/none.map", "Could not find asmap file \"/none.map\""),
        ("-asmap=1", "-asmap=1: Embedded asmap data not available, name a file"),
    ] {
        let ended = node.run(&[&option, &"-connect=0", &"-listen=0", &"-server=0"]);
        let said = ended.expect(Exit::Configuration).stderr;
        assert!(said.contains(told) && said.lines().count() == 1, "{option}: {said}");
    }
}

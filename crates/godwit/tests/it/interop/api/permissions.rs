//! Permissions of peers, beside bitcoind with `-blocksonly`.

use std::net::TcpStream;

use serde_json::{Value, json};

use super::Answering;
use crate::interop::bitcoind;
use crate::interop::{free_port, wait_until};
use crate::node::Node;

/// What stands before the address.
const NAMED: [&str; 8] =
    ["", "@", "noban@", "addr,in@", "all@", "forcerelay@", "bloom,mempool@", "relay,download@"];

/// What `getpeerinfo` shows of the permissions and the network of those who connect to these ports, one after
/// the other.
fn shown(ports: &[u16], peers: impl Fn() -> Value) -> Vec<Value> {
    let mut connections = Vec::new();
    for port in ports {
        connections.push(TcpStream::connect(("127.0.0.1", *port)).expect("somebody listens"));
        wait_until("the connection is shown", || {
            peers().as_array().map(Vec::len) == Some(connections.len())
        });
    }
    let peers = peers();
    let shown = |peer: &Value| json!([peer["permissions"], peer["network"]]);
    peers.as_array().expect("peers").iter().map(shown).collect()
}

#[test]
fn peers_are_shown_with_the_permissions_that_bitcoind_shows() {
    let binds = |ports: &[u16]| {
        let named = NAMED.iter().zip(ports);
        let binds = named.map(|(named, port)| format!("-whitebind={named}127.0.0.1:{port}"));
        binds.collect::<Vec<_>>()
    };
    // All of this machine have one more.
    let everybody = "-whitelist=addr@127.0.0.0/8".to_owned();
    for whitelist in [None, Some(everybody)] {
        let ports = NAMED.map(|_| free_port());
        let options: Vec<String> = binds(&ports).into_iter().chain(whitelist.clone()).collect();
        let mut of_core: Vec<&str> = options.iter().map(String::as_str).collect();
        of_core.push("-blocksonly");
        let start = bitcoind::Start { options: &of_core, ..bitcoind::Start::default() };
        let Some(bitcoind) = bitcoind::start(&start) else { return };
        let theirs = shown(&ports, || bitcoind.rpc.call("getpeerinfo", &json!([])));
        drop(bitcoind);
        let node = Node::new("regtest");
        let godwit = Answering::start(&node, &[&["-listen=1".to_owned()], &options[..]].concat());
        let ours = shown(&ports, || godwit.call("getpeerinfo", &json!([])));
        assert_eq!(ours, theirs, "{options:?}");
    }
}

/// All who come through Tor come from one address. Permissions of it would be everybody's.
#[test]
fn who_calls_the_socket_for_tor_has_no_permissions_of_its_address() {
    let ports = [free_port(), free_port()];
    let [direct, onion] = ports;
    let options = [
        format!("-bind=127.0.0.1:{direct}"),
        format!("-bind=127.0.0.1:{onion}=onion"),
        "-whitelist=127.0.0.1".to_owned(),
    ];
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, &[&["-listen=1".to_owned()], &options[..]].concat());
    let ours = shown(&ports, || godwit.call("getpeerinfo", &json!([])));
    assert!(godwit.running.terminate().1.success());
    let usual = json!([["noban", "mempool", "download"], "not_publicly_routable"]);
    assert_eq!(ours, [usual, json!([[], "onion"])]);

    let mut of_core: Vec<&str> = options.iter().map(String::as_str).collect();
    of_core.push("-blocksonly");
    let start = bitcoind::Start { options: &of_core, ..bitcoind::Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    assert_eq!(shown(&ports, || bitcoind.rpc.call("getpeerinfo", &json!([]))), ours);
}

//! Whom the program connects to and whom it lets in, as its options say.

use std::ffi::OsStr;
use std::io::{ErrorKind, Read};
use std::net::{TcpListener, TcpStream};
use std::thread;
use std::time::Duration;

use godwit::exit::Exit;
use godwit_p2p::{MAX_OUTBOUND_BLOCK_RELAY, MAX_OUTBOUND_FULL};

use crate::blocks::small_chain;
use crate::import::small_chain_stats;
use crate::node::Node;
use crate::running::Running;
use crate::snapshot::said;
use crate::sync::{free_port, serve, stops_in_time, wait_until, with_small_chain};

fn start<'a>(node: &'a Node, words: &[&str]) -> Running<'a> {
    let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
    Running::start(node, &words)
}

#[test]
fn a_node_without_peers_says_after_a_minute_what_to_try() {
    let closed = format!("-connect=127.0.0.1:{}", free_port());
    let proxy = format!("-proxy=127.0.0.1:{}", free_port());
    let bind = format!("-bind=127.0.0.1:{}", free_port());
    let add = format!("-addnode=127.0.0.1:{}", free_port());
    let cases: [(&[&str], Option<&str>); 7] = [
        (
            &["-listen=0", "-noconnect"],
            Some(
                "No peer for 60 s: -noconnect connects to nobody; name a peer with -connect=HOST or \
                 -addnode=HOST.",
            ),
        ),
        (
            &[&closed],
            Some(
                "No peer for 60 s: check the host and port of -connect, and that a node runs there.",
            ),
        ),
        (
            &["-noconnect", &add],
            Some(
                "No peer for 60 s: check the host and port of -addnode, and that a node runs there.",
            ),
        ),
        (
            &[&closed, &add],
            Some(
                "No peer for 60 s: check the hosts and ports of -connect and -addnode, and that nodes \
                 run there.",
            ),
        ),
        (
            &[&proxy],
            Some("No peer for 60 s: check that the proxy of -proxy runs and is connected."),
        ),
        (
            &["-listen=0"],
            Some(
                "No peer for 60 s: check the internet connection and the firewall, or name a peer \
                 with -addnode=HOST.",
            ),
        ),
        // It waits for others to come.
        (&["-noconnect", &bind], None),
    ];
    let nodes: Vec<Node> = cases.iter().map(|_| Node::new("regtest")).collect();
    let mut running: Vec<Running<'_>> =
        nodes.iter().zip(&cases).map(|(node, (words, _))| start(node, words)).collect();
    for (node, (words, line)) in running.iter_mut().zip(&cases) {
        if let Some(line) = line {
            wait_until(&format!("{words:?} is told"), || node.log().0.contains(line));
        }
    }
    thread::sleep(Duration::from_secs(1));
    for (mut node, (words, line)) in running.into_iter().zip(cases) {
        let told = node.log().0.matches("No peer for").count();
        assert_eq!(told, usize::from(line.is_some()), "{words:?}");
        stops_in_time(node);
    }
}

#[test]
fn a_peer_of_addnode_is_synced_from_beside_automatic_connections() {
    let (server, node) = (with_small_chain(), Node::new("regtest"));
    let port = free_port();
    let serving = serve(&server, port);
    let stop = format!("-stopatheight={}", small_chain().len());
    let add = format!("-addnode=127.0.0.1:{port}");
    let absent = format!("-addnode=127.0.0.1:{}", free_port());
    node.run(&[&"-listen=0", &absent, &add, &stop]).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
    assert!(node.log().contains("New manual peer connected"), "{}", node.log());
    stops_in_time(serving);
}

#[test]
fn a_peer_of_addnode_is_synced_from_beside_those_of_connect_or_none() {
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    let stop = format!("-stopatheight={}", small_chain().len());
    let add = format!("-addnode=127.0.0.1:{port}");
    let absent = format!("-connect=127.0.0.1:{}", free_port());
    for connect in ["-noconnect", &absent] {
        let node = Node::new("regtest");
        node.run(&[&"-listen=0", &connect, &add, &stop]).expect(Exit::Success);
        assert_eq!(node.stats(), small_chain_stats(), "{connect}");
    }
    stops_in_time(serving);
}

/// Addresses of this machine are not told, so nothing more comes of it here.
#[test]
fn a_peer_of_seednode_is_asked_for_addresses_and_left() {
    let (server, node) = (Node::new("regtest"), Node::new("regtest"));
    let port = free_port();
    let serving = serve(&server, port);
    let mut running = start(&node, &["-listen=0", &format!("-seednode=127.0.0.1:{port}")]);
    wait_until("it is asked", || running.log().0.contains("New addr-fetch peer connected"));
    stops_in_time(running);
    stops_in_time(serving);
}

/// Whether the connection was ended by the other side; none of these says anything.
fn is_ended(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a socket");
    match stream.read(&mut [0; 1]) {
        Ok(0) => true,
        Ok(_) => panic!("nobody speaks first to a silent peer"),
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn no_more_are_let_in_than_maxconnections_leaves() {
    // Those that the node opens itself, and one to try an address.
    let outbound = MAX_OUTBOUND_FULL + MAX_OUTBOUND_BLOCK_RELAY + 1;
    for places in [0, 1, 2] {
        let node = Node::new("regtest");
        let port = free_port();
        let most = outbound + places;
        let bind = format!("-bind=127.0.0.1:{port}");
        let mut running = start(&node, &["-noconnect", &bind, &format!("-maxconnections={most}")]);
        // Not by binding the port here: that the node would find in use.
        wait_until("it listens", || {
            let log = running.log().0;
            log.contains(&format!("Using at most {most} automatic connections"))
                && log.contains(&format!("Bound to 127.0.0.1:{port}"))
        });
        // In this order the node finds them, whenever it looks.
        let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("the system accepts");
        let mut streams: Vec<TcpStream> = (0..3).map(connect).collect();
        let (let_in, refused) = streams.split_at_mut(places);
        wait_until("the others are ended", || refused.iter_mut().all(is_ended));
        assert!(!let_in.iter_mut().any(is_ended), "{places} have places");
        stops_in_time(running);
    }
}

#[test]
fn an_inactive_network_is_not_used_until_it_is_turned_on() {
    let node = Node::new("regtest");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    listener.set_nonblocking(true).expect("a socket");
    let connect = format!("-connect={}", listener.local_addr().expect("it is bound"));
    let port = free_port();
    let bind = format!("-bind=127.0.0.1:{port}");
    let rpc = free_port();
    let rpc_port = format!("-rpcport={rpc}");
    let mut running = start(&node, &["-networkactive=0", &connect, &bind, &rpc_port]);
    wait_until("it runs", || running.log().0.contains("Using at most"));
    thread::sleep(Duration::from_millis(1_500));
    let nobody = listener.accept().expect_err("nobody connects");
    assert_eq!(nobody.kind(), ErrorKind::WouldBlock);
    let caller = || {
        let stream = TcpStream::connect(("127.0.0.1", port)).expect("it listens");
        stream.set_nonblocking(true).expect("a socket");
        stream
    };
    let mut refused = caller();
    wait_until("who calls is let go", || is_ended(&mut refused));
    assert_eq!(said(&node, rpc, &["setnetworkactive", "true"]).trim(), "true");
    wait_until("it connects", || listener.accept().is_ok());
    let mut taken = caller();
    thread::sleep(Duration::from_millis(500));
    assert!(!is_ended(&mut taken));
    stops_in_time(running);
}

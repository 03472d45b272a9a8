//! Nodes of this program among themselves, on loopback.

use std::ffi::OsStr;
use std::net::TcpListener;
use std::os::unix::net::UnixDatagram;
use std::time::Duration;

use godwit::exit::Exit;
pub(crate) use godwit_sim::programs::{free_port, wait_until};

use crate::blocks::{small_chain, write_dat};
use crate::import::small_chain_stats;
use crate::node::Node;
use crate::records;
use crate::running::{Moment, Running};

/// A datadir with the small chain.
pub(crate) fn with_small_chain() -> Node {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, small_chain());
    node.import(&path);
    node
}

/// A node that listens on a port and connects to nobody.
pub(crate) fn serve(node: &Node, port: u16) -> Running<'_> {
    let bind = format!("-bind=127.0.0.1:{port}");
    listening(Running::start(node, &[&"-noconnect", &bind]), port)
}

/// The same without keys: of such a node its user may know everything.
pub(crate) fn serve_in_plain(node: &Node, port: u16) -> Running<'_> {
    let bind = format!("-bind=127.0.0.1:{port}");
    listening(Running::start(node, &[&"-noconnect", &bind, &"-v2transport=0"]), port)
}

fn listening(mut running: Running<'_>, port: u16) -> Running<'_> {
    wait_until("it listens", || running.log().0.contains(&format!("Bound to 127.0.0.1:{port}")));
    running
}

/// Waits until a signal is a node's to obey: before its handler stands, a process dies of it.
pub(crate) fn has_started(running: &mut Running<'_>) {
    wait_until("it runs", || running.log().0.contains("Using at most"));
}

pub(crate) fn connect_to(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("-connect=127.0.0.1:{port}")).collect()
}

/// Runs a node that syncs the small chain from these ports.
#[track_caller]
pub(crate) fn sync(node: &Node, ports: &[u16], more: &[&str]) {
    let mut words = connect_to(ports);
    words.push(format!("-stopatheight={}", small_chain().len()));
    words.extend(more.iter().map(|word| (*word).to_owned()));
    let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
    node.run(&words).expect(Exit::Success);
}

#[track_caller]
pub(crate) fn stops_in_time(mut running: Running<'_>) {
    let (time, status) = running.terminate();
    assert_eq!(status.code(), Some(Exit::Success.code().into()));
    assert!(time < Duration::from_secs(5), "{time:?}");
}

#[test]
fn a_node_syncs_from_another_one_and_serves_in_turn() {
    let (first, second, third) = (with_small_chain(), Node::new("regtest"), Node::new("regtest"));
    let ports = [free_port(), free_port()];
    let serving = serve(&first, ports[0]);
    sync(&second, &ports[..1], &[]);
    assert_eq!(second.stats(), small_chain_stats());
    assert_eq!(records::blocks(&second).complete, small_chain().len() as u64);
    // From both at once.
    let serving_too = serve(&second, ports[1]);
    sync(&third, &ports, &["-maxdownloadrate=5M"]);
    assert_eq!(third.stats(), small_chain_stats());
    stops_in_time(serving);
    stops_in_time(serving_too);
}

#[test]
fn a_sync_goes_on_where_it_was_stopped_and_fetches_nothing_twice() {
    let (server, node) = (with_small_chain(), Node::new("regtest"));
    let port = free_port();
    let serving = serve(&server, port);
    for _ in 0..3 {
        let connect = format!("-connect=127.0.0.1:{port}");
        let mut running = Running::start(&node, &[&connect, &"-maxdownloadrate=100k"]);
        has_started(&mut running);
        running.wait_for(Moment::After(Duration::from_millis(400)));
        stops_in_time(running);
    }
    sync(&node, &[port], &[]);
    assert_eq!(node.stats(), small_chain_stats());
    assert_eq!(records::blocks(&node).complete, small_chain().len() as u64);
    stops_in_time(serving);
}

#[test]
fn a_port_in_use_is_one_clear_line() {
    let (first, second) = (Node::new("regtest"), Node::new("regtest"));
    let port = free_port();
    let serving = serve(&first, port);
    let bind = format!("-bind=127.0.0.1:{port}");
    let ended = second.run(&[&"-noconnect", &bind]).expect(Exit::CannotListen);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("the port is in use"), "{ended:?}");
    // Nor may a second node use the first one's data directory.
    let ended = first.run(&[&"-noconnect", &"-listen=0"]).expect(Exit::DatadirUnusable);
    assert!(ended.stderr.contains(".lock is locked: another process"), "{ended:?}");
    stops_in_time(serving);
}

/// Whoever looks at the log alone, and whoever sees both standard output and standard error.
#[test]
fn why_a_node_ended_is_in_its_log_and_once_on_the_console() {
    let node = Node::new("regtest");
    let port = free_port();
    let _taken = TcpListener::bind(("127.0.0.1", port)).expect("it is free");
    // Where there is one.
    let _taken_too = TcpListener::bind(("::1", port));
    let option = format!("-rpcport={port}");
    let ended = node.run(&[&"-noconnect", &"-listen=0", &option]).expect(Exit::CannotListen);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    let why = ended.stderr.trim_end().strip_prefix("godwit: ").expect("the program's name");
    assert!(why.starts_with("the RPC server cannot listen on "), "{ended:?}");
    assert!(!ended.stdout.contains("cannot listen"), "{ended:?}");
    let log = node.log();
    let last = log.lines().last().expect("a line");
    assert!(last.ends_with(&format!("Z [error] Ended: {why}")), "{log}");
}

#[test]
fn systemd_is_told_what_a_node_is_at_from_its_start_on() {
    let node = Node::new("regtest");
    let path = node.beside("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a socket");
    let mut command = node.command(&[&"-noconnect", &"-listen=0", &"-server=0"]);
    command.env("NOTIFY_SOCKET", &path);
    let running = Running::spawn(&node, command);
    let mut bytes = [0; 4096];
    let mut told = || {
        let count = socket.recv(&mut bytes).expect("a datagram");
        String::from_utf8_lossy(&bytes[..count]).into_owned()
    };
    assert_eq!(told(), "STATUS=Loading block index…\n");
    let ready = told();
    assert!(ready.starts_with("READY=1\nSTATUS=Looking for peers"), "{ready}");
    stops_in_time(running);
}

#[test]
fn a_port_is_listened_on_at_every_address_and_by_one_node_only() {
    let (first, second) = (with_small_chain(), Node::new("regtest"));
    let port = free_port();
    let option = format!("-port={port}");
    let mut serving = Running::start(&first, &[&"-noconnect", &"-listen", &option]);
    let bound = format!("Bound to 0.0.0.0:{port}");
    wait_until("it listens", || serving.log().0.contains(&bound));
    sync(&second, &[port], &[]);
    assert_eq!(second.stats(), small_chain_stats());
    let ended = second.run(&[&"-noconnect", &"-listen", &option]).expect(Exit::CannotListen);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("the port is in use"), "{ended:?}");
    stops_in_time(serving);
    // It is free again.
    let again = Running::start(&second, &[&"-noconnect", &"-listen", &option]);
    wait_until("it listens", || second.log().contains(&bound));
    stops_in_time(again);
}

//! Nodes of this program among themselves, on loopback.

use std::ffi::OsStr;
use std::fs;
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicU16, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use godwit::exit::Exit;
use godwit_sim::chain::generate;
use godwit_sim::plan::ChainPlan;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::blocks::{small_chain, write_dat};
use crate::import::small_chain_stats;
use crate::loopback::unix_now;
use crate::node::Node;
use crate::records;
use crate::running::{Moment, Running};

/// How long anything may take before a test gives up. No result depends on it.
const LIMIT: Duration = Duration::from_secs(180);

/// A port of the loopback interface that nobody listens on, below those that Linux takes for outgoing
/// connections.
pub(crate) fn free_port() -> u16 {
    const FIRST: u16 = 30_000;
    const RANGE: u16 = 2_000;
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let start = (std::process::id() % u32::from(RANGE)) as u16;
    for _ in 0..RANGE {
        let offset = start.wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) % RANGE;
        if TcpListener::bind(("127.0.0.1", FIRST + offset)).is_ok() {
            return FIRST + offset;
        }
    }
    panic!("no free port");
}

#[track_caller]
pub(crate) fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < LIMIT, "not within {LIMIT:?}: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

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
fn serve_in_plain(node: &Node, port: u16) -> Running<'_> {
    let bind = format!("-bind=127.0.0.1:{port}");
    listening(Running::start(node, &[&"-noconnect", &bind, &"-v2transport=0"]), port)
}

fn listening(mut running: Running<'_>, port: u16) -> Running<'_> {
    wait_until("it listens", || running.log().0.contains(&format!("Bound to 127.0.0.1:{port}")));
    running
}

fn connect_to(ports: &[u16]) -> Vec<String> {
    ports.iter().map(|port| format!("-connect=127.0.0.1:{port}")).collect()
}

/// Runs a node that syncs the small chain from these ports.
#[track_caller]
fn sync(node: &Node, ports: &[u16], more: &[&str]) {
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

/// Processor time that a process took so far, in clock ticks of 10 ms.
fn processor_ticks(pid: Pid) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).expect("it runs");
    let (_, fields) = stat.rsplit_once(") ").expect("the name is in parentheses");
    let ticks = |n: usize| -> u64 {
        fields.split(' ').nth(n).and_then(|field| field.parse().ok()).expect("a number")
    };
    ticks(11) + ticks(12)
}

#[test]
fn b19_without_descriptors_nothing_spins_and_accepting_goes_on_later() {
    let (server, node) = (with_small_chain(), Node::new("regtest"));
    let port = free_port();
    let mut serving = serve_in_plain(&server, port);
    let pid = serving.pid();
    let used = fs::read_dir(format!("/proc/{}/fd", pid.as_raw_nonzero())).expect("it runs").count();
    // The test and the node have the same hard limit.
    let hard = getrlimit(Resource::Nofile).maximum;
    let limit = Rlimit { current: Some(used as u64 + 2), maximum: hard };
    let before = prlimit(Some(pid), Resource::Nofile, limit).expect("it is ours");
    let waiting: Vec<TcpStream> = (0..20)
        .map(|_| TcpStream::connect(("127.0.0.1", port)).expect("the system accepts"))
        .collect();
    let refusals = |serving: &mut Running<'_>| {
        serving.log().0.matches("Connections can not be accepted at the moment").count()
    };
    wait_until("it notices", || refusals(&mut serving) == 1);
    let ticks = processor_ticks(pid);
    thread::sleep(Duration::from_millis(2_500));
    let spent = processor_ticks(pid) - ticks;
    assert!(spent < 50, "{spent} ticks of processor time in 2.5 seconds");
    assert_eq!(refusals(&mut serving), 1, "one line for the outage");
    prlimit(Some(pid), Resource::Nofile, before).expect("it is ours");
    sync(&node, &[port], &[]);
    assert_eq!(node.stats(), small_chain_stats());
    drop(waiting);
    stops_in_time(serving);
}

/// As many sockets as `ecosystem.md` §6.3 has it, and a few for the test itself.
const FLOOD: usize = 2_000;

/// The node may have so many descriptors.
const FEW_DESCRIPTORS: u64 = 256;

/// The command with a limit of descriptors that it cannot raise again.
fn with_few_descriptors(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {FEW_DESCRIPTORS}; exec \"$@\"");
    shell.args(["-c", &script, "sh"]).arg(command.get_program()).args(command.get_args());
    shell
}

/// The small chain, its last block stamped now: a node that has it is up to date, and announces what
/// comes.
fn with_young_chain() -> Node {
    let plan = ChainPlan::small(1).ending_at(unix_now() as u32);
    let mut blocks = Vec::new();
    generate(&plan.expect("long after genesis"), |block| {
        blocks.push(block.bytes.to_vec());
        Ok(())
    })
    .expect("the plan is sound");
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, &blocks);
    node.import(&path);
    node
}

/// Opens as many connections to a port as there are to be, or as this process may have.
fn flood(port: u16) -> Vec<TcpStream> {
    let own = getrlimit(Resource::Nofile);
    let wanted = FLOOD as u64 + 1_000;
    let possible = own.maximum.map_or(wanted, |hard| hard.min(wanted));
    if own.current.is_some_and(|current| current < possible) {
        let raised = Rlimit { current: Some(possible), ..own };
        setrlimit(Resource::Nofile, raised).expect("not above the hard limit");
    }
    let connect = |_| TcpStream::connect(("127.0.0.1", port)).expect("the system accepts");
    (0..FLOOD.min(possible as usize / 2)).map(connect).collect()
}

#[test]
fn b19_two_thousand_connections_to_a_node_of_256_descriptors_stop_neither_sync_nor_serving() {
    let (server, node, client) = (with_young_chain(), Node::new("regtest"), Node::new("regtest"));
    let expected = server.stats();
    let tip = expected["bestblock"].as_str().expect("a hash");
    let ports = [free_port(), free_port(), free_port()];
    let (serving, receiving) = (serve(&server, ports[0]), serve(&client, ports[1]));
    // It has no place for others at all, and serves the one that it calls.
    let mut words = connect_to(&ports[..2]);
    words.extend([format!("-bind=127.0.0.1:{}", ports[2]), "-maxdownloadrate=30k".to_owned()]);
    let words: Vec<&dyn AsRef<OsStr>> = words.iter().map(|word| word as _).collect();
    let mut running = Running::spawn(&node, with_few_descriptors(&node.command(&words)));
    wait_until("it syncs", || running.log().connected() > 0);
    let path = format!("/proc/{}/limits", running.pid().as_raw_nonzero());
    let limits = fs::read_to_string(path).expect("it runs");
    let line = limits.lines().find(|line| line.starts_with("Max open files")).expect("a limit");
    assert!(line.split_whitespace().skip(3).take(2).all(|limit| limit == "256"), "{line}");
    let streams = flood(ports[2]);
    assert!(!running.log().0.contains(tip), "{} sockets came during the sync", streams.len());
    wait_until("it is at the tip", || running.log().0.contains(tip));
    wait_until("it served", || client.log().contains(tip));
    let log = running.log().0;
    assert!(log.contains("Reducing -maxconnections from 125 to 10"), "{log}");
    let others = log.lines().filter(|line| !line.contains(" UpdateTip: ")).count();
    assert!(others < 50, "{others} lines");
    for node in [running, serving, receiving] {
        stops_in_time(node);
    }
    assert_eq!((node.stats(), client.stats()), (expected.clone(), expected));
    drop(streams);
}

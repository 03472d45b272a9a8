//! More connections than a node has descriptors for.
//!
//! The second test waits for a slow line most of its time, so it is to begin early: tests run in the order of
//! their names.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use godwit_sim::chain::generated;
use godwit_sim::plan::ChainPlan;
use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit, setrlimit};

use crate::blocks::write_dat;
use crate::import::small_chain_stats;
use crate::loopback::unix_now;
use crate::node::Node;
use crate::running::Running;
use crate::sync::{
    connect_to, free_port, serve, serve_in_plain, stops_in_time, sync, wait_until, with_small_chain,
};

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
    // Behind its start, which needs descriptors: it listens before it has read all of its files.
    sync(&Node::new("regtest"), &[port], &[]);
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
        serving.log().0.matches("Connections cannot be accepted at the moment").count()
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
    let blocks = generated(&plan.expect("long after genesis"));
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
    // Of a header that is announced, the log tells too.
    let connected = format!("UpdateTip: new best={tip}");
    wait_until("it is at the tip", || running.log().0.contains(&connected));
    wait_until("it served", || client.log().contains(&connected));
    let log = running.log().0;
    assert!(log.contains("Reducing -maxconnections from 125 to 10"), "{log}");
    assert!(log.contains("Only 256 files may be open at once, and up to "), "{log}");
    let others = log.lines().filter(|line| !line.contains(" UpdateTip: ")).count();
    assert!(others < 50, "{others} lines");
    for node in [running, serving, receiving] {
        stops_in_time(node);
    }
    assert_eq!((node.stats(), client.stats()), (expected.clone(), expected));
    drop(streams);
}

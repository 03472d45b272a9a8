//! btcd's rpcclient over HTTP and btcwallet's chain backend, which lnd uses: `tools/btcd-rpcclient` and
//! `tools/btcwallet`, which say what they do.

use std::process::Command;

use super::super::api::Answering;
use super::super::process::{Place, Program, cached};
use super::super::rpc::{PASSWORD, USER};
use super::super::{FILTERS, free_port};
use crate::node::Node;

/// Runs a program to its end on a godwit that publishes at these ports; whether all was as it expected.
#[track_caller]
fn succeeds(name: &str, path: &str, mode: &[&str], publishing: &[u16; 2], options: &[String]) {
    let Some(program) = cached(name, path) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, options);
    let place = Place::new();
    let mut command = Command::new(program);
    command.args(mode).args([&godwit.port.to_string(), USER, PASSWORD]);
    command.args(publishing.map(|port| port.to_string()));
    assert!(Program::start_saying(command, place.path("said")).succeeds(), "{name}");
}

#[test]
fn btcd_s_rpcclient_reads_what_it_asks_for() {
    let port = free_port();
    let zmq = format!("-zmqpubhashblock=tcp://127.0.0.1:{port}");
    let options = ["-txindex=1".to_owned(), FILTERS.to_owned(), zmq];
    succeeds("btcd's rpcclient", "tools-btcsuite/btcd-rpcclient", &[], &[port; 2], &options);
}

#[test]
fn btcwallet_follows_the_chain_by_zmq() {
    let ports = [free_port(), free_port()];
    let options = [
        format!("-zmqpubrawblock=tcp://127.0.0.1:{}", ports[0]),
        format!("-zmqpubrawtx=tcp://127.0.0.1:{}", ports[1]),
    ];
    succeeds("btcwallet", "tools-btcsuite/btcwallet", &["zmq"], &ports, &options);
}

#[test]
fn btcwallet_follows_the_chain_by_polling() {
    succeeds("btcwallet", "tools-btcsuite/btcwallet", &["polling"], &[0; 2], &[]);
}

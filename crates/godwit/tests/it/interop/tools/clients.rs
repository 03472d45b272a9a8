//! corepc-client, which has a type for each reply of Bitcoin Core 31, and BDK's wallet on
//! `bdk_bitcoind_rpc`: both in `tools/rpc-clients`, which says what they do.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use super::super::api::Answering;
use super::super::process::{Place, Program, cached};
use super::super::rpc::{PASSWORD, USER};
use super::super::{FILTERS, free_port, wait_until};
use crate::node::Node;

fn program() -> Option<PathBuf> {
    cached("corepc-client and BDK", "tools-rpc-clients/rpc-clients")
}

/// Runs it to its end; what it says.
#[track_caller]
fn run(program: &Path, what: &str, godwit: &Answering<'_>) -> String {
    let place = Place::new();
    let mut command = Command::new(program);
    command.args([what, &godwit.port.to_string(), USER, PASSWORD]).arg(place.temp.path());
    let said = place.path("said");
    let mut program = Program::start_saying(command, said.clone());
    assert!(program.succeeds(), "{what}");
    fs::read_to_string(said).expect("it says text")
}

/// The methods that it called.
fn called(said: &str) -> BTreeSet<String> {
    said.lines().filter_map(|line| line.strip_prefix("called ")).map(str::to_owned).collect()
}

/// The methods of `help`.
fn methods(godwit: &Answering<'_>) -> BTreeSet<String> {
    let help = godwit.call("help", &json!([]));
    let lines = help.as_str().expect("a text").lines();
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with("=="));
    lines.filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

#[test]
fn corepc_client_reads_the_reply_of_every_method() {
    let Some(program) = program() else { return };
    let (node, other) = (Node::new("regtest"), Node::new("regtest"));
    let port = free_port();
    let peer = Answering::start(&other, &[format!("-port={port}"), "-listen=1".to_owned()]);
    let zmq = format!("-zmqpubhashblock=tcp://127.0.0.1:{}", free_port());
    // The types are those of Bitcoin Core 31.0.
    let options = ["-txindex=1", FILTERS, &zmq, "-deprecatedrpc=bip125", "-deprecatedrpc=fullrbf"];
    let mut godwit = Answering::start(&node, &options.map(str::to_owned));
    godwit.call("addnode", &json!([format!("127.0.0.1:{port}"), "onetry"]));
    wait_until("they are connected", || {
        // Connections count before their handshake.
        let greeted = |node: &&Answering<'_>| {
            node.call("getpeerinfo", &json!([]))[0]["bytesrecv_per_msg"]["verack"].is_number()
        };
        [&godwit, &peer].iter().all(greeted)
    });
    let methods = methods(&godwit);
    let mut called = called(&run(&program, "corepc", &godwit));
    assert!(godwit.running.wait().success());

    let node = Node::new("regtest");
    let pruned = Answering::start(&node, &["-prune=1".to_owned()]);
    // A few at a time, so that no call takes long on a busy machine.
    for _ in 0..60 {
        pruned.call("generatetodescriptor", &json!([20, "raw(51)#8lvh9jxk"]));
    }
    called.extend(self::called(&run(&program, "pruned", &pruned)));
    let left: Vec<&String> = methods.difference(&called).collect();
    // Of godwit's own, and for a chain whose snapshot is known.
    assert_eq!(left, ["getsyncstatus", "loadtxoutset"]);
}

#[test]
fn a_bdk_wallet_follows_blocks_and_filters_through_reorganisations() {
    let Some(program) = program() else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &["-txindex=1".to_owned(), FILTERS.to_owned()]);
    assert!(run(&program, "bdk", &godwit).contains("all was as expected"));
}

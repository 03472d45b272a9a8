//! Core's `bitcoin-cli` and `godwit-cli`, each with each node.

use std::process::Command;

use serde_json::json;

use super::super::process::cached;
use super::super::rpc::{PASSWORD, USER};
use super::super::{bitcoind, free_port};
use super::Answering;
use crate::client::{Said, ask, said};
use crate::node::Node;

/// What both clients are told. The last word of each is an argument, or an option's.
fn commands() -> Vec<(Vec<&'static str>, &'static str)> {
    vec![
        (vec!["getblockcount"], ""),
        (vec!["getblockhash", "0"], ""),
        (vec!["getblockhash", "-1"], ""),
        (vec!["getblockhash", "x"], ""),
        (vec!["-named", "getblockhash", "height=0"], ""),
        (vec!["-named", "getblockhash", "hite=0"], ""),
        (vec!["-stdin", "getblockhash"], "0\n"),
        (vec!["getblockstats", "0"], ""),
        (vec!["getblockstats", "0", "[\"txs\"]"], ""),
        (
            vec![
                "gettxout",
                "4a5e1e4baab89f3a32518a88c31bc87f618f76673e2cc77ab2127b7afdeda33b",
                "0",
            ],
            "",
        ),
        (vec!["getrawmempool"], ""),
        (vec!["getrawmempool", "true"], ""),
        (vec!["getchaintips"], ""),
        (vec!["validateaddress", "x"], ""),
        (vec!["echojson", "{\"b\":[],\"a\":{}}", "1.50", "null"], ""),
        (vec!["echo", "1"], ""),
        (vec!["nonsense"], ""),
        (vec![], ""),
        (vec!["-nonsense", "getblockcount"], ""),
        (vec!["-rpcport=0", "getblockcount"], ""),
        (vec!["-rpcconnect=127.0.0.1:x", "getblockcount"], ""),
        (vec!["-getinfo", "x"], ""),
    ]
}

fn words(port: u16, words: &[&str]) -> Vec<String> {
    let mut all = vec![
        "-regtest".to_owned(),
        "-datadir=/tmp".to_owned(),
        format!("-rpcport={port}"),
        format!("-rpcuser={USER}"),
        format!("-rpcpassword={PASSWORD}"),
    ];
    all.extend(words.iter().map(|word| (*word).to_owned()));
    all
}

/// The same but for the program's name, and the JSON that has no order here.
fn assert_same(ours: &Said, theirs: &Said, what: &[&str]) {
    assert_eq!(ours.code, theirs.code, "{what:?}: {ours:?} {theirs:?}");
    assert_eq!(ours.out, theirs.out, "{what:?}");
    assert_eq!(ours.err, theirs.err, "{what:?}");
}

#[test]
fn both_clients_say_the_same_of_both_nodes() {
    let Some(program) = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli") else { return };
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    for (command, input) in commands() {
        let core = |port| {
            let mut client = Command::new(&program);
            client.args(words(port, &command));
            said(client, input)
        };
        let [of_core, of_godwit] = [bitcoind.rpc.port(), godwit.port].map(core);
        let ours =
            [bitcoind.rpc.port(), godwit.port].map(|port| ask(&words(port, &command), input));
        assert_same(&ours[0], &of_core, &command);
        assert_same(&ours[1], &of_godwit, &command);
        if command.first() != Some(&"validateaddress") {
            assert_same(&of_godwit, &of_core, &command);
        }
    }
}

#[test]
fn the_client_reports_what_went_wrong() {
    let port = free_port();
    let nobody = ask(&words(port, &["getblockcount"]), "");
    assert_eq!(nobody.code, Some(1));
    assert!(nobody.err.contains("Could not connect to the server"), "{nobody:?}");
    let waited = ask(&words(port, &["-rpcwait", "-rpcwaittimeout=1", "getblockcount"]), "");
    assert_eq!(waited.code, Some(1));
    assert!(waited.err.contains("timeout on transient error"), "{waited:?}");

    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let wrong = ask(&words(godwit.port, &["-rpcpassword=x", "getblockcount"]), "");
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.err.contains("Incorrect rpcuser or rpcpassword"), "{wrong:?}");
    let by_input =
        ask(&words(godwit.port, &["-stdinrpcpass", "-stdin", "getblockhash"]), "godwit\n0\n");
    assert_eq!(by_input.code, Some(0), "{by_input:?}");
    let info = ask(&words(godwit.port, &["-getinfo"]), "");
    assert_eq!(info.code, Some(0), "{info:?}");
    assert!(info.out.starts_with("Chain: regtest\nBlocks: 0\nHeaders: 0\n"), "{info:?}");
    assert_eq!(godwit.call("getblockcount", &json!([])), 0);
}

#[test]
fn the_client_waits_for_a_node_and_finds_its_cookie() {
    let node = Node::new("regtest");
    let port = free_port();
    let mut godwit = Answering::start_at(&node, port, &[]);
    let datadir = format!("-datadir={}", node.datadir().display());
    let words = ["-regtest", &datadir, &format!("-rpcport={port}"), "-rpcwait", "getblockcount"];
    let said = ask(&words.map(str::to_owned), "");
    assert_eq!((said.code, said.out.as_str()), (Some(0), "0\n"), "{said:?}");
    assert!(godwit.running.terminate().1.success());
}

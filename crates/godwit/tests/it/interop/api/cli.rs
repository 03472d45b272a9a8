//! Core's `bitcoin-cli` and `godwit-cli`, each with each node.

use std::process::Command;

use serde_json::json;

use super::super::process::cached;
use super::super::rpc::{PASSWORD, USER};
use super::super::{bitcoind, free_port, wait_until};
use super::Answering;
use crate::client::{Said, ask, said};
use crate::node::Node;

/// What both clients are told, and what they read. The last word of each is an argument, or an option's.
fn commands() -> Vec<(Vec<&'static str>, &'static str)> {
    let mut commands = vec![
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
        (vec!["-rpcport=+1", "getblockcount"], ""),
        (vec!["-rpcconnect=127.0.0.1:+1", "getblockcount"], ""),
        (vec!["-", "-nonsense", "getblockcount"], ""),
        (vec!["-"], ""),
        (vec!["-rpcconnect=127.0.0.1:x", "getblockcount"], ""),
        (vec!["-getinfo", "x"], ""),
        (vec!["-addrinfo"], ""),
        (vec!["-addrinfo", "x"], ""),
        (vec!["-generate"], ""),
        (vec!["-generate", "2"], ""),
        (vec!["-generate", "-getinfo"], ""),
        (vec!["-netinfo", "x"], ""),
        (vec!["-netinfo", "+1"], ""),
        (vec!["-netinfo", "0", "o"], ""),
        (vec!["-netinfo", "1", "x"], ""),
        (vec!["-stdinwalletpassphrase", "getblockcount"], ""),
        (vec!["-stdinwalletpassphrase", "walletpassphrase", "5"], "secret\n"),
        (
            vec![
                "-signetchallenge=51",
                "-vbparams=a:0:0",
                "-testactivationheight=segwit@1",
                "getblockcount",
            ],
            "",
        ),
        (vec!["-named", "gettxspendingprevout", "[]", "mempool_only=true"], ""),
        (vec!["-named", "gettxspendingprevout", "[]", "mempool_only=x"], ""),
        (vec!["deriveaddresses", "raw(51)#8lvh9jxk", "[0,1]"], ""),
        (vec!["estimatesmartfee", "6"], ""),
    ];
    commands.extend(settings().into_iter().map(|words| (words, "")));
    commands
}

/// Options whose values, negations and absence mean something.
fn settings() -> Vec<Vec<&'static str>> {
    vec![
        vec!["-rpcwait=false", "getblockcount"],
        vec!["-norpcwait=0", "getblockcount"],
        vec!["-named=no", "getblockhash", "0"],
        vec!["-chain=regtest", "getblockcount"],
        vec!["-noregtest=0", "getblockcount"],
        vec!["-nochain", "-noregtest", "getblockcount"],
        vec!["-version=0", "getblockcount"],
        vec!["-noversion", "getblockcount"],
        vec!["-rpcid", "getblockcount"],
        vec!["-norpcid", "getblockcount"],
        vec!["-nocolor", "getblockcount"],
        vec!["-nodatadir", "getblockcount"],
        vec!["-norpcwaittimeout", "getblockcount"],
        vec!["-norpcport", "getblockcount"],
        vec!["-rpccookiefile=", "getblockcount"],
        vec!["-noconf", "getblockcount"],
        vec!["-ipcconnect=auto", "getblockcount"],
        vec!["-noipcconnect", "getblockcount"],
        vec!["-ipcconnect=unix", "getblockcount"],
        vec!["-ipcconnect=unix", "-rpcconnect=127.0.0.1", "getblockcount"],
    ]
}

pub(super) fn words(port: u16, words: &[&str]) -> Vec<String> {
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
pub(super) fn assert_same(ours: &Said, theirs: &Said, what: &[&str]) {
    assert_eq!(ours.code, theirs.code, "{what:?}: {ours:?} {theirs:?}");
    let named = |text: &str| text.replace("godwit-cli", "bitcoin-cli");
    assert_eq!(ours.out, theirs.out, "{what:?}");
    assert_eq!(named(&ours.err), named(&theirs.err), "{what:?}");
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
        if !matches!(command.first(), Some(&"validateaddress" | &"estimatesmartfee")) {
            assert_same(&of_godwit, &of_core, &command);
        }
    }
}

/// The same file for both clients, without a server.
#[test]
fn both_clients_read_a_configuration_alike() {
    let Some(program) = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli") else { return };
    let dir = tempfile::tempdir().expect("a temporary directory");
    let port = free_port();
    for text in [
        format!("regtest=1\n[regtest]\nrpcport={port}\n"),
        format!("regtest=1\nregtest.rpcport={port}\n"),
        // Of the main network alone.
        format!("regtest=1\nrpcport={port}\n"),
        format!("rpcport={port}\n"),
        format!("includeconf=other.conf\nrpcport={port}\n"),
        format!("noregtest=0\n[regtest]\nrpcport={port}\n"),
        format!("regtest=0\nregtest=1\n[regtest]\nrpcport={port}\n"),
        format!("rpcport=1\nnorpcport=1\nrpcport={port}\n"),
        "regtest=1\nnorpcport=1\n".to_owned(),
        "norpcid=1\n".to_owned(),
        "nochain=1\n".to_owned(),
        "rpcpassword=a#b\n".to_owned(),
        "rpcpassword=a # b\n".to_owned(),
        "server=1 # a comment\n\n-regtest\n".to_owned(),
        "noserver\n".to_owned(),
        "server\n".to_owned(),
    ] {
        let file = dir.path().join("a.conf");
        std::fs::write(&file, &text).expect("a temporary file");
        let words = [
            format!("-datadir={}", dir.path().display()),
            format!("-conf={}", file.display()),
            "getblockcount".to_owned(),
        ];
        let mut core = Command::new(&program);
        core.args(&words);
        let (ours, theirs) = (ask(&words, ""), said(core, ""));
        // Each names its own program.
        let of_theirs = theirs.err.replace("bitcoind server", "godwit server");
        assert_same(&ours, &Said { err: of_theirs, ..theirs }, &[&text]);
    }
    let words = ["-datadir=/nonexistent", "getblockcount"].map(str::to_owned);
    let mut core = Command::new(&program);
    core.args(&words);
    assert_same(&ask(&words, ""), &said(core, ""), &["-datadir"]);
}

/// What is shown of the connections, of each node by each client, but for the line with the client's name.
#[test]
fn both_clients_show_connections_alike() {
    let Some(program) = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli") else { return };
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let connect = format!("-addnode=127.0.0.1:{}", bitcoind.port);
    let godwit = Answering::start(&node, &[connect]);
    wait_until("they are connected", || {
        let peers = bitcoind.rpc.call("getpeerinfo", &json!([]));
        let ours = godwit.call("getpeerinfo", &json!([]));
        peers[0]["pingtime"].is_number() && ours[0]["pingtime"].is_number()
    });
    // Ages are of another second each time.
    let shown = |said: Said| {
        assert_eq!(said.code, Some(0), "{said:?}");
        let lines = said.out.lines().skip(1).map(|line| match line.get(..3) {
            Some("in " | " in" | "out") if line.contains("npr") || line.contains("ipv4") => {
                line.chars().take(30).collect()
            }
            _ => line.to_owned(),
        });
        lines.collect::<Vec<String>>()
    };
    for level in ["0", "1", "2", "3", "4", "9"] {
        for outonly in [vec![], vec!["outonly"]] {
            if level == "0" && !outonly.is_empty() {
                continue;
            }
            let command = [vec!["-netinfo", level], outonly].concat();
            for port in [bitcoind.rpc.port(), godwit.port] {
                let mut core = Command::new(&program);
                core.args(words(port, &command));
                let ours = shown(ask(&words(port, &command), ""));
                assert_eq!(ours, shown(said(core, "")), "{command:?}");
            }
        }
    }
    let help = ask(&words(godwit.port, &["-netinfo", "help"]), "");
    assert!(help.out.starts_with("-netinfo (level [outonly]) | help"), "{help:?}");
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
    // A directory that is not there is an error of the client's user.
    wait_until("the directory is there", || node.datadir().is_dir());
    let datadir = format!("-datadir={}", node.datadir().display());
    for (question, answer) in [("-getinfo", "Chain: regtest\n"), ("getblockcount", "0\n")] {
        let words = ["-regtest", &datadir, &format!("-rpcport={port}"), "-rpcwait", question];
        let said = ask(&words.map(str::to_owned), "");
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.starts_with(answer), "{said:?}");
    }
    assert!(godwit.running.terminate().1.success());

    // bitcoin-cli finds its way through the same directory.
    let Some(program) = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli") else { return };
    let mut godwit = Answering::start_at(&node, port, &[]);
    for (question, answer) in [("-getinfo", "Chain: regtest\n"), ("getblockcount", "0\n")] {
        // It reads the cookie before it connects (`bitcoin-cli.cpp`, `CallRPC`): a node that is started in
        // between refuses it, and it waits no longer.
        let mut asked = std::iter::repeat_with(|| {
            let mut core = Command::new(&program);
            core.args(["-regtest", &datadir, &format!("-rpcport={port}"), "-rpcwait", question]);
            said(core, "")
        })
        .take(5);
        let said = asked.find(|said| !said.err.contains("Failed to read cookie file"));
        let said = said.expect("the cookie is there at the next attempt");
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.out.starts_with(answer), "{said:?}");
    }
    assert!(godwit.running.terminate().1.success());
}

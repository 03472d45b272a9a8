//! The calls of tools that no registry has, as their sources make them, and every field that they read of the
//! answers: Core Lightning's `bcli`, the Prometheus exporter for Bitcoin Core, BTC RPC Explorer.

use std::process::Command;

use serde_json::{Value, json};

use super::super::process::cached;
use super::super::rpc::{PASSWORD, USER};
use super::Backend;
use crate::client::{Said, ask, said};
use crate::node::Node;

/// Runs a client with these words, and this on its standard input.
type Run = dyn Fn(&[String], &str) -> Said;

/// `bitcoin-cli` as `bcli` runs it (plugins/bcli.c): the password on standard input, output and errors in
/// one.
struct Bcli<'a> {
    name: &'static str,
    run: Box<Run>,
    backend: &'a Backend<'a>,
}

impl Bcli<'_> {
    /// The exit code and what was said.
    fn call(&self, words: &[&str]) -> (i32, String) {
        let mut all = vec![
            "-regtest".to_owned(),
            "-rpcclienttimeout=60".to_owned(),
            "-rpcconnect=127.0.0.1".to_owned(),
            format!("-rpcport={}", self.backend.port()),
            format!("-rpcuser={USER}"),
            "-stdinrpcpass".to_owned(),
        ];
        all.extend(words.iter().map(|word| (*word).to_owned()));
        let said = (self.run)(&all, PASSWORD);
        (said.code.expect("it exits"), said.out + &said.err)
    }

    #[track_caller]
    fn json(&self, words: &[&str]) -> Value {
        let (code, said) = self.call(words);
        assert_eq!(code, 0, "{}: {words:?}: {said}", self.name);
        serde_json::from_str(&said).unwrap_or_else(|error| panic!("{words:?}: {said}: {error}"))
    }
}

/// Every client that Core Lightning can be given.
fn clients<'a>(backend: &'a Backend<'a>) -> Vec<Bcli<'a>> {
    let ours =
        Bcli { name: "godwit-cli", run: Box::new(|words, input| ask(words, input)), backend };
    let core = cached("bitcoin-cli", "bitcoind/build/bin/bitcoin-cli").map(|program| {
        let run = move |words: &[String], input: &str| {
            let mut command = Command::new(&program);
            command.args(words);
            said(command, input)
        };
        Bcli { name: "bitcoin-cli", run: Box::new(run), backend }
    });
    [ours].into_iter().chain(core).collect()
}

/// What a Lightning node asks: is the node fit, where is the chain, what is in a block, is an output
/// unspent, what does a transaction cost.
#[track_caller]
fn core_lightning_asks(bcli: &Bcli<'_>, unspent: (&str, i64), spent: &str) {
    let network = bcli.json(&["getnetworkinfo"]);
    assert!(network["version"].as_u64() >= Some(220_000), "{network}");
    assert_eq!(network["localrelay"], true, "it does not start otherwise");
    let (height, hash) = bcli.backend.tip();
    let info = bcli.json(&["getblockchaininfo"]);
    let expected = json!(["regtest", height, height, false]);
    let fields = ["chain", "headers", "blocks", "initialblockdownload"];
    assert_eq!(json!(fields.map(|field| info[field].clone())), expected);

    // A line end is cut off, nothing else.
    assert_eq!(bcli.call(&["getblockhash", &height.to_string()]), (0, format!("{hash}\n")));
    let block = bcli.backend.branch.last().map(hex::encode).expect("blocks were mined");
    assert_eq!(bcli.call(&["getblock", &hash, "0"]), (0, format!("{block}\n")));
    // Code 8 says that there is no such block yet; any other is tried again for a minute.
    assert_eq!(bcli.call(&["getblockhash", &(height + 1).to_string()]).0, 8);

    let (txid, satoshi) = unspent;
    let output = bcli.json(&["gettxout", txid, "0"]);
    assert_eq!(output["value"].to_string(), amount(satoshi));
    assert_eq!(output["scriptPubKey"]["hex"], "51");
    // Nothing at all is how it learns that an output is spent.
    assert_eq!(bcli.call(&["gettxout", spent, "0"]), (0, String::new()));

    let mempool = bcli.json(&["getmempoolinfo"]);
    for fee in ["mempoolminfee", "minrelaytxfee"] {
        assert!(mempool[fee].as_f64() > Some(0.0), "{mempool}");
    }
    for (blocks, style) in [("2", "CONSERVATIVE"), ("6", "ECONOMICAL"), ("100", "ECONOMICAL")] {
        let fee = bcli.json(&["estimatesmartfee", blocks, style]);
        assert!(fee.get("feerate").is_none_or(Value::is_number), "{fee}");
    }
    assert_eq!(bcli.json(&["echo", "hello world"]), json!(["hello world"]));
}

/// Satoshi with eight decimals.
fn amount(satoshi: i64) -> String {
    format!("{}.{:08}", satoshi / 100_000_000, satoshi % 100_000_000)
}

#[test]
fn core_lightning_gets_what_it_asks_for_by_either_client() {
    let node = Node::new("regtest");
    let mut backend = Backend::start(&node, &[]);
    let first = backend.pay_to_anyone(0);
    let second = backend.pay_to_anyone(1);
    let [one, two] = [&first, &second].map(|tx| (tx.txid().to_string(), tx.outputs[0].value));
    backend.mine(&[first]);
    for bcli in clients(&backend) {
        core_lightning_asks(&bcli, (&one.0, one.1), &two.0);
    }
    // What was there is not, and what was not is.
    backend.replace(1, &[&[second], &[]]);
    for bcli in clients(&backend) {
        core_lightning_asks(&bcli, (&two.0, two.1), &one.0);
    }
    backend.restart();
    for bcli in clients(&backend) {
        core_lightning_asks(&bcli, (&two.0, two.1), &one.0);
    }
}

/// A field that is read, as a JSON pointer, and whether it is what its reader takes.
type Field = (&'static str, fn(&Value) -> bool);

/// Asks, and looks at every field.
#[track_caller]
fn read(backend: &Backend<'_>, method: &str, params: Value, fields: &[Field]) -> Value {
    let reply = backend.godwit.call(method, &params);
    for (pointer, is_fit) in fields {
        let value = reply.pointer(pointer);
        assert!(value.is_some_and(is_fit), "{method} {params}: {pointer}: {value:?} in {reply}");
    }
    reply
}

fn is_count(value: &Value) -> bool {
    value.is_u64()
}

fn is_number(value: &Value) -> bool {
    value.is_number()
}

fn is_text(value: &Value) -> bool {
    value.is_string()
}

fn is_flag(value: &Value) -> bool {
    value.is_boolean()
}

fn is_list(value: &Value) -> bool {
    value.is_array()
}

/// One round of the exporter (bitcoind-monitor.py, `refresh_metrics`).
#[track_caller]
fn the_exporter_asks(backend: &Backend<'_>) {
    read(backend, "uptime", json!([]), &[("", is_count)]);
    let locked = ["used", "free", "total", "locked", "chunks_used", "chunks_free"];
    let memory = read(backend, "getmemoryinfo", json!(["stats"]), &[]);
    for field in locked {
        assert!(memory["locked"][field].is_u64(), "{field}: {memory}");
    }
    let info = read(
        backend,
        "getblockchaininfo",
        json!([]),
        &[
            ("/bestblockhash", is_text),
            ("/blocks", is_count),
            ("/difficulty", is_number),
            ("/size_on_disk", is_count),
            ("/verificationprogress", is_number),
        ],
    );
    assert_eq!(json!([info["blocks"], info["bestblockhash"]]), json!(backend.tip()));
    read(
        backend,
        "getnetworkinfo",
        json!([]),
        &[
            ("/connections", is_count),
            ("/version", is_count),
            ("/protocolversion", is_count),
            ("/warnings", is_list),
        ],
    );
    read(backend, "getchaintips", json!([]), &[("/0", Value::is_object)]);
    let mempool: [Field; 3] = [("/bytes", is_count), ("/size", is_count), ("/usage", is_count)];
    read(backend, "getmempoolinfo", json!([]), &mempool);
    let totals: [Field; 2] = [("/totalbytesrecv", is_count), ("/totalbytessent", is_count)];
    read(backend, "getnettotals", json!([]), &totals);
    let block = read(
        backend,
        "getblock",
        json!([info["bestblockhash"], 2]),
        &[
            ("/size", is_count),
            ("/nTx", is_count),
            ("/height", is_count),
            ("/weight", is_count),
            ("/tx/0/vin/0", Value::is_object),
            ("/tx/0/vout/0/value", is_number),
        ],
    );
    assert_eq!(block["height"], backend.tip().0);
    for blocks in [120, -1, 1] {
        read(backend, "getnetworkhashps", json!([blocks]), &[("", is_number)]);
    }
    for blocks in [2, 3, 5, 20] {
        let fee = read(backend, "estimatesmartfee", json!([blocks]), &[]);
        assert!(fee.get("feerate").is_none_or(Value::is_number), "{fee}");
    }
    read(
        backend,
        "listbanned",
        json!([]),
        &[("/0/address", is_text), ("/0/ban_created", is_count), ("/0/banned_until", is_count)],
    );
}

/// What other versions of the exporter ask of the last block.
#[track_caller]
fn the_exporter_asks_for_statistics(backend: &Backend<'_>) {
    let stats =
        ["total_size", "total_weight", "totalfee", "txs", "height", "ins", "outs", "total_out"];
    let reply = read(backend, "getblockstats", json!([backend.tip().1, stats]), &[]);
    for field in stats {
        assert!(reply[field].is_u64(), "{field}: {reply}");
    }
    assert_eq!(reply.as_object().map(serde_json::Map::len), Some(stats.len()));
}

/// The pages of the explorer (app/api/rpcApi.js).
#[track_caller]
fn the_explorer_asks(backend: &Backend<'_>, txid: &str) {
    of_the_node(backend);
    of_its_work(backend);
    of_the_last_block(backend);
    of_transactions(backend, txid);
    of_coins_and_an_address(backend);
}

#[track_caller]
fn of_the_node(backend: &Backend<'_>) {
    read(
        backend,
        "getblockchaininfo",
        json!([]),
        &[
            ("/chain", is_text),
            ("/blocks", is_count),
            ("/headers", is_count),
            ("/bestblockhash", is_text),
            ("/difficulty", is_number),
            ("/mediantime", is_count),
            ("/verificationprogress", is_number),
            ("/initialblockdownload", is_flag),
            ("/chainwork", is_text),
            ("/size_on_disk", is_count),
            ("/pruned", is_flag),
            ("/warnings", is_list),
        ],
    );
    let network = read(
        backend,
        "getnetworkinfo",
        json!([]),
        &[
            ("/version", is_count),
            ("/subversion", is_text),
            ("/protocolversion", is_count),
            ("/localservices", is_text),
            ("/localservicesnames", is_list),
            ("/timeoffset", Value::is_i64),
            ("/networkactive", is_flag),
            ("/connections", is_count),
            ("/networks/0/name", is_text),
            ("/relayfee", is_number),
            ("/localaddresses", is_list),
        ],
    );
    // With a suffix it takes every call for present.
    assert!(network["subversion"].as_str().is_some_and(|name| name.starts_with("/Satoshi:31.")));
    read(backend, "getindexinfo", json!([]), &[("/txindex/synced", is_flag)]);
    read(backend, "getdeploymentinfo", json!([]), &[("/deployments/taproot/active", is_flag)]);
    let help = read(backend, "help", json!([]), &[]);
    assert!(help.as_str().is_some_and(|help| help.contains("getblock ")), "{help}");
    read(backend, "help", json!(["getblock"]), &[("", is_text)]);
}

#[track_caller]
fn of_its_work(backend: &Backend<'_>) {
    let height = backend.tip().0;
    let totals: [Field; 2] = [("/totalbytesrecv", is_count), ("/totalbytessent", is_count)];
    read(backend, "getnettotals", json!([]), &totals);
    read(backend, "uptime", json!([]), &[("", is_count)]);
    read(backend, "getpeerinfo", json!([]), &[("", is_list)]);
    let mining: [Field; 2] = [("/networkhashps", is_number), ("/difficulty", is_number)];
    read(backend, "getmininginfo", json!([]), &mining);
    read(backend, "getnetworkhashps", json!([144]), &[("", is_number)]);
    read(
        backend,
        "getmempoolinfo",
        json!([]),
        &[
            ("/size", is_count),
            ("/bytes", is_count),
            ("/usage", is_count),
            ("/maxmempool", is_count),
        ],
    );
    assert_eq!(read(backend, "getrawmempool", json!([false]), &[]), json!([]));
    for mode in ["CONSERVATIVE", "ECONOMICAL"] {
        read(backend, "estimatesmartfee", json!([6, mode]), &[("/blocks", is_count)]);
    }
    read(
        backend,
        "getchaintxstats",
        json!([height - 1]),
        &[("/txcount", is_count), ("/window_tx_count", is_count), ("/txrate", is_number)],
    );
}

#[track_caller]
fn of_the_last_block(backend: &Backend<'_>) {
    let (height, hash) = backend.tip();
    assert_eq!(read(backend, "getblockcount", json!([]), &[]), height);
    assert_eq!(read(backend, "getblockhash", json!([height]), &[]), json!(hash));
    read(
        backend,
        "getblockheader",
        json!([hash]),
        &[
            ("/hash", is_text),
            ("/height", is_count),
            ("/time", is_count),
            ("/nTx", is_count),
            ("/previousblockhash", is_text),
        ],
    );
    read(
        backend,
        "getblock",
        json!([hash]),
        &[
            ("/tx/0", is_text),
            ("/height", is_count),
            ("/confirmations", is_count),
            ("/size", is_count),
            ("/weight", is_count),
            ("/version", is_count),
            ("/merkleroot", is_text),
            ("/time", is_count),
            ("/nonce", is_count),
            ("/bits", is_text),
            ("/difficulty", is_number),
            ("/chainwork", is_text),
        ],
    );
    let stats: [Field; 10] = [
        ("/avgfee", is_count),
        ("/feerate_percentiles", is_list),
        ("/ins", is_count),
        ("/outs", is_count),
        ("/subsidy", is_count),
        ("/swtotal_weight", is_count),
        ("/total_out", is_count),
        ("/totalfee", is_count),
        ("/txs", is_count),
        ("/utxo_increase", Value::is_i64),
    ];
    read(backend, "getblockstats", json!([hash]), &stats);
    read(backend, "getblockstats", json!([height]), &stats);
}

#[track_caller]
fn of_transactions(backend: &Backend<'_>, txid: &str) {
    let hash = backend.tip().1;
    let of_transaction: [Field; 12] = [
        ("/txid", is_text),
        ("/hash", is_text),
        ("/hex", is_text),
        ("/version", is_count),
        ("/size", is_count),
        ("/vsize", is_count),
        ("/locktime", is_count),
        ("/vout/0/value", is_number),
        ("/vout/0/n", is_count),
        ("/vout/0/scriptPubKey/hex", is_text),
        ("/blockhash", is_text),
        ("/confirmations", is_count),
    ];
    let block = backend.godwit.call("getblock", &json!([hash]));
    // Of a block's coinbase it gives the block, of others it does not: -txindex knows it.
    let coinbase =
        read(backend, "getrawtransaction", json!([block["tx"][0], 1, hash]), &of_transaction);
    assert!(coinbase["vin"][0]["coinbase"].is_string(), "{coinbase}");
    let paid = read(backend, "getrawtransaction", json!([txid, 1]), &of_transaction);
    assert!(paid["vin"][0]["txid"].is_string(), "{paid}");
    let output: [Field; 4] = [
        ("/value", is_number),
        ("/confirmations", is_count),
        ("/scriptPubKey/hex", is_text),
        ("/coinbase", is_flag),
    ];
    read(backend, "gettxout", json!([txid, 0]), &output);
}

#[track_caller]
fn of_coins_and_an_address(backend: &Backend<'_>) {
    read(
        backend,
        "gettxoutsetinfo",
        json!([]),
        &[
            ("/height", is_count),
            ("/bestblock", is_text),
            ("/transactions", is_count),
            ("/txouts", is_count),
            ("/disk_size", is_count),
            ("/total_amount", is_number),
        ],
    );
    let address = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";
    read(
        backend,
        "validateaddress",
        json!([address]),
        &[
            ("/isvalid", |value| *value == true),
            ("/address", is_text),
            ("/scriptPubKey", is_text),
            ("/isscript", is_flag),
            ("/iswitness", is_flag),
            ("/witness_version", is_count),
            ("/witness_program", is_text),
        ],
    );
}

#[test]
fn the_exporter_and_the_explorer_find_every_field_that_they_read() {
    let node = Node::new("regtest");
    let mut backend = Backend::start(&node, &["-txindex=1".to_owned()]);
    backend.godwit.call("setban", &json!(["192.0.2.1", "add"]));
    let (first, second) = (backend.pay_to_anyone(0), backend.pay_to_anyone(1));
    let [one, two] = [&first, &second].map(|tx| tx.txid().to_string());
    let both_ask = |backend: &Backend<'_>, txid: &str| {
        backend.wait_for_indexes();
        the_exporter_asks(backend);
        the_exporter_asks_for_statistics(backend);
        the_explorer_asks(backend, txid);
    };
    backend.mine(&[first]);
    both_ask(&backend, &one);
    backend.replace(1, &[&[], &[second]]);
    both_ask(&backend, &two);
    backend.restart();
    both_ask(&backend, &two);
}

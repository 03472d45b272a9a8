//! Transactions that are sent: what godwit says of them beside bitcoind's mempool, and that bitcoind hears of
//! them and mines them.

mod cases;
mod notified;
mod transactions;

use godwit_primitives::{OutPoint, Transaction};
use godwit_stream::DataStream;
use serde_json::{Value, json};

use super::super::process::ForeignNode;
use super::super::{bitcoind, block, chain, wait_until};
use super::Answering;
use super::differ::differences;
use super::http::{exchange, get};
use super::rest::{Request, assert_same};
use crate::node::Node;
use transactions::{Coins, Tx, to_true};

/// Blocks of the beginning: 100 of them make the first coins spendable.
const BLOCKS: usize = 180;

/// Two nodes with the same chain, and its coins.
struct Both<'a> {
    godwit: Answering<'a>,
    bitcoind: ForeignNode,
    coins: Coins,
}

impl<'a> Both<'a> {
    /// `None` without a bitcoind.
    fn start(node: &'a Node, options: &[String]) -> Option<Self> {
        Self::start_beside(&bitcoind::Start::default(), node, options)
    }

    fn start_beside(
        start: &bitcoind::Start<'_>,
        node: &'a Node,
        options: &[String],
    ) -> Option<Self> {
        let bitcoind = bitcoind::start(start)?;
        let godwit = Answering::start(node, options);
        let address =
            bitcoind.rpc.call("decodescript", &json!(["51"]))["segwit"]["address"].clone();
        let coins = Coins::new(address.as_str().expect("an address"));
        let mut both = Self { godwit, bitcoind, coins };
        both.mine(BLOCKS);
        Some(both)
    }

    /// Has bitcoind mine blocks, and gives them to godwit.
    fn mine(&mut self, count: usize) {
        let to = json!([count, self.coins.address]);
        let hashes = self.bitcoind.rpc.call("generatetoaddress", &to);
        for hash in hashes.as_array().expect("hashes") {
            self.give(hash);
            let block = self.bitcoind.rpc.call("getblock", &json!([hash, 1]));
            self.coins.add(block["tx"][0].as_str().expect("a txid"));
        }
    }

    /// Has bitcoind mine a block with these transactions alone.
    fn mine_with(&self, txs: &[&Tx]) {
        let hex: Vec<String> = txs.iter().map(|tx| tx.hex()).collect();
        let mined = self.bitcoind.rpc.call("generateblock", &json!([self.coins.address, hex]));
        self.give(&mined["hash"]);
    }

    fn give(&self, hash: &Value) {
        let block = self.bitcoind.rpc.call("getblock", &json!([hash, 0]));
        assert_eq!(self.godwit.call("submitblock", &json!([block])), Value::Null);
    }

    fn differences(&self, method: &str, params: &Value) -> Vec<String> {
        differences(self.godwit.port, self.bitcoind.rpc.port(), method, params)
    }

    /// Asks both about these transactions, and then sends them to both.
    fn try_and_send(&self, what: &str, tx: &Tx, found: &mut Vec<String>) {
        let asked = [
            ("testmempoolaccept", json!([[tx.hex()]])),
            ("sendrawtransaction", json!([tx.hex()])),
            ("getmempoolentry", json!([tx.txid()])),
            ("getrawtransaction", json!([tx.txid()])),
        ];
        for (method, params) in asked {
            let new = self.differences(method, &params);
            found.extend(new.into_iter().map(|line| format!("{what}: {}", shortened(&line))));
        }
    }
}

fn shortened(line: &str) -> String {
    let long = line.len() > 700;
    if long {
        format!("{} … {}", &line[..300], &line[line.len() - 390..])
    } else {
        line.to_owned()
    }
}

#[test]
fn what_is_said_of_transactions_is_what_bitcoind_says() {
    let node = Node::new("regtest");
    let Some(mut both) = Both::start(&node, &[]) else { return };
    let mut found = cases::alone(&mut both);
    found.extend(cases::together(&mut both));
    found.extend(cases::pool(&both));
    found.extend(cases::arguments(&mut both));
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn what_bitcoind_has_removed_is_brought_back_as_by_it() {
    let node = Node::new("regtest");
    let options = ["-deprecatedrpc=bip125", "-deprecatedrpc=fullrbf", "-deprecatedrpc=warnings"];
    let start = bitcoind::Start { options: &options, ..bitcoind::Start::default() };
    let ours = [&options[..], &["-rest=1"]].concat().into_iter().map(str::to_owned);
    let ours: Vec<String> = ours.collect();
    let Some(mut both) = Both::start_beside(&start, &node, &ours) else { return };
    let sequence = |sequence| move |tx: &mut Transaction| tx.inputs[0].sequence = sequence;
    let signals = |coin| Tx::spending(coin).with(sequence(0xffff_fffd)).paying(1_000);
    let final_after = |coin| Tx::spending(coin).with(sequence(0xffff_fffe)).paying(1_000);
    let (root, other_root) = (signals(both.coins.take()), final_after(both.coins.take()));
    let child = final_after(root.output(0));
    let (grandchild, other_child) = (final_after(child.output(0)), signals(other_root.output(0)));
    let mut found = Vec::new();
    for (tx, is_replaceable) in [
        (&root, true),
        (&child, true),
        (&grandchild, true),
        (&other_root, false),
        (&other_child, true),
    ] {
        both.try_and_send("brought back", tx, &mut found);
        let entry = both.godwit.call("getmempoolentry", &json!([tx.txid()]));
        assert_eq!(entry["bip125-replaceable"], is_replaceable);
        let all = both.godwit.call("getrawmempool", &json!([true]));
        assert_eq!(all[tx.txid().as_str().expect("a txid")], entry);
    }
    found.extend(both.differences("getmempoolinfo", &json!([])));
    assert_eq!(both.godwit.call("getmempoolinfo", &json!([]))["fullrbf"], true);
    for (part, method, params) in
        [("info", "getmempoolinfo", json!([])), ("contents", "getrawmempool", json!([true]))]
    {
        let asked = get(&format!("/rest/mempool/{part}.json"), b"");
        let answer = exchange(both.godwit.port, &asked).expect("an answer");
        let answer: Value = serde_json::from_slice(&answer.body).expect("JSON");
        assert_eq!(answer, both.godwit.call(method, &params));
    }
    for method in ["getblockchaininfo", "getmininginfo", "getnetworkinfo"] {
        assert_eq!(both.godwit.call(method, &json!([]))["warnings"], "");
        assert!(both.bitcoind.rpc.call(method, &json!([]))["warnings"].is_string());
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

#[test]
fn resources_show_what_waits_as_those_of_bitcoind_do() {
    let node = Node::new("regtest");
    let Some(mut both) = Both::start(&node, &["-rest=1".to_owned()]) else { return };
    let coin = both.coins.take();
    let parent = Tx::spending(coin).with_output(100_000, &to_true()).paying(1_000);
    let child = Tx::spending(parent.output(0)).paying(1_000);
    // What the parent spends, what the child spends of it, what is left, no output at all, and the child's.
    let (of_parent, of_child) = (parent.0.txid(), child.0.txid());
    let outpoints = [0, 1, 2].map(|vout| OutPoint { txid: of_parent, vout });
    let outpoints = [&[coin.outpoint][..], &outpoints, &[child.output(0).outpoint]].concat();
    let named: Vec<String> =
        outpoints.iter().map(|OutPoint { txid, vout }| format!("{txid}-{vout}")).collect();
    let named = named.join("/");
    let mut body: DataStream = DataStream::new();
    body.write_compact_size(outpoints.len() as u64);
    outpoints.iter().for_each(|outpoint| body.put(outpoint));
    let body = body.as_slice();
    let mut asked: Vec<Request> = vec![
        ("/rest/getutxos.bin".to_owned(), body.to_vec()),
        ("/rest/getutxos.hex".to_owned(), hex::encode(body).into_bytes()),
    ];
    for format in ["bin", "hex", "json", "xml"] {
        for name in [
            format!("getutxos/{named}"),
            format!("getutxos/checkmempool/{named}"),
            format!("tx/{of_parent}"),
            format!("tx/{of_child}"),
        ] {
            asked.push((format!("/rest/{name}.{format}"), Vec::new()));
        }
    }
    let bitmap = |both: &Both<'_>, first: &str| {
        let asked = get(&format!("/rest/getutxos/{first}{named}.json"), b"");
        exchange(both.godwit.port, &asked).expect("an answer").json()["bitmap"].clone()
    };
    let bitmaps = |both: &Both<'_>| (bitmap(both, ""), bitmap(both, "checkmempool/"));
    let [before, sent, mined] = [("10000", "10000"), ("10000", "00101"), ("00101", "00101")]
        .map(|(plain, with_outbox)| (json!(plain), json!(with_outbox)));
    let ports = (both.godwit.port, both.bitcoind.rpc.port());
    assert_eq!(bitmaps(&both), before);
    for tx in [&parent, &child] {
        for rpc in [&both.godwit.rpc, &both.bitcoind.rpc] {
            rpc.call("sendrawtransaction", &json!([tx.hex()]));
        }
    }
    assert_eq!(bitmaps(&both), sent);
    assert_same(ports.0, ports.1, &asked);
    both.mine(1);
    assert_eq!(bitmaps(&both), mined);
    assert_same(ports.0, ports.1, &asked);
}

#[test]
fn bitcoind_hears_of_a_transaction_and_mines_it() {
    let node = Node::new("regtest");
    let Some(mut both) = Both::start(&node, &[]) else { return };
    let parent = Tx::spending(both.coins.take()).paying(1_000);
    let child = Tx::spending(parent.output(0)).paying(2_000);
    for tx in [&parent, &child] {
        assert_eq!(both.godwit.call("sendrawtransaction", &json!([tx.hex()])), tx.txid());
    }
    let waiting = |godwit: &Answering<'_>| godwit.call("getrawmempool", &json!([]));
    assert_eq!(waiting(&both.godwit), json!([parent.txid(), child.txid()]));
    // The outbox outlives the node.
    let Both { mut godwit, bitcoind, coins } = both;
    godwit.call("stop", &json!([]));
    godwit.running.wait();
    let godwit = Answering::start(&node, &[]);
    assert_eq!(waiting(&godwit), json!([parent.txid(), child.txid()]));
    let peer = format!("127.0.0.1:{}", bitcoind.port);
    godwit.call("addnode", &json!([peer, "onetry"]));
    wait_until("bitcoind has both", || {
        bitcoind.rpc.call("getrawmempool", &json!([])).as_array().is_some_and(|all| all.len() == 2)
    });
    both = Both { godwit, bitcoind, coins };
    assert_eq!(both.godwit.call("getmempoolinfo", &json!([]))["unbroadcastcount"], 0);
    // A block has them: godwit hears of it as a peer.
    both.bitcoind.rpc.call("generatetoaddress", &json!([1, both.coins.address]));
    wait_until("a block has them", || waiting(&both.godwit) == json!([]));
    let out = |tx: &Tx| both.godwit.call("gettxout", &json!([tx.txid(), 0]));
    assert_eq!((out(&parent), out(&child)["confirmations"].clone()), (Value::Null, json!(1)));
    // The block is left: they wait again.
    let tip = both.godwit.call("getbestblockhash", &json!([]));
    both.godwit.call("invalidateblock", &json!([tip]));
    wait_until("they wait again", || waiting(&both.godwit) == json!([parent.txid(), child.txid()]));
    both.godwit.call("reconsiderblock", &json!([tip]));
    wait_until("a block has them again", || waiting(&both.godwit) == json!([]));
}

/// The blocks of this chain have room, so what is needed is the least; how blocks without room are judged,
/// `fee_history.rs` tests.
#[test]
fn fees_are_those_of_the_last_blocks() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    wait_until("it is synced", || {
        godwit.call("getblockchaininfo", &json!([]))["initialblockdownload"] == false
    });
    let tip = chain.height();
    for height in tip - 143..=tip {
        let stats = godwit.call("getblockstats", &json!([height, ["total_weight"]]));
        assert!(stats["total_weight"].as_u64() < Some(3_700_000), "{height}: {stats}");
    }
    let ask = |godwit: &Answering<'_>, params: &Value| godwit.call("estimatesmartfee", params);
    let known = |blocks: u32| -> Value {
        let text =
            format!(r#"{{"feerate":0.00000100,"blocks":{blocks},"estimator":"block_history"}}"#);
        serde_json::from_str(&text).expect("JSON")
    };
    for (target, blocks) in [(1, 2), (2, 2), (6, 6), (72, 72), (73, 72), (1008, 72)] {
        for mode in ["economical", "CONSERVATIVE", "unset"] {
            assert_eq!(ask(&godwit, &json!([target, mode])), known(blocks), "{target}");
        }
    }
    // A block more, and one that is taken back.
    let above = block::on(chain.tip(), chain.summary.height + 1, 3, &[]);
    godwit.call("submitblock", &json!([hex::encode(&above)]));
    assert_eq!(ask(&godwit, &json!([6])), known(6));
    godwit.call("invalidateblock", &json!([chain::hash(&above)]));
    assert_eq!(ask(&godwit, &json!([6])), known(6));
    godwit.running.terminate();

    // Too few blocks, though it is synced.
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let unknown = json!({
        "errors": ["Insufficient data or no feerate found"],
        "blocks": 0,
        "estimator": "block_history",
    });
    assert_eq!(ask(&godwit, &json!([6])), unknown);
    for (blocks, answer) in [(11, unknown), (1, known(6))] {
        godwit.call("generatetodescriptor", &json!([blocks, "raw(51)"]));
        wait_until("it is synced", || {
            godwit.call("getblockchaininfo", &json!([]))["initialblockdownload"] == false
        });
        assert_eq!(ask(&godwit, &json!([6])), answer);
    }
}

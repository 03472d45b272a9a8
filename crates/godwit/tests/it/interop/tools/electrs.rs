//! electrs, with godwit as its node: 0.12, which reads REST, and 0.11, a peer. What a wallet is told by the
//! Electrum protocol is compared with what godwit itself tells of its coins and blocks.

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use godwit_primitives::sha256::{sha256, sha256d};
use godwit_primitives::{OutPoint, Transaction, TxIn, TxOut, Txid};
use serde_json::{Value, json};

use super::super::api::Answering;
use super::super::block::hex_of;
use super::super::process::{Place, Program, cached};
use super::super::rpc::{PASSWORD, USER};
use super::super::{free_port, wait_until};
use super::{generate, leave_for_empty_blocks, mine_what_was_sent};
use crate::node::Node;

/// Longer than electrs takes to answer on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// What its own requests take behind a wallet's.
const REQUESTS: Duration = Duration::from_millis(300);

/// Blocks below everything else: the first coinbases can be spent, and heights have two bytes.
const BLOCKS: u32 = 140;

/// What a transaction leaves to its miner, in satoshi.
const FEE: i64 = 1_000;

/// Two scripts that anyone can spend: OP_TRUE, and OP_2.
const MINERS: u8 = 0x51;
const PAID: u8 = 0x52;

/// The output that pays to the hash of such a script.
fn paying_to(script: u8) -> Vec<u8> {
    [&[0, 32][..], &sha256(&[script])].concat()
}

/// What the Electrum protocol calls a script: the hash of the output's script, backwards, in hex.
fn script_hash(script: u8) -> String {
    let mut hash = sha256(&paying_to(script));
    hash.reverse();
    hex::encode(hash)
}

/// All of a coin of [`MINERS`] but the fee, for [`PAID`].
fn payment(outpoint: OutPoint, satoshi: i64, script: u8) -> Transaction {
    let witness = vec![vec![script]];
    let input = TxIn { prevout: outpoint, script_sig: Vec::new(), sequence: 0xffff_fffd, witness };
    let output = TxOut { value: satoshi - FEE, script_pubkey: paying_to(PAID) };
    Transaction { version: 2, inputs: vec![input], outputs: vec![output], lock_time: 0 }
}

/// An electrs and a wallet that is connected to it.
struct Electrs {
    program: Program,
    wallet: Wallet,
    port: u16,
    // Its data lie there.
    _place: Place,
}

impl Electrs {
    /// `None` without one in the cache.
    #[track_caller]
    fn start(version: &str, godwit: &Answering<'_>, options: &[String]) -> Option<Self> {
        let program =
            cached(&format!("electrs {version}"), &format!("tools-electrs/electrs-{version}"))?;
        let (place, monitoring) = (Place::new(), free_port());
        let settings = place.path("electrs.toml");
        // Passwords come from a file alone.
        fs::write(&settings, format!("auth = \"{USER}:{PASSWORD}\"\n")).expect("a temporary file");
        let mut command = Command::new(program);
        command.args(["--skip-default-conf-files", "--network=regtest", "--wait-duration-secs=1"]);
        command.arg("--conf").arg(settings);
        command.arg("--db-dir").arg(place.path("db"));
        command.arg(format!("--daemon-rpc-addr=127.0.0.1:{}", godwit.port));
        command.arg(format!("--electrum-rpc-addr=127.0.0.1:{}", place.rpc_port));
        command.arg(format!("--monitoring-addr=127.0.0.1:{monitoring}"));
        command.arg("--log-filters=INFO");
        // Why it ended is to be among the last lines.
        command.env("RUST_BACKTRACE", "0");
        command.args(options);
        let mut program = Program::start_saying(command, place.path("said"));
        let wallet = Wallet::connect(&mut program, place.rpc_port);
        Some(Self { program, wallet, port: place.rpc_port, _place: place })
    }

    /// Starts it again with what it has, after it was killed.
    #[track_caller]
    fn restart(&mut self) {
        if self.program.is_alive() {
            self.program.kill();
        }
        self.program.start_again();
        self.wallet = Wallet::connect(&mut self.program, self.port);
    }

    /// Goes on after the end of the node, which it survives unless a request of its meets the end of a
    /// connection: with any node.
    #[track_caller]
    fn outlive_the_node(&mut self) {
        if self.wallet.try_exchange("server.ping", &json!([])).is_some() {
            return;
        }
        wait_until("electrs ends", || !self.program.is_alive());
        let lost = ["Peer disconnected", "Connection reset by peer", "Broken pipe"];
        let is_lost = lost.iter().any(|text| self.program.logged(text));
        assert!(is_lost && self.program.logged("sync failed"), "electrs ended");
        self.restart();
    }

    #[track_caller]
    fn ask(&mut self, method: &str, params: &Value) -> Value {
        let answer = self.wallet.exchange(method, params);
        assert!(answer.get("error").is_none(), "{method} {params}: {answer}");
        answer["result"].clone()
    }

    /// Waits until it has the node's last block.
    #[track_caller]
    fn wait_for_tip(&mut self, godwit: &Answering<'_>) {
        let tip = godwit.call("getbestblockhash", &json!([]));
        let header = godwit.call("getblockheader", &json!([tip, false]));
        let height = godwit.call("getblockcount", &json!([]));
        wait_until("electrs has the last block", || {
            assert!(self.program.is_alive(), "electrs ended");
            let last = self.ask("blockchain.headers.subscribe", &json!([]));
            last == json!({ "hex": header, "height": height })
        });
    }

    /// Waits until what it knows of a script is this list of heights (0: unconfirmed, -1: of
    /// unconfirmed parents) and transactions.
    #[track_caller]
    fn wait_for_history(&mut self, script: u8, expected: &[(i64, Txid)]) {
        let asked = json!([script_hash(script)]);
        let expected: Vec<(Value, Value)> = expected
            .iter()
            .map(|(height, txid)| (json!(height), json!(txid.to_string())))
            .collect();
        let mut found = Vec::new();
        let what = format!("electrs knows {expected:?}");
        wait_until(&what, || {
            let history = self.ask("blockchain.scripthash.get_history", &asked);
            let history = history.as_array().expect("a list");
            found = history
                .iter()
                .map(|item| (item["height"].clone(), item["tx_hash"].clone()))
                .collect();
            found == expected
        });
    }

    /// Confirmed and unconfirmed satoshi.
    #[track_caller]
    fn balance(&mut self, script: u8) -> (i64, i64) {
        let balance = self.ask("blockchain.scripthash.get_balance", &json!([script_hash(script)]));
        let satoshi = |name: &str| balance[name].as_i64().expect("satoshi");
        (satoshi("confirmed"), satoshi("unconfirmed"))
    }

    /// Whether the confirmed coins of a script are those that the node has.
    #[track_caller]
    fn has_the_coins_of_the_node(&mut self, godwit: &Answering<'_>, script: u8) {
        let descriptor = format!("raw({})", hex::encode(paying_to(script)));
        let scanned = godwit.call("scantxoutset", &json!(["start", [descriptor]]));
        let coin = |txid: &Value, vout: &Value, height: &Value| {
            (txid.as_str().expect("a txid").to_owned(), vout.as_u64(), height.as_u64())
        };
        let unspent = scanned["unspents"].as_array().expect("a list").iter();
        let mut theirs: Vec<_> =
            unspent.map(|item| coin(&item["txid"], &item["vout"], &item["height"])).collect();
        let listed = self.ask("blockchain.scripthash.listunspent", &json!([script_hash(script)]));
        let listed = listed.as_array().expect("a list").iter();
        let mut ours: Vec<_> =
            listed.map(|item| coin(&item["tx_hash"], &item["tx_pos"], &item["height"])).collect();
        theirs.sort();
        ours.sort();
        assert_eq!(ours, theirs);
    }

    /// Whether the transaction is what the block at that height has, by electrs's proof and by the
    /// node's header.
    #[track_caller]
    fn proves(&mut self, godwit: &Answering<'_>, height: u32, transaction: &Transaction) {
        let txid = transaction.txid();
        let shown = json!(txid.to_string());
        assert_eq!(self.ask("blockchain.transaction.get", &json!([shown])), hex_of(transaction));
        let proof = self.ask("blockchain.transaction.get_merkle", &json!([shown, height]));
        let mut place = proof["pos"].as_u64().expect("a place");
        let mut hash = txid.to_bytes();
        for sibling in proof["merkle"].as_array().expect("a branch") {
            let mut sibling = hex::decode(sibling.as_str().expect("hex")).expect("hex");
            sibling.reverse();
            let pair =
                if place.is_multiple_of(2) { [&hash[..], &sibling] } else { [&sibling[..], &hash] };
            hash = sha256d(&pair.concat());
            place /= 2;
        }
        let header = self.ask("blockchain.block.header", &json!([height]));
        let header = hex::decode(header.as_str().expect("hex")).expect("hex");
        assert_eq!(header[36..68], hash, "the proof ends in the header's root");
        let block = godwit.call("getblockhash", &json!([height]));
        assert_eq!(
            json!(hex::encode(&header)),
            godwit.call("getblockheader", &json!([block, false]))
        );
        let verbose = self.ask("blockchain.transaction.get", &json!([shown, true]));
        assert_eq!(verbose["blockhash"], block);
        let theirs = godwit.call("getrawtransaction", &json!([shown, true, block]));
        assert_eq!(without_last_zeros(verbose), without_last_zeros(theirs));
    }
}

/// electrs passes a transaction on, but reads its amounts as numbers.
fn without_last_zeros(mut transaction: Value) -> Value {
    for output in transaction["vout"].as_array_mut().expect("outputs") {
        output["value"] = json!(output["value"].as_f64());
    }
    transaction
}

/// One connection of the Electrum protocol: JSON-RPC by lines.
struct Wallet {
    lines: BufReader<TcpStream>,
    asked: u64,
    /// Methods and parameters of what came without being asked for.
    notices: Vec<Value>,
}

impl Wallet {
    #[track_caller]
    fn connect(program: &mut Program, port: u16) -> Self {
        let mut stream = None;
        wait_until("electrs listens", || {
            assert!(program.is_alive(), "electrs ended");
            stream = TcpStream::connect(("127.0.0.1", port)).ok();
            stream.is_some()
        });
        let stream = stream.expect("it listens");
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let mut wallet = Self { lines: BufReader::new(stream), asked: 0, notices: Vec::new() };
        let version = wallet.exchange("server.version", &json!(["godwit's tests", "1.4"]));
        assert_eq!(version["result"][1], "1.4", "{version}");
        // electrs 0.11 listens before its index can be asked.
        wait_until("electrs has its index", || {
            let answer = wallet.exchange("server.ping", &json!([]));
            assert!(answer["error"].is_null() || answer["error"]["message"] == "unavailable index");
            answer["error"].is_null()
        });
        wallet
    }

    /// The whole answer, with its result or its error.
    #[track_caller]
    fn exchange(&mut self, method: &str, params: &Value) -> Value {
        self.try_exchange(method, params).expect("electrs answers")
    }

    /// The whole answer; `None` where the connection ends.
    #[track_caller]
    fn try_exchange(&mut self, method: &str, params: &Value) -> Option<Value> {
        self.asked += 1;
        let request =
            json!({ "jsonrpc": "2.0", "id": self.asked, "method": method, "params": params });
        writeln!(self.lines.get_mut(), "{request}").ok()?;
        loop {
            let mut line = String::new();
            match self.lines.read_line(&mut line) {
                Ok(0) => return None,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
                Err(error) => panic!("electrs does not answer: {error}"),
            }
            let message: Value = serde_json::from_str(&line).expect("electrs speaks JSON");
            if message.get("id").is_some() {
                assert_eq!(message["id"], self.asked, "{message}");
                return Some(message);
            }
            self.notices.push(message);
        }
    }

    /// Whether it was told of the method since it was last asked.
    fn was_told(&mut self, method: &str) -> bool {
        let told = self.notices.iter().any(|notice| notice["method"] == method);
        self.notices.retain(|notice| notice["method"] != method);
        told
    }
}

/// The address of a script's hash.
fn address(godwit: &Answering<'_>, script: u8) -> String {
    let decoded = godwit.call("decodescript", &json!([hex::encode([script])]));
    decoded["segwit"]["address"].as_str().expect("an address").to_owned()
}

/// The coinbase of the block at that height, which pays to [`MINERS`].
fn coinbase(godwit: &Answering<'_>, height: u32) -> (OutPoint, i64) {
    let hash = godwit.call("getblockhash", &json!([height]));
    let block = godwit.call("getblock", &json!([hash, 1]));
    let txid: Txid = block["tx"][0].as_str().expect("a txid").parse().expect("a txid");
    (OutPoint { txid, vout: 0 }, 5_000_000_000)
}

fn height(godwit: &Answering<'_>) -> u32 {
    let height = godwit.call("getblockcount", &json!([])).as_u64().expect("a height");
    u32::try_from(height).expect("few blocks")
}

/// What does not go by transactions.
#[track_caller]
fn ask_for_the_rest(electrs: &mut Electrs, godwit: &Answering<'_>) {
    let relay = godwit.call("getnetworkinfo", &json!([]))["relayfee"].clone();
    assert_eq!(electrs.ask("blockchain.relayfee", &json!([])).as_f64(), relay.as_f64());
    let estimate = godwit.call("estimatesmartfee", &json!([6]))["feerate"].clone();
    assert_eq!(electrs.ask("blockchain.estimatefee", &json!([6])).as_f64(), estimate.as_f64());
    let features = electrs.ask("server.features", &json!([]));
    assert_eq!(features["genesis_hash"], godwit.call("getblockhash", &json!([0])));
    let headers = electrs.ask("blockchain.block.headers", &json!([0, 2016]));
    assert_eq!(headers["count"], height(godwit) + 1);
}

/// A payment is sent through electrs, mined, left with its block, and mined again.
#[track_caller]
fn pay(electrs: &mut Electrs, godwit: &Answering<'_>, miners: &str) -> (Transaction, u32) {
    let (outpoint, satoshi) = coinbase(godwit, 1);
    let transaction = payment(outpoint, satoshi, MINERS);
    let txid = transaction.txid();
    let subscribed = json!([script_hash(PAID)]);
    assert_eq!(electrs.ask("blockchain.scripthash.subscribe", &subscribed), Value::Null);
    let sent = electrs.ask("blockchain.transaction.broadcast", &json!([hex_of(&transaction)]));
    assert_eq!(sent, txid.to_string());
    electrs.wait_for_history(PAID, &[(0, txid)]);
    assert_eq!(electrs.balance(PAID), (0, satoshi - FEE));
    assert!(electrs.wallet.was_told("blockchain.scripthash.subscribe"));
    assert_ne!(electrs.ask("mempool.get_fee_histogram", &json!([])), json!([]));
    assert_eq!(
        electrs.ask("blockchain.transaction.get", &json!([txid.to_string()])),
        hex_of(&transaction)
    );

    mine_what_was_sent(godwit, 1);
    let mined = height(godwit);
    electrs.wait_for_tip(godwit);
    electrs.wait_for_history(PAID, &[(i64::from(mined), txid)]);
    assert_eq!(electrs.balance(PAID), (satoshi - FEE, 0));
    assert!(electrs.wallet.was_told("blockchain.headers.subscribe"));
    electrs.proves(godwit, mined, &transaction);

    // It is left with two blocks above it.
    generate(godwit, 2, miners);
    electrs.wait_for_tip(godwit);
    leave_for_empty_blocks(godwit, 3);
    electrs.wait_for_tip(godwit);
    electrs.wait_for_history(PAID, &[(0, txid)]);
    mine_what_was_sent(godwit, 1);
    let mined = height(godwit);
    electrs.wait_for_tip(godwit);
    electrs.wait_for_history(PAID, &[(i64::from(mined), txid)]);
    electrs.proves(godwit, mined, &transaction);
    (transaction, mined)
}

/// What is wrong is refused in the node's words.
#[track_caller]
fn send_what_is_refused(electrs: &mut Electrs, spent: &Transaction) {
    let again = payment(spent.inputs[0].prevout, 4_000_000_000, MINERS);
    let answer =
        electrs.wallet.exchange("blockchain.transaction.broadcast", &json!([hex_of(&again)]));
    assert_eq!(answer["error"]["message"], "bad-txns-inputs-missingorspent", "{answer}");
}

#[track_caller]
fn a_wallet_lives(
    version: &str,
    electrs_survives: bool,
    node_options: &[String],
    electrs_options: &[String],
) {
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, node_options);
    let miners = address(&godwit, MINERS);
    generate(&godwit, BLOCKS, &miners);
    let Some(mut electrs) = Electrs::start(version, &godwit, electrs_options) else { return };
    electrs.wait_for_tip(&godwit);
    electrs.has_the_coins_of_the_node(&godwit, MINERS);
    ask_for_the_rest(&mut electrs, &godwit);
    let (first, mined) = pay(&mut electrs, &godwit, &miners);
    send_what_is_refused(&mut electrs, &first);

    // It ends as in a power cut, while the node goes on and leaves the block that it has.
    electrs.program.kill();
    leave_for_empty_blocks(&godwit, 1);
    mine_what_was_sent(&godwit, 1);
    electrs.restart();
    electrs.wait_for_tip(&godwit);
    electrs.wait_for_history(PAID, &[(i64::from(mined) + 2, first.txid())]);

    // The node ends and starts again, with a transaction that waits.
    let output = OutPoint { txid: first.txid(), vout: 0 };
    let second = payment(output, first.outputs[0].value, PAID);
    electrs.ask("blockchain.transaction.broadcast", &json!([hex_of(&second)]));
    let mined = i64::from(mined) + 2;
    electrs.wait_for_history(PAID, &[(mined, first.txid()), (0, second.txid())]);
    // It asks the node right behind a wallet's request, and then once a second: hardly at the end.
    thread::sleep(REQUESTS);
    godwit.restart(&node, node_options);
    match electrs_survives {
        true => electrs.outlive_the_node(),
        false => electrs.restart(),
    }
    electrs.wait_for_history(PAID, &[(mined, first.txid()), (0, second.txid())]);
    mine_what_was_sent(&godwit, 1);
    electrs.wait_for_tip(&godwit);
    let last = height(&godwit);
    electrs.wait_for_history(PAID, &[(mined, first.txid()), (i64::from(last), second.txid())]);
    electrs.proves(&godwit, last, &second);
    for script in [MINERS, PAID] {
        electrs.has_the_coins_of_the_node(&godwit, script);
    }
}

#[test]
fn electrs_0_12_serves_a_wallet_from_rest() {
    a_wallet_lives("0.12.0", true, &["-rest=1".to_owned()], &[]);
}

#[test]
fn electrs_0_11_serves_a_wallet_as_a_peer() {
    let port = free_port();
    // It wants `bip125-replaceable` of `getmempoolentry`, which Bitcoin Core removed after 31.0.
    let brought_back = "-deprecatedrpc=bip125".to_owned();
    let node = [format!("-port={port}"), "-listen=1".to_owned(), brought_back];
    // A lost peer ends it.
    a_wallet_lives("0.11.1", false, &node, &[format!("--daemon-p2p-addr=127.0.0.1:{port}")]);
}

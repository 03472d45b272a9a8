//! lnd, with godwit as its node: by ZeroMQ and by polling. Two of them pay each other on a channel.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};

use super::super::api::Answering;
use super::super::process::{Place, Program, cached};
use super::super::rpc::{PASSWORD, USER};
use super::super::{free_port, wait_until};
use super::{ELSEWHERE, generate, leave_for_empty_blocks, mine_what_was_sent};
use crate::node::Node;

/// The one that `tools/build-lnd` builds.
const VERSION: &str = "v0.21.0-beta";

/// Longer than it takes to open a channel on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A coinbase, in satoshi.
const FIFTY: &str = "5000000000";

/// Blocks until lnd takes a channel for usable, or for closed.
const CONFIRMATIONS: u32 = 6;

/// A lightning node with a wallet, whose REST interface wants no password.
struct Lnd {
    program: Program,
    place: Place,
    rest: u16,
}

impl Lnd {
    /// `None` without one in the cache. `options` say how it hears of blocks.
    #[track_caller]
    fn start(godwit: &Answering<'_>, options: &[String]) -> Option<Self> {
        let program = cached(&format!("lnd {VERSION}"), &format!("tools-lnd/lnd-{VERSION}"))?;
        let (place, rest) = (Place::new(), free_port());
        let mut command = Command::new(program);
        command.args(["--noseedbackup", "--no-macaroons", "--no-rest-tls", "--nobootstrap"]);
        command.args(["--bitcoin.regtest", "--bitcoin.node=bitcoind", "--maxpendingchannels=2"]);
        command.arg(format!("--lnddir={}", place.path("lnd").display()));
        command.arg(format!("--restlisten=127.0.0.1:{rest}"));
        command.arg(format!("--rpclisten=127.0.0.1:{}", place.rpc_port));
        command.arg(format!("--listen=127.0.0.1:{}", place.port));
        command.arg(format!("--bitcoind.rpchost=127.0.0.1:{}", godwit.port));
        command.arg(format!("--bitcoind.rpcuser={USER}"));
        command.arg(format!("--bitcoind.rpcpass={PASSWORD}"));
        command.args(options);
        // It looks for a bitcoind's settings in the user's directory.
        command.env("HOME", place.temp.path());
        let program = Program::start_saying(command, place.path("said"));
        Some(Self { program, place, rest })
    }

    /// Sends a request; `None` while nobody listens.
    fn send(&self, method: &str, target: &str, body: &str) -> Option<TcpStream> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.rest)).ok()?;
        stream.set_read_timeout(Some(TIMEOUT)).expect("a socket");
        let length = body.len();
        // Of HTTP 1.0, so that the answer comes in one piece.
        let head = format!("{method} {target} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n{body}");
        stream.write_all(head.as_bytes()).ok()?;
        Some(stream)
    }

    /// The answer, or why there is none; null while nobody answers.
    fn try_ask(&self, method: &str, target: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let Some(mut stream) = self.send(method, target, &body) else { return Value::Null };
        let mut answer = String::new();
        if stream.read_to_string(&mut answer).is_err() {
            return Value::Null;
        }
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        serde_json::from_str(body).unwrap_or(Value::Null)
    }

    /// An answer that is an error has a `code`.
    #[track_caller]
    fn ask(&self, method: &str, target: &str, body: &Value) -> Value {
        let answer = self.try_ask(method, target, body);
        assert!(answer.is_object() && answer.get("code").is_none(), "{target}: {answer}");
        answer
    }

    #[track_caller]
    fn get(&self, target: &str) -> Value {
        self.ask("GET", target, &Value::Null)
    }

    /// Whether it is at the node's tip, and says so.
    #[track_caller]
    fn is_at_tip(&mut self, godwit: &Answering<'_>) -> bool {
        assert!(self.program.is_alive(), "lnd ended");
        let info = self.try_ask("GET", "/v1/getinfo", &Value::Null);
        info["synced_to_chain"] == true
            && info["block_hash"] == godwit.call("getbestblockhash", &json!([]))
    }

    #[track_caller]
    fn wait_for_tip(&mut self, godwit: &Answering<'_>) {
        wait_until("lnd is synced to the chain", || self.is_at_tip(godwit));
    }

    fn confirmed(&self) -> Value {
        self.get("/v1/balance/blockchain")["confirmed_balance"].clone()
    }

    fn address(&self) -> String {
        let address = self.get("/v1/newaddress?type=WITNESS_PUBKEY_HASH");
        address["address"].as_str().expect("an address").to_owned()
    }

    fn open_channels(&self) -> Vec<Value> {
        let channels = self.get("/v1/channels?active_only=true");
        channels["channels"].as_array().cloned().unwrap_or_default()
    }

    /// Ends it and starts it again.
    #[track_caller]
    fn restart(&mut self) {
        self.ask("POST", "/v1/stop", &json!({}));
        wait_until("lnd ends", || !self.program.is_alive());
        self.program.start_again();
    }
}

/// Alice has a coinbase.
#[track_caller]
fn fund(godwit: &Answering<'_>, alice: &mut Lnd) {
    generate(godwit, 1, &alice.address());
    generate(godwit, 100, ELSEWHERE);
    alice.wait_for_tip(godwit);
    wait_until("the coinbase is spendable", || alice.confirmed() == FIFTY);
}

#[track_caller]
fn open_channel(godwit: &Answering<'_>, alice: &Lnd, bob: &Lnd) {
    let key = bob.get("/v1/getinfo")["identity_pubkey"].clone();
    let address = json!({ "pubkey": key, "host": format!("127.0.0.1:{}", bob.place.port) });
    alice.ask("POST", "/v1/peers", &json!({ "addr": address }));
    let wanted = json!({
        "node_pubkey_string": key,
        "local_funding_amount": "1000000",
        "sat_per_vbyte": "5"
    });
    wait_until("the channel is funded", || {
        let answer = alice.try_ask("POST", "/v1/channels", &wanted);
        answer.get("funding_txid_bytes").is_some()
    });
    mine_what_was_sent(godwit, 1);
    generate(godwit, CONFIRMATIONS, ELSEWHERE);
    wait_until("the channel is usable", || {
        [alice, bob].iter().all(|lnd| lnd.open_channels().len() == 1)
    });
}

#[track_caller]
fn pay_on_the_channel(alice: &Lnd, bob: &Lnd) {
    let invoice = bob.ask("POST", "/v1/invoices", &json!({ "value": "4321" }));
    let request = json!({
        "payment_request": invoice["payment_request"],
        "timeout_seconds": 60,
        "no_inflight_updates": true
    });
    // Until it knows of the channel, a moment after its link is up, it finds no way to pay.
    wait_until("the payment succeeds", || {
        let paid = alice.ask("POST", "/v2/router/send", &request);
        paid["result"]["status"] == "SUCCEEDED"
    });
    wait_until("the payment is settled", || {
        bob.get("/v1/balance/channels")["local_balance"]["sat"] == "4321"
    });
}

/// A payment on the chain is mined, left with its block, and mined again. It is in the last of the
/// blocks that are left: of those below it btcwallet's `reorg` tells the hashes of their parents, so
/// that lnd's wallet never takes back what they had, whatever its node is.
#[track_caller]
fn pay_on_the_chain(godwit: &Answering<'_>, alice: &mut Lnd, bob: &mut Lnd) {
    generate(godwit, 2, ELSEWHERE);
    alice.wait_for_tip(godwit);
    let payment = json!({ "addr": bob.address(), "amount": "100000", "sat_per_vbyte": "5" });
    alice.ask("POST", "/v1/transactions", &payment);
    mine_what_was_sent(godwit, 1);
    bob.wait_for_tip(godwit);
    wait_until("the payment is in a block", || bob.confirmed() == "100000");
    leave_for_empty_blocks(godwit, 3);
    for lnd in [&mut *alice, &mut *bob] {
        lnd.wait_for_tip(godwit);
    }
    wait_until("the payment is in no block", || bob.confirmed() == "0");
    mine_what_was_sent(godwit, 1);
    bob.wait_for_tip(godwit);
    wait_until("the payment is in a block again", || bob.confirmed() == "100000");
}

#[track_caller]
fn close_channel(godwit: &Answering<'_>, alice: &Lnd, bob: &Lnd) {
    wait_until("the channel is usable", || {
        [alice, bob].iter().all(|lnd| lnd.open_channels().len() == 1)
    });
    let point = alice.open_channels()[0]["channel_point"].as_str().expect("a text").to_owned();
    let target = format!("/v1/channels/{}?sat_per_vbyte=5", point.replace(':', "/"));
    let answers = alice.send("DELETE", &target, "").expect("it listens");
    let mut lines = BufReader::new(answers).lines().map_while(Result::ok);
    let pending = lines.find(|line| line.contains("close_pending") || line.contains("error"));
    assert!(pending.as_ref().is_some_and(|line| line.contains("close_pending")), "{pending:?}");
    mine_what_was_sent(godwit, 1);
    generate(godwit, CONFIRMATIONS, ELSEWHERE);
    wait_until("the channel is closed", || {
        [alice, bob].iter().all(|lnd| {
            let closed = &lnd.get("/v1/channels/closed")["channels"];
            closed[0]["close_type"] == "COOPERATIVE_CLOSE"
        })
    });
    wait_until("the channel's money is on the chain", || bob.confirmed() == "104321");
}

/// A publisher keeps nothing for a subscriber that is not back yet. lnd asks for the blocks that it
/// missed when it hears of the next one.
#[track_caller]
fn follow_again(godwit: &Answering<'_>, alice: &mut Lnd, bob: &mut Lnd) {
    wait_until("both follow the node again", || {
        generate(godwit, 1, ELSEWHERE);
        (0..100).any(|_| {
            thread::sleep(Duration::from_millis(20));
            alice.is_at_tip(godwit) && bob.is_at_tip(godwit)
        })
    });
}

/// From the start to the end of a channel.
#[track_caller]
fn two_lnds_live(publishing: &[String], hearing: &[String]) {
    let node = Node::new("regtest");
    let mut godwit = Answering::start(&node, publishing);
    generate(&godwit, 120, ELSEWHERE);
    let Some(mut alice) = Lnd::start(&godwit, hearing) else { return };
    let mut bob = Lnd::start(&godwit, hearing).expect("it is there");
    alice.wait_for_tip(&godwit);
    bob.wait_for_tip(&godwit);
    fund(&godwit, &mut alice);
    bob.wait_for_tip(&godwit);
    open_channel(&godwit, &alice, &bob);
    pay_on_the_channel(&alice, &bob);
    pay_on_the_chain(&godwit, &mut alice, &mut bob);
    // Each ends once, and goes on with what it has.
    bob.restart();
    generate(&godwit, 2, ELSEWHERE);
    bob.wait_for_tip(&godwit);
    godwit.restart(&node, publishing);
    follow_again(&godwit, &mut alice, &mut bob);
    close_channel(&godwit, &alice, &bob);
}

#[test]
fn two_lnds_open_use_and_close_a_channel_by_zmq() {
    let [blocks, txs] = [free_port(), free_port()].map(|port| format!("tcp://127.0.0.1:{port}"));
    let publishing = [format!("-zmqpubrawblock={blocks}"), format!("-zmqpubrawtx={txs}")];
    let hearing =
        [format!("--bitcoind.zmqpubrawblock={blocks}"), format!("--bitcoind.zmqpubrawtx={txs}")];
    two_lnds_live(&publishing, &hearing);
}

#[test]
fn two_lnds_open_use_and_close_a_channel_by_polling() {
    let hearing = [
        "--bitcoind.rpcpolling",
        "--bitcoind.blockpollinginterval=1s",
        "--bitcoind.txpollinginterval=1s",
    ];
    two_lnds_live(&[], &hearing.map(str::to_owned));
}

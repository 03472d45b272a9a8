//! Notifications over ZeroMQ, as libzmq hears them: through pyzmq, which nobody here wrote.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use godwit_primitives::{Block, Transaction};
use serde_json::{Value, json};

use super::super::chain::RecentChain;
use super::super::process::cached;
use super::super::{block, chain, free_port};
use super::Answering;
use crate::node::Node;

/// Prints each message of these subscriptions.
const SUBSCRIBER: &str = r#"
import sys, threading, zmq
context = zmq.Context()
# Or the lines of two addresses mix: print writes their ends separately.
one_at_a_time = threading.Lock()
for argument in sys.argv[1:]:
    address, _, topics = argument.partition(" ")
    def listen(address, topics):
        socket = context.socket(zmq.SUB)
        socket.setsockopt(zmq.IPV6, 1)
        for topic in topics.split(","):
            socket.setsockopt(zmq.SUBSCRIBE, topic.encode())
        socket.connect(address)
        while True:
            topic, body, number = socket.recv_multipart()
            with one_at_a_time:
                print(address, topic.decode(), body.hex(), int.from_bytes(number, "little"), flush=True)
    threading.Thread(target=listen, args=(address, topics), daemon=True).start()
sys.stdin.read()
"#;

/// A message: its topic, its body in hexadecimal, its number.
pub(super) type Message = (String, String, u32);

pub(super) struct Subscriber {
    child: Child,
    /// Closed, it ends.
    _input: ChildStdin,
    lines: Receiver<(String, Message)>,
}

impl Subscriber {
    /// Of an address and topics each.
    pub(super) fn start(subscriptions: &[&str]) -> Option<Self> {
        let python = cached("pyzmq", "pyzmq/bin/python3")?;
        let mut command = Command::new(python);
        command.args(["-c", SUBSCRIBER]).args(subscriptions);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("Python starts");
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output.expect("a pipe")).lines() {
                let line = line.expect("text");
                let [address, topic, body, number] = line.split(' ').collect::<Vec<_>>()[..] else {
                    panic!("{line}");
                };
                let number = number.parse().expect("a number");
                let message = (topic.to_owned(), body.to_owned(), number);
                if sender.send((address.to_owned(), message)).is_err() {
                    return;
                }
            }
        });
        Some(Self { child, _input: input.expect("a pipe"), lines })
    }

    /// The next message of an address.
    #[track_caller]
    fn next(&self) -> (String, Message) {
        self.lines.recv_timeout(Duration::from_secs(120)).expect("a message")
    }

    /// The next message of any address that comes soon.
    #[track_caller]
    pub(super) fn next_soon(&self) -> Option<(String, Message)> {
        match self.lines.recv_timeout(Duration::from_millis(500)) {
            Err(RecvTimeoutError::Disconnected) => panic!("nobody listens any more"),
            message => message.ok(),
        }
    }

    /// What comes, until all was said of a tip.
    #[track_caller]
    pub(super) fn until_tip(&self, tip: &str) -> Vec<Message> {
        self.until(|(topic, body, _)| topic == "rawblock" && hash_of(body) == tip)
    }

    /// The same, with a first message in front. It may be the last one, too: a subscription may begin in the
    /// middle of a block.
    #[track_caller]
    pub(super) fn rest_until_tip(&self, first: Message, tip: &str) -> Vec<Message> {
        let (topic, body, _) = &first;
        let is_last = topic == "rawblock" && hash_of(body) == tip;
        let rest = if is_last { Vec::new() } else { self.until_tip(tip) };
        [vec![first], rest].concat()
    }

    /// What comes, until a block is disconnected.
    #[track_caller]
    fn until_left(&self, hash: &str) -> Vec<Message> {
        self.until(|(topic, body, _)| topic == "sequence" && *body == format!("{hash}44"))
    }

    /// What comes, until this one.
    #[track_caller]
    pub(super) fn until(&self, is_last: impl Fn(&Message) -> bool) -> Vec<Message> {
        let mut all = Vec::new();
        loop {
            let (_, message) = self.next();
            let ends = is_last(&message);
            all.push(message);
            if ends {
                return all;
            }
        }
    }
}

impl Drop for Subscriber {
    fn drop(&mut self) {
        let (Ok(()) | Err(_)) = self.child.kill();
        let (Ok(_) | Err(_)) = self.child.wait();
    }
}

fn hash_of(block: &str) -> String {
    chain::hash(&hex::decode(block).expect("hexadecimal"))
}

/// A model of what Core publishes of these events, in its order, as its source has it
/// (`zmqnotificationinterface.cpp`): no bitcoind is asked.
pub(super) struct Expected {
    numbers: std::collections::HashMap<&'static str, u32>,
    all: Vec<Message>,
}

impl Expected {
    pub(super) fn behind(heard: &[Message]) -> Self {
        let topics = ["hashblock", "hashtx", "rawblock", "rawtx", "sequence"];
        let next = |topic: &&'static str| {
            let last = heard.iter().rev().find(|(of, ..)| of == topic);
            (*topic, last.expect("every topic was heard").2 + 1)
        };
        Self { numbers: topics.iter().map(next).collect(), all: Vec::new() }
    }

    fn push(&mut self, topic: &'static str, body: String) {
        let number = self.numbers.get_mut(topic).expect("a topic");
        self.all.push((topic.to_owned(), body, *number));
        *number += 1;
    }

    fn transactions(&mut self, block: &[u8]) {
        let block = Block::from_bytes(block).expect("a block");
        for tx in block.view().txs() {
            self.push("hashtx", tx.txid().to_string());
            self.push("rawtx", hex::encode(tx.bytes()));
        }
    }

    pub(super) fn connected(&mut self, block: &[u8], is_tip: bool) {
        self.transactions(block);
        self.push("sequence", format!("{}43", chain::hash(block)));
        if is_tip {
            self.push("hashblock", chain::hash(block));
            self.push("rawblock", hex::encode(block));
        }
    }

    pub(super) fn disconnected(&mut self, block: &[u8]) {
        self.transactions(block);
        self.push("sequence", format!("{}44", chain::hash(block)));
    }

    /// A transaction waits for a block; `sequence` is that of the mempool.
    pub(super) fn added(&mut self, tx: &Transaction, sequence: u64) {
        self.push("hashtx", tx.txid().to_string());
        self.push("rawtx", block::hex_of(tx));
        self.changed(tx, "41", sequence);
    }

    /// It waits no longer.
    pub(super) fn removed(&mut self, tx: &Transaction, sequence: u64) {
        self.changed(tx, "52", sequence);
    }

    fn changed(&mut self, tx: &Transaction, label: &str, sequence: u64) {
        let sequence = hex::encode(sequence.to_le_bytes());
        self.push("sequence", format!("{}{label}{sequence}", tx.txid()));
    }

    /// The body of the last message that is expected.
    pub(super) fn last(&self) -> String {
        self.all.last().expect("something is expected").1.clone()
    }

    #[track_caller]
    pub(super) fn is(&mut self, heard: &[Message]) {
        let short = |all: &[Message]| {
            let line = |(topic, body, number): &Message| {
                format!("{topic} {} {number}", &body[..body.len().min(66)])
            };
            all.iter().map(line).collect::<Vec<_>>().join("\n")
        };
        assert_eq!(short(heard), short(&self.all));
        assert!(heard == self.all, "bodies differ");
        self.all.clear();
    }
}

fn publishing<'a>(
    node: &'a Node,
    chain: &RecentChain,
    addresses: &[(&str, &str)],
) -> Answering<'a> {
    let options: Vec<String> =
        addresses.iter().map(|(topic, address)| format!("-zmqpub{topic}={address}")).collect();
    Answering::with_chain(node, chain, &options)
}

#[test]
fn a_reorganisation_goes_down_and_then_up_as_libzmq_hears_it() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let (all, other) = (free_port(), free_port());
    let (all, other) = (format!("tcp://127.0.0.1:{all}"), format!("tcp://127.0.0.1:{other}"));
    let Some(subscriber) = Subscriber::start(&[&format!("{all} ")]) else { return };
    let topics = ["hashblock", "hashtx", "rawblock", "rawtx", "sequence"];
    let mut addresses = topics.map(|topic| (topic, all.as_str())).to_vec();
    addresses.push(("rawblock", &other));
    let godwit = publishing(&node, chain, &addresses);

    let notifiers = godwit.call("getzmqnotifications", &json!([]));
    let expected =
        [("hashblock", &all), ("hashtx", &all), ("rawblock", &all), ("rawblock", &other)]
            .into_iter()
            .chain([("rawtx", &all), ("sequence", &all)]);
    let expected: Vec<Value> = expected
        .map(|(topic, address)| json!({ "type": format!("pub{topic}"), "address": address, "hwm": 1000 }))
        .collect();
    assert_eq!(notifiers, json!(expected));

    // Until it has subscribed it hears nothing, and then all.
    let start = subscribed(&godwit, chain, &subscriber);
    let (base, heard) = (&start.0, start.1);
    let mut expected = Expected::behind(&heard);
    let submit = |block: &[u8]| {
        godwit.call("submitblock", &json!([hex::encode(block)]));
    };
    let height = chain.summary.height + start.2;

    let (outpoint, satoshi) = chain.bare[0];
    let first = block::on(base, height + 1, 21, &[block::spend(outpoint, satoshi, Vec::new())]);
    submit(&first);
    expected.connected(&first, true);
    expected.is(&subscriber.until_tip(&chain::hash(&first)));

    // A branch: nothing is told of it until it has more work, and then of its end.
    let (outpoint, satoshi) = chain.bare[1];
    let second = block::on(base, height + 1, 22, &[block::spend(outpoint, satoshi, Vec::new())]);
    let third = block::on(&second, height + 2, 23, &[]);
    submit(&second);
    submit(&third);
    expected.disconnected(&first);
    expected.connected(&second, false);
    expected.connected(&third, true);
    expected.is(&subscriber.until_tip(&chain::hash(&third)));

    // Back to the first: it has as much work as the second, and was there before.
    godwit.call("invalidateblock", &json!([chain::hash(&third)]));
    expected.disconnected(&third);
    expected.is(&subscriber.until_left(&chain::hash(&third)));
    expected.disconnected(&second);
    expected.connected(&first, true);
    expected.is(&subscriber.until_tip(&chain::hash(&first)));
    assert_eq!(godwit.call("getbestblockhash", &json!([])), chain::hash(&first));

    // And up again.
    godwit.call("reconsiderblock", &json!([chain::hash(&third)]));
    expected.disconnected(&first);
    expected.connected(&second, false);
    expected.connected(&third, true);
    expected.is(&subscriber.until_tip(&chain::hash(&third)));
}

/// The way back to a branch that was there earlier leads over a block with as much work as the last one that
/// was left: that is no tip.
#[test]
fn a_block_of_equal_work_on_the_way_is_no_tip_to_libzmq() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let address = format!("tcp://127.0.0.1:{}", free_port());
    let Some(subscriber) = Subscriber::start(&[&format!("{address} ")]) else { return };
    let topics = ["hashblock", "hashtx", "rawblock", "rawtx", "sequence"];
    let godwit = publishing(&node, chain, &topics.map(|topic| (topic, address.as_str())));
    let (base, heard, count) = subscribed(&godwit, chain, &subscriber);
    let mut expected = Expected::behind(&heard);
    let branch = |blocks: usize, nonce: u8| {
        let mut branch = vec![base.clone()];
        for height in (chain.summary.height + count + 1..).take(blocks) {
            branch.push(block::on(&branch[branch.len() - 1], height, nonce, &[]));
        }
        branch.split_off(1)
    };
    let (earlier, later) = (branch(3, 31), branch(4, 32));
    for block in earlier.iter().chain(&later) {
        godwit.call("submitblock", &json!([hex::encode(block)]));
    }
    earlier.iter().for_each(|block| expected.connected(block, true));
    earlier.iter().rev().for_each(|block| expected.disconnected(block));
    later.iter().enumerate().for_each(|(n, block)| expected.connected(block, n == 3));
    expected.is(&subscriber.until_tip(&chain::hash(&later[3])));

    godwit.call("invalidateblock", &json!([chain::hash(&later[2])]));
    later.iter().rev().for_each(|block| expected.disconnected(block));
    earlier.iter().enumerate().for_each(|(n, block)| expected.connected(block, n == 2));
    expected.is(&subscriber.until_tip(&chain::hash(&earlier[2])));
}

/// Mines blocks on the chain until the subscriber hears of one from its beginning; the last one, what was
/// heard, and how many there are.
fn subscribed(
    godwit: &Answering<'_>,
    chain: &RecentChain,
    subscriber: &Subscriber,
) -> (Vec<u8>, Vec<Message>, u32) {
    let mut tip = chain.tip().to_vec();
    for n in 1.. {
        tip = block::on(&tip, chain.summary.height + n, 20, &[]);
        godwit.call("submitblock", &json!([hex::encode(&tip)]));
        if let Some((_, first)) = subscriber.next_soon() {
            let heard = subscriber.rest_until_tip(first, &chain::hash(&tip));
            if heard.len() >= 5 {
                return (tip, heard, n);
            }
        }
    }
    unreachable!("it goes on until then");
}

#[test]
fn topics_are_chosen_by_their_beginnings() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let port = free_port();
    let (v4, v6) = (format!("tcp://127.0.0.1:{port}"), format!("tcp://[::1]:{port}"));
    let subscriptions = [format!("{v4} rawb,seq"), format!("{v6} hash")];
    let Some(subscriber) = Subscriber::start(&[&subscriptions[0], &subscriptions[1]]) else {
        return;
    };
    let addresses = [
        ("rawblock", v4.as_str()),
        ("rawtx", &v4),
        ("sequence", &v4),
        ("hashblock", &v6),
        ("hashtx", &v6),
    ];
    let godwit = publishing(&node, chain, &addresses);
    let mut heard = std::collections::BTreeSet::new();
    let mut tip = chain.tip().to_vec();
    for n in 1.. {
        tip = block::on(&tip, chain.summary.height + n, 20, &[]);
        godwit.call("submitblock", &json!([hex::encode(&tip)]));
        while let Some((address, (topic, ..))) = subscriber.next_soon() {
            heard.insert((address == v6, topic));
        }
        if heard.len() >= 4 {
            break;
        }
    }
    let expected =
        [(false, "rawblock"), (false, "sequence"), (true, "hashblock"), (true, "hashtx")];
    let heard: Vec<_> = heard.iter().map(|(is_v6, topic)| (*is_v6, topic.as_str())).collect();
    assert_eq!(heard, expected);
}

#[test]
fn an_address_that_is_taken_ends_the_node() {
    let node = Node::new("regtest");
    let taken = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("tcp://{}", taken.local_addr().expect("an address"));
    let options = [format!("-zmqpubrawtx={address}")];
    let mut godwit = Answering::start_at(&node, free_port(), &options);
    assert_eq!(godwit.running.wait().code(), Some(8));
    drop(taken);
}

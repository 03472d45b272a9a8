//! What subscribers hear of transactions that were sent, in Core's order, with the numbers that bitcoind's
//! mempool gives the same changes.

use serde_json::{Value, json};

use super::super::super::{block, chain, free_port};
use super::super::zmq::{Expected, Message, Subscriber};
use super::Both;
use super::transactions::Tx;
use crate::node::Node;

/// Everything, published at one address.
fn publishing() -> (String, Vec<String>) {
    let address = format!("tcp://127.0.0.1:{}", free_port());
    let topics = ["hashblock", "hashtx", "rawblock", "rawtx", "sequence"];
    let options = topics.map(|topic| format!("-zmqpub{topic}={address}"));
    (address, options.to_vec())
}

impl Both<'_> {
    /// Mines blocks until the subscriber hears of one from its beginning; what it heard.
    fn until_heard(&mut self, subscriber: &Subscriber) -> Vec<Message> {
        loop {
            self.mine(1);
            if let Some((_, first)) = subscriber.next_soon() {
                let heard = subscriber.rest_until_tip(first, &self.tip());
                if heard.len() >= 5 {
                    return heard;
                }
            }
        }
    }

    fn tip(&self) -> String {
        let tip = self.bitcoind.rpc.call("getbestblockhash", &json!([]));
        tip.as_str().expect("a hash").to_owned()
    }

    fn height(&self) -> u32 {
        let height = self.bitcoind.rpc.call("getblockcount", &json!([]));
        height.as_u64().and_then(|height| height.try_into().ok()).expect("a height")
    }

    fn block(&self, hash: &str) -> Vec<u8> {
        let block = self.bitcoind.rpc.call("getblock", &json!([hash, 0]));
        hex::decode(block.as_str().expect("text")).expect("hexadecimal")
    }

    /// Calls a method of both.
    fn call(&self, method: &str, params: &Value) {
        self.bitcoind.rpc.call(method, params);
        self.godwit.call(method, params);
    }

    /// What was expected was heard; and both count so many changes before the next one.
    #[track_caller]
    fn heard(&self, subscriber: &Subscriber, expected: &mut Expected, next: u64) {
        let last = expected.last();
        expected.is(&subscriber.until(|(_, body, _)| *body == last));
        let asked = json!([false, true]);
        for rpc in [&self.godwit.rpc, &self.bitcoind.rpc] {
            assert_eq!(rpc.call("getrawmempool", &asked)["mempool_sequence"], next);
        }
    }
}

#[test]
fn what_is_sent_replaced_and_made_impossible_is_told_of_as_libzmq_hears_it() {
    let (address, options) = publishing();
    let Some(subscriber) = Subscriber::start(&[&format!("{address} ")]) else { return };
    let node = Node::new("regtest");
    let Some(mut both) = Both::start(&node, &options) else { return };
    let mut expected = Expected::behind(&both.until_heard(&subscriber));
    let (first, second) = (both.coins.take(), both.coins.take());
    let parent = Tx::spending(first).paying(1_000);
    let child = Tx::spending(parent.output(0)).paying(2_000);
    let other = Tx::spending(second).paying(1_000);
    for (tx, sequence) in [(&parent, 1), (&child, 2), (&other, 3)] {
        both.call("sendrawtransaction", &json!([tx.hex()]));
        expected.added(&tx.0, sequence);
        both.heard(&subscriber, &mut expected, sequence + 1);
    }
    // Once more: nothing is told of it.
    both.call("sendrawtransaction", &json!([other.hex()]));

    let dearer = Tx::spending(second).paying(5_000);
    both.call("sendrawtransaction", &json!([dearer.hex()]));
    expected.removed(&other.0, 4);
    expected.added(&dearer.0, 5);
    both.heard(&subscriber, &mut expected, 6);

    // A block spends what one of them spends: that is told first, and of what the block has it alone tells.
    let rival = Tx::spending(first).paying(7_000);
    both.mine_with(&[&rival]);
    expected.removed(&parent.0, 6);
    expected.removed(&child.0, 7);
    expected.connected(&both.block(&both.tip()), true);
    both.heard(&subscriber, &mut expected, 8);
    both.mine_with(&[&dearer]);
    let with_dearer = both.block(&both.tip());
    expected.connected(&with_dearer, true);
    both.heard(&subscriber, &mut expected, 9);
}

#[test]
fn at_a_reorganisation_what_waits_again_is_told_before_the_new_blocks() {
    let (address, options) = publishing();
    let Some(subscriber) = Subscriber::start(&[&format!("{address} ")]) else { return };
    let node = Node::new("regtest");
    let Some(mut both) = Both::start(&node, &options) else { return };
    let mut expected = Expected::behind(&both.until_heard(&subscriber));
    let coins = [0; 3].map(|_| both.coins.take());
    let [returning, taken, waiting] = coins.map(|coin| Tx::spending(coin).paying(1_000));
    for (tx, sequence) in [(&returning, 1), (&taken, 2), (&waiting, 3)] {
        both.call("sendrawtransaction", &json!([tx.hex()]));
        expected.added(&tx.0, sequence);
    }
    let base = both.block(&both.tip());
    both.mine_with(&[&returning, &taken]);
    let (hash, left) = (both.tip(), both.block(&both.tip()));
    expected.connected(&left, true);
    both.heard(&subscriber, &mut expected, 6);

    // The block is declared invalid: what it had waits again.
    both.call("invalidateblock", &json!([hash]));
    expected.disconnected(&left);
    expected.added(&returning.0, 6);
    expected.added(&taken.0, 7);
    both.heard(&subscriber, &mut expected, 8);
    both.call("reconsiderblock", &json!([hash]));
    expected.connected(&left, true);
    both.heard(&subscriber, &mut expected, 10);

    // A branch has one of them too, and spends what the one spends that waits.
    let height = both.height();
    let rival = Tx::spending(coins[2]).paying(3_000);
    let second = block::on(&base, height, 22, &[taken.0.clone(), rival.0.clone()]);
    let third = block::on(&second, height + 1, 23, &[]);
    for block in [&second, &third] {
        both.call("submitblock", &json!([hex::encode(block)]));
    }
    assert_eq!(both.tip(), chain::hash(&third));
    expected.disconnected(&left);
    expected.removed(&waiting.0, 10);
    expected.added(&returning.0, 11);
    expected.connected(&second, false);
    expected.connected(&third, true);
    both.heard(&subscriber, &mut expected, 12);
    let listed = both.godwit.call("getrawmempool", &json!([]));
    assert_eq!(listed, json!([returning.txid()]));
}

//! What the tools that people run on a node find on godwit, through reorganisations and restarts.

mod btcsuite;
mod clients;
mod electrs;
mod lnd;
mod prometheus;
mod replayed;

use godwit_primitives::Transaction;
use serde_json::{Value, json};

use super::api::Answering;
use super::chain::{self, RecentChain};
use super::{block, wait_until};
use crate::node::Node;

/// Pays to a key that nobody has.
const ELSEWHERE: &str = "bcrt1qw508d6qejxtdg4y5r3zarvary0c5xw7kygt080";

/// A godwit with a chain, which ends and starts again as its tool lives on.
struct Backend<'a> {
    node: &'a Node,
    chain: &'static RecentChain,
    options: Vec<String>,
    godwit: Answering<'a>,
    /// From the chain's end on: what is active.
    branch: Vec<Vec<u8>>,
}

impl<'a> Backend<'a> {
    fn start(node: &'a Node, options: &[String]) -> Self {
        let chain = chain::recent();
        let godwit = Answering::with_chain(node, chain, options);
        wait_until("the chain is there", || {
            godwit.call("getbestblockhash", &json!([])) == chain.summary.tip
        });
        Self { node, chain, options: options.to_vec(), godwit, branch: Vec::new() }
    }

    fn port(&self) -> u16 {
        self.godwit.port
    }

    /// The last block.
    fn last(&self) -> &[u8] {
        self.branch.last().map_or(self.chain.tip(), Vec::as_slice)
    }

    /// Height and hash of the tip.
    fn tip(&self) -> (u32, String) {
        let height = self.chain.summary.height + u32::try_from(self.branch.len()).expect("few");
        (height, chain::hash(self.last()))
    }

    /// Waits until its indexes are at the tip.
    fn wait_for_indexes(&self) {
        let height = self.tip().0;
        wait_until("the indexes are there", || {
            let info = self.godwit.call("getindexinfo", &json!([]));
            let mut indexes = info.as_object().expect("an object").values();
            indexes.all(|index| index["synced"] == true && index["best_block_height"] == height)
        });
    }

    /// Mines a block of these.
    fn mine(&mut self, transactions: &[Transaction]) {
        self.replace(0, &[transactions]);
    }

    /// Takes back so many blocks, for more blocks of these.
    fn replace(&mut self, count: usize, blocks: &[&[Transaction]]) {
        assert!(blocks.len() > count, "a branch has more work");
        self.branch.truncate(self.branch.len() - count);
        for transactions in blocks {
            // Of two branches no two blocks are the same.
            let nonce = u8::try_from(blocks.len()).expect("few");
            let block = block::on(self.last(), self.tip().0 + 1, nonce, transactions);
            let answer = self.godwit.call("submitblock", &json!([hex::encode(&block)]));
            assert!([Value::Null, json!("inconclusive")].contains(&answer), "{answer}");
            self.branch.push(block);
        }
        assert_eq!(self.godwit.call("getbestblockhash", &json!([])), self.tip().1);
    }

    /// Ends and starts again at its ports.
    fn restart(&mut self) {
        self.godwit.restart(self.node, &self.options);
    }

    /// One of the chain's coins that need no key, so that nobody needs one again.
    fn pay_to_anyone(&self, coin: usize) -> Transaction {
        let (outpoint, satoshi) = self.chain.bare[coin];
        block::spend(outpoint, satoshi, Vec::new())
    }
}

/// Mines so many blocks for the address.
fn generate(godwit: &Answering<'_>, count: u32, address: &str) {
    godwit.call("generatetoaddress", &json!([count, address]));
}

/// Waits until so many transactions were sent, and mines a block of them.
#[track_caller]
fn mine_what_was_sent(godwit: &Answering<'_>, count: usize) {
    let mut sent = Vec::new();
    wait_until("transactions were sent", || {
        sent = godwit.call("getrawmempool", &json!([])).as_array().expect("a list").clone();
        sent.len() >= count
    });
    let raw = |txid: &Value| godwit.call("getrawtransaction", &json!([txid]));
    let raw: Vec<Value> = sent.iter().map(raw).collect();
    godwit.call("generateblock", &json!([ELSEWHERE, raw]));
}

/// Leaves the last blocks for one more, all empty, in one step.
#[track_caller]
fn leave_for_empty_blocks(godwit: &Answering<'_>, depth: u32) {
    let tip = godwit.call("getblockcount", &json!([])).as_u64().expect("a height");
    let tip = u32::try_from(tip).expect("few");
    let fork = godwit.call("getblockhash", &json!([tip - depth]));
    let fork = godwit.call("getblock", &json!([fork, 0]));
    let mut last = hex::decode(fork.as_str().expect("a block")).expect("hex");
    for height in tip - depth + 1..=tip + 1 {
        last = block::on(&last, height, 9, &[]);
        let answer = godwit.call("submitblock", &json!([hex::encode(&last)]));
        assert!([Value::Null, json!("inconclusive")].contains(&answer), "{answer}");
    }
    assert_eq!(godwit.call("getbestblockhash", &json!([])), chain::hash(&last));
}

//! Compact block filters for peers (BIP157), beside bitcoind's.

use std::thread;

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{OutPoint, TxOut};
use serde_json::json;

use super::FILTERS;
use super::api::Answering;
use super::chain::RecentChain;
use super::peer::{Answers, Peer};
use super::rpc::Rpc;
use super::{bitcoind, block, chain, free_port, wait_until};
use crate::node::Node;

const SERVED: &str = "-peerblockfilters";
const NAME: &str = "basic block filter index";
/// Blocks whose filters take a while, and their scripts.
const LONG_BLOCKS: u32 = 10;
const SCRIPTS: u32 = 60_000;
/// The service's bit.
const COMPACT_FILTERS: u64 = 1 << 6;

/// A request for filters or filter headers.
fn range(filter_type: u8, start: u32, stop: &[u8; 32]) -> Vec<u8> {
    [&[filter_type][..], &start.to_le_bytes(), stop].concat()
}

/// More than a checkpoint and more than one read takes, a branch that was left, and a header alone.
struct World {
    blocks: Vec<Vec<u8>>,
    /// Those that both nodes have from the beginning.
    first: usize,
    left: Vec<u8>,
    unknown: Vec<u8>,
    header: Vec<u8>,
    genesis: [u8; 32],
}

impl World {
    fn new(godwit: &Answering<'_>, chain: &RecentChain) -> Self {
        let left = block::on(&chain.blocks[chain.blocks.len() - 2], chain.summary.height, 3, &[]);
        let mut blocks = chain.blocks.clone();
        while blocks.len() < 1_205 {
            let height = blocks.len() as u32 + 1;
            blocks.push(block::on(blocks.last().expect("a block"), height, 1, &[]));
        }
        let above =
            |nonce| block::on(blocks.last().expect("a block"), blocks.len() as u32 + 1, nonce, &[]);
        let (unknown, header) = (above(3), above(4));
        let genesis = godwit.call("getblockhash", &json!([0]));
        let mut genesis = hex::decode(genesis.as_str().expect("a hash")).expect("hexadecimal");
        genesis.reverse();
        let genesis = genesis.try_into().expect("32 bytes");
        Self { first: chain.blocks.len(), blocks, left, unknown, header, genesis }
    }

    /// Hands it to the nodes, and waits for their indexes.
    fn give(&self, nodes: [Rpc; 2]) {
        for rpc in nodes {
            for block in [&self.left].into_iter().chain(&self.blocks[self.first..]) {
                rpc.call("submitblock", &json!([hex::encode(block)]));
            }
            rpc.call("submitheader", &json!([hex::encode(&self.header[..80])]));
            wait_until("the index is there", || {
                let info = &rpc.call("getindexinfo", &json!([]))[NAME];
                info["synced"] == true && info["best_block_height"] == self.blocks.len()
            });
            let services = rpc.call("getnetworkinfo", &json!([]))["localservices"].clone();
            let services = u64::from_str_radix(services.as_str().expect("a text"), 16);
            assert_ne!(services.expect("a number") & COMPACT_FILTERS, 0);
        }
    }

    fn requests(&self) -> Vec<(&'static str, Vec<u8>)> {
        let Self { blocks, left, unknown, header, genesis, first } = self;
        let genesis = *genesis;
        let tip = blocks.len();
        let hash = |height: usize| sha256d(&blocks[height - 1][..80]);
        let mut asked: Vec<(&'static str, Vec<u8>)> = Vec::new();
        for command in ["getcfilters", "getcfheaders"] {
            for (start, stop) in [
                (0, genesis),
                (0, hash(1)),
                (1, hash(1)),
                (2, hash(1)),
                (0, hash(999)),
                (0, hash(1_000)),
                (206, hash(1_205)),
                (205, hash(1_205)),
                (1_205, hash(tip)),
                (1_206, hash(tip)),
                (1, hash(tip)),
                (u32::MAX, hash(tip)),
                (*first as u32 - 2, sha256d(&left[..80])),
                (5, sha256d(&unknown[..80])),
                (tip as u32, sha256d(&header[..80])),
            ] {
                asked.push((command, range(0, start, &stop)));
            }
            asked.push((command, range(1, 1, &hash(9))));
            asked.push((command, range(0, 1, &hash(9))[..20].to_vec()));
            asked.push((command, [range(0, 1, &hash(9)), vec![7; 9]].concat()));
        }
        for stop in [
            genesis,
            hash(999),
            hash(1_000),
            hash(tip),
            sha256d(&left[..80]),
            sha256d(&unknown[..80]),
        ] {
            asked.push(("getcfcheckpt", [&[0][..], &stop].concat()));
        }
        asked.push(("getcfcheckpt", [&[1][..], &hash(tip)].concat()));
        asked.push(("getcfcheckpt", Vec::new()));
        asked
    }
}

/// What a node answers on a connection of its own.
fn ask(port: u16, command: &str, payload: &[u8]) -> Answers {
    Peer::connect(port, 0).answers(command, payload)
}

#[test]
fn peers_get_the_filters_that_they_get_of_bitcoind() {
    let chain = chain::recent();
    let start = bitcoind::Start {
        chain: Some(chain),
        options: &[FILTERS, SERVED],
        ..bitcoind::Start::default()
    };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let options =
        [FILTERS.to_owned(), SERVED.to_owned(), format!("-port={port}"), "-listen=1".to_owned()];
    let godwit = Answering::with_chain(&node, chain, &options);
    let world = World::new(&godwit, chain);
    world.give([godwit.rpc, bitcoind.rpc]);
    let asked = world.requests();
    let blocks = &world.blocks;
    let hash = |height: usize| sha256d(&blocks[height - 1][..80]);
    let mut messages = 0;
    for (command, payload) in &asked {
        let (ours, theirs) = (ask(port, command, payload), ask(bitcoind.port, command, payload));
        messages += ours.messages.len();
        assert!(
            ours == theirs,
            "{command} {}: {} and {}",
            hex::encode(payload),
            summary(&ours),
            summary(&theirs)
        );
    }
    assert!(messages > 2_000, "{messages}");

    // Several on one connection, without waiting; and blocks behind them.
    for port in [port, bitcoind.port] {
        let mut peer = Peer::connect(port, 0);
        for start in [1, 1_000] {
            let answers = peer.answers("getcfilters", &range(0, start, &hash(1_000)));
            assert_eq!((answers.messages.len(), answers.ended), (1_001 - start as usize, false));
        }
        peer.ask_for(&blocks[..300]);
        assert_eq!(peer.next_block(), blocks[0]);
    }
}

fn summary(answers: &Answers) -> String {
    let Answers { messages, ended } = answers;
    let first = messages.first().map(|(name, payload)| format!("{name} {}", hex::encode(payload)));
    format!("{} messages, {first:.200?}, ended: {ended}", messages.len())
}

#[test]
fn a_node_that_serves_no_filters_ends_the_connection_as_bitcoind_does() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[FILTERS]) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let options = [FILTERS.to_owned(), format!("-port={port}"), "-listen=1".to_owned()];
    let _godwit = Answering::with_chain(&node, chain, &options);
    let stop = sha256d(&chain.blocks[0][..80]);
    for port in [port, bitcoind.port] {
        let answers = ask(port, "getcfilters", &range(0, 1, &stop));
        assert_eq!(answers, Answers { messages: Vec::new(), ended: true });
    }
}

/// Blocks on the chain that are nearly full, of scripts that are all different.
fn long_blocks(chain: &RecentChain) -> Vec<Vec<u8>> {
    let (mut coin, satoshi) = chain.bare[0];
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    for n in 1..=LONG_BLOCKS {
        let mut tx = block::spend(coin, satoshi, Vec::new());
        tx.outputs.extend((0..SCRIPTS).map(|n| {
            let [low, middle, high, _] = n.to_le_bytes();
            TxOut { value: 0, script_pubkey: vec![3, low, middle, high] }
        }));
        coin = OutPoint { txid: tx.txid(), vout: 0 };
        let parent = blocks.last().map_or(chain.tip(), Vec::as_slice);
        blocks.push(block::on(parent, chain.summary.height + n, 1, &[tx]));
    }
    blocks
}

/// Wallets ask for the filter of a block as soon as they hear of the block, and bitcoind has it by then.
#[test]
fn the_filter_of_a_block_is_there_for_who_has_just_heard_of_the_block() {
    let chain = chain::recent();
    let (node, port) = (Node::new("regtest"), free_port());
    let options =
        [FILTERS.to_owned(), SERVED.to_owned(), format!("-port={port}"), "-listen=1".to_owned()];
    let godwit = Answering::with_chain(&node, chain, &options);
    wait_until("the index is there", || {
        godwit.call("getindexinfo", &json!([]))[NAME]["synced"] == true
    });
    let mut peer = Peer::connect(port, chain.summary.height);
    for (block, height) in long_blocks(chain).iter().zip(chain.summary.height + 1..) {
        let (rpc, params) = (godwit.rpc, json!([hex::encode(block)]));
        thread::scope(|scope| {
            scope.spawn(move || rpc.call("submitblock", &params));
            peer.until_announced(block);
            let command = if height % 2 == 0 { "getcfilters" } else { "getcfheaders" };
            let answers = peer.answers(command, &range(0, height, &sha256d(&block[..80])));
            assert_eq!((answers.messages.len(), answers.ended), (1, false), "{command} {height}");
        });
    }
}

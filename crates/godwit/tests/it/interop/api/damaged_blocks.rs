//! What is asked of a stored block that is damaged, beside bitcoind.

use std::fs;
use std::path::Path;

use godwit_primitives::Block;
use serde_json::json;

use super::super::{bitcoind, chain};
use super::Answering;
use super::methods::assert_same;
use crate::node::Node;

/// Flips a bit of the header of a block in the first block file.
#[track_caller]
fn damage(blocks: &Path, block: &[u8]) {
    let path = blocks.join("blk00000.dat");
    let mut bytes = fs::read(&path).expect("a file");
    let at = bytes.windows(80).position(|window| *window == block[..80]).expect("it has the block");
    // Of its time.
    bytes[at + 68] ^= 1;
    fs::write(&path, bytes).expect("the same file");
}

#[test]
fn of_a_damaged_block_the_same_is_said_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &["-blocksxor=0"]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let block = &chain.blocks[chain.blocks.len() - 20];
    let hash = chain::hash(block);
    let txid = Block::from_bytes(block).expect("a block").view().txids()[0].to_string();
    let asked = [
        ("gettxoutproof", json!([[txid], hash])),
        ("getrawtransaction", json!([txid, 0, hash])),
        ("getrawtransaction", json!([txid, 2, hash])),
        ("getblockstats", json!([hash])),
    ];
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    assert!(godwit.running.terminate().1.success());
    damage(&node.network_dir().join("blocks"), block);
    damage(&bitcoind.path("datadir/regtest/blocks"), block);
    // Otherwise the node finds and repairs it by itself.
    let godwit = Answering::start(&node, &["-scrub=0".to_owned()]);
    assert!(godwit.rpc.try_call("getblock", &json!([hash])).is_err());
    // Once it is known to be damaged, nothing else is said.
    for _ in 0..2 {
        assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    }
}

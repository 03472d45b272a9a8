//! How much of a peer's chain a node has, beside bitcoind.

use serde_json::{Value, json};

use super::super::peer::Peer;
use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain, free_port, wait_until};
use super::Answering;
use crate::node::Node;

#[test]
fn what_is_shared_with_a_peer_is_told_as_by_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let listen = ["-listen=1".to_owned(), format!("-bind=127.0.0.1:{port}")];
    let godwit = Answering::with_chain(&node, chain, &listen);
    let height = chain.height() as i64;
    let at = |height: i64| std::slice::from_ref(&chain.blocks[height as usize - 1]);
    let mut above = vec![chain.tip().to_vec()];
    for n in 1..=3 {
        let parent = above.last().expect("it has a block");
        above.push(block::on(parent, chain.summary.height + n, 6, &[]));
    }
    for (rpc, port) in [(godwit.rpc, port), (bitcoind.rpc, bitcoind.port)] {
        let expect = |rpc: Rpc, headers: i64, blocks: i64| {
            let shared = |peers: &Value| {
                ["synced_headers", "synced_blocks"].map(|name| peers[0][name].as_i64())
            };
            let found = || shared(&rpc.call("getpeerinfo", &json!([])));
            let expected = [Some(headers), Some(blocks)];
            wait_until("the peer's chain is known", || found() == expected);
            // A peer is looked at ten times a second: it stays so.
            std::thread::sleep(std::time::Duration::from_millis(500));
            assert_eq!(found(), expected);
        };
        let mut peer = Peer::connect(port, chain.summary.height);
        expect(rpc, -1, -1);
        peer.headers(at(height - 5));
        expect(rpc, height - 5, -1);
        peer.headers(at(height));
        expect(rpc, height, height);
        for block in &above[1..] {
            rpc.call("submitblock", &json!([hex::encode(block)]));
        }
        peer.headers(&above[2..3]);
        expect(rpc, height + 2, height);
        peer.headers(&above[3..4]);
        expect(rpc, height + 3, height + 3);
    }
}

//! Thousands of blocks, with a restart and a reorganisation on the way: more than any node asks for,
//! tells of or remembers at once.

use serde_json::Value;

use super::chain::{self, FORK, LongChain};
use super::follower::Follower;
use super::peer::Peer;
use super::process::ForeignNode;
use super::{free_port, say, wait_until};
use crate::node::Node;

/// Where it is interrupted: before the fork, and behind it.
const FIRST_STOP: u32 = 1_000;
const SECOND_STOP: u32 = FORK + 500;

/// A godwit that has the long chain, and serves it.
struct Source<'a> {
    node: &'a Node,
    godwit: Follower<'a>,
    port: u16,
}

impl<'a> Source<'a> {
    fn start(node: &'a Node, chain: &LongChain) -> Self {
        let port = free_port();
        let godwit = Follower::serving_blocks(node, &chain.blocks, port);
        Self { node, godwit, port }
    }

    /// Ends it, and starts it on the branch.
    fn reorganise(self, chain: &LongChain) -> Self {
        let Self { node, godwit, port } = self;
        godwit.stop();
        let godwit = Follower::serving_blocks(node, &chain.branch, port);
        Self { node, godwit, port }
    }
}

/// A foreign node that connects to the port which it is given syncs from godwit; what `utxo stats`
/// says of godwit afterwards, and the node.
#[track_caller]
pub(super) fn syncs_from_godwit(
    connected: impl FnOnce(u16) -> Option<ForeignNode>,
) -> Option<(Value, ForeignNode)> {
    let (chain, node) = (chain::long(), Node::new("regtest"));
    let source = Source::start(&node, chain);
    let mut foreign = connected(source.port)?;
    wait_until("the foreign node has a part", || foreign.height() >= u64::from(FIRST_STOP));
    let stopped_at = foreign.height();
    foreign.restart();
    wait_until("the foreign node is behind the fork", || {
        foreign.height() >= u64::from(SECOND_STOP)
    });
    let reorganised_at = foreign.height();
    let source = source.reorganise(chain);
    let time = wait_until("it has the branch", || foreign.tip() == chain.branch_tip());
    say(&format!(
        "interop: restarted at {stopped_at}, reorganised at {reorganised_at} of {} blocks, {} other \
         ones within {time:?}",
        chain.blocks.len(),
        chain.branch.len()
    ));
    Some((source.godwit.stop(), foreign))
}

/// godwit syncs from a foreign node, which has its blocks from another godwit.
#[track_caller]
pub(super) fn serves_godwit(
    connected: impl FnOnce(u16) -> Option<ForeignNode>,
) -> Option<(Value, ForeignNode)> {
    let (chain, node) = (chain::long(), Node::new("regtest"));
    let source = Source::start(&node, chain);
    let foreign = connected(source.port)?;
    wait_until("the foreign node has the chain", || foreign.tip() == chain.tip());
    let last = Node::new("regtest");
    let mut godwit = Follower::start(&last, &[foreign.port], None);
    godwit.wait_for_height(FIRST_STOP);
    godwit.stop();
    let mut godwit = Follower::start(&last, &[foreign.port], None);
    godwit.wait_for_height(SECOND_STOP);
    let source = source.reorganise(chain);
    godwit.wait_for_tip(&chain.branch_tip());
    let stats = godwit.stop();
    assert_eq!(foreign.tip(), chain.branch_tip());
    let from = source.godwit.stop();
    assert_eq!((&stats["bestblock"], &stats["muhash"]), (&from["bestblock"], &from["muhash"]));
    Some((stats, foreign))
}

/// As btcd up to 0.25 does on the main network, between checkpoints.
#[test]
fn a_peer_gets_all_blocks_that_it_asks_for_at_once() {
    let (chain, node) = (chain::long(), Node::new("regtest"));
    let source = Source::start(&node, chain);
    let mut peer = Peer::connect(source.port, 0);
    peer.ask_for(&chain.blocks);
    for (height, block) in chain.blocks.iter().enumerate() {
        assert!(peer.next_block() == *block, "at height {}", height + 1);
    }
    source.godwit.stop();
}

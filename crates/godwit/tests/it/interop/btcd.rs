//! godwit and btcd, which shares no code with Bitcoin Core: its scripts run in Go.

use std::process::Command;

use serde_json::json;

use super::chain::{self, RecentChain};
use super::follower::{self, Follower};
use super::peer::Peer;
use super::process::{ForeignNode, Place, cached};
use super::rpc::{PASSWORD, USER};
use super::{bitcoind, free_port, long, say, wait_until};
use crate::node::Node;

/// Those that `tools/build-btcd` installs. They ask for blocks in different ways: the last one for
/// all that it knows the headers of in one message, the others in batches of 500 that `getblocks`
/// brings (on the main network, up to the last checkpoint, for all blocks up to the next one).
const VERSIONS: [&str; 3] = ["v0.24.2", "v0.25.0", "v0.26.2"];

/// A btcd of the last version and of its own, which connects to a port or listens; `None` when there
/// is none in the cache.
#[track_caller]
fn start(connect: Option<u16>) -> Option<ForeignNode> {
    start_version(VERSIONS[2], connect)
}

#[track_caller]
fn start_version(version: &str, connect: Option<u16>) -> Option<ForeignNode> {
    let program = cached(&format!("btcd {version}"), &format!("btcd-{version}/btcd"))?;
    let place = Place::new();
    let mut command = Command::new(program);
    command.args(["--regtest", "--nodnsseed", "--notls", "--debuglevel=debug", "--nocfilters"]);
    command.arg(format!("--datadir={}", place.path("data").display()));
    command.arg(format!("--logdir={}", place.path("logs").display()));
    command.arg(format!("--configfile={}", place.path("btcd.conf").display()));
    command.arg(format!("--rpcuser={USER}")).arg(format!("--rpcpass={PASSWORD}"));
    command.arg(format!("--rpclisten=127.0.0.1:{}", place.rpc_port));
    command.arg(format!("--listen=127.0.0.1:{}", place.port));
    // Whatever else it keeps in the user's directory.
    command.env("HOME", place.temp.path());
    if let Some(port) = connect {
        command.arg(format!("--connect=127.0.0.1:{port}"));
    }
    let log = place.path("logs").join("regtest/btcd.log");
    Some(ForeignNode::start(place, log, command))
}

/// A btcd that has the chain.
#[track_caller]
pub(super) fn start_with(chain: &RecentChain) -> Option<ForeignNode> {
    let btcd = start(None)?;
    for block in &chain.blocks {
        assert_eq!(btcd.submit(block), None);
    }
    assert_eq!(btcd.tip(), chain.summary.tip);
    Some(btcd)
}

#[test]
fn btcd_serves_every_script_type_to_godwit() {
    let chain = chain::recent();
    let Some(btcd) = start_with(chain) else { return };
    let node = Node::new("regtest");
    let stats = follower::sync(&node, btcd.port, chain.height());
    assert_eq!(stats["bestblock"], btcd.tip());
    assert_eq!(stats["muhash"], chain.muhash);
}

#[test]
fn godwit_serves_every_script_type_to_btcd() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let (godwit, port) = Follower::serving(&node, chain);
    let Some(btcd) = start(Some(port)) else { return };
    wait_until("btcd has the chain", || btcd.tip() == chain.summary.tip);
    let stats = godwit.stop();
    assert_eq!(stats["bestblock"], btcd.tip());
    assert_eq!(stats["muhash"], chain.muhash);
}

#[test]
fn btcd_and_godwit_refuse_an_invalid_taproot_spend() {
    let chain = chain::recent();
    let Some(btcd) = start_with(chain) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let mut godwit = Follower::start(&node, &[btcd.port], Some(port));
    godwit.wait_for_tip(&chain.summary.tip);

    let invalid = chain.invalid_taproot_spend();
    let rejected = format!("Rejected block {}", chain::hash(&invalid));
    let mut liar = Peer::connect(btcd.port, chain.summary.height + 1);
    liar.deliver(&invalid);
    // It keeps the peer.
    wait_until("btcd refuses the block", || btcd.logged(&rejected));
    let mut liar = Peer::connect(port, chain.summary.height + 1);
    liar.deliver(&invalid);
    liar.expect_disconnect();
    godwit.expect_refused_script_of(&chain::hash(&invalid));
    assert_eq!(btcd.tip(), chain.summary.tip);

    // Built in the same way and on the same parent, but valid.
    let honest = chain.honest_successor();
    assert_eq!(btcd.submit(&honest), None);
    godwit.wait_for_tip(&chain::hash(&honest));
    assert_eq!(godwit.stop()["bestblock"], btcd.tip());
}

#[test]
fn new_blocks_and_reorganisations_go_on_from_godwit_to_btcd() {
    let chain = chain::recent();
    let with_chain = bitcoind::Start { chain: Some(chain), ..Default::default() };
    let Some(miner) = bitcoind::start(&with_chain) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let mut godwit = Follower::start(&node, &[miner.port], Some(port));
    godwit.wait_for_tip(&chain.summary.tip);
    let Some(btcd) = start(Some(port)) else { return };
    wait_until("btcd has the chain", || btcd.tip() == chain.summary.tip);

    let follows = |what: &str| {
        let time = wait_until("btcd follows", || btcd.tip() == miner.tip());
        say(&format!("interop: {what} went from bitcoind through godwit to btcd in {time:?}"));
    };
    for _ in 0..2 {
        miner.rpc.call("generatetodescriptor", &json!([1, "raw(51)"]));
        follows("a new block");
    }
    let fork = &chain.blocks[chain.blocks.len() - 2];
    miner.rpc.call("invalidateblock", &json!([chain::hash(fork)]));
    miner.rpc.call("generatetodescriptor", &json!([6, "raw(51)"]));
    follows("a reorganisation of four blocks");
    assert_eq!(godwit.stop()["bestblock"], btcd.tip());
}

#[test]
fn btcd_0_24_syncs_thousands_of_blocks_from_godwit() {
    long::syncs_from_godwit(|port| start_version(VERSIONS[0], Some(port)));
}

#[test]
fn btcd_0_25_syncs_thousands_of_blocks_from_godwit() {
    long::syncs_from_godwit(|port| start_version(VERSIONS[1], Some(port)));
}

/// It once got `notfound` for all but the first thousand, and banned godwit.
#[test]
fn btcd_0_26_syncs_thousands_of_blocks_from_godwit() {
    long::syncs_from_godwit(|port| start_version(VERSIONS[2], Some(port)));
}

#[test]
fn godwit_syncs_thousands_of_blocks_from_btcd_0_24() {
    long::serves_godwit(|port| start_version(VERSIONS[0], Some(port)));
}

#[test]
fn godwit_syncs_thousands_of_blocks_from_btcd_0_25() {
    long::serves_godwit(|port| start_version(VERSIONS[1], Some(port)));
}

#[test]
fn godwit_syncs_thousands_of_blocks_from_btcd_0_26() {
    long::serves_godwit(|port| start_version(VERSIONS[2], Some(port)));
}

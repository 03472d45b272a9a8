//! godwit and bitcoind, Bitcoin Core's node.

use std::collections::HashMap;
use std::process::Command;

use serde_json::{Value, json};

use super::chain::{self, RecentChain};
use super::follower::{self, Follower};
use super::peer::Peer;
use super::process::{ForeignNode, Place, Program, cached};
use super::rpc::{PASSWORD, USER};
use super::{block, free_port, long, say, wait_until};
use crate::bad_input::claiming;
use crate::node::Node;

/// Whom a bitcoind connects to, and what it has from the beginning.
#[derive(Default)]
pub(super) struct Start<'a> {
    pub(super) connect: Option<u16>,
    pub(super) chain: Option<&'a RecentChain>,
    /// It speaks the plain protocol alone.
    pub(super) plain: bool,
    pub(super) prune: bool,
    /// Beside the usual ones.
    pub(super) options: &'a [&'a str],
}

/// One that has the chain already, with more options; `None` when there is none in the cache.
#[track_caller]
pub(super) fn with_chain(chain: &RecentChain, options: &[&str]) -> Option<ForeignNode> {
    start(&Start { chain: Some(chain), options, ..Start::default() })
}

/// A bitcoind of its own; `None` when there is none in the cache.
#[track_caller]
pub(super) fn start(start: &Start<'_>) -> Option<ForeignNode> {
    let program = cached("bitcoind", "bitcoind/build/bin/bitcoind")?;
    let place = Place::new();
    let (datadir, file) = (place.path("datadir"), place.path("chain.dat"));
    std::fs::create_dir(&datadir).expect("a temporary directory");
    let mut command = Command::new(program);
    command.args(["-chain=regtest", "-server=1", "-printtoconsole=0", "-par=1"]);
    command.args(["-dnsseed=0", "-fixedseeds=0", "-listenonion=0", "-natpmp=0"]);
    command.args(["-debug=net", "-debug=cmpctblock", "-assumevalid=0", "-rest=1"]);
    // On by default on regtest, and -loadblock of a whole chain fails in it.
    command.arg("-checkblockindex=0");
    command.arg(format!("-datadir={}", datadir.display()));
    command.arg(format!("-bind=127.0.0.1:{}", place.port));
    command.arg(format!("-rpcport={}", place.rpc_port));
    command.arg(format!("-rpcuser={USER}")).arg(format!("-rpcpassword={PASSWORD}"));
    match start.connect {
        Some(port) => command.arg(format!("-connect=127.0.0.1:{port}")).arg("-listen=1"),
        None => command.arg("-connect=0").arg("-listen=1"),
    };
    if start.prune {
        command.arg("-prune=550");
    }
    command.args(start.options);
    if start.plain {
        command.arg("-v2transport=0");
    }
    if let Some(chain) = start.chain {
        chain.write(&file);
        command.arg(format!("-loadblock={}", file.display()));
    }
    let node = ForeignNode::start(place, datadir.join("regtest/debug.log"), command);
    if let Some(chain) = start.chain {
        wait_until("bitcoind has the chain", || node.tip() == chain.summary.tip);
    }
    Some(node)
}

impl ForeignNode {
    /// bitcoind's `gettxoutsetinfo` with a kind of hash.
    fn coins(&self, hash: &str) -> Value {
        self.rpc.call("gettxoutsetinfo", &json!([hash]))
    }

    /// Bytes that bitcoind exchanged with its only peer, by direction and command.
    fn traffic(&self) -> HashMap<(&'static str, String), u64> {
        let peers = self.rpc.call("getpeerinfo", &json!([]));
        let mut traffic = HashMap::new();
        for direction in ["bytessent_per_msg", "bytesrecv_per_msg"] {
            let commands = peers[0][direction].as_object().cloned().unwrap_or_default();
            for (command, bytes) in commands {
                traffic.insert((direction, command), bytes.as_u64().unwrap_or_default());
            }
        }
        traffic
    }
}

/// `stats` of godwit describe the coins that bitcoind has.
#[track_caller]
pub(super) fn assert_same_coins(stats: &Value, bitcoind: &ForeignNode) {
    let (muhash, serialized) = (bitcoind.coins("muhash"), bitcoind.coins("hash_serialized_3"));
    for name in ["height", "bestblock", "txouts", "bogosize", "muhash"] {
        assert_eq!(stats[name], muhash[name], "{name}");
    }
    assert_eq!(stats["hash_serialized_3"], serialized["hash_serialized_3"]);
    assert_eq!(stats["total_amount"].to_string(), muhash["total_amount"].to_string());
}

#[test]
fn bitcoind_serves_every_script_type_to_godwit() {
    let chain = chain::recent();
    let Some(bitcoind) = start(&Start { chain: Some(chain), ..Start::default() }) else { return };
    let node = Node::new("regtest");
    let stats = follower::sync(&node, bitcoind.port, chain.height());
    assert_same_coins(&stats, &bitcoind);
    assert_eq!(stats["muhash"], chain.muhash);
}

#[test]
fn godwit_serves_every_script_type_to_bitcoind() {
    let chain = chain::recent();
    let node = Node::new("regtest");
    let (godwit, port) = Follower::serving(&node, chain);
    let Some(bitcoind) = start(&Start { connect: Some(port), ..Start::default() }) else { return };
    wait_until("bitcoind has the chain", || bitcoind.tip() == chain.summary.tip);
    assert_same_coins(&godwit.stop(), &bitcoind);
}

/// It would write its genesis block over the first block.
#[test]
fn bitcoind_does_not_start_on_the_directory_of_a_running_godwit() {
    let Some(program) = cached("bitcoind", "bitcoind/build/bin/bitcoind") else { return };
    let (node, chain) = (Node::new("regtest"), chain::recent());
    let (godwit, _) = Follower::serving(&node, chain);
    let blocks = node.network_dir().join("blocks/blk00000.dat");
    let before = std::fs::read(&blocks).expect("the blocks");
    let mut command = Command::new(program);
    command.args(["-chain=regtest", "-server=0", "-listen=0", "-connect=0"]);
    command.arg(format!("-datadir={}", node.datadir().display()));
    let mut bitcoind = Program::start_saying(command, node.beside("bitcoind.txt"));
    assert!(!bitcoind.succeeds());
    assert!(bitcoind.logged("Cannot obtain a lock on directory"));
    assert!(std::fs::read(&blocks).expect("the blocks") == before);
    assert!(!node.network_dir().join("chainstate").exists());
    assert_eq!(godwit.stop()["muhash"], chain.muhash);
}

#[test]
fn bitcoind_and_godwit_refuse_an_invalid_taproot_spend() {
    let chain = chain::recent();
    let Some(bitcoind) = start(&Start { chain: Some(chain), ..Start::default() }) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let mut godwit = Follower::start(&node, &[bitcoind.port], Some(port));
    godwit.wait_for_tip(&chain.summary.tip);

    let invalid = chain.invalid_taproot_spend();
    for port in [port, bitcoind.port] {
        let mut liar = Peer::connect(port, chain.summary.height + 1);
        liar.deliver(&invalid);
        liar.expect_disconnect();
    }
    assert!(bitcoind.logged("Invalid Schnorr signature"), "for no other reason");
    godwit.expect_refused_script_of(&chain::hash(&invalid));
    assert_eq!(bitcoind.tip(), chain.summary.tip);

    // Built in the same way and on the same parent, but valid.
    let honest = chain.honest_successor();
    assert_eq!(bitcoind.submit(&honest), None);
    godwit.wait_for_tip(&chain::hash(&honest));
    assert_same_coins(&godwit.stop(), &bitcoind);
}

/// The last one claims more than the file has, so that both lose it with all that follows.
#[test]
fn bitcoind_and_godwit_import_the_same_of_records_that_claim_what_follows_them() {
    let blocks = &chain::recent().blocks;
    let len = |blocks: &[Vec<u8>]| blocks.iter().map(|block| block.len() + 8).sum::<usize>();
    let all = blocks.len();
    for (count, more, height) in [
        (all, len(&blocks[4..5]), all),
        (all, len(&blocks[4..6]) + 30, all),
        (8, len(&blocks[4..8]) + 1, 3),
    ] {
        let node = Node::new("regtest");
        let path = node.beside("claiming.dat");
        std::fs::write(&path, claiming(&blocks[..count], 3, more)).expect("a file");
        let load = format!("-loadblock={}", path.display());
        let Some(bitcoind) = start(&Start { options: &[&load], ..Start::default() }) else {
            return;
        };
        node.run(&[&"import", &path]);
        let stats = node.stats();
        assert_eq!(stats["height"], height, "{more}");
        wait_until("bitcoind has the same", || stats["bestblock"] == bitcoind.tip());
    }
}

/// Blocks that are taken back: the empty ones at the end and as many full ones.
const DEPTH: u64 = 10;

#[test]
fn godwit_follows_a_reorganisation_of_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = start(&Start { chain: Some(chain), ..Start::default() }) else { return };
    let node = Node::new("regtest");
    let mut godwit = Follower::start(&node, &[bitcoind.port], None);
    godwit.wait_for_tip(&chain.summary.tip);

    let fork = &chain.blocks[(chain.height() - DEPTH) as usize];
    bitcoind.rpc.call("invalidateblock", &json!([chain::hash(fork)]));
    assert_eq!(bitcoind.height(), chain.height() - DEPTH);
    bitcoind.rpc.call("generatetodescriptor", &json!([DEPTH + 2, "raw(51)"]));
    let time = godwit.wait_for_tip(&bitcoind.tip());
    say(&format!("interop: {DEPTH} blocks replaced by bitcoind's {} within {time:?}", DEPTH + 2));

    // And back again, to a longer branch that nobody has announced before.
    let mut branch = vec![chain.tip().to_vec()];
    for height in chain.summary.height + 1..=chain.summary.height + 4 {
        let block = block::on(branch.last().expect("it has a block"), height, 0, &[]);
        branch.push(block);
    }
    bitcoind.rpc.call("reconsiderblock", &json!([chain::hash(fork)]));
    branch[1..].iter().for_each(|block| {
        bitcoind.submit(block);
    });
    let tip = chain::hash(branch.last().expect("it has a block"));
    assert_eq!(bitcoind.tip(), tip);
    godwit.wait_for_tip(&tip);
    assert_same_coins(&godwit.stop(), &bitcoind);
}

#[test]
fn new_blocks_reach_godwit_and_go_on_from_it_as_compact_blocks() {
    let chain = chain::recent();
    let Some(miner) = start(&Start { chain: Some(chain), ..Start::default() }) else { return };
    let (node, port) = (Node::new("regtest"), free_port());
    let mut godwit = Follower::start(&node, &[miner.port], Some(port));
    godwit.wait_for_tip(&chain.summary.tip);
    let Some(last) = start(&Start { connect: Some(port), ..Start::default() }) else { return };
    wait_until("the last node has the chain", || last.tip() == chain.summary.tip);

    // Their transactions were never relayed: whoever gets only their short ids has to ask for them.
    let with_transactions = chain.honest_successor();
    assert_eq!(miner.submit(&with_transactions), None);
    let mut hashes = vec![chain::hash(&with_transactions)];
    for _ in 0..4 {
        let mined = miner.rpc.call("generatetodescriptor", &json!([1, "raw(51)"]));
        hashes.push(mined[0].as_str().expect("a hash is a string").to_owned());
        arrives(&mut godwit, &last, hashes.last().expect("it has a hash"));
    }
    let transaction = block::spend(chain.bare[1].0, chain.bare[1].1, Vec::new());
    let transaction = block::hex_of(&transaction);
    let mined = miner.rpc.call("generateblock", &json!(["raw(51)", [transaction]]));
    arrives(&mut godwit, &last, mined["hash"].as_str().expect("a hash is a string"));

    let (sent, received) = (miner.traffic(), last.traffic());
    for (who, traffic, direction, command) in [
        ("miner to godwit", &sent, "bytessent_per_msg", "cmpctblock"),
        ("miner to godwit", &sent, "bytessent_per_msg", "blocktxn"),
        ("godwit to the last", &received, "bytesrecv_per_msg", "cmpctblock"),
        ("godwit to the last", &received, "bytesrecv_per_msg", "blocktxn"),
    ] {
        let bytes = traffic.get(&(direction, command.to_owned())).copied().unwrap_or_default();
        assert!(bytes > 0, "no {command} from {who}: {traffic:?}");
    }
    let stats = godwit.stop();
    assert_same_coins(&stats, &miner);
    assert_same_coins(&stats, &last);
}

#[test]
fn bitcoind_syncs_thousands_of_blocks_from_godwit() {
    let connected = |port| start(&Start { connect: Some(port), ..Start::default() });
    if let Some((stats, bitcoind)) = long::syncs_from_godwit(connected) {
        assert_same_coins(&stats, &bitcoind);
    }
}

#[test]
fn godwit_syncs_thousands_of_blocks_from_bitcoind() {
    let connected = |port| start(&Start { connect: Some(port), ..Start::default() });
    if let Some((stats, bitcoind)) = long::serves_godwit(connected) {
        assert_same_coins(&stats, &bitcoind);
    }
}

/// A block that was just mined arrives at godwit, and behind it.
#[track_caller]
fn arrives(godwit: &mut Follower<'_>, last: &ForeignNode, hash: &str) {
    let here = godwit.wait_for_tip(hash);
    let behind = wait_until("the block goes on", || last.tip() == hash);
    say(&format!("interop: a new block reached godwit in {here:?} and bitcoind {behind:?} later"));
}

//! bitcoind, in all versions that were built, on what godwit has handed over to it; and its own data
//! directory, imported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use godwit::exit::Exit;
use godwit_primitives::sha256::sha256d;
use serde_json::{Value, json};

use super::bitcoind::assert_same_coins;
use super::chain::{self, RecentChain, hash};
use super::follower::Follower;
use super::process::{ForeignNode, Place, cached};
use super::rpc::{PASSWORD, USER};
use super::{block, say, wait_until};
use crate::blocks::write_dat;
use crate::hand_over::{hand_over, names, stats};
use crate::node::Node;
use crate::pruning::{THIN, long_chain};

/// `tools/build-bitcoind` builds them; the last path is where the oldest version puts its programs.
const VERSIONS: [(&str, &str); 4] = [
    ("bitcoind 31.99", "bitcoind/build/bin/bitcoind"),
    ("bitcoind 30.99", "bitcoind-30.99/build/bin/bitcoind"),
    ("bitcoind 29.99", "bitcoind-29.99/build/bin/bitcoind"),
    ("bitcoind 28.99", "bitcoind-28.99/build/src/bitcoind"),
];

/// The programs that there are.
fn programs() -> Vec<(&'static str, PathBuf)> {
    let found = VERSIONS.iter().map(|(name, path)| Some((*name, cached(name, path)?)));
    found.flatten().collect()
}

/// Starts a program on a data directory, with checks of its index at every change.
fn start(program: &Path, datadir: &Path, options: &[String]) -> ForeignNode {
    let place = Place::new();
    let mut command = Command::new(program);
    command.args(["-chain=regtest", "-server=1", "-printtoconsole=0", "-par=1"]);
    command.args(["-dnsseed=0", "-fixedseeds=0", "-listenonion=0", "-natpmp=0"]);
    command.args(["-checkblockindex=1", "-assumevalid=0"]);
    command.arg(format!("-datadir={}", datadir.display()));
    command.arg(format!("-bind=127.0.0.1:{}", place.port));
    command.arg(format!("-rpcport={}", place.rpc_port));
    command.arg(format!("-rpcuser={USER}")).arg(format!("-rpcpassword={PASSWORD}"));
    command.args(options);
    if !options.iter().any(|option| option.starts_with("-connect=")) {
        command.arg("-connect=0");
    }
    ForeignNode::start(place, datadir.join("regtest/debug.log"), command)
}

/// A directory with blocks of every kind: a branch that was left, one that was never connected, and a header
/// without its block above the tip.
pub(super) struct Directory {
    pub(super) node: Node,
    pub(super) stats: Value,
    pub(super) chain: &'static RecentChain,
    /// Blocks behind the chain's last one, up to the tip.
    pub(super) end: Vec<Vec<u8>>,
    /// Tips of the branch that was left, and of the one that never was in line.
    left: String,
    aside: String,
}

impl Directory {
    pub(super) fn make() -> Self {
        let (node, chain) = (Node::new("regtest"), chain::recent());
        let from = |parent: &[u8], height: u32, nonce: u8, count: u32| {
            let mut blocks: Vec<Vec<u8>> = Vec::new();
            for n in 0..count {
                let block = block::on(blocks.last().map_or(parent, |b| b), height + n, nonce, &[]);
                blocks.push(block);
            }
            blocks
        };
        let height = chain.summary.height + 1;
        let (left, end) = (from(chain.tip(), height, 1, 2), from(chain.tip(), height, 2, 3));
        let aside = from(&chain.blocks[chain.blocks.len() - 5], height - 4, 3, 2);
        let import = |name: &str, blocks: &[Vec<u8>]| {
            let path = node.beside(name);
            write_dat(&path, blocks);
            node.run(&[&"import", &path])
        };
        import("chain.dat", &[&chain.blocks[..], &left].concat()).expect(Exit::Success);
        import("end.dat", &[&end[..], &aside].concat()).expect(Exit::Success);
        // Its transactions are not those that the header names.
        let mut hollow = block::on(&end[2], height + 3, 2, &[]);
        *hollow.last_mut().expect("a block has bytes") ^= 1;
        import("header.dat", &[hollow]).expect(Exit::InputRefused);
        let stats = node.stats();
        assert_eq!(stats["bestblock"], hash(&end[2]));
        Self { node, stats, chain, end, left: hash(&left[1]), aside: hash(&aside[1]) }
    }

    pub(super) fn height(&self) -> u64 {
        self.chain.height() + self.end.len() as u64
    }
}

fn verifies(bitcoind: &ForeignNode) {
    assert_eq!(bitcoind.rpc.call("verifychain", &json!([4, 0])), true);
}

fn muhash(bitcoind: &ForeignNode) -> Value {
    bitcoind.rpc.call("gettxoutsetinfo", &json!(["muhash"]))["muhash"].take()
}

#[test]
fn bitcoind_goes_on_where_godwit_handed_over() {
    let programs = programs();
    if programs.is_empty() {
        return;
    }
    let directory = Directory::make();
    for (name, program) in programs {
        let to = directory.node.beside(name);
        let ended = hand_over(&directory.node, &to).expect(Exit::Success);
        let printed = directory.stats["muhash"].as_str().expect("a hash");
        assert!(ended.stdout.contains(printed), "{ended:?}");
        let mut bitcoind = start(&program, &to, &[]);
        assert_eq!(bitcoind.tip(), directory.stats["bestblock"], "{name}: at once");
        assert!(!bitcoind.logged("eindexing"), "{name}");
        assert_same_coins(&directory.stats, &bitcoind);
        verifies(&bitcoind);
        knows_all_branches(&directory, &bitcoind);
        goes_back_and_forth(&directory, &bitcoind);
        // Undo records and blocks of its own, in the pair that was copied; and it starts on those again.
        bitcoind.rpc.call("generatetodescriptor", &json!([3, "raw(51)"]));
        let (tip, coins) = (bitcoind.tip(), muhash(&bitcoind));
        bitcoind.restart();
        assert_eq!((bitcoind.tip(), muhash(&bitcoind)), (tip, coins), "{name}");
        verifies(&bitcoind);
        say(&format!("interop: {name} goes on from godwit's {} blocks", directory.height()));
    }
    // What bitcoind has done did not reach the files that both have.
    let ended = directory.node.run(&[&"verify"]).expect(Exit::Success);
    assert!(ended.stdout.contains("Damage: none"), "{ended:?}");
    assert_eq!(stats(&directory.node), directory.stats);
}

/// Genesis, branches and headers, as bitcoind has them of its own accord.
fn knows_all_branches(directory: &Directory, bitcoind: &ForeignNode) {
    let tips = bitcoind.rpc.call("getchaintips", &json!([]));
    let status = |hash: &str| {
        let tips = tips.as_array().expect("a list");
        tips.iter().find(|tip| tip["hash"] == hash).map(|tip| tip["status"].clone())
    };
    assert_eq!(status(&directory.left), Some("valid-fork".into()), "{tips}");
    assert_eq!(status(&directory.aside), Some("valid-headers".into()), "{tips}");
    let info = bitcoind.rpc.call("getblockchaininfo", &json!([]));
    assert_eq!(info["headers"], directory.height() + 1, "{info}");
    assert_eq!(info["blocks"], directory.height());
    let genesis = bitcoind.rpc.call("getblockhash", &json!([0]));
    let bytes = bitcoind.rpc.call("getblock", &json!([genesis, 0]));
    let bytes = hex::decode(bytes.as_str().expect("hexadecimal")).expect("hexadecimal");
    let mut found = sha256d(&bytes[..80]);
    found.reverse();
    assert_eq!(hex::encode(found), genesis.as_str().expect("a hash"));
}

/// How deep bitcoind is taken back.
const DEPTH: u64 = 100;

fn goes_back_and_forth(directory: &Directory, bitcoind: &ForeignNode) {
    let height = directory.height() - DEPTH + 1;
    let block = bitcoind.rpc.call("getblockhash", &json!([height]));
    bitcoind.rpc.call("invalidateblock", &json!([block]));
    assert!(bitcoind.height() < height, "godwit's undo records were read");
    bitcoind.rpc.call("reconsiderblock", &json!([block]));
    wait_until("bitcoind is back", || bitcoind.tip() == directory.stats["bestblock"]);
    assert_same_coins(&directory.stats, bitcoind);
}

#[test]
fn bitcoind_syncs_on_from_godwit_behind_a_hand_over() {
    let (chain, server) = (chain::recent(), Node::new("regtest"));
    let programs = programs();
    if programs.is_empty() {
        return;
    }
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    let half = chain.blocks.len() / 2;
    write_dat(&path, &chain.blocks[..half]);
    node.import(&path);
    let (godwit, port) = Follower::serving(&server, chain);
    for (name, program) in programs {
        let to = node.beside(name);
        hand_over(&node, &to).expect(Exit::Success);
        let connect = format!("-connect=127.0.0.1:{port}");
        let bitcoind = start(&program, &to, &[connect]);
        wait_until("bitcoind has the rest", || bitcoind.tip() == chain.summary.tip);
        assert_eq!(muhash(&bitcoind), chain.muhash, "{name}");
        verifies(&bitcoind);
    }
    assert_eq!(godwit.stop()["muhash"], chain.muhash);
    node.run(&[&"verify"]).expect(Exit::Success);
}

#[test]
fn a_pruned_directory_is_handed_over() {
    let programs = programs();
    if programs.is_empty() {
        return;
    }
    let (node, blocks) = (Node::new("regtest"), long_chain(THIN));
    let path = node.beside("chain.dat");
    write_dat(&path, &blocks);
    node.run(&[&"import", &"-prune=100", &path]).expect(Exit::Success);
    assert!(!node.network_dir().join("blocks/blk00000.dat").exists(), "it is pruned");
    let expected = node.stats();
    for (name, program) in programs {
        let to = node.beside(name);
        let ended = hand_over(&node, &to).expect(Exit::Success);
        assert!(ended.stdout.contains(" -prune=550\n"), "less than that is stored: {ended:?}");
        let stored_files = block_files(&to);
        let mut bitcoind = start(&program, &to, &["-prune=550".to_owned()]);
        assert_eq!(bitcoind.tip(), expected["bestblock"], "{name}");
        assert_same_coins(&expected, &bitcoind);
        assert_eq!(block_files(&to), stored_files, "{name} deletes nothing of what it got");
        let info = bitcoind.rpc.call("getblockchaininfo", &json!([]));
        let first = info["pruneheight"].as_u64().expect("a height");
        assert!(first > 1, "{info}");
        // Of a pruned node it is false where it meets a block that is not stored.
        let stored = bitcoind.height() - first;
        assert_eq!(bitcoind.rpc.call("verifychain", &json!([4, stored])), true, "{name}");
        bitcoind.rpc.call("generatetodescriptor", &json!([1, "raw(51)"]));
        bitcoind.restart();
        assert_eq!(bitcoind.rpc.call("verifychain", &json!([4, stored])), true, "{name}");
    }
}

/// Names of the block and undo files in a data directory of bitcoind.
fn block_files(datadir: &Path) -> Vec<String> {
    let mut files = names(&datadir.join("regtest/blocks"));
    files.retain(|name| name.starts_with("blk") || name.starts_with("rev"));
    files
}

/// As a power cut leaves it between the two renames at the end.
#[test]
fn bitcoind_makes_its_coins_from_the_blocks_if_they_are_all_that_it_finds() {
    let programs = programs();
    let Some((_, program)) = programs.first() else { return };
    let directory = Directory::make();
    let to = directory.node.beside("blocks-alone");
    hand_over(&directory.node, &to).expect(Exit::Success);
    fs::remove_dir_all(to.join("regtest/chainstate")).expect("a directory");
    let bitcoind = start(program, &to, &[]);
    wait_until("bitcoind has the coins", || bitcoind.tip() == directory.stats["bestblock"]);
    assert_same_coins(&directory.stats, &bitcoind);
}

#[test]
fn import_compares_its_coins_with_those_of_bitcoind() {
    let programs = programs();
    let chain = chain::recent();
    for (name, program) in programs {
        let (node, datadir) = (Node::new("regtest"), Place::new());
        let (datadir, file) = (datadir.path("core"), node.beside("chain.dat"));
        fs::create_dir_all(&datadir).expect("a temporary directory");
        chain.write(&file);
        // -loadblock of a whole chain fails with the check of the index.
        let load = [format!("-loadblock={}", file.display()), "-checkblockindex=0".to_owned()];
        let mut bitcoind = start(&program, &datadir, &load);
        wait_until("bitcoind has the chain", || bitcoind.tip() == chain.summary.tip);
        let running = node.run(&[&"import", &datadir]).expect(Exit::DatadirUnusable);
        assert_eq!(running.stderr.lines().count(), 1, "{running:?}");
        assert!(running.stderr.contains("stop the bitcoind that runs on it first"), "{running:?}");
        bitcoind.stop();
        let ended = node.run(&[&"import", &datadir]).expect(Exit::Success);
        assert!(ended.stdout.contains("are those of godwit"), "{name}: {ended:?}");
        assert_eq!(node.stats()["muhash"], chain.muhash);

        // Its coins of one block earlier, and all blocks.
        let fewer = Node::new("regtest");
        let stop = format!("-stopatheight={}", chain.height() - 1);
        let ended = fewer.run(&[&"import", &stop, &datadir]).expect(Exit::InputRefused);
        assert!(ended.stdout.contains("compares them"), "{name}: {ended:?}");

        // Its coins of another branch, which no height leads to.
        let mut bitcoind = start(&program, &datadir, &[]);
        for _ in 0..2 {
            bitcoind.rpc.call("invalidateblock", &json!([bitcoind.tip()]));
        }
        bitcoind.rpc.call("generatetodescriptor", &json!([1, "raw(51)"]));
        bitcoind.stop();
        let other = Node::new("regtest");
        let ended = other.run(&[&"import", &datadir]).expect(Exit::InputRefused);
        assert!(ended.stdout.contains("of another branch"), "{name}: {ended:?}");
        assert!(!ended.stdout.contains("compares them"), "{name}: {ended:?}");
    }
}

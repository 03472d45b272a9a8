//! What an operator does to the stored chain, beside bitcoind.

use std::fs;
use std::path::PathBuf;

use godwit::exit::Exit;
use serde_json::{Value, json};

use super::super::FILTERS;
use super::super::chain::RecentChain;
use super::super::process::ForeignNode;
use super::super::rpc::Rpc;
use super::super::{bitcoind, block, chain, wait_until};
use super::methods::assert_same;
use super::{Answering, RpcError};
use crate::blocks::{header, write_dat};
use crate::node::Node;
use crate::pruning::long_chain;

/// What is asked after each change of the chain.
fn of_the_chain() -> Vec<(&'static str, Value)> {
    ["getblockcount", "getbestblockhash", "getchaintips", "getblockchaininfo"]
        .map(|method| (method, json!([])))
        .to_vec()
}

/// A branch of empty blocks from below the last `depth` blocks, and as long.
fn branch(chain: &RecentChain, depth: usize, nonce: u8) -> Vec<Vec<u8>> {
    let mut blocks = vec![chain.blocks[chain.blocks.len() - 1 - depth].clone()];
    let first = chain.summary.height - depth as u32 + 1;
    for height in (first..).take(depth) {
        blocks.push(block::on(blocks.last().expect("it has a block"), height, nonce, &[]));
    }
    blocks.split_off(1)
}

fn submit(block: &[u8]) -> (&'static str, Value) {
    ("submitblock", json!([hex::encode(block)]))
}

#[test]
fn a_precious_block_goes_before_others_of_its_work_as_at_bitcoind() {
    const DEPTH: usize = 3;
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let branches: Vec<Vec<Vec<u8>>> = (1..=3).map(|nonce| branch(chain, DEPTH, nonce)).collect();
    for block in branches.iter().flatten() {
        assert_same(ours, theirs, &[submit(block)]);
    }
    let first = chain.tip().to_vec();
    let end = |n: usize| branches[n].last().expect("it has blocks").clone();
    let called = |method: &'static str, block: &[u8]| (method, json!([chain::hash(block)]));
    let precious = |block: &[u8]| called("preciousblock", block);
    for asked in [
        precious(&end(1)),
        precious(&end(1)),
        precious(&end(0)),
        // It has less work.
        precious(&branches[2][0]),
        precious(&end(2)),
        // The others keep their order.
        called("invalidateblock", &end(2)),
        called("invalidateblock", &end(0)),
        precious(&end(2)),
        called("reconsiderblock", &end(0)),
        called("reconsiderblock", &end(2)),
        precious(&first),
        precious(&end(0)),
        ("preciousblock", json!(["00".repeat(32)])),
        ("preciousblock", json!(["zz"])),
        ("preciousblock", json!([1])),
    ] {
        assert_same(ours, theirs, std::slice::from_ref(&asked));
        assert_same(ours, theirs, &of_the_chain());
    }
    // The tip stays what it is, and goes on.
    let tip = godwit.call("getbestblockhash", &json!([]));
    assert_eq!(tip, chain::hash(&end(0)));
    godwit.running.terminate();
    let godwit = Answering::start(&node, &[]);
    assert_eq!(godwit.call("getbestblockhash", &json!([])), tip);
    let above = block::on(&first, chain.summary.height + 1, 4, &[]);
    assert_same(godwit.port, theirs, &[submit(&above)]);
    assert_same(godwit.port, theirs, &of_the_chain());
    // Nothing of less work is preferred to it.
    assert_same(godwit.port, theirs, &[precious(&end(1))]);
    assert_same(godwit.port, theirs, &of_the_chain());
}

#[test]
fn the_last_blocks_are_looked_at_again_as_at_bitcoind() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let mut godwit = Answering::with_chain(&node, chain, &[]);
    let theirs = bitcoind.rpc.port();
    let mut asked = vec![("verifychain", json!([])), ("verifychain", json!([null, null]))];
    for level in [-1, 0, 1, 2, 3, 4, 5, i32::MAX] {
        for blocks in [-1, 0, 1, 6, 50, 1_000_000] {
            asked.push(("verifychain", json!([level, blocks])));
        }
    }
    asked.push(("verifychain", json!([1.5])));
    asked.push(("verifychain", json!([1_u64 << 40])));
    asked.push(("verifychain", json!(["3", 6])));
    assert_same(godwit.port, theirs, &asked);
    // After a branch was left: blocks of the other one are not looked at.
    for block in branch(chain, 3, 8) {
        assert_same(godwit.port, theirs, &[submit(&block)]);
    }
    assert_same(godwit.port, theirs, &[("verifychain", json!([4, 0]))]);

    // A byte of the last undo record that was written rots: that is seen from level 2 on.
    let undo = node.network_dir().join("blocks/rev00000.dat");
    let mut bytes = fs::read(&undo).expect("a file");
    let last = bytes.len() - 10;
    bytes[last] ^= 1;
    godwit.running.terminate();
    fs::write(&undo, &bytes).expect("the same file");
    // Otherwise the node finds and repairs it by itself.
    let mut godwit = Answering::start(&node, &["-scrub=0".to_owned()]);
    for (level, is_intact) in [(0, true), (1, true), (2, false), (3, false), (4, false)] {
        let found = godwit.call("verifychain", &json!([level, 20]));
        assert_eq!(found, is_intact, "{level}");
    }
    wait_until("the log says why", || godwit.running.log().0.contains("Verification: block "));
}

#[test]
fn the_coins_of_the_tip_are_dumped_as_bitcoind_dumps_them() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let (ours, theirs) = (godwit.port, bitcoind.rpc.port());
    let compare = |name: &str, arguments: &[Value]| {
        let (path, their_path) = (node.beside(name), node.beside(&format!("{name}-of-bitcoind")));
        let with = |path: &PathBuf| {
            let path = json!(path.display().to_string());
            Value::from_iter(std::iter::once(path).chain(arguments.iter().cloned()))
        };
        let mut dumped = godwit.call("dumptxoutset", &with(&path));
        let mut their_dump = bitcoind.rpc.call("dumptxoutset", &with(&their_path));
        assert_eq!(dumped["path"].take(), json!(path.display().to_string()));
        assert_eq!(their_dump["path"].take(), json!(their_path.display().to_string()));
        assert_eq!(dumped, their_dump);
        let bytes = fs::read(&path).expect("a file");
        assert_eq!(bytes, fs::read(&their_path).expect("a file"));
        assert!(bytes.len() > 1_000 && !node.beside(&format!("{name}.incomplete")).exists());
    };
    compare("first", &[json!("latest")]);
    assert_same(ours, theirs, &[submit(&chain.honest_successor())]);
    compare("second", &[json!("latest"), json!({})]);
    compare("third", &[json!(""), json!({ "rollback": chain.summary.height + 1 })]);
    let tip = godwit.call("getbestblockhash", &json!([]));
    compare("fourth", &[json!("rollback"), json!({ "rollback": tip, "in_memory": true })]);

    // Behind a link that leads nowhere there is no file: it is replaced.
    for name in ["fifth", "fifth-of-bitcoind"] {
        std::os::unix::fs::symlink("nowhere", node.beside(name)).expect("a link");
    }
    compare("fifth", &[json!("latest")]);
    std::os::unix::fs::symlink("first", node.beside("link")).expect("a link");
    let link = json!(node.beside("link").display().to_string());

    let there = json!(node.beside("first").display().to_string());
    let nowhere = json!(node.beside("no/such/directory").display().to_string());
    let new = json!(node.beside("new").display().to_string());
    let asked: Vec<(&str, Value)> = [
        json!([there, "latest"]),
        json!([link, "latest"]),
        json!([nowhere, "latest"]),
        json!([new]),
        json!([new, ""]),
        json!([new, "Latest"]),
        json!([new, "latest", { "rollback": 5 }]),
        json!([new, "nonsense", { "rollback": 5 }]),
        json!([new, "rollback", { "rollback": -1 }]),
        json!([new, "rollback", { "rollback": 1_000_000 }]),
        json!([new, "rollback", { "rollback": "zz" }]),
        json!([new, "rollback", { "rollback": "00".repeat(32) }]),
        json!([new, "rollback", { "rollback": [] }]),
        json!([there, "rollback", { "rollback": tip }]),
    ]
    .map(|params| ("dumptxoutset", params))
    .to_vec();
    assert_same(ours, theirs, &asked);
    // An earlier block's coins are not there.
    let refused = godwit.rpc.try_call("dumptxoutset", &json!([new, "", { "rollback": 5 }]));
    assert!(matches!(refused, Err(RpcError::Refused(error)) if error["code"] == -1));
    // Relative to the data directory.
    let dumped = godwit.call("dumptxoutset", &json!(["relative.dat", "latest"]));
    let path = node.network_dir().join("relative.dat");
    assert_eq!(dumped["path"], json!(path.display().to_string()));
    assert!(path.exists());
}

/// Without an option, `rollback` goes to the network's highest snapshot: on regtest to block 299.
#[test]
fn a_dump_goes_back_to_the_highest_snapshot() {
    let Some(bitcoind) = bitcoind::start(&bitcoind::Start::default()) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::start(&node, &[]);
    let dump = |name: &str| json!([node.beside(name).display().to_string(), "rollback"]);
    let asked = [("dumptxoutset", dump("too-early"))];
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    godwit.call("generatetodescriptor", &json!([299, "raw(51)"]));
    let dumped = godwit.call("dumptxoutset", &dump("there"));
    assert_eq!((&dumped["base_height"], node.beside("there").exists()), (&json!(299), true));
    godwit.call("generatetodescriptor", &json!([1, "raw(51)"]));
    let refused = godwit.rpc.try_call("dumptxoutset", &dump("too-late"));
    assert!(matches!(refused, Err(RpcError::Refused(error)) if error["code"] == -1));
    assert!(!node.beside("too-early").exists() && !node.beside("too-late").exists());
}

/// So many thin blocks above those of the first block file that some may be pruned.
const THIN: u16 = 900;

/// A bitcoind with the chain of a file.
fn with_blocks(file: &str, tip: &str, options: &[&str]) -> Option<ForeignNode> {
    let load = format!("-loadblock={file}");
    let options = [&[load.as_str()], options].concat();
    let bitcoind = bitcoind::start(&bitcoind::Start { options: &options, ..Default::default() })?;
    wait_until("bitcoind has the chain", || bitcoind.tip() == tip);
    Some(bitcoind)
}

/// Has a node connect to another one; its id there.
fn connect(call: &dyn Fn(&str, &Value) -> Value, port: u16) -> Value {
    call("addnode", &json!([format!("127.0.0.1:{port}"), "onetry"]));
    let mut id = Value::Null;
    wait_until("they are connected", || {
        let peers = call("getpeerinfo", &json!([]));
        id = peers[0]["id"].clone();
        peers[0]["version"].as_i64().is_some_and(|version| version > 0)
            && peers[0]["servicesnames"].as_array().is_some_and(|names| !names.is_empty())
    });
    id
}

/// Both nodes with the long chain.
struct Both<'a> {
    godwit: &'a Answering<'a>,
    bitcoind: &'a ForeignNode,
    blocks: &'a [Vec<u8>],
}

impl Both<'_> {
    fn ask(&self, asked: &[(&str, Value)]) {
        assert_same(self.godwit.port, self.bitcoind.rpc.port(), asked);
    }

    fn hash(&self, height: usize) -> String {
        chain::hash(&self.blocks[height - 1])
    }

    fn tip(&self) -> &[u8] {
        self.blocks.last().expect("a block")
    }

    /// What is told of a block.
    fn of_block(&self, height: usize) -> Vec<(&'static str, Value)> {
        let hash = self.hash(height);
        vec![
            ("getblockchaininfo", json!([])),
            ("getblock", json!([hash])),
            ("getblockstats", json!([height])),
            ("getblockfilter", json!([hash])),
            ("getdescriptoractivity", json!([[hash], ["nonsense"]])),
            ("getdescriptoractivity", json!([[hash], [], false])),
        ]
    }

    fn prune(&self) {
        let (height, time) = (self.blocks.len(), header(&self.blocks[300]).time);
        for to in [
            json!(-1),
            json!(0),
            json!(1),
            json!(100),
            json!(height + 1),
            json!(1_000_000_000),
            json!(1_000_000_001),
            json!(i32::MAX),
            json!(1_u64 << 40),
            json!("x"),
            // More than a file's blocks.
            json!(time + 7200),
            json!(height),
            json!(height),
            json!(5),
            json!(0),
        ] {
            self.ask(&[("pruneblockchain", json!([to]))]);
            self.ask(&self.of_block(9));
            self.ask(&self.of_block(height - 300));
        }
        self.ask(&[("verifychain", json!([4, 10])), ("verifychain", json!([0, 0]))]);
    }

    /// Has a pruned block fetched of a third node.
    fn fetch(&self, full: &ForeignNode) {
        let Self { godwit, bitcoind, .. } = self;
        let id = connect(&|method, params| godwit.call(method, params), full.port);
        let their_id = connect(&|method, params| bitcoind.rpc.call(method, params), full.port);
        let (pruned, last) = (self.hash(9), self.hash(self.blocks.len()));
        let above = |nonce| block::on(self.tip(), self.blocks.len() as u32 + 1, nonce, &[]);
        let (unknown, known) = (above(3), above(4));
        self.ask(&[("submitheader", json!([hex::encode(&known[..80])]))]);
        for params in [
            json!([pruned, 77]),
            json!([pruned, -1]),
            json!(["zz", 0]),
            json!([pruned, "0"]),
            json!([chain::hash(&unknown), 77]),
            json!([chain::hash(&known), 77]),
        ] {
            self.ask(&[("getblockfrompeer", params)]);
        }
        // The peer has another id at each of the nodes.
        let fetched = |hash: &str| {
            let ask = |rpc: &Rpc, id: &Value| {
                format!("{:?}", rpc.try_call("getblockfrompeer", &json!([hash, id])))
            };
            let (found, expected) = (ask(&godwit.rpc, &id), ask(&bitcoind.rpc, &their_id));
            assert_eq!(found, expected, "{hash}");
            found
        };
        for hash in [last, chain::hash(&unknown), chain::hash(&known)] {
            assert!(fetched(&hash).starts_with("Err"));
        }
        assert!(fetched(&pruned).starts_with("Ok"));
        for call in [&godwit.rpc, &bitcoind.rpc] {
            wait_until("the block is there", || {
                call.try_call("getblock", &json!([pruned, 0])).is_ok()
            });
        }
        assert!(fetched(&pruned).contains("Block already downloaded"));
        self.ask(&[("getblock", json!([pruned, 0])), ("getblock", json!([pruned, 1]))]);
        self.ask(&[("getblockchaininfo", json!([])), ("verifychain", json!([4, 10]))]);
        self.ask(&[("getblock", json!([self.hash(10)]))]);
    }

    /// Hands in another one, which may not be what it seems at first.
    fn hand_in(&self, height: usize) {
        let block = &self.blocks[height - 1];
        let mut forged = block.clone();
        *forged.last_mut().expect("a lock time") ^= 1;
        let read = ("getblock", json!([self.hash(height), 0]));
        self.ask(&[submit(&forged), read.clone()]);
        self.ask(&[submit(block), read.clone(), submit(block), submit(&forged), read]);
        let read = self.godwit.rpc.try_call("getblock", &json!([self.hash(height), 0]));
        assert!(matches!(read, Ok(hex) if hex == hex::encode(block)));
        // Here the one right below the lowest stored one is not taken, whoever has it.
        let info = self.godwit.call("getblockchaininfo", &json!([]));
        let next = info["pruneheight"].as_u64().expect("a height") as usize - 1;
        let params = json!([self.hash(next), 0]);
        let refused = self.godwit.rpc.try_call("getblockfrompeer", &params);
        assert!(format!("{refused:?}").contains("next to the lowest stored one"), "{refused:?}");
        let (method, params) = submit(&self.blocks[next - 1]);
        assert_eq!(self.godwit.call(method, &params), "duplicate");
        self.ask(&[("getblockchaininfo", json!([])), ("verifychain", json!([4, 10]))]);
    }
}

/// A rotten filter costs its own answer, and what shows at the start is named: nothing of the index is
/// deleted.
fn is_damaged_beyond_rebuild(node: &Node, mut godwit: Answering<'_>, blocks: &[Vec<u8>]) {
    let dir = node.network_dir().join("indexes/blockfilter/basic");
    let flip = |name: &str, at: usize| {
        let mut bytes = fs::read(dir.join(name)).expect("a file");
        bytes[at] ^= 4;
        fs::write(dir.join(name), bytes).expect("the same file");
    };
    let info = |godwit: &Answering<'_>| {
        godwit.call("getindexinfo", &json!([]))["basic block filter index"].clone()
    };
    // The filter of block 1, behind that of genesis, of four bytes, and what is before each.
    flip("fltr00000.dat", 32 + 1 + 4 + 32 + 1);
    for _ in 0..2 {
        let asked = godwit.rpc.try_call("getblockfilter", &json!([chain::hash(&blocks[0])]));
        let text = "Filter not found. This error is unexpected and indicates index corruption.";
        assert!(format!("{asked:?}").contains(text), "{asked:?}");
        std::thread::sleep(std::time::Duration::from_secs(2));
        godwit.call("getblockfilter", &json!([chain::hash(&blocks[1])]));
        assert_eq!(info(&godwit), json!({"synced": true, "best_block_height": blocks.len()}));
    }
    godwit.running.terminate();
    drop(godwit);
    flip("records.dat", 0);
    let before = fs::read(dir.join("records.dat")).expect("a file");
    let words: [&dyn AsRef<std::ffi::OsStr>; 4] =
        [&"-prune=1", &FILTERS, &"-connect=0", &"-listen=0"];
    let ended = node.run(&words).expect(Exit::Damaged);
    assert!(ended.stderr.contains("which it would be built again from, are deleted"), "{ended:?}");
    assert_eq!(fs::read(dir.join("records.dat")).expect("it is there"), before);
}

#[test]
fn old_blocks_are_deleted_on_request_and_fetched_again_as_at_bitcoind() {
    let node = Node::new("regtest");
    let (blocks, path) = (long_chain(THIN), node.beside("blocks.dat"));
    write_dat(&path, &blocks);
    let (file, tip) = (path.display().to_string(), chain::hash(blocks.last().expect("a block")));
    let Some(bitcoind) = with_blocks(&file, &tip, &["-prune=1", FILTERS]) else { return };
    node.import(&path);
    let options = ["-prune=1".to_owned(), FILTERS.to_owned()];
    let godwit = Answering::start(&node, &options);
    // Nothing is deleted before the indexes have read it.
    for rpc in [godwit.rpc, bitcoind.rpc] {
        wait_until("the index is there", || {
            rpc.call("getindexinfo", &json!([]))["basic block filter index"]["synced"] == true
        });
    }
    let both = Both { godwit: &godwit, bitcoind: &bitcoind, blocks: &blocks };
    both.prune();
    for name in ["blk00000.dat", "rev00000.dat"] {
        assert!(!node.network_dir().join("blocks").join(name).exists(), "{name}");
    }
    let Some(full) = with_blocks(&file, &tip, &[]) else { return };
    both.fetch(&full);
    both.hand_in(12);
    // It is kept across a restart, and pruned again with the file in which it lies.
    let (fetched, height) = (both.hash(9), blocks.len());
    let mut godwit = godwit;
    godwit.running.terminate();
    let godwit = Answering::start(&node, &options);
    let both = Both { godwit: &godwit, bitcoind: &bitcoind, blocks: &blocks };
    both.ask(&[("getblock", json!([fetched, 0])), ("pruneblockchain", json!([height]))]);
    both.ask(&[("getblockchaininfo", json!([]))]);
    // Without -prune, with which Core would refuse to start, they are gone all the same.
    let lowest = godwit.call("getblockchaininfo", &json!([]))["pruneheight"].clone();
    let mut godwit = godwit;
    godwit.restart(&node, &options[1..]);
    let info = godwit.call("getblockchaininfo", &json!([]));
    assert_eq!((&info["pruned"], &info["automatic_pruning"]), (&json!(true), &json!(false)));
    assert!(lowest.as_u64().is_some_and(|lowest| lowest > 0) && info["pruneheight"] == lowest);
    is_damaged_beyond_rebuild(&node, godwit, &blocks);
    // An index that begins now would wait for ever.
    fs::remove_dir_all(node.network_dir().join("indexes")).expect("a directory");
    for (prune, index) in [("-prune=1", FILTERS), ("-prune=0", FILTERS), ("-prune=0", "-txindex")] {
        let words: [&dyn AsRef<std::ffi::OsStr>; 4] = [&prune, &index, &"-connect=0", &"-listen=0"];
        let ended = node.run(&words).expect(Exit::Configuration);
        assert!(
            ended.stderr.contains("has come to height 0, and blocks below height"),
            "{ended:?}"
        );
    }
}

#[test]
fn a_node_that_keeps_all_deletes_nothing_on_request() {
    let chain = chain::recent();
    let Some(bitcoind) = bitcoind::with_chain(chain, &[]) else { return };
    let node = Node::new("regtest");
    let godwit = Answering::with_chain(&node, chain, &[]);
    let asked: Vec<(&str, Value)> = [json!([5]), json!([-1]), json!([]), json!(["x"])]
        .map(|to| ("pruneblockchain", to))
        .to_vec();
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
    // Where blocks are pruned by their size, too, a short chain is too short.
    let start = bitcoind::Start { chain: Some(chain), prune: true, ..bitcoind::Start::default() };
    let Some(bitcoind) = bitcoind::start(&start) else { return };
    drop(godwit);
    let godwit = Answering::start(&node, &["-prune=550".to_owned()]);
    assert_same(godwit.port, bitcoind.rpc.port(), &asked);
}

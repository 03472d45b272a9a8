//! `loadtxoutset`: a running node takes the coins of a snapshot.
//!
//! The chain is one of Core's own tests, whose snapshot at height 200 every regtest node knows.

mod beside;
mod ends;
mod refusals;

use std::fs;
use std::net::TcpStream;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use godwit::exit::Exit;
use godwit_primitives::sha256::sha256;
use godwit_primitives::{
    BlockHash, BlockHeader, COIN, MerkleRoot, OutPoint, Transaction, TxIn, TxOut, merkle,
};
use godwit_sim::miner::REGTEST_BITS;
use godwit_stream::DataStream;
use serde_json::{Value, json};

use super::super::{free_port, wait_until};
use super::{Answering, RpcError};
use crate::blocks::{header, write_dat};
use crate::node::Node;
use crate::sync::serve;

/// The snapshot's block, as Core's `kernel/chainparams.cpp` has it.
const BASE: u64 = 200;
const BASE_HASH: &str = "385901ccbd69dff6bbd00065d01fb8a9e464dede7cfe0372443884f9b1dcf6b9";
const COINS_HASH: &str = "17dcc016d188d16068907cdeb38b75691a118d43053b8cd6a25969419381d13a";

/// Blocks that the node has before.
const BEFORE: u64 = 10;

/// The beginning of what programs are told while the node is not there.
const PAUSES: [&str; 3] =
    ["Loading UTXO snapshot…", "Hashing UTXO snapshot…", "Loading block index…"];

/// The number in a coinbase's script (`CScript() << height`).
fn pushed(height: u32) -> Vec<u8> {
    match height {
        1..=16 => vec![0x50 + height as u8],
        _ => {
            let mut bytes = height.to_le_bytes().to_vec();
            while bytes.last() == Some(&0) {
                bytes.pop();
            }
            if bytes.last().is_some_and(|last| *last >= 0x80) {
                bytes.push(0);
            }
            [&[bytes.len() as u8][..], &bytes].concat()
        }
    }
}

/// Core's `CreateBlockChain` (`test/util/mining.cpp`).
static CHAIN: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let genesis = godwit_primitives::Params::new(godwit_primitives::Network::Regtest).genesis;
    let script = [&[0, 32][..], &sha256(&[0x51])].concat();
    let (mut parent, mut time) = (genesis.block_hash(), genesis.time);
    (1..=230)
        .map(|height: u32| {
            let input = TxIn {
                prevout: OutPoint::NULL,
                script_sig: [&pushed(height)[..], &[0]].concat(),
                sequence: u32::MAX - 1,
                witness: Vec::new(),
            };
            let value = (50 * COIN) >> (height / 150);
            let output = TxOut { value, script_pubkey: script.clone() };
            let coinbase = Transaction {
                version: 2,
                inputs: vec![input],
                outputs: vec![output],
                lock_time: height - 1,
            };
            time += 1;
            let (merkle_root, _) = merkle::merkle_root([coinbase.txid().to_bytes()]);
            let mut header = BlockHeader {
                version: 4,
                prev_blockhash: parent,
                merkle_root: MerkleRoot::from_bytes(merkle_root),
                time,
                bits: REGTEST_BITS,
                nonce: 0,
            };
            while header.block_hash().to_bytes()[31] > 0x7f {
                header.nonce += 1;
            }
            parent = header.block_hash();
            let mut block: DataStream = DataStream::new();
            block.put(&header);
            block.write_compact_size(1);
            block.put(&coinbase);
            block.as_slice().to_vec()
        })
        .collect()
});

fn hash(height: u64) -> BlockHash {
    header(&CHAIN[height as usize - 1]).block_hash()
}

/// The snapshot's bytes.
static SNAPSHOT: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let donor = Node::new("regtest");
    let (chain, dump) = (donor.beside("chain.dat"), donor.beside("dump.dat"));
    write_dat(&chain, &CHAIN[..BASE as usize]);
    donor.import(&chain);
    let said = donor.run(&[&"utxo", &"dump", &dump]).expect(Exit::Success).json();
    assert_eq!(said["base_hash"], BASE_HASH, "the chain is Core's");
    assert_eq!(said["txoutset_hash"], COINS_HASH);
    fs::read(dump).expect("the dump")
});

/// A node that has the first blocks and `headers` headers, and the snapshot in its directory.
fn with_headers(node: &Node, headers: usize) {
    let blocks = node.beside("chain.dat");
    // The others are damaged behind their headers.
    let mut records = CHAIN[..headers].to_vec();
    records[BEFORE as usize..].iter_mut().for_each(|block| block.truncate(81));
    write_dat(&blocks, &records);
    node.run(&[&"import", &blocks]).expect(Exit::InputRefused);
    assert_eq!(node.stats()["height"], BEFORE);
    fs::write(snapshot_of(node), &*SNAPSHOT).expect("a file");
}

fn snapshot_of(node: &Node) -> PathBuf {
    node.network_dir().join("snapshot.dat")
}

/// A node with all of the chain.
fn donor() -> Node {
    let donor = Node::new("regtest");
    let chain = donor.beside("chain.dat");
    write_dat(&chain, &*CHAIN);
    donor.import(&chain);
    donor
}

fn load(answering: &Answering<'_>, path: &str) -> Result<Value, RpcError> {
    answering.rpc.try_call("loadtxoutset", &json!([path]))
}

#[track_caller]
fn refuses(answering: &Answering<'_>, path: &str, code: i32, text: &str) {
    match load(answering, path) {
        Err(RpcError::Refused(error)) => {
            assert_eq!((&error["code"], &error["message"]), (&json!(code), &json!(text)), "{path}");
        }
        other => panic!("{path}: {other:?}"),
    }
}

fn is_pause(error: &Value) -> bool {
    let text = error["message"].as_str().unwrap_or_default();
    error["code"] == -28 && PAUSES.iter().any(|pause| text.starts_with(pause))
}

/// Asks until `end`, on connections of its own: how often it was told a height, and that the node pauses.
fn ask_until(answering: &Answering<'_>, end: &AtomicBool, method: &str) -> [u32; 2] {
    let (rpc, mut counts) = (answering.rpc, [0, 0]);
    while !end.load(Ordering::SeqCst) {
        match rpc.try_call(method, &json!([])) {
            Ok(_) => counts[0] += 1,
            Err(RpcError::Refused(error)) if is_pause(&error) => counts[1] += 1,
            Err(error) => panic!("{method}: {error:?}"),
        }
    }
    counts
}

#[track_caller]
fn states(answering: &Answering<'_>) -> Vec<(u64, bool)> {
    let states = answering.call("getchainstates", &json!([]));
    let state = |state: &Value| {
        let validated = state["validated"].as_bool().expect("a bool");
        (state["blocks"].as_u64().expect("a height"), validated)
    };
    states["chainstates"].as_array().expect("a list").iter().map(state).collect()
}

fn result_of(node: &Node) -> Value {
    json!({
        "coins_loaded": BASE,
        "tip_hash": BASE_HASH,
        "base_height": BASE,
        "path": snapshot_of(node).display().to_string(),
    })
}

/// Loads the snapshot while others ask: what was said, and how often each was answered and told of the pause.
fn load_while_asked(godwit: &Answering<'_>) -> (Result<Value, RpcError>, [[u32; 2]; 3]) {
    let end = AtomicBool::new(false);
    thread::scope(|scope| {
        let asking = ["getblockcount", "getchainstates", "getsyncstatus"]
            .map(|method| scope.spawn(|| ask_until(godwit, &end, method)));
        // One that waits for what does not come hears of the pause.
        let waits = scope.spawn(|| godwit.rpc.try_call("waitforblockheight", &json!([1_000])));
        wait_until("it waits", || {
            let active = godwit.call("getrpcinfo", &json!([]))["active_commands"].clone();
            active.as_array().is_some_and(|all| {
                all.iter().any(|command| command["method"] == "waitforblockheight")
            })
        });
        let loaded = load(godwit, "snapshot.dat");
        assert_eq!(godwit.call("getblockcount", &json!([])), BASE, "at once behind the answer");
        end.store(true, Ordering::SeqCst);
        match waits.join().expect("it ends") {
            Err(RpcError::Refused(error)) if is_pause(&error) => {}
            other => panic!("{other:?}"),
        }
        (loaded, asking.map(|asking| asking.join().expect("it ends")))
    })
}

/// The node deletes no blocks and has deleted none (Core: `IsPruneMode`).
#[track_caller]
fn expect_all_kept(info: &Value) {
    assert_eq!(info["pruned"], false, "{info}");
    for of_pruning in ["pruneheight", "automatic_pruning", "prune_target_size"] {
        assert_eq!(info.get(of_pruning), None, "{info}");
    }
}

/// The node has the snapshot's coins, and what the operator had changed of it before.
fn expect_loaded(godwit: &Answering<'_>) {
    assert_eq!(states(godwit), [(0, true), (BASE, false)]);
    let info = godwit.call("getblockchaininfo", &json!([]));
    assert_eq!(info["backgroundvalidation"]["snapshotheight"], BASE, "{info}");
    assert_eq!((&info["bestblockhash"], &info["headers"]), (&json!(BASE_HASH), &json!(230)));
    expect_all_kept(&info);
    // What is below the snapshot was not deleted: it was never there.
    for height in [BEFORE + 1, BASE - 1, BASE] {
        let asked = godwit.rpc.try_call("getblock", &json!([hash(height).to_string()]));
        let Err(RpcError::Refused(error)) = asked else { panic!("{height}: {asked:?}") };
        let text = "Block not available (not fully downloaded)";
        assert_eq!((&error["code"], &error["message"]), (&json!(-1), &json!(text)), "{height}");
    }
    let network = godwit.call("getnetworkinfo", &json!([]));
    let services = network["localservicesnames"].as_array().expect("a list");
    assert!(!services.contains(&json!("NETWORK")), "{services:?}");
    // What the operator had changed is as it was.
    assert_eq!(network["networkactive"], false);
    let added = godwit.call("getaddednodeinfo", &json!([]));
    assert_eq!(added[0]["addednode"], "127.0.0.1:1", "{added}");
    assert_eq!(godwit.call("listbanned", &json!([]))[0]["address"], "192.0.2.0/24");
}

#[test]
fn a_running_node_loads_a_snapshot_while_others_ask_and_validates_what_is_below() {
    let node = Node::new("regtest");
    with_headers(&node, CHAIN.len());
    let (web, zmq) = (free_port(), free_port());
    let options = [
        format!("-web=127.0.0.1:{web}"),
        format!("-zmqpubhashblock=tcp://127.0.0.1:{zmq}"),
        "-txindex".to_owned(),
        "-blockfilterindex=basic".to_owned(),
        "-coinstatsindex".to_owned(),
        "-rest=1".to_owned(),
        "-dnsseed=0".to_owned(),
    ];
    let mut godwit = Answering::start(&node, &options);
    assert_eq!(godwit.call("getblockcount", &json!([])), BEFORE);
    godwit.call("addnode", &json!(["127.0.0.1:1", "add"]));
    godwit.call("setban", &json!(["192.0.2.0/24", "add"]));
    godwit.call("setnetworkactive", &json!([false]));

    let (loaded, asked) = load_while_asked(&godwit);
    println!("answered, and told of the pause: {asked:?}");
    assert_eq!(loaded.expect("a good snapshot"), result_of(&node));
    assert!(asked.iter().all(|[answered, _]| *answered > 0), "{asked:?}");
    assert!(asked.iter().any(|[_, told]| *told > 0), "{asked:?}");

    expect_loaded(&godwit);
    let status = crate::pages::ask(web, "GET /status.json", &["Host: localhost"]);
    let (status, _, body) = status.expect("the page's server is there");
    let body: Value = serde_json::from_str(&body).expect("JSON");
    assert_eq!((status, &body["blocks"]), (200, &json!(BASE)), "{body}");
    drop(TcpStream::connect(("127.0.0.1", zmq)).expect("the publisher listens"));
    refuses(
        &godwit,
        "snapshot.dat",
        -32603,
        &format!(
            "Unable to load UTXO snapshot: Can't activate a snapshot-based chainstate more than once. ({})",
            snapshot_of(&node).display()
        ),
    );
    assert_eq!(node.log().matches("The node pauses to load").count(), 1);

    // Restarted, it goes on; and the background validation comes to its end.
    godwit.restart(&node, &options);
    assert_eq!(states(&godwit), [(0, true), (BASE, false)]);
    expect_all_kept(&godwit.call("getblockchaininfo", &json!([])));
    let (whole, port) = (donor(), free_port());
    let serving = serve(&whole, port);
    godwit.call("addnode", &json!([format!("127.0.0.1:{port}"), "add"]));
    wait_until("the history is validated", || states(&godwit) == [(CHAIN.len() as u64, true)]);
    expect_all_kept(&godwit.call("getblockchaininfo", &json!([])));
    // Otherwise those that want undo records look for them once a minute.
    godwit.restart(&node, &options);
    let index = |name: &str| godwit.call("getindexinfo", &json!([name]))[name].clone();
    wait_until("the indexes are complete", || {
        ["txindex", "basic block filter index", "coinstatsindex"].iter().all(|name| {
            let index = index(name);
            index["synced"] == true && index["best_block_height"] == CHAIN.len()
        })
    });
    assert!(godwit.running.terminate().1.success());
    drop(serving);
    assert_eq!(node.stats(), whole.stats());
    node.run(&[&"verify"]).expect(Exit::Success);
}

/// Two calls at once: one loads, and the other one is refused, or hears of the pause.
#[test]
fn of_two_calls_at_once_one_loads() {
    let node = Node::new("regtest");
    with_headers(&node, BASE as usize);
    let mut godwit = Answering::start(&node, &[]);
    let said = thread::scope(|scope| {
        [(); 2].map(|()| scope.spawn(|| load(&godwit, "snapshot.dat"))).map(|call| call.join())
    });
    let said = said.map(|said| said.expect("it ends"));
    assert_eq!(said.iter().filter(|said| said.is_ok()).count(), 1, "{said:?}");
    for said in said {
        match said {
            Ok(result) => assert_eq!(result, result_of(&node)),
            Err(RpcError::Refused(error)) if is_pause(&error) => {}
            Err(RpcError::Refused(error)) => {
                let text = error["message"].as_str().expect("a text");
                assert!(text.contains("more than once"), "{error}");
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(states(&godwit), [(0, true), (BASE, false)]);
    assert!(godwit.running.terminate().1.success());
}

/// A pruned node loads, and with an index that is behind it does not.
#[test]
fn a_pruned_node_loads_unless_an_index_would_miss_blocks() {
    let node = Node::new("regtest");
    with_headers(&node, BASE as usize);
    let options = ["-prune=550".to_owned(), "-blockfilterindex=basic".to_owned()];
    let mut godwit = Answering::start(&node, &options);
    wait_until("the index is complete", || {
        let info = godwit.call("getindexinfo", &json!([]));
        info["basic block filter index"]["best_block_height"] == BEFORE
    });
    let why = "With -prune, the indexes have to be complete up to the snapshot's height, and one is at 10";
    let path = snapshot_of(&node);
    let text = format!("Unable to load UTXO snapshot: {why}. ({})", path.display());
    refuses(&godwit, "snapshot.dat", -32603, &text);
    godwit.restart(&node, &options[..1]);
    assert_eq!(load(&godwit, "snapshot.dat").expect("a good snapshot"), result_of(&node));
    assert_eq!(states(&godwit), [(0, true), (BASE, false)]);
    let info = godwit.call("getblockchaininfo", &json!([]));
    assert_eq!((&info["pruned"], &info["automatic_pruning"]), (&json!(true), &json!(true)));
    let (donor, port) = (donor(), free_port());
    let _serving = serve(&donor, port);
    godwit.call("addnode", &json!([format!("127.0.0.1:{port}"), "add"]));
    wait_until("the history is validated", || states(&godwit) == [(CHAIN.len() as u64, true)]);
    assert!(godwit.running.terminate().1.success());
}

/// Nothing is deleted: what the index lacks is still to be validated.
#[test]
fn an_index_that_is_behind_waits_for_the_history_before_pruning_is_turned_on() {
    const FILTERS: &str = "-blockfilterindex=basic";
    let node = Node::new("regtest");
    with_headers(&node, BASE as usize);
    let mut godwit = Answering::start(&node, &[FILTERS.to_owned()]);
    let wait_for_index = |godwit: &Answering<'_>, height: u64| {
        wait_until("the index is there", || {
            let info = godwit.call("getindexinfo", &json!([]));
            info["basic block filter index"]["best_block_height"] == height
        });
    };
    wait_for_index(&godwit, BEFORE);
    load(&godwit, "snapshot.dat").expect("a good snapshot");
    assert!(godwit.running.terminate().1.success());
    let options: [&dyn AsRef<std::ffi::OsStr>; 4] =
        [&"-prune=550", &FILTERS, &"-connect=0", &"-listen=0"];
    let why = "the basic block filter index has come to height 10, and blocks below height 201 are of a snapshot's \
               history, which is not validated yet: leave out -prune until it is, or the index";
    let ended = node.run(&options).expect(Exit::Configuration);
    assert!(ended.stderr.contains(why), "{ended:?}");
    // The same of an index that is new.
    fs::remove_dir_all(node.network_dir().join("indexes")).expect("a directory");
    let ended = node.run(&options).expect(Exit::Configuration);
    assert!(ended.stderr.contains(&why.replace("height 10", "height 0")), "{ended:?}");

    let mut godwit = Answering::start(&node, &[FILTERS.to_owned()]);
    let (donor, port) = (donor(), free_port());
    let _serving = serve(&donor, port);
    godwit.call("addnode", &json!([format!("127.0.0.1:{port}"), "add"]));
    wait_until("the history is validated", || states(&godwit) == [(CHAIN.len() as u64, true)]);
    wait_for_index(&godwit, CHAIN.len() as u64);
    godwit.restart(&node, &["-prune=550".to_owned(), FILTERS.to_owned()]);
    wait_for_index(&godwit, CHAIN.len() as u64);
    assert!(godwit.running.terminate().1.success());
}

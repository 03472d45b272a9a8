//! `utxo dump` and `utxo load`.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use godwit::exit::Exit;
use godwit_sim::hostile::reorganisations;
use godwit_testdata::{read, shared_data};
use rustix::fs::{CWD, Mode, mkfifoat};
use serde_json::Value;

use crate::blocks::{small_chain, write_dat};
use crate::client::ask;
use crate::import::{real_chain, small_chain_stats};
use crate::node::Node;
use crate::running::{Moment, Running};
use crate::sync::{free_port, serve, wait_until, with_small_chain};
use crate::verify::coins_line;

/// Dumps at a height and compares with the file that Core wrote there.
fn dumps_as_core(chain: &'static str, blocks: &str, height: u32, snapshot: &str) {
    let Some(dir) = shared_data() else { return };
    let node = Node::new(chain);
    let stop = format!("-stopatheight={height}");
    let path = real_chain(&node, &dir, blocks);
    node.run(&[&"import", &stop, &path]).expect(Exit::Success);
    let dump = node.beside("dump.dat");
    let said = node.run(&[&"utxo", &"dump", &dump]).expect(Exit::Success).json();
    assert_eq!(said["base_height"], height);
    assert_eq!(said["txoutset_hash"], node.stats()["hash_serialized_3"]);
    let cores = read(dir.join("utxo").join(snapshot));
    assert!(fs::read(dump).expect("the dump") == cores, "{snapshot} differs");
}

#[test]
fn dumps_are_cores_byte_for_byte() {
    dumps_as_core("test", "testnet3_1_2500.dat", 600, "snapshot_testnet3_600.dat.zst");
    dumps_as_core("test", "testnet3_1_2500.dat", 2500, "snapshot_testnet3_2500.dat.zst");
    dumps_as_core("main", "mainnet_0_299.dat", 299, "snapshot_mainnet_299.dat.zst");
    dumps_as_core("signet", "signet_0_60.dat", 60, "snapshot_signet_60.dat.zst");
}

/// Height of the snapshot of the small chain.
const BASE: u64 = 120;

/// A dump of the small chain at [`BASE`] beside `node`, with its hash.
pub(crate) fn small_snapshot(node: &Node) -> (PathBuf, String) {
    let donor = Node::new("regtest");
    let chain = donor.beside("chain.dat");
    write_dat(&chain, small_chain());
    let stop = format!("-stopatheight={BASE}");
    donor.run(&[&"import", &stop, &chain]).expect(Exit::Success);
    let path = node.beside("snapshot.dat");
    let said = donor.run(&[&"utxo", &"dump", &path]).expect(Exit::Success).json();
    let refused = donor.run(&[&"utxo", &"dump", &path]).expect(Exit::InputRefused);
    assert!(refused.stderr.contains("exists already"), "{refused:?}");
    (path, said["txoutset_hash"].as_str().expect("a hash").to_owned())
}

/// Whether it can be read or not: the rename at the end of a dump would replace it.
#[test]
fn a_dump_replaces_nothing() {
    let node = with_small_chain();
    let unreadable = node.beside("unreadable");
    fs::write(&unreadable, "precious").expect("a file");
    fs::set_permissions(&unreadable, fs::Permissions::from_mode(0o000)).expect("it is ours");
    symlink("nowhere", node.beside("link")).expect("a link");
    let _listening = UnixListener::bind(node.beside("socket")).expect("a socket");
    mkfifoat(CWD, node.beside("pipe"), Mode::RUSR | Mode::WUSR).expect("a pipe");
    for name in ["link", "socket", "unreadable", "pipe"] {
        let path = node.beside(name);
        let inode = || fs::symlink_metadata(&path).expect("it is there").ino();
        let before = inode();
        let ended = node.run(&[&"utxo", &"dump", &path]).expect(Exit::InputRefused);
        assert!(ended.stderr.contains(&format!("{name} exists already")), "{ended:?}");
        assert_eq!(inode(), before, "{name}");
    }
}

/// A node with all headers of the small chain and the first block alone connected.
pub(crate) fn node_with_headers() -> (Node, PathBuf) {
    let node = Node::new("regtest");
    let chain = node.beside("chain.dat");
    write_dat(&chain, small_chain());
    node.run(&[&"import", &"-stopatheight=1", &chain]).expect(Exit::Success);
    (node, chain)
}

pub(crate) fn load(node: &Node, path: &Path, hash: &str) -> crate::node::Ended {
    node.run(&[&"utxo", &"load", &path, &format!("-utxohash={hash}")])
}

#[test]
fn an_import_continues_from_a_loaded_snapshot_and_says_that_it_is_assumed() {
    let (node, chain) = node_with_headers();
    let (snapshot, hash) = small_snapshot(&node);
    let said = load(&node, &snapshot, &hash).expect(Exit::Success).json();
    assert_eq!((&said["assumed"], &said["base_height"]), (&Value::Bool(true), &BASE.into()));
    let loaded = node.stats();
    assert_eq!((&loaded["height"], &loaded["assumed_below"]), (&BASE.into(), &BASE.into()));
    assert_eq!(loaded["hash_serialized_3"], hash);

    let ended = node.import(&chain);
    assert!(ended.stdout.contains("are assumed, not validated"), "{ended:?}");
    assert!(!ended.stdout.contains(&format!(" height={BASE} ")), "the base is not connected");
    assert!(ended.stdout.contains(&format!(" height={} ", BASE + 1)), "{ended:?}");
    let mut expected = small_chain_stats();
    expected["assumed_below"] = BASE.into();
    assert_eq!(node.stats(), expected);
    // As after a first load that was cut off before it said anything.
    let ended = load(&node, &snapshot, &hash).expect(Exit::InputRefused);
    let said = format!("height {BASE} is loaded already, with coins that hash to {hash}");
    assert!(ended.stderr.contains(&said), "{ended:?}");
    assert_eq!(node.stats(), expected);
}

#[test]
fn a_snapshot_loads_into_headers_whose_blocks_never_came() {
    let (node, chain) = (Node::new("regtest"), small_chain());
    let (snapshot, hash) = small_snapshot(&node);
    // A file whose first blocks are damaged behind their headers.
    let mut blocks = chain.to_vec();
    blocks[..BASE as usize].iter_mut().for_each(|block| block.truncate(81));
    let path = node.beside("headers.dat");
    write_dat(&path, &blocks);
    node.run(&[&"import", &path]).expect(Exit::InputRefused);
    assert_eq!(node.stats()["height"], 0);
    load(&node, &snapshot, &hash).expect(Exit::Success);
    // The blocks above it are there already.
    node.run(&[&"import", &path]).expect(Exit::InputRefused);
    let mut expected = small_chain_stats();
    expected["assumed_below"] = BASE.into();
    assert_eq!(node.stats(), expected);
}

/// A snapshot with one more coin, whose script is this opcode.
fn with_coin(good: &[u8], opcode: u8) -> Vec<u8> {
    let mut bytes = good.to_vec();
    // The number of coins.
    let count = u64::from_le_bytes(bytes[43..51].try_into().expect("eight bytes"));
    bytes[43..51].copy_from_slice(&(count + 1).to_le_bytes());
    bytes.extend([0x33; 32]);
    // One coin, output 0, height 100, value 0, a script of one byte.
    bytes.extend([1, 0, 0x80, 0x48, 0, 7, opcode]);
    bytes
}

#[test]
fn a_refused_snapshot_changes_nothing() {
    let (node, chain) = node_with_headers();
    let (snapshot, hash) = small_snapshot(&node);
    let before = node.stats();
    let good = fs::read(&snapshot).expect("the snapshot");
    let refuses = |bytes: &[u8], hash: Option<&str>, part: &str| {
        let path = node.beside("refused.dat");
        fs::write(&path, bytes).expect("a file");
        let ended = match hash {
            Some(hash) => load(&node, &path, hash),
            None => node.run(&[&"utxo", &"load", &path]),
        };
        let ended = ended.expect(Exit::InputRefused);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains(part), "{part} in {ended:?}");
        assert_eq!(node.stats(), before, "{part}");
    };
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let other_hash = format!("{:064x}", 7);
    refuses(&good, None, "no hash is known for height 120");
    refuses(&good, Some(&other_hash), &format!("hash to {hash}, not to {other_hash}"));
    refuses(&good[..good.len() - 1], Some(&hash), "cut off at offset");
    refuses(&good[..50], Some(&hash), "is not a UTXO snapshot");
    refuses(&[&good[..], &[0]].concat(), Some(&hash), "has bytes after its last coin");
    refuses(&changed(0, b'x'), Some(&hash), "is not a UTXO snapshot");
    refuses(&changed(5, 3), Some(&hash), "unknown version 3");
    refuses(&changed(7, 0), Some(&hash), "is of another network");
    refuses(&changed(11, !good[11]), Some(&hash), "is not known; run the node until");
    // A coin's last byte: the bytes are a snapshot, of another set.
    refuses(&changed(good.len() - 1, !good[good.len() - 1]), Some(&hash), "hash to");
    // OP_RETURN: nobody can spend it, so that it would leave the hash as it is.
    refuses(&with_coin(&good, 0x6a), Some(&hash), "is damaged or cut off at offset");
    node.import(&chain);
    assert_eq!(node.stats(), small_chain_stats());
}

/// It reads what was written, which may be wrong all the same: what every start says, it says too.
#[test]
fn verify_says_that_a_snapshot_is_assumed_and_that_it_is_refuted() {
    let (node, _) = node_with_headers();
    let (snapshot, _) = small_snapshot(&node);
    let good = fs::read(&snapshot).expect("the snapshot");
    // OP_TRUE: no block spends it.
    fs::write(&snapshot, with_coin(&good, 0x51)).expect("the same file");
    let refused = load(&node, &snapshot, &"0".repeat(64)).expect(Exit::InputRefused);
    let (_, hash) = refused.stderr.split_once("hash to ").expect("the hash that it has");
    load(&node, &snapshot, &hash[..64]).expect(Exit::Success);
    let coins = coins_line(&node.stats());
    let ended = node.run(&[&"verify"]).expect(Exit::Success);
    let assumed = format!(
        " Damage: none.\nThe coins up to height {BASE} were loaded from a snapshot and are assumed, not \
         validated.\n{coins}\n"
    );
    assert!(ended.stdout.ends_with(&assumed), "{ended:?}");

    let (donor, port) = (with_small_chain(), free_port());
    let _serving = serve(&donor, port);
    let peer = format!("-connect=127.0.0.1:{port}");
    let words: [&dyn AsRef<OsStr>; 2] = [&"-listen=0", &peer];
    node.run(&words).expect(Exit::Failure);
    node.run(&words).expect(Exit::Damaged);
    let ended = node.run(&[&"verify"]).expect(Exit::Damaged);
    let refuted = "\nRefuted: the loaded snapshot of block ";
    let remedy = "Nothing of this data directory's coins can be trusted; start with -reindex, which validates \
                  all blocks from genesis, or into an empty data directory.\n";
    let is_there = [" Damage: none.\n", refuted, remedy].map(|part| ended.stdout.contains(part));
    assert_eq!(is_there, [true; 3], "{ended:?}");
    // Nothing is there to repair it from.
    node.run(&[&"verify", &"-repair"]).expect(Exit::Damaged);
}

/// A dump of what `donor` makes of these blocks, with its hash.
fn dump_of(donor: &Node, blocks: &[Vec<u8>]) -> (PathBuf, String) {
    let (chain, path) = (donor.beside("chain.dat"), donor.beside("dump.dat"));
    write_dat(&chain, blocks);
    donor.import(&chain);
    let said = donor.run(&[&"utxo", &"dump", &path]).expect(Exit::Success).json();
    (path, said["txoutset_hash"].as_str().expect("a hash").to_owned())
}

#[test]
fn a_reorganisation_that_replaces_the_snapshots_block_waits_and_every_run_says_why() {
    let reorg = &reorganisations()[0];
    let (fork, base) = (reorg.base.len(), reorg.base.len() + reorg.depth as usize);
    let stale = [&reorg.base[..], &reorg.blocks[..reorg.depth as usize]].concat();
    let active = [&reorg.base[..], &reorg.second].concat();
    let node = Node::new("regtest");
    // The headers alone: blocks that are damaged behind them.
    let headers = node.beside("headers.dat");
    let cut: Vec<_> = stale.iter().map(|block| block[..81].to_vec()).collect();
    write_dat(&headers, &cut);
    node.run(&[&"import", &headers]).expect(Exit::InputRefused);
    let donor = Node::new("regtest");
    let (snapshot, hash) = dump_of(&donor, &stale);
    let ended = load(&node, &snapshot, &hash).expect(Exit::Success);
    assert!(ended.stderr.contains("is 0 below the best header"), "{ended:?}");
    let loaded = node.stats();

    let branch = node.beside("branch.dat");
    let (last, rest) = reorg.second.split_last().expect("a branch");
    write_dat(&branch, rest);
    node.import(&branch);
    assert_eq!(node.stats(), loaded, "of equal work the snapshot's block stays");
    write_dat(&branch, std::slice::from_ref(last));
    for _ in 0..2 {
        let ended = node.run(&[&"import", &branch]).expect(Exit::Success);
        let best = loaded["bestblock"].as_str().expect("a hash");
        for part in [
            format!("forks off at height {fork}"),
            format!("block {best} at height {base}"),
            "is fetched when the history below that one is validated".to_owned(),
        ] {
            assert!(ended.stdout.contains(&part), "{part} in {ended:?}");
        }
        assert_eq!(node.stats(), loaded);
    }
    let other = Node::new("regtest");
    let (snapshot, hash) = dump_of(&other, &active);
    load(&node, &snapshot, &hash).expect(Exit::Success);
    let mut expected = other.stats();
    expected["assumed_below"] = active.len().into();
    assert_eq!(node.stats(), expected);
}

/// What a node answers.
pub(crate) fn said(node: &Node, port: u16, words: &[&str]) -> String {
    let datadir = format!("-datadir={}", node.datadir().display());
    let port = format!("-rpcport={port}");
    let words = [&["-regtest", &datadir, &port, "-rpcwait"], words].concat();
    let said = ask(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>(), "");
    assert_eq!(said.code, Some(0), "{said:?}");
    said.out
}

fn answer(node: &Node, port: u16, method: &str) -> Value {
    serde_json::from_str(&said(node, port, &[method])).expect("JSON")
}

/// A node whose only peer has all blocks, killed while it validates.
#[test]
fn a_node_validates_the_history_of_a_snapshot_and_takes_the_mark_away() {
    let (node, rpc) = (Node::new("regtest"), free_port());
    let alone = format!("-rpcport={rpc}");
    let mut running = Running::start(&node, &[&"-listen=0", &"-connect=0", &alone]);
    for block in small_chain() {
        said(&node, rpc, &["submitheader", &hex::encode(&block[..80])]);
    }
    running.terminate();
    let (snapshot, hash) = small_snapshot(&node);
    load(&node, &snapshot, &hash).expect(Exit::Success);
    let mut running = Running::start(&node, &[&"-listen=0", &"-connect=0", &alone]);
    let states = answer(&node, rpc, "getchainstates");
    let [history, tip] = &states["chainstates"].as_array().expect("a list")[..] else {
        panic!("{states}")
    };
    assert_eq!(history["blocks"], 0, "{states}");
    assert_eq!((&history["validated"], &tip["validated"]), (&true.into(), &false.into()));
    assert_eq!((&history["snapshot_blockhash"], &tip["blocks"]), (&Value::Null, &BASE.into()));
    assert_eq!(tip["snapshot_blockhash"], tip["bestblockhash"]);
    let info = answer(&node, rpc, "getblockchaininfo");
    assert_eq!(info["backgroundvalidation"]["snapshotheight"], BASE);
    assert_eq!(info["backgroundvalidation"]["blocks"], 0, "{info}");
    let services = |info: Value| info["localservicesnames"].as_array().expect("a list").clone();
    let offered = services(answer(&node, rpc, "getnetworkinfo"));
    assert!(!offered.contains(&"NETWORK".into()), "{offered:?}");
    running.terminate();

    let donor = with_small_chain();
    let port = free_port();
    let _serving = serve(&donor, port);
    let peer = format!("-connect=127.0.0.1:{port}");
    let words: [&dyn AsRef<OsStr>; 3] = [&"-listen=0", &peer, &alone];
    for milliseconds in [50, 200, 300, 400] {
        let mut running = Running::start(&node, &words);
        running.wait_for(Moment::After(Duration::from_millis(milliseconds)));
        running.kill();
    }
    let mut running = Running::start(&node, &words);
    wait_until("the mark is gone", || {
        answer(&node, rpc, "getchainstates")["chainstates"].as_array().map(Vec::len) == Some(1)
    });
    let states = answer(&node, rpc, "getchainstates");
    assert_eq!(states["chainstates"][0]["validated"], true);
    assert_eq!(answer(&node, rpc, "getblockchaininfo")["backgroundvalidation"], Value::Null);
    let offered = services(answer(&node, rpc, "getnetworkinfo"));
    assert!(offered.contains(&"NETWORK".into()), "{offered:?}");
    wait_until("the tip is that of the peer", || {
        answer(&node, rpc, "getblockcount").as_u64() == Some(small_chain().len() as u64)
    });
    let (_, status) = running.terminate();
    assert!(status.success(), "{status}");
    assert_eq!(node.stats(), small_chain_stats());
    node.run(&[&"verify"]).expect(Exit::Success);
}

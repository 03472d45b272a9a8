//! A node that deletes old blocks while it syncs.

use std::ffi::OsStr;
use std::fs;

use godwit::exit::Exit;
use godwit_primitives::TxOut;
use godwit_sim::rng::Rng;
use serde_json::Value;

use crate::blocks::{child_paying, header, small_chain, write_dat};
use crate::damaged_index::copy;
use crate::node::Node;
use crate::rebuild::files_of_coins;
use crate::running::Running;
use crate::snapshot::said;
use crate::sync::{free_port, serve, stops_in_time};

/// Blocks of almost a megabyte: more than one block file of 128 MiB.
const FAT: u16 = 140;

/// Blocks that a pruned node keeps whatever its target is (`MIN_BLOCKS_TO_KEEP`), and a few more.
pub(crate) const THIN: u16 = 300;

/// MiB that may stay: less than one block file, more than what is behind it.
const TARGET: u64 = 100;

/// The small chain, then fat blocks that fill a block file, then so many thin ones.
pub(crate) fn long_chain(thin: u16) -> Vec<Vec<u8>> {
    let mut blocks = small_chain().to_vec();
    let first = blocks.len() as u16 + 1;
    for height in first..first + FAT + thin {
        let filler = if height < first + FAT { 980_000 } else { 0 };
        // OP_RETURN: nobody can spend it, so it is no coin.
        let script_pubkey = [vec![0x6a], vec![0; filler]].concat();
        let parent = blocks.last().expect("not empty");
        blocks.push(child_paying(parent, height, TxOut { value: 0, script_pubkey }));
    }
    blocks
}

/// MiB of block and undo files, and the numbers of the block files.
fn stored(node: &Node) -> (u64, Vec<String>) {
    let (mut bytes, mut names) = (0, Vec::new());
    for entry in fs::read_dir(node.network_dir().join("blocks")).expect("a directory") {
        let entry = entry.expect("an entry");
        bytes += entry.metadata().expect("a file").len();
        let name = entry.file_name().into_string().expect("ASCII");
        if name.starts_with("blk") || name.starts_with("rev") {
            names.push(name);
        }
    }
    names.sort_unstable();
    (bytes >> 20, names)
}

fn end(stats: &Value) -> [&Value; 3] {
    ["height", "bestblock", "muhash"].map(|field| &stats[field])
}

fn takes_a_deleted_block_that_is_handed_in(node: &Node, blocks: &[Vec<u8>], prune: &str) {
    let port = free_port();
    let rpc = format!("-rpcport={port}");
    let running = Running::start(node, &[&"-listen=0", &"-connect=0", &prune, &rpc]);
    let submit = |block: &[u8]| {
        said(node, port, &["submitblock", &hex::encode(block)]).trim_end().to_owned()
    };
    let (block, mut forged) = (&blocks[8], blocks[8].clone());
    *forged.last_mut().expect("a lock time") ^= 1;
    let answers = [&forged, block, block].map(|block| submit(block));
    assert_eq!(answers, ["bad-txnmrklroot", "inconclusive", "duplicate"]);
    let hash = header(block).block_hash().to_string();
    assert_eq!(said(node, port, &["getblock", &hash, "0"]).trim_end(), hex::encode(block));
    stops_in_time(running);
}

#[test]
fn a_node_that_prunes_syncs_deletes_old_files_and_starts_again() {
    let (server, node) = (Node::new("regtest"), Node::new("regtest"));
    let blocks = long_chain(THIN);
    let path = server.beside("chain.dat");
    write_dat(&path, &blocks);
    server.import(&path);
    let port = free_port();
    let serving = serve(&server, port);
    let connect = format!("-connect=127.0.0.1:{port}");
    let prune = format!("-prune={TARGET}");
    let run = |height: usize| {
        let stop = format!("-stopatheight={height}");
        let words: [&dyn AsRef<OsStr>; 4] = [&connect, &"-listen=0", &prune, &stop];
        node.run(&words).expect(Exit::Success)
    };
    // With a start in between, in the middle of the first file.
    run(small_chain().len() + usize::from(FAT) / 2);
    // Blocks that came ahead of the height may lie in the second file already.
    assert_eq!(stored(&node).1[0], "blk00000.dat", "its blocks are needed");
    run(blocks.len());
    assert_eq!(stored(&server).1.len(), 4, "two files of each kind");
    let (mebibytes, names) = stored(&node);
    assert_eq!(names, ["blk00001.dat", "rev00001.dat"]);
    assert!(mebibytes <= TARGET, "{mebibytes} MiB");
    // It starts without what it has deleted, and is there at once.
    run(blocks.len());
    assert_eq!((mebibytes, names), stored(&node));
    takes_a_deleted_block_that_is_handed_in(&node, &blocks, &prune);
    let stats = node.stats();
    // Coins cannot be made again without the deleted blocks. Nothing is touched by saying so.
    let ended = node.run(&[&"-reindex-chainstate", &"-noconnect"]).expect(Exit::Configuration);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("use -reindex, which deletes the others"), "{ended:?}");
    assert_eq!(node.stats(), stats);
    for file in files_of_coins(&node) {
        fs::write(&file, b"neither a run nor parity").expect("the same file");
    }
    let ended = node.run(&[&"-noconnect", &"-listen=0"]).expect(Exit::Damaged);
    assert!(
        ended.stderr.contains("`godwit -reindex` deletes the others and downloads"),
        "{ended:?}"
    );
    // The command that both lines name downloads the chain again.
    let stop = format!("-stopatheight={}", blocks.len());
    let words: [&dyn AsRef<OsStr>; 5] = [&"-reindex", &connect, &"-listen=0", &prune, &stop];
    node.run(&words).expect(Exit::Success);
    stops_in_time(serving);
    assert_eq!(end(&node.stats()), end(&server.stats()));
}

/// Bits are flipped and pages zeroed in its database, here and there: the next start, which has no peer, or a
/// repair ends with the same coins at the same height.
#[test]
fn c5_a_pruned_node_makes_its_index_again_without_a_peer() {
    const PAGE: usize = 4096;
    let pruned = Node::new("regtest");
    let blocks = long_chain(THIN);
    let path = pruned.beside("chain.dat");
    write_dat(&path, &blocks);
    let prune = format!("-prune={TARGET}");
    pruned.run(&[&"import", &path, &prune]).expect(Exit::Success);
    assert_eq!(stored(&pruned).1, ["blk00001.dat", "rev00001.dat"]);
    let stats = pruned.stats();
    assert_eq!(stats["height"], blocks.len());
    let stop = format!("-stopatheight={}", blocks.len());
    let database = |node: &Node| node.network_dir().join("godwit.redb");
    let good = fs::read(database(&pruned)).expect("the database");
    let rng = &mut Rng::new(7);
    let (mut made_again, mut named) = (0, 0);
    for n in 0..16 {
        let node = copy(&pruned);
        let mut bytes = good.clone();
        let at = rng.below(bytes.len() as u64) as usize;
        match n % 2 {
            0 => bytes[at] ^= 1 << rng.below(8),
            _ => bytes[at / PAGE * PAGE..][..PAGE].fill(0),
        }
        fs::write(database(&node), bytes).expect("the same file");
        if n % 4 < 2 {
            let verified = node.run(&[&"verify"]);
            if verified.code != Some(Exit::Success.code().into()) {
                let ended = verified.expect(Exit::Damaged);
                assert!(ended.stdout.contains("`godwit verify -repair` repairs it"), "{ended:?}");
                named += 1;
                node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
                node.run(&[&"verify"]).expect(Exit::Success);
            }
        }
        node.run(&[&"-connect=0", &"-listen=0", &prune, &stop]).expect(Exit::Success);
        assert_eq!(node.stats(), stats, "byte {at}");
        made_again += usize::from(node.log().contains("from the headers of pruned blocks"));
    }
    assert!(made_again >= 4 && named >= 2, "{made_again}, {named}");

    // Where that is damaged too, nothing is touched, and both places are named.
    let node = copy(&pruned);
    let headers = node.network_dir().join("godwit.pruned");
    for (path, from) in [(database(&node), 0), (headers.clone(), 880)] {
        let mut bytes = fs::read(&path).expect("it is there");
        bytes[from..PAGE].fill(0);
        fs::write(&path, bytes).expect("the same file");
    }
    let ended = node.run(&[&"-connect=0", &"-listen=0", &prune, &stop]).expect(Exit::Damaged);
    assert!(ended.stderr.contains("`godwit -reindex` deletes the others"), "{ended:?}");
    let place = format!("{} at byte 880: checksum mismatch", headers.display());
    assert!(node.log().contains(&place), "{}", node.log());
    // With its database it is written again.
    fs::write(database(&node), good).expect("the same file");
    let ended = node.run(&[&"verify"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("godwit.pruned at byte 880: checksum mismatch"), "{ended:?}");
    node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
    node.run(&[&"verify"]).expect(Exit::Success);
}

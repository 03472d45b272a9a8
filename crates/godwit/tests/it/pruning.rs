//! A node that deletes old blocks while it syncs.

use std::ffi::OsStr;
use std::fs;

use godwit::exit::Exit;
use godwit_primitives::TxOut;
use serde_json::Value;

use crate::blocks::{child_paying, small_chain, write_dat};
use crate::node::Node;
use crate::rebuild::files_of_coins;
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
    let stats = node.stats();
    // Coins can not be made again without the deleted blocks. Nothing is touched by saying so.
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

//! Imports of good input, however it is laid out.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use godwit::exit::Exit;
use godwit_sim::rng::Rng;
use godwit_testdata::{read, shared_data};
use serde_json::Value;

use crate::blocks::{blocks_of, record, small_chain, write_dat};
use crate::damaged_index::copy;
use crate::node::Node;
use crate::records;
use crate::sync::with_small_chain;

/// What Core says of the last block of a chain of the shared data.
fn golden(dir: &Path, name: &str) -> Value {
    let lines = read(dir.join("chains").join(name));
    let last = lines.trim_ascii_end().rsplit(|byte| *byte == b'\n').next().expect("a line");
    serde_json::from_slice(last).expect("lines of JSON")
}

/// A chain of the shared data as a file beside the data directory.
pub(crate) fn real_chain(node: &Node, dir: &Path, name: &str) -> PathBuf {
    let path = node.beside(name);
    fs::write(&path, read(dir.join("chains").join(format!("{name}.zst")))).expect("a file");
    path
}

fn agrees_with_core(chain: &'static str, file: &str, expected: &str) {
    let Some(dir) = shared_data() else { return };
    let node = Node::new(chain);
    let golden = golden(&dir, expected);
    let ended = node.import(&real_chain(&node, &dir, file));
    let last =
        format!("UpdateTip: new best={} height={} ", text(&golden["hash"]), golden["height"]);
    assert_eq!(ended.stdout.matches(&last).count(), 1, "{last} in {ended:?}");
    let stats = node.stats();
    for (ours, cores) in [
        ("height", "height"),
        ("bestblock", "hash"),
        ("txouts", "txouts"),
        ("bogosize", "bogosize"),
        ("total_amount_sat", "total_amount_sat"),
        ("muhash", "muhash"),
    ] {
        assert_eq!(stats[ours], golden[cores], "{ours}");
    }
    assert_eq!(stats["assumed_below"], Value::Null);
}

/// Stored ahead of the coins, and not what they were when their turn comes.
#[test]
fn stored_blocks_that_are_damaged_are_taken_from_what_is_imported() {
    let length = |blocks: &[Vec<u8>]| blocks.iter().map(|block| 8 + block.len()).sum::<usize>();
    let ahead = |damage: &dyn Fn(&mut Vec<u8>)| {
        let node = Node::new("regtest");
        let path = node.beside("chain.dat");
        write_dat(&path, small_chain());
        node.run(&[&"import", &"-stopatheight=40", &path]).expect(Exit::Success);
        let file = node.network_dir().join("blocks/blk00000.dat");
        let mut bytes = fs::read(&file).expect("a file");
        damage(&mut bytes);
        fs::write(&file, bytes).expect("the same file");
        (node, path)
    };
    let flipped = |bytes: &mut Vec<u8>| {
        for height in [50, 51, 70] {
            bytes[length(&small_chain()[..height]) + 8 + 90] ^= 1;
        }
    };
    let cut = |bytes: &mut Vec<u8>| bytes.truncate(length(&small_chain()[..60]) + 100);
    for damage in [&flipped as &dyn Fn(&mut Vec<u8>), &cut] {
        let (node, path) = ahead(damage);
        let ended = node.run(&[&"import", &path]).expect(Exit::Success);
        assert!(ended.stdout.contains("is damaged"), "{ended:?}");
        assert_eq!(node.stats(), small_chain_stats());
        node.run(&[&"verify"]).expect(Exit::Success);
    }
    let (node, chain) = ahead(&flipped);
    let others = node.beside("others.dat");
    // Whichever of them was found first, the lowest one that is not there is named.
    for (end, missing) in [(50, 51), (51, 52), (52, 71), (70, 71)] {
        let node = copy(&node);
        write_dat(&others, &small_chain()[..end]);
        names_what_is_missing(&node, &others, missing);
        assert_eq!(node.stats()["height"], missing - 1);
        is_whole_with(&node, &others, missing, &chain);
    }
}

/// An import of a file ends with the height of the lowest damaged block that it does not have.
#[track_caller]
fn names_what_is_missing(node: &Node, file: &Path, missing: usize) {
    let ended = node.run(&[&"import", &file]).expect(Exit::Damaged);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    let named = format!("at height {missing} was damaged or missing where it was stored");
    assert!(ended.stderr.contains(&named), "{ended:?}");
}

/// Above the height at which it is to end a block is not missed, and with that of `chain` all is there.
#[track_caller]
fn is_whole_with(node: &Node, file: &Path, missing: usize, chain: &Path) {
    let stop = format!("-stopatheight={}", missing - 1);
    node.run(&[&"import", &stop, &file]).expect(Exit::Success);
    node.import(chain);
    assert_eq!(node.stats(), small_chain_stats());
}

/// As a power cut leaves it whose coins are older than what is verified: blocks between are applied again.
#[test]
fn c5_verified_blocks_that_are_damaged_are_taken_from_what_is_imported() {
    let node = with_small_chain();
    let chain = node.beside("chain.dat");
    let rebuild: [&dyn AsRef<OsStr>; 4] =
        [&"-noconnect", &"-listen=0", &"-stopatheight=40", &"-reindex-chainstate"];
    node.run(&rebuild).expect(Exit::Success);
    let file = node.network_dir().join("blocks/blk00000.dat");
    let whole = fs::read(&file).expect("a file");
    let mut bytes = whole.clone();
    for height in [60, 61, 90] {
        let before: usize = small_chain()[..height - 1].iter().map(|block| 8 + block.len()).sum();
        bytes[before + 8 + 90] ^= 1;
    }
    fs::write(&file, bytes).expect("the same file");
    let others = node.beside("others.dat");
    for (end, missing) in [(59, 60), (60, 61), (61, 90)] {
        let node = copy(&node);
        write_dat(&others, &small_chain()[..end]);
        names_what_is_missing(&node, &others, missing);
        is_whole_with(&node, &others, missing, &chain);
    }
    let ended = node.import(&chain);
    assert!(ended.stdout.contains("is damaged"), "{ended:?}");
    assert_eq!(node.stats(), small_chain_stats());
    assert!(fs::read(&file).expect("a file") == whole, "they are written to their places");
    node.run(&[&"verify"]).expect(Exit::Success);
}

/// Its length is 0 for the system: an import of nothing would look like one that is done.
#[test]
fn a_pipe_is_refused_in_one_line() {
    let node = Node::new("regtest");
    let (chain, pipe) = (node.beside("chain.dat"), node.beside("pipe"));
    write_dat(&chain, small_chain());
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    for words in
        [&[&"import" as &dyn AsRef<std::ffi::OsStr>, &chain, &pipe][..], &[&"utxo", &"load", &pipe]]
    {
        let ended = node.run(words).expect(Exit::InputRefused);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains("is a pipe or a device"), "{ended:?}");
    }
    assert_eq!(node.stats()["height"], 0);
}

fn text(value: &Value) -> &str {
    value.as_str().expect("text")
}

#[test]
fn mainnet_ends_where_core_ends() {
    agrees_with_core("main", "mainnet_0_299.dat", "golden_mainnet_0_299.jsonl.zst");
}

#[test]
fn testnet3_ends_where_core_ends() {
    agrees_with_core("test", "testnet3_1_2500.dat", "golden_testnet3_0_2500.jsonl.zst");
}

#[test]
fn signet_ends_where_core_ends() {
    agrees_with_core("signet", "signet_0_60.dat", "golden_signet_0_60.jsonl.zst");
}

#[test]
fn regtest_ends_where_core_ends() {
    agrees_with_core("regtest", "regtest_0_150.dat", "golden_regtest_0_150.jsonl.zst");
}

/// The statistics after an import of the small chain in order.
pub(crate) fn small_chain_stats() -> Value {
    let node = Node::new("regtest");
    let path = node.beside("in-order.dat");
    write_dat(&path, small_chain());
    node.import(&path);
    node.stats()
}

#[test]
fn blocks_in_any_order_and_any_file_make_the_same_chain() {
    let node = Node::new("regtest");
    let mut blocks: Vec<&Vec<u8>> = small_chain().iter().collect();
    let mut rng = Rng::new(5);
    for index in (1..blocks.len()).rev() {
        blocks.swap(index, rng.below(index as u64 + 1) as usize);
    }
    let paths = ["a.dat", "b.dat", "c.dat"].map(|name| node.beside(name));
    for (path, part) in paths.iter().zip(blocks.chunks(blocks.len().div_ceil(3))) {
        write_dat(path, part.iter().copied());
    }
    let [a, b, c] = &paths;
    node.run(&[&"import", a, b, c]).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
    assert_eq!(records::blocks(&node).complete, small_chain().len() as u64);
}

/// Writes records as Core does since version 28: obfuscated, into files with zeros at the end.
fn write_core_directory(dir: &Path, files: &[Vec<u8>]) {
    const KEY: [u8; 8] = [0x1f, 0x00, 0xfa, 0x3c, 0x77, 0xda, 0x80, 0x01];
    fs::create_dir(dir).expect("a directory");
    fs::write(dir.join("xor.dat"), KEY).expect("a file");
    fs::write(dir.join("rev00000.dat"), [1, 2, 3]).expect("a file");
    for (number, content) in files.iter().enumerate() {
        let mut bytes = content.clone();
        bytes.iter_mut().enumerate().for_each(|(n, byte)| *byte ^= KEY[n % KEY.len()]);
        // Preallocated space is not obfuscated.
        bytes.resize(bytes.len().next_multiple_of(1 << 16), 0);
        fs::write(dir.join(format!("blk{number:05}.dat")), bytes).expect("a file");
    }
}

#[test]
fn a_blocks_directory_of_core_is_read_with_its_key() {
    let node = Node::new("regtest");
    let (first, second) = small_chain().split_at(70);
    let of = |blocks: &[Vec<u8>]| blocks.iter().flat_map(|block| record(block)).collect();
    let dir = node.beside("blocks");
    write_core_directory(&dir, &[of(second), of(first)]);
    let ended = node.import(&dir);
    assert!(!ended.stdout.contains("[warning]"), "{ended:?}");
    assert_eq!(node.stats(), small_chain_stats());
    // One of its files by itself.
    let node = Node::new("regtest");
    node.import(&dir.join("blk00001.dat"));
    assert_eq!(node.stats()["height"], 70);
}

/// The key lies beside the file, wherever the link is; or beside the link, if that is where Core looks for
/// it.
#[test]
fn a_link_to_a_block_file_of_core_is_read_with_its_key() {
    let node = Node::new("regtest");
    let of = |blocks: &[Vec<u8>]| blocks.iter().flat_map(|block| record(block)).collect();
    let dir = node.beside("blocks");
    write_core_directory(&dir, &[of(small_chain())]);
    let file = dir.join("blk00000.dat");
    for name in ["blk00007.dat", "chain.dat"] {
        let (node, link) = (Node::new("regtest"), node.beside(name));
        symlink(&file, &link).expect("a link");
        node.import(&link);
        assert_eq!(node.stats(), small_chain_stats());
    }
    fs::rename(&file, node.beside("moved.dat")).expect("a file");
    symlink("../moved.dat", &file).expect("a link");
    node.import(&file);
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn godwits_own_blocks_directory_is_one_that_core_could_have_written() {
    let node = with_small_chain();
    let own = fs::read(node.network_dir().join("blocks/blk00000.dat")).expect("the block file");
    assert_eq!(blocks_of(&own), small_chain(), "in Core's framing, in the order of connecting");
    let other = Node::new("regtest");
    other.import(&node.network_dir().join("blocks"));
    assert_eq!(other.stats(), node.stats());
}

#[test]
fn an_import_stops_at_a_height_stays_there_and_goes_on() {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, small_chain());
    for height in [1, 40, 41, 150] {
        let stop = format!("-stopatheight={height}");
        node.run(&[&"import", &stop, &path]).expect(Exit::Success);
        // Blocks above are stored, but looking at the coins connects none of them.
        assert_eq!(node.stats()["height"], height);
        assert_eq!(node.stats()["height"], height);
    }
    node.import(&path);
    assert_eq!(node.stats(), small_chain_stats());
    let (blocks, undo) = (records::blocks(&node), records::undo_records(&node));
    assert_eq!([blocks.complete, undo.complete], [small_chain().len() as u64; 2]);
    // Once more, with nothing left to do.
    node.import(&path);
    assert_eq!(node.stats(), small_chain_stats());
    assert_eq!((records::blocks(&node), records::undo_records(&node)), (blocks, undo));
}

#[test]
fn a_better_branch_in_a_later_import_is_reorganised_to() {
    use crate::blocks::{SUBSIDY, child, header};
    let node = Node::new("regtest");
    let (path, branch_path) = (node.beside("chain.dat"), node.beside("branch.dat"));
    let chain = small_chain();
    write_dat(&path, chain);
    // Ten blocks below the tip, eleven blocks long.
    let fork = chain.len() - 10;
    let mut branch = vec![chain[fork - 1].clone()];
    for height in fork + 1..=chain.len() + 1 {
        let tip = branch.last().expect("not empty");
        branch.push(child(tip, height as u16, SUBSIDY));
    }
    write_dat(&branch_path, &branch[1..]);
    node.import(&path);
    let ended = node.import(&branch_path);
    // Each is named, and the block that is left as the tip.
    for height in fork + 1..=chain.len() {
        let [left, tip] = [height - 1, height - 2].map(|n| header(&chain[n]).block_hash());
        let line =
            format!("Disconnected block {left} at {height}; the tip is {tip} at {}.", height - 1);
        assert!(ended.stdout.contains(&line), "{line}: {ended:?}");
    }
    assert_eq!(ended.stdout.matches("Disconnected block").count(), 10, "{ended:?}");
    let reorganised = node.stats();
    assert_eq!(reorganised["height"], chain.len() + 1);
    let fresh = Node::new("regtest");
    let good: Vec<&Vec<u8>> = chain[..fork].iter().chain(&branch[1..]).collect();
    write_dat(&path, good);
    fresh.import(&path);
    assert_eq!(fresh.stats(), reorganised);
}

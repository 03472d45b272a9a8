//! A header index that was damaged on disk, and a sync after that: it is made again from the block files
//! and comes to the best chain, or ends with one clear line. It never tries for ever.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use godwit::exit::Exit;
use godwit_sim::rng::Rng;
use godwit_stream::DataStream;

use crate::blocks::{header, small_chain};
use crate::import::small_chain_stats;
use crate::node::{Ended, Node};
use crate::sync::{free_port, serve, stops_in_time, with_small_chain};

const DATABASE: &str = "godwit.redb";

/// Where the first run ends: the headers above it are known, the blocks are not connected.
const HALF: usize = 60;

/// Places in a record of `block_index` (`docs/formats.md`): parent, height, status, sequence, length of
/// the block, checksum.
const FIELDS: [usize; 6] = [4, 80, 84, 89, 105, 125];

/// How long a sync may take before it counts as one that tries for ever.
const LIMIT: Duration = Duration::from_secs(120);

pub(crate) fn copy(from: &Node) -> Node {
    let node = Node::new("regtest");
    let mut command = Command::new("cp");
    command.arg("-aT").arg(from.datadir()).arg(node.datadir());
    assert!(command.status().expect("cp starts").success());
    node
}

fn database(node: &Node) -> Vec<u8> {
    fs::read(node.network_dir().join(DATABASE)).expect("the database")
}

/// Syncs from a port: [`Exit::Success`] with the right coins, or [`Exit::Damaged`] with one line.
fn sync(node: &Node, port: u16, what: &str) -> Exit {
    let connect = format!("-connect=127.0.0.1:{port}");
    let stop = format!("-stopatheight={}", small_chain().len());
    let mut command = node.command(&[&connect, &"-listen=0", &stop]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let started = Instant::now();
    while child.try_wait().expect("a child can be waited for").is_none() {
        if started.elapsed() > LIMIT {
            child.kill().expect("it is ours");
            panic!("{what}: it tries for ever: {}", node.log());
        }
        thread::sleep(Duration::from_millis(5));
    }
    let ended = Ended::of(child.wait_with_output().expect("it has ended"));
    if ended.code == Some(Exit::Success.code().into()) {
        assert_eq!(node.stats(), small_chain_stats(), "{what}");
        return Exit::Success;
    }
    assert_eq!(ended.stderr.lines().count(), 1, "{what}: {ended:?}");
    let ended = ended.expect(Exit::Damaged);
    assert!(ended.stderr.starts_with("godwit: "), "{what}: {ended:?}");
    Exit::Damaged
}

/// The record of a header starts with its 80 bytes; older copies may lie in pages that are free.
fn places(database: &[u8], height: usize) -> Vec<usize> {
    let mut bytes = DataStream::<godwit_stream::Global>::new();
    bytes.put(&header(&small_chain()[height - 1]));
    let first = |window: &[u8]| window == bytes.as_slice();
    database.windows(80).enumerate().filter(|(_, at)| first(at)).map(|(at, _)| at).collect()
}

/// Whether the index was made again from the block files.
fn is_made_again(node: &Node) -> bool {
    node.log().contains("The index is made again from the block files.")
}

fn half_synced(port: u16) -> Node {
    let node = Node::new("regtest");
    let connect = format!("-connect=127.0.0.1:{port}");
    let stop = format!("-stopatheight={HALF}");
    node.run(&[&connect, &"-listen=0", &stop]).expect(Exit::Success);
    node
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("the database");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("the same file");
}

#[test]
fn b2_a_flipped_bit_in_the_header_index_is_repaired_or_named_at_the_start_or_changes_nothing() {
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    let half = half_synced(port);
    let bytes = database(&half);
    let mut cases: Vec<(String, usize)> = Vec::new();
    for (height, field) in [1, HALF - 1, HALF, HALF + 1].into_iter().zip(FIELDS.iter().cycle()) {
        let places = places(&bytes, height);
        assert!(!places.is_empty(), "the header of height {height} is in the index");
        cases.extend(places.iter().map(|at| (format!("height {height} + {field}"), at + field)));
    }
    let last = places(&bytes, small_chain().len());
    cases.extend(FIELDS.iter().flat_map(|field| {
        last.iter().map(move |at| (format!("last header + {field}"), at + field))
    }));
    let rng = &mut Rng::new(21);
    cases.extend((0..8).map(|_| {
        let at = rng.below(bytes.len() as u64) as usize;
        (format!("byte {at}"), at)
    }));
    let mut named = 0;
    for (what, at) in &cases {
        let node = copy(&half);
        flip(&node.network_dir().join(DATABASE), *at);
        named += usize::from(sync(&node, port, what) == Exit::Damaged || is_made_again(&node));
    }
    eprintln!("{named} of {} flipped bits were named", cases.len());
    // One copy of each record is in use.
    assert!(named >= 4 + FIELDS.len(), "{named} of {}", cases.len());
    stops_in_time(serving);
}

#[test]
fn b2_a_header_index_of_another_time_is_named_or_synced_from() {
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    let half = half_synced(port);
    let (older, whole) = (copy(&half), copy(&half));
    assert_eq!(sync(&whole, port, "undamaged"), Exit::Success);
    // Instead of the index of before a new one is made; that of after names blocks that are not there.
    for (files, index, expected) in
        [(&whole, &older, Exit::Success), (&older, &whole, Exit::Damaged)]
    {
        let node = copy(files);
        fs::write(node.network_dir().join(DATABASE), database(index)).expect("the same file");
        assert_eq!(sync(&node, port, "an index of another time"), expected);
        assert_eq!(is_made_again(&node), expected == Exit::Success);
    }
    // None at all is made again too.
    let node = copy(&whole);
    fs::remove_file(node.network_dir().join(DATABASE)).expect("it was there");
    assert_eq!(sync(&node, port, "no index"), Exit::Success);
    assert!(is_made_again(&node));
    stops_in_time(serving);
}

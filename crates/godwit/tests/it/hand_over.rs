//! Hand-overs to Bitcoin Core, as far as they can be seen without one: `interop/hand_over.rs` has the rest.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::time::Duration;

use godwit::exit::Exit;
use rustix::fs::{FlockOperation, flock};
use serde_json::Value;

use crate::blocks::{SUBSIDY, child, header, small_chain, write_dat};
use crate::damaged_index::copy;
use crate::kill;
use crate::node::{Ended, Node};
use crate::progress::Phase;
use crate::running::{Moment, Running};
use crate::snapshot::{load, node_with_headers, small_snapshot};

/// A node that has the small chain.
fn with_small_chain() -> Node {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, small_chain());
    node.import(&path);
    node
}

/// A node that has the small chain in two pairs of files, in an order in which godwit would not write undo
/// records.
fn with_two_pairs() -> Node {
    let node = with_small_chain();
    let blocks_dir = node.network_dir().join("blocks");
    let (first, last) = small_chain().split_at(120);
    write_dat(&blocks_dir.join("blk00000.dat"), first.iter().rev());
    write_dat(&blocks_dir.join("blk00001.dat"), last);
    connect(&node, &[&"-reindex"]);
    node
}

/// Connects what is stored of the small chain.
fn connect(node: &Node, options: &[&dyn AsRef<OsStr>]) {
    let stop = format!("-stopatheight={}", small_chain().len());
    let words = [&[&"-noconnect" as &dyn AsRef<OsStr>, &"-listen=0", &stop], options].concat();
    node.run(&words).expect(Exit::Success);
}

/// Runs a hand-over.
pub(crate) fn hand_over(node: &Node, to: &Path) -> Ended {
    node.run(&[&"hand-over", &format!("-to={}", to.display())])
}

/// What `utxo stats` says of a directory that was handed over.
pub(crate) fn stats(node: &Node) -> Value {
    node.run(&[&"utxo", &"stats", &"-handedover"]).expect(Exit::Success).json()
}

pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("ASCII")).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_handed_over_and_then_used_on_demand_alone() {
    let node = with_small_chain();
    let before = node.stats();
    let to = node.beside("core");
    let ended = hand_over(&node, &to).expect(Exit::Success);
    let muhash = before["muhash"].as_str().expect("a hash");
    let command = format!("bitcoind -datadir={} -chain=regtest\n", to.display());
    for text in
        [muhash, &command, "-reindex-chainstate", "gettxoutsetinfo muhash", " MiB are needed"]
    {
        assert!(ended.stdout.contains(text), "{text}: {ended:?}");
    }
    assert_eq!(names(&to), ["regtest"]);
    assert_eq!(names(&to.join("regtest")), ["blocks", "chainstate"]);
    let blocks = names(&to.join("regtest/blocks"));
    assert_eq!(blocks, ["blk00000.dat", "index", "rev00000.dat", "xor.dat"]);
    let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
    for name in ["blk00000.dat", "rev00000.dat"] {
        let (here, there) = (node.network_dir(), to.join("regtest"));
        let [here, there] = [here, there].map(|dir| dir.join("blocks").join(name));
        assert_ne!(inode(&here), inode(&there), "the last pair is copied");
    }

    let ended = node.run(&[&"utxo", &"stats"]).expect(Exit::DatadirUnusable);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("was handed over to Bitcoin Core"), "{ended:?}");
    node.run(&[&"import", &node.beside("chain.dat")]).expect(Exit::DatadirUnusable);
    node.run(&[&"verify", &"-repair"]).expect(Exit::DatadirUnusable);
    node.run(&[&"-noconnect", &"-listen=0"]).expect(Exit::DatadirUnusable);
    node.run(&[&"verify"]).expect(Exit::Success);
    assert_eq!(stats(&node), before);

    let ended = hand_over(&node, &to).expect(Exit::Configuration);
    assert!(ended.stderr.contains("regtest is not empty"), "{ended:?}");
    hand_over(&node, &node.beside("another")).expect(Exit::Success);
}

/// All pairs of files but the last are shared: Bitcoin Core's index knows where each record of theirs is.
#[test]
fn a_reindex_of_a_directory_that_was_handed_over_writes_to_no_file_of_cores() {
    let node = with_two_pairs();
    let blocks_dir = node.network_dir().join("blocks");
    let before = node.stats();
    let to = node.beside("core");
    hand_over(&node, &to).expect(Exit::Success);
    let there = to.join("regtest/blocks");
    let inode = |path: &Path| fs::metadata(path).expect("a file").ino();
    assert_eq!(inode(&blocks_dir.join("rev00000.dat")), inode(&there.join("rev00000.dat")));
    let files = ["blk00000.dat", "blk00001.dat", "rev00000.dat", "rev00001.dat"];
    // Of the shared undo file Core has records where godwit would write others.
    let mut undo = fs::read(there.join(files[2])).expect("a file");
    undo.extend_from_slice(b"what Core has written behind");
    fs::write(there.join(files[2]), undo).expect("a file");
    let read = || files.map(|name| fs::read(there.join(name)).expect("a file"));
    let handed_over = read();
    connect(&node, &[&"-handedover", &"-reindex"]);
    assert!(read() == handed_over, "a file of Core's was changed");
    assert_ne!(inode(&blocks_dir.join("rev00000.dat")), inode(&there.join("rev00000.dat")));
    // What comes later goes to files that are not shared.
    let more = node.beside("more.dat");
    let (tip, height) = (small_chain().last().expect("blocks"), small_chain().len() as u16);
    assert_eq!(stats(&node), before);
    write_dat(&more, [&child(tip, height + 1, SUBSIDY)]);
    node.run(&[&"import", &"-handedover", &more]).expect(Exit::Success);
    assert!(read() == handed_over, "a file of Core's was changed");
    let ended = node.run(&[&"verify"]).expect(Exit::Success);
    assert!(ended.stdout.contains("Damage: none"), "{ended:?}");
}

#[test]
fn what_can_not_be_handed_over_is_refused_in_one_line() {
    let refused = |node: &Node, exit, text: &str| {
        let to = node.beside("core");
        let ended = hand_over(node, &to).expect(exit);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains(text), "{ended:?}");
        assert!(!to.exists(), "nothing is made");
    };
    refused(&Node::new("regtest"), Exit::Configuration, "has no block connected: there is nothing");
    let ended = Node::new("regtest").run(&[&"hand-over"]).expect(Exit::Configuration);
    assert!(ended.stderr.contains("-to needs a value: -to=DIR"), "{ended:?}");

    let node = with_small_chain();
    let lock = fs::File::open(node.network_dir().join(".lock")).expect("the lock file");
    flock(&lock, FlockOperation::NonBlockingLockExclusive).expect("nobody has it");
    refused(&node, Exit::DatadirUnusable, "is locked");
    drop(lock);

    let ended = hand_over(&node, &node.beside("chain.dat")).expect(Exit::Configuration);
    assert!(ended.stderr.ends_with("chain.dat is no directory\n"), "{ended:?}");

    // In the middle of a block of the pair that is copied.
    let path = node.network_dir().join("blocks/blk00000.dat");
    let whole = fs::read(&path).expect("the blocks");
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(&path, damaged).expect("the same file");
    refused(&node, Exit::Damaged, "blk00000.dat at byte ");
    fs::write(&path, &whole).expect("the same file");
    let undo = node.network_dir().join("blocks/rev00000.dat");
    let records = fs::read(&undo).expect("the undo records");
    let mut damaged = records.clone();
    damaged[records.len() / 2] ^= 1;
    fs::write(&undo, damaged).expect("the same file");
    refused(&node, Exit::Damaged, "rev00000.dat at byte ");
    fs::write(&undo, records).expect("the same file");
    // What would be deleted with the source, by whatever name.
    let datadir = node.network_dir().parent().expect("the data directory").to_owned();
    let link = node.beside("link");
    symlink(&datadir, &link).expect("a link");
    for to in
        [&datadir, &datadir.join("core"), &link.join("core"), &node.network_dir().join("core")]
    {
        let ended = hand_over(&node, to).expect(Exit::Configuration);
        assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
        assert!(ended.stderr.contains("overlap"), "{ended:?}");
        assert!(to == &datadir || !to.exists());
    }
    hand_over(&node, &node.beside("core")).expect(Exit::Success);
}

/// Nothing reads it of its own accord for long: the message says how it comes again.
#[test]
fn a_rotted_block_below_the_tip_is_named_with_what_brings_it_back() {
    const HEIGHT: usize = 100;
    let node = with_small_chain();
    let before = node.stats();
    let path = node.network_dir().join("blocks/blk00000.dat");
    let mut bytes = fs::read(&path).expect("the blocks");
    let start: usize = small_chain()[..HEIGHT - 1].iter().map(|block| 8 + block.len()).sum();
    bytes[start + 8 + 90] ^= 1;
    fs::write(&path, bytes).expect("the same file");
    let to = node.beside("core");
    let ended = hand_over(&node, &to).expect(Exit::Damaged);
    let hash = header(&small_chain()[HEIGHT - 1]).block_hash();
    let by_a_node = format!("`godwit-cli getblock {hash} 0`");
    for text in ["`godwit import -reindex-chainstate PATH`", &by_a_node] {
        assert!(ended.stderr.contains(text), "{text}: {ended:?}");
    }
    assert!(!to.exists(), "nothing is made");
    let chain = node.beside("chain.dat");
    node.run(&[&"import", &"-reindex-chainstate", &chain]).expect(Exit::Success);
    hand_over(&node, &to).expect(Exit::Success);
    assert_eq!(stats(&node), before);
}

/// Without the database the undo records are known by what they hold, and here they are gone too.
#[test]
fn a_directory_that_lacks_undo_records_is_handed_over_once_they_are_made_again() {
    let node = with_small_chain();
    let before = node.stats();
    for name in ["godwit.redb", "blocks/rev00000.dat"] {
        fs::remove_file(node.network_dir().join(name)).expect("it is there");
    }
    let to = node.beside("core");
    let ended = hand_over(&node, &to).expect(Exit::Damaged);
    for text in [" has no undo record", "`godwit verify -repair`"] {
        assert!(ended.stderr.contains(text), "{text}: {ended:?}");
    }
    assert!(!to.exists(), "nothing is made");
    let ended = node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
    assert!(ended.stdout.contains("have no undo record; repaired\n"), "{ended:?}");
    hand_over(&node, &to).expect(Exit::Success);
    assert_eq!(stats(&node), before);
}

#[test]
fn block_files_that_are_links_are_shared_as_the_files_that_they_lead_to() {
    let node = with_two_pairs();
    let (blocks, old) = (node.network_dir().join("blocks"), node.network_dir().join("old"));
    fs::create_dir(&old).expect("a directory");
    for (name, to) in [
        ("blk00000.dat", Path::new("../old/blk00000.dat")),
        ("rev00000.dat", &old.join("rev00000.dat")),
    ] {
        fs::rename(blocks.join(name), old.join(name)).expect("a file");
        symlink(to, blocks.join(name)).expect("a link");
    }
    let to = node.beside("core");
    hand_over(&node, &to).expect(Exit::Success);
    for name in ["blk00000.dat", "rev00000.dat"] {
        let made = fs::symlink_metadata(to.join("regtest/blocks").join(name)).expect("a file");
        assert!(made.is_file(), "{name}");
        assert_eq!(made.ino(), fs::metadata(old.join(name)).expect("a file").ino());
    }
}

/// A directory on another file system than that of `node`, if there is one.
fn on_another_file_system(node: &Node) -> Option<tempfile::TempDir> {
    let other = tempfile::tempdir_in("/dev/shm").ok()?;
    let device = |path: &Path| fs::metadata(path).expect("a directory").dev();
    (device(other.path()) != device(&node.datadir())).then_some(other)
}

#[test]
fn blocks_on_another_disk_are_handed_over_there_and_nowhere_else() {
    let node = with_small_chain();
    let Some(other) = on_another_file_system(&node) else { return };
    let (blocks, there) = (node.network_dir().join("blocks"), other.path().join("blocks"));
    fs::create_dir(&there).expect("a directory");
    for name in names(&blocks) {
        fs::copy(blocks.join(&name), there.join(&name)).expect("a file");
    }
    fs::remove_dir_all(&blocks).expect("a directory");
    symlink(&there, &blocks).expect("a link");
    let here = node.beside("core");
    let ended = hand_over(&node, &here).expect(Exit::Configuration);
    assert!(ended.stderr.contains("is not on the file system of the block files"), "{ended:?}");
    assert!(!here.exists(), "nothing is made");
    hand_over(&node, &other.path().join("core")).expect(Exit::Success);
}

/// What is found out in the middle of the work leaves as little as what is found out before.
#[test]
fn a_hand_over_that_fails_leaves_nothing_in_the_target() {
    let node = with_two_pairs();
    let Some(other) = on_another_file_system(&node) else { return };
    let file = node.network_dir().join("blocks/blk00000.dat");
    let there = other.path().join("blk00000.dat");
    fs::copy(&file, &there).expect("a file");
    fs::remove_file(&file).expect("a file");
    symlink(&there, &file).expect("a link");
    let to = node.beside("core");
    let ended = hand_over(&node, &to).expect(Exit::Configuration);
    assert!(ended.stderr.contains("is not on the file system of the block files"), "{ended:?}");
    assert!(!to.exists(), "nothing is left");
    assert!(!node.network_dir().join("handed-over").exists());
}

/// By its own name twice, by another one, and by that of its blocks.
#[test]
fn a_directory_of_cores_that_is_named_twice_is_imported_once() {
    let (source, node) = (with_small_chain(), Node::new("regtest"));
    let (to, link) = (source.beside("core"), source.beside("link"));
    hand_over(&source, &to).expect(Exit::Success);
    symlink(&to, &link).expect("a link");
    let blocks = to.join("regtest/blocks");
    for again in [&to, &link, &to.join("regtest"), &blocks] {
        for paths in [[&to, again], [again, &to]] {
            let ended = node.run(&[&"import", paths[0], paths[1]]).expect(Exit::Success);
            let compared = ended.stdout.matches("are those of godwit: ").count();
            // Each line is shown and logged.
            assert_eq!(compared, ended.stdout.matches("Import done: ").count(), "{ended:?}");
            let records = format!(" of {} records stored", small_chain().len() + 1);
            assert!(ended.stdout.contains(&records), "{ended:?}");
        }
    }
    assert_eq!(node.stats(), source.run(&[&"utxo", &"stats", &"-handedover"]).json());
}

/// As a rebuild leaves it that was interrupted: Bitcoin Core would begin where the coins are.
#[test]
fn blocks_that_are_stored_and_not_connected_are_told() {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, small_chain());
    node.run(&[&"import", &"-stopatheight=40", &path]).expect(Exit::Success);
    let ended = hand_over(&node, &node.beside("it's core")).expect(Exit::Success);
    let told = "of blocks above height 40 are stored and not connected";
    assert!(ended.stdout.contains(told), "{ended:?}");
    assert!(ended.stdout.contains("/it'\\''s core' "), "{ended:?}");
    let whole = with_small_chain();
    let ended = hand_over(&whole, &whole.beside("core")).expect(Exit::Success);
    assert!(!ended.stdout.contains("not connected"), "{ended:?}");
}

#[test]
fn coins_of_a_snapshot_are_not_handed_over() {
    let (node, _) = node_with_headers();
    let (snapshot, hash) = small_snapshot(&node);
    load(&node, &snapshot, &hash).expect(Exit::Success);
    let ended = hand_over(&node, &node.beside("core")).expect(Exit::Failure);
    assert!(ended.stderr.contains("come from a snapshot"), "{ended:?}");
    assert!(!node.beside("core").exists());
}

/// What the log says when a step begins.
const STEPS: [&str; 5] = [
    "files of blocks and undo records",
    "block index",
    "sorting coins",
    "writing coins",
    "reading coins back",
];
/// How long a step goes on before the kill.
const DELAYS: [Duration; 2] = [Duration::ZERO, Duration::from_millis(5)];
/// A kill that comes after the end is tried again.
const TRIES: usize = 20;

#[test]
fn a_hand_over_that_is_killed_is_made_by_the_same_command() {
    let reference = kill::reference();
    // A copy, since others use its owner without an option.
    let node = {
        let _alone = reference.serve_alone();
        copy(&reference.node)
    };
    let to = node.beside("core");
    let (option, network) = (format!("-to={}", to.display()), to.join("regtest"));
    let complete = ["blocks", "chainstate"];
    for (step, delay) in STEPS.iter().flat_map(|step| DELAYS.map(|delay| (step, delay))) {
        let is_killed = (0..TRIES).any(|_| {
            let mut running = Running::start(&node, &[&"hand-over", &option]);
            running.wait_for(Moment::HandOver(step));
            std::thread::sleep(delay);
            let is_killed = running.kill();
            // Core finds nothing, the blocks alone, or all of it.
            let found = if network.exists() { names(&network) } else { Vec::new() };
            match found.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                [] | ["hand-over.unfinished"] | ["blocks", "hand-over.unfinished"] => {}
                ["blocks", "chainstate"] | ["blocks", "chainstate", "hand-over.unfinished"] => {
                    fs::remove_dir_all(&network).expect("a directory");
                }
                _ => panic!("{found:?}"),
            }
            is_killed
        });
        assert!(is_killed, "the hand-over ended {TRIES} times before the kill: {step}, {delay:?}");
    }
    hand_over(&node, &to).expect(Exit::Success);
    assert_eq!(names(&network), complete);
    assert_eq!(stats(&node), reference.stats);
    let ended = node.run(&[&"verify"]).expect(Exit::Success);
    assert!(ended.stdout.contains("Damage: none"), "{ended:?}");
}

/// Behind a rebuild that was interrupted, the hand-over applies all blocks again first.
#[test]
fn a_signal_ends_the_replay_of_a_hand_over_that_the_same_command_ends() {
    let reference = kill::reference();
    let node = {
        let _alone = reference.serve_alone();
        copy(&reference.node)
    };
    let mut rebuilding =
        Running::start(&node, &[&"-reindex-chainstate", &"-noconnect", &"-listen=0"]);
    assert!(rebuilding.wait_for(Moment::Start(Phase::Replay, 1)), "it replays");
    assert!(rebuilding.kill());
    let (to, option) = (node.beside("core"), format!("-to={}", node.beside("core").display()));
    let mut running = Running::start(&node, &[&"hand-over", &option]);
    assert!(running.wait_for(Moment::Start(Phase::Replay, 1)), "it replays");
    let (_, status) = running.terminate();
    assert_eq!(status.code(), Some(Exit::Interrupted.code().into()));
    assert!(!to.exists());
    let ended = hand_over(&node, &to).expect(Exit::Success);
    assert!(!ended.stdout.contains("not connected"), "{ended:?}");
    assert_eq!(stats(&node), reference.stats);
}

#[test]
fn a_signal_ends_a_hand_over_and_leaves_the_source_as_it_was() {
    let reference = kill::reference();
    let _alone = reference.serve_alone();
    let node = &reference.node;
    let note = node.network_dir().join("handed-over");
    let is_stopped = (0..TRIES).any(|n| {
        let to = node.beside(&format!("stopped{n}"));
        let option = format!("-to={}", to.display());
        let mut running = Running::start(node, &[&"hand-over", &option]);
        running.wait_for(Moment::HandOver("writing coins"));
        let (_, status) = running.terminate();
        if status.code() == Some(Exit::Interrupted.code().into()) {
            assert_eq!(names(&to.join("regtest")), ["hand-over.unfinished"]);
            return true;
        }
        fs::remove_file(&note).expect("it was handed over");
        false
    });
    assert!(is_stopped, "the hand-over ended {TRIES} times before the signal");
    assert!(!note.exists());
    assert_eq!(node.stats(), reference.stats);
}

//! Coins and block index that are made again from the block files: `-reindex-chainstate` and `-reindex`.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::time::Duration;

use godwit::exit::Exit;
use godwit_sim::rng::Rng;

use crate::blocks::{small_chain, write_dat};
use crate::damaged_index::copy;
use crate::import::small_chain_stats;
use crate::kill::{CACHE_MIB, reference, succeeds};
use crate::node::{Ended, Node};
use crate::running::{Moment, Running};
use crate::snapshot::{load, node_with_headers, small_snapshot};
use crate::sync::{free_port, has_started, serve, stops_in_time, wait_until, with_small_chain};

/// What the log says when it is done.
const FORGOTTEN: &str = " files of coins.";

/// Runs a node without peers until it has connected what it has stored.
fn connect_stored(node: &Node, height: u64, more: &[&str]) -> Ended {
    let stop = format!("-stopatheight={height}");
    let mut words: Vec<&dyn AsRef<OsStr>> = vec![&"-noconnect", &"-listen=0", &stop];
    words.extend(more.iter().map(|word| word as &dyn AsRef<OsStr>));
    node.run(&words)
}

/// Runs and their parity, the oldest first.
pub(crate) fn files_of_coins(node: &Node) -> Vec<PathBuf> {
    let entries = fs::read_dir(node.network_dir().join("utxo")).expect("the coins' directory");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn runs(node: &Node) -> Vec<PathBuf> {
    let mut files = files_of_coins(node);
    files.retain(|path| path.extension().is_some_and(|extension| extension == "run"));
    files
}

/// A datadir with other coins under the same names.
fn other_coins() -> Node {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, &small_chain()[..100]);
    node.import(&path);
    node
}

#[test]
fn coins_beyond_repair_are_named_with_the_command_that_makes_them_again() {
    let (whole, other) = (with_small_chain(), other_coins());
    let height = small_chain().len() as u64;
    type Damage<'a> = &'a dyn Fn(&Node);
    let damages: [(&str, Damage<'_>); 4] = [
        ("missing", &|node| {
            fs::remove_file(&runs(node)[0]).expect("it is there");
        }),
        ("cut short, with its parity", &|node| {
            for path in files_of_coins(node) {
                let bytes = fs::read(&path).expect("a file");
                fs::write(&path, &bytes[..100]).expect("the same file");
            }
        }),
        ("of another directory", &|node| {
            let (run, parity) = (runs(node)[0].clone(), runs(node)[0].with_extension("parity"));
            fs::copy(&runs(&other)[0], run).expect("a file");
            fs::copy(runs(&other)[0].with_extension("parity"), parity).expect("a file");
        }),
        ("zeroed, with its parity", &|node| {
            for path in files_of_coins(node) {
                let len = fs::read(&path).expect("a file").len();
                fs::write(&path, vec![0; len]).expect("the same file");
            }
        }),
    ];
    for (what, damage) in damages {
        let node = copy(&whole);
        damage(&node);
        let commands: [&[&dyn AsRef<OsStr>]; 2] =
            [&[&"utxo", &"stats"], &[&"-noconnect", &"-listen=0"]];
        for words in commands {
            let ended = node.run(words).expect(Exit::Damaged);
            assert_eq!(ended.stderr.lines().count(), 1, "{what}: {ended:?}");
            assert!(ended.stderr.contains(".run at byte "), "{what}: {ended:?}");
            let remedy = "; `godwit verify -repair` makes the coins again from the block files";
            assert!(ended.stderr.contains(remedy), "{what}: {ended:?}");
        }
        let repaired = copy(&node);
        repaired.run(&[&"verify", &"-repair"]).expect(Exit::Success);
        assert_eq!(repaired.stats(), small_chain_stats(), "{what}");
        connect_stored(&node, height, &["-reindex-chainstate"]).expect(Exit::Success);
        assert_eq!(node.stats(), small_chain_stats(), "{what}");
        assert!(!node.log().contains("Indexing "), "{what}");
    }
}

/// No run is left that tells whose the control files are: start and `verify` name the same command all the
/// same.
#[test]
fn coins_beyond_repair_above_a_history_that_is_not_stored_are_named_with_a_download() {
    let (whole, _) = node_with_headers();
    let (snapshot, hash) = small_snapshot(&whole);
    load(&whole, &snapshot, &hash).expect(Exit::Success);
    // What a directory whose first blocks were deleted does not have.
    assert!(whole.network_dir().join("blocks/blk00000.dat").exists());
    let rewrite = |path: &PathBuf, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path).expect("a file");
        change(&mut bytes);
        fs::write(path, bytes).expect("the same file");
    };
    type Damage<'a> = &'a dyn Fn(&PathBuf);
    let damages: [(&str, Damage<'_>); 3] = [
        ("missing", &|path| fs::remove_file(path).expect("it is there")),
        ("cut short", &|path| rewrite(path, &|bytes| bytes.truncate(bytes.len() / 2))),
        ("without footers", &|path| {
            rewrite(path, &|bytes| {
                let footer = bytes.len().saturating_sub(4096);
                bytes[footer..].iter_mut().for_each(|byte| *byte ^= 0xff);
            });
        }),
    ];
    let remedy = "old blocks are not stored here: `godwit -reindex` deletes the others";
    for (what, damage) in damages {
        let node = copy(&whole);
        files_of_coins(&node).iter().for_each(damage);
        let verified = node.run(&[&"verify"]).expect(Exit::Damaged);
        assert!(verified.stdout.contains(remedy), "{what}: {verified:?}");
        let commands: [&[&dyn AsRef<OsStr>]; 2] =
            [&[&"utxo", &"stats"], &[&"-noconnect", &"-listen=0"]];
        // Where nothing of them is there, perhaps their disk is not mounted.
        let exit = if what == "missing" { Exit::DatadirUnusable } else { Exit::Damaged };
        for words in commands {
            let ended = node.run(words).expect(exit);
            assert!(ended.stderr.contains(remedy), "{what}: {ended:?}");
        }
    }
}

/// Of two block files the first is gone too: then the chain ends below it, and what follows is fetched.
#[test]
fn index_and_coins_are_made_again_and_an_import_gives_what_is_missing() {
    let node = with_small_chain();
    let path = node.beside("chain.dat");
    connect_stored(&node, small_chain().len() as u64, &["-reindex"]).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
    assert_eq!(node.log().matches("Indexing ").count(), 1, "once");
    // A block in the middle is not what it was.
    let file = node.network_dir().join("blocks/blk00000.dat");
    let mut bytes = fs::read(&file).expect("a file");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&file, bytes).expect("the same file");
    let ended = node.run(&[&"import", &"-reindex", &path]).expect(Exit::Success);
    assert!(ended.stdout.contains("Import done: "), "{ended:?}");
    assert_eq!(node.stats(), small_chain_stats());
    // In the file it would be done at every start.
    let config = node.datadir().join("godwit.conf");
    fs::write(&config, "reindex=1\n").expect("a file");
    node.run(&[&"utxo", &"stats"]).expect(Exit::Configuration);
}

#[test]
fn a_rebuild_that_is_stopped_or_killed_goes_on_without_the_option() {
    let reference = reference();
    let cache = format!("-dbcache={CACHE_MIB}");
    let rng = &mut Rng::new(31);
    for option in ["-reindex-chainstate", "-reindex"] {
        let node = {
            let _alone = reference.serve_alone();
            copy(&reference.node)
        };
        let mut first = Some(option);
        let mut interrupted = 0;
        for round in 0..6 {
            let option = first.take();
            let mut words: Vec<&dyn AsRef<OsStr>> = vec![&"-noconnect", &"-listen=0", &cache];
            words.extend(option.iter().map(|word| word as &dyn AsRef<OsStr>));
            let mut running = Running::start(&node, &words);
            if round == 0 {
                wait_until("the coins are gone", || running.log().0.contains(FORGOTTEN));
            } else {
                has_started(&mut running);
            }
            running.wait_for(Moment::After(Duration::from_millis(100 + rng.below(500))));
            if round % 2 == 0 {
                let (time, status) = running.terminate();
                assert_eq!(status.code(), Some(Exit::Success.code().into()), "{}", node.log());
                assert!(time < Duration::from_secs(9), "{time:?}");
                interrupted += 1;
            } else {
                interrupted += usize::from(running.kill());
            }
        }
        assert_eq!(interrupted, 6, "a node ends by a signal alone");
        let stop = format!("-stopatheight={}", reference.blocks);
        let words: [&dyn AsRef<OsStr>; 4] = [&"-noconnect", &"-listen=0", &cache, &stop];
        succeeds(&node, Running::start(&node, &words));
        assert_eq!(node.stats(), reference.stats, "{option}");
        let wiped = node.log().matches(FORGOTTEN).count();
        assert_eq!(wiped, 1, "{option}: only the first start forgets coins");
    }
}

/// A start with `-reindex` that is interrupted when it has given up the coins has opened no index yet.
#[test]
fn an_index_is_built_again_by_the_start_that_goes_on_with_a_reindex_and_by_no_later_one() {
    let node = with_small_chain();
    let blocks = small_chain().len() as u64;
    let follow = || {
        let mut running = Running::start(&node, &[&"-noconnect", &"-listen=0", &"-coinstatsindex"]);
        let enabled = format!("is enabled at height {blocks}");
        wait_until("the index is there", || running.log().0.contains(&enabled));
        stops_in_time(running);
    };
    let records = || {
        let path = node.network_dir().join("indexes/coinstats/records.dat");
        File::open(path).expect("an index")
    };
    let is_there = |file: &File| file.metadata().expect("an open file").nlink() > 0;
    follow();
    // A kill between the two may come too late.
    let interrupted = (0..50).find_map(|_| {
        let before = records();
        let words: [&dyn AsRef<OsStr>; 4] =
            [&"-noconnect", &"-listen=0", &"-reindex", &"-coinstatsindex"];
        let mut running = Running::start(&node, &words);
        while running.is_alive() && !running.log().0.contains(FORGOTTEN) {}
        running.kill();
        let in_time = is_there(&before);
        if !in_time {
            follow();
        }
        in_time.then_some(before)
    });
    let before = interrupted.expect("one of fifty kills is in time");
    connect_stored(&node, blocks, &["-coinstatsindex"]).expect(Exit::Success);
    assert!(!is_there(&before), "it was begun again");
    let again = records();
    follow();
    assert!(is_there(&again));
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn a_block_that_has_rotted_when_all_are_applied_again_is_fetched_or_named_with_its_remedy() {
    let server = with_small_chain();
    let node = copy(&server);
    let (port, first) = (free_port(), node.beside("first.dat"));
    write_dat(&first, &small_chain()[..1]);
    let file = node.network_dir().join("blocks/blk00000.dat");
    let mut bytes = fs::read(&file).expect("a file");
    // In the coinbase: coins do not come from witnesses.
    let place = small_chain()[..40].iter().map(|block| 8 + block.len()).sum::<usize>() + 8 + 90;
    bytes[place] ^= 1;
    fs::write(&file, &bytes).expect("the same file");
    let ended = node.run(&[&"import", &"-reindex-chainstate", &first]).expect(Exit::Damaged);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("blk00000.dat at byte "), "{ended:?}");
    let remedy = ": import it from elsewhere, or let a node fetch it from peers";
    assert!(ended.stderr.contains(remedy), "{ended:?}");
    // A node with a peer goes on.
    let serving = serve(&server, port);
    let connect = format!("-connect=127.0.0.1:{port}");
    let stop = format!("-stopatheight={}", small_chain().len());
    node.run(&[&connect, &"-listen=0", &stop]).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
    bytes[place] ^= 1;
    assert!(fs::read(&file).expect("a file").starts_with(&bytes), "it is in its place again");
    stops_in_time(serving);
}

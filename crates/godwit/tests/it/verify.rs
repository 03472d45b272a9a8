//! `godwit verify` and `godwit verify -repair`, as a user runs them.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use godwit::exit::Exit;
use godwit_primitives::sha256::sha256d;
use serde_json::Value;

use crate::blocks::small_chain;
use crate::damaged_index::copy;
use crate::import::small_chain_stats;
use crate::kill::{CACHE_MIB, reference};
use crate::node::{Ended, Node};
use crate::rebuild::files_of_coins;
use crate::running::{Moment, Running};
use crate::sync::{free_port, serve, stops_in_time, wait_until, with_small_chain};

/// The last line names the coins by their hash as `utxo stats` does.
fn has_hash_of_stats(node: &Node, ended: &Ended) {
    let expected = coins_line(&node.stats());
    assert_eq!(ended.stdout.lines().last(), Some(expected.as_str()), "{ended:?}");
}

/// The last line of a verification that finds these coins.
pub(crate) fn coins_line(stats: &Value) -> String {
    let hash = stats["muhash"].as_str().expect("text");
    format!("{} coins at height {}, MuHash {hash}.", stats["txouts"], stats["height"])
}

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).expect("a file");
    bytes[at] ^= 1;
    fs::write(path, bytes).expect("the same file");
}

#[test]
fn an_undamaged_directory_is_called_so_with_the_hash_of_its_coins() {
    let node = with_small_chain();
    let blocks = small_chain_stats()["height"].as_u64().expect("a height");
    let ended = node.run(&[&"verify"]).expect(Exit::Success);
    let first = format!("Read {blocks} blocks, {blocks} undo records and ");
    assert!(ended.stdout.starts_with(&first), "{ended:?}");
    assert!(ended.stdout.contains(" Damage: none.\n"), "{ended:?}");
    assert_eq!((ended.stdout.lines().count(), ended.stderr.as_str()), (2, ""), "{ended:?}");
    has_hash_of_stats(&node, &ended);
    // Not beside a node that runs.
    let port = free_port();
    let serving = serve(&node, port);
    let ended = node.run(&[&"verify"]).expect(Exit::DatadirUnusable);
    assert!(ended.stderr.contains("is locked"), "{ended:?}");
    stops_in_time(serving);
}

#[test]
fn a_flipped_byte_is_named_in_every_kind_of_file_and_repaired_where_the_source_is_local() {
    let whole = with_small_chain();
    let at = |name: &str| whole.network_dir().join(name);
    let run = files_of_coins(&whole).into_iter().find(|path| path.extension().unwrap() == "run");
    let run = run.expect("coins were written");
    let relative = |path: &Path| -> PathBuf {
        path.strip_prefix(whole.network_dir()).expect("in it").to_owned()
    };
    // The database: the magic of its header.
    let cases = [
        (relative(&run), 4096 + 77, true),
        (relative(&run.with_extension("parity")), 100, true),
        (relative(&at("blocks/rev00000.dat")), 500, true),
        (relative(&at("blocks/xor.dat")), 3, true),
        (relative(&at("godwit.control0")), 30, true),
        (relative(&at("godwit.control1")), 30, true),
        (relative(&at("godwit.redb")), 1, true),
        (relative(&at("blocks/blk00000.dat")), 5000, false),
    ];
    for (path, place, is_repaired) in cases {
        let node = copy(&whole);
        let damaged = node.network_dir().join(&path);
        flip(&damaged, place.min(fs::read(&damaged).expect("a file").len() - 1));
        let name = damaged.display().to_string();
        let ended = node.run(&[&"verify"]).expect(Exit::Damaged);
        let lines: Vec<&str> =
            ended.stdout.lines().filter(|line| line.contains(" at byte ")).collect();
        assert_eq!(lines.len(), 1, "{name}: {ended:?}");
        assert!(lines[0].starts_with(&name), "{name}: {ended:?}");
        let remedy = match is_repaired {
            true => "; `godwit verify -repair` repairs it",
            false => {
                "; the node fetches it again from a peer when it needs it, and sends it to nobody before"
            }
        };
        assert!(lines[0].ends_with(remedy), "{name}: {ended:?}");
        let exit = if is_repaired { Exit::Success } else { Exit::Damaged };
        let ended = node.run(&[&"verify", &"-repair"]).expect(exit);
        assert_eq!(ended.stdout.contains("; repaired\n"), is_repaired, "{name}: {ended:?}");
        if is_repaired {
            let ended = node.run(&[&"verify"]).expect(Exit::Success);
            assert!(ended.stdout.contains(" Damage: none."), "{name}: {ended:?}");
            has_hash_of_stats(&node, &ended);
        }
        assert_eq!(node.stats(), small_chain_stats(), "{name}");
    }
}

/// Changes the last byte of the last undo record, whose checksum holds again. Records are in the order of
/// height here.
fn lie(path: &Path) {
    let mut bytes = fs::read(path).expect("a file");
    let (mut at, mut height, mut last) = (0, 0, None);
    while at + 8 <= bytes.len() {
        let len = u32::from_le_bytes(bytes[at + 4..at + 8].try_into().expect("four bytes"));
        let data = at + 8..at + 8 + len as usize;
        (at, height) = (data.end + 32, height + 1);
        if len > 30 {
            last = Some((data, height));
        }
    }
    let (data, height): (std::ops::Range<usize>, usize) = last.expect("some block spends");
    bytes[data.end - 1] ^= 1;
    let prev = &small_chain()[height - 1][4..36];
    let checksum = sha256d(&[prev, &bytes[data.clone()]].concat());
    bytes[data.end..data.end + 32].copy_from_slice(&checksum);
    fs::write(path, bytes).expect("the same file");
}

#[test]
fn an_audit_proves_what_is_true_and_refutes_a_lie_that_no_checksum_shows() {
    let node = with_small_chain();
    let stats = small_chain_stats();
    let ended = node.run(&[&"verify", &"-audit"]).expect(Exit::Success);
    let last: Vec<&str> = ended.stdout.lines().skip(1).collect();
    let proven = format!("Proven: the coins at height {} are those of ", stats["height"]);
    assert!(last[0].starts_with(&proven), "{ended:?}");
    assert!(last[0].ends_with(&format!(" = {} coins.", stats["txouts"])), "{ended:?}");
    assert_eq!(last[1..], ["Their scripts hold."], "{ended:?}");
    lie(&node.network_dir().join("blocks/rev00000.dat"));
    // What was written is what is read.
    node.run(&[&"verify"]).expect(Exit::Success);
    let ended = node.run(&[&"verify", &"-audit"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("undo record of block "), "{ended:?}");
    assert!(ended.stdout.contains("\nRefuted: coins and undo records are not"), "{ended:?}");
    let ended = node.run(&[&"verify", &"-audit", &"-repair"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("undo records made again from the blocks: 1;"), "{ended:?}");
    let ended = node.run(&[&"verify", &"-audit", &"-scriptengine=core"]).expect(Exit::Success);
    assert!(ended.stdout.contains(&proven), "{ended:?}");
}

#[test]
fn an_audit_that_repairs_all_damage_proves_nothing_and_asks_for_another() {
    let node = with_small_chain();
    flip(&node.network_dir().join("blocks/rev00000.dat"), 500);
    let ended = node.run(&[&"verify", &"-audit"]).expect(Exit::Damaged);
    assert!(ended.stdout.ends_with("\nNothing is proven: damage was found.\n"), "{ended:?}");
    let ended = node.run(&[&"verify", &"-audit", &"-repair"]).expect(Exit::Failure);
    let last = "\nNothing is proven: damage was found, and repaired; audit once more.\n";
    assert!(ended.stdout.ends_with(last), "{ended:?}");
    node.run(&[&"verify", &"-audit"]).expect(Exit::Success);
}

/// Runs a node with all optional indexes until they have come to the tip.
fn build_indexes(node: &Node) {
    let bind = format!("-bind=127.0.0.1:{}", free_port());
    let options: [&dyn AsRef<OsStr>; 5] =
        [&"-noconnect", &bind, &"-txindex", &"-blockfilterindex", &"-coinstatsindex"];
    let mut running = Running::start(node, &options);
    let enabled = format!("is enabled at height {}", small_chain_stats()["height"]);
    wait_until("the indexes are there", || running.log().0.matches(&enabled).count() == 3);
    stops_in_time(running);
}

/// Of an index, as of all else: the file is named, and what verify says then is enough.
#[test]
fn damage_of_an_optional_index_is_named_and_what_a_repair_removes_is_built_again() {
    const SOUND: &str = ", and the optional indexes. Damage: none.\n";
    let whole = with_small_chain();
    build_indexes(&whole);
    let ended = whole.run(&[&"verify"]).expect(Exit::Success);
    assert!(ended.stdout.contains(SOUND), "{ended:?}");
    let indexes = whole.network_dir().join("indexes");
    let of_txindex = fs::read_dir(indexes.join("txindex")).expect("an index");
    let run = of_txindex
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|name| name == "txs"))
        .expect("transactions were indexed");
    let middle = |path: &Path| fs::metadata(path).expect("a file").len() as usize / 2;
    let filters = indexes.join("blockfilter/basic");
    let [coins, of_filters] =
        [&indexes.join("coinstats"), &filters].map(|dir| dir.join("records.dat"));
    let cases = [
        (run.clone(), Some(middle(&run))),
        (indexes.join("txindex/manifest"), None),
        (coins.clone(), Some(20)),
        (coins, None),
        (of_filters.clone(), Some(20)),
        (filters.join("fltr00000.dat"), None),
    ];
    for (path, flipped) in cases {
        let node = copy(&whole);
        let damaged =
            node.network_dir().join(path.strip_prefix(whole.network_dir()).expect("in it"));
        let name = damaged.display().to_string();
        match flipped {
            Some(at) => flip(&damaged, at),
            None => fs::remove_file(&damaged).expect("it is there"),
        }
        let ended = node.run(&[&"verify"]).expect(Exit::Damaged);
        let named = |line: &&str| line.contains(&name) && line.contains("removes this index");
        assert_eq!(ended.stdout.lines().filter(named).count(), 1, "{name}: {ended:?}");
        has_hash_of_stats(&node, &ended);
        let ended = node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
        assert!(ended.stdout.contains("; repaired: this index was removed"), "{name}: {ended:?}");
        assert!(ended.stdout.contains("Damage: 1 found, 1 repaired, 0 left."), "{name}: {ended:?}");
        node.run(&[&"verify"]).expect(Exit::Success);
        build_indexes(&node);
        let ended = node.run(&[&"verify"]).expect(Exit::Success);
        assert!(ended.stdout.contains(SOUND), "{name}: {ended:?}");
    }
}

/// What an index reads is not what the chain needs: nothing else would make the record again soon.
#[test]
fn an_index_that_waits_for_an_undo_record_names_the_command_that_makes_it_again() {
    let node = with_small_chain();
    let path = node.network_dir().join("blocks/rev00000.dat");
    flip(&path, 500);
    let bind = format!("-bind=127.0.0.1:{}", free_port());
    let mut running =
        Running::start(&node, &[&"-noconnect", &bind, &"-blockfilterindex", &"-coinstatsindex"]);
    let place = format!("cannot be read: {} at byte ", path.display());
    let waits = |line: &&str| {
        line.contains(" index waits: the undo record of block ")
            && line.contains(&place)
            && line.ends_with("; `godwit verify -repair` repairs it.")
    };
    wait_until("an index waits", || running.log().0.lines().any(|line| waits(&line)));
    stops_in_time(running);
    let ended = node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
    assert!(ended.stdout.contains("; repaired\n"), "{ended:?}");
    build_indexes(&node);
}

/// Nothing is looked up in it, as if it were whole.
#[test]
fn an_index_of_which_a_file_is_a_directory_is_off_and_names_it() {
    let node = with_small_chain();
    build_indexes(&node);
    let files = fs::read_dir(node.network_dir().join("indexes/txindex")).expect("an index");
    let run = files
        .map(|entry| entry.expect("an entry").path())
        .find(|path| path.extension().is_some_and(|name| name == "txs"))
        .expect("transactions were indexed");
    fs::remove_file(&run).expect("it is there");
    fs::create_dir(&run).expect("a directory");
    let words = format!("{}: a directory is where a file belongs: move it away", run.display());
    let ended = node.run(&[&"verify"]).expect(Exit::DatadirUnusable);
    assert!(ended.stderr.contains(&words), "{ended:?}");
    let bind = format!("-bind=127.0.0.1:{}", free_port());
    let mut running = Running::start(&node, &[&"-noconnect", &bind, &"-txindex"]);
    let is_off = format!("The txindex is off: open {words}");
    wait_until("the index is off", || running.log().0.contains(&is_off));
    stops_in_time(running);
}

/// Of single runs, too: the file is as one that is missing.
/// `verify` names the command that makes the coins of the small chain again, and it does.
fn coins_are_made_again(node: &Node) {
    let ended = node.run(&[&"verify"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("`godwit verify -repair` makes the coins again"), "{ended:?}");
    let ended = node.run(&[&"verify", &"-repair"]).expect(Exit::Success);
    assert!(ended.stdout.contains("; repaired\n"), "{ended:?}");
    has_hash_of_stats(node, &ended);
    assert_eq!(node.stats(), small_chain_stats());
}

#[test]
fn a_run_that_is_a_link_to_a_disk_that_is_not_mounted_is_made_again() {
    let node = with_small_chain();
    let run = files_of_coins(&node).into_iter().find(|path| path.extension().unwrap() == "run");
    let run = run.expect("coins were written");
    fs::remove_file(&run).expect("it is there");
    symlink("/not/mounted/run", &run).expect("a link");
    coins_are_made_again(&node);
}

/// What happens to a file.
#[derive(Clone, Copy, Debug)]
enum Harm {
    Zeros,
    Cut,
    Missing,
}

fn harm(path: &Path, harm: Harm) {
    let mut bytes = fs::read(path).expect("a file");
    let middle = bytes.len() / 2;
    match harm {
        Harm::Zeros => {
            let page = middle / 4096 * 4096;
            let end = bytes.len().min(page + 4096);
            bytes[page..end].fill(0);
        }
        Harm::Cut => bytes.truncate(middle),
        Harm::Missing => return fs::remove_file(path).expect("it is there"),
    }
    fs::write(path, bytes).expect("the same file");
}

/// Each kind of file, zeroed in part, cut short or missing: verify names it, and what it says then is enough.
#[test]
fn each_cell_of_the_damage_matrix_ends_clean_by_what_verify_names() {
    let (peer, whole) = (with_small_chain(), with_small_chain());
    let port = free_port();
    let serving = serve(&peer, port);
    let connect = format!("-connect=127.0.0.1:{port}");
    let run = files_of_coins(&whole).into_iter().find(|path| path.extension().unwrap() == "run");
    let run = run.expect("coins were written");
    let blocks = whole.network_dir().join("blocks");
    let files = [
        run.clone(),
        run.with_extension("parity"),
        blocks.join("blk00000.dat"),
        blocks.join("rev00000.dat"),
        whole.network_dir().join("godwit.redb"),
        whole.network_dir().join("godwit.control0"),
    ];
    let stop = format!("-stopatheight={}", small_chain_stats()["height"]);
    for path in &files {
        for how in [Harm::Zeros, Harm::Cut, Harm::Missing] {
            let node = copy(&whole);
            let path = path.strip_prefix(whole.network_dir()).expect("in it");
            let (what, damaged) =
                (format!("{}, {how:?}", path.display()), node.network_dir().join(path));
            harm(&damaged, how);
            let ended = node.run(&[&"verify"]);
            // A page of a database may be free.
            if path.ends_with("godwit.redb") && ended.code == Some(Exit::Success.code().into()) {
                continue;
            }
            let ended = ended.expect(Exit::Damaged);
            assert!(ended.stdout.contains(&damaged.display().to_string()), "{what}: {ended:?}");
            let ended = node.run(&[&"verify", &"-repair"]);
            let left = |remedy| ended.stdout.contains(remedy);
            let by = if left("fetches it again from a peer") {
                // It needs every block then.
                node.run(&[&"-reindex-chainstate", &connect, &"-listen=0", &stop])
                    .expect(Exit::Success);
                "fetched again"
            } else {
                assert_eq!(ended.code, Some(Exit::Success.code().into()), "{what}: {ended:?}");
                "-repair"
            };
            eprintln!("{what}: {by}");
            let ended = node.run(&[&"verify"]).expect(Exit::Success);
            has_hash_of_stats(&node, &ended);
            assert_eq!(node.stats(), small_chain_stats(), "{what}");
        }
    }
    stops_in_time(serving);
}

/// A start would make both directories.
#[test]
fn a_lost_directory_is_as_one_that_has_lost_its_files() {
    let whole = with_small_chain();
    let node = copy(&whole);
    fs::remove_dir_all(node.network_dir().join("utxo")).expect("it was there");
    coins_are_made_again(&node);

    let blocks = whole.network_dir().join("blocks");
    fs::remove_dir_all(&blocks).expect("it was there");
    let ended = whole.run(&[&"verify"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("`godwit -reindex` makes index and coins again"), "{ended:?}");
    assert!(!blocks.exists());
    let ended = whole.run(&[&"verify", &"-repair"]).expect(Exit::Damaged);
    assert!(ended.stdout.contains("`godwit -reindex` makes index and coins again"), "{ended:?}");
}

#[test]
fn a_verification_that_is_told_to_stop_ends_soon_and_says_so() {
    let reference = reference();
    let node = {
        let _alone = reference.serve_alone();
        copy(&reference.node)
    };
    let mut interrupted = 0;
    // Before its signal handler stands, a process dies of the signal.
    for delay in [50, 150, 300, 1_000] {
        let mut running = Running::start(&node, &[&"verify"]);
        if !running.wait_for(Moment::After(Duration::from_millis(delay))) {
            continue;
        }
        let (time, status) = running.terminate();
        assert!(time < Duration::from_secs(9), "{time:?}");
        interrupted += usize::from(status.code() == Some(Exit::Interrupted.code().into()));
    }
    assert!(interrupted > 0, "it is never that quick");
    let ended = node.run(&[&"verify"]).expect(Exit::Success);
    has_hash_of_stats(&node, &ended);
}

#[test]
fn what_a_kill_leaves_is_no_damage() {
    let (reference, node) = (reference(), Node::new("regtest"));
    let cache = format!("-dbcache={CACHE_MIB}");
    let mut kills = 0;
    for delay in [700, 1500, 400] {
        let mut running = Running::start(&node, &[&"import", &cache, &reference.path]);
        running.wait_for(Moment::After(Duration::from_millis(delay)));
        kills += usize::from(running.kill());
        let ended = node.run(&[&"verify"]).expect(Exit::Success);
        assert!(ended.stdout.contains(" Damage: none."), "{ended:?}");
    }
    assert!(kills > 0, "it is never that quick");
}

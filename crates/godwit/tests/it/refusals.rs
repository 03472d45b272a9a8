//! Commands that cannot be followed: one line on standard error, an exit code that tells the kind, and
//! nothing changed.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::process::Command;

use godwit::exit::Exit;
use rustix::fs::{CWD, FlockOperation, Mode, fcntl_lock, mkfifoat};
use rustix::io::Errno;

use crate::blocks::{record, small_chain, write_dat};
use crate::damaged_index::copy;
use crate::node::{Ended, Node};
use crate::sync::{free_port, serve, stops_in_time, with_small_chain};

/// Expects the exit code and one line that contains every part.
#[track_caller]
fn refuses(ended: Ended, exit: Exit, parts: &[&str]) {
    let ended = ended.expect(exit);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.starts_with("godwit: "), "{ended:?}");
    assert!(parts.iter().all(|part| ended.stderr.contains(part)), "{parts:?} in {ended:?}");
}

#[test]
fn wrong_options_touch_nothing() {
    let node = Node::new("regtest");
    let word = |word: &str| node.run(&[&"import", &word, &"x.dat"]);
    refuses(word("-dbcahce=5"), Exit::Configuration, &["-dbcahce", "did you mean -dbcache?"]);
    refuses(word("-par=many"), Exit::Configuration, &["-par=many: expected"]);
    refuses(word("-test=bip95"), Exit::Configuration, &["bip94"]);
    refuses(node.run(&[&"imprt", &"x.dat"]), Exit::Configuration, &["did you mean import?"]);
    refuses(node.run(&[&"import"]), Exit::Configuration, &["usage: godwit import"]);
    refuses(node.run(&[&"utxo", &"stats", &"-par=2"]), Exit::Configuration, &["-par"]);
    assert!(fs::read_dir(node.datadir()).expect("a directory").next().is_none());
}

#[test]
fn a_data_directory_that_is_named_has_to_exist() {
    let node = Node::new("regtest");
    fs::remove_dir(node.datadir()).expect("it is empty");
    let words =
        format!("Specified data directory \"{}\" does not exist.", node.datadir().display());
    let commands =
        [&["utxo", "stats"][..], &["import", "x.dat"], &["verify"], &["-connect=0"], &["status"]];
    for command in commands {
        let command: Vec<&dyn AsRef<OsStr>> = command.iter().map(|word| word as _).collect();
        refuses(node.run(&command), Exit::DatadirUnusable, &[&words]);
        assert!(!node.datadir().exists());
    }
    // In the configuration file, which is in the default directory; that one is made where it is used.
    let home = node.beside("home");
    let default = home.join(".godwit");
    let stats = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_godwit"));
        command.args(["utxo", "stats", "-regtest"]).args(arguments).env("HOME", &home);
        Ended::of(command.output().expect("the program starts"))
    };
    fs::create_dir(&home).expect("a directory");
    stats(&[]).expect(Exit::Success);
    assert!(default.join("regtest").is_dir());
    let line = format!("datadir={}\n", node.datadir().display());
    fs::write(default.join("godwit.conf"), line).expect("a file");
    refuses(stats(&[]), Exit::DatadirUnusable, &[&words]);
    fs::create_dir(node.datadir()).expect("a directory");
    stats(&[]).expect(Exit::Success);
    assert!(node.network_dir().is_dir());
}

#[test]
fn a_wrong_configuration_file_is_named_with_its_line() {
    let node = Node::new("regtest");
    fs::write(node.datadir().join("godwit.conf"), "# mine\ndbcache=5\n[regtest]\npar=x\n")
        .expect("a file");
    let ended = node.run(&[&"import", &"x.dat"]);
    refuses(ended, Exit::Configuration, &["godwit.conf:4: par=x"]);
}

#[test]
fn input_that_is_not_there_changes_nothing() {
    let node = Node::new("regtest");
    let (path, missing) = (node.beside("chain.dat"), node.beside("missing.dat"));
    write_dat(&path, &small_chain()[..5]);
    refuses(node.run(&[&"import", &path, &missing]), Exit::Failure, &["missing.dat"]);
    let empty = node.beside("empty");
    fs::create_dir(&empty).expect("a directory");
    fs::write(empty.join("xor.dat"), [0; 8]).expect("a file");
    let ended = node.run(&[&"import", &path, &empty]);
    refuses(ended, Exit::Failure, &["empty contains no blk*.dat file"]);
    let names = fs::read_dir(node.network_dir()).expect("a directory");
    let names: HashSet<_> = names.map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, HashSet::from([".lock", "debug.log"].map(OsString::from)));
}

/// What there is of a data directory of Bitcoin Core's is named.
#[test]
fn a_directory_of_cores_without_its_coins_or_its_block_files_is_told_apart() {
    let node = Node::new("regtest");
    let core = node.beside("core");
    let (network, blocks) = (core.join("regtest"), core.join("regtest/blocks"));
    fs::create_dir_all(blocks.join("index")).expect("directories");
    write_dat(&blocks.join("blk00000.dat"), small_chain());
    let alone = format!("; import {} for the blocks alone", blocks.display());
    for path in [&core, &network] {
        let told = format!("{} has no chainstate{alone}", network.display());
        refuses(node.run(&[&"import", path]), Exit::Failure, &[&told]);
    }
    // As a bitcoind leaves it that was killed when it had deleted its coins.
    fs::create_dir(network.join("chainstate")).expect("a directory");
    for path in [&core, &network] {
        let told = format!("chainstate: there is no database{alone}");
        refuses(node.run(&[&"import", path]), Exit::Failure, &[&told]);
    }
    // As with -blocksdir.
    fs::rename(blocks.join("blk00000.dat"), node.beside("chain.dat")).expect("a file");
    for path in [&core, &network, &blocks] {
        let told = "blocks contains no blk*.dat file; if bitcoind runs with -blocksdir=DIR, import DIR/regtest/blocks";
        let ended = node.run(&[&"import", path]);
        assert!(!ended.stdout.contains("has pruned it"), "{ended:?}");
        refuses(ended, Exit::Failure, &[told]);
    }
    assert_eq!(node.stats()["height"], 0);
}

#[test]
fn one_process_at_a_time_uses_a_data_directory() {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, &small_chain()[..5]);
    node.import(&path);
    let commands: [&[&dyn AsRef<OsStr>]; 2] = [&[&"import", &path], &[&"utxo", &"stats"]];
    for by_core in [false, true] {
        let file = lock_file(&node);
        match by_core {
            false => file.lock().expect("nobody holds the lock"),
            true => fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive)
                .expect("nobody holds the lock"),
        }
        for command in commands {
            let ended = node.run(command);
            refuses(ended, Exit::DatadirUnusable, &[".lock is locked: another process"]);
        }
        drop(file);
        assert_eq!(node.stats()["height"], 5);
    }
}

fn lock_file(node: &Node) -> File {
    let path = node.network_dir().join(".lock");
    File::options().read(true).write(true).open(path).expect("the lock file")
}

/// Core asks for a lock that does not see the one that other godwits ask for, and would write over the first
/// block file.
#[test]
fn a_running_node_holds_the_lock_that_bitcoind_asks_for() {
    let node = with_small_chain();
    let running = serve(&node, free_port());
    let file = lock_file(&node);
    let asks = || fcntl_lock(&file, FlockOperation::NonBlockingLockExclusive);
    assert_eq!(asks(), Err(Errno::AGAIN));
    stops_in_time(running);
    assert_eq!(asks(), Ok(()));
}

#[test]
fn a_data_directory_keeps_to_its_network() {
    let node = Node::new("signet");
    node.stats();
    let ended = node.run(&[&"utxo", &"stats", &"-signetchallenge=51"]);
    refuses(ended, Exit::DatadirUnusable, &["belongs to another network"]);
    assert_eq!(node.stats()["height"], 0);
}

#[test]
fn bitcoin_cores_data_directory_is_left_alone() {
    let node = Node::new("regtest");
    fs::create_dir_all(node.network_dir().join("chainstate")).expect("a directory");
    let log = node.network_dir().join("debug.log");
    fs::write(&log, "bitcoind's\n").expect("a file");
    let commands: [&[&dyn AsRef<OsStr>]; 3] =
        [&[&"utxo", &"stats"], &[&"verify"], &[&"-noconnect", &"-listen=0"]];
    for command in commands {
        refuses(node.run(command), Exit::DatadirUnusable, &["belongs to Bitcoin Core"]);
    }
    assert_eq!(fs::read_to_string(&log).expect("it was there"), "bitcoind's\n");
    let names = fs::read_dir(node.network_dir()).expect("it was there");
    assert_eq!(names.count(), 2, "files were made");
}

/// Obfuscated ones, and those of Core's `-blocksdir`, beside which its lock is.
#[test]
fn block_files_of_bitcoin_core_are_left_alone() {
    let records: Vec<u8> = small_chain().iter().flat_map(|block| record(block)).collect();
    let obfuscated: Vec<u8> = records.iter().map(|byte| byte ^ 0x5a).collect();
    for (bytes, lock, text) in [
        (obfuscated, false, "blk00000.dat is not one that godwit wrote for this network"),
        (records, true, ".lock belongs to Bitcoin Core"),
    ] {
        let node = Node::new("regtest");
        let blocks = node.network_dir().join("blocks");
        fs::create_dir_all(&blocks).expect("a directory");
        if lock {
            File::create(blocks.join(".lock")).expect("a file");
        }
        let files = ["blk00000.dat", "blk00001.dat", "rev00000.dat"].map(|name| blocks.join(name));
        files.iter().for_each(|path| fs::write(path, &bytes).expect("a file"));
        let chain = node.beside("chain.dat");
        write_dat(&chain, small_chain());
        let commands: [&[&dyn AsRef<OsStr>]; 5] = [
            &[&"-noconnect", &"-listen=0"],
            &[&"-noconnect", &"-listen=0", &"-reindex"],
            &[&"-noconnect", &"-listen=0", &"-reindex-chainstate"],
            &[&"import", &chain],
            &[&"verify", &"-repair"],
        ];
        for command in commands {
            let ended = node.run(command);
            if command[0].as_ref() != "verify" {
                refuses(ended, Exit::DatadirUnusable, &[text]);
            }
            for path in &files {
                assert!(fs::read(path).expect("a file") == bytes, "{}", path.display());
            }
            assert!(!node.network_dir().join("godwit.redb").exists());
        }
    }
}

#[test]
fn a_data_directory_that_cannot_be_written_is_named() {
    let node = Node::new("regtest");
    fs::remove_dir(node.datadir()).expect("it is empty");
    fs::write(node.datadir(), "a file").expect("a file");
    let ended = node.run(&[&"utxo", &"stats"]);
    refuses(ended, Exit::DatadirUnusable, &["Specified data directory", "does not exist."]);

    let node = Node::new("regtest");
    node.stats();
    let network_dir = node.network_dir();
    fs::set_permissions(&network_dir, fs::Permissions::from_mode(0o500)).expect("it is ours");
    if File::create(network_dir.join("probe")).is_ok() {
        godwit_testdata::skip("this user may write everywhere");
        return;
    }
    for (name, words) in [("debug.log", "the log in"), (".lock", ".lock: Permission denied")] {
        fs::set_permissions(network_dir.join(name), fs::Permissions::from_mode(0o400))
            .expect("it is ours");
        refuses(node.run(&[&"utxo", &"stats"]), Exit::DatadirUnusable, &[words]);
    }
}

/// A test that held no end of the pipe would wait for ever where the program does. The log's pipe may have a
/// reader, and is refused without.
#[test]
fn what_is_in_the_place_of_a_file_is_named() {
    let whole = with_small_chain();
    for name in ["blocks/xor.dat", "godwit.control0", "godwit.redb", ".lock", "debug.log"] {
        let node = copy(&whole);
        let path = node.network_dir().join(name);
        fs::remove_file(&path).expect("it was there");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let both_ends = || File::options().read(true).write(true).open(&path).expect("it is ours");
        let _held = (name != "debug.log").then(both_ends);
        let ended = node.run(&[&"utxo", &"stats"]);
        refuses(ended, Exit::DatadirUnusable, &["a pipe is where a file belongs: move it away"]);
    }
    let path = whole.network_dir().join("godwit.redb");
    fs::remove_file(&path).expect("it was there");
    fs::create_dir(&path).expect("a directory");
    let ended = whole.run(&[&"utxo", &"stats"]);
    refuses(ended, Exit::DatadirUnusable, &["godwit.redb: a directory is where a file belongs"]);
}

#[test]
fn a_link_to_a_disk_that_is_not_mounted_is_named() {
    let whole = with_small_chain();
    for name in ["blocks", "utxo"] {
        let node = copy(&whole);
        let path = node.network_dir().join(name);
        fs::remove_dir_all(&path).expect("it was there");
        symlink("/not/mounted", &path).expect("a link");
        let database = node.network_dir().join("godwit.redb");
        let before = fs::read(&database).expect("the database");
        let words = format!("{name}: it is a link to /not/mounted, where there is no directory");
        let commands: [&[&dyn AsRef<OsStr>]; 4] = [
            &[&"utxo", &"stats"],
            &[&"verify"],
            &[&"verify", &"-repair"],
            &[&"-noconnect", &"-listen=0", &"-reindex"],
        ];
        for command in commands {
            refuses(node.run(command), Exit::DatadirUnusable, &[&words]);
            assert!(fs::read(&database).expect("it is still there") == before);
        }
    }
    // All that it has may be on that disk.
    for name in ["blocks", "utxo"] {
        let path = whole.network_dir().join(name);
        fs::remove_dir_all(&path).expect("it was there");
        symlink("/not/mounted", &path).expect("a link");
    }
    fs::remove_file(whole.network_dir().join("godwit.redb")).expect("it was there");
    let words = ": it is a link to /not/mounted, where there is no directory";
    let commands: [&[&dyn AsRef<OsStr>]; 2] = [&[&"verify"], &[&"verify", &"-repair"]];
    for command in commands {
        refuses(whole.run(command), Exit::DatadirUnusable, &[words]);
    }
}

#[test]
fn a_network_whose_directory_is_a_link_to_a_disk_that_is_not_mounted_is_named() {
    let node = Node::new("regtest");
    symlink("/not/mounted", node.network_dir()).expect("a link");
    let words = "it is a link to /not/mounted, where there is no directory: is its disk mounted?";
    refuses(node.run(&[&"utxo", &"stats"]), Exit::DatadirUnusable, &["cannot be made", words]);
}

/// Of block and undo files single ones may be on another disk. Nothing that is there is given up before.
#[test]
fn a_rebuild_does_not_begin_while_block_files_are_links_to_a_disk_that_is_not_mounted() {
    let whole = with_small_chain();
    let stats = whole.stats();
    for name in ["blk00000.dat", "rev00000.dat"] {
        let node = copy(&whole);
        let path = node.network_dir().join("blocks").join(name);
        let elsewhere = node.beside(name);
        fs::copy(&path, &elsewhere).expect("it is there");
        fs::remove_file(&path).expect("it is ours");
        symlink("/not/mounted/file", &path).expect("a link");
        let words =
            format!("{name}: it is a link to /not/mounted/file, where there is no file: is its");
        let files = || {
            let mut names = Vec::new();
            for below in ["blocks", "utxo"] {
                let entries = fs::read_dir(node.network_dir().join(below)).expect("a directory");
                names.extend(entries.map(|entry| entry.expect("an entry").path()));
            }
            names.sort_unstable();
            names
        };
        let before = files();
        for option in ["-reindex", "-reindex-chainstate", "-server=0"] {
            let ended = node.run(&[&"-noconnect", &"-listen=0", &option]);
            refuses(ended, Exit::DatadirUnusable, &[&words]);
            assert_eq!(files(), before, "{option}, {name}");
        }
        fs::remove_file(&path).expect("the link");
        symlink(&elsewhere, &path).expect("a link");
        assert_eq!(node.stats(), stats, "{name}: its disk is mounted");
    }
}

/// The files of blocks and coins of a node, with their contents.
fn blocks_and_coins(node: &Node) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for below in ["blocks", "utxo"] {
        for entry in fs::read_dir(node.network_dir().join(below)).expect("a directory") {
            let path = entry.expect("an entry").path();
            let is_file = fs::metadata(&path).expect("it is there").is_file();
            let bytes = if is_file { fs::read(&path).expect("a file") } else { Vec::new() };
            found.insert(path, bytes);
        }
    }
    found
}

/// A mount point is there, and empty, while its disk is not mounted.
#[test]
fn an_empty_mount_point_in_the_place_of_blocks_or_coins_is_named_and_nothing_is_touched() {
    let whole = with_small_chain();
    let stats = whole.stats();
    let words_of = |name: &str| match name {
        "blocks" => "blocks holds no block file, and the last commit names 1: is its disk mounted?",
        _ => "utxo holds no file of coins, and the last commit names ",
    };
    for (name, has_database) in [("blocks", true), ("blocks", false), ("utxo", true)] {
        let node = copy(&whole);
        let database = node.network_dir().join("godwit.redb");
        if !has_database {
            fs::remove_file(&database).expect("it was there");
        }
        let (path, disk) = (node.network_dir().join(name), node.beside("disk"));
        fs::rename(&path, &disk).expect("it is there");
        let mount_point = node.beside("mount");
        fs::create_dir(&mount_point).expect("a directory");
        symlink(&mount_point, &path).expect("a link");
        let before = blocks_and_coins(&node);
        let commands: [&[&dyn AsRef<OsStr>]; 3] = [
            &[&"utxo", &"stats"],
            &[&"-noconnect", &"-listen=0"],
            &[&"-noconnect", &"-listen=0", &"-reindex-chainstate"],
        ];
        // Coins are given up by the last one, wherever they are.
        let refused = if name == "blocks" { 3 } else { 2 };
        for command in &commands[..refused] {
            refuses(node.run(command), Exit::DatadirUnusable, &[words_of(name)]);
            assert!(blocks_and_coins(&node) == before, "{name}: nothing is written or removed");
            assert_eq!(database.exists(), has_database, "{name}");
        }
        fs::remove_file(&path).expect("the link");
        symlink(&disk, &path).expect("a link");
        assert_eq!(node.stats(), stats, "{name}: its disk is mounted");
    }
}

#[test]
fn a_rebuild_does_not_begin_while_a_block_file_cannot_be_opened() {
    let whole = with_small_chain();
    for rebuild in ["-reindex", "-reindex-chainstate"] {
        let node = copy(&whole);
        let path = node.network_dir().join("blocks/blk00000.dat");
        fs::remove_file(&path).expect("it was there");
        mkfifoat(CWD, &path, Mode::RUSR | Mode::WUSR).expect("a pipe");
        let before = blocks_and_coins(&node);
        let ended = node.run(&[&"-noconnect", &"-listen=0", &rebuild]);
        refuses(ended, Exit::DatadirUnusable, &["blk00000.dat: a pipe is where a file belongs"]);
        assert!(blocks_and_coins(&node) == before, "{rebuild}");
    }
}

/// What a node meets only behind its chain, which by then would have given up its coins.
#[test]
fn a_rebuild_does_not_begin_where_the_node_could_not_start_behind_it() {
    let node = with_small_chain();
    let before = blocks_and_coins(&node);
    let outbox = node.network_dir().join("outbox.dat");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let taken = taken.local_addr().expect("it is bound");
    let (bind, publish) = (format!("-bind={taken}"), format!("-zmqpubhashblock=tcp://{taken}"));
    for rebuild in ["-reindex", "-reindex-chainstate"] {
        fs::create_dir(&outbox).expect("a directory");
        let ended = node.run(&[&"-noconnect", &"-listen=0", &rebuild]);
        refuses(ended, Exit::DatadirUnusable, &["outbox.dat: a directory is where a file belongs"]);
        fs::remove_dir(&outbox).expect("a directory");
        let ended = node.run(&[&"-noconnect", &"-listen=1", &bind, &rebuild]);
        refuses(ended, Exit::CannotListen, &["127.0.0.1"]);
        let ended = node.run(&[&"-noconnect", &"-listen=0", &publish, &rebuild]);
        refuses(ended, Exit::CannotListen, &["127.0.0.1"]);
        assert!(blocks_and_coins(&node) == before, "{rebuild}");
    }
}

/// An index may be left out, but not where blocks would be deleted that it has not read.
#[test]
fn a_directory_in_the_place_of_a_file_of_an_index_is_named_where_blocks_are_deleted() {
    let node = with_small_chain();
    let path = node.network_dir().join("indexes/blockfilter/basic/records.dat");
    fs::create_dir_all(&path).expect("a directory");
    let words: [&dyn AsRef<OsStr>; 4] =
        [&"-noconnect", &"-listen=0", &"-prune=550", &"-blockfilterindex"];
    let (index, place) = (
        "the basic block filter index cannot be opened (",
        "records.dat: a directory is where a file belongs: move it away",
    );
    refuses(node.run(&words), Exit::DatadirUnusable, &[index, place]);
    refuses(node.run(&[&"verify"]), Exit::DatadirUnusable, &[place]);
}

/// The kind of the failure is the same, and the data directory is in order.
#[test]
fn a_file_elsewhere_that_is_none_says_nothing_of_the_data_directory() {
    let node = with_small_chain();
    let path = node.beside("chain.dat").join("below");
    refuses(node.run(&[&"import", &path]), Exit::Failure, &["below: Not a directory"]);
    refuses(node.run(&[&"utxo", &"dump", &path]), Exit::Failure, &["below: Not a directory"]);
}

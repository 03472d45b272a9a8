//! A disk that is full before the work is done, and one that cannot be written any more: a small `tmpfs` in
//! namespaces of its own, where that is permitted.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use godwit::exit::Exit;

use crate::blocks::{small_chain, write_dat};
use crate::import::small_chain_stats;
use crate::node::{Ended, Node};
use crate::records;
use crate::sync::{free_port, serve, with_small_chain};

/// Less than the small chain takes with its undo records: 2.5 MB.
const SMALL: &str = "1m";

/// First on a disk that is too small, then with room. What is stored is kept in `after`.
const SCRIPT: &str = r#"
mkdir disk && mount -t tmpfs -o "size=$SIZE" godwit disk || exit 99
"$@" -datadir=disk >first.out 2>first.err
echo $? >first.code
cp -a disk before && mount -o remount,size=400m disk || exit 99
"$@" -datadir=disk >second.out 2>second.err
echo $? >second.code
cp -a disk/. "$DATADIR"
"#;

/// Whether mounts can be made by whoever runs the test.
fn can_mount() -> bool {
    let mut probe = Command::new("unshare");
    probe.args(["-rm", "sh", "-c", "mount -t tmpfs godwit /mnt"]);
    let done = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let can = done.is_ok_and(|status| status.success());
    if !can {
        godwit_testdata::skip("no mounts without privileges here");
    }
    can
}

/// Runs the command twice and looks at both ends.
fn fills_the_disk_and_goes_on(words: &[String]) {
    let node = Node::new("regtest");
    let place = node.beside("place");
    fs::create_dir(&place).expect("a directory");
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", SCRIPT, "sh", env!("CARGO_BIN_EXE_godwit")]).args(words);
    shell.arg("-chain=regtest").env("SIZE", SMALL).env("DATADIR", node.datadir());
    let output = shell.current_dir(&place).stdin(Stdio::null()).output().expect("a shell");
    assert!(output.status.success(), "{output:?}");
    let read = |name: &str| fs::read_to_string(place.join(name)).expect("it was written");
    let code = |name: &str| read(name).trim().parse::<u8>().expect("a number");

    let error = read("first.err");
    assert_eq!(code("first.code"), Exit::DiskFull.code(), "{error}");
    assert_eq!(error.lines().count(), 1, "{error}");
    assert!(error.starts_with("godwit: ") && error.contains("No space left on device"), "{error}");
    let files: PathBuf = place.join("before").join("regtest").join("blocks");
    let kept = fs::metadata(files.join("blk00000.dat")).expect("some were stored").len();
    assert!(kept > 500_000, "{kept} bytes of blocks");

    assert_eq!(code("second.code"), Exit::Success.code(), "{}", read("second.err"));
    let arrived = read("second.out");
    assert!(arrived.contains(" blocks had arrived after the last commit."), "{arrived}");
    assert_eq!(node.stats(), small_chain_stats());
    // Nothing was fetched or read once more.
    let blocks = records::blocks(&node);
    assert_eq!((blocks.complete, blocks.torn), (small_chain().len() as u64, 0));
}

#[test]
fn an_import_onto_a_full_disk_is_one_clear_line_and_goes_on_with_room() {
    if !can_mount() {
        return;
    }
    let chain = Node::new("regtest");
    let path = chain.beside("chain.dat");
    write_dat(&path, small_chain());
    fills_the_disk_and_goes_on(&["import".to_owned(), path.display().to_string()]);
}

#[test]
fn a_sync_onto_a_full_disk_is_one_clear_line_and_goes_on_with_room() {
    if !can_mount() {
        return;
    }
    let server = with_small_chain();
    let port = free_port();
    let serving = serve(&server, port);
    fills_the_disk_and_goes_on(&[
        format!("-connect=127.0.0.1:{port}"),
        "-listen=0".to_owned(),
        format!("-stopatheight={}", small_chain().len()),
    ]);
    drop(serving);
}

/// The data directory has room, and the file has none.
const DUMP_SCRIPT: &str = r#"
mkdir small && mount -t tmpfs -o size=4k godwit small || exit 99
"$@"
code=$?
ls -A small >left || exit 98
exit $code
"#;

#[test]
fn a_dump_onto_a_full_disk_is_one_clear_line_and_leaves_nothing_there() {
    if !can_mount() {
        return;
    }
    let node = with_small_chain();
    let place = node.beside("place");
    fs::create_dir(&place).expect("a directory");
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", DUMP_SCRIPT, "sh", env!("CARGO_BIN_EXE_godwit")]);
    shell.args(["utxo", "dump", "small/coins.dat", "-chain=regtest"]);
    shell.arg(format!("-datadir={}", node.datadir().display()));
    let output = shell.current_dir(&place).stdin(Stdio::null()).output().expect("a shell");
    let ended = Ended::of(output).expect(Exit::DiskFull);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("small/coins.dat.incomplete: No space left"), "{ended:?}");
    assert_eq!(fs::read_to_string(place.join("left")).expect("it was written"), "");
}

/// What was written before cannot be changed.
const READ_ONLY_SCRIPT: &str = r#"
mkdir disk && mount -t tmpfs godwit disk || exit 99
"$@" -datadir=disk >first.out 2>first.err || exit 98
mount -o remount,ro disk || exit 97
exec "$@" -datadir=disk
"#;

/// Whoever starts it again changes nothing: it is not the exit code after which a service manager does.
#[test]
fn a_disk_that_is_read_only_is_one_clear_line_with_the_code_of_a_data_directory() {
    if !can_mount() {
        return;
    }
    let node = Node::new("regtest");
    let place = node.beside("place");
    fs::create_dir(&place).expect("a directory");
    let mut shell = Command::new("unshare");
    shell.args(["-rm", "sh", "-c", READ_ONLY_SCRIPT, "sh", env!("CARGO_BIN_EXE_godwit")]);
    shell.args(["utxo", "stats", "-chain=regtest"]).current_dir(&place).stdin(Stdio::null());
    let ended = Ended::of(shell.output().expect("a shell")).expect(Exit::DatadirUnusable);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("Read-only file system"), "{ended:?}");
}

/// The system would end the process by a signal, without a word.
#[test]
fn a_file_beyond_the_limit_of_sizes_is_one_clear_line() {
    let node = Node::new("regtest");
    let path = node.beside("chain.dat");
    write_dat(&path, small_chain());
    let import = node.command(&[&"import", &path]);
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -f 1000; exec \"$@\"", "sh"]);
    shell.arg(import.get_program()).args(import.get_args());
    let ended = Ended::of(shell.output().expect("a shell")).expect(Exit::Failure);
    assert_eq!(ended.stderr.lines().count(), 1, "{ended:?}");
    assert!(ended.stderr.contains("File too large"), "{ended:?}");
    node.run(&[&"import", &path]).expect(Exit::Success);
    assert_eq!(node.stats(), small_chain_stats());
}

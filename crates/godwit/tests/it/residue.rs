//! Keys of the real program are in locked memory and nowhere else: searched for by the program itself,
//! by another process, and in its core dump, log and messages. All as an unprivileged user.

mod commands;
mod node;
mod outside;

use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use godwit::exit::Exit;
use godwit_secret::SecretBytes;
use godwit_secret::residue::{Needle, scan_file};
use godwit_testdata::shared_data;
use rustix::process::geteuid;
use tempfile::TempDir;

/// `nobody`, who has no privilege to lock memory or to read others' memory.
const NOBODY: u32 = 65534;
const UNREADABLE: &str = "SKIPPED: a process cannot read its child's memory here";

/// A directory and programs that an unprivileged user can use.
struct Place {
    directory: TempDir,
}

impl Place {
    fn new() -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        // Of the tests' user alone otherwise, who may be root.
        fs::set_permissions(directory.path(), Permissions::from_mode(0o777)).expect("it is ours");
        Self { directory }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A copy of `program`, which may lie where only root gets to.
    fn program(&self, program: &Path) -> PathBuf {
        let copy = self.path(program.file_name().and_then(OsStr::to_str).expect("a name"));
        if fs::hard_link(program, &copy).is_err() {
            fs::copy(program, &copy).expect("there is room for a copy");
        }
        copy
    }

    fn give(&self, file: &Path) -> PathBuf {
        let copy = self.path(file.file_name().and_then(OsStr::to_str).expect("a name"));
        fs::copy(file, &copy).expect("there is room for a copy");
        fs::set_permissions(&copy, Permissions::from_mode(0o644)).expect("it is ours");
        copy
    }

    /// Runs `program` behind `prefix`, words of a shell, without privileges.
    fn command(&self, prefix: &str, program: &Path) -> Command {
        let mut command = Command::new("/bin/sh");
        command.arg("-c").arg(format!("{prefix} exec \"$0\" \"$@\"")).arg(program);
        command.current_dir(self.directory.path()).env("TMPDIR", self.directory.path());
        if geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }

    /// `godwit keys …` with this standard input.
    fn keys(&self, prefix: &str, words: &[&str], input: &str) -> Output {
        let mut command = self.command(prefix, &self.path("godwit"));
        command.arg("keys").args(words).arg("-regtest");
        command.arg(format!("-datadir={}", self.path("datadir").display()));
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing closes it.
        drop(stdin.write_all(input.as_bytes()));
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }
}

fn with_program() -> Place {
    let place = Place::new();
    place.program(Path::new(env!("CARGO_BIN_EXE_godwit")));
    place
}

/// Wallets of Bitcoin Core, never encrypted, always and later, with their passphrases; none without shared
/// data.
fn core_wallets() -> Vec<(PathBuf, String)> {
    let Some(data) = shared_data() else { return Vec::new() };
    let facts = fs::read(data.join("wallets/wallets.json")).expect("it is there");
    let facts: serde_json::Value = serde_json::from_slice(&facts).expect("it is JSON");
    let wallet = |name: &str| {
        let passphrase = facts["wallets"][name]["passphrase"].as_str().unwrap_or_default();
        (data.join(format!("wallets/{name}.wallet.dat")), passphrase.to_owned())
    };
    ["plain", "born-encrypted", "later-encrypted"].map(wallet).into()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn the_command_finds_no_copy() {
    let place = with_program();
    let output = place.keys("", &["residue-check"], "");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert_eq!(printed.matches(": found").count(), 3, "{printed}");
    assert!(printed.ends_with("no copy outside locked memory\n"), "{printed}");
    assert_eq!(text(&output.stderr), "", "{printed}");
}

#[test]
fn the_command_finds_no_copy_of_the_users_own_keys() {
    let place = with_program();
    let created = place.keys("", &["create", "-passphrase-fd=0"], "a passphrase of my own\n");
    assert!(created.status.success(), "{}", text(&created.stderr));
    let own = format!("-keys={}", place.path("datadir/regtest/keys.godwit").display());
    let words = ["residue-check", &own, "-passphrase-fd=0"];
    let output = place.keys("", &words, "a passphrase of my own\n");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert!(printed.contains("your own key file"), "{printed}");

    let wrong = place.keys("", &words, "another passphrase\n");
    assert_eq!(wrong.status.code(), Some(Exit::Failure.code().into()));
    let message = text(&wrong.stderr);
    assert!(message.ends_with("the passphrase is wrong\n"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn the_command_finds_no_copy_of_a_wallet_of_core() {
    for (wallet, passphrase) in core_wallets() {
        let place = with_program();
        let name = wallet.display();
        let copy = place.give(&wallet);
        let words = ["residue-check", copy.to_str().expect("a path"), "-walletpassphrase-fd=0"];
        let output = place.keys("", &words, &format!("{passphrase}\n"));
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{name}: {printed}{}", text(&output.stderr));
        assert!(printed.contains("import a wallet of Core"), "{printed}");
    }
}

#[test]
fn without_locked_memory_there_are_no_keys() {
    let place = with_program();
    let output = place.keys("ulimit -l 0;", &["residue-check"], "");
    assert_eq!(output.status.code(), Some(Exit::Failure.code().into()));
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("RLIMIT_MEMLOCK"), "{message}");
    assert!(!text(&output.stdout).contains("no copy"));
    let created = place.keys("ulimit -l 0;", &["create", "-passphrase-fd=0"], "passphrase\n");
    assert_eq!(created.status.code(), Some(Exit::Failure.code().into()));
    assert!(text(&created.stderr).contains("RLIMIT_MEMLOCK"), "{}", text(&created.stderr));
    assert!(!place.path("datadir/regtest/keys.godwit").exists());
}

#[test]
fn what_commands_print_and_log_holds_no_secret() {
    let place = with_program();
    let (old, new) = ("the first passphrase", "the second passphrase");
    let words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    let wif = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    let wrong_wif = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcB";
    let import = ["import", "-passphrase-fd=0", "-secret-fd=0"];
    let list = ["list", "-passphrase-fd=0"];
    let change = ["change-passphrase", "-passphrase-fd=0", "-newpassphrase-fd=0"];
    let runs = [
        (&import[..], format!("{old}\n{words}\n"), true),
        (&import[..], format!("{old}\n{wif}\n"), true),
        (&import[..], format!("{old}\n{wrong_wif}\n"), false),
        (&import[..], format!("{old}\n{words} zoo\n"), false),
        (&import[..], format!("{old}\nwpkh({wrong_wif})\n"), false),
        (&list[..], format!("{new}\n"), false),
        (&change[..], format!("{old}\n{new}\n"), true),
        (&list[..], format!("{new}\n"), true),
    ];
    let mut said = Vec::new();
    for (words, input, succeeds) in runs {
        let Output { status, stdout, stderr } = place.keys("", words, &input);
        assert_eq!(status.success(), succeeds, "{words:?}: {}", text(&stderr));
        said.extend([stdout, stderr].concat());
    }
    let log = fs::read(place.path("datadir/regtest/debug.log")).expect("commands have a log");
    let all = place.path("all");
    fs::write(&all, [said, log].concat()).expect("there is room");
    let needles = [old, new, words, wif, wrong_wif].map(needle_of);
    let found = scan_file(&all, &needles).expect("a file is read").findings;
    assert_eq!(found, []);
    // That the search would have seen them.
    fs::write(&all, format!("said {wif} said")).expect("there is room");
    assert_eq!(scan_file(&all, &needles).expect("a file is read").findings.len(), 1);
}

fn needle_of(secret: &str) -> Needle {
    let mut plain = secret.as_bytes().to_vec();
    let bytes = SecretBytes::from_plain_and_wipe(&mut plain).expect("locked memory");
    Needle::new("a secret of a command", &bytes).expect("locked memory")
}

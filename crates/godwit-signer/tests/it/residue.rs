//! Keys of the real program are in locked memory and nowhere else: searched for by the program itself,
//! by another process, and in its core dump, files and messages. All as an unprivileged user.

mod commands;
mod outside;

use std::fs;
use std::io::Write;
use std::ops::Deref;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

use godwit_program::Exit;
use godwit_secret::SecretBytes;
use godwit_secret::residue::{Needle, scan_file};
use godwit_sim::programs::UnprivilegedPlace;
use godwit_testdata::shared_data;

const UNREADABLE: &str = "a process cannot read its child's memory here";

/// A place with the program, and its commands without privileges.
struct Place(UnprivilegedPlace);

impl Place {
    fn new() -> Self {
        Self(UnprivilegedPlace::with_program(crate::PROGRAM))
    }

    /// A command of the program behind `prefix`, words of a shell.
    fn command(&self, prefix: &str, words: &[&str]) -> Command {
        let mut command = self.0.command(prefix, &self.0.path("godwit-signer"));
        command.args(words).arg("-regtest");
        command.arg(format!("-datadir={}", self.0.path("datadir").display()));
        command
    }

    /// Runs a command with this standard input.
    fn run(&self, prefix: &str, words: &[&str], input: &str) -> Output {
        let mut command = self.command(prefix, words);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program starts");
        let mut stdin = child.stdin.take().expect("a pipe");
        // A command that reads nothing closes it.
        drop(stdin.write_all(input.as_bytes()));
        drop(stdin);
        child.wait_with_output().expect("it ends")
    }
}

impl Deref for Place {
    type Target = UnprivilegedPlace;

    fn deref(&self) -> &UnprivilegedPlace {
        &self.0
    }
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
    let place = Place::new();
    let output = place.run("", &["residue-check"], "");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert_eq!(printed.matches(": found").count(), 7, "{printed}");
    assert!(printed.ends_with("no copy outside locked memory\n"), "{printed}");
    assert_eq!(text(&output.stderr), "", "{printed}");
}

/// And of a wallet that is not encrypted: one command checks both.
#[test]
fn the_command_finds_no_copy_of_the_users_own_keys() {
    let place = Place::new();
    let created = place.run(
        "",
        &["keys", "create", "-unseenwords", "-passphrase-fd=0"],
        "a passphrase of my own\n",
    );
    assert!(created.status.success(), "{}", text(&created.stderr));
    let own = format!("-keys={}", place.path("datadir/regtest/keys.godwit").display());
    let words = ["residue-check", &own, "-passphrase-fd=0"];
    let wallet = core_wallets().first().map(|(plain, _)| place.give(plain));
    let wallet = wallet.iter().map(|wallet| wallet.to_str().expect("a path"));
    let with_wallet: Vec<&str> = words.into_iter().chain(wallet).collect();
    let output = place.run("", &with_wallet, "a passphrase of my own\n");
    let printed = text(&output.stdout);
    assert!(output.status.success(), "{printed}{}", text(&output.stderr));
    assert!(printed.contains("your own key file"), "{printed}");
    let has_wallet = with_wallet.len() > words.len();
    assert_eq!(printed.contains("import a wallet of Core"), has_wallet, "{printed}");

    let wrong = place.run("", &words, "another passphrase\n");
    assert_eq!(wrong.status.code(), Some(Exit::Failure.code().into()));
    let message = text(&wrong.stderr);
    assert!(message.ends_with("the passphrase is wrong\n"), "{message}");
    assert_eq!(message.lines().count(), 1, "{message}");
}

#[test]
fn the_command_finds_no_copy_of_an_encrypted_wallet_of_core() {
    for (wallet, passphrase) in core_wallets().into_iter().skip(1) {
        let place = Place::new();
        let name = wallet.display();
        let copy = place.give(&wallet);
        let words = ["residue-check", copy.to_str().expect("a path"), "-walletpassphrase-fd=0"];
        let output = place.run("", &words, &format!("{passphrase}\n"));
        let printed = text(&output.stdout);
        assert!(output.status.success(), "{name}: {printed}{}", text(&output.stderr));
        assert!(printed.contains("import a wallet of Core"), "{printed}");
    }
}

#[test]
fn without_locked_memory_there_are_no_keys() {
    let place = Place::new();
    let output = place.run("ulimit -l 0;", &["residue-check"], "");
    assert_eq!(output.status.code(), Some(Exit::Failure.code().into()));
    let message = text(&output.stderr);
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(message.contains("RLIMIT_MEMLOCK"), "{message}");
    assert!(!text(&output.stdout).contains("no copy"));
    let created = place.run(
        "ulimit -l 0;",
        &["keys", "create", "-unseenwords", "-passphrase-fd=0"],
        "passphrase\n",
    );
    assert_eq!(created.status.code(), Some(Exit::Failure.code().into()));
    assert!(text(&created.stderr).contains("RLIMIT_MEMLOCK"), "{}", text(&created.stderr));
    assert!(!place.path("datadir/regtest/keys.godwit").exists());
}

#[test]
fn what_commands_print_and_leave_holds_no_secret() {
    let place = Place::new();
    let (old, new) = ("the first passphrase", "the second passphrase");
    let words = "legal winner thank year wave sausage worth useful legal winner thank yellow";
    let wif = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";
    let wrong_wif = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcB";
    let import = ["keys", "import", "-passphrase-fd=0", "-secret-fd=0"];
    let list = ["keys", "list", "-passphrase-fd=0"];
    let change = ["keys", "change-passphrase", "-passphrase-fd=0", "-newpassphrase-fd=0"];
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
        let Output { status, stdout, stderr } = place.run("", words, &input);
        assert_eq!(status.success(), succeeds, "{words:?}: {}", text(&stderr));
        said.extend([stdout, stderr].concat());
    }
    // Whatever it left behind, the key file among it.
    let entries = fs::read_dir(place.path("datadir/regtest")).expect("a directory");
    for entry in entries {
        said.extend(fs::read(entry.expect("an entry").path()).expect("a file"));
    }
    let all = place.path("all");
    fs::write(&all, &said).expect("there is room");
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

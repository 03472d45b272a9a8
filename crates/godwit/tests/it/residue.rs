//! Keys of the real program are in locked memory and nowhere else: searched for by the program itself,
//! by another process, and in its core dump, log and messages. All as an unprivileged user.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, Permissions};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Output, Stdio, exit};

use godwit::exit::Exit;
use godwit::keys::residue_check::{CheckError, Observer, use_invented_keys};
use godwit_secret::residue::{Needle, scan_file, scan_other};
use godwit_secret::{SecretArray, SecretBytes};
use godwit_testdata::shared_data;
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

/// `nobody`, who has no privilege to lock memory or to read others' memory.
const NOBODY: u32 = 65534;
/// Tells the test binary which side it is.
const ROLE: &str = "GODWIT_RESIDUE_ROLE";
/// The moment at which the searched process is told to abort.
const LAST_USE: &str = "encrypted connection";
const UNREADABLE: &str = "SKIPPED: a process cannot read its child's memory here";
/// What the searched process leaves lying about, to be found.
const MARKER_SIZE: usize = 32;

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
    let Some(data) = shared_data() else { return };
    let place = with_program();
    let facts = fs::read(data.join("wallets/wallets.json")).expect("it is there");
    let facts: serde_json::Value = serde_json::from_slice(&facts).expect("it is JSON");
    for name in ["plain", "born-encrypted"] {
        let wallet = place.give(&data.join(format!("wallets/{name}.wallet.dat")));
        let passphrase = facts["wallets"][name]["passphrase"].as_str().unwrap_or_default();
        let wallet = wallet.to_str().expect("a path");
        let words = ["residue-check", wallet, "-walletpassphrase-fd=0"];
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

/// Two processes use the same invented keys in step. One of them is dumpable; the other searches it
/// after each step, and at the end its core dump.
#[test]
fn from_outside_and_in_a_core_dump_there_is_no_key() {
    match env::var(ROLE).as_deref() {
        Ok("searching") => search(),
        Ok(_) => be_searched(),
        Err(_) => {
            let place = Place::new();
            let tests = place.program(&env::current_exe().expect("a test binary has a path"));
            let output = as_role(&mut place.command("", &tests), "searching").output();
            let output = output.expect("the test binary starts");
            let said = text(&output.stderr);
            for line in said.lines().filter(|line| line.starts_with("SKIPPED:")) {
                eprintln!("{line}");
            }
            assert!(output.status.success(), "{}\n{said}", text(&output.stdout));
            let ends = ["searched to the end", UNREADABLE];
            assert!(ends.iter().any(|end| said.contains(end)), "{said}");
        }
    }
}

fn as_role<'a>(command: &'a mut Command, role: &str) -> &'a mut Command {
    let test = "residue::from_outside_and_in_a_core_dump_there_is_no_key";
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role)
}

/// The searched process: it says each moment, and waits for a line before it goes on.
fn be_searched() {
    // Past the buffer of the standard library's input.
    let input = std::io::stdin().as_fd().try_clone_to_owned().expect("it is open");
    let mut input = fs::File::from(input);
    let mut seed = SecretBytes::new();
    while seed.len() < 32 {
        let left = 32 - seed.len();
        assert!(seed.read_from(&mut input, left).expect("locked memory") > 0);
    }
    let mut marker = vec![0; MARKER_SIZE];
    input.read_exact(&mut marker).expect("the marker follows");
    let mut input = BufReader::new(input);
    let seed = SecretArray::copy_of(&seed).expect("as long as it is");
    let mut told = |moment: &str, name: &str| {
        println!("\n{moment} {name}");
        let mut answer = String::new();
        input.read_line(&mut answer).expect("the searching process is there");
        if answer != "go on\n" {
            std::process::abort();
        }
    };
    use_invented_keys(&seed, &mut Telling(&mut told)).expect("keys are used");
    black_box(&marker);
    exit(0);
}

struct Telling<'a>(&'a mut dyn FnMut(&str, &str));

impl Observer for Telling<'_> {
    fn unlocked(&mut self, name: &'static str, _: &[Needle]) -> Result<(), CheckError> {
        (self.0)("unlocked", name);
        Ok(())
    }

    fn locked(&mut self, name: &'static str, _: Vec<Needle>) -> Result<(), CheckError> {
        (self.0)("locked", name);
        Ok(())
    }
}

/// The searching process.
struct Searching {
    searched: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    marker: Needle,
}

fn search() {
    let seed = SecretArray::<32>::random().expect("locked memory");
    let marker = SecretBytes::random(MARKER_SIZE).expect("locked memory");
    let binary = env::current_exe().expect("a test binary has a path");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -c unlimited || true; exec \"$0\" \"$@\""]).arg(binary);
    let command = as_role(&mut command, "searched").stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut searched = command.spawn().expect("the test binary starts");
    let mut input = searched.stdin.take().expect("a pipe");
    seed.expose_secret(|seed| input.write_all(seed)).expect("it is read");
    marker.expose_secret(|marker| input.write_all(marker)).expect("it is read");
    let output = BufReader::new(searched.stdout.take().expect("a pipe"));
    let marker = Needle::raw("marker", &marker).expect("locked memory");
    let mut searching = Searching { searched, input, output, marker };
    let outcome = use_invented_keys(&seed, &mut searching);
    assert!(matches!(outcome, Err(CheckError::Unexpected(LAST_USE))), "{outcome:?}");
    eprintln!("searched to the end");
}

impl Searching {
    fn wait_for(&mut self, moment: &str, name: &str) {
        let expected = format!("{moment} {name}\n");
        let mut line = String::new();
        while line != expected {
            line.clear();
            let count = self.output.read_line(&mut line).expect("it talks");
            assert!(count > 0, "the searched process ends before {expected}");
        }
    }

    /// Nothing of the other process lies outside of its locked memory.
    fn look(&mut self, needles: &[Needle]) {
        let report = match scan_other(self.searched.id(), needles) {
            Ok(report) => report,
            Err(error) => {
                eprintln!("{UNREADABLE}: {error}");
                exit(0);
            }
        };
        let plain: Vec<_> = report.findings.iter().filter(|found| !found.protected).collect();
        assert!(plain.is_empty(), "{plain:?}");
    }

    /// Ends the other process with a core dump, in which there is nothing at all.
    fn look_into_core_dump(&mut self, needles: &[Needle]) {
        let marker = std::slice::from_ref(&self.marker);
        let seen = scan_other(self.searched.id(), marker).expect("it is our child").findings;
        assert!(!seen.is_empty(), "the search is blind");
        self.input.write_all(b"abort\n").expect("it is read");
        let status = self.searched.wait().expect("it is our child");
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
        let Some(core) = core_dump().filter(|_| status.core_dumped()) else {
            eprintln!("SKIPPED: the system writes no core dumps into the directory of the process");
            return;
        };
        let seen = scan_file(&core, marker).expect("a file is read").findings;
        assert!(!seen.is_empty(), "the search is blind");
        assert_eq!(scan_file(&core, needles).expect("a file is read").findings, []);
    }
}

impl Observer for Searching {
    fn unlocked(&mut self, name: &'static str, needles: &[Needle]) -> Result<(), CheckError> {
        self.wait_for("unlocked", name);
        self.look(needles);
        if name == LAST_USE {
            self.look_into_core_dump(needles);
            return Err(CheckError::Unexpected(LAST_USE));
        }
        self.input.write_all(b"go on\n")?;
        Ok(())
    }

    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError> {
        self.wait_for("locked", name);
        let report = scan_other(self.searched.id(), &needles)?;
        assert_eq!(report.findings, [], "{name}");
        self.input.write_all(b"go on\n")?;
        Ok(())
    }
}

fn core_dump() -> Option<PathBuf> {
    let files = fs::read_dir(".").expect("the directory is there");
    let mut paths = files.map(|file| file.expect("an entry").path());
    let is_core = |path: &PathBuf| {
        let name = path.file_name().and_then(OsStr::to_str);
        name.is_some_and(|name| name == "core" || name.starts_with("core."))
    };
    paths.find(is_core)
}

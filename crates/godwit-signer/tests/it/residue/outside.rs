//! Two processes use the same keys in step. One of them is dumpable; the other searches it after each
//! step, and at the end its core dump.

use std::env;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::hint::black_box;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio, exit};

use godwit_secret::residue::{Finding, Needle, ScanError, scan_file, scan_other};
use godwit_secret::{
    Declassified, SecretArray, SecretBytes, SecretSlice, SecretString, Unprotected,
};
use godwit_signer::residue_check::{CheckError, Observer, use_invented_keys, use_wallet};
use godwit_sim::programs::UnprivilegedPlace;
use rustix::process::Signal;

use super::{UNREADABLE, core_wallets, text};

/// Tells the test binary which side it is.
const ROLE: &str = "GODWIT_RESIDUE_ROLE";
/// The wallet of Core that both sides read, instead of inventing keys.
const WALLET: &str = "GODWIT_RESIDUE_WALLET";
/// What the searched process leaves lying about, to be found.
const MARKER_SIZE: usize = 32;
/// What the searched process is told, both of the same length.
const GO_ON: [u8; 2] = *b"go";
const ABORT: [u8; 2] = *b"no";
/// A wallet is read so often: the last time ends with a core dump, the others with the keys' end.
const WALLET_ROUNDS: usize = 2;

#[test]
fn from_outside_and_in_a_core_dump_there_is_no_key() {
    let test = "residue::outside::from_outside_and_in_a_core_dump_there_is_no_key";
    match env::var(ROLE).as_deref() {
        Ok("searching") => search(test),
        Ok(_) => be_searched(),
        Err(_) => use_in_two_processes(test, &UnprivilegedPlace::new(), None),
    }
}

#[test]
fn from_outside_and_in_a_core_dump_there_is_no_key_of_a_wallet_of_core() {
    let test =
        "residue::outside::from_outside_and_in_a_core_dump_there_is_no_key_of_a_wallet_of_core";
    match env::var(ROLE).as_deref() {
        Ok("searching") => search(test),
        Ok(_) => be_searched(),
        Err(_) => {
            for (wallet, passphrase) in core_wallets() {
                let place = UnprivilegedPlace::new();
                let wallet = place.give(&wallet);
                use_in_two_processes(test, &place, Some((&wallet, &passphrase)));
            }
        }
    }
}

/// `wallet`: its file and its passphrase, empty if it has none.
fn use_in_two_processes(test: &str, place: &UnprivilegedPlace, wallet: Option<(&Path, &str)>) {
    let tests = place.program(&env::current_exe().expect("a test binary has a path"));
    let mut command = place.command("", &tests);
    as_role(&mut command, test, "searching");
    if let Some((path, _)) = wallet {
        command.env(WALLET, path);
    }
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the test binary starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let passphrase = wallet.map_or("", |(_, passphrase)| passphrase);
    stdin.write_all(passphrase.as_bytes()).expect("it is read");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    let said = text(&output.stderr);
    godwit_testdata::skip_as(&said);
    assert!(output.status.success(), "{}\n{said}", text(&output.stdout));
    let ends = ["searched to the end", UNREADABLE];
    assert!(ends.iter().any(|end| said.contains(end)), "{said}");
}

fn as_role<'a>(command: &'a mut Command, test: &str, role: &str) -> &'a mut Command {
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(ROLE, role)
}

/// What both processes do. `passphrase`: gives that of the wallet anew each time.
fn use_keys(
    seed: &SecretArray<32>,
    passphrase: &mut dyn FnMut() -> Option<SecretString>,
    observer: &mut dyn Observer,
) -> Result<(), CheckError> {
    let Some(wallet) = env::var_os(WALLET) else { return use_invented_keys(seed, observer) };
    for _ in 0..WALLET_ROUNDS {
        use_wallet(Path::new(&wallet), passphrase(), observer)?;
    }
    Ok(())
}

fn as_passphrase(bytes: SecretBytes) -> Option<SecretString> {
    (!bytes.is_empty()).then(|| SecretString::from_utf8(bytes).expect("a passphrase is text"))
}

/// Standard input, past the standard library's buffer.
fn unbuffered_input() -> File {
    std::io::stdin().as_fd().try_clone_to_owned().expect("it is open").into()
}

fn read_secret(input: &mut File, size: usize) -> SecretBytes {
    let mut secret = SecretBytes::new();
    while secret.len() < size {
        let left = size - secret.len();
        assert!(secret.read_from(input, left).expect("locked memory") > 0);
    }
    secret
}

/// The searched process: it says each moment, and waits for a word before it goes on.
fn be_searched() {
    let mut input = unbuffered_input();
    let seed = read_secret(&mut input, 32);
    let seed = SecretArray::copy_of(&seed).expect("as long as it is");
    let mut marker = vec![0; MARKER_SIZE];
    input.read_exact(&mut marker).expect("the marker follows");
    let mut answers = input.try_clone().expect("it is open");
    let mut told = |moment: &str, name: &str| {
        println!("\n{moment} {name}");
        let mut answer = [0; GO_ON.len()];
        answers.read_exact(&mut answer).expect("the searching process is there");
        if answer != GO_ON {
            std::process::abort();
        }
    };
    let mut passphrase = || {
        let mut size = [0];
        input.read_exact(&mut size).expect("the passphrase follows");
        as_passphrase(read_secret(&mut input, size[0].into()))
    };
    use_keys(&seed, &mut passphrase, &mut Telling(&mut told)).expect("keys are used");
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
    /// Of the wallet, however short it is.
    passphrase: Vec<Needle>,
    /// The use of keys that ends with a core dump, and the times that it comes before that.
    last: (&'static str, usize),
}

fn search(test: &str) {
    let seed = SecretArray::<32>::random().expect("locked memory");
    let marker = SecretBytes::random(MARKER_SIZE).expect("locked memory");
    let mut passphrase = SecretBytes::new();
    while passphrase.read_from(&mut unbuffered_input(), 256).expect("locked memory") > 0 {}
    let binary = env::current_exe().expect("a test binary has a path");
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "ulimit -c unlimited || true; exec \"$0\" \"$@\""]).arg(binary);
    let command = as_role(&mut command, test, "searched");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut searched = command.spawn().expect("the test binary starts");
    let mut input = searched.stdin.take().expect("a pipe");
    for secret in [SecretSlice::from(&seed), SecretSlice::from(&marker)] {
        let written = secret.expose_secret_into(Unprotected(&mut input), |secret, input| {
            Declassified(input.0.write_all(secret))
        });
        written.0.expect("it is read");
    }
    let output = BufReader::new(searched.stdout.take().expect("a pipe"));
    let mut passphrases = File::from(input.as_fd().try_clone_to_owned().expect("it is open"));
    let mut searching = Searching {
        searched,
        input,
        output,
        marker: Needle::raw("marker", &marker).expect("locked memory"),
        passphrase: Vec::new(),
        last: ("encrypted connection", 0),
    };
    if !passphrase.is_empty() {
        let needle = Needle::raw("passphrase of the wallet", &passphrase);
        searching.passphrase.push(needle.expect("it is long enough"));
    }
    if env::var_os(WALLET).is_some() {
        searching.last = ("import a wallet of Core", WALLET_ROUNDS - 1);
    }
    let mut passphrase = || {
        let size = u8::try_from(passphrase.len()).expect("it is short");
        passphrases.write_all(&[size]).expect("it is read");
        let passphrases = Unprotected(&mut passphrases);
        let written = passphrase.expose_secret_into(passphrases, |bytes, passphrases| {
            Declassified(passphrases.0.write_all(bytes))
        });
        written.0.expect("it is read");
        as_passphrase(SecretBytes::copy_of(&passphrase).expect("locked memory"))
    };
    let last = searching.last.0;
    let outcome = use_keys(&seed, &mut passphrase, &mut searching);
    assert!(matches!(outcome, Err(CheckError::Unexpected(name)) if name == last), "{outcome:?}");
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

    /// What lies in the memory of the other process.
    fn findings(&self, needles: &[Needle]) -> Result<Vec<Finding>, ScanError> {
        let mut findings = scan_other(self.searched.id(), needles)?.findings;
        if !self.passphrase.is_empty() {
            findings.extend(scan_other(self.searched.id(), &self.passphrase)?.findings);
        }
        Ok(findings)
    }

    /// Nothing of the other process lies outside of its locked memory; how much is in there.
    fn look(&mut self, needles: &[Needle]) -> usize {
        let findings = match self.findings(needles) {
            Ok(findings) => findings,
            Err(error) => {
                godwit_testdata::skip(&format!("{UNREADABLE}: {error}"));
                exit(0);
            }
        };
        let plain: Vec<_> = findings.iter().filter(|found| !found.protected).collect();
        assert!(plain.is_empty(), "{plain:?}");
        findings.len()
    }

    /// Ends the other process with a core dump, in which there is nothing at all.
    fn look_into_core_dump(&mut self, needles: &[Needle]) {
        let marker = std::slice::from_ref(&self.marker);
        let seen = scan_other(self.searched.id(), marker).expect("it is our child").findings;
        assert!(!seen.is_empty(), "the search is blind");
        self.input.write_all(&ABORT).expect("it is read");
        let status = self.searched.wait().expect("it is our child");
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
        let Some(core) = core_dump().filter(|_| status.core_dumped()) else {
            godwit_testdata::skip(
                "the system writes no core dumps into the directory of the process",
            );
            return;
        };
        let seen = scan_file(&core, marker).expect("a file is read").findings;
        assert!(!seen.is_empty(), "the search is blind");
        for needles in [needles, &self.passphrase] {
            let found = scan_file(&core, needles).expect("a file is read").findings;
            assert_eq!(found, []);
        }
    }
}

impl Observer for Searching {
    fn unlocked(&mut self, name: &'static str, needles: &[Needle]) -> Result<(), CheckError> {
        self.wait_for("unlocked", name);
        let found = self.look(needles);
        assert!(found > 0 || name != self.last.0, "what is in use lies somewhere");
        if self.last == (name, 0) {
            self.look_into_core_dump(needles);
            return Err(CheckError::Unexpected(name));
        }
        self.input.write_all(&GO_ON)?;
        Ok(())
    }

    fn locked(&mut self, name: &'static str, needles: Vec<Needle>) -> Result<(), CheckError> {
        self.wait_for("locked", name);
        assert_eq!(self.findings(&needles)?, [], "{name}");
        if self.last.0 == name {
            self.last.1 -= 1;
        }
        self.input.write_all(&GO_ON)?;
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

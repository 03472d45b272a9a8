//! The shipped program's own commands, from outside, held up while keys are unlocked.
//!
//! A command is held up by what it waits for: the next line of its input, or room in a full pipe. Its
//! process is not dumpable, so that only a privileged test can look.

use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use bitcoin::bip32::{DerivationPath, Xpriv, Xpub};
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::transaction::Version;
use bitcoin::{
    Amount, NetworkKind, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid, Witness,
    absolute,
};
use godwit_keys::{ExtendedPrivateKey, Mnemonic, StoredKey};
use godwit_secret::residue::{Finding, Needle, scan_other};
use godwit_secret::{Declassified, SecretArray, SecretBytes};
use godwit_sim::programs::wait_until;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::{Place, UNREADABLE, needle_of, text};

/// Where the invented key signs.
const PATH: &str = "84h/1h/0h/0/0";

/// An invented extended key in a key file of its own.
struct Keys {
    place: Place,
    passphrase: String,
    root: ExtendedPrivateKey,
    /// The root as text.
    tprv: String,
    /// Of the entry.
    id: String,
}

impl Keys {
    fn new() -> Self {
        let place = Place::new();
        let passphrase = random_text();
        let seed = SecretBytes::random(32).expect("locked memory");
        let root = ExtendedPrivateKey::from_seed(&seed, NetworkKind::Test).expect("a valid key");
        let key = root.try_clone().expect("locked memory");
        let tprv = piped(|pipe| {
            let key = StoredKey::Extended { key, origin: None };
            key.write_secret_to(NetworkKind::Test, pipe.as_fd()).expect("a pipe takes it");
        });
        let words = ["keys", "import", "-passphrase-fd=0", "-secret-fd=0"];
        let imported = place.run("", &words, &format!("{passphrase}\n{tprv}\n"));
        assert!(imported.status.success(), "{}", text(&imported.stderr));
        let entry: serde_json::Value = serde_json::from_slice(&imported.stdout).expect("JSON");
        let id = entry["id"].as_str().expect("an entry has one").to_owned();
        Self { place, passphrase, root, tprv, id }
    }

    /// A command that reads the passphrase from its standard input.
    fn command(&self, words: &[&str]) -> Command {
        let mut command = self.place.command("", words);
        command.arg("-passphrase-fd=0");
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// What no plain memory may hold while the key file is open.
    fn needles(&self) -> Vec<Needle> {
        let path: DerivationPath = PATH.parse().expect("a path");
        let steps: &[_] = path.as_ref();
        let mut needles = vec![needle_of(&self.passphrase), needle_of(&self.tprv)];
        needles.extend((0..=steps.len()).map(|end| {
            let key = self.root.derive(&steps[..end]).expect("a valid key");
            key.needle(&format!("key at depth {end}")).expect("locked memory")
        }));
        needles
    }
}

fn random_text() -> String {
    let bytes = SecretArray::<16>::random().expect("locked memory");
    bytes.expose_secret(|bytes| Declassified(hex::encode(bytes))).0
}

/// What `write` writes to a pipe, without the end of the line; it must fit the pipe.
fn piped(write: impl FnOnce(&PipeWriter)) -> String {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    write(&writer);
    drop(writer);
    let mut line = String::new();
    reader.read_to_string(&mut line).expect("text");
    line.trim_end().to_owned()
}

/// A pipe full of empty lines: who writes more of them waits.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().expect("a pipe");
    let flags = fcntl_getfl(&writer).expect("a pipe");
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).expect("a pipe");
    loop {
        match writer.write(&[b'\n'; 4096]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => panic!("{error}"),
        }
    }
    fcntl_setfl(&writer, flags).expect("a pipe");
    (reader, writer)
}

/// A command that is held up.
struct Held(Child);

impl Held {
    /// With these lines on its standard input, which stays open.
    fn start(mut command: Command, lines: &[&str]) -> Self {
        let mut child = command.spawn().expect("the program starts");
        let stdin = child.stdin.as_mut().expect("a pipe");
        for line in lines {
            writeln!(stdin, "{line}").expect("the pipe has room");
        }
        Self(child)
    }

    fn search(&self, needles: &[Needle]) -> Option<Vec<Finding>> {
        match scan_other(self.0.id(), needles) {
            Ok(report) => Some(report.findings),
            Err(error) => {
                godwit_testdata::skip(&format!("{UNREADABLE}: {error}"));
                None
            }
        }
    }

    /// Waits until `names` are in locked memory. Nothing of `needles` is elsewhere then. `None`: the
    /// process cannot be searched.
    fn unlocks(&self, names: &[&str], needles: &[Needle]) -> Option<()> {
        let mut readable = true;
        wait_until("keys are unlocked", || {
            let findings = self.search(needles);
            readable = findings.is_some();
            let has = |name: &&str| {
                findings.iter().flatten().any(|found| found.protected && found.needle == **name)
            };
            !readable || names.iter().all(has)
        });
        // Once more: before, it was on its way.
        let findings = readable.then(|| self.search(needles)).flatten()?;
        assert!(findings.iter().all(|found| found.protected), "{findings:?}");
        assert!(!findings.is_empty(), "it is not held up");
        Some(())
    }

    fn succeeds(mut self) {
        drop(self.0.stdin.take());
        assert!(self.0.wait().expect("a child can be waited for").success());
    }
}

/// A test that fails or skips leaves no process behind.
impl Drop for Held {
    fn drop(&mut self) {
        if self.0.try_wait().expect("a child can be waited for").is_none() {
            self.0.kill().expect("it is this process's child");
            self.0.wait().expect("a child can be waited for");
        }
    }
}

#[test]
fn an_import_that_waits_for_its_next_line_has_keys_in_locked_memory_alone() {
    let keys = Keys::new();
    let mnemonic = Mnemonic::generate(12).expect("locked memory");
    let words = piped(|pipe| mnemonic.write_secret_to(pipe.as_fd()).expect("a pipe takes it"));
    let mut needles = keys.needles();
    needles.extend(mnemonic.needles("new").expect("locked memory"));
    let command = keys.command(&["keys", "import", "-secret-fd=0", "-bip39passphrase-fd=0"]);
    let mut held = Held::start(command, &[&keys.passphrase, &words]);
    let Some(()) = held.unlocks(&["key at depth 0", "new: words"], &needles) else { return };
    writeln!(held.0.stdin.as_mut().expect("a pipe"), "{}", random_text()).expect("it reads");
    held.succeeds();
}

#[test]
fn a_change_of_passphrase_that_waits_for_the_new_one_has_keys_in_locked_memory_alone() {
    let keys = Keys::new();
    let command = keys.command(&["keys", "change-passphrase", "-newpassphrase-fd=0"]);
    let mut held = Held::start(command, &[&keys.passphrase]);
    let Some(()) = held.unlocks(&["key at depth 0"], &keys.needles()) else { return };
    writeln!(held.0.stdin.as_mut().expect("a pipe"), "{}", random_text()).expect("it reads");
    held.succeeds();
}

#[test]
fn an_export_to_a_full_pipe_has_keys_in_locked_memory_alone() {
    let keys = Keys::new();
    let (mut reader, writer) = full_pipe();
    let mut command = keys.command(&["keys", "export", &keys.id]);
    command.stdout(writer);
    let held = Held::start(command, &[&keys.passphrase]);
    let Some(()) = held.unlocks(&["key at depth 0"], &keys.needles()) else { return };
    let mut exported = String::new();
    reader.read_to_string(&mut exported).expect("text");
    assert_eq!(exported.trim(), keys.tprv);
    held.succeeds();
}

/// Held up twice: when it has shown what it is about to sign, and when it writes the signed PSBT, for
/// which it needs no keys any more.
#[test]
fn psbt_sign_has_keys_in_locked_memory_alone_and_none_when_it_has_signed() {
    let keys = Keys::new();
    let psbt = keys.place.path("unsigned.psbt");
    fs::write(&psbt, unsigned(&keys.tprv).serialize()).expect("there is room");
    fs::set_permissions(&psbt, Permissions::from_mode(0o644)).expect("it is ours");
    let (shown, stderr) = full_pipe();
    let (mut signed, stdout) = full_pipe();
    let psbt = psbt.to_str().expect("a path");
    let file = format!("-keys={}", keys.place.path("datadir/regtest/keys.godwit").display());
    let words = ["psbt", "inspect", psbt, &file, "-passphrase-fd=0"];
    let seen = text(&keys.place.run("", &words, &format!("{}\n", keys.passphrase)).stdout);
    let yes = format!("-yes={}", seen.trim_end().rsplit_once("-yes=").expect("a token").1);
    let mut command = keys.command(&["psbt", "sign", psbt, &yes]);
    command.stdout(stdout).stderr(stderr);
    let held = Held::start(command, &[&keys.passphrase]);
    let needles = keys.needles();
    let Some(()) = held.unlocks(&["key at depth 0"], &needles) else { return };

    let mut shown = BufReader::new(shown).lines().map(|line| line.expect("text"));
    assert!(shown.any(|line| line.starts_with("signed input 0 with ")), "it ends");
    assert_eq!(held.search(&needles).expect("as before"), []);
    let mut psbt = String::new();
    signed.read_to_string(&mut psbt).expect("text");
    assert!(psbt.trim().starts_with("cHNidP8B"), "{psbt}");
    assert_eq!(shown.next(), None);
    held.succeeds();
}

/// Spends a coin of the key at [`PATH`] below `tprv`.
fn unsigned(tprv: &str) -> bitcoin::Psbt {
    let secp = Secp256k1::new();
    let root: Xpriv = tprv.parse().expect("a valid key");
    let path: DerivationPath = PATH.parse().expect("a path");
    let key = root.derive_priv(&secp, &path).expect("it has one").to_priv().public_key(&secp);
    let script = ScriptBuf::new_p2wpkh(&key.wpubkey_hash().expect("it is compressed"));
    let coin = |value| TxOut { value: Amount::from_sat(value), script_pubkey: script.clone() };
    let input = TxIn {
        previous_output: OutPoint { txid: Txid::from_byte_array([1; 32]), vout: 0 },
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let transaction = Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![input],
        output: vec![coin(10_000_000 - 1_000)],
    };
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(transaction).expect("it is unsigned");
    psbt.inputs[0].witness_utxo = Some(coin(10_000_000));
    let source = (Xpub::from_priv(&secp, &root).fingerprint(), path);
    psbt.inputs[0].bip32_derivation.insert(key.inner, source);
    psbt
}

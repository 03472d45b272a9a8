//! `godwit-signer psbt` as a user runs it, on the PSBTs of Bitcoin Core's wallets.

mod made_here;
mod ours;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use bitcoin::NetworkKind;
use data_encoding::BASE64;
use godwit_keys::{Entry, EntryDescriptor, KdfParameters, KeyStore, split_private_descriptor};
use godwit_program::Exit;
use godwit_secret::SecretString;
use godwit_sim::programs::{Datadir, Ended};
use serde_json::Value;

use crate::signer;

fn wallets() -> Option<Value> {
    let bytes = godwit_testdata::shared_file("wallets/wallets.json")?;
    Some(serde_json::from_slice(&bytes).expect("the file is JSON"))
}

fn core_signed(wallets: &Value, wallet: &str, index: usize) -> (String, String) {
    let psbt = &wallets["wallets"][wallet]["psbts"][index];
    let text = |name: &str| psbt[name].as_str().expect("text").to_owned();
    (text("core_signed"), text("core_final_hex"))
}

/// A PSBT in a file.
fn file(place: &Datadir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = place.beside(name);
    fs::write(&path, content).expect("a file");
    path
}

fn psbt(place: &Datadir, action: &str, path: &Path) -> Ended {
    place.run(&[&"psbt", &action, &path])
}

/// A PSBT of version 0 that nobody has signed; BIP174's own.
const UNSIGNED: &str = "cHNidP8BAJoCAAAAAljoeiG1ba8MI76OcHBFbDNvfLqlyHV5JPVFiHuyq911AAAAAAD/////\
    g40EJ9DsZQpoqka7CwmK6kQiwHGyyng1Kgd5WdB86h0BAAAAAP////8CcKrwCAAAAAAWABTYXCtx0AYLCcmIauuBXlCZHdoSTQDh\
    9QUAAAAAFgAUAK6pouXw+HaliN9VRuh0LR2HAI8AAAAAAAAAAAA=";

#[test]
fn inspect_tells_what_is_known_and_what_is_not() {
    let place = signer("regtest");
    let path = file(&place, "unsigned.psbt", UNSIGNED.replace(' ', ""));
    let shown = psbt(&place, "inspect", &path).expect(Exit::Success).stdout;
    for part in [
        "PSBT version 0, transaction version 2, lock time 0",
        "input 1: unknown amount",
        "  wrong: the output that it spends is missing",
        "output 0: 1.49990000 BTC to bcrt1qmpwzkuwsqc9snjvgdt4czhjsnywa5yjdqpxskv",
        "fee: the fee is not known: input 0 does not say what it spends",
    ] {
        assert!(shown.contains(part), "{part}: {shown}");
    }
    assert!(!place.datadir().exists(), "a look leaves nothing behind");
    // With a passphrase for it, the key file is the one in the data directory.
    let words: [&dyn AsRef<std::ffi::OsStr>; 4] = [&"psbt", &"inspect", &path, &"-passphrase-fd=0"];
    let missing = place.run_with_input(&words, "pass\n").expect(Exit::Failure);
    assert!(missing.stderr.contains("there is no key file"), "{missing:?}");
    let bytes = BASE64.decode(UNSIGNED.replace(' ', "").as_bytes()).expect("base64");
    let transaction = bitcoin::Psbt::deserialize(&bytes).expect("it is valid").unsigned_tx;
    for (number, sequence, said) in [
        (7, 0, "lock time 7: in no block up to that height"),
        (500_000_000, 0, "lock time 500000000: in no block up to that time, in seconds"),
        (7, u32::MAX, "lock time 7, which the sequences of all inputs switch off"),
    ] {
        let mut locked = transaction.clone();
        locked.lock_time = bitcoin::absolute::LockTime::from_consensus(number);
        locked.input.iter_mut().for_each(|input| input.sequence = bitcoin::Sequence(sequence));
        let locked = bitcoin::Psbt::from_unsigned_tx(locked).expect("it is unsigned").serialize();
        let shown = psbt(&place, "inspect", &file(&place, "locked.psbt", locked));
        let shown = shown.expect(Exit::Success).stdout;
        assert!(shown.contains(said), "{shown}");
    }
    // The same on another network.
    let shown = signer("main").run(&[&"psbt", &"inspect", &path]).expect(Exit::Success).stdout;
    assert!(shown.contains(" to bc1qmpwzkuwsqc9snjvgdt4czhjsnywa5yjdgwyw6k"), "{shown}");
}

#[test]
fn standard_input_is_a_file_too() {
    let place = signer("regtest");
    let mut command = place.command(&[&"psbt", &"inspect", &"-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(UNSIGNED.as_bytes()).expect("it reads");
    drop(stdin);
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{output:?}");
    let ended = place.run(&[&"psbt", &"combine", &"-", &"-"]).expect(Exit::Failure);
    assert_eq!(ended.stderr, "godwit-signer: standard input can be read only once\n");
}

#[test]
fn what_core_signed_is_finished_and_extracted() {
    let Some(wallets) = wallets() else { return };
    let place = signer("regtest");
    for (wallet, psbts) in [("plain", 2), ("born-encrypted", 4), ("blank-imported", 4)] {
        for index in 0..psbts {
            let (signed, transaction) = core_signed(&wallets, wallet, index);
            let path = file(&place, "signed.psbt", &signed);
            let finished = psbt(&place, "finalize", &path).expect(Exit::Success);
            assert_eq!(finished.stdout.trim_end(), reordered(&finished.stdout), "base64");
            let path = file(&place, "finished.psbt", &finished.stdout);
            let extracted = psbt(&place, "extract", &path).expect(Exit::Success);
            assert_eq!(extracted.stdout.trim_end(), transaction, "{wallet} {index}");
            let shown = psbt(&place, "inspect", &path).expect(Exit::Success).stdout;
            assert!(shown.contains("PSBT version 2"), "{shown}");
            assert!(shown.contains("  finished"), "{shown}");
        }
    }
}

/// A PSBT, and a key file beside it that can sign it.
pub(crate) fn file_to_sign(place: &Datadir) -> PathBuf {
    made_here::key_file(place, "test.keys", NetworkKind::Test);
    file_to_sign_to(place, 'F')
}

fn file_to_sign_to(place: &Datadir, letter: char) -> PathBuf {
    file(place, "a.psbt", made_here::spend(&[made_here::wpkh(letter, 0)]).serialize())
}

/// Base64 decoded and encoded once more.
fn reordered(text: &str) -> String {
    let bytes = BASE64.decode(text.trim_end().as_bytes()).expect("base64");
    BASE64.encode(&bytes)
}

#[test]
fn a_file_is_binary_private_and_never_written_over() {
    let place = signer("regtest");
    let path = file(&place, "unsigned.psbt", UNSIGNED);
    let out = place.beside("out.psbt");
    let option = format!("-out={}", out.display());
    let words: [&dyn AsRef<std::ffi::OsStr>; 5] = [&"psbt", &"combine", &path, &path, &option];
    let ended = place.run(&words).expect(Exit::Success);
    assert_eq!((ended.stdout.as_str(), ended.stderr.as_str()), ("", ""));
    let written = fs::read(&out).expect("it is there");
    assert!(written.starts_with(b"psbt\xff"));
    let mode = fs::metadata(&out).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let again = place.run(&words).expect(Exit::Failure);
    assert!(again.stderr.contains("out.psbt cannot be written: File exists"), "{again:?}");
    assert_eq!(fs::read(&out).expect("it is there"), written);
}

#[test]
fn half_a_file_is_not_left_behind() {
    let place = signer("regtest");
    let path = file(&place, "unsigned.psbt", UNSIGNED);
    let out = place.beside("out.psbt");
    let option = format!("-out={}", out.display());
    let program = place.command(&[&"psbt", &"combine", &path, &path, &option]);
    // No file may have a byte, and that is an error instead of a signal.
    let mut limited = std::process::Command::new("sh");
    limited.args(["-c", "trap '' XFSZ; ulimit -f 0; exec \"$@\"", "sh"]);
    limited.arg(program.get_program()).args(program.get_args());
    let ended = limited.output().expect("a shell");
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(stderr.contains("out.psbt cannot be written: File too large"), "{stderr}");
    assert!(!out.exists());
    place.run(&[&"psbt", &"combine", &path, &path, &option]).expect(Exit::Success);
    assert!(out.exists());
}

#[test]
fn what_is_not_finished_is_named() {
    let place = signer("regtest");
    let path = file(&place, "unsigned.psbt", UNSIGNED);
    let ended = psbt(&place, "extract", &path).expect(Exit::Failure);
    assert_eq!(ended.stderr, "godwit-signer: input 0 is not finished\n");
    let ended = psbt(&place, "finalize", &path).expect(Exit::InputRefused);
    let why = "the output that it spends is missing";
    assert!(ended.stderr.contains(&format!("input 1 is not finished: {why}")), "{ended:?}");
    assert!(ended.stdout.starts_with("cHNidP8"));
}

#[test]
fn one_line_for_what_cannot_be_read() {
    let place = signer("regtest");
    for (content, message) in [
        (&b""[..], "this is not a PSBT, neither in base64 nor in binary form"),
        (b"cHNidP8BAHEC!", "the base64 is wrong at character 13"),
        (b"psbt\xff\0", "the global map: type 0x00 is missing"),
        (b"psbt\xff\x01", "the global map: unexpected end of data"),
    ] {
        let path = file(&place, "bad.psbt", content);
        let ended = psbt(&place, "inspect", &path).expect(Exit::Failure);
        assert_eq!(ended.stderr, format!("godwit-signer: {}: {message}\n", path.display()));
    }
    let missing = place.beside("missing.psbt");
    let ended = psbt(&place, "inspect", &missing).expect(Exit::Failure);
    assert!(ended.stderr.contains("missing.psbt cannot be read: No such file"), "{ended:?}");
    let ended = place.run(&[&"psbt", &"inspect"]).expect(Exit::Configuration);
    assert!(ended.stderr.contains("psbt inspect [options] FILE"), "{ended:?}");
    let ended = place.run(&[&"psbt", &"inspect", &missing, &"-maxfee=1"]);
    assert!(ended.expect(Exit::Configuration).stderr.contains("-maxfee"));
}

#[test]
fn a_high_fee_is_not_extracted() {
    let Some(wallets) = wallets() else { return };
    let place = signer("regtest");
    let (signed, transaction) = core_signed(&wallets, "born-encrypted", 2);
    let path = file(&place, "signed.psbt", &signed);
    let shown = psbt(&place, "inspect", &path).expect(Exit::Success).stdout;
    let fee = shown.lines().find(|line| line.starts_with("fee: 0.")).expect("it has one");
    let fee: u64 = fee[7..15].parse().expect("eight places of a bitcoin");
    let extract =
        |limit: u64| place.run(&[&"psbt", &"extract", &path, &format!("-maxfee={limit}")]);
    assert_eq!(extract(fee).expect(Exit::Success).stdout.trim_end(), transaction);
    let refused = extract(fee - 1).expect(Exit::Failure);
    assert!(refused.stderr.contains("above the limit"), "{refused:?}");
    assert!(refused.stderr.ends_with("; see -maxfee\n"), "{refused:?}");
}

#[test]
fn an_invalid_final_script_is_found_by_cores_engine() {
    let Some(wallets) = wallets() else { return };
    let place = signer("regtest");
    let (signed, _) = core_signed(&wallets, "born-encrypted", 2);
    let mut bytes = BASE64.decode(signed.as_bytes()).expect("base64");
    // The last byte of the witness's signature is its type; the one before belongs to S.
    let der = bytes.windows(4).rposition(|four| four[0] == 0x30 && four[2..] == [0x02, 0x20]);
    let at = der.expect("there is a signature");
    bytes[at + 10] ^= 1;
    let path = file(&place, "damaged.psbt", &bytes);
    let refused = psbt(&place, "extract", &path).expect(Exit::Failure);
    assert!(refused.stderr.contains("a finished input is invalid"), "{refused:?}");
}

#[test]
fn nothing_of_a_psbt_is_logged() {
    let place = signer("regtest");
    let path = file(&place, "unsigned.psbt", UNSIGNED);
    psbt(&place, "inspect", &path).expect(Exit::Success);
    assert!(!place.datadir().exists(), "there is no log");
}

const PASSPHRASE: &str = "a passphrase of this test";

pub(crate) fn secret(text: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut text.to_owned()).expect("locked memory")
}

/// The passphrase of every key file here.
pub(crate) fn passphrase() -> SecretString {
    secret(PASSPHRASE)
}

/// The least work for a passphrase that there may be.
pub(crate) fn weak_kdf() -> KdfParameters {
    KdfParameters::new(KdfParameters::MIN_KIB_PER_LANE, 1, 1).expect("it is in range")
}

/// A key file with the keys of a wallet.
fn key_file(place: &Datadir, wallet: &Value) -> PathBuf {
    let path = place.beside("test.keys");
    let mut store = KeyStore::create(&path, &passphrase(), weak_kdf()).expect("a new file");
    for text in wallet["descriptors_private"].as_array().expect("a list") {
        let text = secret(text.as_str().expect("text"));
        let split = split_private_descriptor((&text).into(), NetworkKind::Test);
        let split = split.expect("a valid descriptor");
        let entry = Entry {
            label: String::new(),
            created: 0,
            network: NetworkKind::Test,
            descriptors: split
                .descriptors
                .iter()
                .map(|descriptor| EntryDescriptor::new(descriptor.text.clone()))
                .collect(),
            keys: split.keys,
            words: None,
        };
        store.insert(entry).expect("it is new");
    }
    path
}

/// A command with the key file, the passphrase on standard input.
fn with_keys(place: &Datadir, action: &str, keys: &Path, psbt: &Path, options: &[&str]) -> Ended {
    let option = format!("-keys={}", keys.display());
    let mut command = place.command(&[&"psbt", &action, &psbt, &option, &"-passphrase-fd=0"]);
    command.args(options);
    Ended::with_input(command, &format!("{PASSPHRASE}\n"))
}

/// What `psbt inspect -keys` shows, and its token.
fn inspect(place: &Datadir, keys: &Path, psbt: &Path) -> (String, String) {
    let shown = with_keys(place, "inspect", keys, psbt, &[]).expect(Exit::Success).stdout;
    let token = shown.trim_end().rsplit_once("-yes=").expect("the last line has it").1;
    (shown.clone(), token.to_owned())
}

/// `psbt sign` after a look at what is signed.
pub(crate) fn sign(place: &Datadir, keys: &Path, psbt: &Path, options: &[&str]) -> Ended {
    let (_, token) = inspect(place, keys, psbt);
    let yes = format!("-yes={token}");
    with_keys(place, "sign", keys, psbt, &[&[yes.as_str()], options].concat())
}

#[test]
fn nothing_is_signed_without_a_look() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let sign = |path: &Path, options: &[&str]| {
        // Without a terminal of its own.
        let option = format!("-keys={}", keys.display());
        let program = place.command(&[
            &"psbt",
            &"sign",
            &path,
            &option,
            &"-passphrase-fd=0",
            &"-unprovenamounts",
        ]);
        let mut command = std::process::Command::new("setsid");
        command.arg("--wait").arg(program.get_program()).args(program.get_args()).args(options);
        Ended::with_input(command, &format!("{PASSPHRASE}\n"))
    };
    let psbt_to = |letter| made_here::spend(&[made_here::wpkh(letter, 0)]).serialize();
    let path = file(&place, "a.psbt", psbt_to('F'));
    let refused = sign(&path, &[]).expect(Exit::Failure);
    assert!(refused.stderr.contains("there is no terminal to ask at"), "{refused:?}");
    assert_eq!(refused.stdout, "");
    let (shown, token) = inspect(&place, &keys, &path);
    for wrong in ["", &token[1..], &token.to_uppercase(), &"0".repeat(64)] {
        let refused = sign(&path, &[&format!("-yes={wrong}")]).expect(Exit::Failure);
        assert!(
            refused.stderr.contains("-yes is not the token of this PSBT"),
            "{wrong}: {refused:?}"
        );
        assert_eq!(refused.stdout, "");
    }
    // It is that of another PSBT.
    let other = file(&place, "b.psbt", psbt_to('B'));
    let refused = sign(&other, &[&format!("-yes={token}")]).expect(Exit::Failure);
    assert!(refused.stderr.contains("-yes is not the token"), "{refused:?}");
    let signed = sign(&path, &[&format!("-yes={token}")]).expect(Exit::Success);
    let (review, _) = shown.trim_end().rsplit_once('\n').expect("the token has its line");
    assert!(signed.stderr.contains(review), "what was shown: {signed:?}");
}

#[test]
fn the_wallets_psbts_become_cores_transactions() {
    let Some(wallets) = wallets() else { return };
    for name in ["plain", "blank-imported"] {
        let wallet = &wallets["wallets"][name];
        let place = signer("regtest");
        let keys = key_file(&place, wallet);
        for psbt_of_wallet in wallet["psbts"].as_array().expect("a list") {
            let unsigned = psbt_of_wallet["unsigned"].as_str().expect("text");
            let signed = sign(&place, &keys, &file(&place, "a.psbt", unsigned), &[]);
            let signed = signed.expect(Exit::Success);
            for part in ["signed input 0 with [", "fee: 0.0000", " sat/vB at ", ", ours\n"] {
                assert!(signed.stderr.contains(part), "{part}: {signed:?}");
            }
            let path = file(&place, "b.psbt", &signed.stdout);
            let finished = psbt(&place, "finalize", &path).expect(Exit::Success);
            let path = file(&place, "c.psbt", &finished.stdout);
            let extracted = psbt(&place, "extract", &path).expect(Exit::Success);
            assert_eq!(extracted.stdout.trim_end(), psbt_of_wallet["core_final_hex"]);
        }
    }
}

#[test]
fn what_is_refused_leaves_no_signature_behind() {
    let Some(wallets) = wallets() else { return };
    let (ours, theirs) = (&wallets["wallets"]["plain"], &wallets["wallets"]["born-encrypted"]);
    let place = signer("regtest");
    let keys = key_file(&place, ours);
    let foreign = theirs["psbts"][2]["unsigned"].as_str().expect("text");
    let foreign = file(&place, "foreign.psbt", foreign);
    let refused = sign(&place, &keys, &foreign, &[]).expect(Exit::Failure);
    let line = "godwit-signer: not signed: input 0: none of its keys is ours; -foreigninputs signs the others\n";
    assert!(refused.stderr.ends_with(line), "{refused:?}");
    assert_eq!(refused.stdout, "");
    let refused = sign(&place, &keys, &foreign, &["-foreigninputs"]).expect(Exit::Failure);
    assert!(refused.stderr.ends_with("not signed: none of the keys is ours\n"), "{refused:?}");

    let unsigned = file(&place, "a.psbt", ours["psbts"][0]["unsigned"].as_str().expect("text"));
    let out = place.beside("out.psbt");
    let out_option = format!("-out={}", out.display());
    let refused = sign(&place, &keys, &unsigned, &["-maxfeerate=0", &out_option]);
    let refused = refused.expect(Exit::Failure);
    assert!(refused.stderr.ends_with("; see -maxfeerate\n"), "{refused:?}");
    assert!(!out.exists());
    sign(&place, &keys, &unsigned, &[&out_option]).expect(Exit::Success);
    assert!(out.exists());
}

#[test]
fn a_key_file_that_does_not_open_signs_nothing() {
    let Some(wallets) = wallets() else { return };
    let wallet = &wallets["wallets"]["plain"];
    let place = signer("regtest");
    let unsigned = file(&place, "a.psbt", wallet["psbts"][0]["unsigned"].as_str().expect("text"));
    let nowhere = place.beside("missing.keys");
    let missing = with_keys(&place, "sign", &nowhere, &unsigned, &[]).expect(Exit::Failure);
    assert!(missing.stderr.contains("there is no key file"), "{missing:?}");
    let keys = key_file(&place, wallet);
    let option = format!("-keys={}", keys.display());
    let ended = place.run(&[&"psbt", &"sign", &unsigned, &option, &"-passphrase-fd=77"]);
    let ended = ended.expect(Exit::Configuration);
    assert!(ended.stderr.contains("file descriptor 77 cannot be used"), "{ended:?}");
    let mut command = place.command(&[&"psbt", &"sign", &unsigned, &option, &"-passphrase-fd=0"]);
    command.stdin(std::fs::File::open(&unsigned).expect("it is there"));
    let output = command.output().expect("the program starts");
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
}

#[test]
fn a_limit_of_the_fee_leaves_that_of_its_share() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let mut unsigned = made_here::spend(&[made_here::wpkh('F', 0)]);
    unsigned.unsigned_tx.output[0].value = bitcoin::Amount::from_sat(14_000_000);
    let path = file(&place, "a.psbt", unsigned.serialize());
    let generous = ["-unprovenamounts", "-maxfee=10000000", "-maxfeerate=1000000"];
    let refused = sign(&place, &keys, &path, &generous).expect(Exit::Failure);
    let line = "is more than 25 % of what is paid, 0.20000000 BTC; see -maxfeeshare\n";
    assert!(refused.stderr.ends_with(line), "{refused:?}");
    for (share, signed) in [("29", false), ("30", true), ("100", true)] {
        let share = format!("-maxfeeshare={share}");
        let ended = sign(&place, &keys, &path, &[&generous[..], &[&share]].concat());
        assert_eq!(ended.stderr.contains("signed input 0"), signed, "{ended:?}");
    }
}

#[test]
fn a_file_that_is_there_is_told_before_a_passphrase_is_asked_for() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let path = file_to_sign_to(&place, 'F');
    let out = file(&place, "out.psbt", "kept");
    let (keys, out_option) =
        (format!("-keys={}", keys.display()), format!("-out={}", out.display()));
    let words: [&dyn AsRef<std::ffi::OsStr>; 6] =
        [&"psbt", &"sign", &path, &keys, &out_option, &"-passphrase-fd=0"];
    let refused = place.run_with_input(&words, "wrong\n").expect(Exit::Failure);
    assert!(refused.stderr.contains("out.psbt cannot be written: File exists"), "{refused:?}");
    assert_eq!(fs::read(&out).expect("it is there"), b"kept");
}

#[test]
fn unproven_amounts_are_signed_on_request_alone() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let unsigned = made_here::spend(&[made_here::wpkh('F', 0)]).serialize();
    let path = file(&place, "a.psbt", unsigned);
    let refused = sign(&place, &keys, &path, &[]).expect(Exit::Failure);
    assert!(refused.stderr.ends_with("(-unprovenamounts signs without)\n"), "{refused:?}");
    assert_eq!(refused.stdout, "");
    sign(&place, &keys, &path, &["-unprovenamounts"]).expect(Exit::Success);
}

#[test]
fn a_signature_that_leaves_more_open_than_was_asked_for_is_finished_on_request_alone() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let mut unsigned = made_here::spend(&[made_here::wpkh('F', 0), made_here::wpkh('F', 1)]);
    for (asked, refused) in [(0x01, false), (0x02, true), (0x83, true)] {
        unsigned.inputs[1].sighash_type = Some(bitcoin::psbt::PsbtSighashType::from_u32(asked));
        let path = file(&place, "a.psbt", unsigned.serialize());
        let signed = sign(&place, &keys, &path, &["-unprovenamounts", "-anysighash"]);
        let signed = signed.expect(Exit::Success).stdout;
        // As it was asked for.
        psbt(&place, "finalize", &file(&place, "b.psbt", &signed)).expect(Exit::Success);
        let bytes = BASE64.decode(signed.trim().as_bytes()).expect("base64");
        let mut silent = bitcoin::Psbt::deserialize(&bytes).expect("it is valid");
        silent.inputs[1].sighash_type = None;
        let path = file(&place, "c.psbt", silent.serialize());
        if refused {
            let told = psbt(&place, "finalize", &path).expect(Exit::Failure);
            assert!(
                told.stderr.contains("not finished: a signature of input 1 leaves"),
                "{told:?}"
            );
            assert_eq!(told.stdout, "");
        } else {
            psbt(&place, "finalize", &path).expect(Exit::Success);
        }
        place.run(&[&"psbt", &"finalize", &path, &"-anysighash"]).expect(Exit::Success);
    }
}

#[test]
fn a_key_that_only_has_our_fingerprint_is_named() {
    let place = signer("regtest");
    let keys = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    let warning = "has the fingerprint of a key of ours, but does not come from it";
    for (letter, warned) in [('A', false), ('F', true)] {
        let mut unsigned = made_here::spend(&[made_here::wpkh(letter, 5)]);
        let key = made_here::public_key(letter, 5).inner;
        unsigned.outputs[0].bip32_derivation.insert(key, made_here::source(5));
        let path = file(&place, "a.psbt", unsigned.serialize());
        let ended = sign(&place, &keys, &path, &["-unprovenamounts"]);
        if warned {
            ended.expect(Exit::Failure);
        } else {
            ended.expect(Exit::Success);
        }
        let named = ours::permitted(&made_here::wpkh(letter, 5));
        let options = ["-unprovenamounts", &named];
        let signed = sign(&place, &keys, &path, &options).expect(Exit::Success);
        assert_eq!(signed.stderr.contains(warning), warned, "{signed:?}");
    }
}

#[test]
fn keys_of_another_network_do_not_sign() {
    let place = signer("regtest");
    let unsigned = made_here::spend(&[made_here::wpkh('F', 0)]).serialize();
    let path = file(&place, "a.psbt", unsigned);
    let main = made_here::key_file(&place, "main.keys", NetworkKind::Main);
    let refused = sign(&place, &main, &path, &["-unprovenamounts"]).expect(Exit::Failure);
    assert!(refused.stderr.contains("input 0: none of its keys is ours"), "{refused:?}");
    let test = made_here::key_file(&place, "test.keys", NetworkKind::Test);
    sign(&place, &test, &path, &["-unprovenamounts"]).expect(Exit::Success);
}

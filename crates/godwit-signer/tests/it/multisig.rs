//! Multisig: two signers with a key each, and a third whose key alone is known.

use std::fs;
use std::path::{Path, PathBuf};

use bitcoin::bip32::{DerivationPath, KeySource, Xpub};
use bitcoin::hashes::Hash;
use bitcoin::secp256k1::Secp256k1;
use bitcoin::transaction::Version;
use bitcoin::{
    Address, Amount, Network, OutPoint, ScriptBuf, Sequence, Transaction, TxIn, TxOut, Txid,
    Witness, absolute,
};
use godwit_program::Exit;
use godwit_sim::programs::{Datadir, Ended};
use serde_json::Value;

use crate::{CHEAP, signer, signer_with_cheap_file};

/// Twelve words of BIP39's vectors.
pub(crate) const WORDS: [&str; 2] = [
    "abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon abandon about",
    "legal winner thank year wave sausage worth useful legal winner thank yellow",
];
/// Of BIP32's first vector, for test networks.
pub(crate) const THIRD: &str = "[3442193e/48h/1h/0h/2h]tpubDDqLGzS9Tnc6E5QTGDFgDJnUqbRUhkT6fajttjAUtDoNpCZf4FAUNfyAdM7ocFeWhK\
                     P5cBV6BvxD2B4U9oj9YP13egUWCPb4Lv9LkejiA85";

pub(crate) fn keys(place: &Datadir, words: &[&str], lines: &[&str]) -> Ended {
    let all = [&["keys"], words, &["-passphrase-fd=0"]].concat();
    let all: Vec<&dyn AsRef<std::ffi::OsStr>> = all.iter().map(|word| word as _).collect();
    place.run_with_input(&all, &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

pub(crate) fn psbt(place: &Datadir, action: &str, files: &[&Path], options: &[&str]) -> Ended {
    let mut all: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"psbt", &action];
    all.extend(files.iter().map(|file| file as &dyn AsRef<std::ffi::OsStr>));
    all.extend(options.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
    place.run_with_input(&all, "pass\n")
}

/// A signer with these words, and its key for cosigners.
pub(crate) fn with_words(words: &str) -> (Datadir, String) {
    let place = signer_with_cheap_file("regtest", "pass");
    let entry = keys(&place, &["import", "-secret-fd=0"], &["pass", words]);
    let id = entry.expect(Exit::Success).json()["id"].as_str().expect("an ID").to_owned();
    let accounts = keys(&place, &["xpub", &id], &["pass"]).expect(Exit::Success).json();
    assert_eq!(accounts[4]["script"], "wsh");
    (place, accounts[4]["key"].as_str().expect("text").to_owned())
}

fn watch(place: &Datadir, file: &Path, yes: &str) -> Ended {
    let yes = format!("-yes={yes}");
    keys(place, &["watch", file.to_str().expect("a path"), "-label=shared", &yes], &["pass"])
}

/// Shows what is to be watched, and watches it.
pub(crate) fn watched(place: &Datadir, file: &Path) -> Value {
    let refused = watch(place, file, "none").expect(Exit::Failure);
    assert!(
        refused.stderr.ends_with("nothing was changed: -yes names something else\n"),
        "{refused:?}"
    );
    let stderr = refused.stderr.strip_prefix(CHEAP).unwrap_or(&refused.stderr);
    let end = stderr.rfind('}').expect("JSON is shown");
    let shown: Value = serde_json::from_str(&stderr[..=end]).expect("JSON");
    let id = shown["id"].as_str().expect("an ID");
    watch(place, file, id).expect(Exit::Failure);
    let token = stderr[end..].split("-yes=").nth(1).expect("a token");
    let token = token.lines().next().expect("a line");
    // It is of the label too.
    let other = format!("-yes={token}");
    let other = ["watch", file.to_str().expect("a path"), "-label=another", &other];
    keys(place, &other, &["pass"]).expect(Exit::Failure);
    let entry = watch(place, file, token).expect(Exit::Success).json();
    assert_eq!(entry["descriptors"], shown["descriptors"]);
    shown
}

fn parsed(key: &str) -> (KeySource, Xpub) {
    let (origin, key) = key[1..].split_once(']').expect("an origin");
    let (fingerprint, path) = origin.split_once('/').expect("a path");
    let source = (fingerprint.parse().expect("digits"), path.parse().expect("a path"));
    (source, key.parse().expect("an xpub"))
}

/// Two of these keys at a place below their accounts: the script, and where each key comes from.
fn two_of(
    keys: &[&str],
    branch: u32,
    index: u32,
) -> (ScriptBuf, Vec<(bitcoin::PublicKey, KeySource)>) {
    let curve = Secp256k1::verification_only();
    let below: DerivationPath = format!("m/{branch}/{index}").parse().expect("a path");
    let mut derived: Vec<_> = keys
        .iter()
        .map(|key| {
            let ((fingerprint, path), xpub) = parsed(key);
            let public = xpub.derive_pub(&curve, &below).expect("it has one").public_key;
            (bitcoin::PublicKey::new(public), (fingerprint, path.extend(&below)))
        })
        .collect();
    derived.sort_by_key(|(key, _)| key.to_bytes());
    let mut script = bitcoin::script::Builder::new().push_int(2);
    for (key, _) in &derived {
        script = script.push_key(key);
    }
    let script = script.push_int(keys.len() as i64);
    (script.push_opcode(bitcoin::opcodes::all::OP_CHECKMULTISIG).into_script(), derived)
}

/// Spends a coin of the account at `0/3`, pays half of it and gets the rest at `1/7` back.
fn payment(keys: &[&str]) -> bitcoin::Psbt {
    let ((spent, spent_keys), (change, change_keys)) = (two_of(keys, 0, 3), two_of(keys, 1, 7));
    let coin = TxOut { value: Amount::from_sat(100_000), script_pubkey: spent.to_p2wsh() };
    let input = |previous_output| TxIn {
        previous_output,
        script_sig: ScriptBuf::new(),
        sequence: Sequence::MAX,
        witness: Witness::new(),
    };
    let transaction = |input, output| Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![input],
        output,
    };
    let funding =
        transaction(input(OutPoint { txid: Txid::all_zeros(), vout: 0 }), vec![coin.clone()]);
    let outputs = vec![
        TxOut {
            value: Amount::from_sat(50_000),
            script_pubkey: ScriptBuf::new_p2wsh(&[7; 32].into_script_hash()),
        },
        TxOut { value: Amount::from_sat(49_000), script_pubkey: change.to_p2wsh() },
    ];
    let outpoint = OutPoint { txid: funding.compute_txid(), vout: 0 };
    let spending = transaction(input(outpoint), outputs);
    let mut psbt = bitcoin::Psbt::from_unsigned_tx(spending).expect("it is unsigned");
    psbt.inputs[0].witness_utxo = Some(coin);
    psbt.inputs[0].non_witness_utxo = Some(funding);
    psbt.inputs[0].witness_script = Some(spent);
    psbt.outputs[1].witness_script = Some(change);
    for (key, source) in spent_keys {
        psbt.inputs[0].bip32_derivation.insert(key.inner, source);
    }
    for (key, source) in change_keys {
        psbt.outputs[1].bip32_derivation.insert(key.inner, source);
    }
    psbt
}

/// A script's hash that nobody has a script for.
trait IntoScriptHash {
    fn into_script_hash(self) -> bitcoin::WScriptHash;
}

impl IntoScriptHash for [u8; 32] {
    fn into_script_hash(self) -> bitcoin::WScriptHash {
        bitcoin::WScriptHash::from_byte_array(self)
    }
}

fn file(place: &Datadir, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
    let path = place.beside(name);
    fs::write(&path, content).expect("written");
    path
}

#[test]
fn cosigners_set_up_a_multisig_and_spend_from_it() {
    let (alice, alices) = with_words(WORDS[0]);
    let (bob, bobs) = with_words(WORDS[1]);
    let cosigners = [alices.as_str(), &bobs, THIRD];
    let descriptor =
        format!("wsh(sortedmulti(2,{}))", cosigners.map(|key| format!("{key}/<0;1>/*")).join(","));
    let policy = format!("wsh(sortedmulti(2,@0/**,@1/**,@2/**))\n{}\n", cosigners.join("\n"));

    // Before it is watched, change to it is none of ours.
    let unsigned = payment(&cosigners);
    let path = file(&alice, "unsigned.psbt", unsigned.serialize());
    let with_keys = ["-passphrase-fd=0"];
    let before = psbt(&alice, "inspect", &[&path], &with_keys).expect(Exit::Success).stdout;
    assert!(before.contains(", which names a key of ours, but no descriptor"), "{before}");
    assert!(before.contains("ours by no descriptor of the key file"), "{before}");

    let by_alice = watched(&alice, &file(&alice, "descriptor", &descriptor));
    let by_bob = watched(&bob, &file(&bob, "policy", &policy));
    for (shown, ours) in [(&by_alice, 0), (&by_bob, 1)] {
        assert_eq!(shown["descriptors"], by_alice["descriptors"]);
        assert_eq!(shown["policies"][0]["template"], "wsh(sortedmulti(2,@0/**,@1/**,@2/**))");
        assert_eq!(shown["policies"][0]["keys"], serde_json::json!(cosigners));
        assert_eq!(shown["watch_only"], false, "what comes back to it is change");
        for branch in 0..2 {
            for (place, key) in cosigners.iter().enumerate() {
                let standing = &shown["keys"][branch][place];
                assert_eq!(standing["key"], format!("{key}/{branch}/*"));
                let whose = if place == ours { "ours" } else { "a cosigner's" };
                assert_eq!(standing["whose"], whose, "{shown:#}");
            }
            let (script, _) = two_of(&cosigners, branch as u32, 0);
            let first = &shown["addresses"][branch]["addresses"][0];
            assert_eq!(first["script"], script.to_p2wsh().to_hex_string());
        }
    }

    let seen = psbt(&alice, "inspect", &[&path], &with_keys).expect(Exit::Success).stdout;
    let lines: Vec<&str> = seen.lines().collect();
    let output = lines.iter().find(|line| line.starts_with("output 1")).expect("it is shown");
    assert!(
        output.ends_with(
            ", which is ours, shared with other keys or conditions like a coin that is spent"
        ),
        "{seen}"
    );
    assert_eq!(seen.matches(", ours\n").count(), 2, "{seen}");
    assert_eq!(seen.matches(", a cosigner's\n").count(), 4, "{seen}");
    assert!(
        seen.contains("net: 0.00051000 BTC leave (0.00100000 BTC of ours are spent, 0.00049000"),
        "{seen}"
    );
    assert!(seen.contains(", descriptor 2, change, index 7: wsh(sortedmulti(2,"), "{seen}");

    let mut signed = Vec::new();
    for place in [&alice, &bob] {
        let shown = psbt(place, "inspect", &[&path], &with_keys).expect(Exit::Success).stdout;
        let token = shown.trim().rsplit('=').next().expect("a token").to_owned();
        let out = place.beside("signed.psbt");
        let options = [format!("-yes={token}"), format!("-out={}", out.display())];
        let options = [with_keys[0], &options[0], &options[1]];
        psbt(place, "sign", &[&path], &options).expect(Exit::Success);
        signed.push(out);
    }
    let out = alice.beside("all.psbt");
    let to = format!("-out={}", out.display());
    psbt(&alice, "combine", &[&signed[0], &signed[1]], &[&to]).expect(Exit::Success);
    // Core's engine has verified what is finished.
    psbt(&alice, "finalize", &[&out], &[]).expect(Exit::Success);
}

/// A multisig's output around its script: how descriptors write it, its address, and which form a signature
/// by it has.
struct Around {
    descriptor: [&'static str; 2],
    address: fn(&ScriptBuf) -> Address,
    form: &'static str,
}

const AROUND: [Around; 3] = [
    Around {
        descriptor: ["wsh(", ")"],
        address: |script| Address::p2wsh(script, Network::Regtest),
        form: "smp",
    },
    Around {
        descriptor: ["sh(wsh(", "))"],
        address: |script| Address::p2shwsh(script, Network::Regtest),
        form: "ful",
    },
    Around {
        descriptor: ["sh(", ")"],
        address: |script| Address::p2sh(script, Network::Regtest).expect("it is short"),
        form: "ful",
    },
];

const MESSAGE: &str = "We hold this\ntogether.";

/// Of nothing.
const WRONG_TOKEN: &str = "-yes=0000000000000000000000000000000000000000000000000000000000000000";

fn message(place: &Datadir, words: &[&str]) -> Ended {
    let all = [&["message"], words].concat();
    let all: Vec<&dyn AsRef<std::ffi::OsStr>> = all.iter().map(|word| word as _).collect();
    place.run_with_input(&all, "pass\n")
}

/// Each signer is shown the message, not a transaction, and the signature is verified by whoever has the
/// address. The first signer, and the PSBT that was made.
fn sign_a_message_together(around: &Around) -> (Datadir, PathBuf) {
    let (alice, alices) = with_words(WORDS[0]);
    let (bob, bobs) = with_words(WORDS[1]);
    let cosigners = [alices.as_str(), &bobs, THIRD];
    let [open, close] = around.descriptor;
    let keys = cosigners.map(|key| format!("{key}/<0;1>/*")).join(",");
    let descriptor = format!("{open}sortedmulti(2,{keys}){close}");
    for place in [&alice, &bob] {
        watched(place, &file(place, "descriptor", &descriptor));
    }
    let (script, _) = two_of(&cosigners, 0, 3);
    let address = (around.address)(&script).to_string();
    let text = file(&alice, "message", MESSAGE);
    let text = text.to_str().expect("a path");
    let words = ["sign", &address, text, "-passphrase-fd=0", WRONG_TOKEN];
    message(&alice, &words).expect(Exit::Failure);
    let unsigned = alice.beside("unsigned.psbt");
    let to = format!("-out={}", unsigned.display());
    let words = ["psbt", &address, text, "-passphrase-fd=0", &to];
    message(&alice, &words).expect(Exit::Success);
    message(&alice, &words).expect(Exit::Failure);

    let which = format!("message of 22 bytes in 2 lines by {address}, BIP322, hash ");
    let mut next = unsigned.clone();
    for place in [&alice, &bob] {
        for (options, ours) in [(&[][..], false), (&["-passphrase-fd=0"], true)] {
            let shown = psbt(place, "inspect", &[&next], options).expect(Exit::Success).stdout;
            assert!(shown.starts_with(&which), "{shown}");
            assert!(shown.contains("\n  | We hold this\n  | together.\n"), "{shown}");
            assert!(!shown.contains("output 0") && !shown.contains("fee"), "{shown}");
            let own = format!(", descriptor 1, to receive, index 3: {open}sortedmulti(2,");
            assert_eq!(shown.contains(&own), ours, "{shown}");
        }
        let shown = psbt(place, "inspect", &[&next], &["-passphrase-fd=0"]);
        let shown = shown.expect(Exit::Success).stdout;
        let token = shown.trim().rsplit('=').next().expect("a token").to_owned();
        let out = place.beside("signed.psbt");
        let options = [format!("-yes={token}"), format!("-out={}", out.display())];
        let options = ["-passphrase-fd=0", &options[0], &options[1]];
        psbt(place, "sign", &[&next], &options).expect(Exit::Success);
        next = out;
    }
    let finished = bob.beside("finished.psbt");
    let to = format!("-out={}", finished.display());
    psbt(&bob, "finalize", &[&next], &[&to]).expect(Exit::Success);
    let signature = psbt(&bob, "extract", &[&finished], &[]).expect(Exit::Success).stdout;
    let signature = signature.trim();
    assert!(signature.starts_with(around.form), "{open}: {signature}");
    let anybody = signer("regtest");
    let verified = message(&anybody, &["verify", &address, signature, text]);
    assert_eq!(verified.expect(Exit::Success).stdout, "valid\n");
    (alice, unsigned)
}

#[test]
fn cosigners_sign_a_message_one_after_another() {
    for around in &AROUND {
        sign_a_message_together(around);
    }
}

/// What pays nobody and does not say which message it signs, or spends more than the message, is not signed.
#[test]
fn what_hides_behind_a_message_is_not_signed() {
    let (alice, unsigned) = sign_a_message_together(&AROUND[0]);
    let is_refused = |changed: &bitcoin::Psbt| {
        let path = file(&alice, "hidden.psbt", changed.serialize());
        let refused = psbt(&alice, "sign", &[&path], &["-passphrase-fd=0", WRONG_TOKEN]);
        let refused = refused.expect(Exit::Failure);
        assert!(refused.stderr.contains("not signed: it pays nobody"), "{refused:?}");
    };
    let bytes = fs::read(&unsigned).expect("it is there");
    let original = bitcoin::Psbt::deserialize(&bytes).expect("it is valid");
    let mut changed = original.clone();
    let (field, text) = changed.unknown.pop_first().expect("the message");
    assert_eq!((field.type_value, &text[..]), (9, MESSAGE.as_bytes()));
    for said in [None, Some(&b"We hold this"[..]), Some(b"\xff")] {
        changed.unknown.clear();
        changed.unknown.extend(said.map(|said| (field.clone(), said.to_vec())));
        is_refused(&changed);
    }

    // A coin of ours beside the message.
    let mut changed = original;
    let coin = Transaction {
        version: Version::TWO,
        lock_time: absolute::LockTime::ZERO,
        input: vec![TxIn::default()],
        output: vec![TxOut {
            value: Amount::from_sat(100_000),
            script_pubkey: changed.inputs[0]
                .witness_utxo
                .clone()
                .expect("it is witness")
                .script_pubkey,
        }],
    };
    let mut input = changed.inputs[0].clone();
    input.witness_utxo = Some(coin.output[0].clone());
    input.non_witness_utxo = Some(coin.clone());
    changed.inputs.push(input);
    let previous_output = OutPoint { txid: coin.compute_txid(), vout: 0 };
    changed
        .unsigned_tx
        .input
        .push(TxIn { previous_output, ..changed.unsigned_tx.input[0].clone() });
    is_refused(&changed);
}

#[test]
fn a_cosigner_in_our_place_is_told() {
    let (place, ours) = with_words(WORDS[0]);
    let their_key = THIRD.split(']').nth(1).expect("a key");
    let origin = &ours[..=ours.find(']').expect("an origin")];
    let (_, other) = with_words(WORDS[1]);
    let descriptor = format!("wsh(sortedmulti(2,{origin}{their_key}/<0;1>/*,{other}/<0;1>/*))");
    let refused =
        watch(&place, &file(&place, "descriptor", &descriptor), "none").expect(Exit::Failure);
    assert!(
        refused.stderr.contains("says that it comes from a key of yours, and does not"),
        "{refused:?}"
    );
    assert_eq!(refused.stderr.strip_prefix(CHEAP).map(|rest| rest.lines().count()), Some(1));
    // A file that is new when it is watched has no key that tells; once it has ours, the place is told.
    let late = signer("regtest");
    let shown = watched(&late, &file(&late, "descriptor", &descriptor));
    keys(&late, &["import", "-secret-fd=0"], &["pass", WORDS[0]]).expect(Exit::Success);
    let list = keys(&late, &["list"], &["pass"]).expect(Exit::Success).json();
    let of_entry = |place: usize| list[0]["keys"][0][place]["whose"].as_str().expect("text");
    assert_eq!(of_entry(0), "not ours, though its origin says so");
    assert_eq!(of_entry(1), "a cosigner's");
    let id = shown["id"].as_str().expect("an ID");
    let refused = keys(&late, &["addresses", id], &["pass"]).expect(Exit::Failure);
    assert!(refused.stderr.contains("says that it comes from a key of yours"), "{refused:?}");
    // Nor does a file with a private key go anywhere, and nothing of the key is told.
    let xprv = "tprv8ZgxMBicQKsPe24QGuwqysdYcuZQiPCt2HVMcmFKE7ivfVSgYx9sB1yqP6KTdTwMjDLatKefcmWTLmbjWqQcwABCMNu4nMr\
                txbSXGSnUxnn";
    let private = format!("wsh(sortedmulti(2,{xprv}/<0;1>/*,{other}/<0;1>/*))");
    let refused = watch(&place, &file(&place, "private", private), "none").expect(Exit::Failure);
    assert!(
        refused.stderr.contains("character 19 is no public key, and may be a private one"),
        "{refused:?}"
    );
    assert!(!refused.stderr.contains(&xprv[10..30]));
    let missing = watch(&place, &place.beside("nothing"), "none").expect(Exit::Failure);
    assert!(missing.stderr.contains("nothing cannot be read"), "{missing:?}");
    let list = keys(&place, &["list"], &["pass"]).expect(Exit::Success).json();
    assert_eq!(list.as_array().map(Vec::len), Some(1));
}

#[test]
fn what_is_watched_alone_is_nobodys_change() {
    let (place, _) = with_words(WORDS[0]);
    let (_, other) = with_words(WORDS[1]);
    let shared = [other.as_str(), THIRD];
    let descriptor =
        format!("wsh(sortedmulti(2,{}))", shared.map(|key| format!("{key}/<0;1>/*")).join(","));
    let shown = watched(&place, &file(&place, "descriptor", descriptor));
    assert_eq!(shown["keys"][0][0]["whose"], "a cosigner's");
    let path = file(&place, "unsigned.psbt", payment(&shared).serialize());
    let seen =
        psbt(&place, "inspect", &[&path], &["-passphrase-fd=0"]).expect(Exit::Success).stdout;
    assert!(!seen.contains("ours by entry") && !seen.contains(", ours"), "{seen}");
    let id = shown["id"].as_str().expect("an ID");
    let none = keys(&place, &["export", id], &["pass"]).expect(Exit::Failure);
    assert!(none.stderr.contains("has no secrets: its descriptors are watched"), "{none:?}");
    let removed = keys(&place, &["remove", id, &format!("-yes={id}")], &["pass"]);
    assert_eq!(removed.expect(Exit::Success).json()["watch_only"], true);
}

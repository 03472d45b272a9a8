//! `keys import-core-wallet` and the import of descriptors with private keys, as a user runs them.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use godwit_program::Exit;
use godwit_sim::programs::Datadir;
use godwit_testdata::shared_data;
use serde_json::Value;

use crate::{signer, signer_with_cheap_file};

/// Of BIP32's first vector.
const XPRV: &str = "xprv9s21ZrQH143K3QTDL4LXw2F7HEK3wJUD2nW2nRk4stbPy6cq3jPPqjiChkVvvNKmPGJxWUtg6LnF5k\
                    ejMRNNU3TGtRBeJgk33yuGBxrMPHi";
/// What it is public at, behind `0h`.
const XPUB_0H: &str = "xpub68Gmy5EdvgibQVfPdqkBBCHxA5htiqg55crXYuXoQRKfDBFA1WEjWgP6LHhwBZeNK1VTsfTFUHC\
                       drfp1bgwQ9xv5ski8PX9rL2dZXvgGDnw";

/// What a command of `keys` prints. It reads its secrets from lines of standard input.
#[track_caller]
fn keys(place: &Datadir, words: &[&dyn AsRef<OsStr>], lines: &str, exit: Exit) -> (String, String) {
    let input = place.beside("input");
    fs::write(&input, lines).expect("written");
    let words = [&[&"keys" as &dyn AsRef<OsStr>], words, &[&"-passphrase-fd=0"]].concat();
    let mut command = place.command(&words);
    command.stdin(File::open(input).expect("the input"));
    let output = command.output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("the program prints text");
    let (stdout, stderr) = (text(output.stdout), text(output.stderr));
    assert_eq!(output.status.code(), Some(exit.code().into()), "{stdout}{stderr}");
    (stdout, stderr)
}

fn import_wallet(place: &Datadir, wallet: &Path, passphrase: &str, exit: Exit) -> (String, String) {
    let words: [&dyn AsRef<OsStr>; 3] = [&"import-core-wallet", &wallet, &"-walletpassphrase-fd=0"];
    keys(place, &words, &format!("of the file\n{passphrase}\n"), exit)
}

fn texts(value: &Value) -> Vec<String> {
    let texts = value.as_array().expect("a list").iter();
    let mut texts: Vec<String> =
        texts.map(|text| text.as_str().expect("text").to_owned()).collect();
    texts.sort();
    texts
}

/// The folder of the wallets and what Core says of them.
fn wallets() -> Option<(PathBuf, Value)> {
    let folder = shared_data()?.join("wallets");
    let file = godwit_testdata::read(folder.join("wallets.json"));
    let json: Value = serde_json::from_slice(&file).expect("JSON");
    Some((folder, json["wallets"].clone()))
}

#[test]
fn wallets_of_core_become_entries() {
    let Some((folder, wallets)) = wallets() else { return };
    let place = signer("regtest");
    let mut entries = Vec::new();
    for (name, wallet) in wallets.as_object().expect("wallets") {
        let path = folder.join(format!("{name}.wallet.dat"));
        let passphrase = wallet["passphrase"].as_str().unwrap_or_default();
        let (printed, _) = import_wallet(&place, &path, passphrase, Exit::Success);
        let entry: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(texts(&entry["descriptors"]), texts(&wallet["descriptors_public"]), "{name}");
        assert_eq!(entry["left_out"], Value::Array(Vec::new()));
        assert!(!printed.contains("prv"));
        entries.push((entry["id"].as_str().expect("an id").to_owned(), wallet, path));
    }
    let (list, _) = keys(&place, &[&"list"], "of the file\n", Exit::Success);
    let list: Value = serde_json::from_str(&list).expect("JSON");
    assert_eq!(list.as_array().map(Vec::len), Some(4));

    let (id, wallet, path) = &entries[0];
    let (exported, _) = keys(&place, &[&"export", id], "of the file\n", Exit::Success);
    let private = texts(&wallet["descriptors_private"]).concat();
    assert!(exported.lines().count() > 0);
    for line in exported.lines() {
        assert!(private.contains(line), "a key of {id}");
    }
    let passphrase = wallet["passphrase"].as_str().unwrap_or_default();
    let (_, error) = import_wallet(&place, path, passphrase, Exit::Failure);
    assert!(error.contains(id), "they are there already: {error}");
}

/// Core's `listdescriptors` has for each descriptor what goes back into `importdescriptors`.
#[test]
fn what_a_wallet_has_given_out_goes_back_to_core() {
    let Some((folder, wallets)) = wallets() else { return };
    let place = signer_with_cheap_file("regtest", "of the file");
    for (name, expected) in [("plain", 8), ("blank-imported", 4)] {
        let path = folder.join(format!("{name}.wallet.dat"));
        import_wallet(&place, &path, "", Exit::Success);
        let (array, _) = keys(&place, &[&"descriptors"], "of the file\n", Exit::Success);
        let array: Value = serde_json::from_str(&array).expect("JSON");
        let public = texts(&wallets[name]["descriptors_public"]);
        let array: Vec<&Value> = array
            .as_array()
            .expect("an array")
            .iter()
            .filter(|one| public.iter().any(|text| one["desc"] == text.as_str()))
            .collect();
        assert!(array.len() >= expected, "{name}: {array:?}");
        for one in &array {
            assert!(one["timestamp"].as_u64() > Some(1_231_006_505), "{one}");
            if let Some(next) = one["next_index"].as_u64() {
                assert_eq!(one["range"], serde_json::json!([0, next + 999]), "{one}");
            }
        }
        // Each wallet has received at the first address of each kind.
        assert!(array.iter().any(|one| one["next_index"].as_u64() > Some(0)), "{name}");
    }
}

/// What a command of `psbt` writes, with the passphrase on standard input.
#[track_caller]
fn psbt(place: &Datadir, action: &str, file: &Path, options: &[&str]) -> String {
    let mut words: Vec<&dyn AsRef<OsStr>> = vec![&"psbt", &action, &file];
    words.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    place.run_with_input(&words, "of the file\n").expect(Exit::Success).stdout.trim().to_owned()
}

/// Signs Core's PSBTs after a look, and makes the transactions that Core made of them.
fn sign_as_core(place: &Datadir, psbts: &[Value]) {
    let with_keys = "-passphrase-fd=0";
    for vector in psbts {
        let file = |name: &str, content: &str| {
            let path = place.beside(name);
            fs::write(&path, content).expect("written");
            path
        };
        let unsigned = file("unsigned.psbt", vector["unsigned"].as_str().expect("text"));
        let seen = psbt(place, "inspect", &unsigned, &[with_keys]);
        let wrong = ["wrong", "by no descriptor", "no descriptor of"];
        assert!(seen.contains(", ours") && !wrong.iter().any(|word| seen.contains(word)), "{seen}");
        let token = seen.rsplit('=').next().expect("a token");
        let signed = psbt(place, "sign", &unsigned, &[with_keys, &format!("-yes={token}")]);
        let finished = psbt(place, "finalize", &file("signed.psbt", &signed), &[]);
        let transaction = psbt(place, "extract", &file("finished.psbt", &finished), &[]);
        assert_eq!(transaction, vector["core_final_hex"].as_str().expect("text"), "{seen}");
    }
}

/// As its file, and as `listdescriptors true` prints it, each descriptor imported by itself.
#[test]
fn wallets_of_core_sign_in_each_form_that_it_writes() {
    let Some((folder, wallets)) = wallets() else { return };
    for (name, wallet) in wallets.as_object().expect("wallets") {
        let place = signer_with_cheap_file("regtest", "of the file");
        let path = folder.join(format!("{name}.wallet.dat"));
        let passphrase = wallet["passphrase"].as_str().unwrap_or_default();
        import_wallet(&place, &path, passphrase, Exit::Success);
        sign_as_core(&place, wallet["psbts"].as_array().expect("a list"));
    }
    for name in ["plain", "blank-imported"] {
        let (place, wallet) = (signer_with_cheap_file("regtest", "of the file"), &wallets[name]);
        for descriptor in wallet["descriptors_private"].as_array().expect("a list") {
            let lines = format!("of the file\n{}\n", descriptor.as_str().expect("text"));
            keys(&place, &[&"import", &"-secret-fd=0"], &lines, Exit::Success);
        }
        sign_as_core(&place, wallet["psbts"].as_array().expect("a list"));
    }
}

/// As `listdescriptors` prints it, to be watched; what goes back is the same.
#[test]
fn public_descriptors_of_core_are_watched_as_they_are() {
    let Some((_, wallets)) = wallets() else { return };
    let place = signer_with_cheap_file("regtest", "of the file");
    for (name, wallet) in wallets.as_object().expect("wallets") {
        let public: Vec<&str> = wallet["descriptors_public"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|text| text.as_str().expect("text"))
            .collect();
        let file = place.beside("public");
        fs::write(&file, public.join("\n")).expect("written");
        let lines = "of the file\n";
        let (_, shown) = keys(&place, &[&"watch", &file, &"-yes=none"], lines, Exit::Failure);
        let end = shown.rfind('}').expect("JSON is shown");
        let token = shown[end..].split("-yes=").nth(1).and_then(|rest| rest.lines().next());
        let yes = format!("-yes={}", token.expect("a token"));
        let (printed, _) = keys(&place, &[&"watch", &file, &yes], lines, Exit::Success);
        let entry: Value = serde_json::from_str(&printed).expect("JSON");
        assert_eq!(entry["descriptors"], serde_json::json!(public), "{name}");
        assert_eq!(entry["watch_only"], true);
    }
    let (array, _) = keys(&place, &[&"descriptors"], "of the file\n", Exit::Success);
    let array: Vec<Value> = serde_json::from_str(&array).expect("JSON");
    let mut all: Vec<String> = Vec::new();
    for wallet in wallets.as_object().expect("wallets").values() {
        all.extend(texts(&wallet["descriptors_public"]));
    }
    all.sort();
    let printed = array.iter().map(|one| one["desc"].clone()).collect::<Value>();
    assert_eq!(texts(&printed), all);
}

#[test]
fn wallets_that_cannot_be_imported_change_nothing() {
    let place = signer("regtest");
    let other = place.beside("other.dat");
    fs::write(&other, [1; 5000]).expect("a file");
    let (_, error) = import_wallet(&place, &other, "", Exit::Failure);
    assert!(error.contains("no wallet of Bitcoin Core"), "{error}");
    let (_, error) = import_wallet(&place, &place.beside("none"), "", Exit::Failure);
    assert!(error.contains("cannot read the wallet"), "{error}");

    let Some((folder, wallets)) = wallets() else { return };
    let wallet = folder.join("born-encrypted.wallet.dat");
    let passphrase = wallets["born-encrypted"]["passphrase"].as_str().expect("it has one");
    let (_, error) = import_wallet(&place, &wallet, "wrong", Exit::Failure);
    assert!(error.contains("this is not the passphrase of the wallet"), "{error}");
    let main = signer("main");
    let (_, error) = import_wallet(&main, &wallet, passphrase, Exit::Failure);
    assert!(error.contains("another network"), "{error}");
    for place in [place, main] {
        assert!(!place.network_dir().join("keys.godwit").exists());
    }
}

#[test]
fn descriptors_with_private_keys_become_public_ones() {
    let place = signer("main");
    let import = |descriptor: &str, exit| {
        let lines = format!("of the file\n{descriptor}\n");
        keys(&place, &[&"import", &"-secret-fd=0"], &lines, exit)
    };
    let (printed, _) = import(&format!("wpkh({XPRV}/0h/<0;1>/*)"), Exit::Success);
    let entry: Value = serde_json::from_str(&printed).expect("JSON");
    let descriptors = texts(&entry["descriptors"]);
    assert_eq!(descriptors.len(), 2);
    for (n, text) in descriptors.iter().enumerate() {
        assert!(text.starts_with(&format!("wpkh([3442193e/0h]{XPUB_0H}/{n}/*)#")), "{text}");
    }
    // Public ones alone are no keys, and a wrong letter is told by its place.
    let (_, error) = import(&descriptors[0], Exit::Failure);
    assert!(error.contains("no private key"), "{error}");
    let wrong = XPRV.replace("xprv9s2", "xprv9s3");
    let (_, error) = import(&format!("wpkh({wrong}/0)"), Exit::Failure);
    assert!(error.contains("character 6 of the descriptor"), "{error}");
    assert!(!error.contains(&wrong[20..40]), "nothing of the key: {error}");
}

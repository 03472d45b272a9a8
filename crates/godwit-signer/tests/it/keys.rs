//! `godwit-signer keys`: the key file through the program, with passphrases from file descriptors and from a
//! terminal.

mod passphrases;
mod pipes;
mod terminal;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::str::FromStr;
use std::thread;

use godwit_program::Exit;
use godwit_sim::programs::{Datadir, Ended, NOBODY};
use godwit_testdata::shared_file;
use serde_json::Value;

use crate::signer;

/// Twelve words of BIP39's first vector.
const WORDS: &str = "abandon abandon abandon abandon abandon abandon abandon abandon abandon \
                     abandon abandon about";
/// A key of Core's `key_io_valid.json` would do as well; this is the number 1, for test networks.
const WIF: &str = "cMahea7zqjxrtgAbB7LSGbcQUr1uX1ojuat9jZodMN87JcbXMTcA";

/// A command of `keys`, its passphrase and whatever else it reads as lines of standard input.
fn keys(place: &Datadir, words: &[&str], lines: &[&str]) -> Ended {
    let mut all: Vec<&dyn AsRef<OsStr>> = vec![&"keys"];
    all.extend(words.iter().map(|word| word as &dyn AsRef<OsStr>));
    all.push(&"-passphrase-fd=0");
    if words[0] == "create" && !words.iter().any(|word| word.starts_with("-mnemonic-fd")) {
        // Whoever runs the tests may sit at a terminal.
        all.push(&"-unseenwords");
    }
    place.run_with_input(&all, &lines.iter().map(|line| format!("{line}\n")).collect::<String>())
}

fn import(place: &Datadir, secret: &str) -> Ended {
    keys(place, &["import", "-secret-fd=0"], &["pass", secret])
}

fn id(entry: &Value) -> String {
    entry["id"].as_str().expect("an ID").to_owned()
}

fn list(place: &Datadir) -> Vec<Value> {
    let list = keys(place, &["list"], &["pass"]).expect(Exit::Success).json();
    list.as_array().expect("a list").clone()
}

fn key_file(place: &Datadir) -> PathBuf {
    place.network_dir().join("keys.godwit")
}

#[test]
fn a_life_of_keys() {
    let place = signer("regtest");
    let created = keys(&place, &["create", "-label=savings"], &["pass"]).expect(Exit::Success);
    let entry = created.json();
    assert_eq!(
        (entry["label"].as_str(), entry["mnemonic"].as_bool()),
        (Some("savings"), Some(true))
    );
    assert_eq!(entry["descriptors"].as_array().map(Vec::len), Some(8));
    let multipath = entry["multipath"].as_array().expect("a list");
    assert_eq!(multipath.len(), 4, "{entry}");
    assert!(multipath.iter().all(|text| text.to_string().contains("/<0;1>/*")), "{entry}");
    assert_eq!(fs::metadata(key_file(&place)).expect("made").mode() & 0o777, 0o600);
    assert_eq!(list(&place), std::slice::from_ref(&entry));

    let exported = keys(&place, &["export", &id(&entry)], &["pass"]).expect(Exit::Success);
    assert_eq!(exported.stdout.split_whitespace().count(), 24);
    assert!(!created.stdout.contains(exported.stdout.trim()), "words are shown where asked for");
    export_to_nowhere(&place, &id(&entry));

    keys(&place, &["change-passphrase", "-newpassphrase-fd=0"], &["pass", "new"])
        .expect(Exit::Success);
    let wrong = keys(&place, &["list"], &["pass"]).expect(Exit::Failure);
    assert!(wrong.stderr.contains("the passphrase is wrong"), "{wrong:?}");
    let words = ["remove", &id(&entry), "-yes=00000000"];
    let kept = keys(&place, &words, &["new"]).expect(Exit::Failure);
    assert!(kept.stderr.ends_with("nothing was removed: -yes names something else\n"), "{kept:?}");
    let yes = format!("-yes={}", id(&entry));
    let removed = keys(&place, &["remove", &id(&entry), &yes], &["new"]).expect(Exit::Success);
    assert_eq!(removed.json(), entry, "what is gone is told");
    let empty = keys(&place, &["list"], &["new"]).expect(Exit::Success);
    assert_eq!(empty.json(), Value::Array(Vec::new()));

    // The words bring the same keys back.
    let again = keys(&place, &["import", "-secret-fd=0"], &["new", exported.stdout.trim()]);
    assert_eq!(again.expect(Exit::Success).json()["descriptors"], entry["descriptors"]);
    // The key file and its empty lock are all that is left.
    let entries = fs::read_dir(place.network_dir()).expect("a directory");
    let mut names: Vec<_> = entries.map(|entry| entry.expect("an entry").file_name()).collect();
    names.sort();
    let expected = ["keys.godwit", "keys.godwit.lock"];
    assert_eq!(names, expected, "a log would be one more place for secrets");
    let lock = place.network_dir().join("keys.godwit.lock");
    assert_eq!(fs::read(lock).expect("it is there"), b"", "a lock holds nothing");
    let files = String::from_utf8_lossy(&fs::read(key_file(&place)).expect("made")).into_owned();
    for secret in ["pass", "new", exported.stdout.trim()] {
        assert!(!files.contains(secret), "the data directory has {secret:?}");
    }
}

/// Without standard output nothing is exported, and the program says so. `/dev/null` is the user's choice.
fn export_to_nowhere(place: &Datadir, id: &str) {
    for (redirection, exit) in [(">&-", Exit::Failure), (">/dev/null", Exit::Success)] {
        let program = place.command(&[&"keys", &"export", &id, &"-passphrase-fd=0"]);
        let script = format!("echo pass | \"$0\" \"$@\" {redirection}");
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(script).arg(program.get_program()).args(program.get_args());
        let ended = shell.output().expect("there is a shell");
        assert_eq!(ended.status.code(), Some(exit.code().into()), "{redirection}: {ended:?}");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(said.contains("standard output cannot be written"), exit == Exit::Failure);
    }
}

#[test]
fn an_account_with_its_origin_makes_the_round() {
    let place = signer("regtest");
    let account = {
        use bitcoin::bip32::{DerivationPath, Xpriv};
        let seed = Xpriv::new_master(bitcoin::Network::Regtest, &[7; 32]).expect("a key");
        let path: DerivationPath = "84h/1h/0h".parse().expect("a path");
        let curve = bitcoin::secp256k1::Secp256k1::new();
        let fingerprint = seed.fingerprint(&curve);
        format!("[{fingerprint}/84h/1h/0h]{}", seed.derive_priv(&curve, &path).expect("a key"))
    };
    let imported = import(&place, &account).expect(Exit::Success).json();
    let descriptors = imported["descriptors"].as_array().expect("a list");
    assert_eq!(descriptors.len(), 2, "of one purpose: {imported}");
    let origin = format!("wpkh({}tpub", &account[..account.find(']').expect("it ends") + 1]);
    assert!(descriptors[0].as_str().expect("text").starts_with(&origin), "{imported}");
    let exported = keys(&place, &["export", &id(&imported)], &["pass"]).expect(Exit::Success);
    assert_eq!(exported.stdout.trim(), account);
    let wrong = account.replacen("/0h]", "/1h]", 1);
    let refused = import(&place, &wrong).expect(Exit::Failure);
    assert!(
        refused.stderr.contains("the origin in front of the key does not fit it"),
        "{refused:?}"
    );
}

#[test]
fn descriptors_are_an_array_for_core() {
    let place = signer("regtest");
    let created = keys(&place, &["create", "-label=cold"], &["pass"]).expect(Exit::Success).json();
    import(&place, WIF).expect(Exit::Success);
    let array = keys(&place, &["descriptors"], &["pass"]).expect(Exit::Success).json();
    let array = array.as_array().expect("an array");
    assert_eq!(array.len(), 8 + 4);
    for (place, one) in array.iter().enumerate() {
        assert_eq!(one["active"], false, "{one}");
        if place < 8 {
            assert_eq!(one["timestamp"], created["created"], "{one}");
            assert_eq!(one["desc"], created["descriptors"][place]);
            assert_eq!(one["internal"], place % 2 == 1, "{one}");
            assert_eq!(one["range"], serde_json::json!([0, 999]));
            assert_eq!(one["next_index"], 0);
            assert!(one.get("label").is_none(), "Core refuses it beside a range: {one}");
        } else {
            assert_eq!(one["timestamp"], 0, "the key may have been used before: {one}");
            assert!(one.get("range").is_none(), "{one}");
        }
    }
}

#[test]
fn cosigners_get_keys_with_origins_and_addresses_are_listed() {
    let place = signer("regtest");
    let entry = import(&place, WORDS).expect(Exit::Success).json();
    let accounts = keys(&place, &["xpub", &id(&entry)], &["pass"]).expect(Exit::Success).json();
    let accounts = accounts.as_array().expect("a list");
    let of = |name: &str| -> Vec<&Value> { accounts.iter().map(|one| &one[name]).collect() };
    assert_eq!(of("purpose"), [44, 49, 84, 86, 48, 48]);
    assert_eq!(of("script"), ["pkh", "sh(wpkh)", "wpkh", "tr", "wsh", "sh(wsh)"]);
    for (place, account) in accounts.iter().enumerate() {
        // What it prints as a descriptor is what the entry has.
        let descriptor = if place < 4 { entry["multipath"][place].clone() } else { Value::Null };
        assert_eq!(account["descriptor"], descriptor);
        assert!(account["key"].as_str().expect("text").starts_with("[73c5da0a/"), "{account}");
    }
    let third = keys(&place, &["xpub", &id(&entry), "-account=2"], &["pass"]);
    let third = third.expect(Exit::Success).json();
    let key = third[4]["key"].as_str().expect("text").to_owned();
    assert!(key.starts_with("[73c5da0a/48h/1h/2h/2h]tpub"), "{third}");

    let list = |options: &[&str]| {
        let id = id(&entry);
        let words = [&["addresses", &id], options].concat();
        keys(&place, &words, &["pass"]).expect(Exit::Success).json()
    };
    let all = list(&[]);
    assert_eq!(all.as_array().map(Vec::len), Some(8));
    assert_eq!(all[0]["addresses"].as_array().map(Vec::len), Some(20));
    let change = list(&["-branch=change", "-range=18-19"]);
    assert_eq!(change.as_array().map(Vec::len), Some(4));
    for (place, one) in change.as_array().expect("a list").iter().enumerate() {
        assert_eq!(one["branch"], "change");
        let same = &all[2 * place + 1];
        assert_eq!(one["descriptor"], same["descriptor"]);
        let tail = &same["addresses"].as_array().expect("a list")[18..];
        assert_eq!(one["addresses"].as_array().expect("a list"), tail);
    }
    // The first one of BIP84's vector, on this network.
    let main = "bc1qcr8te4kr609gcawutmrza0j4xv80jy8z306fyu";
    let script = bitcoin::Address::from_str(main).expect("an address").assume_checked();
    let of_main = signer("main");
    let entry = import(&of_main, WORDS).expect(Exit::Success).json();
    let words = ["addresses", &id(&entry), "-range=0-0"];
    let listed = keys(&of_main, &words, &["pass"]).expect(Exit::Success).json();
    assert_eq!(listed[4]["addresses"][0]["address"], main);
    let script = script.script_pubkey().to_hex_string();
    assert_eq!(listed[4]["addresses"][0]["script"], script.as_str());
    // A single key has no accounts, and one address of each kind.
    let single = import(&place, WIF).expect(Exit::Success).json();
    let none = keys(&place, &["xpub", &id(&single)], &["pass"]).expect(Exit::Success).json();
    assert_eq!(none, Value::Array(Vec::new()));
    let words = ["addresses", &id(&single)];
    let listed = keys(&place, &words, &["pass"]).expect(Exit::Success).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(4));
    for one in listed.as_array().expect("a list") {
        let [address] = &one["addresses"].as_array().expect("a list")[..] else { panic!("{one}") };
        assert_eq!((&address["index"], &one["branch"]), (&Value::Null, &Value::Null));
    }
    let unknown = keys(&place, &["addresses", "00000000"], &["pass"]).expect(Exit::Failure);
    assert!(unknown.stderr.contains("the key file has no entry 00000000"), "{unknown:?}");
}

#[test]
fn an_older_copy_of_the_key_file_is_told() {
    let place = signer("regtest");
    keys(&place, &["create", "-label=first"], &["pass"]).expect(Exit::Success);
    let older = fs::read(key_file(&place)).expect("made");
    keys(&place, &["create", "-label=second"], &["pass"]).expect(Exit::Success);
    let list = || keys(&place, &["list"], &["pass"]).expect(Exit::Success);
    assert_eq!(list().stderr, "");
    fs::write(key_file(&place), &older).expect("it is ours");
    let told = list();
    let line = "warning: this key file is an older copy, number 1: number 2 was here before";
    assert!(told.stderr.contains(line), "{told:?}");
    // It is not changed by accident: it would pass for the last version then.
    let id = id(&self::list(&place)[0]);
    let yes = format!("-yes={id}");
    for words in [
        &["create", "-label=third"][..],
        &["import", "-secret-fd=0"],
        &["change-passphrase", "-newpassphrase-fd=0"],
        &["remove", &id, &yes],
    ] {
        let refused = keys(&place, words, &["pass", "new"]).expect(Exit::Failure);
        assert!(refused.stderr.contains("; -oldercopy changes it all the same"), "{refused:?}");
        assert_eq!(fs::read(key_file(&place)).expect("made"), older);
    }
    assert!(list().stderr.contains(line), "it is not forgotten");
    // Who goes on with it knows.
    let third = ["create", "-label=third", "-oldercopy"];
    keys(&place, &third, &["pass"]).expect(Exit::Success);
    keys(&place, &["create", "-label=fourth"], &["pass"]).expect(Exit::Success);
    assert_eq!(list().stderr, "");
}

#[test]
fn a_record_that_cannot_be_read_lets_no_copy_be_changed() {
    let place = signer("regtest");
    for label in ["-label=first", "-label=second"] {
        keys(&place, &["create", label], &["pass"]).expect(Exit::Success);
    }
    let record = place.datadir().join("key-generations");
    let (readable, file) =
        (fs::read(&record).expect("made"), fs::read(key_file(&place)).expect("made"));
    let id = id(&list(&place)[0]);
    let yes = format!("-yes={id}");
    for line in [&b"\xff\n"[..], b"rubbish\n"] {
        let damaged = [&readable[..], line].concat();
        fs::write(&record, &damaged).expect("it is ours");
        for words in [
            &["create", "-label=third"][..],
            &["import", "-secret-fd=0"],
            &["change-passphrase", "-newpassphrase-fd=0"],
            &["remove", &id, &yes],
        ] {
            let refused = keys(&place, words, &["pass", WIF]).expect(Exit::Failure);
            let why = "nothing tells whether this key file is an older copy";
            assert!(refused.stderr.contains(why), "{refused:?}");
            assert!(
                refused.stderr.ends_with("; -oldercopy changes it all the same\n"),
                "{refused:?}"
            );
            assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
            assert_eq!(fs::read(key_file(&place)).expect("made"), file);
        }
        let told = keys(&place, &["list"], &["pass"]).expect(Exit::Success).stderr;
        assert!(told.contains("key-generations cannot be read"), "{told}");
        assert_eq!(fs::read(&record).expect("made"), damaged, "it is left as it was");
    }
    keys(&place, &["create", "-label=third", "-oldercopy"], &["pass"]).expect(Exit::Success);
    fs::write(&record, &readable).expect("it is ours");
    assert_eq!(list(&place).len(), 3);
}

#[test]
fn nothing_is_asked_for_a_label_that_is_none() {
    let place = signer("regtest");
    for label in ["x".repeat(101), "a\u{7}b".to_owned()] {
        let refused = keys(&place, &["create", &format!("-label={label}")], &["pass"]);
        let refused = refused.expect(Exit::Configuration);
        assert!(refused.stderr.contains("expected at most 100 characters"), "{refused:?}");
    }
    assert!(!place.datadir().exists());
    let label = format!("-label={}", "é".repeat(100));
    keys(&place, &["create", &label], &["pass"]).expect(Exit::Success);
}

#[test]
fn words_that_nobody_can_see_are_not_made() {
    let place = signer("regtest");
    let run = |option: Option<&str>| {
        let program = place.command(&[&"keys", &"create", &"-passphrase-fd=0"]);
        // Without a terminal of its own.
        let mut command = Command::new("setsid");
        command.arg("--wait").arg(program.get_program()).args(program.get_args()).args(option);
        Ended::with_input(command, "pass\n")
    };
    let refused = run(None).expect(Exit::Failure);
    assert!(refused.stderr.contains("no terminal to show the new words at"), "{refused:?}");
    assert!(!key_file(&place).exists());
    run(Some("-unseenwords")).expect(Exit::Success);
    assert_eq!(list(&place).len(), 1);
}

#[test]
fn a_passphrase_can_cost_more() {
    let place = signer("regtest");
    let dear = ["create", "-kdfmemory=65", "-kdfpasses=4"];
    keys(&place, &dear, &["pass"]).expect(Exit::Success);
    let numbers = |place: &Datadir| fs::read(key_file(place)).expect("made")[12..24].to_vec();
    let expected = [65u32 << 10, 4, 4].map(u32::to_le_bytes).concat();
    assert_eq!(numbers(&place), expected);
    // What it costs is not lowered in passing, and is no option of a file that is there.
    let change = ["change-passphrase", "-newpassphrase-fd=0"];
    keys(&place, &change, &["pass", "new"]).expect(Exit::Success);
    assert_eq!(numbers(&place), expected);
    let refused = keys(&place, &["create", "-kdfmemory=66"], &["new"]).expect(Exit::Failure);
    assert!(refused.stderr.contains("are for a new key file"), "{refused:?}");
    let change = [&change[..], &["-kdfmemory=64", "-kdfpasses=3"]].concat();
    keys(&place, &change, &["new", "pass"]).expect(Exit::Success);
    assert_eq!(numbers(&place), [64u32 << 10, 3, 4].map(u32::to_le_bytes).concat());
}

#[test]
fn words_are_shown_once_and_only_where_asked_for() {
    let place = signer("regtest");
    let shown = keys(&place, &["create", "-words=12", "-mnemonic-fd=2"], &["pass"]);
    let shown = shown.expect(Exit::Success);
    assert_eq!(shown.stderr.split_whitespace().count(), 12, "{shown:?}");
    let exported = keys(&place, &["export", &id(&shown.json())], &["pass"]);
    assert_eq!(exported.expect(Exit::Success).stdout, shown.stderr);
    let silent = keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    assert_eq!(silent.stderr, "");
}

#[test]
fn secrets_of_every_kind_come_in_and_go_out() {
    let place = signer("regtest");
    let words = import(&place, &WORDS.to_uppercase()).expect(Exit::Success).json();
    // BIP84's vector has this root; its master fingerprint is well known.
    let first = words["descriptors"][0].as_str().expect("text").to_owned();
    assert!(first.starts_with("pkh([73c5da0a/44h/1h/0h]tpub"), "{first}");
    let salted = ["import", "-secret-fd=0", "-bip39passphrase-fd=0"];
    let salted = keys(&place, &salted, &["pass", WORDS, "TREZOR"]).expect(Exit::Success).json();
    assert_eq!(salted["bip39_passphrase"], true);
    assert_ne!(salted["descriptors"], words["descriptors"]);
    let single = import(&place, WIF).expect(Exit::Success).json();
    assert_eq!(single["descriptors"].as_array().map(Vec::len), Some(4));
    for (entry, secret) in [(&words, WORDS), (&single, WIF)] {
        let out = keys(&place, &["export", &id(entry)], &["pass"]).expect(Exit::Success);
        assert_eq!(out.stdout, format!("{secret}\n"));
    }
    assert_eq!(list(&place).len(), 3);

    // The words alone do not bring it back: whoever forgets the passphrase has the key.
    let out = keys(&place, &["export", &id(&salted)], &["pass"]).expect(Exit::Success);
    let (first, root) = out.stdout.split_once('\n').expect("two lines");
    assert!(first == WORDS && root.starts_with("tprv"), "{out:?}");
    let other = signer("regtest");
    let again = import(&other, root.trim()).expect(Exit::Success).json();
    assert_eq!(again["descriptors"], salted["descriptors"]);
    // The words come to the key that is there.
    let joined = ["import", "-secret-fd=0", "-bip39passphrase-fd=0"];
    let joined = keys(&other, &joined, &["pass", WORDS, "TREZOR"]).expect(Exit::Success).json();
    assert_eq!(
        (joined["id"].clone(), joined["mnemonic"].as_bool()),
        (again["id"].clone(), Some(true))
    );
    assert_eq!(list(&other).len(), 1);
}

#[test]
fn a_passphrase_that_is_not_there_is_not_an_empty_one() {
    let place = signer("regtest");
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    let import = ["import", "-secret-fd=0", "-bip39passphrase-fd=0"];
    let missing = keys(&place, &import, &["pass", WORDS]).expect(Exit::Failure);
    assert!(missing.stderr.contains("ends before the secret"), "{missing:?}");
    assert_eq!(list(&place).len(), 1);
    let empty = keys(&place, &import, &["pass", WORDS, ""]).expect(Exit::Success).json();
    assert_eq!(empty["bip39_passphrase"], false);
    let nothing = keys(&place, &["list"], &[]).expect(Exit::Failure);
    assert!(nothing.stderr.contains("ends before the secret"), "{nothing:?}");
}

#[test]
fn extended_keys_and_descriptors_of_core_come_in() {
    let Some(file) = shared_file("wallets/wallets.json") else { return };
    let wallets: Value = serde_json::from_slice(&file).expect("JSON");
    let wallet = &wallets["wallets"]["plain"];
    let private = wallet["descriptors_private"][0].as_str().expect("text");
    let public = wallet["descriptors_public"].as_array().expect("a list");
    let place = signer("regtest");
    let entry = import(&place, &format!("  {private}\t")).expect(Exit::Success).json();
    assert_eq!(entry["descriptors"][0], wallet["descriptors_public"][0]);

    let (_, root) = private.split_once('(').expect("a descriptor");
    let (root, _) = root.split_once('/').expect("a path");
    let entry = import(&place, root).expect(Exit::Success).json();
    let ours = entry["descriptors"].as_array().expect("a list");
    assert!(ours.len() == public.len() && public.iter().all(|text| ours.contains(text)));
    let out = keys(&place, &["export", &id(&entry)], &["pass"]).expect(Exit::Success);
    assert_eq!(out.stdout, format!("{root}\n"));
    let watched = import(&place, public[0].as_str().expect("text")).expect(Exit::Failure);
    assert!(watched.stderr.contains("no private key"), "{watched:?}");
}

#[test]
fn what_is_refused_is_one_line_without_the_secret() {
    let place = signer("regtest");
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    let before = fs::read(key_file(&place)).expect("made");
    let main_key = "KwDiBf89QgGbjEhKnhXJuH7LrciVrZi3qYjgd9M7rFU73sVHnoWn";
    for (secret, message) in [
        ("abandon about", "has 12, 15, 18, 21 or 24 words, not 2"),
        (&WORDS.replace("about", "abandon"), "the mnemonic's checksum is wrong"),
        (&WORDS.replace("about", "abott"), "word 12 of the mnemonic"),
        (&WIF.replace('z', "y"), "the key's checksum is wrong"),
        (&WIF.replace('z', "0"), "is not base58"),
        (main_key, "of another network"),
        ("wpkh(tprv8/0/*)", ""),
        ("", "the key's text has the wrong length"),
        (&"x".repeat(70_000), "the secret is too long"),
    ] {
        let refused = import(&place, secret).expect(Exit::Failure);
        assert_eq!(refused.stderr.lines().count(), 1, "{refused:?}");
        assert!(refused.stderr.contains(message), "{message}: {refused:?}");
        let leaked = secret.len() > 20 && refused.stderr.contains(&secret[..20]);
        assert!(!leaked && refused.stdout.is_empty(), "{refused:?}");
    }
    let no_words = ["import", "-secret-fd=0", "-bip39passphrase-fd=0"];
    let refused = keys(&place, &no_words, &["pass", WIF, "x"]).expect(Exit::Failure);
    assert!(refused.stderr.contains("no mnemonic"), "{refused:?}");
    import(&place, WORDS).expect(Exit::Success);
    let twice = import(&place, WORDS).expect(Exit::Failure);
    assert!(twice.stderr.contains("has these keys already"), "{twice:?}");
    assert_eq!(list(&place).len(), 2);
    fs::write(key_file(&place), before).expect("ours");
    assert_eq!(list(&place).len(), 1, "an old copy is a key file too");
}

#[test]
fn key_files_that_cannot_be_opened_are_told_apart() {
    let place = signer("regtest");
    let missing = keys(&place, &["list"], &["pass"]).expect(Exit::Failure);
    assert!(missing.stderr.contains("there is no key file"), "{missing:?}");
    let makers = "keys create, keys import, keys import-core-wallet or keys watch makes it";
    assert!(missing.stderr.contains(makers), "{missing:?}");
    let empty = keys(&place, &["create"], &[""]).expect(Exit::Failure);
    assert!(empty.stderr.contains("the passphrase is empty"), "{empty:?}");
    assert!(!key_file(&place).exists());
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    let whole = fs::read(key_file(&place)).expect("made");
    fs::write(key_file(&place), &whole[..whole.len() - 1]).expect("ours");
    let cut = keys(&place, &["list"], &["pass"]).expect(Exit::Damaged);
    assert!(cut.stderr.contains("damaged or cut short"), "{cut:?}");
    fs::write(key_file(&place), "something else").expect("ours");
    let other = keys(&place, &["list"], &["pass"]).expect(Exit::Failure);
    assert!(other.stderr.contains("no key file of godwit"), "{other:?}");
    fs::set_permissions(key_file(&place), fs::Permissions::from_mode(0o644)).expect("ours");
    let other = keys(&place, &["list"], &["pass"]).expect(Exit::Failure);
    assert!(other.stderr.contains("no key file of godwit"), "{other:?}");
    fs::write(key_file(&place), whole).expect("ours");
    let open = keys(&place, &["list"], &["pass"]).expect(Exit::Failure);
    assert!(open.stderr.contains("(mode 0644)") && open.stderr.contains("chmod 600"), "{open:?}");
}

#[test]
fn words_go_to_a_descriptor_of_any_number() {
    let place = signer("regtest");
    fs::write(place.beside("pass"), "pass").expect("a file");
    let program = place.command(&[&"keys", &"create", &"-passphrase-fd=9", &"-mnemonic-fd=4"]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 9<pass 4>words", "sh"]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.beside(""));
    let ended = Ended::of(command.stdin(Stdio::null()).output().expect("a shell"));
    let entry = ended.expect(Exit::Success).json();
    let words = fs::read_to_string(place.beside("words")).expect("written");
    let exported = keys(&place, &["export", &id(&entry)], &["pass"]).expect(Exit::Success);
    assert_eq!(exported.stdout, words);
}

#[test]
fn descriptors_of_any_number_are_read_and_closed_ones_are_named() {
    let place = signer("regtest");
    for (name, text) in [("pass", "päss\n"), ("words", WORDS)] {
        fs::write(place.beside(name), text).expect("a file");
    }
    let program = place.command(&[&"keys", &"import", &"-passphrase-fd=3", &"-secret-fd=5"]);
    let mut command = Command::new("sh");
    command.args(["-c", "exec \"$@\" 3<pass 5<words", "sh"]).arg(program.get_program());
    command.args(program.get_args()).current_dir(place.beside(""));
    let ended = Ended::of(command.stdin(Stdio::null()).output().expect("a shell"));
    ended.expect(Exit::Success);
    let listed = keys(&place, &["list"], &["pa\u{308}ss"]).expect(Exit::Success).json();
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "however the umlaut is written");

    let closed = place.run(&[&"keys", &"list", &"-passphrase-fd=77"]).expect(Exit::Configuration);
    assert!(closed.stderr.contains("file descriptor 77 cannot be used"), "{closed:?}");
    let binary = place.beside("binary");
    fs::write(&binary, b"\xff\xfe\n").expect("a file");
    let mut program = place.command(&[&"keys", &"list", &"-passphrase-fd=0"]);
    program.stdin(fs::File::open(binary).expect("made"));
    let refused = Ended::of(program.output().expect("the program starts")).expect(Exit::Failure);
    assert!(refused.stderr.contains("not UTF-8"), "{refused:?}");
}

#[test]
fn programs_at_once_lose_no_key() {
    let place = signer("regtest");
    keys(&place, &["create"], &["pass"]).expect(Exit::Success);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| keys(&place, &["create"], &["pass"]).expect(Exit::Success));
        }
    });
    assert_eq!(list(&place).len(), 5);
}

/// As a user who may lock nothing.
#[test]
fn without_locked_memory_there_are_no_keys_but_on_demand() {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let program = temp.path().join("godwit-signer");
    // Where that user can reach it.
    fs::copy(crate::PROGRAM, &program).expect("room for the program");
    for (place, mode) in [(temp.path(), 0o777), (program.as_path(), 0o755)] {
        fs::set_permissions(place, fs::Permissions::from_mode(mode)).expect("it is ours");
    }
    fs::write(temp.path().join("pass"), "pass\n").expect("a file");
    for (option, exit) in [("0", Exit::Failure), ("1", Exit::Success)] {
        let mut command = Command::new("sh");
        command.args(["-c", "ulimit -l 0 && exec \"$@\" 3<pass", "sh"]).arg(&program);
        command.args(["keys", "create", "-regtest", "-passphrase-fd=3", "-unseenwords"]);
        command.arg(format!("-datadir={}", temp.path().join(option).display()));
        command.arg(format!("-allowunlockedsecrets={option}"));
        if rustix::process::getuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        let command = command.current_dir(temp.path()).stdin(Stdio::null());
        let ended = Ended::of(command.output().expect("a shell")).expect(exit);
        let file = temp.path().join(option).join("regtest/keys.godwit");
        assert_eq!(file.exists(), exit == Exit::Success);
        if exit == Exit::Failure {
            assert!(ended.stderr.contains("RLIMIT_MEMLOCK is 0 bytes"), "{ended:?}");
            assert!(ended.stderr.contains("-allowunlockedsecrets"), "{ended:?}");
        } else {
            let line = "nothing of the memory that the passphrase was stretched in could be locked";
            assert!(ended.stderr.contains(line), "{ended:?}");
        }
    }
}

#[test]
fn a_folder_that_others_may_write_to_is_told() {
    let place = signer("regtest");
    import(&place, WORDS).expect(Exit::Success);
    let told = |mode: u32| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(place.network_dir(), permissions).expect("it is ours");
        let ended = keys(&place, &["list"], &["pass"]).expect(Exit::Success);
        ended.stderr.contains("warning: others may write to the folder of ")
    };
    let seen = [0o700, 0o755, 0o775, 0o757, 0o1777].map(told);
    assert_eq!(seen, [false, false, true, true, false]);
}

//! Entries that come in twice, and changes that the disk does not confirm.

use super::*;
use crate::key_file::disk::FAILING_SYNC;
use crate::psbt::{Found, SigningKey, look_up_in};
use crate::split_private_descriptor;

/// What `secrets` becomes when the keys of others are public: an entry of a multisig of three.
fn multisig(private: &[u8]) -> Entry {
    let keys = [1, 2, 3].map(|number| {
        let key = root(number);
        match private.contains(&number) {
            true => {
                key.to_base58()
                    .expect("memory")
                    .expose_secret(|text| Declassified(text.to_owned()))
                    .0
            }
            false => key.xpub().expect("memory").to_string(),
        }
    });
    let text = passphrase(&format!("wsh(multi(2,{}))", keys.map(|key| key + "/0/*").join(",")));
    let split = split_private_descriptor(SecretSlice::from(&text), NetworkKind::Test);
    let split = split.expect("a descriptor");
    let descriptors =
        split.descriptors.into_iter().map(|public| EntryDescriptor::new(public.text)).collect();
    Entry { descriptors, keys: split.keys, ..entry(1) }
}

/// Whether the store signs for each of the three.
fn signers(store: &KeyStore) -> [bool; 3] {
    [1, 2, 3].map(|number| {
        let source = (root(number).fingerprint().expect("memory"), path("m/0/5"));
        let child = root(number).derive(source.1.as_ref()).expect("a key");
        let wanted = child.private_key().and_then(|key| key.public_key()).expect("memory");
        let wanted = SigningKey::Ecdsa(wanted.into());
        let found = look_up_in(store, NetworkKind::Test, &source, &wanted).expect("memory");
        matches!(found, Found::Ours(_))
    })
}

#[test]
fn another_private_key_of_the_same_descriptor_joins_the_entry() {
    let (place, mut store) = created();
    let id = store.insert(multisig(&[1])).expect("written");
    let label = Entry { label: "second".to_owned(), ..multisig(&[2]) };
    assert_eq!(store.insert(label).expect("another key"), id);
    assert_eq!(signers(&store), [true, true, false]);
    assert_eq!(signers(&reopened(&place)), [true, true, false], "it is in the file");
    let before = fs::read(&place.file).expect("there");
    for known in [&[1][..], &[2], &[1, 2], &[]] {
        let again = store.insert(multisig(known));
        assert!(matches!(again, Err(StoreError::Duplicate(twice)) if twice == id), "{known:?}");
    }
    assert_eq!(fs::read(&place.file).expect("there"), before);
    store.insert(multisig(&[2, 3])).expect("one that is missing");
    let store = reopened(&place);
    assert_eq!(signers(&store), [true; 3]);
    assert_eq!(labels(&store), ["number 1"]);
    assert_eq!(store.entries()[0].keys.len(), 3, "none is there twice");
}

#[test]
fn words_join_the_key_that_they_stand_for() {
    let (place, mut store) = created();
    let id = store.insert(entry(1)).expect("written");
    let words = |with_passphrase| {
        let mnemonic = Mnemonic::generate(12).expect("memory");
        Entry { words: Some(Words { mnemonic, with_passphrase }), ..entry(1) }
    };
    assert_eq!(store.insert(words(false)).expect("words are missing"), id);
    assert!(reopened(&place).entries()[0].words.is_some());
    assert!(matches!(store.insert(words(true)), Err(StoreError::Duplicate(_))));
    assert!(matches!(store.insert(entry(1)), Err(StoreError::Duplicate(_))));
}

#[test]
fn what_cannot_be_written_does_not_join() {
    let (place, mut store) = created();
    store.insert(multisig(&[1])).expect("written");
    let blocker = place.file.with_file_name("keys.godwit.unfinished");
    fs::create_dir(&blocker).expect("a folder");
    let mnemonic = Mnemonic::generate(12).expect("memory");
    let words = Some(Words { mnemonic, with_passphrase: false });
    assert!(store.insert(Entry { words, ..multisig(&[2]) }).is_err());
    assert_eq!(signers(&store), [true, false, false]);
    assert!(store.entries()[0].words.is_none());
}

#[test]
fn words_with_a_passphrase_go_out_with_the_key() {
    let (_place, mut store) = created();
    for (number, with_passphrase) in [(1, true), (2, false)] {
        let mnemonic = Mnemonic::generate(12).expect("memory");
        let mut expected =
            mnemonic.text().expose_secret(|text| Declassified(format!("{text}\n"))).0;
        let words = Some(Words { mnemonic, with_passphrase });
        let id = store.insert(Entry { words, ..entry(number) }).expect("written");
        if with_passphrase {
            let xprv = root(number).to_base58().expect("memory");
            expected += &xprv.expose_secret(|text| Declassified(format!("{text}\n"))).0;
        }
        assert_eq!(text_of(&store, id), expected);
    }
}

/// Imports each line of an export as `keys import` does a descriptor.
fn imported_again(text: &str) -> Vec<String> {
    let lines = text.lines().flat_map(|line| {
        let secret = passphrase(line);
        let split = split_private_descriptor(SecretSlice::from(&secret), NetworkKind::Test);
        split.unwrap_or_else(|error| panic!("{line}: {error}")).descriptors
    });
    lines.map(|public| public.text).collect()
}

#[test]
fn exported_descriptors_come_back_as_they_were() {
    let (_place, mut store) = created();
    let base58 = |key: &ExtendedPrivateKey| {
        key.to_base58().expect("memory").expose_secret(|text| Declassified(text.to_owned())).0
    };
    let (a, b) = (base58(&root(1)), base58(&root(2).derive(path("m/1h").as_ref()).expect("a key")));
    let xpub = root(3).xpub().expect("memory");
    let single = |compressed| {
        let key = root(4).private_key().expect("memory");
        let text = crate::wif::to_wif(&key, NetworkKind::Test, compressed).expect("memory");
        text.expose_secret(|text| Declassified(text.to_owned())).0
    };
    let (wif, long) = (single(true), single(false));
    for text in [
        format!("wpkh({a}/84h/1h/0h/<0;1>/*)"),
        format!("wpkh([00112233/84h/1h]{b}/0/*)"),
        format!("wpkh([00112233/84h/1h]{b}/0h/7/*)"),
        format!("wsh(multi(2,[00112233/4h]{b}/5h/6,{xpub}/0,[deadbeef]{wif},{a}/0))"),
        format!("tr({a}/86h/1h/0h/0/*,{{pk({wif}),pk([00112233]{b}/1h/*)}})"),
        format!("sh(pkh({long}))"),
        format!("wpkh({a}/0h/*h)"),
        format!("pkh({a})"),
    ] {
        let secret = passphrase(&text);
        let split = split_private_descriptor(SecretSlice::from(&secret), NetworkKind::Test);
        let split = split.expect("a descriptor");
        let same: Vec<_> = split.descriptors.into_iter().map(|it| it.text).collect();
        let descriptors = same.iter().cloned().map(EntryDescriptor::new).collect();
        let id = store.insert(Entry { descriptors, keys: split.keys, ..entry(1) });
        let out = text_of(&store, id.expect("written"));
        assert_eq!(imported_again(&out), same, "{text}");
        // But for the numbers in brackets, it is what was typed.
        let typed = out.lines().next().and_then(|line| line.split('#').next());
        assert_eq!(typed, Some(&text.replace("<0;1>", "0")[..]));
    }
}

#[test]
fn a_key_of_no_descriptor_goes_out_with_its_origin() {
    let (_place, mut store) = created();
    let origin = Some((Fingerprint::from([0xab; 4]), path("m/48h/1")));
    let keys = vec![StoredKey::Extended { key: root(1), origin }];
    let id = store.insert(Entry { keys, ..entry(1) }).expect("written");
    let text = text_of(&store, id);
    assert!(text.starts_with("[abababab/48h/1]tprv") && text.lines().count() == 1, "{text}");
}

#[test]
fn a_change_that_may_not_last_is_told_and_kept() {
    let (place, mut store) = created();
    let first = store.insert(entry(1)).expect("written");
    let not_durable = |outcome: Result<(), StoreError>| {
        assert!(matches!(outcome, Err(StoreError::NotDurable(..))), "{outcome:?}");
    };
    FAILING_SYNC.set(true);
    not_durable(store.insert(entry(2)).map(|_| ()));
    not_durable(store.insert(multisig(&[1])).map(|_| ()));
    not_durable(store.insert(multisig(&[2])).map(|_| ()));
    not_durable(store.remove(first).map(drop));
    not_durable(store.change_passphrase(&passphrase("new"), small()));
    let new = place.file.with_file_name("new");
    not_durable(KeyStore::create(&new, &passphrase("right"), small()).map(|_| ()));
    FAILING_SYNC.set(false);
    assert!(new.exists());
    let again = KeyStore::open(&place.file, &passphrase("new")).expect("the new passphrase");
    for store in [&store, &again] {
        assert_eq!(labels(store), ["number 2", "number 1"]);
        assert_eq!(signers(store), [true, true, false]);
    }
    store.insert(entry(3)).expect("the key in memory is that of the file");
}

#[test]
fn a_pipe_is_no_key_file_and_makes_nobody_wait() {
    let (place, _store) = created();
    fs::remove_file(&place.file).expect("there");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &place.file, kind, mode, 0).expect("a pipe");
    let error = KeyStore::open(&place.file, &passphrase("right")).map(|_| ());
    assert!(matches!(error, Err(StoreError::Content(_, KeyFileError::NotAKeyFile))), "{error:?}");
}

#[test]
fn a_file_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        godwit_testdata::skip("only the superuser gives files away");
        return;
    }
    let (place, mut store) = created();
    std::os::unix::fs::chown(&place.file, Some(65_534), None).expect("ours");
    let error = KeyStore::open(&place.file, &passphrase("right")).map(|_| ());
    assert!(matches!(error, Err(StoreError::Owner(_, 65_534))), "{error:?}");
    assert!(matches!(store.insert(entry(1)), Err(StoreError::Owner(..))));
}

#[test]
fn a_file_is_made_with_its_first_entry_or_not_at_all() {
    let place = place();
    for (bad, error) in [
        (Entry { label: "\u{7}".to_owned(), ..entry(1) }, "Label"),
        (Entry { descriptors: Vec::new(), ..entry(1) }, "NoDescriptors"),
    ] {
        let refused = KeyStore::create_with(&place.file, &passphrase("right"), small(), bad);
        assert_eq!(format!("{:?}", refused.map(|_| ()).expect_err("it is none")), error);
        assert!(!place.file.exists());
    }
    let made = KeyStore::create_with(&place.file, &passphrase("right"), small(), entry(1));
    let (store, id) = made.expect("written");
    assert_eq!(id, entry(1).id());
    assert_eq!(store.mark().map(|mark| mark.generation), Some(1), "one write");
    assert_eq!(labels(&reopened(&place)), ["number 1"]);
}

#[test]
fn what_is_removed_is_what_was_seen() {
    let (place, mut store) = created();
    let id = store.insert(multisig(&[1])).expect("written");
    let other = store.insert(entry(2)).expect("written");
    let mut seeing = reopened(&place);
    // Another process adds a key.
    store.insert(multisig(&[2])).expect("another key");
    assert!(matches!(seeing.remove(id), Err(StoreError::Changed(changed)) if changed == id));
    assert_eq!(seeing.entries().len(), 2);
    // What it sees now is removed, as is what others' changes leave as it was.
    let mut late = reopened(&place);
    store.insert(entry(3)).expect("written");
    late.remove(other).expect("it is the same");
    seeing.remove(id).expect("it was seen meanwhile");
    assert_eq!(labels(&reopened(&place)), ["number 3"]);
}

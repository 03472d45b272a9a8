use std::str::FromStr;

use godwit_secret::{SecretBytes, SecretString};

use super::*;
use crate::accounts::account_keys;
use crate::entry::{Entry, EntryDescriptor};
use crate::extended_key::ExtendedPrivateKey;
use crate::kdf::KdfParameters;
use crate::psbt::OwnScripts;
use crate::stored_key::StoredKey;

fn root(number: u8) -> ExtendedPrivateKey {
    let seed = SecretBytes::from_plain_and_wipe(&mut [number; 32]).expect("memory");
    ExtendedPrivateKey::from_seed(&seed, NetworkKind::Test).expect("valid")
}

/// The key of a cosigner, for `wsh`.
fn cosigner(number: u8) -> String {
    account_keys(&root(number), None, 0).expect("memory")[4].key.clone()
}

fn entry(keys: Vec<StoredKey>, descriptors: &[String]) -> Entry {
    Entry {
        label: String::new(),
        created: 0,
        network: NetworkKind::Test,
        descriptors: descriptors.iter().cloned().map(EntryDescriptor::new).collect(),
        keys,
        words: None,
    }
}

/// A file with the key of the first root, and entries of these descriptors, which are watched.
fn store(watched: &[&[String]]) -> (tempfile::TempDir, KeyStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let passphrase = SecretString::from_plain_and_wipe(&mut "pass".to_owned()).expect("memory");
    let parameters = KdfParameters::new(8, 1, 1).expect("within limits");
    let path = folder.path().join("keys.godwit");
    let mut store = KeyStore::create(&path, &passphrase, parameters).expect("new");
    let keys = vec![StoredKey::Extended { key: root(1), origin: None }];
    store.insert(entry(keys, &["wpkh(0)".to_owned()])).expect("written");
    for descriptors in watched {
        store.insert(entry(Vec::new(), descriptors)).expect("written");
    }
    (folder, store)
}

fn shared(keys: &[&str], branch: u8) -> String {
    let keys: Vec<String> = keys.iter().map(|key| format!("{key}/{branch}/*")).collect();
    format!("wsh(sortedmulti(2,{}))", keys.join(","))
}

#[test]
fn each_key_of_a_descriptor_has_a_standing() {
    let (_folder, store) = store(&[]);
    let (ours, theirs) = (cosigner(1), cosigner(2));
    let fingerprint = root(1).fingerprint().expect("memory");
    // Theirs behind our origin, and ours at another path.
    let false_origin =
        format!("[{fingerprint}/48h/1h/0h/2h]{}", theirs.split(']').nth(1).expect("a key"));
    let moved = ours.replace("/0h/2h]", "/1h/2h]");
    let bare = ours.split(']').nth(1).expect("a key");
    for (key, expected) in [
        (ours.as_str(), Standing::Ours),
        (theirs.as_str(), Standing::Cosigner),
        (false_origin.as_str(), Standing::Misplaced),
        (moved.as_str(), Standing::Misplaced),
        // Nothing says that it is ours.
        (bare, Standing::Cosigner),
    ] {
        let third = cosigner(3);
        for text in [
            shared(&[key, &third], 0),
            format!("tr({third}/0/*,pk({key}/1/*))"),
            format!("tr({key}/0/7,pk({third}/1/*))"),
        ] {
            let keys = standings(&store, NetworkKind::Test, &text).expect("memory");
            let of = |wanted: &str| {
                let found = keys.iter().find(|one| one.key.starts_with(wanted));
                found.unwrap_or_else(|| panic!("{wanted} in {keys:?}")).standing
            };
            assert_eq!((of(key), of(&third)), (expected, Standing::Cosigner), "{text}");
        }
    }
    assert_eq!(
        standings(&store, NetworkKind::Main, &shared(&[&ours, &theirs], 0)).expect("memory")[0]
            .standing,
        Standing::Cosigner
    );
    assert_eq!(standings(&store, NetworkKind::Test, "nothing"), Ok(Vec::new()));
}

#[test]
fn what_is_watched_is_ours_when_a_key_of_ours_is_in_it() {
    let (ours, theirs) = (cosigner(1), cosigner(2));
    let third = cosigner(3);
    let with_ours = [shared(&[&ours, &theirs], 0), shared(&[&ours, &theirs], 1)];
    let without = [shared(&[&third, &theirs], 0), shared(&[&third, &theirs], 1)];
    // Beside a key of ours, one that says that it is ours and is not.
    let fingerprint = root(1).fingerprint().expect("memory");
    let false_origin =
        format!("[{fingerprint}/48h/1h/0h/2h]{}", third.split(']').nth(1).expect("a key"));
    let misplaced = [0, 1].map(|branch| shared(&[&ours, &false_origin], branch));
    let (_folder, store) = store(&[&with_ours, &without, &misplaced]);
    let mut own = OwnScripts::of(&store, NetworkKind::Test).expect("memory");
    let path = bitcoin::bip32::DerivationPath::from_str("48h/1h/0h/2h/1/5").expect("a path");
    let source = (root(1).fingerprint().expect("memory"), path);
    for (descriptors, expected) in [(&with_ours, true), (&without, false), (&misplaced, false)] {
        let (_, script) = crate::scripts_of(&descriptors[1], 5..=5).next().expect("one");
        let found = own.find(&script, [&source]);
        assert_eq!(found.is_some(), expected, "{descriptors:?}");
        if let Some(found) = found {
            assert_eq!((found.place, found.index, found.shared), (2, Some(5), true));
        }
    }
    let watched = store.entries()[2].id();
    let nowhere = std::fs::File::options().write(true).open("/dev/null").expect("it is there");
    let refused = store.write_secrets_to(watched, std::os::fd::AsFd::as_fd(&nowhere));
    assert!(matches!(refused, Err(crate::StoreError::NoSecrets(id)) if id == watched));
}

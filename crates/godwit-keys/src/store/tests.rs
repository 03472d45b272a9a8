use std::fs::Permissions;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::str::FromStr;
use std::thread;

use bitcoin::bip32::{DerivationPath, Fingerprint};
use godwit_secret::{Declassified, SecretBytes};
use tempfile::TempDir;

use super::*;
use crate::entry::{EntryDescriptor, Words};
use crate::extended_key::ExtendedPrivateKey;
use crate::mnemonic::Mnemonic;

mod changes;
mod lookup;

const TPRV_ACCOUNT: &str = "m/84h/1h/0h";

fn passphrase(plain: &str) -> SecretString {
    SecretString::from_plain_and_wipe(&mut plain.to_owned()).expect("memory")
}

fn small() -> KdfParameters {
    KdfParameters::new(8, 1, 1).expect("within limits")
}

fn path(text: &str) -> DerivationPath {
    DerivationPath::from_str(text).expect("a path")
}

fn root(number: u8) -> ExtendedPrivateKey {
    let seed = SecretBytes::from_plain_and_wipe(&mut [number; 32]).expect("memory");
    ExtendedPrivateKey::from_seed(&seed, NetworkKind::Test).expect("valid")
}

fn entry(number: u8) -> Entry {
    Entry {
        label: format!("number {number}"),
        created: u64::from(number),
        network: NetworkKind::Test,
        descriptors: vec![EntryDescriptor::new(format!("wpkh({number}/0/*)"))],
        keys: vec![StoredKey::Extended { key: root(number), origin: None }],
        words: None,
    }
}

struct Place {
    _folder: TempDir,
    file: PathBuf,
}

fn place() -> Place {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.godwit");
    Place { _folder: folder, file }
}

fn created() -> (Place, KeyStore) {
    let place = place();
    let store = KeyStore::create(&place.file, &passphrase("right"), small()).expect("created");
    (place, store)
}

fn reopened(place: &Place) -> KeyStore {
    KeyStore::open(&place.file, &passphrase("right")).expect("opened")
}

/// What an export of the entry writes.
fn text_of(store: &KeyStore, id: KeyId) -> String {
    let mut file = tempfile::tempfile().expect("a file");
    store.write_secrets_to(id, file.as_fd()).expect("written");
    let mut text = String::new();
    io::Seek::rewind(&mut file).expect("a file");
    file.read_to_string(&mut text).expect("text");
    text
}

fn labels(store: &KeyStore) -> Vec<&str> {
    store.entries().iter().map(|entry| entry.label.as_str()).collect()
}

#[test]
fn what_is_put_in_is_there_when_it_is_opened_again() {
    let (place, mut store) = created();
    assert!(reopened(&place).entries().is_empty());
    let first = store.insert(entry(1)).expect("written");
    let second = store.insert(entry(2)).expect("written");
    assert_eq!(labels(&reopened(&place)), ["number 1", "number 2"]);
    store.remove(first).expect("written");
    assert_eq!(labels(&store), ["number 2"]);
    let mut again = reopened(&place);
    assert_eq!(labels(&again), ["number 2"]);
    assert!(matches!(again.remove(first), Err(StoreError::Unknown(id)) if id == first));
    again.remove(second).expect("written");
    assert!(reopened(&place).entries().is_empty());
}

#[test]
fn what_is_no_entry_is_refused_and_nothing_is_written() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let before = fs::read(&place.file).expect("there");
    let same = Entry { label: "other".to_owned(), ..entry(1) };
    assert!(matches!(store.insert(same), Err(StoreError::Duplicate(_))));
    let bad = Entry { label: "\u{7}".to_owned(), ..entry(2) };
    assert!(matches!(store.insert(bad), Err(StoreError::Label)));
    let bare = Entry { descriptors: Vec::new(), ..entry(2) };
    assert!(matches!(store.insert(bare), Err(StoreError::NoDescriptors)));
    assert_eq!(fs::read(&place.file).expect("there"), before);
    assert_eq!(store.entries().len(), 1);
}

#[test]
fn a_wrong_passphrase_opens_nothing_and_loses_nothing() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let before = fs::read(&place.file).expect("there");
    let error = KeyStore::open(&place.file, &passphrase("wrong")).map(|_| ()).expect_err("wrong");
    assert!(matches!(error, StoreError::Content(_, KeyFileError::WrongPassphrase)));
    assert_eq!(fs::read(&place.file).expect("there"), before);
}

#[test]
fn a_new_passphrase_is_the_only_one() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let mut other = reopened(&place);
    assert!(matches!(
        store.change_passphrase(&passphrase(""), small()),
        Err(StoreError::EmptyPassphrase)
    ));
    store.change_passphrase(&passphrase("new"), small()).expect("written");
    assert!(KeyStore::open(&place.file, &passphrase("right")).is_err());
    store.insert(entry(2)).expect("written");
    let store = KeyStore::open(&place.file, &passphrase("new")).expect("opened");
    assert_eq!(labels(&store), ["number 1", "number 2"]);
    assert!(matches!(other.insert(entry(3)), Err(StoreError::PassphraseChanged(_))));
    assert_eq!(labels(&other), ["number 1"]);
}

#[test]
fn nothing_is_made_over_what_is_there() {
    let (place, _store) = created();
    let again = KeyStore::create(&place.file, &passphrase("right"), small()).map(|_| ());
    assert!(matches!(again, Err(StoreError::Exists(_))));
    let dangling = place.file.with_file_name("dangling");
    symlink("/nowhere", &dangling).expect("a link");
    let again = KeyStore::create(&dangling, &passphrase("right"), small()).map(|_| ());
    assert!(matches!(again, Err(StoreError::Exists(_))));
    let empty = KeyStore::create(&place.file.with_file_name("new"), &passphrase(""), small());
    assert!(matches!(empty.map(|_| ()), Err(StoreError::EmptyPassphrase)));
    let missing = KeyStore::open(&place.file.with_file_name("none"), &passphrase("x"));
    let Err(StoreError::File { action: FileAction::Read, error, .. }) = missing else {
        panic!("there is no such file")
    };
    assert_eq!(error.kind(), io::ErrorKind::NotFound);
}

#[test]
fn the_owner_alone_may_read_it() {
    let (place, mut store) = created();
    let mode = |file: &Path| fs::metadata(file).expect("there").mode() & 0o7777;
    assert_eq!(mode(&place.file), 0o600);
    store.insert(entry(1)).expect("written");
    assert_eq!(mode(&place.file), 0o600);
    assert_eq!(mode(&place.file.with_file_name("keys.godwit.lock")), 0o600);
    for refused in [0o640, 0o604, 0o620, 0o602, 0o610, 0o644, 0o777] {
        fs::set_permissions(&place.file, Permissions::from_mode(refused)).expect("changed");
        let error = KeyStore::open(&place.file, &passphrase("right")).map(|_| ());
        assert!(matches!(error, Err(StoreError::Permissions(_, mode)) if mode == refused));
        assert!(matches!(store.insert(entry(2)), Err(StoreError::Permissions(..))));
    }
    for good in [0o600, 0o400] {
        fs::set_permissions(&place.file, Permissions::from_mode(good)).expect("changed");
        assert_eq!(reopened(&place).entries().len(), 1);
    }
}

#[test]
fn a_link_stays_a_link() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let link = place.file.with_file_name("link");
    symlink(&place.file, &link).expect("a link");
    let mut linked = KeyStore::open(&link, &passphrase("right")).expect("opened");
    linked.insert(entry(2)).expect("written");
    assert!(fs::symlink_metadata(&link).expect("there").is_symlink());
    assert_eq!(reopened(&place).entries().len(), 2);
}

#[test]
fn what_a_killed_writer_left_is_in_nobodys_way() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    let left = place.file.with_file_name("keys.godwit.unfinished");
    fs::write(&left, b"half of a fi").expect("written");
    assert_eq!(reopened(&place).entries().len(), 1, "the old file is whole");
    store.insert(entry(2)).expect("written");
    assert!(!left.exists());
    assert_eq!(reopened(&place).entries().len(), 2);
}

#[test]
fn a_key_file_is_not_called_as_the_files_beside_another() {
    let (place, mut store) = created();
    for ending in [".lock", ".unfinished"] {
        let path = place.file.with_file_name(format!("keys.godwit{ending}"));
        let refused = KeyStore::create(&path, &passphrase("right"), small()).map(|_| ());
        assert!(matches!(refused, Err(StoreError::ReservedName(_))), "{refused:?}");
    }
    store.insert(entry(1)).expect("written");
    for name in ["lock", "keys.new", "unfinished"] {
        let path = place.file.with_file_name(name);
        KeyStore::create(&path, &passphrase("right"), small()).expect("written");
        store.insert(entry(2)).map(|id| store.remove(id)).expect("written").expect("written");
        assert!(path.exists(), "{name}");
    }
}

#[test]
fn a_folder_that_cannot_be_written_to_changes_nothing() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("written");
    // In the place of the temporary file, so that it holds for the superuser too.
    let blocker = place.file.with_file_name("keys.godwit.unfinished");
    fs::create_dir(&blocker).expect("a folder");
    let error = store.insert(entry(2)).expect_err("blocked");
    assert!(matches!(error, StoreError::File { action: FileAction::Write, .. }), "{error}");
    assert_eq!(labels(&store), ["number 1"]);
    let id = store.entries()[0].id();
    assert!(store.remove(id).is_err());
    assert_eq!(labels(&store), ["number 1"]);
    assert!(store.change_passphrase(&passphrase("new"), small()).is_err());
    fs::remove_dir(&blocker).expect("empty");
    store.insert(entry(2)).expect("written");
    assert_eq!(labels(&reopened(&place)), ["number 1", "number 2"]);
}

#[test]
fn writers_at_once_lose_nothing_of_each_other() {
    let (place, _store) = created();
    thread::scope(|scope| {
        for writer in 0..4u8 {
            let place = &place;
            scope.spawn(move || {
                let mut store = reopened(place);
                for number in 0..8 {
                    store.insert(entry(1 + writer * 8 + number)).expect("written");
                }
            });
        }
    });
    let store = reopened(&place);
    assert_eq!(store.entries().len(), 32);
    let mut created: Vec<u64> = store.entries().iter().map(|entry| entry.created).collect();
    created.sort_unstable();
    assert_eq!(created, (1..=32).collect::<Vec<u64>>());
}

#[test]
fn secrets_go_out_as_text_one_a_line() {
    let (_place, mut store) = created();
    let single =
        |compressed| StoredKey::Single { key: root(5).private_key().expect("memory"), compressed };
    let extended = StoredKey::Extended { key: root(5), origin: None };
    let keys = vec![single(true), single(false), extended];
    let of_keys = store.insert(Entry { keys, ..entry(5) }).expect("written");
    let mnemonic = Mnemonic::generate(12).expect("memory");
    let expected_words = mnemonic.text().expose_secret(|text| Declassified(format!("{text}\n"))).0;
    let words = Some(Words { mnemonic, with_passphrase: false });
    let of_words = store.insert(Entry { words, ..entry(6) }).expect("written");

    assert_eq!(text_of(&store, of_words), expected_words);
    let number = root(5)
        .private_key()
        .expect("memory")
        .secret()
        .expose_secret(|number| Declassified(*number))
        .0;
    let library = bitcoin::PrivateKey::from_slice(&number, NetworkKind::Test).expect("in range");
    let uncompressed = bitcoin::PrivateKey { compressed: false, ..library };
    let xprv = bitcoin::bip32::Xpriv::new_master(NetworkKind::Test, &[5; 32]).expect("valid");
    assert_eq!(text_of(&store, of_keys), format!("{library}\n{uncompressed}\n{xprv}\n"));
    store.remove(of_words).expect("written");
    let file = tempfile::tempfile().expect("a file");
    let gone = store.write_secrets_to(of_words, file.as_fd());
    assert!(matches!(gone, Err(StoreError::Unknown(_))));
}

#[test]
fn the_old_file_stays_until_the_new_one_has_been_opened() {
    let (place, mut store) = created();
    store.insert(entry(1)).expect("inserted");
    let before = fs::read(&place.file).expect("it is there");
    // In the magic, the parameters, the nonce, the content and the checksum.
    for byte in [0, 12, 50, 80, before.len() - 1] {
        disk::FLIPPED_BIT.set(Some(8 * byte));
        let outcomes = [
            store.insert(entry(2)).map(|_| ()),
            store.remove(entry(1).id()).map(|_| ()),
            store.change_passphrase(&passphrase("new"), small()),
        ];
        disk::FLIPPED_BIT.set(None);
        for outcome in outcomes {
            assert!(matches!(outcome, Err(StoreError::NotReadBack(_))), "{byte}: {outcome:?}");
        }
        assert_eq!(fs::read(&place.file).expect("it is there"), before, "{byte}");
        assert_eq!(labels(&store), ["number 1"]);
        assert_eq!(labels(&reopened(&place)), ["number 1"]);
    }
    store.insert(entry(2)).expect("as ever");
    assert_eq!(labels(&reopened(&place)), ["number 1", "number 2"]);
}

#[test]
fn every_version_of_a_file_has_its_number() {
    let (place, mut store) = created();
    let first = store.mark().expect("it has one");
    assert_eq!(first.generation, 1);
    store.insert(entry(1)).expect("inserted");
    store.change_passphrase(&passphrase("new"), small()).expect("changed");
    store.remove(entry(1).id()).expect("removed");
    let last = Mark { generation: 4, ..first };
    assert_eq!(store.mark(), Some(last));
    let again = KeyStore::open(&place.file, &passphrase("new")).expect("opened");
    assert_eq!(again.mark(), Some(last));
    assert_ne!(created().1.mark().expect("it has one").id, first.id, "another file");
}

/// Made by the program before there were marks: BIP39's first vector, passphrase `pass`.
#[test]
fn a_file_of_the_first_version_is_read_and_gets_a_mark_when_it_is_written() {
    let place = place();
    let old = include_bytes!("tests/version1.godwit");
    fs::write(&place.file, old).expect("there is room");
    fs::set_permissions(&place.file, Permissions::from_mode(0o600)).expect("it is ours");
    let mut store = KeyStore::open(&place.file, &passphrase("pass")).expect("opened");
    assert_eq!((labels(&store), store.mark()), (vec!["of version 1"], None));
    let text = text_of(&store, store.entries()[0].id());
    assert_eq!(text, format!("{}about\n", "abandon ".repeat(11)));
    assert_eq!(fs::read(&place.file).expect("it is there"), old, "reading changes nothing");
    store.insert(entry(1)).expect("inserted");
    let again = KeyStore::open(&place.file, &passphrase("pass")).expect("opened");
    assert_eq!(labels(&again), ["of version 1", "number 1"]);
    assert_eq!(again.mark().map(|mark| mark.generation), Some(1));
    assert_eq!(text_of(&again, again.entries()[0].id()), text);
}

#[test]
fn a_file_of_the_second_version_is_read_and_knows_what_was_made_here() {
    let place = place();
    let old = include_bytes!("tests/version2.godwit");
    fs::write(&place.file, old).expect("there is room");
    fs::set_permissions(&place.file, Permissions::from_mode(0o600)).expect("it is ours");
    let mut store = KeyStore::open(&place.file, &passphrase("pass")).expect("opened");
    let mark = store.mark().expect("it has one");
    let uses = |store: &KeyStore| -> Vec<(String, bool, u32)> {
        let entries = store.entries().iter();
        let all = entries.flat_map(|entry| {
            assert_eq!(entry.descriptors.len(), 8);
            entry.descriptors.iter().map(|descriptor| {
                let made_here = descriptor.since == entry.created;
                assert!(made_here || descriptor.since == 0);
                (entry.label.clone(), made_here, descriptor.next_index)
            })
        });
        all.collect()
    };
    let before = uses(&store);
    let expected = [("of version 2", false), ("made here", true)];
    let expected =
        expected.iter().flat_map(|(label, made)| vec![((*label).to_owned(), *made, 0); 8]);
    assert_eq!(before, expected.collect::<Vec<_>>());
    store.insert(entry(1)).expect("inserted");
    store.remove(entry(1).id()).expect("removed");
    let again = KeyStore::open(&place.file, &passphrase("pass")).expect("opened");
    assert_eq!(uses(&again), before);
    let expected = Mark { generation: mark.generation + 2, ..mark };
    assert_eq!(again.mark(), Some(expected));
}

#[test]
fn the_later_next_index_is_kept() {
    let (place, mut store) = created();
    let at = |next_index| Entry {
        descriptors: vec![EntryDescriptor { next_index, ..entry(1).descriptors.remove(0) }],
        ..entry(1)
    };
    let id = store.insert(at(7)).expect("inserted");
    for (again, is_later) in [(7, false), (9, true), (9, false), (3, false)] {
        assert_eq!(store.insert(at(again)).is_ok(), is_later, "{again}");
        assert_eq!(next(&store, id), if again == 7 { 7 } else { 9 });
    }
    let reopened = KeyStore::open(&place.file, &passphrase("right")).expect("opened");
    assert_eq!(next(&reopened, id), 9);
}

#[test]
fn the_earlier_time_is_kept() {
    let (place, mut store) = created();
    let since = |since| Entry {
        descriptors: vec![EntryDescriptor { since, ..entry(1).descriptors.remove(0) }],
        ..entry(1)
    };
    let id = store.insert(since(500)).expect("inserted");
    for (again, kept) in [(500, 500), (700, 500), (300, 300), (400, 300), (0, 0), (300, 0)] {
        let before = store.entry(id).expect("it is there").descriptors[0].since;
        assert_eq!(store.insert(since(again)).is_ok(), kept != before, "{again}");
        let reopened = KeyStore::open(&place.file, &passphrase("right")).expect("opened");
        assert_eq!(reopened.entry(id).expect("it is there").descriptors[0].since, kept);
    }
}

fn next(store: &KeyStore, id: KeyId) -> u32 {
    store.entry(id).expect("it is there").descriptors[0].next_index
}

#[test]
fn a_lock_that_is_no_file_of_ours_holds_nobody_up() {
    let (place, mut store) = created();
    let lock = place.file.with_file_name("keys.godwit.lock");
    fs::remove_file(&lock).expect("it is there");
    let made = std::process::Command::new("mkfifo").arg(&lock).status().expect("mkfifo runs");
    assert!(made.success());
    let outcome = store.insert(entry(1)).map(|_| ());
    let locked =
        |error: &StoreError| matches!(error, StoreError::File { action: FileAction::Lock, .. });
    assert!(outcome.as_ref().is_err_and(locked), "{outcome:?}");
}

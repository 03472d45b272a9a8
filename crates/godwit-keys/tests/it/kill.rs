//! A writer that is killed at any moment. The test binary calls itself for the one test, and an
//! environment variable tells it that it is the writer.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use godwit_keys::{
    Entry, EntryDescriptor, ExtendedPrivateKey, KdfParameters, KeyStore, NetworkKind, StoredKey,
    account_descriptors,
};
use godwit_secret::{SecretBytes, SecretString};

const FILE: &str = "GODWIT_KEYS_FILE";
/// Runs of the writer.
const RUNS: u64 = 30;

fn passphrase() -> SecretString {
    SecretString::from_plain_and_wipe(&mut "right".to_owned()).expect("memory")
}

fn fresh_entry() -> Entry {
    let seed = SecretBytes::random(32).expect("memory");
    let key = ExtendedPrivateKey::from_seed(&seed, NetworkKind::Main).expect("valid");
    Entry {
        label: String::new(),
        created: 0,
        network: NetworkKind::Main,
        descriptors: account_descriptors(&key)
            .expect("memory")
            .into_iter()
            .map(EntryDescriptor::new)
            .collect(),
        keys: vec![StoredKey::Extended { key, origin: None }],
        words: None,
    }
}

/// Adds entries, and removes every second one, until it is killed.
fn write(file: &Path) -> ! {
    let mut store = KeyStore::open(file, &passphrase()).expect("whole");
    loop {
        let id = store.insert(fresh_entry()).expect("written");
        store.insert(fresh_entry()).expect("written");
        store.remove(id).expect("written");
    }
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    if let Some(file) = std::env::var_os(FILE) {
        write(&PathBuf::from(file));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("keys.godwit");
    let small = KdfParameters::new(8, 1, 1).expect("within limits");
    let mut entries = 0;
    let mut grown = 0;
    for run in 0..RUNS {
        if run % 10 == 0 {
            // A few entries again, so that each run writes often.
            drop(std::fs::remove_file(&file));
            KeyStore::create(&file, &passphrase(), small).expect("made");
            entries = 0;
        }
        let mut child = Command::new(std::env::current_exe().expect("a test binary has a path"))
            .args(["--exact", "kill::a_killed_writer_leaves_the_old_file_or_the_new_one"])
            .env(FILE, &file)
            .stdout(Stdio::null())
            .spawn()
            .expect("the test binary runs");
        thread::sleep(Duration::from_millis(20 + run * 7));
        child.kill().expect("it runs until it is killed");
        child.wait().expect("it was killed");
        let store = KeyStore::open(&file, &passphrase()).expect("whole");
        let now = store.entries().len();
        assert!(now >= entries, "{now} entries, {entries} before");
        grown += usize::from(now > entries);
        entries = now;
    }
    assert!(grown > 0, "the writers wrote something");
}

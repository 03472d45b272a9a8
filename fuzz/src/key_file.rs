//! Key files. Bytes that nobody sealed are refused; content that is sealed with the right passphrase,
//! and is whatever it is, is refused or is the same when it is written again.

use std::fs::File;
use std::os::fd::AsFd;
use std::sync::LazyLock;

use argon2::{Algorithm, Argon2, Block, Params, Version};
use bitcoin::hashes::{Hash, sha256};
use chacha20poly1305::{AeadInOut, KeyInit, XChaCha20Poly1305};
use godwit_keys::{KdfParameters, KeyStore};
use godwit_secret::SecretString;

use crate::folder;
use crate::input::Input;
use crate::memory::within;

const SALT: [u8; 16] = [9; 16];
const NONCE: [u8; 24] = [7; 24];
const PASSPHRASE: &str = "a passphrase";
/// Memory, passes, lanes: the least.
const PARAMETERS: [u32; 3] = [8, 1, 1];
const HEADER: usize = 68;
const CHECKSUM: usize = 32;
/// Bytes that opening holds for each byte of a file, beside the locked ones.
const FACTOR: usize = 64;

/// What seals under that passphrase.
static KEY: LazyLock<[u8; 32]> = LazyLock::new(|| {
    let [memory, passes, lanes] = PARAMETERS;
    let parameters = Params::new(memory, passes, lanes, Some(32)).expect("the least");
    let mut blocks = vec![Block::new(); parameters.block_count()];
    let argon2 = Argon2::new(Algorithm::Argon2id, Version::V0x13, parameters);
    let mut key = [0; 32];
    argon2
        .hash_password_into_with_memory(PASSPHRASE.as_bytes(), &SALT, &mut key, &mut blocks[..])
        .expect("enough memory");
    key
});

/// Bit 0 of the first byte: the rest is the content, which the harness seals; bit 1: in version 2, whose
/// content begins with a mark; bits 1 and 2: in version 3, which knows the use of each descriptor.
/// Otherwise the rest is a file; bit 1: whose length and checksum the harness mends.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    let flags = input.u8();
    if flags & 1 != 0 {
        let version = match flags & 6 {
            2 => 2,
            6 => 3,
            _ => 1,
        };
        return check_content(input.rest(), version);
    }
    let mut file = input.rest().to_vec();
    if flags & 2 != 0 {
        mend(&mut file);
    }
    assert!(open(&file).is_none(), "nobody sealed it");
}

/// Gives a file the length and the checksum that it should have, and parameters that cost little.
fn mend(file: &mut Vec<u8>) {
    if let Some(size) = file.len().checked_sub(HEADER + 16) {
        file[64..HEADER].copy_from_slice(&(size as u32).to_le_bytes());
        file[14..16].fill(0);
        file[18..20].fill(0);
    }
    let checksum = sha256::Hash::hash(file);
    file.extend(checksum.to_byte_array());
}

fn passphrase() -> SecretString {
    SecretString::from_plain_and_wipe(&mut PASSPHRASE.to_owned()).expect("locked memory")
}

fn open(file: &[u8]) -> Option<KeyStore> {
    let path = folder::file("keys", file);
    let working_memory = 64 << 20;
    let allowed = working_memory + FACTOR * file.len();
    within(allowed, || KeyStore::open(&path, &passphrase())).ok()
}

fn sealed(content: &[u8], version: u8) -> Vec<u8> {
    let mut file = b"godwkeys\0\0\0\0".to_vec();
    file[8] = version;
    PARAMETERS.iter().for_each(|number| file.extend(number.to_le_bytes()));
    file.extend(SALT);
    file.extend(NONCE);
    file.extend((content.len() as u32).to_le_bytes());
    let mut sealed = content.to_vec();
    let cipher = XChaCha20Poly1305::new((&*KEY).into());
    let tag = cipher.encrypt_inout_detached(&NONCE.into(), &file, sealed.as_mut_slice().into());
    file.extend(sealed);
    file.extend(tag.expect("short enough"));
    let checksum = sha256::Hash::hash(&file);
    file.extend(checksum.to_byte_array());
    assert!(file.len() == HEADER + content.len() + 16 + CHECKSUM);
    file
}

fn check_content(content: &[u8], version: u8) {
    let Some(mut store) = open(&sealed(content, version)) else { return };
    let nowhere = File::options().write(true).open("/dev/null").expect("every system has it");
    let described = |store: &KeyStore| -> Vec<_> {
        let entries = store.entries().iter();
        entries
            .map(|entry| {
                let exported = store.write_secrets_to(entry.id(), nowhere.as_fd()).is_ok();
                let descriptors = entry.descriptors.clone();
                let words = entry.words.as_ref().map(|words| words.with_passphrase);
                let (label, created) = (entry.label.clone(), entry.created);
                (label, created, entry.network, descriptors, entry.keys.len(), words, exported)
            })
            .collect()
    };
    let before = described(&store);
    let [memory, passes, lanes] = PARAMETERS;
    let parameters = KdfParameters::new(memory, passes, lanes).expect("the least");
    // Writes everything again.
    store.change_passphrase(&passphrase(), parameters).expect("the disk does not fail");
    drop(store);
    let again = KeyStore::open(&folder::path("keys"), &passphrase()).expect("it was just written");
    assert_eq!(described(&again), before);
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let text = |text: &[u8]| [&[text.len() as u8][..], text].concat();
    let descriptor = b"wpkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)";
    let words = [&b"abandon ".repeat(11)[..], b"about"].concat();
    let single = [&[2][..], &[3; 32]].concat();
    let extended = [&[4, 0x35, 0x83, 0x94, 0][..], &[0; 8], &[5; 32], &[0], &[6; 32]].concat();
    let origin = [&[1, 1, 2, 3, 4, 2][..], &84u32.to_le_bytes(), &(1u32 << 31).to_le_bytes()];
    let origin = [&[1][..], &extended, &origin.concat()[1..]].concat();
    let entry_with = |use_of: &[u8], words: &[u8], keys: &[&[u8]]| {
        let time = 1_700_000_000u64.to_le_bytes();
        let keys = [&[keys.len() as u8][..], &keys.concat()].concat();
        let texts = [text(b"label"), vec![1], text(descriptor), use_of.to_vec()].concat();
        [&time[..], &[1], &texts, words, &keys].concat()
    };
    let entry = |words: &[u8], keys: &[&[u8]]| entry_with(&[], words, keys);
    let used = [&[1][..], &entry_with(&[7; 12], &[0], &[&single])].concat();
    let first = entry(&[0], &[&single, &[&[0][..], &extended].concat(), &origin]);
    let second = entry(&[&[1][..], &text(&words)].concat(), &[&[&[3][..], &[8; 32]].concat()]);
    let content = [&[2][..], &first, &second].concat();
    let file = sealed(&content, 1);
    vec![
        [&[1][..], &content].concat(),
        [&[3][..], &[7; 24], &content].concat(),
        [&[7][..], &[7; 24], &used].concat(),
        [&[1, 1][..], &first].concat(),
        vec![1, 0],
        [&[0][..], &file[..file.len() - 1]].concat(),
        [&[2][..], &file[..file.len() - CHECKSUM - 1]].concat(),
    ]
}

//! Wallets written as Bitcoin Core would, so that a checkout without the shared data has some.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::str::FromStr;

use bitcoin::bip32::{Xpriv, Xpub};
use bitcoin::key::Secp256k1;
use bitcoin::{NetworkKind, PrivateKey, PublicKey};
use cbc::Encryptor;
use cbc::cipher::block_padding::Pkcs7;
use cbc::cipher::{BlockModeEncrypt, KeyIvInit};
use rusqlite::{Connection, params};
use sha2::{Digest, Sha256, Sha512};

use super::*;
use crate::descriptors::split::append_checksum;
use crate::descriptors::split_private_descriptor;

/// A wallet to be written. In descriptors, `@0` and `@1` are extended keys, `@2` and `@3` single ones
/// (`@3` for Taproot), `@4` an uncompressed one; `!` marks hardened steps.
pub(super) struct Shape {
    pub(super) descriptors: Vec<&'static str>,
    pub(super) passphrase: Option<&'static str>,
    /// Other records, of up to 3000 bytes.
    pub(super) filler: usize,
    pub(super) page_size: u32,
    pub(super) flags: u64,
    pub(super) rounds: u32,
    pub(super) magic: [u8; 4],
    /// Whether private keys are written.
    pub(super) keys: bool,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            descriptors: vec![
                "wpkh(@0/84!/1!/0!/0/*)",
                "tr(@1/86!/1!/0!/1/*,and_v(v:pk(@0/7!),older(9)))",
                "tr(@3)",
                "pkh(@4)",
                "wsh(multi(1,@2,@0/0/1,[00112233/4!]@1/5!/6))",
            ],
            passphrase: None,
            filler: 0,
            page_size: 4096,
            flags: FLAG_DESCRIPTORS,
            rounds: 25,
            magic: Network::Regtest.magic().to_bytes(),
            keys: true,
        }
    }
}

/// The texts that a placeholder stands for.
struct Key {
    private: String,
    public: String,
    point: PublicKey,
    number: [u8; 32],
}

fn keys() -> Vec<Key> {
    let curve = Secp256k1::new();
    let mut keys = Vec::new();
    for seed in [[1; 32], [2; 32]] {
        let private = Xpriv::new_master(NetworkKind::Test, &seed).expect("a key");
        let public = Xpub::from_priv(&curve, &private);
        keys.push(Key {
            private: private.to_string(),
            public: public.to_string(),
            point: PublicKey::new(public.public_key),
            number: private.private_key.secret_bytes(),
        });
    }
    for (number, compressed) in [([3; 32], true), ([4; 32], true), ([5; 32], false)] {
        let mut private = PrivateKey::from_slice(&number, NetworkKind::Test).expect("a key");
        private.compressed = compressed;
        let point = private.public_key(&curve);
        let public = match number[0] {
            4 => point.inner.x_only_public_key().0.to_string(),
            _ => point.to_string(),
        };
        keys.push(Key { private: private.to_wif(), public, point, number });
    }
    keys
}

/// A descriptor with its placeholders replaced.
fn filled(shape: &str, marker: &str, text: impl Fn(&Key) -> String) -> String {
    let mut filled = shape.replace('!', marker);
    for (n, key) in keys().iter().enumerate() {
        filled = filled.replace(&format!("@{n}"), &text(key));
    }
    append_checksum(&mut filled);
    filled
}

pub(super) fn private(shape: &str) -> String {
    filled(shape, "h", |key| key.private.clone())
}

fn sized(bytes: &[u8]) -> Vec<u8> {
    let mut out = godwit_stream::DataStream::new();
    out.write_compact_size(bytes.len() as u64);
    out.write(bytes);
    out.as_slice().to_vec()
}

fn double_hash(parts: &[&[u8]]) -> [u8; 32] {
    Sha256::digest(Sha256::digest(parts.concat())).into()
}

fn encrypt(key: &[u8], vector: &[u8], plain: &[u8; 32]) -> Vec<u8> {
    let cipher = Encryptor::<aes::Aes256>::new_from_slices(key, vector).expect("their sizes");
    let mut buffer = [0; 48];
    buffer[..32].copy_from_slice(plain);
    cipher.encrypt_padded::<Pkcs7>(&mut buffer, 32).expect("room for the padding").to_vec()
}

fn der(key: &Key) -> Vec<u8> {
    let (head, size): (&[u8], usize) = match key.point.compressed {
        true => (&[0x30, 0x81, 0xd3, 2, 1, 1, 4, 0x20], 214),
        false => (&[0x30, 0x82, 0x01, 0x13, 2, 1, 1, 4, 0x20], 279),
    };
    let mut der = [head, &key.number].concat();
    der.resize(size, 0xa0);
    der
}

/// Keys and values of all records.
fn records(shape: &Shape) -> Vec<(Vec<u8>, Vec<u8>)> {
    const MASTER: [u8; 32] = [9; 32];
    const SALT: [u8; 8] = [7; 8];
    let name = |name: &str, rest: &[u8]| [&sized(name.as_bytes())[..], rest].concat();
    let mut records = vec![(name("flags", &[]), shape.flags.to_le_bytes().to_vec())];
    if let Some(passphrase) = shape.passphrase {
        let mut hash = Sha512::digest([passphrase.as_bytes(), &SALT].concat());
        for _ in 1..shape.rounds {
            hash = Sha512::digest(hash);
        }
        let numbers = [0_u32.to_le_bytes(), shape.rounds.to_le_bytes()].concat();
        let encrypted = sized(&encrypt(&hash[..32], &hash[32..48], &MASTER));
        let value = [encrypted, sized(&SALT), numbers, sized(&[])].concat();
        records.push((name("mkey", &1_u32.to_le_bytes()), value));
    }
    for descriptor in &shape.descriptors {
        let text = filled(descriptor, "h", |key| key.public.clone());
        let compatible = filled(descriptor, "'", |key| key.public.clone());
        let id: [u8; 32] = Sha256::digest(compatible).into();
        let numbers = [
            1_700_000_000_u64.to_le_bytes().to_vec(),
            [3_i32, 0, 1003].map(i32::to_le_bytes).concat(),
        ];
        records.push((
            name("walletdescriptor", &id),
            [sized(text.as_bytes()), numbers.concat()].concat(),
        ));
        if descriptor.starts_with("wpkh") {
            records.push((name("activeinternalspk", &[2]), id.to_vec()));
        }
        for (n, key) in keys().iter().enumerate() {
            if !shape.keys || !descriptor.contains(&format!("@{n}")) {
                continue;
            }
            let point = key.point.to_bytes();
            let rest = [&id[..], &sized(&point)].concat();
            records.push(match shape.passphrase {
                Some(_) => {
                    let vector = &double_hash(&[&point])[..16];
                    let value = sized(&encrypt(&MASTER, vector, &key.number));
                    (name("walletdescriptorckey", &rest), value)
                }
                None => {
                    let der = der(key);
                    let value = [sized(&der), double_hash(&[&point, &der]).to_vec()].concat();
                    (name("walletdescriptorkey", &rest), value)
                }
            });
        }
    }
    for n in 0..shape.filler {
        let size = n * 7919 % 3000;
        records.insert(n * 31 % records.len(), (name("tx", &n.to_le_bytes()), vec![n as u8; size]));
    }
    records
}

/// Writes a wallet and returns its path.
pub(super) fn write_wallet(folder: &Path, shape: &Shape) -> PathBuf {
    let path = folder.join("wallet.dat");
    let mut connection = Connection::open(&path).expect("a database");
    connection.pragma_update(None, "page_size", shape.page_size).expect("a page size");
    let magic = i32::from_be_bytes(shape.magic);
    connection.pragma_update(None, "application_id", magic).expect("a network");
    let table = "CREATE TABLE main(key BLOB PRIMARY KEY NOT NULL, value BLOB NOT NULL)";
    connection.execute(table, ()).expect("a table");
    let transaction = connection.transaction().expect("a transaction");
    for (key, value) in records(shape) {
        let insert = "INSERT INTO main VALUES (?, ?)";
        transaction.execute(insert, params![key, value]).expect("a row");
    }
    transaction.commit().expect("rows");
    path
}

fn imported(shape: &Shape, passphrase: Option<&str>) -> Result<CoreWallet, CoreWalletError> {
    let folder = tempfile::tempdir().expect("a folder");
    import_core_wallet(&write_wallet(folder.path(), shape), passphrase.map(secret).as_ref())
}

/// Imports a wallet and compares all of it.
fn check(shape: &Shape) {
    let wallet = imported(shape, shape.passphrase).expect("a wallet");
    assert!(wallet.left_out.is_empty());
    let expected = shape.descriptors.iter().map(|descriptor| {
        let text = secret(&private(descriptor));
        let split = split_private_descriptor(SecretSlice::from(&text), NetworkKind::Test);
        split.expect("a descriptor").descriptors.remove(0)
    });
    let descriptors = wallet.descriptors.iter().map(|d| d.descriptor.clone());
    assert_eq!(descriptors.collect::<Vec<_>>(), expected.collect::<Vec<_>>());
    for descriptor in &wallet.descriptors {
        assert_eq!((descriptor.created, descriptor.next), (1_700_000_000, 3));
        assert_eq!(descriptor.range, 0..1003);
        let change = descriptor.descriptor.text.starts_with("wpkh").then_some(Purpose::Change);
        assert_eq!(descriptor.active, change);
    }
    let used: BTreeSet<usize> =
        (0..5).filter(|n| shape.descriptors.iter().any(|d| d.contains(&format!("@{n}")))).collect();
    // The second extended key has an origin in one descriptor, and none in another.
    let with_origin = shape.descriptors.iter().filter(|d| d.contains("]@")).count();
    assert_eq!(wallet.keys.len(), used.len() + with_origin);
}

#[test]
fn wallets_of_all_shapes_are_imported() {
    for passphrase in [None, Some("correct horse"), Some("über 🐦")] {
        for (page_size, filler) in [(512, 100), (1024, 0), (4096, 300), (65_536, 20)] {
            check(&Shape { passphrase, page_size, filler, ..Shape::default() });
        }
    }
}

#[test]
fn descriptors_longer_than_a_page_are_imported() {
    let many: Vec<String> = (0..15).map(|n| format!("@0/{n}!/1!/*,@1/{n}/*")).collect();
    let text = format!("wsh(sortedmulti(7,{}))", many[..7].join(","));
    check(&Shape { descriptors: vec![text.leak()], page_size: 512, ..Shape::default() });
}

#[test]
fn wallets_of_every_network_are_known() {
    for network in [Network::Testnet, Network::Testnet4, Network::Signet, Network::Regtest] {
        let shape = Shape { magic: network.magic().to_bytes(), ..Shape::default() };
        assert_eq!(imported(&shape, None).expect("a wallet").network, network);
    }
    let shape = Shape { magic: Network::Bitcoin.magic().to_bytes(), ..Shape::default() };
    let error = imported(&shape, None).err();
    let network = DescriptorError::Network { position: 6 }.to_string();
    assert!(error.expect("keys of a test network").to_string().contains(&network));
    let error = imported(&Shape { magic: *b"dash", ..Shape::default() }, None).err();
    assert!(matches!(error, Some(CoreWalletError::UnknownNetwork { magic }) if magic == *b"dash"));
}

#[test]
fn wallets_that_are_not_whole_are_refused() {
    let error = |shape: Shape| imported(&shape, Some("words")).err();
    let shape = Shape { flags: 4, ..Shape::default() };
    assert!(matches!(error(shape), Some(CoreWalletError::NoDescriptors)));
    let shape = Shape { keys: false, ..Shape::default() };
    assert!(matches!(error(shape), Some(CoreWalletError::Missing)));
    for rounds in [0, decrypt::MAX_ROUNDS + 1, u32::MAX] {
        let mut shape = Shape { passphrase: Some("words"), ..Shape::default() };
        shape.rounds = rounds.min(1);
        let folder = tempfile::tempdir().expect("a folder");
        let path = write_wallet(folder.path(), &shape);
        let connection = Connection::open(&path).expect("the wallet");
        let (id, mut value): (i64, Vec<u8>) = connection
            .query_row("SELECT rowid, value FROM main WHERE length(key) = 9", (), |row| {
                Ok((row.get(0)?, row.get(1)?))
            })
            .expect("the master key");
        let place = value.len() - 5;
        value[place..place + 4].copy_from_slice(&rounds.to_le_bytes());
        connection
            .execute("UPDATE main SET value = ? WHERE rowid = ?", params![value, id])
            .expect("changed");
        drop(connection);
        let error = import_core_wallet(&path, Some(&secret("words"))).err();
        assert!(matches!(error, Some(CoreWalletError::Rounds { rounds: told }) if told == rounds));
    }
}

#[test]
fn a_wallet_without_private_keys_is_public() {
    let shape = Shape {
        flags: FLAG_DESCRIPTORS | FLAG_NO_PRIVATE_KEYS,
        descriptors: vec!["wpkh(@0/0/*)", "sh(wpkh(@0/1!/*))", "pkh([00112233/84!]@1/1/*)"],
        keys: false,
        ..Shape::default()
    };
    let wallet = imported(&shape, None).expect("a wallet");
    assert!(wallet.keys.is_empty());
    assert_eq!(wallet.descriptors.len(), 2);
    assert!(wallet.descriptors[1].descriptor.text.starts_with("pkh([00112233/84h]tpub"));
    let [left_out] = &wallet.left_out[..] else { panic!("one is left out") };
    assert!(matches!(left_out.error, DescriptorError::HardenedPublic { .. }));
    assert!(left_out.text.starts_with("sh(wpkh(tpub"));
}

#[test]
fn descriptors_that_godwit_cannot_use_are_left_out() {
    let shape = Shape {
        descriptors: vec!["rawtr(@0/0)", "wpkh(@1/0!/*!)", "rawtr(@3)", "wsh(multi(1,@2,@2))"],
        ..Shape::default()
    };
    let wallet = imported(&shape, None).expect("a wallet");
    assert_eq!(wallet.left_out.len(), 3);
    assert_eq!(wallet.descriptors.len(), 1);
    assert_eq!(wallet.keys.len(), 1, "of what is left out there are none");
    for left_out in wallet.left_out {
        assert!(matches!(
            left_out.error,
            DescriptorError::Unsupported { .. } | DescriptorError::Refused(_)
        ));
        assert!(!left_out.text.contains("prv"));
    }
}

/// As `migratewallet` leaves them.
#[test]
fn a_combo_becomes_all_its_kinds() {
    let shape = Shape { descriptors: vec!["combo(@0/0!/1!/*!)", "combo(@4)"], ..Shape::default() };
    let wallet = imported(&shape, None).expect("a wallet");
    assert!(wallet.left_out.is_empty());
    assert_eq!((wallet.descriptors.len(), wallet.keys.len()), (6, 2));
    let texts = wallet.descriptors.iter().map(|descriptor| &descriptor.descriptor.text[..]);
    let starts: BTreeSet<&str> = texts.map(|text| text.split_once('(').expect("text").0).collect();
    assert_eq!(starts, BTreeSet::from(["pk", "pkh", "sh", "wpkh"]));
}

#[test]
fn a_wallet_of_very_many_master_keys_is_refused() {
    for (count, good) in [(16, true), (17, false)] {
        let folder = tempfile::tempdir().expect("a folder");
        let shape = Shape { passphrase: Some("words"), ..Shape::default() };
        let path = write_wallet(folder.path(), &shape);
        let connection = Connection::open(&path).expect("the wallet");
        for number in 2..=count {
            let key = [&sized(b"mkey")[..], &u32::to_le_bytes(number)].concat();
            let copy = "INSERT INTO main SELECT ?1, value FROM main WHERE hex(key) LIKE \
                        '046D6B6579%' LIMIT 1";
            connection.execute(copy, params![key]).expect("a copy");
        }
        drop(connection);
        let wallet = import_core_wallet(&path, Some(&secret("words")));
        assert_eq!(wallet.is_ok(), good, "{count}");
    }
}

#[test]
fn keys_of_the_test_are_keys() {
    let keys = keys();
    assert!(Xpriv::from_str(&keys[0].private).is_ok() && keys[4].public.len() == 130);
}

//! Wallets of Bitcoin Core: database files and records that somebody made are read or refused, in
//! memory that they have earned, and what is read are public descriptors.

use std::str::FromStr;

use bitcoin::hashes::{Hash, sha256, sha256d};
use bitcoin::secp256k1::{Secp256k1, SecretKey};
use godwit_keys::import_core_wallet;
use godwit_secret::SecretString;

use crate::folder;
use crate::input::Input;
use crate::memory::within;

/// Bytes that reading holds for each byte of a file, outside of locked memory.
const FACTOR: usize = 64;

/// Rounds of the key derivation that an input may ask for.
const MAX_ROUNDS: u32 = 50;

/// The largest page, so that every record of an input fits into one.
const PAGE: usize = 65_536;

/// Bit 0 of the first byte: records follow, of which the harness makes a database: length of the key,
/// of the value, both. Otherwise the file.
pub(crate) fn check(data: &[u8]) {
    let mut input = Input::new(data);
    if input.u8() & 1 == 0 {
        return check_file(input.rest(), None);
    }
    let mut records = Vec::new();
    let mut room = PAGE - 1_000;
    while !input.is_empty() {
        let (key, value) = (usize::from(input.u8()), usize::from(input.u16()) % 2_048);
        let (key, mut value) = (input.bytes(key).to_vec(), input.bytes(value).to_vec());
        mend(&key, &mut value);
        let Some(left) = room.checked_sub(2 * key.len() + value.len() + 40) else { break };
        room = left;
        records.push((key, value));
    }
    let mut passphrase = "a passphrase".to_owned();
    let passphrase = SecretString::from_plain_and_wipe(&mut passphrase).expect("locked memory");
    check_file(&database(&records), Some(&passphrase));
}

/// Keys of encrypted wallets cost little.
fn mend(key: &[u8], value: &mut [u8]) {
    let rounds = 49 + 9 + 4;
    if key.starts_with(b"\x04mkey")
        && let Some(bytes) = value.get_mut(rounds..rounds + 4)
    {
        let cheap = u32::from(bytes[0]) % MAX_ROUNDS;
        bytes.copy_from_slice(&cheap.to_le_bytes());
    }
}

fn check_file(bytes: &[u8], passphrase: Option<&SecretString>) {
    let path = folder::file("wallet.dat", bytes);
    let allowed = (4 << 20) + FACTOR * bytes.len();
    let Ok(wallet) = within(allowed, || import_core_wallet(&path, passphrase)) else { return };
    for described in &wallet.descriptors {
        let text = &described.descriptor.text;
        assert!(!text.contains("prv"), "a private key is left");
        assert!(text.rsplit_once('#').is_some_and(|(_, checksum)| checksum.len() == 8));
    }
    assert!(wallet.left_out.iter().all(|left_out| !left_out.text.contains("prv")));
}

/// A number as SQLite writes it, below 2^21.
fn varint(number: usize) -> Vec<u8> {
    let groups = [number >> 14, number >> 7 & 0x7f, number & 0x7f].map(|group| group as u8);
    match number {
        0..0x80 => vec![groups[2]],
        0x80..0x4000 => vec![groups[1] | 0x80, groups[2]],
        _ => vec![groups[0] | 0x80, groups[1] | 0x80, groups[2]],
    }
}

/// A row of values, each with its type.
fn row(values: &[(usize, &[u8])]) -> Vec<u8> {
    let types: Vec<u8> = values.iter().flat_map(|(kind, _)| varint(*kind)).collect();
    let size = varint(types.len() + if types.len() < 127 { 1 } else { 2 });
    let values: Vec<&[u8]> = values.iter().map(|(_, value)| *value).collect();
    [size, types, values.concat()].concat()
}

fn blob(bytes: &[u8]) -> (usize, &[u8]) {
    (12 + 2 * bytes.len(), bytes)
}

fn string(text: &str) -> (usize, &[u8]) {
    (13 + 2 * text.len(), text.as_bytes())
}

/// A page whose tree begins at `start`.
fn page(kind: u8, start: usize, cells: &[Vec<u8>]) -> Vec<u8> {
    let mut page = vec![0; PAGE];
    let mut end = PAGE;
    for (index, cell) in cells.iter().enumerate() {
        end -= cell.len();
        page[end..end + cell.len()].copy_from_slice(cell);
        let pointer = start + 8 + 2 * index;
        page[pointer..pointer + 2].copy_from_slice(&(end as u16).to_be_bytes());
    }
    page[start] = kind;
    page[start + 3..start + 5].copy_from_slice(&(cells.len() as u16).to_be_bytes());
    page
}

/// A database of three pages: schema, table, index of its keys.
fn database(records: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
    let in_table = |number: usize, row: Vec<u8>| [varint(row.len()), varint(number), row].concat();
    let name = string("main");
    let schema = [
        row(&[string("table"), name, name, (1, &[2]), string("")]),
        row(&[string("index"), string("sqlite_autoindex_main_1"), name, (1, &[3]), string("")]),
    ];
    let schema = (1..).zip(schema).map(|(number, row)| in_table(number, row));
    let rows = records.iter().map(|(key, value)| row(&[blob(key), blob(value)]));
    let rows = (1..).zip(rows).map(|(number, row)| in_table(number, row));
    let entries = records.iter().map(|(key, _)| row(&[blob(key), (8, &[])]));
    let entries = entries.map(|row| [varint(row.len()), row].concat());
    let mut first = page(13, 100, &schema.collect::<Vec<_>>());
    first[..16].copy_from_slice(b"SQLite format 3\0");
    for (place, number) in [(24, 1u32), (28, 3), (44, 4), (56, 1), (92, 1)] {
        first[place..place + 4].copy_from_slice(&number.to_be_bytes());
    }
    first[16..24].copy_from_slice(&[0, 1, 1, 1, 0, 64, 32, 32]);
    first[68..72].copy_from_slice(&bitcoin::Network::Regtest.magic().to_bytes());
    let (table, index) = (rows.collect::<Vec<_>>(), entries.collect::<Vec<_>>());
    [first, page(13, 0, &table), page(10, 0, &index)].concat()
}

pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let curve = Secp256k1::new();
    let number = [3; 32];
    let public = SecretKey::from_slice(&number).expect("a key").public_key(&curve).serialize();
    let text = "pkh(0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798)";
    let text = text.replace(&text[4..70], &hex(&public));
    let descriptor = miniscript::Descriptor::<bitcoin::PublicKey>::from_str(&text);
    let text = descriptor.expect("a descriptor").to_string();
    let id = sha256::Hash::hash(text.as_bytes()).to_byte_array();
    let kind = |kind: &str| [&[kind.len() as u8][..], kind.as_bytes()].concat();
    let sized = |bytes: &[u8]| [&[bytes.len() as u8][..], bytes].concat();
    let mut der = [&[0x30, 0x81, 0xd3, 2, 1, 1, 4, 32][..], &number].concat();
    der.resize(214, 0);
    let hash = sha256d::Hash::hash(&[&public[..], &der].concat()).to_byte_array();
    let times = [&1_700_000_000u64.to_le_bytes()[..], &[0; 12]].concat();
    let flagged = |flags: u64| (kind("flags"), flags.to_le_bytes().to_vec());
    let (flags, watch_only) = (flagged(1 << 34), flagged(1 << 34 | 1 << 32));
    let described = [kind("walletdescriptor"), id.to_vec()].concat();
    let described = (described, [sized(text.as_bytes()), times].concat());
    let of_key = |name: &str| [kind(name), id.to_vec(), sized(&public)].concat();
    let plain = (of_key("walletdescriptorkey"), [sized(&der), hash.to_vec()].concat());
    let encrypted = (of_key("walletdescriptorckey"), sized(&[5; 48]));
    let master = [&sized(&[6; 48])[..], &sized(&[7; 8]), &[0; 4], &25u32.to_le_bytes(), &[0]];
    let master = ([kind("mkey"), 1u32.to_le_bytes().to_vec()].concat(), master.concat());
    let active = ([kind("activeexternalspk"), vec![0]].concat(), id.to_vec());
    let written = |records: &[&(Vec<u8>, Vec<u8>)]| {
        let one = |(key, value): &(Vec<u8>, Vec<u8>)| {
            let length = (value.len() as u16).to_le_bytes();
            [&[key.len() as u8][..], &length, key, value].concat()
        };
        [vec![1], records.iter().flat_map(|record| one(record)).collect()].concat()
    };
    let records = [&active, &described, &plain, &flags];
    let pairs: Vec<_> = records.into_iter().cloned().collect();
    let mut seeds = vec![
        written(&records),
        written(&[&flags, &described, &encrypted, &master]),
        written(&[&flags]),
        written(&[&watch_only, &described]),
        [vec![0], database(&pairs)[..2 * PAGE].to_vec()].concat(),
    ];
    for name in ["blank-imported", "born-encrypted"] {
        let wallet = godwit_testdata::shared_file(&format!("wallets/{name}.wallet.dat"));
        seeds.extend(wallet.map(|bytes| [vec![0], bytes].concat()));
    }
    seeds
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

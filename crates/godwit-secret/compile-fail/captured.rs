// What a closure that is shown a secret captures, it cannot write to, whatever kind of container it is.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::io::Write;

use godwit_secret::{SecretArray, SecretBox, SecretBytes, SecretSlice, SecretStream, SecretString};

fn vector(secret: &SecretBytes, found: &mut Vec<u8>) {
    secret.expose_secret(|bytes| found.extend_from_slice(bytes));
}

fn a_vector_of_its_own(secret: &SecretBytes) -> Vec<u8> {
    let mut found = Vec::new();
    secret.expose_secret(|bytes| found.extend_from_slice(bytes));
    found
}

fn slice(secret: &SecretBytes, found: &mut [u8]) {
    secret.expose_secret(|bytes| found.copy_from_slice(bytes));
}

fn array(secret: &SecretArray<32>) -> [u8; 32] {
    let mut found = [0; 32];
    secret.expose_secret(|bytes| found = *bytes);
    found
}

fn number(secret: &SecretArray<8>) -> u64 {
    let mut found = 0;
    secret.expose_secret(|bytes| found = u64::from_le_bytes(*bytes));
    found
}

fn counter(secret: &SecretBytes) -> usize {
    let mut count = 0;
    secret.expose_secret(|bytes| count += bytes.iter().filter(|byte| **byte == 7).count());
    count
}

fn optional(secret: &SecretSlice<'_>) -> Option<Vec<u8>> {
    let mut found = None;
    secret.expose_secret(|bytes| found = Some(bytes.to_vec()));
    found
}

fn string(secret: &SecretString, found: &mut String) {
    secret.expose_secret(|text| found.push_str(text));
}

fn deque(secret: &SecretString, found: &mut VecDeque<char>) {
    secret.expose_secret(|text| found.extend(text.chars()));
}

fn hash_map(secret: &SecretBytes, found: &mut HashMap<usize, Vec<u8>>) {
    secret.expose_secret(|bytes| {
        found.insert(0, bytes.to_vec());
    });
}

fn tree_map(secret: &SecretBytes, found: &mut BTreeMap<usize, Vec<u8>>) {
    secret.expose_secret(|bytes| {
        found.entry(0).or_default().extend_from_slice(bytes);
    });
}

fn writer(secret: &SecretBytes, out: &mut dyn Write) -> bool {
    secret.expose_secret(|bytes| out.write_all(bytes).is_ok())
}

fn any_writer<W: Write + Sync>(secret: &SecretBytes, mut out: W) -> bool {
    secret.expose_secret(|bytes| out.write_all(bytes).is_ok())
}

fn a_moved_one(secret: &SecretBytes, mut found: Vec<u8>) {
    secret.expose_secret(move |bytes| found.extend_from_slice(bytes));
}

fn a_closure(secret: &SecretBytes, found: &mut (dyn FnMut(&[u8]) + Sync)) {
    secret.expose_secret(|bytes| found(bytes));
}

fn of_a_structure(secret: &SecretBytes, found: &mut (u8, Vec<u8>)) {
    secret.expose_secret(|bytes| found.1.extend_from_slice(bytes));
}

fn of_a_value(secret: &SecretBox<Vec<u8>>, found: &mut Vec<u8>) {
    secret.expose_secret(|bytes| found.clone_from(bytes));
}

fn while_it_changes(secret: &mut SecretBytes, found: &mut Vec<u8>) {
    secret.expose_secret_mut(|bytes| found.extend_from_slice(bytes));
}

fn while_an_array_changes(secret: &mut SecretArray<32>, found: &mut [u8; 32]) {
    secret.expose_secret_mut(|bytes| found.copy_from_slice(bytes));
}

fn while_a_stream_changes(secret: &mut SecretStream, found: &mut Vec<u8>) {
    secret.expose_secret_mut(|bytes| found.extend_from_slice(bytes));
}

fn while_a_value_changes(secret: &mut SecretBox<Vec<u8>>, found: &mut Vec<u8>) {
    secret.expose_secret_mut(|bytes| std::mem::swap(bytes, found));
}

fn while_it_is_made(key: &[u8; 32], found: &mut [u8; 32]) {
    SecretArray::<32>::from_fn_in_place(|bytes| {
        *bytes = key.map(|byte| byte ^ 0x36);
        *found = *bytes;
    })
    .unwrap();
}

fn while_bytes_are_made(found: &mut Vec<u8>) {
    SecretBytes::from_fn_in_place(32, |bytes| found.extend_from_slice(bytes)).unwrap();
}

fn main() {}

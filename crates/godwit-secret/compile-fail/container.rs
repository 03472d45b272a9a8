// What holds bytes of a secret in ordinary memory leaves no closure, whatever kind of container it is.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::{Arc, Mutex};

use godwit_secret::{SecretArray, SecretBox, SecretBytes, SecretSlice, SecretStream, SecretString};

fn vector(secret: &SecretBytes) -> Vec<u8> {
    secret.expose_secret(|bytes| bytes.to_vec())
}

fn boxed(secret: &SecretBytes) -> Box<[u8]> {
    secret.expose_secret(|bytes| bytes.into())
}

fn deque(secret: &SecretBytes) -> VecDeque<u8> {
    secret.expose_secret(|bytes| bytes.iter().copied().collect())
}

fn hash_map(secret: &SecretBytes) -> HashMap<usize, u8> {
    secret.expose_secret(|bytes| bytes.iter().copied().enumerate().collect())
}

fn tree_map(secret: &SecretBytes) -> BTreeMap<usize, u8> {
    secret.expose_secret(|bytes| bytes.iter().copied().enumerate().collect())
}

fn hash_set(secret: &SecretBytes) -> HashSet<u8> {
    secret.expose_secret(|bytes| bytes.iter().copied().collect())
}

fn tree_set(secret: &SecretBytes) -> BTreeSet<u8> {
    secret.expose_secret(|bytes| bytes.iter().copied().collect())
}

fn shared(secret: &SecretSlice<'_>) -> Rc<[u8]> {
    secret.expose_secret(|bytes| bytes.into())
}

fn sent(secret: &SecretSlice<'_>) -> Arc<[u8]> {
    secret.expose_secret(|bytes| bytes.into())
}

fn array(secret: &SecretArray<32>) -> [u8; 32] {
    secret.expose_secret(|bytes| *bytes)
}

fn reference(secret: &SecretArray<32>) -> &[u8; 32] {
    secret.expose_secret(|bytes| bytes)
}

fn pair(secret: &SecretArray<32>) -> (u8, bool) {
    secret.expose_secret(|bytes| (bytes[0], true))
}

fn byte(secret: &SecretArray<32>) -> u8 {
    secret.expose_secret(|bytes| bytes[0])
}

fn number(secret: &SecretArray<8>) -> u64 {
    secret.expose_secret(|bytes| u64::from_le_bytes(*bytes))
}

fn length(secret: &SecretString) -> usize {
    secret.expose_secret(|text| text.parse().unwrap())
}

fn optional(secret: &SecretArray<32>) -> Option<[u8; 32]> {
    secret.expose_secret(|bytes| Some(*bytes))
}

fn fallible(secret: &SecretBytes) -> Result<(), Vec<u8>> {
    secret.expose_secret(|bytes| Err(bytes.to_vec()))
}

fn error_with_a_box(secret: &SecretString) -> std::io::Result<()> {
    secret.expose_secret(|text| Err(std::io::Error::other(text.to_owned())))
}

fn string(secret: &SecretString) -> String {
    secret.expose_secret(|text| text.to_owned())
}

fn character(secret: &SecretString) -> Option<char> {
    secret.expose_secret(|text| text.chars().next())
}

fn either(secret: &SecretString) -> Cow<'static, str> {
    secret.expose_secret(|text| Cow::Owned(text.to_owned()))
}

fn cell(secret: &SecretBox<u64>) -> Cell<u64> {
    secret.expose_secret(|number| Cell::new(*number))
}

fn behind_a_lock(secret: &SecretBox<u64>) -> Mutex<u64> {
    secret.expose_secret(|number| Mutex::new(*number))
}

fn of_the_library(secret: &SecretBox<RefCell<Vec<u8>>>) -> Vec<u8> {
    secret.expose_secret(|vector| vector.take())
}

fn while_it_changes(secret: &mut SecretBytes) -> Vec<u8> {
    secret.expose_secret_mut(|bytes| bytes.to_vec())
}

fn while_an_array_changes(secret: &mut SecretArray<32>) -> [u8; 32] {
    secret.expose_secret_mut(|bytes| *bytes)
}

fn while_a_stream_changes(secret: &mut SecretStream) -> Vec<u8> {
    secret.expose_secret_mut(|bytes| bytes.to_vec())
}

fn while_a_value_changes(secret: &mut SecretBox<Vec<u8>>) -> Vec<u8> {
    secret.expose_secret_mut(std::mem::take)
}

fn a_closure(secret: &SecretArray<32>) -> Box<dyn Fn() -> u8> {
    secret.expose_secret(|bytes| {
        let bytes = *bytes;
        Box::new(move || bytes[0]) as Box<dyn Fn() -> u8>
    })
}

fn from_the_secret_stack(secret: &SecretArray<32>) -> [u8; 32] {
    godwit_secret::run_on_secret_stack(|| {
        let mut copy = [0; 32];
        secret.expose_secret(|bytes| copy = *bytes);
        copy
    })
    .unwrap()
}

fn main() {}

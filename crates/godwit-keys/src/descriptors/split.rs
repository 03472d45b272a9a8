//! Replaces the private keys in the text of a descriptor. Runs on a secret stack.

use std::collections::HashSet;

use bitcoin::NetworkKind;
use bitcoin::bip32::{ChildNumber, KeySource, Xpub};
use bitcoin::secp256k1::XOnlyPublicKey;
use godwit_secret::{Declassified, Releasable, SecretSlice};

use super::DescriptorError;
use super::checksum;
use super::key_expression::{KeyExpression, KeyKind, Origin, Wildcard, hex, public_text};
use super::scan::scan;
use crate::wif::parse_wif;
use crate::{ExtendedPrivateKey, KeyError, PrivateKey, StoredKey};

/// Public descriptors with their checksums, and the private keys that were replaced.
pub(crate) struct Parts {
    pub(crate) texts: Vec<String>,
    pub(crate) keys: Vec<StoredKey>,
}

impl Releasable for Parts {}

/// What a key expression stands for.
enum Key {
    Private(StoredKey),
    /// The text of the public key.
    Public(String),
}

/// Splits the text of a descriptor.
pub(crate) fn split(text: SecretSlice<'_>, network: NetworkKind) -> Result<Parts, DescriptorError> {
    let scan = text.expose_secret(|text| scan(text).map(Declassified))?.0;
    let branches = scan.keys.iter().map(|key| key.paths.len()).max().unwrap_or(1);
    if scan.keys.iter().any(|key| ![1, branches].contains(&key.paths.len())) {
        return Err(DescriptorError::PathCount);
    }
    let keys = scan.keys.iter().map(|expression| read_key(text, expression, network));
    let keys = keys.collect::<Result<Vec<Key>, _>>()?;

    let mut texts = Vec::with_capacity(branches);
    for branch in 0..branches {
        if let ([expression], [key], true) = (&scan.keys[..], &keys[..], scan.combo) {
            texts.extend(combo(&public_form(expression, key, branch)?, is_compressed(key)));
            continue;
        }
        let mut public = String::new();
        let mut end = 0;
        for (expression, key) in scan.keys.iter().zip(&keys) {
            push_frame(&mut public, text, end, expression.range.start);
            public.push_str(&public_form(expression, key, branch)?);
            end = expression.range.end;
        }
        push_frame(&mut public, text, end, scan.body);
        append_checksum(&mut public);
        texts.push(public);
    }
    Ok(Parts { texts, keys: each_once(keys)? })
}

/// What `combo` stands for, with the key in the text.
///
/// Source: Bitcoin Core, `script/descriptor.cpp` (`ComboDescriptor`).
fn combo(key: &str, compressed: bool) -> impl Iterator<Item = String> {
    const KINDS: [(&str, &str); 4] =
        [("pk(", ")"), ("pkh(", ")"), ("wpkh(", ")"), ("sh(wpkh(", "))")];
    let kinds = if compressed { &KINDS[..] } else { &KINDS[..2] };
    kinds.iter().map(move |(before, behind)| {
        let mut text = format!("{before}{key}{behind}");
        append_checksum(&mut text);
        text
    })
}

fn is_compressed(key: &Key) -> bool {
    match key {
        Key::Private(StoredKey::Single { compressed, .. }) => *compressed,
        Key::Private(StoredKey::Extended { .. }) => true,
        Key::Public(text) => !(text.len() == 130 && text.starts_with("04")),
    }
}

/// Puts `#` and the checksum behind a descriptor.
pub(crate) fn append_checksum(text: &mut String) {
    let sum = checksum::checksum(text.as_bytes()).expect("the scan has seen every character");
    text.push('#');
    text.extend(sum.map(char::from));
}

/// Appends what stands between keys: names, brackets, numbers and hashes.
fn push_frame(public: &mut String, text: SecretSlice<'_>, start: usize, end: usize) {
    let frame = text.get(start..end).expect("key expressions stand one behind the other");
    public.push_str(&public_string(frame));
}

fn read_key(
    text: SecretSlice<'_>,
    expression: &KeyExpression,
    network: NetworkKind,
) -> Result<Key, DescriptorError> {
    let position = expression.position();
    let key = text.get(expression.key.clone()).expect("the scan has found it there");
    let invalid = |error| private_key(position, error);
    let (key, its_network) = match expression.kind {
        KeyKind::Hex => {
            // What is no public key may be a private one in hex: it is not shown to anybody.
            if !key.expose_secret(|digits| is_public(digits, expression.x_only)) {
                return Err(DescriptorError::Key { position });
            }
            return Ok(Key::Public(public_string(key).to_ascii_lowercase()));
        }
        KeyKind::ExtendedPublic => {
            let text = public_string(key);
            let xpub: Xpub = text.parse().map_err(|_| DescriptorError::Key { position })?;
            if expression.paths.iter().flatten().any(ChildNumber::is_hardened)
                || expression.wildcard == Wildcard::Hardened
            {
                return Err(DescriptorError::HardenedPublic { position });
            }
            (Key::Public(text), xpub.network)
        }
        KeyKind::ExtendedPrivate => {
            let key = ExtendedPrivateKey::parse(key).map_err(invalid)?;
            let network = key.network();
            let origin = expression.origin.as_ref().map(Origin::to_source);
            (Key::Private(StoredKey::Extended { key, origin }), network)
        }
        KeyKind::Single => {
            let (key, network, compressed) = parse_wif(key).map_err(invalid)?;
            if expression.x_only && !compressed {
                return Err(DescriptorError::Uncompressed { position });
            }
            (Key::Private(StoredKey::Single { key, compressed }), network)
        }
    };
    if its_network != network {
        return Err(DescriptorError::Network { position });
    }
    Ok(key)
}

/// Whether hex digits have the form of a public key.
pub(super) fn is_public(digits: &[u8], x_only: bool) -> bool {
    match digits {
        [b'0', b'2' | b'3', ..] if digits.len() == 66 => true,
        [b'0', b'4', ..] if digits.len() == 130 => !x_only,
        _ => x_only && digits.len() == 64 && is_x_coordinate(digits),
    }
}

/// Whether a point of the curve has this coordinate: every second number of a private key is none.
fn is_x_coordinate(digits: &[u8]) -> bool {
    hex::<32>(digits).is_some_and(|x| XOnlyPublicKey::from_slice(&x).is_ok())
}

fn private_key(position: usize, error: KeyError) -> DescriptorError {
    match error {
        KeyError::Memory(error) => DescriptorError::Memory(error),
        error => DescriptorError::PrivateKey { position, error },
    }
}

/// Text of a public key, or of what stands between keys.
pub(super) fn public_string(text: SecretSlice<'_>) -> String {
    text.expose_secret(|bytes| Declassified(bytes.iter().copied().map(char::from).collect())).0
}

/// A key expression with a public key instead of its private one.
fn public_form(
    expression: &KeyExpression,
    key: &Key,
    branch: usize,
) -> Result<String, DescriptorError> {
    let origin = expression.origin.as_ref();
    let path = expression.path(branch);
    let wildcard = expression.wildcard;
    let invalid = |error| private_key(expression.position(), error);
    match key {
        Key::Public(text) => Ok(public_text(origin, text, path, wildcard, 'h')),
        Key::Private(StoredKey::Single { key, compressed }) => {
            let text = single_text(key, *compressed, expression).map_err(invalid)?;
            Ok(public_text(origin, &text, path, wildcard, 'h'))
        }
        Key::Private(StoredKey::Extended { key, .. }) => {
            let hardened = match wildcard {
                Wildcard::Hardened => 0,
                _ => path.iter().rposition(ChildNumber::is_hardened).map_or(0, |last| last + 1),
            };
            let (way, rest) = path.split_at(hardened);
            if way.is_empty() {
                let xpub = key.xpub().map_err(invalid)?;
                return Ok(public_text(origin, &xpub.to_string(), rest, wildcard, 'h'));
            }
            let xpub = key.derive(way).and_then(|key| key.xpub()).map_err(invalid)?;
            let mut origin = match origin {
                Some(origin) => origin.clone(),
                None => Origin {
                    fingerprint: key.fingerprint().map_err(invalid)?.to_bytes(),
                    path: Vec::new(),
                },
            };
            origin.path.extend(way);
            Ok(public_text(Some(&origin), &xpub.to_string(), rest, wildcard, 'h'))
        }
    }
}

/// The text of a public key without children, in the form that the expression wants.
pub(super) fn single_text(
    key: &PrivateKey,
    compressed: bool,
    expression: &KeyExpression,
) -> Result<String, KeyError> {
    let public = key.public_key()?;
    Ok(match (expression.x_only, compressed) {
        (true, _) => public.x_only_public_key().0.to_string(),
        (false, true) => public.to_string(),
        (false, false) => bitcoin::PublicKey::new_uncompressed(public).to_string(),
    })
}

/// The private keys among `keys`, without repetitions.
fn each_once(keys: Vec<Key>) -> Result<Vec<StoredKey>, DescriptorError> {
    let mut unique = UniqueKeys::default();
    for key in keys {
        if let Key::Private(key) = key {
            unique.insert(key).map_err(|error| private_key(1, error))?;
        }
    }
    Ok(unique.keys)
}

/// Private keys, each once.
#[derive(Default)]
pub(crate) struct UniqueKeys {
    pub(crate) keys: Vec<StoredKey>,
    /// What tells them from each other: public keys and origins.
    seen: HashSet<(String, Option<KeySource>)>,
}

impl UniqueKeys {
    pub(crate) fn insert(&mut self, key: StoredKey) -> Result<(), KeyError> {
        if self.seen.insert(key.identity()?) {
            self.keys.push(key);
        }
        Ok(())
    }
}

//! What somebody wants to watch: public descriptors, or a wallet policy (BIP388).
//!
//! The text is taken for a secret until it is known to be public: a private key in it was not meant to be
//! there.

use std::ops::Range;

use bitcoin::NetworkKind;
use godwit_secret::{Declassified, SecretSlice, SecretString, run_on_secret_stack};

use super::disclosed::refuse_private_numbers;
use super::key_expression::{KeyExpression, KeyKind};
use super::policy::descriptor_of;
use super::scan::{scan, unsupported};
use super::split::is_public;
use super::{DescriptorError, MAX_DESCRIPTOR_SIZE, PublicDescriptor, split_private_descriptor};
use crate::base58::decode_check;
use crate::error::KeyError;

/// The most descriptors of one text.
const MAX_LINES: usize = 100;

/// Reads descriptors, one a line, or a template with one key in each line behind it.
pub fn watched_descriptors(
    text: SecretSlice<'_>,
    network: NetworkKind,
) -> Result<Vec<PublicDescriptor>, DescriptorError> {
    let text = run_on_secret_stack(|| public_text(text).map(Declassified))??.0;
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let policy = match &lines[..] {
        [template, keys @ ..] if template.contains('@') => Some(descriptor_of(template, keys)?),
        _ => None,
    };
    let texts = match &policy {
        Some(descriptor) => vec![descriptor.as_str()],
        None => lines,
    };
    let mut descriptors: Vec<PublicDescriptor> = Vec::new();
    for text in texts {
        let mut copy = SecretString::new();
        copy.push_str(text)?;
        let split = split_private_descriptor((&copy).into(), network)?;
        for public in split.descriptors {
            check_origins(&public.text)?;
            if !descriptors.contains(&public) {
                descriptors.push(public);
            }
        }
    }
    match descriptors.is_empty() {
        true => Err(DescriptorError::Character { position: 1 }),
        false => Ok(descriptors),
    }
}

/// The text, if there is no private key in it and nothing that is no descriptor. Runs on a secret stack.
pub(super) fn public_text(text: SecretSlice<'_>) -> Result<String, DescriptorError> {
    let length = text.len();
    if length > MAX_DESCRIPTOR_SIZE {
        return Err(DescriptorError::TooLong { length });
    }
    let lines = text.expose_secret(|text| Declassified(lines_of(text))).0;
    if lines.len() > MAX_LINES {
        return Err(DescriptorError::TooLong { length });
    }
    let lines: Vec<SecretSlice<'_>> = lines.into_iter().filter_map(|line| text.get(line)).collect();
    let is_policy =
        lines.first().is_some_and(|line| line.expose_secret(|line| line.contains(&b'@')));
    match &lines[..] {
        [template, keys @ ..] if is_policy => {
            template.expose_secret(check_template)?;
            keys.iter().try_for_each(|line| check_key(*line))?;
        }
        lines => {
            lines.iter().try_for_each(|line| check_descriptor(*line))?;
            refuse_private_numbers(lines)?;
        }
    }
    // Every character of it was looked at.
    let public = text.expose_secret(|bytes| match str::from_utf8(bytes) {
        Ok(text) => Ok(Declassified(text.to_owned())),
        Err(error) => Err(DescriptorError::Character { position: error.valid_up_to() + 1 }),
    });
    Ok(public?.0)
}

/// Where lines stand that are not empty, without the space around them.
fn lines_of(text: &[u8]) -> Vec<Range<usize>> {
    let mut next = 0;
    let lines = text.split(|byte| *byte == b'\n').map(|line| {
        let start = next + (line.len() - line.trim_ascii_start().len());
        next += line.len() + 1;
        start..start + line.trim_ascii().len()
    });
    lines.filter(|line| !line.is_empty()).collect()
}

/// A descriptor has public keys alone, and functions that there are.
fn check_descriptor(line: SecretSlice<'_>) -> Result<(), DescriptorError> {
    let scan = line.expose_secret(|line| scan(line).map(Declassified))?.0;
    scan.keys.iter().try_for_each(|key| check_public(line, key))?;
    line.expose_secret(|line| {
        let ends = (0..line.len()).filter(|end| line[*end] == b'(');
        for end in ends {
            let start = line[..end].iter().rposition(|byte| !is_of_word(*byte) && *byte != b':');
            let start = start.map_or(0, |before| before + 1);
            let name = &line[start..end];
            let (wrappers, name) = match name.iter().position(|byte| *byte == b':') {
                Some(colon) => (&name[..colon], &name[colon + 1..]),
                None => (&name[..0], name),
            };
            if !FUNCTIONS.contains(&name) || !is_wrapper(wrappers) {
                return Err(DescriptorError::Character { position: start + 1 });
            }
        }
        Ok(())
    })
}

/// Names of descriptors and of Miniscript.
const FUNCTIONS: [&[u8]; 27] = [
    b"pk",
    b"pkh",
    b"wpkh",
    b"sh",
    b"wsh",
    b"tr",
    b"combo",
    b"multi",
    b"sortedmulti",
    b"multi_a",
    b"pk_k",
    b"pk_h",
    b"older",
    b"after",
    b"sha256",
    b"hash256",
    b"ripemd160",
    b"hash160",
    b"andor",
    b"and_v",
    b"and_b",
    b"and_n",
    b"or_b",
    b"or_c",
    b"or_d",
    b"or_i",
    b"thresh",
];

/// What a template begins with.
const KINDS: [&[u8]; 6] = [b"pk(", b"pkh(", b"wpkh(", b"sh(", b"wsh(", b"tr("];

/// What Miniscript puts before a function, each once or twice.
fn is_wrapper(word: &[u8]) -> bool {
    word.len() <= 8 && word.iter().all(|letter| b"asctdvjnlu".contains(letter))
}

fn is_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// A template has placeholders, functions and numbers alone. One with hashes is written as a descriptor.
fn check_template(line: &[u8]) -> Result<(), DescriptorError> {
    if !KINDS.iter().any(|kind| line.starts_with(kind)) {
        return Err(DescriptorError::NotPublic { position: 1 });
    }
    let mut start = 0;
    for end in 0..=line.len() {
        let behind = line.get(end);
        if behind.is_some_and(|byte| is_of_word(*byte)) {
            continue;
        }
        let word = &line[start..end];
        if let (Some(function), Some(b'(')) = (unsupported(word), behind) {
            return Err(DescriptorError::Unsupported { function });
        }
        let digits = word.strip_suffix(b"h").unwrap_or(word);
        let known = match behind {
            _ if digits.iter().all(u8::is_ascii_digit) => digits.len() <= 10,
            Some(b'(') => FUNCTIONS.contains(&word),
            Some(b':') => is_wrapper(word),
            _ => false,
        };
        if !known {
            return Err(DescriptorError::NotPublic { position: start + 1 });
        }
        if behind.is_some_and(|byte| !b"(){},@/*<>;:'".contains(byte)) {
            return Err(DescriptorError::NotPublic { position: end + 1 });
        }
        start = end + 1;
    }
    Ok(())
}

/// A line that is an extended public key from its origin to its end.
fn check_key(line: SecretSlice<'_>) -> Result<(), DescriptorError> {
    let parse = |line: &[u8]| KeyExpression::parse(line, 0..line.len(), false).map(Declassified);
    let key = line.expose_secret(parse)?.0;
    match key.kind {
        KeyKind::ExtendedPublic => check_public(line, &key),
        _ => Err(DescriptorError::NotPublic { position: key.position() }),
    }
}

/// A key is what a public one looks like, to its last character.
fn check_public(line: SecretSlice<'_>, key: &KeyExpression) -> Result<(), DescriptorError> {
    let position = key.position();
    let text = line.get(key.key.clone()).expect("it stands there");
    let public = match key.kind {
        KeyKind::Hex if !text.expose_secret(|digits| is_public(digits, key.x_only)) => {
            return Err(DescriptorError::Key { position });
        }
        KeyKind::Hex => true,
        KeyKind::ExtendedPublic => match decode_check(text) {
            Ok(bytes) => bytes.expose_secret(is_extended_public),
            Err(KeyError::Memory(error)) => return Err(error.into()),
            Err(_) => false,
        },
        KeyKind::ExtendedPrivate | KeyKind::Single => false,
    };
    match public {
        true => Ok(()),
        false => Err(DescriptorError::NotPublic { position }),
    }
}

/// Whether bytes are an extended public key (BIP32), whose key is one.
fn is_extended_public(bytes: &[u8]) -> bool {
    const VERSIONS: [[u8; 4]; 2] = [[0x04, 0x88, 0xb2, 0x1e], [0x04, 0x35, 0x87, 0xcf]];
    bytes.len() == 78
        && VERSIONS.iter().any(|version| bytes.starts_with(version))
        && matches!(bytes[45], 2 | 3)
}

/// The same extended key under two origins would be two keys to whoever reads them, and is one.
fn check_origins(text: &str) -> Result<(), DescriptorError> {
    let keys = scan(text.as_bytes())?.keys;
    for (number, key) in keys.iter().enumerate().filter(|(_, key)| key.kind != KeyKind::Hex) {
        let is_same = |other: &&KeyExpression| text[other.key.clone()] == text[key.key.clone()];
        let other = keys[..number].iter().find(is_same);
        if other.is_some_and(|other| other.origin != key.origin) {
            return Err(DescriptorError::TwoOrigins { position: key.position() });
        }
    }
    Ok(())
}

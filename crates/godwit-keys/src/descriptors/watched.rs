//! What somebody wants to watch: public descriptors, or a wallet policy (BIP388).
//!
//! The text is taken for a secret until it is known to be public: a private key in it was not meant to be
//! there.

use bitcoin::NetworkKind;
use godwit_secret::{SecretSlice, SecretString, run_on_secret_stack};

use super::key_expression::KeyKind;
use super::policy::descriptor_of;
use super::scan::scan;
use super::{DescriptorError, MAX_DESCRIPTOR_SIZE, PublicDescriptor, split_private_descriptor};

/// The most descriptors of one text.
const MAX_LINES: usize = 100;

/// Reads descriptors, one a line, or a template with one key in each line behind it.
pub fn watched_descriptors(
    text: SecretSlice<'_>,
    network: NetworkKind,
) -> Result<Vec<PublicDescriptor>, DescriptorError> {
    let text = run_on_secret_stack(|| public_text(text))??;
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

/// The text, if there is no private key in it. Runs on a secret stack.
fn public_text(text: SecretSlice<'_>) -> Result<String, DescriptorError> {
    let length = text.len();
    if length > MAX_DESCRIPTOR_SIZE {
        return Err(DescriptorError::TooLong { length });
    }
    text.expose_secret(|bytes| {
        let lines: Vec<&[u8]> =
            bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii).collect();
        let mut lines = lines.into_iter().filter(|line| !line.is_empty()).peekable();
        let is_policy = lines.peek().is_some_and(|line| line.contains(&b'@'));
        for (number, line) in lines.enumerate() {
            if number == MAX_LINES {
                return Err(DescriptorError::TooLong { length });
            }
            match is_policy {
                true if number == 0 => check_template(line)?,
                true => check_key(line)?,
                false => check_descriptor(line)?,
            }
        }
        // Nothing else is in ASCII lines of public keys; other text is no descriptor.
        match str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(error) => Err(DescriptorError::Character { position: error.valid_up_to() + 1 }),
        }
    })
}

fn check_descriptor(line: &[u8]) -> Result<(), DescriptorError> {
    let private = |kind| matches!(kind, KeyKind::ExtendedPrivate | KeyKind::Single);
    match scan(line)?.keys.iter().find(|key| private(key.kind)) {
        Some(key) => Err(DescriptorError::NotPublic { position: key.position() }),
        None => Ok(()),
    }
}

/// Longer than any name, number and path of a template, shorter than any key.
const LONGEST_WORD: usize = 24;

/// A template has placeholders alone: no word of it is long enough to be a key, in hex either. One with
/// hashes is written as a descriptor.
fn check_template(line: &[u8]) -> Result<(), DescriptorError> {
    let mut position = 1;
    for word in line.split(|byte| !byte.is_ascii_alphanumeric()) {
        if word.len() > LONGEST_WORD {
            return Err(DescriptorError::NotPublic { position });
        }
        position += word.len() + 1;
    }
    Ok(())
}

/// A key is an extended public one.
fn check_key(line: &[u8]) -> Result<(), DescriptorError> {
    let start = line.iter().position(|byte| *byte == b']').map_or(0, |end| end + 1);
    match &line[start..] {
        [b'x' | b't', b'p', b'u', b'b', ..] => Ok(()),
        _ => Err(DescriptorError::NotPublic { position: start + 1 }),
    }
}

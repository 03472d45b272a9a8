//! Puts private keys back into public descriptors: the reverse of a split.

use bitcoin::NetworkKind;
use bitcoin::bip32::ChildNumber;
use godwit_secret::{Releasable, SecretBytes, SecretSlice, SecretString};

use super::DescriptorError;
use super::checksum;
use super::key_expression::{KeyExpression, KeyKind, Origin, Wildcard, public_text};
use super::scan::scan;
use super::split::{self, Parts};
use crate::guarded::guarded;
use crate::wif::to_wif;
use crate::{ExtendedPrivateKey, KeyError, StoredKey};

/// A private key in the place of a public one.
struct Private {
    /// Origin, as text.
    before: String,
    text: SecretString,
    /// The way to the public key, as text.
    behind: String,
}

/// A private descriptor, and the keys in it.
struct Joined {
    text: SecretBytes,
    keys: Vec<StoredKey>,
}

impl Releasable for Joined {}

/// The private descriptor that a split makes this public one of, as Core's `listdescriptors` with
/// private keys prints it, and the keys in it. `None` when there is none: `keys` are not those of it, or
/// it comes from a descriptor with more paths in a way that one alone does not have.
pub(crate) fn join(
    public: &str,
    keys: &[StoredKey],
    network: NetworkKind,
) -> Result<Option<(SecretBytes, Vec<StoredKey>)>, KeyError> {
    let joined = guarded(|| {
        let bytes = public.as_bytes();
        let Ok(scan) = scan(bytes) else { return Ok(None) };
        let mut joined = SecretBytes::new();
        let mut end = 0;
        for expression in &scan.keys {
            let Some(private) = private(public, expression, keys, network)? else { continue };
            joined.extend_from_slice(&bytes[end..expression.range.start])?;
            joined.extend_from_slice(private.before.as_bytes())?;
            joined.extend_from_secret(&private.text)?;
            joined.extend_from_slice(private.behind.as_bytes())?;
            end = expression.key.end;
        }
        joined.extend_from_slice(&bytes[end..scan.body])?;
        if !checksum::append_to_secret(&mut joined)? {
            return Ok(None);
        }
        match split::split(SecretSlice::from(&joined), network) {
            Ok(Parts { texts, keys }) if texts == [public] && !keys.is_empty() => {
                Ok(Some(Joined { text: joined, keys }))
            }
            Err(DescriptorError::Memory(error)) => Err(error.into()),
            _ => Ok(None),
        }
    })?;
    Ok(joined.map(|Joined { text, keys }| (text, keys)))
}

fn private(
    public: &str,
    expression: &KeyExpression,
    keys: &[StoredKey],
    network: NetworkKind,
) -> Result<Option<Private>, KeyError> {
    let wanted = &public[expression.key.clone()];
    let in_place = |text| Private {
        before: public[expression.range.start..expression.key.start].to_owned(),
        text,
        behind: String::new(),
    };
    for stored in keys {
        let found = match stored {
            StoredKey::Single { key, compressed } if expression.kind == KeyKind::Hex => {
                let same = split::single_text(key, *compressed, expression)? == wanted;
                same.then(|| to_wif(key, network, *compressed).map(in_place)).transpose()?
            }
            StoredKey::Extended { key, origin } if expression.kind == KeyKind::ExtendedPublic => {
                let origin = origin.as_ref().map(Origin::from_source);
                match key.xpub()?.to_string() == wanted && origin == expression.origin {
                    true => Some(in_place(key.to_base58()?)),
                    false => above(key, origin.as_ref(), wanted, expression)?,
                }
            }
            _ => None,
        };
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// A key from which hardened steps lead to the public one.
fn above(
    key: &ExtendedPrivateKey,
    origin: Option<&Origin>,
    wanted: &str,
    expression: &KeyExpression,
) -> Result<Option<Private>, KeyError> {
    let root = match origin {
        Some(origin) => origin.clone(),
        None => Origin { fingerprint: key.fingerprint()?.to_bytes(), path: Vec::new() },
    };
    let Some(way) = way(&root, expression.origin.as_ref()) else { return Ok(None) };
    match key.derive(way) {
        Ok(child) if child.xpub()?.to_string() == wanted => Ok(Some(Private {
            before: public_text(origin, "", &[], Wildcard::None, 'h'),
            text: key.to_base58()?,
            behind: public_text(None, "", way, Wildcard::None, 'h'),
        })),
        Ok(_) | Err(KeyError::TooDeep | KeyError::NoSuchChild) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The steps from `root` to `place`, if it lies below.
fn way<'a>(root: &Origin, place: Option<&'a Origin>) -> Option<&'a [ChildNumber]> {
    let place = place.filter(|place| place.fingerprint == root.fingerprint)?;
    place.path.strip_prefix(&root.path[..]).filter(|way| !way.is_empty())
}

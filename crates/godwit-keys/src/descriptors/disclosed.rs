//! Private keys that pass for something else in a text that is to be watched: as the argument of a hash
//! function, or as the coordinate of a point, which every second number is.
//!
//! Nothing tells such a number from a hash or a coordinate, unless its public key stands in the text too, as
//! when a private key was pasted in the place of something beside its public key. That is found here.

use std::ops::Range;

use bitcoin::bip32::{ChildNumber, Xpub};
use bitcoin::secp256k1::SecretKey;
use godwit_secret::{Declassified, SecretSlice};

use super::DescriptorError;
use super::key_expression::{KeyExpression, KeyKind, Wildcard, hex};
use super::scan::scan;
use super::split::public_string;
use crate::guarded::curve;

/// Digits of a number of 32 bytes.
const DIGITS: usize = 64;

/// How many keys of a descriptor with a wildcard are compared, in each branch: those that a wallet shows
/// first.
const COMPARED_INDEXES: u32 = 20;

/// The most keys that are derived for one text. What lies behind is not compared.
const MAX_DERIVED: usize = 10_000;

/// A number's place in the text, and the x coordinate of the point that it would be the private key of.
struct Suspect {
    line: usize,
    position: usize,
    x: [u8; 32],
}

/// Refuses descriptors of which one has a number that is the private key of a key in them, itself or negated.
/// Their keys are known to be public otherwise. Runs on a secret stack.
pub(super) fn refuse_private_numbers(lines: &[SecretSlice<'_>]) -> Result<(), DescriptorError> {
    let mut suspects = Vec::new();
    for (number, line) in lines.iter().enumerate() {
        suspects.extend(line.expose_secret(|line| Declassified(suspects_of(number, line))).0);
    }
    if suspects.is_empty() {
        return Ok(());
    }
    let mut left = MAX_DERIVED;
    for line in lines {
        let scan = line.expose_secret(|line| scan(line).map(Declassified))?.0;
        for key in &scan.keys {
            let text = line.get(key.key.clone()).expect("it stands there");
            let told = match key.kind {
                // Its digits may be those of a private key, too.
                KeyKind::Hex => text.expose_secret(|digits| {
                    let x = x_of(digits).filter(|x| suspects.iter().any(|suspect| suspect.x == *x));
                    x.map(Declassified)
                }),
                _ => {
                    let xpub = public_string(text).parse();
                    let xpub: Xpub =
                        xpub.map_err(|_| DescriptorError::Key { position: key.position() })?;
                    let told = points_of(&xpub, key, &mut left)
                        .find(|x| suspects.iter().any(|suspect| suspect.x == *x));
                    told.map(Declassified)
                }
            };
            if let Some(suspect) = told.and_then(|x| suspects.iter().find(|one| one.x == x.0)) {
                let Suspect { line, position, .. } = *suspect;
                return Err(DescriptorError::PrivateNumber { line: line + 1, position });
            }
        }
    }
    Ok(())
}

fn suspects_of(line: usize, text: &[u8]) -> Vec<Suspect> {
    let suspect = |place: Range<usize>| {
        let key = SecretKey::from_slice(&hex::<32>(&text[place.clone()])?).ok()?;
        let x = key.x_only_public_key(curve()).0.serialize();
        Some(Suspect { line, position: place.start + 1, x })
    };
    numbers_in(text).filter_map(suspect).collect()
}

/// Where so many hex digits stand between other characters.
fn numbers_in(text: &[u8]) -> impl Iterator<Item = Range<usize>> {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric());
    words
        .scan(0, |next, word| {
            let start = *next;
            *next += word.len() + 1;
            Some(start..start + word.len())
        })
        .filter(|word| word.len() == DIGITS && text[word.clone()].iter().all(u8::is_ascii_hexdigit))
}

/// The x coordinate of a public key in hex, in any of its three forms.
fn x_of(digits: &[u8]) -> Option<[u8; 32]> {
    let x = if digits.len() == DIGITS { digits } else { digits.get(2..2 + DIGITS)? };
    hex(x)
}

/// The x coordinates of an extended key: its own, those on its paths, and the first ones behind.
fn points_of<'a>(
    xpub: &'a Xpub,
    key: &'a KeyExpression,
    left: &'a mut usize,
) -> impl Iterator<Item = [u8; 32]> + 'a {
    let indexes = match key.wildcard {
        Wildcard::Normal => COMPARED_INDEXES,
        Wildcard::None | Wildcard::Hardened => 0,
    };
    let steps = (0..indexes).map(|index| Some(ChildNumber::Normal { index }));
    let behind: Vec<_> = steps.chain([None]).collect();
    let ways = key.paths.iter().flat_map(move |path| {
        let ways = behind.clone().into_iter();
        ways.map(move |last| path.iter().copied().chain(last).collect::<Vec<_>>())
    });
    let on_the_way = key.paths.iter().flat_map(|path| (0..path.len()).map(|n| path[..n].to_vec()));
    let ways = on_the_way.chain(ways).take_while(move |_| {
        let goes_on = *left > 0;
        *left = left.saturating_sub(1);
        goes_on
    });
    // What no public key can derive was refused, or will be.
    ways.filter_map(|way| xpub.derive_pub(curve(), &way).ok())
        .map(|xpub| xpub.public_key.x_only_public_key().0.serialize())
}

#[cfg(test)]
mod tests;

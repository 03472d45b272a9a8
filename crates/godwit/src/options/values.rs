//! The values that options take, from text. `None` means "not one of these": the table says what
//! was expected.

use std::ffi::OsStr;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Deployment;

/// Core keeps activation heights in an `int` and reserves its largest value.
const MAX_ACTIVATION_HEIGHT: u32 = i32::MAX as u32 - 1;

/// A `hash_serialized_3` of a UTXO set: 32 bytes in the order in which they were hashed; text is
/// reversed, as Core prints it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct UtxoHash(pub [u8; 32]);

impl fmt::Display for UtxoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for UtxoHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// `0` or `1`. Core takes any text for a flag and reads `yes` as off.
pub(super) fn flag(text: &OsStr) -> Option<bool> {
    match text.to_str()? {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A decimal number, perhaps with a sign.
pub(super) fn number<T: FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

/// Anything but nothing.
pub(super) fn path(text: &OsStr) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

/// A block hash as Core prints it, or `0` for none.
pub(super) fn hash_or_zero(text: &OsStr) -> Option<Option<BlockHash>> {
    match text.to_str()? {
        "0" => Some(None),
        digits => digits.parse().ok().map(Some),
    }
}

pub(super) fn utxo_hash(text: &OsStr) -> Option<UtxoHash> {
    let hash: BlockHash = text.to_str()?.parse().ok()?;
    Some(UtxoHash(hash.to_bytes()))
}

/// `NAME@HEIGHT`.
pub(super) fn activation(text: &OsStr) -> Option<(Deployment, u32)> {
    let (name, height) = text.to_str()?.split_once('@')?;
    let height = height.parse().ok().filter(|height| *height <= MAX_ACTIVATION_HEIGHT)?;
    Some((name.parse().ok()?, height))
}

/// At least one byte, two hexadecimal digits each.
pub(super) fn hex(text: &OsStr) -> Option<Vec<u8>> {
    let digits = text.to_str()?.as_bytes();
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let nibble = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    digits.chunks_exact(2).map(|pair| Some(nibble(pair[0])? << 4 | nibble(pair[1])?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HASH: &str = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";

    fn os(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn flags() {
        assert_eq!((flag(os("0")), flag(os("1"))), (Some(false), Some(true)));
        for text in ["", "2", "yes", "true", "01"] {
            assert_eq!(flag(os(text)), None, "{text:?}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(number::<u32>(os("4294967295")), Some(u32::MAX));
        assert_eq!(number::<i32>(os("-1")), Some(-1));
        for text in ["4294967296", "-1", "", " 1", "1.5", "0x10"] {
            assert_eq!(number::<u32>(os(text)), None, "{text:?}");
        }
    }

    #[test]
    fn hashes() {
        let genesis: BlockHash = HASH.parse().expect("64 digits");
        assert_eq!(hash_or_zero(os(HASH)), Some(Some(genesis)));
        assert_eq!(hash_or_zero(os("0")), Some(None));
        for text in ["", "1", "00", &HASH[1..], &format!("{HASH}0"), &HASH.replace('f', "g")] {
            assert_eq!(hash_or_zero(os(text)), None, "{text:?}");
        }
        let utxo = utxo_hash(os(HASH)).expect("64 digits");
        assert_eq!((utxo.0[0], utxo.to_string().as_str()), (0x6f, HASH));
        assert_eq!(utxo_hash(os("0")), None);
    }

    #[test]
    fn activations() {
        assert_eq!(activation(os("segwit@0")), Some((Deployment::Segwit, 0)));
        assert_eq!(activation(os("csv@2147483646")), Some((Deployment::Csv, 2_147_483_646)));
        for text in ["csv@2147483647", "csv@-1", "csv@", "csv", "@1", "taproot@1", "csv@1@2"] {
            assert_eq!(activation(os(text)), None, "{text:?}");
        }
    }

    #[test]
    fn hex_bytes() {
        assert_eq!(hex(os("51fF00")), Some(vec![0x51, 0xff, 0x00]));
        for text in ["", "5", "51f", "5g", "0x51", "+1"] {
            assert_eq!(hex(os(text)), None, "{text:?}");
        }
    }
}

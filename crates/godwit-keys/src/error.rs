//! Why there is no key. No error holds a part of a secret: positions and counts only.

use std::error::Error;
use std::fmt;

use godwit_secret::{LockError, RandomError, Releasable};

/// Why an operation on keys failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is no locked memory for the key.
    Memory(LockError),
    /// The system gives no random bytes.
    Random(RandomError),
    /// The number is no private key: zero, or not below the order of the curve.
    OutOfRange,
    /// The text of a key is wrong.
    Text(TextError),
    /// A mnemonic is wrong.
    Mnemonic(MnemonicError),
    /// A path leads deeper than 255 steps.
    TooDeep,
    /// The step has no key; one of 2¹²⁷ has none (BIP32).
    NoSuchChild,
    /// A signature that was just made is not valid: the processor or the memory miscalculates.
    BadSignature,
}

/// What is wrong with the base58 text of a key (xprv, WIF).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextError {
    /// No character of base58, at this place from 0.
    Character(usize),
    /// Too short or too long for what it has to be.
    Length,
    /// The last four bytes are not those that the others ask for: a slip of the pen.
    Checksum,
    /// The first bytes say that it is something else, or of another coin.
    Version,
    /// The byte before the key of an xprv is not zero.
    KeyPrefix,
    /// Depth 0, but a parent or a child number.
    Root,
    /// The origin in front of an xprv is none, or not that of the key: other depth, number or parent.
    Origin,
    /// The byte behind the key of a WIF says neither that public keys are compressed nor is it absent.
    Compression,
}

/// What is wrong with a mnemonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MnemonicError {
    /// It has this many words, not 12, 15, 18, 21 or 24.
    WordCount(usize),
    /// The word at this place, from 1, is not in the English list.
    Word(usize),
    /// The words are all in the list, but one is wrong or their order is.
    Checksum,
}

impl Releasable for KeyError {}

impl Releasable for TextError {}

impl Releasable for MnemonicError {}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
            Self::OutOfRange => f.write_str("the number is not in the range of private keys"),
            Self::Text(error) => error.fmt(f),
            Self::Mnemonic(error) => error.fmt(f),
            Self::TooDeep => f.write_str("the path leads deeper than 255 steps"),
            Self::NoSuchChild => f.write_str("there is no key at this step; take the next one"),
            Self::BadSignature => {
                f.write_str("a new signature is not valid: this computer miscalculates")
            }
        }
    }
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Character(at) => write!(f, "character {} of the key is not base58", at + 1),
            Self::Length => f.write_str("the key's text has the wrong length"),
            Self::Checksum => f.write_str("the key's checksum is wrong: a character is mistyped"),
            Self::Version => f.write_str("this is not a private key"),
            Self::KeyPrefix => f.write_str("the extended key holds no private key"),
            Self::Root => f.write_str("the extended key has depth 0 but names a parent"),
            Self::Origin => f.write_str("the origin in front of the key does not fit it"),
            Self::Compression => f.write_str("the key's compression byte is wrong"),
        }
    }
}

impl fmt::Display for MnemonicError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WordCount(count) => {
                write!(f, "a mnemonic has 12, 15, 18, 21 or 24 words, not {count}")
            }
            Self::Word(place) => write!(f, "word {place} of the mnemonic is not in BIP39's list"),
            Self::Checksum => f.write_str(
                "the mnemonic's checksum is wrong: a word is wrong, or two have changed places",
            ),
        }
    }
}

impl Error for KeyError {}
impl Error for TextError {}
impl Error for MnemonicError {}

impl From<LockError> for KeyError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

impl From<RandomError> for KeyError {
    fn from(error: RandomError) -> Self {
        match error {
            RandomError::Memory(error) => Self::Memory(error),
            error => Self::Random(error),
        }
    }
}

impl From<TextError> for KeyError {
    fn from(error: TextError) -> Self {
        Self::Text(error)
    }
}

impl From<MnemonicError> for KeyError {
    fn from(error: MnemonicError) -> Self {
        Self::Mnemonic(error)
    }
}

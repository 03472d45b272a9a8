//! Why a descriptor is refused. Positions count characters from 1; no error holds text of a key that
//! might be private.

use std::error::Error;
use std::fmt;

use godwit_secret::{LockError, Releasable};

use crate::KeyError;

/// Why a descriptor is refused.
#[derive(Debug)]
pub enum DescriptorError {
    /// There is no locked memory for it.
    Memory(LockError),
    /// It has more than [`MAX_DESCRIPTOR_SIZE`](super::MAX_DESCRIPTOR_SIZE) bytes.
    TooLong {
        /// In bytes.
        length: usize,
    },
    /// A character that has no place here: a bracket without its counterpart, something behind a closed
    /// function, a character that no descriptor has.
    Character {
        /// Of the character; behind the last one when something is missing at the end.
        position: usize,
    },
    /// What stands behind `#` is not eight characters.
    ChecksumLength {
        /// In characters.
        length: usize,
    },
    /// The checksum is that of another descriptor.
    Checksum,
    /// A function that Bitcoin Core knows and godwit does not: it has no public keys, or not one script.
    Unsupported { function: &'static str },
    /// Something that is no key of a kind that descriptors have.
    Key {
        /// Of its first character.
        position: usize,
    },
    /// A private key that is none.
    PrivateKey {
        /// Of its first character.
        position: usize,
        /// What is wrong with it.
        error: KeyError,
    },
    /// A key of main network in a descriptor for a test network, or the other way round.
    Network {
        /// Of its first character.
        position: usize,
    },
    /// An uncompressed key in Taproot.
    Uncompressed {
        /// Of its first character.
        position: usize,
    },
    /// What stands in brackets before a key is not a fingerprint and a path.
    Origin {
        /// Of the bracket.
        position: usize,
    },
    /// A path with a step that is no number below 2^31, with a second `<…>`, or with too many steps.
    Path {
        /// Of the step.
        position: usize,
    },
    /// A hardened step after a public key, which only its private key could take.
    HardenedPublic {
        /// Of the key.
        position: usize,
    },
    /// A private key where nothing secret is expected, or what may be one.
    NotPublic {
        /// In its line.
        position: usize,
    },
    /// A number that is the private key of a public one in the text.
    PrivateNumber {
        /// Of those that are not empty, from 1.
        line: usize,
        /// In it.
        position: usize,
    },
    /// The same extended key as before, under another origin.
    TwoOrigins {
        /// Of the key.
        position: usize,
    },
    /// A wallet policy that BIP388 does not allow, and why.
    Policy(String),
    /// A public key that says that it comes from a key of ours, and does not.
    NotOurs(String),
    /// Keys with different numbers of paths in `<…>`.
    PathCount,
    /// Miniscript inside of `sh()`, which Bitcoin Core does not take.
    MiniscriptInSh,
    /// `miniscript` refuses the public descriptor.
    Refused(Box<miniscript::Error>),
}

/// What is said of Miniscript in `sh()`.
const ONLY_IN_SH: &str = "sh() takes pk(), pkh(), multi(), sortedmulti(), wpkh() or wsh() alone, as in Bitcoin \
                          Core: Miniscript stands in wsh() or tr()";

impl fmt::Display for DescriptorError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::TooLong { length } => write!(
                f,
                "the descriptor has {length} bytes, more than {}",
                super::MAX_DESCRIPTOR_SIZE
            ),
            Self::Character { position } => {
                write!(f, "the descriptor is wrong at character {position}")
            }
            Self::ChecksumLength { length } => {
                write!(f, "the descriptor's checksum has {length} characters instead of 8")
            }
            Self::Checksum => f.write_str("the descriptor does not have the checksum behind its #"),
            Self::Unsupported { function } => {
                write!(f, "descriptors with {function}() are not supported")
            }
            Self::Key { position } => {
                write!(f, "what stands at character {position} of the descriptor is no key")
            }
            Self::PrivateKey { position, error } => {
                write!(f, "the key at character {position} of the descriptor is not valid: {error}")
            }
            Self::Network { position } => write!(
                f,
                "the key at character {position} of the descriptor belongs to another network"
            ),
            Self::Uncompressed { position } => write!(
                f,
                "the key at character {position} of the descriptor is uncompressed, which Taproot \
                 has not"
            ),
            Self::Origin { position } => {
                write!(f, "the key origin at character {position} of the descriptor is not valid")
            }
            Self::Path { position } => {
                write!(f, "the key path is wrong at character {position} of the descriptor")
            }
            Self::HardenedPublic { position } => write!(
                f,
                "the path of the public key at character {position} of the descriptor has a hardened \
                 step, which needs the private key"
            ),
            Self::NotPublic { position } => write!(
                f,
                "what stands at character {position} is no public key, and may be a private one, which is no \
                 longer a secret if it lies in a file; keys import takes descriptors with private keys"
            ),
            Self::PrivateNumber { line, position } => write!(
                f,
                "the number at character {position} of descriptor {line} is the private key of a public key \
                 that is there too: it is no longer a secret if it lies in a file"
            ),
            Self::TwoOrigins { position } => write!(
                f,
                "the key at character {position} of the descriptor stands in it under another origin as well"
            ),
            Self::Policy(why) => write!(f, "it is no wallet policy of BIP388: {why}"),
            Self::NotOurs(key) => write!(
                f,
                "{key} says that it comes from a key of yours, and does not: somebody may have put it there"
            ),
            Self::PathCount => {
                f.write_str("the keys of the descriptor have different numbers of paths in <…>")
            }
            Self::MiniscriptInSh => f.write_str(ONLY_IN_SH),
            Self::Refused(error) => write!(f, "the descriptor is refused: {error}"),
        }
    }
}

impl Releasable for DescriptorError {}

impl Error for DescriptorError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::PrivateKey { error, .. } => Some(error),
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LockError> for DescriptorError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

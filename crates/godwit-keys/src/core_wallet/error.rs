//! Why a wallet of Bitcoin Core is not imported.

use std::error::Error;
use std::fmt;

use godwit_secret::{LockError, Releasable};
use godwit_stream::DecodeError;

use super::sqlite::DatabaseError;
use crate::KeyError;
use crate::descriptors::DescriptorError;

/// Why a wallet of Bitcoin Core is not imported. No error holds a part of a secret.
#[derive(Debug)]
pub enum CoreWalletError {
    /// There is no locked memory for it.
    Memory(LockError),
    /// Its file cannot be read.
    Database(DatabaseError),
    /// It belongs to a network that godwit does not know.
    UnknownNetwork {
        /// The first bytes of messages of that network.
        magic: [u8; 4],
    },
    /// A wallet without descriptors.
    NoDescriptors,
    /// Its keys are encrypted, and no passphrase was given.
    PassphraseNeeded,
    /// The passphrase is another one.
    WrongPassphrase,
    /// More rounds to make a key of the passphrase than anybody would wait for, or none.
    Rounds {
        /// As the wallet says.
        rounds: u32,
    },
    /// A record is not as Bitcoin Core writes it.
    Record,
    /// A private key is not the one that was written: its hash is another.
    KeyHash,
    /// A private key is not that of its public key.
    KeyPair,
    /// Some keys are encrypted, and some are not; or there is no master key.
    Mixed,
    /// A key without its descriptor, or a descriptor without a private key in a wallet that has them.
    Missing,
    /// A descriptor is not the one that was written: its hash is another.
    DescriptorId,
    /// A descriptor is not one.
    Descriptor(DescriptorError),
}

impl CoreWalletError {
    /// Private keys of a wallet are never out of range.
    pub(super) fn from_key(error: KeyError) -> Self {
        match error {
            KeyError::Memory(error) => Self::Memory(error),
            _ => Self::KeyPair,
        }
    }
}

impl fmt::Display for CoreWalletError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
            Self::UnknownNetwork { magic: [a, b, c, d] } => write!(
                f,
                "the wallet belongs to a network that godwit does not know ({a:02x}{b:02x}{c:02x}\
                 {d:02x})"
            ),
            Self::NoDescriptors => f.write_str(
                "this is a wallet without descriptors: make a descriptor wallet of it first, with \
                 Bitcoin Core's migratewallet",
            ),
            Self::PassphraseNeeded => {
                f.write_str("the wallet is encrypted: its passphrase is needed")
            }
            Self::WrongPassphrase => f.write_str("this is not the passphrase of the wallet"),
            Self::Rounds { rounds } => write!(
                f,
                "the wallet asks for {rounds} rounds to make a key of the passphrase, not 1 to {}",
                super::decrypt::MAX_ROUNDS
            ),
            Self::Record => {
                f.write_str("the wallet is damaged: a record is not as Bitcoin Core writes it")
            }
            Self::KeyHash => {
                f.write_str("the wallet is damaged: a private key does not have its hash")
            }
            Self::KeyPair => f.write_str(
                "the wallet is damaged: a private key does not belong to its public key",
            ),
            Self::Mixed => f.write_str(
                "the wallet is damaged: keys are encrypted in part, or without a master key",
            ),
            Self::Missing => f.write_str(
                "the wallet is damaged: a private key or the descriptor that it belongs to is missing",
            ),
            Self::DescriptorId => {
                f.write_str("the wallet is damaged: a descriptor does not have its hash")
            }
            Self::Descriptor(error) => write!(f, "the wallet has a descriptor that is none: {error}"),
        }
    }
}

impl Releasable for CoreWalletError {}

impl Error for CoreWalletError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Database(error) => Some(error),
            Self::Descriptor(error) => Some(error),
            _ => None,
        }
    }
}

impl From<LockError> for CoreWalletError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

impl From<DatabaseError> for CoreWalletError {
    fn from(error: DatabaseError) -> Self {
        match error {
            DatabaseError::Memory(error) => Self::Memory(error),
            error => Self::Database(error),
        }
    }
}

impl From<DecodeError> for CoreWalletError {
    fn from(_: DecodeError) -> Self {
        Self::Record
    }
}

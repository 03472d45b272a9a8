//! Why there is no key. No error holds a part of a secret.

use std::error::Error;
use std::fmt;

use godwit_secret::{LockError, RandomError};

/// Why an operation on keys failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyError {
    /// There is no locked memory for the key.
    Memory(LockError),
    /// The system gives no random bytes.
    Random(RandomError),
    /// The number is no private key: zero, or not below the order of the curve.
    OutOfRange,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
            Self::OutOfRange => f.write_str("the number is not in the range of private keys"),
        }
    }
}

impl Error for KeyError {}

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

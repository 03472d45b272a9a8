//! What can be wrong with encoded bytes.

use std::fmt;

/// Why bytes do not decode. Bitcoin Core throws `std::ios_base::failure` in the same cases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The bytes end inside a value, or a length claims more than there is.
    UnexpectedEnd,
    /// Bytes behind the end of a value that should fill them.
    TrailingBytes,
    /// A compact size in a longer form than its value needs.
    NonCanonicalCompactSize,
    /// A compact size above [`crate::MAX_SIZE`] where a length is expected.
    CompactSizeTooLarge,
    /// A VarInt that does not fit its type.
    VarIntTooLarge,
    /// A transaction in the witness form whose witnesses are all empty (BIP144).
    SuperfluousWitness,
    /// A transaction flag byte with bits other than the witness bit (BIP144).
    UnknownTransactionFlag,
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEnd => "unexpected end of data",
            Self::TrailingBytes => "bytes behind the end of data",
            Self::NonCanonicalCompactSize => "non-canonical compact size",
            Self::CompactSizeTooLarge => "compact size too large",
            Self::VarIntTooLarge => "variable-length integer too large",
            Self::SuperfluousWitness => "superfluous witness record",
            Self::UnknownTransactionFlag => "unknown transaction optional data",
        })
    }
}

impl std::error::Error for DecodeError {}

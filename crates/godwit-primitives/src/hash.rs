//! The 32-byte hashes, one type for each meaning.
//!
//! Bytes are kept in the order in which they were hashed; text is the reverse, as Bitcoin Core
//! prints hashes.

use std::fmt;
use std::str::FromStr;

use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

/// Text that is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashParseError;

impl fmt::Display for HashParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected 64 hexadecimal digits")
    }
}

impl std::error::Error for HashParseError {}

fn parse_reversed(text: &str) -> Result<[u8; 32], HashParseError> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return Err(HashParseError);
    }
    let nibble = |digit: u8| (digit as char).to_digit(16).ok_or(HashParseError);
    let mut bytes = [0u8; 32];
    for (byte, pair) in bytes.iter_mut().rev().zip(digits.chunks_exact(2)) {
        *byte = (nibble(pair[0])? << 4 | nibble(pair[1])?) as u8;
    }
    Ok(bytes)
}

/// 32 bytes as hexadecimal in reversed order, as Bitcoin Core prints hashes.
#[derive(Clone, Copy)]
pub struct ReversedHex<'a>(pub &'a [u8; 32]);

impl fmt::Display for ReversedHex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().rev().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

macro_rules! hash_type {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[repr(transparent)]
        pub struct $name([u8; 32]);

        impl $name {
            /// All bytes zero.
            pub const ZERO: Self = Self([0; 32]);

            /// From bytes in the order in which they were hashed.
            pub const fn from_bytes(bytes: [u8; 32]) -> Self {
                Self(bytes)
            }

            /// The bytes in the order in which they were hashed.
            pub const fn to_bytes(self) -> [u8; 32] {
                self.0
            }

            /// The bytes in the order in which they were hashed.
            pub const fn as_bytes(&self) -> &[u8; 32] {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                ReversedHex(&self.0).fmt(f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self)
            }
        }

        impl FromStr for $name {
            type Err = HashParseError;

            fn from_str(text: &str) -> Result<Self, HashParseError> {
                parse_reversed(text).map(Self)
            }
        }

        impl Encode for $name {
            fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
                out.write(&self.0);
            }
        }

        impl Decode for $name {
            #[inline]
            fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
                reader.array().map(Self)
            }
        }
    };
}

hash_type!(
    /// Double SHA-256 of a transaction without its witness.
    Txid
);
hash_type!(
    /// Double SHA-256 of a transaction with its witness (BIP141).
    Wtxid
);
hash_type!(
    /// Double SHA-256 of a block header.
    BlockHash
);
hash_type!(
    /// Root of a block's tree of transaction hashes.
    MerkleRoot
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_reversed_and_round_trips() {
        let text = "000000000019d6689c085ae165831e934ff763ae46a2a6c172b3f1b60a8ce26f";
        let hash: BlockHash = text.parse().unwrap();
        assert_eq!(hash.as_bytes()[0], 0x6f);
        assert_eq!(hash.to_string(), text);
    }

    #[test]
    fn text_of_another_length_or_alphabet_is_refused() {
        assert_eq!("00".parse::<Txid>(), Err(HashParseError));
        assert_eq!("g0".repeat(32).parse::<Txid>(), Err(HashParseError));
        assert_eq!("é".repeat(32).parse::<Txid>(), Err(HashParseError));
    }
}

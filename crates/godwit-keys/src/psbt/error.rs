//! Why a PSBT cannot be read, combined or finished.

use std::error::Error;
use std::fmt;

use bitcoin::hex::DisplayHex;
use godwit_stream::DecodeError;

use super::limits::{MAX_INPUTS, MAX_OUTPUTS, MAX_PSBT_BYTES, MAX_UNSIGNED_TX_BYTES};
use super::spent::InputObjection;

/// Characters of a key or of a library's message that an error line shows: both can be as long as the
/// whole PSBT.
const SHOWN: usize = 96;

/// The beginning of a text.
fn cut(text: &dyn fmt::Display) -> String {
    let mut text: String = text.to_string().chars().take(SHOWN + 1).collect();
    if text.chars().count() > SHOWN {
        text.truncate(text.char_indices().nth(SHOWN).map_or(0, |(end, _)| end));
        text.push('…');
    }
    text
}

/// The beginning of a key.
fn hex(key: &[u8]) -> String {
    cut(&key[..key.len().min(SHOWN)].as_hex())
}

/// One of a PSBT's maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsbtMap {
    /// The map of the whole transaction.
    Global,
    /// The map of the input with this index.
    Input(usize),
    /// The map of the output with this index.
    Output(usize),
}

impl fmt::Display for PsbtMap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Global => f.write_str("the global map"),
            Self::Input(index) => write!(f, "input {index}"),
            Self::Output(index) => write!(f, "output {index}"),
        }
    }
}

/// Why bytes are no PSBT. Types and keys are the numbers of the BIPs.
#[derive(Debug)]
pub enum FormatError {
    /// Neither the magic of the binary form nor base64 of it.
    NoPsbt,
    /// The base64 is wrong at this character.
    Base64(usize),
    /// More bytes than [`MAX_PSBT_BYTES`].
    TooLong(usize),
    /// The unsigned transaction alone is longer than a block.
    TransactionTooLong(usize),
    /// More than [`MAX_INPUTS`].
    TooManyInputs(usize),
    /// More than [`MAX_OUTPUTS`].
    TooManyOutputs(usize),
    /// More pairs in a map, or of one kind, than a script has use for.
    TooManyPairs(PsbtMap),
    /// A key or a value is cut off, or its length is not written in the shortest form.
    Pair {
        map: PsbtMap,
        /// What is wrong with it.
        error: DecodeError,
    },
    /// A key occurs twice in a map.
    DuplicateKey {
        map: PsbtMap,
        /// The key with its type.
        key: Vec<u8>,
    },
    /// The key's data has the wrong form or should not be there.
    InvalidKey {
        map: PsbtMap,
        /// The key with its type.
        key: Vec<u8>,
    },
    /// A value has the wrong form or is out of its range.
    InvalidValue {
        map: PsbtMap,
        /// The type of the key.
        key: u8,
    },
    /// A required field is missing.
    Missing {
        map: PsbtMap,
        /// The type of the key.
        key: u8,
    },
    /// A field that this version does not have.
    NotInVersion {
        map: PsbtMap,
        /// The type of the key.
        key: u8,
        /// The version of the PSBT.
        version: u32,
    },
    /// A version other than 0 and 2.
    UnknownVersion(u32),
    /// Bytes behind the last map.
    TrailingBytes(usize),
    /// One input requires a height and another one a time as lock (BIP370).
    ConflictingLocks,
    /// Two inputs spend the same output.
    DuplicateInput(usize),
    /// `bitcoin` refuses a field.
    Field(bitcoin::psbt::Error),
    /// An input's previous transaction is not the one that the input names.
    Contradiction(usize, InputObjection),
    /// A field whose form would change by being read and written; keeping it silently changed is
    /// worse than refusing it.
    NotPreserved {
        map: PsbtMap,
        /// The key with its type.
        key: Vec<u8>,
    },
}

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPsbt => f.write_str("this is not a PSBT, neither in base64 nor in binary form"),
            Self::Base64(position) => write!(f, "the base64 is wrong at character {position}"),
            Self::TooLong(bytes) => {
                write!(f, "the PSBT has {bytes} bytes, more than {MAX_PSBT_BYTES}")
            }
            Self::TransactionTooLong(bytes) => {
                write!(f, "the transaction has {bytes} bytes, more than {MAX_UNSIGNED_TX_BYTES}")
            }
            Self::TooManyInputs(count) => write!(f, "{count} inputs, more than {MAX_INPUTS}"),
            Self::TooManyPairs(map) => {
                write!(f, "{map}: too many fields, signatures or derivation paths")
            }
            Self::TooManyOutputs(count) => write!(f, "{count} outputs, more than {MAX_OUTPUTS}"),
            Self::Pair { map, error } => write!(f, "{map}: {error}"),
            Self::DuplicateKey { map, key } => {
                write!(f, "{map}: duplicate key {}", hex(key))
            }
            Self::InvalidKey { map, key } => write!(f, "{map}: invalid key {}", hex(key)),
            Self::InvalidValue { map, key } => {
                write!(f, "{map}: the value of type {key:#04x} is invalid")
            }
            Self::Missing { map, key } => write!(f, "{map}: type {key:#04x} is missing"),
            Self::NotInVersion { map, key, version } => {
                write!(f, "{map}: type {key:#04x} is not allowed in version {version}")
            }
            Self::UnknownVersion(version) => write!(f, "unknown version {version}"),
            Self::TrailingBytes(count) => write!(f, "{count} bytes behind the last map"),
            Self::ConflictingLocks => {
                f.write_str("the inputs require a height and a time as lock, which excludes both")
            }
            Self::DuplicateInput(index) => {
                write!(f, "input {index} spends the same output as another one")
            }
            Self::Field(error) => f.write_str(&cut(error)),
            Self::Contradiction(index, objection) => write!(f, "input {index}: {objection}"),
            Self::NotPreserved { map, key } => {
                write!(f, "{map}: the field {} has an unsupported form", hex(key))
            }
        }
    }
}

impl Error for FormatError {}

impl From<bitcoin::psbt::Error> for FormatError {
    fn from(error: bitcoin::psbt::Error) -> Self {
        Self::Field(error)
    }
}

/// Why PSBTs cannot be combined.
#[derive(Debug)]
pub enum CombineError {
    /// There is none.
    Nothing,
    /// The one with this index, from 0, is of another version than the first.
    OtherVersion(usize),
    /// It is about another transaction.
    OtherTransaction(usize),
    /// It says something else in the same field; one of them is wrong.
    Conflict {
        /// Index of the PSBT.
        psbt: usize,
        map: PsbtMap,
        /// The key with its type.
        key: Vec<u8>,
    },
    /// What comes of it is no PSBT.
    Format(FormatError),
}

impl fmt::Display for CombineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("there is nothing to combine"),
            Self::OtherVersion(index) => {
                write!(f, "PSBT {} has another version than the first", index + 1)
            }
            Self::OtherTransaction(index) => {
                write!(f, "PSBT {} is about another transaction than the first", index + 1)
            }
            Self::Conflict { psbt, map, key } => {
                write!(f, "PSBT {} contradicts one before it: {map}, field {}", psbt + 1, hex(key))
            }
            Self::Format(error) => write!(f, "the combination is invalid: {error}"),
        }
    }
}

impl Error for CombineError {}

/// Why there is no network transaction yet.
#[derive(Debug)]
pub enum FinalizeError {
    /// An input has no final script.
    NotFinished(usize),
    /// A PSBT without inputs.
    NoInputs,
}

impl fmt::Display for FinalizeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFinished(index) => write!(f, "input {index} is not finished"),
            Self::NoInputs => f.write_str("the transaction has no inputs"),
        }
    }
}

impl Error for FinalizeError {}

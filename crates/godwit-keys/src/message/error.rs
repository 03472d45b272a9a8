//! Why a message is not signed, or its signature is none.

use std::error::Error;
use std::fmt;

use crate::error::KeyError;
use crate::psbt::SignError;

/// Why a message is not signed, or its signature is none.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The private keys cannot be used.
    Key(KeyError),
    /// The PSBT of it is not signed.
    Sign(SignError),
    /// No key of ours is that of the address.
    NotOurs,
    /// The format is none of that kind of address.
    Format,
    /// It takes more signatures than ours, or a script that is not satisfied without locks or preimages.
    Unfinished,
    /// A message is longer than [`MAX_MESSAGE`](super::MAX_MESSAGE).
    MessageTooLong,
    /// A signature is longer than [`MAX_SIGNATURE`](super::MAX_SIGNATURE).
    TooLong,
    /// It is not base64, or not what base64 of a signature decodes to.
    Encoding,
    /// What is signed is not the transaction that BIP322 makes of message and address.
    OtherTransaction,
    /// A signature in it has another sighash type than BIP322 allows, or is not in its shortest form.
    Signature,
    /// BIP322 calls it inconclusive: a proof of funds, whose coins cannot be looked up, or a version that
    /// no rule says anything of.
    Inconclusive(&'static str),
    /// It is valid by consensus, and breaks a rule that BIP322 requires. In Core's words.
    Rule(String),
    /// It is valid by consensus, and uses what is left to later rules, so that BIP322 calls it inconclusive.
    /// In Core's words.
    LaterRule(String),
    /// It is by another key, or of another message.
    Wrong,
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Key(error) => return error.fmt(f),
            Self::Sign(error) => return error.fmt(f),
            Self::NotOurs => "no key of the key file is that of the address",
            Self::Format => "the format is none of this kind of address",
            Self::Unfinished => {
                "the keys of the key file alone do not satisfy the script of the address; message psbt makes \
                 what can be passed on to cosigners"
            }
            Self::MessageTooLong => "the message is too long",
            Self::TooLong => "the signature is too long",
            Self::Encoding => "it is no signature of a message in base64",
            Self::OtherTransaction => {
                "what is signed is not the transaction that BIP322 makes of message and address"
            }
            Self::Signature => "a signature in it is not of the type or form that BIP322 asks for",
            Self::Inconclusive(why) => return write!(f, "nothing can be told: {why}"),
            Self::Rule(why) => return write!(f, "it breaks a rule of BIP322: {why}"),
            Self::LaterRule(why) => return write!(f, "nothing can be told: {why}"),
            Self::Wrong => "it is by another key, or of another message",
        })
    }
}

impl Error for MessageError {}

impl From<KeyError> for MessageError {
    fn from(error: KeyError) -> Self {
        Self::Key(error)
    }
}

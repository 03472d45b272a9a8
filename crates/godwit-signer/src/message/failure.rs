//! Why a command of `message` failed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use godwit_keys::StoreError;
use godwit_keys::message::MessageError;
use godwit_keys::psbt::SEARCHED;
use godwit_program::{Exit, OutputError};

use crate::agree::disagreement::Disagreement;
use crate::keys::KeysFailure;
use crate::psbt::PsbtFailure;

/// A failure of `message`.
#[derive(Debug)]
pub(crate) enum MessageFailure {
    /// The operand is not an address.
    NoAddress,
    /// The address is one of another network.
    OtherNetwork,
    /// The file with the message cannot be read.
    Read(PathBuf, io::Error),
    /// The message is too long to be shown.
    TooLong,
    /// The message is not text.
    NotText,
    /// No descriptor of the key file derives the address.
    NotOurs,
    /// The message cannot be signed, or the signature is not valid.
    Message(MessageError),
    /// The PSBT cannot be written.
    Psbt(PsbtFailure),
    /// The user has not agreed.
    Disagreement(Disagreement),
    Keys(KeysFailure),
    /// Standard output failed.
    Output(OutputError),
}

impl MessageFailure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Keys(failure) => failure.exit(),
            Self::Psbt(failure) => failure.exit(),
            Self::Output(error) => error.exit(),
            Self::NoAddress | Self::OtherNetwork => Exit::Configuration,
            Self::Message(_) => Exit::InputRefused,
            _ => Exit::Failure,
        }
    }
}

impl fmt::Display for MessageFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("ADDRESS is no address"),
            Self::OtherNetwork => {
                f.write_str("the address is of another network; choose its network with -chain")
            }
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::TooLong => f.write_str("the message is longer than 65536 bytes"),
            Self::NotText => f.write_str("the message is not UTF-8"),
            Self::NotOurs => write!(
                f,
                "no descriptor of the key file derives the address at one of its first {SEARCHED} indexes, or \
                 so many behind the last one that was given out"
            ),
            Self::Message(error) => error.fmt(f),
            Self::Disagreement(Disagreement::Other) => f.write_str(
                "not signed: -yes is not the token of this message as it is shown now; see message inspect",
            ),
            Self::Disagreement(Disagreement::NobodyToAsk) => f.write_str(
                "not signed: there is no terminal to ask at; look with message inspect, and give what it says \
                 with -yes",
            ),
            Self::Disagreement(why) => write!(f, "not signed: {why}"),
            Self::Keys(failure) => failure.fmt(f),
            Self::Psbt(failure) => failure.fmt(f),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl From<KeysFailure> for MessageFailure {
    fn from(failure: KeysFailure) -> Self {
        Self::Keys(failure)
    }
}

impl From<StoreError> for MessageFailure {
    fn from(error: StoreError) -> Self {
        Self::Keys(error.into())
    }
}

impl From<OutputError> for MessageFailure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

//! Why a command of `psbt` failed.

use std::fmt;
use std::io;
use std::path::PathBuf;

use godwit_engine::ScriptError;
use godwit_keys::message::MessageError;
use godwit_keys::psbt::{CombineError, FeeObjection, FinalizeError, FormatError, SignError};
use godwit_program::{Exit, OutputError};

use super::node::NodeFailure;
use crate::agree::disagreement::Disagreement;
use crate::keys::KeysFailure;

/// A failure of `psbt`.
#[derive(Debug)]
pub(crate) enum PsbtFailure {
    /// A file could not be read.
    Read(PathBuf, io::Error),
    /// A file holds no valid PSBT.
    Format(PathBuf, FormatError),
    /// An address that an option names is one of another network.
    OtherNetwork,
    /// The PSBT pays nothing to the output that an option names.
    NoSuchOutput,
    /// Two operands are standard input.
    StandardInputTwice,
    /// The result is longer, in bytes, than what these commands read.
    TooLong(usize),
    /// The result could not be written.
    Write(PathBuf, io::Error),
    /// The PSBTs are not of the same transaction.
    Combine(CombineError),
    /// The PSBT breaks a rule of what may be signed.
    Sign(SignError),
    /// The node that was to be asked gives no answer.
    Node(NodeFailure),
    /// According to the node, this input spends another coin than the PSBT says.
    OtherCoin(usize),
    /// The user has not agreed.
    Disagreement(Disagreement),
    /// This input's signature leaves parts of the transaction open that the PSBT does not ask to leave open.
    UnusualSignature(usize),
    /// The PSBT is not finished: there is no network transaction yet.
    Extract(FinalizeError),
    /// The fee of a finished transaction is unknown or above the limit.
    Fee(FeeObjection),
    /// The finished signature is not one of the PSBT's message.
    Message(MessageError),
    /// Core's engine refuses a finished input.
    Script(ScriptError),
    Keys(KeysFailure),
    /// Standard output failed.
    Output(OutputError),
}

impl PsbtFailure {
    pub(crate) fn exit(&self) -> Exit {
        match self {
            Self::Write(_, error) => Exit::of_write(error, Exit::Failure),
            Self::Keys(failure) => failure.exit(),
            Self::OtherNetwork => Exit::Configuration,
            Self::Output(error) => error.exit(),
            _ => Exit::Failure,
        }
    }
}

impl fmt::Display for PsbtFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "{} cannot be read: {error}", path.display()),
            Self::Format(path, error) => write!(f, "{}: {error}", path.display()),
            Self::OtherNetwork => f.write_str(
                "the address of -anyoutput or -anyindex is of another network; choose its network with -chain",
            ),
            Self::NoSuchOutput => f.write_str(
                "not signed: no output of the PSBT goes to what -anyoutput or -anyindex names",
            ),
            Self::StandardInputTwice => f.write_str("standard input can be read only once"),
            Self::TooLong(bytes) => write!(f, "the result of {bytes} bytes is too long"),
            Self::Write(path, error) => write!(f, "{} cannot be written: {error}", path.display()),
            Self::Combine(error) => error.fmt(f),
            Self::Sign(error) => {
                let remedy = match error {
                    SignError::UnusualSighash(..) => "; -anysighash signs it",
                    SignError::Foreign(_) | SignError::Finished(_) => {
                        "; -foreigninputs signs the others"
                    }
                    SignError::UnderivedInput(_) => "; -anyinputs signs all the same",
                    SignError::UnprovenAmount(_) => {
                        "; add its previous transaction (-unprovenamounts signs without)"
                    }
                    SignError::Output(..) | SignError::Underived(_) => {
                        "; -anyoutput with its address signs all the same"
                    }
                    SignError::Far(_) => "; -anyindex with its address signs all the same",
                    SignError::Fee(objection) => remedy(objection),
                    _ => "",
                };
                write!(f, "not signed: {error}{remedy}")
            }
            Self::Node(error) => write!(f, "the node tells nothing of the inputs: {error}"),
            Self::OtherCoin(input) => write!(
                f,
                "not signed: input {input} spends another output than the PSBT says, by the node"
            ),
            Self::Disagreement(Disagreement::Other) => f.write_str(
                "not signed: -yes is not the token of this PSBT as it is shown now; see psbt inspect \
                 -keys",
            ),
            Self::Disagreement(Disagreement::NobodyToAsk) => f.write_str(
                "not signed: there is no terminal to ask at; look with psbt inspect -keys, and give \
                 what it says with -yes",
            ),
            Self::Disagreement(why) => write!(f, "not signed: {why}"),
            Self::UnusualSignature(input) => write!(
                f,
                "not finished: a signature of input {input} leaves parts of the transaction open, which the PSBT \
                 does not ask for; -anysighash takes it"
            ),
            Self::Extract(error) => error.fmt(f),
            Self::Fee(objection) => write!(f, "not extracted: {objection}{}", remedy(objection)),
            Self::Message(error) => write!(f, "not extracted: {error}"),
            Self::Script(error) => write!(f, "a finished input is invalid: {error}"),
            Self::Keys(failure) => failure.fmt(f),
            Self::Output(error) => error.fmt(f),
        }
    }
}

impl From<KeysFailure> for PsbtFailure {
    fn from(failure: KeysFailure) -> Self {
        Self::Keys(failure)
    }
}

impl From<OutputError> for PsbtFailure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

fn remedy(objection: &FeeObjection) -> &'static str {
    match objection {
        FeeObjection::AboveLimit { .. } => "; see -maxfee",
        FeeObjection::AboveShare { .. } => "; see -maxfeeshare",
        FeeObjection::AboveRate { .. } => "; see -maxfeerate",
        _ => "",
    }
}

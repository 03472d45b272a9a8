//! Options of `psbt`.

use std::path::PathBuf;

use bitcoin::address::NetworkUnchecked;
use bitcoin::{Address, ScriptBuf};

use super::keys::KeyFileOptions;

/// What to do with PSBTs, and how.
#[derive(Debug, PartialEq, Eq)]
pub struct PsbtOptions {
    pub action: PsbtAction,
    /// The files to read, at least one; `-` is standard input.
    pub files: Vec<PathBuf>,
    /// The key file to sign with.
    pub key_file: KeyFileOptions,
    /// `-out`: the file to write; `None`: standard output.
    pub out: Option<PathBuf>,
    /// `-maxfee`, in satoshi.
    pub max_fee: Option<u64>,
    /// `-maxfeerate`, in satoshi per virtual byte.
    pub max_fee_rate: Option<u32>,
    /// `-maxfeeshare`, in hundredths of what is paid.
    pub max_fee_share: Option<u8>,
    /// `-anysighash`.
    pub any_sighash: bool,
    /// `-foreigninputs`.
    pub foreign_inputs: bool,
    /// `-anyinputs`.
    pub any_inputs: bool,
    /// `-unprovenamounts`.
    pub unproven_amounts: bool,
    /// `-anyoutput`.
    pub any_outputs: Vec<NamedOutput>,
    /// `-anyindex`.
    pub any_index: Vec<NamedOutput>,
    /// `-node`: whom to ask about the coins.
    pub node: Option<NodeOptions>,
    /// `-yes`: the token of what is to be signed; `None`: the terminal.
    pub yes: Option<String>,
}

/// An output, by where it goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NamedOutput {
    Address(Address<NetworkUnchecked>),
    /// One that has no address.
    Script(ScriptBuf),
}

impl NamedOutput {
    /// An address, or a script in hexadecimal.
    pub(super) fn read(text: &str) -> Option<Self> {
        let address = text.parse().ok().map(Self::Address);
        address.or_else(|| ScriptBuf::from_hex(text).ok().map(Self::Script))
    }
}

/// A node of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Where its RPC server listens.
    pub port: u16,
    /// Its cookie file; `None`: `.cookie` of the network's directory.
    pub cookie: Option<PathBuf>,
}

/// The command behind `psbt`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PsbtAction {
    /// Show one.
    Inspect,
    Sign,
    /// Join several.
    Combine,
    /// Finalise the inputs of one.
    Finalize,
    /// Turn a finished one into the transaction to broadcast.
    Extract,
}

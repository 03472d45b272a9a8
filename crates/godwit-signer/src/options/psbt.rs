//! Options of `psbt`.

use std::path::PathBuf;

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
    /// `-anyoutputs`.
    pub any_outputs: bool,
    /// `-anyindex`.
    pub any_index: bool,
    /// `-node`: whom to ask about the coins.
    pub node: Option<NodeOptions>,
    /// `-yes`: the token of what is to be signed; `None`: the terminal.
    pub yes: Option<String>,
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

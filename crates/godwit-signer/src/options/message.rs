//! Options of `message`.

use std::path::PathBuf;

use godwit_keys::message::MessageFormat;

use super::keys::KeyFileOptions;

/// A message, and what to do with it.
#[derive(Debug, PartialEq, Eq)]
pub struct MessageOptions {
    pub action: MessageAction,
    /// The address whose key signs.
    pub address: String,
    /// The file with the message; `-` is standard input.
    pub file: PathBuf,
    /// The key file to sign with.
    pub key_file: KeyFileOptions,
    /// `-format`; `None`: what is usual of the address.
    pub format: Option<MessageFormat>,
    /// `-yes`: the token of what is to be signed; `None`: the terminal.
    pub yes: Option<String>,
}

/// The command behind `message`.
#[derive(Debug, PartialEq, Eq)]
pub enum MessageAction {
    /// Show what would be signed.
    Inspect,
    Sign,
    /// Make a PSBT of it for cosigners.
    Psbt {
        /// `-out`: the file to write; `None`: standard output.
        out: Option<PathBuf>,
    },
    Verify {
        /// In base64.
        signature: String,
    },
}

//! What the user asked for: the command line and `godwit.conf` become one typed value.
//!
//! `godwit_program` reads the text by the tables and skips lines of the file that are for the node.
//! After [`parse`] only paths are still text, and every value is in range.

mod draft;
mod keys;
mod message;
mod psbt;
mod table;

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use godwit_keys::KeyId;
use godwit_primitives::Network;
use godwit_program::options::{self as tables, Invoked, OptionsError, Problem};

pub use keys::{
    Bip39Passphrase, Descriptor, KEY_FILE, KdfCost, KeyFileOptions, KeysAction, KeysOptions,
    NewWords, ResidueCheckOptions,
};
pub use message::{MessageAction, MessageOptions};
pub use psbt::{NamedOutput, NodeOptions, PsbtAction, PsbtOptions};

use draft::Draft;
use table::{CommandName, Signer};

/// Number of words of a new mnemonic.
const DEFAULT_WORDS: NonZeroUsize = NonZeroUsize::new(24).expect("not zero");

/// Indexes whose addresses are listed.
const DEFAULT_RANGE: RangeInclusive<u32> = 0..=19;

/// What a run of the program is to do.
#[derive(Debug)]
pub enum Invocation {
    /// Print this text and stop: `-help` and `-version`.
    Print(String),
    Run(Box<Config>),
}

/// Options of a run, complete and in range.
#[derive(Debug, PartialEq)]
pub struct Config {
    pub network: Network,
    /// `-datadir` as given, or the default; it may not exist yet.
    pub datadir: PathBuf,
    /// A sentence for each section of the configuration file that names no network, and for a configuration
    /// file that is not read (`-allowignoredconf`).
    pub passed_over: Vec<String>,
    pub command: Command,
}

impl Config {
    /// The part of the data directory that belongs to the network.
    pub fn network_dir(&self) -> PathBuf {
        tables::network_dir(&self.datadir, self.network)
    }

    /// The key file of a command that has one.
    pub fn key_file(&self, options: &KeyFileOptions) -> PathBuf {
        options.file.clone().unwrap_or_else(|| self.network_dir().join(KEY_FILE))
    }
}

/// The command and its own options.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// `keys …`
    Keys(KeysOptions),
    /// `psbt …`
    Psbt(PsbtOptions),
    /// `message …`
    Message(MessageOptions),
    /// `residue-check [WALLET.dat]`
    ResidueCheck(ResidueCheckOptions),
}

/// Reads the arguments (without the program's name) and the configuration file they point to. `home` is
/// the user's home directory.
///
/// # Errors
///
/// The first problem found, as one line that names the place.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    home: Option<&Path>,
) -> Result<Invocation, OptionsError> {
    match tables::parse::<Signer>(arguments, home)? {
        tables::Invocation::Print(text) => Ok(Invocation::Print(text)),
        tables::Invocation::Run(invoked) => resolve(invoked).map(Box::new).map(Invocation::Run),
    }
}

fn resolve(invoked: Invoked<Signer>) -> Result<Config, OptionsError> {
    let Invoked { command, operands, network, datadir, passed_over, draft, .. } = invoked;
    Ok(Config { network, datadir, passed_over, command: of_name(command, operands, draft)? })
}

fn of_name(
    name: CommandName,
    mut operands: Vec<PathBuf>,
    draft: Draft,
) -> Result<Command, OptionsError> {
    Ok(match name {
        CommandName::KeysCreate => keys(&draft, create(&draft)),
        CommandName::KeysImport => keys(&draft, import(&draft)),
        CommandName::KeysImportCoreWallet => keys(
            &draft,
            KeysAction::ImportCoreWallet {
                label: draft.keys.label.clone(),
                wallet: operands.remove(0),
                passphrase: draft.keys.wallet_passphrase,
            },
        ),
        CommandName::KeysWatch => keys(
            &draft,
            KeysAction::Watch { label: draft.keys.label.clone(), source: operands.remove(0) },
        ),
        CommandName::KeysList => keys(&draft, KeysAction::List),
        CommandName::KeysDescriptors => keys(&draft, KeysAction::Descriptors),
        CommandName::KeysXpub => keys(
            &draft,
            KeysAction::Xpub {
                id: key_id(&operands[0])?,
                account: draft.keys.account.unwrap_or(0),
            },
        ),
        CommandName::KeysAddresses => keys(
            &draft,
            KeysAction::Addresses {
                id: key_id(&operands[0])?,
                branch: draft.keys.branch,
                indexes: draft.keys.range.clone().unwrap_or(DEFAULT_RANGE),
            },
        ),
        CommandName::KeysExport => keys(&draft, KeysAction::Export(key_id(&operands[0])?)),
        CommandName::KeysChangePassphrase => {
            keys(&draft, KeysAction::ChangePassphrase { new: draft.keys.new_passphrase })
        }
        CommandName::KeysRemove => keys(&draft, KeysAction::Remove(key_id(&operands[0])?)),
        CommandName::PsbtInspect => psbt(draft, PsbtAction::Inspect, operands),
        CommandName::PsbtSign => psbt(draft, PsbtAction::Sign, operands),
        CommandName::PsbtCombine => psbt(draft, PsbtAction::Combine, operands),
        CommandName::PsbtFinalize => psbt(draft, PsbtAction::Finalize, operands),
        CommandName::PsbtExtract => psbt(draft, PsbtAction::Extract, operands),
        CommandName::MessageInspect => message(draft, MessageAction::Inspect, operands)?,
        CommandName::MessageSign => message(draft, MessageAction::Sign, operands)?,
        CommandName::MessagePsbt => {
            let out = draft.psbt.out.clone();
            message(draft, MessageAction::Psbt { out }, operands)?
        }
        CommandName::MessageVerify => {
            let signature = text(&operands.remove(1), "SIGNATURE")?;
            message(draft, MessageAction::Verify { signature }, operands)?
        }
        CommandName::ResidueCheck => Command::ResidueCheck(ResidueCheckOptions {
            file: key_file(&draft),
            wallet: operands.pop(),
            wallet_passphrase: draft.keys.wallet_passphrase,
        }),
    })
}

fn create(draft: &Draft) -> KeysAction {
    KeysAction::Create {
        label: draft.keys.label.clone(),
        words: draft.keys.words.unwrap_or(DEFAULT_WORDS),
        show: match (draft.keys.show, draft.keys.unseen_words) {
            (Some(descriptor), _) => NewWords::Descriptor(descriptor),
            (None, Some(true)) => NewWords::Unseen,
            (None, _) => NewWords::Terminal,
        },
    }
}

fn import(draft: &Draft) -> KeysAction {
    KeysAction::Import {
        label: draft.keys.label.clone(),
        secret: draft.keys.secret,
        bip39_passphrase: draft.keys.bip39_passphrase,
    }
}

fn psbt(draft: Draft, action: PsbtAction, files: Vec<PathBuf>) -> Command {
    Command::Psbt(PsbtOptions {
        action,
        files,
        key_file: key_file(&draft),
        out: draft.psbt.out,
        max_fee: draft.psbt.max_fee,
        max_fee_rate: draft.psbt.max_fee_rate,
        max_fee_share: draft.psbt.max_fee_share,
        any_sighash: draft.psbt.any_sighash.unwrap_or(false),
        foreign_inputs: draft.psbt.foreign_inputs.unwrap_or(false),
        any_inputs: draft.psbt.any_inputs.unwrap_or(false),
        unproven_amounts: draft.psbt.unproven_amounts.unwrap_or(false),
        any_outputs: draft.psbt.any_outputs,
        any_index: draft.psbt.any_index,
        node: draft.psbt.node,
        yes: draft.yes,
    })
}

fn message(
    draft: Draft,
    action: MessageAction,
    mut operands: Vec<PathBuf>,
) -> Result<Command, OptionsError> {
    Ok(Command::Message(MessageOptions {
        action,
        address: text(&operands[0], "ADDRESS")?,
        file: operands.remove(1),
        key_file: key_file(&draft),
        format: draft.format,
        yes: draft.yes,
    }))
}

fn text(word: &Path, operand: &'static str) -> Result<String, OptionsError> {
    let text = word.to_str().map(str::to_owned);
    text.ok_or_else(|| Problem::BadOperand { operand, expected: "text" }.on_command_line())
}

fn key_file(draft: &Draft) -> KeyFileOptions {
    KeyFileOptions {
        file: draft.keys.file.clone(),
        passphrase: draft.keys.passphrase,
        allow_unlocked_secrets: draft.allow_unlocked_secrets.unwrap_or(false),
        older_copy: draft.keys.older_copy.unwrap_or(false),
    }
}

fn keys(draft: &Draft, action: KeysAction) -> Command {
    let cost = KdfCost { memory_mib: draft.keys.kdf_memory, passes: draft.keys.kdf_passes };
    Command::Keys(KeysOptions { file: key_file(draft), action, cost, yes: draft.yes.clone() })
}

/// The message does not repeat the operand: a user who mistakes this command for another may have
/// typed a secret.
fn key_id(word: &Path) -> Result<KeyId, OptionsError> {
    let id = word.to_str().and_then(|word| word.parse().ok());
    let expected = "eight hexadecimal digits, as keys list shows them";
    id.ok_or_else(|| Problem::BadOperand { operand: "ID", expected }.on_command_line())
}

#[cfg(test)]
mod tests;

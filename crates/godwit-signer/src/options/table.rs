//! The program's tables, in parts.

mod keys;
mod message;
mod psbt;

use std::ffi::OsStr;

use godwit_program::Exit;
use godwit_program::options::{
    self, CommandSpec, FilePlace, GENERAL, NETWORK, OptionSpec, OtherLines, Program,
};

use super::draft::Draft;
use keys::{KEYS_COMMANDS, KEYS_OPTIONS};
use message::{MESSAGE_COMMANDS, MESSAGE_OPTIONS};
use psbt::{PSBT_COMMANDS, PSBT_OPTIONS};

/// The program `godwit-signer`.
pub(super) struct Signer;

/// A command of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CommandName {
    KeysCreate,
    KeysImport,
    KeysImportCoreWallet,
    KeysWatch,
    KeysList,
    KeysDescriptors,
    KeysXpub,
    KeysAddresses,
    KeysExport,
    KeysChangePassphrase,
    KeysRemove,
    PsbtInspect,
    PsbtSign,
    PsbtCombine,
    PsbtFinalize,
    PsbtExtract,
    MessageInspect,
    MessageSign,
    MessagePsbt,
    MessageVerify,
    ResidueCheck,
}

impl Program for Signer {
    type Command = CommandName;
    type Draft = Draft;

    const NAME: &'static str = "godwit-signer";
    const ABOUT: &'static str =
        "Finished PSBTs are verified in Bitcoin Core's engine (libbitcoinkernel).";
    const WITHOUT_COMMAND: Option<(&'static str, &'static CommandSpec<Self>)> = None;
    const COMMANDS: &'static [&'static [CommandSpec<Self>]] =
        &[KEYS_COMMANDS, PSBT_COMMANDS, MESSAGE_COMMANDS, &[RESIDUE_CHECK]];
    const OPTIONS: &'static [&'static [OptionSpec<Self>]] =
        &[KEYS_OPTIONS, PSBT_OPTIONS, MESSAGE_OPTIONS];
    const GROUPS: &'static [&'static str] = &[GENERAL, NETWORK, KEYS, PSBT, MESSAGE];
    const ELSEWHERE: &'static [(&'static str, &'static str)] =
        &[("import", "godwit"), ("utxo", "godwit")];
    const OTHER_LINES: OtherLines = OtherLines::All;
    const EXITS: &'static [Exit] = &[
        Exit::Success,
        Exit::Failure,
        Exit::InputRefused,
        Exit::Configuration,
        Exit::DiskFull,
        Exit::Damaged,
        Exit::DatadirUnusable,
        Exit::Interrupted,
        Exit::Bug,
    ];
}

/// Titles of groups of options.
pub(super) const KEYS: &str = "Options of keys and residue-check";
pub(super) const PSBT: &str = "Options of psbt";
pub(super) const MESSAGE: &str = "Options of message";

const RESIDUE_CHECK: CommandSpec<Signer> = CommandSpec {
    command: CommandName::ResidueCheck,
    words: "residue-check",
    operands: " [WALLET.dat]",
    count: 0..=1,
    help: "Use invented keys in every way that godwit does, and search the memory of the process for \
           copies of them outside of locked memory. With -keys, also open your own key file; with \
           WALLET.dat, also read that wallet of Bitcoin Core.",
};

/// An option with a value that every command takes, on the command line and in the file.
pub(super) const fn setting(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    options::setting(name, placeholder, expected, help, set)
}

/// An option that the command line alone takes.
pub(super) const fn line_option(
    group: &'static str,
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut Draft, &OsStr) -> Option<()>,
) -> OptionSpec<Signer> {
    let every = setting(name, placeholder, expected, help, set);
    OptionSpec { file: FilePlace::Nowhere, group, ..every }
}

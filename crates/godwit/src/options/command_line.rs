//! Arguments to options and operands.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use godwit_keys::KeyId;

use super::error::{OptionsError, Origin, Problem};
use super::psbt::PsbtAction;
use super::spec::{CommandName, CommandSpec, Draft, Form, OptionSpec};
use super::{lookup, table};

/// An option found in one of the sources.
#[derive(Clone)]
pub(super) struct Given {
    pub(super) spec: &'static OptionSpec,
    pub(super) value: OsString,
    pub(super) origin: Origin,
}

impl Given {
    /// `value` is `None` for a bare `-name`; `negated` tells `-noname`, whose value may only be 0
    /// or 1, and 0 negates once more.
    pub(super) fn new(
        spec: &'static OptionSpec,
        negated: bool,
        value: Option<OsString>,
        origin: Origin,
    ) -> Result<Self, OptionsError> {
        let value = match (negated, value, spec.form) {
            (true, value, _) => {
                let off = spec.off().ok_or_else(|| not_negatable(spec, &origin))?;
                match value.as_deref().map(OsStr::as_bytes) {
                    None | Some(b"1") => OsString::from(off),
                    Some(b"0") if matches!(spec.form, Form::Flag) => OsString::from("1"),
                    Some(_) => return Err(not_negatable(spec, &origin)),
                }
            }
            (false, Some(value), _) => value,
            (false, None, Form::Flag) => OsString::from("1"),
            (false, None, Form::Value { placeholder, .. }) => {
                return Err(Problem::NoValue { option: spec.name, placeholder }.at(&origin));
            }
        };
        Ok(Given { spec, value, origin })
    }

    pub(super) fn apply(&self, draft: &mut Draft) -> Result<(), OptionsError> {
        (self.spec.set)(draft, &self.value).ok_or_else(|| {
            let value = self.value.to_string_lossy().into_owned();
            let expected = self.spec.expected();
            Problem::BadValue { option: self.spec.name, value, expected }.at(&self.origin)
        })
    }
}

fn not_negatable(spec: &'static OptionSpec, origin: &Origin) -> OptionsError {
    Problem::NotNegatable { option: spec.name }.at(origin)
}

/// The option that a name stands for, and whether it is negated.
pub(super) fn find_option(
    name: &str,
    origin: &Origin,
) -> Result<(&'static OptionSpec, bool), OptionsError> {
    if let Some(spec) = lookup::find(name) {
        return Ok((spec, false));
    }
    if let Some(spec) = name.strip_prefix("no").and_then(lookup::find) {
        return Ok((spec, true));
    }
    let suggestion = lookup::suggest_option(name);
    Err(Problem::UnknownOption { name: name.to_owned(), suggestion }.at(origin))
}

/// A command with its operands.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Operands {
    Node,
    Import { paths: Vec<PathBuf> },
    UtxoStats,
    UtxoDump { file: PathBuf },
    UtxoLoad { file: PathBuf },
    Psbt { action: PsbtAction, files: Vec<PathBuf> },
    KeysCreate,
    KeysImport,
    KeysImportCoreWallet { wallet: PathBuf },
    KeysList,
    KeysExport { id: KeyId },
    KeysChangePassphrase,
    KeysRemove { id: KeyId },
    KeysResidueCheck { wallet: Option<PathBuf> },
}

/// The command line, its options known but their values unread.
pub(super) struct CommandLine {
    pub(super) given: Vec<Given>,
    /// Words that are no options: the command and its operands.
    words: Vec<OsString>,
}

impl CommandLine {
    /// Options may stand anywhere; `--` ends them. A lone `-` is a word.
    pub(super) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, OptionsError> {
        let mut line = CommandLine { given: Vec::new(), words: Vec::new() };
        let mut arguments = arguments.into_iter().peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                line.words.extend(arguments);
                break;
            }
            let Some((name, mut value)) = split_option(&argument) else {
                line.words.push(argument);
                continue;
            };
            let (spec, negated) = find_option(&name, &Origin::CommandLine)?;
            let takes_next = !negated && matches!(spec.form, Form::Value { .. });
            if value.is_none() && takes_next {
                value = arguments.next_if(|next| !next.as_bytes().starts_with(b"-"));
            }
            line.given.push(Given::new(spec, negated, value, Origin::CommandLine)?);
        }
        Ok(line)
    }

    /// The values given here, in order.
    pub(super) fn draft(&self) -> Result<Draft, OptionsError> {
        let mut draft = Draft::default();
        self.given.iter().try_for_each(|given| given.apply(&mut draft))?;
        Ok(draft)
    }

    /// The command and its operands.
    pub(super) fn command(&self) -> Result<(&'static CommandSpec, Operands), OptionsError> {
        if self.words.is_empty() {
            return Ok((&table::NODE, Operands::Node));
        }
        let found = lookup::commands().find_map(|spec| {
            let length = spec.words.split(' ').count();
            let same = self.words.iter().take(length).map(OsString::as_os_str);
            same.eq(spec.words.split(' ').map(OsStr::new)).then_some((spec, length))
        });
        let Some((spec, length)) = found else { return Err(self.unknown_command()) };
        let mut paths: Vec<PathBuf> = self.words[length..].iter().map(PathBuf::from).collect();
        let operands = match (spec.command, paths.len()) {
            (CommandName::Import, 1..) => Operands::Import { paths },
            (CommandName::UtxoStats, 0) => Operands::UtxoStats,
            (CommandName::UtxoDump, 1) => Operands::UtxoDump { file: paths.remove(0) },
            (CommandName::UtxoLoad, 1) => Operands::UtxoLoad { file: paths.remove(0) },
            (CommandName::KeysCreate, 0) => Operands::KeysCreate,
            (CommandName::KeysImport, 0) => Operands::KeysImport,
            (CommandName::KeysImportCoreWallet, 1) => {
                Operands::KeysImportCoreWallet { wallet: paths.remove(0) }
            }
            (CommandName::KeysList, 0) => Operands::KeysList,
            (CommandName::KeysExport, 1) => Operands::KeysExport { id: key_id(&paths[0])? },
            (CommandName::KeysChangePassphrase, 0) => Operands::KeysChangePassphrase,
            (CommandName::KeysRemove, 1) => Operands::KeysRemove { id: key_id(&paths[0])? },
            (CommandName::KeysResidueCheck, 0..=1) => {
                Operands::KeysResidueCheck { wallet: paths.pop() }
            }
            (command, given) => match psbt_action(command, given) {
                Some(action) => Operands::Psbt { action, files: paths },
                None => {
                    let usage = format!("{} [options]{}", spec.words, spec.operands);
                    return Err(Problem::Operands { usage, given }.on_command_line());
                }
            },
        };
        Ok((spec, operands))
    }

    /// Options of another command are errors here; in the file they wait for their command.
    pub(super) fn check_options_of(&self, command: &CommandSpec) -> Result<(), OptionsError> {
        match self.given.iter().find(|given| !given.spec.commands.contains(&command.command)) {
            Some(given) => {
                let option = given.spec.name;
                Err(Problem::NotOfCommand { option, command: command.name() }.on_command_line())
            }
            None => Ok(()),
        }
    }

    fn unknown_command(&self) -> OptionsError {
        let first: Vec<_> = self.words.iter().take(2).map(|word| word.to_string_lossy()).collect();
        if let [word] = &first[..] {
            let begins =
                |words: &&str| words.split_once(' ').is_some_and(|(first, _)| first == word);
            let commands: Vec<_> =
                lookup::commands().map(|spec| spec.words).filter(begins).collect();
            if !commands.is_empty() {
                let word = word.to_string();
                return Problem::NoSubcommand { word, commands }.on_command_line();
            }
        }
        let candidates = || lookup::commands().map(|spec| spec.words);
        let suggestion = lookup::suggest(&first.join(" "), candidates())
            .or_else(|| lookup::suggest(&first[0], candidates()));
        let words = match (first[0].as_ref(), &suggestion) {
            ("utxo" | "keys" | "psbt", _) => first.join(" "),
            (_, Some(command)) if command.contains(' ') => first.join(" "),
            (word, _) => word.to_owned(),
        };
        Problem::UnknownCommand { words, suggestion }.on_command_line()
    }
}

/// Not repeated in the message: who takes the command for another one may have written a secret.
fn key_id(word: &Path) -> Result<KeyId, OptionsError> {
    let id = word.to_str().and_then(|word| word.parse().ok());
    id.ok_or_else(|| Problem::NotAKeyId.on_command_line())
}

/// The command of `psbt`, if it takes as many operands.
fn psbt_action(command: CommandName, operands: usize) -> Option<PsbtAction> {
    match (command, operands) {
        (CommandName::PsbtInspect, 1) => Some(PsbtAction::Inspect),
        (CommandName::PsbtSign, 1) => Some(PsbtAction::Sign),
        (CommandName::PsbtCombine, 2..) => Some(PsbtAction::Combine),
        (CommandName::PsbtFinalize, 1) => Some(PsbtAction::Finalize),
        (CommandName::PsbtExtract, 1) => Some(PsbtAction::Extract),
        _ => None,
    }
}

/// Name (without its one or two dashes) and value; `None` for a word.
fn split_option(argument: &OsStr) -> Option<(String, Option<OsString>)> {
    let bytes = argument.as_bytes();
    let body = bytes.strip_prefix(b"--").or_else(|| bytes.strip_prefix(b"-"))?;
    if body.is_empty() {
        return None;
    }
    let equals = body.iter().position(|byte| *byte == b'=');
    let name = &body[..equals.unwrap_or(body.len())];
    let value = equals.map(|at| OsString::from_vec(body[at + 1..].to_vec()));
    Some((String::from_utf8_lossy(name).into_owned(), value))
}

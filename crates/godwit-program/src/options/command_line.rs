//! From arguments to options and operands.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

use super::error::{OptionsError, Origin, Problem};
use super::lookup;
use super::spec::{CommandSpec, Draft, Form, OptionSpec, Program};

/// An option found in one of the sources.
pub(super) struct Given<P: Program> {
    pub(super) spec: &'static OptionSpec<P>,
    /// `None` for the negation of an option that repeats: what was said before it is void.
    pub(super) value: Option<OsString>,
    pub(super) origin: Origin,
}

/// Written out because the derived one would demand `P: Clone`.
impl<P: Program> Clone for Given<P> {
    fn clone(&self) -> Self {
        let Self { spec, value, origin } = self;
        Self { spec, value: value.clone(), origin: origin.clone() }
    }
}

impl<P: Program> Given<P> {
    /// `value` is `None` for a bare `-name`. `negated` stands for `-noname`, whose value may only be 1, or 0
    /// where the option can be switched on: 0 negates it once more.
    pub(super) fn new(
        spec: &'static OptionSpec<P>,
        negated: bool,
        value: Option<OsString>,
        origin: Origin,
    ) -> Result<Self, OptionsError> {
        let value = match (negated, value, spec.form) {
            (true, value, _) => {
                negation(spec, value.as_deref()).map_err(|problem| problem.at(&origin))?
            }
            (false, Some(value), _) => Some(value),
            (false, None, Form::Flag | Form::Switch { .. }) => Some(OsString::from("1")),
            (false, None, Form::Value { placeholder, .. }) => {
                return Err(Problem::NoValue { option: spec.name, placeholder }.at(&origin));
            }
        };
        Ok(Given { spec, value, origin })
    }

    pub(super) fn apply(&self, draft: &mut Draft<P>) -> Result<(), OptionsError> {
        let Some(value) = &self.value else { return Ok(()) };
        draft.set(self.spec, value).map_err(|problem| problem.at(&self.origin))
    }

    /// Adds itself to what the same source said before; of that a negation leaves nothing.
    pub(super) fn follow(self, earlier: &mut Vec<Self>) {
        if self.value.is_none() {
            earlier.retain(|given| given.spec.name != self.spec.name);
        }
        earlier.push(self);
    }
}

/// The value that `-noname` or `-noname=value` stands for.
fn negation<P: Program>(
    spec: &OptionSpec<P>,
    value: Option<&OsStr>,
) -> Result<Option<OsString>, Problem> {
    if !spec.is_negatable() {
        return Err(Problem::NotNegatable { option: spec.name });
    }
    let can_be_on = matches!(spec.form, Form::Flag | Form::Switch { .. });
    match value.map(OsStr::as_bytes) {
        None | Some(b"1") => Ok(spec.off().map(OsString::from)),
        Some(b"0") if can_be_on => Ok(Some(OsString::from("1"))),
        Some(value) => {
            let value = String::from_utf8_lossy(value).into_owned();
            Err(Problem::BadNegation { option: spec.name, value, can_be_on })
        }
    }
}

/// The option that a name stands for, and whether it is negated.
pub(super) fn find_option<P: Program>(
    name: &str,
    origin: &Origin,
) -> Result<(&'static OptionSpec<P>, bool), OptionsError> {
    if let Some(spec) = lookup::find(name) {
        return Ok((spec, false));
    }
    if let Some(spec) = name.strip_prefix("no").and_then(lookup::find) {
        return Ok((spec, true));
    }
    let suggestion = lookup::suggest_option::<P>(name);
    Err(Problem::UnknownOption { name: name.to_owned(), suggestion }.at(origin))
}

/// The command line: its options are known, their values not yet read.
pub(super) struct CommandLine<P: Program> {
    pub(super) given: Vec<Given<P>>,
    /// Words that are no options: the command and its operands.
    words: Vec<OsString>,
}

impl<P: Program> CommandLine<P> {
    /// Options may stand anywhere; `--` ends them. A lone `-` is a word.
    pub(super) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, OptionsError> {
        let arguments: Vec<OsString> = arguments.into_iter().collect();
        Self::of(&arguments).map_err(|error| match (&error.problem, elsewhere::<P>(&arguments)) {
            // A command of another program comes with that program's options: the command is the
            // better thing to report.
            (Problem::UnknownOption { .. }, Some(problem)) => problem.on_command_line(),
            _ => error,
        })
    }

    fn of(arguments: &[OsString]) -> Result<Self, OptionsError> {
        let mut line = CommandLine { given: Vec::new(), words: Vec::new() };
        let mut arguments = arguments.iter().peekable();
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                line.words.extend(arguments.cloned());
                break;
            }
            let Some((name, mut value)) = split_option(argument) else {
                line.words.push(argument.clone());
                continue;
            };
            let (spec, negated) = find_option(&name, &Origin::CommandLine)?;
            let takes_next = !negated && matches!(spec.form, Form::Value { .. });
            if value.is_none() && takes_next {
                value = arguments.next_if(|next| !next.as_bytes().starts_with(b"-")).cloned();
            }
            Given::new(spec, negated, value, Origin::CommandLine)?.follow(&mut line.given);
        }
        Ok(line)
    }

    /// The values given on the command line, applied in order.
    pub(super) fn draft(&self) -> Result<Draft<P>, OptionsError> {
        let mut draft = Draft::default();
        self.given.iter().try_for_each(|given| given.apply(&mut draft))?;
        Ok(draft)
    }

    /// The command and its operands. An option of another command is an error on the command line;
    /// in the file it is not, because one file serves all commands.
    pub(super) fn command(&self) -> Result<(P::Command, Vec<PathBuf>), OptionsError> {
        let (name, spec, operands) = self.named_command()?;
        if !spec.count.contains(&operands.len()) {
            let usage = format!("{} {} [options]{}", P::NAME, spec.words, spec.operands);
            return Err(Problem::Operands { usage, given: operands.len() }.on_command_line());
        }
        match self.given.iter().find(|given| !given.spec.commands.contain(spec.command)) {
            Some(given) => {
                let option = given.spec.name;
                Err(Problem::NotOfCommand { option, command: name }.on_command_line())
            }
            None => Ok((spec.command, operands.iter().map(PathBuf::from).collect())),
        }
    }

    /// The command with the name that messages use for it, and its operands.
    fn named_command(
        &self,
    ) -> Result<(&'static str, &'static CommandSpec<P>, &[OsString]), OptionsError> {
        if self.words.is_empty() {
            let unnamed = P::WITHOUT_COMMAND.map(|(name, spec)| (name, spec, &[][..]));
            return unnamed.ok_or_else(|| Problem::NoCommand.on_command_line());
        }
        let found = lookup::commands().find_map(|spec: &CommandSpec<P>| {
            let length = spec.words.split(' ').count();
            let same = self.words.iter().take(length).map(OsString::as_os_str);
            let same = same.eq(spec.words.split(' ').map(OsStr::new));
            same.then(|| (spec.words, spec, &self.words[length..]))
        });
        found.ok_or_else(|| self.unknown_command().on_command_line())
    }

    fn unknown_command(&self) -> Problem {
        let first: Vec<_> = self.words.iter().take(2).map(|word| word.to_string_lossy()).collect();
        if let Some(problem) = elsewhere::<P>(&self.words[..1]) {
            return problem;
        }
        let names = || lookup::commands::<P>().map(|spec| spec.words);
        let begins = |words: &&str| words.split_once(' ').is_some_and(|(word, _)| word == first[0]);
        let commands: Vec<_> = names().filter(begins).collect();
        let is_group = !commands.is_empty();
        if first.len() == 1 && is_group {
            return Problem::NoSubcommand { word: first[0].to_string(), commands };
        }
        let suggestion = lookup::suggest(&first.join(" "), names())
            .or_else(|| lookup::suggest(&first[0], names()))
            .or_else(|| lookup::suggest(first.get(1).filter(|_| is_group)?, names()));
        let words = match &suggestion {
            _ if is_group => first.join(" "),
            Some(command) if command.contains(' ') => first.join(" "),
            _ => first[0].to_string(),
        };
        Problem::UnknownCommand { words, suggestion }
    }
}

/// The first of these words that is a command of another program, as a problem.
fn elsewhere<P: Program>(words: &[OsString]) -> Option<Problem> {
    let words = words.iter().filter_map(|word| word.to_str());
    words
        .into_iter()
        .find_map(lookup::elsewhere::<P>)
        .map(|(word, program)| Problem::OtherProgram { word, program, this: P::NAME })
}

/// An option's name, without its one or two dashes, and value; `None` if the argument is a word.
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

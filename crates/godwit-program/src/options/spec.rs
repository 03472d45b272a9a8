//! The tables in which a program describes its commands and options. Parsing, help, suggestions,
//! which command takes which option and what the file may contain are all derived from them.

use std::ffi::OsStr;
use std::fmt;
use std::ops::RangeInclusive;

use godwit_primitives::Network;

use super::error::Problem;
use super::general::{GENERAL, General};
use crate::exit::Exit;

/// A program: its tables and its names for things.
pub trait Program: Sized + 'static {
    /// One of its commands.
    type Command: Copy + PartialEq + fmt::Debug + 'static;
    /// Values of its own options as given, before they are checked against each other.
    type Draft: Default + 'static;

    /// The name that the user types to start it.
    const NAME: &'static str;
    /// What the program is, in a sentence of `-version`.
    const ABOUT: &'static str;
    /// The command that runs when none is named, with the name that messages use for it.
    const WITHOUT_COMMAND: Option<(&'static str, &'static CommandSpec<Self>)>;
    /// Commands by name.
    const COMMANDS: &'static [&'static [CommandSpec<Self>]];
    /// Its own options, in the order in which the help lists those of a group.
    const OPTIONS: &'static [&'static [OptionSpec<Self>]];
    /// Titles of the groups of options, in the order of the help.
    const GROUPS: &'static [&'static str];
    /// First words of another program's commands, each with the name of that program.
    const ELSEWHERE: &'static [(&'static str, &'static str)];
    /// What it does with lines of the configuration file for another program.
    const OTHER_LINES: OtherLines;
    /// Exit codes that the program can end with, for the help.
    const EXITS: &'static [Exit];
}

/// How a program treats names in the configuration file that it does not know. All programs read
/// the same file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtherLines {
    /// Any other unknown name is an error.
    Known {
        /// Names that belong to another program; their negations do as well.
        others: &'static [&'static str],
        /// Options of Bitcoin Core that the program does not have: the file may have been bitcoind's. They
        /// are passed over, and the user hears of it ([`Invoked::passed_over`](super::Invoked)).
        absent: &'static [&'static str],
    },
    /// Unknown names are left to the other program to check, unless one looks like a typing error.
    All,
}

/// Words, operands and purpose of a command.
pub struct CommandSpec<P: Program> {
    pub command: P::Command,
    /// One or two words; empty for the command that runs when none is named.
    pub words: &'static str,
    /// Operands as the help shows them, with a space in front.
    pub operands: &'static str,
    /// How many operands it takes.
    pub count: RangeInclusive<usize>,
    pub help: &'static str,
}

/// What may follow an option's name.
#[derive(Clone, Copy)]
pub enum Form {
    /// `-name`, `-noname`, `-name=0`, `-name=1`.
    Flag,
    /// `-name`, `-noname` or `-name=value`: something that is switched on, with or without particulars.
    /// The value 1 stands for none.
    Switch {
        /// The value in the help.
        placeholder: &'static str,
        /// What the value has to be, for messages.
        expected: &'static str,
    },
    /// `-name=value` or `-name value`.
    Value {
        /// The value in the help.
        placeholder: &'static str,
        /// What the value has to be, for messages.
        expected: &'static str,
        /// The value that `-noname` stands for, if there is one.
        off: Option<&'static str>,
    },
}

/// Where an option may be given besides the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilePlace {
    /// The command line only.
    Nowhere,
    /// The command line only; a line of the file is another program's, and is passed over.
    OtherProgram,
    /// In the file before the first network section: the option decides which section counts.
    Top,
    /// Anywhere in the file; but what stands before the first section is for main alone, and refused on the
    /// other networks unless their section or the command line has the option (Core `NETWORK_ONLY`).
    PerNetwork,
    /// Anywhere in the file, network sections included.
    Anywhere,
}

/// Which commands take an option.
pub enum Commands<P: Program> {
    /// All of the program.
    Every,
    Only(&'static [P::Command]),
}

impl<P: Program> Commands<P> {
    pub(super) fn contain(&self, command: P::Command) -> bool {
        match self {
            Self::Every => true,
            Self::Only(commands) => commands.contains(&command),
        }
    }
}

/// Puts a value into a draft; returns `None` when the option does not take the value.
pub enum Setter<P: Program> {
    /// For an option that every program has.
    General(fn(&mut General, &OsStr) -> Option<()>),
    /// For one of the program's own options.
    Own(fn(&mut P::Draft, &OsStr) -> Option<()>),
    /// For one whose value has parts: it says what is wrong.
    Explained(fn(&mut P::Draft, &OsStr) -> Result<(), String>),
}

pub struct OptionSpec<P: Program> {
    /// Without dashes.
    pub name: &'static str,
    /// Other names for it.
    pub aliases: &'static [&'static str],
    /// What may follow the name.
    pub form: Form,
    /// Where it may be given besides the command line.
    pub file: FilePlace,
    /// Which commands take it.
    pub commands: Commands<P>,
    /// Networks on which giving it makes sense.
    pub networks: &'static [Network],
    /// One of [`Program::GROUPS`].
    pub group: &'static str,
    /// The option may be repeated and its values add up, and `-noname` voids those before it; otherwise the
    /// last one counts.
    pub repeats: bool,
    pub help: &'static str,
    /// Where its value goes.
    pub set: Setter<P>,
}

impl<P: Program> OptionSpec<P> {
    /// The value that `-noname` stands for.
    pub(super) fn off(&self) -> Option<&'static str> {
        match self.form {
            Form::Flag | Form::Switch { .. } => Some("0"),
            Form::Value { off, .. } => off,
        }
    }

    /// Whether there is a `-noname`.
    pub(super) fn is_negatable(&self) -> bool {
        self.repeats || self.off().is_some()
    }

    /// What the option takes, for messages.
    pub(super) fn expected(&self) -> &'static str {
        match self.form {
            Form::Flag => "0 or 1",
            Form::Switch { expected, .. } | Form::Value { expected, .. } => expected,
        }
    }
}

/// Values of options as given, before they are checked against each other; `None` is "not given".
pub struct Draft<P: Program> {
    pub general: General,
    pub own: P::Draft,
}

impl<P: Program> Default for Draft<P> {
    fn default() -> Self {
        Self { general: General::default(), own: P::Draft::default() }
    }
}

impl<P: Program> Draft<P> {
    pub(super) fn set(&mut self, spec: &OptionSpec<P>, value: &OsStr) -> Result<(), Problem> {
        let (option, text) = (spec.name, || value.to_string_lossy().into_owned());
        let taken = match spec.set {
            Setter::General(set) => set(&mut self.general, value),
            Setter::Own(set) => set(&mut self.own, value),
            Setter::Explained(set) => {
                return set(&mut self.own, value).map_err(|reason| Problem::Refused {
                    option,
                    value: text(),
                    reason,
                });
            }
        };
        let expected = spec.expected();
        taken.ok_or_else(|| Problem::BadValue { option, value: text(), expected })
    }
}

/// An option with a value that every command takes, on the command line and in the file.
pub const fn setting<P: Program>(
    name: &'static str,
    placeholder: &'static str,
    expected: &'static str,
    help: &'static str,
    set: fn(&mut P::Draft, &OsStr) -> Option<()>,
) -> OptionSpec<P> {
    OptionSpec {
        name,
        aliases: &[],
        form: Form::Value { placeholder, expected, off: None },
        file: FilePlace::Anywhere,
        commands: Commands::Every,
        networks: &Network::ALL,
        group: GENERAL,
        repeats: false,
        help,
        set: Setter::Own(set),
    }
}

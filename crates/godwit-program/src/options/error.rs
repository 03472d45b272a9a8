//! Everything that can be wrong with a command line or a configuration file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::escape::{OneLine, Repeated};

/// Core's words.
const SEVERAL_NETWORKS: &str = "Invalid combination of -regtest, -signet, -testnet, -testnet4 and -chain. \
                                Can use at most one.";

/// A command line or configuration file that makes no sense. `Display` is one line: where, what is
/// wrong, and what to write instead.
#[derive(Debug)]
pub struct OptionsError {
    pub origin: Origin,
    pub problem: Problem,
}

/// Where an option was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// On the command line.
    CommandLine,
    /// In a configuration file.
    File {
        path: Arc<PathBuf>,
        /// Line, from 1.
        line: usize,
    },
}

/// What is wrong. Options are named without dashes.
#[derive(Debug)]
pub enum Problem {
    /// No option has this name.
    UnknownOption {
        name: String,
        /// The most similar option.
        suggestion: Option<String>,
    },
    /// No command has this name.
    UnknownCommand {
        words: String,
        /// The most similar command.
        suggestion: Option<String>,
    },
    /// The command belongs to another program.
    OtherProgram {
        /// Its first word.
        word: &'static str,
        /// The program that has it.
        program: &'static str,
        /// The program that was started.
        this: &'static str,
    },
    /// No command, where there has to be one.
    NoCommand,
    /// Only the first word of commands that have two.
    NoSubcommand { word: String, commands: Vec<&'static str> },
    /// The option exists, but not for this command.
    NotOfCommand { option: &'static str, command: &'static str },
    /// The command takes a different number of operands.
    Operands {
        /// The command with its operands, as the help shows it.
        usage: String,
        /// Operands given.
        given: usize,
    },
    /// An option without its value.
    NoValue {
        option: &'static str,
        /// What the value is, as the help shows it.
        placeholder: &'static str,
    },
    /// `-noname` of an option that is not switched off that way.
    NotNegatable { option: &'static str },
    /// `-noname=value` with a value that does not go with a negation.
    BadNegation {
        option: &'static str,
        value: String,
        /// The option may be switched on without a value: 0 negates its negation.
        can_be_on: bool,
    },
    /// A value that the option does not take.
    BadValue { option: &'static str, value: String, expected: &'static str },
    /// More than one network is chosen; found where the last one is.
    SeveralNetworks,
    /// An option that the chosen network does not have.
    WrongNetwork {
        option: &'static str,
        /// Networks that have it.
        networks: String,
        chosen: &'static str,
    },
    /// No `-datadir` and no home directory to put the default into.
    NoDatadir,
    /// The configuration file could not be read.
    ConfigUnreadable { path: PathBuf, error: io::Error },
    /// A name in the file that starts with a dash.
    LeadingDash,
    /// A line of the file that is neither `name=value` nor `[section]`.
    NoEqualsSign,
    /// A comment behind a password, or a password with a `#`.
    HashInPassword,
    /// A line of the file that is not UTF-8.
    NotUtf8,
    /// An option that only the command line takes, in the file.
    NotInFile { option: &'static str },
    /// An option that chooses network or data directory, inside a network section.
    NotInSection { option: &'static str },
    /// The option stands in a section that names no network.
    OfNoNetwork { option: &'static str },
    /// The same option twice in one section of the file.
    Repeated {
        option: &'static str,
        /// Line of the first one.
        first_line: usize,
    },
    /// An operand that is not what it should be. The message does not repeat it: a user who
    /// mistakes one command for another may have typed a secret.
    BadOperand {
        /// As the help calls it.
        operand: &'static str,
        /// What it has to be.
        expected: &'static str,
    },
    /// A value of several parts of which one is wrong, or that the option does not take together with others.
    Refused {
        option: &'static str,
        value: String,
        /// Why, and what to say instead.
        reason: String,
    },
    /// An option that has no effect together with another one.
    OfNoUse {
        option: &'static str,
        /// The other option, with its value.
        with: &'static str,
    },
    /// An option that has no meaning without another one.
    Lacks {
        option: &'static str,
        /// The other option.
        needed: &'static str,
    },
    /// An option before all sections of the file that means main alone there.
    OnlyInSection { option: &'static str, network: &'static str },
    /// The data directory has a configuration file, and another one is read.
    ConfigIgnored {
        /// The file that would not be read.
        ignored: PathBuf,
        /// The one that is.
        read: PathBuf,
    },
}

impl Problem {
    /// This problem at a place.
    pub fn at(self, origin: &Origin) -> OptionsError {
        OptionsError { origin: origin.clone(), problem: self }
    }

    /// This problem on the command line.
    pub fn on_command_line(self) -> OptionsError {
        self.at(&Origin::CommandLine)
    }
}

impl std::error::Error for OptionsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::ConfigUnreadable { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl OptionsError {
    /// Writes where it was found; how options begin there.
    fn write_place(&self, f: &mut fmt::Formatter<'_>) -> Result<&'static str, fmt::Error> {
        match &self.origin {
            Origin::CommandLine => Ok("-"),
            Origin::File { path, line } => {
                write!(f, "{}:{line}: ", path.display())?;
                Ok("")
            }
        }
    }

    /// Writes it with whatever characters the user has written.
    fn write(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dash = self.write_place(f)?;
        match &self.problem {
            Problem::UnknownOption { name, suggestion } => {
                let hint = did_you_mean(suggestion, dash);
                write!(f, "unknown option {dash}{}{hint}", Repeated(name))
            }
            Problem::UnknownCommand { words, suggestion } => {
                write!(f, "unknown command '{}'{}", Repeated(words), did_you_mean(suggestion, ""))
            }
            Problem::OtherProgram { word, program, this } => {
                write!(f, "'{word}' is a command of {program}; run that instead of {this}")
            }
            Problem::NoCommand => f.write_str("no command given; see -help"),
            Problem::NoSubcommand { word, commands } => {
                write!(f, "'{word}' is incomplete; say one of {}", commands.join(", "))
            }
            Problem::NotOfCommand { option, command } => {
                write!(f, "{dash}{option} is not an option of {command}; -help lists them")
            }
            Problem::Operands { usage, given } => {
                write!(f, "usage: {usage} (operands given: {given})")
            }
            Problem::NoValue { option, placeholder } => {
                write!(f, "{dash}{option} needs a value: {dash}{option}={placeholder}")
            }
            Problem::NotNegatable { option } => {
                write!(f, "{dash}{option} cannot be switched off with {dash}no{option}")
            }
            Problem::BadNegation { option, value, can_be_on } => {
                write!(f, "{dash}no{option}={}: expected ", Repeated(value))?;
                write_expected_negation(f, option, *can_be_on, dash)
            }
            Problem::BadValue { option, value, expected } => {
                write!(f, "{dash}{option}={}: expected {expected}", Repeated(value))
            }
            Problem::SeveralNetworks => f.write_str(SEVERAL_NETWORKS),
            Problem::WrongNetwork { option, networks, chosen } => {
                write!(f, "{dash}{option} is for {networks}, but the network is {chosen}")
            }
            Problem::NoDatadir => f.write_str("no home directory; give -datadir=DIR"),
            Problem::ConfigUnreadable { path, error } => {
                write!(f, "configuration file {}: {error}", path.display())
            }
            Problem::LeadingDash => f.write_str("options in the file have no leading dash"),
            Problem::NoEqualsSign => f.write_str("expected name=value or [section]"),
            Problem::HashInPassword => f.write_str(
                "a # in the line of rpcpassword is ambiguous; choose a password without one",
            ),
            Problem::NotUtf8 => f.write_str("not UTF-8"),
            Problem::NotInFile { option } => write!(f, "{option} is for the command line only"),
            Problem::OfNoNetwork { option } => write!(f, "{option} is in no network's section"),
            Problem::NotInSection { option } => {
                write!(f, "{option} has to stand before the network sections")
            }
            Problem::Repeated { option, first_line } => {
                write!(f, "{option} is given twice, first in line {first_line}")
            }
            Problem::BadOperand { operand, expected } => write!(f, "{operand}: {expected}"),
            Problem::Refused { option, value, reason } => {
                write!(f, "{dash}{option}={}: {}", Repeated(value), Repeated(reason))
            }
            Problem::OfNoUse { option, with } => {
                write!(f, "{dash}{option} is of no use with {dash}{with}")
            }
            Problem::Lacks { option, needed } => write!(f, "{dash}{option} needs {dash}{needed}"),
            Problem::OnlyInSection { option, network } => write_main_alone(f, option, network),
            Problem::ConfigIgnored { ignored, read } => write_ignored(f, ignored, read, dash),
        }
    }
}

struct AsWritten<'a>(&'a OptionsError);

impl fmt::Display for AsWritten<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f)
    }
}

impl fmt::Display for OptionsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", OneLine(&AsWritten(self).to_string()))
    }
}

fn write_expected_negation(
    f: &mut fmt::Formatter<'_>,
    option: &str,
    can_be_on: bool,
    dash: &str,
) -> fmt::Result {
    match can_be_on {
        true => f.write_str("0 or 1"),
        false => write!(f, "1, or {dash}{option} with a value"),
    }
}

/// In Core's words.
fn write_main_alone(f: &mut fmt::Formatter<'_>, option: &str, network: &str) -> fmt::Result {
    write!(
        f,
        "Config setting for -{option} only applied on {network} network when in [{network}] section."
    )
}

fn write_ignored(
    f: &mut fmt::Formatter<'_>,
    ignored: &Path,
    read: &Path,
    dash: &str,
) -> fmt::Result {
    let (ignored, read) = (ignored.display(), read.display());
    let instead = format!("{ignored} is ignored, because {read} is read instead");
    write!(f, "{instead}; merge the two, or say {dash}allowignoredconf=1")
}

fn did_you_mean(suggestion: &Option<String>, dash: &str) -> String {
    match suggestion {
        Some(other) => format!("; did you mean {dash}{other}?"),
        None => "; see -help".to_owned(),
    }
}

//! What the user asked for: the command line and `godwit.conf`, read by the tables of a [`Program`].
//!
//! Options are read in three steps. `command_line` and `config_file` find them in the tables and
//! record where each was given; [`parse`] applies them to a draft in rising order of precedence
//! (file, network section of the file, command line); the program checks what concerns several
//! options at once.
//!
//! The syntax is bitcoind's (Core `common/args.cpp`, `common/config.cpp`): one or two dashes,
//! `-name=value`, `-name`, `-noname`. Beyond it, a value may also follow as the next word, options
//! may stand after the command, an unknown name is always an error, and a flag, negated or not, takes
//! only 0 or 1.

mod command_line;
mod config_file;
mod error;
mod general;
mod general_table;
mod help;
mod lookup;
mod resolve;
mod spec;
pub mod values;

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use godwit_primitives::{Network, Params};

pub use config_file::read as read_config;
pub use error::{OptionsError, Origin, Problem};
pub use general::{GENERAL, General, NETWORK};
pub use lookup::{commands as all_commands, options as all_options};
pub use spec::{
    CommandSpec, Commands, Draft, FilePlace, Form, OptionSpec, OtherLines, Program, Setter, setting,
};

use command_line::{CommandLine, Given};
use config_file::ConfigFile;

/// Name of the configuration file inside the data directory.
pub const CONFIG_FILE: &str = "godwit.conf";
/// The data directory below the user's home directory when `-datadir` is not given.
pub const DEFAULT_DATADIR: &str = ".godwit";

/// The user's home directory, if there is one.
pub fn home_directory() -> Option<PathBuf> {
    std::env::home_dir().filter(|home| !home.as_os_str().is_empty())
}

/// The part of a data directory that belongs to a network (Core's layout: the main network uses the
/// directory itself).
pub fn network_dir(datadir: &Path, network: Network) -> PathBuf {
    match Params::new(network).subdir {
        "" => datadir.to_owned(),
        subdir => datadir.join(subdir),
    }
}

/// What a run of a program is to do.
pub enum Invocation<P: Program> {
    /// Print this text and stop: `-help` and `-version`.
    Print(String),
    Run(Invoked<P>),
}

/// A command with its operands and options.
pub struct Invoked<P: Program> {
    pub command: P::Command,
    /// As many as the command takes ([`CommandSpec::count`]).
    pub operands: Vec<PathBuf>,
    pub network: Network,
    /// `-datadir` as given, or the default; it may not exist yet.
    pub datadir: PathBuf,
    /// The configuration file that was read, if there was one.
    pub config_file: Option<PathBuf>,
    /// A sentence for each line of it with an option of Bitcoin Core that the program does not have, for each
    /// section that names no network, and for a configuration file that is not read (`-allowignoredconf`).
    pub passed_over: Vec<String>,
    /// Values of the program's own options, from all sources.
    pub draft: P::Draft,
    given: Vec<Given<P>>,
}

impl<P: Program> Invoked<P> {
    /// Where the value that an option ends up with was given; `None` for a default.
    pub fn origin(&self, option: &str) -> Option<&Origin> {
        self.given.iter().rfind(|given| given.spec.name == option).map(|given| &given.origin)
    }
}

/// Reads the arguments (without the program's name) and the configuration file they point to. `home` is
/// the user's home directory.
///
/// # Errors
///
/// The first problem found, as one line that names the place.
pub fn parse<P: Program>(
    arguments: impl IntoIterator<Item = OsString>,
    home: Option<&Path>,
) -> Result<Invocation<P>, OptionsError> {
    let line = CommandLine::<P>::parse(arguments)?;
    let general = line.draft()?.general;
    if general.help {
        return Ok(Invocation::Print(help::help_text::<P>()));
    }
    if general.version {
        return Ok(Invocation::Print(help::version_text::<P>()));
    }
    let (command, operands) = line.command()?;
    let datadir = resolve::first_datadir(&general, home)?;
    let file = read_config_file(&datadir, general.conf.as_deref())?;
    resolve::resolve(line, command, operands, file, home).map(Invocation::Run)
}

/// A missing file is an error only where `-conf` names it.
fn read_config_file<P: Program>(
    datadir: &Path,
    named: Option<&Path>,
) -> Result<Option<ConfigFile<P>>, OptionsError> {
    let path = datadir.join(named.unwrap_or(Path::new(CONFIG_FILE)));
    match config_file::read(&path) {
        Ok(bytes) => ConfigFile::parse(path, &bytes).map(Some),
        // What else is wrong with a data directory that is none is told by who uses it.
        Err(error) if named.is_none() && is_absent(&error) => Ok(None),
        Err(error) => Err(Problem::ConfigUnreadable { path, error }.on_command_line()),
    }
}

fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests;

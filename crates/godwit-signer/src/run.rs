//! From arguments to exit code.

use std::ffi::OsString;
use std::fmt;
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::panic::UnwindSafe;
use std::path::PathBuf;

use godwit_program::options::home_directory;
use godwit_program::{
    Exit, OutputError, StopFlag, complain, panics, print_text, write_for_owner_only,
};

use crate::keys::KeysFailure;
use crate::message::MessageFailure;
use crate::options::{Command, Config, Invocation, parse};
use crate::psbt::PsbtFailure;
use crate::residue_check::CheckError;
use crate::{keys, message, psbt, residue_check};

/// Why a run did not succeed.
enum Failure {
    /// The data directory could not be created.
    Directory(PathBuf, io::Error),
    /// Signals could not be caught.
    Signals(io::Error),
    Output(OutputError),
    Keys(KeysFailure),
    Psbt(PsbtFailure),
    Message(MessageFailure),
    ResidueCheck(CheckError),
}

impl Failure {
    fn exit(&self) -> Exit {
        match self {
            Self::Directory(_, error) => Exit::of_write(error, Exit::DatadirUnusable),
            Self::Signals(_) => Exit::Failure,
            Self::Output(error) => error.exit(),
            Self::Keys(failure) => failure.exit(),
            Self::Psbt(failure) => failure.exit(),
            Self::Message(failure) => failure.exit(),
            Self::ResidueCheck(error) => error.exit(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(path, error) => {
                write!(f, "the data directory {} cannot be made: {error}", path.display())
            }
            Self::Signals(error) => write!(f, "signals cannot be caught: {error}"),
            Self::Output(error) => error.fmt(f),
            Self::Keys(failure) => failure.fmt(f),
            Self::Psbt(failure) => failure.fmt(f),
            Self::Message(failure) => failure.fmt(f),
            Self::ResidueCheck(error) => error.fmt(f),
        }
    }
}

/// Runs the program on arguments (without its name). Failures are one line on standard error.
pub fn main(arguments: impl IntoIterator<Item = OsString> + UnwindSafe) -> Exit {
    panics::unwinding("godwit-signer", || on_arguments(arguments))
}

fn on_arguments(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    write_for_owner_only();
    let invocation = match parse(arguments, home_directory().as_deref()) {
        Ok(invocation) => invocation,
        Err(error) => {
            complain(&format!("godwit-signer: {error}"));
            return Exit::Configuration;
        }
    };
    let result = match invocation {
        Invocation::Print(text) => print_text(&text).map_err(Failure::Output),
        Invocation::Run(config) => run(&config),
    };
    result.unwrap_or_else(|failure| {
        complain(&format!("godwit-signer: {failure}"));
        failure.exit()
    })
}

fn run(config: &Config) -> Result<Exit, Failure> {
    StopFlag::end_at_once().map_err(Failure::Signals)?;
    for text in &config.passed_over {
        complain(&format!("godwit-signer: {text}"));
    }
    match &config.command {
        Command::Keys(options) => {
            // The key file may be the first file in this directory.
            if options.file.file.is_none() {
                make_directory(config.network_dir())?;
            }
            keys::run(config, options).map_err(Failure::Keys)
        }
        Command::Psbt(options) => psbt::run(config, options).map_err(Failure::Psbt),
        Command::Message(options) => message::run(config, options).map_err(Failure::Message),
        Command::ResidueCheck(options) => {
            residue_check::run(config, options).map_err(Failure::ResidueCheck)
        }
    }
}

fn make_directory(path: PathBuf) -> Result<(), Failure> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
    made.map_err(|error| Failure::Directory(path, error))
}

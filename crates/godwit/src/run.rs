//! Runs the program: from the process's arguments to its exit code.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_chain::ChainError;
use godwit_program::{complain, panics, print_text, write_for_owner_only};
use godwit_store::check_unused;
use godwit_store::disk::{Disk, RealDisk, StoreDisk};
use indicatif::{MultiProgress, ProgressDrawTarget};
use log::Level;

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::logging::{self, Console};
use crate::options::{Command, Config, Environment, Invocation, parse};
use crate::process::StopFlag;
use crate::{hand_over, import, memory, node, status, utxo, verdicts, verify};

/// Why a run could not start.
#[derive(Debug)]
enum StartError {
    /// It was named, and is not there.
    NoDirectory(PathBuf),
    /// The data directory could not be created.
    Directory(PathBuf, io::Error),
    /// The log could not be opened.
    Log(PathBuf, io::Error),
    /// Signals could not be caught.
    Signals(io::Error),
}

impl Fatal for StartError {
    fn exit(&self) -> Exit {
        match self {
            Self::NoDirectory(_) => Exit::DatadirUnusable,
            Self::Directory(_, error) | Self::Log(_, error) => {
                Exit::of_write(error, Exit::DatadirUnusable)
            }
            Self::Signals(_) => Exit::Failure,
        }
    }
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Core's words.
            Self::NoDirectory(path) => {
                write!(f, "Specified data directory \"{}\" does not exist.", path.display())
            }
            Self::Directory(path, error) => {
                write!(f, "the data directory {} cannot be made: {error}", path.display())
            }
            Self::Log(path, error) => {
                write!(f, "the log in {} cannot be opened: {error}", path.display())
            }
            Self::Signals(error) => write!(f, "signals cannot be caught: {error}"),
        }
    }
}

/// Runs the program on the process's arguments. Failures are one line on standard error.
pub fn main() -> Exit {
    panics::end_at_once("godwit", godwit_store::expects_panic);
    write_for_owner_only();
    let invocation = match parse(std::env::args_os().skip(1), &Environment::of_process()) {
        Ok(invocation) => invocation,
        Err(error) => {
            complain(&format!("godwit: {error}"));
            return Exit::Configuration;
        }
    };
    let result = match invocation {
        Invocation::Print(text) => print_text(&text).map_err(Failure::from),
        Invocation::Run(config) => match &config.command {
            // Neither the directory nor the log is this process's.
            Command::Status(options) => {
                check_named(&config).and_then(|()| status::run(&config, options))
            }
            _ => run(&config),
        },
    };
    result.unwrap_or_else(|failure| {
        complain(&format!("godwit: {failure}"));
        failure.exit()
    })
}

/// Only the default directory is made.
fn check_named(config: &Config) -> Result<(), Failure> {
    match config.is_datadir_named && !config.datadir.is_dir() {
        true => Err(StartError::NoDirectory(config.datadir.clone()).into()),
        false => Ok(()),
    }
}

fn run(config: &Config) -> Result<Exit, Failure> {
    check_named(config)?;
    let dir = config.network_dir();
    match RealDisk.create_dir_all(&dir) {
        // What a file system lacks on which it is made, and not durably, the store tells.
        Err(error) if !dir.is_dir() => return Err(StartError::Directory(dir, error).into()),
        Ok(()) | Err(_) => {}
    }
    hand_over::check_source(config, &dir)?;
    // Before the log, which in a directory of another program, or of a node that runs, is not this process's;
    // nor is the cookie.
    let unused = check_unused(&StoreDisk::new(Arc::new(RealDisk)), &dir);
    unused.map_err(|error| Failure::from(ChainError::from(error)).of_directory(&dir))?;
    let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    let stop = if config.command.is_long() { StopFlag::install() } else { StopFlag::end_at_once() };
    let stop = stop.map_err(StartError::Signals)?;
    // Without a terminal, a command that validates logs to standard output as well; one that prints a
    // result needs standard output for that.
    let console = match config.command.validates() && bars.is_hidden() {
        true => Console::Lines,
        false => Console::Warnings(bars.clone()),
    };
    let log = logging::start(&dir, console);
    let written_at_the_end = log.map_err(|error| StartError::Log(dir.clone(), error))?;
    log::info!("godwit version {}", env!("CARGO_PKG_VERSION"));
    config.passed_over.iter().for_each(|text| log::warn!("{text}."));
    memory::warn_of_too_much(config, memory::available());
    let result = follow(config, &bars, &stop).map_err(|failure| failure.of_directory(&dir));
    // Whoever reads the log later does not see standard error.
    result.inspect_err(|failure| {
        let is_stop = failure.exit() == Exit::Interrupted;
        let level = if is_stop { Level::Info } else { Level::Error };
        written_at_the_end.last(level, &format!("Ended: {failure}"));
    })
}

/// Does what the command says.
fn follow(config: &Config, bars: &MultiProgress, stop: &StopFlag) -> Result<Exit, Failure> {
    match &config.command {
        Command::Node(options) => node::run(config, options, bars, stop),
        Command::Import(options) => match &options.verdicts {
            Some(file) => verdicts::run(config, options, file, bars, stop),
            None => import::run(config, options, bars, stop),
        },
        Command::UtxoStats => utxo::stats(config, bars, stop),
        Command::UtxoDump { file } => utxo::dump(config, file, bars, stop),
        Command::UtxoLoad { file, expected } => {
            utxo::load(config, file, expected.as_ref(), bars, stop)
        }
        Command::Verify(options) => verify::run(config, *options, bars, stop),
        Command::HandOver { to } => hand_over::run(config, to, bars, stop),
        Command::Status(options) => status::run(config, options),
    }
}

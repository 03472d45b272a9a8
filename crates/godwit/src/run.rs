//! Runs the program: from the process's arguments to its exit code.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
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

/// Makes a directory and those above it that are missing, durably. Where that fails none of them stays: the
/// next start would find them, and not make their names durable.
fn make(disk: &dyn Disk, dir: &Path) -> io::Result<()> {
    let missing: Vec<&Path> = dir.ancestors().take_while(|dir| !dir.exists()).collect();
    match disk.create_dir_all(dir) {
        // Of a file system that knows no durable names the store tells, with what it lacks.
        Err(error) if dir.is_dir() && is_refused(&error) => Ok(()),
        Err(error) => {
            // One into which others have put something stays, and those above it.
            drop(missing.iter().try_for_each(fs::remove_dir));
            Err(error)
        }
        Ok(()) => Ok(()),
    }
}

/// Whether the system does not know or permit the operation, rather than that the disk has failed.
fn is_refused(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidInput, PermissionDenied, Unsupported};
    matches!(error.kind(), InvalidInput | PermissionDenied | Unsupported)
}

fn run(config: &Config) -> Result<Exit, Failure> {
    check_named(config)?;
    let dir = config.network_dir();
    make(&RealDisk, &dir).map_err(|error| StartError::Directory(dir.clone(), error))?;
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

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    use godwit_fault_disk::forward_disk;
    use godwit_store::disk::{DiskFile, OpenMode};

    use super::*;

    /// Makes directories, and fails to make their names durable.
    struct Undurable(RealDisk, ErrorKind);

    impl Disk for Undurable {
        forward_disk!(0: sync_dir, rename, remove, list, free_bytes, try_lock);

        fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
            self.0.open(path, mode)
        }

        fn create_dir_all(&self, path: &Path) -> io::Result<()> {
            self.0.create_dir_all(path)?;
            Err(self.1.into())
        }
    }

    #[test]
    fn a_data_directory_whose_name_is_not_durable_is_not_left_for_the_next_start() {
        let temp = tempfile::tempdir().expect("a temporary directory");
        let (above, dir) = (temp.path().join("godwit"), temp.path().join("godwit/regtest"));
        let fails = |kind| make(&Undurable(RealDisk, kind), &dir).map_err(|error| error.kind());
        assert_eq!(fails(ErrorKind::StorageFull), Err(ErrorKind::StorageFull));
        assert!(!above.exists());
        fs::create_dir(&above).expect("there is room");
        fs::write(above.join("godwit.conf"), "").expect("there is room");
        assert_eq!(fails(ErrorKind::StorageFull), Err(ErrorKind::StorageFull));
        assert!(above.exists() && !dir.exists(), "only what was made is taken away");
        // The store refuses it, in its words.
        assert_eq!(fails(ErrorKind::InvalidInput), Ok(()));
        assert!(dir.exists());
        make(&RealDisk, &dir).expect("it is there");
    }
}

//! From arguments to exit code.

use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::sync::Arc;

use godwit_chain::{BlockMemory, Chain, ChainOptions};
use godwit_store::disk::RealDisk;
use indicatif::{MultiProgress, ProgressDrawTarget};
use rustix::fs::Mode;

use crate::descriptors;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::log_format::{self, Console};
use crate::options::{Command, Config, Environment, Invocation, PsbtAction, parse};
use crate::panics;
use crate::process::{self, StopFlag};
use crate::{import, keys, node, psbt, utxo, verdicts};

/// Runs the program on the process's arguments. Failures are one line on standard error.
pub fn main() -> Exit {
    panics::unwinding(on_arguments)
}

fn on_arguments() -> Exit {
    // What godwit writes is its owner's alone, whatever the shell's umask says.
    rustix::process::umask(Mode::from_raw_mode(0o077));
    let invocation = match parse(std::env::args_os().skip(1), &Environment::of_process()) {
        Ok(invocation) => invocation,
        Err(error) => {
            eprintln!("godwit: {error}");
            return Exit::Configuration;
        }
    };
    let result = match invocation {
        Invocation::Print(text) => print(&text),
        Invocation::Run(config) => run(&config),
    };
    result.unwrap_or_else(|failure| {
        eprintln!("godwit: {failure}");
        failure.exit()
    })
}

fn print(text: &str) -> Result<Exit, Failure> {
    writeln!(std::io::stdout(), "{}", text.trim_end()).map_err(Failure::Output)?;
    Ok(Exit::Success)
}

fn run(config: &Config) -> Result<Exit, Failure> {
    // Needs no data directory.
    if let Command::Psbt(options) = &config.command
        && options.action != PsbtAction::Sign
    {
        return psbt::run(config, options);
    }
    if !has_keys(&config.command) {
        panics::end_at_once();
    }
    let dir = config.network_dir();
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&dir)
        .map_err(|error| Failure::Directory(dir.clone(), error))?;
    let bars = MultiProgress::with_draw_target(ProgressDrawTarget::stderr());
    // A long job without a terminal logs to standard output; a command that prints a result keeps
    // that for itself.
    let long_job = validates(&config.command);
    let stop = if long_job { StopFlag::install()? } else { StopFlag::end_at_once()? };
    let console = match long_job && bars.is_hidden() {
        true => Console::Lines,
        false => Console::Warnings(bars.clone()),
    };
    log_format::start(&dir, console).map_err(|error| Failure::Log(dir.clone(), error))?;
    log::info!("godwit version {}", env!("CARGO_PKG_VERSION"));
    match &config.command {
        Command::Node(options) => node::run(config, options, &bars, &stop),
        Command::Import(options) => match &options.verdicts {
            Some(file) => verdicts::run(config, options, file, &stop),
            None => import::run(config, options, &bars, &stop),
        },
        Command::Keys(options) => keys::run(config, options),
        Command::Psbt(options) => psbt::run(config, options),
        Command::UtxoStats => utxo::stats(config),
        Command::UtxoDump { file } => utxo::dump(config, file),
        Command::UtxoLoad { file, expected } => utxo::load(config, file, expected.as_ref()),
    }
}

/// Whether a command has secrets, and one thread.
fn has_keys(command: &Command) -> bool {
    matches!(command, Command::Keys(_) | Command::Psbt(_))
}

/// Whether a command takes in blocks.
fn validates(command: &Command) -> bool {
    matches!(command, Command::Import(_) | Command::Node(_))
}

/// Opens the chain of the configured network.
pub(crate) fn open_chain(
    config: &Config,
    workers: usize,
    stop_at_height: Option<u32>,
) -> Result<Chain, Failure> {
    let options = ChainOptions {
        params: Arc::new(config.params.clone()),
        assume_valid: config.params.assume_valid,
        workers,
        cache_bytes: config.dbcache_bytes,
        stop_at_height,
        // What only looks at the coins deletes no blocks, whatever the file says.
        prune_bytes: config.prune_bytes.filter(|_| validates(&config.command)),
        block_memory: BlockMemory::default(),
        clock: process::seconds_since_1970,
    };
    descriptors::raise(descriptors::BESIDE_CONNECTIONS);
    let key = process::random_bytes()?;
    let chain = Chain::open(Arc::new(RealDisk), config.network_dir(), options, key)?;
    if let Some(assumed) = chain.assumed() {
        log::warn!(
            "The coins up to height {} were loaded from a snapshot and are assumed, not validated.",
            assumed.base.height
        );
    }
    Ok(chain)
}

//! What the user asked for: the command line and `godwit.conf` become one typed value.
//!
//! Text is read in three steps. `command_line` and `config_file` find options in the `table`
//! and note where each was given; `resolve` applies them in rising order of precedence (file,
//! network section of the file, command line) and checks what concerns several options at once.
//! Behind [`parse`] nothing is text any more but paths, and every value is in its range.
//!
//! The syntax is bitcoind's (Core `common/args.cpp`, `common/config.cpp`): one or two dashes,
//! `-name=value`, `-name`, `-noname`. Beyond it, a value may also follow as the next word, options
//! may stand after the command, an unknown name is always an error, and a flag takes only 0 or 1.

mod command_line;
mod config_file;
mod error;
mod help;
mod keys;
mod keys_table;
mod lookup;
mod psbt;
mod psbt_table;
mod resolve;
mod spec;
mod table;
mod values;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use godwit_primitives::Params;

pub use error::{OptionsError, Origin, Problem};
pub use keys::{Bip39Passphrase, KEY_FILE, KeyFileOptions, KeysAction, KeysOptions};
pub use psbt::{PsbtAction, PsbtOptions};
pub use values::{Descriptor, HostPort, UtxoHash};

use command_line::CommandLine;
use config_file::ConfigFile;

/// Name of the configuration file inside the data directory.
pub const CONFIG_FILE: &str = "godwit.conf";
/// The data directory below the user's home directory when `-datadir` is not given.
pub const DEFAULT_DATADIR: &str = ".godwit";

/// What a run of the program is to do.
#[derive(Debug)]
pub enum Invocation {
    /// Print this text and stop: `-help` and `-version`.
    Print(String),
    /// Run a command.
    Run(Box<Config>),
}

/// Options of a run, complete and in range.
#[derive(Debug, PartialEq)]
pub struct Config {
    /// Constants of the chosen network, with `-signetchallenge`, `-testactivationheight`, `-test`,
    /// `-minimumchainwork` and `-assumevalid` applied (`assume_valid` is `None` for
    /// `-assumevalid=0`).
    pub params: Params,
    /// `-datadir` as given, or the default; it may not exist yet.
    pub datadir: PathBuf,
    /// The configuration file that was read.
    pub config_file: Option<PathBuf>,
    /// `-dbcache` in bytes, at least 4 MiB.
    pub dbcache_bytes: u64,
    /// `-prune` in bytes; `None` keeps every block.
    pub prune_bytes: Option<u64>,
    /// What to do.
    pub command: Command,
}

impl Config {
    /// The network's part of the data directory (Core's layout: main has the directory itself).
    pub fn network_dir(&self) -> PathBuf {
        match self.params.subdir {
            "" => self.datadir.clone(),
            subdir => self.datadir.join(subdir),
        }
    }

    /// The key file of a command that has one.
    pub fn key_file(&self, options: &KeyFileOptions) -> PathBuf {
        options.file.clone().unwrap_or_else(|| self.network_dir().join(KEY_FILE))
    }
}

/// The command and its own options.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// No word: run the node.
    Node(NodeOptions),
    /// `import PATH…`
    Import(ImportOptions),
    /// `utxo stats`
    UtxoStats,
    /// `utxo dump FILE`
    UtxoDump {
        /// The snapshot to write.
        file: PathBuf,
    },
    /// `utxo load FILE`
    UtxoLoad {
        /// The snapshot to read.
        file: PathBuf,
        /// `-utxohash`: the expected hash; without it the compiled-in one decides.
        expected: Option<UtxoHash>,
    },
    /// `keys …`
    Keys(KeysOptions),
    /// `psbt …`
    Psbt(PsbtOptions),
}

/// Options of the node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeOptions {
    /// Threads that run scripts, from `-par`.
    pub script_threads: NonZeroUsize,
    /// `-stopatheight`.
    pub stop_at_height: Option<u32>,
    /// `-networkactive`.
    pub network_active: bool,
    /// Whether to accept connections.
    pub listen: bool,
    /// `-bind`; empty: every address.
    pub bind: Vec<SocketAddr>,
    /// Port to listen on where `bind` is empty.
    pub port: u16,
    /// `-maxconnections`.
    pub max_connections: u32,
    /// `-connect`: the only peers; `Some` and empty for none.
    pub connect: Option<Vec<HostPort>>,
    /// `-addnode`.
    pub add_nodes: Vec<HostPort>,
    /// `-seednode`.
    pub seed_nodes: Vec<HostPort>,
    /// `-dnsseed`.
    pub dns_seed: bool,
    /// `-proxy`.
    pub proxy: Option<SocketAddr>,
    /// The proxy to onion addresses.
    pub onion: Option<SocketAddr>,
    /// `-v2transport`.
    pub v2_transport: bool,
    /// `-allowunlockedsecrets`.
    pub allow_unlocked_secrets: bool,
    /// `-maxuploadtarget`, bytes in 24 hours.
    pub max_upload_target: Option<u64>,
    /// `-maxdownloadrate`, bytes a second.
    pub max_download_rate: Option<u64>,
}

/// Options of `import`.
#[derive(Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Block files and `blocks` directories, at least one, in the order given.
    pub paths: Vec<PathBuf>,
    /// Threads that run scripts, from `-par`.
    pub script_threads: NonZeroUsize,
    /// `-stopatheight`.
    pub stop_at_height: Option<u32>,
    /// `--verdicts`.
    pub verdicts: Option<PathBuf>,
}

/// What defaults depend on.
#[derive(Clone, Debug)]
pub struct Environment {
    /// The user's home directory.
    pub home: Option<PathBuf>,
    /// Processors that this process may use.
    pub cores: NonZeroUsize,
}

impl Environment {
    /// The environment of this process.
    pub fn of_process() -> Self {
        Environment {
            home: std::env::home_dir().filter(|home| !home.as_os_str().is_empty()),
            cores: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Reads the arguments (without the program's name) and the configuration file they point to.
///
/// # Errors
///
/// The first thing that is wrong, as one line with its place.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> Result<Invocation, OptionsError> {
    let line = CommandLine::parse(arguments)?;
    let draft = line.draft()?;
    if draft.help {
        return Ok(Invocation::Print(help::help_text()));
    }
    if draft.version {
        return Ok(Invocation::Print(help::version_text()));
    }
    let (command, operands) = line.command()?;
    line.check_options_of(command)?;
    let datadir = resolve::first_datadir(&draft, environment)?;
    let file = read_config_file(&datadir, draft.conf.as_deref())?;
    resolve::resolve(&line, operands, file, environment).map(Box::new).map(Invocation::Run)
}

/// A missing file is an error only where `-conf` names it.
fn read_config_file(
    datadir: &Path,
    named: Option<&Path>,
) -> Result<Option<ConfigFile>, OptionsError> {
    let path = datadir.join(named.unwrap_or(Path::new(CONFIG_FILE)));
    match fs::read(&path) {
        Ok(bytes) => ConfigFile::parse(path, &bytes).map(Some),
        Err(error) if error.kind() == io::ErrorKind::NotFound && named.is_none() => Ok(None),
        Err(error) => Err(Problem::ConfigUnreadable { path, error }.on_command_line()),
    }
}

#[cfg(test)]
mod tests;

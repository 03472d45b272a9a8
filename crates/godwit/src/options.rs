//! What the user asked for: the command line and `godwit.conf` become one typed value.
//!
//! `godwit_program` reads the text according to the `table`; `resolve` checks constraints between options.
//! After [`parse`] only paths are still text, and every value is in range.

mod core_options;
mod draft;
mod listening;
mod resolve;
mod rpc;
mod table;
mod values;
mod zmq;

use std::ffi::OsString;
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::PathBuf;

use godwit_api::Notifier;
use godwit_chain::ScriptOptions;
use godwit_index::{COIN_STATS_INDEX_MEMORY, FILTER_INDEX_MEMORY, TX_INDEX_MEMORY};
use godwit_p2p::{Binding, NetAddress, Reachable, Whitelist};
use godwit_primitives::Params;
use godwit_program::options::{self as tables, OptionsError};
use godwit_store::Rebuild;

pub use rpc::{AskOptions, Cookie, PlainPassword, RpcOptions};
pub use values::{HostPort, UtxoHash};

/// The configuration of a run of the program.
#[derive(Debug)]
pub enum Invocation {
    /// Print this text and stop: `-help` and `-version`.
    Print(String),
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
    /// It was given: then it is not made, as in Core. A disk that is not mounted would be taken for an empty
    /// one.
    pub is_datadir_named: bool,
    /// The configuration file that was read, if there was one.
    pub config_file: Option<PathBuf>,
    /// A sentence for each line of it with an option of Bitcoin Core that godwit does not have, for each
    /// section that names no network, and for a configuration file that is not read (`-allowignoredconf`).
    pub passed_over: Vec<String>,
    pub memory: MemoryOptions,
    /// `-flushinterval` in seconds.
    pub flush_interval: Option<u64>,
    /// `-prune` in bytes; `None` keeps every block.
    pub prune_bytes: Option<u64>,
    pub indexes: IndexOptions,
    /// `-scrub`.
    pub scrub: bool,
    /// `-reindex` and `-reindex-chainstate`.
    pub rebuild: Rebuild,
    /// `-handedover`
    pub handed_over: bool,
    /// `-scriptengine`, `-crosscheck` and `-lanes`.
    pub scripts: ScriptOptions,
    /// The RPC server of a node, unless there is to be none.
    pub rpc: Option<RpcOptions>,
    /// `-zmqpub...`: what a node publishes, and where.
    pub zmq: Vec<Notifier>,
    pub command: Command,
}

/// The memory options as given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryOptions {
    /// `-memory` in bytes; `None`: by what the machine has.
    pub total: Option<u64>,
    /// `-dbcache` in bytes, at least 4 MiB; `None`: what the other parts leave.
    pub coins: Option<u64>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexOptions {
    /// `-txindex`.
    pub transactions: bool,
    /// `-blockfilterindex`.
    pub filters: bool,
    /// `-coinstatsindex`.
    pub coin_stats: bool,
    /// `-peerblockfilters`: peers get the filters.
    pub served: bool,
}

impl IndexOptions {
    /// Bytes of memory that they take together.
    pub fn memory(self) -> u64 {
        let of = |on, bytes| if on { bytes } else { 0 };
        of(self.transactions, TX_INDEX_MEMORY)
            + of(self.filters, FILTER_INDEX_MEMORY)
            + of(self.coin_stats, COIN_STATS_INDEX_MEMORY)
    }
}

impl Config {
    /// The part of the data directory that belongs to the network (Core's layout: the main network
    /// uses the directory itself).
    pub fn network_dir(&self) -> PathBuf {
        tables::network_dir(&self.datadir, self.params.network)
    }
}

/// The command and its own options.
#[derive(Debug, PartialEq, Eq)]
pub enum Command {
    /// No command: run the node.
    Node(Box<NodeOptions>),
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
    /// `verify`
    Verify(VerifyOptions),
    /// `hand-over`
    HandOver {
        /// `-to`: Bitcoin Core's data directory.
        to: PathBuf,
    },
    /// `status`
    Status(AskOptions),
}

/// The options of `verify`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyOptions {
    /// `-repair`
    pub repair: bool,
    /// `-audit`
    pub audit: bool,
}

impl Command {
    /// Whether the command takes long, and leaves something behind when it is interrupted.
    pub fn is_long(&self) -> bool {
        self.validates() || matches!(self, Self::Verify(_) | Self::HandOver { .. })
    }

    /// Whether the command connects new blocks.
    pub fn validates(&self) -> bool {
        matches!(self, Self::Import(_) | Self::Node(_))
    }
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
    pub listening: Listening,
    /// `-maxconnections`.
    pub max_connections: u32,
    /// `-connect`: the only peers beside those of `-addnode`; empty for none. `None`: peers are
    /// found automatically.
    pub connect: Option<Vec<HostPort>>,
    /// `-addnode`.
    pub add_nodes: Vec<HostPort>,
    /// `-seednode`.
    pub seed_nodes: Vec<HostPort>,
    pub seeds: Seeds,
    pub reach: Reach,
    /// `-listenonion`.
    pub tor: Option<TorOptions>,
    /// `-v2transport`.
    pub v2_transport: bool,
    /// `-allowunlockedsecrets`.
    pub allow_unlocked_secrets: bool,
    /// `-whitelist`.
    pub whitelist: Whitelist,
    pub traffic: TrafficLimits,
    /// `-asmap`: the file that maps IP addresses to autonomous systems. A relative path is one in the
    /// network's directory.
    pub asmap: Option<PathBuf>,
}

/// Which seeds are asked for addresses of peers when too few are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// `-dnsseed`.
    pub dns: bool,
    /// `-fixedseeds`.
    pub fixed: bool,
}

/// How much peers may make this node send and receive; `None`: no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrafficLimits {
    /// `-maxuploadtarget`, in bytes per 24 hours.
    pub upload_target: Option<u64>,
    /// `-maxdownloadrate`, in bytes per second.
    pub download_rate: Option<u64>,
}

/// Where connections are accepted, and what others are told of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Whether to accept connections.
    pub on: bool,
    /// Whether to listen on `port` of every address: none was named.
    pub everywhere: bool,
    /// `-bind` and `-whitebind`.
    pub bind: Vec<Binding>,
    /// `-bind=…=onion`, or what `-listenonion` needs: where Tor hands over who calls an onion service.
    pub onion: Vec<SocketAddr>,
    pub port: u16,
    /// Port to tell others.
    pub told_port: u16,
    /// `-externalip`: where this node can be called.
    pub external: Vec<NetAddress>,
    /// `-discover`: it finds that out as well.
    pub discover: bool,
    /// `-natpmp`: the router is to forward `told_port`.
    pub natpmp: bool,
}

/// The onion service that Tor is to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TorOptions {
    /// `-torcontrol`.
    pub control: SocketAddr,
    /// `-torpassword`.
    pub password: Option<PlainPassword>,
    /// Where Tor hands over who calls the service.
    pub target: SocketAddr,
    /// No proxy to onion addresses was named by `-onion`: Tor is asked for its own.
    pub asks_for_proxy: bool,
    /// With that proxy peers are chosen among onion addresses too.
    pub reaches: bool,
}

/// Which networks are reached, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// `-proxy`.
    pub proxy: Option<SocketAddr>,
    /// The proxy to onion addresses.
    pub onion: Option<SocketAddr>,
    /// Networks in which peers are chosen: those of `-onlynet`, or all that can be reached.
    pub networks: Reachable,
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

/// Properties of the machine and the user that defaults depend on.
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
            home: tables::home_directory(),
            cores: std::thread::available_parallelism().unwrap_or(NonZeroUsize::MIN),
        }
    }
}

/// Reads the arguments (without the program's name) and the configuration file they point to.
///
/// # Errors
///
/// The first problem found, as one line that names the place.
pub fn parse(
    arguments: impl IntoIterator<Item = OsString>,
    environment: &Environment,
) -> Result<Invocation, OptionsError> {
    match tables::parse(arguments, environment.home.as_deref())? {
        tables::Invocation::Print(text) => Ok(Invocation::Print(text)),
        tables::Invocation::Run(invoked) => {
            resolve::resolve(invoked, environment.cores).map(Box::new).map(Invocation::Run)
        }
    }
}

#[cfg(test)]
mod tests;

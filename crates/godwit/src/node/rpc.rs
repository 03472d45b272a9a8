//! The RPC server beside the node's loop: questions in, snapshots out.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, never};
use godwit_api::{
    BanFile, CookieError, CookieFile, Credentials, Interfaces, MAX_CONNECTIONS,
    MAX_PAGE_CONNECTIONS, MAX_ZMQ_SUBSCRIBERS, NodeState, PageOptions, Proxies, Publisher,
    Question, Questions, RpcAuth, Seam, Server, ServerError, ServerMemory, ServerOptions,
    SyncReport, seam,
};
use godwit_chain::{ChainError, left_blocks};
use godwit_index::{COIN_STATS_INDEX_FILES, FILTER_INDEX_FILES, Indexes, TX_INDEX_FILES};
use godwit_p2p::{Ban, HostRange, Now};
use godwit_store::StoreError;

use super::core::NodeCore;
use super::notices;
use super::setup::{OfPrograms, RESERVED_DESCRIPTORS};
use crate::descriptors;
use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::log_format::LOG_FILE;
use crate::logging::CATEGORIES;
use crate::memory::{self, MemoryPlan};
use crate::options::{Config, Cookie, NodeOptions, RpcOptions};
use crate::process::StopFlag;

/// Questions that are answered before the chain has its turn: each takes microseconds, most of them ...
const QUESTIONS_AT_ONCE: usize = 32;

/// ... and behind one that took longer, the next one waits for its turn.
const ANSWERING: Duration = Duration::from_millis(1);

impl Fatal for ServerError {
    fn exit(&self) -> Exit {
        match self {
            Self::Bind(..) | Self::Page(..) => Exit::CannotListen,
            Self::Cookie(CookieError::InUse(dir)) => {
                ChainError::from(StoreError::Locked { path: dir.clone() }).exit()
            }
            // As for the log: another attempt ends in the same way.
            Self::Cookie(CookieError::File(_, error)) => {
                Exit::of_write(error, Exit::DatadirUnusable)
            }
            Self::Cookie(CookieError::Random(_)) | Self::Random(_) | Self::Start(_) => {
                Exit::Failure
            }
        }
    }
}

/// Connections that the server has however few descriptors there are.
const LEAST_CONNECTIONS: u64 = 8;

/// Those that wait for a place while the others are served, one at each address, and those of pages.
const WAITING_CONNECTIONS: u64 = 2;

/// Connections of the status page and of metrics, and their two listening sockets.
fn page_connections(rpc: &RpcOptions) -> u64 {
    match (rpc.web, rpc.metrics) {
        (None, None) => 0,
        _ => MAX_PAGE_CONNECTIONS as u64 + 2,
    }
}

/// What the connections of programs need of the descriptors.
pub(super) fn most_connections(config: &Config) -> OfPrograms {
    let others = other_descriptors(config);
    match &config.rpc {
        None => OfPrograms { least: others, most: others },
        Some(rpc) => {
            let beside = WAITING_CONNECTIONS + page_connections(rpc) + others;
            OfPrograms { least: LEAST_CONNECTIONS + beside, most: MAX_CONNECTIONS as u64 + beside }
        }
    }
}

/// Descriptors of what only some options bring: the indexes, and notifications.
fn other_descriptors(config: &Config) -> u64 {
    let transactions = if config.indexes.transactions { TX_INDEX_FILES } else { 0 };
    let filters = if config.indexes.filters { FILTER_INDEX_FILES } else { 0 };
    let coin_stats = if config.indexes.coin_stats { COIN_STATS_INDEX_FILES } else { 0 };
    transactions + filters + coin_stats + zmq_descriptors(config)
}

/// Descriptors of those who publish and of those who subscribed.
fn zmq_descriptors(config: &Config) -> u64 {
    match config.zmq.len() {
        0 => 0,
        notifiers => (notifiers + MAX_ZMQ_SUBSCRIBERS) as u64,
    }
}

/// Connections for which there are descriptors, beside files, `peers` connections to peers and `others`.
fn connections(peers: u64, others: u64) -> usize {
    let others = RESERVED_DESCRIPTORS + WAITING_CONNECTIONS + others + peers;
    let most = MAX_CONNECTIONS as u64;
    let spare = descriptors::raise(others + most).saturating_sub(others);
    spare.clamp(LEAST_CONNECTIONS, most) as usize
}

/// Starts the server, if there is to be one.
pub(super) fn start(
    config: &Config,
    options: &NodeOptions,
    max_connections: usize,
    stop: &StopFlag,
) -> Result<Option<Server>, Failure> {
    let Some(rpc) = &config.rpc else { return Ok(None) };
    let memory = MemoryPlan::of(config, memory::available());
    for remark in &rpc.remarks {
        log::warn!("{remark}");
    }
    if options.allow_unlocked_secrets {
        godwit_secret::allow_unlocked_secrets();
    }
    let dir = config.network_dir();
    let mut credentials = Credentials(rpc.auth.clone());
    if let Some((user, password)) = &rpc.login {
        let auth = RpcAuth::of_password(user, password.text()).map_err(ServerError::Random)?;
        credentials.0.push(auth);
    }
    let others = other_descriptors(config) + page_connections(rpc);
    let server = Server::start(ServerOptions {
        addresses: rpc.addresses.clone(),
        allowed: rpc.allowed.clone(),
        credentials,
        cookie: match &rpc.cookie {
            Cookie::Off => None,
            Cookie::File(path, permissions) => Some(CookieFile {
                path: dir.join(path),
                permissions: *permissions,
                of: dir.clone(),
            }),
        },
        whitelist: rpc.whitelist.clone(),
        threads: rpc.threads,
        queue: rpc.queue,
        timeout: rpc.timeout,
        connections: connections(max_connections as u64, others),
        memory: ServerMemory { answers: notices::memory(config).0, requests: memory.requests },
        interfaces: Interfaces {
            rest: rpc.rest,
            deprecated: rpc.deprecated,
            notifiers: config.zmq.clone(),
            pages: PageOptions { web: rpc.web, metrics: rpc.metrics },
        },
        version: env!("CARGO_PKG_VERSION"),
        log_path: dir.join(LOG_FILE),
        bans: Arc::new(BanFile::new(&dir)),
        log_categories: &CATEGORIES,
        stop: stop.shared().clone(),
    })?;
    Ok(Some(server))
}

/// The hosts that the operator had banned before the start, read through the file that the server writes: it
/// keeps a copy of what could not be read before it replaces it.
pub(super) fn banned(server: Option<&Server>, dir: &Path) -> Vec<(HostRange, Ban)> {
    server.map_or_else(|| BanFile::new(dir).read(), |server| server.bans().read())
}

/// The node's side of the server.
pub(super) struct Rpc {
    running: Option<Running>,
    nothing: Receiver<Question>,
    prune_target: Option<u64>,
    /// The chain is between two tips, and neither is anything published nor answered.
    between: bool,
}

/// Whoever asks: a server for programs, and indexes.
///
/// In this order dropped: methods that wait for the node hear of its end before the server waits for them.
struct Running {
    seam: Seam,
    questions: Questions,
    publisher: Publisher,
    server: Option<Server>,
}

impl Rpc {
    /// The node answers from now on.
    pub(super) fn new(
        server: Option<Server>,
        core: &NodeCore,
        now: Now,
        options: &NodeOptions,
        prune_target: Option<u64>,
        indexes: Indexes,
        sync: &Arc<SyncReport>,
    ) -> Self {
        let is_asked = server.is_some() || indexes.any();
        let running = is_asked.then(|| {
            let proxies = Proxies { clearnet: options.reach.proxy, onion: options.reach.onion };
            let first = core.snapshot(now, prune_target, Arc::clone(sync));
            let (seam, questions, publisher) =
                seam(core.chain().params().clone(), proxies, indexes, first);
            if let Some(server) = &server {
                server.ready(seam.clone());
            }
            Running { seam, questions, publisher, server }
        });
        Self { running, nothing: never(), prune_target, between: false }
    }

    /// The node is not there until it starts again: gives the server back, whose clients are told so.
    pub(super) fn pause(self) -> Option<Server> {
        let Running { seam, questions, publisher, server } = self.running?;
        // In this order: a client that comes while the others hear of it is told the same.
        if let Some(server) = &server {
            server.pause();
        }
        publisher.pause();
        drop((questions, seam));
        server
    }

    /// To ask this node, if anything does.
    pub(super) fn seam(&self) -> Option<&Seam> {
        self.running.as_ref().map(|running| &running.seam)
    }

    /// Tor has told of its proxy to onion addresses.
    pub(super) fn note_onion_proxy(&self, proxy: SocketAddr) {
        if let Some(seam) = self.seam() {
            seam.set_onion_proxy(proxy);
        }
    }

    /// Where methods keep the bans, if there are any.
    pub(super) fn bans(&self) -> Option<Arc<BanFile>> {
        let server = self.running.as_ref()?.server.as_ref()?;
        Some(Arc::clone(server.bans()))
    }

    /// Bytes of answers to programs that are made or sent.
    pub(super) fn answer_memory(&self) -> u64 {
        let server = self.running.as_ref().and_then(|running| running.server.as_ref());
        server.map_or(0, Server::answer_memory)
    }

    /// Answers some of the questions that wait; whether there may be more. One that follows from an answer
    /// is answered behind the next snapshot.
    pub(super) fn answer(&mut self, now: Now, core: &mut NodeCore) -> bool {
        let Some(running) = self.running.as_ref().filter(|_| !self.between) else { return false };
        let (started, waiting) = (Instant::now(), running.questions.waiting());
        for _ in 0..waiting.min(QUESTIONS_AT_ONCE) {
            let Some(question) = running.questions.take() else { return false };
            core.answer(now, question);
            if started.elapsed() >= ANSWERING {
                break;
            }
        }
        running.questions.waiting() > 0
    }

    /// Publishes the state of the node if it is another one, with what is told of the sync: that is
    /// another one once a second.
    pub(super) fn publish(&mut self, now: Now, core: &NodeCore, sync: &Arc<SyncReport>) {
        let Some(running) = &self.running else { return };
        let before = running.publisher.current();
        let chain = core.chain();
        self.between = core.is_between();
        if self.between {
            return;
        }
        let best = chain.tree().node(chain.tree().best_header()).height;
        let moved = chain.tip_point().hash != before.tip.hash
            || left_blocks(chain).count() != before.left
            || chain.prune_height() != before.prune_height
            || best != before.headers
            || core.is_initial_download() != before.initial_download
            || core.network_active() != before.network_active
            || core.warnings() != before.warnings;
        if moved || !Arc::ptr_eq(sync, &before.sync) {
            running.publisher.publish(core.snapshot(now, self.prune_target, Arc::clone(sync)));
        }
    }

    /// To wait for the next question.
    pub(super) fn receiver(&self) -> &Receiver<Question> {
        let running = self.running.as_ref().filter(|_| !self.between);
        running.map_or(&self.nothing, |running| running.questions.receiver())
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, ErrorKind};

    use super::*;

    #[test]
    fn a_cookie_that_cannot_be_written_is_no_failure_that_another_start_mends() {
        let exit = |error: io::Error| {
            ServerError::Cookie(CookieError::File("/not/ours/cookie".into(), error)).exit()
        };
        let refusals =
            [ErrorKind::PermissionDenied, ErrorKind::ReadOnlyFilesystem, ErrorKind::NotFound];
        for kind in refusals {
            assert_eq!(exit(kind.into()), Exit::DatadirUnusable, "{kind}");
        }
        assert_eq!(exit(ErrorKind::StorageFull.into()), Exit::DiskFull);
    }
}

//! The server: one thread for all connections, and a few for methods.
//!
//! `godwit-http` handles a connection. Here are the sockets, the limits on connections, and the threads that
//! take requests from the queue.

mod listening;
mod pages;
#[cfg(test)]
pub(crate) mod tests;
mod workers;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_http::{Bodies, Credentials, LogLimit, Service, serve, told};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

use crate::answers::Answers;
use crate::api::Api;
use crate::ban_file::BanFile;
use crate::cookie::{self, Cookie, CookieError, CookieFile};
use crate::interfaces::Interfaces;
use crate::log_categories::LogCategories;
use crate::seam::Seam;
use crate::snapshot_load::LOADING;
use crate::stage::Stage;
use crate::subnet::Subnet;
use crate::whitelist::Whitelist;
use listening::{NotBound, bind, bind_all, listen, listen_all};
pub use pages::MAX_PAGE_CONNECTIONS;
use pages::Pages;
use workers::Workers;

/// Connections that are of use at once.
pub const MAX_CONNECTIONS: usize = 128;

/// Before the next attempt to accept a connection after one that failed.
const FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// How long answers that are under way may take at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// How to serve.
pub struct ServerOptions {
    /// Where to listen; at least one has to be free.
    pub addresses: Vec<SocketAddr>,
    /// Addresses that may ask, besides this machine's own.
    pub allowed: Vec<Subnet>,
    pub credentials: Credentials,
    /// The file for a newly made password, if one is wanted.
    pub cookie: Option<CookieFile>,
    pub whitelist: Whitelist,
    /// Threads that run methods.
    pub threads: usize,
    /// Requests that wait for one.
    pub queue: usize,
    /// How long a client may be silent; `None` for ever.
    pub timeout: Option<Duration>,
    /// Connections at once; a further one waits until one of them ends.
    pub connections: usize,
    pub memory: ServerMemory,
    pub interfaces: Interfaces,
    /// Version of the program, as `0.1.0`.
    pub version: &'static str,
    /// Where the log is.
    pub log_path: PathBuf,
    pub bans: Arc<BanFile>,
    pub log_categories: &'static LogCategories,
    /// Set by the method `stop`.
    pub stop: Arc<AtomicBool>,
}

/// Memory of a server.
#[derive(Clone, Copy, Debug)]
pub struct ServerMemory {
    /// Memory of answers that are being made or sent.
    pub answers: usize,
    /// Memory of requests that are being received or wait.
    pub requests: usize,
}

/// Reasons for which the server does not start.
#[derive(Debug)]
pub enum ServerError {
    /// No address could be listened on.
    Bind(NotBound),
    /// The address of a page could not: its option.
    Page(&'static str, NotBound),
    Cookie(CookieError),
    /// No random bytes.
    Random(io::Error),
    /// No thread, or the system has no events for sockets.
    Start(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(not_bound) => {
                write!(f, "the RPC server cannot listen on {not_bound} (-rpcbind, -rpcport)")
            }
            Self::Page(option, not_bound) => write!(f, "{option} cannot listen on {not_bound}"),
            Self::Cookie(error) => error.fmt(f),
            Self::Random(error) => write!(f, "the system gives no random bytes: {error}"),
            Self::Start(error) => write!(f, "the RPC server cannot start: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// The running server. Dropped, it ends: answers under way are sent, for a second. The node's ends of the
/// [`seam`](crate::seam()) are to be dropped before, or methods may wait for them.
pub struct Server {
    stage: Stage,
    answers: Answers,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Joined after the connections' thread, which keeps their queue open.
    workers: Option<Workers>,
    api: Arc<Api>,
    bans: Arc<BanFile>,
    _cookie: Option<Cookie>,
}

/// The state that all listening sockets share.
struct Shared {
    service: Arc<Service>,
    allowed: Vec<Subnet>,
    connections: Arc<Semaphore>,
}

impl Server {
    /// Listens, and answers that the node is starting.
    ///
    /// # Errors
    ///
    /// No address can be bound, the cookie cannot be written, or no thread starts.
    pub fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let sockets = bind_all(&options.addresses).map_err(ServerError::Bind)?;
        let mut credentials = options.credentials.clone();
        let cookie = match &options.cookie {
            None => None,
            Some(file) => {
                let (cookie, auth) = cookie::write(file).map_err(ServerError::Cookie)?;
                credentials.0.push(auth);
                Some(cookie)
            }
        };
        // Not before the cookie is there: who finds the server reads it only once (`bitcoin-cli -rpcwait`).
        // Nor is it written before the addresses are ours: it may be that of the node that has them.
        let listeners = listen_all(sockets).map_err(ServerError::Bind)?;
        let stage = Stage::new("Starting…");
        let answers = Answers::new(options.memory.answers);
        let api = Arc::new(Api::new(&stage, &answers, &options));
        let pages = Pages::bind(options.interfaces.pages, &api)?;
        let (jobs, workers) =
            Workers::start(&api, options.threads, options.queue).map_err(ServerError::Start)?;
        let service = Arc::new(Service {
            credentials,
            silence: options.timeout,
            is_resource: options.interfaces.rest.then_some(Api::is_resource),
            waiting: AtomicUsize::new(0),
            bodies: Bodies::new(options.memory.requests),
            jobs,
            wrong_passwords: LogLimit::default(),
            full_queues: LogLimit::default(),
        });
        let connections = Arc::new(Semaphore::new(options.connections));
        let shared = Arc::new(Shared { service, allowed: options.allowed.clone(), connections });
        let runtime = tokio::runtime::Builder::new_current_thread()
            // Of the threads that gather figures; that of the connections is begun below.
            .thread_name("godwit-metrics")
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Start)?;
        let (stop, stopped) = watch::channel(false);
        let most = u32::try_from(options.connections).unwrap_or(u32::MAX);
        let thread = std::thread::Builder::new()
            .name("godwit-api".to_owned())
            .spawn(move || {
                runtime.block_on(async {
                    pages.spawn(&stopped);
                    run(listeners, shared, most, stopped).await;
                });
                runtime.shutdown_background();
            })
            .map_err(ServerError::Start)?;
        let (thread, workers) = (Some(thread), Some(workers));
        let bans = options.bans;
        Ok(Self { stage, answers, stop, thread, workers, api, bans, _cookie: cookie })
    }

    /// A handle to say what the start is doing: the text of error −28.
    pub fn starting(&self) -> Starting {
        Starting(self.stage.clone())
    }

    /// Where the bans are kept.
    pub fn bans(&self) -> &Arc<BanFile> {
        &self.bans
    }

    /// Bytes of answers that are being made or sent, except what every small one has without asking.
    pub fn answer_memory(&self) -> u64 {
        self.answers.used() as u64
    }

    /// The node answers from now on.
    pub fn ready(&self, seam: Seam) {
        self.stage.ready(seam);
    }

    /// The node is not there until it is ready again. Its ends of the seam are to be dropped behind this.
    pub fn pause(&self) {
        self.stage.pause(LOADING);
    }

    /// Whether a request is under way that came before the pause, of JSON-RPC, REST or for figures, and may
    /// hold what it reads of the node's files. Those that have a snapshot loaded wait for the end of the
    /// pause.
    pub fn has_requests(&self) -> bool {
        self.api.active.may_read()
    }
}

/// Says what the start is doing.
#[derive(Clone)]
pub struct Starting(Stage);

impl Starting {
    /// Until the next time.
    pub fn say(&self, what: impl Into<String>) {
        self.0.starting(what.into());
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stage.ended();
        self.answers.end();
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread of the RPC server panicked");
        }
        if let Some(workers) = self.workers.take() {
            workers.join();
        }
    }
}

/// Accepts until the server is told to stop, and then waits for the answers under way.
async fn run(
    listeners: Vec<std::net::TcpListener>,
    shared: Arc<Shared>,
    connections: u32,
    mut stopped: watch::Receiver<bool>,
) {
    for listener in listeners {
        match TcpListener::from_std(listener) {
            Ok(listener) => {
                tokio::spawn(accept(listener, Arc::clone(&shared), stopped.clone()));
            }
            Err(error) => log::error!("The RPC server lost a listening socket: {error}"),
        }
    }
    told(&mut stopped).await;
    let all = shared.connections.acquire_many(connections);
    if timeout(LAST_ANSWERS, all).await.is_err() {
        log::debug!("RPC connections are cut off at the end");
    }
}

/// Accepts one connection after the other. The next one waits for a place only when it is there: those that
/// have places then give them up.
async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stopped) => return,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                log::debug!("The RPC server cannot accept a connection: {error}");
                sleep(FAILED_ACCEPT).await;
                continue;
            }
        };
        if !may_ask(&shared.allowed, peer.ip()) {
            log::debug!("RPC connection from {peer} dropped: not in -rpcallowip");
            continue;
        }
        shared.service.waiting.fetch_add(1, Ordering::SeqCst);
        let place = tokio::select! {
            place = Arc::clone(&shared.connections).acquire_owned() => place,
            () = told(&mut stopped) => return,
        };
        shared.service.waiting.fetch_sub(1, Ordering::SeqCst);
        let Ok(place) = place else { return };
        send_at_once(&stream, peer);
        let (service, stopped) = (Arc::clone(&shared.service), stopped.clone());
        tokio::spawn(async move {
            serve(Arc::new(stream), peer, service, stopped).await;
            drop(place);
        });
    }
}

/// An answer of several pieces would wait for the client to acknowledge the first (Core `NewSockAccepted`).
fn send_at_once(stream: &TcpStream, peer: SocketAddr) {
    if let Err(error) = stream.set_nodelay(true) {
        log::debug!("RPC connection from {peer}: TCP_NODELAY cannot be set: {error}");
    }
}

fn may_ask(allowed: &[Subnet], address: IpAddr) -> bool {
    Subnet::LOOPBACK.iter().chain(allowed).any(|subnet| subnet.contains(address))
}

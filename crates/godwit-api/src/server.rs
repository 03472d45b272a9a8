//! The HTTP server: one thread for all connections, some for methods.
//!
//! HTTP itself is `hyper`'s. What Bitcoin Core's server does around it is here: who may ask, sizes, the
//! status of answers, the queue of requests.

mod body;
mod hung_up;
mod listening;
mod pages;
mod patient;
mod refusal;
#[cfg(test)]
pub(crate) mod tests;
mod workers;

use std::fmt;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::SockRef;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::answers::Answers;
use crate::api::Api;
use crate::auth::{Credentials, Whitelist};
use crate::ban_file::BanFile;
use crate::cookie::{self, Cookie, CookieError, CookieFile};
use crate::interfaces::Interfaces;
use crate::log_categories::LogCategories;
use crate::log_limit::LogLimit;
use crate::seam::Seam;
use crate::snapshot_load::LOADING;
use crate::stage::Stage;
use crate::subnet::Subnet;
pub use body::BODY_BYTES;
use body::{Bodies, Hopeless, MAX_BODY_BYTES, MAX_RESOURCE_BODY_BYTES, Received, receive};
use hung_up::hung_up;
use listening::{NotBound, bind, bind_all, listen, listen_all};
pub use pages::MAX_PAGE_CONNECTIONS;
use pages::Pages;
use patient::Patient;
use refusal::{Refusal, refuse};
pub(crate) use workers::{AnswerBody, ContentKind, Reply, RequestBody};
use workers::{Asked, Job, Workers};

/// Bytes of a request line with its headers (Core `MAX_HEADERS_SIZE`).
const MAX_HEADER_BYTES: usize = 8192;

/// Lines of headers: as many as may be in these bytes (Core has no other limit).
const MAX_HEADER_LINES: usize = MAX_HEADER_BYTES / ":\r\n".len();

/// Connections that are of use at once.
pub const MAX_CONNECTIONS: usize = 128;

/// A client that has not logged in by then gives its place to others.
const FIRST_LOGIN: Duration = Duration::from_secs(5);

/// What stands for no limit: clocks have an end.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long a client that may be gone is waited for where silence has no limit: what it asked for would go on
/// for ever (Core `DEFAULT_HTTP_SERVER_TIMEOUT`).
const HALF_CLOSED: Duration = Duration::from_secs(30);

/// Before the next attempt to accept a connection after one that failed.
const FAILED_ACCEPT: Duration = Duration::from_millis(100);

/// How long answers that are under way may take at the end.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

/// What answers without a type of their own have (Core, as libevent had it).
const PLAIN: HeaderValue = HeaderValue::from_static("text/html; charset=ISO-8859-1");

/// How to serve.
pub struct ServerOptions {
    /// Where to listen; at least one has to be free.
    pub addresses: Vec<SocketAddr>,
    /// Addresses that may ask, besides this machine's own.
    pub allowed: Vec<Subnet>,
    pub credentials: Credentials,
    /// A file for a password that is made now, if there is to be one.
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
    /// Of answers that are made or sent.
    pub answers: usize,
    /// Of requests that are received or wait.
    pub requests: usize,
}

/// Why there is no server.
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

/// What all connections share.
struct Shared {
    credentials: Credentials,
    allowed: Vec<Subnet>,
    /// How long a client may be silent, if not for ever.
    silence: Option<Duration>,
    rest: bool,
    connections: Arc<Semaphore>,
    /// Connections that wait for a place.
    waiting: AtomicUsize,
    bodies: Bodies,
    jobs: crossbeam_channel::Sender<Job>,
    wrong_passwords: LogLimit,
    full_queues: LogLimit,
}

/// One connection, as its requests see it.
struct Connection {
    peer: SocketAddr,
    stream: Arc<TcpStream>,
    /// A client with a valid login has used it.
    is_known: AtomicBool,
    /// The server is told to stop.
    stopped: watch::Receiver<bool>,
}

impl Shared {
    /// How long a client may be silent.
    fn timeout(&self) -> Duration {
        self.silence.unwrap_or(FOR_EVER)
    }
}

impl Connection {
    fn new(stream: TcpStream, peer: SocketAddr, stopped: watch::Receiver<bool>) -> Self {
        // An answer of several pieces would wait for the client to acknowledge the first (Core
        // `NewSockAccepted`).
        if let Err(error) = stream.set_nodelay(true) {
            log::debug!("RPC connection from {peer}: TCP_NODELAY cannot be set: {error}");
        }
        Self { peer, stream: Arc::new(stream), is_known: AtomicBool::new(false), stopped }
    }

    /// Whether the client has sent what nobody has read.
    fn has_unread(&self) -> bool {
        let first = &mut [MaybeUninit::uninit()];
        SockRef::from(&*self.stream).peek(first).is_ok_and(|count| count > 0)
    }
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
        let shared = Arc::new(Shared {
            credentials,
            allowed: options.allowed.clone(),
            silence: options.timeout,
            rest: options.interfaces.rest,
            connections: Arc::new(Semaphore::new(options.connections)),
            waiting: AtomicUsize::new(0),
            bodies: Bodies::new(options.memory.requests),
            jobs,
            wrong_passwords: LogLimit::default(),
            full_queues: LogLimit::default(),
        });
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

    /// To say what the start is doing: the text of error −28.
    pub fn starting(&self) -> Starting {
        Starting(self.stage.clone())
    }

    /// Where the bans are kept.
    pub fn bans(&self) -> &Arc<BanFile> {
        &self.bans
    }

    /// Bytes of answers that are made or sent, but for what each small one has for its own.
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

/// Waits until the server is told to stop, or is gone.
async fn told(stopped: &mut watch::Receiver<bool>) {
    let (Ok(_) | Err(_)) = stopped.wait_for(|stopped| *stopped).await.map(drop);
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
        shared.waiting.fetch_add(1, Ordering::SeqCst);
        let place = tokio::select! {
            place = Arc::clone(&shared.connections).acquire_owned() => place,
            () = told(&mut stopped) => return,
        };
        shared.waiting.fetch_sub(1, Ordering::SeqCst);
        let Ok(place) = place else { return };
        let connection = Connection::new(stream, peer, stopped.clone());
        let shared = Arc::clone(&shared);
        tokio::spawn(async move {
            serve(Arc::new(connection), shared).await;
            drop(place);
        });
    }
}

fn may_ask(allowed: &[Subnet], address: IpAddr) -> bool {
    Subnet::LOOPBACK.iter().chain(allowed).any(|subnet| subnet.contains(address))
}

/// One connection, until it ends or the server does.
async fn serve(connection: Arc<Connection>, shared: Arc<Shared>) {
    let (limit, peer) = (shared.timeout(), connection.peer);
    let mut stopped = connection.stopped.clone();
    let socket = Patient::new(Arc::clone(&connection.stream), limit);
    let asked = Arc::clone(&connection);
    let answer = service_fn(move |request| {
        answer_and_perhaps_close(request, Arc::clone(&asked), Arc::clone(&shared))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADER_LINES)
        // A client may say that it has sent all, and wait for the answer.
        .half_close(true)
        // As Core writes them, for clients that look for them so.
        .title_case_headers(true)
        .serve_connection(TokioIo::new(socket), answer);
    let stranger = async {
        sleep(FIRST_LOGIN).await;
        if connection.is_known.load(Ordering::SeqCst) {
            std::future::pending().await
        }
    };
    let mut served = std::pin::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = stranger => {
            log::debug!("RPC connection from {peer} closed: nobody has logged in");
            return;
        }
        () = told(&mut stopped) => {
            // hyper closes an idle connection without a look at the socket. A request that is there is
            // answered, and that ends the connection: electrs 0.12 ends when one is lost.
            if !connection.has_unread() {
                served.as_mut().graceful_shutdown();
            }
            served.await
        }
    };
    if let Err(error) = ended {
        log::debug!("RPC connection from {peer}: {error}");
    }
}

type Answer = Response<Full<Bytes>>;

/// Answers a request, and frees the place if others wait for one or the server is told to stop.
async fn answer_and_perhaps_close(
    request: Request<Incoming>,
    connection: Arc<Connection>,
    shared: Arc<Shared>,
) -> Result<Answer, Hopeless> {
    let answer = answer(request, &connection, &shared).await?;
    let closes = shared.waiting.load(Ordering::SeqCst) > 0 || *connection.stopped.borrow();
    Ok(if closes { closing(answer) } else { answer })
}

/// Answers a request. One without a login costs no memory and no worker, unless REST is answered.
async fn answer(
    request: Request<Incoming>,
    connection: &Connection,
    shared: &Shared,
) -> Result<Answer, Hopeless> {
    match asked(&request, shared) {
        Ok((most, asked)) => {
            connection.is_known.store(true, Ordering::SeqCst);
            run_job(request, most, asked, connection, shared).await
        }
        Err(refusal) => refuse(request.into_body(), refusal, connection, shared).await,
    }
}

/// What is asked for, with the bytes that its body may have.
///
/// # Errors
///
/// Its head is enough to refuse it.
fn asked(request: &Request<Incoming>, shared: &Shared) -> Result<(u64, Asked), Refusal> {
    let known = [Method::GET, Method::POST, Method::HEAD, Method::PUT];
    if !known.contains(request.method()) {
        return Err(Refusal::UnknownMethod);
    }
    if let Some(target) = resource(request, shared) {
        return Ok((MAX_RESOURCE_BODY_BYTES, Asked::Resource { target }));
    }
    if !takes_calls(request.uri()) {
        return Err(Refusal::NotFound);
    }
    if request.method() != Method::POST {
        return Err(Refusal::NotPost);
    }
    let header = request.headers().get(AUTHORIZATION).ok_or(Refusal::NoLogin)?;
    let user = shared.credentials.user(header.as_bytes()).ok_or(Refusal::WrongLogin)?;
    Ok((MAX_BODY_BYTES, Asked::Calls { user }))
}

/// Whether JSON-RPC is served there: at `/`, and where Core with a wallet serves it as well (`httprpc.cpp`,
/// `StartHTTPRPC`). Which wallet is named does not matter to calls that need none.
fn takes_calls(uri: &Uri) -> bool {
    // As a text: for `Uri` itself `/?` is the same as `/`.
    let is_root = uri.path_and_query().is_some_and(|target| target.as_str() == "/");
    uri.authority().is_none() && (is_root || uri.path().starts_with("/wallet/"))
}

/// The target of a request for a resource of REST, if that is answered.
fn resource(request: &Request<Incoming>, shared: &Shared) -> Option<String> {
    let uri = request.uri();
    let is_answered = shared.rest && uri.authority().is_none() && Api::is_resource(uri.path());
    is_answered.then(|| uri.path_and_query().map(ToString::to_string))?
}

/// Has a worker answer, once the body is there.
async fn run_job(
    request: Request<Incoming>,
    most: u64,
    asked: Asked,
    connection: &Connection,
    shared: &Shared,
) -> Result<Answer, Hopeless> {
    let body = match receive(request.into_body(), most, &shared.bodies, shared.timeout()).await? {
        Received::Whole(body) => body,
        Received::TooLong => return Ok(closing(plain(StatusCode::PAYLOAD_TOO_LARGE, ""))),
        Received::Broken => return Ok(closing(plain(StatusCode::BAD_REQUEST, ""))),
        Received::NoRoom => {
            let text = "Too many large requests are under way";
            return Ok(closing(plain(StatusCode::SERVICE_UNAVAILABLE, text)));
        }
    };
    let (sender, reply) = oneshot::channel();
    if shared.jobs.try_send(Job { asked, body, reply: sender }).is_err() {
        shared.full_queues.warn(|| {
            "Request rejected because http work queue depth exceeded, it can be increased with the \
             -rpcworkqueue= setting"
                .to_owned()
        });
        return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let reply = tokio::select! {
        reply = reply => reply,
        () = hung_up(&connection.stream, shared.silence.unwrap_or(HALF_CLOSED)) => {
            return Err(Hopeless("the client does not wait any more"));
        }
    };
    match reply {
        Ok(reply) => Ok(finished(reply)),
        Err(_) => {
            Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "Request rejected during server shutdown"))
        }
    }
}

fn finished(reply: Reply) -> Answer {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match reply.body {
        None => plain(status, ""),
        Some(body) => {
            let kind = match body.kind {
                ContentKind::Json => "application/json",
                ContentKind::Text => "text/plain",
                ContentKind::Bytes => "application/octet-stream",
            };
            // Its memory counts until it is sent.
            let mut answer = Response::new(Full::new(Bytes::from_owner(body)));
            *answer.status_mut() = status;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
            answer
        }
    }
}

fn plain(status: StatusCode, text: &'static str) -> Answer {
    let mut answer = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *answer.status_mut() = status;
    if status != StatusCode::NO_CONTENT {
        answer.headers_mut().insert(CONTENT_TYPE, PLAIN);
    }
    answer
}

fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

//! The HTTP server: one thread for all connections, some for methods.
//!
//! HTTP itself is `hyper`'s. What Bitcoin Core's server does around it is here: who may ask, sizes, the
//! status of answers, the queue of requests.

mod patient;
mod workers;

use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;
use std::time::Duration;

use godwit_secret::RandomError;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue, WWW_AUTHENTICATE};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot, watch};
use tokio::time::{sleep, timeout};

use crate::api::Api;
use crate::auth::{Credentials, Whitelist};
use crate::cookie::{self, Cookie, CookieError, CookiePermissions};
use crate::seam::Seam;
use crate::stage::Stage;
use crate::subnet::Subnet;
use patient::Patient;
pub(crate) use workers::{AnswerText, Reply};
use workers::{Job, Workers};

/// Bytes of a request line with its headers (Core `MAX_HEADERS_SIZE`).
const MAX_HEADER_BYTES: usize = 8192;

/// Bytes of a request's body (Core `MAX_BODY_SIZE`).
const MAX_BODY_BYTES: u64 = 32 << 20;

/// Bytes of bodies that are being received or wait for their turn, of all requests together.
const BODIES_BYTES: u64 = 2 * MAX_BODY_BYTES;

/// Connections that are of use at once.
pub const MAX_CONNECTIONS: usize = 128;

/// Connections that the system keeps for us to accept.
const BACKLOG: i32 = 128;

/// Before a failed login is answered: whoever guesses passwords has to wait.
const FAILED_LOGIN: Duration = Duration::from_millis(250);

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
    pub cookie: Option<(PathBuf, CookiePermissions)>,
    pub whitelist: Whitelist,
    /// Threads that run methods.
    pub threads: usize,
    /// Requests that wait for one.
    pub queue: usize,
    /// How long a client may be silent.
    pub timeout: Duration,
    /// Connections at once; who comes later waits until one ends.
    pub connections: usize,
    /// Memory of answers that are made or sent.
    pub answer_bytes: usize,
    /// Version of the program, as `0.1.0`.
    pub version: &'static str,
    /// Where the log is.
    pub log_path: PathBuf,
    /// Set by the method `stop`.
    pub stop: Arc<AtomicBool>,
}

/// Why there is no server.
#[derive(Debug)]
pub enum ServerError {
    /// No address could be listened on; the last failure.
    Bind(SocketAddr, io::Error),
    Cookie(CookieError),
    Random(RandomError),
    /// No thread, or the system has no events for sockets.
    Start(io::Error),
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bind(address, error) => {
                write!(f, "the RPC server cannot listen on {address} (-rpcbind, -rpcport): {error}")
            }
            Self::Cookie(error) => error.fmt(f),
            Self::Random(error) => error.fmt(f),
            Self::Start(error) => write!(f, "the RPC server cannot start: {error}"),
        }
    }
}

impl std::error::Error for ServerError {}

/// The running server. Dropped, it ends: answers under way are sent, for a second. The node's ends of the
/// [`seam`](crate::seam()) are to be dropped before, or methods may wait for them.
pub struct Server {
    stage: Stage,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
    /// Joined after the connections' thread, which keeps their queue open.
    workers: Option<Workers>,
    _cookie: Option<Cookie>,
}

/// What all connections share.
struct Shared {
    credentials: Credentials,
    allowed: Vec<Subnet>,
    timeout: Duration,
    connections: Arc<Semaphore>,
    /// In KiB.
    bodies: Semaphore,
    jobs: crossbeam_channel::Sender<Job>,
}

impl Server {
    /// Listens, and answers that the node is starting.
    ///
    /// # Errors
    ///
    /// It cannot.
    pub fn start(options: ServerOptions) -> Result<Self, ServerError> {
        let listeners = listen(&options.addresses)?;
        let mut credentials = options.credentials.clone();
        let cookie = match &options.cookie {
            None => None,
            Some((path, permissions)) => {
                let (cookie, auth) =
                    cookie::write(path, *permissions).map_err(ServerError::Cookie)?;
                credentials.0.push(auth);
                Some(cookie)
            }
        };
        let stage = Stage::new("Starting…");
        let api = Api::new(&stage, &options);
        let (jobs, workers) =
            Workers::start(api, options.threads, options.queue).map_err(ServerError::Start)?;
        let shared = Arc::new(Shared {
            credentials,
            allowed: options.allowed.clone(),
            timeout: options.timeout,
            connections: Arc::new(Semaphore::new(options.connections)),
            bodies: Semaphore::new((BODIES_BYTES >> 10) as usize),
            jobs,
        });
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_io()
            .enable_time()
            .build()
            .map_err(ServerError::Start)?;
        let (stop, stopped) = watch::channel(false);
        let most = u32::try_from(options.connections).unwrap_or(u32::MAX);
        let thread = std::thread::Builder::new()
            .name("godwit-api".to_owned())
            .spawn(move || {
                runtime.block_on(run(listeners, shared, most, stopped));
                runtime.shutdown_background();
            })
            .map_err(ServerError::Start)?;
        Ok(Self { stage, stop, thread: Some(thread), workers: Some(workers), _cookie: cookie })
    }

    /// Says what the start is doing: the text of error −28.
    pub fn starting(&self, what: impl Into<String>) {
        self.stage.starting(what.into());
    }

    /// The node answers from now on.
    pub fn ready(&self, seam: Seam) {
        self.stage.ready(seam);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stage.ended();
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

/// Binds every address that it can.
fn listen(addresses: &[SocketAddr]) -> Result<Vec<std::net::TcpListener>, ServerError> {
    let mut listeners = Vec::new();
    let mut failed = None;
    for address in addresses {
        match bind(*address) {
            Ok(listener) => {
                log::info!("Binding RPC on address {} port {}", address.ip(), address.port());
                if address.ip().is_unspecified() {
                    log::warn!(
                        "The RPC server is not safe to expose to untrusted networks such as the public \
                         internet"
                    );
                }
                listeners.push(listener);
            }
            Err(error) => {
                log::warn!("Binding RPC on address {address} failed: {error}");
                failed = Some((*address, error));
            }
        }
    }
    match failed {
        Some((address, error)) if listeners.is_empty() => Err(ServerError::Bind(address, error)),
        _ => Ok(listeners),
    }
}

fn bind(address: SocketAddr) -> io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
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

async fn accept(listener: TcpListener, shared: Arc<Shared>, mut stopped: watch::Receiver<bool>) {
    loop {
        let connections = Arc::clone(&shared.connections);
        let next = async {
            let permit = connections.acquire_owned().await.ok()?;
            Some((permit, listener.accept().await))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            () = told(&mut stopped) => return,
        };
        match accepted {
            None => return,
            Some((_, Err(error))) => {
                log::debug!("The RPC server cannot accept a connection: {error}");
                sleep(FAILED_ACCEPT).await;
            }
            Some((permit, Ok((stream, peer)))) => {
                if !may_ask(&shared.allowed, peer.ip()) {
                    log::debug!("RPC connection from {peer} dropped: not in -rpcallowip");
                    continue;
                }
                let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
                tokio::spawn(async move {
                    serve(stream, peer, shared, stopped).await;
                    drop(permit);
                });
            }
        }
    }
}

fn may_ask(allowed: &[Subnet], address: IpAddr) -> bool {
    Subnet::LOOPBACK.iter().chain(allowed).any(|subnet| subnet.contains(address))
}

/// One connection, until it ends or the server does.
async fn serve(
    stream: TcpStream,
    peer: SocketAddr,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let limit = shared.timeout;
    let answer = service_fn(move |request| answer(request, peer, Arc::clone(&shared)));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(MAX_HEADER_BYTES)
        // A client may say that it has sent all, and wait for the answer.
        .half_close(true)
        .serve_connection(TokioIo::new(Patient::new(stream, limit)), answer);
    let mut connection = std::pin::pin!(connection);
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = told(&mut stopped) => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        log::debug!("RPC connection from {peer}: {error}");
    }
}

/// The connection is to be closed without an answer.
#[derive(Debug)]
struct Hopeless(&'static str);

impl fmt::Display for Hopeless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for Hopeless {}

type Answer = Response<Full<Bytes>>;

/// Answers a request. Who has not shown who he is costs no memory and no worker.
async fn answer(
    request: Request<Incoming>,
    peer: SocketAddr,
    shared: Arc<Shared>,
) -> Result<Answer, Hopeless> {
    let known = [Method::GET, Method::POST, Method::HEAD, Method::PUT];
    if !known.contains(request.method()) {
        return Ok(plain(StatusCode::METHOD_NOT_ALLOWED, ""));
    }
    if request.uri() != "/" {
        return Ok(plain(StatusCode::NOT_FOUND, ""));
    }
    if request.method() != Method::POST {
        return Ok(plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "JSONRPC server handles only POST requests",
        ));
    }
    let Some(header) = request.headers().get(AUTHORIZATION) else { return Ok(unauthorized()) };
    let Some(user) = shared.credentials.user(header.as_bytes()) else {
        log::warn!("RPC server: incorrect password attempt from {peer}");
        sleep(FAILED_LOGIN).await;
        return Ok(unauthorized());
    };
    let most = request.body().size_hint().upper().unwrap_or(MAX_BODY_BYTES);
    if most > MAX_BODY_BYTES {
        return Ok(closing(plain(StatusCode::PAYLOAD_TOO_LARGE, "")));
    }
    // A client that is waited for here is not read from.
    let permit = shared.bodies.acquire_many(most.div_ceil(1024) as u32).await;
    let body = match receive(request.into_body(), most, shared.timeout).await? {
        Received::Whole(body) => body,
        Received::TooLong => return Ok(closing(plain(StatusCode::PAYLOAD_TOO_LARGE, ""))),
        Received::Broken => return Ok(closing(plain(StatusCode::BAD_REQUEST, ""))),
    };
    let (sender, reply) = oneshot::channel();
    if shared.jobs.try_send(Job { body, user, reply: sender }).is_err() {
        log::warn!(
            "Request rejected because http work queue depth exceeded, it can be increased with the \
             -rpcworkqueue= setting"
        );
        return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let reply = reply.await;
    drop(permit);
    match reply {
        Ok(reply) => Ok(finished(reply)),
        Err(_) => {
            Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "Request rejected during server shutdown"))
        }
    }
}

/// A body.
enum Received {
    Whole(Vec<u8>),
    TooLong,
    /// It is cut off, or not in the chunks that it promises.
    Broken,
}

async fn receive(mut body: Incoming, most: u64, limit: Duration) -> Result<Received, Hopeless> {
    let mut bytes = Vec::new();
    loop {
        let frame =
            timeout(limit, body.frame()).await.map_err(|_| Hopeless("silent for too long"))?;
        let Some(frame) = frame else { return Ok(Received::Whole(bytes)) };
        let Ok(frame) = frame else { return Ok(Received::Broken) };
        let Ok(data) = frame.into_data() else { continue };
        if (bytes.len() + data.len()) as u64 > most {
            return Ok(Received::TooLong);
        }
        bytes.extend_from_slice(&data);
    }
}

fn finished(reply: Reply) -> Answer {
    let status = StatusCode::from_u16(reply.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    match reply.text {
        None => plain(status, ""),
        Some(text) => {
            // Its memory counts until it is sent.
            let mut answer = Response::new(Full::new(Bytes::from_owner(text)));
            *answer.status_mut() = status;
            answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
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

fn unauthorized() -> Answer {
    let mut answer = plain(StatusCode::UNAUTHORIZED, "");
    let asks = HeaderValue::from_static("Basic realm=\"jsonrpc\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, asks);
    answer
}

fn closing(mut answer: Answer) -> Answer {
    answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    answer
}

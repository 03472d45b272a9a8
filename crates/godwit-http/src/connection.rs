//! One connection: served by hyper, with Bitcoin Core's rules around it.

mod refusal;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{AUTHORIZATION, CONNECTION, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::sync::{oneshot, watch};
use tokio::time::sleep;

use crate::auth::Credentials;
use crate::body::{Bodies, Hopeless, MAX_BODY_BYTES, MAX_RESOURCE_BODY_BYTES, Received, receive};
use crate::job::{Asked, ContentKind, Job, Reply};
use crate::log_limit::LogLimit;
use crate::patient::Patient;
use crate::stream::Stream;
use refusal::{Refusal, refuse};

/// Bytes of a request line with its headers (Core `MAX_HEADERS_SIZE`).
pub const MAX_HEADER_BYTES: usize = 8192;

/// Lines of headers: as many as fit into these bytes, because Core has no other limit.
const MAX_HEADER_LINES: usize = MAX_HEADER_BYTES / ":\r\n".len();

/// A connection on which nobody has logged in within this time is closed, to make room for others.
pub const FIRST_LOGIN: Duration = Duration::from_secs(5);

/// Stands for no limit, because a deadline cannot be infinite.
const FOR_EVER: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// How long the answer of a client that may be gone is still worked on if silence has no limit: otherwise its
/// call could go on for ever (Core `DEFAULT_HTTP_SERVER_TIMEOUT`).
const HALF_CLOSED: Duration = Duration::from_secs(30);

/// Content type of answers that have none of their own (as in Core, which kept it from libevent).
const PLAIN: HeaderValue = HeaderValue::from_static("text/html; charset=ISO-8859-1");

/// State that all connections share.
pub struct Service {
    pub credentials: Credentials,
    /// How long a client may be silent, if not for ever.
    pub silence: Option<Duration>,
    /// Whether a path is that of a resource, which needs no login; `None` if there are none.
    pub is_resource: Option<fn(&str) -> bool>,
    /// Connections that wait for a place. While there are any, every other connection is closed with its next
    /// answer.
    pub waiting: AtomicUsize,
    pub bodies: Bodies,
    pub jobs: crossbeam_channel::Sender<Job>,
    pub wrong_passwords: LogLimit,
    pub full_queues: LogLimit,
}

/// One connection, as its requests see it.
struct Connection<S> {
    peer: SocketAddr,
    stream: Arc<S>,
    /// A client with a valid login has used it.
    is_known: AtomicBool,
    /// The server is told to stop.
    stopped: watch::Receiver<bool>,
}

impl Service {
    /// How long a client may be silent.
    fn timeout(&self) -> Duration {
        self.silence.unwrap_or(FOR_EVER)
    }
}

/// Waits until the server is told to stop, or is gone.
pub async fn told(stopped: &mut watch::Receiver<bool>) {
    let (Ok(_) | Err(_)) = stopped.wait_for(|stopped| *stopped).await.map(drop);
}

/// Serves one connection, until it ends or `stopped` says that the server is to stop.
pub async fn serve<S: Stream>(
    stream: Arc<S>,
    peer: SocketAddr,
    service: Arc<Service>,
    mut stopped: watch::Receiver<bool>,
) {
    let limit = service.timeout();
    let socket = Patient::new(Arc::clone(&stream), limit);
    let connection = Arc::new(Connection {
        peer,
        stream,
        is_known: AtomicBool::new(false),
        stopped: stopped.clone(),
    });
    let asked = Arc::clone(&connection);
    let answer = service_fn(move |request| {
        answer_and_perhaps_close(request, Arc::clone(&asked), Arc::clone(&service))
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(limit)
        .max_buf_size(MAX_HEADER_BYTES)
        // The buffer may grow beyond `MAX_HEADER_BYTES` when one request follows another, so the header has
        // its own limit.
        .max_header_size(MAX_HEADER_BYTES)
        .max_headers(MAX_HEADER_LINES)
        // A client may close its sending side and wait for the answer.
        .half_close(true)
        // Header names capitalised as Core writes them, for clients that look for them in that form.
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
            // hyper closes an idle connection without looking at the socket. A request that has arrived is
            // answered, and then the connection ends: electrs 0.12 ends if a request is lost.
            if !connection.stream.has_unread() {
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

/// Answers a request, and closes the connection if others wait for a place or the server is told to stop.
async fn answer_and_perhaps_close<S: Stream>(
    request: Request<Incoming>,
    connection: Arc<Connection<S>>,
    service: Arc<Service>,
) -> Result<Answer, Hopeless> {
    let answer = answer(request, &connection, &service).await?;
    let closes = service.waiting.load(Ordering::SeqCst) > 0 || *connection.stopped.borrow();
    Ok(if closes { closing(answer) } else { answer })
}

/// Answers a request. A request without a login takes no memory and no worker, unless it is one for REST.
async fn answer<S: Stream>(
    request: Request<Incoming>,
    connection: &Connection<S>,
    service: &Service,
) -> Result<Answer, Hopeless> {
    match asked(&request, service) {
        Ok((most, asked)) => {
            connection.is_known.store(true, Ordering::SeqCst);
            run_job(request, most, asked, connection, service).await
        }
        Err(refusal) => refuse(request.into_body(), refusal, connection, service).await,
    }
}

/// The calls or the resource that a request asks for, with the most bytes that its body may have.
///
/// # Errors
///
/// The request is refused by its head.
fn asked(request: &Request<Incoming>, service: &Service) -> Result<(u64, Asked), Refusal> {
    let known = [Method::GET, Method::POST, Method::HEAD, Method::PUT];
    if !known.contains(request.method()) {
        return Err(Refusal::UnknownMethod);
    }
    if let Some(target) = resource(request, service) {
        return Ok((MAX_RESOURCE_BODY_BYTES, Asked::Resource { target }));
    }
    if !takes_calls(request.uri()) {
        return Err(Refusal::NotFound);
    }
    if request.method() != Method::POST {
        return Err(Refusal::NotPost);
    }
    let header = request.headers().get(AUTHORIZATION).ok_or(Refusal::NoLogin)?;
    let user = service.credentials.user(header.as_bytes()).ok_or(Refusal::WrongLogin)?;
    Ok((MAX_BODY_BYTES, Asked::Calls { user }))
}

/// Whether JSON-RPC is served at a path: `/`, and those where Core with a wallet serves it as well
/// (`httprpc.cpp`, `StartHTTPRPC`). Which wallet the path names does not matter to calls that need none.
fn takes_calls(uri: &Uri) -> bool {
    // Compared as text, because `Uri` itself takes `/?` for `/`.
    let is_root = uri.path_and_query().is_some_and(|target| target.as_str() == "/");
    uri.authority().is_none() && (is_root || uri.path().starts_with("/wallet/"))
}

/// The target of a request for a REST resource, if REST is answered.
fn resource(request: &Request<Incoming>, service: &Service) -> Option<String> {
    let uri = request.uri();
    let is_resource = service.is_resource.is_some_and(|is_resource| is_resource(uri.path()));
    let is_answered = is_resource && uri.authority().is_none();
    is_answered.then(|| uri.path_and_query().map(ToString::to_string))?
}

/// Receives the body, and then has a worker answer.
async fn run_job<S: Stream>(
    request: Request<Incoming>,
    most: u64,
    asked: Asked,
    connection: &Connection<S>,
    service: &Service,
) -> Result<Answer, Hopeless> {
    let body = match receive(request.into_body(), most, &service.bodies, service.timeout()).await? {
        Received::Whole(body) => body,
        Received::TooLong => return Ok(closing(plain(StatusCode::PAYLOAD_TOO_LARGE, ""))),
        Received::Broken => return Ok(closing(plain(StatusCode::BAD_REQUEST, ""))),
        Received::NoRoom => {
            let text = "Too many large requests are under way";
            return Ok(closing(plain(StatusCode::SERVICE_UNAVAILABLE, text)));
        }
    };
    let (sender, reply) = oneshot::channel();
    if service.jobs.try_send(Job { asked, body, reply: sender }).is_err() {
        service.full_queues.warn(|| {
            "Request rejected because http work queue depth exceeded, it can be increased with the \
             -rpcworkqueue= setting"
                .to_owned()
        });
        return Ok(plain(StatusCode::SERVICE_UNAVAILABLE, "Work queue depth exceeded"));
    }
    let reply = tokio::select! {
        reply = reply => reply,
        () = connection.stream.hung_up(service.silence.unwrap_or(HALF_CLOSED)) => {
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
            let mut answer = Response::new(Full::new(body.bytes));
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

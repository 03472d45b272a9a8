//! The status page for people and the metrics for Prometheus, without a login, on sockets of their own.
//!
//! Both show what the node has published. The page is a single file, which the browser may connect to nothing
//! but this server (`Content-Security-Policy`); [`hosts`] decides who may request it.

#[cfg(test)]
mod documented;
mod hosts;
mod metrics;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use data_encoding::BASE64;
use godwit_http::{MAX_HEADER_BYTES, Patient, told};
use godwit_rpc::{Json, RpcError};
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use sha2::{Digest, Sha256};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};

use super::{NotBound, ServerError, bind, listen};
use crate::api::Api;
use crate::interfaces::PageOptions;
use crate::sync::{SyncReport, sync_json};

/// Connections at once, of pages and figures together; further ones are closed at once.
pub const MAX_PAGE_CONNECTIONS: usize = 32;

/// How long a client may be silent: longer than a page waits between two looks.
const SILENCE: Duration = Duration::from_secs(20);

/// Between two times that figures are gathered.
const FIGURES: Duration = Duration::from_secs(1);

const PAGE: &str = include_str!("pages/page.html");
const JSON_TYPE: &str = "application/json";
const PLAIN_TYPE: &str = "text/plain; charset=utf-8";

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Web,
    /// Whether the address is of this machine alone: only then the names of others are told from ours.
    Metrics {
        on_loopback: bool,
    },
}

/// The listening sockets.
pub(super) struct Pages {
    listeners: Vec<(std::net::TcpListener, Kind)>,
    shared: Arc<Shared>,
}

struct Shared {
    api: Arc<Api>,
    policy: HeaderValue,
    connections: Arc<Semaphore>,
    /// The last status as it was sent.
    status: Mutex<Option<(Arc<SyncReport>, Bytes)>>,
    figures: Arc<tokio::sync::Mutex<Option<(Instant, Bytes)>>>,
    warnings: AtomicU64,
}

/// Only the script and the style of the page itself run, and they reach only this server.
fn policy() -> String {
    let hash = |tag: &str| {
        let (_, rest) = PAGE.split_once(&format!("<{tag}>")).expect("the page has one");
        let (text, _) = rest.split_once(&format!("</{tag}>")).expect("it ends");
        BASE64.encode(&Sha256::digest(text.as_bytes()))
    };
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; \
         connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash("script"),
        hash("style")
    )
}

impl Pages {
    /// Binds what is asked for.
    ///
    /// # Errors
    ///
    /// An address is taken, or not ours.
    pub(super) fn bind(options: PageOptions, api: &Arc<Api>) -> Result<Self, ServerError> {
        let on_loopback = options.metrics.is_some_and(|address| address.ip().is_loopback());
        let mut listeners = Vec::new();
        for (address, kind, option) in [
            (options.web, Kind::Web, "-web"),
            (options.metrics, Kind::Metrics { on_loopback }, "-metrics"),
        ] {
            let Some(address) = address else { continue };
            let refused = |error| ServerError::Page(option, NotBound::one(address, error));
            listeners.push((bind(address).and_then(listen).map_err(refused)?, kind));
            let path = if kind == Kind::Web { "" } else { "metrics" };
            log::info!("{option}: http://{address}/{path}");
        }
        let shared = Shared {
            api: Arc::clone(api),
            policy: HeaderValue::try_from(policy()).expect("the policy is plain text"),
            connections: Arc::new(Semaphore::new(MAX_PAGE_CONNECTIONS)),
            status: Mutex::default(),
            figures: Arc::default(),
            warnings: AtomicU64::new(0),
        };
        Ok(Self { listeners, shared: Arc::new(shared) })
    }

    /// Serves until the server is told to stop.
    pub(super) fn spawn(self, stopped: &watch::Receiver<bool>) {
        for (listener, kind) in self.listeners {
            match TcpListener::from_std(listener) {
                Ok(listener) => {
                    let shared = Arc::clone(&self.shared);
                    tokio::spawn(accept(listener, kind, shared, stopped.clone()));
                }
                Err(error) => log::error!("A page lost its listening socket: {error}"),
            }
        }
    }
}

async fn accept(
    listener: TcpListener,
    kind: Kind,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = told(&mut stopped) => return,
        };
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Ok(place) = Arc::clone(&shared.connections).try_acquire_owned() else { continue };
        let (shared, stopped) = (Arc::clone(&shared), stopped.clone());
        tokio::spawn(async move {
            serve(stream, kind, shared, stopped).await;
            drop(place);
        });
    }
}

async fn serve(
    stream: TcpStream,
    kind: Kind,
    shared: Arc<Shared>,
    mut stopped: watch::Receiver<bool>,
) {
    let answer = service_fn(move |request| {
        let shared = Arc::clone(&shared);
        async move { Ok::<_, std::convert::Infallible>(answer(&request, kind, &shared).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(SILENCE)
        .max_buf_size(MAX_HEADER_BYTES)
        .max_header_size(MAX_HEADER_BYTES)
        .serve_connection(TokioIo::new(Patient::new(Arc::new(stream), SILENCE)), answer);
    tokio::select! {
        ended = served => if let Err(error) = ended {
            log::debug!("connection of a page: {error}");
        },
        () = told(&mut stopped) => {}
    }
}

type Answer = Response<Full<Bytes>>;

async fn answer(request: &Request<Incoming>, kind: Kind, shared: &Arc<Shared>) -> Answer {
    let plain =
        |status, text: &'static str| of(status, PLAIN_TYPE, Bytes::from_static(text.as_bytes()));
    let is_checked = !matches!(kind, Kind::Metrics { on_loopback: false });
    if is_checked && !hosts::may_be_answered(request.headers()) {
        return plain(StatusCode::FORBIDDEN, "Ask by an address or name of this machine.\n");
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        let text = "There is nothing to change here.\n";
        let mut refusal = plain(StatusCode::METHOD_NOT_ALLOWED, text);
        refusal.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
        return refusal;
    }
    match (kind, request.uri().path()) {
        (Kind::Web, "/") => {
            let page = Bytes::from_static(PAGE.as_bytes());
            let mut page = of(StatusCode::OK, "text/html; charset=utf-8", page);
            page.headers_mut().insert(CONTENT_SECURITY_POLICY, shared.policy.clone());
            page
        }
        (Kind::Web, "/status.json") => of(StatusCode::OK, JSON_TYPE, status(shared)),
        (Kind::Metrics { .. }, "/metrics") => match figures(shared).await {
            Some(text) => of(StatusCode::OK, metrics::TYPE, text),
            None => plain(StatusCode::SERVICE_UNAVAILABLE, "The node is starting or ending.\n"),
        },
        _ => plain(StatusCode::NOT_FOUND, "There is no such page.\n"),
    }
}

fn of(status: StatusCode, kind: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    for (name, value) in [
        (CONTENT_TYPE, kind),
        (CACHE_CONTROL, "no-store"),
        (X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (X_FRAME_OPTIONS, "DENY"),
        (REFERRER_POLICY, "no-referrer"),
        (RESOURCE_POLICY, "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    answer
}

/// What the page shows. It is written once for each report, however many look.
fn status(shared: &Shared) -> Bytes {
    let node = match shared.api.stage.node() {
        Ok(node) => node,
        Err(RpcError { message, .. }) => {
            let starting = Json::object([("stage", "starting".into()), ("text", message.into())]);
            return starting.write().into();
        }
    };
    let report = Arc::clone(&node.snapshot().sync);
    let mut last = shared.status.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, bytes)) = &*last
        && Arc::ptr_eq(known, &report)
    {
        return bytes.clone();
    }
    let chain = node.params().network.name();
    let bytes = Bytes::from(sync_json(&report, chain, shared.api.program.version).write());
    *last = Some((report, bytes.clone()));
    bytes
}

/// Figures, not older than a second. What is asked of methods is asked on a thread that may wait. That thread
/// has the lock: a client that goes away meanwhile ends its own wait, and the next one does not begin anew.
async fn figures(shared: &Arc<Shared>) -> Option<Bytes> {
    let mut last = Arc::clone(&shared.figures).lock_owned().await;
    if let Some((gathered, bytes)) = &*last
        && gathered.elapsed() < FIGURES
    {
        return Some(bytes.clone());
    }
    let of = Arc::clone(shared);
    let gathered = tokio::task::spawn_blocking(move || {
        let _active = of.api.active.begin_other();
        let node = of.api.stage.node().ok()?;
        let snapshot = node.snapshot();
        let asked = metrics::Asked::of(&of.api, &node, &snapshot);
        let warns = u64::from(snapshot.all_warnings().next().is_some());
        let warnings = of.warnings.fetch_add(warns, Ordering::Relaxed) + warns;
        let bytes = Bytes::from(metrics::text(&of.api, &snapshot, &asked, warnings));
        *last = Some((Instant::now(), bytes.clone()));
        Some(bytes)
    });
    gathered.await.ok().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_loads_nothing_and_reads_no_text_as_markup() {
        let outside = ["http://", "https://", "src=", "@import", "url(http", "//cdn"];
        let page = PAGE.replace("http://www.w3.org/2000/svg", "");
        assert!(outside.iter().all(|part| !page.contains(part)));
        for markup in
            ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "Function("]
        {
            assert!(!PAGE.contains(markup), "{markup}");
        }
        // An inline handler would be refused by the policy.
        assert!(!PAGE.contains(" onclick=") && !PAGE.contains(" onload="));
        let policy = policy();
        assert!(policy.starts_with("default-src 'none'; script-src 'sha256-"), "{policy}");
        assert_eq!(PAGE.matches("<script>").count() + PAGE.matches("<style>").count(), 2);
    }
}

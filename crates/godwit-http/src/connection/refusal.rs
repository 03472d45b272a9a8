//! Refusal of requests by their head.

use std::time::Duration;

use hyper::StatusCode;
use hyper::body::Incoming;
use hyper::header::{HeaderValue, WWW_AUTHENTICATE};
use tokio::time::sleep;

use super::{Answer, Connection, Service, closing, plain};
use crate::body::{Discarded, Hopeless, MAX_DISCARDED_BODY_BYTES, discard};
use crate::stream::Stream;

/// Delay before a failed login is answered, to slow down guessing.
const FAILED_LOGIN: Duration = Duration::from_millis(250);

/// Why a request is refused, in the order of the checks (Core `MaybeDispatchRequestToWorker`,
/// `HTTPReq_JSONRPC`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    UnknownMethod,
    NotFound,
    NotPost,
    NoLogin,
    WrongLogin,
}

impl Refusal {
    fn answer(self) -> Answer {
        match self {
            Self::UnknownMethod => plain(StatusCode::METHOD_NOT_ALLOWED, ""),
            Self::NotFound => plain(StatusCode::NOT_FOUND, ""),
            Self::NotPost => {
                plain(StatusCode::METHOD_NOT_ALLOWED, "JSONRPC server handles only POST requests")
            }
            Self::NoLogin | Self::WrongLogin => unauthorized(),
        }
    }
}

/// Answers a refused request after reading its body, as Core does: if a client sends the body later than the
/// head, an early close would reset the connection, and the client would not see the answer. If the body is
/// too long to read, the connection is closed after the answer.
pub(super) async fn refuse<S: Stream>(
    body: Incoming,
    refusal: Refusal,
    connection: &Connection<S>,
    service: &Service,
) -> Result<Answer, Hopeless> {
    let discarded = discard(body, MAX_DISCARDED_BODY_BYTES, service.timeout()).await?;
    if matches!(discarded, Discarded::Broken) {
        return Ok(closing(plain(StatusCode::BAD_REQUEST, "")));
    }
    if refusal == Refusal::WrongLogin {
        let peer = connection.peer;
        service
            .wrong_passwords
            .warn(|| format!("RPC server: incorrect password attempt from {peer}"));
        sleep(FAILED_LOGIN).await;
    }
    Ok(match discarded {
        Discarded::Whole => refusal.answer(),
        Discarded::TooLong | Discarded::Broken => closing(refusal.answer()),
    })
}

fn unauthorized() -> Answer {
    let mut answer = plain(StatusCode::UNAUTHORIZED, "");
    let asks = HeaderValue::from_static("Basic realm=\"jsonrpc\"");
    answer.headers_mut().insert(WWW_AUTHENTICATE, asks);
    answer
}

//! Requests on their way to a worker, and their answers.

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A request that may be answered: its client has logged in, or needs no login.
pub struct Job {
    pub asked: Asked,
    pub body: RequestBody,
    pub reply: oneshot::Sender<Reply>,
}

/// What the request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Calls by this user; they are in the body.
    Calls { user: String },
    /// A REST resource, named by the target of the HTTP request.
    Resource { target: String },
}

/// The body of a request, with the memory that it counts for.
pub struct RequestBody {
    pub bytes: Vec<u8>,
    /// The body's share of the memory for bodies, held until this is dropped.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// The answer to a request.
pub struct Reply {
    /// The HTTP status.
    pub status: u16,
    pub body: Option<AnswerBody>,
}

/// The body of an answer.
pub struct AnswerBody {
    pub kind: ContentKind,
    pub bytes: Bytes,
}

/// The content type that the client is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    Json,
    Text,
    Bytes,
}

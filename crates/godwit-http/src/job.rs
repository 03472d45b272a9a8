//! What is asked for, and what it is answered.

use hyper::body::Bytes;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

/// A request whose sender may ask.
pub struct Job {
    pub asked: Asked,
    pub body: RequestBody,
    pub reply: oneshot::Sender<Reply>,
}

/// What for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Calls of this user, in the body.
    Calls { user: String },
    /// What a target of HTTP names.
    Resource { target: String },
}

/// What was sent with it, and the memory that it counts.
pub struct RequestBody {
    pub bytes: Vec<u8>,
    /// Its part of the memory of bodies, until this is dropped.
    pub permit: Option<OwnedSemaphorePermit>,
}

/// What it is answered.
pub struct Reply {
    /// Of HTTP.
    pub status: u16,
    pub body: Option<AnswerBody>,
}

/// What is sent.
pub struct AnswerBody {
    pub kind: ContentKind,
    pub bytes: Bytes,
}

/// What a client takes the bytes for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentKind {
    Json,
    Text,
    Bytes,
}

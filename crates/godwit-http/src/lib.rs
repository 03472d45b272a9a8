//! HTTP connections: who may ask, how much and how slowly, and which status the answer has.
//!
//! `hyper` speaks HTTP; this crate adds what Bitcoin Core's server does around it. Requests go into a queue,
//! and this crate does not know who answers them, so that a fuzz target can run the server without the node.

mod auth;
mod body;
mod connection;
mod job;
mod log_limit;
mod patient;
mod stream;

pub use auth::{Credentials, RpcAuth, RpcAuthError, with_random_password};
pub use body::{
    BODY_BYTES, Bodies, MAX_BODY_BYTES, MAX_DISCARDED_BODY_BYTES, MAX_RESOURCE_BODY_BYTES,
};
pub use connection::{FIRST_LOGIN, MAX_HEADER_BYTES, Service, serve, told};
pub use job::{AnswerBody, Asked, ContentKind, Job, Reply, RequestBody};
pub use log_limit::LogLimit;
pub use patient::Patient;
pub use stream::Stream;

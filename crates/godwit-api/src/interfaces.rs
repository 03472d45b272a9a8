//! The interfaces that a server offers, as its options say.

use std::net::SocketAddr;

use crate::deprecated::Deprecated;
use crate::zmq::Notifier;

/// What there is beside the JSON-RPC of today.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    /// Whether REST is answered, to all that may ask, without a login.
    pub rest: bool,
    /// What answers of JSON-RPC and REST have for older programs.
    pub deprecated: Deprecated,
    /// What is published, for programs that ask for it.
    pub notifiers: Vec<Notifier>,
    /// What people and Prometheus look at.
    pub pages: PageOptions,
}

/// Where pages are served.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageOptions {
    /// `-web`, an address of this machine alone.
    pub web: Option<SocketAddr>,
    /// `-metrics`.
    pub metrics: Option<SocketAddr>,
}

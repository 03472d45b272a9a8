//! The interfaces that a server offers, as its options say.

use std::net::SocketAddr;

use crate::deprecated::Deprecated;
use crate::zmq::Notifier;

/// The interfaces besides current JSON-RPC.
#[derive(Clone, Debug, Default)]
pub struct Interfaces {
    /// Whether REST is answered, to all that may ask, without a login.
    pub rest: bool,
    /// Fields of JSON-RPC and REST answers for older programs.
    pub deprecated: Deprecated,
    /// The published notifications, for programs that ask about them.
    pub notifiers: Vec<Notifier>,
    /// The status page and the metrics.
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

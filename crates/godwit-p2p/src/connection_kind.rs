//! Kinds of connections, as Bitcoin Core distinguishes them.

use std::fmt;

/// What a connection is for (Core `ConnectionType`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConnectionKind {
    /// Opened by the other side.
    Inbound,
    /// Blocks, headers and addresses.
    OutboundFull,
    /// Headers and blocks only.
    BlockRelay,
    /// `-connect` and `-addnode`.
    Manual,
    /// Tests whether an address answers, then disconnects.
    Feeler,
    /// Asks for addresses, then disconnects.
    AddrFetch,
}

/// The name in Core's `getpeerinfo` and log lines.
impl fmt::Display for ConnectionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inbound => "inbound",
            Self::OutboundFull => "outbound-full-relay",
            Self::BlockRelay => "block-relay-only",
            Self::Manual => "manual",
            Self::Feeler => "feeler",
            Self::AddrFetch => "addr-fetch",
        })
    }
}

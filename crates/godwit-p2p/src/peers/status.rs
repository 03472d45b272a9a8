//! Numbers of the engine for progress lines.

use std::time::Duration;

/// Numbers for progress lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Inbound peers whose handshake is complete.
    pub inbound: usize,
    /// Outbound peers whose handshake is complete.
    pub outbound: usize,
    pub blocks_in_flight: usize,
    /// Since when nothing arrives from anybody, on the monotonic clock; `None` while the line is alive.
    pub silent_since: Option<Duration>,
}

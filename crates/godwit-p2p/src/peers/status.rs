//! The engine's status.

/// Numbers for progress lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Inbound peers whose handshake is complete.
    pub inbound: usize,
    /// Outbound peers whose handshake is complete.
    pub outbound: usize,
    pub blocks_in_flight: usize,
}

//! What the engine tells about itself.

/// Numbers for progress lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Peers that connected to us and said hello.
    pub inbound: usize,
    /// Peers that we connected to and that said hello.
    pub outbound: usize,
    /// Blocks that were asked for and did not arrive so far.
    pub blocks_in_flight: usize,
}

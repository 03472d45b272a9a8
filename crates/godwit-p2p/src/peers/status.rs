//! What the engine tells about itself.

use super::Peers;

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

impl Peers {
    /// Numbers for progress lines.
    pub fn summary(&self) -> Summary {
        let established = || self.peers.values().filter(|peer| peer.established());
        let inbound = established().filter(|peer| peer.inbound()).count();
        Summary {
            inbound,
            outbound: established().count() - inbound,
            blocks_in_flight: self.blocks_in_flight(),
        }
    }
}

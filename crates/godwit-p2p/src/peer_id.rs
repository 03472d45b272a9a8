//! What names a peer.

/// A peer's name. Never used twice: 64 bits do not run out (Core's counter of addresses did,
/// CVE-2024-52919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

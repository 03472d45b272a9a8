//! The id of a peer, which no other one ever gets.

/// A peer's id. Never used twice: 64 bits do not run out (Core's 32-bit counter of addresses did,
/// CVE-2024-52919).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PeerId(pub u64);

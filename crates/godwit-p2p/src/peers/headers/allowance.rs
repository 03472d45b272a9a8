//! How many headers that bring nothing a peer may send.

use std::time::Duration;

use crate::rate_limit::TokenBucket;

/// Headers that bring nothing and that a peer may send at once: 25 full messages. Core has no limit.
pub(in crate::peers) const USELESS_BURST: u64 = 50_000;

/// Headers that bring nothing and that a peer may send a second after that. Every peer announces each
/// block, so the whole network may have that many blocks a second (on regtest); 4 kB/s of our line.
const USELESS_PER_SECOND: u64 = 50;

/// For headers that bring nothing.
pub(in crate::peers) fn useless_headers(now: Duration) -> TokenBucket {
    TokenBucket::new(now, USELESS_BURST, USELESS_PER_SECOND, Duration::from_secs(1))
}

//! Rate limit of useless headers: known ones, and those of chains with too little work.

use std::time::Duration;

use crate::rate_limit::TokenBucket;

/// Useless headers that a peer may send at once: 25 full messages. Core has no limit.
pub(in crate::peers) const USELESS_BURST: u64 = 50_000;

/// Useless headers that a peer may send per second after that. Every peer announces each block, so
/// the network may have this many blocks per second (on regtest); it costs 4 kB/s of our link.
const USELESS_PER_SECOND: u64 = 50;

/// A connection's allowance for useless headers.
pub(in crate::peers) fn useless_headers(now: Duration) -> TokenBucket {
    TokenBucket::new(now, USELESS_BURST, USELESS_PER_SECOND, Duration::from_secs(1))
}

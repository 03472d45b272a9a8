//! How much memory secrets take.

use crate::arena::{Stats, process_pool};
use crate::stack;

/// What all secrets of the process take: the pool and the secret stacks, each of which is one chunk, in
/// use while an operation runs on it. When less is `locked` than there is in `total`, secrets may reach
/// the swap file. What stands against RLIMIT_MEMLOCK is `locked`, and what others lock.
pub fn process_stats() -> Stats {
    let (pool, stacks) = (process_pool().stats(), stack::stats());
    Stats {
        used: pool.used + stacks.used,
        free: pool.free + stacks.free,
        total: pool.total + stacks.total,
        locked: pool.locked + stacks.locked,
        chunks_used: pool.chunks_used + stacks.chunks_used,
        chunks_free: pool.chunks_free + stacks.chunks_free,
    }
}

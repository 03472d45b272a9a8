//! How much memory secrets take.

use crate::arena::process_pool;
use crate::stack;

/// Memory for secrets, in bytes unless the name says otherwise (as Bitcoin Core's `getmemoryinfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Handed out.
    pub used: usize,
    /// Ready to be handed out.
    pub free: usize,
    /// Used and free.
    pub total: usize,
    /// Of the total, what cannot be swapped out.
    pub locked: usize,
    /// Number of chunks that are handed out.
    pub chunks_used: usize,
    /// Number of contiguous free ranges.
    pub chunks_free: usize,
}

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

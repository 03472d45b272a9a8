//! A bounded store of idle buffers, to be used again. [`BufferPool`] has the rules.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Allocator, DataStream, PUBLIC_MEMORY, PublicMemory};

/// Idle and lent buffers of a busy pool together may have this many times
/// [`PoolLimits::total_bytes`].
const BUSY: usize = 3;

/// Most idle buffers for each lent one in a pool that counts as busy.
const IDLE_FOR_EACH: usize = 8;

/// Most times its length that a message's buffer should have as capacity: thousands of small blocks
/// would otherwise hold thousands of large buffers.
const MAX_SPARE: usize = 4;

/// What a pool keeps at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Most idle buffers.
    pub buffers: usize,
    /// Largest capacity of an idle buffer, in bytes; a larger one is freed when it comes back.
    pub buffer_bytes: usize,
    /// Capacity of all idle buffers together in bytes, while few or none are lent ([`BufferPool`],
    /// rule 4).
    pub total_bytes: usize,
}

/// A pool of [`DataStream`] buffers for any number of threads.
///
/// A buffer is *lent* from [`take`](Self::take) until its [`PooledStream`] is dropped, and *idle*
/// otherwise.
///
/// 1. Lending never fails and never waits. How many buffers are lent is bounded by the queues that
///    they travel through, not by the pool.
/// 2. At most `buffers` are idle, each of at most `buffer_bytes`, empty, and with memory.
/// 3. The pool is *busy* while at most eight buffers are idle for each lent one.
/// 4. All idle buffers together have at most `total_bytes`; while the pool is busy, what three times
///    `total_bytes` leaves beside the lent buffers, if that is more. Lent buffers count with the
///    capacity that they were taken with.
///
/// ```text
/// idle bytes, at most
///   3 * total |\
///             | \   busy
///       total |--+---------  otherwise
///             +--+---------  bytes lent
///             0  2 * total
/// ```
///
/// So a pool at rest holds little, and a busy one keeps what comes back: it is about to be lent again.
/// Bounded by `total_bytes` alone, an import freed half a byte for each byte of its chain.
///
/// Rules 2 and 4 hold after each return, which frees the buffers that have been idle longest. A new
/// buffer that is lent in between can break rule 4 until the next return.
pub struct BufferPool<A: Allocator + Clone = PublicMemory> {
    shared: Arc<Shared<A>>,
}

struct Shared<A: Allocator + Clone> {
    limits: PoolLimits,
    allocator: A,
    buffers: Mutex<Buffers<A>>,
}

struct Buffers<A: Allocator + Clone> {
    /// Idle buffers by rising capacity. Of several of one capacity the last used comes first: it is
    /// most likely still in the CPU's cache.
    idle: Vec<Idle<A>>,
    idle_bytes: usize,
    /// Number of times that a buffer has become idle.
    returned: u64,
    lent: usize,
    /// Capacity of the lent buffers when they were taken, in bytes.
    lent_bytes: usize,
}

struct Idle<A: Allocator> {
    stream: DataStream<A>,
    /// [`Buffers::returned`] when this one came back: the lowest has been idle longest.
    number: u64,
}

impl<A: Allocator> Idle<A> {
    fn capacity(&self) -> usize {
        self.stream.capacity()
    }
}

impl BufferPool {
    /// An empty pool of plain buffers.
    pub fn new(limits: PoolLimits) -> Self {
        Self::new_in(limits, PUBLIC_MEMORY)
    }
}

impl<A: Allocator + Clone> BufferPool<A> {
    /// An empty pool whose buffers come from `allocator`.
    pub fn new_in(limits: PoolLimits, allocator: A) -> Self {
        let idle = Vec::new();
        let buffers = Buffers { idle, idle_bytes: 0, returned: 0, lent: 0, lent_bytes: 0 };
        Self { shared: Arc::new(Shared { limits, allocator, buffers: Mutex::new(buffers) }) }
    }

    /// Lends an empty buffer: the largest idle one, or a new one without memory. It comes back when it
    /// is dropped.
    pub fn take(&self) -> PooledStream<A> {
        self.lend(0, |buffers| buffers.idle.len().checked_sub(1))
    }

    /// Lends an empty buffer with room for `n` bytes: the smallest idle one that has it, if its
    /// capacity is at most about four times that, or a new one. Not for lengths that the input claims.
    pub fn take_for(&self, n: usize) -> PooledStream<A> {
        // Capacities like those of a growing vector, so that lengths which change along a chain can
        // use each other's buffers. Memory that is never written costs the system nothing.
        let fresh = n.next_power_of_two().min(self.shared.limits.buffer_bytes).max(n);
        self.lend(fresh, |buffers| {
            let at = buffers.idle.partition_point(|stream| stream.capacity() < n);
            let found = buffers.idle.get(at).filter(|stream| stream.capacity() / MAX_SPARE <= n);
            found.map(|_| at)
        })
    }

    /// Lends the idle buffer at the position that `choose` returns, or a new one of `fresh` bytes.
    fn lend(
        &self,
        fresh: usize,
        choose: impl FnOnce(&Buffers<A>) -> Option<usize>,
    ) -> PooledStream<A> {
        let mut buffers = self.shared.lock();
        let stream = choose(&buffers).map(|at| buffers.remove(at));
        let taken = stream.as_ref().map_or(fresh, DataStream::capacity);
        buffers.lent += 1;
        buffers.lent_bytes += taken;
        drop(buffers);
        let allocate = || DataStream::with_capacity_in(fresh, self.shared.allocator.clone());
        let home = Home { pool: Arc::clone(&self.shared), taken };
        PooledStream { stream: stream.unwrap_or_else(allocate), home: Some(home) }
    }

    /// Number of idle buffers and their capacity in bytes.
    pub fn idle(&self) -> (usize, usize) {
        let buffers = self.shared.lock();
        (buffers.idle.len(), buffers.idle_bytes)
    }
}

impl<A: Allocator + Clone> Clone for BufferPool<A> {
    /// Another handle of the same pool.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

impl<A: Allocator + Clone> fmt::Debug for BufferPool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (buffers, bytes) = self.idle();
        f.debug_struct("BufferPool")
            .field("limits", &self.shared.limits)
            .field("idle_buffers", &buffers)
            .field("idle_bytes", &bytes)
            .finish()
    }
}

impl<A: Allocator + Clone> Shared<A> {
    fn lock(&self) -> MutexGuard<'_, Buffers<A>> {
        // No code under the lock can panic and leave the buffers half changed.
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_back(&self, mut stream: DataStream<A>, taken: usize) {
        stream.clear();
        let may_stay = (1..=self.limits.buffer_bytes).contains(&stream.capacity());
        let mut buffers = self.lock();
        buffers.lent -= 1;
        buffers.lent_bytes -= taken;
        if may_stay {
            buffers.insert(stream);
        }
        // Buffers are freed one at a time, outside the lock.
        drop(buffers);
        while let Some(surplus) = self.surplus() {
            drop(surplus);
        }
    }

    fn surplus(&self) -> Option<DataStream<A>> {
        let mut buffers = self.lock();
        let at = buffers.surplus(&self.limits)?;
        Some(buffers.remove(at))
    }
}

impl<A: Allocator + Clone> Buffers<A> {
    fn insert(&mut self, stream: DataStream<A>) {
        let capacity = stream.capacity();
        let at = self.idle.partition_point(|other| other.capacity() < capacity);
        self.idle_bytes += capacity;
        self.returned += 1;
        self.idle.insert(at, Idle { stream, number: self.returned });
    }

    fn remove(&mut self, at: usize) -> DataStream<A> {
        let stream = self.idle.remove(at).stream;
        self.idle_bytes -= stream.capacity();
        stream
    }

    /// Position of the buffer to be freed by rules 2 and 4, if one is: the one that has been idle
    /// longest, since the lengths that are asked for change.
    fn surplus(&self, limits: &PoolLimits) -> Option<usize> {
        let busy = self.idle.len() <= IDLE_FOR_EACH.saturating_mul(self.lent);
        let while_busy = limits.total_bytes.saturating_mul(BUSY).saturating_sub(self.lent_bytes);
        let bytes = if busy { limits.total_bytes.max(while_busy) } else { limits.total_bytes };
        if self.idle.len() <= limits.buffers && self.idle_bytes <= bytes {
            return None;
        }
        (0..self.idle.len()).min_by_key(|at| self.idle[*at].number)
    }
}

/// A [`DataStream`] that goes back to its pool when it is dropped. One made with `From` has no pool
/// and is freed.
pub struct PooledStream<A: Allocator + Clone = PublicMemory> {
    stream: DataStream<A>,
    home: Option<Home<A>>,
}

struct Home<A: Allocator + Clone> {
    pool: Arc<Shared<A>>,
    /// Capacity of the buffer when it was lent.
    taken: usize,
}

impl PooledStream {
    /// The stream itself, or its unread bytes in a buffer of their own if this one has more than four
    /// times their size; then this buffer goes back to the pool at once.
    pub fn in_proportion(self) -> Self {
        if self.capacity() / MAX_SPARE <= self.len() {
            return self;
        }
        DataStream::from(self.unread()).into()
    }
}

impl<A: Allocator + Clone> From<DataStream<A>> for PooledStream<A> {
    fn from(stream: DataStream<A>) -> Self {
        Self { stream, home: None }
    }
}

impl<A: Allocator + Clone> Deref for PooledStream<A> {
    type Target = DataStream<A>;

    #[inline]
    fn deref(&self) -> &DataStream<A> {
        &self.stream
    }
}

impl<A: Allocator + Clone> DerefMut for PooledStream<A> {
    #[inline]
    fn deref_mut(&mut self) -> &mut DataStream<A> {
        &mut self.stream
    }
}

impl<A: Allocator + Clone> Drop for PooledStream<A> {
    fn drop(&mut self) {
        if let Some(Home { pool, taken }) = self.home.take() {
            let empty = DataStream::new_in(pool.allocator.clone());
            pool.put_back(std::mem::replace(&mut self.stream, empty), taken);
        }
    }
}

impl<A: Allocator + Clone> fmt::Debug for PooledStream<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.stream.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: PoolLimits = PoolLimits { buffers: 3, buffer_bytes: 100, total_bytes: 200 };

    fn used(pool: &BufferPool, bytes: usize) -> PooledStream {
        let mut stream = pool.take();
        assert!(stream.capacity() <= bytes, "the test wants this capacity");
        stream.reserve(bytes);
        stream.write(&[7; 8]);
        stream
    }

    #[test]
    fn a_dropped_buffer_comes_back_empty_with_its_memory() {
        let pool = BufferPool::new(LIMITS);
        let stream = used(&pool, 64);
        let memory = stream.as_slice().as_ptr();
        drop(stream);
        assert_eq!(pool.idle(), (1, 64));
        let mut again = pool.take();
        assert_eq!((again.len(), again.capacity(), pool.idle()), (0, 64, (0, 0)));
        again.write(&[1]);
        assert_eq!(again.as_slice().as_ptr(), memory);
    }

    #[test]
    fn each_limit_bounds_what_is_kept() {
        let kept = |sizes: &[usize]| {
            let pool = BufferPool::new(LIMITS);
            let streams: Vec<_> = sizes.iter().map(|&size| used(&pool, size)).collect();
            drop(streams);
            pool.idle()
        };
        assert_eq!(kept(&[40, 40, 40]), (3, 120));
        assert_eq!(kept(&[40, 40, 40, 40]), (3, 120), "number");
        assert_eq!(kept(&[100]), (1, 100));
        assert_eq!(kept(&[101]), (0, 0), "size of one");
        assert_eq!(kept(&[100, 100]), (2, 200));
        assert_eq!(kept(&[100, 100, 8]), (2, 108), "size of all");
        assert_eq!(kept(&[40, 10, 50, 60]), (3, 120), "the first goes");
    }

    #[test]
    fn more_lies_idle_while_buffers_are_in_use() {
        const MANY: PoolLimits = PoolLimits { buffers: 100, total_bytes: 320, ..LIMITS };
        let idle = |in_use: usize, come_back: usize| {
            let pool = BufferPool::new(MANY);
            let mut streams: Vec<_> = (0..in_use + come_back).map(|_| pool.take_for(20)).collect();
            streams.truncate(in_use);
            let idle = pool.idle();
            drop(streams);
            assert!(pool.idle().1 <= MANY.total_bytes, "at rest");
            idle
        };
        assert_eq!(idle(0, 30), (10, 320), "at rest: the total");
        assert_eq!(idle(10, 30), (20, 640), "three times the total, less what is in use");
        assert_eq!(idle(25, 30), (10, 320), "never less than the total");
        assert_eq!(idle(2, 16), (16, 512), "eight for each in use");
        assert_eq!(idle(1, 9), (9, 288));
        assert_eq!(idle(1, 11), (10, 320), "and not more");
    }

    #[test]
    fn a_buffer_for_a_length_is_the_smallest_that_fits_and_no_giant() {
        let pool = BufferPool::new(PoolLimits { buffer_bytes: 1000, total_bytes: 2000, ..LIMITS });
        let capacities = |lengths: &[usize]| {
            let streams: Vec<_> = lengths.iter().map(|n| pool.take_for(*n)).collect();
            streams.iter().map(|stream| stream.capacity()).collect::<Vec<_>>()
        };
        // Rounded up to a power of two, but not beyond what the pool keeps.
        assert_eq!(capacities(&[65, 128, 990]), [128, 128, 1000]);
        assert_eq!(pool.idle(), (3, 1256));
        assert_eq!(capacities(&[80, 81, 250]), [128, 128, 1000]);
        assert_eq!(pool.take().capacity(), 1000, "the largest");
        assert_eq!(pool.take_for(250).capacity(), 1000, "four times the length");
        assert_eq!(pool.take_for(249).capacity(), 256, "more than that");
        assert_eq!(pool.take_for(1001).capacity(), 1001, "more than is kept");
        assert_eq!(pool.take_for(0).capacity(), 1);
    }

    #[test]
    fn untouched_and_unpooled_buffers_are_not_kept() {
        let pool = BufferPool::new(LIMITS);
        drop(pool.take());
        let mut alone = PooledStream::from(DataStream::from(&b"bytes"[..]));
        alone.write(b"!");
        assert_eq!(alone.as_slice(), b"bytes!");
        drop(alone);
        assert_eq!(pool.idle(), (0, 0));
    }

    #[test]
    fn a_small_block_leaves_a_large_buffer() {
        for (len, moves) in [(200, true), (249_999, true), (250_000, false), (900_000, false)] {
            let mut large = DataStream::with_capacity(1_000_000);
            large.write(&vec![7; len]);
            let capacity = large.capacity();
            let kept = PooledStream::from(large).in_proportion();
            assert_eq!(kept.capacity() < capacity, moves, "{len}");
            assert_eq!(kept.unread(), vec![7; len]);
        }
    }

    #[test]
    fn threads_share_it() {
        let pool = BufferPool::new(LIMITS);
        std::thread::scope(|scope| {
            for seed in 0u8..4 {
                let pool = pool.clone();
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let mut stream = pool.take();
                        assert!(stream.is_empty());
                        stream.write(&[seed; 50]);
                        assert_eq!(stream.as_slice(), [seed; 50]);
                    }
                });
            }
        });
        let (buffers, bytes) = pool.idle();
        assert!((1..=3).contains(&buffers) && bytes <= 200, "{buffers} buffers, {bytes} bytes");
    }
}

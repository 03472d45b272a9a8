//! A bounded store of buffers for reuse.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Allocator, DataStream, PUBLIC_MEMORY, PublicMemory};

/// What a pool keeps at most while nobody uses it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolLimits {
    /// Idle buffers.
    pub buffers: usize,
    /// Capacity of one idle buffer in bytes; a larger one is freed when it comes back.
    pub buffer_bytes: usize,
    /// Capacity of all idle buffers together in bytes.
    pub total_bytes: usize,
}

/// A pool of [`DataStream`] buffers for any number of threads.
///
/// It bounds what lies idle, not what is in use: [`take`](Self::take) always gives a buffer, and the
/// queues through which buffers travel bound how many there are.
pub struct BufferPool<A: Allocator + Clone = PublicMemory> {
    shared: Arc<Shared<A>>,
}

struct Shared<A: Allocator + Clone> {
    limits: PoolLimits,
    allocator: A,
    idle: Mutex<Idle<A>>,
}

struct Idle<A: Allocator + Clone> {
    /// Last in, first out: the buffer that is most likely still in the CPU's cache.
    streams: Vec<DataStream<A>>,
    bytes: usize,
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
        let idle = Mutex::new(Idle { streams: Vec::new(), bytes: 0 });
        Self { shared: Arc::new(Shared { limits, allocator, idle }) }
    }

    /// An empty buffer, used before when one lies idle. It returns to the pool when it is dropped.
    pub fn take(&self) -> PooledStream<A> {
        let stream = self.shared.lock().pop();
        let stream = stream.unwrap_or_else(|| DataStream::new_in(self.shared.allocator.clone()));
        PooledStream { stream, home: Some(Arc::clone(&self.shared)) }
    }

    /// Number of idle buffers and their capacity in bytes.
    pub fn idle(&self) -> (usize, usize) {
        let idle = self.shared.lock();
        (idle.streams.len(), idle.bytes)
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
    fn lock(&self) -> MutexGuard<'_, Idle<A>> {
        // Nothing that is done under the lock panics half-way.
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn put_back(&self, mut stream: DataStream<A>) {
        stream.clear();
        let limits = &self.limits;
        let capacity = stream.capacity();
        if capacity == 0 || capacity > limits.buffer_bytes {
            return;
        }
        let mut idle = self.lock();
        if idle.streams.len() < limits.buffers && capacity <= limits.total_bytes - idle.bytes {
            idle.bytes += capacity;
            idle.streams.push(stream);
        }
    }
}

impl<A: Allocator + Clone> Idle<A> {
    fn pop(&mut self) -> Option<DataStream<A>> {
        let stream = self.streams.pop()?;
        self.bytes -= stream.capacity();
        Some(stream)
    }
}

/// A [`DataStream`] that goes back to its pool when it is dropped. One made with `From` has no pool
/// and is freed.
pub struct PooledStream<A: Allocator + Clone = PublicMemory> {
    stream: DataStream<A>,
    home: Option<Arc<Shared<A>>>,
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
        if let Some(home) = self.home.take() {
            let empty = DataStream::new_in(home.allocator.clone());
            home.put_back(std::mem::replace(&mut self.stream, empty));
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
        stream.clear();
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
        assert_eq!(kept(&[100, 100, 8]), (2, 200), "size of all");
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

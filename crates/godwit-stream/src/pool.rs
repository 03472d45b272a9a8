//! A bounded store of buffers for reuse.

use std::fmt;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Allocator, DataStream, Global};

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
pub struct BufferPool<A: Allocator + Clone = Global> {
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
        Self::new_in(limits, Global)
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
pub struct PooledStream<A: Allocator + Clone = Global> {
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

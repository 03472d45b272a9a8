//! The buffer of a payload that is kept. It grows with the bytes received, not with the announced
//! length.

use std::io::{self, ErrorKind};

use godwit_stream::{BufferPool, DataStream, PooledStream};

use crate::frame::Command;

/// Capacity, in bytes, that a payload gets with its first byte, whatever length it announces.
const FIRST_CAPACITY: usize = 64 * 1024;

/// Result of one read, and whether the source had no more.
pub(super) struct Got {
    pub(super) bytes: usize,
    pub(super) end: Option<End>,
}

pub(super) enum End {
    Pending,
    Closed,
}

/// The received part of a payload.
#[derive(Debug)]
pub(super) struct Buffer {
    /// Whether the memory comes from the pool.
    pooled: bool,
    /// `None` until the first byte arrives.
    stream: Option<PooledStream>,
}

impl Buffer {
    pub(super) fn new(command: Command) -> Self {
        // Other messages are small or rare, and would occupy a block's buffer.
        Self { pooled: command == Command::BLOCK, stream: None }
    }

    pub(super) fn len(&self) -> usize {
        self.stream.as_ref().map_or(0, |stream| stream.as_slice().len())
    }

    pub(super) fn capacity(&self) -> usize {
        self.stream.as_ref().map_or(0, |stream| stream.capacity())
    }

    /// What has been received from byte `at` on.
    pub(super) fn bytes_from(&mut self, at: usize) -> &mut [u8] {
        self.stream.as_mut().map_or(&mut [], |stream| &mut stream.as_mut_slice()[at..])
    }

    /// Reads up to `budget` bytes, but not beyond `length` in all.
    pub(super) fn read(
        &mut self,
        source: &mut impl io::Read,
        length: usize,
        budget: usize,
        pool: &BufferPool,
    ) -> io::Result<Got> {
        let mut stream = self.with_room(length, pool);
        let before = stream.as_slice().len();
        let room = stream.capacity().min(length) - before;
        let wanted = room.min(budget);
        let end = match stream.read_from(source, wanted) {
            Ok(bytes) if bytes < wanted => Some(End::Closed),
            Ok(_) => None,
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(End::Pending),
            Err(error) => return Err(error),
        };
        let bytes = stream.as_slice().len() - before;
        self.keep(stream);
        Ok(Got { bytes, end })
    }

    /// Appends a few bytes of a payload of `length` that were read with what precedes it.
    pub(super) fn push(&mut self, bytes: &[u8], length: usize, pool: &BufferPool) {
        let mut stream = self.with_room(length, pool);
        stream.write(bytes);
        self.keep(stream);
    }

    /// Drops what follows the first `len` bytes.
    pub(super) fn truncate(&mut self, len: usize) {
        if let Some(mut stream) = self.stream.take() {
            stream.truncate(len);
            self.keep(stream);
        }
    }

    pub(super) fn into_stream(self) -> PooledStream {
        self.stream.unwrap_or_else(|| DataStream::new().into())
    }

    fn with_room(&mut self, length: usize, pool: &BufferPool) -> PooledStream {
        let pooled = self.pooled;
        let fresh = || if pooled { pool.take() } else { DataStream::new().into() };
        let mut stream = self.stream.take().unwrap_or_else(fresh);
        let before = stream.as_slice().len();
        if stream.capacity() == before {
            let capacity = length.min(FIRST_CAPACITY.max(2 * before));
            stream.reserve(capacity - before);
        }
        stream
    }

    /// Keeps the buffer unless it is empty: a peer that has only announced a payload holds no
    /// memory.
    fn keep(&mut self, stream: PooledStream) {
        self.stream = (!stream.as_slice().is_empty()).then_some(stream);
    }
}

pub(super) fn read_once(source: &mut impl io::Read, target: &mut [u8]) -> io::Result<Got> {
    loop {
        return match source.read(target) {
            Ok(0) => Ok(Got { bytes: 0, end: Some(End::Closed) }),
            Ok(bytes) if bytes > target.len() => Err(ErrorKind::InvalidData.into()),
            Ok(bytes) => Ok(Got { bytes, end: None }),
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                Ok(Got { bytes: 0, end: Some(End::Pending) })
            }
            Err(error) => Err(error),
        };
    }
}

//! The growable stream.

use std::fmt;
use std::io;
use std::mem::MaybeUninit;

use crate::bulk::{Buffer, READ_STEP};
use crate::{
    Allocator, Decode, DecodeError, Encode, PUBLIC_MEMORY, PublicMemory, SerializeData, SpanReader,
};

/// Growable bytes with a read cursor (Bitcoin Core `streams.h`, `DataStream`).
///
/// Writes append at the end with one bulk copy, reads advance the cursor and hand out spans without
/// copying. A failed read leaves the cursor where it was. Unlike in Core, reading to the end does
/// not empty the stream, so that [`rewind`](Self::rewind) works; [`clear`](Self::clear) does.
///
/// The memory comes from `A`, is not zeroed before use and not wiped after it.
pub struct DataStream<A: Allocator = PublicMemory> {
    buffer: Buffer<A>,
    position: usize,
}

impl DataStream {
    /// An empty stream; allocates nothing.
    pub const fn new() -> Self {
        Self { buffer: Buffer::new(SerializeData::new_in(PUBLIC_MEMORY)), position: 0 }
    }

    /// An empty stream with room for `n` bytes.
    pub fn with_capacity(n: usize) -> Self {
        Self::with_capacity_in(n, PUBLIC_MEMORY)
    }
}

impl Default for DataStream {
    fn default() -> Self {
        Self::new()
    }
}

impl From<&[u8]> for DataStream {
    fn from(bytes: &[u8]) -> Self {
        let mut stream = Self::with_capacity(bytes.len());
        stream.write(bytes);
        stream
    }
}

impl<A: Allocator> DataStream<A> {
    /// An empty stream whose memory comes from `allocator`.
    pub fn new_in(allocator: A) -> Self {
        Self::from_vec(SerializeData::new_in(allocator))
    }

    /// An empty stream with room for `n` bytes from `allocator`.
    pub fn with_capacity_in(n: usize, allocator: A) -> Self {
        Self::from_vec(SerializeData::with_capacity_in(n, allocator))
    }

    /// A stream over the content of `bytes`, uncopied, cursor at the start.
    pub fn from_vec(bytes: SerializeData<A>) -> Self {
        Self { buffer: Buffer::new(bytes), position: 0 }
    }

    /// All bytes, uncopied, those before the cursor too.
    pub fn into_vec(self) -> SerializeData<A> {
        self.buffer.into_inner()
    }

    /// Appends `bytes`.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) {
        self.buffer.append(bytes);
    }

    /// Appends one byte.
    #[inline]
    pub fn write_u8(&mut self, n: u8) {
        self.write(&[n]);
    }

    /// Appends two bytes, little-endian.
    #[inline]
    pub fn write_u16(&mut self, n: u16) {
        self.write(&n.to_le_bytes());
    }

    /// Appends four bytes, little-endian.
    #[inline]
    pub fn write_u32(&mut self, n: u32) {
        self.write(&n.to_le_bytes());
    }

    /// Appends eight bytes, little-endian.
    #[inline]
    pub fn write_u64(&mut self, n: u64) {
        self.write(&n.to_le_bytes());
    }

    /// Appends four bytes, little-endian, two's complement.
    #[inline]
    pub fn write_i32(&mut self, n: i32) {
        self.write(&n.to_le_bytes());
    }

    /// Appends eight bytes, little-endian, two's complement.
    #[inline]
    pub fn write_i64(&mut self, n: i64) {
        self.write(&n.to_le_bytes());
    }

    /// Appends the wire form of `value`.
    #[inline]
    pub fn put<T: Encode + ?Sized>(&mut self, value: &T) {
        value.encode(self);
    }

    /// The next `n` bytes, uncopied.
    #[inline]
    pub fn read(&mut self, n: usize) -> Result<&[u8], DecodeError> {
        let start = self.position;
        self.skip(n)?;
        Ok(&self.buffer.as_slice()[start..self.position])
    }

    /// Reads a value of type `T`.
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        let mut reader = SpanReader::new(self.unread());
        let value = T::decode(&mut reader)?;
        self.position += reader.position();
        Ok(value)
    }

    /// Passes over `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        if n > self.len() {
            return Err(DecodeError::UnexpectedEnd);
        }
        self.position += n;
        Ok(())
    }

    /// Moves the cursor back by `n` bytes; an error when fewer were read.
    pub fn rewind(&mut self, n: usize) -> Result<(), DecodeError> {
        self.position = self.position.checked_sub(n).ok_or(DecodeError::UnexpectedEnd)?;
        Ok(())
    }

    /// The bytes from the cursor to the end.
    #[inline]
    pub fn unread(&self) -> &[u8] {
        &self.buffer.as_slice()[self.position..]
    }

    /// All bytes, those before the cursor too.
    #[inline]
    pub fn as_slice(&self) -> &[u8] {
        self.buffer.as_slice()
    }

    /// All bytes, those before the cursor too, to be changed in place (obfuscation, a length that is
    /// known only afterwards).
    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        self.buffer.as_mut_slice()
    }

    /// Number of bytes from the cursor to the end.
    #[inline]
    pub fn len(&self) -> usize {
        self.buffer.len() - self.position
    }

    /// Whether nothing is left to read.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Bytes that fit without a new allocation, those present included.
    pub fn capacity(&self) -> usize {
        self.buffer.capacity()
    }

    /// Where the memory comes from.
    pub fn allocator(&self) -> &A {
        self.buffer.allocator()
    }

    /// Makes room for `n` more bytes. Not for lengths that the input claims.
    pub fn reserve(&mut self, n: usize) {
        self.buffer.reserve(n);
    }

    /// Drops all bytes, keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Drops what follows the first `n` bytes, counted from the start and not from the cursor.
    pub fn truncate(&mut self, n: usize) {
        self.buffer.truncate(n);
        self.position = self.position.min(self.buffer.len());
    }

    /// Appends up to `n` bytes from `source` and returns how many; fewer means that the source ended.
    ///
    /// `source` is called with uninitialised spare capacity until it has given `n` bytes or an empty
    /// slice, and returns the part, from the front, that it filled: the shape of `rustix`' `read`,
    /// `pread` and `recv`. Nothing is zeroed. Capacity grows by doubling and by 256 KiB at least, so
    /// a false `n` costs no memory. After an error the bytes received before it are in the stream.
    ///
    /// # Panics
    ///
    /// When `source` returns something else than the front of the buffer that it was given.
    pub fn fill_from<E>(
        &mut self,
        n: usize,
        mut source: impl for<'b> FnMut(&'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8], E>,
    ) -> Result<usize, E> {
        let mut received = 0;
        while received < n {
            self.make_read_room(n - received);
            match self.buffer.fill(n - received, &mut source)? {
                0 => break,
                count => received += count,
            }
        }
        Ok(received)
    }

    /// Appends up to `n` bytes from `source` and returns how many; fewer means that the source ended.
    ///
    /// As [`fill_from`](Self::fill_from), for any `io::Read`. That trait needs initialised memory:
    /// each byte of the stream's memory is zeroed before its first use, and never again while the
    /// allocation lives, so a pooled buffer settles to no zeroing at all.
    pub fn read_from(&mut self, source: &mut impl io::Read, n: usize) -> io::Result<usize> {
        let mut received = 0;
        while received < n {
            self.make_read_room(n - received);
            match self.buffer.read((n - received).min(READ_STEP), source) {
                Ok(0) => break,
                Ok(count) => received += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(received)
    }

    /// Makes some room for `wanted` more bytes, without trust in that number.
    fn make_read_room(&mut self, wanted: usize) {
        if self.buffer.len() == self.buffer.capacity() {
            self.buffer.reserve(wanted.min(READ_STEP));
        }
    }
}

impl<A: Allocator> fmt::Debug for DataStream<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataStream")
            .field("position", &self.position)
            .field("bytes", &self.buffer.len())
            .field("capacity", &self.buffer.capacity())
            .finish()
    }
}

#[cfg(test)]
mod tests;

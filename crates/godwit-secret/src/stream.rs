//! The stream for secrets: [`godwit_stream::DataStream`] over locked memory.
//!
//! It is wrapped because the plain stream reveals by ordinary names (`as_slice`, `read`, `into_vec`) and
//! ends the process when there is no memory. Nothing else of it leaves copies: it copies from memory to
//! memory, and its `Debug` prints lengths.
//!
//! godwit's own keys need no stream; the benchmark of `docs/memory-policy.md` is its only user.

use std::fmt;
use std::io;

use godwit_stream::{DataStream, DecodeError, Encode};

use crate::allocator::{SecretAllocator, secret_vec};
use crate::bytes::ReadError;
use crate::cleanse::cleanse;
use crate::error::LockError;
use crate::releasable::Releasable;
use crate::slice::SecretSlice;

/// Growable bytes with a read cursor in locked memory, wiped when they are dropped, cleared or moved to
/// grow. Writes append; reads advance the cursor; a failed read leaves it where it was.
pub struct SecretStream {
    stream: DataStream<SecretAllocator>,
}

impl SecretStream {
    /// An empty stream; allocates nothing.
    pub fn new() -> Self {
        Self { stream: DataStream::new_in(SecretAllocator) }
    }

    /// An empty stream with room for `n` bytes.
    pub fn with_capacity(n: usize) -> Result<Self, LockError> {
        Ok(Self { stream: DataStream::from_vec(secret_vec(n)?) })
    }

    /// Appends bytes that are no secret, or that a closure was shown.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), LockError> {
        self.reserve(bytes.len())?;
        self.stream.write(bytes);
        Ok(())
    }

    /// Appends a secret or a part of it.
    pub fn write_secret<'a>(
        &mut self,
        secret: impl Into<SecretSlice<'a>>,
    ) -> Result<(), LockError> {
        self.write(secret.into().bare_bytes())
    }

    /// Appends the wire form of a value that is no secret.
    pub fn put<T: Encode + ?Sized>(&mut self, public: &T) -> Result<(), LockError> {
        let mut plain = DataStream::new();
        plain.put(public);
        self.write(plain.as_slice())
    }

    /// Appends a secret read from `source`, at most `n` bytes, and returns how many; fewer means that
    /// the source ended. Room for `n` bytes is made first, so `n` is nothing that an input claims.
    /// `source` writes into locked memory: give it no reader that has a buffer. What it gave before it
    /// failed stays in the stream.
    pub fn read_from(&mut self, source: &mut impl io::Read, n: usize) -> Result<usize, ReadError> {
        self.reserve(n)?;
        self.stream.read_from(source, n).map_err(ReadError::Source)
    }

    /// The next `n` bytes as a secret, uncopied.
    pub fn read(&mut self, n: usize) -> Result<SecretSlice<'_>, DecodeError> {
        self.stream.read(n).map(SecretSlice::new)
    }

    /// Passes over `n` bytes.
    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.stream.skip(n)
    }

    /// Moves the cursor back by `n` bytes; an error when fewer were read.
    pub fn rewind(&mut self, n: usize) -> Result<(), DecodeError> {
        self.stream.rewind(n)
    }

    /// The bytes from the cursor to the end, as a secret.
    pub fn unread(&self) -> SecretSlice<'_> {
        SecretSlice::new(self.stream.unread())
    }

    /// Shows the bytes from the cursor to the end to `f`, which may change them (decryption in
    /// place), and nothing that it captures.
    pub fn expose_secret_mut<R: Releasable>(&mut self, f: impl Fn(&mut [u8]) -> R + Sync) -> R {
        let position = self.position();
        f(&mut self.stream.as_mut_slice()[position..])
    }

    /// Number of bytes from the cursor to the end.
    pub fn len(&self) -> usize {
        self.stream.len()
    }

    /// Whether nothing is left to read.
    pub fn is_empty(&self) -> bool {
        self.stream.is_empty()
    }

    /// Makes room for `n` more bytes. Not for lengths that the input claims.
    pub fn reserve(&mut self, n: usize) -> Result<(), LockError> {
        let present = self.stream.as_slice();
        let capacity = self.stream.capacity();
        if n <= capacity - present.len() {
            return Ok(());
        }
        let needed = present.len().saturating_add(n).max(capacity.saturating_mul(2));
        let mut larger = DataStream::from_vec(secret_vec(needed)?);
        larger.write(present);
        larger.skip(self.position()).expect("the cursor is not behind the bytes just written");
        self.stream = larger;
        Ok(())
    }

    /// Wipes all bytes, keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Wipes what lies behind the first `n` bytes, counted from the start and not from the cursor.
    pub fn truncate(&mut self, n: usize) {
        if let Some(rest) = self.stream.as_mut_slice().get_mut(n..) {
            cleanse(rest);
        }
        self.stream.truncate(n);
    }

    /// Bytes from the start of the stream to the cursor.
    fn position(&self) -> usize {
        self.stream.as_slice().len() - self.stream.len()
    }
}

impl Default for SecretStream {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SecretStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretStream([redacted])")
    }
}

#[cfg(test)]
mod tests;

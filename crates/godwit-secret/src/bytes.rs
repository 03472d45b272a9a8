//! A secret that grows: what is read from a terminal or decrypted from a file.

use std::fmt;
use std::io;

use subtle::ConstantTimeEq;

use crate::block::Block;
use crate::cleanse::cleanse;
use crate::error::LockError;
use crate::random::{RandomError, fill_random};
use crate::releasable::Releasable;
use crate::slice::SecretSlice;

/// What the first byte makes room for.
const FIRST_CAPACITY: usize = 32;

/// Bytes in locked memory, wiped when they are dropped, shortened or moved to grow.
///
/// Secrets compare with each other in constant time and with nothing else. What shows them is
/// [`expose_secret`](Self::expose_secret), for as long as its closure runs.
pub struct SecretBytes {
    /// Zero behind the first `len` bytes.
    block: Block,
    len: usize,
}

impl SecretBytes {
    /// No bytes, no memory.
    pub const fn new() -> Self {
        Self { block: Block::EMPTY, len: 0 }
    }

    /// No bytes, with room for `n`.
    pub fn with_capacity(n: usize) -> Result<Self, LockError> {
        Ok(Self { block: Block::zeroed(n)?, len: 0 })
    }

    /// `n` random bytes of the operating system, written straight into locked memory.
    pub fn random(n: usize) -> Result<Self, RandomError> {
        let mut secret = Self { block: Block::zeroed(n)?, len: n };
        fill_random(secret.block.as_mut_slice())?;
        Ok(secret)
    }

    /// What `fill` makes of `n` zeros, in place.
    pub fn from_fn_in_place(n: usize, fill: impl Fn(&mut [u8]) + Sync) -> Result<Self, LockError> {
        let mut secret = Self { block: Block::zeroed(n)?, len: n };
        secret.expose_secret_mut(fill);
        Ok(secret)
    }

    /// A copy of `plain`, which is wiped, also when there is no memory for the secret.
    pub fn from_plain_and_wipe(plain: &mut [u8]) -> Result<Self, LockError> {
        let secret = Self::from_fn_in_place(plain.len(), |bytes| bytes.copy_from_slice(plain));
        cleanse(plain);
        secret
    }

    /// A copy of another secret or of a part of it.
    pub fn copy_of<'a>(secret: impl Into<SecretSlice<'a>>) -> Result<Self, LockError> {
        let mut copy = Self::new();
        copy.extend_from_secret(secret)?;
        Ok(copy)
    }

    /// Appends one byte.
    pub fn push(&mut self, byte: u8) -> Result<(), LockError> {
        self.extend_from_slice(&[byte])
    }

    /// Appends bytes that are no secret, or that a closure was shown.
    pub fn extend_from_slice(&mut self, bytes: &[u8]) -> Result<(), LockError> {
        self.reserve(bytes.len())?;
        self.block.as_mut_slice()[self.len..][..bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len();
        Ok(())
    }

    /// Appends another secret or a part of it.
    pub fn extend_from_secret<'a>(
        &mut self,
        secret: impl Into<SecretSlice<'a>>,
    ) -> Result<(), LockError> {
        self.extend_from_slice(secret.into().bare_bytes())
    }

    /// Appends what one `read` of at most `n` bytes gives, and returns how many that is; 0 is the end
    /// of the source. `source` writes into locked memory: give it no reader that has a buffer. What it
    /// wrote before it failed is wiped.
    pub fn read_from(&mut self, source: &mut impl io::Read, n: usize) -> Result<usize, ReadError> {
        self.reserve(n)?;
        let room = &mut self.block.as_mut_slice()[self.len..][..n];
        let outcome = match source.read(room) {
            // A source that claims more than it was given would make zeros part of the secret.
            Ok(count) if count > n => Err(ReadError::Source(io::ErrorKind::InvalidData.into())),
            outcome => outcome.map_err(ReadError::Source),
        };
        let count = *outcome.as_ref().unwrap_or(&0);
        cleanse(&mut room[count..]);
        self.len += count;
        outcome
    }

    /// Makes room for `n` more bytes.
    pub fn reserve(&mut self, n: usize) -> Result<(), LockError> {
        let refused = LockError::Map { bytes: usize::MAX, errno: libc::ENOMEM };
        let needed = self.len.checked_add(n).ok_or(refused)?;
        if needed > self.block.len() {
            let capacity = needed.max(self.block.len().saturating_mul(2)).max(FIRST_CAPACITY);
            let mut block = Block::zeroed(capacity)?;
            block.as_mut_slice()[..self.len].copy_from_slice(self.bare_bytes());
            self.block = block;
        }
        Ok(())
    }

    /// Wipes what lies behind the first `n` bytes.
    pub fn truncate(&mut self, n: usize) {
        if n < self.len {
            cleanse(&mut self.block.as_mut_slice()[n..self.len]);
            self.len = n;
        }
    }

    /// Wipes all bytes, keeps the memory.
    pub fn clear(&mut self) {
        self.truncate(0);
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Shows the bytes to `f`, which changes nothing that it captures.
    #[inline]
    pub fn expose_secret<R: Releasable>(&self, f: impl Fn(&[u8]) -> R + Sync) -> R {
        f(self.bare_bytes())
    }

    /// The same, with a place `to` that `f` writes into: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_into<D: Releasable, R: Releasable>(
        &self,
        to: D,
        f: impl Fn(&[u8], D) -> R + Sync,
    ) -> R {
        f(self.bare_bytes(), to)
    }

    /// Shows the bytes to `f`, which may change them, and nothing that it captures.
    #[inline]
    pub fn expose_secret_mut<R: Releasable>(&mut self, f: impl Fn(&mut [u8]) -> R + Sync) -> R {
        self.expose_secret_mut_into((), |bytes, ()| f(bytes))
    }

    /// The same, with a place `to` that `f` writes into or reads from: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_mut_into<D: Releasable, R: Releasable>(
        &mut self,
        to: D,
        f: impl Fn(&mut [u8], D) -> R + Sync,
    ) -> R {
        f(&mut self.block.as_mut_slice()[..self.len], to)
    }

    pub(crate) fn bare_bytes(&self) -> &[u8] {
        &self.block.as_slice()[..self.len]
    }
}

impl Default for SecretBytes {
    fn default() -> Self {
        Self::new()
    }
}

impl PartialEq for SecretBytes {
    /// In constant time for secrets of one length; that lengths differ shows at once.
    fn eq(&self, other: &Self) -> bool {
        self.bare_bytes().ct_eq(other.bare_bytes()).into()
    }
}

impl Eq for SecretBytes {}

impl fmt::Debug for SecretBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBytes([redacted])")
    }
}

/// Why reading into locked memory failed.
#[derive(Debug)]
pub enum ReadError {
    /// There is no memory for what is read.
    Memory(LockError),
    /// The source failed.
    Source(io::Error),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory(error) => error.fmt(f),
            Self::Source(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ReadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Memory(_) => None,
            Self::Source(error) => error.source(),
        }
    }
}

impl From<LockError> for ReadError {
    fn from(error: LockError) -> Self {
        Self::Memory(error)
    }
}

#[cfg(test)]
mod tests;

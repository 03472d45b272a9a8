//! Reading from bytes that another value owns.

use crate::{Decode, DecodeError};

/// A cursor over borrowed bytes. What it hands out borrows from the bytes, not from the cursor.
///
/// A failed read leaves the cursor at an unspecified position inside the bytes.
#[derive(Clone, Copy, Debug)]
pub struct SpanReader<'a> {
    rest: &'a [u8],
    total: usize,
}

impl<'a> SpanReader<'a> {
    /// A cursor at the start of `bytes`.
    #[inline]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes, total: bytes.len() }
    }

    /// Bytes read so far.
    #[inline]
    pub const fn position(&self) -> usize {
        self.total - self.rest.len()
    }

    /// Bytes not yet read.
    #[inline]
    pub const fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Whether everything was read.
    #[inline]
    pub const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// The bytes not yet read.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    /// The next `n` bytes, uncopied.
    #[inline]
    pub fn bytes(&mut self, n: usize) -> Result<&'a [u8], DecodeError> {
        let (head, rest) = self.rest.split_at_checked(n).ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(head)
    }

    /// The next `N` bytes, copied.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (head, rest) = self.rest.split_first_chunk().ok_or(DecodeError::UnexpectedEnd)?;
        self.rest = rest;
        Ok(*head)
    }

    /// Passes over `n` bytes.
    #[inline]
    pub fn skip(&mut self, n: usize) -> Result<(), DecodeError> {
        self.rest = self.rest.get(n..).ok_or(DecodeError::UnexpectedEnd)?;
        Ok(())
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self) -> Result<u8, DecodeError> {
        self.array().map(u8::from_le_bytes)
    }

    /// Two bytes, little-endian.
    #[inline]
    pub fn u16(&mut self) -> Result<u16, DecodeError> {
        self.array().map(u16::from_le_bytes)
    }

    /// Four bytes, little-endian.
    #[inline]
    pub fn u32(&mut self) -> Result<u32, DecodeError> {
        self.array().map(u32::from_le_bytes)
    }

    /// Eight bytes, little-endian.
    #[inline]
    pub fn u64(&mut self) -> Result<u64, DecodeError> {
        self.array().map(u64::from_le_bytes)
    }

    /// Four bytes, little-endian, two's complement.
    #[inline]
    pub fn i32(&mut self) -> Result<i32, DecodeError> {
        self.array().map(i32::from_le_bytes)
    }

    /// Eight bytes, little-endian, two's complement.
    #[inline]
    pub fn i64(&mut self) -> Result<i64, DecodeError> {
        self.array().map(i64::from_le_bytes)
    }

    /// A value of type `T`.
    #[inline]
    pub fn get<T: Decode>(&mut self) -> Result<T, DecodeError> {
        T::decode(self)
    }
}

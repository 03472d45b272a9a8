//! Compact size: Bitcoin's length prefix (Bitcoin Core `serialize.h`, `ReadCompactSize`).
//!
//! | value | bytes |
//! | --- | --- |
//! | < 253 | the value |
//! | ≤ 0xffff | 253, value as u16 |
//! | ≤ 0xffff_ffff | 254, value as u32 |
//! | larger | 255, value as u64 |
//!
//! The shortest form is the only valid one.

use crate::{Allocator, DataStream, DecodeError, SpanReader};

/// The largest length that a compact size may announce: 32 MiB (or that many elements).
pub const MAX_SIZE: u64 = 0x0200_0000;

/// Encoded size of `n`, in bytes: 1, 3, 5 or 9.
pub const fn compact_size_len(n: u64) -> usize {
    match n {
        0..=252 => 1,
        253..=0xffff => 3,
        0x1_0000..=0xffff_ffff => 5,
        _ => 9,
    }
}

impl SpanReader<'_> {
    /// A compact size that is a length: canonical and at most [`MAX_SIZE`].
    #[inline]
    pub fn compact_size(&mut self) -> Result<u64, DecodeError> {
        let n = self.compact_size_any()?;
        if n > MAX_SIZE {
            return Err(DecodeError::CompactSizeTooLarge);
        }
        Ok(n)
    }

    /// A compact size that is a number and no length: canonical, any `u64`.
    #[inline]
    pub fn compact_size_any(&mut self) -> Result<u64, DecodeError> {
        match self.u8()? {
            first @ ..=252 => Ok(u64::from(first)),
            first => self.long_compact_size(first),
        }
    }

    fn long_compact_size(&mut self, first: u8) -> Result<u64, DecodeError> {
        let (n, least) = match first {
            255 => (self.u64()?, 0x1_0000_0000),
            254 => (u64::from(self.u32()?), 0x1_0000),
            _ => (u64::from(self.u16()?), 253),
        };
        if n < least {
            return Err(DecodeError::NonCanonicalCompactSize);
        }
        Ok(n)
    }
}

impl<A: Allocator> DataStream<A> {
    /// Appends `n` as a compact size.
    #[inline]
    pub fn write_compact_size(&mut self, n: u64) {
        match n {
            0..=252 => self.write_u8(n as u8),
            253..=0xffff => {
                self.write_u8(253);
                self.write_u16(n as u16);
            }
            0x1_0000..=0xffff_ffff => {
                self.write_u8(254);
                self.write_u32(n as u32);
            }
            _ => {
                self.write_u8(255);
                self.write_u64(n);
            }
        }
    }
}

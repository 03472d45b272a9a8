//! VarInt: Bitcoin Core's number encoding of the coin and undo formats (`serialize.h`, `VARINT`).
//!
//! Base 128, most significant group first; bit 7 says that another byte follows. One is subtracted
//! from every group but the last, so that each number has exactly one encoding. The type does not
//! change the bytes, only where overflow begins.

use crate::{Allocator, DataStream, DecodeError, SpanReader};

/// Longest encoding of a `u64`, in bytes.
const MAX_LEN: usize = 10;

impl SpanReader<'_> {
    /// A VarInt of up to 64 bits.
    #[inline]
    pub fn var_int(&mut self) -> Result<u64, DecodeError> {
        self.var_int_below(u64::MAX)
    }

    /// A VarInt of up to 32 bits, which Bitcoin Core reads into a `uint32_t`.
    #[inline]
    pub fn var_int_u32(&mut self) -> Result<u32, DecodeError> {
        self.var_int_below(u64::from(u32::MAX)).map(|n| n as u32)
    }

    #[inline]
    fn var_int_below(&mut self, max: u64) -> Result<u64, DecodeError> {
        let mut n: u64 = 0;
        loop {
            let byte = self.u8()?;
            if n > max >> 7 {
                return Err(DecodeError::VarIntTooLarge);
            }
            n = n << 7 | u64::from(byte & 0x7f);
            if byte & 0x80 == 0 {
                return Ok(n);
            }
            if n == max {
                return Err(DecodeError::VarIntTooLarge);
            }
            n += 1;
        }
    }
}

impl<A: Allocator> DataStream<A> {
    /// Appends `n` as a VarInt.
    pub fn write_var_int(&mut self, n: u64) {
        let mut groups = [0u8; MAX_LEN];
        let mut first = MAX_LEN - 1;
        let mut rest = n;
        groups[first] = (rest & 0x7f) as u8;
        while rest > 0x7f {
            rest = (rest >> 7) - 1;
            first -= 1;
            groups[first] = (rest & 0x7f) as u8 | 0x80;
        }
        self.write(&groups[first..]);
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(n: u64) -> Vec<u8> {
        let mut out = DataStream::new();
        out.write_var_int(n);
        out.as_slice().to_vec()
    }

    /// The formula of the comment in `serialize.h`, on unbounded numbers; `None` when no byte ends
    /// the number.
    fn by_the_formula(bytes: &[u8]) -> Option<(u128, usize)> {
        let len = bytes.iter().position(|byte| byte & 0x80 == 0)? + 1;
        let digit = |i: usize| u128::from(bytes[len - 1 - i] & 0x7f) + u128::from(i > 0);
        Some(((0..len).map(|i| digit(i) << (7 * i)).sum(), len))
    }

    /// The cases of Core's `serialize_tests.cpp`, `varints_bitpatterns`, and of `serialize.h`.
    #[test]
    fn bit_patterns() {
        for (n, bytes) in [
            (0, &b"\x00"[..]),
            (0x7f, b"\x7f"),
            (0x80, b"\x80\x00"),
            (255, b"\x80\x7f"),
            (256, b"\x81\x00"),
            (0x1234, b"\xa3\x34"),
            (16_383, b"\xfe\x7f"),
            (16_384, b"\xff\x00"),
            (16_511, b"\xff\x7f"),
            (0xffff, b"\x82\xfe\x7f"),
            (0x12_3456, b"\xc7\xe7\x56"),
            (0x8012_3456, b"\x86\xff\xc7\xe7\x56"),
            (0xffff_ffff, b"\x8e\xfe\xfe\xfe\x7f"),
            (0x1_0000_0000, b"\x8e\xfe\xfe\xff\x00"),
            (i64::MAX as u64, b"\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x7f"),
            (u64::MAX, b"\x80\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe\x7f"),
        ] {
            assert_eq!(encoded(n), bytes, "{n}");
            assert_eq!(SpanReader::new(bytes).var_int(), Ok(n));
            let short = SpanReader::new(&bytes[..bytes.len() - 1]).var_int();
            assert_eq!(short, Err(DecodeError::UnexpectedEnd), "{n}");
        }
    }

    #[test]
    fn the_number_after_the_largest_is_refused() {
        let too_large = Err(DecodeError::VarIntTooLarge);
        let after_u64 = b"\x80\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xff\x00";
        assert_eq!(SpanReader::new(after_u64).var_int(), too_large);
        assert_eq!(SpanReader::new(&[0xff; 20]).var_int(), too_large);
        assert_eq!(SpanReader::new(&encoded(0xffff_ffff)).var_int_u32(), Ok(u32::MAX));
        let after_u32 = SpanReader::new(&encoded(0x1_0000_0000)).var_int_u32();
        assert_eq!(after_u32, Err(DecodeError::VarIntTooLarge));
    }

    proptest! {
        #[test]
        fn decoding_equals_the_formula(
            high in prop::collection::vec(0x80u8.., 0..12),
            last in 0u8..0x80,
        ) {
            let bytes = [high, vec![last]].concat();
            let (value, len) = by_the_formula(&bytes).expect("the last byte ends it");
            let mut reader = SpanReader::new(&bytes);
            prop_assert_eq!(reader.var_int().ok(), u64::try_from(value).ok());
            if u64::try_from(value).is_ok() {
                prop_assert_eq!(reader.position(), len);
            }
            let small = SpanReader::new(&bytes).var_int_u32().ok();
            prop_assert_eq!(small, u32::try_from(value).ok());
        }

        #[test]
        fn encoding_is_undone_by_the_formula(n: u64, shift in 0u32..64) {
            let n = n >> shift;
            prop_assert_eq!(by_the_formula(&encoded(n)), Some((n.into(), encoded(n).len())));
        }
    }
}

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(n: u64) -> Vec<u8> {
        let mut out = DataStream::new();
        out.write_compact_size(n);
        out.as_slice().to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<u64, DecodeError> {
        SpanReader::new(bytes).compact_size()
    }

    #[test]
    fn forms_change_where_the_table_says() {
        for (n, bytes) in [
            (0, &b"\x00"[..]),
            (252, b"\xfc"),
            (253, b"\xfd\xfd\x00"),
            (0xffff, b"\xfd\xff\xff"),
            (0x1_0000, b"\xfe\x00\x00\x01\x00"),
            (0xffff_ffff, b"\xfe\xff\xff\xff\xff"),
            (0x1_0000_0000, b"\xff\x00\x00\x00\x00\x01\x00\x00\x00"),
            (u64::MAX, b"\xff\xff\xff\xff\xff\xff\xff\xff\xff"),
        ] {
            assert_eq!(encoded(n), bytes, "{n}");
            assert_eq!(compact_size_len(n), bytes.len(), "{n}");
            assert_eq!(SpanReader::new(bytes).compact_size_any(), Ok(n));
            for end in 0..bytes.len() {
                assert_eq!(decode(&bytes[..end]), Err(DecodeError::UnexpectedEnd), "{n} to {end}");
            }
        }
    }

    /// The cases of Core's `serialize_tests.cpp`, `noncanonical`.
    #[test]
    fn longer_forms_than_needed_are_refused() {
        for bytes in [
            &b"\xfd\x00\x00"[..],
            b"\xfd\xfc\x00",
            b"\xfe\x00\x00\x00\x00",
            b"\xfe\xff\xff\x00\x00",
            b"\xff\x00\x00\x00\x00\x00\x00\x00\x00",
            b"\xff\xff\xff\xff\x01\x00\x00\x00\x00",
            b"\xff\xff\xff\xff\xff\x00\x00\x00\x00",
        ] {
            assert_eq!(decode(bytes), Err(DecodeError::NonCanonicalCompactSize), "{bytes:?}");
            let any = SpanReader::new(bytes).compact_size_any();
            assert_eq!(any, Err(DecodeError::NonCanonicalCompactSize), "{bytes:?}");
        }
    }

    #[test]
    fn lengths_end_at_32_mib() {
        assert_eq!(decode(&encoded(MAX_SIZE)), Ok(MAX_SIZE));
        for n in [MAX_SIZE + 1, u64::from(u32::MAX), u64::MAX] {
            assert_eq!(decode(&encoded(n)), Err(DecodeError::CompactSizeTooLarge), "{n}");
            assert_eq!(SpanReader::new(&encoded(n)).compact_size_any(), Ok(n));
        }
    }

    proptest! {
        #[test]
        fn what_decodes_encodes_to_the_same_bytes(bytes: [u8; 9]) {
            let mut reader = SpanReader::new(&bytes);
            if let Ok(n) = reader.compact_size_any() {
                prop_assert_eq!(encoded(n), &bytes[..reader.position()]);
            }
        }
    }
}

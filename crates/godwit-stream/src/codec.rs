//! The wire form of a type.

use crate::{Allocator, DataStream, DecodeError, SpanReader};

/// A type that can be written to a stream.
pub trait Encode {
    /// Appends the wire form of `self`.
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>);

    /// Appends the elements of `items` without a count. Byte slices override it with one bulk copy.
    #[inline]
    fn encode_all<A: Allocator>(items: &[Self], out: &mut DataStream<A>)
    where
        Self: Sized,
    {
        for item in items {
            item.encode(out);
        }
    }
}

/// A type that can be read from bytes.
pub trait Decode: Sized {
    /// A lower bound of the encoded size in bytes, at least 1: what a claimed element count is
    /// checked against before room is made for the elements.
    const MIN_ENCODED_LEN: usize = 1;

    /// Reads one value; the reader then stands behind it.
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError>;

    /// Reads `count` values that follow each other.
    fn decode_all(count: usize, reader: &mut SpanReader<'_>) -> Result<Vec<Self>, DecodeError> {
        // Early, so that a false count costs no allocation at all.
        if count > reader.remaining() / Self::MIN_ENCODED_LEN {
            return Err(DecodeError::UnexpectedEnd);
        }
        let mut items = Vec::with_capacity(count);
        for _ in 0..count {
            items.push(Self::decode(reader)?);
        }
        Ok(items)
    }
}

impl Encode for u8 {
    #[inline]
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u8(*self);
    }

    #[inline]
    fn encode_all<A: Allocator>(items: &[Self], out: &mut DataStream<A>) {
        out.write(items);
    }
}

impl Decode for u8 {
    #[inline]
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        reader.u8()
    }

    fn decode_all(count: usize, reader: &mut SpanReader<'_>) -> Result<Vec<Self>, DecodeError> {
        reader.bytes(count).map(<[u8]>::to_vec)
    }
}

macro_rules! integer_codec {
    ($($int:ty, $read:ident, $write:ident;)*) => {$(
        impl Encode for $int {
            #[inline]
            fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
                out.$write(*self);
            }
        }

        impl Decode for $int {
            const MIN_ENCODED_LEN: usize = size_of::<$int>();

            #[inline]
            fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
                reader.$read()
            }
        }
    )*};
}

integer_codec! {
    u16, u16, write_u16;
    u32, u32, write_u32;
    u64, u64, write_u64;
    i32, i32, write_i32;
    i64, i64, write_i64;
}

impl<const N: usize> Encode for [u8; N] {
    #[inline]
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write(self);
    }
}

impl<const N: usize> Decode for [u8; N] {
    const MIN_ENCODED_LEN: usize = {
        assert!(N > 0, "elements without bytes would let a count claim anything");
        N
    };

    #[inline]
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        reader.array()
    }
}

/// Count as a compact size, then the elements.
impl<T: Encode> Encode for [T] {
    #[inline]
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_compact_size(self.len() as u64);
        T::encode_all(self, out);
    }
}

/// Count as a compact size, then the elements.
impl<T: Encode> Encode for Vec<T> {
    #[inline]
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        self.as_slice().encode(out);
    }
}

/// Count as a compact size of at most [`crate::MAX_SIZE`], then the elements.
impl<T: Decode> Decode for Vec<T> {
    #[inline]
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let count = reader.compact_size()?;
        T::decode_all(count as usize, reader)
    }
}

//! Values to bytes and back.

use godwit_stream::{DataStream, Decode, DecodeError, Encode, SpanReader};
use proptest::prelude::*;

fn encoded<T: Encode + ?Sized>(value: &T) -> Vec<u8> {
    let mut out = DataStream::new();
    out.put(value);
    out.as_slice().to_vec()
}

/// Round trip, and every truncation is an error.
fn check<T: Encode + Decode + PartialEq + std::fmt::Debug>(value: T, bytes: &[u8]) {
    assert_eq!(encoded(&value), bytes, "{value:?}");
    let mut reader = SpanReader::new(bytes);
    assert_eq!(reader.get(), Ok(value));
    assert!(reader.is_empty());
    for end in 0..bytes.len() {
        let short = SpanReader::new(&bytes[..end]).get::<T>();
        assert_eq!(short, Err(DecodeError::UnexpectedEnd));
    }
}

#[test]
fn integers_are_little_endian() {
    check(0x12u8, b"\x12");
    check(0x1234u16, b"\x34\x12");
    check(0x1234_5678u32, b"\x78\x56\x34\x12");
    check(0x0102_0304_0506_0708u64, b"\x08\x07\x06\x05\x04\x03\x02\x01");
    check(-2i32, b"\xfe\xff\xff\xff");
    check(-2i64, b"\xfe\xff\xff\xff\xff\xff\xff\xff");
}

#[test]
fn arrays_have_no_count_and_vectors_have_one() {
    check([1u8, 2, 3], b"\x01\x02\x03");
    check(vec![1u8, 2, 3], b"\x03\x01\x02\x03");
    check(vec![1u16, 2], b"\x02\x01\x00\x02\x00");
    check(vec![[7u8; 2]; 2], b"\x02\x07\x07\x07\x07");
    check(vec![vec![1u8], vec![], vec![2, 3]], b"\x03\x01\x01\x00\x02\x02\x03");
    check(Vec::<u64>::new(), b"\x00");
    assert_eq!(encoded(&[1u32, 2][..]), b"\x02\x01\x00\x00\x00\x02\x00\x00\x00");
}

#[test]
fn a_count_above_the_largest_is_refused_even_with_bytes_to_come() {
    let mut bytes = vec![0xfe, 1, 0, 0, 2];
    bytes.resize(100, 0);
    let result = SpanReader::new(&bytes).get::<Vec<u8>>();
    assert_eq!(result, Err(DecodeError::CompactSizeTooLarge));
}

#[test]
fn spans_outlive_the_reader() {
    let bytes = *b"abcdef";
    let (head, rest) = {
        let mut reader = SpanReader::new(&bytes);
        let head = reader.bytes(2).unwrap();
        assert_eq!((reader.position(), reader.remaining()), (2, 4));
        assert_eq!(reader.skip(5), Err(DecodeError::UnexpectedEnd));
        assert_eq!(reader.bytes(usize::MAX), Err(DecodeError::UnexpectedEnd));
        (head, reader.rest())
    };
    assert_eq!((head, rest), (&b"ab"[..], &b"cdef"[..]));
}

proptest! {
    #[test]
    fn random_bytes_never_panic_and_decoded_values_are_canonical(
        bytes in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut reader = SpanReader::new(&bytes);
        if let Ok(value) = reader.get::<Vec<Vec<u8>>>() {
            prop_assert_eq!(encoded(&value), &bytes[..reader.position()]);
        }
        let mut reader = SpanReader::new(&bytes);
        if let Ok(value) = reader.get::<Vec<u32>>() {
            prop_assert_eq!(encoded(&value), &bytes[..reader.position()]);
        }
    }
}

//! Rows: a header with the type of each column, then the values.

/// A value. Text and blobs are bytes alike.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Column<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
    /// NULL or a floating-point number.
    Other,
}

/// A number of one to nine bytes, big-endian, seven bits in each of the first eight; and what follows.
pub(super) fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut value = 0;
    for (i, byte) in bytes.iter().enumerate().take(8) {
        value = value << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((value, &bytes[i + 1..]));
        }
    }
    let last = bytes.get(8)?;
    Some((value << 8 | u64::from(*last), &bytes[9..]))
}

/// The columns of a row; `None` when it does not consist of columns.
pub(crate) fn columns(row: &[u8]) -> Option<Vec<Column<'_>>> {
    let (mut types, mut values) = header(row)?;
    let mut columns = Vec::new();
    while !types.is_empty() {
        let (kind, rest) = varint(types)?;
        types = rest;
        let (value, rest) = values.split_at_checked(size_of_value(kind)?)?;
        values = rest;
        columns.push(match kind {
            0 | 7 => Column::Other,
            1..=6 => Column::Integer(integer(value)),
            8 => Column::Integer(0),
            9 => Column::Integer(1),
            _ => Column::Bytes(value),
        });
    }
    values.is_empty().then_some(columns)
}

/// The beginning of the first column, when it is text or a blob, of a row of which only the beginning
/// is at hand.
pub(super) fn first_bytes(beginning: &[u8]) -> Option<&[u8]> {
    let (types, values) = header(beginning)?;
    let (kind, _) = varint(types)?;
    let size = size_of_value(kind).filter(|_| kind >= 12)?;
    Some(&values[..size.min(values.len())])
}

/// The types and the values of a row.
fn header(row: &[u8]) -> Option<(&[u8], &[u8])> {
    let (size, rest) = varint(row)?;
    let types = usize::try_from(size).ok()?.checked_sub(row.len() - rest.len())?;
    rest.split_at_checked(types)
}

/// `None` for types that are reserved, or too large for any file.
fn size_of_value(kind: u64) -> Option<usize> {
    Some(match kind {
        0 | 8 | 9 => 0,
        1..=4 => kind as usize,
        5 => 6,
        6 | 7 => 8,
        10 | 11 => return None,
        _ => usize::try_from((kind - 12) / 2).ok()?,
    })
}

/// Big-endian in two's complement, one to eight bytes.
fn integer(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |value, byte| value << 8 | i64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length() {
        for (bytes, value) in [
            (&[0x7f][..], 0x7f),
            (&[0x81, 0x00], 0x80),
            (&[0xff, 0x7f], 0x3fff),
            (&[0xff; 9], u64::MAX),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0xff], 0xff),
            (&[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x7f], 0x7f),
        ] {
            assert_eq!(varint(bytes), Some((value, &[][..])));
            assert_eq!(varint(&bytes[..bytes.len() - 1]), None);
        }
    }

    #[test]
    fn columns_of_every_type() {
        let row = [
            9, 0, 1, 2, 8, 9, 7, 16, 15, 0xff, 0x01, 0x02, 0, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c',
        ];
        let expected = [
            Column::Other,
            Column::Integer(-1),
            Column::Integer(0x102),
            Column::Integer(0),
            Column::Integer(1),
            Column::Other,
            Column::Bytes(b"ab"),
            Column::Bytes(b"c"),
        ];
        assert_eq!(columns(&row).as_deref(), Some(&expected[..]));
        for length in 0..row.len() {
            assert_eq!(columns(&row[..length]), None, "cut at {length}");
        }
        assert_eq!(columns(&[&row[..], &[0]].concat()), None, "a byte too many");
        assert_eq!(columns(&[2, 10]), None, "a reserved type");
        assert_eq!(columns(&[0]), None, "a header without itself");
    }

    #[test]
    fn the_first_column_is_seen_early() {
        let row = [3, 20, 14, b'w', b'x', b'y', b'z', 1];
        assert_eq!(first_bytes(&row), Some(&b"wxyz"[..]));
        assert_eq!(first_bytes(&row[..5]), Some(&b"wx"[..]));
        assert_eq!(first_bytes(&row[..2]), None);
        assert_eq!(first_bytes(&[3, 1, 14, 5, 1]), None, "a number is no key");
    }
}

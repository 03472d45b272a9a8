//! Parses the values of options. `None` means that the text is no such value: the option's table
//! entry says what was expected.

use std::ffi::OsStr;
use std::path::PathBuf;
use std::str::FromStr;

/// `0` or `1`. Core takes any text for a flag and reads `yes` as off.
pub fn flag(text: &OsStr) -> Option<bool> {
    match text.to_str()? {
        "0" => Some(false),
        "1" => Some(true),
        _ => None,
    }
}

/// A decimal number with an optional sign.
pub fn number<T: FromStr>(text: &OsStr) -> Option<T> {
    text.to_str()?.parse().ok()
}

/// A decimal number without a plus: Core takes one in what it reads with `GetIntArg`, and none in what it
/// reads with `ToIntegral`.
pub fn digits<T: FromStr>(text: &str) -> Option<T> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// A port from 1 to 65535.
pub fn port(text: &OsStr) -> Option<u16> {
    digits(text.to_str()?).filter(|port| *port != 0)
}

/// Any non-empty text.
pub fn path(text: &OsStr) -> Option<PathBuf> {
    (!text.is_empty()).then(|| PathBuf::from(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn os(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    #[test]
    fn flags() {
        assert_eq!((flag(os("0")), flag(os("1"))), (Some(false), Some(true)));
        for text in ["", "2", "yes", "true", "01"] {
            assert_eq!(flag(os(text)), None, "{text:?}");
        }
    }

    #[test]
    fn numbers() {
        assert_eq!(number::<u32>(os("4294967295")), Some(u32::MAX));
        assert_eq!(number::<i32>(os("-1")), Some(-1));
        for text in ["4294967296", "-1", "", " 1", "1.5", "0x10"] {
            assert_eq!(number::<u32>(os(text)), None, "{text:?}");
        }
        assert_eq!((number::<u32>(os("+1")), digits::<u32>("+1")), (Some(1), None));
        assert_eq!([port(os("1")), port(os("065535"))], [Some(1), Some(65_535)]);
        for text in ["+1", "-1", "0", "65536", "", " 1"] {
            assert_eq!(port(os(text)), None, "{text:?}");
        }
    }
}

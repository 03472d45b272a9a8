//! Finds the key expressions of a descriptor in its text, without building anything from that text.
//!
//! Everything else is let through only when it cannot be a secret: names of functions in small letters,
//! numbers and hashes. So whoever reads the text with its private keys replaced reads public text.

use std::ops::Range;

use super::DescriptorError;
use super::checksum;
use super::key_expression::KeyExpression;

/// The most bytes that a descriptor may have, with its checksum.
pub const MAX_DESCRIPTOR_SIZE: usize = 64 * 1024;

/// More than the names of Core's functions with all wrappers that Miniscript can put before them.
const MAX_NAME: usize = 24;

/// Functions of Core that `miniscript` has not.
const UNSUPPORTED: [&str; 6] = ["addr", "musig", "raw", "rawtr", "sortedmulti_a", "unused"];

/// The function with this name, if it is one of those.
pub(super) fn unsupported(name: &[u8]) -> Option<&'static str> {
    UNSUPPORTED.into_iter().find(|unsupported| unsupported.as_bytes() == name)
}

/// Core has it outside of `sh()` and `wsh()` too, `miniscript` has not.
const BARE_SORTED: &str = "bare sortedmulti";

/// Functions of a hash, in hex.
const HASHES: [&[u8]; 4] = [b"sha256", b"hash256", b"ripemd160", b"hash160"];

/// A descriptor's text, taken apart.
#[derive(Debug)]
pub(crate) struct Scan {
    /// Bytes before the checksum.
    pub(crate) body: usize,
    /// In the order of the text.
    pub(crate) keys: Vec<KeyExpression>,
    /// Whether it is a `combo`, which stands for several descriptors of one key.
    pub(crate) combo: bool,
}

/// Around the key of a `combo`.
const COMBO: (&[u8], &[u8]) = (b"combo(", b")");

/// Takes a descriptor apart; when it has a checksum, checks it.
pub(crate) fn scan(text: &[u8]) -> Result<Scan, DescriptorError> {
    if text.len() > MAX_DESCRIPTOR_SIZE {
        return Err(DescriptorError::TooLong { length: text.len() });
    }
    let body = text.iter().position(|byte| *byte == b'#').unwrap_or(text.len());
    let expected = checksum::checksum(&text[..body]).map_err(character)?;
    if let Some(given) = text.get(body + 1..) {
        if given.len() != checksum::LENGTH {
            return Err(DescriptorError::ChecksumLength { length: given.len() });
        }
        if given != expected {
            return Err(DescriptorError::Checksum);
        }
    }
    let text = &text[..body];
    let mut scanner = Scanner { text, depth: 0, taproot: None, hash: false, keys: Vec::new() };
    scanner.run()?;
    let keys = scanner.keys;
    let combo = text.starts_with(COMBO.0);
    if combo {
        let whole = COMBO.0.len()..body - COMBO.1.len();
        if !matches!(&keys[..], [key] if key.range == whole) {
            return Err(character(COMBO.0.len()));
        }
    }
    Ok(Scan { body, keys, combo })
}

/// An error at the character with this index.
fn character(index: usize) -> DescriptorError {
    DescriptorError::Character { position: index + 1 }
}

struct Scanner<'a> {
    text: &'a [u8],
    /// How many functions are open.
    depth: usize,
    /// How many are open outside the Taproot function that is.
    taproot: Option<usize>,
    /// Whether the innermost function takes a hash.
    hash: bool,
    keys: Vec<KeyExpression>,
}

impl Scanner<'_> {
    fn run(&mut self) -> Result<(), DescriptorError> {
        let mut start = 0;
        for end in 0..=self.text.len() {
            match self.text.get(end) {
                Some(b'(') => self.open(start..end)?,
                Some(b'{') if start == end && self.depth > 0 => {}
                Some(b',' | b'}') if self.depth > 0 => self.close_argument(start..end)?,
                Some(b')') if self.depth > 0 => {
                    self.close_argument(start..end)?;
                    self.depth -= 1;
                    self.hash = false;
                    self.taproot = self.taproot.filter(|outside| *outside < self.depth);
                }
                Some(b',' | b')' | b'{' | b'}') => return Err(character(end)),
                Some(_) => continue,
                // A key without a function is no descriptor, nor is one with a function left open.
                None if start < end || self.depth > 0 || end == 0 => return Err(character(end)),
                None => {}
            }
            start = end + 1;
        }
        Ok(())
    }

    /// A function begins, with its name here.
    fn open(&mut self, range: Range<usize>) -> Result<(), DescriptorError> {
        let name = &self.text[range.clone()];
        let known = |c: &u8| matches!(c, b'a'..=b'z' | b'0'..=b'9' | b'_' | b':');
        let after_function = range.start > 0 && self.text[range.start - 1] == b')';
        if name.is_empty() || name.len() > MAX_NAME || !name.iter().all(known) || after_function {
            return Err(character(range.start));
        }
        let name = name.rsplit(|c| *c == b':').next().unwrap_or(name);
        if let Some(function) = unsupported(name) {
            return Err(DescriptorError::Unsupported { function });
        }
        if name == b"sortedmulti" && range.start == 0 {
            return Err(DescriptorError::Unsupported { function: BARE_SORTED });
        }
        if name == b"combo" && range != (0..name.len()) {
            return Err(character(range.start));
        }
        if name == b"tr" {
            self.taproot.get_or_insert(self.depth);
        }
        self.depth += 1;
        self.hash = HASHES.contains(&name);
        Ok(())
    }

    /// An argument ends: a key, a number, a hash; or a function has ended before, and nothing is here.
    fn close_argument(&mut self, range: Range<usize>) -> Result<(), DescriptorError> {
        let argument = &self.text[range.clone()];
        let closed = range.start > 0 && matches!(self.text[range.start - 1], b')' | b'}');
        if closed || argument.is_empty() {
            return if closed == argument.is_empty() {
                Ok(())
            } else {
                Err(character(range.start))
            };
        }
        let hash = self.hash && argument.iter().all(u8::is_ascii_hexdigit);
        if !is_number(argument) && !hash {
            self.keys.push(KeyExpression::parse(self.text, range, self.taproot.is_some())?);
        }
        Ok(())
    }
}

/// A threshold, a number of keys, a time: at most 32 bits.
fn is_number(argument: &[u8]) -> bool {
    argument.len() <= 10 && argument.iter().all(u8::is_ascii_digit)
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEY: &str = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5";

    fn position(text: &str) -> Option<usize> {
        match scan(text.as_bytes()) {
            Err(DescriptorError::Character { position }) => Some(position),
            _ => None,
        }
    }

    #[test]
    fn keys_are_found_where_they_stand() {
        let text = format!("tr({KEY},{{pk({KEY}),and_v(v:multi_a(2,{KEY},{KEY}),older(12))}})");
        let scan = scan(text.as_bytes()).expect("a descriptor");
        assert_eq!(scan.body, text.len());
        let places: Vec<usize> = text.match_indices(KEY).map(|(place, _)| place).collect();
        assert_eq!(scan.keys.iter().map(|key| key.range.start).collect::<Vec<_>>(), places);
        assert!(scan.keys.iter().all(|key| &text[key.range.clone()] == KEY && key.x_only));
    }

    #[test]
    fn hashes_are_no_keys() {
        let hash = &KEY[2..];
        let text = format!("tr({hash},and_v(v:sha256({hash}),pk({hash})))");
        let scan = scan(text.as_bytes()).expect("a descriptor");
        let places: Vec<usize> = text.match_indices(hash).map(|(place, _)| place).collect();
        let keys: Vec<usize> = scan.keys.iter().map(|key| key.range.start).collect();
        assert_eq!(keys, [places[0], places[2]]);
    }

    #[test]
    fn only_taproot_has_keys_without_parity() {
        let text = format!("sh(wsh(multi(1,{KEY},{KEY})))");
        assert!(scan(text.as_bytes()).expect("a descriptor").keys.iter().all(|key| !key.x_only));
    }

    #[test]
    fn wrong_brackets_are_told_by_position() {
        for (text, at) in [
            (String::new(), 1),
            (KEY.to_owned(), 67),
            (format!("pk({KEY}"), 70),
            (format!("pk({KEY}))"), 71),
            (format!("pk({KEY})x"), 72),
            (format!("pk({KEY})pk({KEY})"), 71),
            (format!("({KEY})"), 1),
            (format!("PK({KEY})"), 1),
            (format!("pk({KEY},)"), 71),
            (format!("pk(,{KEY})"), 4),
            ("pk( )".to_owned(), 0),
            ("pk(\u{e9})".to_owned(), 4),
            ("{}".to_owned(), 1),
            (",".to_owned(), 1),
            ("abcdefghijklmnopqrstuvwxy()".to_owned(), 1),
        ] {
            assert_eq!(position(&text).unwrap_or(0), at, "{text}");
        }
    }

    #[test]
    fn a_checksum_is_checked_when_it_is_there() {
        let body = format!("pk({KEY})");
        let sum = checksum::checksum(body.as_bytes()).expect("a checksum");
        let sum = String::from_utf8(sum.to_vec()).expect("text");
        assert_eq!(scan(format!("{body}#{sum}").as_bytes()).expect("right").body, body.len());
        let other = if sum.starts_with('q') { "p" } else { "q" };
        let wrong = format!("{body}#{other}{}", &sum[1..]);
        assert!(matches!(scan(wrong.as_bytes()), Err(DescriptorError::Checksum)));
        for (given, length) in [("", 0), (&sum[1..], 7), (&format!("{sum}q"), 9), ("#", 1)] {
            let text = format!("{body}#{given}");
            match scan(text.as_bytes()) {
                Err(DescriptorError::ChecksumLength { length: told }) => assert_eq!(told, length),
                other => panic!("{other:?}"),
            }
        }
    }

    #[test]
    fn functions_that_are_not_supported_are_named() {
        for function in UNSUPPORTED {
            let error = scan(format!("{function}({KEY})").as_bytes()).expect_err("unsupported");
            assert!(error.to_string().contains(function));
        }
    }

    #[test]
    fn its_length_is_bounded() {
        let arguments = ",1".repeat(MAX_DESCRIPTOR_SIZE / 2 - 2);
        let text = format!("a(1{arguments})");
        assert_eq!(text.len(), MAX_DESCRIPTOR_SIZE);
        assert!(scan(text.as_bytes()).is_ok());
        let text = format!("a(11{arguments})");
        assert!(matches!(scan(text.as_bytes()), Err(DescriptorError::TooLong { .. })));
    }
}

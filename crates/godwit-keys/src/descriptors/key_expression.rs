//! A key expression of a descriptor (BIP380, BIP389): `[origin]key/path/*`. It holds ranges of the text
//! and numbers, nothing secret.

use std::fmt::Write;
use std::ops::Range;

use bitcoin::bip32::{ChildNumber, Fingerprint, KeySource};

use super::DescriptorError;

/// The most steps of a path: an extended key has no more below it (BIP32).
const MAX_STEPS: usize = 255;

/// The most numbers in one `<…>`; each makes a descriptor of its own.
const MAX_BRANCHES: usize = 64;

/// Fingerprint of a master key, and the steps from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) fingerprint: [u8; 4],
    pub(crate) path: Vec<ChildNumber>,
}

impl Origin {
    /// From the form of `bitcoin`.
    pub(crate) fn from_source((fingerprint, path): &KeySource) -> Self {
        Self { fingerprint: fingerprint.to_bytes(), path: path.as_ref().to_vec() }
    }

    /// The same in the form of `bitcoin`.
    pub(crate) fn to_source(&self) -> KeySource {
        (Fingerprint::from(self.fingerprint), self.path.clone().into())
    }
}

/// What text a key has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyKind {
    /// Begins as an extended private key.
    ExtendedPrivate,
    /// Begins as an extended public key.
    ExtendedPublic,
    /// Hex digits.
    Hex,
    /// Something else: a single private key, or nothing.
    Single,
}

/// What ends a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wildcard {
    None,
    Normal,
    Hardened,
}

/// A key with its origin and its path. Positions and ranges are those of the descriptor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeyExpression {
    /// From the bracket of the origin to the end of the path.
    pub(crate) range: Range<usize>,
    pub(crate) key: Range<usize>,
    pub(crate) kind: KeyKind,
    pub(crate) origin: Option<Origin>,
    /// One, or as many as `<…>` has numbers.
    pub(crate) paths: Vec<Vec<ChildNumber>>,
    pub(crate) wildcard: Wildcard,
    /// Whether it stands in Taproot, where public keys have no parity.
    pub(crate) x_only: bool,
}

impl KeyExpression {
    /// The one in `range` of a descriptor.
    pub(crate) fn parse(
        text: &[u8],
        range: Range<usize>,
        x_only: bool,
    ) -> Result<Self, DescriptorError> {
        let (origin, start) = match text[range.clone()].first() {
            Some(b'[') => {
                let error = || DescriptorError::Origin { position: range.start + 1 };
                let length = text[range.clone()].iter().position(|c| *c == b']');
                let end = range.start + length.ok_or_else(error)?;
                (Some(parse_origin(text, range.start + 1..end).ok_or_else(error)?), end + 1)
            }
            _ => (None, range.start),
        };
        let steps = split(text, start..range.end, b'/');
        let key = steps[0].clone();
        let kind = kind_of(&text[key.clone()]);
        let (paths, wildcard) = parse_path(text, &steps[1..])?;
        let extended = matches!(kind, KeyKind::ExtendedPrivate | KeyKind::ExtendedPublic);
        if key.is_empty() || !extended && steps.len() > 1 {
            return Err(DescriptorError::Key { position: start + 1 });
        }
        Ok(Self { range, key, kind, origin, paths, wildcard, x_only })
    }

    /// Where the key stands, from 1.
    pub(crate) fn position(&self) -> usize {
        self.key.start + 1
    }

    /// The path of one of several descriptors.
    pub(crate) fn path(&self, branch: usize) -> &[ChildNumber] {
        match &self.paths[..] {
            [only] => only,
            several => &several[branch],
        }
    }
}

/// Text of a key expression whose key is public; hardened steps end with `marker`.
pub(crate) fn public_text(
    origin: Option<&Origin>,
    key: &str,
    path: &[ChildNumber],
    wildcard: Wildcard,
    marker: char,
) -> String {
    let mut text = String::new();
    if let Some(origin) = origin {
        text.push('[');
        for byte in origin.fingerprint {
            write!(text, "{byte:02x}").expect("a string takes everything");
        }
        push_path(&mut text, &origin.path, marker);
        text.push(']');
    }
    text.push_str(key);
    push_path(&mut text, path, marker);
    match wildcard {
        Wildcard::None => {}
        Wildcard::Normal => text.push_str("/*"),
        Wildcard::Hardened => text.extend(['/', '*', marker]),
    }
    text
}

fn push_path(text: &mut String, path: &[ChildNumber], marker: char) {
    for step in path {
        let (index, hardened) = match *step {
            ChildNumber::Normal { index } => (index, false),
            ChildNumber::Hardened { index } => (index, true),
        };
        write!(text, "/{index}").expect("a string takes everything");
        text.extend(hardened.then_some(marker));
    }
}

/// The parts of a range between separators, at least one.
fn split(text: &[u8], range: Range<usize>, separator: u8) -> Vec<Range<usize>> {
    let mut start = range.start;
    let parts = text[range].split(|c| *c == separator).map(|part| {
        let part = start..start + part.len();
        start = part.end + 1;
        part
    });
    parts.collect()
}

fn kind_of(key: &[u8]) -> KeyKind {
    match key {
        [b'x' | b't', b'p', b'r', b'v', ..] => KeyKind::ExtendedPrivate,
        [b'x' | b't', b'p', b'u', b'b', ..] => KeyKind::ExtendedPublic,
        hex if hex.iter().all(u8::is_ascii_hexdigit) => KeyKind::Hex,
        _ => KeyKind::Single,
    }
}

/// What stands in brackets before a key.
pub(crate) fn parse_origin(text: &[u8], range: Range<usize>) -> Option<Origin> {
    let steps = split(text, range, b'/');
    let digits = &text[steps[0].clone()];
    if steps.len() > MAX_STEPS + 1 {
        return None;
    }
    let fingerprint = hex(digits)?;
    let path =
        steps[1..].iter().map(|step| parse_step(&text[step.clone()])).collect::<Option<_>>()?;
    Some(Origin { fingerprint, path })
}

/// The bytes of exactly so many hex digits.
pub(super) fn hex<const N: usize>(digits: &[u8]) -> Option<[u8; N]> {
    let value = |digit: u8| char::from(digit).to_digit(16).map(|digit| digit as u8);
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    (digits.len() == 2 * N).then_some(bytes)
}

/// The paths behind a key, and how they end.
fn parse_path(
    text: &[u8],
    steps: &[Range<usize>],
) -> Result<(Vec<Vec<ChildNumber>>, Wildcard), DescriptorError> {
    let error = |step: &Range<usize>| DescriptorError::Path { position: step.start + 1 };
    let (steps, wildcard) = match steps.split_last() {
        Some((last, before)) => match &text[last.clone()] {
            b"*" => (before, Wildcard::Normal),
            b"*h" | b"*'" => (before, Wildcard::Hardened),
            _ => (steps, Wildcard::None),
        },
        None => (steps, Wildcard::None),
    };
    if let Some(beyond) = steps.get(MAX_STEPS) {
        return Err(error(beyond));
    }
    let mut paths = vec![Vec::with_capacity(steps.len())];
    for step in steps {
        match &text[step.clone()] {
            [b'<', .., b'>'] => {
                let numbers = split(text, step.start + 1..step.end - 1, b';');
                let allowed = paths.len() == 1 && (2..=MAX_BRANCHES).contains(&numbers.len());
                if !allowed {
                    return Err(error(step));
                }
                let before = paths.remove(0);
                for number in &numbers {
                    let child = parse_step(&text[number.clone()]).ok_or_else(|| error(number))?;
                    if paths.iter().any(|path| path.last() == Some(&child)) {
                        return Err(error(number));
                    }
                    paths.push(before.iter().copied().chain([child]).collect());
                }
            }
            number => {
                let child = parse_step(number).ok_or_else(|| error(step))?;
                paths.iter_mut().for_each(|path| path.push(child));
            }
        }
    }
    Ok((paths, wildcard))
}

/// A number below 2^31, with `h` or `'` behind it when it is hardened.
fn parse_step(step: &[u8]) -> Option<ChildNumber> {
    let (digits, hardened) = match step {
        [digits @ .., b'h' | b'\''] => (digits, true),
        digits => (digits, false),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let index = digits
        .iter()
        .try_fold(0_u32, |sum, digit| sum.checked_mul(10)?.checked_add(u32::from(digit - b'0')))?;
    let child = if hardened {
        ChildNumber::from_hardened_idx(index)
    } else {
        ChildNumber::from_normal_idx(index)
    };
    child.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KeyExpression, DescriptorError> {
        KeyExpression::parse(text.as_bytes(), 0..text.len(), false)
    }

    fn normal(index: u32) -> ChildNumber {
        ChildNumber::Normal { index }
    }

    fn hardened(index: u32) -> ChildNumber {
        ChildNumber::Hardened { index }
    }

    #[test]
    fn an_expression_with_everything() {
        let text = "[00Aabbff/1h/2147483647']tpubX/007/<0;1h;2>/5/*'";
        let key = parse(text).expect("a key expression");
        let origin = key.origin.as_ref().expect("an origin");
        assert_eq!(origin.fingerprint, [0x00, 0xaa, 0xbb, 0xff]);
        assert_eq!(origin.path, [hardened(1), hardened(0x7fff_ffff)]);
        assert_eq!((&text[key.key.clone()], key.position()), ("tpubX", 26));
        assert_eq!((key.kind, key.wildcard), (KeyKind::ExtendedPublic, Wildcard::Hardened));
        assert_eq!(key.path(0), [normal(7), normal(0), normal(5)]);
        assert_eq!(key.path(1), [normal(7), hardened(1), normal(5)]);
        assert_eq!(key.paths.len(), 3);
        assert_eq!(
            public_text(Some(origin), "K", key.path(1), key.wildcard, 'h'),
            "[00aabbff/1h/2147483647h]K/7/1h/5/*h"
        );
        assert_eq!(public_text(None, "K", &[], Wildcard::Normal, '\''), "K/*");
    }

    #[test]
    fn wrong_paths_are_told_by_position() {
        let steps = |n| format!("xprvX{}", "/0".repeat(n));
        for (text, at) in [
            ("xprvX/", 7),
            ("xprvX//1", 7),
            ("xprvX/1/2147483648", 9),
            ("xprvX/4294967296", 7),
            ("xprvX/+1", 7),
            ("xprvX/1H", 7),
            ("xprvX/h", 7),
            ("xprvX/*/1", 7),
            ("xprvX/**", 7),
            ("xprvX/<0>", 7),
            ("xprvX/<>", 7),
            ("xprvX/<0;0>", 10),
            ("xprvX/<0;1>/<0;1>", 13),
            ("xprvX/<0;x>", 10),
            (&steps(256), 5 + 2 * 255 + 2),
        ] {
            match parse(text) {
                Err(DescriptorError::Path { position }) => assert_eq!(position, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!(parse(&steps(255)).is_ok());
        let numbers: Vec<String> = (0..65).map(|n| n.to_string()).collect();
        assert!(parse(&format!("xprvX/<{}>", numbers[1..].join(";"))).is_ok());
        assert!(parse(&format!("xprvX/<{}>", numbers.join(";"))).is_err());
    }

    #[test]
    fn wrong_origins_and_keys_are_told_by_position() {
        for text in ["[", "[]xprvX", "[0011223]xprvX", "[001122334]xprvX", "[0011223g]xprvX"] {
            assert!(matches!(parse(text), Err(DescriptorError::Origin { position: 1 })), "{text}");
        }
        for text in ["[00112233/]xprvX", "[00112233/<0;1>]xprvX", "[00112233/*]xprvX"] {
            assert!(matches!(parse(text), Err(DescriptorError::Origin { position: 1 })), "{text}");
        }
        for (text, at) in [("[00112233]", 11), ("02aa/0", 1), ("L1/0", 1), ("", 1)] {
            match parse(text) {
                Err(DescriptorError::Key { position }) => assert_eq!(position, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }
}

//! Bech32 and Bech32m (BIP173, BIP350).

use std::collections::HashMap;

const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// What the checksum leaves, in Bech32 and Bech32m.
const PLAIN: u32 = 1;
const MODIFIED: u32 = 0x2bc8_30a3;
/// Characters of a whole text at most.
const MAX_LENGTH: usize = 90;
/// Places that are told of a text that is too long, at most; Core tells all.
const MAX_PLACES: usize = 1_000;
/// Characters of the checksum.
const CHECKSUM: usize = 6;

/// Which of the two codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Code {
    Bech32,
    Bech32m,
}

/// A text whose checksum fits.
pub(super) struct Decoded {
    pub(super) code: Code,
    pub(super) prefix: String,
    /// Of five bits each.
    pub(super) data: Vec<u8>,
}

/// What is wrong with a text.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed {
    pub(super) why: &'static str,
    /// The bytes concerned, where it is not all of it.
    pub(super) at: Vec<usize>,
}

impl Malformed {
    fn new(why: &'static str, at: impl IntoIterator<Item = usize>) -> Self {
        Self { why, at: at.into_iter().collect() }
    }
}

/// The checksum so far with one more value: of polynomials over GF(32), that times x and with the value,
/// modulo the generator.
fn with_value(sum: u32, value: u8) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    let top = sum >> 25;
    let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
    let applied = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
    applied.fold(shifted, |sum, (_, generator)| sum ^ generator)
}

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    values.fold(1, with_value)
}

fn expanded(prefix: &str) -> impl Iterator<Item = u8> + '_ {
    prefix.bytes().map(|byte| byte >> 5).chain([0]).chain(prefix.bytes().map(|byte| byte & 31))
}

/// A witness program as an address.
pub(super) fn encode(prefix: &str, version: u8, program: &[u8]) -> String {
    let constant = if version == 0 { PLAIN } else { MODIFIED };
    let mut data = vec![version];
    let (mut held, mut bits) = (0u32, 0);
    for byte in program {
        (held, bits) = (held << 8 | u32::from(*byte), bits + 8);
        while bits >= 5 {
            bits -= 5;
            data.push((held >> bits & 31) as u8);
        }
        held &= (1 << bits) - 1;
    }
    if bits > 0 {
        data.push((held << (5 - bits) & 31) as u8);
    }
    let all = expanded(prefix).chain(data.iter().copied()).chain([0; 6]);
    let checksum = polymod(all) ^ constant;
    data.extend((0..6).map(|n| (checksum >> (5 * (5 - n)) & 31) as u8));
    let digits = data.iter().map(|digit| char::from(DIGITS[usize::from(*digit)]));
    format!("{prefix}1{}", digits.collect::<String>())
}

/// The bytes that are no characters of a text of this code: the printable ones of ASCII, of letters either
/// small or capital ones, as the first letter is (Core `CheckCharacters`).
fn unfit_characters(text: &str) -> Vec<usize> {
    let first = text.bytes().find(u8::is_ascii_alphabetic);
    let is_small = first.is_some_and(|byte| byte.is_ascii_lowercase());
    let unfit = |byte: u8| match byte {
        b'a'..=b'z' => !is_small,
        b'A'..=b'Z' => is_small,
        _ => !(33..127).contains(&byte),
    };
    text.bytes().enumerate().filter(|(_, byte)| unfit(*byte)).map(|(at, _)| at).collect()
}

/// Where one or two of the `length` last characters may be other ones, so that what the checksum leaves is as
/// it should be: places from the end. `None` where more would have to be.
///
/// The checksum is linear: each wrong character changes what it leaves by an amount of its own, and no two of
/// them together by what another one or two do, as the code has a distance of five (BIP173).
fn wrong_places(difference: u32, length: usize) -> Option<Vec<usize>> {
    let mut place_of = HashMap::new();
    for value in 1..32 {
        let mut change = value;
        for place in 0..length {
            place_of.insert(change, place);
            change = with_value(change, 0);
        }
    }
    if let Some(place) = place_of.get(&difference) {
        return Some(vec![*place]);
    }
    place_of.iter().find_map(|(change, first)| {
        let second = place_of.get(&(difference ^ change)).filter(|second| *second != first)?;
        Some(vec![*first.max(second), *first.min(second)])
    })
}

/// Of a checksum that leaves `sum`, and data of this length from a place on: the code of which fewer
/// characters are wrong, and which (Core `LocateErrors`).
fn mistyped(sum: u32, start: usize, length: usize) -> Malformed {
    let of_code = |constant: u32| wrong_places(sum ^ constant, length);
    let (why, places) = match (of_code(PLAIN), of_code(MODIFIED)) {
        (Some(plain), Some(modified)) if modified.len() < plain.len() => {
            ("Invalid Bech32m checksum", modified)
        }
        (Some(plain), _) => ("Invalid Bech32 checksum", plain),
        (None, Some(modified)) => ("Invalid Bech32m checksum", modified),
        (None, None) => ("Invalid checksum", Vec::new()),
    };
    Malformed::new(why, places.into_iter().map(|place| start + length - 1 - place))
}

/// Reads a text.
///
/// # Errors
///
/// It is not of this code: why and where, in Core's words and order (`LocateErrors`).
pub(super) fn decode(text: &str) -> Result<Decoded, Malformed> {
    if text.len() > MAX_LENGTH {
        let told = MAX_LENGTH..text.len().min(MAX_LENGTH + MAX_PLACES);
        return Err(Malformed::new("Bech32 string too long", told));
    }
    let unfit = unfit_characters(text);
    if !unfit.is_empty() {
        return Err(Malformed::new("Invalid character or mixed case", unfit));
    }
    let text = text.to_ascii_lowercase();
    let Some((prefix, rest)) = text.rsplit_once('1') else {
        return Err(Malformed::new("Missing separator", []));
    };
    if prefix.is_empty() || rest.len() < CHECKSUM {
        return Err(Malformed::new("Invalid separator position", [prefix.len()]));
    }
    let mut data = Vec::with_capacity(rest.len());
    for (at, byte) in rest.bytes().enumerate() {
        let Some(digit) = DIGITS.iter().position(|known| *known == byte) else {
            let at = prefix.len() + 1 + at;
            return Err(Malformed::new("Invalid Base 32 character", [at]));
        };
        data.push(digit as u8);
    }
    let code = match polymod(expanded(prefix).chain(data.iter().copied())) {
        PLAIN => Code::Bech32,
        MODIFIED => Code::Bech32m,
        sum => return Err(mistyped(sum, prefix.len() + 1, data.len())),
    };
    data.truncate(data.len() - CHECKSUM);
    Ok(Decoded { code, prefix: prefix.to_owned(), data })
}

/// Bytes of groups of five bits; `None` where the padding is not zero or a whole group.
pub(super) fn bytes(groups: &[u8]) -> Option<Vec<u8>> {
    let (mut held, mut bits, mut out) = (0u32, 0, Vec::new());
    for group in groups {
        (held, bits) = (held << 5 | u32::from(*group), bits + 5);
        if bits >= 8 {
            bits -= 8;
            out.push((held >> bits) as u8);
        }
        held &= (1 << bits) - 1;
    }
    (bits < 5 && held == 0).then_some(out)
}

//! Bech32 and Bech32m (BIP173, BIP350).

const DIGITS: &[u8; 32] = b"qpzry9x8gf2tvdw0s3jn54khce6mua7l";
/// What the checksum leaves, in Bech32 and Bech32m.
const PLAIN: u32 = 1;
const MODIFIED: u32 = 0x2bc8_30a3;
/// Characters of a whole text at most.
const MAX_LENGTH: usize = 90;

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

fn polymod(values: impl Iterator<Item = u8>) -> u32 {
    const GENERATOR: [u32; 5] = [0x3b6a_57b2, 0x2650_8e6d, 0x1ea1_19fa, 0x3d42_33dd, 0x2a14_62b3];
    values.fold(1, |sum, value| {
        let top = sum >> 25;
        let shifted = (sum & 0x01ff_ffff) << 5 ^ u32::from(value);
        let applied = GENERATOR.iter().enumerate().filter(|(bit, _)| top >> bit & 1 == 1);
        applied.fold(shifted, |sum, (_, generator)| sum ^ generator)
    })
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

/// Reads a text; `None` where it is not of this code.
pub(super) fn decode(text: &str) -> Option<Decoded> {
    let mixed = text.bytes().any(|b| b.is_ascii_lowercase())
        && text.bytes().any(|b| b.is_ascii_uppercase());
    if mixed || text.len() > MAX_LENGTH || !text.bytes().all(|byte| (33..127).contains(&byte)) {
        return None;
    }
    let text = text.to_ascii_lowercase();
    let (prefix, rest) = text.rsplit_once('1')?;
    if prefix.is_empty() || rest.len() < 6 {
        return None;
    }
    let digit = |byte: u8| DIGITS.iter().position(|known| *known == byte).map(|at| at as u8);
    let mut data = rest.bytes().map(digit).collect::<Option<Vec<u8>>>()?;
    let code = match polymod(expanded(prefix).chain(data.iter().copied())) {
        PLAIN => Code::Bech32,
        MODIFIED => Code::Bech32m,
        _ => return None,
    };
    data.truncate(data.len() - 6);
    Some(Decoded { code, prefix: prefix.to_owned(), data })
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

//! Base58 with a checksum.

use godwit_primitives::sha256::sha256d;

const DIGITS: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";

pub(super) fn encode_check(payload: &[u8]) -> String {
    let mut bytes = payload.to_vec();
    bytes.extend_from_slice(&sha256d(payload)[..4]);
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    let mut digits: Vec<u8> = Vec::new();
    for byte in &bytes {
        let mut carry = u32::from(*byte);
        for digit in &mut digits {
            carry += u32::from(*digit) << 8;
            *digit = (carry % 58) as u8;
            carry /= 58;
        }
        while carry > 0 {
            digits.push((carry % 58) as u8);
            carry /= 58;
        }
    }
    let all = std::iter::repeat_n(0, zeros).chain(digits.into_iter().rev());
    all.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// At most `most` bytes; space around them is passed over.
pub(super) fn decode(text: &str, most: usize) -> Option<Vec<u8>> {
    let text = text.trim_matches([' ', '\t', '\n', '\r', '\u{b}', '\u{c}']);
    let zeros = text.bytes().take_while(|byte| *byte == b'1').count();
    let mut bytes: Vec<u8> = Vec::new();
    for byte in text.bytes() {
        let mut carry = DIGITS.iter().position(|digit| *digit == byte)? as u32;
        for byte in &mut bytes {
            carry += u32::from(*byte) * 58;
            *byte = carry as u8;
            carry >>= 8;
        }
        if carry > 0 {
            bytes.push(carry as u8);
        }
        if bytes.len() + zeros > most {
            return None;
        }
    }
    Some(std::iter::repeat_n(0, zeros).chain(bytes.into_iter().rev()).collect())
}

/// The payload, if the checksum fits and there are at most `most` bytes of it.
pub(super) fn decode_check(text: &str, most: usize) -> Option<Vec<u8>> {
    let mut bytes = decode(text, most + 4)?;
    let at = bytes.len().checked_sub(4)?;
    let checksum = bytes.split_off(at);
    (sha256d(&bytes)[..4] == checksum[..]).then_some(bytes)
}

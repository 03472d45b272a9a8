//! How secrets look when a program prints or stores them. The results are secrets too: they are made
//! in locked memory.

use crate::bytes::SecretBytes;
use crate::error::LockError;
use crate::slice::SecretSlice;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Bits of the secret in front of the first digit that is made of them alone, when 0, 1 or 2 bytes
/// modulo 3 stand before the secret in what is encoded.
const BASE64_SKIPS: [usize; 3] = [0, 4, 2];

/// All forms of `secret` that a scan looks for unasked, by name.
pub(super) fn all(secret: SecretSlice<'_>) -> Result<Vec<(&'static str, SecretBytes)>, LockError> {
    let mut forms = vec![
        ("raw", SecretBytes::copy_of(secret)?),
        ("hex", hex(secret, b"0123456789abcdef")?),
        ("hex", hex(secret, b"0123456789ABCDEF")?),
        ("base58", base58(secret)?),
    ];
    for alphabet in [BASE64, BASE64_URL] {
        for skip in BASE64_SKIPS {
            forms.push(("base64", base64(secret, skip, alphabet)?));
        }
    }
    Ok(forms)
}

fn hex(secret: SecretSlice<'_>, digits: &[u8; 16]) -> Result<SecretBytes, LockError> {
    let bytes = secret.bytes();
    let mut text = SecretBytes::with_capacity(2 * bytes.len())?;
    for byte in bytes {
        text.push(digits[usize::from(byte >> 4)])?;
        text.push(digits[usize::from(byte & 15)])?;
    }
    Ok(text)
}

/// The digits that are made of bits of the secret alone, without padding, after `skip` bits.
fn base64(
    secret: SecretSlice<'_>,
    skip: usize,
    alphabet: &[u8; 64],
) -> Result<SecretBytes, LockError> {
    let bytes = secret.bytes();
    let digits = (8 * bytes.len()).saturating_sub(skip) / 6;
    let mut text = SecretBytes::with_capacity(digits)?;
    for digit in 0..digits {
        let bit = skip + 6 * digit;
        let next = bytes.get(bit / 8 + 1).copied().unwrap_or(0);
        let pair = u16::from_be_bytes([bytes[bit / 8], next]);
        text.push(alphabet[usize::from(pair >> (10 - bit % 8)) & 63])?;
    }
    Ok(text)
}

/// As Bitcoin's addresses and keys are written, without a checksum: that of a key in its envelope is a
/// form of its own.
fn base58(secret: SecretSlice<'_>) -> Result<SecretBytes, LockError> {
    let bytes = secret.bytes();
    let zeros = bytes.iter().take_while(|byte| **byte == 0).count();
    // log(256) / log(58) < 1.366
    let room = (bytes.len() - zeros) * 1366 / 1000 + 1;
    let mut digits = SecretBytes::from_fn_in_place(room, |_| {})?;
    digits.expose_secret_mut(|digits| {
        for byte in &bytes[zeros..] {
            let mut carry = u32::from(*byte);
            for digit in digits.iter_mut().rev() {
                carry += u32::from(*digit) << 8;
                *digit = (carry % 58) as u8;
                carry /= 58;
            }
        }
    });
    let mut text = SecretBytes::with_capacity(zeros + room)?;
    for _ in 0..zeros {
        text.push(BASE58[0])?;
    }
    for digit in digits.bytes().iter().skip_while(|digit| **digit == 0) {
        text.push(BASE58[usize::from(*digit)])?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(
        bytes: &[u8],
        encode: impl FnOnce(SecretSlice<'_>) -> Result<SecretBytes, LockError>,
    ) -> String {
        let encoded = encode(SecretSlice::new(bytes)).expect("memory");
        encoded.expose_secret(|text| String::from_utf8(text.to_vec())).expect("digits")
    }

    #[test]
    fn base64_of_rfc_4648_without_padding() {
        for (bytes, expected) in [
            ("", ""),
            ("foo", "Zm9v"),
            ("foob", "Zm9vY"),
            ("fooba", "Zm9vYm"),
            ("foobar", "Zm9vYmFy"),
        ] {
            assert_eq!(of(bytes.as_bytes(), |secret| base64(secret, 0, BASE64)), expected);
        }
        assert_eq!(of(&[0xfb, 0xff, 0xff], |secret| base64(secret, 0, BASE64)), "+///");
        assert_eq!(of(&[0xfb, 0xff, 0xff], |secret| base64(secret, 0, BASE64_URL)), "-___");
    }

    #[test]
    fn base64_at_every_offset_lies_in_the_encoding_of_the_whole() {
        let secret = [0x91, 0x03, 0xfe, 0x77, 0x20, 0xb8, 0x45, 0x0c, 0xdd];
        for before in 0..7 {
            for after in 0..4 {
                let whole = [vec![0xee; before], secret.to_vec(), vec![0xaa; after]].concat();
                let whole = of(&whole, |bytes| base64(bytes, 0, BASE64));
                let part = of(&secret, |bytes| base64(bytes, BASE64_SKIPS[before % 3], BASE64));
                assert!(part.len() >= 11 && whole.contains(&part), "{before} {after}");
            }
        }
    }

    #[test]
    fn base58_of_bitcoin_core() {
        // src/test/data/base58_encode_decode.json
        for (hex, expected) in [
            ("", ""),
            ("61", "2g"),
            ("626262", "a3gV"),
            ("73696d706c792061206c6f6e6720737472696e67", "2cFupjhnEsSn59qHXstmK2ffpLv2"),
            (
                "00eb15231dfceb60925886b67d065299925915aeb172c06647",
                "1NS17iag9jJgTHD1VXjvLCEnZuQ3rJDE9L",
            ),
            ("516b6fcd0f", "ABnLTmg"),
            ("00000000000000000000", "1111111111"),
        ] {
            let bytes: Vec<u8> = (0..hex.len() / 2)
                .map(|n| u8::from_str_radix(&hex[2 * n..2 * n + 2], 16).expect("hex"))
                .collect();
            assert_eq!(of(&bytes, base58), expected);
            assert_eq!(of(&bytes, |bytes| super::hex(bytes, b"0123456789abcdef")), hex);
        }
    }
}

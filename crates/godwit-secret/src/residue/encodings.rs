//! How secrets look when a program prints, stores or computes with them. The results are secrets too:
//! they are made in locked memory.

use crate::bytes::SecretBytes;
use crate::error::LockError;
use crate::slice::SecretSlice;

/// What is searched for has at least this many bytes: less is found by chance.
pub(super) const SHORTEST: usize = 8;

const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const BASE64_URL: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const BASE58: &[u8; 58] = b"123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz";
/// Bits of the secret in front of the first digit that is made of them alone, when 0, 1 or 2 bytes
/// modulo 3 stand before the secret in what is encoded.
const BASE64_SKIPS: [usize; 3] = [0, 4, 2];

/// Big-endian words that ciphers and hashes load: their names and bytes.
const WORDS: [(&str, usize); 2] = [("words of 4", 4), ("words of 8", 8)];

/// What HMAC combines its key with (RFC 2104). The key itself need not stand anywhere for long; this does.
const HMAC_PADS: [u8; 2] = [0x36, 0x5c];

/// All forms of `secret` that a scan looks for unasked, by name.
pub(super) fn all(secret: SecretSlice<'_>) -> Result<Vec<(&'static str, SecretBytes)>, LockError> {
    let mut forms = vec![
        ("raw", SecretBytes::copy_of(secret)?),
        ("hex", hex(secret, b"0123456789abcdef")?),
        ("hex", hex(secret, b"0123456789ABCDEF")?),
        ("decimal", decimal(secret)?),
        ("base58", base58(secret)?),
        ("reversed", words(secret, 0, secret.len())?),
    ];
    for (name, width) in WORDS {
        for skip in 0..width.min(secret.len()) {
            let form = words(secret, skip, width)?;
            if form.len() >= SHORTEST {
                forms.push((name, form));
            }
        }
    }
    for pad in HMAC_PADS {
        let padded = with_pad(secret, pad)?;
        for (name, width) in [("pad of HMAC in words of 4", 4), ("pad of HMAC in words of 8", 8)] {
            forms.push((name, words((&padded).into(), 0, width)?));
        }
        forms.push(("pad of HMAC", padded));
    }
    for alphabet in [BASE64, BASE64_URL] {
        for skip in BASE64_SKIPS {
            forms.push(("base64", base64(secret, skip, alphabet)?));
        }
    }
    Ok(forms)
}

fn hex(secret: SecretSlice<'_>, digits: &[u8; 16]) -> Result<SecretBytes, LockError> {
    let bytes = secret.bare_bytes();
    let mut text = SecretBytes::with_capacity(2 * bytes.len())?;
    for byte in bytes {
        text.push(digits[usize::from(byte >> 4)])?;
        text.push(digits[usize::from(byte & 15)])?;
    }
    Ok(text)
}

/// As `Debug` prints bytes, without the brackets.
fn decimal(secret: SecretSlice<'_>) -> Result<SecretBytes, LockError> {
    let mut text = SecretBytes::with_capacity(5 * secret.len())?;
    for (index, byte) in secret.bare_bytes().iter().enumerate() {
        text.extend_from_slice(if index == 0 { b"" } else { b", " })?;
        for power in [100, 10, 1] {
            if *byte >= power || power == 1 {
                text.push(b'0' + byte / power % 10)?;
            }
        }
    }
    Ok(text)
}

/// The whole words of `width` bytes behind the first `skip` bytes, each turned around: what a
/// little-endian machine makes of big-endian words. In one word, it is how libsecp256k1 keeps a key
/// (`secp256k1_scalar`); in many, the message schedule of SHA-2.
fn words(secret: SecretSlice<'_>, skip: usize, width: usize) -> Result<SecretBytes, LockError> {
    let whole = secret.bare_bytes()[skip..].chunks_exact(width.max(1));
    let mut turned = SecretBytes::with_capacity(secret.len())?;
    for byte in whole.flat_map(|word| word.iter().rev()) {
        turned.push(*byte)?;
    }
    Ok(turned)
}

/// The secret as HMAC's key, up to the end of the key.
fn with_pad(secret: SecretSlice<'_>, pad: u8) -> Result<SecretBytes, LockError> {
    SecretBytes::from_fn_in_place(secret.len(), |padded| {
        for (padded, byte) in padded.iter_mut().zip(secret.bare_bytes()) {
            *padded = byte ^ pad;
        }
    })
}

/// The digits that are made of bits of the secret alone, without padding, after `skip` bits.
fn base64(
    secret: SecretSlice<'_>,
    skip: usize,
    alphabet: &[u8; 64],
) -> Result<SecretBytes, LockError> {
    let bytes = secret.bare_bytes();
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
    let bytes = secret.bare_bytes();
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
    for digit in digits.bare_bytes().iter().skip_while(|digit| **digit == 0) {
        text.push(BASE58[usize::from(*digit)])?;
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Declassified;

    fn of(
        bytes: &[u8],
        encode: impl FnOnce(SecretSlice<'_>) -> Result<SecretBytes, LockError>,
    ) -> String {
        let encoded = encode(SecretSlice::new(bytes)).expect("memory");
        encoded
            .expose_secret(|text| Declassified(String::from_utf8(text.to_vec())))
            .0
            .expect("digits")
    }

    #[test]
    fn bytes_as_debug_prints_them() {
        for bytes in [&[][..], &[7], &[0, 9, 10, 99, 100, 109, 255]] {
            assert_eq!(format!("[{}]", of(bytes, decimal)), format!("{bytes:?}"));
        }
    }

    #[test]
    fn words_at_every_offset_lie_in_the_words_of_the_whole() {
        let secret: Vec<u8> = (0x21..0x41).collect();
        for (_, width) in WORDS {
            for before in 0..2 * width {
                let mut whole = [vec![0xee; before], secret.clone(), vec![0xaa; 16]].concat();
                for word in whole.chunks_exact_mut(width) {
                    word.reverse();
                }
                let skip = before.next_multiple_of(width) - before;
                let part = words(SecretSlice::new(&secret), skip, width).expect("memory");
                assert!(part.len() > secret.len() - 2 * width);
                let lies = |part: &[u8]| whole.windows(part.len()).any(|window| window == part);
                assert!(part.expose_secret(lies), "{before} {width}");
            }
        }
    }

    #[test]
    fn a_form_too_short_to_be_told_from_chance_is_left_out() {
        for len in SHORTEST..40 {
            let forms = all(SecretSlice::new(&vec![0xa5; len])).expect("memory");
            let short = forms.iter().filter(|(_, form)| form.len() < SHORTEST);
            assert_eq!(short.map(|(name, _)| *name).next(), None, "{len}");
        }
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

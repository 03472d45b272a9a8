//! Strict DER, the only form of an ECDSA signature since BIP66.

/// r and s of a signature in strict DER, without the byte of the hash type: `None` for any other encoding
/// (Core's `IsValidSignatureEncoding`, whose conditions these are), and for numbers of more than 32 bytes.
///
/// Zero is a number, and so is what is not below n; [`crate::Check::Ecdsa`] is then not proven.
pub fn parse_strict_der(signature: &[u8]) -> Option<[u8; 64]> {
    let [0x30, length, content @ ..] = signature else { return None };
    if usize::from(*length) != content.len() {
        return None;
    }
    let (r, rest) = integer(content)?;
    let (s, rest) = integer(rest)?;
    let mut numbers = [0; 64];
    numbers[32 - r.len()..32].copy_from_slice(r);
    numbers[64 - s.len()..].copy_from_slice(s);
    rest.is_empty().then_some(numbers)
}

/// The digits of a positive integer, at most 32 bytes, and what follows it.
fn integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x02, length, rest @ ..] = bytes else { return None };
    let (number, rest) = rest.split_at_checked(usize::from(*length))?;
    let digits = match number {
        // A zero in front is only there to keep a number positive, or is the number.
        [0, second, ..] if *second < 0x80 => return None,
        [0, digits @ ..] => digits,
        [first, ..] if *first < 0x80 => number,
        _ => return None,
    };
    (digits.len() <= 32).then_some((digits, rest))
}

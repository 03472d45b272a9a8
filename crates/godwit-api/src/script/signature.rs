//! Recognises pushes that look like signatures: strict DER (BIP66) followed by a hash type.

/// The name of a signature's hash type; `None` where the bytes are no signature.
pub(super) fn hash_type_of(bytes: &[u8]) -> Option<&'static str> {
    let (hash_type, der) = bytes.split_last()?;
    let name = match hash_type {
        0x01 => "ALL",
        0x02 => "NONE",
        0x03 => "SINGLE",
        0x81 => "ALL|ANYONECANPAY",
        0x82 => "NONE|ANYONECANPAY",
        0x83 => "SINGLE|ANYONECANPAY",
        _ => return None,
    };
    is_strict_der(der).then_some(name)
}

fn is_strict_der(der: &[u8]) -> bool {
    let [0x30, length, rest @ ..] = der else { return false };
    if !(8..=72).contains(&der.len()) || usize::from(*length) != rest.len() {
        return false;
    }
    let Some((_, rest)) = integer(rest) else { return false };
    integer(rest).is_some_and(|(_, rest)| rest.is_empty())
}

/// A positive integer without needless zeros, and what follows.
fn integer(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let [0x02, length, rest @ ..] = bytes else { return None };
    let (digits, rest) = rest.split_at_checked(usize::from(*length))?;
    match digits {
        [] => None,
        [first, ..] if first & 0x80 != 0 => None,
        [0, second, ..] if second & 0x80 == 0 => None,
        _ => Some((digits, rest)),
    }
}

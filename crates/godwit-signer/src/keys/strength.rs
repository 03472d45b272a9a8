//! How hard a passphrase is to guess, at best.

/// Tells whether a character is of a kind.
type IsOf = fn(char) -> bool;

/// Bits of a passphrase whose characters were all chosen at random. One that repeats the character before it
/// or goes on from it (`aaa`, `1234`) counts for nothing. Words and names are worth far less than this says.
pub(super) fn bits_at_best(text: &str) -> u32 {
    let kinds: [(IsOf, f64); 5] = [
        (|c| c.is_ascii_lowercase(), 26.0),
        (|c| c.is_ascii_uppercase(), 26.0),
        (|c| c.is_ascii_digit(), 10.0),
        (|c| c.is_ascii() && !c.is_ascii_alphanumeric(), 33.0),
        (|c| !c.is_ascii(), 100.0),
    ];
    let used = kinds.iter().filter(|(is_of, _)| text.chars().any(is_of));
    let alphabet: f64 = used.map(|(_, size)| size).sum();
    let goes_on = |before: char, next: char| u32::from(next).abs_diff(u32::from(before)) <= 1;
    let mut before = None;
    let mut counted = 0u32;
    for next in text.chars() {
        counted += u32::from(!before.is_some_and(|before| goes_on(before, next)));
        before = Some(next);
    }
    (f64::from(counted) * alphabet.max(1.0).log2()) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_follow_length_and_kinds() {
        for (text, bits) in [
            ("", 0),
            ("a", 4),
            ("aaaaaaaa", 4),
            ("12345678", 3),
            ("hello", 18),
            ("gbzq", 18),
            ("gBzQ", 22),
            ("gB7!", 26),
            ("é", 6),
        ] {
            assert_eq!(bits_at_best(text), bits, "{text}");
        }
    }
}

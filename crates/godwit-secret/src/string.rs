//! A secret that is text: passphrases, mnemonics, encoded keys.

use std::error::Error;
use std::fmt;
use std::str;

use crate::bytes::SecretBytes;
use crate::error::LockError;
use crate::releasable::Releasable;
use crate::slice::SecretSlice;

/// UTF-8 in locked memory; otherwise as [`SecretBytes`].
#[derive(Default, PartialEq, Eq)]
pub struct SecretString {
    /// Always UTF-8.
    bytes: SecretBytes,
}

/// Bytes that are no text. It tells where, and keeps nothing of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotUtf8 {
    /// How many bytes at the start are text.
    pub valid_up_to: usize,
}

impl fmt::Display for NotUtf8 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "not UTF-8 behind byte {}", self.valid_up_to)
    }
}

impl Error for NotUtf8 {}

impl SecretString {
    /// No text, no memory.
    pub const fn new() -> Self {
        Self { bytes: SecretBytes::new() }
    }

    /// No text, with room for `n` bytes.
    pub fn with_capacity(n: usize) -> Result<Self, LockError> {
        Ok(Self { bytes: SecretBytes::with_capacity(n)? })
    }

    /// The same memory, checked to be text. Other bytes are wiped.
    pub fn from_utf8(bytes: SecretBytes) -> Result<Self, NotUtf8> {
        match str::from_utf8(bytes.bare_bytes()) {
            Ok(_) => Ok(Self { bytes }),
            Err(error) => Err(NotUtf8 { valid_up_to: error.valid_up_to() }),
        }
    }

    /// A copy of `plain`, which is wiped over its whole capacity and left empty, also when there is no
    /// memory for the secret.
    pub fn from_plain_and_wipe(plain: &mut String) -> Result<Self, LockError> {
        let mut bytes = std::mem::take(plain).into_bytes();
        let capacity = bytes.capacity();
        let secret = SecretBytes::from_plain_and_wipe(&mut bytes);
        // What an earlier, longer text left behind the present one.
        bytes.resize(capacity, 0);
        crate::cleanse(&mut bytes);
        Ok(Self { bytes: secret? })
    }

    /// Appends text that is no secret, or that a closure was shown.
    pub fn push_str(&mut self, text: &str) -> Result<(), LockError> {
        self.bytes.extend_from_slice(text.as_bytes())
    }

    /// Appends one character.
    pub fn push(&mut self, character: char) -> Result<(), LockError> {
        let mut encoded = [0; 4];
        let outcome = self.push_str(character.encode_utf8(&mut encoded));
        crate::cleanse(&mut encoded);
        outcome
    }

    /// The same memory as bytes.
    pub fn into_bytes(self) -> SecretBytes {
        self.bytes
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A part, in bytes; `None` when the range reaches over the end or cuts a character.
    pub fn get(&self, range: std::ops::Range<usize>) -> Option<SecretSlice<'_>> {
        self.text().get(range).map(|part| SecretSlice::new(part.as_bytes()))
    }

    /// Shows the text to `f`, which changes nothing that it captures.
    #[inline]
    pub fn expose_secret<R: Releasable>(&self, f: impl Fn(&str) -> R + Sync) -> R {
        f(self.text())
    }

    /// The same, with a place `to` that `f` writes into: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_into<D: Releasable, R: Releasable>(
        &self,
        to: D,
        f: impl Fn(&str, D) -> R + Sync,
    ) -> R {
        f(self.text(), to)
    }

    pub(crate) fn bare_bytes(&self) -> &[u8] {
        self.bytes.bare_bytes()
    }

    fn text(&self) -> &str {
        str::from_utf8(self.bytes.bare_bytes()).expect("only text gets in")
    }
}

impl fmt::Debug for SecretString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretString([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Declassified;

    #[test]
    fn text_comes_in_and_bytes_that_are_none_do_not() {
        let mut secret = SecretString::new();
        secret.push_str("größe").expect("memory");
        secret.push('€').expect("memory");
        assert_eq!(secret.expose_secret(|text| Declassified(text.to_owned())).0, "größe€");
        assert_eq!(secret.len(), 10);
        let mut bytes = secret.into_bytes();
        bytes.truncate(9);
        assert_eq!(SecretString::from_utf8(bytes), Err(NotUtf8 { valid_up_to: 7 }));
    }

    #[test]
    fn parts_do_not_cut_characters() {
        let mut secret = SecretString::with_capacity(3).expect("memory");
        secret.push_str("aßß").expect("memory");
        assert_eq!(secret.get(1..3), secret.get(3..5));
        assert_ne!(secret.get(0..1), secret.get(1..3));
        assert_eq!((secret.get(1..2), secret.get(4..6)), (None, None));
    }

    #[test]
    fn a_plain_source_is_taken() {
        let mut plain = String::from("hunter2");
        let secret = SecretString::from_plain_and_wipe(&mut plain).expect("memory");
        assert_eq!((plain.as_str(), plain.capacity()), ("", 0));
        assert_eq!(secret.expose_secret(|text| Declassified(text.to_owned())).0, "hunter2");
        assert_eq!(format!("{secret:?}"), "SecretString([redacted])");
        assert!(!secret.is_empty());
    }
}

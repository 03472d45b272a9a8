//! A secret to be searched for, in the forms in which it may lie in memory.

use std::error::Error;
use std::fmt;

use super::encodings;
use crate::bytes::SecretBytes;
use crate::random::RandomError;
use crate::slice::SecretSlice;

/// What is searched for has at least this many bytes: less is found by chance.
pub(super) const SHORTEST: usize = 8;

/// A secret to be searched for. It is kept masked: a scan does not find the needle itself.
#[derive(Debug)]
pub struct Needle {
    pub(super) name: String,
    pub(super) forms: Vec<Form>,
}

/// One form of a needle: `masked` XOR `mask`.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) name: String,
    pub(super) masked: SecretBytes,
    pub(super) mask: SecretBytes,
}

/// Why a needle cannot be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NeedleError {
    /// A form of less than eight bytes would be found by chance.
    TooShort {
        /// Its bytes.
        len: usize,
    },
    /// There is no locked memory for it.
    Memory(RandomError),
}

impl fmt::Display for NeedleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { len } => {
                write!(f, "a secret of {len} bytes is found by chance; {SHORTEST} are needed")
            }
            Self::Memory(error) => error.fmt(f),
        }
    }
}

impl Error for NeedleError {}

impl From<RandomError> for NeedleError {
    fn from(error: RandomError) -> Self {
        Self::Memory(error)
    }
}

impl Needle {
    /// `secret` as it is, in hex, as `Debug` prints bytes, in base58 and in base64 at every offset; and
    /// turned around, as a whole and in words of four and eight bytes, as libraries compute with it.
    pub fn new<'a>(name: &str, secret: impl Into<SecretSlice<'a>>) -> Result<Self, NeedleError> {
        let mut needle = Self { name: name.to_owned(), forms: Vec::new() };
        let forms = encodings::all(secret.into()).map_err(RandomError::Memory)?;
        for (name, form) in &forms {
            needle = needle.form(name, form)?;
        }
        Ok(needle)
    }

    /// `secret` as it is, and in no other form.
    pub fn raw<'a>(name: &str, secret: impl Into<SecretSlice<'a>>) -> Result<Self, NeedleError> {
        Self { name: name.to_owned(), forms: Vec::new() }.form("raw", secret)
    }

    /// Adds another form: an extended key, mnemonic words, a key schedule. One that is known is not
    /// added again.
    pub fn form<'a>(
        mut self,
        name: &str,
        bytes: impl Into<SecretSlice<'a>>,
    ) -> Result<Self, NeedleError> {
        let bytes = bytes.into();
        if bytes.len() < SHORTEST {
            return Err(NeedleError::TooShort { len: bytes.len() });
        }
        if !self.forms.iter().any(|form| form.equals(bytes.bytes())) {
            self.forms.push(Form::new(name, bytes)?);
        }
        Ok(self)
    }
}

impl Form {
    fn new(name: &str, bytes: SecretSlice<'_>) -> Result<Self, RandomError> {
        let mask = SecretBytes::random(bytes.len())?;
        let masked = SecretBytes::from_fn_in_place(bytes.len(), |masked| {
            for ((masked, byte), mask) in masked.iter_mut().zip(bytes.bytes()).zip(mask.bytes()) {
                *masked = byte ^ mask;
            }
        })?;
        Ok(Self { name: name.to_owned(), masked, mask })
    }

    pub(super) fn len(&self) -> usize {
        self.mask.len()
    }

    /// The bytes one by one, so that they are nowhere together.
    pub(super) fn bytes(&self) -> impl Iterator<Item = u8> {
        self.masked.bytes().iter().zip(self.mask.bytes()).map(|(masked, mask)| masked ^ mask)
    }

    fn equals(&self, bytes: &[u8]) -> bool {
        self.len() == bytes.len() && self.is_at_start_of(bytes)
    }

    #[inline]
    pub(super) fn is_at_start_of(&self, bytes: &[u8]) -> bool {
        bytes.len() >= self.len() && self.bytes().zip(bytes).all(|(own, byte)| own == *byte)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_are_kept_once_and_masked() {
        let secret = SecretBytes::from_fn_in_place(9, |bytes| bytes.copy_from_slice(b"ABCABCABC"));
        let secret = secret.expect("memory");
        let needle = Needle::new("key", &secret).expect("memory");
        // Hex without letters is one form, and base64 of letters is the same in both alphabets. Eight
        // bytes are left of two offsets of words.
        let names: Vec<&str> = needle.forms.iter().map(|form| form.name.as_str()).collect();
        let texts = ["raw", "hex", "decimal", "base58", "reversed"];
        let words = ["words of 4", "words of 4", "words of 8", "words of 8"];
        assert_eq!(names, [&texts[..], &words, &["base64"; 3]].concat());
        let needle = needle.form("again", &secret).expect("memory");
        assert_eq!(needle.forms.len(), 12);
        let raw = &needle.forms[0];
        assert!(raw.bytes().eq(*b"ABCABCABC"));
        assert_ne!(raw.masked, secret);
        assert_ne!(raw.mask, secret);
        assert!(!format!("{needle:?}").contains("ABC"));
    }

    #[test]
    fn short_ones_are_refused() {
        let seven = SecretBytes::random(7).expect("memory");
        let eight = SecretBytes::random(8).expect("memory");
        assert_eq!(Needle::raw("x", &seven).map(|_| ()), Err(NeedleError::TooShort { len: 7 }));
        assert_eq!(Needle::raw("x", &eight).map(|_| ()), Ok(()));
    }
}

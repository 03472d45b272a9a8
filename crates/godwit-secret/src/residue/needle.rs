//! A secret to be searched for, in the forms in which it may lie in memory.

use std::error::Error;
use std::fmt;
use std::ops::Range;

use super::encodings::{self, SHORTEST};
use crate::bytes::SecretBytes;
use crate::random::RandomError;
use crate::releasable::Releasable;
use crate::slice::SecretSlice;

/// A part of a form is told from this many bytes on. It is what an allocator that writes over the first 16
/// bytes of a freed block leaves of a key of 32.
pub const SHORTEST_PART: usize = 16;
/// Of these, so many say something: neither zeros, which memory is full of, nor what stands between numbers
/// and words.
const TELLING: usize = 12;

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
    /// Parts count as far as they lie behind so many bytes, which are no secret.
    public: usize,
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

impl Releasable for NeedleError {}

impl Releasable for Needle {}

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

    /// `secret` as it is, and in no other form; parts of it count too.
    pub fn raw<'a>(name: &str, secret: impl Into<SecretSlice<'a>>) -> Result<Self, NeedleError> {
        Self { name: name.to_owned(), forms: Vec::new() }.form("raw", secret)
    }

    /// `secret` as it is and whole, because its parts are no secrets or have needles of their own.
    pub fn whole<'a>(name: &str, secret: impl Into<SecretSlice<'a>>) -> Result<Self, NeedleError> {
        let secret = secret.into();
        Self { name: name.to_owned(), forms: Vec::new() }.form_behind(name, secret, secret.len())
    }

    /// The same, whole alone: of what a person has made up, a part may be ordinary words.
    #[must_use]
    pub fn without_parts(mut self) -> Self {
        self.forms.iter_mut().for_each(|form| form.public = form.len());
        self
    }

    /// Adds another form: mnemonic words, a key schedule. One that is known is not added again.
    pub fn form<'a>(
        self,
        name: &str,
        bytes: impl Into<SecretSlice<'a>>,
    ) -> Result<Self, NeedleError> {
        self.form_behind(name, bytes, 0)
    }

    /// As [`form`](Self::form), with `public` bytes at the start that others have too, like the first
    /// letters of an `xprv`: a part counts as far as it lies behind them.
    pub fn form_behind<'a>(
        mut self,
        name: &str,
        bytes: impl Into<SecretSlice<'a>>,
        public: usize,
    ) -> Result<Self, NeedleError> {
        let bytes = bytes.into();
        if bytes.len() < SHORTEST {
            return Err(NeedleError::TooShort { len: bytes.len() });
        }
        if !self.forms.iter().any(|form| form.equals(bytes.bare_bytes())) {
            self.forms.push(Form::new(name, bytes, public)?);
        }
        Ok(self)
    }
}

impl Form {
    fn new(name: &str, bytes: SecretSlice<'_>, public: usize) -> Result<Self, RandomError> {
        let mask = SecretBytes::random(bytes.len())?;
        let masked = SecretBytes::from_fn_in_place(bytes.len(), |masked| {
            for ((masked, byte), mask) in
                masked.iter_mut().zip(bytes.bare_bytes()).zip(mask.bare_bytes())
            {
                *masked = byte ^ mask;
            }
        })?;
        Ok(Self { name: name.to_owned(), public, masked, mask })
    }

    pub(super) fn len(&self) -> usize {
        self.mask.len()
    }

    /// One byte, so that the bytes are nowhere together.
    pub(super) fn byte(&self, at: usize) -> u8 {
        self.masked.bare_bytes()[at] ^ self.mask.bare_bytes()[at]
    }

    /// So many bytes as a number, up to eight.
    pub(super) fn anchor(&self, at: usize, width: usize) -> u64 {
        let bytes = (at..at + width).zip((0..).step_by(8));
        bytes.fold(0, |number, (at, shift)| number | u64::from(self.byte(at)) << shift)
    }

    fn equals(&self, bytes: &[u8]) -> bool {
        let equal = || bytes.iter().enumerate().all(|(at, byte)| self.byte(at) == *byte);
        self.len() == bytes.len() && equal()
    }

    /// The bytes of the form around `at` that stand in `text` around `offset`, by their places in the form.
    pub(super) fn run(&self, at: usize, text: &[u8], offset: usize) -> Range<usize> {
        let before = (1..=at.min(offset)).take_while(|n| self.byte(at - n) == text[offset - n]);
        let room = (self.len() - at).min(text.len() - offset);
        let behind = (0..room).take_while(|n| self.byte(at + n) == text[offset + n]);
        at - before.count()..at + behind.count()
    }

    /// Whether bytes that were found are the form or a part that is not found by chance.
    pub(super) fn tells(&self, run: &Range<usize>) -> bool {
        if *run == (0..self.len()) {
            return true;
        }
        let secret = run.start.max(self.public)..run.end;
        let says = |at: &usize| !matches!(self.byte(*at), 0 | b' ' | b',');
        secret.len() >= SHORTEST_PART && secret.filter(says).count() >= TELLING
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
        let pads = ["pad of HMAC in words of 4", "pad of HMAC in words of 8", "pad of HMAC"];
        let pads = [pads, pads].concat();
        assert_eq!(names, [&texts[..], &words, &pads, &["base64"; 3]].concat());
        let needle = needle.form("again", &secret).expect("memory");
        assert_eq!(needle.forms.len(), 18);
        let raw = &needle.forms[0];
        assert!(raw.equals(b"ABCABCABC"));
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

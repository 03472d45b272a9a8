//! A borrowed secret, so that one secret is appended to or compared with another without showing it.

use std::fmt;
use std::ops::Range;

use subtle::ConstantTimeEq;

use crate::{Releasable, SecretArray, SecretBytes, SecretString};

/// A part of a secret that lies in locked memory. Copying it copies the reference.
#[derive(Clone, Copy)]
pub struct SecretSlice<'a> {
    bytes: &'a [u8],
}

impl<'a> SecretSlice<'a> {
    /// For what lies in locked memory.
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number of bytes.
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// A part; `None` when the range reaches over the end.
    pub fn get(&self, range: Range<usize>) -> Option<Self> {
        self.bytes.get(range).map(Self::new)
    }

    /// Shows the bytes to `f`, which changes nothing that it captures.
    #[inline]
    pub fn expose_secret<R: Releasable>(&self, f: impl Fn(&[u8]) -> R + Sync) -> R {
        f(self.bytes)
    }

    /// The same, with a place `to` that `f` writes into: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_into<D: Releasable, R: Releasable>(
        &self,
        to: D,
        f: impl Fn(&[u8], D) -> R + Sync,
    ) -> R {
        f(self.bytes, to)
    }

    pub(crate) fn bare_bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> From<&'a SecretBytes> for SecretSlice<'a> {
    fn from(secret: &'a SecretBytes) -> Self {
        Self::new(secret.bare_bytes())
    }
}

impl<'a, const N: usize> From<&'a SecretArray<N>> for SecretSlice<'a> {
    fn from(secret: &'a SecretArray<N>) -> Self {
        Self::new(secret.bare_bytes())
    }
}

impl<'a> From<&'a SecretString> for SecretSlice<'a> {
    fn from(secret: &'a SecretString) -> Self {
        Self::new(secret.bare_bytes())
    }
}

impl PartialEq for SecretSlice<'_> {
    /// In constant time for secrets of one length; that lengths differ shows at once.
    fn eq(&self, other: &Self) -> bool {
        self.bytes.ct_eq(other.bytes).into()
    }
}

impl Eq for SecretSlice<'_> {}

impl fmt::Debug for SecretSlice<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretSlice([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_secrets() {
        let secret = SecretArray::<4>::from_fn_in_place(|bytes| *bytes = *b"abab").expect("memory");
        let whole = SecretSlice::from(&secret);
        assert_eq!(whole.get(0..2), whole.get(2..4));
        assert_ne!(whole.get(0..2), whole.get(1..3));
        assert_ne!(whole.get(0..2), whole.get(0..4));
        assert_eq!(whole.get(0..4), Some(whole));
        assert_eq!(whole.get(0..5), None);
        assert_eq!(SecretArray::<4>::copy_of(whole).expect("memory"), secret);
        assert_eq!(format!("{whole:?}"), "SecretSlice([redacted])");
    }
}

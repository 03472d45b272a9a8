//! A secret of a length that its type knows: keys, seeds, shared secrets.

use std::fmt;

use subtle::ConstantTimeEq;

use crate::block::Block;
use crate::error::LockError;
use crate::random::{RandomError, fill_random};
use crate::releasable::Releasable;
use crate::slice::SecretSlice;

/// `N` bytes in locked memory, wiped when they are dropped.
///
/// Secrets compare with each other in constant time and with nothing else. What shows them is
/// [`expose_secret`](Self::expose_secret), for as long as its closure runs.
pub struct SecretArray<const N: usize> {
    block: Block,
}

impl<const N: usize> SecretArray<N> {
    /// Zeros, to be overwritten.
    pub fn zeroed() -> Result<Self, LockError> {
        Ok(Self { block: Block::zeroed(N)? })
    }

    /// Random bytes of the operating system, written straight into locked memory.
    pub fn random() -> Result<Self, RandomError> {
        let mut secret = Self::zeroed()?;
        fill_random(secret.block.as_mut_slice())?;
        Ok(secret)
    }

    /// What `fill` makes of zeros, in place.
    pub fn from_fn_in_place(fill: impl Fn(&mut [u8; N]) + Sync) -> Result<Self, LockError> {
        let mut secret = Self::zeroed()?;
        secret.expose_secret_mut(fill);
        Ok(secret)
    }

    /// A copy of `plain`, which is wiped, also when there is no memory for the secret.
    pub fn from_plain_and_wipe(plain: &mut [u8; N]) -> Result<Self, LockError> {
        let secret = Self::from_fn_in_place(|bytes| bytes.copy_from_slice(plain));
        crate::cleanse(plain);
        secret
    }

    /// A copy of another secret or of a part of it.
    ///
    /// # Panics
    ///
    /// When that has another length.
    pub fn copy_of<'a>(secret: impl Into<SecretSlice<'a>>) -> Result<Self, LockError> {
        let secret = secret.into();
        Self::from_fn_in_place(|bytes| bytes.copy_from_slice(secret.bare_bytes()))
    }

    /// Shows the bytes to `f`, which changes nothing that it captures.
    #[inline]
    pub fn expose_secret<R: Releasable>(&self, f: impl Fn(&[u8; N]) -> R + Sync) -> R {
        self.expose_secret_into((), |bytes, ()| f(bytes))
    }

    /// The same, with a place `to` that `f` writes into: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_into<D: Releasable, R: Releasable>(
        &self,
        to: D,
        f: impl Fn(&[u8; N], D) -> R + Sync,
    ) -> R {
        f(self.block.as_slice().try_into().expect("the block has N bytes"), to)
    }

    /// Shows the bytes to `f`, which may change them, and nothing that it captures.
    #[inline]
    pub fn expose_secret_mut<R: Releasable>(&mut self, f: impl Fn(&mut [u8; N]) -> R + Sync) -> R {
        f(self.block.as_mut_slice().try_into().expect("the block has N bytes"))
    }

    pub(crate) fn bare_bytes(&self) -> &[u8] {
        self.block.as_slice()
    }
}

impl<const N: usize> PartialEq for SecretArray<N> {
    /// In constant time.
    fn eq(&self, other: &Self) -> bool {
        self.bare_bytes().ct_eq(other.bare_bytes()).into()
    }
}

impl<const N: usize> Eq for SecretArray<N> {}

impl<const N: usize> fmt::Debug for SecretArray<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SecretArray<{N}>([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Declassified;

    #[test]
    fn it_holds_what_was_put_in() {
        let secret =
            SecretArray::<3>::from_fn_in_place(|bytes| *bytes = [1, 2, 3]).expect("memory");
        assert_eq!(
            secret.expose_secret(|bytes| Declassified(bytes.map(u32::from).iter().sum::<u32>())).0,
            6
        );
        let mut zeros = SecretArray::<3>::zeroed().expect("memory");
        assert_eq!(zeros.expose_secret(|bytes| Declassified(*bytes)).0, [0; 3]);
        assert_ne!(zeros, secret);
        zeros.expose_secret_mut(|bytes| *bytes = [1, 2, 3]);
        assert_eq!(zeros, secret);
        zeros.expose_secret_mut(|bytes| bytes[2] ^= 0x80);
        assert_ne!(zeros, secret);
    }

    #[test]
    fn the_plain_source_is_wiped() {
        let mut plain = [7; 33];
        let secret = SecretArray::from_plain_and_wipe(&mut plain).expect("memory");
        assert_eq!(plain, [0; 33]);
        assert_eq!(secret.expose_secret(|bytes| Declassified(*bytes)).0, [7; 33]);
    }

    #[test]
    fn random_ones_differ_in_every_part() {
        let (a, b) = (SecretArray::<600>::random(), SecretArray::<600>::random());
        let (a, b) = (a.expect("memory"), b.expect("memory"));
        a.expose_secret(|a| {
            b.expose_secret(|b| {
                for (a, b) in a.chunks(30).zip(b.chunks(30)) {
                    assert_ne!(a, b);
                }
            });
        });
    }

    #[test]
    fn an_empty_one_is_a_secret_too() {
        assert_eq!(
            SecretArray::<0>::random().expect("memory"),
            SecretArray::zeroed().expect("memory")
        );
    }

    #[test]
    fn debug_tells_the_length_alone() {
        let secret = SecretArray::<32>::random().expect("memory");
        assert_eq!(format!("{secret:?}"), "SecretArray<32>([redacted])");
        assert_eq!(format!("{secret:#x?}"), "SecretArray<32>([redacted])");
    }
}

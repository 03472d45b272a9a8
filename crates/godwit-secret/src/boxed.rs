//! A value of any type in locked memory: the state of a library's cipher or hash.
//!
//! `unsafe` is here to place the value in raw memory. The fields are private to this module.

#![allow(unsafe_code)]

use std::fmt;
use std::marker::PhantomData;
use std::ptr::NonNull;

use crate::block::Block;
use crate::error::LockError;
use crate::releasable::Releasable;

/// A value in locked memory, wiped when it is dropped. What it owns elsewhere (by a `Vec`, say) is not
/// protected. In a child of `fork` its bytes are zeros, which `T` may not be: whoever forks must not
/// use it there, nor drop it.
pub struct SecretBox<T> {
    memory: Block,
    /// Bytes from the start of the memory to the value.
    offset: usize,
    value: PhantomData<T>,
}

impl<T> SecretBox<T> {
    /// Moves `value` into locked memory. A copy stays where it was: put a secret in with
    /// [`expose_secret_mut`](Self::expose_secret_mut), or on a secret stack.
    pub fn new(value: T) -> Result<Self, LockError> {
        let memory = Block::zeroed(size_of::<T>() + align_of::<T>() - 1)?;
        let offset = memory.start().align_offset(align_of::<T>());
        let this = Self { memory, offset, value: PhantomData };
        // SAFETY: valid for writes and aligned; there is no value yet that would have to be dropped.
        unsafe { this.place().write(value) }
        Ok(this)
    }

    /// Shows the value to `f`, which changes nothing that it captures.
    #[inline]
    pub fn expose_secret<R: Releasable>(&self, f: impl Fn(&T) -> R + Sync) -> R {
        // SAFETY: `new` has put a value there, which is borrowed as long as `self`; nothing makes a
        // slice of these bytes.
        f(unsafe { self.place().as_ref() })
    }

    /// Shows the value to `f`, which may change it, and nothing that it captures.
    #[inline]
    pub fn expose_secret_mut<R: Releasable>(&mut self, f: impl Fn(&mut T) -> R + Sync) -> R {
        self.expose_secret_mut_into((), |value, ()| f(value))
    }

    /// The same, with a place `to` that `f` writes into: another secret, or
    /// [`Unprotected`](crate::Unprotected).
    #[inline]
    pub fn expose_secret_mut_into<D: Releasable, R: Releasable>(
        &mut self,
        to: D,
        f: impl Fn(&mut T, D) -> R + Sync,
    ) -> R {
        // SAFETY: `new` has put a value there, which is borrowed exclusively as long as `self`.
        f(unsafe { self.place().as_mut() }, to)
    }

    /// Where the value lies, aligned and with room for it.
    fn place(&self) -> NonNull<T> {
        let fits = self.memory.len().checked_sub(self.offset).is_some_and(|n| n >= size_of::<T>());
        assert!(fits, "the block is larger by the largest offset");
        // SAFETY: the offset lies inside the block, or at its end for a type without bytes.
        unsafe { self.memory.start().add(self.offset).cast() }
    }
}

impl<T> Drop for SecretBox<T> {
    fn drop(&mut self) {
        // SAFETY: the value is dropped once, and not used after.
        unsafe { self.place().drop_in_place() }
    }
}

impl<T> fmt::Debug for SecretBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretBox([redacted])")
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ptr;
    use std::sync::Arc;

    use super::*;
    use crate::{Declassified, process_pool};

    #[repr(align(64))]
    struct Wide([u8; 65]);

    #[test]
    fn values_lie_aligned_in_the_pool() {
        let mut boxes = Vec::new();
        for n in 0..20 {
            boxes.push(SecretBox::new(Wide([n; 65])).expect("memory"));
        }
        for (n, secret) in boxes.iter_mut().enumerate() {
            secret.expose_secret_mut(|wide| wide.0[64] = 0xff);
            secret.expose_secret(|wide| {
                let address = ptr::from_ref(wide).addr();
                assert_eq!(address % 64, 0);
                assert!(process_pool().contains(address) && process_pool().contains(address + 127));
                assert_eq!((wide.0[0], wide.0[63], wide.0[64]), (n as u8, n as u8, 0xff));
            });
        }
    }

    #[test]
    fn a_value_is_dropped_once() {
        let counter = Arc::new(());
        let mut secret = SecretBox::new(Some(Arc::clone(&counter))).expect("memory");
        assert_eq!(Arc::strong_count(&counter), 2);
        secret.expose_secret_mut(|value| *value = None);
        assert_eq!(Arc::strong_count(&counter), 1);
        secret.expose_secret_mut(|value| *value = Some(Arc::clone(&counter)));
        drop(secret);
        assert_eq!(Arc::strong_count(&counter), 1);
        assert!(SecretBox::new(()).is_ok(), "nothing takes no memory");
    }

    #[test]
    fn a_value_may_change_itself() {
        let secret = SecretBox::new(Cell::new(1)).expect("memory");
        secret.expose_secret(|cell| cell.set(cell.get() + 1));
        assert_eq!(secret.expose_secret(|cell| Declassified(cell.get())).0, 2);
    }

    #[test]
    fn debug_tells_nothing() {
        let secret = SecretBox::new([7u8; 3]).expect("memory");
        assert_eq!(format!("{secret:?}"), "SecretBox([redacted])");
    }
}

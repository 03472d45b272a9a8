//! An owned piece of the process' locked memory, behind safe borrows.
//!
//! `unsafe` is here to turn the pool's addresses into slices. The fields are private to this module.

#![allow(unsafe_code)]

use std::ptr::NonNull;
use std::slice;

use crate::arena::process_pool;
use crate::error::LockError;

/// Bytes in locked memory, zero at first, wiped when they are dropped. It has no `Debug`: what owns it
/// prints something harmless.
pub(crate) struct Block {
    memory: NonNull<u8>,
    len: usize,
}

// SAFETY: the chunk belongs to the block alone, in whatever thread that is.
unsafe impl Send for Block {}
// SAFETY: a shared block gives nothing but shared slices.
unsafe impl Sync for Block {}

impl Block {
    /// Owns nothing.
    pub(crate) const EMPTY: Self = Self { memory: NonNull::dangling(), len: 0 };

    pub(crate) fn zeroed(len: usize) -> Result<Self, LockError> {
        let memory = process_pool().allocate(len)?;
        Ok(Self { memory: memory.cast(), len })
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first byte; for writes as well where nothing borrows the slices.
    #[inline]
    pub(crate) fn start(&self) -> NonNull<u8> {
        self.memory
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        // SAFETY: `len` initialised bytes that belong to this block until it is dropped; for 0 any
        // non-null address will do.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: as above, borrowed exclusively.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: the pool gave out this address for this length, and the borrows of it have ended.
        unsafe { process_pool().free(self.memory, self.len) }
    }
}

//! Overwriting memory so that no optimiser removes it.
//!
//! `unsafe` is here for an empty `asm!` block that claims to read the memory: to the compiler the
//! zeros are then observed, so the `memset` before it stays (Bitcoin Core `support/cleanse.cpp`).

#![allow(unsafe_code)]

use std::arch::asm;
use std::ptr::{self, NonNull};

/// Overwrites `bytes` with zeros, also when nothing reads them afterwards.
#[inline]
pub fn cleanse(bytes: &mut [u8]) {
    // SAFETY: the bytes are borrowed exclusively, and zero is a byte.
    unsafe { cleanse_raw(NonNull::from(&mut *bytes).cast(), bytes.len()) }
}

/// Overwrites `len` bytes at `memory` with zeros.
///
/// # Safety
///
/// The bytes are valid for writes, and zeros are valid for whatever reads them next.
#[inline]
pub(crate) unsafe fn cleanse_raw(memory: NonNull<u8>, len: usize) {
    // SAFETY: the caller's promise; the assembly is empty, its operand and the memory clobber that is
    // asm's default are what keep the writes alive.
    unsafe {
        ptr::write_bytes(memory.as_ptr(), 0, len);
        asm!("/* {0} */", in(reg) memory.as_ptr(), options(nostack, preserves_flags));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wipes_the_bytes_it_is_given_and_no_other() {
        let mut bytes = [0xa5u8; 67];
        cleanse(&mut bytes[1..66]);
        assert_eq!((bytes[0], bytes[66]), (0xa5, 0xa5));
        assert_eq!(bytes[1..66], [0; 65]);
        cleanse(&mut []);
    }
}

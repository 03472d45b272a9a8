//! Memory outside of the heap for a search: memory that the search took from the heap could overwrite what
//! others have freed, before that is searched.
//!
//! `unsafe` is here because pages become a slice of values.

#![allow(unsafe_code)]

use std::io::{self, Read};
use std::ops::{Deref, DerefMut};
use std::ptr::{self, NonNull};
use std::slice;

use crate::cleanse::cleanse_raw;
use crate::pages::page_size;

/// Values in pages of their own, up to a number that is fixed before. Nothing keeps them from swap or dumps.
#[derive(Debug)]
pub(super) struct Scratch<T: Copy> {
    start: NonNull<T>,
    /// Bytes of the mapping.
    mapped: usize,
    capacity: usize,
    len: usize,
}

// SAFETY: it owns its values, as a vector does, and a shared reference to it only reads them.
unsafe impl<T: Copy + Sync> Sync for Scratch<T> {}

impl<T: Copy> Scratch<T> {
    /// Pages are taken from the system only as they are filled.
    pub(super) fn with_capacity(capacity: usize) -> io::Result<Self> {
        assert!(align_of::<T>() <= page_size(), "pages are aligned to pages");
        let mapped = capacity.saturating_mul(size_of::<T>()).max(1);
        let access = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: a new anonymous mapping, at an address of the kernel's choice.
        let start = unsafe { libc::mmap(ptr::null_mut(), mapped, access, flags, -1, 0) };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).expect("a mapping is not at address 0");
        Ok(Self { start, mapped, capacity, len: 0 })
    }

    /// Adds all values, or none if there is no room for all.
    pub(super) fn extend(&mut self, values: &[T]) -> io::Result<()> {
        if self.capacity - self.len < values.len() {
            return Err(io::ErrorKind::OutOfMemory.into());
        }
        // SAFETY: there is room for the values, and nothing of them lies in this mapping.
        unsafe {
            let end = self.start.add(self.len).as_ptr();
            ptr::copy_nonoverlapping(values.as_ptr(), end, values.len());
        }
        self.len += values.len();
        Ok(())
    }
}

impl Scratch<u8> {
    /// Reads everything from `source`.
    pub(super) fn read(capacity: usize, mut source: impl Read) -> io::Result<Self> {
        let mut all = Self::with_capacity(capacity)?;
        let mut some = [0; 4096];
        loop {
            match source.read(&mut some)? {
                0 => return Ok(all),
                count => all.extend(&some[..count])?,
            }
        }
    }
}

impl<T: Copy> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: so many values were written.
        unsafe { slice::from_raw_parts(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: so many values were written, and they are borrowed alone.
        unsafe { slice::from_raw_parts_mut(self.start.as_ptr(), self.len) }
    }
}

impl<T: Copy> Drop for Scratch<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping that was made, to which no slice is left.
        let outcome = unsafe {
            cleanse_raw(self.start.cast(), self.len * size_of::<T>());
            libc::munmap(self.start.as_ptr().cast(), self.mapped)
        };
        debug_assert_eq!(outcome, 0, "a mapping of ours can be unmapped");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_holds_what_it_has_room_for() {
        let mut numbers = Scratch::with_capacity(3).expect("memory");
        assert!(numbers.is_empty());
        numbers.extend(&[3u64, 1]).expect("there is room");
        assert!(numbers.extend(&[7, 8]).is_err());
        numbers.extend(&[2]).expect("there is room");
        numbers.sort_unstable();
        assert_eq!(*numbers, [1, 2, 3]);
        let text = vec![7; 10_000];
        assert_eq!(*Scratch::read(10_000, &text[..]).expect("there is room"), text);
        assert!(Scratch::read(9_999, &text[..]).is_err());
        assert!(Scratch::<u8>::with_capacity(0).expect("memory").is_empty());
    }
}

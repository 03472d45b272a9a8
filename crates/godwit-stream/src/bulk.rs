//! The byte buffer under [`crate::DataStream`]: bulk writes, and reads into memory that nobody
//! zeroed.
//!
//! `unsafe` is here for two reasons. `allocator_api2`'s `extend_from_slice` clones element by element
//! (about ten times slower than a copy; the standard vector has a specialisation that a library
//! cannot have), and spare capacity can be filled from a socket or file without zeroing only through
//! `MaybeUninit`. The fields are private to this module, so nothing outside can break what the safety
//! comments rely on.

#![allow(unsafe_code)]

use std::io;
use std::mem::MaybeUninit;
use std::{ptr, slice};

use crate::{Allocator, SerializeData};

/// How much is read, and by how much capacity grows at least, in one step: what a peer that
/// announces much and sends nothing can make us allocate.
pub(crate) const READ_STEP: usize = 256 * 1024;

/// A byte vector that knows how far its memory was ever written.
pub(crate) struct Buffer<A: Allocator> {
    data: SerializeData<A>,
    /// The first `initialised` bytes of the present allocation hold values, whatever the length is;
    /// it may lag behind the length.
    initialised: usize,
}

impl<A: Allocator> Buffer<A> {
    pub(crate) const fn new(data: SerializeData<A>) -> Self {
        Self { data, initialised: 0 }
    }

    pub(crate) fn into_inner(self) -> SerializeData<A> {
        self.data
    }

    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.data
    }

    #[inline]
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.data
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.data.len()
    }

    #[inline]
    pub(crate) fn capacity(&self) -> usize {
        self.data.capacity()
    }

    pub(crate) fn allocator(&self) -> &A {
        self.data.allocator()
    }

    pub(crate) fn truncate(&mut self, len: usize) {
        self.initialised = self.initialised.max(self.data.len());
        self.data.truncate(len);
    }

    /// Makes room for `additional` bytes, at least doubling when it grows.
    #[inline]
    pub(crate) fn reserve(&mut self, additional: usize) {
        if additional > self.data.capacity() - self.data.len() {
            self.grow(additional);
        }
    }

    #[cold]
    fn grow(&mut self, additional: usize) {
        self.data.reserve(additional);
        // The vector promises to carry its elements over, not its spare capacity.
        self.initialised = self.data.len();
    }

    /// Appends `bytes` with one copy.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.reserve(bytes.len());
        let len = self.data.len();
        // SAFETY: `reserve` made room for `bytes.len()` bytes behind `len`, so the destination lies
        // inside the allocation. `bytes` cannot overlap it: `data` is borrowed exclusively. All bytes
        // up to the new length are initialised by then.
        unsafe {
            ptr::copy_nonoverlapping(bytes.as_ptr(), self.data.as_mut_ptr().add(len), bytes.len());
            self.data.set_len(len + bytes.len());
        }
    }

    /// Appends what `source` puts at the front of the spare capacity, of which it sees at most
    /// `limit` bytes.
    ///
    /// # Panics
    ///
    /// When `source` returns something else than the front of the buffer that it was given.
    pub(crate) fn fill<E>(
        &mut self,
        limit: usize,
        source: impl for<'b> FnOnce(&'b mut [MaybeUninit<u8>]) -> Result<&'b mut [u8], E>,
    ) -> Result<usize, E> {
        let len = self.data.len();
        // Safe code may store uninitialised values through `MaybeUninit`.
        self.initialised = len;
        let spare = self.data.spare_capacity_mut();
        let room = limit.min(spare.len());
        let start = spare.as_ptr().cast::<u8>();
        let filled = source(&mut spare[..room])?;
        let count = filled.len();
        assert!(
            count == 0 || (ptr::eq(filled.as_ptr(), start) && count <= room),
            "a source returns the front of the buffer that it was given"
        );
        // SAFETY: the spare capacity is borrowed for as long as `filled` lives, so a byte slice that
        // starts at its address and is no longer than it is that memory; being a `&mut [u8]`, it is
        // initialised. `count <= room` keeps the length within the capacity.
        unsafe { self.data.set_len(len + count) };
        Ok(count)
    }

    /// Appends the result of one `read` of at most `limit` bytes; 0 is the end of the source.
    ///
    /// `io::Read` needs initialised memory, so what was never written is zeroed first, each byte at
    /// most once in the life of the allocation.
    pub(crate) fn read(&mut self, limit: usize, source: &mut impl io::Read) -> io::Result<usize> {
        let len = self.data.len();
        let written = self.initialised.max(len);
        let spare = self.data.spare_capacity_mut();
        let room = limit.min(spare.len());
        if let Some(fresh) = spare[..room].get_mut(written - len..) {
            fresh.fill(MaybeUninit::new(0));
        }
        self.initialised = written.max(len + room);
        // SAFETY: `room` bytes behind `len` are inside the capacity, and were just zeroed or
        // initialised before; `data` is borrowed exclusively and not touched while `window` lives.
        let window = unsafe { slice::from_raw_parts_mut(self.data.as_mut_ptr().add(len), room) };
        let count = source.read(window)?;
        if count > room {
            return Err(io::ErrorKind::InvalidData.into());
        }
        // SAFETY: `count <= room`, and the window is initialised whatever `source` did.
        unsafe { self.data.set_len(len + count) };
        Ok(count)
    }

    /// How far the memory is known to be written.
    #[cfg(test)]
    pub(crate) fn initialised(&self) -> usize {
        self.initialised.max(self.data.len())
    }
}

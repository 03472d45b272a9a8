//! Locked memory as the allocator of a byte vector.
//!
//! `unsafe` is here because an allocator's interface is, and to make a vector over memory whose refusal
//! has been looked at: the vector itself would end the process.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::ptr::NonNull;

use allocator_api2::alloc::{AllocError, Allocator};
use godwit_stream::SerializeData;

use crate::arena::process_pool;
use crate::chunks::CHUNK_ALIGN;
use crate::error::LockError;

/// The process' locked memory. Growing is left to [`Allocator`]'s own way, allocate, copy, free: the
/// old memory is wiped when it is freed.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SecretAllocator;

// SAFETY: memory comes from the one pool of the process and goes back to it with the same size, so it
// is valid until then; copies of a value without fields are interchangeable.
unsafe impl Allocator for SecretAllocator {
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        if layout.align() > CHUNK_ALIGN {
            return Err(AllocError);
        }
        process_pool().allocate(layout.size()).map_err(|_| AllocError)
    }

    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        // Free chunks consist of zeros.
        self.allocate(layout)
    }

    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller hands back a block of this allocator with its layout.
        unsafe { process_pool().free(memory, layout.size()) }
    }
}

/// An empty vector with room for `capacity` bytes of locked memory.
pub(crate) fn secret_vec(capacity: usize) -> Result<SerializeData<SecretAllocator>, LockError> {
    if capacity == 0 {
        return Ok(SerializeData::new_in(SecretAllocator));
    }
    let memory = process_pool().allocate(capacity)?;
    // SAFETY: a chunk of `capacity` bytes from the pool behind the allocator, with the alignment of a
    // byte; the layout that the vector frees is that size.
    Ok(unsafe {
        SerializeData::from_raw_parts_in(memory.cast().as_ptr(), 0, capacity, SecretAllocator)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_live_in_the_pool_and_leave_nothing_behind() {
        let mut vector = secret_vec(8).expect("memory");
        let first = vector.as_ptr().addr();
        assert!(process_pool().contains(first));
        vector.resize(8, 0xa5);
        let keeper = process_pool().allocate(16).expect("memory");
        vector.reserve(4000);
        assert_ne!(vector.as_ptr().addr(), first);
        assert_eq!(vector.as_slice(), [0xa5; 8]);
        // SAFETY: the pool gave it out above.
        unsafe { process_pool().free(keeper.cast(), 16) }
    }

    #[test]
    fn wider_alignment_is_refused() {
        let layout = Layout::from_size_align(32, 2 * CHUNK_ALIGN).expect("a layout");
        assert!(SecretAllocator.allocate(layout).is_err());
    }
}

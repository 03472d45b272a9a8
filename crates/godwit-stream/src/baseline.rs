//! Two allocators to measure plain memory against: what Bitcoin Core's `zero_after_free_allocator`
//! does (`support/allocators/zeroafterfree.h`, `memory_cleanse`), and the same without the `memset`.
//!
//! Never in what ships: [`DataStream`](crate::DataStream) comes to them only through a feature of this
//! crate that nothing but a benchmark's build turns on. `unsafe` is here because an allocator's
//! interface is.

#![allow(unsafe_code)]

use std::alloc::Layout;
use std::arch::asm;
use std::ptr::{self, NonNull};

use allocator_api2::alloc::{AllocError, Allocator, Global};

/// Overwrites memory with zeros before it goes back to `A`, in a way that no optimiser removes.
///
/// A block never grows or shrinks where it lies, since `A` would free the old one unwiped when it has
/// to move it: the new one is allocated, filled from the old one, and the old one wiped and freed.
#[derive(Clone, Copy, Debug, Default)]
pub struct ZeroAfterFree<A = Global>(pub A);

/// Keeps the barrier of [`ZeroAfterFree`], which makes the optimiser believe that the memory is read
/// before it goes back, and leaves the overwriting out.
///
/// Nothing has to be wiped, so `A` grows and shrinks a block as it does without this: the barrier is
/// all that differs from `A` alone.
#[derive(Clone, Copy, Debug, Default)]
pub struct BarrierOnly<A = Global>(pub A);

// SAFETY: memory comes from `A` and goes back to it with the same layout, so it is valid until then;
// a copy of this holds a copy of `A`, which is interchangeable with it. Growing and shrinking are the
// trait's own, which end in `deallocate`.
unsafe impl<A: Allocator> Allocator for ZeroAfterFree<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate(layout)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate_zeroed(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller hands back a block of this allocator with its layout, which came from
        // `A`; no other code may use it any more.
        unsafe {
            godwit_wipe(memory, layout.size());
            self.0.deallocate(memory, layout);
        }
    }
}

// SAFETY: every call is `A`'s own.
unsafe impl<A: Allocator> Allocator for BarrierOnly<A> {
    #[inline]
    fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate(layout)
    }

    #[inline]
    fn allocate_zeroed(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
        self.0.allocate_zeroed(layout)
    }

    #[inline]
    unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
        godwit_barrier(memory);
        // SAFETY: the caller's promises are those of `A`.
        unsafe { self.0.deallocate(memory, layout) }
    }

    #[inline]
    unsafe fn grow(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        godwit_barrier(memory);
        // SAFETY: the caller's promises are those of `A`.
        unsafe { self.0.grow(memory, old, new) }
    }

    #[inline]
    unsafe fn grow_zeroed(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        godwit_barrier(memory);
        // SAFETY: the caller's promises are those of `A`.
        unsafe { self.0.grow_zeroed(memory, old, new) }
    }

    #[inline]
    unsafe fn shrink(
        &self,
        memory: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Result<NonNull<[u8]>, AllocError> {
        godwit_barrier(memory);
        // SAFETY: the caller's promises are those of `A`.
        unsafe { self.0.shrink(memory, old, new) }
    }
}

/// Zeros `len` bytes at `memory`. A function of its own, named to be found by who looks for it in a
/// binary's symbols.
///
/// # Safety
///
/// The bytes are valid for writes and are not read afterwards.
#[inline(never)]
unsafe fn godwit_wipe(memory: NonNull<u8>, len: usize) {
    #[cfg(feature = "count-wipes")]
    report(len);
    // SAFETY: the caller's promise.
    unsafe { ptr::write_bytes(memory.as_ptr(), 0, len) };
    godwit_barrier(memory);
}

/// Is told the bytes of each block that is wiped.
#[cfg(feature = "count-wipes")]
static OBSERVER: std::sync::OnceLock<fn(usize)> = std::sync::OnceLock::new();

/// Has `observer` called before each wipe of this process, on the thread that frees. The first call
/// counts; what was freed before it is not seen.
#[cfg(feature = "count-wipes")]
pub fn observe_wipes(observer: fn(usize)) {
    OBSERVER.get_or_init(|| observer);
}

#[cfg(feature = "count-wipes")]
fn report(bytes: usize) {
    if let Some(observer) = OBSERVER.get() {
        observer(bytes);
    }
}

/// Tells the compiler that something reads the memory, without an instruction.
#[inline]
fn godwit_barrier(memory: NonNull<u8>) {
    // SAFETY: the text is empty, so the address is not used; the operand and the memory clobber that
    // is asm's default are what keep the writes before it alive.
    unsafe { asm!("/* {0} */", in(reg) memory.as_ptr(), options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests;

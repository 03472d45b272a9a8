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

/// Overwrites memory with zeros before it is freed, in a way that no optimiser removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZeroAfterFree;

/// Keeps the barrier of [`ZeroAfterFree`], which makes the optimiser believe that the memory is read
/// before it is freed, and leaves the overwriting out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BarrierOnly;

/// What stands behind both names, so that a difference between them is the `memset` alone. Growing is
/// left to [`Allocator`]'s own way: allocate, copy, free, as a C++ vector does.
macro_rules! baseline {
    ($name:ident, $before_free:ident) => {
        // SAFETY: memory comes from `Global` and goes back to it with the same layout, so it is valid
        // until then; copies of a value without fields are interchangeable.
        unsafe impl Allocator for $name {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, AllocError> {
                Global.allocate(layout)
            }

            #[inline]
            unsafe fn deallocate(&self, memory: NonNull<u8>, layout: Layout) {
                // SAFETY: the caller hands back a block of this allocator with its layout, which came
                // from `Global`; nobody else may use it any more.
                unsafe {
                    $before_free(memory, layout.size());
                    Global.deallocate(memory, layout);
                }
            }
        }
    };
}

baseline!(ZeroAfterFree, godwit_wipe);
baseline!(BarrierOnly, godwit_barrier);

/// Zeros `len` bytes at `memory`. A function of its own, named to be found by who looks for it in a
/// binary's symbols.
///
/// # Safety
///
/// The bytes are valid for writes and nobody reads them afterwards.
#[inline(never)]
unsafe fn godwit_wipe(memory: NonNull<u8>, len: usize) {
    #[cfg(feature = "count-wipes")]
    report(len);
    // SAFETY: the caller's promise.
    unsafe {
        ptr::write_bytes(memory.as_ptr(), 0, len);
        godwit_barrier(memory, len);
    }
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
///
/// # Safety
///
/// None of its own: the address is not used. It is `unsafe` to stand in for [`godwit_wipe`].
#[inline]
unsafe fn godwit_barrier(memory: NonNull<u8>, _len: usize) {
    // SAFETY: the text is empty; the operand and the memory clobber that is asm's default are what
    // keep the writes before it alive.
    unsafe { asm!("/* {0} */", in(reg) memory.as_ptr(), options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the block held when it went back, read before it is freed: the allocator's hook runs on
    /// memory that is still ours.
    fn left_behind(hook: unsafe fn(NonNull<u8>, usize)) -> Vec<u8> {
        let mut block = vec![0xa5u8; 257];
        let memory = NonNull::new(block.as_mut_ptr()).expect("a vector with bytes has an address");
        // SAFETY: the bytes are the vector's own, valid for writes.
        unsafe { hook(memory, block.len() - 1) };
        block
    }

    #[test]
    fn only_zero_after_free_wipes_and_no_byte_more_than_the_block() {
        let wiped = left_behind(godwit_wipe);
        assert!(wiped[..256].iter().all(|byte| *byte == 0));
        assert_eq!(wiped[256], 0xa5);
        assert!(left_behind(godwit_barrier).iter().all(|byte| *byte == 0xa5));
    }

    #[cfg(feature = "count-wipes")]
    #[test]
    fn the_observer_hears_of_each_block_that_is_freed() {
        use std::cell::Cell;

        // Other tests free on their own threads.
        thread_local! { static HEARD: Cell<(usize, usize)> = const { Cell::new((0, 0)) } }
        observe_wipes(|bytes| HEARD.set((HEARD.get().0 + 1, HEARD.get().1 + bytes)));
        let mut stream = crate::DataStream::with_capacity(1000);
        stream.write(&[7; 1000]);
        assert_eq!(HEARD.get(), (0, 0));
        drop(stream);
        assert_eq!(HEARD.get(), (1, 1000));
    }
}

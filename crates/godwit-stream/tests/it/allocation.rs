//! What the decoders allocate, seen from under the global allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use godwit_stream::{DataStream, DecodeError, SpanReader};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is passed to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Bytes that `run` asks the allocator for on this thread.
fn allocated_by<T>(run: impl FnOnce() -> T) -> (T, usize) {
    let before = ALLOCATED.get();
    let result = run();
    (result, ALLOCATED.get() - before)
}

#[test]
fn a_claimed_length_without_bytes_allocates_nothing() {
    let mut claim = DataStream::new();
    claim.write_compact_size(0x0200_0000);
    claim.write(&[0; 100]);
    let bytes = claim.as_slice();
    let missing = Err(DecodeError::UnexpectedEnd);
    let results = [
        allocated_by(|| SpanReader::new(bytes).get::<Vec<u8>>().map(drop)),
        allocated_by(|| SpanReader::new(bytes).get::<Vec<u64>>().map(drop)),
        allocated_by(|| SpanReader::new(bytes).get::<Vec<[u8; 32]>>().map(drop)),
        allocated_by(|| SpanReader::new(bytes).get::<Vec<Vec<u8>>>().map(drop)),
    ];
    for result in results {
        assert_eq!(result, (missing, 0));
    }
}

#[test]
fn a_count_that_its_least_size_allows_is_bounded_by_the_bytes() {
    // Fifty vectors of which the first claims 32 MiB.
    let mut claim = DataStream::new();
    claim.write_compact_size(50);
    claim.write_compact_size(0x0200_0000);
    claim.write(&[0; 100]);
    let result = allocated_by(|| SpanReader::new(claim.as_slice()).get::<Vec<Vec<u8>>>());
    assert_eq!(result, (Err(DecodeError::UnexpectedEnd), 50 * size_of::<Vec<u8>>()));
}

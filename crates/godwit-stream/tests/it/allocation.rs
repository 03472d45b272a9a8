//! What is allocated and in what state it comes back, seen from under the global allocator.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use godwit_stream::{BufferPool, DataStream, DecodeError, PoolLimits, SpanReader};

thread_local! {
    static ALLOCATED: Cell<usize> = const { Cell::new(0) };
    /// Blocks of exactly [`WATCHED`] bytes that came back, and bytes in them that were not zero.
    static RETURNED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
}

/// Size of the blocks whose content is looked at. Whoever allocates so many bytes in these tests
/// writes all of them.
const WATCHED: usize = 8_191;

struct Counting;

// SAFETY: every call is passed to `System`.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.set(ALLOCATED.get() + layout.size());
        // SAFETY: the caller's promises are those of `System`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        if layout.size() == WATCHED {
            // SAFETY: the block is still allocated, the caller's no more, and initialised to its end.
            let content = unsafe { std::slice::from_raw_parts(memory, WATCHED) };
            let (blocks, not_zero) = RETURNED.get();
            let more = content.iter().filter(|byte| **byte != 0).count();
            RETURNED.set((blocks + 1, not_zero + more));
        }
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

/// Blocks that `run` gives back, and whether they were wiped: all, or none.
fn returned_by(run: impl FnOnce()) -> (usize, bool) {
    RETURNED.set((0, 0));
    run();
    let (blocks, not_zero) = RETURNED.get();
    assert!(not_zero == 0 || not_zero == blocks * WATCHED, "wiped in part");
    (blocks, not_zero == 0)
}

/// What the crate was built for is what happens to the product's own types, and nothing else does.
#[test]
fn memory_comes_back_as_the_policy_says() {
    let wipes = cfg!(feature = "zero-after-free");
    let bytes = [0xa5; WATCHED];
    let freed = returned_by(|| drop(DataStream::from(&bytes[..])));
    assert_eq!(freed, (1, wipes));
    let outgrown = returned_by(|| {
        let mut stream = DataStream::from(&bytes[..]);
        stream.write(&bytes);
    });
    assert_eq!(outgrown, (1, wipes));
    let not_kept = returned_by(|| {
        let pool = BufferPool::new(PoolLimits { buffers: 1, buffer_bytes: 64, total_bytes: 64 });
        pool.take().write(&bytes);
    });
    assert_eq!(not_kept, (1, wipes));
    let vec = returned_by(|| drop(DataStream::from(&bytes[..]).into_vec()));
    assert_eq!(vec, (1, wipes));
    let elsewhere = returned_by(|| drop(Vec::from(bytes)));
    assert_eq!(elsewhere, (1, false));
}

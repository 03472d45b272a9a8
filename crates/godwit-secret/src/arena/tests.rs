use std::slice;
use std::thread;

use super::*;

fn content(memory: NonNull<[u8]>) -> &'static mut [u8] {
    // SAFETY: the tests use it before they free the chunk or drop the pool, and alone.
    unsafe { slice::from_raw_parts_mut(memory.cast::<u8>().as_ptr(), memory.len()) }
}

fn free(pool: &LockedPool, memory: NonNull<[u8]>) {
    // SAFETY: the tests give back what they took.
    unsafe { pool.free(memory.cast(), memory.len()) }
}

#[test]
fn chunks_are_zeros_aligned_and_apart() {
    let pool = LockedPool::new();
    assert_eq!(pool.stats(), Stats::default());
    let chunks: Vec<_> = (1..100).map(|size| pool.allocate(size).expect("memory")).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        assert_eq!(chunk.cast::<u8>().addr().get() % 16, 0);
        assert!(content(*chunk).iter().all(|byte| *byte == 0));
        content(*chunk).fill(index as u8 + 1);
    }
    for (index, chunk) in chunks.iter().enumerate() {
        assert!(content(*chunk).iter().all(|byte| *byte == index as u8 + 1));
    }
}

#[test]
fn stats_count_as_getmemoryinfo_does() {
    let pool = LockedPool::new();
    let chunks = [17, 32, 1].map(|size| pool.allocate(size).expect("memory"));
    let expected = Stats {
        used: 80,
        free: ARENA_SIZE - 80,
        total: ARENA_SIZE,
        locked: ARENA_SIZE,
        chunks_used: 3,
        chunks_free: 1,
    };
    assert_eq!(pool.stats(), expected);
    free(&pool, chunks[1]);
    let expected =
        Stats { used: 48, free: ARENA_SIZE - 48, chunks_used: 2, chunks_free: 2, ..expected };
    assert_eq!(pool.stats(), expected);
}

#[test]
fn freed_memory_is_wiped_and_comes_back_as_zeros() {
    let pool = LockedPool::new();
    let kept = pool.allocate(16).expect("memory");
    let chunk = pool.allocate(100).expect("memory");
    content(chunk).fill(0xa5);
    free(&pool, chunk);
    // The arena is still mapped: what lies at the old address may be looked at.
    assert!(content(chunk).iter().all(|byte| *byte == 0));
    let again = pool.allocate(112).expect("memory");
    assert_eq!(again.cast::<u8>(), chunk.cast::<u8>());
    assert!(pool.contains(kept.cast::<u8>().addr().get()));
}

#[test]
fn it_grows_by_arenas_and_returns_what_is_larger_than_one() {
    let pool = LockedPool::new();
    let first = pool.allocate(ARENA_SIZE).expect("memory");
    let second = pool.allocate(1).expect("memory");
    assert_eq!(pool.stats().total, 2 * ARENA_SIZE);
    let large = pool.allocate(ARENA_SIZE + 1).expect("memory");
    assert!(content(large).iter().all(|byte| *byte == 0));
    let page = page_size();
    assert_eq!(pool.stats().total, 3 * ARENA_SIZE + page);
    let address = large.cast::<u8>().addr().get();
    assert!(pool.contains(address) && pool.contains(address + ARENA_SIZE));
    free(&pool, large);
    assert!(!pool.contains(address));
    free(&pool, first);
    free(&pool, second);
    let stats = pool.stats();
    assert_eq!((stats.used, stats.total, stats.chunks_free), (0, 2 * ARENA_SIZE, 2));
}

#[test]
fn nothing_needs_nothing() {
    let pool = LockedPool::new();
    let nothing = pool.allocate(0).expect("memory");
    assert_eq!(nothing.len(), 0);
    free(&pool, nothing);
    assert_eq!(pool.stats(), Stats::default());
}

#[test]
fn too_much_is_an_error() {
    let pool = LockedPool::new();
    for size in [usize::MAX, usize::MAX / 2] {
        assert!(matches!(pool.allocate(size), Err(LockError::Map { .. })), "{size}");
    }
    assert_eq!(pool.stats(), Stats::default());
}

#[test]
fn threads_share_it() {
    let pool = LockedPool::new();
    thread::scope(|scope| {
        for seed in 1u8..=4 {
            let pool = &pool;
            scope.spawn(move || {
                for round in 1..500 {
                    let chunk = pool.allocate(round).expect("memory");
                    assert!(content(chunk).iter().all(|byte| *byte == 0));
                    content(chunk).fill(seed);
                    thread::yield_now();
                    assert!(content(chunk).iter().all(|byte| *byte == seed));
                    free(pool, chunk);
                }
            });
        }
    });
    assert_eq!((pool.stats().used, pool.stats().chunks_used), (0, 0));
}

#[test]
#[should_panic(expected = "goes back to the pool it came from")]
fn a_stranger_is_found() {
    let (pool, other) = (LockedPool::new(), LockedPool::new());
    free(&other, pool.allocate(16).expect("memory"));
}

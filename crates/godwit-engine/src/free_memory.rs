//! Memory that the process has freed, given back to the system.
//!
//! glibc keeps what a thread frees for that thread's next allocations. Core's engine makes millions of small
//! pieces of a transaction with as many witness items, on any of the threads that verify, and an answer of
//! the interfaces hundreds of thousands, on any of those that run methods. Each thread kept the memory of one
//! then: 60 MiB of the former, and of the latter, after sixteen, a gigabyte in all where 10 MiB were meant.
//!
//! `unsafe` is here because two functions of glibc are called. Other C libraries have no such functions, and
//! what is freed stays as they hold it.

#![allow(unsafe_code)]

/// Bytes at the end of each of its areas that the allocator keeps, and from which on an allocation has pages
/// of its own, which go back at once. By itself glibc raises both with each larger allocation that is freed,
/// the first up to all of an area, and what is kept there `malloc_trim` does not give back.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: libc::c_int = 4 << 20;

/// Gives the system what is free in the whole process: some 10 ms for 50 MB. For behind what has taken much.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_free_memory() {
    use std::sync::Once;

    // Not before there is much to release: until then glibc tunes itself.
    static TUNED: Once = Once::new();
    TUNED.call_once(|| {
        for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: it sets one word, under a lock of its own. Others read that word without it, as they do
            // when glibc itself changes it: `free` does, on any thread. Any value is sound.
            let known = unsafe { libc::mallopt(parameter, KEPT_BYTES) };
            debug_assert_eq!(known, 1, "glibc has both parameters");
        }
    });
    // SAFETY: it may be called on any thread at any time (`malloc_trim(3)`: MT-Safe), and touches only pages
    // that no allocation has.
    unsafe { libc::malloc_trim(0) };
}

/// There is nothing to call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_free_memory() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
pub(crate) mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread;

    use super::*;

    const THREADS: usize = 4;
    const VALUES: usize = 8_000;
    const VALUE_BYTES: usize = 4_000;
    /// Of so many values one stays, so that no end of an area is free.
    const STAYS: usize = 500;

    pub(crate) fn anonymous() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Of 128 MB, which other tests beside this one do not take.
    #[test]
    fn what_threads_have_freed_goes_back_to_the_system() {
        let freed = Arc::new(Barrier::new(THREADS + 1));
        let measured = Arc::new(Barrier::new(THREADS + 1));
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (freed, measured) = (Arc::clone(&freed), Arc::clone(&measured));
                thread::spawn(move || {
                    let mut values: Vec<_> = (0..VALUES).map(|_| vec![1_u8; VALUE_BYTES]).collect();
                    for (n, value) in values.iter_mut().enumerate() {
                        if n % STAYS > 0 {
                            *value = Vec::new();
                        }
                    }
                    freed.wait();
                    measured.wait();
                    drop(values);
                })
            })
            .collect();
        freed.wait();
        let before = anonymous();
        release_free_memory();
        let after = anonymous();
        measured.wait();
        threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
        let all = THREADS * VALUES * VALUE_BYTES;
        assert!(before.saturating_sub(after) > all / 4 * 3, "{before} and {after} bytes");
    }
}

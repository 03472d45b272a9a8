//! Returns memory that the process has freed to the system.
//!
//! glibc keeps what a thread frees for that thread's next allocations. Core's engine makes millions of small
//! allocations for a transaction with as many witness items, on any of the threads that verify; an answer of
//! the interfaces makes hundreds of thousands, on any of those that run methods. Each thread then kept the
//! memory of one transaction or answer: 60 MiB of the former; and the latter, after sixteen answers, came to
//! a gigabyte in all where 10 MiB were meant.
//!
//! `unsafe` is needed to call two functions of glibc. Other C libraries have no such functions, and keep
//! freed memory in their own way.

#![allow(unsafe_code)]

/// Bytes that the allocator keeps at the end of each of its areas; also the size from which an allocation has
/// pages of its own, which go back to the system at once. Left alone, glibc raises both values whenever a
/// larger allocation is freed, the first one up to a whole area, and `malloc_trim` does not return the bytes
/// kept there.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: libc::c_int = 4 << 20;

/// Returns free memory of the whole process to the system, which takes some 10 ms for 50 MB. To be called
/// after work that took much memory.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
pub fn release_free_memory() {
    use std::sync::Once;

    // Only once there is much to release: until then glibc tunes itself.
    static TUNED: Once = Once::new();
    TUNED.call_once(|| {
        for parameter in [libc::M_MMAP_THRESHOLD, libc::M_TRIM_THRESHOLD] {
            // SAFETY: `mallopt` sets one word, under a lock of its own. Other threads read that word without
            // the lock, as they do when glibc itself changes it in `free`. Any value is sound.
            let known = unsafe { libc::mallopt(parameter, KEPT_BYTES) };
            debug_assert_eq!(known, 1, "glibc has both parameters");
        }
    });
    // SAFETY: `malloc_trim` may be called on any thread at any time (`malloc_trim(3)`: MT-Safe), and touches
    // only pages that belong to no allocation.
    unsafe { libc::malloc_trim(0) };
}

/// Other C libraries have nothing to call.
#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
pub fn release_free_memory() {}

#[cfg(all(test, target_os = "linux", target_env = "gnu"))]
pub(crate) mod tests {
    use std::sync::{Arc, Barrier};
    use std::thread;

    use godwit_testdata::alone;

    use super::*;

    const THREADS: usize = 4;
    const VALUES: usize = 8_000;
    const VALUE_BYTES: usize = 4_000;
    /// One of this many values stays allocated, so that no area has a free end.
    const STAYS: usize = 500;

    pub(crate) fn anonymous() -> usize {
        let status = std::fs::read_to_string("/proc/self/status").expect("Linux tells it");
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
        line.trim().trim_end_matches(" kB").parse::<usize>().expect("a number") << 10
    }

    /// Others release memory too, and take some.
    #[test]
    fn what_threads_have_freed_goes_back_to_the_system() {
        let test = "free_memory::tests::what_threads_have_freed_goes_back_to_the_system";
        alone(test, release_after_threads);
    }

    fn release_after_threads() {
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

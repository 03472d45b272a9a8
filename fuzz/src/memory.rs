//! How much memory a piece of work takes.

use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// What `work` gives, which may hold at most `bytes` at one time beside what was held before.
///
/// It counts the whole process, so nothing else may run meanwhile.
///
/// # Panics
///
/// When it held more.
pub(crate) fn within<T>(bytes: usize, work: impl FnOnce() -> T) -> T {
    ALLOCATOR.reset_peak_usage();
    let before = ALLOCATOR.current_usage();
    let result = work();
    let held = ALLOCATOR.peak_usage().saturating_sub(before);
    assert!(held <= bytes, "{held} bytes held, more than {bytes}");
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Other tests run beside this one, which only makes the count larger.
    #[test]
    #[should_panic(expected = "more than 100000")]
    fn what_is_held_too_much_is_noticed() {
        within(100_000, || std::hint::black_box(vec![1u8; 200_000]));
    }

    #[test]
    fn what_a_size_allows_passes() {
        let bytes = within(64 << 20, || std::hint::black_box(vec![1u8; 200_000]));
        assert_eq!(bytes.len(), 200_000);
    }
}

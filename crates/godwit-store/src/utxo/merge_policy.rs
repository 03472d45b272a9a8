//! When segments are merged: size-tiered, newest first.
//!
//! The size of a segment is the number of its entries. Segments of a partition are looked at from the
//! newest to the oldest. A merge takes a segment and every following one that is not larger than all
//! taken before it together (a quarter larger at most: flushes differ), if they are at least
//! [`MIN_INPUTS`]. Flushes of size 1 then leave 4, 4+4 -> 8, 8+8 -> 16 and so on, like a binary counter
//! of merges of four: the level of size `4 * 2^n` is written every `8 * 2^n` flushes, so
//! each level costs half a write per flushed byte, and the highest at most a whole one. A store of
//! `N` flushes is written at most `2 + log2(N / 4) / 2` times in all when nothing is spent (N = 64:
//! 4 times) and keeps at most `3 + log2(N / 4)` segments a partition; spends shrink both. Space:
//! before the oldest segment is merged the newer ones together may reach its number of entries: at
//! most about twice the live coins, and the output of the running merge.
//!
//! [`MAX_SEGMENTS`] is the bound for lookups: at that number the cheapest neighbours are merged
//! whatever their sizes.

use std::ops::Range;

/// Fewest segments that are worth a merge.
const MIN_INPUTS: usize = 4;
/// Most segments in one merge: each costs a read buffer.
pub(super) const MAX_INPUTS: usize = 12;
/// Segments of a partition at which a merge no longer waits for sizes to match.
pub(super) const MAX_SEGMENTS: usize = 12;
/// Segments of a partition at which rotation waits for merges.
pub(super) const STALL_SEGMENTS: usize = 24;

/// Which segments of a partition to merge, given their sizes, newest first.
pub(super) fn choose(sizes: &[u64]) -> Option<Range<usize>> {
    let tiered = (0..sizes.len()).map(|start| start..tier_end(sizes, start));
    tiered.into_iter().find(|range| range.len() >= MIN_INPUTS).or_else(|| cheapest(sizes))
}

/// The end of the tier that begins at `start`.
fn tier_end(sizes: &[u64], start: usize) -> usize {
    let mut sum = sizes[start];
    let mut end = start + 1;
    while end < sizes.len() && end - start < MAX_INPUTS && sizes[end] <= sum.saturating_add(sum / 4)
    {
        sum = sum.saturating_add(sizes[end]);
        end += 1;
    }
    end
}

fn cheapest(sizes: &[u64]) -> Option<Range<usize>> {
    if sizes.len() < MAX_SEGMENTS {
        return None;
    }
    let windows = sizes.windows(MIN_INPUTS).enumerate();
    let sum = |window: &[u64]| window.iter().fold(0u64, |sum, size| sum.saturating_add(*size));
    let (start, _) = windows.min_by_key(|(_, window)| sum(window))?;
    Some(start..start + MIN_INPUTS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn equal_sizes_merge_by_four() {
        assert_eq!(choose(&[1, 1, 1]), None);
        assert_eq!(choose(&[1, 1, 1, 1]), Some(0..4));
        assert_eq!(choose(&[1, 1, 1, 1, 4]), Some(0..5));
        assert_eq!(choose(&[1, 1, 1, 1, 5]), Some(0..5));
        assert_eq!(choose(&[1, 1, 1, 1, 6]), Some(0..4));
        assert_eq!(choose(&[8, 10, 22, 50, 113]), Some(0..4));
        assert_eq!(choose(&[1, 9, 9, 9, 9]), Some(1..5));
    }

    #[test]
    fn too_many_of_any_size_merge_where_it_is_cheapest() {
        let falling: Vec<u64> = (0..12).map(|n| 1 << (2 * n)).collect();
        assert_eq!(choose(&falling[..11]), None);
        assert_eq!(choose(&falling), Some(0..4));
    }

    /// The arithmetic of the module doc, by simulation.
    #[test]
    fn write_amplification_and_segments_stay_as_documented() {
        let (mut segments, mut written, mut most) = (Vec::new(), 0, 0);
        for _ in 0..64 {
            segments.insert(0, 1u64);
            written += 1;
            while let Some(range) = choose(&segments) {
                let merged = segments[range.clone()].iter().sum();
                written += merged;
                segments.splice(range, [merged]);
            }
            most = most.max(segments.len());
        }
        assert_eq!(segments.iter().sum::<u64>(), 64);
        assert!(written as f64 / 64.0 <= 4.0, "{written}");
        assert!(most <= 3 + 4, "{most}");
    }

    proptest! {
        #[test]
        fn any_sizes_end_below_the_bound(sizes in prop::collection::vec(1u64..1000, 0..40)) {
            let mut segments = sizes;
            while let Some(range) = choose(&segments) {
                prop_assert!(range.len() >= 2 && range.len() <= MAX_INPUTS);
                let merged = segments[range.clone()].iter().sum();
                segments.splice(range, [merged]);
            }
            prop_assert!(segments.len() < MAX_SEGMENTS);
        }
    }
}

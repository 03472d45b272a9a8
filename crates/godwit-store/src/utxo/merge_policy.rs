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

    /// Entries of a segment.
    #[derive(Clone, Copy)]
    struct Entries {
        coins: u64,
        tombstones: u64,
    }

    impl Entries {
        fn total(self) -> u64 {
            self.coins + self.tombstones
        }

        /// As measured on the main network, with the share of filter and index.
        fn bytes(self) -> u64 {
            self.coins * 68 + self.tombstones * 37
        }
    }

    /// The coins of the main network in 2026.
    const SET: Entries = Entries { coins: 170_000_000, tombstones: 0 };
    /// What a block adds to a flush: coins that outlive it, and tombstones of older ones.
    const BLOCK: Entries = Entries { coins: 3_200, tombstones: 2_800 };
    const BLOCKS_OF_A_DAY: u64 = 144;
    const DAYS: u64 = 360;

    /// Bytes that a node at the tip writes to runs in each day of a year, with a flush every so many
    /// blocks. A merge drops tombstones, and the coins that they hide, only with the oldest segment.
    fn bytes_a_day(blocks_of_a_flush: u64) -> Vec<u64> {
        let mut segments = vec![SET];
        let mut written = vec![0; DAYS as usize];
        for flush in 1..=DAYS * BLOCKS_OF_A_DAY / blocks_of_a_flush {
            let day = ((flush * blocks_of_a_flush - 1) / BLOCKS_OF_A_DAY) as usize;
            let Entries { coins, tombstones } = BLOCK;
            let coins = coins * blocks_of_a_flush;
            let flushed = Entries { coins, tombstones: tombstones * blocks_of_a_flush };
            segments.insert(0, flushed);
            written[day] += flushed.bytes();
            let sizes =
                |segments: &[Entries]| segments.iter().map(|s| s.total()).collect::<Vec<_>>();
            while let Some(range) = choose(&sizes(&segments)) {
                let inputs = &segments[range.clone()];
                let mut merged = Entries {
                    coins: inputs.iter().map(|input| input.coins).sum(),
                    tombstones: inputs.iter().map(|input| input.tombstones).sum(),
                };
                if range.end == segments.len() {
                    merged = Entries { coins: merged.coins - merged.tombstones, tombstones: 0 };
                }
                written[day] += merged.bytes();
                segments.splice(range, [merged]);
            }
        }
        written
    }

    /// Blocks and undo records are 0.3 GB a day besides. How many blocks make a flush is decided in
    /// `godwit-chain/src/durability/writing.rs`: three on a hard disk, a day's on an SSD.
    #[test]
    fn a_node_at_the_tip_writes_less_than_a_gigabyte_a_day_whatever_its_disk() {
        for blocks in [3, 6, 12, 36, 72, 144, 432] {
            let days = bytes_a_day(blocks);
            let mean = days.iter().sum::<u64>() / DAYS;
            let months = days.chunks(30).map(|days| days.iter().sum::<u64>() / 30);
            let worst = months.max().unwrap();
            println!("{blocks} blocks a flush: {mean} bytes a day, {worst} in the worst month");
            assert!(mean <= 450_000_000 && worst <= 1_000_000_000, "{blocks}: {mean}, {worst}");
        }
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

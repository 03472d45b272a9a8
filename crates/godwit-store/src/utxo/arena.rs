//! Memory of entries: regions that never move, and lists of freed places by size.
//!
//! Regions instead of one growing buffer: nothing is copied when the arena grows, so it never needs
//! twice the memory. A region is an anonymous mapping, whose pages the operating system provides
//! when they are first touched. All but the first ask for huge pages: reading entries by key or in
//! key order jumps about in the arena, and with small pages each jump would miss the TLB.
//!
//! Most coins die young, so a freed place is soon taken again by data of the same size. When places
//! of a size stay idle because other scripts have come into fashion, slightly shorter data takes
//! them. Places are not merged or split, since a memtable lives only until the next rotation.
//!
//! The top bit of the second byte of the stored data belongs to the arena ([`super::entry`] leaves
//! it clear): it is set when the place is larger than the data needs. The byte after the data then
//! says by how much.

use std::alloc::{Layout, handle_alloc_error};

use memmap2::MmapMut;

/// Granularity of places in bytes: 32-bit offsets in these units reach 16 GiB.
const UNIT: usize = 4;
/// Bytes of a region.
const REGION: usize = 16 << 20;
const REGION_UNITS: u32 = (REGION / UNIT) as u32;
/// Bytes that are taken at once of the first region. Small against the smallest budget, large against
/// the largest entry.
pub(super) const SMALL_STEP: usize = 128 << 10;
/// Bytes that are taken at once of another one: a huge page.
const HUGE_STEP: usize = 2 << 20;
/// Units by which a place may be too large for what takes it.
const MAX_SLACK: u32 = 3;
/// Places of one size are idle when they are more than this part of the arena. What is freed and
/// taken again all the time stays far below, and should not be taken by shorter data.
const IDLE_PART: u32 = 512;
/// Marks, in the second byte of the data, a place with slack.
const SLACK: u8 = 0x80;
/// Longest place that can be asked for, in bytes.
pub(super) const MAX_LEN: usize = 10_240;
const CLASSES: usize = MAX_LEN / UNIT + 1;
/// Regions that offsets can name.
const MAX_REGIONS: usize = (u32::MAX / REGION_UNITS) as usize;

const _: () = assert!(REGION.is_multiple_of(HUGE_STEP));

/// An arena of byte strings, each named by the offset of its first unit. Offset 0 names nothing.
pub(super) struct Arena {
    regions: Vec<MmapMut>,
    /// First unit never given out, and the end of what was taken of the regions.
    next: u32,
    end: u32,
    /// Freed places by length in units.
    free: Box<[FreeList]>,
    /// Bytes that are taken at once of the first region.
    small_step: usize,
}

/// Places of one length. Each holds the offset of the next one in its first bytes.
#[derive(Clone, Copy, Default)]
struct FreeList {
    first: u32,
    count: u32,
}

fn units(len: usize) -> u32 {
    debug_assert!(0 < len && len <= MAX_LEN);
    len.div_ceil(UNIT) as u32
}

impl Arena {
    /// `small_step` bytes are taken at once of the first region: [`SMALL_STEP`], less in tests. A
    /// divisor of [`REGION`].
    pub(super) fn new(small_step: usize) -> Self {
        assert!(REGION.is_multiple_of(small_step) && small_step.is_multiple_of(UNIT));
        let free = vec![FreeList::default(); CLASSES].into_boxed_slice();
        Self { regions: Vec::new(), next: 0, end: 0, free, small_step }
    }

    pub(super) fn memory(&self) -> usize {
        self.end as usize * UNIT + CLASSES * size_of::<FreeList>()
    }

    /// By how much [`Self::memory`] may rise with the next insertion.
    pub(super) fn memory_step(&self) -> usize {
        MAX_LEN.next_multiple_of(self.step())
    }

    fn step(&self) -> usize {
        if self.end < REGION_UNITS { self.small_step } else { HUGE_STEP }
    }

    /// Whether its offsets are nearly used up.
    pub(super) fn is_full(&self) -> bool {
        self.regions.len() + 1 >= MAX_REGIONS
    }

    /// Takes regions until it is full; their pages are never touched.
    #[cfg(test)]
    pub(super) fn fill(&mut self) {
        while !self.is_full() {
            self.regions.push(map_region(false));
        }
    }

    /// Bytes of places that were freed and not taken again.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> u64 {
        let units = (0..).zip(&self.free).map(|(units, list)| units * u64::from(list.count));
        units.sum::<u64>() * UNIT as u64
    }

    /// The bytes from `offset` to the end of its region.
    #[inline]
    pub(super) fn bytes(&self, offset: u32) -> &[u8] {
        let region = &self.regions[(offset / REGION_UNITS) as usize];
        &region[(offset % REGION_UNITS) as usize * UNIT..]
    }

    #[inline]
    fn bytes_mut(&mut self, offset: u32) -> &mut [u8] {
        let region = &mut self.regions[(offset / REGION_UNITS) as usize];
        &mut region[(offset % REGION_UNITS) as usize * UNIT..]
    }

    /// Bytes that were taken and never given out.
    #[cfg(test)]
    pub(super) fn spare_bytes(&self) -> usize {
        (self.end - self.next) as usize * UNIT
    }

    /// Copies the parts of a byte string, together 2 to [`MAX_LEN`] bytes, to a free place. The arena's bit
    /// in it is clear.
    #[inline]
    pub(super) fn insert<const N: usize>(&mut self, parts: [&[u8]; N]) -> u32 {
        let len = parts.iter().map(|part| part.len()).sum();
        let units = units(len);
        let (offset, slack) = self.free_place(units).unwrap_or_else(|| (self.new_place(units), 0));
        let place = &mut self.bytes_mut(offset)[..units as usize * UNIT + slack as usize];
        let mut rest = &mut place[..];
        for part in parts {
            let (here, behind) = rest.split_at_mut(part.len());
            here.copy_from_slice(part);
            rest = behind;
        }
        debug_assert_eq!(place[1] & SLACK, 0);
        if slack > 0 {
            place[1] |= SLACK;
            place[len] = slack as u8;
        }
        offset
    }

    /// Takes a freed place of `units` units, or an idle one with slack.
    #[inline]
    fn free_place(&mut self, units: u32) -> Option<(u32, u32)> {
        let slack = if self.free[units as usize].first != 0 {
            0
        } else {
            (1..=MAX_SLACK).find(|slack| self.is_idle(units + slack))?
        };
        let class = (units + slack) as usize;
        let FreeList { first, count } = self.free[class];
        let next = self.bytes(first).first_chunk().expect("a place is at least one unit");
        self.free[class] = FreeList { first: u32::from_le_bytes(*next), count: count - 1 };
        Some((first, slack))
    }

    #[inline]
    fn is_idle(&self, units: u32) -> bool {
        let list = self.free.get(units as usize).copied().unwrap_or_default();
        u64::from(list.count) * u64::from(units) > u64::from(self.next / IDLE_PART)
    }

    #[inline]
    fn new_place(&mut self, units: u32) -> u32 {
        while self.end - self.next < units {
            self.take_more();
        }
        let offset = self.next;
        self.next += units;
        offset
    }

    #[cold]
    fn take_more(&mut self) {
        let step = (self.step() / UNIT) as u32;
        if self.end < self.regions.len() as u32 * REGION_UNITS {
            self.end += step;
            return;
        }
        assert!(self.regions.len() < MAX_REGIONS, "the owner rotates a memtable before this");
        if self.next < self.end {
            self.release_units(self.next, self.end - self.next);
        }
        let first = self.end;
        self.regions.push(map_region(!self.regions.is_empty()));
        (self.next, self.end) = (first.max(1), first + step);
    }

    /// Gives back the place at `offset`, where `len` bytes are stored.
    #[inline]
    pub(super) fn release(&mut self, offset: u32, len: usize) {
        let place = self.bytes(offset);
        let slack = if place[1] & SLACK == 0 { 0 } else { u32::from(place[len]) };
        self.release_units(offset, units(len) + slack);
    }

    #[inline]
    fn release_units(&mut self, offset: u32, units: u32) {
        let FreeList { first, count } = self.free[units as usize];
        self.free[units as usize] = FreeList { first: offset, count: count + 1 };
        self.bytes_mut(offset)[..UNIT].copy_from_slice(&first.to_le_bytes());
    }
}

fn map_region(huge_pages: bool) -> MmapMut {
    let Ok(region) = MmapMut::map_anon(REGION) else {
        handle_alloc_error(Layout::new::<[u8; REGION]>())
    };
    #[cfg(target_os = "linux")]
    if huge_pages && let Err(error) = region.advise(memmap2::Advice::HugePage) {
        log::debug!("no huge pages: {error}");
    }
    region
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_what_was_put(steps in prop::collection::vec((2usize..60, 0u8..0x80), 1..400)) {
            let mut arena = Arena::new(SMALL_STEP);
            let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
            for (len, fill) in steps {
                let len = if fill == 0 { MAX_LEN - len } else { len };
                let data = vec![fill; len];
                let offset = arena.insert([&data]);
                prop_assert!(offset != 0 && model.insert(offset, data).is_none());
                if fill % 3 == 0 {
                    let victim = *model.keys().next().unwrap();
                    let data = model.remove(&victim).unwrap();
                    arena.release(victim, data.len());
                }
                for (offset, data) in &model {
                    let mut stored = arena.bytes(*offset)[..data.len()].to_vec();
                    stored[1] &= !SLACK;
                    prop_assert_eq!(&stored, data);
                }
            }
        }
    }

    #[test]
    fn freed_places_are_taken_again() {
        let mut arena = Arena::new(SMALL_STEP);
        for round in 0..1000 {
            let offsets: Vec<u32> = (0..100).map(|_| arena.insert([&[7; 66]])).collect();
            offsets.into_iter().for_each(|offset| arena.release(offset, 66));
            assert_eq!(arena.end as usize, SMALL_STEP / UNIT, "round {round}");
        }
        assert_eq!(arena.free_bytes(), 100 * 68);
    }

    /// Idle places serve shorter data and are given back whole.
    #[test]
    fn idle_places_serve_slightly_shorter_data() {
        for (len, served) in [(68, true), (65, true), (53, true), (52, false), (69, false)] {
            let mut arena = Arena::new(SMALL_STEP);
            let idle = arena.insert([&[7; 68]]);
            arena.release(idle, 68);
            let taken = arena.insert([&vec![7; len]]);
            assert_eq!(taken == idle, served, "{len}");
            arena.release(taken, len);
            assert_eq!(arena.insert([&[7; 68]]), idle, "{len}");
        }
    }

    #[test]
    fn places_in_use_now_and_then_are_kept_for_their_size() {
        let mut arena = Arena::new(SMALL_STEP);
        let places: Vec<u32> = (0..10_000).map(|_| arena.insert([&[7; 68]])).collect();
        let (few, many) = places.split_at(10);
        few.iter().for_each(|place| arena.release(*place, 68));
        assert!(!few.contains(&arena.insert([&[7; 64]])));
        many.iter().for_each(|place| arena.release(*place, 68));
        assert!(many.contains(&arena.insert([&[7; 64]])));
    }

    /// Into the third region: what is taken is counted before it is used, by small steps, then by
    /// huge ones, and no allocation crosses a region's end or overlaps another one.
    #[test]
    fn regions_follow_each_other() {
        let mut arena = Arena::new(SMALL_STEP);
        let (mut places, mut memory) = (Vec::new(), arena.memory());
        while arena.regions.len() < 3 {
            let n = places.len();
            let len = if n % 50 == 0 { MAX_LEN } else { 60 + n % 60 };
            let announced = arena.memory_step();
            let offset = arena.insert([&vec![n as u8 & 0x7f; len]]);
            places.push((offset, len));
            let rise = arena.memory() - memory;
            let step = if arena.regions.len() == 1 { SMALL_STEP } else { HUGE_STEP };
            assert!(rise == 0 || (rise == announced && rise == step), "{rise} of {step}");
            memory = arena.memory();
        }
        assert_eq!(memory - CLASSES * size_of::<FreeList>(), 2 * REGION + HUGE_STEP);
        for (n, (offset, len)) in places.iter().enumerate() {
            assert!(arena.bytes(*offset)[..*len].iter().all(|byte| *byte == n as u8 & 0x7f), "{n}");
        }
        places.sort_unstable();
        for pair in places.windows(2) {
            assert!(pair[0].0 + units(pair[0].1) <= pair[1].0, "{pair:?}");
        }
    }

    #[test]
    fn the_longest_place_fits_a_step() {
        let mut arena = Arena::new(SMALL_STEP);
        let places = (0..100).map(|n| arena.insert([&[n; MAX_LEN]])).collect::<Vec<_>>();
        for (n, offset) in places.into_iter().enumerate() {
            assert!(arena.bytes(offset)[..MAX_LEN].iter().all(|byte| usize::from(*byte) == n));
        }
    }
}

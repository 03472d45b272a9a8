//! Memory of entries: chunks that never move, and lists of freed places by size.
//!
//! Chunks instead of one growing buffer: nothing is copied when the arena grows, and no moment needs
//! twice the memory. Most coins die young, so a freed place is soon taken again by data of the same
//! size. When places of a size lie idle because other scripts have come into fashion, slightly
//! shorter data takes them. Places are not merged or split, since a memtable lives only until its
//! next freeze.
//!
//! The top bit of the second byte of what is stored belongs to the arena: set when the place is
//! larger than the data needs. The byte behind the data then says by how much.

/// Granularity of places in bytes: 32-bit offsets in these units reach 16 GiB.
const UNIT: usize = 4;
/// Bytes of a chunk. Small against the smallest budget, large against the largest entry.
pub(super) const CHUNK: usize = 128 << 10;
const CHUNK_UNITS: u32 = (CHUNK / UNIT) as u32;
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
/// Chunks that offsets can name.
pub(super) const MAX_CHUNKS: usize = (u32::MAX / CHUNK_UNITS) as usize;

/// An arena of byte strings, each named by the offset of its first unit. Offset 0 names nothing.
pub(super) struct Arena {
    chunks: Vec<Box<[u8]>>,
    /// First unit never given out, and the end of its chunk.
    next: u32,
    end: u32,
    /// Freed places by length in units.
    free: Box<[FreeList]>,
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
    pub(super) fn new() -> Self {
        let free = vec![FreeList::default(); CLASSES].into_boxed_slice();
        Self { chunks: Vec::new(), next: 0, end: 0, free }
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.chunks.len() * CHUNK + CLASSES * size_of::<FreeList>()
    }

    /// Bytes of places that were freed and not taken again.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> u64 {
        let units = (0..).zip(&self.free).map(|(units, list)| units * u64::from(list.count));
        units.sum::<u64>() * UNIT as u64
    }

    pub(super) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The bytes from `offset` to the end of its chunk.
    #[inline]
    pub(super) fn bytes(&self, offset: u32) -> &[u8] {
        let chunk = &self.chunks[(offset / CHUNK_UNITS) as usize];
        &chunk[(offset % CHUNK_UNITS) as usize * UNIT..]
    }

    #[inline]
    fn bytes_mut(&mut self, offset: u32) -> &mut [u8] {
        let chunk = &mut self.chunks[(offset / CHUNK_UNITS) as usize];
        &mut chunk[(offset % CHUNK_UNITS) as usize * UNIT..]
    }

    /// Copies `data`, 2 to [`MAX_LEN`] bytes, to a free place. The arena's bit in it is clear.
    #[inline]
    pub(super) fn insert(&mut self, data: &[u8]) -> u32 {
        debug_assert_eq!(data[1] & SLACK, 0);
        let units = units(data.len());
        let (offset, slack) = self.free_place(units).unwrap_or_else(|| (self.new_place(units), 0));
        let place = self.bytes_mut(offset);
        place[..data.len()].copy_from_slice(data);
        if slack > 0 {
            place[1] |= SLACK;
            place[data.len()] = slack as u8;
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

    fn new_place(&mut self, units: u32) -> u32 {
        if self.end - self.next < units {
            self.add_chunk();
        }
        let offset = self.next;
        self.next += units;
        offset
    }

    fn add_chunk(&mut self) {
        assert!(self.chunks.len() < MAX_CHUNKS, "the owner freezes a memtable before this");
        if self.next < self.end {
            self.release_units(self.next, self.end - self.next);
        }
        let first = self.chunks.len() as u32 * CHUNK_UNITS;
        self.chunks.push(vec![0; CHUNK].into_boxed_slice());
        (self.next, self.end) = (first.max(1), first + CHUNK_UNITS);
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

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_what_was_put(steps in prop::collection::vec((2usize..60, 0u8..0x80), 1..400)) {
            let mut arena = Arena::new();
            let mut model: HashMap<u32, Vec<u8>> = HashMap::new();
            for (len, fill) in steps {
                let len = if fill == 0 { MAX_LEN - len } else { len };
                let data = vec![fill; len];
                let offset = arena.insert(&data);
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
        let mut arena = Arena::new();
        for round in 0..1000 {
            let offsets: Vec<u32> = (0..100).map(|_| arena.insert(&[7; 66])).collect();
            offsets.into_iter().for_each(|offset| arena.release(offset, 66));
            assert_eq!(arena.chunk_count(), 1, "round {round}");
        }
        assert_eq!(arena.free_bytes(), 100 * 68);
    }

    /// Idle places serve shorter data and are given back whole.
    #[test]
    fn idle_places_serve_slightly_shorter_data() {
        for (len, served) in [(68, true), (65, true), (53, true), (52, false), (69, false)] {
            let mut arena = Arena::new();
            let idle = arena.insert(&[7; 68]);
            arena.release(idle, 68);
            let taken = arena.insert(&vec![7; len]);
            assert_eq!(taken == idle, served, "{len}");
            arena.release(taken, len);
            assert_eq!(arena.insert(&[7; 68]), idle, "{len}");
        }
    }

    #[test]
    fn places_in_use_now_and_then_are_kept_for_their_size() {
        let mut arena = Arena::new();
        let places: Vec<u32> = (0..10_000).map(|_| arena.insert(&[7; 68])).collect();
        let (few, many) = places.split_at(10);
        few.iter().for_each(|place| arena.release(*place, 68));
        assert!(!few.contains(&arena.insert(&[7; 64])));
        many.iter().for_each(|place| arena.release(*place, 68));
        assert!(many.contains(&arena.insert(&[7; 64])));
    }

    #[test]
    fn the_longest_place_fits_a_chunk() {
        let mut arena = Arena::new();
        let places = (0..100).map(|n| arena.insert(&[n; MAX_LEN])).collect::<Vec<_>>();
        for (n, offset) in places.into_iter().enumerate() {
            assert!(arena.bytes(offset)[..MAX_LEN].iter().all(|byte| usize::from(*byte) == n));
        }
    }
}

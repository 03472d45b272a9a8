//! Memory of entries: chunks that never move, and lists of freed places by size.
//!
//! Chunks instead of one growing buffer: nothing is copied when the arena grows, and no moment needs
//! twice the memory. Most coins die young, so a freed place is soon taken again by an entry of the
//! same size; places are not merged or split, since a memtable lives only until its next freeze.

/// Granularity of places in bytes: 32-bit offsets in these units reach 16 GiB.
const UNIT: usize = 4;
/// Bytes of a chunk. Small against the smallest budget, large against the largest entry.
pub(super) const CHUNK: usize = 128 << 10;
const CHUNK_UNITS: u32 = (CHUNK / UNIT) as u32;
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
    /// Freed places by length in units; each holds the offset of the next one in its first bytes.
    free: Box<[u32]>,
    free_units: u64,
}

fn units(len: usize) -> u32 {
    debug_assert!(0 < len && len <= MAX_LEN);
    len.div_ceil(UNIT) as u32
}

impl Arena {
    pub(super) fn new() -> Self {
        let free = vec![0; CLASSES].into_boxed_slice();
        Self { chunks: Vec::new(), next: 0, end: 0, free, free_units: 0 }
    }

    /// Bytes allocated.
    pub(super) fn memory(&self) -> usize {
        self.chunks.len() * CHUNK + CLASSES * size_of::<u32>()
    }

    /// Bytes of places that were freed and not taken again.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> u64 {
        self.free_units * UNIT as u64
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

    /// Copies `data`, 1 to [`MAX_LEN`] bytes, to a free place.
    #[inline]
    pub(super) fn insert(&mut self, data: &[u8]) -> u32 {
        let offset = self.place(units(data.len()));
        self.bytes_mut(offset)[..data.len()].copy_from_slice(data);
        offset
    }

    #[inline]
    fn place(&mut self, units: u32) -> u32 {
        let free = self.free[units as usize];
        if free != 0 {
            let next = self.bytes(free).first_chunk().expect("a place is at least one unit");
            self.free[units as usize] = u32::from_le_bytes(*next);
            self.free_units -= u64::from(units);
            return free;
        }
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

    /// Gives back the place of `len` bytes at `offset`.
    #[inline]
    pub(super) fn release(&mut self, offset: u32, len: usize) {
        self.release_units(offset, units(len));
    }

    #[inline]
    fn release_units(&mut self, offset: u32, units: u32) {
        let next = std::mem::replace(&mut self.free[units as usize], offset);
        self.bytes_mut(offset)[..UNIT].copy_from_slice(&next.to_le_bytes());
        self.free_units += u64::from(units);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn keeps_what_was_put(steps in prop::collection::vec((1usize..300, any::<u8>()), 1..400)) {
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
                    prop_assert_eq!(&arena.bytes(*offset)[..data.len()], &data[..]);
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

    #[test]
    fn the_longest_place_fits_a_chunk() {
        let mut arena = Arena::new();
        let places = (0..100).map(|n| arena.insert(&[n; MAX_LEN])).collect::<Vec<_>>();
        for (n, offset) in places.into_iter().enumerate() {
            assert!(arena.bytes(offset)[..MAX_LEN].iter().all(|byte| usize::from(*byte) == n));
        }
    }
}

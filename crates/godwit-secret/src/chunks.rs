//! Which parts of an arena are in use: best fit over byte ranges, merged when they are freed. The
//! ranges are kept outside the arena, so that all of it holds secrets and a forked child, for which
//! the arena is zeros, still knows them.

use std::collections::{BTreeMap, BTreeSet};

/// Sizes are rounded up to this many bytes, which is also the alignment of every chunk.
pub(crate) const CHUNK_ALIGN: usize = 16;

/// The chunks of an arena, by their offset in bytes.
#[derive(Debug)]
pub(crate) struct Chunks {
    used: BTreeMap<usize, usize>,
    free: BTreeMap<usize, usize>,
    /// The same chunks as `free`, as (size, offset).
    free_by_size: BTreeSet<(usize, usize)>,
    used_bytes: usize,
}

impl Chunks {
    /// One free chunk of `size` bytes, a multiple of [`CHUNK_ALIGN`].
    pub(crate) fn new(size: usize) -> Self {
        let mut chunks = Self {
            used: BTreeMap::new(),
            free: BTreeMap::new(),
            free_by_size: BTreeSet::new(),
            used_bytes: 0,
        };
        chunks.insert_free(0, size);
        chunks
    }

    /// Takes `size` bytes from the smallest free chunk that has them; `None` when none has.
    pub(crate) fn take(&mut self, size: usize) -> Option<usize> {
        let size = size.checked_next_multiple_of(CHUNK_ALIGN)?;
        let &(room, offset) = self.free_by_size.range((size, 0)..).next()?;
        self.remove_free(offset, room);
        if room > size {
            self.insert_free(offset + size, room - size);
        }
        self.used.insert(offset, size);
        self.used_bytes += size;
        Some(offset)
    }

    /// Gives back what [`take`](Self::take) returned for the same size.
    ///
    /// # Panics
    ///
    /// When it did not, or it was given back before: two owners of one secret's memory.
    pub(crate) fn give_back(&mut self, offset: usize, size: usize) {
        let size = size.next_multiple_of(CHUNK_ALIGN);
        let known = self.used.remove(&offset);
        assert!(known == Some(size), "locked memory freed twice or with another size");
        self.used_bytes -= size;
        let (mut offset, mut size) = (offset, size);
        let before = self.free.range(..offset).next_back().map(|(&start, &room)| (start, room));
        if let Some((start, room)) = before.filter(|(start, room)| start + room == offset) {
            self.remove_free(start, room);
            offset = start;
            size += room;
        }
        if let Some(&room) = self.free.get(&(offset + size)) {
            self.remove_free(offset + size, room);
            size += room;
        }
        self.insert_free(offset, size);
    }

    pub(crate) fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    /// Number of used and of free chunks.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.used.len(), self.free.len())
    }

    fn insert_free(&mut self, offset: usize, size: usize) {
        self.free.insert(offset, size);
        self.free_by_size.insert((size, offset));
    }

    fn remove_free(&mut self, offset: usize, size: usize) {
        self.free.remove(&offset);
        self.free_by_size.remove(&(size, offset));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// One flag for each granule: the naive twin.
    struct Granules {
        used: Vec<bool>,
    }

    impl Granules {
        /// Start and length of the runs of free granules.
        fn free_runs(&self) -> Vec<(usize, usize)> {
            let mut runs: Vec<(usize, usize)> = Vec::new();
            for (index, _) in self.used.iter().enumerate().filter(|(_, used)| !**used) {
                match runs.last_mut() {
                    Some((start, length)) if *start + *length == index => *length += 1,
                    _ => runs.push((index, 1)),
                }
            }
            runs
        }

        /// Where best fit puts `size` bytes: the shortest run that has them, the first of those.
        fn best_fit(&self, size: usize) -> Option<usize> {
            let granules = size.div_ceil(CHUNK_ALIGN);
            let fitting = self.free_runs().into_iter().filter(|(_, length)| *length >= granules);
            fitting.min_by_key(|(start, length)| (*length, *start)).map(|(start, _)| start)
        }

        fn mark(&mut self, offset: usize, size: usize, used: bool) {
            let first = offset / CHUNK_ALIGN;
            for granule in &mut self.used[first..first + size.div_ceil(CHUNK_ALIGN)] {
                assert_ne!(*granule, used, "two owners of one granule");
                *granule = used;
            }
        }
    }

    const GRANULES: usize = 64;

    proptest! {
        #[test]
        fn it_does_what_one_flag_per_granule_does(
            steps in prop::collection::vec((any::<bool>(), 1usize..200, any::<prop::sample::Index>()), 0..300)
        ) {
            let mut chunks = Chunks::new(GRANULES * CHUNK_ALIGN);
            let mut twin = Granules { used: vec![false; GRANULES] };
            let mut live: Vec<(usize, usize)> = Vec::new();
            for (give_back, size, which) in steps {
                if give_back && !live.is_empty() {
                    let (offset, size) = live.swap_remove(which.index(live.len()));
                    chunks.give_back(offset, size);
                    twin.mark(offset, size, false);
                } else {
                    let offset = chunks.take(size);
                    prop_assert_eq!(offset, twin.best_fit(size).map(|start| start * CHUNK_ALIGN));
                    if let Some(offset) = offset {
                        twin.mark(offset, size, true);
                        live.push((offset, size));
                    }
                }
                let used = twin.used.iter().filter(|used| **used).count() * CHUNK_ALIGN;
                prop_assert_eq!(chunks.used_bytes(), used);
                prop_assert_eq!(chunks.counts(), (live.len(), twin.free_runs().len()));
            }
            for (offset, size) in live {
                chunks.give_back(offset, size);
            }
            prop_assert_eq!(chunks.counts(), (0, 1));
            prop_assert_eq!(chunks.take(GRANULES * CHUNK_ALIGN), Some(0));
        }
    }

    #[test]
    fn an_arena_is_full_at_its_last_byte() {
        let mut chunks = Chunks::new(64);
        assert_eq!(chunks.take(49), Some(0));
        assert_eq!(chunks.take(1), None);
        chunks.give_back(0, 49);
        assert_eq!(chunks.take(65), None);
        assert_eq!(chunks.take(usize::MAX), None);
        assert_eq!(chunks.take(64), Some(0));
        assert_eq!(chunks.counts(), (1, 0));
    }

    #[test]
    #[should_panic(expected = "freed twice")]
    fn freeing_twice_is_found() {
        let mut chunks = Chunks::new(64);
        let offset = chunks.take(16).expect("there is room");
        chunks.give_back(offset, 16);
        chunks.give_back(offset, 16);
    }

    #[test]
    #[should_panic(expected = "another size")]
    fn freeing_a_part_is_found() {
        let mut chunks = Chunks::new(64);
        let offset = chunks.take(32).expect("there is room");
        chunks.give_back(offset, 16);
    }
}

//! Open addressing in key order: one shard of a memtable's slot table.
//!
//! A slot is 8 bytes, `tag << 32 | offset`: 32 bits of the keyed hash and the entry's offset in the
//! arena. A tag's home is `tag * capacity / 2^32`, which grows with the tag, and insertion keeps
//! every cluster sorted by tag. So the whole table is sorted: a miss ends at the first larger tag,
//! growing is one sequential pass, removal shifts slots back instead of leaving a mark, and a flush
//! walks entries in key order without sorting. Any capacity works, not only powers of two, which is
//! why the load can stay between 80 % and 90 %.

/// Slots of a new shard.
const MIN_CAPACITY: usize = 16;
/// Load at which a shard grows: just below it an insert shifts 50 slots (linear probing's `(1 + 1 /
/// (1 - load)^2) / 2`), which are in seven consecutive cache lines.
const MAX_LOAD: (usize, usize) = (9, 10);
/// Growth: by 9/8, so that the load falls to 80 % and not to 44 % as by doubling; in all a slot is
/// moved nine times, sequentially.
const GROWTH: (usize, usize) = (9, 8);

/// A sorted open-addressing table from tags to arena offsets; equal tags are allowed.
pub(super) struct Slots {
    /// `capacity` home slots, then room for the last cluster; the last slot is always empty, so
    /// that every walk ends inside.
    slots: Vec<u64>,
    capacity: usize,
    len: usize,
}

fn tag_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn offset_of(slot: u64) -> u32 {
    slot as u32
}

#[inline]
fn home(tag: u32, capacity: usize) -> usize {
    ((u64::from(tag) * capacity as u64) >> 32) as usize
}

/// Slots behind the last home, for clusters that run over the end.
fn overflow_slots(capacity: usize) -> usize {
    (capacity / 4 + 4).min(128)
}

fn empty_table(capacity: usize) -> Vec<u64> {
    vec![0; capacity + overflow_slots(capacity)]
}

impl Slots {
    pub(super) fn new() -> Self {
        Self { slots: empty_table(MIN_CAPACITY), capacity: MIN_CAPACITY, len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Bytes of the table.
    pub(super) fn memory(&self) -> usize {
        self.slots.len() * size_of::<u64>()
    }

    /// Bytes of the table after its next growth, during which the old one is still there.
    pub(super) fn memory_grown(&self) -> usize {
        let capacity = grown(self.capacity);
        (capacity + overflow_slots(capacity)) * size_of::<u64>()
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        home(tag, self.capacity)
    }

    /// The home slot of `tag` as it is.
    #[inline]
    pub(super) fn home_slot(&self, tag: u32) -> u64 {
        self.slots[self.home(tag)]
    }

    /// The slot whose tag is `tag` and whose entry `is_match`, or else where such a slot
    /// belongs.
    #[inline]
    pub(super) fn search(
        &self,
        tag: u32,
        mut is_match: impl FnMut(u32) -> bool,
    ) -> Result<usize, usize> {
        let mut index = self.home(tag);
        loop {
            let slot = self.slots[index];
            if slot == 0 || tag_of(slot) > tag {
                return Err(index);
            }
            if tag_of(slot) == tag && is_match(offset_of(slot)) {
                return Ok(index);
            }
            index += 1;
        }
    }

    /// The arena offset in slot `index`.
    #[inline]
    pub(super) fn offset(&self, index: usize) -> u32 {
        offset_of(self.slots[index])
    }

    /// The offset in the first slot with this tag; 0 if there is none.
    #[inline]
    pub(super) fn first_offset(&self, tag: u32) -> u32 {
        match self.search(tag, |_| true) {
            Ok(index) => self.offset(index),
            Err(_) => 0,
        }
    }

    /// Points slot `index` to another place in the arena.
    #[inline]
    pub(super) fn set_offset(&mut self, index: usize, offset: u32) {
        let slot = &mut self.slots[index];
        *slot = *slot & !u64::from(u32::MAX) | u64::from(offset);
    }

    /// Inserts at `index`, where [`Self::search`] missed. `offset` is not 0, so that no slot in use
    /// looks empty. Returns whether the table grew.
    #[inline]
    pub(super) fn insert(&mut self, index: usize, tag: u32, offset: u32) -> bool {
        debug_assert_ne!(offset, 0);
        let slot = u64::from(tag) << 32 | u64::from(offset);
        let gap = self.gap_from(index);
        let full = (self.len + 1) * MAX_LOAD.1 > self.capacity * MAX_LOAD.0;
        if full || gap + 1 == self.slots.len() {
            self.grow();
            self.insert_grown(slot);
            return true;
        }
        self.slots.copy_within(index..gap, index + 1);
        self.slots[index] = slot;
        self.len += 1;
        false
    }

    fn gap_from(&self, index: usize) -> usize {
        let mut gap = index;
        while self.slots[gap] != 0 {
            gap += 1;
        }
        gap
    }

    fn insert_grown(&mut self, slot: u64) {
        loop {
            let (Ok(index) | Err(index)) = self.search(tag_of(slot), |_| true);
            let gap = self.gap_from(index);
            if gap + 1 == self.slots.len() {
                self.grow();
                continue;
            }
            self.slots.copy_within(index..gap, index + 1);
            self.slots[index] = slot;
            self.len += 1;
            return;
        }
    }

    /// Empties slot `index`: what follows in its cluster and is not at home moves back by one.
    #[inline]
    pub(super) fn remove(&mut self, index: usize) {
        let mut end = index + 1;
        while self.slots[end] != 0 && self.home(tag_of(self.slots[end])) < end {
            end += 1;
        }
        self.slots.copy_within(index + 1..end, index);
        self.slots[end - 1] = 0;
        self.len -= 1;
    }

    /// The first slot in use from `index` on: its index, tag and offset. Tags never fall.
    #[inline]
    pub(super) fn next_used(&self, index: usize) -> Option<(usize, u32, u32)> {
        let mut rest = self.slots[index..].iter().zip(index..);
        rest.find(|(slot, _)| **slot != 0)
            .map(|(slot, index)| (index, tag_of(*slot), offset_of(*slot)))
    }

    fn grow(&mut self) {
        let mut capacity = self.capacity;
        loop {
            capacity = grown(capacity);
            if let Some(slots) = laid_out(&self.slots, capacity) {
                (self.slots, self.capacity) = (slots, capacity);
                return;
            }
        }
    }

    /// The longest distance of a slot from its home.
    #[cfg(test)]
    pub(super) fn longest_probe(&self) -> usize {
        let used = self.slots.iter().enumerate().filter(|(_, slot)| **slot != 0);
        used.map(|(index, slot)| index - self.home(tag_of(*slot))).max().unwrap_or(0)
    }
}

fn grown(capacity: usize) -> usize {
    capacity * GROWTH.0 / GROWTH.1
}

/// The slots of `old` in a table of another capacity; `None` if they run over its end, which only
/// very uneven tags do.
fn laid_out(old: &[u64], capacity: usize) -> Option<Vec<u64>> {
    let mut table = empty_table(capacity);
    let last = table.len() - 1;
    let mut next = 0;
    for slot in old.iter().filter(|slot| **slot != 0) {
        let index = home(tag_of(*slot), capacity).max(next);
        if index >= last {
            return None;
        }
        table[index] = *slot;
        next = index + 1;
    }
    Some(table)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn check_order(slots: &Slots, model: &BTreeSet<(u32, u32)>) {
        assert_eq!(slots.len(), model.len());
        let used = slots.slots.iter().filter(|slot| **slot != 0);
        let mut listed: Vec<_> = used.map(|slot| (tag_of(*slot), offset_of(*slot))).collect();
        assert!(listed.is_sorted_by_key(|(tag, _)| *tag));
        listed.sort_unstable();
        assert_eq!(listed, model.iter().copied().collect::<Vec<_>>());
        assert_eq!(slots.slots.last(), Some(&0));
    }

    proptest! {
        /// Fragments from a few narrow bands, so that clusters run into each other and over the
        /// end.
        #[test]
        fn behaves_as_an_ordered_set(
            steps in prop::collection::vec((0u32..4, 0u32..40, any::<bool>()), 1..600)
        ) {
            let mut slots = Slots::new();
            let mut model = BTreeSet::new();
            for (n, (band, low, insert)) in steps.into_iter().enumerate() {
                let tag = [0, 0x7fff_fff0, 0xffff_ffd7, 0xc000_0000][band as usize] + low;
                let known = model.range((tag, 0)..=(tag, u32::MAX)).next().copied();
                if insert {
                    let offset = n as u32 + 1;
                    let (Ok(index) | Err(index)) = slots.search(tag, |_| false);
                    slots.insert(index, tag, offset);
                    model.insert((tag, offset));
                } else if let Some(pair) = known {
                    let index = slots.search(tag, |offset| offset == pair.1).unwrap();
                    slots.remove(index);
                    model.remove(&pair);
                } else {
                    prop_assert!(slots.search(tag, |_| true).is_err());
                }
                check_order(&slots, &model);
            }
        }
    }

    #[test]
    fn load_stays_in_its_band_while_growing() {
        let mut slots = Slots::new();
        let mut tag = 1u32;
        for n in 1..100_000u32 {
            tag = tag.wrapping_mul(2_654_435_761).wrapping_add(12_345);
            let (Ok(index) | Err(index)) = slots.search(tag, |_| false);
            slots.insert(index, tag, n);
            let load = slots.len() * 100 / slots.capacity;
            assert!(load <= 90 && (n < 1000 || load >= 78), "{load} % at {n}");
        }
        assert!(slots.longest_probe() < 500, "{}", slots.longest_probe());
    }
}

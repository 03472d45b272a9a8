//! A segment of a run: lookups by way of filter, block index and one positional read.

use std::ops::Range;
use std::sync::Arc;

use godwit_stream::DecodeError;

use super::file::{Blocks, RunFile};
use super::format::{BLOCK, BlockKind, BlockRef, SegmentMeta};
use crate::disk::StoreFile;
use crate::error::{Damage, KeyRange, StoreError};
use crate::utxo::entry::{Entry, Name};
use crate::utxo::filter::Filter;
use crate::utxo::key::HashedOutPoint;

/// First keys of blocks, in memory.
pub(crate) struct BlockIndex {
    /// Upper half of the first key of every `2^step`-th block. No vector, which would keep the room that it
    /// has grown by: up to as much again, that nothing counts.
    keys: Box<[u32]>,
    step: u32,
    blocks: u32,
}

impl BlockIndex {
    pub(crate) fn new(keys: Vec<u32>) -> Self {
        let blocks = keys.len() as u32;
        Self { keys: keys.into_boxed_slice(), step: 0, blocks }
    }

    fn read(run: &RunFile, meta: &SegmentMeta) -> Result<Arc<Self>, StoreError> {
        let index = run.read_payloads(BlockKind::Index, meta.index_block(), meta.index_bytes())?;
        let keys = index.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        Ok(Arc::new(Self::new(keys.collect())))
    }

    pub(crate) fn memory(&self) -> usize {
        self.keys.len() * size_of::<u32>()
    }

    /// The index of every second key of this one: half the memory, twice the blocks to read.
    pub(crate) fn thinned(&self) -> Self {
        let keys = self.keys.iter().copied().step_by(2).collect();
        Self { keys, step: self.step + 1, blocks: self.blocks }
    }

    /// The blocks that can hold `key`: most often one.
    fn candidates(&self, key: u64) -> Range<u32> {
        self.candidates_from(&mut 0, key)
    }

    /// As [`Self::candidates`]. `from` is 0, or what it was set to for a lower key: the next key of many is
    /// in one of the next few blocks.
    #[inline]
    fn candidates_from(&self, from: &mut usize, key: u64) -> Range<u32> {
        let (key, keys) = ((key >> 32) as u32, &self.keys[..]);
        let (mut low, mut step) = (*from, 1);
        while keys.get(low + step - 1).is_some_and(|first| *first <= key) {
            (low, step) = (low + step, 2 * step);
        }
        let high = keys.len().min(low + step - 1);
        let end = low + keys[low..high].partition_point(|first| *first <= key);
        *from = end;
        // A block whose first key has the same upper half may begin behind the key: the one before
        // it is a candidate too.
        let equal = keys[..end].iter().rev().take_while(|first| **first == key).count();
        let start = (end - equal).saturating_sub(1);
        (start as u32) << self.step..self.blocks.min((end as u32) << self.step)
    }

    /// The least range of keys of which it is known that it holds those of a block.
    fn keys_of(&self, block: u32) -> (u64, u64) {
        let place = (block >> self.step) as usize;
        let first = self.keys.get(place).map_or(0, |key| u64::from(*key) << 32);
        let last = self.keys.get(place + 1);
        (first, last.map_or(u64::MAX, |key| u64::from(*key) << 32 | u64::from(u32::MAX)))
    }
}

/// Which seals a segment covers, both ends included; larger is newer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SealRange {
    pub(crate) oldest: u64,
    pub(crate) newest: u64,
}

/// One partition's entries in a run, with what is kept of them in memory.
#[derive(Clone)]
pub(crate) struct Segment {
    pub(crate) run: Arc<RunFile>,
    pub(crate) meta: SegmentMeta,
    pub(crate) seals: SealRange,
    pub(crate) filter: Option<Arc<Filter>>,
    pub(crate) index: Arc<BlockIndex>,
}

/// Memory of lookups, kept from one to the next.
#[derive(Default)]
pub(crate) struct LookupScratch {
    blocks: Blocks,
    long: Vec<u8>,
    ranges: Vec<Range<u32>>,
}

/// Blocks of a lookup that are read in one call at most, where they are neighbours: 64 KiB.
const BLOCKS_AT_ONCE: usize = 16;

/// The first of `ranges`, which rise, and what follows it without a gap, within [`BLOCKS_AT_ONCE`]; and how
/// many ranges that is.
fn neighbours(ranges: &[Range<u32>]) -> (Range<u32>, usize) {
    let mut all = ranges[0].clone();
    let mut count = 1;
    for range in &ranges[1..] {
        let together = all.start..all.end.max(range.end);
        if range.start > all.end || *range != all && together.len() > BLOCKS_AT_ONCE {
            break;
        }
        (all, count) = (together, count + 1);
    }
    (all, count)
}

/// The first of `ranges`, and how many are the same.
fn equal(ranges: &[Range<u32>]) -> (Range<u32>, usize) {
    (ranges[0].clone(), ranges.iter().take_while(|range| **range == ranges[0]).count())
}

/// What is known of a key without waiting for the disk.
pub(crate) enum AtHand<'a> {
    Entry(Entry<'a>),
    /// The disk fetches what is needed to tell.
    Pending,
}

/// What a block says of a name.
enum Found<'a> {
    Entry(Entry<'a>),
    /// An entry that goes on in the following blocks.
    Long,
    Nothing,
}

fn find_in<'a>(block: BlockRef<'a>, name: &Name) -> Result<Found<'a>, Damage> {
    if block.kind == BlockKind::Overflow {
        return Ok(Found::Nothing);
    }
    if block.kind != BlockKind::Entries {
        return Err(Damage::Format);
    }
    if block.span > 1 {
        let found = name.begins_entry(block.payload);
        return Ok(if found { Found::Long } else { Found::Nothing });
    }
    let mut rest = block.payload;
    while !rest.is_empty() {
        let entry = Entry::first_of(rest).ok_or(Damage::Format)?;
        if entry.is_named(name) {
            return Ok(Found::Entry(entry));
        }
        rest = &rest[entry.bytes().len()..];
    }
    Ok(Found::Nothing)
}

impl Segment {
    /// Loads what is kept in memory of a segment that the footer of `run` describes.
    pub(crate) fn load(
        run: &Arc<RunFile>,
        meta: &SegmentMeta,
        seals: SealRange,
        partition_bits: u32,
    ) -> Result<Self, StoreError> {
        let index = BlockIndex::read(run, meta)?;
        let filter = match meta.filter_bytes {
            0 => None,
            len => {
                let first = meta.filter_block();
                let bytes = run.read_payloads(BlockKind::Filter, first, u64::from(len))?;
                let filter = Filter::from_bytes(&bytes, partition_bits);
                Some(Arc::new(filter.ok_or_else(|| run.damaged(first, Damage::Format))?))
            }
        };
        Ok(Self { run: Arc::clone(run), meta: meta.clone(), seals, filter, index })
    }

    /// The same without a filter, and with all else that memory holds of it read again from its file.
    pub(crate) fn reread(&self) -> Result<Self, StoreError> {
        let mut metas = self.run.read_footer()?.segments;
        metas.retain(|meta| meta.partition == self.meta.partition);
        let Some(meta) = metas.pop() else {
            return Err(self.run.damaged(self.run.blocks.saturating_sub(1), Damage::Format));
        };
        let index = BlockIndex::read(&self.run, &meta)?;
        Ok(Self { run: Arc::clone(&self.run), meta, seals: self.seals, filter: None, index })
    }

    /// Bytes on disk: entries, filter and index.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.meta.end_block() - self.meta.first_block) * BLOCK as u64
    }

    pub(crate) fn filter_memory(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.memory())
    }

    #[inline]
    pub(crate) fn may_contain(&self, key: u64) -> bool {
        (self.meta.min_key..=self.meta.max_key).contains(&key)
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(key))
    }

    /// Makes `wanted` those of `open` that may be here, by their numbers in `keys`. The filter is asked for
    /// all in a row: its cache misses then overlap.
    #[inline]
    pub(crate) fn select(&self, keys: &[HashedOutPoint], open: &[u32], wanted: &mut Vec<u32>) {
        wanted.clear();
        wanted.extend(open.iter().filter(|n| self.may_contain(keys[**n as usize].key)));
    }

    /// Whether two keys are looked for in the same blocks.
    pub(crate) fn is_of_one_read(&self, first: u64, second: u64) -> bool {
        self.index.candidates(first) == self.index.candidates(second)
    }

    /// Looks for `keys[n]` for each `n` of `wanted`, which is in order of key, and hands each entry to
    /// `found`.
    pub(crate) fn resolve(
        &self,
        keys: &[HashedOutPoint],
        wanted: &[u32],
        scratch: &mut LookupScratch,
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), StoreError> {
        let file = self.run.open()?;
        let (mut from, mut read) = (0, 0..0);
        for n in wanted {
            let key = &keys[*n as usize];
            let range = self.index.candidates_from(&mut from, key.key);
            if range != read {
                read = range.clone();
                self.read_blocks(&file, range.clone(), &mut scratch.blocks)?;
            }
            self.look_at(&file, key, range, scratch, |entry| found(*n, entry))?;
        }
        Ok(())
    }

    /// As [`Self::resolve`], but waits for nothing: where that has to be, the disk fetches what will be read,
    /// and `found` is told so. Returns how many blocks it fetches.
    pub(crate) fn resolve_at_hand(
        &self,
        keys: &[HashedOutPoint],
        wanted: &[u32],
        scratch: &mut LookupScratch,
        found: &mut impl FnMut(u32, AtHand<'_>) -> Result<(), DecodeError>,
    ) -> Result<usize, StoreError> {
        let file = self.run.open()?;
        let (mut from, mut ranges) = (0, std::mem::take(&mut scratch.ranges));
        ranges.clear();
        ranges.extend(wanted.iter().map(|n| {
            let key = keys[*n as usize].key;
            self.index.candidates_from(&mut from, key)
        }));
        let (mut at, mut is_at_hand, mut pending) = (0, false, 0);
        while let Some(rest) = ranges.get(at..).filter(|rest| !rest.is_empty()) {
            // A call costs more than a block more. But what has to be waited for is read as it was asked
            // for, key by key; so neighbours are only tried together while all is at hand.
            let (read, count) = if is_at_hand { neighbours(rest) } else { equal(rest) };
            let numbers = self.in_run(&read);
            let at_hand = self.run.read_or_fetch(&file, numbers, &mut scratch.blocks);
            let were_at_hand = is_at_hand;
            is_at_hand = at_hand.map_err(|error| self.name_coins(error))?;
            if !is_at_hand && were_at_hand && count > equal(rest).1 {
                continue;
            }
            pending += if is_at_hand { 0 } else { read.len() };
            for (n, range) in wanted[at..].iter().zip(rest).take(count) {
                if is_at_hand {
                    let (key, range) = (&keys[*n as usize], range.clone());
                    self.look_at(&file, key, range, scratch, |entry| {
                        found(*n, AtHand::Entry(entry))
                    })?;
                } else {
                    let pending = found(*n, AtHand::Pending);
                    pending.map_err(|error| self.undecodable(range.start, error))?;
                }
            }
            at += count;
        }
        scratch.ranges = ranges;
        Ok(pending)
    }

    /// Reads blocks of entries by their numbers in the segment.
    ///
    /// # Errors
    ///
    /// As [`RunFile::read`]; damage that is not repaired names the coins concerned.
    pub(super) fn read_blocks(
        &self,
        file: &StoreFile,
        numbers: Range<u32>,
        into: &mut Blocks,
    ) -> Result<(), StoreError> {
        let read = self.run.read(file, self.in_run(&numbers), into);
        read.map_err(|error| self.name_coins(error))
    }

    /// Blocks by their numbers in the run.
    fn in_run(&self, numbers: &Range<u32>) -> Range<u32> {
        let first = self.meta.first_block;
        first + numbers.start..first + numbers.end
    }

    fn name_coins(&self, error: StoreError) -> StoreError {
        match error {
            StoreError::Damaged { path, offset, damage: Damage::Checksum } => {
                let number = (offset / BLOCK as u64) as u32 - self.meta.first_block;
                StoreError::damaged(&path, offset, Damage::Coins(self.keys_of(number)))
            }
            other => other,
        }
    }

    fn undecodable(&self, number: u32, error: DecodeError) -> StoreError {
        self.run.damaged(self.meta.first_block + number, Damage::Decode(error))
    }

    fn keys_of(&self, number: u32) -> KeyRange {
        let (first, last) = self.index.keys_of(number);
        let SegmentMeta { partition, min_key, max_key, .. } = self.meta;
        KeyRange { partition, first: first.max(min_key), last: last.min(max_key) }
    }

    /// Looks for `key` in the blocks of `range`, which `scratch` holds, and hands its entry to `found`.
    fn look_at(
        &self,
        file: &StoreFile,
        key: &HashedOutPoint,
        range: Range<u32>,
        scratch: &mut LookupScratch,
        found: impl FnOnce(Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), StoreError> {
        let LookupScratch { blocks, long, .. } = scratch;
        let name = Name::new(&key.outpoint);
        for number in range {
            let absolute = self.meta.first_block + number;
            let block = blocks.get(absolute);
            let entry =
                match find_in(block, &name).map_err(|damage| self.run.damaged(absolute, damage))? {
                    Found::Entry(entry) => entry,
                    Found::Long => {
                        self.read_long(file, number, block.span, long)?;
                        let entry = Entry::first_of(long);
                        entry.ok_or_else(|| self.run.damaged(absolute, Damage::Format))?
                    }
                    Found::Nothing => continue,
                };
            return found(entry).map_err(|error| self.undecodable(number, error));
        }
        Ok(())
    }

    /// Puts together the entry that spans `span` blocks from `number` on.
    fn read_long(
        &self,
        file: &StoreFile,
        number: u32,
        span: u8,
        long: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let mut blocks = Blocks::default();
        let end = self.meta.blocks.min(number + u32::from(span));
        self.read_blocks(file, number..end, &mut blocks)?;
        long.clear();
        for (absolute, block) in blocks.iter() {
            if !long.is_empty() && block.kind != BlockKind::Overflow {
                return Err(self.run.damaged(absolute, Damage::Format));
            }
            long.extend_from_slice(block.payload);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn neighbours_are_read_together_up_to_a_limit_and_never_across_a_gap() {
        let most = BLOCKS_AT_ONCE as u32;
        let all = |range: Range<u32>| range.map(|n| n..n + 1).collect::<Vec<_>>();
        assert_eq!(neighbours(&all(5..5 + most)), (5..5 + most, BLOCKS_AT_ONCE));
        assert_eq!(neighbours(&all(5..6 + most)), (5..5 + most, BLOCKS_AT_ONCE));
        assert_eq!(neighbours(&[1..2, 1..2, 2..3, 4..5]), (1..3, 3));
        assert_eq!(neighbours(&[1..3, 2..3, 2..4]), (1..4, 3));
        // One range is read whatever its length.
        let long = 1..2 + most;
        assert_eq!(neighbours(&[long.clone(), long.clone(), 2..4 + most]), (long, 2));
        assert_eq!(equal(&[1..2, 1..2, 2..3]), (1..2, 2));
    }

    /// A run's writer finds one key after the other, in a vector that grows.
    #[test]
    fn a_block_index_holds_no_more_memory_than_it_counts() {
        let mut keys = Vec::with_capacity(1_024);
        keys.extend(0..700);
        let index = BlockIndex::new(keys);
        for index in [index.thinned(), index] {
            let counted = index.memory();
            assert_eq!(Vec::from(index.keys).capacity() * size_of::<u32>(), counted);
        }
    }

    proptest! {
        /// Against the naive reading: every block that some key with this upper half may be in.
        #[test]
        fn candidates_cover_the_key(
            mut firsts in prop::collection::vec(0u64..40, 1..60),
            low in any::<u32>(),
            wanted in 0u64..42,
            before in 0u64..42,
            thin in 0u32..4,
        ) {
            firsts.sort_unstable();
            let mut index = BlockIndex::new(firsts.iter().map(|key| *key as u32).collect());
            (0..thin).for_each(|_| index = index.thinned());
            let key = wanted << 32 | u64::from(low);
            let range = index.candidates(key);
            let mut from = 0;
            index.candidates_from(&mut from, before.min(wanted) << 32);
            prop_assert_eq!(index.candidates_from(&mut from, key), range.clone());
            for (number, first) in firsts.iter().enumerate() {
                let next = firsts.get(number + 1).copied().unwrap_or(u64::MAX);
                if *first <= wanted && wanted <= next {
                    prop_assert!(range.contains(&(number as u32)), "{range:?} lacks {number}");
                }
            }
            prop_assert!(range.end as usize <= firsts.len());
        }
    }
}

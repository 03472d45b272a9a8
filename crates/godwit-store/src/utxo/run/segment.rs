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
    /// Upper half of the first key of every `2^step`-th block.
    keys: Vec<u32>,
    step: u32,
    blocks: u32,
}

impl BlockIndex {
    pub(crate) fn new(keys: Vec<u32>) -> Self {
        let blocks = keys.len() as u32;
        Self { keys, step: 0, blocks }
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
    #[inline]
    fn candidates(&self, key: u64) -> Range<u32> {
        let key = (key >> 32) as u32;
        let end = self.keys.partition_point(|first| *first <= key);
        // A block whose first key has the same upper half may begin behind the key: the one before
        // it is a candidate too.
        let start = self.keys[..end].partition_point(|first| *first < key).saturating_sub(1);
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
}

/// What a lookup does where the disk has to be waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Patience {
    /// It waits.
    Wait,
    /// It has the disk fetch what it needs, and goes on with the next.
    Fetch,
}

/// What a segment says of a key.
pub(crate) enum Answer<'a> {
    Entry(Entry<'a>),
    Nothing,
    /// The disk fetches what is needed to tell.
    Fetched,
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

    /// Looks for `keys[n]` for each `n` of `wanted`, which is in order of key, and tells `found` the answer:
    /// an entry, none, or, if `patience` is not to wait, that the disk fetches it.
    pub(crate) fn resolve(
        &self,
        keys: &[HashedOutPoint],
        wanted: &[u32],
        patience: Patience,
        scratch: &mut LookupScratch,
        found: &mut impl FnMut(u32, Answer<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), StoreError> {
        let LookupScratch { blocks, long } = scratch;
        let file = self.run.open()?;
        let (mut asked, mut read) = (0..0, true);
        for n in wanted {
            let key = &keys[*n as usize];
            let range = self.index.candidates(key.key);
            if range != asked {
                asked = range.clone();
                read = self.read_blocks(&file, range.clone(), patience, blocks)?;
            }
            let (number, answer) = match read {
                true => match self.find(&file, key, range, blocks, long)? {
                    Some((number, entry)) => (number, Answer::Entry(entry)),
                    None => (self.meta.first_block, Answer::Nothing),
                },
                false => (self.meta.first_block, Answer::Fetched),
            };
            let decoded = found(*n, answer);
            decoded.map_err(|error| self.run.damaged(number, Damage::Decode(error)))?;
        }
        Ok(())
    }

    /// Reads blocks of entries by their numbers in the segment; `false`: the disk fetches them.
    ///
    /// # Errors
    ///
    /// As [`RunFile::read`]; damage that is not repaired names the coins concerned.
    pub(super) fn read_blocks(
        &self,
        file: &StoreFile,
        numbers: Range<u32>,
        patience: Patience,
        into: &mut Blocks,
    ) -> Result<bool, StoreError> {
        let first = self.meta.first_block;
        let numbers = first + numbers.start..first + numbers.end;
        let read = match patience {
            Patience::Wait => self.run.read(file, numbers, into).map(|()| true),
            Patience::Fetch => self.run.read_or_fetch(file, numbers, into),
        };
        read.map_err(|error| match error {
            StoreError::Damaged { path, offset, damage: Damage::Checksum } => {
                let number = (offset / BLOCK as u64) as u32 - first;
                StoreError::damaged(&path, offset, Damage::Coins(self.keys_of(number)))
            }
            other => other,
        })
    }

    fn keys_of(&self, number: u32) -> KeyRange {
        let (first, last) = self.index.keys_of(number);
        let SegmentMeta { partition, min_key, max_key, .. } = self.meta;
        KeyRange { partition, first: first.max(min_key), last: last.min(max_key) }
    }

    /// Looks for `key` in the blocks of `range`, which `blocks` holds: the entry, borrowed from
    /// there or from `long`, and the number of its block in the run.
    fn find<'a>(
        &self,
        file: &StoreFile,
        key: &HashedOutPoint,
        range: Range<u32>,
        blocks: &'a Blocks,
        long: &'a mut Vec<u8>,
    ) -> Result<Option<(u32, Entry<'a>)>, StoreError> {
        let name = Name::new(&key.outpoint);
        for number in range {
            let absolute = self.meta.first_block + number;
            let block = blocks.get(absolute);
            match find_in(block, &name).map_err(|damage| self.run.damaged(absolute, damage))? {
                Found::Entry(entry) => return Ok(Some((absolute, entry))),
                Found::Long => {
                    self.read_long(file, number, block.span, long)?;
                    let entry = Entry::first_of(long);
                    let entry = entry.ok_or_else(|| self.run.damaged(absolute, Damage::Format))?;
                    return Ok(Some((absolute, entry)));
                }
                Found::Nothing => {}
            }
        }
        Ok(None)
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
        self.read_blocks(file, number..end, Patience::Wait, &mut blocks)?;
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

    proptest! {
        /// Against the naive reading: every block that some key with this upper half may be in.
        #[test]
        fn candidates_cover_the_key(
            mut firsts in prop::collection::vec(0u64..40, 1..60),
            low in any::<u32>(),
            wanted in 0u64..42,
            thin in 0u32..4,
        ) {
            firsts.sort_unstable();
            let mut index = BlockIndex::new(firsts.iter().map(|key| *key as u32).collect());
            (0..thin).for_each(|_| index = index.thinned());
            let range = index.candidates(wanted << 32 | u64::from(low));
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

//! A segment of a run: lookups by way of filter, block index and one positional read.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use godwit_stream::DecodeError;

use super::format::{
    BLOCK, BlockKind, BlockRef, Footer, RunId, SegmentMeta, blocks_of, open_block,
};
use crate::disk::{StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};
use crate::utxo::entry::{Entry, Name};
use crate::utxo::filter::Filter;
use crate::utxo::key::HashedOutPoint;

/// A run file. It exists as long as this does, and is open while it is read often.
pub(crate) struct RunFile {
    pub(crate) id: RunId,
    pub(crate) disk: StoreDisk,
    pub(crate) path: PathBuf,
    /// Length in blocks, the footer included.
    pub(crate) blocks: u32,
}

impl RunFile {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK as u64
    }

    pub(crate) fn damaged(&self, block: u32, damage: Damage) -> StoreError {
        StoreError::damaged(&self.path, u64::from(block) * BLOCK as u64, damage)
    }

    /// A handle for some reads in a row.
    pub(crate) fn open(&self) -> Result<StoreFile, StoreError> {
        self.disk.open_cached(&self.path)
    }

    /// Reads raw blocks into `buffer`, replacing what it held.
    pub(crate) fn read_blocks(
        &self,
        blocks: Range<u32>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        read_blocks(&self.open()?, blocks, buffer)
    }

    /// Checks block `number`, which was read to `bytes`.
    pub(crate) fn open_block<'a>(
        &self,
        number: u32,
        bytes: &'a [u8; BLOCK],
    ) -> Result<BlockRef<'a>, StoreError> {
        open_block(bytes, self.id, number).ok_or_else(|| self.damaged(number, Damage::Checksum))
    }

    /// The `len` payload bytes of consecutive blocks of one kind.
    fn read_payloads(&self, kind: BlockKind, first: u32, len: u64) -> Result<Vec<u8>, StoreError> {
        let count = blocks_of(len) as u32;
        let mut raw = Vec::new();
        self.read_blocks(first..first.saturating_add(count), &mut raw)?;
        let mut payloads = Vec::with_capacity(len as usize);
        for (number, block) in (first..).zip(raw.as_chunks::<BLOCK>().0) {
            let block = self.open_block(number, block)?;
            if block.kind != kind {
                return Err(self.damaged(number, Damage::Format));
            }
            payloads.extend_from_slice(block.payload);
        }
        if payloads.len() as u64 != len {
            return Err(self.damaged(first, Damage::Format));
        }
        Ok(payloads)
    }

    /// The footer, checked against the file that it describes.
    pub(crate) fn read_footer(&self) -> Result<Footer, StoreError> {
        let last = self.blocks.saturating_sub(1);
        let mut raw = Vec::new();
        self.read_blocks(last..self.blocks, &mut raw)?;
        let bytes = raw.first_chunk().ok_or_else(|| self.damaged(0, Damage::Short))?;
        let block = self.open_block(last, bytes)?;
        let footer = Footer::parse(block.payload).filter(|footer| {
            block.kind == BlockKind::Footer
                && footer.run == self.id
                && footer.segments.iter().all(|segment| segment.end_block() <= last)
        });
        footer.ok_or_else(|| self.damaged(last, Damage::Format))
    }
}

fn read_blocks(
    file: &StoreFile,
    blocks: Range<u32>,
    buffer: &mut Vec<u8>,
) -> Result<(), StoreError> {
    buffer.resize(blocks.len() * BLOCK, 0);
    file.read_exact_at(u64::from(blocks.start) * BLOCK as u64, buffer)
}

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
    candidates: Vec<u32>,
    blocks: Vec<u8>,
    long: Vec<u8>,
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
        let index = run.read_payloads(BlockKind::Index, meta.index_block(), meta.index_bytes())?;
        let keys = index.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes));
        let index = Arc::new(BlockIndex::new(keys.collect()));
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

    /// Bytes on disk: entries, filter and index.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.meta.end_block() - self.meta.first_block) * BLOCK as u64
    }

    pub(crate) fn filter_memory(&self) -> usize {
        self.filter.as_ref().map_or(0, |filter| filter.memory())
    }

    #[inline]
    fn may_contain(&self, key: u64) -> bool {
        (self.meta.min_key..=self.meta.max_key).contains(&key)
            && self.filter.as_ref().is_none_or(|filter| filter.may_contain(key))
    }

    /// Looks for `keys[n]` for each `n` of `wanted`, which is in order of key, and hands each entry
    /// to `found`. The filter is asked for all first: its cache misses then overlap.
    pub(crate) fn resolve(
        &self,
        keys: &[HashedOutPoint],
        wanted: &[u32],
        scratch: &mut LookupScratch,
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<(), StoreError> {
        let LookupScratch { candidates, blocks, long } = scratch;
        candidates.clear();
        candidates.extend(wanted.iter().filter(|n| self.may_contain(keys[**n as usize].key)));
        if candidates.is_empty() {
            return Ok(());
        }
        let file = self.run.open()?;
        let mut loaded = 0..0;
        for n in candidates.iter() {
            let key = &keys[*n as usize];
            let range = self.index.candidates(key.key);
            if range != loaded {
                loaded = range.clone();
                self.load_blocks(&file, range.clone(), blocks)?;
            }
            if let Some((number, entry)) = self.find(&file, key, range, blocks, long)? {
                let decoded = found(*n, entry);
                decoded.map_err(|error| self.run.damaged(number, Damage::Decode(error)))?;
            }
        }
        Ok(())
    }

    fn load_blocks(
        &self,
        file: &StoreFile,
        range: Range<u32>,
        buffer: &mut Vec<u8>,
    ) -> Result<(), StoreError> {
        let first = self.meta.first_block;
        read_blocks(file, first + range.start..first + range.end, buffer)
    }

    /// Looks for `key` in the blocks of `range`, which `blocks` holds: the entry, borrowed from
    /// there or from `long`, and the number of its block in the run.
    fn find<'a>(
        &self,
        file: &StoreFile,
        key: &HashedOutPoint,
        range: Range<u32>,
        blocks: &'a [u8],
        long: &'a mut Vec<u8>,
    ) -> Result<Option<(u32, Entry<'a>)>, StoreError> {
        let name = Name::new(&key.outpoint);
        for (number, bytes) in range.zip(blocks.as_chunks::<BLOCK>().0) {
            let absolute = self.meta.first_block + number;
            let block = self.run.open_block(absolute, bytes)?;
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
        let mut raw = Vec::new();
        let end = self.meta.blocks.min(number + u32::from(span));
        self.load_blocks(file, number..end, &mut raw)?;
        long.clear();
        for (absolute, bytes) in (self.meta.first_block + number..).zip(raw.as_chunks::<BLOCK>().0)
        {
            let block = self.run.open_block(absolute, bytes)?;
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

//! Compares what a segment of a run says in several ways: entries, filter, block index, footer.

use std::collections::VecDeque;

use godwit_primitives::OutPoint;

use crate::utxo::entry::Entry;
use crate::utxo::entry_sum::{EntryHasher, EntrySum};
use crate::utxo::filter::Filter;
use crate::utxo::key::UtxoHasher;
use crate::utxo::layers::UtxoContext;
use crate::utxo::lost_coins::SegmentLoss;
use crate::utxo::run::format::{BlockKind, BlockRef, Footer, SegmentMeta};

/// Whether filters are compared with entries too, which takes as much memory as they do, twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::utxo) enum Filters {
    Compared,
    Skipped,
}

/// Compares the segments of a run with their entries, one after another.
pub(in crate::utxo) struct SegmentChecks {
    context: UtxoContext,
    filters: Filters,
    has_sums: bool,
    left: VecDeque<SegmentMeta>,
    open: Option<SegmentCheck>,
    /// Partitions whose segments are damaged.
    pub(in crate::utxo) damaged: Vec<(u8, SegmentLoss)>,
}

impl SegmentChecks {
    pub(in crate::utxo) fn new(footer: &Footer, context: &UtxoContext, filters: Filters) -> Self {
        let has_sums = footer.segments.iter().all(|segment| segment.sum.is_some());
        let (context, left) = (context.clone(), footer.segments.iter().cloned().collect());
        Self { context, filters, has_sums, left, open: None, damaged: Vec::new() }
    }

    /// Whether the footer has sums; without them, as under schema 1, there is no parity.
    pub(in crate::utxo) fn have_sums(&self) -> bool {
        self.has_sums
    }

    /// The next block of the run; `None` if it cannot be read. Returns the block where a segment that ends
    /// with it contradicts itself, and how.
    pub(in crate::utxo) fn take(
        &mut self,
        number: u32,
        block: Option<BlockRef<'_>>,
    ) -> Option<(u32, &'static str)> {
        if self.left.front().is_some_and(|meta| meta.first_block == number) {
            let begun = self.left.pop_front();
            self.open = begun.map(|meta| SegmentCheck::new(meta, &self.context, self.filters));
        }
        let check = self.open.as_mut()?;
        check.take(number, block);
        let ended = self.open.take_if(|check| check.meta.end_block() == number + 1)?;
        let (loss, told) = ended.end()?;
        self.damaged.push((ended.meta.partition, loss));
        told
    }
}

/// Compares the parts of a segment with its entries.
pub(in crate::utxo) struct SegmentCheck {
    meta: SegmentMeta,
    hasher: UtxoHasher,
    sums: EntryHasher,
    partition_bits: u32,
    last: Option<(u64, OutPoint)>,
    entries: u64,
    tombstones: u64,
    keys: Option<(u64, u64)>,
    sum: EntrySum,
    /// Block index and filter as the entries have it, and as they are stored.
    index: Vec<u8>,
    filter: Option<Filter>,
    stored_index: Vec<u8>,
    /// `None`: it is not compared.
    stored_filter: Option<Vec<u8>>,
    long: Long,
    /// Blocks cannot be read: of its entries, then nothing is compared; of filter or index alone, then
    /// neither of these is.
    lost: Option<SegmentLoss>,
    /// The first block that says what no block says.
    wrong: Option<(u32, &'static str)>,
}

/// An entry that goes on in the next blocks.
#[derive(Default)]
struct Long {
    bytes: Vec<u8>,
    span: u8,
    left: u8,
}

impl SegmentCheck {
    pub(in crate::utxo) fn new(meta: SegmentMeta, context: &UtxoContext, filters: Filters) -> Self {
        let filter = match filters {
            Filters::Compared => {
                let empty = vec![0; meta.filter_bytes as usize];
                Filter::from_bytes(&empty, context.partition_bits)
            }
            Filters::Skipped => None,
        };
        Self {
            meta,
            hasher: context.hasher,
            sums: EntryHasher::new(&context.hasher),
            partition_bits: context.partition_bits,
            last: None,
            entries: 0,
            tombstones: 0,
            keys: None,
            sum: EntrySum::default(),
            index: Vec::new(),
            filter,
            stored_index: Vec::new(),
            stored_filter: (filters == Filters::Compared).then(Vec::new),
            long: Long::default(),
            lost: None,
            wrong: None,
        }
    }

    /// The next block, in order; `None` if it cannot be read.
    pub(in crate::utxo) fn take(&mut self, number: u32, block: Option<BlockRef<'_>>) {
        let Some(block) = block else {
            let derived = self.lost.unwrap_or(SegmentLoss::Derived);
            let is_entries = number < self.meta.filter_block();
            self.lost = Some(if is_entries { SegmentLoss::Blocks } else { derived });
            return;
        };
        if self.lost == Some(SegmentLoss::Blocks) || self.wrong.is_some() {
            return;
        }
        let checked = if number < self.meta.filter_block() {
            self.take_entries(block)
        } else if number < self.meta.index_block() {
            if let Some(stored) = &mut self.stored_filter {
                stored.extend_from_slice(block.payload);
            }
            if block.kind == BlockKind::Filter { Ok(()) } else { Err("it is no block of a filter") }
        } else {
            self.stored_index.extend_from_slice(block.payload);
            if block.kind == BlockKind::Index { Ok(()) } else { Err("it is no block of an index") }
        };
        self.wrong = checked.err().map(|what| (number, what));
    }

    fn take_entries(&mut self, block: BlockRef<'_>) -> Result<(), &'static str> {
        match (block.kind, self.long.left) {
            (BlockKind::Entries, 0) if block.span > 1 => {
                let (bytes, left) = (block.payload.to_vec(), block.span - 1);
                self.long = Long { bytes, span: block.span, left };
            }
            (BlockKind::Entries, 0) => {
                let mut rest = block.payload;
                while !rest.is_empty() {
                    let entry = Entry::first_of(rest).ok_or("its entries do not decode")?;
                    let key = self.take_entry(entry)?;
                    if rest.len() == block.payload.len() {
                        self.note_block(key);
                    }
                    rest = &rest[entry.bytes().len()..];
                }
            }
            (BlockKind::Overflow, 1..) => {
                self.long.bytes.extend_from_slice(block.payload);
                self.long.left -= 1;
                if self.long.left == 0 {
                    let long = std::mem::take(&mut self.long);
                    let entry = Entry::first_of(&long.bytes).ok_or("its entry does not decode")?;
                    let key = self.take_entry(entry)?;
                    (0..long.span).for_each(|_| self.note_block(key));
                }
            }
            _ => return Err("it is no block of entries"),
        }
        Ok(())
    }

    fn note_block(&mut self, first_key: u64) {
        self.index.extend_from_slice(&((first_key >> 32) as u32).to_le_bytes());
    }

    fn take_entry(&mut self, entry: Entry<'_>) -> Result<u64, &'static str> {
        let outpoint = entry.outpoint().map_err(|_| "its entries do not decode")?;
        entry.coin().map_err(|_| "its coins do not decode")?;
        let key = self.hasher.key(&outpoint);
        if self.last.is_some_and(|last| last >= (key, outpoint)) {
            return Err("its entries are not in order");
        }
        let partition = key.checked_shr(64 - self.partition_bits).unwrap_or(0);
        if partition != u64::from(self.meta.partition) {
            return Err("its entries are of another partition");
        }
        self.last = Some((key, outpoint));
        self.entries += 1;
        self.tombstones += u64::from(entry.is_tombstone());
        self.keys = Some((self.keys.map_or(key, |(first, _)| first), key));
        self.sum += self.sums.term(entry);
        if let Some(filter) = &mut self.filter {
            filter.insert(key);
        }
        Ok(key)
    }

    /// How the entries are not those that the footer describes.
    fn contradiction(&self) -> Option<&'static str> {
        let meta = &self.meta;
        let keys = Some((meta.min_key, meta.max_key));
        let counts = (self.entries, self.tombstones) == (meta.entries, meta.tombstones);
        if !counts || (self.entries > 0 && self.keys != keys) {
            Some("its entries are not those that the footer counts")
        } else if meta.sum.is_some_and(|sum| sum != self.sum) {
            Some("its entries are not those of the footer's sum")
        } else {
            None
        }
    }

    /// The first keys of the blocks, as a block index has them, and the filter, if there is one. `None`
    /// where the entries are not those of the footer.
    pub(in crate::utxo) fn into_derived(self) -> Option<(Vec<u32>, Option<Filter>)> {
        if self.wrong.is_some() || self.lost.is_some() || self.contradiction().is_some() {
            return None;
        }
        let keys = self.index.as_chunks().0.iter().map(|key| u32::from_le_bytes(*key)).collect();
        Some((keys, self.filter))
    }

    /// What is lost, if anything is; and where the segment contradicts itself, and how.
    fn end(&self) -> Option<(SegmentLoss, Option<(u32, &'static str)>)> {
        let meta = &self.meta;
        if self.wrong.is_some_and(|(number, _)| number < meta.filter_block()) {
            return Some((SegmentLoss::Entries, self.wrong));
        } else if self.lost == Some(SegmentLoss::Blocks) {
            return Some((SegmentLoss::Blocks, None));
        }
        if let Some(what) = self.contradiction() {
            return Some((SegmentLoss::Entries, Some((meta.first_block, what))));
        }
        let derived = |wrong| Some((SegmentLoss::Derived, wrong));
        let filter: Vec<u8> =
            self.filter.iter().flat_map(|filter| filter.bytes()).flatten().collect();
        if self.wrong.is_some() {
            derived(self.wrong)
        } else if self.lost.is_some() {
            derived(None)
        } else if self.stored_index != self.index {
            derived(Some((meta.index_block(), "the index is not that of the entries")))
        } else if self.stored_filter.as_ref().is_some_and(|stored| *stored != filter) {
            derived(Some((meta.filter_block(), "the filter is not that of the entries")))
        } else {
            None
        }
    }
}

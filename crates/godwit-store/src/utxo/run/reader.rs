//! Reading a segment from its first entry to its last.

use std::ops::Range;
use std::sync::Arc;

use godwit_primitives::OutPoint;

use super::file::Blocks;
use super::format::{BLOCK, BlockKind};
use super::segment::Segment;
use crate::error::{Damage, StoreError};
use crate::utxo::entry::Entry;
use crate::utxo::key::UtxoHasher;
use crate::utxo::memtable::KeyedEntry;

/// A position in a segment, on an entry or behind the last.
pub(crate) struct SegmentCursor {
    segment: Arc<Segment>,
    hasher: UtxoHasher,
    /// Blocks read at once.
    read_ahead: u32,
    buffer: Blocks,
    /// Number of the next block to open, within the segment.
    next_block: u32,
    /// What is left of the payload of the block opened last, as a range of it.
    rest: Range<usize>,
    /// The last long entry, put together.
    long: Vec<u8>,
    head: Option<Head>,
}

struct Head {
    key: u64,
    outpoint: OutPoint,
    /// Where in the payload; `None`: in `long`.
    place: Option<Range<usize>>,
}

impl SegmentCursor {
    /// A cursor on the first entry; reads about `buffer` bytes at once.
    pub(crate) fn new(
        segment: Arc<Segment>,
        hasher: UtxoHasher,
        buffer: usize,
    ) -> Result<Self, StoreError> {
        let read_ahead = (buffer / BLOCK).max(1) as u32;
        let mut cursor = Self {
            segment,
            hasher,
            read_ahead,
            buffer: Blocks::default(),
            next_block: 0,
            rest: 0..0,
            long: Vec::new(),
            head: None,
        };
        cursor.advance()?;
        Ok(cursor)
    }

    /// Key and outpoint of the current entry; `None` behind the last.
    #[inline]
    pub(crate) fn head(&self) -> Option<(u64, OutPoint)> {
        self.head.as_ref().map(|head| (head.key, head.outpoint))
    }

    /// The current entry; `None` behind the last.
    pub(crate) fn current(&self) -> Option<KeyedEntry<'_>> {
        let head = self.head.as_ref()?;
        let bytes = head.place.clone().map_or(&self.long[..], |place| &self.payload()[place]);
        let entry = Entry::first_of(bytes).expect("advance() has checked it");
        Some(KeyedEntry { key: head.key, outpoint: head.outpoint, entry })
    }

    /// Goes to the next entry.
    pub(crate) fn advance(&mut self) -> Result<(), StoreError> {
        if self.rest.is_empty() && !self.open_next()? {
            self.head = None;
            return Ok(());
        }
        let place = match self.rest.is_empty() {
            true => None,
            false => Some(self.rest.clone()),
        };
        let bytes = place.clone().map_or(&self.long[..], |place| &self.payload()[place]);
        let entry = Entry::first_of(bytes).ok_or_else(|| self.damaged(Damage::Format))?;
        let outpoint = entry.outpoint().map_err(|error| self.damaged(Damage::Decode(error)))?;
        let len = entry.bytes().len();
        let place = place.map(|place| place.start..place.start + len);
        if place.is_some() {
            self.rest.start += len;
        }
        self.head = Some(Head { key: self.hasher.key(&outpoint), outpoint, place });
        Ok(())
    }

    /// Number in the run of the block opened last.
    fn opened(&self) -> u32 {
        self.segment.meta.first_block + self.next_block.saturating_sub(1)
    }

    /// Payload of the block opened last.
    #[inline]
    fn payload(&self) -> &[u8] {
        self.buffer.get(self.opened()).payload
    }

    /// Damage in the block opened last.
    fn damaged(&self, damage: Damage) -> StoreError {
        self.segment.run.damaged(self.opened(), damage)
    }

    /// Opens the next block of entries: then `rest` is its payload, or empty and `long` has its one
    /// entry. `false` at the end of the segment.
    fn open_next(&mut self) -> Result<bool, StoreError> {
        if self.next_block == self.segment.meta.blocks {
            return Ok(false);
        }
        let (kind, span) = self.open_block()?;
        let len = self.payload().len();
        if kind != BlockKind::Entries || len == 0 {
            return Err(self.damaged(Damage::Format));
        }
        if span == 1 {
            self.rest = 0..len;
            return Ok(true);
        }
        self.long.clear();
        self.long.extend_from_slice(self.buffer.get(self.opened()).payload);
        for _ in 1..span {
            if self.next_block == self.segment.meta.blocks {
                return Err(self.damaged(Damage::Format));
            }
            let (kind, _) = self.open_block()?;
            if kind != BlockKind::Overflow {
                return Err(self.damaged(Damage::Format));
            }
            self.long.extend_from_slice(self.buffer.get(self.opened()).payload);
        }
        Ok(true)
    }

    /// Opens block `next_block`, reading ahead when the buffer is used up. Returns its kind and the
    /// blocks that its entry spans.
    fn open_block(&mut self) -> Result<(BlockKind, u8), StoreError> {
        let meta = &self.segment.meta;
        let number = meta.first_block + self.next_block;
        if !self.buffer.range().contains(&number) {
            let end = meta.blocks.min(self.next_block + self.read_ahead);
            let file = self.segment.run.open()?;
            self.segment.read_blocks(&file, self.next_block..end, &mut self.buffer)?;
        }
        let block = self.buffer.get(number);
        self.next_block += 1;
        Ok((block.kind, block.span))
    }
}

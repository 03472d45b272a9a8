//! Reading a segment from its first entry to its last.

use std::ops::Range;
use std::sync::Arc;

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
    /// The entries of the block opened last, in order; none behind the last block. They are listed, and their
    /// keys computed, in one loop: the processor then works on several at once, which it could not with a
    /// merge's unforeseeable jumps between them.
    entries: Vec<Place>,
    /// Which of them is the current one.
    current: usize,
    /// The last entry, if it is a long one, put together.
    long: Vec<u8>,
}

/// Where an entry is in the buffer, or in the long entry's bytes.
struct Place {
    key: u64,
    start: u32,
    len: u32,
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
            entries: Vec::new(),
            current: 0,
            long: Vec::new(),
        };
        cursor.open_next()?;
        Ok(cursor)
    }

    /// Key of the current entry; `None` behind the last.
    #[inline]
    pub(crate) fn key(&self) -> Option<u64> {
        self.entries.get(self.current).map(|place| place.key)
    }

    /// The current entry; `None` behind the last.
    #[inline]
    pub(crate) fn current(&self) -> Option<KeyedEntry<'_>> {
        let Place { key, start, len } = *self.entries.get(self.current)?;
        let bytes = if self.long.is_empty() { self.buffer.all() } else { &self.long };
        let bytes = &bytes[start as usize..(start + len) as usize];
        let entry = Entry::first_of(bytes).expect("it was listed as a whole one");
        Some(KeyedEntry { key, entry })
    }

    /// Goes to the next entry.
    #[inline]
    pub(crate) fn advance(&mut self) -> Result<(), StoreError> {
        self.current += 1;
        if self.current < self.entries.len() { Ok(()) } else { self.open_next() }
    }

    /// Number in the run of the block opened last.
    fn opened(&self) -> u32 {
        self.segment.meta.first_block + self.next_block.saturating_sub(1)
    }

    /// Damage in the block opened last.
    fn damaged(&self, damage: Damage) -> StoreError {
        self.segment.run.damaged(self.opened(), damage)
    }

    /// Lists the entries in these bytes of the buffer, or the one of `long`.
    fn list(&mut self, mut place: Range<usize>) -> Result<(), StoreError> {
        let Self { hasher, buffer, entries, long, .. } = self;
        let bytes = if long.is_empty() { buffer.all() } else { &long[..] };
        let listed = loop {
            if place.is_empty() {
                break Ok(());
            }
            let Some(entry) = Entry::first_of(&bytes[place.clone()]) else {
                break Err(Damage::Format);
            };
            let outpoint = match entry.outpoint() {
                Ok(outpoint) => outpoint,
                Err(error) => break Err(Damage::Decode(error)),
            };
            let len = entry.bytes().len();
            let (key, start) = (hasher.key(&outpoint), place.start as u32);
            entries.push(Place { key, start, len: len as u32 });
            place.start += len;
        };
        listed.map_err(|damage| self.damaged(damage))
    }

    /// Opens the next block of entries and goes to its first; behind the last block there is none.
    fn open_next(&mut self) -> Result<(), StoreError> {
        self.entries.clear();
        self.long.clear();
        self.current = 0;
        if self.next_block == self.segment.meta.blocks {
            return Ok(());
        }
        let (kind, span) = self.open_block()?;
        let payload = self.buffer.payload_of(self.opened());
        if kind != BlockKind::Entries || payload.is_empty() {
            return Err(self.damaged(Damage::Format));
        }
        if span == 1 {
            return self.list(payload);
        }
        self.put_together(payload, span)?;
        let entry = Entry::first_of(&self.long).ok_or_else(|| self.damaged(Damage::Format))?;
        self.list(0..entry.bytes().len())
    }

    /// Puts together the entry that begins with `payload` and spans `span` blocks.
    fn put_together(&mut self, payload: Range<usize>, span: u8) -> Result<(), StoreError> {
        self.long.extend_from_slice(&self.buffer.all()[payload]);
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
        Ok(())
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

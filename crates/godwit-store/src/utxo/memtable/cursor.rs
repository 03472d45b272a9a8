//! A memtable in the order of keys.

use godwit_primitives::OutPoint;

use super::{Memtable, SHARDS, Slots, entry_at};
use crate::utxo::entry::Entry;
use crate::utxo::key::UtxoHasher;

/// Entries read ahead: enough for the processor to wait for many at once, few enough to be in its
/// nearest cache still when they are copied.
const BATCH: usize = 64;

/// An entry with its place in the order of keys.
pub(in crate::utxo) struct KeyedEntry<'a> {
    pub(in crate::utxo) key: u64,
    pub(in crate::utxo) entry: Entry<'a>,
}

impl KeyedEntry<'_> {
    /// The outpoint, which the key is the hash of.
    pub(in crate::utxo) fn outpoint(&self) -> OutPoint {
        self.entry.outpoint().expect("it was decoded for the key")
    }
}

/// A position in an immutable memtable.
pub(in crate::utxo) struct MemtableCursor {
    hasher: UtxoHasher,
    shard: usize,
    end_shard: usize,
    slot: usize,
    /// Key, outpoint and arena offset of the entries read last, in order.
    batch: Vec<(u64, OutPoint, u32)>,
    /// Which of them is the current one.
    current: usize,
    /// Arena offsets of a batch that is being read.
    offsets: Vec<u32>,
}

impl MemtableCursor {
    /// Key of the current entry; `None` behind the last.
    #[inline]
    pub(in crate::utxo) fn key(&self) -> Option<u64> {
        self.batch.get(self.current).map(|(key, ..)| *key)
    }
}

impl Memtable {
    /// Entries in each of the `2^bits` ranges of keys that have the same top bits.
    pub(in crate::utxo) fn counts_by_prefix(&self, bits: u32) -> Vec<usize> {
        let shards_each = SHARDS >> bits;
        self.shards.chunks(shards_each).map(|shards| shards.iter().map(Slots::len).sum()).collect()
    }

    /// A cursor on the first of the entries whose key begins with the `bits` bits of `prefix`. They
    /// follow by rising key, then outpoint.
    pub(in crate::utxo) fn cursor(
        &self,
        hasher: UtxoHasher,
        prefix: usize,
        bits: u32,
    ) -> MemtableCursor {
        let shards_each = SHARDS >> bits;
        let mut cursor = MemtableCursor {
            hasher,
            shard: prefix * shards_each,
            end_shard: (prefix + 1) * shards_each,
            slot: 0,
            batch: Vec::with_capacity(BATCH),
            current: 0,
            offsets: Vec::with_capacity(BATCH),
        };
        self.read_batch(&mut cursor);
        cursor
    }

    /// The entry under the cursor; `None` behind the last.
    #[inline]
    pub(in crate::utxo) fn current(&self, cursor: &MemtableCursor) -> Option<KeyedEntry<'_>> {
        let (key, _, offset) = *cursor.batch.get(cursor.current)?;
        Some(KeyedEntry { key, entry: entry_at(&self.arena, offset) })
    }

    /// Moves the cursor to the next entry.
    #[inline]
    pub(in crate::utxo) fn advance(&self, cursor: &mut MemtableCursor) {
        cursor.current += 1;
        if cursor.current >= cursor.batch.len() {
            self.read_batch(cursor);
        }
    }

    fn read_batch(&self, cursor: &mut MemtableCursor) {
        self.read_slots(cursor);
        self.load(&cursor.offsets);
        let MemtableCursor { hasher, batch, offsets, .. } = cursor;
        batch.clear();
        batch.extend(offsets.iter().map(|offset| {
            let name = entry_at(&self.arena, *offset).outpoint();
            let outpoint = name.expect("entries in memory are as this module encoded them");
            (hasher.key(&outpoint), outpoint, *offset)
        }));
        batch.sort_unstable();
        cursor.current = 0;
    }

    /// Reads the next slots, up to the end of a shard or between two different tags, since
    /// slots do not order entries of equal tags.
    fn read_slots(&self, cursor: &mut MemtableCursor) {
        cursor.offsets.clear();
        let mut last = None;
        while cursor.shard < cursor.end_shard {
            match self.shards[cursor.shard].next_used(cursor.slot) {
                Some((index, tag, offset)) => {
                    if cursor.offsets.len() >= BATCH && last != Some(tag) {
                        return;
                    }
                    cursor.offsets.push(offset);
                    (cursor.slot, last) = (index + 1, Some(tag));
                }
                None => {
                    (cursor.slot, cursor.shard) = (0, cursor.shard + 1);
                    if !cursor.offsets.is_empty() {
                        return;
                    }
                }
            }
        }
    }

    /// Loads entries, which in the order of keys are scattered over the arena. In each loop no load
    /// depends on another one, so that the processor waits for many cache misses at once.
    fn load(&self, offsets: &[u32]) {
        const LINE: usize = 64;
        let mut touched = 0;
        for offset in offsets {
            touched ^= self.arena.bytes(*offset)[0];
        }
        for offset in offsets {
            let bytes = entry_at(&self.arena, *offset).bytes();
            // Of a long one the first lines are enough for the processor to see where it goes.
            for byte in bytes.iter().skip(LINE).step_by(LINE).take(3) {
                touched ^= byte;
            }
            touched ^= bytes[bytes.len() - 1];
        }
        std::hint::black_box(touched);
    }
}

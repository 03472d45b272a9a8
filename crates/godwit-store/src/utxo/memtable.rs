//! The memtable: changes of coins since the last rotation.
//!
//! 256 shards of sorted slots ([`super::slots`]), over one arena of entries ([`super::arena`]). The
//! top 8 bits of the keyed hash choose the shard, the next 32 are the tag in its slot. Shards grow
//! one at a time, so that only one is ever held twice.
//!
//! An entry is FRESH when nothing below this memtable has the coin unspent; its spend leaves no
//! trace. This is Bitcoin Core's flag (`coins.cpp`, `AddCoin` and `SpendCoin`): a coin is born FRESH
//! unless the caller says that it may overwrite one, or this memtable already knows its outpoint.
//! Every spend of a coin that is not FRESH leaves a tombstone. Layers below may still hold a
//! tombstone of a FRESH coin's outpoint: they say "spent", which is what "no trace" says too.

mod cursor;

use godwit_primitives::Coin;
use godwit_primitives::coin::encode_compressed;
use godwit_stream::DataStream;

pub(super) use cursor::{KeyedEntry, MemtableCursor};

use super::arena::Arena;
use super::entry::{CoinParts, Entry, Name, header};
use super::key::HashedOutPoint;
use super::slots::Slots;

/// Bits of the key that choose the shard.
const SHARD_BITS: u32 = 8;
const SHARDS: usize = 1 << SHARD_BITS;
/// Bits of the key that order entries: shard, then tag.
const ORDERED_BITS: u32 = SHARD_BITS + 32;

/// Result of spending a coin in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Taken {
    /// It was unspent; now it is spent.
    Coin(Coin),
    /// It is already spent.
    Spent,
    /// Memory does not know it: the runs decide.
    NotInMemory,
}

/// What memory knows, or knew, of an outpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Probe {
    Unspent,
    Spent,
    /// Memory does not know it: the runs decide.
    NotInMemory,
}

/// What is known of an outpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownCoin {
    Unspent(Coin),
    /// It is spent, or was not created yet.
    Absent,
}

impl KnownCoin {
    /// The coin, if there is one.
    pub fn unspent(self) -> Option<Coin> {
        match self {
            Self::Unspent(coin) => Some(coin),
            Self::Absent => None,
        }
    }
}

/// Coins and tombstones by outpoint.
pub(super) struct Memtable {
    shards: Vec<Slots>,
    arena: Arena,
    /// A coin that is being compressed.
    stream: DataStream,
    slot_bytes: usize,
    /// Largest amount by which growing one shard raises the use of memory for a moment.
    growth_bytes: usize,
    /// [`Self::memory`] before the first entry.
    initial_memory: usize,
    coins: usize,
    tombstones: usize,
}

#[inline]
fn shard_of(key: u64) -> usize {
    (key >> (64 - SHARD_BITS)) as usize
}

#[inline]
fn tag_of(key: u64) -> u32 {
    (key >> (64 - ORDERED_BITS)) as u32
}

fn entry_at(arena: &Arena, offset: u32) -> Entry<'_> {
    Entry::first_of(arena.bytes(offset)).expect("slots name whole entries")
}

fn coin_of(entry: Entry<'_>) -> Option<Coin> {
    entry.coin().expect("entries in memory are as this module encoded them")
}

impl Memtable {
    /// `arena_step` as for [`Arena::new`].
    pub(super) fn new(arena_step: usize) -> Self {
        let shards: Vec<Slots> = (0..SHARDS).map(|_| Slots::new()).collect();
        let slot_bytes = shards.iter().map(Slots::memory).sum();
        let growth_bytes = shards[0].memory_grown();
        let (arena, stream) = (Arena::new(arena_step), DataStream::new());
        let initial_memory = arena.memory() + slot_bytes + growth_bytes;
        Self {
            shards,
            arena,
            stream,
            slot_bytes,
            growth_bytes,
            initial_memory,
            coins: 0,
            tombstones: 0,
        }
    }

    /// Bytes in use, with room for the next growth of the largest shard.
    pub(super) fn memory(&self) -> usize {
        self.arena.memory() + self.slot_bytes + self.growth_bytes
    }

    /// What one more entry may add to [`Self::memory`].
    pub(super) fn memory_step(&self) -> usize {
        self.arena.memory_step() + 2 * self.growth_bytes
    }

    /// Whether the arena's offsets are nearly used up.
    pub(super) fn is_full(&self) -> bool {
        self.arena.is_full()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.coins + self.tombstones == 0
    }

    /// Whether it is empty and still has the memory, or the offsets, of many entries that it had: the
    /// blocks that they came with were taken back. Its memory is never given back piece by piece.
    pub(super) fn is_emptied(&self) -> bool {
        self.is_empty() && (self.memory() >= 2 * self.initial_memory || self.is_full())
    }

    /// Uses up the arena's offsets.
    #[cfg(test)]
    pub(super) fn fill_arena(&mut self) {
        self.arena.fill();
    }

    pub(super) fn coins(&self) -> usize {
        self.coins
    }

    pub(super) fn tombstones(&self) -> usize {
        self.tombstones
    }

    /// Bytes of the arena that hold no entry at the moment.
    #[cfg(test)]
    pub(super) fn free_bytes(&self) -> u64 {
        self.arena.free_bytes()
    }

    /// Bytes of the arena that no entry has needed yet.
    #[cfg(test)]
    pub(super) fn spare_bytes(&self) -> usize {
        self.arena.spare_bytes()
    }

    #[inline]
    fn search(&self, key: u64, name: &Name) -> Result<usize, usize> {
        self.shards[shard_of(key)]
            .search(tag_of(key), |offset| entry_at(&self.arena, offset).is_named(name))
    }

    #[inline]
    pub(super) fn get(&self, key: &HashedOutPoint) -> Option<Entry<'_>> {
        let index = self.search(key.key, &Name::new(&key.outpoint)).ok()?;
        Some(entry_at(&self.arena, self.shards[shard_of(key.key)].offset(index)))
    }

    /// What this memtable holds of an outpoint; `None` for nothing.
    pub(super) fn coin(&self, key: &HashedOutPoint) -> Option<KnownCoin> {
        self.get(key).map(|entry| coin_of(entry).map_or(KnownCoin::Absent, KnownCoin::Unspent))
    }

    /// Loads what a lookup of each key will touch. A lookup is little more than two cache misses, one
    /// after the other, slot and entry; here each loop has loads that do not depend on each other
    /// nor on a guessed branch, so that the processor waits for many of them at once.
    pub(super) fn warm(&self, keys: &[HashedOutPoint]) {
        const BATCH: usize = 32;
        let mut touched = 0;
        for batch in keys.chunks(BATCH) {
            for key in batch {
                touched ^= self.shards[shard_of(key.key)].home_slot(tag_of(key.key));
            }
            let mut offsets = [0; BATCH];
            for (offset, key) in offsets.iter_mut().zip(batch) {
                *offset = self.shards[shard_of(key.key)].first_offset(tag_of(key.key));
            }
            for offset in offsets.into_iter().filter(|offset| *offset != 0) {
                // Most entries cross a boundary of cache lines.
                let bytes = self.arena.bytes(offset);
                touched ^= u64::from(bytes[0]) ^ u64::from(bytes[bytes.len().min(65) - 1]);
            }
        }
        std::hint::black_box(touched);
    }

    /// Hands `found` the entries of the keys that `open` has the numbers of, and leaves there those that have
    /// none or that `found` says so of. What several lookups touch is loaded at once: most lookups miss the
    /// processor's cache, and they may go through many memtables.
    pub(super) fn look_up(
        &self,
        keys: &[HashedOutPoint],
        open: &mut Vec<u32>,
        mut found: impl FnMut(u32, Entry<'_>) -> bool,
    ) {
        const BATCH: usize = 64;
        let asked = std::mem::replace(open, Vec::with_capacity(open.len()));
        let mut batch = Vec::with_capacity(BATCH);
        for numbers in asked.chunks(BATCH) {
            batch.clear();
            batch.extend(numbers.iter().map(|n| keys[*n as usize]));
            self.warm(&batch);
            for (n, key) in numbers.iter().zip(&batch) {
                if self.get(key).is_none_or(|entry| found(*n, entry)) {
                    open.push(*n);
                }
            }
        }
    }

    /// Loads what adding keys that are not here will touch.
    pub(super) fn warm_slots<'k>(&self, keys: impl Iterator<Item = &'k HashedOutPoint>) {
        let home = |key: &HashedOutPoint| self.shards[shard_of(key.key)].home_slot(tag_of(key.key));
        std::hint::black_box(keys.map(home).fold(0, |touched, slot| touched ^ slot));
    }

    /// Adds a coin; see the module on `possible_overwrite`.
    pub(super) fn add(
        &mut self,
        key: &HashedOutPoint,
        coin: CoinParts<'_>,
        possible_overwrite: bool,
    ) {
        let mut stream = std::mem::take(&mut self.stream);
        stream.clear();
        let CoinParts { value, script, height, coinbase } = coin;
        encode_compressed(value, script, height, coinbase, &mut stream);
        self.insert(key, [stream.as_slice(), &[]], possible_overwrite);
        self.stream = stream;
    }

    /// Adds a coin that is compressed already, in two parts.
    #[inline]
    pub(super) fn insert(
        &mut self,
        key: &HashedOutPoint,
        [first, second]: [&[u8]; 2],
        possible_overwrite: bool,
    ) {
        let name = Name::new(&key.outpoint);
        let place = self.search(key.key, &name);
        let fresh = !possible_overwrite && place.is_err();
        let name = name.as_slice();
        let header = header(name.len() + first.len() + second.len(), fresh);
        let offset = self.arena.insert([&header, name, first, second]);
        self.put(key.key, place, offset);
        self.coins += 1;
    }

    /// Spends the coin if it is here; `take` is given it as it is stored.
    #[inline]
    pub(super) fn take(&mut self, key: &HashedOutPoint, take: impl FnOnce(&[u8])) -> Probe {
        let name = Name::new(&key.outpoint);
        let Ok(index) = self.search(key.key, &name) else { return Probe::NotInMemory };
        let shard = &mut self.shards[shard_of(key.key)];
        let offset = shard.offset(index);
        let entry = entry_at(&self.arena, offset);
        let coin = entry.coin_named(&name);
        if coin.is_empty() {
            return Probe::Spent;
        }
        take(coin);
        if entry.is_fresh() {
            let len = entry.bytes().len();
            shard.remove(index);
            self.arena.release(offset, len);
            self.coins -= 1;
        } else {
            self.put_tombstone(key.key, &name, Ok(index));
        }
        Probe::Unspent
    }

    /// Marks an outpoint that this memtable does not know as spent.
    pub(super) fn spend_below(&mut self, key: &HashedOutPoint) {
        let name = Name::new(&key.outpoint);
        let place = self.search(key.key, &name);
        debug_assert!(place.is_err(), "the caller asked take() first");
        self.put_tombstone(key.key, &name, place);
    }

    /// Forgets that an outpoint was marked as spent; `false` if it is not.
    pub(super) fn forget_spend(&mut self, key: &HashedOutPoint) -> bool {
        let Ok(index) = self.search(key.key, &Name::new(&key.outpoint)) else { return false };
        let shard = &mut self.shards[shard_of(key.key)];
        let offset = shard.offset(index);
        let entry = entry_at(&self.arena, offset);
        if !entry.is_tombstone() {
            return false;
        }
        let len = entry.bytes().len();
        shard.remove(index);
        self.arena.release(offset, len);
        self.tombstones -= 1;
        true
    }

    fn put_tombstone(&mut self, key: u64, name: &Name, place: Result<usize, usize>) {
        let name = name.as_slice();
        let offset = self.arena.insert([&header(name.len(), false), name]);
        self.put(key, place, offset);
        self.tombstones += 1;
    }

    /// Points the slot at `place` to `offset`, dropping the entry that it had.
    #[inline]
    fn put(&mut self, key: u64, place: Result<usize, usize>, offset: u32) {
        let shard = &mut self.shards[shard_of(key)];
        match place {
            Ok(index) => {
                let old_offset = shard.offset(index);
                let old = entry_at(&self.arena, old_offset);
                let (old_len, was_tombstone) = (old.bytes().len(), old.is_tombstone());
                shard.set_offset(index, offset);
                self.arena.release(old_offset, old_len);
                *(if was_tombstone { &mut self.tombstones } else { &mut self.coins }) -= 1;
            }
            Err(index) => {
                let before = shard.memory();
                if shard.insert(index, tag_of(key), offset) {
                    self.slot_bytes += shard.memory() - before;
                    self.growth_bytes = self.growth_bytes.max(shard.memory_grown());
                }
            }
        }
    }

    /// The longest distance of an entry from its home slot.
    #[cfg(test)]
    pub(super) fn longest_probe(&self) -> usize {
        self.shards.iter().map(Slots::longest_probe).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests;

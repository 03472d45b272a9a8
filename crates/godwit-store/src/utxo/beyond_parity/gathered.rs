//! Coins of some ranges of keys, as the blocks create and spend them.

use std::collections::BTreeMap;
use std::ops::AddAssign;

use super::{KeySpan, keys_of};
use crate::utxo::entry::{Entry, Name, header};
use crate::utxo::key::HashedOutPoint;

/// Bytes that a key takes in the map besides its entry: half-filled nodes, and what the allocator rounds up.
const KEY_BYTES: usize = 64;

/// How many coins each partition has, and the sum of their keys: each output that becomes a coin counts once,
/// and what spends it takes it back. Blocks may be added in any order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tally {
    partition_bits: u32,
    partitions: Vec<(u64, u64)>,
}

impl Tally {
    pub(super) fn new(partition_bits: u32) -> Self {
        Self { partition_bits, partitions: vec![(0, 0); 1 << partition_bits] }
    }

    fn partition(&mut self, key: u64) -> &mut (u64, u64) {
        &mut self.partitions[key.checked_shr(64 - self.partition_bits).unwrap_or(0) as usize]
    }

    pub fn create(&mut self, key: &HashedOutPoint) {
        let (coins, keys) = self.partition(key.key);
        (*coins, *keys) = (coins.wrapping_add(1), keys.wrapping_add(key.key));
    }

    pub fn spend(&mut self, key: &HashedOutPoint) {
        let (coins, keys) = self.partition(key.key);
        (*coins, *keys) = (coins.wrapping_sub(1), keys.wrapping_sub(key.key));
    }

    /// Coins of all partitions.
    pub fn coins(&self) -> u64 {
        self.partitions.iter().fold(0, |sum, (coins, _)| sum.wrapping_add(*coins))
    }

    /// Coins and sum of keys of each partition.
    pub(super) fn partitions(&self) -> &[(u64, u64)] {
        &self.partitions
    }

    pub(super) fn partitions_mut(&mut self) -> &mut [(u64, u64)] {
        &mut self.partitions
    }

    pub(super) fn of(&self, partition: u8) -> (u64, u64) {
        self.partitions[usize::from(partition)]
    }
}

impl AddAssign<&Tally> for Tally {
    fn add_assign(&mut self, other: &Self) {
        for ((coins, keys), more) in self.partitions.iter_mut().zip(&other.partitions) {
            (*coins, *keys) = (coins.wrapping_add(more.0), keys.wrapping_add(more.1));
        }
    }
}

/// The coins of one pass over the blocks.
pub(super) struct Gathered {
    /// What this pass and those behind it are to gather, in order.
    pub(super) wanted: Vec<KeySpan>,
    /// The last key that this pass gathers; lower once memory runs out.
    pub(super) until: u64,
    /// The entries of each key, nearly always one, in order of outpoint.
    pub(super) coins: BTreeMap<u64, Box<[u8]>>,
    memory: usize,
    limit: usize,
}

impl Gathered {
    pub(super) fn new(mut wanted: Vec<KeySpan>, limit: usize) -> Self {
        wanted.sort_unstable();
        let coins = BTreeMap::new();
        Self { wanted, until: u64::MAX, coins, memory: 0, limit }
    }

    /// Whether nothing is to be gathered.
    pub(super) fn is_done(&self) -> bool {
        self.wanted.is_empty()
    }

    /// How many keys are to be gathered, in this pass or later.
    pub(super) fn keys(&self) -> u128 {
        keys_of(&self.wanted)
    }

    /// What is left for the passes behind this one.
    pub(super) fn left(&self) -> Vec<KeySpan> {
        let behind = self.wanted.iter().filter(|span| span.last > self.until);
        behind.map(|span| KeySpan { first: span.first.max(self.until + 1), ..*span }).collect()
    }

    /// Whether this pass gathers the coins of a key.
    #[inline]
    pub(super) fn wants(&self, key: u64) -> bool {
        key <= self.until && super::contains(&self.wanted, key)
    }

    /// Adds a coin, compressed, in two parts. One of the same outpoint is overwritten.
    pub(super) fn create(&mut self, key: &HashedOutPoint, [first, second]: [&[u8]; 2]) {
        if !self.wants(key.key) {
            return;
        }
        let name = Name::new(&key.outpoint);
        let header = header(name.as_slice().len() + first.len() + second.len(), false);
        let entry = [&header, name.as_slice(), first, second].concat();
        let entries = match self.coins.get(&key.key) {
            Some(old) => with(without(old, &name), entry),
            None => entry,
        };
        self.put(key.key, entries);
        self.keep_within_limit();
    }

    /// Adds an entry that another pass had, in order of key and outpoint.
    pub(super) fn take(&mut self, key: u64, entry: Entry<'_>) {
        if !self.wants(key) {
            return;
        }
        let before = self.coins.get(&key).map(|entries| entries.to_vec()).unwrap_or_default();
        self.put(key, [&before, entry.bytes()].concat());
        self.keep_within_limit();
    }

    /// Bytes that the coins take.
    pub(super) fn memory(&self) -> usize {
        self.memory
    }

    fn keep_within_limit(&mut self) {
        while self.memory > self.limit && self.coins.len() > 1 {
            self.narrow();
        }
    }

    /// Takes a coin away; `false` if it is wanted and not there.
    pub(super) fn spend(&mut self, key: &HashedOutPoint) -> bool {
        if !self.wants(key.key) {
            return true;
        }
        let Some(old) = self.coins.get(&key.key) else { return false };
        let left = without(old, &Name::new(&key.outpoint));
        let is_there = left.len() < old.len();
        self.put(key.key, left);
        is_there
    }

    fn put(&mut self, key: u64, entries: Vec<u8>) {
        let old = match entries.is_empty() {
            true => self.coins.remove(&key),
            false => {
                self.memory += KEY_BYTES + entries.len();
                self.coins.insert(key, entries.into_boxed_slice())
            }
        };
        self.memory -= old.map_or(0, |old| KEY_BYTES + old.len());
    }

    /// Leaves the upper half of the keys to the next pass. Each key up to `until` has all that the blocks so
    /// far have left of it.
    fn narrow(&mut self) {
        let middle = self.coins.len() / 2;
        let Some(first) = self.coins.keys().nth(middle).copied() else { return };
        let dropped = self.coins.split_off(&first);
        self.memory -= dropped.values().map(|entries| KEY_BYTES + entries.len()).sum::<usize>();
        // Not the lowest of them.
        self.until = first - 1;
    }
}

/// Each of some entries that follow one another.
pub(super) fn entries(mut bytes: &[u8]) -> impl Iterator<Item = Entry<'_>> {
    std::iter::from_fn(move || {
        let entry = Entry::first_of(bytes)?;
        bytes = &bytes[entry.bytes().len()..];
        Some(entry)
    })
}

fn without(old: &[u8], name: &Name) -> Vec<u8> {
    let left = entries(old).filter(|entry| !entry.is_named(name));
    left.flat_map(|entry| entry.bytes()).copied().collect()
}

/// One more entry of a key, in its place among the others.
fn with(old: Vec<u8>, entry: Vec<u8>) -> Vec<u8> {
    let mut all: Vec<Entry<'_>> = entries(&old).chain(entries(&entry)).collect();
    all.sort_by_key(|entry| entry.outpoint().expect("as it was encoded"));
    all.iter().flat_map(|entry| entry.bytes()).copied().collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::utxo::fixtures::{Random, outpoint};

    fn span(first: u64, last: u64) -> KeySpan {
        KeySpan { first, last }
    }

    /// Passes with the memory of a few coins end with the same as one that has all it wants.
    #[test]
    fn passes_of_any_memory_gather_what_one_does() {
        let half = u64::MAX / 2;
        let wanted = vec![span(half, half + half / 3), span(7, half / 5)];
        for limit in [1, 200, 1000, 10_000, 1 << 30] {
            let (mut left, mut all, mut passes) = (wanted.clone(), BTreeMap::new(), 0);
            while !left.is_empty() {
                let mut gathered = Gathered::new(left, limit);
                let mut random = Random(3);
                let mut live: Vec<u64> = Vec::new();
                for n in 0..3000 {
                    gathered.create(&outpoint(n), [b"coin", &n.to_le_bytes()]);
                    live.push(n);
                    if random.below(3) > 0 {
                        let spent = live.swap_remove(random.below(live.len() as u64) as usize);
                        assert!(gathered.spend(&outpoint(spent)));
                    }
                    assert!(gathered.memory <= limit.max(200));
                }
                let memory: usize =
                    gathered.coins.values().map(|entries| KEY_BYTES + entries.len()).sum();
                assert_eq!(gathered.memory, memory);
                let expected: BTreeSet<u64> = live
                    .iter()
                    .map(|n| outpoint(*n).key)
                    .filter(|key| gathered.wants(*key))
                    .collect();
                assert!(gathered.coins.keys().copied().eq(expected));
                left = gathered.left();
                all.append(&mut gathered.coins);
                passes += 1;
            }
            assert_eq!(passes == 1, limit == 1 << 30, "{passes} passes");
            let mut one = Gathered::new(wanted.clone(), usize::MAX);
            let mut random = Random(3);
            let mut live: Vec<u64> = Vec::new();
            for n in 0..3000 {
                one.create(&outpoint(n), [b"coin", &n.to_le_bytes()]);
                live.push(n);
                if random.below(3) > 0 {
                    one.spend(&outpoint(
                        live.swap_remove(random.below(live.len() as u64) as usize),
                    ));
                }
            }
            assert!(all == one.coins, "limit {limit}");
        }
    }

    #[test]
    fn a_coin_that_is_created_again_is_the_last_one_and_one_that_is_not_there_is_told() {
        let mut gathered = Gathered::new(vec![span(0, u64::MAX)], usize::MAX);
        let key = outpoint(5);
        // Another outpoint whose key is the same, which nobody has found yet.
        let twin = HashedOutPoint { key: key.key, ..outpoint(6) };
        gathered.create(&key, [b"first", b""]);
        gathered.create(&twin, [b"other", b""]);
        gathered.create(&key, [b"sec", b"ond"]);
        let coins = |gathered: &Gathered| -> Vec<Vec<u8>> {
            let of_key = gathered.coins.get(&key.key).map(|bytes| &bytes[..]).unwrap_or_default();
            entries(of_key).map(|entry| entry.coin_bytes().to_vec()).collect()
        };
        let mut both = [(key.outpoint, b"second".to_vec()), (twin.outpoint, b"other".to_vec())];
        both.sort();
        assert_eq!(coins(&gathered), both.map(|(_, coin)| coin));
        assert!(gathered.spend(&key) && !gathered.spend(&key));
        assert_eq!(coins(&gathered), [b"other"]);
        assert!(gathered.spend(&twin) && !gathered.spend(&twin));
        assert!(gathered.coins.is_empty() && gathered.memory == 0);
    }
}

//! The layers: everything below the active memtable, as an immutable snapshot.
//!
//! ```text
//!   connector only     active memtable                       changes since seal 7
//!                      sealed memtable 7    being written  ┐
//!                      sealed memtable 6    being written  ├ Layers of epoch 7
//!                      runs: seals 1..=5, newest first     ┘   (and memtables 3, 4 and 5, which are clean)
//!
//!   a pin of epoch 4   memtables 5, 6, 7 stay in memory; 5, in a run already, is *kept*
//! ```
//!
//! Workers read [`Layers`] from any thread while the connector changes the active memtable. Their
//! answers grow old. This rule keeps them usable:
//!
//! * Seals are numbered; every change to a coin goes to the active memtable and is sealed with it.
//!   A snapshot of epoch `e` is the state at seal `e`: it contains every memtable up to seal `e`, as
//!   itself or as the run it was written to, and nothing newer.
//! * The store keeps each memtable with a seal above `e` in memory as long as an [`EpochPin`] of
//!   epoch `e` lives, even after it was written, and `take` looks through the active one and all
//!   kept ones, newest first, before it says "not in memory".
//! * So "not in memory" means that no change to this outpoint was made since seal `e` that left a
//!   trace. A change without a trace is a FRESH coin that was added and spent inside one memtable:
//!   the coin was unspent nowhere when it was added, so the state at seal `e` said absent or spent,
//!   and it is so again. Hence what any pinned snapshot said is still true.
//!
//! A written memtable that no epoch needs is *clean*: `take` does not look there any more, and every later
//! snapshot does ([`super::clean`]), before it goes to the runs, which hold the same. It goes when memory is
//! needed, whatever snapshots there are, and a snapshot then reads the run instead. Dropped from the oldest
//! on, those that are left are the newest of the runs' seals, so that what is found in one is never older
//! than what a run says.
//!
//! When memory is short the store drops clean memtables, then kept ones that are in runs, oldest first. A
//! pin older than a dropped seal is then no longer covered ([`super::UtxoStore::covers`]), and what was
//! read under it has to be read again.
//!
//! Nothing of this asks whether the blocks behind a seal were verified. One that is taken back changes the
//! coins once more, in the active memtable, with a trace: what it created is taken like any coin, and what
//! it spent is added as a coin that may exist. So a snapshot may hold what it did, and memory says what
//! came of it.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError, RwLock};

use godwit_primitives::{Coin, CoinView, OutPoint};
use godwit_stream::DecodeError;

use super::clean::{Clean, WrittenMemtables};
use super::compressed::CompressedCoins;
use super::entry::Entry;
use super::key::{HashedOutPoint, UtxoHasher};
use super::manifest::Manifest;
use super::memtable::{KeyedEntry, Memtable};
use super::merge::{MergeScan, Source};
use super::run::file::repair::Repairs;
use super::run::format::{RunId, SegmentMeta};
use super::run::reader::SegmentCursor;
use super::run::segment::{BlockIndex, LookupScratch, Segment};
use super::run_lookup::RunLookup;
use crate::disk::StoreDisk;
use crate::error::{Damage, StoreError};
use crate::exec::Executor;

/// Bytes that a scan reads at once from each segment.
const SCAN_BUFFER: usize = 64 << 10;

/// What a search for an outpoint has found. A coin may have been written more than once, and at other heights
/// where branches were left that held its transaction, too.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Searched {
    /// The coin, unless it is spent.
    pub newest: Option<Coin>,
    /// As it was written first, whether or not it is spent.
    pub oldest: Option<Coin>,
    found: bool,
}

impl Searched {
    /// An entry of an older layer than those before: a coin or that it is spent.
    fn add_older(&mut self, entry: Option<Coin>) {
        if !self.found {
            (self.found, self.newest) = (true, entry.clone());
        }
        if entry.is_some() {
            self.oldest = entry;
        }
    }
}

/// Where it is looked up what a run can hold, and what ends the search for an outpoint.
#[derive(Clone, Copy)]
enum Trust {
    /// In the filters and indexes that memory has; the newest entry.
    Memory,
    /// In what the run's file says; nothing.
    Files,
}

impl Trust {
    /// Whether the newest entry is all that is asked for.
    fn ends_with_first(self) -> bool {
        matches!(self, Self::Memory)
    }
}

/// Keeps what was read from a [`Layers`] usable after the snapshot itself is gone. Cheap to clone,
/// but it keeps later memtables in memory: to be dropped with the block that it was made for.
#[derive(Clone, Debug)]
pub struct EpochPin(pub(super) Arc<Epoch>);

/// The number of the newest seal of a snapshot.
#[derive(Debug)]
pub(super) struct Epoch(pub(super) u64);

/// What all parts of a store work with: disk, directory, keyed hash, executor.
#[derive(Clone)]
pub(super) struct UtxoContext {
    pub(super) disk: StoreDisk,
    pub(super) dir: PathBuf,
    pub(super) hasher: UtxoHasher,
    pub(super) partition_bits: u32,
    pub(super) executor: Arc<dyn Executor>,
    /// Id of the next scratch run of a sort.
    pub(super) next_scratch: Arc<AtomicU64>,
    /// Of the blocks of its runs.
    pub(super) repairs: Arc<Repairs>,
}

impl UtxoContext {
    /// Of the store in directory `dir` that a manifest describes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`]: the manifest was made under another key or by a later version.
    pub(super) fn for_manifest(
        disk: &StoreDisk,
        dir: &Path,
        hasher: UtxoHasher,
        manifest: &Manifest,
        executor: &Arc<dyn Executor>,
        repairs: Repairs,
    ) -> Result<Self, StoreError> {
        if !manifest.is_readable(&hasher) {
            return Err(StoreError::damaged(dir, 0, Damage::Format));
        }
        Ok(Self {
            disk: disk.clone(),
            dir: dir.to_owned(),
            hasher,
            partition_bits: u32::from(manifest.partition_bits),
            executor: Arc::clone(executor),
            next_scratch: Arc::new(AtomicU64::new(RunId::FIRST_SCRATCH)),
            repairs: Arc::new(repairs),
        })
    }

    /// Which partition a key belongs to.
    #[inline]
    pub(super) fn partition_of(&self, key: u64) -> usize {
        key.checked_shr(64 - self.partition_bits).unwrap_or(0) as usize
    }

    pub(super) fn partitions(&self) -> usize {
        1 << self.partition_bits
    }
}

/// The coins of one epoch: sealed memtables that are being written, over runs.
pub struct Layers {
    pub(super) context: UtxoContext,
    pub(super) epoch: EpochPin,
    /// Newest first.
    pub(super) flushing: Vec<Arc<Memtable>>,
    /// Those of the next older seals, which are in runs already; dropped from the oldest on.
    pub(super) written: WrittenMemtables,
    /// For each partition its segments, newest first.
    pub(super) partitions: Vec<Vec<Arc<Segment>>>,
}

/// Hands out the newest [`Layers`], on any thread.
#[derive(Clone)]
pub struct LayersReader(pub(super) Arc<RwLock<Arc<Layers>>>);

impl LayersReader {
    /// The newest snapshot. Hold it while reading, not longer: it keeps memory and files.
    pub fn current(&self) -> Arc<Layers> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn publish(&self, layers: Arc<Layers>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = layers;
    }
}

impl Layers {
    /// Keeps the answers of this snapshot usable; see the module.
    pub fn pin(&self) -> EpochPin {
        self.epoch.clone()
    }

    /// The same coins for a reader of all of them, which takes long: they keep files, and nothing in memory
    /// but what is still being written.
    pub fn for_scans(&self) -> Arc<Self> {
        let lean = |segment: &Arc<Segment>| {
            let index = Arc::new(BlockIndex::new(Vec::new()));
            Arc::new(Segment { filter: None, index, ..Segment::clone(segment) })
        };
        let of_partition = |segments: &Vec<Arc<Segment>>| segments.iter().map(lean).collect();
        Arc::new(Self {
            context: self.context.clone(),
            // Not one of those that keep memtables.
            epoch: EpochPin(Arc::new(Epoch(self.epoch.0.0))),
            flushing: self.flushing.clone(),
            written: WrittenMemtables::default(),
            partitions: self.partitions.iter().map(of_partition).collect(),
        })
    }

    /// Answers for those of the keys with the numbers in `open` that a memtable knows which is still being
    /// written, and leaves the others in `open`; as [`Self::get_some_compressed`]. The snapshot that is
    /// returned has the answers for these, and holds no such memtable: its memory is free once it is written,
    /// however long the reads take.
    pub fn take_memtables(
        self: &Arc<Self>,
        keys: &[HashedOutPoint],
        open: &mut Vec<u32>,
        found: &mut dyn FnMut(u32, &[u8]),
    ) -> Arc<Self> {
        if self.flushing.is_empty() {
            return Arc::clone(self);
        }
        sort_by_key(keys, open);
        for table in &self.flushing {
            table.look_up(keys, open, |n, entry| {
                let coin = Some(entry.coin_bytes()).filter(|coin| !coin.is_empty());
                coin.into_iter().for_each(|coin| found(n, coin));
                false
            });
        }
        Arc::new(Self {
            context: self.context.clone(),
            epoch: self.epoch.clone(),
            flushing: Vec::new(),
            written: self.written.clone(),
            partitions: self.partitions.clone(),
        })
    }

    /// Bytes of the segments on disk.
    pub fn bytes(&self) -> u64 {
        self.segments().map(Segment::bytes).sum()
    }

    /// About how many coins there are, as far as the segments know: some tombstones have none.
    pub fn expected_coins(&self) -> u64 {
        let coins = |segment: &Segment| {
            let SegmentMeta { entries, tombstones, .. } = segment.meta;
            (entries.saturating_sub(tombstones), tombstones)
        };
        let (coins, spent) =
            self.segments().map(coins).fold((0, 0), |all, of| (all.0 + of.0, all.1 + of.1));
        coins.saturating_sub(spent)
    }

    fn segments(&self) -> impl Iterator<Item = &Segment> {
        self.partitions.iter().flatten().map(|segment| &**segment)
    }

    /// The directory of the runs.
    pub fn dir(&self) -> &Path {
        &self.context.dir
    }

    /// The coins of `keys`: `out[n]` answers `keys[n]`. Costs at most one read for most coins that
    /// exist, and none for most that do not. Returns how many runs answered for.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn get_many(
        &self,
        keys: &[HashedOutPoint],
        out: &mut Vec<Option<Coin>>,
    ) -> Result<usize, StoreError> {
        out.clear();
        out.resize(keys.len(), None);
        let (open, clean) = (&mut all(keys), self.written.hold());
        self.resolve(keys, open, clean, Trust::Memory, &|| false, &mut |n, entry| {
            out[n as usize] = entry.coin()?;
            Ok(())
        })
    }

    /// As [`Self::get_many`], the coins as they are stored.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn get_compressed(
        &self,
        keys: &[HashedOutPoint],
        out: &mut CompressedCoins,
    ) -> Result<usize, StoreError> {
        *out = CompressedCoins::absent(keys.len());
        self.get_some_compressed(keys, &mut all(keys), &|| false, &mut |n, coin| {
            out.set(n as usize, coin);
        })
    }

    /// As [`Self::get_compressed`], of the keys with the numbers that `open` has, and not of all of them
    /// if `is_over` says so meanwhile: those are left in `open`, and are fewer than before. Calls `found`
    /// with the number and the coin of each that exists.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn get_some_compressed(
        &self,
        keys: &[HashedOutPoint],
        open: &mut Vec<u32>,
        is_over: &dyn Fn() -> bool,
        found: &mut dyn FnMut(u32, &[u8]),
    ) -> Result<usize, StoreError> {
        self.resolve(keys, open, self.written.hold(), Trust::Memory, is_over, &mut |n, entry| {
            let coin = entry.coin_bytes();
            if !coin.is_empty() {
                // What is no coin is told here, where a damaged file is.
                CoinView::from_compressed(coin)?;
                found(n, coin);
            }
            Ok(())
        })
    }

    /// What the files say of the coins of `keys`, appended to `out`, for a caller that doubts memory:
    /// every segment is searched, without its filter, by an index that is read again, and no clean memtable
    /// answers. Costs a read for each coin and segment.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn search_many(
        &self,
        keys: &[HashedOutPoint],
        out: &mut Vec<Searched>,
    ) -> Result<(), StoreError> {
        let first = out.len();
        out.resize(first + keys.len(), Searched::default());
        let open = &mut all(keys);
        let found =
            self.resolve(keys, open, Clean::none(), Trust::Files, &|| false, &mut |n, entry| {
                out[first + n as usize].add_older(entry.coin()?);
                Ok(())
            });
        found.map(drop)
    }

    /// Which of `keys` are unspent: `out[n]` answers `keys[n]`. What BIP30 asks of every output.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn contains_many(
        &self,
        keys: &[HashedOutPoint],
        out: &mut Vec<bool>,
    ) -> Result<(), StoreError> {
        out.clear();
        out.resize(keys.len(), false);
        let (open, clean) = (&mut all(keys), self.written.hold());
        let found = self.resolve(keys, open, clean, Trust::Memory, &|| false, &mut |n, entry| {
            out[n as usize] = !entry.is_tombstone();
            Ok(())
        });
        found.map(drop)
    }

    /// Calls `found` with the newest entry of each key of `open` that has one; `clean` are the clean
    /// memtables that are looked through. Returns how many were in runs, and leaves in `open` what
    /// `is_over` came before, which is asked where memory is trusted.
    fn resolve(
        &self,
        keys: &[HashedOutPoint],
        open: &mut Vec<u32>,
        clean: Clean,
        trust: Trust,
        is_over: &dyn Fn() -> bool,
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<usize, StoreError> {
        sort_by_key(keys, open);
        for table in &self.flushing {
            table.look_up(keys, open, |n, entry| {
                found(n, entry).expect("entries in memory are as they were encoded");
                !trust.ends_with_first()
            });
        }
        match trust {
            Trust::Memory => {
                let parts = self.resolve_in_clean(keys, open, &clean, found);
                // Reads may take long, and the memory of clean ones be needed meanwhile.
                drop(clean);
                let (entries, left) = self.resolve_in_runs(keys, &parts, is_over, found)?;
                *open = left;
                Ok(entries)
            }
            Trust::Files => self.search_runs(keys, &std::mem::take(open), found),
        }
    }

    /// As [`Self::resolve`], of the clean memtables alone, for the keys of `open`, which are in order of key.
    /// Returns for each partition the keys that are left and the segments that may have them.
    fn resolve_in_clean(
        &self,
        keys: &[HashedOutPoint],
        open: &[u32],
        clean: &Clean,
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Vec<(Vec<u32>, &[Arc<Segment>])> {
        let parts = open.chunk_by(self.same_partition(keys)).map(|open| {
            let segments = &self.partitions[self.partition(keys, open[0])];
            let mut open = open.to_vec();
            let answered = clean.look_up(segments, keys, &mut open, |n, entry| {
                found(n, entry).expect("entries in memory are as they were encoded");
            });
            (open, &segments[answered..])
        });
        parts.collect()
    }

    /// As [`Self::resolve`], of the runs alone, for some keys of each partition in their order. Returns also
    /// which are left.
    fn resolve_in_runs(
        &self,
        keys: &[HashedOutPoint],
        parts: &[(Vec<u32>, &[Arc<Segment>])],
        is_over: &dyn Fn() -> bool,
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<(usize, Vec<u32>), StoreError> {
        let mut lookup = RunLookup::new(keys, found, is_over);
        for (open, segments) in parts {
            lookup.look_up(segments, open)?;
        }
        lookup.finish()
    }

    /// As [`Self::resolve`], of the runs alone, all entries, by what their files say.
    fn search_runs(
        &self,
        keys: &[HashedOutPoint],
        open: &[u32],
        found: &mut impl FnMut(u32, Entry<'_>) -> Result<(), DecodeError>,
    ) -> Result<usize, StoreError> {
        let (mut scratch, mut in_runs) = (LookupScratch::default(), 0);
        for open in open.chunk_by(self.same_partition(keys)) {
            for segment in &self.partitions[self.partition(keys, open[0])] {
                let segment = segment.reread()?;
                let may_contain = |n: &u32| segment.may_contain(keys[*n as usize].key);
                let wanted: Vec<u32> = open.iter().copied().filter(may_contain).collect();
                segment.resolve(keys, &wanted, &mut scratch, &mut |n, entry| {
                    in_runs += 1;
                    found(n, entry)
                })?;
            }
        }
        Ok(in_runs)
    }

    fn same_partition(&self, keys: &[HashedOutPoint]) -> impl Fn(&u32, &u32) -> bool {
        |a, b| self.partition(keys, *a) == self.partition(keys, *b)
    }

    fn partition(&self, keys: &[HashedOutPoint], n: u32) -> usize {
        self.context.partition_of(keys[n as usize].key)
    }

    /// Whether there are no entries: nothing was sealed yet.
    pub fn is_empty(&self) -> bool {
        self.flushing.is_empty() && self.partitions.iter().all(Vec::is_empty)
    }

    /// Number of partitions, each of which can be scanned on its own.
    pub fn partitions(&self) -> usize {
        self.partitions.len()
    }

    /// All coins, in the order of their keyed hashes (which is random).
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    pub fn scan(self: &Arc<Self>) -> Result<Scan, StoreError> {
        Scan::new(Arc::clone(self), 0..self.partitions())
    }

    /// The coins of one partition, so that several threads can share a scan.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    ///
    /// # Panics
    ///
    /// If there is no such partition.
    pub fn scan_partition(self: &Arc<Self>, partition: usize) -> Result<Scan, StoreError> {
        assert!(partition < self.partitions(), "partition out of range");
        Scan::new(Arc::clone(self), partition..partition + 1)
    }

    /// All layers of a partition as one, without tombstones.
    fn merged(&self, partition: usize) -> Result<MergeScan, StoreError> {
        let UtxoContext { hasher, partition_bits, .. } = self.context;
        let mut sources = Vec::new();
        for table in &self.flushing {
            let cursor = table.cursor(hasher, partition, partition_bits);
            sources.push(Source::Memtable(Arc::clone(table), cursor));
        }
        for segment in &self.partitions[partition] {
            let cursor = SegmentCursor::new(Arc::clone(segment), hasher, SCAN_BUFFER)?;
            sources.push(Source::Segment(cursor));
        }
        Ok(MergeScan::new(sources, false))
    }
}

/// Sorts numbers of keys by as much of these as orders the blocks of a run.
fn sort_by_key(keys: &[HashedOutPoint], open: &mut [u32]) {
    let mut by_key: Vec<u64> =
        open.iter().map(|n| keys[*n as usize].key & !u64::from(u32::MAX) | u64::from(*n)).collect();
    by_key.sort_unstable();
    open.iter_mut().zip(by_key).for_each(|(n, keyed)| *n = keyed as u32);
}

/// The numbers of all of some keys.
fn all(keys: &[HashedOutPoint]) -> Vec<u32> {
    (0..keys.len() as u32).collect()
}

/// A coin in a scan.
#[derive(Clone, Copy, Debug)]
pub struct CoinEntry<'a> {
    pub outpoint: OutPoint,
    /// The coin as Bitcoin Core serializes it (`coins.h`).
    pub compressed: &'a [u8],
}

impl CoinEntry<'_> {
    /// # Errors
    ///
    /// The bytes are no coin. Their checksum matched, so another program wrote them.
    pub fn coin(&self) -> Result<Coin, DecodeError> {
        Coin::from_compressed(self.compressed)
    }
}

/// Coins of a snapshot one after another.
pub struct Scan {
    layers: Arc<Layers>,
    partitions: std::ops::Range<usize>,
    current: MergeScan,
}

impl Scan {
    fn new(layers: Arc<Layers>, mut range: std::ops::Range<usize>) -> Result<Self, StoreError> {
        let current = match range.next() {
            Some(partition) => layers.merged(partition)?,
            None => MergeScan::new(Vec::new(), false),
        };
        Ok(Self { layers, partitions: range, current })
    }

    /// The next coin; `None` at the end.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    #[allow(clippy::should_implement_trait)] // An iterator could not lend its buffer.
    pub fn next(&mut self) -> Result<Option<CoinEntry<'_>>, StoreError> {
        Ok(self.next_keyed()?.map(|keyed| CoinEntry {
            outpoint: keyed.outpoint(),
            compressed: keyed.entry.coin_bytes(),
        }))
    }

    pub(super) fn next_keyed(&mut self) -> Result<Option<KeyedEntry<'_>>, StoreError> {
        while !self.current.step()? {
            match self.partitions.next() {
                Some(partition) => self.current = self.layers.merged(partition)?,
                None => return Ok(None),
            }
        }
        Ok(self.current.current())
    }
}

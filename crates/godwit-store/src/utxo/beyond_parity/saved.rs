//! What a repair has gathered by a block, written down so that another one goes on from there.
//!
//! Coins, tally and parts of partitions that wait for the next pass follow from the blocks up to that one and
//! from the ranges of keys, and from nothing else. So they are as good for a repair of fewer partitions, if
//! those have the ranges that they had: a cut behind the commit of a pass leaves such a repair. And they are
//! as good where the range was a whole partition, whatever of it is lost now: then no entry of a run is
//! asked. That is what is left of a repair for which the blocks have refuted what could be read of the
//! partition.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::{BUFFER, CoinsRepair, Gathered, KeySpan, Partition, Tally, contains, partition_span};
use crate::checkpoint::{CheckpointReader, CheckpointWriter};
use crate::error::StoreError;
use crate::utxo::entry::{Entry, HEADER, MAX_ENTRY, length};
use crate::utxo::run::format::BLOCK;
use crate::utxo::run::reader::SegmentCursor;
use crate::utxo::run::segment::Segment;

/// What follows the last entry of several: the length of none.
const NO_ENTRY: [u8; HEADER] = [0; HEADER];

/// Partitions of which something is saved.
struct SavedPartitions {
    all: Vec<u8>,
    /// Those all of whose coins were gathered, though not all of them are lost.
    refuted: BTreeSet<u8>,
}

/// What another repair had gathered, before it is known whether it is whole.
pub struct SavedPass {
    refuted: BTreeSet<u8>,
    parts: BTreeMap<u8, Option<Arc<Segment>>>,
    gathered: Gathered,
    tally: Tally,
    passes: (u128, u128),
}

impl CoinsRepair {
    /// About how many bytes [`Self::save`] writes.
    pub fn saved_bytes(&self) -> u64 {
        let parts = self.partitions.values().flat_map(|partition| &partition.parts);
        let parts: u64 = parts.map(|part| u64::from(part.run.blocks) * BLOCK as u64).sum();
        parts + self.gathered.memory() as u64
    }

    /// Bytes for which the disk has to keep room: those of the runs that are to be written.
    pub fn room(&self) -> u64 {
        self.room
    }

    /// Whether a block could not be read, or is none of those that the coins come from.
    pub fn has_failed(&self) -> bool {
        self.failed
    }

    /// Writes down what was gathered.
    ///
    /// # Errors
    ///
    /// A failed system call, or damage of a scratch run.
    pub fn save(&self, out: &mut CheckpointWriter) -> Result<(), StoreError> {
        out.write_u64(self.partitions.len() as u64)?;
        for (n, partition) in &self.partitions {
            out.write(&[*n])?;
            write_spans(out, &partition.spans)?;
        }
        for partition in self.partitions.values() {
            for part in &partition.parts {
                let mut cursor = SegmentCursor::new(Arc::clone(part), self.context.hasher, BUFFER)?;
                while let Some(keyed) = cursor.current() {
                    write_entry(out, keyed.entry)?;
                    cursor.advance()?;
                }
            }
            out.write(&NO_ENTRY)?;
        }
        out.write(&self.passes.0.to_le_bytes())?;
        out.write(&self.passes.1.to_le_bytes())?;
        for (coins, keys) in self.tally.partitions() {
            out.write_u64(*coins)?;
            out.write_u64(*keys)?;
        }
        self.gathered.save(out)
    }

    /// Reads what [`Self::save`] has written. `None`: it is of other ranges of keys, or not whole.
    ///
    /// # Errors
    ///
    /// A scratch run cannot be written.
    pub fn load(&mut self, from: &mut CheckpointReader) -> Result<Option<SavedPass>, StoreError> {
        let Some(SavedPartitions { all, refuted }) = self.load_spans(from) else {
            return Ok(None);
        };
        let mut parts = BTreeMap::new();
        for n in all {
            let is_wanted = self.partitions.contains_key(&n);
            let is_whole = match is_wanted {
                true => self.load_part(n, from, &mut parts)?,
                false => skip_entries(from).is_some(),
            };
            if !is_whole {
                return Ok(None);
            }
        }
        Ok(self.load_gathered(from, parts, refuted))
    }

    /// The saved partitions, if all that are wanted are among them and have the same ranges, or had all keys.
    fn load_spans(&self, from: &mut CheckpointReader) -> Option<SavedPartitions> {
        let (mut all, mut refuted, mut wanted) = (Vec::new(), BTreeSet::new(), 0);
        for _ in 0..from.u64()? {
            let [n] = from.array()?;
            let spans = read_spans(from)?;
            if let Some(partition) = self.partitions.get(&n) {
                wanted += 1;
                if partition.spans != spans {
                    if spans != [partition_span(n, self.context.partition_bits)] {
                        return None;
                    }
                    refuted.insert(n);
                }
            }
            all.push(n);
        }
        let is_right = wanted == self.partitions.len() && all.is_sorted_by(|a, b| a < b);
        is_right.then_some(SavedPartitions { all, refuted })
    }

    /// Writes the entries that earlier passes have gathered of a partition to a scratch run; `false` if they
    /// are not whole.
    fn load_part(
        &mut self,
        n: u8,
        from: &mut CheckpointReader,
        parts: &mut BTreeMap<u8, Option<Arc<Segment>>>,
    ) -> Result<bool, StoreError> {
        let span = partition_span(n, self.context.partition_bits);
        let mut keys = Keys::new(&self.context.hasher, span);
        let (mut bytes, mut is_whole) = (Vec::new(), false);
        let part = self.scratch.write(|writer| {
            while let Some(is_entry) = read_entry(from, &mut bytes) {
                if !is_entry {
                    is_whole = true;
                    break;
                }
                let entry = Entry::first_of(&bytes);
                let Some((key, entry)) = entry.and_then(|entry| Some((keys.next(entry)?, entry)))
                else {
                    break;
                };
                writer.push(key, entry)?;
            }
            Ok(())
        })?;
        parts.insert(n, part);
        Ok(is_whole)
    }

    fn load_gathered(
        &self,
        from: &mut CheckpointReader,
        parts: BTreeMap<u8, Option<Arc<Segment>>>,
        refuted: BTreeSet<u8>,
    ) -> Option<SavedPass> {
        let passes = (u128::from_le_bytes(from.array()?), u128::from_le_bytes(from.array()?));
        let mut tally = self.empty_tally();
        for place in tally.partitions_mut() {
            *place = (from.u64()?, from.u64()?);
        }
        let spans_of = |(n, partition): (&u8, &Partition)| match refuted.contains(n) {
            true => vec![partition_span(*n, self.context.partition_bits)],
            false => partition.spans.clone(),
        };
        let spans: Vec<KeySpan> = self.partitions.iter().flat_map(spans_of).collect();
        let gathered = Gathered::load(from, &self.context.hasher, &spans, self.limit())?;
        Some(SavedPass { refuted, parts, gathered, tally, passes })
    }

    /// Takes up what another repair had gathered.
    pub fn go_on(&mut self, saved: SavedPass) {
        let SavedPass { refuted, parts, gathered, tally, passes } = saved;
        (self.gathered, self.tally, self.passes) = (gathered, tally, passes);
        for n in refuted {
            let partition = self.partitions.get_mut(&n).expect("load_spans() has looked for it");
            partition.gather_all(n, self.context.partition_bits);
        }
        for (n, part) in parts {
            let partition = self.partitions.get_mut(&n).expect("load() has looked for it");
            partition.parts = part.into_iter().collect();
        }
    }
}

impl Gathered {
    fn save(&self, out: &mut CheckpointWriter) -> Result<(), StoreError> {
        write_spans(out, &self.wanted)?;
        out.write_u64(self.until)?;
        let mut all = self.coins.values().flat_map(|bytes| super::entries(bytes));
        all.try_for_each(|entry| write_entry(out, entry))?;
        out.write(&NO_ENTRY)
    }

    /// What is saved of these ranges, within `limit` bytes.
    fn load(
        from: &mut CheckpointReader,
        hasher: &crate::utxo::UtxoHasher,
        spans: &[KeySpan],
        limit: usize,
    ) -> Option<Self> {
        let mut wanted = read_spans(from)?;
        // Of partitions that need no repair any more nothing is wanted.
        wanted.retain(|span| contains(spans, span.first));
        let mut gathered = Self::new(wanted, limit);
        gathered.until = from.u64()?;
        let mut keys = Keys::new(hasher, KeySpan { first: 0, last: gathered.until });
        let mut bytes = Vec::new();
        while read_entry(from, &mut bytes)? {
            let entry = Entry::first_of(&bytes)?;
            gathered.take(keys.next(entry)?, entry);
        }
        Some(gathered)
    }
}

/// Coins in order of key.
struct Keys<'a> {
    hasher: &'a crate::utxo::UtxoHasher,
    span: KeySpan,
    last: Option<(u64, godwit_primitives::OutPoint)>,
}

impl<'a> Keys<'a> {
    fn new(hasher: &'a crate::utxo::UtxoHasher, span: KeySpan) -> Self {
        Self { hasher, span, last: None }
    }

    /// The key of the next entry, if it is a coin, behind the one before.
    fn next(&mut self, entry: Entry<'_>) -> Option<u64> {
        let outpoint = entry.outpoint().ok()?;
        let key = self.hasher.key(&outpoint);
        let is_next = self.last.is_none_or(|last| last < (key, outpoint));
        let is_in_span = self.span.first <= key && key <= self.span.last;
        self.last = Some((key, outpoint));
        (is_next && is_in_span && entry.coin().ok()?.is_some()).then_some(key)
    }
}

fn write_spans(out: &mut CheckpointWriter, spans: &[KeySpan]) -> Result<(), StoreError> {
    out.write_u64(spans.len() as u64)?;
    spans.iter().flat_map(|span| [span.first, span.last]).try_for_each(|key| out.write_u64(key))
}

fn read_spans(from: &mut CheckpointReader) -> Option<Vec<KeySpan>> {
    let count = from.u64()?;
    (0..count).map(|_| Some(KeySpan { first: from.u64()?, last: from.u64()? })).collect()
}

fn write_entry(out: &mut CheckpointWriter, entry: Entry<'_>) -> Result<(), StoreError> {
    out.write(&entry.file_header())?;
    out.write(entry.body())
}

/// The next entry; `false` behind the last.
fn read_entry(from: &mut CheckpointReader, bytes: &mut Vec<u8>) -> Option<bool> {
    let header: [u8; HEADER] = from.array()?;
    if header == NO_ENTRY {
        return Some(false);
    }
    let len = length(header);
    if len > MAX_ENTRY {
        return None;
    }
    bytes.clear();
    bytes.extend_from_slice(&header);
    bytes.resize(len, 0);
    from.read(&mut bytes[HEADER..])?;
    Some(true)
}

/// Reads up to the end of several entries.
fn skip_entries(from: &mut CheckpointReader) -> Option<()> {
    let mut bytes = Vec::new();
    while read_entry(from, &mut bytes)? {}
    Some(())
}

//! Coins in outpoint order: an external merge sort over scratch runs.
//!
//! The store keeps coins in the order of a random hash; `hash_serialized_3` and `dumptxoutset` want
//! them by transaction. Coins are collected up to a memory bound, sorted, written as scratch runs
//! (in the checksummed format of runs, in the store's directory, where the next start removes what
//! a crash left) and merged.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use godwit_primitives::OutPoint;

use super::entry::{Entry, MAX_ENTRY};
use super::layers::{CoinEntry, Layers, Scan, UtxoContext};
use super::run::format::RunId;
use super::run::reader::SegmentCursor;
use super::run::segment::{SealRange, Segment};
use super::run::writer::{RunOptions, RunWriter};
use super::stop::{Stop, WorkError};
use crate::error::StoreError;

/// Bytes read at once from a scratch run and written at once.
const BUFFER: usize = 64 << 10;
/// Least memory of a sort: room for some buffers and for many of the longest entries.
pub const MIN_SORT_MEMORY: usize = 1 << 20;

/// Coins between two looks whether the caller wants no more.
const LOOK_EVERY: usize = 1 << 10;

const _: () = assert!(MIN_SORT_MEMORY >= 16 * BUFFER && MIN_SORT_MEMORY >= 64 * MAX_ENTRY);

/// Order of coins of the same transaction; transactions always come by the bytes of their txid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutPointOrder {
    /// By output number: Bitcoin Core's `hash_serialized_3`.
    Numeric,
    /// By the bytes of the output number's VarInt, as LevelDB keys sort: Bitcoin Core's
    /// `dumptxoutset`. It differs from the number from 16,512 on.
    LevelDb,
}

/// Bytes whose order is the order of the sort.
type SortKey = [u8; 40];

impl OutPointOrder {
    fn key(self, outpoint: &OutPoint) -> SortKey {
        let output = match self {
            Self::Numeric => u64::from(outpoint.vout).to_be_bytes(),
            Self::LevelDb => var_int_bytes(outpoint.vout),
        };
        let mut key = [0; 40];
        key[..32].copy_from_slice(outpoint.txid.as_bytes());
        key[32..].copy_from_slice(&output);
        key
    }
}

/// The bytes of Core's VarInt of `n`, then zeros. The zeros never decide an order, since no VarInt
/// is the beginning of another.
fn var_int_bytes(n: u32) -> [u8; 8] {
    let (mut bytes, mut rest, mut used) = (u64::from(n & 0x7f), n, 1);
    while rest > 0x7f {
        rest = (rest >> 7) - 1;
        bytes |= u64::from(rest & 0x7f | 0x80) << (8 * used);
        used += 1;
    }
    (bytes << (8 * (8 - used))).to_be_bytes()
}

/// Ends a sort when the caller wants no more.
struct Looks<'a> {
    is_over: &'a dyn Fn() -> bool,
    left: usize,
}

impl Looks<'_> {
    /// To be asked once for each coin.
    fn check(&mut self) -> Result<(), WorkError> {
        self.left = self.left.checked_sub(1).unwrap_or(LOOK_EVERY);
        if self.left == 0 && (self.is_over)() { Err(WorkError::Stopped) } else { Ok(()) }
    }
}

/// Scratch runs of one sort, or one repair; removed when dropped.
pub(super) struct Scratch {
    context: UtxoContext,
    stop: Stop,
    paths: VecDeque<PathBuf>,
}

impl Scratch {
    pub(super) fn new(context: UtxoContext) -> Self {
        Self { context, stop: Stop::never(), paths: VecDeque::new() }
    }

    /// Writes a scratch run; `fill` pushes entries in the order of the sort. `None` without entries.
    pub(super) fn write(
        &mut self,
        fill: impl FnOnce(&mut RunWriter<'_>) -> Result<(), WorkError>,
    ) -> Result<Option<Arc<Segment>>, StoreError> {
        let run = RunId(self.context.next_scratch.fetch_add(1, Ordering::Relaxed));
        self.paths.push_back(run.path(&self.context.dir));
        let options = RunOptions {
            disk: &self.context.disk,
            executor: &*self.context.executor,
            dir: &self.context.dir,
            repairs: &self.context.repairs,
            run,
            fingerprint: self.context.hasher.fingerprint(),
            partition_bits: 0,
            seals: SealRange { oldest: 0, newest: 0 },
            buffer: BUFFER,
            max_filter: 0,
            durable: None,
        };
        let write = || {
            let mut writer = RunWriter::create(options, &self.stop)?;
            writer.begin(0, 0);
            fill(&mut writer)?;
            writer.end()?;
            writer.finish()
        };
        match write() {
            Ok(segments) => Ok(segments.into_iter().next()),
            Err(WorkError::Failed(error)) => Err(error),
            Err(WorkError::Stopped) => Err(StoreError::Stopped),
        }
    }

    fn remove_oldest(&mut self, count: usize) -> Result<(), StoreError> {
        for path in self.paths.drain(..count) {
            self.context.disk.remove(&path)?;
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Also after a write that failed: the disk may be full of these files.
        self.context.disk = self.context.disk.apart();
        if let Err(error) = self.remove_oldest(self.paths.len()) {
            log::warn!("scratch file left until the next start: {error}");
        }
    }
}

/// Entries in memory until they are sorted.
struct Batch {
    bytes: Vec<u8>,
    /// Sort key and place in `bytes`.
    keys: Vec<(SortKey, u32)>,
}

impl Batch {
    /// A batch within `memory` bytes, for entries of the usual 70 bytes.
    fn new(memory: usize) -> Self {
        let memory = memory.clamp(MIN_SORT_MEMORY, u32::MAX as usize);
        let bytes = Vec::with_capacity(memory / 5 * 3);
        let keys = Vec::with_capacity(memory / 5 * 2 / size_of::<(SortKey, u32)>());
        Self { bytes, keys }
    }

    fn is_full(&self) -> bool {
        self.keys.len() == self.keys.capacity()
            || self.bytes.len() + MAX_ENTRY > self.bytes.capacity()
    }

    fn push(&mut self, key: SortKey, entry: Entry<'_>) {
        self.keys.push((key, self.bytes.len() as u32));
        self.bytes.extend_from_slice(entry.bytes());
    }

    fn write(&mut self, scratch: &mut Scratch) -> Result<Option<Arc<Segment>>, StoreError> {
        self.keys.sort_unstable();
        let segment = scratch.write(|writer| {
            for (_, place) in &self.keys {
                let entry = Entry::first_of(&self.bytes[*place as usize..]);
                writer.push(0, entry.expect("push() copied a whole entry"))?;
            }
            Ok(())
        });
        self.keys.clear();
        self.bytes.clear();
        segment
    }
}

/// Several sorted scratch runs read as one.
struct Merged {
    order: OutPointOrder,
    sources: Vec<SegmentCursor>,
    /// Sort keys of the sources' current entries, lowest on top; the top is the current entry.
    heads: BinaryHeap<Reverse<(SortKey, usize)>>,
    begun: bool,
}

impl Merged {
    fn new(
        order: OutPointOrder,
        segments: Vec<Arc<Segment>>,
        context: &UtxoContext,
    ) -> Result<Self, StoreError> {
        let (mut sources, mut heads) = (Vec::new(), BinaryHeap::new());
        for segment in segments {
            let source = SegmentCursor::new(segment, context.hasher, BUFFER)?;
            if let Some(keyed) = source.current() {
                heads.push(Reverse((order.key(&keyed.outpoint()), sources.len())));
            }
            sources.push(source);
        }
        Ok(Self { order, sources, heads, begun: false })
    }

    /// Goes to the next entry, at first to the first; `false` at the end.
    fn step(&mut self) -> Result<bool, StoreError> {
        if !self.begun {
            self.begun = true;
        } else if let Some(Reverse((_, n))) = self.heads.pop() {
            self.sources[n].advance()?;
            if let Some(keyed) = self.sources[n].current() {
                self.heads.push(Reverse((self.order.key(&keyed.outpoint()), n)));
            }
        }
        Ok(!self.heads.is_empty())
    }

    fn current(&self) -> Option<(OutPoint, Entry<'_>)> {
        let Reverse((_, n)) = self.heads.peek()?;
        self.sources[*n].current().map(|keyed| (keyed.outpoint(), keyed.entry))
    }
}

/// All coins of a snapshot in outpoint order.
pub struct SortedScan {
    merged: Merged,
    _scratch: Scratch,
}

impl Layers {
    /// All coins in outpoint order, sorted through scratch files within about `memory` bytes (at
    /// least [`MIN_SORT_MEMORY`]). Scratch files need about the space of the coins themselves; one that
    /// cannot be written does not close the store.
    ///
    /// # Errors
    ///
    /// A failed system call or a damaged block; [`StoreError::Stopped`] once `is_over` says so.
    pub fn sorted(
        self: &Arc<Self>,
        order: OutPointOrder,
        memory: usize,
        is_over: &dyn Fn() -> bool,
    ) -> Result<SortedScan, StoreError> {
        let disk = self.context.disk.apart();
        let mut scratch = Scratch::new(UtxoContext { disk, ..self.context.clone() });
        let mut looks = Looks { is_over, left: LOOK_EVERY };
        let mut segments = sorted_batches(self.scan()?, order, memory, &mut scratch, &mut looks)?;
        let fan_in = memory.max(MIN_SORT_MEMORY) / BUFFER - 1;
        while segments.len() > fan_in {
            let inputs: Vec<_> = segments.drain(..fan_in).collect();
            let mut merged = Merged::new(order, inputs, &self.context)?;
            let output = scratch.write(|writer| {
                while merged.step()? {
                    looks.check()?;
                    let (_, entry) = merged.current().expect("step() found an entry");
                    writer.push(0, entry)?;
                }
                Ok(())
            })?;
            scratch.remove_oldest(fan_in)?;
            segments.extend(output);
        }
        Ok(SortedScan { merged: Merged::new(order, segments, &self.context)?, _scratch: scratch })
    }
}

fn sorted_batches(
    mut scan: Scan,
    order: OutPointOrder,
    memory: usize,
    scratch: &mut Scratch,
    looks: &mut Looks<'_>,
) -> Result<Vec<Arc<Segment>>, StoreError> {
    let (mut batch, mut segments) = (Batch::new(memory), Vec::new());
    while let Some(keyed) = scan.next_keyed()? {
        looks.check().map_err(|_| StoreError::Stopped)?;
        batch.push(order.key(&keyed.outpoint()), keyed.entry);
        if batch.is_full() {
            segments.extend(batch.write(scratch)?);
        }
    }
    if !batch.keys.is_empty() {
        segments.extend(batch.write(scratch)?);
    }
    Ok(segments)
}

impl SortedScan {
    /// The next coin; `None` at the end.
    ///
    /// # Errors
    ///
    /// A failed read or a damaged block.
    #[allow(clippy::should_implement_trait)] // An iterator could not lend its buffer.
    pub fn next(&mut self) -> Result<Option<CoinEntry<'_>>, StoreError> {
        if !self.merged.step()? {
            return Ok(None);
        }
        Ok(self
            .merged
            .current()
            .map(|(outpoint, entry)| CoinEntry { outpoint, compressed: entry.coin_bytes() }))
    }
}

#[cfg(test)]
mod tests {
    use godwit_primitives::Txid;
    use godwit_stream::DataStream;
    use proptest::prelude::*;

    use super::*;

    fn var_int(n: u32) -> Vec<u8> {
        let mut out = DataStream::new();
        out.write_var_int(u64::from(n));
        out.as_slice().to_vec()
    }

    proptest! {
        #[test]
        fn orders_are_those_of_core(
            a in prop_oneof![0u32..400, 16_000u32..17_000, 2_000_000u32..2_200_000, any::<u32>()],
            b in prop_oneof![0u32..400, 16_000u32..17_000, 2_000_000u32..2_200_000, any::<u32>()],
        ) {
            let at = |vout| OutPoint { txid: Txid::from_bytes([9; 32]), vout };
            let (by_number, by_bytes) = (OutPointOrder::Numeric, OutPointOrder::LevelDb);
            prop_assert_eq!(by_number.key(&at(a)).cmp(&by_number.key(&at(b))), a.cmp(&b));
            prop_assert_eq!(
                by_bytes.key(&at(a)).cmp(&by_bytes.key(&at(b))),
                var_int(a).cmp(&var_int(b))
            );
        }
    }

    #[test]
    fn the_orders_part_at_the_first_three_byte_var_int() {
        let at = |vout| OutPoint { txid: Txid::ZERO, vout };
        let below = |order: OutPointOrder, a, b| order.key(&at(a)) < order.key(&at(b));
        assert!(below(OutPointOrder::LevelDb, 16_510, 16_511));
        assert!(!below(OutPointOrder::LevelDb, 16_511, 16_512));
        assert!(below(OutPointOrder::Numeric, 16_511, 16_512));
    }
}

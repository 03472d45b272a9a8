//! The background jobs: flush a sealed memtable to a run, merge several segments into one.

use std::sync::Arc;
use std::time::Duration;

use super::entry_sum::{EntryHasher, EntrySum};
use super::layers::UtxoContext;
use super::memtable::Memtable;
use super::merge::{MergeScan, Source};
use super::run::format::RunId;
use super::run::reader::SegmentCursor;
use super::run::segment::{SealRange, Segment};
use super::run::writer::{RunOptions, RunWriter, UnsyncedRun};
use super::stop::{Stop, WorkError};
use crate::error::{Damage, StoreError};

/// The first half of a flush: writes a sealed memtable as a run.
pub(super) struct FlushJob {
    pub(super) run: RunId,
    pub(super) seal: u64,
    pub(super) table: Arc<Memtable>,
    /// Bytes written at once.
    pub(super) buffer: usize,
}

/// A merge: writes segments of one or several partitions as one run.
pub(super) struct MergeJob {
    pub(super) run: RunId,
    /// By rising partition.
    pub(super) parts: Vec<MergePart>,
    /// The seals that every part covers.
    pub(super) seals: SealRange,
    /// Bytes read at once from each input, and bytes written at once.
    pub(super) buffers: (usize, usize),
    /// Bytes that the filter of one segment may take.
    pub(super) max_filter: u64,
}

/// The inputs of one partition.
#[derive(Clone)]
pub(super) struct MergePart {
    pub(super) partition: usize,
    /// Neighbours in age, newest first.
    pub(super) inputs: Vec<Arc<Segment>>,
    /// Whether the oldest segment of the partition is among them. Only then may tombstones be
    /// dropped: otherwise the coins that they hide would reappear.
    pub(super) with_oldest: bool,
}

impl MergePart {
    /// Estimated number of entries of the output. With the oldest segment among the inputs, every
    /// tombstone removes its coin as well as itself; some tombstones have no coin (a coinbase
    /// output is never FRESH), hence the lower bound.
    pub(super) fn expected_entries(&self) -> u64 {
        let entries: u64 = self.inputs.iter().map(|input| input.meta.entries).sum();
        let tombstones: u64 = self.inputs.iter().map(|input| input.meta.tombstones).sum();
        let coins = entries.saturating_sub(tombstones);
        if self.with_oldest { coins.saturating_sub(tombstones).max(coins / 2) } else { entries }
    }

    /// Sum of the inputs' entries; unknown when one was written under schema 1.
    fn sum(&self) -> Option<EntrySum> {
        let mut sums = self.inputs.iter().map(|input| input.meta.sum);
        sums.try_fold(EntrySum::default(), |sum, input| Some(sum + input?))
    }

    /// Bytes of the inputs' entries on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.bytes()).sum()
    }
}

/// A memtable that is in a run, which is still to be synced: the second half of a flush. Coins are found
/// there, so that the memtable's memory need not wait for the disk.
pub(super) struct Written {
    pub(super) seal: u64,
    pub(super) segments: Vec<Arc<Segment>>,
    pub(super) sync: SyncJob,
}

/// The second half of a flush: makes the run durable.
pub(super) struct SyncJob {
    seal: u64,
    run: UnsyncedRun,
    /// Memory of the memtable that was written, in bytes.
    memory: usize,
    /// Time that the first half took.
    took: Duration,
}

/// What a flush has done.
pub(super) struct Flushed {
    pub(super) seal: u64,
    /// Memory of the memtable that was written, in bytes.
    pub(super) memory: usize,
    pub(super) took: Duration,
}

pub(super) fn flush(
    context: &UtxoContext,
    job: FlushJob,
    stop: &Stop,
) -> Result<Written, WorkError> {
    let FlushJob { run, seal, table, buffer } = job;
    // A flush that is still queued when the store is dropped is not begun.
    stop.check()?;
    let seals = SealRange { oldest: seal, newest: seal };
    let (coins, spent) = (table.coins(), table.tombstones());
    log::info!("Flush to run {} started: {coins} coins, {spent} spent ones.", run.0);
    let started = context.executor.now();
    let options = options(context, run, seals, buffer, u64::MAX);
    let (segments, run) = write_memtable(options, context, &table, stop)?;
    let took = context.executor.now() - started;
    let sync = SyncJob { seal, run, memory: table.memory(), took };
    Ok(Written { seal, segments, sync })
}

pub(super) fn sync(context: &UtxoContext, job: SyncJob, stop: &Stop) -> Result<Flushed, WorkError> {
    let SyncJob { seal, run, memory, took } = job;
    stop.check()?;
    let started = context.executor.now();
    let (id, bytes) = (run.run, run.bytes);
    run.sync()?;
    let took = took + (context.executor.now() - started);
    log_done("Flush to run", id, bytes, took);
    Ok(Flushed { seal, memory, took })
}

pub(super) fn options(
    context: &UtxoContext,
    run: RunId,
    seals: SealRange,
    buffer: usize,
    max_filter: u64,
) -> RunOptions<'_> {
    RunOptions {
        disk: &context.disk,
        executor: &*context.executor,
        dir: &context.dir,
        repairs: &context.repairs,
        run,
        fingerprint: context.hasher.fingerprint(),
        partition_bits: context.partition_bits,
        seals,
        buffer,
        max_filter,
        durable: Some(EntryHasher::new(&context.hasher)),
    }
}

fn write_memtable(
    options: RunOptions<'_>,
    context: &UtxoContext,
    table: &Memtable,
    stop: &Stop,
) -> Result<(Vec<Arc<Segment>>, UnsyncedRun), WorkError> {
    let mut writer = RunWriter::create(options, stop)?;
    let counts = table.counts_by_prefix(context.partition_bits);
    for (partition, count) in counts.into_iter().enumerate() {
        writer.begin(partition as u8, count as u64);
        let mut cursor = table.cursor(context.hasher, partition, context.partition_bits);
        while let Some(keyed) = table.current(&cursor) {
            writer.push(keyed.key, keyed.entry)?;
            table.advance(&mut cursor);
        }
        writer.end()?;
    }
    writer.finish_writing()
}

pub(super) fn merge(
    context: &UtxoContext,
    job: MergeJob,
    stop: &Stop,
) -> Result<Vec<Arc<Segment>>, WorkError> {
    let MergeJob { run, parts, seals, buffers: (read, write), max_filter } = job;
    stop.check()?;
    let inputs: usize = parts.iter().map(|part| part.inputs.len()).sum();
    let bytes: u64 = parts.iter().map(MergePart::bytes).sum();
    log::info!("Merge into run {} started: {inputs} segments, {bytes} bytes.", run.0);
    let started = context.executor.now();
    let mut writer = RunWriter::create(options(context, run, seals, write, max_filter), stop)?;
    for part in parts {
        writer.begin(part.partition as u8, part.expected_entries());
        let expected = part.sum();
        let mut sources = Vec::with_capacity(part.inputs.len());
        for input in part.inputs {
            sources.push(Source::Segment(SegmentCursor::new(input, context.hasher, read)?));
        }
        let mut scan = MergeScan::new(sources, !part.with_oldest);
        if expected.is_some() {
            scan.sum_dropped(EntryHasher::new(&context.hasher));
        }
        while scan.step()? {
            let keyed = scan.current().expect("step() found an entry");
            writer.push(keyed.key, keyed.entry)?;
        }
        let written = writer.end()?;
        if expected != written.zip(scan.dropped()).map(|(written, dropped)| written + dropped) {
            let path = run.path(&context.dir);
            return Err(StoreError::damaged(&path, 0, Damage::EntrySum).into());
        }
    }
    let segments = writer.finish()?;
    let bytes = segments.first().map_or(0, |segment| segment.run.bytes());
    log_done("Merge into run", run, bytes, context.executor.now() - started);
    Ok(segments)
}

fn log_done(what: &str, run: RunId, bytes: u64, took: Duration) {
    log::info!("{what} {} done: {bytes} bytes in {} ms.", run.0, took.as_millis());
}

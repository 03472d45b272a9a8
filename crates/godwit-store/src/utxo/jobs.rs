//! What the background threads do: write a sealed memtable as a run, or several segments as one.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use super::layers::Place;
use super::memtable::Memtable;
use super::merge::{MergeScan, Source};
use super::run::format::RunId;
use super::run::reader::SegmentCursor;
use super::run::segment::{SealRange, Segment};
use super::run::writer::{RunOptions, RunWriter};
use super::worker::{Pace, WorkError};

/// A job for the flusher.
pub(super) enum FlushJob {
    /// Write a sealed memtable.
    Flush {
        run: RunId,
        seal: u64,
        table: Arc<Memtable>,
        /// Bytes written at once.
        buffer: usize,
    },
    /// Remove run files that no commit names.
    Remove(Vec<PathBuf>),
}

/// What the flusher did.
pub(super) enum FlushEvent {
    Flushed(Vec<Arc<Segment>>),
    Removed,
}

/// Merge segments of one or several partitions into one run.
pub(super) struct MergeJob {
    pub(super) run: RunId,
    /// By rising partition.
    pub(super) parts: Vec<MergePart>,
    /// What every part covers.
    pub(super) seals: SealRange,
    /// Bytes read at once from each input and written at once.
    pub(super) buffer: usize,
    /// Bytes that the filter of one segment may take.
    pub(super) max_filter: u64,
}

/// The inputs of one partition.
#[derive(Clone)]
pub(super) struct MergePart {
    pub(super) partition: usize,
    /// Neighbours in age, newest first.
    pub(super) inputs: Vec<Arc<Segment>>,
    /// Whether the oldest segment of the partition is among them. Only then may a tombstone go:
    /// otherwise it would uncover the coin that it hides.
    pub(super) with_oldest: bool,
}

impl MergePart {
    /// About how many entries will come out. With the oldest segment among the inputs every
    /// tombstone takes its coin with it; some tombstones have none (a coinbase output is never
    /// FRESH), hence the lower bound.
    pub(super) fn expected_entries(&self) -> u64 {
        let entries: u64 = self.inputs.iter().map(|input| input.meta.entries).sum();
        let tombstones: u64 = self.inputs.iter().map(|input| input.meta.tombstones).sum();
        let coins = entries.saturating_sub(tombstones);
        if self.with_oldest { coins.saturating_sub(tombstones).max(coins / 2) } else { entries }
    }

    /// Bytes of the inputs' entries on disk.
    pub(super) fn bytes(&self) -> u64 {
        self.inputs.iter().map(|input| input.bytes()).sum()
    }
}

pub(super) fn flush(place: &Place, job: FlushJob, pace: &Pace) -> Result<FlushEvent, WorkError> {
    match job {
        FlushJob::Flush { run, seal, table, buffer } => {
            let seals = SealRange { oldest: seal, newest: seal };
            let (coins, spent) = (table.coins(), table.tombstones());
            log::info!("Flush to run {} started: {coins} coins, {spent} spent ones.", run.0);
            let started = Instant::now();
            let options = options(place, run, seals, buffer, u64::MAX);
            let segments = write_memtable(options, place, &table, pace)?;
            log_done("Flush to run", run, &segments, started);
            Ok(FlushEvent::Flushed(segments))
        }
        FlushJob::Remove(paths) => {
            for path in paths {
                place.disk.remove(&path)?;
            }
            Ok(FlushEvent::Removed)
        }
    }
}

fn options(
    place: &Place,
    run: RunId,
    seals: SealRange,
    buffer: usize,
    max_filter: u64,
) -> RunOptions<'_> {
    RunOptions {
        disk: &place.disk,
        dir: &place.dir,
        run,
        fingerprint: place.hasher.fingerprint(),
        partition_bits: place.partition_bits,
        seals,
        buffer,
        max_filter,
        durable: true,
    }
}

fn write_memtable(
    options: RunOptions<'_>,
    place: &Place,
    table: &Memtable,
    pace: &Pace,
) -> Result<Vec<Arc<Segment>>, WorkError> {
    let mut writer = RunWriter::create(options, pace)?;
    let counts = table.counts_by_prefix(place.partition_bits);
    for (partition, count) in counts.into_iter().enumerate() {
        writer.begin(partition as u8, count as u64);
        let mut cursor = table.cursor(place.hasher, partition, place.partition_bits);
        while let Some(keyed) = table.current(&cursor) {
            writer.push(keyed.key, keyed.entry)?;
            table.advance(&mut cursor);
        }
        writer.end()?;
    }
    writer.finish()
}

pub(super) fn merge(
    place: &Place,
    job: MergeJob,
    pace: &Pace,
) -> Result<Vec<Arc<Segment>>, WorkError> {
    let MergeJob { run, parts, seals, buffer, max_filter } = job;
    let inputs: usize = parts.iter().map(|part| part.inputs.len()).sum();
    let bytes: u64 = parts.iter().map(MergePart::bytes).sum();
    log::info!("Merge into run {} started: {inputs} segments, {bytes} bytes.", run.0);
    let started = Instant::now();
    let mut writer = RunWriter::create(options(place, run, seals, buffer, max_filter), pace)?;
    for part in parts {
        writer.begin(part.partition as u8, part.expected_entries());
        let mut sources = Vec::with_capacity(part.inputs.len());
        for input in part.inputs {
            sources.push(Source::Segment(SegmentCursor::new(input, place.hasher, buffer)?));
        }
        let mut scan = MergeScan::new(sources, !part.with_oldest);
        while scan.step()? {
            let keyed = scan.current().expect("step() found an entry");
            writer.push(keyed.key, keyed.entry)?;
        }
        writer.end()?;
    }
    let segments = writer.finish()?;
    log_done("Merge into run", run, &segments, started);
    Ok(segments)
}

fn log_done(what: &str, run: RunId, segments: &[Arc<Segment>], started: Instant) {
    let bytes = segments.first().map_or(0, |segment| segment.run.bytes());
    log::info!("{what} {} done: {bytes} bytes in {} ms.", run.0, started.elapsed().as_millis());
}

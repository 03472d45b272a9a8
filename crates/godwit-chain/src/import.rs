//! Imports blocks from files, many at once.
//!
//! First the headers of all files are put into the tree, seeking over the bodies, so that the best
//! header, the assumed block and what is left to do are known before the first block connects. Then
//! the blocks are read in the order in which the best chain connects them, whatever their order in
//! the files; blocks off that chain follow. A reader thread hands records to the workers as far ahead
//! as the byte budget allows; the connector takes them in order.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_consensus::{Reject, RejectReason, Verdict};
use godwit_primitives::BlockHash;
use godwit_store::exec::guarded;
use godwit_store::scan::{BlockFileScanner, Scanned, ScannedBlock, SkippedBytes};
use godwit_stream::BufferPool;

use crate::chain::{Chain, Step};
use crate::error::ChainError;
use crate::event::{Event, Source};
use crate::intake::IntakeHandle;
use crate::limits::smallest_charge;
use crate::message::{Message, send};
use crate::permits::Permits;

/// A record that could not be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    pub path: PathBuf,
    /// Where the block's bytes start.
    pub offset: u64,
    /// Its height, if its place is known.
    pub height: Option<u32>,
    pub hash: BlockHash,
    /// Core's reason; `None` for bytes that do not decode.
    pub reject: Option<Reject>,
}

/// Result of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportSummary {
    /// Records in the files.
    pub records: u64,
    /// Bytes of the blocks in them.
    pub bytes: u64,
    /// Records that were stored.
    pub stored: u64,
    /// Records that could not be used.
    pub bad: u64,
    /// Whether the import was stopped before its end.
    pub stopped: bool,
}

/// Observes an import.
pub trait ImportObserver {
    /// Seconds since 1970.
    fn now(&self) -> i64;

    /// The import advanced. The observer must take the chain's events, or they pile up.
    fn progress(&mut self, chain: &mut Chain);

    /// A record cannot be used. The import goes on.
    fn bad_record(&mut self, bad: &BadRecord);

    /// Bytes of a file belong to no record. The import goes on.
    fn skipped_bytes(&mut self, path: &Path, skipped: &SkippedBytes);
}

struct Planned {
    source: usize,
    record: ScannedBlock,
    hash: BlockHash,
}

/// The records still to be read, in the order of reading.
pub struct ImportPlan {
    sources: Vec<BlockFileScanner>,
    records: Vec<Planned>,
    scanned: u64,
    refused: u64,
    bytes: u64,
}

impl ImportPlan {
    /// Bytes of the blocks that are still to be read.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of blocks that are still to be read.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether there is nothing to read.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }
}

/// Puts the headers of all files into the tree and plans the order of reading. Headers whose
/// parents are unknown, and those that break a rule, are reported; their blocks are not read.
pub fn plan(
    chain: &mut Chain,
    sources: Vec<BlockFileScanner>,
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
) -> Result<ImportPlan, ChainError> {
    // They need not be read again.
    chain.finish_recovery()?;
    let mut records = Vec::new();
    for (source, scanner) in sources.iter().enumerate() {
        for found in scanner.scan() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match found? {
                Scanned::Block(record) => {
                    let hash = record.header.block_hash();
                    records.push(Planned { source, record, hash });
                }
                Scanned::Skipped(skipped) => {
                    let path = &scanner.files()[skipped.file as usize].path;
                    observer.skipped_bytes(path, &skipped);
                }
            }
        }
    }
    let scanned = records.len() as u64;
    let rejected = insert_headers(chain, &records, observer.now());
    let refused = rejected.len() as u64;
    let mut index = 0;
    records.retain(|planned| {
        let bad = rejected.get(&index);
        index += 1;
        if let Some(reject) = bad {
            observer.bad_record(&bad_record(chain, &sources, planned, Some(*reject)));
        }
        bad.is_none() && !is_stored(chain, &planned.hash)
    });
    let best = chain.tree().best_header();
    records.sort_by_cached_key(|planned| {
        let id = chain.tree().find(&planned.hash).expect("every other record was dropped");
        let node = chain.tree().node(id);
        (!chain.tree().is_ancestor(id, best), node.height)
    });
    let bytes = records.iter().map(|planned| u64::from(planned.record.len)).sum();
    Ok(ImportPlan { sources, records, scanned, refused, bytes })
}

fn is_stored(chain: &Chain, hash: &BlockHash) -> bool {
    let id = chain.tree().find(hash);
    id.is_some_and(|id| id == chain.tree().genesis() || chain.index.has_block(id))
}

/// Inserts every header whose chain reaches a known one, parents first. Returns the records whose
/// headers were refused, by index.
fn insert_headers(chain: &mut Chain, records: &[Planned], now: i64) -> HashMap<usize, Reject> {
    let mut children: HashMap<BlockHash, Vec<usize>> = HashMap::new();
    let mut rejected = HashMap::new();
    let mut ready = Vec::new();
    for (index, planned) in records.iter().enumerate() {
        let parent = planned.record.header.prev_blockhash;
        let known = chain.tree().find(&planned.hash).is_some();
        if known || chain.tree().find(&parent).is_some() {
            ready.push(index);
        } else {
            children.entry(parent).or_default().push(index);
            rejected.insert(index, Reject::new(RejectReason::PrevBlkNotFound));
        }
        while let Some(index) = ready.pop() {
            let Planned { record, hash, .. } = &records[index];
            match chain.accept_header(&record.header, *hash, now) {
                Ok(_) => rejected.remove(&index),
                Err(reject) => rejected.insert(index, reject),
            };
            ready.extend(children.remove(hash).unwrap_or_default());
        }
    }
    rejected
}

fn bad_record(
    chain: &Chain,
    sources: &[BlockFileScanner],
    planned: &Planned,
    reject: Option<Reject>,
) -> BadRecord {
    let id = chain.tree().find(&planned.hash);
    BadRecord {
        path: sources[planned.source].files()[planned.record.file as usize].path.clone(),
        offset: planned.record.offset,
        height: id.map(|id| chain.tree().node(id).height),
        hash: planned.hash,
        reject,
    }
}

/// Reads what was planned and connects what can be connected. Returns when everything is connected or
/// `stop` is set; the caller then flushes or closes the chain.
pub fn import(
    chain: &mut Chain,
    plan: ImportPlan,
    observer: &mut dyn ImportObserver,
    stop: &Arc<AtomicBool>,
) -> Result<ImportSummary, ChainError> {
    let ImportPlan { sources, records, scanned, refused, bytes } = plan;
    let mut summary =
        ImportSummary { records: scanned, bytes, bad: refused, ..ImportSummary::default() };
    let (sources, records) = (Arc::new(sources), Arc::new(records));
    let importing = chain.env.memory.importing;
    let permits = Permits::new(importing);
    // So that after a crash no stored block lacks a header below it in the index.
    chain.checkpoint()?;
    let reader = Reader {
        sources: Arc::clone(&sources),
        records: Arc::clone(&records),
        intake: chain.intake.handle(),
        outbox: chain.mailbox.outbox.clone(),
        permits: permits.clone(),
        smallest_charge: smallest_charge(importing),
        buffers: chain.block_buffers().clone(),
    };
    let thread = std::thread::Builder::new()
        .name("godwit-reader".into())
        .spawn(move || {
            let outbox = reader.outbox.clone();
            guarded(|| reader.run()).unwrap_or_else(|| {
                send(&outbox, Message::Panicked);
                0
            })
        })
        .map_err(ChainError::Spawn)?;
    let result = drive(chain, &sources, &records, observer, stop, &mut summary);
    permits.close();
    let read = thread.join().map_err(|_| ChainError::ThreadPanicked)?;
    let drained = drain(chain, read);
    result.and(drained).map(|()| summary)
}

/// Waits until the `read` records that the reader handed in are decoded, and forgets them.
fn drain(chain: &mut Chain, read: u64) -> Result<(), ChainError> {
    while chain.intake.records_arrived() < read {
        chain.wait()?;
    }
    chain.intake.forget_records();
    chain.lookahead.clear_near();
    Ok(())
}

fn drive(
    chain: &mut Chain,
    sources: &[BlockFileScanner],
    records: &[Planned],
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
    summary: &mut ImportSummary,
) -> Result<(), ChainError> {
    // Built when the first block is found invalid.
    let mut by_hash = None;
    let mut judged = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            summary.stopped = true;
            return Ok(());
        }
        let before = chain.events.len();
        let step = chain.step(observer.now())?;
        for event in chain.events.split_off(before) {
            let bad = match &event {
                Event::Judged { source: Source::Record { sequence }, verdict, .. } => {
                    judged += 1;
                    summary.stored += u64::from(*verdict == Verdict::Stored);
                    let planned = &records[*sequence as usize];
                    refused_record(chain, sources, planned, *verdict)
                }
                Event::Invalid { hash, reject } => {
                    let by_hash = by_hash.get_or_insert_with(|| {
                        let hashes = records.iter().map(|planned| planned.hash);
                        hashes.zip(0..).collect()
                    });
                    found_invalid(chain, sources, records, by_hash, hash, *reject)
                }
                _ => None,
            };
            if let Some(bad) = bad {
                summary.bad += 1;
                observer.bad_record(&bad);
            }
            if !matches!(event, Event::Judged { .. }) {
                chain.events.push_back(event);
            }
        }
        match step {
            Step::Progress => observer.progress(chain),
            Step::Idle if judged == records.len() || is_high_enough(chain) => return Ok(()),
            Step::Waiting | Step::Idle => chain.wait()?,
        }
    }
}

fn is_high_enough(chain: &Chain) -> bool {
    chain.goal.is_reached(&chain.index, chain.window.applied())
}

/// A record that the chain refused. The rule may be one that only these bytes break: other bytes of
/// the same block can keep it, so the header may still be good.
fn refused_record(
    chain: &Chain,
    sources: &[BlockFileScanner],
    planned: &Planned,
    verdict: Verdict,
) -> Option<BadRecord> {
    match verdict {
        Verdict::Undecodable => Some(bad_record(chain, sources, planned, None)),
        Verdict::Rejected(reject) => Some(bad_record(chain, sources, planned, Some(reject))),
        Verdict::Connected | Verdict::Stored | Verdict::Duplicate => None,
    }
}

/// A block that was found invalid when it was connected.
fn found_invalid(
    chain: &Chain,
    sources: &[BlockFileScanner],
    records: &[Planned],
    by_hash: &HashMap<BlockHash, usize>,
    hash: &BlockHash,
    reject: Reject,
) -> Option<BadRecord> {
    match by_hash.get(hash) {
        Some(place) => Some(bad_record(chain, sources, &records[*place], Some(reject))),
        // An earlier import stored it.
        None => own_record(chain, hash, reject),
    }
}

fn own_record(chain: &Chain, hash: &BlockHash, reject: Reject) -> Option<BadRecord> {
    let node = chain.tree().node(chain.tree().find(hash)?);
    let position = node.position?;
    Some(BadRecord {
        path: chain.env.store.block_file(position.file),
        offset: position.offset.into(),
        height: Some(node.height),
        hash: *hash,
        reject: Some(reject),
    })
}

struct Reader {
    sources: Arc<Vec<BlockFileScanner>>,
    records: Arc<Vec<Planned>>,
    intake: IntakeHandle,
    outbox: crossbeam_channel::Sender<Message>,
    permits: Permits,
    smallest_charge: u64,
    buffers: BufferPool,
}

impl Reader {
    /// Hands in the records, one after the other; returns how many.
    fn run(self) -> u64 {
        for (sequence, planned) in (0u64..).zip(self.records.iter()) {
            let bytes = u64::from(planned.record.len).max(self.smallest_charge);
            let Some(permit) = self.permits.acquire(bytes) else { return sequence };
            match self.sources[planned.source].read(&planned.record, &self.buffers) {
                Ok(bytes) => self.intake.take_record(sequence, bytes, permit),
                Err(error) => {
                    send(&self.outbox, Message::Import(error));
                    return sequence;
                }
            }
        }
        self.records.len() as u64
    }
}

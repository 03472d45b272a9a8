//! Blocks from files to a verified chain, many at once.
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
use std::time::Instant;

use godwit_consensus::{Reject, RejectReason};
use godwit_primitives::BlockHash;
use godwit_store::exec::{Workers, guarded};
use godwit_store::scan::{BlockFileScanner, Scanned, ScannedBlock, SkippedBytes};
use godwit_stream::BufferPool;

use crate::chain::{AcceptError, Chain};
use crate::error::ChainError;
use crate::event::Event;
use crate::message::{INBOX_LIMIT, Message, report_from, send};
use crate::permits::Permits;
use crate::structure::{Received, structure};
use crate::window::Step;

/// Bytes of blocks between the reader and the tip: what an import holds in memory beside the coins.
pub const IMPORT_BYTES: u64 = 96 << 20;

/// A record that could not be used, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The file.
    pub path: PathBuf,
    /// Where the block's bytes start.
    pub offset: u64,
    /// Its height, where its place is known.
    pub height: Option<u32>,
    /// Its hash.
    pub hash: BlockHash,
    /// Core's reason; `None` for bytes that are no block.
    pub reject: Option<Reject>,
}

/// What an import found.
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

/// Who watches an import.
pub trait ImportObserver {
    /// A step was made: events must be taken from the chain, or they pile up.
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

/// Puts the headers of all files into the tree and plans the reading. Headers whose parents are
/// nowhere, and those that break a rule, are reported; their blocks are not read.
pub fn plan(
    chain: &mut Chain,
    sources: Vec<BlockFileScanner>,
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
) -> Result<ImportPlan, ChainError> {
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
    let rejected = insert_headers(chain, &records);
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
    id.is_some_and(|id| id == chain.tree().genesis() || chain.has_block(id))
}

/// Inserts every header whose chain reaches one that is known, parents first; the records whose
/// headers are not in the tree, by index.
fn insert_headers(chain: &mut Chain, records: &[Planned]) -> HashMap<usize, Reject> {
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
            match chain.accept_header(&record.header, *hash) {
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
    let permits = Permits::new(IMPORT_BYTES);
    // A crash then loses no block for want of a header below it in the index.
    chain.checkpoint()?;
    let reader = Reader {
        sources: Arc::clone(&sources),
        records: Arc::clone(&records),
        workers: Arc::clone(&chain.workers),
        outbox: chain.outbox.clone(),
        permits: permits.clone(),
        buffers: chain.store.block_buffers().clone(),
        params: Arc::clone(&chain.params),
        hasher: chain.hasher(),
    };
    let thread = std::thread::Builder::new()
        .name("godwit-reader".into())
        .spawn(move || {
            let outbox = reader.outbox.clone();
            if guarded(|| reader.run()).is_none() {
                send(&outbox, Message::Panicked);
            }
        })
        .map_err(ChainError::Spawn)?;
    let result = drive(chain, &sources, &records, observer, stop, &mut summary);
    permits.close();
    let drained = drain(chain, &thread);
    if thread.join().is_err() {
        return Err(ChainError::ThreadPanicked);
    }
    result.and(drained).map(|()| summary)
}

/// Empties the inbox until the reader has ended: it may be waiting for a worker that waits for room
/// in the inbox.
fn drain(chain: &mut Chain, thread: &std::thread::JoinHandle<()>) -> Result<(), ChainError> {
    let mut result = Ok(());
    while !thread.is_finished() {
        if let Ok(message) = chain.inbox.recv_timeout(POLL) {
            result = result.and(chain.receive(message));
        }
        chain.arrivals.clear();
    }
    chain.cache.clear();
    result
}

/// Bytes of the budget that the smallest record takes. It bounds how many records are on their way to
/// half of what the inbox holds, so that workers never wait for room there while the connector waits
/// for them.
const SMALLEST_CHARGE: u64 = IMPORT_BYTES / (INBOX_LIMIT as u64 / 2);

const _: () = assert!(IMPORT_BYTES / SMALLEST_CHARGE < INBOX_LIMIT as u64 * 3 / 4);

const POLL: std::time::Duration = std::time::Duration::from_millis(5);

fn drive(
    chain: &mut Chain,
    sources: &[BlockFileScanner],
    records: &[Planned],
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
    summary: &mut ImportSummary,
) -> Result<(), ChainError> {
    // Made when the first block is found invalid.
    let mut by_hash = None;
    let mut next = 0;
    loop {
        if stop.load(Ordering::Relaxed) {
            summary.stopped = true;
            return Ok(());
        }
        while let Some(received) = chain.arrivals.remove(&next) {
            let planned = &records[next as usize];
            next += 1;
            let start = Instant::now();
            let taken = take_in(chain, planned, received)?;
            chain.times.accept += start.elapsed();
            match taken {
                Ok(new) => summary.stored += u64::from(new),
                Err(reject) => {
                    summary.bad += 1;
                    observer.bad_record(&bad_record(chain, sources, planned, reject));
                }
            }
        }
        let events = chain.events.len();
        let step = chain.step()?;
        for bad in found_invalid(chain, events, sources, records, &mut by_hash) {
            summary.bad += 1;
            observer.bad_record(&bad);
        }
        match step {
            Step::Progress => observer.progress(chain),
            Step::Idle if next == records.len() as u64 || chain.reached_stop_height() => {
                return Ok(());
            }
            Step::Waiting | Step::Idle => chain.wait()?,
        }
    }
}

/// The blocks that were found invalid when they were connected, from the event `first` on.
fn found_invalid(
    chain: &Chain,
    first: usize,
    sources: &[BlockFileScanner],
    records: &[Planned],
    by_hash: &mut Option<HashMap<BlockHash, usize>>,
) -> Vec<BadRecord> {
    let mut found = Vec::new();
    for event in chain.events.iter().skip(first) {
        let Event::Invalid { hash, reject } = event else { continue };
        let by_hash = by_hash.get_or_insert_with(|| {
            let hashes = records.iter().map(|planned| planned.hash);
            hashes.zip(0..).collect()
        });
        found.extend(match by_hash.get(hash) {
            Some(index) => Some(bad_record(chain, sources, &records[*index], Some(*reject))),
            // An earlier import has stored it.
            None => own_record(chain, hash, *reject),
        });
    }
    found
}

fn own_record(chain: &Chain, hash: &BlockHash, reject: Reject) -> Option<BadRecord> {
    let node = chain.tree().node(chain.tree().find(hash)?);
    let position = node.position?;
    Some(BadRecord {
        path: chain.store.block_file(position.file),
        offset: position.offset.into(),
        height: Some(node.height),
        hash: *hash,
        reject: Some(reject),
    })
}

/// Whether the block is new; the reason why it cannot be used, if so.
type Taken = Result<bool, Option<Reject>>;

fn take_in(chain: &mut Chain, planned: &Planned, received: Received) -> Result<Taken, ChainError> {
    match received {
        Received::Undecodable => Ok(Err(None)),
        Received::Unjudged(error) => Err(ChainError::Engine(error)),
        // The header may be good: other bytes of the block can keep the rule that these break.
        Received::Malformed { reject, .. } => Ok(Err(Some(reject))),
        Received::Structured(block) => match chain.accept_structured(&block, None) {
            Ok(stored) => Ok(Ok(stored.new)),
            Err(AcceptError::Rejected(reject)) => {
                log::debug!("block {} was not accepted: {reject}", planned.hash);
                Ok(Err(Some(reject)))
            }
            Err(AcceptError::Chain(error)) => Err(error),
        },
    }
}

struct Reader {
    sources: Arc<Vec<BlockFileScanner>>,
    records: Arc<Vec<Planned>>,
    workers: Arc<Workers>,
    outbox: crossbeam_channel::Sender<Message>,
    permits: Permits,
    buffers: BufferPool,
    params: Arc<godwit_primitives::network::Params>,
    hasher: godwit_store::utxo::UtxoHasher,
}

impl Reader {
    fn run(self) {
        for (sequence, planned) in (0u64..).zip(self.records.iter()) {
            let bytes = u64::from(planned.record.len).max(SMALLEST_CHARGE);
            let Some(permit) = self.permits.acquire(bytes) else { return };
            let bytes = match self.sources[planned.source].read(&planned.record, &self.buffers) {
                Ok(bytes) => bytes,
                Err(error) => {
                    send(&self.outbox, Message::ReaderFailed(error));
                    return;
                }
            };
            let (params, hasher) = (Arc::clone(&self.params), self.hasher);
            report_from(&self.workers, &self.outbox, move || {
                let received = structure(bytes, &params, &hasher, Some(permit));
                Message::Received { sequence, received }
            });
        }
    }
}

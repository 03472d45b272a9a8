//! Imports blocks from files, many at once.
//!
//! First the headers of all files enter the tree, seeking over the bodies, so that the best header, the
//! assumed block and the remaining work are known before the first block connects. Then the blocks are read
//! in the order in which the best chain connects them, whatever their order in the files; blocks off that
//! chain follow. A reader thread hands records to the workers as far ahead as the byte budget allows, and the
//! connector takes them in order.
//!
//! A block may be shorter than its record, and the remaining bytes may hold records again. Bitcoin Core
//! decodes each block as it reaches it, and goes on after the block; here its length is known only once it is
//! read, so records found in this way are read in another round.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_consensus::{Reject, RejectReason, Verdict};
use godwit_primitives::BlockHash;
use godwit_store::exec::guarded;
use godwit_store::scan::{BlockFileScanner, RecordPlace, Scanned, ScannedBlock, SkippedBytes};
use godwit_stream::BufferPool;

use crate::chain::{Chain, Step};
use crate::error::ChainError;
use crate::event::{Event, Source};
use crate::intake::IntakeHandle;
use crate::limits::smallest_charge;
use crate::message::{Message, send};
use crate::permits::Permits;
use crate::tree::NodeId;

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

/// A record that is to be read, and whose block it is. Main has a million of them.
struct Planned {
    source: u32,
    place: RecordPlace,
    id: NodeId,
}

/// A record whose block's parent is not known yet.
struct Orphan {
    source: u32,
    record: ScannedBlock,
    hash: BlockHash,
}

/// A record whose block ends before it does.
struct EndsEarly {
    source: u32,
    place: RecordPlace,
    block_len: u32,
}

/// The records still to be read, in the order of reading.
pub struct ImportPlan {
    sources: Vec<BlockFileScanner>,
    records: Vec<Planned>,
    planning: Planning,
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

/// Has records of these stored blocks, which an earlier chain has found damaged, written in their places.
/// To be called before [`plan`].
pub fn expect_copies_of<'a>(chain: &mut Chain, hashes: impl IntoIterator<Item = &'a BlockHash>) {
    for hash in hashes {
        let id = chain.tree().find(hash);
        if let Some(id) = id.filter(|id| chain.tree().node(*id).position.is_some()) {
            chain.index.damaged.lose(id);
        }
    }
}

/// Puts the headers of all files into the tree and plans the order of reading. Headers that break a rule are
/// reported; their blocks are not read.
pub fn plan(
    chain: &mut Chain,
    sources: Vec<BlockFileScanner>,
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
) -> Result<ImportPlan, ChainError> {
    // They need not be read again.
    chain.finish_recovery()?;
    let mut planning = Planning::default();
    for (source, scanner) in (0..).zip(&sources) {
        for found in scanner.scan() {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            match found? {
                Scanned::Block(record) => {
                    planning.add(chain, &sources, Orphan::new(source, record), observer);
                }
                Scanned::Skipped(skipped) => {
                    let path = &scanner.files()[skipped.file as usize].path;
                    observer.skipped_bytes(path, &skipped);
                }
            }
        }
    }
    planning.look_behind(chain, &sources, observer)?;
    let records = planning.take_records(chain);
    let bytes = records.iter().map(|planned| u64::from(planned.place.len)).sum();
    Ok(ImportPlan { sources, records, planning, bytes })
}

/// What was found so far.
#[derive(Default)]
struct Planning {
    records: Vec<Planned>,
    /// Records by the parents that they wait for. Files are nearly in the order of the chain, so that these
    /// are few.
    orphans: HashMap<BlockHash, Vec<Orphan>>,
    /// Records behind whose blocks others may be.
    end_early: Vec<EndsEarly>,
    /// Where the records are that were found there. Few: they come of faults of the program that has written
    /// the file.
    behind: HashSet<(u32, u32, u64)>,
    scanned: u64,
    refused: u64,
}

impl Planning {
    /// Puts a header into the tree as soon as its parent is there, and those that have waited for it.
    fn add(
        &mut self,
        chain: &mut Chain,
        sources: &[BlockFileScanner],
        found: Orphan,
        observer: &mut dyn ImportObserver,
    ) {
        self.scanned += 1;
        let parent = found.record.header.prev_blockhash;
        let is_known = |hash| chain.tree().find(hash).is_some();
        if !is_known(&found.hash) && !is_known(&parent) {
            self.orphans.entry(parent).or_default().push(found);
            return;
        }
        let mut ready = vec![found];
        while let Some(Orphan { source, record, hash }) = ready.pop() {
            // One that is lost is wanted even if it has failed since: it is to be disconnected.
            let lost = chain.tree().find(&hash).filter(|id| chain.index.is_lost(*id));
            let header = &record.header;
            match lost.map_or_else(|| chain.accept_header(header, hash, observer.now()), Ok) {
                Ok(id) => {
                    let (place, stored) = (record.place, chain.tree().node(id).position);
                    if let Some(stored) = stored.filter(|stored| stored.len < place.len) {
                        // An import that was stopped may have stored it, and not what is behind it.
                        self.end_early.push(EndsEarly { source, place, block_len: stored.len });
                    }
                    self.records.push(Planned { source, place, id });
                    ready.extend(self.orphans.remove(&hash).unwrap_or_default());
                }
                Err(reject) => {
                    self.refused += 1;
                    let bad = bad_record(chain, sources, source, record.place, hash, reject);
                    observer.bad_record(&bad);
                }
            }
        }
    }

    /// Adds the records behind blocks that end before their records do.
    fn look_behind(
        &mut self,
        chain: &mut Chain,
        sources: &[BlockFileScanner],
        observer: &mut dyn ImportObserver,
    ) -> Result<(), ChainError> {
        while let Some(EndsEarly { source, place, block_len }) = self.end_early.pop() {
            for found in sources[source as usize].scan_behind(place, block_len) {
                let found = found?;
                if self.behind.insert((source, place.file, found.place.offset)) {
                    self.add(chain, sources, Orphan::new(source, found), observer);
                }
            }
        }
        Ok(())
    }

    /// The records that are to be read, in the order in which the best chain connects their blocks.
    fn take_records(&mut self, chain: &Chain) -> Vec<Planned> {
        let mut records = std::mem::take(&mut self.records);
        records.retain(|planned| !chain.index.has_block(planned.id));
        let best = chain.tree().best_header();
        records.sort_by_cached_key(|planned| {
            let tree = chain.tree();
            (!tree.is_ancestor(planned.id, best), tree.node(planned.id).height)
        });
        records
    }

    /// Reports the records whose parents were in no file, in the order of the files.
    fn report_orphans(
        &mut self,
        chain: &Chain,
        sources: &[BlockFileScanner],
        observer: &mut dyn ImportObserver,
    ) {
        let mut orphans: Vec<Orphan> =
            self.orphans.drain().flat_map(|(_, waiting)| waiting).collect();
        orphans.sort_by_key(|orphan| {
            let RecordPlace { file, offset, .. } = orphan.record.place;
            (orphan.source, file, offset)
        });
        self.refused += orphans.len() as u64;
        let reject = Reject::new(RejectReason::PrevBlkNotFound);
        for Orphan { source, record, hash } in orphans {
            observer.bad_record(&bad_record(chain, sources, source, record.place, hash, reject));
        }
    }
}

impl Orphan {
    fn new(source: u32, record: ScannedBlock) -> Self {
        Self { source, record, hash: record.header.block_hash() }
    }
}

fn bad_record(
    chain: &Chain,
    sources: &[BlockFileScanner],
    source: u32,
    place: RecordPlace,
    hash: BlockHash,
    reject: impl Into<Option<Reject>>,
) -> BadRecord {
    let id = chain.tree().find(&hash);
    BadRecord {
        path: sources[source as usize].files()[place.file as usize].path.clone(),
        offset: place.offset,
        height: id.map(|id| chain.tree().node(id).height),
        hash,
        reject: reject.into(),
    }
}

fn bad_planned(
    chain: &Chain,
    sources: &[BlockFileScanner],
    planned: &Planned,
    reject: Option<Reject>,
) -> BadRecord {
    let hash = chain.tree().node(planned.id).hash;
    bad_record(chain, sources, planned.source, planned.place, hash, reject)
}

/// Reads what was planned and connects what can be connected. Returns when everything is connected or
/// `stop` is set; the caller then flushes or closes the chain. Headers whose parents are unknown are reported
/// at the end.
pub fn import(
    chain: &mut Chain,
    plan: ImportPlan,
    observer: &mut dyn ImportObserver,
    stop: &Arc<AtomicBool>,
) -> Result<ImportSummary, ChainError> {
    let ImportPlan { sources, mut records, mut planning, bytes } = plan;
    let mut summary = ImportSummary { bytes, ..ImportSummary::default() };
    let sources = Arc::new(sources);
    loop {
        let round = Arc::new(records);
        let end_early = import_round(chain, &sources, &round, observer, stop, &mut summary)?;
        if summary.stopped {
            break;
        }
        planning.end_early.extend(end_early.into_iter().map(|(sequence, block_len)| {
            let Planned { source, place, .. } = round[sequence as usize];
            EndsEarly { source, place, block_len }
        }));
        planning.look_behind(chain, &sources, observer)?;
        records = planning.take_records(chain);
        if records.is_empty() {
            planning.report_orphans(chain, &sources, observer);
            break;
        }
        log::info!("{} more blocks to read, behind others within their records.", records.len());
        summary.bytes += records.iter().map(|planned| u64::from(planned.place.len)).sum::<u64>();
    }
    summary.records = planning.scanned;
    summary.bad += planning.refused;
    Ok(summary)
}

/// Reads so many records. Returns those that had bytes behind their block, with its length.
fn import_round(
    chain: &mut Chain,
    sources: &Arc<Vec<BlockFileScanner>>,
    records: &Arc<Vec<Planned>>,
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
    summary: &mut ImportSummary,
) -> Result<Vec<(u64, u32)>, ChainError> {
    let importing = chain.env.memory.importing;
    let permits = Permits::new(importing);
    // So that after a crash no stored block lacks a header below it in the index.
    chain.checkpoint()?;
    let reader = Reader {
        sources: Arc::clone(sources),
        records: Arc::clone(records),
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
    let result = drive(chain, sources, records, observer, stop, summary);
    permits.close();
    let read = thread.join().map_err(|_| ChainError::ThreadPanicked)?;
    let drained = drain(chain, read);
    result.and(drained)
}

/// Waits until the `read` records that the reader handed in are decoded, and forgets them. Returns those
/// that had bytes behind their block, with its length.
fn drain(chain: &mut Chain, read: u64) -> Result<Vec<(u64, u32)>, ChainError> {
    while chain.intake.records_arrived() < read {
        chain.wait()?;
    }
    let end_early = chain.intake.forget_records();
    chain.lookahead.clear_near();
    Ok(end_early)
}

fn drive(
    chain: &mut Chain,
    sources: &[BlockFileScanner],
    records: &[Planned],
    observer: &mut dyn ImportObserver,
    stop: &AtomicBool,
    summary: &mut ImportSummary,
) -> Result<(), ChainError> {
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
                    found_invalid(chain, sources, records, hash, *reject)
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
        Verdict::Undecodable => Some(bad_planned(chain, sources, planned, None)),
        Verdict::Rejected(reject) => Some(bad_planned(chain, sources, planned, Some(reject))),
        Verdict::Connected | Verdict::Stored | Verdict::Duplicate => None,
    }
}

/// A block that was found invalid when it was connected.
fn found_invalid(
    chain: &Chain,
    sources: &[BlockFileScanner],
    records: &[Planned],
    hash: &BlockHash,
    reject: Reject,
) -> Option<BadRecord> {
    let id = chain.tree().find(hash)?;
    match records.iter().rfind(|planned| planned.id == id) {
        Some(planned) => Some(bad_planned(chain, sources, planned, Some(reject))),
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
            let bytes = u64::from(planned.place.len).max(self.smallest_charge);
            let Some(permit) = self.permits.acquire(bytes) else { return sequence };
            match self.sources[planned.source as usize].read(&planned.place, &self.buffers) {
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

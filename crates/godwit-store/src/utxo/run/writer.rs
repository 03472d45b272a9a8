//! Writing a run: entries arrive in order of key, bytes leave sequentially.

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::thread::JoinHandle;

use godwit_stream::DataStream;

use super::file::RunFile;
use super::file::repair::Repairs;
use super::format::{
    BLOCK, BLOCK_HEADER, BlockKind, Footer, PAYLOAD, RunId, SegmentMeta, seal_block,
};
use super::parity::ParityWriter;
use super::segment::{BlockIndex, SealRange, Segment};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::StoreError;
use crate::exec::Executor;
use crate::utxo::entry::Entry;
use crate::utxo::entry_sum::{EntryHasher, EntrySum};
use crate::utxo::filter::Filter;
use crate::utxo::stop::{Stop, WorkError};

/// Bytes written between two fsyncs of a run: the last one, which nothing can interrupt, then does
/// not delay the end of the program, and reads by others do not queue behind a burst. Tests have it
/// happen in their small runs.
const SYNC_EVERY: u64 = if cfg!(test) { 64 << 10 } else { 16 << 20 };

/// What a run is written with.
pub(crate) struct RunOptions<'a> {
    pub(crate) disk: &'a StoreDisk,
    pub(crate) executor: &'a dyn Executor,
    pub(crate) dir: &'a Path,
    pub(crate) repairs: &'a Arc<Repairs>,
    pub(crate) run: RunId,
    /// [`crate::utxo::UtxoHasher::fingerprint`].
    pub(crate) fingerprint: u64,
    pub(crate) partition_bits: u32,
    pub(crate) seals: SealRange,
    /// Bytes written at once.
    pub(crate) buffer: usize,
    /// Bytes that the filter of one segment may take.
    pub(crate) max_filter: u64,
    /// Of a run that must outlive the process: what sums up its entries. It is synced and gets parity.
    pub(crate) durable: Option<EntryHasher>,
}

/// A run that is being written.
pub(crate) struct RunWriter<'a> {
    options: RunOptions<'a>,
    file: StoreFile,
    parity: Option<ParityWriter>,
    stop: &'a Stop,
    /// Sealed blocks not yet written.
    pending: Vec<u8>,
    /// Bytes written, and how many of them were written when the last fsync began.
    written: u64,
    synced: u64,
    /// The fsync that runs while more is written.
    sync: Option<BackgroundSync>,
    block: Box<[u8; BLOCK]>,
    /// Bytes of the open block's payload in use.
    used: usize,
    /// Number of the open block.
    number: u32,
    segment: Option<OpenSegment>,
    finished: Vec<(SegmentMeta, Option<Filter>, BlockIndex)>,
}

struct OpenSegment {
    meta: SegmentMeta,
    filter: Option<Filter>,
    index: Vec<u32>,
}

impl<'a> RunWriter<'a> {
    pub(crate) fn create(options: RunOptions<'a>, stop: &'a Stop) -> Result<Self, WorkError> {
        let path = options.run.path(options.dir);
        let file = options.disk.open(&path, OpenMode::Truncate)?;
        let parity_path = options.run.parity_path(options.dir);
        let parity = options.durable.map(|_| ParityWriter::create(options.disk, &parity_path));
        Ok(Self {
            file,
            parity: parity.transpose()?,
            stop,
            pending: Vec::with_capacity(options.buffer + BLOCK),
            written: 0,
            synced: 0,
            sync: None,
            block: Box::new([0; BLOCK]),
            used: 0,
            number: 0,
            segment: None,
            finished: Vec::new(),
            options,
        })
    }

    /// Begins the segment of a partition that will get at most about `entries` entries. Partitions
    /// come in rising order.
    pub(crate) fn begin(&mut self, partition: u8, entries: u64) {
        let meta = SegmentMeta {
            partition,
            first_block: self.number,
            blocks: 0,
            filter_bytes: 0,
            entries: 0,
            tombstones: 0,
            min_key: u64::MAX,
            max_key: 0,
            sum: self.options.durable.map(|_| EntrySum::default()),
        };
        let filter = Filter::sized(entries, self.options.max_filter, self.options.partition_bits);
        self.segment = Some(OpenSegment { meta, filter, index: Vec::new() });
    }

    fn segment(&mut self) -> &mut OpenSegment {
        self.segment.as_mut().expect("begin() opened a segment")
    }

    /// Appends an entry; keys never fall.
    pub(crate) fn push(&mut self, key: u64, entry: Entry<'_>) -> Result<(), WorkError> {
        let len = entry.bytes().len();
        if self.used + len > PAYLOAD && self.used > 0 {
            self.seal(BlockKind::Entries, 1)?;
        }
        let term = self.options.durable.map(|hasher| hasher.term(entry));
        let segment = self.segment();
        if let (Some(sum), Some(term)) = (&mut segment.meta.sum, term) {
            *sum += term;
        }
        segment.meta.entries += 1;
        segment.meta.tombstones += u64::from(entry.is_tombstone());
        segment.meta.min_key = segment.meta.min_key.min(key);
        segment.meta.max_key = key;
        if let Some(filter) = &mut segment.filter {
            filter.insert(key);
        }
        if self.used == 0 {
            self.segment().index.push((key >> 32) as u32);
        }
        let header = entry.file_header();
        if len > PAYLOAD {
            return self.push_long(key, header, entry.body());
        }
        let place = &mut self.block[BLOCK_HEADER + self.used..][..len];
        place[..header.len()].copy_from_slice(&header);
        place[header.len()..].copy_from_slice(entry.body());
        self.used += len;
        Ok(())
    }

    fn push_long(&mut self, key: u64, header: [u8; 2], body: &[u8]) -> Result<(), WorkError> {
        let bytes = [&header, body].concat();
        let span = bytes.len().div_ceil(PAYLOAD) as u8;
        for (n, piece) in bytes.chunks(PAYLOAD).enumerate() {
            let kind = if n == 0 { BlockKind::Entries } else { BlockKind::Overflow };
            if n > 0 {
                self.segment().index.push((key >> 32) as u32);
            }
            self.fill(piece);
            self.seal(kind, if n == 0 { span } else { 1 })?;
        }
        Ok(())
    }

    fn fill(&mut self, payload: &[u8]) {
        self.block[BLOCK_HEADER..][..payload.len()].copy_from_slice(payload);
        self.used = payload.len();
    }

    fn seal(&mut self, kind: BlockKind, span: u8) -> Result<(), WorkError> {
        seal_block(&mut self.block, self.options.run, self.number, kind, span, self.used);
        self.pending.extend_from_slice(&self.block[..]);
        if let Some(parity) = &mut self.parity {
            parity.push(&self.block)?;
        }
        self.number += 1;
        self.used = 0;
        if self.pending.len() >= self.options.buffer { self.write_pending() } else { Ok(()) }
    }

    fn write_pending(&mut self) -> Result<(), WorkError> {
        self.file.write_all_at(self.written, &self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        if let Some(parity) = &self.parity
            && self.written - self.synced >= SYNC_EVERY
        {
            let files = [self.file.clone(), parity.file().clone()];
            self.wait_sync()?;
            self.sync = BackgroundSync::start(self.options.executor, files)?;
            self.synced = self.written;
        }
        self.stop.check()
    }

    fn wait_sync(&mut self) -> Result<(), StoreError> {
        self.sync.take().map_or(Ok(()), BackgroundSync::wait)
    }

    /// Ends the segment: its filter and its index follow its entries. A segment without entries
    /// leaves nothing behind. Returns the sum of the entries, which only a durable run has.
    pub(crate) fn end(&mut self) -> Result<Option<EntrySum>, WorkError> {
        if self.used > 0 {
            self.seal(BlockKind::Entries, 1)?;
        }
        let OpenSegment { mut meta, filter, index } =
            self.segment.take().expect("begin() opened a segment");
        let sum = meta.sum;
        if meta.entries == 0 {
            return Ok(sum);
        }
        meta.blocks = index.len() as u32;
        meta.filter_bytes = filter.as_ref().map_or(0, |filter| filter.memory() as u32);
        if let Some(filter) = &filter {
            self.payloads(BlockKind::Filter, filter.bytes())?;
        }
        self.payloads(BlockKind::Index, index.iter().map(|key| key.to_le_bytes()))?;
        self.finished.push((meta, filter, BlockIndex::new(index)));
        Ok(sum)
    }

    /// Writes fixed-size pieces, cut at payloads and not at pieces.
    fn payloads<const N: usize>(
        &mut self,
        kind: BlockKind,
        pieces: impl Iterator<Item = [u8; N]>,
    ) -> Result<(), WorkError> {
        for piece in pieces {
            let head = N.min(PAYLOAD - self.used);
            self.block[BLOCK_HEADER + self.used..][..head].copy_from_slice(&piece[..head]);
            self.used += head;
            if self.used == PAYLOAD {
                self.seal(kind, 1)?;
                self.fill(&piece[head..]);
            }
        }
        if self.used > 0 { self.seal(kind, 1) } else { Ok(()) }
    }

    /// Writes the footer and makes the file and its name durable.
    pub(crate) fn finish(self) -> Result<Vec<Arc<Segment>>, WorkError> {
        let (segments, unsynced) = self.finish_writing()?;
        unsynced.sync()?;
        Ok(segments)
    }

    /// As [`Self::finish`], of a run that can be read from now on and is durable once it is synced.
    pub(crate) fn finish_writing(mut self) -> Result<(Vec<Arc<Segment>>, UnsyncedRun), WorkError> {
        self.write_footer()?;
        let mut files = None;
        if let Some(mut parity) = self.parity.take() {
            parity.write()?;
            files = Some([self.file.clone(), parity.file().clone()]);
        }
        let RunOptions { disk, dir, run, .. } = self.options;
        let (disk, dir) = (disk.clone(), dir.to_owned());
        let unsynced =
            UnsyncedRun { run, bytes: self.written, disk, dir, files, sync: self.sync.take() };
        Ok((self.into_segments(), unsynced))
    }

    fn write_footer(&mut self) -> Result<(), WorkError> {
        let footer = Footer {
            run: self.options.run,
            fingerprint: self.options.fingerprint,
            partition_bits: self.options.partition_bits as u8,
            segments: self.finished.iter().map(|(meta, ..)| meta.clone()).collect(),
        };
        let mut out = DataStream::new();
        out.put(&footer);
        self.fill(out.as_slice());
        self.seal(BlockKind::Footer, 1)?;
        self.write_pending()
    }

    fn into_segments(self) -> Vec<Arc<Segment>> {
        let RunOptions { disk, dir, run: id, repairs, .. } = self.options;
        let (disk, path, repairs) = (disk.clone(), id.path(dir), Arc::clone(repairs));
        let run = Arc::new(RunFile { id, disk, path, blocks: self.number, repairs });
        let seals = self.options.seals;
        let segment = |(meta, filter, index): (_, Option<Filter>, _)| {
            let (filter, index) = (filter.map(Arc::new), Arc::new(index));
            Arc::new(Segment { run: Arc::clone(&run), meta, seals, filter, index })
        };
        self.finished.into_iter().map(segment).collect()
    }
}

/// A run whose bytes are all written.
pub(crate) struct UnsyncedRun {
    pub(crate) run: RunId,
    /// Its length.
    pub(crate) bytes: u64,
    disk: StoreDisk,
    dir: PathBuf,
    /// The run and its parity, if it has to outlive the process.
    files: Option<[StoreFile; 2]>,
    /// The fsync that was begun while it was written.
    sync: Option<BackgroundSync>,
}

impl UnsyncedRun {
    /// Makes it and its name durable.
    pub(crate) fn sync(mut self) -> Result<(), StoreError> {
        self.sync.take().map_or(Ok(()), BackgroundSync::wait)?;
        let Some(files) = self.files else { return Ok(()) };
        files.iter().try_for_each(StoreFile::sync)?;
        self.disk.sync_dir(&self.dir)
    }
}

/// An fsync beside the writing, in a thread of its own where there are threads: it mostly waits for
/// the disk.
struct BackgroundSync {
    thread: Option<JoinHandle<()>>,
    result: Arc<OnceLock<Result<(), StoreError>>>,
}

impl BackgroundSync {
    /// `None` when there was no thread to be had, and the fsync is done.
    fn start(executor: &dyn Executor, files: [StoreFile; 2]) -> Result<Option<Self>, StoreError> {
        let result = Arc::new(OnceLock::new());
        let (synced, told) = (files.clone(), Arc::clone(&result));
        let task = move || {
            told.get_or_init(|| synced.iter().try_for_each(StoreFile::sync));
        };
        match executor.spawn_beside("utxo-sync", Box::new(task)) {
            Ok(thread) => Ok(Some(Self { thread, result })),
            Err(_) => files.iter().try_for_each(StoreFile::sync).map(|()| None),
        }
    }

    fn wait(mut self) -> Result<(), StoreError> {
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join) {
            resume_unwind(panic);
        }
        self.result.get().cloned().expect("the fsync has ended")
    }
}

impl Drop for BackgroundSync {
    /// A run that is given up is not closed under the fsync. What that fsync says does not matter any
    /// more: the file is removed, and a failure has closed the store.
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::warn!("an fsync of a run has panicked");
        }
    }
}

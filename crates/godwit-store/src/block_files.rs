//! `blkNNNNN.dat`: the blocks, in Bitcoin Core's framing, in the order in which they came.
//!
//! Each record is the network's magic, the block's length (u32, little-endian) and the block
//! (`node/blockstorage.cpp`, `WriteBlock`). The database knows where each block is and how far
//! each file is durable; nothing is read back to find that out. Only what was appended after the
//! last commit is scanned at open, so that it need not be downloaded again.

mod search;

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, MutexGuard};

use godwit_primitives::BlockHeader;
use godwit_stream::{BufferPool, PooledStream};

use crate::disk::{OpenMode, StoreDisk, StoreFile, refused};
use crate::error::{Damage, StoreError};
use crate::record::{BlockChecksum, BlockPosition, FileEnds};

use search::{Cut, cut_tail, recover};
pub(crate) use search::{
    find_headers, find_magic, has_first_block, may_be_own, may_be_own_undo, read_readable,
};

/// A block file is left for the next one before it grows to this size (Core:
/// `MAX_BLOCKFILE_SIZE`).
pub const MAX_BLOCK_FILE_SIZE: u32 = 0x800_0000;

/// Longest block in a record (Core: `MAX_BLOCK_SERIALIZED_SIZE`).
pub const MAX_BLOCK_SERIALIZED_SIZE: u32 = 4_000_000;

/// Numbers of block files are below this: 128 TB of blocks.
pub(crate) const MAX_BLOCK_FILES: u32 = 1_000_000;

/// Magic and length before each record (Core: `STORAGE_HEADER_BYTES`).
pub(crate) const FRAME_SIZE: u32 = 8;

/// Block files kept open between two commits to be synced. A block goes to the last file, so that a
/// few stand for many seconds of a sync.
pub(crate) const MAX_OPEN_BLOCK_FILES: usize = 8;

/// Said of block files that lack blocks.
const FETCHED_AGAIN: &str = "Its blocks are fetched again from peers when they are needed.";

/// A complete record behind the committed end of the block files: received before a crash, not yet
/// in the block index. Its frame is right; whether its bytes are the block is for the caller to
/// check as for a block from the network, since no fsync vouches for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecoveredBlock {
    /// Where it lies, to be used instead of appending it again.
    pub position: BlockPosition,
    pub header: BlockHeader,
}

/// The block files of one data directory.
pub(crate) struct BlockFiles {
    disk: StoreDisk,
    dir: PathBuf,
    magic: [u8; 4],
    max_file_size: u32,
    tail: Mutex<Tail>,
    writer: Mutex<Writer>,
}

/// Which places are taken, and what is not yet durable. Held for arithmetic only: the connector must
/// not wait for a disk here.
struct Tail {
    /// Where the next block goes.
    file: u32,
    end: u32,
    /// Lengths of the files before it.
    full: BTreeMap<u32, u32>,
    /// The file of the last block that was noted: what follows in it may still be being written.
    noted: u32,
    /// Files that grew since the last commit took them, by blocks that were noted.
    grown: BTreeMap<u32, Grown>,
    unsynced_names: bool,
}

impl Tail {
    /// Leaves the last file for the next one, if it has blocks.
    fn begin_file(&mut self) {
        if self.end > 0 {
            self.full.insert(self.file, self.end);
            (self.file, self.end) = (self.file + 1, 0);
        }
    }

    /// Whether a file is there, or was before something happened to it.
    fn has(&self, file: u32) -> bool {
        file == self.file || self.full.contains_key(&file)
    }
}

/// A file that the next commit syncs and names the end of.
struct Grown {
    end: u32,
    /// `None` when this process has written nothing to it that was not synced. Such a file is opened
    /// for its sync: without a database there are thousands of them. One that was written to stays
    /// open until it is synced, since a failed write-back is reported to those that have it open.
    handle: Option<StoreFile>,
}

/// Where the bytes of the next block are written. Held across I/O, and taken by jobs only.
struct Writer {
    file: u32,
    end: u32,
    handle: Option<StoreFile>,
    /// Open files before it, oldest first.
    left: VecDeque<(u32, StoreFile)>,
}

impl Writer {
    /// Goes on to the next file.
    fn leave(&mut self) {
        self.left.extend(self.handle.take().map(|handle| (self.file, handle)));
        (self.file, self.end) = (self.file + 1, 0);
    }

    /// Syncs and closes the oldest file where too many are open; its number.
    fn make_room(&mut self) -> Result<Option<u32>, StoreError> {
        if self.left.len() < MAX_OPEN_BLOCK_FILES {
            return Ok(None);
        }
        let Some((file, handle)) = self.left.pop_front() else { return Ok(None) };
        handle.sync()?;
        Ok(Some(file))
    }
}

/// A block whose bytes are in its file, though not yet durable.
#[derive(Debug)]
pub struct WrittenBlock {
    position: BlockPosition,
    checksum: BlockChecksum,
    handle: StoreFile,
    /// Whether the file is new, so that its name is to be made durable too.
    created: bool,
    /// An earlier file that was synced with all its blocks, and closed.
    synced: Option<u32>,
}

impl WrittenBlock {
    /// Its position in the block file.
    pub fn position(&self) -> BlockPosition {
        self.position
    }

    /// Of its bytes, to be kept with the position.
    pub fn checksum(&self) -> BlockChecksum {
        self.checksum
    }
}

/// The frame before a record.
pub(crate) fn frame(magic: [u8; 4], len: u32) -> [u8; FRAME_SIZE as usize] {
    let mut frame = [0; FRAME_SIZE as usize];
    frame[..4].copy_from_slice(&magic);
    frame[4..].copy_from_slice(&len.to_le_bytes());
    frame
}

pub(crate) fn block_file_path(dir: &Path, number: u32) -> PathBuf {
    dir.join(format!("blk{number:05}.dat"))
}

/// Number of a `blkNNNNN.dat`, at least five digits.
pub(crate) fn block_file_number(path: &Path) -> Option<u32> {
    file_number(path, "blk")
}

/// Number of a file `prefixNNNNN.dat`, at least five digits. One that no node comes to is of something
/// else: the next files have numbers too.
pub(crate) fn file_number(path: &Path, prefix: &str) -> Option<u32> {
    let digits = path.file_name()?.to_str()?.strip_prefix(prefix)?.strip_suffix(".dat")?;
    let decimal = digits.len() >= 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
    decimal.then(|| digits.parse().ok())?.filter(|number| *number < MAX_BLOCK_FILES)
}

impl BlockFiles {
    /// Opens the files of `dir`, of which the lower numbers may be pruned. `committed` are the lengths that
    /// commits have named. Records behind the last one are handed back, a torn tail is cut off; what lies
    /// before a record never is, nor a tail that cannot be read, nor a file without a record that no crash
    /// has left: blocks go to the next file then. A last file
    /// that is missing or has lost its end gets its length back: a reader of one of the blocks finds that
    /// they have rotted, as in any other file.
    ///
    /// # Errors
    ///
    /// [`StoreError::Damaged`] where no block or undo file is there at all: more likely the directory is that
    /// of a volume which is not mounted.
    pub(crate) fn open(
        disk: &StoreDisk,
        dir: &Path,
        magic: [u8; 4],
        committed: &BTreeMap<u32, FileEnds>,
        max_file_size: u32,
        stop: &AtomicBool,
    ) -> Result<(Self, Vec<RecoveredBlock>), StoreError> {
        let (mut file, mut end) = committed_tail(committed);
        let mut full: BTreeMap<u32, u32> = committed
            .iter()
            .filter(|(_, ends)| ends.blocks > 0)
            .map(|(file, ends)| (*file, ends.blocks))
            .collect();
        let mut present: Vec<u32> =
            disk.list(dir)?.iter().filter_map(|path| block_file_number(path)).collect();
        present.retain(|number| *number >= file);
        if end > 0 && !present.contains(&file) {
            let missing = StoreError::damaged(&block_file_path(dir, file), 0, Damage::MissingFile);
            if !has_files(disk, dir)? {
                return Err(missing);
            }
            log::error!("{missing}. {FETCHED_AGAIN}");
            disk.open(&block_file_path(dir, file), OpenMode::ReadWrite)?;
            disk.sync_dir(dir)?;
            present.push(file);
        }
        present.sort_unstable();
        let mut grown = BTreeMap::new();
        let mut recovered = Vec::new();
        for number in present {
            let start = if number == file { end } else { 0 };
            let path = block_file_path(dir, number);
            // An empty file would be made at its other end, where the disk belongs.
            disk.check_link(&path)?;
            let found = disk.open(&path, OpenMode::ReadWrite)?;
            let last = recover(&found, magic, number, start, &mut recovered, stop)?;
            full.insert(number, last);
            grown.insert(number, Grown { end: last, handle: None });
            (file, end) = match cut_tail(&found, magic, last)? {
                Cut::Done => (number, last),
                Cut::Kept => (number + 1, 0),
            };
        }
        full.remove(&file);
        let unsynced_names = !grown.is_empty();
        let tail = Mutex::new(Tail { file, end, full, noted: file, grown, unsynced_names });
        let writer = Mutex::new(Writer { file, end, handle: None, left: VecDeque::new() });
        let (disk, dir) = (disk.clone(), dir.to_owned());
        Ok((BlockFiles { disk, dir, magic, max_file_size, tail, writer }, recovered))
    }

    pub(crate) fn path(&self, file: u32) -> PathBuf {
        block_file_path(&self.dir, file)
    }

    fn tail(&self) -> MutexGuard<'_, Tail> {
        // Nothing under it can panic between two changes that belong together.
        self.tail.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn writer(&self) -> MutexGuard<'_, Writer> {
        // A panicked write leaves `end` before the half-written record, which nothing then follows.
        self.writer.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Has the next block go to a file without blocks. Does no I/O.
    pub(crate) fn begin_file(&self) {
        self.tail().begin_file();
    }

    /// Takes the place of the next block, of `len` bytes. Does no I/O.
    pub(crate) fn reserve(&self, len: usize) -> Result<BlockPosition, StoreError> {
        let too_large = StoreError::RecordTooLarge { len: len as u64 };
        let len = u32::try_from(len).map_err(|_| too_large.clone())?;
        if len > MAX_BLOCK_SERIALIZED_SIZE {
            return Err(too_large);
        }
        let mut tail = self.tail();
        if tail.end + FRAME_SIZE + len >= self.max_file_size {
            tail.begin_file();
        }
        let offset = tail.end + FRAME_SIZE;
        tail.end = offset + len;
        Ok(BlockPosition { file: tail.file, offset, len })
    }

    /// Writes a block to the place that was reserved for it.
    ///
    /// # Panics
    ///
    /// If a place that was reserved before has not been written to: a hole would end what a restart
    /// finds.
    pub(crate) fn write(
        &self,
        at: BlockPosition,
        block: &[u8],
    ) -> Result<WrittenBlock, StoreError> {
        assert_eq!(block.len(), at.len as usize, "the block has the length of its place");
        let mut writer = self.writer();
        // After a failed write nothing can follow in order.
        self.disk.check()?;
        if at.file != writer.file {
            writer.leave();
        }
        let start = at.offset - FRAME_SIZE;
        assert_eq!((writer.file, writer.end), (at.file, start), "written in order of reservation");
        let (handle, created, synced) = match &writer.handle {
            Some(handle) => (handle.clone(), false, None),
            None => {
                let synced = writer.make_room()?;
                (self.disk.open(&self.path(at.file), OpenMode::ReadWrite)?, true, synced)
            }
        };
        handle.write_all_at(u64::from(start), &frame(self.magic, at.len))?;
        handle.write_all_at(u64::from(at.offset), block)?;
        (writer.end, writer.handle) = (at.offset + at.len, Some(handle.clone()));
        let checksum = BlockChecksum::of(block);
        Ok(WrittenBlock { position: at, checksum, handle, created, synced })
    }

    /// Writes a block again to the place that it was written to before, where its bytes are damaged, and
    /// makes it durable; or nothing, if the file was pruned meanwhile.
    pub(crate) fn rewrite(&self, at: BlockPosition, block: &[u8]) -> Result<(), StoreError> {
        assert_eq!(block.len(), at.len as usize, "the block has the length of its place");
        // A file is not removed meanwhile.
        let _alone = self.writer();
        self.disk.check()?;
        if !self.tail().has(at.file) {
            return Ok(());
        }
        let path = self.path(at.file);
        // As at open.
        self.disk.check_link(&path)?;
        let handle = self.disk.open(&path, OpenMode::ReadWrite)?;
        handle.write_all_at(u64::from(at.offset - FRAME_SIZE), &frame(self.magic, at.len))?;
        handle.write_all_at(u64::from(at.offset), block)?;
        handle.sync()?;
        // The file itself may have been missing.
        self.disk.sync_dir(&self.dir)
    }

    /// A written block is in the index from now on: the next commit names it. In order of
    /// reservation.
    pub(crate) fn note(&self, written: WrittenBlock) {
        let WrittenBlock { position: BlockPosition { file, offset, len }, handle, .. } = written;
        let mut tail = self.tail();
        tail.noted = file;
        tail.unsynced_names |= written.created;
        if let Some(synced) = written.synced.and_then(|file| tail.grown.get_mut(&file)) {
            synced.handle = None;
        }
        tail.grown.insert(file, Grown { end: offset + len, handle: Some(handle) });
    }

    /// The files that are complete and not removed, with their lengths.
    pub(crate) fn full_files(&self) -> BTreeMap<u32, u32> {
        self.tail().full.clone()
    }

    /// The file that the next block may go to, and its length.
    pub(crate) fn last_file(&self) -> (u32, u32) {
        let tail = self.tail();
        (tail.file, tail.end)
    }

    /// The first file that may still grow: one that blocks are being written to, or will be.
    pub(crate) fn first_open_file(&self) -> u32 {
        self.tail().noted
    }

    /// Removes a file that no commit names any more and that blocks are not appended to.
    pub(crate) fn remove(&self, file: u32) -> Result<(), StoreError> {
        let mut writer = self.writer();
        self.disk.remove(&self.path(file))?;
        // Its space is free only when it is open nowhere.
        writer.left.retain(|(left, _)| *left != file);
        self.tail().full.remove(&file);
        Ok(())
    }

    /// The bytes of the block at `position`, in a buffer of `pool`.
    pub(crate) fn read(
        &self,
        position: BlockPosition,
        pool: &BufferPool,
    ) -> Result<PooledStream, StoreError> {
        let file = self.disk.open_cached(&self.path(position.file))?;
        let expected = position.len.min(MAX_BLOCK_SERIALIZED_SIZE) as usize;
        let mut block = pool.take_for(expected);
        file.read_stream_at(u64::from(position.offset), position.len as usize, &mut block)?;
        Ok(block)
    }

    /// Syncs what was noted and not handed over yet, beside further appends.
    pub(crate) fn push_out(&self) -> Result<(), StoreError> {
        let handles: Vec<StoreFile> =
            self.tail().grown.values().filter_map(|grown| grown.handle.clone()).collect();
        handles.iter().try_for_each(StoreFile::sync)
    }

    /// Hands over what was noted and not handed over before, to be made durable.
    pub(crate) fn take_appended(&self) -> AppendedBlocks {
        let mut tail = self.tail();
        let names = std::mem::take(&mut tail.unsynced_names);
        AppendedBlocks { files: std::mem::take(&mut tail.grown), names }
    }

    /// Of what was found at open, hands over what lies before the end of the block at `last`, in its file
    /// and in those before it.
    pub(crate) fn take_recovered(&self, last: BlockPosition) -> AppendedBlocks {
        let mut tail = self.tail();
        let behind = tail.grown.split_off(&last.file);
        let mut files = std::mem::replace(&mut tail.grown, behind);
        files.insert(last.file, Grown { end: last.offset + last.len, handle: None });
        AppendedBlocks { files, names: tail.unsynced_names }
    }

    /// Makes it durable, beside further appends. Returns the length of each file that grew.
    pub(crate) fn sync(&self, appended: AppendedBlocks) -> Result<Vec<(u32, u32)>, StoreError> {
        for (file, grown) in &appended.files {
            match &grown.handle {
                Some(handle) => handle.sync()?,
                None => self.sync_unopened(*file)?,
            }
        }
        if appended.names {
            self.disk.sync_dir(&self.dir)?;
        }
        // Of a file whose only record was torn nothing is left, and nothing to be told.
        let ends = appended.files.into_iter().map(|(file, grown)| (file, grown.end));
        Ok(ends.filter(|(_, end)| *end > 0).collect())
    }

    /// Syncs a file that this process has not written to. One that was removed meanwhile has lost its blocks:
    /// a reader of one of them finds that, as after an open without it, which is no reason to commit nothing.
    fn sync_unopened(&self, file: u32) -> Result<(), StoreError> {
        let path = self.path(file);
        match self.disk.open(&path, OpenMode::Read) {
            Err(error) if error.is_not_found() => {
                // Its disk may come back.
                self.disk.check_link(&path)?;
                let missing = StoreError::damaged(&path, 0, Damage::MissingFile);
                log::error!("{missing}. {FETCHED_AGAIN}");
                Ok(())
            }
            file => file?.sync(),
        }
    }
}

/// Where appending goes on: the last file with blocks and its length, or the file behind the pruned
/// ones. Undo data of a block may be committed before the block's own file end is, so a file with
/// undo data alone is not the last one.
fn committed_tail(committed: &BTreeMap<u32, FileEnds>) -> (u32, u32) {
    let tail = committed.iter().rev().find(|(_, ends)| ends.blocks > 0);
    let tail = tail.map_or((0, 0), |(file, ends)| (*file, ends.blocks));
    let pruned = committed.iter().rev().find(|(_, ends)| **ends == FileEnds::PRUNED);
    tail.max(pruned.map_or((0, 0), |(file, _)| (file + 1, 0)))
}

/// Files that blocks were appended to, with the ends of the last ones.
#[derive(Default)]
pub(crate) struct AppendedBlocks {
    files: BTreeMap<u32, Grown>,
    names: bool,
}

/// Whether there are block or undo files.
pub(crate) fn has_files(disk: &StoreDisk, dir: &Path) -> Result<bool, StoreError> {
    Ok(disk.list_if_there(dir)?.iter().any(|path| is_of_blocks(path)))
}

/// Fails where one of them is a link to a disk that is not mounted: what is there would be fetched or made
/// again.
pub(crate) fn check_links(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let mut paths = disk.list(dir)?;
    paths.retain(|path| is_of_blocks(path));
    paths.iter().try_for_each(|path| disk.check_link(path))
}

/// Fails where two of them are one file, by a link: undo records would be written over blocks.
pub(crate) fn check_distinct(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let mut places = BTreeMap::new();
    for path in disk.list_if_there(dir)?.into_iter().filter(|path| is_of_blocks(path)) {
        let Some(place) = disk.place(&path)? else { continue };
        if let Some(other) = places.insert(place, path.clone()) {
            let other = other.display();
            let text =
                format!("it is the same file as {other}, by a link: put back what belongs here");
            return Err(refused(&path, text));
        }
    }
    Ok(())
}

/// Fails where one of them cannot be opened to be read and written, before anything is given up that is to be
/// made again from them.
pub(crate) fn check_usable(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    let mut paths = disk.list(dir)?;
    paths.retain(|path| is_of_blocks(path));
    paths.iter().try_for_each(|path| disk.open(path, OpenMode::ReadWrite).map(drop))
}

fn is_of_blocks(path: &Path) -> bool {
    ["blk", "rev"].iter().any(|prefix| file_number(path, prefix).is_some())
}

#[cfg(test)]
mod tests;

//! `revNNNNN.dat`: for each connected block the coins that it spent, as Bitcoin Core writes them.
//!
//! A record is the network's magic, the length of the undo data (u32, little-endian), the undo data
//! (`undo.h`, `CBlockUndo`) and the double SHA-256 of the previous block's hash and the undo data
//! (`node/blockstorage.cpp`, `WriteBlockUndo`). The undo data of a block in `blkNNNNN.dat` lie in
//! the `rev` file of the same number, in the order of connecting, and behind them those that a repair has
//! added.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

use godwit_primitives::coin::{compressed_to_undo, undo_to_compressed};
use godwit_primitives::{BlockHash, Coin, sha256::sha256d};
use godwit_stream::{BufferPool, DataStream, DecodeError, PooledStream, SpanReader};

use crate::block_files::{FRAME_SIZE, file_number, find_magic, frame, read_readable};
use crate::disk::{OpenMode, StoreDisk, StoreFile, refused};
use crate::error::{Damage, StoreError};
use crate::record::UndoPosition;
use crate::utxo::CompressedCoins;

const HASH_SIZE: usize = 32;

/// Bytes around the undo data (Core: `UNDO_DATA_DISK_OVERHEAD`).
const OVERHEAD: u64 = FRAME_SIZE as u64 + HASH_SIZE as u64;

/// Undo files kept open between two commits. Blocks connect roughly in the order of their files, so
/// that few are enough.
pub(crate) const MAX_OPEN_UNDO_FILES: usize = 16;

/// The coins that a block spent, grouped by transaction, without the coinbase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BlockUndo {
    coins: Vec<Coin>,
    tx_ends: Vec<usize>,
}

impl BlockUndo {
    /// All spent coins in the order of the block's inputs.
    pub fn coins(&self) -> &[Coin] {
        &self.coins
    }

    /// The spent coins of each transaction behind the coinbase, in the order of its inputs.
    pub fn transactions(&self) -> impl DoubleEndedIterator<Item = &[Coin]> + ExactSizeIterator {
        (0..self.tx_ends.len()).map(|index| {
            let start = index.checked_sub(1).map_or(0, |before| self.tx_ends[before]);
            &self.coins[start..self.tx_ends[index]]
        })
    }

    /// All spent coins in the order of the block's inputs.
    pub fn into_coins(self) -> Vec<Coin> {
        self.coins
    }

    /// Reads Core's `CBlockUndo`; `each` gets the bytes of each coin.
    fn decode(
        reader: &mut SpanReader<'_>,
        mut each: impl FnMut(&[u8]),
    ) -> Result<Self, DecodeError> {
        let mut undo = BlockUndo::default();
        for _ in 0..reader.compact_size()? {
            for _ in 0..reader.compact_size()? {
                let before = reader.rest();
                undo.coins.push(Coin::decode_undo(reader)?);
                each(&before[..before.len() - reader.remaining()]);
            }
            undo.tx_ends.push(undo.coins.len());
        }
        Ok(undo)
    }
}

/// A block's undo data, encoded and checksummed, ready to be appended.
#[derive(Debug)]
pub struct UndoRecord {
    /// The previous block's hash, whose last 8 bytes the frame overwrote once the checksum was
    /// computed, then undo data and checksum: the record is what follows the first 24 bytes.
    bytes: PooledStream,
    len: u32,
}

impl UndoRecord {
    const SKIPPED: usize = HASH_SIZE - FRAME_SIZE as usize;

    /// Encodes the coins that a block spent, in the order of its inputs, all of them there; `counts` says how
    /// many inputs each transaction behind the coinbase has. `prev` is the hash of the block before it. The
    /// record is in a buffer of `pool`.
    ///
    /// # Errors
    ///
    /// [`StoreError::RecordTooLarge`] when the undo data exceed 4 GiB.
    ///
    /// # Panics
    ///
    /// If there are fewer coins than inputs.
    pub fn encode(
        magic: [u8; 4],
        prev: &BlockHash,
        coins: &CompressedCoins,
        counts: impl ExactSizeIterator<Item = usize>,
        pool: &BufferPool,
    ) -> Result<Self, StoreError> {
        // Undo data have a byte more for each coin.
        let len = coins.iter().flatten().map(|coin| coin.len() + 1).sum::<usize>();
        let most = HASH_SIZE + 9 + counts.len() * 9 + len + HASH_SIZE;
        let mut bytes = pool.take_for(most);
        bytes.put(prev);
        bytes.write_compact_size(counts.len() as u64);
        let mut next = 0;
        for count in counts {
            bytes.write_compact_size(count as u64);
            for n in next..next + count {
                let coin = coins.get(n).expect("a coin for each input");
                compressed_to_undo(coin, &mut *bytes);
            }
            next += count;
        }
        let data_len = bytes.as_slice().len() - HASH_SIZE;
        let len = u32::try_from(data_len)
            .map_err(|_| StoreError::RecordTooLarge { len: data_len as u64 })?;
        let checksum = sha256d(bytes.as_slice());
        bytes.write(&checksum);
        bytes.as_mut_slice()[Self::SKIPPED..HASH_SIZE].copy_from_slice(&frame(magic, len));
        Ok(UndoRecord { bytes, len })
    }

    fn as_slice(&self) -> &[u8] {
        &self.bytes.as_slice()[Self::SKIPPED..]
    }
}

/// The undo files of one data directory.
pub(crate) struct UndoFiles {
    disk: StoreDisk,
    dir: PathBuf,
    tails: Mutex<Tails>,
    writers: Mutex<BTreeMap<u32, Writer>>,
}

/// Which places are taken, and what is not yet durable. Held for arithmetic only: the connector must
/// not wait for a disk here.
#[derive(Default)]
struct Tails {
    /// Where the next record of each file goes.
    ends: BTreeMap<u32, u64>,
    /// Files with records that were noted and not yet synced.
    unsynced: BTreeMap<u32, StoreFile>,
    /// Ends of the last records that were noted, of the files with some that no commit was handed.
    grown: BTreeMap<u32, u64>,
    unsynced_names: bool,
}

/// An open file and where its next record is written. Held across writes, and taken by jobs only.
struct Writer {
    handle: StoreFile,
    end: u64,
}

/// An undo record whose bytes are in its file, though not yet durable.
#[derive(Debug)]
pub struct WrittenUndo {
    position: UndoPosition,
    handle: StoreFile,
    /// Whether the file may be new, so that its name is to be made durable too.
    created: bool,
    /// Whether everything that was written before is durable.
    synced: bool,
}

impl WrittenUndo {
    /// Its position in the undo file.
    pub fn position(&self) -> UndoPosition {
        self.position
    }
}

impl UndoFiles {
    /// `ends` are the lengths that commits have named. What follows them is cut off when a file
    /// is first written to.
    pub(crate) fn new(disk: &StoreDisk, dir: &Path, ends: BTreeMap<u32, u64>) -> Self {
        let tails = Mutex::new(Tails { ends, ..Tails::default() });
        let writers = Mutex::default();
        UndoFiles { disk: disk.clone(), dir: dir.to_owned(), tails, writers }
    }

    pub(crate) fn path(&self, file: u32) -> PathBuf {
        self.dir.join(format!("rev{file:05}.dat"))
    }

    fn tails(&self) -> MutexGuard<'_, Tails> {
        // Nothing under it can panic between two changes that belong together.
        self.tails.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Lengths of the files, by number.
    pub(crate) fn lengths(&self) -> BTreeMap<u32, u64> {
        self.tails().ends.clone()
    }

    /// Removes a file that no commit names any more, if there is one.
    pub(crate) fn remove(&self, file: u32) -> Result<(), StoreError> {
        self.disk.remove(&self.path(file))?;
        self.writers().remove(&file);
        let mut tails = self.tails();
        tails.ends.remove(&file);
        tails.unsynced.remove(&file);
        tails.grown.remove(&file);
        Ok(())
    }

    fn writers(&self) -> MutexGuard<'_, BTreeMap<u32, Writer>> {
        // An end moves only behind a record that is written whole, so a panicked holder leaves no
        // end inside a torn one.
        self.writers.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Takes the place of the next record in file `file`. Does no I/O.
    pub(crate) fn reserve(&self, file: u32, record: &UndoRecord) -> UndoPosition {
        let mut tails = self.tails();
        let end = tails.ends.entry(file).or_default();
        let offset = *end + u64::from(FRAME_SIZE);
        *end += OVERHEAD + u64::from(record.len);
        UndoPosition { file, offset, len: record.len }
    }

    /// Writes a record to the place that was reserved for it.
    ///
    /// # Panics
    ///
    /// If a place that was reserved before it in the same file has not been written to.
    pub(crate) fn write(
        &self,
        at: UndoPosition,
        record: &UndoRecord,
    ) -> Result<WrittenUndo, StoreError> {
        assert_eq!(at.len, record.len, "the record has the length of its place");
        let start = at.offset - u64::from(FRAME_SIZE);
        let mut writers = self.writers();
        // After a failed write nothing can follow in order.
        self.disk.check()?;
        let (mut synced, mut opened) = (false, false);
        if !writers.contains_key(&at.file) {
            synced = writers.len() >= MAX_OPEN_UNDO_FILES;
            if synced {
                for writer in std::mem::take(&mut *writers).into_values() {
                    writer.handle.sync()?;
                }
            }
            let handle = self.open_at(at.file, start)?;
            writers.insert(at.file, Writer { handle, end: start });
            opened = true;
        }
        let writer = writers.get_mut(&at.file).expect("it was just opened");
        assert_eq!(writer.end, start, "written in order of reservation");
        writer.handle.write_all_at(start, record.as_slice())?;
        writer.end = start + OVERHEAD + u64::from(record.len);
        let handle = writer.handle.clone();
        Ok(WrittenUndo { position: at, handle, created: opened, synced })
    }

    fn open_to_write(&self, file: u32) -> Result<StoreFile, StoreError> {
        let path = self.path(file);
        // An empty file would be made at its other end, where the disk belongs.
        self.disk.check_link(&path)?;
        self.disk.open(&path, OpenMode::ReadWrite)
    }

    /// Opens a file to write to it from `end` on, and cuts off what follows. One that is missing, or has
    /// lost its end, has lost records: a reader of one of them finds that it has rotted, which is no reason
    /// to write no others. A file of another directory is left alone: its records are there only.
    fn open_at(&self, file: u32, end: u64) -> Result<StoreFile, StoreError> {
        let handle = self.open_to_write(file)?;
        let len = handle.file_len()?;
        if len < end {
            log::error!("{}.", StoreError::damaged(handle.path(), end, Damage::Short));
            handle.set_len(end)?;
        }
        if len > end {
            if has_record_across(&handle, end, len)? {
                let text = format!(
                    "a record reaches across byte {end}, where the last one of this directory ended, so the file is \
                     of another one. Put back the file that belongs here, or move this one away and run `godwit \
                     verify -repair`"
                );
                return Err(refused(handle.path(), text));
            }
            let path = handle.path().display();
            log::info!("{path}: cutting off {} bytes that no commit names", len - end);
            handle.set_len(end)?;
        }
        Ok(handle)
    }

    /// A written record is in the index from now on: the next commit names it. In order of
    /// reservation.
    pub(crate) fn note(&self, written: WrittenUndo) {
        let WrittenUndo { position, handle, created, synced } = written;
        let mut tails = self.tails();
        if synced {
            // All of them were written before this record.
            tails.unsynced.clear();
        }
        tails.unsynced_names |= created;
        tails.unsynced.insert(position.file, handle);
        tails.grown.insert(position.file, end_of(position));
    }

    /// Reads the record at `position` of the block behind `prev`.
    pub(crate) fn read(
        &self,
        position: UndoPosition,
        prev: &BlockHash,
    ) -> Result<BlockUndo, StoreError> {
        self.read_each(position, prev, |_| {})
    }

    /// As [`Self::read`], with the coins as the store has them beside those that they mean. `None` where the
    /// record has numbers that only old versions of Core wrote.
    pub(crate) fn read_stored(
        &self,
        position: UndoPosition,
        prev: &BlockHash,
    ) -> Result<(BlockUndo, Option<CompressedCoins>), StoreError> {
        let mut stored = Some(CompressedCoins::default());
        let undo = self.read_each(position, prev, |coin| match undo_to_compressed(coin) {
            Some(parts) => stored.iter_mut().for_each(|stored| stored.push_parts(&parts)),
            None => stored = None,
        })?;
        Ok((undo, stored))
    }

    fn read_each(
        &self,
        position: UndoPosition,
        prev: &BlockHash,
        each: impl FnMut(&[u8]),
    ) -> Result<BlockUndo, StoreError> {
        let path = self.path(position.file);
        let file = self.disk.open_cached(&path)?;
        let damaged = |damage| StoreError::damaged(&path, position.offset, damage);
        let len = position.len as usize + HASH_SIZE;
        if position.offset.saturating_add(len as u64) > file.file_len()? {
            return Err(damaged(Damage::Short));
        }
        let mut bytes = DataStream::with_capacity(HASH_SIZE + len);
        bytes.put(prev);
        file.read_stream_at(position.offset, len, &mut bytes)?;
        let (data, checksum) =
            bytes.as_slice().split_last_chunk::<HASH_SIZE>().expect("both hashes were appended");
        if sha256d(data) != *checksum {
            return Err(damaged(Damage::Checksum));
        }
        let mut reader = SpanReader::new(&data[HASH_SIZE..]);
        let undo =
            BlockUndo::decode(&mut reader, each).map_err(|error| damaged(Damage::Decode(error)))?;
        if !reader.is_empty() {
            return Err(damaged(Damage::TrailingBytes));
        }
        Ok(undo)
    }

    /// Writes a record once more to the place where it was, beside appends; `false` if it has another length,
    /// or the file that is appended to has lost its name: another one of that name would hide what follows.
    pub(crate) fn restore(
        &self,
        at: UndoPosition,
        record: &UndoRecord,
    ) -> Result<bool, StoreError> {
        if at.len != record.len {
            return Ok(false);
        }
        let path = self.path(at.file);
        let file = {
            let writers = self.writers();
            if writers.contains_key(&at.file) && self.disk.is_missing(&path)? {
                return Ok(false);
            }
            self.open_to_write(at.file)?
        };
        file.write_all_at(at.offset - u64::from(FRAME_SIZE), record.as_slice())?;
        file.sync()?;
        self.disk.sync_dir(&self.dir)?;
        Ok(true)
    }

    /// Fails where an undo file has one of these records, which are not right where they belong, of another
    /// file at its place; each is given with the hash of the block before its own. These files have changed
    /// their names, and a record that is written to its place destroys one that is nowhere else.
    pub(crate) fn refuse_misplaced(
        &self,
        wrong: &[(UndoPosition, BlockHash)],
    ) -> Result<(), StoreError> {
        // All of them: who asks may have the records of one alone, and come to the other's later.
        let files: BTreeSet<u32> =
            self.disk.list(&self.dir)?.iter().filter_map(|path| file_number(path, "rev")).collect();
        // Thousands of records may be wrong, and there are thousands of files: each is opened once.
        for file in files {
            let path = self.path(file);
            let handle = match self.disk.open_cached(&path) {
                Err(error) if error.is_not_found() => continue,
                other => other?,
            };
            for (at, prev) in wrong.iter().filter(|(at, _)| at.file != file) {
                let here = UndoPosition { file, ..*at };
                if may_have_length(&handle, here)? && self.is_record(here, prev)? {
                    let own = self.path(at.file).display().to_string();
                    let text = format!("it has the records of {own}: give both their names again");
                    return Err(refused(&path, text));
                }
            }
        }
        Ok(())
    }

    /// Whether the record at this place is whole and has its checksum.
    fn is_record(&self, at: UndoPosition, prev: &BlockHash) -> Result<bool, StoreError> {
        match self.read(at, prev) {
            Ok(_) => Ok(true),
            Err(error) if error.is_rotten() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Appends a record to a file that nobody else appends to, and makes it durable. Nothing is cut off: what
    /// lies behind the committed end may be in use by Bitcoin Core, to which the file was handed over.
    pub(crate) fn append(
        &self,
        file: u32,
        record: &UndoRecord,
    ) -> Result<UndoPosition, StoreError> {
        let handle = self.open_to_write(file)?;
        let committed = self.tails().ends.get(&file).copied().unwrap_or_default();
        let start = handle.file_len()?.max(committed);
        handle.write_all_at(start, record.as_slice())?;
        handle.sync()?;
        self.disk.sync_dir(&self.dir)?;
        Ok(UndoPosition { file, offset: start + u64::from(FRAME_SIZE), len: record.len })
    }

    /// Syncs what was noted and not handed over yet, beside further appends.
    pub(crate) fn push_out(&self) -> Result<(), StoreError> {
        let handles: Vec<StoreFile> = self.tails().unsynced.values().cloned().collect();
        handles.iter().try_for_each(StoreFile::sync)
    }

    /// Hands `take` what may be the records of a file, in their order; it tells whether it is a record that
    /// it knows. One that it does not is passed over where its frame is right. Where a frame is damaged, the
    /// next one is looked for, and what lies between is handed over too: its frame may be all that is
    /// damaged.
    pub(crate) fn records(
        &self,
        file: u32,
        magic: [u8; 4],
        take: &mut dyn FnMut(UndoPosition) -> Result<bool, StoreError>,
    ) -> Result<(), StoreError> {
        let handle = match self.disk.open_cached(&self.path(file)) {
            Err(error) if error.is_not_found() => return Ok(()),
            other => other?,
        };
        let len = handle.file_len()?;
        let is_frame = |at: u64| -> Result<bool, StoreError> {
            Ok(at == len || frame_at(&handle, magic, at, len)?.is_some())
        };
        let (mut end, mut at) = (0, 0);
        while at < len {
            let framed = frame_at(&handle, magic, at, len)?;
            let behind = framed.map(|data_len| at + OVERHEAD + u64::from(data_len));
            if let Some(behind) = behind.filter(|behind| *behind <= len)
                && let Some(record) = record_between(file, at, behind)
                && (take(record)? || is_frame(behind)?)
            {
                (end, at) = (behind, behind);
                continue;
            }
            at = find_magic(&handle, magic, at + 1, len)?.unwrap_or(len);
            if let Some(record) = record_between(file, end, at)
                && take(record)?
            {
                end = at;
            }
        }
        Ok(())
    }

    /// Has the next commit name a file up to the end of `last`, which this process has not written.
    pub(crate) fn adopt(&self, last: UndoPosition) -> Result<(), StoreError> {
        self.disk.open(&self.path(last.file), OpenMode::ReadWrite)?.sync()?;
        let mut tails = self.tails();
        tails.ends.insert(last.file, end_of(last));
        tails.grown.insert(last.file, end_of(last));
        tails.unsynced_names = true;
        Ok(())
    }

    /// Hands over what was noted and not handed over before, to be made durable.
    pub(crate) fn take_appended(&self) -> AppendedUndo {
        let mut tails = self.tails();
        let grown = std::mem::take(&mut tails.grown);
        AppendedUndo {
            handles: std::mem::take(&mut tails.unsynced).into_values().collect(),
            ends: grown.into_iter().collect(),
            names: std::mem::take(&mut tails.unsynced_names),
        }
    }

    /// Makes it durable, beside further appends. Returns the length of each file that grew.
    pub(crate) fn sync(&self, appended: AppendedUndo) -> Result<Vec<(u32, u64)>, StoreError> {
        for handle in appended.handles {
            handle.sync()?;
        }
        if appended.names {
            self.disk.sync_dir(&self.dir)?;
        }
        Ok(appended.ends)
    }
}

/// Where the record ends in its file, its checksum included.
pub(crate) fn end_of(at: UndoPosition) -> u64 {
    at.offset + u64::from(at.len) + HASH_SIZE as u64
}

/// Whether the length in front of a place is that of the record, or cannot be read: of those of other files
/// hardly any is read further.
fn may_have_length(handle: &StoreFile, at: UndoPosition) -> Result<bool, StoreError> {
    let mut len = [0; size_of::<u32>()];
    let Some(start) = at.offset.checked_sub(len.len() as u64) else { return Ok(false) };
    match handle.read_exact_at(start, &mut len) {
        Ok(()) => Ok(len == at.len.to_le_bytes()),
        // Beyond the end there is no record, either.
        Err(error) if error.is_unreadable() => Ok(at.offset < handle.file_len()?),
        Err(error) => Err(error),
    }
}

/// The length in the frame at `at` of a file of `len` bytes, if there is one.
fn frame_at(
    handle: &StoreFile,
    magic: [u8; 4],
    at: u64,
    len: u64,
) -> Result<Option<u32>, StoreError> {
    if at + OVERHEAD > len {
        return Ok(None);
    }
    let mut start = [0; FRAME_SIZE as usize];
    read_readable(handle, at, &mut start)?;
    let (found, data_len) = start.split_at(magic.len());
    let data_len = u32::from_le_bytes(data_len.try_into().expect("the other four bytes"));
    Ok((found == magic && data_len > 0).then_some(data_len))
}

/// Whether the records of a file, one behind the other from its beginning on and of whatever network, have
/// one that begins before `end` and ends behind it. What a crash leaves begins at `end`.
fn has_record_across(handle: &StoreFile, end: u64, len: u64) -> Result<bool, StoreError> {
    let (mut magic, mut at) = ([0; 4], 0);
    read_readable(handle, 0, &mut magic)?;
    while at < end {
        let Some(data_len) = frame_at(handle, magic, at, len)? else { return Ok(false) };
        at += OVERHEAD + u64::from(data_len);
    }
    // A length that has rotted leads nowhere.
    Ok(at == len || at > end && frame_at(handle, magic, at, len)?.is_some())
}

/// Whether there is a record anywhere in a file: its frame leads to another one, or to the end.
pub(crate) fn has_undo_record(handle: &StoreFile, magic: [u8; 4]) -> Result<bool, StoreError> {
    let (len, mut from) = (handle.file_len()?, 0);
    while let Some(at) = find_magic(handle, magic, from, len)? {
        if let Some(data_len) = frame_at(handle, magic, at, len)? {
            let end = at + OVERHEAD + u64::from(data_len);
            if end == len || end < len && frame_at(handle, magic, end, len)?.is_some() {
                return Ok(true);
            }
        }
        from = at + 1;
    }
    Ok(false)
}

/// The record that fills a file from `start` to `end`; `None` where that is too short or too long for one.
fn record_between(file: u32, start: u64, end: u64) -> Option<UndoPosition> {
    let len = end.checked_sub(start + OVERHEAD).filter(|len| *len > 0)?;
    let offset = start + u64::from(FRAME_SIZE);
    Some(UndoPosition { file, offset, len: len.try_into().ok()? })
}

/// Files that undo records were appended to, with the ends of the last ones.
#[derive(Default)]
pub(crate) struct AppendedUndo {
    handles: Vec<StoreFile>,
    ends: Vec<(u32, u64)>,
    names: bool,
}

#[cfg(test)]
mod tests;

//! `godwit.pruned`: the index entry of each pruned block.
//!
//! A pruned block is in no block file, so that only the database would know its header, and a damaged
//! database would cost the whole chain. This file holds these headers a second time; with them the index is
//! rebuilt from the remaining block files. It is a sequence of records:
//!
//! | bytes | content |
//! | --- | --- |
//! | 80 | header |
//! | 4 | number of transactions, little-endian |
//! | 4 | CRC-32C of all before, little-endian |
//!
//! Records are in no particular order. A block that is pruned twice has two, and each stays true whether or
//! not the block is stored again. Blocks of stale branches have records too, since stored blocks may build on
//! them. Heights and chains follow from the headers.
//!
//! A commit that prunes appends before its transaction, which names the end ([`PrunedEnd`]): what lies
//! behind it is kept as far as it is whole, the rest is cut off. Where the database says nothing of the file,
//! or something else, it is written wholly ([`open`]): an earlier program has pruned, or the file was
//! removed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE};
use godwit_stream::{Allocator, DataStream, Decode, DecodeError, Encode, SpanReader};

use super::{BLOCK_INDEX, BlockKey, FILE_ENDS, ONLY};

use crate::block_files::{block_file_number, find_headers, read_readable};
use crate::control::Control;
use crate::db::{Db, Table};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};
use crate::names::BLOCKS_DIR;
use crate::record::{BlockRecord, BlockStatus, FileEnds};

const FILE: &str = "godwit.pruned";
/// What is written wholly, before it has its name.
const UNFINISHED: &str = "godwit.pruned.new";

const RECORD: usize = HEADER_SIZE + 4 + 4;
/// Records that are read or written at once.
const RECORDS_AT_ONCE: usize = 4096;
/// Entries that one transaction writes.
const ENTRIES_AT_ONCE: usize = 1 << 15;

pub(crate) fn path(dir: &Path) -> PathBuf {
    dir.join(FILE)
}

/// What the database says of the file. Not there before it was ever written.
pub(crate) const PRUNED_END: Table<u8, PrunedEnd> = Table::new("pruned_end");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrunedEnd {
    /// All before is durable, in bytes.
    pub(crate) end: u64,
    /// Pruned files of which it has the blocks. An earlier program adds to them, and says so in `file_ends`
    /// alone.
    pub(crate) files: u32,
}

impl Encode for PrunedEnd {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u64(self.end);
        out.write_u32(self.files);
    }
}

impl Decode for PrunedEnd {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(PrunedEnd { end: reader.u64()?, files: reader.u32()? })
    }
}

/// A block that was pruned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrunedBlock {
    pub header: BlockHeader,
    /// Number of transactions.
    pub tx_count: u32,
}

impl PrunedBlock {
    /// That of an entry of the index, if its block was stored and is not any more.
    fn of(record: &BlockRecord) -> Option<Self> {
        let BlockRecord { header, tx_count, position, .. } = *record;
        (tx_count > 0 && position.is_none()).then_some(Self { header, tx_count })
    }

    fn encoded(&self) -> [u8; RECORD] {
        let mut bytes = [0; RECORD];
        bytes[..HEADER_SIZE].copy_from_slice(&self.header.to_bytes());
        bytes[HEADER_SIZE..RECORD - 4].copy_from_slice(&self.tx_count.to_le_bytes());
        let sum = crc32c::crc32c(&bytes[..RECORD - 4]);
        bytes[RECORD - 4..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// `None` if the bytes are not a record, or not what was written.
    fn decoded(bytes: &[u8]) -> Option<Self> {
        let (content, sum) = bytes.split_last_chunk()?;
        if content.len() != RECORD - 4 || crc32c::crc32c(content) != u32::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = SpanReader::new(content);
        Some(Self { header: reader.get().ok()?, tx_count: reader.u32().ok()? })
    }
}

/// How many of the files are pruned.
pub(crate) fn pruned_files(ends: &BTreeMap<u32, FileEnds>) -> u32 {
    ends.values().filter(|ends| **ends == FileEnds::PRUNED).count() as u32
}

/// Makes the file what the database says, where something is pruned, and returns its end: writes it wholly
/// where it is not there or too short, or where the database does not know it. While an index is being made
/// again from it, it is left as it is.
pub(crate) fn open(
    disk: &StoreDisk,
    dir: &Path,
    db: &Db,
    ends: &BTreeMap<u32, FileEnds>,
    is_rebuilding: bool,
) -> Result<Option<u64>, StoreError> {
    let files = pruned_files(ends);
    if files == 0 {
        return Ok(None);
    }
    let known = db.find(&PRUNED_END, &ONLY)?;
    if let Some(known) = known.filter(|known| known.files == files)
        && !disk.is_missing(&path(dir))?
    {
        let file = disk.open(&path(dir), OpenMode::ReadWrite)?;
        let len = file.file_len()?;
        if len >= known.end {
            let end = whole_end(&file, known.end, len)?;
            if end < len {
                file.set_len(end)?;
                file.sync()?;
            }
            return Ok(Some(end));
        }
    }
    if is_rebuilding {
        return Ok(None);
    }
    let end = rewrite(disk, dir, db)?;
    log::info!("{}: written from the database.", path(dir).display());
    let mut batch = db.batch()?;
    batch.put(&PRUNED_END, ONLY, &PrunedEnd { end, files })?;
    batch.commit()?;
    Ok(Some(end))
}

/// The end of the records from `end` on that are whole.
fn whole_end(file: &StoreFile, mut end: u64, len: u64) -> Result<u64, StoreError> {
    let mut bytes = [0; RECORD];
    while end + RECORD as u64 <= len {
        read_readable(file, end, &mut bytes)?;
        if PrunedBlock::decoded(&bytes).is_none() {
            break;
        }
        end += RECORD as u64;
    }
    Ok(end)
}

/// Writes the file wholly, in place of the one that is there, and makes it durable. Returns its end.
///
/// # Errors
///
/// A failed system call, or damage of the database; the file is the one or the other.
pub(crate) fn rewrite(disk: &StoreDisk, dir: &Path, db: &Db) -> Result<u64, StoreError> {
    let unfinished = dir.join(UNFINISHED);
    let file = disk.open(&unfinished, OpenMode::Truncate)?;
    let (mut end, mut bytes) = (0, Vec::with_capacity(RECORD * RECORDS_AT_ONCE));
    let put = |end: &mut u64, bytes: &mut Vec<u8>| {
        file.write_all_at(*end, bytes)?;
        *end += bytes.len() as u64;
        bytes.clear();
        Ok(())
    };
    db.for_each(&BLOCK_INDEX, |_, record| {
        let Some(block) = PrunedBlock::of(&record) else { return Ok(()) };
        bytes.extend_from_slice(&block.encoded());
        if bytes.len() == RECORD * RECORDS_AT_ONCE { put(&mut end, &mut bytes) } else { Ok(()) }
    })?;
    put(&mut end, &mut bytes)?;
    file.sync()?;
    disk.rename(&unfinished, &path(dir))?;
    disk.sync_dir(dir)?;
    Ok(end)
}

/// Appends the blocks that a commit forgets the positions of, behind `end`, and makes them durable. Returns
/// the new end; without one before, the file is begun.
pub(crate) fn append<'r>(
    disk: &StoreDisk,
    dir: &Path,
    db: &Db,
    end: Option<u64>,
    entries: impl Iterator<Item = &'r BlockRecord>,
) -> Result<u64, StoreError> {
    let path = path(dir);
    let mut end = end.unwrap_or(0);
    let mode = if end == 0 { OpenMode::Truncate } else { OpenMode::ReadWrite };
    let mut file = disk.open(&path, mode)?;
    if file.file_len()? < end {
        // It was removed, or cut short, from outside.
        drop(file);
        end = rewrite(disk, dir, db)?;
        file = disk.open(&path, OpenMode::ReadWrite)?;
    }
    let blocks = entries.filter_map(PrunedBlock::of);
    let bytes: Vec<u8> = blocks.flat_map(|block| block.encoded()).collect();
    file.write_all_at(end, &bytes)?;
    file.sync()?;
    if end == 0 {
        disk.sync_dir(dir)?;
    }
    Ok(end + bytes.len() as u64)
}

/// The file, and the next one while it is written.
pub(crate) fn paths(dir: &Path) -> [PathBuf; 2] {
    [FILE, UNFINISHED].map(|name| dir.join(name))
}

/// Removes the file: what was pruned is downloaded again.
pub(crate) fn remove(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    for path in paths(dir) {
        if !disk.is_missing(&path)? {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

/// What was read of the file.
pub(crate) struct Contents {
    /// Bytes that were read.
    pub(crate) bytes: u64,
    /// End of the last record that is whole.
    pub(crate) end: u64,
    /// The first damage, and where it is.
    pub(crate) damage: Option<StoreError>,
    pub(crate) damage_at: u64,
}

/// Hands `visit` all records that are whole. Those that are not are passed over.
///
/// # Errors
///
/// [`StoreError::Stopped`], or a failed system call. That the file is missing or damaged is none.
pub(crate) fn read(
    disk: &StoreDisk,
    dir: &Path,
    stop: &AtomicBool,
    visit: &mut dyn FnMut(PrunedBlock),
) -> Result<Contents, StoreError> {
    let path = path(dir);
    let file = match disk.open(&path, OpenMode::Read) {
        Err(error) if error.is_not_found() => {
            let damage = Some(StoreError::damaged(&path, 0, Damage::MissingFile));
            return Ok(Contents { bytes: 0, end: 0, damage, damage_at: 0 });
        }
        file => file?,
    };
    // What the system has of it may be what was written, and not what the disk has.
    file.release_cache(0..u64::MAX);
    let len = file.file_len()?;
    let mut contents = Contents { bytes: len, end: 0, damage: None, damage_at: len };
    let mut at = 0;
    let mut window = vec![0; RECORD * RECORDS_AT_ONCE];
    while at < len {
        if stop.load(Ordering::Relaxed) {
            return Err(StoreError::Stopped);
        }
        let there = (len - at).min(window.len() as u64) as usize;
        read_readable(&file, at, &mut window[..there])?;
        for bytes in window[..there].chunks(RECORD) {
            let end = at + bytes.len() as u64;
            match PrunedBlock::decoded(bytes) {
                Some(block) => {
                    visit(block);
                    contents.end = end;
                }
                None if contents.damage.is_none() => {
                    let damage =
                        if bytes.len() < RECORD { Damage::Short } else { Damage::Checksum };
                    contents.damage = Some(StoreError::damaged(&path, at, damage));
                    contents.damage_at = at;
                }
                None => {}
            }
            at = end;
        }
    }
    file.release_cache(0..u64::MAX);
    Ok(contents)
}

/// A header that an index is made of, while that is being put together.
struct Known {
    header: BlockHeader,
    hash: BlockHash,
    /// 0 for one that a block file has.
    tx_count: u32,
}

/// What an index is made again of in a pruned directory: the headers of all blocks that were pruned, and
/// those of the blocks that are stored, from genesis to the block of the coins at least. Of a header it takes
/// 128 bytes of memory.
pub(crate) struct Headers {
    known: Vec<Known>,
    /// Height and place of those that connect to genesis, parents first.
    connected: Vec<(u32, u32)>,
    /// Numbers of block files that are not there, below the last one that is. There is none where a crash
    /// came before the first one was removed.
    missing: Vec<u32>,
    /// End of the records.
    end: u64,
}

impl Headers {
    /// Reads them, without a change of anything. The inner error says what is missing.
    ///
    /// # Errors
    ///
    /// As [`read`].
    pub(crate) fn gather(
        disk: &StoreDisk,
        dir: &Path,
        control: &Control,
        stop: &AtomicBool,
    ) -> Result<Result<Self, StoreError>, StoreError> {
        let lacks = |what| Ok(Err(StoreError::damaged(&path(dir), 0, Damage::Disagreement(what))));
        let Some(coins) = control.state.utxo_tip.filter(|_| control.state.assumed.is_none()) else {
            return lacks("it does not stand for blocks that were never stored");
        };
        let network = control.identity.network;
        let mut known = Vec::new();
        let contents = read(disk, dir, stop, &mut |PrunedBlock { header, tx_count }| {
            known.push(Known { header, hash: header.block_hash(), tx_count });
        })?;
        let blocks_dir = dir.join(BLOCKS_DIR);
        let listed = disk.list_if_there(&blocks_dir)?;
        let numbers: BTreeSet<u32> =
            listed.iter().filter_map(|path| block_file_number(path)).collect();
        let below = 0..numbers.last().copied().unwrap_or(0);
        let mut missing: Vec<u32> = below.filter(|number| !numbers.contains(number)).collect();
        if numbers.is_empty() {
            // How many there were is not known, but not all are here.
            missing.push(0);
        }
        let found = find_headers(disk, &blocks_dir, network.magic, &mut |header| {
            known.push(Known { header, hash: header.block_hash(), tx_count: 0 });
            match stop.load(Ordering::Relaxed) {
                true => Err(StoreError::Stopped),
                false => Ok(ControlFlow::Continue(())),
            }
        })?;
        assert!(found.is_continue(), "nothing breaks it off");
        known.sort_unstable_by_key(|known| (known.hash, Reverse(known.tx_count)));
        known.dedup_by_key(|known| known.hash);
        let genesis = BlockHash::from_bytes(network.genesis);
        let connected = connect(&known, genesis);
        let is_coins = |(height, place): &(u32, u32)| {
            *height == coins.height && known[*place as usize].hash == coins.hash
        };
        if !connected.iter().any(is_coins) {
            return match contents.damage {
                Some(damage) => Ok(Err(damage)),
                None => lacks("it lacks blocks between the first one and those that are stored"),
            };
        }
        Ok(Ok(Self { known, connected, missing, end: contents.end }))
    }

    /// Whether no block file was removed yet.
    pub(crate) fn has_all_files(&self) -> bool {
        self.missing.is_empty()
    }

    /// Puts them into a new database, as what is known of blocks before the block files are indexed.
    pub(crate) fn put_into(&self, db: &Db) -> Result<(), StoreError> {
        for part in self.connected.chunks(ENTRIES_AT_ONCE) {
            let mut entries = Vec::with_capacity(part.len());
            for (height, place) in part {
                let Known { header, hash, tx_count } = self.known[*place as usize];
                let status = match tx_count {
                    0 => BlockStatus::HEADER,
                    _ => BlockStatus::STRUCTURED,
                };
                let record = BlockRecord {
                    header,
                    height: *height,
                    status,
                    tx_count,
                    sequence: 0,
                    position: None,
                    checksum: None,
                    undo: None,
                };
                entries.push((BlockKey { height: *height, hash }, record));
            }
            entries.sort_unstable_by_key(|(key, _)| (key.height, key.hash));
            let mut batch = db.batch()?;
            batch.put_all(&BLOCK_INDEX, entries.iter().map(|(key, record)| (*key, record)))?;
            batch.commit()?;
        }
        let mut batch = db.batch()?;
        let ends = self.missing.iter().map(|number| (*number, &FileEnds::PRUNED));
        batch.put_all(&FILE_ENDS, ends)?;
        let files = self.missing.len() as u32;
        batch.put(&PRUNED_END, ONLY, &PrunedEnd { end: self.end, files })?;
        batch.commit()
    }
}

/// Whether the index that belongs to a control file can be made again of what is stored: of all blocks, or of
/// those that are left and the headers of the others.
///
/// # Errors
///
/// A failed system call.
pub(crate) fn makes_index(
    disk: &StoreDisk,
    dir: &Path,
    control: &Control,
) -> Result<bool, StoreError> {
    if control.has_whole_history() || control.state.assumed.is_some() {
        return Ok(control.has_whole_history());
    }
    Ok(Headers::gather(disk, dir, control, &AtomicBool::new(false))?.is_ok())
}

/// Height and place of the headers that connect to genesis, by height.
fn connect(known: &[Known], genesis: BlockHash) -> Vec<(u32, u32)> {
    let parent = |place: &u32| known[*place as usize].header.prev_blockhash;
    let mut by_parent: Vec<u32> = (0..known.len() as u32).collect();
    by_parent.sort_unstable_by_key(parent);
    let children = |hash: BlockHash| {
        let first = by_parent.partition_point(|place| parent(place) < hash);
        by_parent[first..].iter().copied().take_while(move |place| parent(place) == hash)
    };
    let mut next: VecDeque<(u32, u32)> = children(genesis).map(|place| (1, place)).collect();
    let mut connected = Vec::with_capacity(known.len());
    while let Some((height, place)) = next.pop_front() {
        connected.push((height, place));
        next.extend(children(known[place as usize].hash).map(|place| (height + 1, place)));
    }
    connected
}

#[cfg(test)]
mod tests;

//! The index of basic block filters (BIP158): a filter for each block, in files as Core has them, and for
//! each block a record of where that is, with its hash and header.

mod golomb;
mod inspect;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use godwit_primitives::sha256::sha256d;
use godwit_primitives::{Block, BlockHash};
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};
use godwit_store::{BlockUndo, ChainPoint, StoreError};
use godwit_stream::{DataStream, DecodeError, SpanReader};

use crate::error::IndexError;
use crate::follow::Index;
use crate::position::Position;
use crate::records::{Layout, PART, Records};
use crate::shared::{Shared, load_or_begin};
use crate::status::Status;
use golomb::{basic_filter, matches_any};
pub(crate) use inspect::inspect;

/// Its directory in that of the indexes.
pub(crate) const DIR: &str = "blockfilter/basic";
const MAGIC: [u8; 8] = *b"gdwtfltr";
/// Blocks whose records are not on disk while others wait for that; at most so many and those of one step.
const PENDING_BLOCKS: usize = 100;
/// A file of filters is left for the next one before it would be longer (Core `MAX_FLTR_FILE_SIZE`).
const MAX_FILE: u32 = 16 << 20;
/// Longer than the filter of any block: that has about 21 bits for each script, of which a block creates at
/// most 111,111 and spends fewer than 25,000.
const MAX_FILTER: u32 = 1 << 20;
/// What the index takes of memory, with what its thread has under way: a block and the coins that it
/// spends, as a rule, 15 MiB; records that are not written yet, and those of blocks that were left.
pub const FILTER_INDEX_MEMORY: u64 = 16 << 20;

/// Files that the index has open: records, those of blocks that were left, filters, and one that is opened
/// instead of another. A reader opens one more for as long as it reads.
pub const FILTER_INDEX_FILES: u64 = 4;

/// What the index has of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Record {
    block: BlockHash,
    hash: [u8; 32],
    header: [u8; 32],
    file: u32,
    offset: u32,
    len: u32,
}

impl Record {
    const SIZE: usize = 108;

    fn encode(&self) -> DataStream {
        let mut out = DataStream::new();
        out.put(&self.block);
        out.write(&self.hash);
        out.write(&self.header);
        out.put(&self.file);
        out.put(&self.offset);
        out.put(&self.len);
        out
    }

    fn decode(bytes: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = SpanReader::new(bytes);
        Ok(Self {
            block: reader.get()?,
            hash: reader.array()?,
            header: reader.array()?,
            file: reader.u32()?,
            offset: reader.u32()?,
            len: reader.u32()?,
        })
    }

    /// The place behind its filter; `None` where no filter is that long or so far from the beginning.
    fn end(&self) -> Option<(u32, u32)> {
        let is_filter = self.len <= MAX_FILTER && self.file < u32::MAX;
        let end = self.offset.checked_add(self.len).filter(|end| is_filter && *end <= MAX_FILE)?;
        Some((self.file, end))
    }
}

/// A filter and what vouches for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockFilter {
    /// As BIP157's `cfilter` has it.
    pub bytes: Vec<u8>,
    pub header: [u8; 32],
}

/// Hash and header of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterHashes {
    pub hash: [u8; 32],
    pub header: [u8; 32],
}

struct State {
    records: Records,
    position: Position,
    /// Where the next filter goes: file and offset.
    next: (u32, u32),
    /// Header of the last filter; zeros before genesis.
    header: [u8; 32],
}

/// The index, for readers on any thread.
pub struct FilterIndex {
    state: Shared<State>,
    disk: StoreDisk,
    dir: PathBuf,
}

fn layout(genesis: BlockHash) -> Layout {
    Layout { magic: MAGIC, genesis, size: Record::SIZE }
}

fn file_path(dir: &Path, file: u32) -> PathBuf {
    dir.join(format!("fltr{file:05}.dat"))
}

fn decoded(record: Option<Vec<u8>>, path: &Path) -> Result<Option<Record>, IndexError> {
    let decode = |bytes: Vec<u8>| Record::decode(&bytes);
    record.map(decode).transpose().map_err(|_| IndexError::damaged(path, 0))
}

impl FilterIndex {
    /// How far it is.
    pub fn status(&self) -> &Status {
        self.state.status()
    }

    fn record(&self, block: ChainPoint) -> Result<Option<Record>, IndexError> {
        decoded(self.state.read().records.find(block)?, &self.dir)
    }

    /// The filter of a block, also of one that was left in a reorganisation.
    ///
    /// # Errors
    ///
    /// The index cannot be read. If it is damaged, it will be built again, if all blocks are there.
    pub fn filter(&self, block: ChainPoint) -> Result<Option<BlockFilter>, IndexError> {
        self.state.noted(self.try_filter(block))
    }

    fn try_filter(&self, block: ChainPoint) -> Result<Option<BlockFilter>, IndexError> {
        let Some(record) = self.record(block)? else { return Ok(None) };
        let path = file_path(&self.dir, record.file);
        let damaged = || IndexError::damaged(&path, record.offset.into());
        record.end().ok_or_else(damaged)?;
        let mut bytes = vec![0; record.len as usize];
        let file = self.disk.open(&path, OpenMode::Read)?;
        file.read_exact_at(record.offset.into(), &mut bytes)?;
        if sha256d(&bytes) != record.hash {
            return Err(damaged());
        }
        Ok(Some(BlockFilter { bytes, header: record.header }))
    }

    /// Whether a block has created or spent a coin with one of these scripts; of one in 784,931 it is said by
    /// chance. `None` where there is no filter. `room` is used for all blocks of a search.
    ///
    /// # Errors
    ///
    /// As [`filter`](Self::filter).
    pub fn matches_any<'s>(
        &self,
        block: ChainPoint,
        scripts: impl Iterator<Item = &'s [u8]>,
        room: &mut Vec<u64>,
    ) -> Result<Option<bool>, IndexError> {
        let Some(filter) = self.filter(block)? else { return Ok(None) };
        let found = matches_any(&block.hash, &filter.bytes, scripts, room);
        self.state.noted(found.map(Some).ok_or_else(|| IndexError::damaged(&self.dir, 0)))
    }

    /// Hash and header of the filter of a block.
    ///
    /// # Errors
    ///
    /// As [`filter`](Self::filter).
    pub fn hashes(&self, block: ChainPoint) -> Result<Option<FilterHashes>, IndexError> {
        let record = self.state.noted(self.record(block))?;
        Ok(record.map(|Record { hash, header, .. }| FilterHashes { hash, header }))
    }
}

/// The index as its thread sees it.
pub struct FilterIndexWriter {
    shared: Arc<FilterIndex>,
    layout: Layout,
    /// The file that is appended to, and whether it has bytes that are not durable.
    open: Option<(u32, StoreFile)>,
}

impl FilterIndexWriter {
    /// Opens the index in the directory of the indexes, or begins a new one, at the chain of `genesis`.
    /// Blocks below `lowest` cannot be read again; if that is 0, a damaged one is begun anew.
    ///
    /// # Errors
    ///
    /// Its files cannot be opened or made, or are damaged and cannot be built again: nothing is deleted.
    pub fn open(
        disk: &StoreDisk,
        indexes: &Path,
        genesis: BlockHash,
        lowest: u32,
    ) -> Result<Self, IndexError> {
        let (dir, disk) = (indexes.join(DIR), disk.apart());
        disk.create_dir_all(&dir)?;
        let layout = layout(genesis);
        let load = || load(&disk, &dir, layout, lowest);
        let state = load_or_begin("blockfilterindex", &disk, &dir, lowest, load)?;
        let best = state.position.best();
        let shared = FilterIndex { state: Shared::new(state, best), disk, dir };
        Ok(Self { shared: Arc::new(shared), layout, open: None })
    }

    /// The reading half, for other threads.
    pub fn reader(&self) -> Arc<FilterIndex> {
        Arc::clone(&self.shared)
    }

    /// Writes a filter behind the others, as Core does: with its block's hash and its length before it.
    fn append(&mut self, block: BlockHash, filter: &[u8]) -> Result<(u32, u32), IndexError> {
        let mut entry: DataStream = DataStream::new();
        entry.put(&block);
        entry.write_compact_size(filter.len() as u64);
        let before = entry.as_slice().len() as u32;
        entry.write(filter);
        let (mut file, mut offset) = self.shared.state.read().next;
        if offset + entry.as_slice().len() as u32 > MAX_FILE && offset > 0 {
            self.sync()?;
            (file, offset) = (file + 1, 0);
        }
        let FilterIndex { disk, dir, .. } = &*self.shared;
        if self.open.as_ref().is_none_or(|(open, _)| *open != file) {
            let opened = disk.open(&file_path(dir, file), OpenMode::ReadWrite)?;
            disk.sync_dir(dir)?;
            self.open = Some((file, opened));
        }
        let (_, opened) = self.open.as_ref().expect("it was opened");
        opened.write_all_at(offset.into(), entry.as_slice())?;
        Ok((file, offset + before))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.open.as_ref().map_or(Ok(()), |(_, file)| file.sync())
    }
}

fn load(disk: &StoreDisk, dir: &Path, layout: Layout, lowest: u32) -> Result<State, IndexError> {
    let records = Records::open(disk, dir, layout, lowest)?;
    let position = records.position()?;
    let last = match position.best() {
        Some(best) => decoded(records.find(best)?, dir)?,
        None => None,
    };
    let damaged = || IndexError::damaged(dir, 0);
    let mut next = match &last {
        Some(record) => record.end().ok_or_else(damaged)?,
        None => (0, 0),
    };
    for record in records.stale() {
        let record = Record::decode(record).map_err(|_| damaged())?;
        next = next.max(record.end().ok_or_else(damaged)?);
    }
    let header = last.map_or([0; 32], |record| record.header);
    Ok(State { records, position, next, header })
}

impl Index for FilterIndexWriter {
    const NAME: &'static str = "basic block filter index";
    const WANTS_SPENT: bool = true;

    fn status(&self) -> &Status {
        self.shared.state.status()
    }

    fn position(&self) -> Position {
        self.shared.state.read().position.clone()
    }

    fn durable_height(&self) -> u32 {
        self.shared.state.read().records.durable().saturating_sub(1)
    }

    fn rewind(&mut self, to: Option<ChainPoint>) -> Result<(), IndexError> {
        self.commit()?;
        let mut state = self.shared.state.write();
        state.records.cut(to.map_or(0, |to| to.height + 1))?;
        state.position = state.records.position()?;
        state.header = match to {
            Some(to) => {
                let record = decoded(state.records.find(to)?, &self.shared.dir)?;
                record.ok_or_else(|| IndexError::damaged(&self.shared.dir, 0))?.header
            }
            None => [0; 32],
        };
        Ok(())
    }

    fn connect(
        &mut self,
        point: ChainPoint,
        block: &Block,
        spent: &BlockUndo,
    ) -> Result<(), IndexError> {
        if self.shared.state.read().records.pending_len() >= PART {
            self.commit()?;
        }
        let filter = basic_filter(block, spent.coins());
        let (file, offset) = self.append(point.hash, &filter)?;
        let hash = sha256d(&filter);
        let mut state = self.shared.state.write();
        let header = sha256d(&[hash, state.header].concat());
        let len = filter.len() as u32;
        let record = Record { block: point.hash, hash, header, file, offset, len };
        state.records.push(record.encode().as_slice());
        state.position.push(point);
        (state.next, state.header) = ((file, offset + len), header);
        Ok(())
    }

    fn maintain(&mut self) -> Result<bool, IndexError> {
        // With -prune the blocks are kept until then.
        if self.shared.state.read().records.pending_len() >= PENDING_BLOCKS {
            self.commit()?;
        }
        Ok(false)
    }

    fn commit(&mut self) -> Result<(), IndexError> {
        self.sync()?;
        // Held across I/O: only this thread changes the state.
        self.shared.state.read().records.write()?;
        self.shared.state.write().records.note_written();
        Ok(())
    }

    fn is_damaged(&self) -> bool {
        self.shared.state.is_damaged()
    }

    fn clear(&mut self) -> Result<(), IndexError> {
        self.open = None;
        let FilterIndex { disk, dir, .. } = &*self.shared;
        Records::remove_all(disk, dir)?;
        *self.shared.state.write() = load(disk, dir, self.layout, 0)?;
        self.shared.state.note_cleared();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use godwit_fault_disk::FaultDisk;
    use godwit_primitives::network::{Network, Params};

    use super::*;

    const INDEXES: &str = "/node/indexes";

    fn open(fault: &FaultDisk, lowest: u32) -> FilterIndexWriter {
        let disk = StoreDisk::new(Arc::new(fault.clone()));
        FilterIndexWriter::open(&disk, Path::new(INDEXES), BlockHash::ZERO, lowest).unwrap()
    }

    /// Blocks that differ in their nonce alone, each with its place in a chain, which nobody checks here.
    fn block(height: u32) -> (ChainPoint, Block) {
        let mut bytes = Params::new(Network::Regtest).genesis_block();
        bytes[76..80].copy_from_slice(&height.to_le_bytes());
        let block = Block::from_bytes(&bytes).unwrap();
        (ChainPoint { hash: block.hash(), height }, block)
    }

    /// As an index has it when its first file is full.
    #[test]
    fn filters_behind_a_full_file_go_to_the_next_one_and_are_found_in_both() {
        let fault = FaultDisk::new();
        let mut index = open(&fault, 0);
        let connect = |index: &mut FilterIndexWriter, heights: std::ops::Range<u32>| {
            for height in heights {
                let (point, block) = block(height);
                index.connect(point, &block, &BlockUndo::default()).unwrap();
            }
        };
        connect(&mut index, 0..1);
        let (_, end) = index.shared.state.read().next;
        // Two more of this length fit, to the last byte.
        index.shared.state.write().next = (0, MAX_FILE - 2 * end);
        connect(&mut index, 1..5);
        assert_eq!(index.shared.state.read().next, (1, 2 * end));
        index.commit().unwrap();
        let filters = |index: &FilterIndexWriter, count: u32| -> Vec<_> {
            let of = |height| index.shared.filter(block(height).0).unwrap().unwrap();
            (0..count).map(of).collect()
        };
        let made = filters(&index, 5);
        drop(index);
        let mut index = open(&fault, 1);
        assert_eq!(filters(&index, 5), made);
        connect(&mut index, 5..6);
        assert_eq!(index.shared.state.read().next, (1, 3 * end));
        // Back into the first file, and behind it again.
        index.rewind(Some(block(1).0)).unwrap();
        connect(&mut index, 2..6);
        index.commit().unwrap();
        assert_eq!(filters(&index, 5), made);
        drop(index);
        assert_eq!(filters(&open(&fault, 1), 5), made);
        let len = |file| fault.contents(&file_path(&Path::new(INDEXES).join(DIR), file));
        assert_eq!(len(0).unwrap().len(), MAX_FILE as usize);
        assert!(len(1).unwrap().len() >= 3 * end as usize && len(2).is_none());
    }

    #[test]
    fn a_record_of_no_possible_filter_has_no_end() {
        let end = |file, offset, len| {
            let zeros = [0; 32];
            let block = BlockHash::from_bytes(zeros);
            Record { block, hash: zeros, header: zeros, file, offset, len }.end()
        };
        assert_eq!(end(1, 33, 4), Some((1, 37)));
        assert_eq!(end(0, 7, MAX_FILTER), Some((0, 7 + MAX_FILTER)));
        assert_eq!(end(0, 7, MAX_FILTER + 1), None);
        assert_eq!(end(0, MAX_FILE - 4, 4), Some((0, MAX_FILE)));
        assert_eq!(end(0, MAX_FILE - 4, 5), None);
        assert_eq!(end(0, u32::MAX, 5), None);
        assert_eq!(end(u32::MAX, 33, 5), None);
    }
}

//! What an index has of each block of the active chain: a file of records of one size, by height.
//!
//! A record is durable with all before it or not at all: records are appended in parts of bounded length,
//! each synchronised, and before others are appended in their place, records are cut off and that is made
//! durable. So only the last part can be incomplete after a crash, and its checksums tell. The records of
//! blocks that are left in a reorganisation are kept in a second file, which only grows.

mod inspect;

use std::path::{Path, PathBuf};

use godwit_primitives::BlockHash;
use godwit_store::disk::{OpenMode, StoreDisk, StoreFile};
use godwit_store::{ChainPoint, StoreError};

use crate::error::IndexError;
use crate::position::Position;
pub(crate) use inspect::inspect;

/// Records that are appended at once, at most.
pub(crate) const PART: usize = 500;
/// Records of blocks that were left and are still found, the latest ones.
const MAX_STALE: usize = 1_000;

const CHECKSUM: usize = 4;
const HASH_SIZE: usize = 32;
const HEADER: u64 = 64;
const VERSION: u32 = 1;
const ACTIVE: &str = "records.dat";
const STALE: &str = "stale.dat";
/// One of them, before it is whole.
const UNFINISHED: &str = "unfinished";

/// What the files of an index begin with, and how long its records are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) magic: [u8; 8],
    pub(crate) genesis: BlockHash,
    /// Bytes of a record; it begins with the hash of its block.
    pub(crate) size: usize,
}

impl Layout {
    /// The first bytes of a file.
    fn header(&self) -> Vec<u8> {
        let mut bytes = [&self.magic[..], &VERSION.to_le_bytes()].concat();
        bytes.extend_from_slice(&self.genesis.to_bytes());
        bytes.resize(HEADER as usize - CHECKSUM, 0);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Bytes of a record in a file.
    fn stored(&self) -> usize {
        self.size + CHECKSUM
    }

    /// The same of a block that was left: its height comes before.
    fn stored_stale(&self) -> usize {
        4 + self.stored()
    }

    /// Where the record of this height is.
    fn offset(&self, height: u32) -> u64 {
        HEADER + u64::from(height) * self.stored() as u64
    }
}

fn checksum(height: u32, payload: &[u8]) -> [u8; CHECKSUM] {
    crc32c::crc32c_append(crc32c::crc32c(&height.to_le_bytes()), payload).to_le_bytes()
}

fn block_of(record: &[u8]) -> BlockHash {
    BlockHash::from_bytes(*record.first_chunk::<HASH_SIZE>().expect("a record begins with a hash"))
}

/// See the module's documentation.
pub(crate) struct Records {
    layout: Layout,
    disk: StoreDisk,
    dir: PathBuf,
    active: StoreFile,
    /// Records on disk.
    on_disk: u32,
    /// Those above, not on disk yet.
    pending: Vec<u8>,
    /// The latest blocks that were left, the oldest first: height and record.
    stale: Vec<(u32, Vec<u8>)>,
    stale_bytes: u64,
}

impl Records {
    /// Opens the files of a directory, or makes them. Blocks below `lowest` cannot be read again: what is
    /// lost of their records is never taken for what a crash has left.
    ///
    /// # Errors
    ///
    /// A failed call; damage, if they are of another chain, or of another version.
    pub(crate) fn open(
        disk: &StoreDisk,
        dir: &Path,
        layout: Layout,
        lowest: u32,
    ) -> Result<Self, IndexError> {
        let path = dir.join(ACTIVE);
        let active = match disk.open(&path, OpenMode::Read) {
            Err(error) if error.is_not_found() && (lowest == 0 || disk.list(dir)?.is_empty()) => {
                return Self::create(disk, dir, layout);
            }
            file => {
                let file = file?;
                check_header(&file, &layout)?;
                disk.open(&path, OpenMode::ReadWrite)?
            }
        };
        let (stale, stale_bytes) = match read_stale(disk, dir, &layout) {
            // A crash as the index was begun.
            Err(error) if error.is_damage() && active.file_len()? <= HEADER => {
                begin_file(disk, dir, &layout, STALE)?;
                (Vec::new(), HEADER)
            }
            Err(error) if error.is_damage() => begin_stale(disk, dir, &layout, &error)?,
            read => read?,
        };
        cut_off_stale(disk, dir, stale_bytes)?;
        let whole = (active.file_len()?.saturating_sub(HEADER)) / layout.stored() as u64;
        let on_disk = u32::try_from(whole).map_err(|_| IndexError::damaged(&path, 0))?;
        let mut records = Self {
            layout,
            disk: disk.clone(),
            dir: dir.to_owned(),
            active,
            on_disk,
            pending: Vec::new(),
            stale,
            stale_bytes,
        };
        records.cut_off_incomplete(lowest)?;
        Ok(records)
    }

    /// Removes the files of a directory, so that others can be begun there.
    pub(crate) fn remove_all(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
        for path in disk.list(dir)? {
            disk.remove(&path)?;
        }
        disk.sync_dir(dir)
    }

    fn create(disk: &StoreDisk, dir: &Path, layout: Layout) -> Result<Self, IndexError> {
        // In this order, so that without records there is no other file either, unless they were lost.
        for name in [ACTIVE, STALE] {
            begin_file(disk, dir, &layout, name)?;
        }
        Ok(Self {
            layout,
            disk: disk.clone(),
            dir: dir.to_owned(),
            active: disk.open(&dir.join(ACTIVE), OpenMode::ReadWrite)?,
            on_disk: 0,
            pending: Vec::new(),
            stale: Vec::new(),
            stale_bytes: HEADER,
        })
    }

    /// Cuts off what a crash has left of the last part. A crash leaves the records of blocks below `lowest`
    /// whole: they were durable before their blocks were deleted.
    fn cut_off_incomplete(&mut self, lowest: u32) -> Result<(), IndexError> {
        let first = self.on_disk.saturating_sub(PART as u32);
        let bytes = self.read_stored(first, self.on_disk)?;
        let sound = (first..)
            .zip(bytes.chunks_exact(self.layout.stored()))
            .take_while(|(height, stored)| {
                let (payload, sum) = stored.split_at(self.layout.size);
                *sum == checksum(*height, payload)
            })
            .count();
        let whole = first + sound as u32;
        if whole < self.on_disk.min(lowest) {
            return Err(IndexError::damaged(self.active.path(), self.offset(whole)));
        }
        self.on_disk = whole;
        let end = self.offset(self.on_disk);
        if self.active.file_len()? != end {
            self.active.set_len(end)?;
            self.active.sync()?;
        }
        Ok(())
    }

    fn offset(&self, height: u32) -> u64 {
        self.layout.offset(height)
    }

    fn read_stored(&self, first: u32, end: u32) -> Result<Vec<u8>, StoreError> {
        let mut bytes = vec![0; (end - first) as usize * self.layout.stored()];
        self.active.read_exact_at(self.offset(first), &mut bytes)?;
        Ok(bytes)
    }

    /// Blocks that it has, which is the height of the next one.
    pub(crate) fn len(&self) -> u32 {
        self.on_disk + self.pending_len() as u32
    }

    /// Of these, how many it has after a crash.
    pub(crate) fn durable(&self) -> u32 {
        self.on_disk
    }

    /// Blocks whose records are not on disk.
    pub(crate) fn pending_len(&self) -> usize {
        self.pending.len() / self.layout.size
    }

    /// The records of blocks of the index's own chain, up to before `end`.
    pub(crate) fn range(&self, first: u32, end: u32) -> Result<Vec<Vec<u8>>, IndexError> {
        let size = self.layout.size;
        let (middle, mut records) = (end.min(self.on_disk), Vec::new());
        if first < middle {
            let bytes = self.read_stored(first, middle)?;
            for (height, stored) in (first..).zip(bytes.chunks_exact(self.layout.stored())) {
                let (payload, sum) = stored.split_at(size);
                if sum != checksum(height, payload) {
                    return Err(IndexError::damaged(self.active.path(), self.offset(height)));
                }
                records.push(payload.to_vec());
            }
        }
        let skipped = first.saturating_sub(self.on_disk) as usize;
        let taken = end.saturating_sub(first.max(self.on_disk)) as usize;
        let pending = self.pending.chunks_exact(size).skip(skipped).take(taken);
        records.extend(pending.map(<[u8]>::to_vec));
        Ok(records)
    }

    /// The record of a block, of the index's chain or one that was left.
    pub(crate) fn find(&self, block: ChainPoint) -> Result<Option<Vec<u8>>, IndexError> {
        if block.height < self.len() {
            let record = self.range(block.height, block.height + 1)?.pop();
            if let Some(record) = record.filter(|record| block_of(record) == block.hash) {
                return Ok(Some(record));
            }
        }
        let is_it = |(height, record): &&(u32, Vec<u8>)| {
            *height == block.height && block_of(record) == block.hash
        };
        Ok(self.stale.iter().rev().find(is_it).map(|(_, record)| record.clone()))
    }

    /// The records of blocks that were left.
    pub(crate) fn stale(&self) -> impl Iterator<Item = &[u8]> {
        self.stale.iter().map(|(_, record)| record.as_slice())
    }

    /// Where the index is, by its records: by those that [`Self::open`] has found whole, since one that is
    /// damaged farther down is not in the way.
    pub(crate) fn position(&self) -> Result<Position, IndexError> {
        let (end, mut position) = (self.len(), Position::default());
        let first = end.saturating_sub(PART as u32);
        for (height, record) in (first..).zip(self.range(first, end)?) {
            position.push(ChainPoint { hash: block_of(&record), height });
        }
        Ok(position)
    }

    /// The record of the next block.
    pub(crate) fn push(&mut self, record: &[u8]) {
        debug_assert_eq!(record.len(), self.layout.size);
        self.pending.extend_from_slice(record);
    }

    /// Appends to the file what is pending, at most [`PART`] records. They stay pending until
    /// [`note_written`](Self::note_written).
    pub(crate) fn write(&self) -> Result<(), StoreError> {
        let mut bytes = Vec::with_capacity(self.pending_len() * self.layout.stored());
        for (height, payload) in (self.on_disk..).zip(self.pending.chunks_exact(self.layout.size)) {
            bytes.extend_from_slice(payload);
            bytes.extend_from_slice(&checksum(height, payload));
        }
        if !bytes.is_empty() {
            self.active.write_all_at(self.offset(self.on_disk), &bytes)?;
            self.active.sync()?;
        }
        Ok(())
    }

    pub(crate) fn note_written(&mut self) {
        self.on_disk = self.len();
        self.pending.clear();
    }

    /// Cuts off the records from this height on, and keeps the latest of them as those of blocks that were
    /// left. Nothing is pending.
    pub(crate) fn cut(&mut self, len: u32) -> Result<(), IndexError> {
        debug_assert!(self.pending.is_empty());
        if self.on_disk <= len {
            return Ok(());
        }
        let file = self.disk.open(&self.dir.join(STALE), OpenMode::ReadWrite)?;
        let mut first = self.on_disk.saturating_sub(MAX_STALE as u32).max(len);
        while first < self.on_disk {
            let end = self.on_disk.min(first + PART as u32);
            let records = self.range(first, end)?;
            let mut bytes = Vec::new();
            for (height, record) in (first..).zip(&records) {
                bytes.extend_from_slice(&height.to_le_bytes());
                bytes.extend_from_slice(record);
                bytes.extend_from_slice(&checksum(height, record));
            }
            file.write_all_at(self.stale_bytes, &bytes)?;
            self.stale_bytes += bytes.len() as u64;
            self.stale.extend((first..).zip(records));
            first = end;
        }
        file.sync()?;
        let excess = self.stale.len().saturating_sub(MAX_STALE);
        self.stale.drain(..excess);
        self.active.set_len(self.offset(len))?;
        self.active.sync()?;
        self.on_disk = len;
        Ok(())
    }
}

/// Makes a file without records, in the place of one that is there.
fn begin_file(disk: &StoreDisk, dir: &Path, layout: &Layout, name: &str) -> Result<(), StoreError> {
    let unfinished = dir.join(UNFINISHED);
    let file = disk.open(&unfinished, OpenMode::Truncate)?;
    file.write_all_at(0, &layout.header())?;
    file.sync()?;
    disk.sync_dir(dir)?;
    disk.rename(&unfinished, &dir.join(name))?;
    disk.sync_dir(dir)
}

/// Fails where a file is not one of this layout.
fn check_header(file: &StoreFile, layout: &Layout) -> Result<(), IndexError> {
    let mut header = [0; HEADER as usize];
    file.read_exact_at(0, &mut header)?;
    let is_right = header[..] == layout.header()[..];
    if is_right { Ok(()) } else { Err(IndexError::damaged(file.path(), 0)) }
}

/// Records of blocks that were left, by height, and where the next one is to go.
type Stale = (Vec<(u32, Vec<u8>)>, u64);

/// Begins the file of blocks that were left again, since `error` is said of it. What was in it comes back
/// from nowhere, and the records of the chain need nothing of it.
fn begin_stale(
    disk: &StoreDisk,
    dir: &Path,
    layout: &Layout,
    error: &IndexError,
) -> Result<Stale, IndexError> {
    log::warn!(
        "{error}. It is begun again: blocks that reorganisations left are not found any more."
    );
    begin_file(disk, dir, layout, STALE)?;
    Ok((Vec::new(), HEADER))
}

/// The records of blocks that were left, the last ones.
fn read_stale(disk: &StoreDisk, dir: &Path, layout: &Layout) -> Result<Stale, IndexError> {
    let file = disk.open(&dir.join(STALE), OpenMode::Read)?;
    check_header(&file, layout)?;
    let stored = layout.stored_stale();
    let count = (file.file_len()? - HEADER) / stored as u64;
    let first = count.saturating_sub(MAX_STALE as u64);
    let mut bytes = vec![0; (count - first) as usize * stored];
    let start = HEADER + first * stored as u64;
    file.read_exact_at(start, &mut bytes)?;
    let mut records = Vec::new();
    for record in bytes.chunks_exact(stored) {
        let (height, rest) = record.split_first_chunk::<4>().expect("it begins with a height");
        let height = u32::from_le_bytes(*height);
        let (payload, sum) = rest.split_at(layout.size);
        // What a crash has left of the last ones: their blocks were not cut off then.
        if sum != checksum(height, payload) {
            break;
        }
        records.push((height, payload.to_vec()));
    }
    let end = start + (records.len() * stored) as u64;
    Ok((records, end))
}

/// Takes away what is behind the records of blocks that were left and hold: it would not be found.
fn cut_off_stale(disk: &StoreDisk, dir: &Path, end: u64) -> Result<(), StoreError> {
    let file = disk.open(&dir.join(STALE), OpenMode::ReadWrite)?;
    if file.file_len()? != end {
        file.set_len(end)?;
        file.sync()?;
    }
    Ok(())
}

/// The record of this height is not what was written, or one of a block that was left.
pub(crate) fn damaged(dir: &Path, layout: &Layout, height: Option<u32>) -> IndexError {
    match height {
        Some(height) => IndexError::damaged(&dir.join(ACTIVE), layout.offset(height)),
        None => IndexError::damaged(&dir.join(STALE), 0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use godwit_fault_disk::FaultDisk;

    use super::*;

    fn hash(height: u32) -> BlockHash {
        let mut bytes = [7; HASH_SIZE];
        bytes[..4].copy_from_slice(&height.to_le_bytes());
        BlockHash::from_bytes(bytes)
    }

    const DEEP: u32 = 1_700;
    const DIR: &str = "/records";

    fn layout() -> Layout {
        Layout { magic: [1; 8], genesis: hash(0), size: HASH_SIZE }
    }

    fn filled(disk: &StoreDisk) -> Records {
        disk.create_dir_all(Path::new(DIR)).expect("no fault");
        let mut records = Records::open(disk, Path::new(DIR), layout(), 0).expect("no fault");
        for height in 0..DEEP {
            records.push(hash(height).as_bytes());
            if records.pending_len() == PART || height + 1 == DEEP {
                records.write().expect("no fault");
                records.note_written();
            }
        }
        records
    }

    /// An index that cannot be built again goes on without it.
    #[test]
    fn a_damaged_record_far_below_the_end_is_not_in_the_way() {
        let fault = FaultDisk::new();
        drop(filled(&StoreDisk::new(Arc::new(fault.clone()))));
        let path = Path::new(DIR).join(ACTIVE);
        let mut bytes = fault.contents(&path).expect("it is there");
        bytes[layout().offset(DEEP - PART as u32 - 1) as usize] ^= 1;
        fault.overwrite(&path, bytes);
        let disk = StoreDisk::new(Arc::new(fault));
        let records = Records::open(&disk, Path::new(DIR), layout(), DEEP).expect("no fault");
        let best = records.position().expect("what was looked at is whole").best();
        assert_eq!(best, Some(ChainPoint { hash: hash(DEEP - 1), height: DEEP - 1 }));
    }

    #[test]
    fn a_deep_reorganisation_leaves_the_latest_records() {
        let disk = StoreDisk::new(Arc::new(FaultDisk::new()));
        let (dir, layout) = (Path::new(DIR), layout());
        let mut records = filled(&disk);
        for kept in [DEEP - 1, 300] {
            records.cut(kept).expect("no fault");
            let again = Records::open(&disk, dir, layout, 0).expect("no fault");
            for records in [&records, &again] {
                assert_eq!(records.len(), kept);
                for height in 0..DEEP {
                    let found = records.find(ChainPoint { hash: hash(height), height });
                    // The second time, the block that was left first makes place.
                    let latest = DEEP - 1 - MAX_STALE as u32;
                    let is_there = match kept {
                        300 => height < 300 || (latest..DEEP - 1).contains(&height),
                        _ => true,
                    };
                    assert_eq!(found.expect("no damage").is_some(), is_there, "{height}, {kept}");
                }
            }
        }
    }
}

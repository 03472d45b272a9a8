//! Checkpoints: the progress of a task that reads many blocks, in one file, so that an interrupted task
//! resumes.
//!
//! A checkpoint may be thrown away at any time: no other file depends on it. One that is damaged, or belongs
//! to another directory, network or block, is ignored. A new one is written beside the old one, made durable
//! and renamed over it, so that a power cut leaves one or the other; a failed write does not disturb the
//! task. The header tells whose checkpoint it is; the format of the rest is the task's own.
//!
//! | bytes | content |
//! | --- | --- |
//! | 8 | which work, and the version of its format |
//! | 4 | message start of the network |
//! | 8 | fingerprint of the key of the coins |
//! | 36 | hash and height of the block that it is about, zeros if there is none |
//! | n | what the work writes |
//! | 32 | SHA-256 of all before |

use std::path::{Path, PathBuf};

use godwit_primitives::Coin;
use godwit_primitives::sha256::Sha256;
use godwit_stream::DataStream;

use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::StoreError;
use crate::record::ChainPoint;

/// What is interrupted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// `verify -repair`, of a list of blocks, and about none of them alone.
    Repair,
    /// The search of a running chain for what the block spent.
    LostUndo,
}

impl Work {
    const ALL: [Self; 2] = [Self::Repair, Self::LostUndo];

    /// Name and version of the format.
    fn format(self) -> [u8; 8] {
        match self {
            Self::Repair => *b"gwrepr\0\x02",
            Self::LostUndo => *b"gwundo\0\x01",
        }
    }

    fn file(self) -> &'static str {
        match self {
            Self::Repair => "repair.checkpoint",
            Self::LostUndo => "undo.checkpoint",
        }
    }

    /// The next one, while it is written.
    fn unfinished(self) -> &'static str {
        match self {
            Self::Repair => "repair.checkpoint.new",
            Self::LostUndo => "undo.checkpoint.new",
        }
    }
}

/// Bytes read or written at once.
const BUFFER: usize = 256 << 10;
/// Bytes behind all others.
const SUM: u64 = 32;
/// Bytes of the longest coin that is believed: more than any script has that can be spent.
const MAX_COIN: u64 = 16 << 10;
/// Bytes before those of the work.
const HEADER: usize = 8 + 4 + 8 + 36;

/// Removes all checkpoints.
///
/// # Errors
///
/// One cannot be removed.
pub(crate) fn remove_all(disk: &StoreDisk, dir: &Path) -> Result<(), StoreError> {
    Work::ALL.into_iter().try_for_each(|work| remove(disk, dir, work))
}

/// Where all checkpoints may be.
pub(crate) fn paths(dir: &Path) -> impl Iterator<Item = PathBuf> {
    Work::ALL.into_iter().flat_map(|work| paths_of(dir, work))
}

fn paths_of(dir: &Path, work: Work) -> [PathBuf; 2] {
    [work.file(), work.unfinished()].map(|name| dir.join(name))
}

fn remove(disk: &StoreDisk, dir: &Path, work: Work) -> Result<(), StoreError> {
    for path in paths_of(dir, work) {
        if !disk.is_missing(&path)? {
            disk.remove(&path)?;
        }
    }
    Ok(())
}

/// Where the checkpoint of a work is.
pub struct Checkpoints {
    work: Work,
    /// What it begins with.
    header: [u8; HEADER],
    /// With a latch of its own: nothing depends on these files.
    disk: StoreDisk,
    dir: PathBuf,
}

impl Checkpoints {
    /// In a network's directory, whose coins have a key with that fingerprint; `block` is what the work is
    /// about.
    pub(crate) fn new(
        disk: &StoreDisk,
        dir: &Path,
        work: Work,
        magic: [u8; 4],
        fingerprint: u64,
        block: Option<ChainPoint>,
    ) -> Self {
        let mut header = [0; HEADER];
        header[..8].copy_from_slice(&work.format());
        header[8..12].copy_from_slice(&magic);
        header[12..20].copy_from_slice(&fingerprint.to_le_bytes());
        if let Some(block) = block {
            header[20..52].copy_from_slice(block.hash.as_bytes());
            header[52..].copy_from_slice(&block.height.to_le_bytes());
        }
        Self { work, header, disk: disk.apart(), dir: dir.to_owned() }
    }

    /// Begins the next checkpoint.
    ///
    /// # Errors
    ///
    /// A failed system call, after which everything else can still be written.
    pub fn begin(&self) -> Result<CheckpointWriter, StoreError> {
        let (disk, dir, work) = (self.disk.apart(), self.dir.clone(), self.work);
        let file = disk.open(&dir.join(work.unfinished()), OpenMode::Truncate)?;
        let buffer = Vec::with_capacity(BUFFER);
        let mut writer =
            CheckpointWriter { disk, dir, work, file, offset: 0, buffer, sum: Sha256::new() };
        writer.write(&self.header)?;
        Ok(writer)
    }

    /// What the interrupted work has left, if it is whole and about the same block.
    pub fn open(&self) -> Option<CheckpointReader> {
        let file = self.disk.apart().open(&self.dir.join(self.work.file()), OpenMode::Read).ok()?;
        let end = file.file_len().ok()?.checked_sub(SUM)?;
        let reader = || {
            let (file, buffer, sum) = (file.clone(), Vec::new(), Sha256::new());
            CheckpointReader { file, read: 0, end, buffer, used: 0, sum }
        };
        // Nothing of it is believed before all is known to be whole: lengths, above all.
        reader().finish()?;
        let mut reader = reader();
        (reader.array()? == self.header).then_some(reader)
    }

    /// Removes the checkpoint: the work is done.
    pub fn remove(&self) {
        if let Err(error) = remove(&self.disk.apart(), &self.dir, self.work) {
            log::warn!("A checkpoint is not removed: {error}");
        }
    }

    /// Removes one that could not be written to its end: the room is of use to others.
    pub fn abandon(&self) {
        if let Err(error) = self.disk.apart().remove(&self.dir.join(self.work.unfinished())) {
            log::warn!("What was written of a checkpoint is not removed: {error}");
        }
    }

    /// Bytes for which the disk has room.
    pub fn free_bytes(&self) -> u64 {
        self.disk.free_bytes(&self.dir)
    }
}

/// Writes a checkpoint, all of whose numbers are little-endian.
pub struct CheckpointWriter {
    disk: StoreDisk,
    dir: PathBuf,
    work: Work,
    file: StoreFile,
    offset: u64,
    buffer: Vec<u8>,
    sum: Sha256,
}

impl CheckpointWriter {
    /// # Errors
    ///
    /// A failed write.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), StoreError> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= BUFFER { self.flush() } else { Ok(()) }
    }

    /// # Errors
    ///
    /// A failed write.
    pub fn write_u64(&mut self, n: u64) -> Result<(), StoreError> {
        self.write(&n.to_le_bytes())
    }

    /// A coin as Core compresses it, behind its length.
    ///
    /// # Errors
    ///
    /// A failed write.
    pub fn write_coin(&mut self, coin: &Coin) -> Result<(), StoreError> {
        let mut bytes: DataStream = DataStream::new();
        bytes.put(coin);
        self.write_u64(bytes.as_slice().len() as u64)?;
        self.write(bytes.as_slice())
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        self.sum.update(&self.buffer);
        self.file.write_all_at(self.offset, &self.buffer)?;
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Puts it in place of the one before. Returns its length in bytes.
    ///
    /// # Errors
    ///
    /// A failed system call; then it is this one, the one before, or, after a power cut alone, none.
    pub fn finish(mut self) -> Result<u64, StoreError> {
        self.flush()?;
        let sum = std::mem::take(&mut self.sum).finalize();
        self.file.write_all_at(self.offset, &sum)?;
        self.file.sync()?;
        let (from, to) = (self.work.unfinished(), self.work.file());
        self.disk.rename(&self.dir.join(from), &self.dir.join(to))?;
        self.disk.sync_dir(&self.dir)?;
        Ok(self.offset + SUM)
    }
}

/// Reads a checkpoint. `None` of its functions: it ends, or cannot be read.
pub struct CheckpointReader {
    file: StoreFile,
    /// Bytes of the file that are read, and those before the sum.
    read: u64,
    end: u64,
    buffer: Vec<u8>,
    /// Bytes of the buffer that were handed out.
    used: usize,
    sum: Sha256,
}

impl CheckpointReader {
    /// Reads on; `None` at the end.
    fn fill(&mut self) -> Option<()> {
        let len = (self.end - self.read).min(BUFFER as u64) as usize;
        self.buffer.resize(len, 0);
        self.used = 0;
        if len == 0 {
            return None;
        }
        self.file.read_exact_at(self.read, &mut self.buffer).ok()?;
        self.read += len as u64;
        self.sum.update(&self.buffer);
        Some(())
    }

    pub fn read(&mut self, mut out: &mut [u8]) -> Option<()> {
        while !out.is_empty() {
            if self.used == self.buffer.len() {
                self.fill()?;
            }
            let len = out.len().min(self.buffer.len() - self.used);
            let (now, later) = out.split_at_mut(len);
            now.copy_from_slice(&self.buffer[self.used..self.used + len]);
            self.used += len;
            out = later;
        }
        Some(())
    }

    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.read(&mut bytes)?;
        Some(bytes)
    }

    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    pub fn coin(&mut self) -> Option<Coin> {
        let len = self.u64().filter(|len| *len <= MAX_COIN)?;
        let mut bytes = vec![0; len as usize];
        self.read(&mut bytes)?;
        Coin::from_compressed(&bytes).ok()
    }

    /// To be called last: `None` if what was read is not what was written, this time.
    pub fn finish(mut self) -> Option<()> {
        while self.fill().is_some() {}
        let mut sum = [0; SUM as usize];
        self.file.read_exact_at(self.end, &mut sum).ok()?;
        (self.read == self.end && self.sum.finalize() == sum).then_some(())
    }
}

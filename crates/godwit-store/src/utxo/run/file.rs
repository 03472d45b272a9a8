//! A run as a file of blocks that are checked when they are read.

pub(crate) mod repair;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::format::{
    BLOCK, BLOCK_HEADER, BlockKind, BlockRef, Footer, RunId, blocks_of, open_block, view_block,
};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};

use repair::Repairs;

/// A run file. It exists as long as this does, and is open while it is read often.
pub(crate) struct RunFile {
    pub(crate) id: RunId,
    pub(crate) disk: StoreDisk,
    pub(crate) path: PathBuf,
    /// Length in blocks, the footer included.
    pub(crate) blocks: u32,
    pub(crate) repairs: Arc<Repairs>,
}

/// Consecutive blocks of a run whose checksums hold.
#[derive(Default)]
pub(crate) struct Blocks {
    first: u32,
    count: u32,
    /// Theirs come first. It keeps the length of the longest read: what is read over was zeroed once.
    memory: Vec<u8>,
}

impl Blocks {
    /// Makes room for other blocks; their bytes are still to be read.
    fn make_room(&mut self, numbers: &Range<u32>) -> &mut [u8] {
        let len = numbers.len() * BLOCK;
        (self.first, self.count) = (numbers.start, numbers.len() as u32);
        if self.memory.len() < len {
            self.memory.resize(len, 0);
        }
        &mut self.memory[..len]
    }

    /// Their numbers in the run.
    pub(crate) fn range(&self) -> Range<u32> {
        self.first..self.first + self.count
    }

    /// Block `number` of the run.
    ///
    /// # Panics
    ///
    /// If it was not read.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> BlockRef<'_> {
        let block = self.all().as_chunks().0.get((number - self.first) as usize);
        block.and_then(view_block).expect("the block was read and checked")
    }

    /// The bytes of block `number` of the run.
    ///
    /// # Panics
    ///
    /// If it was not read.
    pub(crate) fn bytes(&self, number: u32) -> &[u8; BLOCK] {
        let block = self.all().as_chunks().0.get((number - self.first) as usize);
        block.expect("the block was read and checked")
    }

    /// The bytes of all of them.
    #[inline]
    pub(crate) fn all(&self) -> &[u8] {
        &self.memory[..self.count as usize * BLOCK]
    }

    /// Where in [`Self::all`] the payload of block `number` of the run is.
    ///
    /// # Panics
    ///
    /// If it was not read.
    pub(crate) fn payload_of(&self, number: u32) -> Range<usize> {
        let start = (number - self.first) as usize * BLOCK + BLOCK_HEADER;
        start..start + self.get(number).payload.len()
    }

    /// All, in order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, BlockRef<'_>)> {
        self.range().map(|number| (number, self.get(number)))
    }
}

/// Of the keys that the runs of a directory were written under, as far as their footers can be read.
pub(crate) fn run_fingerprints(disk: &StoreDisk, dir: &Path) -> Result<Vec<u64>, StoreError> {
    let mut fingerprints = Vec::new();
    for path in disk.list_if_there(dir)? {
        let Some(id) = RunId::of_path(&path).filter(|id| id.path(dir) == path) else { continue };
        let file = match disk.open(&path, OpenMode::Read) {
            // A link to a disk that is not mounted.
            Err(error) if error.is_not_found() => continue,
            file => file?,
        };
        let blocks = u32::try_from(file.file_len()? / BLOCK as u64).unwrap_or(u32::MAX);
        let Some(last) = blocks.checked_sub(1) else { continue };
        let mut block = Box::new([0; BLOCK]);
        match file.read_exact_at(u64::from(last) * BLOCK as u64, &mut block[..]) {
            Err(error) if error.is_unreadable() => continue,
            read => read?,
        }
        let footer = open_block(&block, id, last)
            .filter(|view| view.kind == BlockKind::Footer)
            .and_then(|view| Footer::parse(view.payload));
        fingerprints.extend(footer.map(|footer| footer.fingerprint));
    }
    fingerprints.sort_unstable();
    fingerprints.dedup();
    Ok(fingerprints)
}

/// Whether one of these runs, each with its length in blocks, was written under the key of this fingerprint,
/// as its footer says once it is computed again from parity. Nothing is written.
pub(crate) fn parity_tells(
    disk: &StoreDisk,
    dir: &Path,
    runs: impl IntoIterator<Item = (RunId, u32)>,
    fingerprint: u64,
) -> Result<bool, StoreError> {
    for (id, blocks) in runs {
        let (disk, path) = (disk.clone(), id.path(dir));
        let repairs = Arc::new(Repairs::in_memory());
        match (RunFile { id, disk, path, blocks, repairs }).read_footer() {
            Ok(footer) if footer.fingerprint == fingerprint => return Ok(true),
            Ok(_) => {}
            Err(error) if error.is_rotten() => {}
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

impl RunFile {
    /// Length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.blocks) * BLOCK as u64
    }

    pub(crate) fn parity_path(&self) -> PathBuf {
        self.path.with_extension(RunId::PARITY_EXTENSION)
    }

    pub(crate) fn damaged(&self, block: u32, damage: Damage) -> StoreError {
        StoreError::damaged(&self.path, u64::from(block) * BLOCK as u64, damage)
    }

    /// A handle for some reads in a row.
    pub(crate) fn open(&self) -> Result<StoreFile, StoreError> {
        self.disk.open_cached(&self.path)
    }

    /// Reads blocks, replacing what `into` held. Those that are not as they were written are repaired.
    ///
    /// # Errors
    ///
    /// A failed system call; [`Damage::Checksum`] with the place of the first block that parity cannot
    /// bring back.
    pub(crate) fn read(
        &self,
        file: &StoreFile,
        numbers: Range<u32>,
        into: &mut Blocks,
    ) -> Result<(), StoreError> {
        let bytes = into.make_room(&numbers);
        match file.read_exact_at(u64::from(numbers.start) * BLOCK as u64, bytes) {
            // Which of them cannot be read is found out block by block.
            Err(error) if error.is_unreadable() => bytes.fill(0),
            other => other?,
        }
        self.check(numbers, into)
    }

    /// As [`Self::read`], unless the disk has to be waited for: then it fetches the blocks, `into` holds
    /// none, and the answer is `false`.
    pub(crate) fn read_or_fetch(
        &self,
        file: &StoreFile,
        numbers: Range<u32>,
        into: &mut Blocks,
    ) -> Result<bool, StoreError> {
        let offset = u64::from(numbers.start) * BLOCK as u64;
        match file.read_or_fetch_at(offset, into.make_room(&numbers)) {
            Ok(true) => self.check(numbers, into).map(|()| true),
            // Bytes that cannot be read are repaired by the read that waits.
            Err(error) if !error.is_unreadable() => Err(error),
            Ok(false) | Err(_) => {
                into.count = 0;
                Ok(false)
            }
        }
    }

    /// Repairs what is not as it was written.
    fn check(&self, numbers: Range<u32>, blocks: &mut Blocks) -> Result<(), StoreError> {
        for (number, block) in numbers.zip(blocks.memory.as_chunks_mut().0) {
            if open_block(block, self.id, number).is_none() {
                self.repair(number, block)?;
            }
        }
        Ok(())
    }

    /// The `len` payload bytes of consecutive blocks of one kind.
    pub(super) fn read_payloads(
        &self,
        kind: BlockKind,
        first: u32,
        len: u64,
    ) -> Result<Vec<u8>, StoreError> {
        let count = blocks_of(len) as u32;
        let mut blocks = Blocks::default();
        self.read(&self.open()?, first..first.saturating_add(count), &mut blocks)?;
        let mut payloads = Vec::with_capacity(len as usize);
        for (number, block) in blocks.iter() {
            if block.kind != kind {
                return Err(self.damaged(number, Damage::Format));
            }
            payloads.extend_from_slice(block.payload);
        }
        if payloads.len() as u64 != len {
            return Err(self.damaged(first, Damage::Format));
        }
        Ok(payloads)
    }

    /// The footer, checked against the file that it describes.
    pub(crate) fn read_footer(&self) -> Result<Footer, StoreError> {
        let Some(last) = self.blocks.checked_sub(1) else {
            return Err(self.damaged(0, Damage::Short));
        };
        let mut blocks = Blocks::default();
        self.read(&self.open()?, last..self.blocks, &mut blocks)?;
        let block = blocks.get(last);
        let footer = Footer::parse(block.payload).filter(|footer| {
            block.kind == BlockKind::Footer
                && footer.run == self.id
                && footer.segments.iter().all(|segment| segment.end_block() <= last)
        });
        footer.ok_or_else(|| self.damaged(last, Damage::Format))
    }

    /// Restores the end of a file of `len` bytes, less than the run has.
    ///
    /// # Errors
    ///
    /// [`Damage::Short`] when more is missing than parity can bring back.
    pub(crate) fn restore_end(&self, len: u64) -> Result<(), StoreError> {
        let first = (len / BLOCK as u64) as u32;
        let mut blocks = Blocks::default();
        for number in first..self.blocks {
            self.read(&self.open()?, number..number + 1, &mut blocks).map_err(
                |error| match error {
                    StoreError::Damaged { path, .. } => {
                        StoreError::damaged(&path, len, Damage::Short)
                    }
                    other => other,
                },
            )?;
        }
        Ok(())
    }
}

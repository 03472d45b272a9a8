//! Repairs blocks of runs in place, while others read.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::super::format::{BLOCK, open_block};
use super::super::parity::{parity_of, stripe_of, xor_into};
use super::RunFile;
use crate::disk::{OpenMode, StoreFile};
use crate::error::{Damage, StoreError};

/// The repairs of a store.
#[derive(Default)]
pub(crate) struct Repairs {
    /// Held while a block is repaired, across I/O, and taken by the thread that found damage: a damaged block
    /// is looked up by several workers at once.
    one_at_a_time: Mutex<()>,
    blocks: AtomicU64,
    /// Blocks are computed for their reader, and stay as they are.
    in_memory: bool,
}

impl Repairs {
    /// Of an inspection, which changes nothing.
    pub(crate) fn in_memory() -> Self {
        Self { in_memory: true, ..Self::default() }
    }

    /// Blocks that were repaired.
    pub(crate) fn blocks(&self) -> u64 {
        self.blocks.load(Ordering::Relaxed)
    }

    /// While it is held, no block is repaired from parity, which may be written.
    pub(crate) fn begin(&self) -> MutexGuard<'_, ()> {
        // A repair that panicked has written a whole block or a part of one: the next one finds out.
        self.one_at_a_time.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl RunFile {
    /// Puts block `number`, of which a reader got what is not the block, into `block`, and back to its
    /// place in the file.
    ///
    /// A crash in the middle of the write leaves the block damaged, as it was, and parity is not
    /// touched: the next reader repairs it again. A reader who meets a half-written block finds its
    /// checksum wrong and comes here, where it waits and then finds the block right.
    pub(crate) fn repair(&self, number: u32, block: &mut [u8; BLOCK]) -> Result<(), StoreError> {
        let _alone = self.repairs.begin();
        if self.read_again(&self.open()?, number, block)? {
            return Ok(());
        }
        if !self.rebuild(number, block)? {
            return Err(self.damaged(number, Damage::Checksum));
        }
        if self.repairs.in_memory {
            return Ok(());
        }
        let file = self.disk.open(&self.path, OpenMode::ReadWrite)?;
        file.write_all_at(u64::from(number) * BLOCK as u64, block)?;
        file.sync()?;
        self.repairs.blocks.fetch_add(1, Ordering::Relaxed);
        let (path, offset) = (self.path.display(), u64::from(number) * BLOCK as u64);
        log::warn!("{path}: {BLOCK} bytes at byte {offset} were damaged; repaired from parity.");
        Ok(())
    }

    /// Reads a block once more, from the disk: the page cache would give again what was misread. Tells
    /// whether it is what was written.
    pub(crate) fn read_again(
        &self,
        file: &StoreFile,
        number: u32,
        block: &mut [u8; BLOCK],
    ) -> Result<bool, StoreError> {
        let start = u64::from(number) * BLOCK as u64;
        file.release_cache(start..start + BLOCK as u64);
        self.read_valid(file, number, block)
    }

    /// Reads a block and tells whether it is what was written.
    fn read_valid(
        &self,
        file: &StoreFile,
        number: u32,
        block: &mut [u8; BLOCK],
    ) -> Result<bool, StoreError> {
        match file.read_exact_at(u64::from(number) * BLOCK as u64, block) {
            Ok(()) => Ok(open_block(block, self.id, number).is_some()),
            Err(error) if error.is_unreadable() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Computes a block from its parity and the other blocks of its stripe; `false` when one of these
    /// is damaged or missing too.
    pub(crate) fn rebuild(&self, number: u32, block: &mut [u8; BLOCK]) -> Result<bool, StoreError> {
        let parity = match self.disk.open(&self.parity_path(), OpenMode::Read) {
            Ok(parity) => parity,
            // A run of schema 1.
            Err(error) if error.is_not_found() => return Ok(false),
            Err(error) => return Err(error),
        };
        match parity.read_exact_at(u64::from(parity_of(number)) * BLOCK as u64, block) {
            Err(error) if error.is_unreadable() => return Ok(false),
            other => other?,
        }
        let (file, mut other) = (self.open()?, Box::new([0; BLOCK]));
        for n in stripe_of(number, self.blocks).filter(|n| *n != number) {
            if !self.read_valid(&file, n, &mut other)? {
                return Ok(false);
            }
            xor_into(block, &other);
        }
        Ok(open_block(block, self.id, number).is_some())
    }
}

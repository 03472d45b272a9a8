//! Parity of a run: damaged blocks are computed from it and from the rest of the run.
//!
//! A run has a file of parity beside it, `NNNNNNNNNN.parity`. The blocks of the run are taken in groups
//! of 2,048. Block `n` of a group (from 0) belongs to stripe `n mod 64`, and block `s` of the group's
//! parity is the exclusive or of all blocks of stripe `s`:
//!
//! ```text
//! run     0 1 2 … 63 │ 64 65 66 … 127 │ …  │ 1984 … 2047    2048 2049 …        a group of 2,048
//! parity  0 1 2 … 63                                         64   65  …         has 64, 1/32 of it
//! ```
//!
//! So up to 64 neighbouring blocks (256 KiB) can be computed again, or any others of which no two
//! belong to one stripe. The last group has a block of parity for each stripe that has blocks: one of up
//! to 64 blocks is there twice.
//!
//! A block of parity has no checksum of its own. Whether a block was computed rightly is told by the
//! checksum of that block, which covers run and place; whether parity is intact, by computing it from
//! blocks whose checksums hold.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::format::{BLOCK, RunId};
use crate::disk::{OpenMode, StoreDisk, StoreFile};
use crate::error::{Damage, StoreError};

/// Stripes of a group: so many neighbouring blocks may be damaged.
pub(crate) const STRIPES: u32 = 64;
/// Blocks of a group.
pub(crate) const GROUP: u32 = 2048;

impl RunId {
    pub(crate) const PARITY_EXTENSION: &'static str = "parity";

    /// Path of the parity of this run.
    pub(crate) fn parity_path(self, dir: &Path) -> PathBuf {
        self.path(dir).with_extension(Self::PARITY_EXTENSION)
    }
}

/// The block of parity that covers block `number` of a run.
pub(crate) fn parity_of(number: u32) -> u32 {
    number / GROUP * STRIPES + number % GROUP % STRIPES
}

/// All blocks of a stripe, `number` being one of them, in a run of `blocks` blocks.
pub(crate) fn stripe_of(number: u32, blocks: u32) -> impl Iterator<Item = u32> {
    let group = number / GROUP * GROUP;
    let Range { start, end } = group..blocks.min(group.saturating_add(GROUP));
    (start + number % GROUP % STRIPES..end).step_by(STRIPES as usize)
}

/// Adds a block to what is known of its stripe.
#[inline]
pub(crate) fn xor_into(parity: &mut [u8; BLOCK], block: &[u8; BLOCK]) {
    let words = parity.as_chunks_mut::<8>().0.iter_mut().zip(block.as_chunks::<8>().0);
    for (word, other) in words {
        *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other)).to_ne_bytes();
    }
}

/// What is wrong with a block of parity; `computed` is what its stripe gives, where all of that is known. A
/// read may fail or go wrong once: then the block is read again, from the disk.
pub(crate) fn parity_damage(
    file: &StoreFile,
    number: u32,
    computed: Option<&[u8; BLOCK]>,
) -> Result<Option<Damage>, StoreError> {
    let (start, mut stored) = (u64::from(number) * BLOCK as u64, Box::new([0; BLOCK]));
    let mut look = || match file.read_exact_at(start, &mut *stored) {
        Err(error) if error.is_unreadable() => Ok(Some(Damage::Short)),
        Err(error) => Err(error),
        Ok(()) if computed.is_none_or(|computed| *stored == *computed) => Ok(None),
        Ok(()) => Ok(Some(Damage::Disagreement("it is not the parity of the run"))),
    };
    if look()?.is_none() {
        return Ok(None);
    }
    file.release_cache(start..start + BLOCK as u64);
    look()
}

/// Writes the parity of a run while the run is written.
pub(crate) struct ParityWriter {
    file: StoreFile,
    /// Of the group that is open, one after the other: [`STRIPES`] or as many as it has blocks. With 256
    /// KiB it is not of the memory budget, which tests make smaller than that.
    parity: Vec<u8>,
    /// Blocks of this group so far.
    blocks: u32,
    written: u64,
}

impl ParityWriter {
    pub(crate) fn create(disk: &StoreDisk, path: &Path) -> Result<Self, StoreError> {
        let file = disk.open(path, OpenMode::Truncate)?;
        Ok(Self { file, parity: Vec::new(), blocks: 0, written: 0 })
    }

    /// To be synced before the run counts as written.
    pub(crate) fn file(&self) -> &StoreFile {
        &self.file
    }

    /// The next block of the run.
    #[inline]
    pub(crate) fn push(&mut self, block: &[u8; BLOCK]) -> Result<(), StoreError> {
        if self.blocks < STRIPES {
            self.parity.extend_from_slice(block);
        } else {
            let stripe = (self.blocks % STRIPES) as usize;
            xor_into(&mut self.parity.as_chunks_mut().0[stripe], block);
        }
        self.blocks += 1;
        if self.blocks == GROUP { self.write() } else { Ok(()) }
    }

    /// Writes the parity of the group that is open, and begins the next one.
    pub(crate) fn write(&mut self) -> Result<(), StoreError> {
        self.file.write_all_at(self.written, &self.parity)?;
        self.written += self.parity.len() as u64;
        self.parity.clear();
        self.blocks = 0;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn every_block_has_its_stripe_and_every_stripe_its_parity() {
        for blocks in [1, 2, 63, 64, 65, 2047, 2048, 2049, 2111, 2112, 2113, 4096, 5000] {
            let mut by_parity: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            (0..blocks).for_each(|n| by_parity.entry(parity_of(n)).or_default().push(n));
            for (at, (parity, stripe)) in (0..).zip(&by_parity) {
                assert_eq!(at, *parity, "parity has no holes");
                for n in stripe {
                    assert!(stripe_of(*n, blocks).eq(stripe.iter().copied()), "{n} of {blocks}");
                }
                assert!(stripe.windows(2).all(|pair| pair[1] - pair[0] == 64));
                assert!(stripe.len() <= 32);
            }
        }
    }

    #[test]
    fn sixty_four_neighbours_belong_to_as_many_stripes() {
        for first in [0, 1, 1984, 2000, 2047, 2048] {
            let mut parity: Vec<u32> = (first..first + 64).map(parity_of).collect();
            parity.sort_unstable();
            parity.dedup();
            assert_eq!(parity.len(), 64, "from {first} on");
        }
    }
}

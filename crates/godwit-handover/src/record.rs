//! The records of Core's two databases, encoded and decoded by pure functions.
//!
//! `blocks/index` (`node/blockstorage.cpp`, `chain.h`), whose values are in the clear:
//!
//! | key | value |
//! | --- | --- |
//! | `b`, block hash | [`IndexRecord`] |
//! | `f`, file number (4 bytes) | [`FileInfo`] |
//! | `l` | number of the last file (4 bytes) |
//! | `F`, name with its length | `1` or `0` |
//!
//! `chainstate` (`txdb.cpp`, `coins.h`), whose values but the first are XORed with the key:
//!
//! | key | value |
//! | --- | --- |
//! | `\x0e\0obfuscate_key` | the key with its length |
//! | `B` | hash of the block whose coins these are |
//! | `H` | while a flush is under way |
//! | `C`, txid, VarInt of the output number | the coin, compressed as godwit's runs have it |

use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE, OutPoint};
use godwit_store::{BlockRecord, BlockStatus};
use godwit_stream::{Allocator, DataStream, DecodeError, Encode, SpanReader};

/// The number that Core writes in place of a version (`CDiskBlockIndex::DUMMY_VERSION`).
const DUMMY_VERSION: u64 = 259_900;

// `BlockStatus` of chain.h.
const VALID_TREE: u32 = 2;
const VALID_TRANSACTIONS: u32 = 3;
const VALID_SCRIPTS: u32 = 5;
const HAVE_DATA: u32 = 8;
const HAVE_UNDO: u32 = 16;
/// Set on descendants too: Core 31 writes no other flag for them, and older versions read this one.
const FAILED_VALID: u32 = 32;
const OPT_WITNESS: u32 = 128;

/// First byte of the key of a coin.
pub(crate) const COIN: u8 = b'C';
pub(crate) const BEST_BLOCK: &[u8] = b"B";
pub(crate) const HEAD_BLOCKS: &[u8] = b"H";
pub(crate) const OBFUSCATION_KEY: &[u8] = b"\x0e\0obfuscate_key";
pub(crate) const LAST_FILE: &[u8] = b"l";
/// The flag of a directory from which blocks were pruned.
pub(crate) const PRUNED_FLAG: &str = "prunedblockfiles";

/// A block of the index (`CDiskBlockIndex`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct IndexRecord {
    pub(crate) header: BlockHeader,
    pub(crate) height: u32,
    /// `BlockStatus` of chain.h, as bits.
    pub(crate) status: u32,
    pub(crate) tx_count: u32,
    /// Number of the block and undo file; 0 if neither is stored.
    pub(crate) file: u32,
    /// Position of the block's first byte, behind magic and length.
    pub(crate) data_pos: u32,
    /// Position of the undo data's first byte, behind magic and length.
    pub(crate) undo_pos: u32,
}

/// An undo record lies beyond the 4 GiB that Core's positions reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BeyondReach;

impl IndexRecord {
    /// The record of a block as godwit has it; `segwit` says that the block is at or above the height of
    /// segwit. Core sets `OPT_WITNESS` on every block that it receives there, and demands a reindex if a
    /// block up to the tip lacks the flag (`NeedsRedownload`).
    pub(crate) fn new(block: &BlockRecord, segwit: bool) -> Result<Self, BeyondReach> {
        let BlockRecord { header, height, tx_count, position, undo, .. } = *block;
        let mut status = match tx_count {
            0 => VALID_TREE,
            _ if block.status.contains(BlockStatus::SCRIPTS) => VALID_SCRIPTS,
            _ => VALID_TRANSACTIONS,
        };
        if tx_count > 0 && segwit {
            status |= OPT_WITNESS;
        }
        if block.status.contains(BlockStatus::FAILED) {
            status |= FAILED_VALID;
        }
        let (mut file, mut data_pos, mut undo_pos) = (0, 0, 0);
        if let Some(position) = position {
            status |= HAVE_DATA;
            (file, data_pos) = (position.file, position.offset);
            // Core has no undo data without the block.
            if let Some(undo) = undo {
                status |= HAVE_UNDO;
                undo_pos = u32::try_from(undo.offset).map_err(|_| BeyondReach)?;
            }
        }
        Ok(Self { header, height, status, tx_count, file, data_pos, undo_pos })
    }

    /// The record of the genesis block, which is valid as it is and has no undo record.
    pub(crate) fn genesis(header: BlockHeader, segwit: bool, file: u32, data_pos: u32) -> Self {
        let witness = if segwit { OPT_WITNESS } else { 0 };
        let status = VALID_TRANSACTIONS | HAVE_DATA | witness;
        Self { header, height: 0, status, tx_count: 1, file, data_pos, undo_pos: 0 }
    }
}

impl Encode for IndexRecord {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_var_int(DUMMY_VERSION);
        for number in [self.height, self.status, self.tx_count] {
            out.write_var_int(number.into());
        }
        if self.status & (HAVE_DATA | HAVE_UNDO) != 0 {
            out.write_var_int(self.file.into());
        }
        if self.status & HAVE_DATA != 0 {
            out.write_var_int(self.data_pos.into());
        }
        if self.status & HAVE_UNDO != 0 {
            out.write_var_int(self.undo_pos.into());
        }
        out.put(&self.header);
    }
}

/// The content of a pair of block and undo file (`CBlockFileInfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileInfo {
    pub(crate) blocks: u32,
    /// Bytes in use, frames included.
    pub(crate) size: u32,
    /// Bytes in use in the undo file, with frames and checksums.
    pub(crate) undo_size: u32,
    pub(crate) heights: (u32, u32),
    pub(crate) times: (u32, u32),
}

impl FileInfo {
    /// Adds a block of the file to the counts.
    pub(crate) fn add(&mut self, height: u32, time: u32) {
        let with = |range: (u32, u32), n: u32| match self.blocks {
            0 => (n, n),
            _ => (range.0.min(n), range.1.max(n)),
        };
        (self.heights, self.times) = (with(self.heights, height), with(self.times, time));
        self.blocks += 1;
    }
}

impl Encode for FileInfo {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        let Self { blocks, size, undo_size, heights, times } = *self;
        for number in [blocks, size, undo_size, heights.0, heights.1, times.0, times.1] {
            out.write_var_int(number.into());
        }
    }
}

pub(crate) fn block_key(hash: &BlockHash) -> [u8; 33] {
    let mut key = [b'b'; 33];
    key[1..].copy_from_slice(hash.as_bytes());
    key
}

pub(crate) fn file_key(file: u32) -> [u8; 5] {
    let mut key = [b'f'; 5];
    key[1..].copy_from_slice(&file.to_le_bytes());
    key
}

pub(crate) fn flag_key(name: &str) -> Vec<u8> {
    let length = u8::try_from(name.len()).expect("the name of a flag is short");
    [&[b'F', length], name.as_bytes()].concat()
}

/// Writes the key of a coin to `out`, replacing its content.
pub(crate) fn coin_key(outpoint: &OutPoint, out: &mut DataStream) {
    out.clear();
    out.write_u8(COIN);
    out.write(outpoint.txid.as_bytes());
    out.write_var_int(outpoint.vout.into());
}

/// The outpoint in a coin's key.
pub(crate) fn outpoint_of(key: &[u8]) -> Result<OutPoint, DecodeError> {
    let mut reader = SpanReader::new(key);
    reader.skip(1)?;
    let (txid, vout) = (reader.get()?, reader.var_int_u32()?);
    match reader.is_empty() {
        true => Ok(OutPoint { txid, vout }),
        false => Err(DecodeError::TrailingBytes),
    }
}

/// An obfuscation key as a value of the database: with its length, as Core serialises a vector.
pub(crate) fn obfuscation_value(key: [u8; 8]) -> [u8; 9] {
    let mut value = [8; 9];
    value[1..].copy_from_slice(&key);
    value
}

/// The obfuscation key in such a value.
pub(crate) fn obfuscation_of(value: &[u8]) -> Option<[u8; 8]> {
    value.strip_prefix(&[8])?.try_into().ok()
}

/// Bytes of an [`IndexRecord`] at most: VarInts of 32 bits and the header.
pub(crate) const MAX_INDEX_RECORD: u64 = 7 * 5 + HEADER_SIZE as u64;

#[cfg(test)]
mod tests;

//! The bytes of a run file.
//!
//! A run is a sequence of 4096-byte blocks, all integers little-endian. Every block:
//!
//! | offset | bytes | content |
//! | --- | --- | --- |
//! | 0 | 4 | CRC-32C of run id (8), block number (4) and bytes 4..4096 of the block |
//! | 4 | 1 | kind: 1 entries, 2 overflow, 3 filter, 4 index, 5 footer |
//! | 5 | 1 | blocks that the entry spans, counting this one; 1 but for a long entry |
//! | 6 | 2 | bytes of the payload in use |
//! | 8 | 4088 | payload, zeros behind what is in use |
//!
//! The checksum covers what identifies the place, so that a zeroed, misplaced or stale block never
//! passes. A segment (the entries of one partition) is its entry blocks, then its filter, then its
//! index; the last block of the file is the footer.
//!
//! Entries ([`crate::utxo::entry`]) are in order of key, then outpoint, and do not cross blocks. One
//! that is longer than a payload fills an entry block of its own and continues in overflow blocks.
//! The filter is the words of [`crate::utxo::filter`]; the index has 4 bytes for each entry and
//! overflow block, the upper half of the key of the block's first entry (an overflow block repeats
//! that of the entry it continues).

use std::path::{Path, PathBuf};

use godwit_stream::{Allocator, DataStream, DecodeError, Encode, SpanReader};

use crate::utxo::entry_sum::EntrySum;

/// Bytes of a block.
pub(crate) const BLOCK: usize = 4096;
/// Bytes before the payload.
pub(crate) const BLOCK_HEADER: usize = 8;
/// Bytes of a payload.
pub(crate) const PAYLOAD: usize = BLOCK - BLOCK_HEADER;

const MAGIC: [u8; 8] = *b"gdwtutxo";
/// Version of a footer without sums, of schema 1; scratch runs have it still.
const WITHOUT_SUMS: u32 = 1;
const VERSION: u32 = 2;

/// Bits of the key that choose the partition, at most.
pub(crate) const MAX_PARTITION_BITS: u32 = 6;

/// Number of a run file. Numbers are not used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RunId(pub(crate) u64);

impl RunId {
    const EXTENSION: &'static str = "run";
    /// Scratch runs have ids from here on, far from those of runs.
    pub(crate) const FIRST_SCRATCH: u64 = 1 << 63;

    pub(crate) fn is_scratch(self) -> bool {
        self.0 >= Self::FIRST_SCRATCH
    }

    pub(crate) fn path(self, dir: &Path) -> PathBuf {
        dir.join(format!("{:010}", self.0)).with_extension(Self::EXTENSION)
    }

    /// The number in the name of a run file or of its parity; `None` for any other name.
    pub(crate) fn of_path(path: &Path) -> Option<Self> {
        let stem = path.file_stem()?.to_str()?;
        let is_ours =
            [Self::EXTENSION, Self::PARITY_EXTENSION].contains(&path.extension()?.to_str()?);
        let is_number = stem.len() >= 10 && stem.bytes().all(|byte| byte.is_ascii_digit());
        if is_ours && is_number { stem.parse().ok().map(Self) } else { None }
    }
}

/// What a block holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BlockKind {
    Entries = 1,
    /// The rest of a long entry.
    Overflow = 2,
    /// A piece of a filter.
    Filter = 3,
    /// A piece of a block index.
    Index = 4,
    Footer = 5,
}

impl BlockKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Entries,
            2 => Self::Overflow,
            3 => Self::Filter,
            4 => Self::Index,
            5 => Self::Footer,
            _ => return None,
        })
    }
}

/// Number of blocks that `bytes` of payload fill.
pub(crate) fn blocks_of(bytes: u64) -> u64 {
    bytes.div_ceil(PAYLOAD as u64)
}

fn checksum(run: RunId, number: u32, rest: &[u8]) -> u32 {
    let mut place = [0; 12];
    place[..8].copy_from_slice(&run.0.to_le_bytes());
    place[8..].copy_from_slice(&number.to_le_bytes());
    crc32c::crc32c_append(crc32c::crc32c(&place), rest)
}

/// Fills in the header of a block whose payload begins with `used` bytes, zeroing what is behind.
pub(crate) fn seal_block(
    block: &mut [u8; BLOCK],
    run: RunId,
    number: u32,
    kind: BlockKind,
    span: u8,
    used: usize,
) {
    block[BLOCK_HEADER + used..].fill(0);
    block[4] = kind as u8;
    block[5] = span;
    block[6..8].copy_from_slice(&(used as u16).to_le_bytes());
    let sum = checksum(run, number, &block[4..]);
    block[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A block whose checksum holds.
#[derive(Clone, Copy)]
pub(crate) struct BlockRef<'a> {
    pub(crate) kind: BlockKind,
    /// Blocks that the single entry of this block spans.
    pub(crate) span: u8,
    /// The bytes in use.
    pub(crate) payload: &'a [u8],
}

/// Checks a block; `None` when it is not block `number` of `run` as it was written.
pub(crate) fn open_block(block: &[u8; BLOCK], run: RunId, number: u32) -> Option<BlockRef<'_>> {
    let stored = u32::from_le_bytes(*block.first_chunk()?);
    if stored == checksum(run, number, &block[4..]) { view_block(block) } else { None }
}

/// A block whose checksum was found right; `None` when it is of no kind that there is.
#[inline]
pub(crate) fn view_block(block: &[u8; BLOCK]) -> Option<BlockRef<'_>> {
    let kind = BlockKind::from_byte(block[4])?;
    let used = usize::from(u16::from_le_bytes([block[6], block[7]]));
    let payload = block[BLOCK_HEADER..].get(..used)?;
    Some(BlockRef { kind, span: block[5], payload })
}

/// Where a segment is in its run and what it holds; 45 bytes in the footer, and 16 for the sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentMeta {
    /// Which partition; its number is the top bits of every key.
    pub(crate) partition: u8,
    /// Number of the first entry block.
    pub(crate) first_block: u32,
    /// Entry and overflow blocks.
    pub(crate) blocks: u32,
    /// Bytes of the filter behind them; 0 when there is none.
    pub(crate) filter_bytes: u32,
    /// Entries, tombstones included.
    pub(crate) entries: u64,
    pub(crate) tombstones: u64,
    pub(crate) min_key: u64,
    pub(crate) max_key: u64,
    /// Sum of the entries, unknown of runs of schema 1 and of scratch runs.
    pub(crate) sum: Option<EntrySum>,
}

impl SegmentMeta {
    /// Number of the first filter block.
    pub(crate) fn filter_block(&self) -> u32 {
        self.first_block.saturating_add(self.blocks)
    }

    /// Number of the first index block.
    pub(crate) fn index_block(&self) -> u32 {
        self.filter_block().saturating_add(blocks_of(u64::from(self.filter_bytes)) as u32)
    }

    pub(crate) fn index_bytes(&self) -> u64 {
        u64::from(self.blocks) * 4
    }

    /// Number of the block behind the segment.
    pub(crate) fn end_block(&self) -> u32 {
        self.index_block().saturating_add(blocks_of(self.index_bytes()) as u32)
    }
}

impl SegmentMeta {
    fn encode<A: Allocator>(&self, version: u32, out: &mut DataStream<A>) {
        out.write_u8(self.partition);
        out.write_u32(self.first_block);
        out.write_u32(self.blocks);
        out.write_u32(self.filter_bytes);
        out.write_u64(self.entries);
        out.write_u64(self.tombstones);
        out.write_u64(self.min_key);
        out.write_u64(self.max_key);
        if version != WITHOUT_SUMS {
            out.write(&self.sum.unwrap_or_default().0.to_le_bytes());
        }
    }

    fn decode(version: u32, reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(Self {
            partition: reader.u8()?,
            first_block: reader.u32()?,
            blocks: reader.u32()?,
            filter_bytes: reader.u32()?,
            entries: reader.u64()?,
            tombstones: reader.u64()?,
            min_key: reader.u64()?,
            max_key: reader.u64()?,
            sum: match version {
                WITHOUT_SUMS => None,
                _ => Some(EntrySum(u128::from_le_bytes(reader.array()?))),
            },
        })
    }
}

/// The last block of a run.
///
/// | bytes | content |
/// | --- | --- |
/// | 8 | magic `gdwtutxo` |
/// | 4 | version: 2, or 1 when it has no sums |
/// | 8 | run id |
/// | 8 | keyed hash of the null outpoint: tells whether the reader has the writer's key |
/// | 1 | partition bits |
/// | 1 | number of segments |
/// | 61 each | partition (1); first block, blocks, filter bytes (4); entries, dead, least, last (8); sum |
///
/// The sum has 16 bytes; in version 1 a segment has none, and takes 45.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    pub(crate) run: RunId,
    pub(crate) fingerprint: u64,
    pub(crate) partition_bits: u8,
    /// By rising partition.
    pub(crate) segments: Vec<SegmentMeta>,
}

const _: () = assert!(30 + (61 << MAX_PARTITION_BITS) <= PAYLOAD);

impl Encode for Footer {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        let with_sums = self.segments.iter().all(|segment| segment.sum.is_some());
        let version = if with_sums { VERSION } else { WITHOUT_SUMS };
        out.write(&MAGIC);
        out.write_u32(version);
        out.write_u64(self.run.0);
        out.write_u64(self.fingerprint);
        out.write_u8(self.partition_bits);
        out.write_u8(self.segments.len() as u8);
        self.segments.iter().for_each(|segment| segment.encode(version, out));
    }
}

impl Footer {
    /// The footer in a payload; `None` when it is not one of this version.
    pub(crate) fn parse(payload: &[u8]) -> Option<Self> {
        let mut reader = SpanReader::new(payload);
        let (magic, version) = (reader.array().ok()?, reader.u32().ok()?);
        if magic != MAGIC || !(WITHOUT_SUMS..=VERSION).contains(&version) {
            return None;
        }
        let run = RunId(reader.u64().ok()?);
        let fingerprint = reader.u64().ok()?;
        let partition_bits = reader.u8().ok()?;
        let count = reader.u8().ok()?;
        let segment = |_| SegmentMeta::decode(version, &mut reader).ok();
        let segments = (0..count).map(segment).collect::<Option<_>>()?;
        reader.is_empty().then_some(Self { run, fingerprint, partition_bits, segments })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sealed(used: usize) -> [u8; BLOCK] {
        let mut block = [0x5a; BLOCK];
        seal_block(&mut block, RunId(7), 3, BlockKind::Entries, 1, used);
        block
    }

    #[test]
    fn every_flipped_byte_of_a_block_is_noticed() {
        let good = sealed(1000);
        assert_eq!(open_block(&good, RunId(7), 3).unwrap().payload, &[0x5a; 1000]);
        for position in 0..BLOCK {
            let mut bad = good;
            bad[position] ^= 0x10;
            assert!(open_block(&bad, RunId(7), 3).is_none(), "byte {position}");
        }
    }

    #[test]
    fn a_block_passes_only_in_its_place() {
        let block = sealed(PAYLOAD);
        assert!(open_block(&block, RunId(7), 3).is_some());
        assert!(open_block(&block, RunId(7), 4).is_none());
        assert!(open_block(&block, RunId(8), 3).is_none());
        assert!(open_block(&[0; BLOCK], RunId(0), 0).is_none());
        assert!(open_block(&[0; BLOCK], RunId(7), 3).is_none());
    }

    #[test]
    fn names_of_runs() {
        let path = RunId(42).path(Path::new("/d"));
        assert_eq!(path, Path::new("/d/0000000042.run"));
        let parity = RunId(42).parity_path(Path::new("/d"));
        assert_eq!(parity, Path::new("/d/0000000042.parity"));
        assert_eq!(RunId::of_path(&parity), Some(RunId(42)));
        assert_eq!(RunId::of_path(&path), Some(RunId(42)));
        let large = RunId(u64::MAX).path(Path::new("/d"));
        assert_eq!(RunId::of_path(&large), Some(RunId(u64::MAX)));
        for other in ["/d/42.run", "/d/000000000x.run", "/d/0000000042.tmp", "/d/0000000042"] {
            assert_eq!(RunId::of_path(Path::new(other)), None, "{other}");
        }
    }

    prop_compose! {
        fn segment()(
            partition: u8, first_block: u32, blocks: u32, filter_bytes: u32, entries: u64,
            tombstones: u64, min_key: u64, max_key: u64, sum: u128,
        ) -> SegmentMeta {
            SegmentMeta {
                partition, first_block, blocks, filter_bytes, entries, tombstones, min_key, max_key,
                sum: Some(EntrySum(sum)),
            }
        }
    }

    proptest! {
        #[test]
        fn footer_round_trips(
            run: u64, fingerprint: u64, partition_bits: u8,
            mut segments in prop::collection::vec(segment(), 0..=64), sums: bool,
        ) {
            if !sums {
                segments.iter_mut().for_each(|segment| segment.sum = None);
            }
            let footer = Footer { run: RunId(run), fingerprint, partition_bits, segments };
            let mut out = DataStream::new();
            out.put(&footer);
            prop_assert!(out.as_slice().len() <= PAYLOAD);
            prop_assert_eq!(Footer::parse(out.as_slice()), Some(footer));
        }

        #[test]
        fn hostile_footers_never_panic(payload in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = Footer::parse(&payload);
        }
    }
}

//! The records of the database: one for each block, and one for the state that a commit leaves.

use std::fmt;
use std::num::NonZeroU32;
use std::ops::BitOr;

use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE};
use godwit_stream::{
    Allocator, DataStream, Decode, DecodeError, Encode, SerializeData, SpanReader,
};

use crate::error::NetworkId;

/// Where a block's bytes lie: `blkNNNNN.dat` number, offset of the first byte of the block (its
/// magic and length are the 8 bytes before), length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockPosition {
    /// Number of the block file.
    pub file: u32,
    /// Offset of the block's first byte.
    pub offset: u32,
    /// Length of the block in bytes.
    pub len: u32,
}

/// CRC-32C of a stored block's bytes, 1 instead of 0: tells whether they are still what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockChecksum(NonZeroU32);

impl BlockChecksum {
    pub fn of(block: &[u8]) -> Self {
        Self(NonZeroU32::new(crc32c::crc32c(block)).unwrap_or(NonZeroU32::MIN))
    }
}

/// Where a block's undo data lie: `revNNNNN.dat` number (that of the block's own file), offset of
/// the first byte behind magic and length, length without the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct UndoPosition {
    /// Number of the undo file.
    pub file: u32,
    /// Offset of the first byte of the undo data. Wider than a block's: blocks of one file may
    /// spend coins worth many times their own size.
    pub offset: u64,
    /// Length of the undo data in bytes, without the 32-byte checksum behind it.
    pub len: u32,
}

/// A block by hash and height.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChainPoint {
    pub hash: BlockHash,
    /// Its height, genesis being 0.
    pub height: u32,
}

/// What is known about a block's validity, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockStatus(u8);

impl BlockStatus {
    /// Only the header was checked.
    pub const HEADER: Self = Self(0);
    /// The block passed the checks that need no coins (Core: `BLOCK_VALID_TRANSACTIONS`).
    pub const STRUCTURED: Self = Self(1);
    /// The block was connected once: contextual rules hold, scripts hold or are assumed to
    /// (Core: `BLOCK_VALID_SCRIPTS`).
    pub const SCRIPTS: Self = Self(2);
    /// The block or an ancestor broke a rule (Core: `BLOCK_FAILED_VALID`).
    pub const FAILED: Self = Self(4);

    /// Whether all bits of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for BlockStatus {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// One entry of the block index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRecord {
    pub header: BlockHeader,
    /// Height, genesis being 0.
    pub height: u32,
    /// Validity so far.
    pub status: BlockStatus,
    /// Number of transactions, 0 while the block has not been received. Stays when the block's
    /// file is deleted.
    pub tx_count: u32,
    /// Order in which blocks became candidates for the tip: of two tips with equal work the lower
    /// one wins.
    pub sequence: u64,
    /// Where the block lies, once received and until its file is deleted.
    pub position: Option<BlockPosition>,
    /// Of the block's bytes; unknown of a block that was stored under schema 1 and not checked since.
    pub checksum: Option<BlockChecksum>,
    /// Where its undo data lie, once connected and until their file is deleted.
    pub undo: Option<UndoPosition>,
}

impl BlockRecord {
    /// What is left when nothing is known of the block but its header.
    pub(crate) fn header_alone(self) -> Self {
        let (status, tx_count, sequence) = (BlockStatus::HEADER, 0, 0);
        Self { status, tx_count, sequence, position: None, checksum: None, undo: None, ..self }
    }
}

/// A UTXO set taken over from a snapshot, whose history was not validated by this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AssumedSnapshot {
    /// The block that the snapshot describes.
    pub base: ChainPoint,
    /// Its `hash_serialized_3`, internal byte order.
    pub utxo_hash: [u8; 32],
}

/// The coins of the history below a snapshot: they follow from genesis, and from nothing that is assumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistoryCoins {
    /// The block after which the runs are the UTXO set.
    pub tip: ChainPoint,
    /// Encoded manifest of the runs.
    pub manifest: SerializeData,
}

/// What speaks against a snapshot, as the validation of its history has found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refutation {
    /// The coins at its block, as they follow from genesis, have this `hash_serialized_3`, internal byte
    /// order.
    OtherCoins([u8; 32]),
    /// Its block, or this one below it, is invalid.
    InvalidBlock(ChainPoint),
}

/// The UTXO set of a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UtxoState {
    pub(crate) tip: ChainPoint,
    pub(crate) manifest: SerializeData,
}

/// Committed lengths of a pair of block and undo file: all before is durable, all behind is not
/// referenced (Core: `CBlockFileInfo`). Both are 0 for a pair that was pruned: it may still be there
/// after a crash, and its number is not used again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FileEnds {
    pub(crate) blocks: u32,
    pub(crate) undo: u64,
}

impl FileEnds {
    /// What a commit says of files that are to be deleted behind it.
    pub(crate) const PRUNED: Self = Self { blocks: 0, undo: 0 };
}

/// A pass of the scrub over everything that is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScrubPass {
    /// When it began, in seconds since 1970.
    pub began: i64,
    pub place: ScrubPlace,
}

/// What a pass of the scrub reads next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScrubPlace {
    /// Control files and database.
    Files,
    /// Blocks from this height on, with their undo records.
    Blocks { height: u32 },
    /// Runs from this number on.
    Runs { number: u64 },
    /// Blocks that created the coins of undo records that have rotted, if there are any.
    Undo,
    /// Nothing: the pass is done.
    Done,
}

impl fmt::Display for ScrubPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Files => f.write_str("control files and database"),
            Self::Blocks { height } => write!(f, "blocks from height {height} on"),
            Self::Runs { number } => write!(f, "runs of coins from number {number} on"),
            Self::Undo => f.write_str("undo records"),
            Self::Done => f.write_str("nothing"),
        }
    }
}

impl Encode for ScrubPass {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        let (stage, place) = match self.place {
            ScrubPlace::Files => (0, 0),
            ScrubPlace::Blocks { height } => (1, height.into()),
            ScrubPlace::Runs { number } => (2, number),
            ScrubPlace::Undo => (3, 0),
            ScrubPlace::Done => (4, 0),
        };
        out.write_u64(self.began.cast_unsigned());
        out.write_u8(stage);
        out.write_u64(place);
    }
}

impl Decode for ScrubPass {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let (began, stage, place) = (reader.u64()?.cast_signed(), reader.u8()?, reader.u64()?);
        let place = match stage {
            0 => ScrubPlace::Files,
            1 => ScrubPlace::Blocks { height: u32::try_from(place).unwrap_or(u32::MAX) },
            2 => ScrubPlace::Runs { number: place },
            3 => ScrubPlace::Undo,
            _ => ScrubPlace::Done,
        };
        Ok(Self { began, place })
    }
}

impl Encode for ChainPoint {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.hash);
        out.write_u32(self.height);
    }
}

impl Decode for ChainPoint {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(ChainPoint { hash: reader.get()?, height: reader.u32()? })
    }
}

impl Encode for AssumedSnapshot {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.base);
        out.write(&self.utxo_hash);
    }
}

impl Decode for AssumedSnapshot {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(AssumedSnapshot { base: reader.get()?, utxo_hash: reader.array()? })
    }
}

impl Encode for HistoryCoins {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.tip);
        out.write(&self.manifest);
    }
}

impl Decode for HistoryCoins {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let tip = reader.get()?;
        let manifest = DataStream::from(reader.bytes(reader.remaining())?).into_vec();
        Ok(HistoryCoins { tip, manifest })
    }
}

/// A byte, 0 for other coins and 1 for an invalid block, and their hash or hash and height of the block.
impl Encode for Refutation {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        match self {
            Self::OtherCoins(hash) => {
                out.write_u8(0);
                out.write(hash);
            }
            Self::InvalidBlock(point) => {
                out.write_u8(1);
                out.put(point);
            }
        }
    }
}

impl Decode for Refutation {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        // A kind that is not known refutes as well, whatever it is.
        Ok(match reader.u8()? {
            0 => Self::OtherCoins(reader.array()?),
            _ => Self::InvalidBlock(reader.get()?),
        })
    }
}

impl Encode for UtxoState {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.put(&self.tip);
        out.write(&self.manifest);
    }
}

impl Decode for UtxoState {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let tip = reader.get()?;
        let manifest = DataStream::from(reader.bytes(reader.remaining())?).into_vec();
        Ok(UtxoState { tip, manifest })
    }
}

impl Encode for FileEnds {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u32(self.blocks);
        out.write_u64(self.undo);
    }
}

impl Decode for FileEnds {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        Ok(FileEnds { blocks: reader.u32()?, undo: reader.u64()? })
    }
}

/// Fixed layout but for the end: a checksum that is not known is not there. A length of 0 says that there
/// is no position.
impl Encode for BlockRecord {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        let position = self.position.unwrap_or(BlockPosition { file: 0, offset: 0, len: 0 });
        let undo = self.undo.unwrap_or(UndoPosition { file: 0, offset: 0, len: 0 });
        out.put(&self.header);
        out.write_u32(self.height);
        out.write_u8(self.status.0);
        out.write_u32(self.tx_count);
        out.write_u64(self.sequence);
        out.write_u32(position.file);
        out.write_u32(position.offset);
        out.write_u32(position.len);
        out.write_u32(undo.file);
        out.write_u64(undo.offset);
        out.write_u32(undo.len);
        if let Some(BlockChecksum(checksum)) = self.checksum {
            out.write_u32(checksum.get());
        }
    }
}

impl Decode for BlockRecord {
    const MIN_ENCODED_LEN: usize = HEADER_SIZE + 45;

    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let header = reader.get()?;
        let height = reader.u32()?;
        let status = BlockStatus(reader.u8()?);
        let tx_count = reader.u32()?;
        let sequence = reader.u64()?;
        let (file, offset, len) = (reader.u32()?, reader.u32()?, reader.u32()?);
        let position = (len > 0).then_some(BlockPosition { file, offset, len });
        let (file, offset, len) = (reader.u32()?, reader.u64()?, reader.u32()?);
        let undo = (len > 0).then_some(UndoPosition { file, offset, len });
        let checksum = if reader.is_empty() { 0 } else { reader.u32()? };
        let checksum = NonZeroU32::new(checksum).map(BlockChecksum);
        Ok(BlockRecord { header, height, status, tx_count, sequence, position, checksum, undo })
    }
}

/// What the commits so far have left.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommittedState {
    /// The block after which the runs are the UTXO set; `None` before the first flush.
    pub utxo_tip: Option<ChainPoint>,
    /// Encoded manifest of the runs, set together with the tip.
    pub utxo_manifest: Option<SerializeData>,
    /// The highest block of the active chain whose scripts need no second look when it is
    /// re-applied.
    pub verified_tip: Option<ChainPoint>,
    /// Set when the UTXO set grew from a snapshot.
    pub assumed: Option<AssumedSnapshot>,
    /// How far the history below that snapshot is validated, once something of it is on disk.
    pub history: Option<HistoryCoins>,
    /// Set when that validation has ended against the snapshot once: it is done again from genesis, because a
    /// bit that flips in memory would end it so too.
    pub doubted: Option<Refutation>,
    /// Set when it has ended so twice.
    pub refuted: Option<Refutation>,
}

impl CommittedState {
    pub(crate) fn forget_coins(&mut self) {
        (self.utxo_tip, self.utxo_manifest) = (None, None);
        self.forget_snapshot();
    }

    /// The coins are not assumed any more, or are others.
    pub(crate) fn forget_snapshot(&mut self) {
        (self.assumed, self.history) = (None, None);
        (self.doubted, self.refuted) = (None, None);
    }
}

/// What a data directory is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Identity {
    pub(crate) schema: u32,
    pub(crate) network: NetworkId,
    pub(crate) utxo_hash_key: [u8; 16],
}

impl Encode for Identity {
    fn encode<A: Allocator>(&self, out: &mut DataStream<A>) {
        out.write_u32(self.schema);
        out.write(&self.network.magic);
        out.write(&self.network.genesis);
        out.write(&self.utxo_hash_key);
    }
}

impl Decode for Identity {
    fn decode(reader: &mut SpanReader<'_>) -> Result<Self, DecodeError> {
        let schema = reader.u32()?;
        let network = NetworkId { magic: reader.array()?, genesis: reader.array()? };
        Ok(Identity { schema, network, utxo_hash_key: reader.array()? })
    }
}

//! Compact blocks (BIP152 version 2, Core `blockencodings.{h,cpp}`).

use std::hash::Hasher;

use godwit_primitives::sha256::sha256;
use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE, TxView, Wtxid};
use godwit_stream::{DataStream, Decode, SpanReader};
use siphasher::sip::SipHasher24;

use super::MessageError;

/// Most transactions in a compact block or in an answer to `getblocktxn`: positions have 16 bits
/// (Core refuses the same number in `CBlockHeaderAndShortTxIDs`). Blocks hold fewer than 17,000.
pub(crate) const MAX_COMPACT_TRANSACTIONS: usize = u16::MAX as usize;

/// Size of a transaction without inputs and outputs, in bytes; any other is larger.
const NULL_TRANSACTION_SIZE: usize = 10;

/// Size of a short id on the wire, in bytes.
const SHORT_ID_SIZE: usize = 6;

/// A block as its header, ids of its transactions that are unique within it, and a few transactions
/// in full. [`decode`](super::Message::decode) checks that each position of the block has exactly
/// one of the two.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompactBlock {
    pub header: BlockHeader,
    /// Salt of the short ids.
    pub nonce: u64,
    /// Short id of each transaction that is not in `prefilled`, in block order.
    pub short_ids: Vec<u64>,
    /// Position in the block of each transaction of `prefilled`, increasing.
    pub prefilled_positions: Vec<u16>,
    /// The transactions that are given in full: at least the coinbase.
    pub prefilled: RawTransactions,
}

/// A request for transactions of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTransactionsRequest {
    pub block_hash: BlockHash,
    /// Positions in the block, increasing.
    pub positions: Vec<u16>,
}

/// The answer to a [`BlockTransactionsRequest`], in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockTransactions {
    pub block_hash: BlockHash,
    pub transactions: RawTransactions,
}

/// Transactions in their wire form, with witness if any, one behind the other. Those that arrived
/// are well-formed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RawTransactions {
    bytes: Vec<u8>,
    /// Where each one ends in `bytes`.
    ends: Vec<u32>,
}

impl RawTransactions {
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends one, in its wire form.
    pub fn push(&mut self, transaction: &[u8]) {
        self.bytes.extend_from_slice(transaction);
        let end = u32::try_from(self.bytes.len()).expect("less than a block's size");
        self.ends.push(end);
    }

    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// All of them, one behind the other.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn get(&self, i: usize) -> Option<&[u8]> {
        let end = *self.ends.get(i)? as usize;
        let start = i.checked_sub(1).map_or(0, |before| self.ends[before] as usize);
        Some(&self.bytes[start..end])
    }

    /// Each of them.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        (0..self.len()).map(|i| self.get(i).expect("below the number"))
    }

    fn push_from(&mut self, reader: &mut SpanReader<'_>) -> Result<(), MessageError> {
        let size = TxView::parse(reader.rest())?.total_size();
        self.push(reader.bytes(size)?);
        Ok(())
    }
}

/// Keys of a block's short ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShortIdKeys(u64, u64);

impl ShortIdKeys {
    /// First 16 bytes of SHA-256 over header and nonce.
    pub(crate) fn new(header: &BlockHeader, nonce: u64) -> Self {
        let mut salt = [0; HEADER_SIZE + 8];
        salt[..HEADER_SIZE].copy_from_slice(&header.to_bytes());
        salt[HEADER_SIZE..].copy_from_slice(&nonce.to_le_bytes());
        let hash = sha256(&salt);
        let key = |at: usize| u64::from_le_bytes(*hash[at..].first_chunk().expect("32 bytes"));
        Self(key(0), key(8))
    }

    /// Low 48 bits of SipHash-2-4 over the wtxid.
    pub(crate) fn short_id(&self, wtxid: &Wtxid) -> u64 {
        let mut hasher = SipHasher24::new_with_keys(self.0, self.1);
        hasher.write(wtxid.as_bytes());
        hasher.finish() & 0xffff_ffff_ffff
    }
}

impl CompactBlock {
    /// Transactions of the block.
    pub fn transaction_count(&self) -> usize {
        self.short_ids.len() + self.prefilled.len()
    }

    pub(super) fn encode(&self, out: &mut DataStream) {
        out.put(&self.header);
        out.write_u64(self.nonce);
        out.write_compact_size(self.short_ids.len() as u64);
        for id in &self.short_ids {
            out.write(&id.to_le_bytes()[..SHORT_ID_SIZE]);
        }
        out.write_compact_size(self.prefilled.len() as u64);
        for (difference, transaction) in
            differences(&self.prefilled_positions).zip(self.prefilled.iter())
        {
            out.write_compact_size(difference);
            out.write(transaction);
        }
    }

    pub(super) fn decode(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let header = BlockHeader::decode(reader)?;
        let nonce = reader.u64()?;
        let short_ids = decode_short_ids(reader)?;
        let count = bounded_count(reader)?;
        let mut prefilled = RawTransactions::new();
        let mut positions = Vec::new();
        let mut next = 0u64;
        for _ in 0..count {
            let difference = reader.compact_size()?;
            if difference > u64::from(u16::MAX) {
                return Err(MessageError::PositionTooLarge);
            }
            positions.push(next + difference);
            next += difference + 1;
            prefilled.push_from(reader)?;
        }
        if short_ids.len() + prefilled.len() > MAX_COMPACT_TRANSACTIONS {
            return Err(MessageError::PositionTooLarge);
        }
        let prefilled_positions = check_positions(&positions, short_ids.len())?;
        let block = Self { header, nonce, short_ids, prefilled_positions, prefilled };
        if block.is_invalid() {
            return Err(MessageError::InvalidCompactBlock);
        }
        Ok(block)
    }

    /// What else Core's `InitData` takes for an attack: a header without target, no transaction at
    /// all, one without inputs and outputs.
    fn is_invalid(&self) -> bool {
        self.header.bits == 0
            || self.transaction_count() == 0
            || self.prefilled.iter().any(|transaction| transaction.len() == NULL_TRANSACTION_SIZE)
    }
}

/// The positions of prefilled transactions. Below each there must be a short id or a prefilled
/// transaction for every position.
fn check_positions(positions: &[u64], short_ids: usize) -> Result<Vec<u16>, MessageError> {
    let possible = |(i, &position): (usize, &u64)| {
        u16::try_from(position).ok().filter(|&position| usize::from(position) <= short_ids + i)
    };
    let checked = positions.iter().enumerate().map(possible);
    checked.collect::<Option<_>>().ok_or(MessageError::InvalidCompactBlock)
}

fn bounded_count(reader: &mut SpanReader<'_>) -> Result<usize, MessageError> {
    let count = reader.compact_size()?;
    if count > MAX_COMPACT_TRANSACTIONS as u64 {
        return Err(MessageError::PositionTooLarge);
    }
    Ok(count as usize)
}

fn decode_short_ids(reader: &mut SpanReader<'_>) -> Result<Vec<u64>, MessageError> {
    let count = bounded_count(reader)?;
    let (ids, _) = reader.bytes(count * SHORT_ID_SIZE)?.as_chunks::<SHORT_ID_SIZE>();
    let widened =
        |&[a, b, c, d, e, f]: &[u8; SHORT_ID_SIZE]| u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    Ok(ids.iter().map(widened).collect())
}

/// The gaps between increasing positions, as BIP152 writes them.
fn differences(positions: &[u16]) -> impl Iterator<Item = u64> {
    let mut next = 0;
    positions.iter().map(move |&position| {
        let difference = u64::from(position).checked_sub(next).expect("positions increase");
        next = u64::from(position) + 1;
        difference
    })
}

impl BlockTransactionsRequest {
    pub(super) fn encode(&self, out: &mut DataStream) {
        out.put(&self.block_hash);
        out.write_compact_size(self.positions.len() as u64);
        differences(&self.positions).for_each(|difference| out.write_compact_size(difference));
    }

    pub(super) fn decode(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let block_hash = BlockHash::decode(reader)?;
        let count = reader.compact_size()?;
        if count > reader.remaining() as u64 {
            return Err(godwit_stream::DecodeError::UnexpectedEnd.into());
        }
        let mut positions = Vec::with_capacity((count as usize).min(MAX_COMPACT_TRANSACTIONS + 1));
        let mut next = 0;
        for _ in 0..count {
            let position = next + reader.compact_size()?;
            positions.push(u16::try_from(position).map_err(|_| MessageError::PositionTooLarge)?);
            next = position + 1;
        }
        Ok(Self { block_hash, positions })
    }
}

impl BlockTransactions {
    pub(super) fn encode(&self, out: &mut DataStream) {
        out.put(&self.block_hash);
        out.write_compact_size(self.transactions.len() as u64);
        out.write(self.transactions.bytes());
    }

    pub(super) fn decode(reader: &mut SpanReader<'_>) -> Result<Self, MessageError> {
        let block_hash = BlockHash::decode(reader)?;
        let count = bounded_count(reader)?;
        let mut transactions = RawTransactions::new();
        for _ in 0..count {
            transactions.push_from(reader)?;
        }
        Ok(Self { block_hash, transactions })
    }
}

//! The messages of the peer-to-peer protocol.
//!
//! A payload may be longer than its message: surplus bytes are ignored, as in Core. [`MessageError`] tells
//! what Core does with a payload that does not decode.

mod compact;
mod filters;
#[cfg(test)]
mod tests;
mod version;

use std::fmt;

use godwit_primitives::{BlockHash, BlockHeader, HEADER_SIZE};
use godwit_stream::{DataStream, Decode, DecodeError, SpanReader};

pub use compact::{BlockTransactions, BlockTransactionsRequest, CompactBlock, RawTransactions};
pub(crate) use compact::{MAX_COMPACT_TRANSACTIONS, ShortIdKeys};
pub(crate) use filters::{BASIC_FILTER, CHECKPOINT_INTERVAL};
pub use filters::{FilterData, FilterQuery, FilterRequest};
pub(crate) use version::MAX_USER_AGENT;
pub use version::{Version, VersionAddress};

use crate::frame::Command;
use crate::inventory::Inventory;
use crate::net_address::AddressEntry;

/// Most headers in a `headers` message (Core `MAX_HEADERS_RESULTS`).
pub const MAX_HEADERS: usize = 2_000;

/// Most entries in `inv`, `getdata` and `notfound` (Core `MAX_INV_SZ`).
pub(crate) const MAX_INVENTORY: usize = 50_000;

/// Most addresses in `addr` and `addrv2` (Core `MAX_ADDR_TO_SEND`).
pub(crate) const MAX_ADDRESSES: usize = 1_000;

/// Most hashes in a locator (Core `MAX_LOCATOR_SZ`).
pub(crate) const MAX_LOCATOR: usize = 101;

/// Version field of a locator, which no node reads (Core `CBlockLocator::DUMMY_VERSION`).
const LOCATOR_VERSION: i32 = 70_016;

/// A message. `block` has no variant: its payload is handed on without being decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    Version(Box<Version>),
    Verack,
    /// The sender wants transactions announced by wtxid (BIP339).
    WtxidRelay,
    /// The sender understands `addrv2` (BIP155).
    SendAddrV2,
    /// The sender wants blocks announced by header (BIP130).
    SendHeaders,
    /// The sender wants no transactions below this fee rate, in satoshi per 1,000 virtual bytes
    /// (BIP133).
    FeeFilter(i64),
    /// The sender understands compact blocks of this version; `announce`: they may be sent unasked
    /// (BIP152).
    SendCmpct {
        announce: bool,
        version: u64,
    },
    /// Without nonce up to protocol version 60,000 (BIP31).
    Ping(Option<u64>),
    Pong(u64),
    GetAddr,
    Addr(Vec<AddressEntry>),
    /// Decoding skips addresses of networks that this software does not know.
    AddrV2(Vec<AddressEntry>),
    Inv(Vec<Inventory>),
    GetData(Vec<Inventory>),
    NotFound(Vec<Inventory>),
    GetHeaders(Locator),
    GetBlocks(Locator),
    Headers(Vec<BlockHeader>),
    CmpctBlock(CompactBlock),
    GetBlockTxn(BlockTransactionsRequest),
    BlockTxn(BlockTransactions),
    /// The sender wants to know of compact filters (BIP157).
    GetFilters(FilterRequest),
}

/// A block locator: where the other side is to continue our chain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Locator {
    /// Blocks of the asking side's chain, the newest first.
    pub hashes: Vec<BlockHash>,
    /// Last block that is wanted; zero for as many as fit.
    pub stop: BlockHash,
}

/// Why a payload does not decode.
///
/// Where this says "dropped", Core throws: the message is ignored and the peer stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageError {
    /// The bytes end early, or a number is not in its canonical form. Core: dropped.
    Malformed(DecodeError),
    /// A user agent of more than 256 bytes. Core: dropped.
    UserAgentTooLong,
    /// An address of a known network with a wrong length, or of an unknown one with more than 512
    /// bytes (BIP155). Core: dropped.
    AddressLength {
        /// The network's number in BIP155.
        network: u8,
        /// Value of the length field, in bytes.
        length: u64,
    },
    /// A position in a block that does not fit 16 bits (BIP152). Core: dropped.
    PositionTooLarge,
    /// More entries than the protocol allows. Core: `Misbehaving`; for a locator, only a
    /// disconnect; `notfound` is ignored.
    TooMany {
        command: Command,
        /// Entries that it claims.
        count: u64,
        /// Entries that it may have.
        limit: usize,
    },
    /// A compact block whose positions do not add up. Core: `READ_STATUS_INVALID`, `Misbehaving`.
    InvalidCompactBlock,
}

impl From<DecodeError> for MessageError {
    fn from(error: DecodeError) -> Self {
        Self::Malformed(error)
    }
}

impl fmt::Display for MessageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(error) => error.fmt(f),
            Self::UserAgentTooLong => write!(f, "user agent longer than {MAX_USER_AGENT} bytes"),
            Self::AddressLength { network, length } => {
                write!(f, "address of {length} bytes in BIP155 network {network}")
            }
            Self::PositionTooLarge => f.write_str("position in block overflows 16 bits"),
            Self::TooMany { command, count, limit } => {
                write!(f, "{command} message size = {count}, limit {limit}")
            }
            Self::InvalidCompactBlock => f.write_str("invalid compact block"),
        }
    }
}

impl std::error::Error for MessageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed(error) => Some(error),
            _ => None,
        }
    }
}

impl Message {
    pub fn command(&self) -> Command {
        match self {
            Self::Version(_) => Command::VERSION,
            Self::Verack => Command::VERACK,
            Self::WtxidRelay => Command::WTXIDRELAY,
            Self::SendAddrV2 => Command::SENDADDRV2,
            Self::SendHeaders => Command::SENDHEADERS,
            Self::FeeFilter(_) => Command::FEEFILTER,
            Self::SendCmpct { .. } => Command::SENDCMPCT,
            Self::Ping(_) => Command::PING,
            Self::Pong(_) => Command::PONG,
            Self::GetAddr => Command::GETADDR,
            Self::Addr(_) => Command::ADDR,
            Self::AddrV2(_) => Command::ADDRV2,
            Self::Inv(_) => Command::INV,
            Self::GetData(_) => Command::GETDATA,
            Self::NotFound(_) => Command::NOTFOUND,
            Self::GetHeaders(_) => Command::GETHEADERS,
            Self::GetBlocks(_) => Command::GETBLOCKS,
            Self::Headers(_) => Command::HEADERS,
            Self::CmpctBlock(_) => Command::CMPCTBLOCK,
            Self::GetBlockTxn(_) => Command::GETBLOCKTXN,
            Self::BlockTxn(_) => Command::BLOCKTXN,
            Self::GetFilters(request) => request.query.command(),
        }
    }

    /// Appends the payload.
    ///
    /// # Panics
    ///
    /// When positions of a compact block or of a request do not increase.
    pub fn encode(&self, out: &mut DataStream) {
        match self {
            Self::Version(version) => version.encode(out),
            Self::Verack | Self::WtxidRelay | Self::SendAddrV2 => {}
            Self::SendHeaders | Self::GetAddr => {}
            Self::FeeFilter(rate) => out.write_i64(*rate),
            Self::SendCmpct { announce, version } => {
                out.write_u8((*announce).into());
                out.write_u64(*version);
            }
            Self::Ping(nonce) => nonce.iter().for_each(|nonce| out.write_u64(*nonce)),
            Self::Pong(nonce) => out.write_u64(*nonce),
            Self::Addr(entries) => encode_addresses(entries, AddressEntry::encode_v1, out),
            Self::AddrV2(entries) => encode_addresses(entries, AddressEntry::encode_v2, out),
            Self::Inv(entries) | Self::GetData(entries) | Self::NotFound(entries) => {
                out.put(entries);
            }
            Self::GetHeaders(locator) | Self::GetBlocks(locator) => locator.encode(out),
            Self::Headers(headers) => encode_headers(headers, out),
            Self::CmpctBlock(block) => block.encode(out),
            Self::GetBlockTxn(request) => request.encode(out),
            Self::BlockTxn(answer) => answer.encode(out),
            Self::GetFilters(request) => request.encode(out),
        }
    }

    /// Decodes a payload; `None` for an unknown command, and for `block`.
    pub fn decode(command: Command, payload: &[u8]) -> Result<Option<Self>, MessageError> {
        let reader = &mut SpanReader::new(payload);
        Ok(Some(match command {
            Command::VERSION => Self::Version(Box::new(Version::decode(reader)?)),
            Command::VERACK => Self::Verack,
            Command::WTXIDRELAY => Self::WtxidRelay,
            Command::SENDADDRV2 => Self::SendAddrV2,
            Command::SENDHEADERS => Self::SendHeaders,
            Command::FEEFILTER => Self::FeeFilter(reader.i64()?),
            Command::SENDCMPCT => {
                Self::SendCmpct { announce: reader.u8()? != 0, version: reader.u64()? }
            }
            Command::PING if payload.is_empty() => Self::Ping(None),
            Command::PING => Self::Ping(Some(reader.u64()?)),
            Command::PONG => Self::Pong(reader.u64()?),
            Command::GETADDR => Self::GetAddr,
            Command::ADDR => Self::Addr(decode_addr(reader)?),
            Command::ADDRV2 => Self::AddrV2(decode_addrv2(reader)?),
            Command::INV => Self::Inv(decode_inventory(reader, command)?),
            Command::GETDATA => Self::GetData(decode_inventory(reader, command)?),
            Command::NOTFOUND => Self::NotFound(decode_inventory(reader, command)?),
            Command::GETHEADERS => Self::GetHeaders(Locator::decode(reader, command)?),
            Command::GETBLOCKS => Self::GetBlocks(Locator::decode(reader, command)?),
            Command::HEADERS => Self::Headers(decode_headers(reader)?),
            Command::CMPCTBLOCK => Self::CmpctBlock(CompactBlock::decode(reader)?),
            Command::GETBLOCKTXN => Self::GetBlockTxn(BlockTransactionsRequest::decode(reader)?),
            Command::BLOCKTXN => Self::BlockTxn(BlockTransactions::decode(reader)?),
            Command::GETCFILTERS | Command::GETCFHEADERS | Command::GETCFCHECKPT => {
                let query = match command {
                    Command::GETCFILTERS => FilterQuery::Filters,
                    Command::GETCFHEADERS => FilterQuery::Headers,
                    _ => FilterQuery::Checkpoints,
                };
                Self::GetFilters(FilterRequest::decode(query, reader)?)
            }
            _ => return Ok(None),
        }))
    }
}

/// The header of a `block` payload, or of the part of it that has arrived.
pub fn block_header_of(payload: &[u8]) -> Option<BlockHeader> {
    BlockHeader::decode(&mut SpanReader::new(payload)).ok()
}

/// Reads a count of entries, of which at most `limit` are allowed.
fn bounded_count(
    reader: &mut SpanReader<'_>,
    command: Command,
    limit: usize,
) -> Result<usize, MessageError> {
    let count = reader.compact_size()?;
    if count > limit as u64 {
        return Err(MessageError::TooMany { command, count, limit });
    }
    Ok(count as usize)
}

/// Returns `count`, or an error if that many entries of `size` bytes do not fit what remains.
fn present(count: usize, size: usize, reader: &SpanReader<'_>) -> Result<usize, MessageError> {
    if count > reader.remaining() / size {
        return Err(DecodeError::UnexpectedEnd.into());
    }
    Ok(count)
}

fn encode_addresses(
    entries: &[AddressEntry],
    encode: impl Fn(&AddressEntry, &mut DataStream),
    out: &mut DataStream,
) {
    out.write_compact_size(entries.len() as u64);
    entries.iter().for_each(|entry| encode(entry, out));
}

fn decode_addr(reader: &mut SpanReader<'_>) -> Result<Vec<AddressEntry>, MessageError> {
    let count = bounded_count(reader, Command::ADDR, MAX_ADDRESSES)?;
    let count = present(count, AddressEntry::V1_SIZE, reader)?;
    (0..count).map(|_| AddressEntry::decode_v1(reader).map_err(Into::into)).collect()
}

fn decode_addrv2(reader: &mut SpanReader<'_>) -> Result<Vec<AddressEntry>, MessageError> {
    let count = bounded_count(reader, Command::ADDRV2, MAX_ADDRESSES)?;
    let count = present(count, AddressEntry::V2_MIN_SIZE, reader)?;
    (0..count).map(|_| AddressEntry::decode_v2_told(reader)).collect()
}

fn decode_inventory(
    reader: &mut SpanReader<'_>,
    command: Command,
) -> Result<Vec<Inventory>, MessageError> {
    let count = bounded_count(reader, command, MAX_INVENTORY)?;
    Ok(Inventory::decode_all(count, reader)?)
}

/// Writes headers, each followed by a count of transactions, which is zero.
fn encode_headers(headers: &[BlockHeader], out: &mut DataStream) {
    out.write_compact_size(headers.len() as u64);
    for header in headers {
        out.put(header);
        out.write_compact_size(0);
    }
}

fn decode_headers(reader: &mut SpanReader<'_>) -> Result<Vec<BlockHeader>, MessageError> {
    let count = bounded_count(reader, Command::HEADERS, MAX_HEADERS)?;
    let mut headers = Vec::with_capacity(present(count, HEADER_SIZE + 1, reader)?);
    for _ in 0..count {
        headers.push(BlockHeader::decode(reader)?);
        reader.compact_size()?;
    }
    Ok(headers)
}

impl Locator {
    fn encode(&self, out: &mut DataStream) {
        out.write_i32(LOCATOR_VERSION);
        out.put(&self.hashes);
        out.put(&self.stop);
    }

    fn decode(reader: &mut SpanReader<'_>, command: Command) -> Result<Self, MessageError> {
        reader.skip(4)?;
        let count = bounded_count(reader, command, MAX_LOCATOR)?;
        let hashes = BlockHash::decode_all(count, reader)?;
        Ok(Self { hashes, stop: BlockHash::decode(reader)? })
    }
}

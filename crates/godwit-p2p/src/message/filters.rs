//! Messages about compact block filters (BIP157).

use godwit_primitives::BlockHash;
use godwit_stream::{BufferPool, Decode, PooledStream, SpanReader};

use super::MessageError;
use crate::frame::Command;

/// The type of basic filters, the only one.
pub(crate) const BASIC_FILTER: u8 = 0;

/// Most filters of one request (Core `MAX_GETCFILTERS_SIZE`).
const MAX_FILTERS: u32 = 1_000;

/// Most filter hashes of one request (Core `MAX_GETCFHEADERS_SIZE`).
const MAX_FILTER_HEADERS: u32 = 2_000;

/// Blocks from one checkpoint to the next (Core `CFCHECKPT_INTERVAL`).
pub(crate) const CHECKPOINT_INTERVAL: u32 = 1_000;

/// What is asked about filters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FilterQuery {
    /// The filters of blocks, a message for each.
    Filters,
    /// The header of the first filter's predecessor, and the hashes of filters.
    Headers,
    /// The header of every thousandth filter.
    Checkpoints,
}

impl FilterQuery {
    /// Of the messages that ask.
    pub(crate) fn command(self) -> Command {
        match self {
            Self::Filters => Command::GETCFILTERS,
            Self::Headers => Command::GETCFHEADERS,
            Self::Checkpoints => Command::GETCFCHECKPT,
        }
    }

    /// Of those that answer.
    pub(crate) fn answer(self) -> Command {
        match self {
            Self::Filters => Command::CFILTER,
            Self::Headers => Command::CFHEADERS,
            Self::Checkpoints => Command::CFCHECKPT,
        }
    }

    /// From how many blocks on a request is refused.
    pub(crate) fn too_many(self) -> u32 {
        match self {
            Self::Filters => MAX_FILTERS,
            Self::Headers => MAX_FILTER_HEADERS,
            Self::Checkpoints => u32::MAX,
        }
    }
}

/// A request about the filters of the chain that ends in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterRequest {
    pub query: FilterQuery,
    pub filter_type: u8,
    /// Height of the first block; 0 for checkpoints.
    pub start: u32,
    /// The last block.
    pub stop: BlockHash,
}

impl FilterRequest {
    pub(super) fn decode(
        query: FilterQuery,
        reader: &mut SpanReader<'_>,
    ) -> Result<Self, MessageError> {
        let filter_type = reader.u8()?;
        let start = if query == FilterQuery::Checkpoints { 0 } else { reader.u32()? };
        Ok(Self { query, filter_type, start, stop: BlockHash::decode(reader)? })
    }

    pub(super) fn encode(&self, out: &mut godwit_stream::DataStream) {
        out.write_u8(self.filter_type);
        if self.query != FilterQuery::Checkpoints {
            out.write_u32(self.start);
        }
        out.put(&self.stop);
    }
}

/// What is read for a request: all of an answer but that it is of basic filters of the chain up to a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FilterData {
    /// The filters of some blocks, the first ones that were asked for, and none of them empty.
    Filters(Vec<(BlockHash, Vec<u8>)>),
    Headers {
        previous: [u8; 32],
        hashes: Vec<[u8; 32]>,
    },
    Checkpoints(Vec<[u8; 32]>),
}

impl FilterData {
    /// The payloads of the messages that tell it.
    pub(crate) fn payloads(&self, stop: &BlockHash, pool: &BufferPool) -> Vec<PooledStream> {
        let begin = |len: usize| {
            let mut payload = pool.take_for(len);
            payload.write_u8(BASIC_FILTER);
            payload
        };
        let list = |payload: &mut PooledStream, hashes: &[[u8; 32]]| {
            payload.write_compact_size(hashes.len() as u64);
            hashes.iter().for_each(|hash| payload.write(hash));
        };
        match self {
            Self::Filters(filters) => {
                let payload = |(block, filter): &(BlockHash, Vec<u8>)| {
                    let mut payload = begin(42 + filter.len());
                    payload.put(block);
                    payload.write_compact_size(filter.len() as u64);
                    payload.write(filter);
                    payload
                };
                filters.iter().map(payload).collect()
            }
            Self::Headers { previous, hashes } => {
                let mut payload = begin(74 + 32 * hashes.len());
                payload.put(stop);
                payload.write(previous);
                list(&mut payload, hashes);
                vec![payload]
            }
            Self::Checkpoints(headers) => {
                let mut payload = begin(42 + 32 * headers.len());
                payload.put(stop);
                list(&mut payload, headers);
                vec![payload]
            }
        }
    }
}

//! The engine's requests to its driver: commands for the sockets and questions to the chain.

use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::PooledStream;

use super::misbehaviour::DisconnectReason;
use crate::frame::Command;
use crate::index::HeaderId;
use crate::message::FilterQuery;
use crate::peer_id::PeerId;
use crate::target::Target;
use crate::tx_outbox::OutboxChange;

/// An inbound connection that has no [`PeerId`] yet. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// Id of a [`ChainRequest::ReadBlock`] or [`ChainRequest::ReadFilters`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// Bytes of filters after which a reader takes no more at once: with the longest one behind them they are
/// less than a block.
pub const FILTER_BYTES: usize = 1 << 20;

/// A block whose filter is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FilterBlock {
    pub hash: BlockHash,
    pub height: u32,
}

/// What is to be read of the index of filters. It is answered if the filter of `stop` is there; for
/// checkpoints, if those of `blocks` are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterRead {
    pub query: FilterQuery,
    /// The last block of the request.
    pub stop: FilterBlock,
    /// Before the first block, for [`FilterQuery::Headers`].
    pub previous: Option<FilterBlock>,
    /// From the lowest up.
    pub blocks: Vec<FilterBlock>,
}

/// What the driver has to do. Actions are done in order.
#[derive(Debug)]
pub enum Action {
    Net(NetCommand),
    Chain(ChainRequest),
    /// Look a host name up; answer with [`NetEvent::Resolved`](super::NetEvent::Resolved).
    Resolve {
        /// Name of a seed or of a configured peer.
        host: String,
    },
    /// Tell who follows what waits in the outbox.
    Outbox(OutboxChange),
}

impl From<OutboxChange> for Action {
    fn from(change: OutboxChange) -> Self {
        Self::Outbox(change)
    }
}

impl From<NetCommand> for Action {
    fn from(command: NetCommand) -> Self {
        Self::Net(command)
    }
}

impl From<ChainRequest> for Action {
    fn from(request: ChainRequest) -> Self {
        Self::Chain(request)
    }
}

/// What the sockets have to do. Commands are done in order.
#[derive(Debug)]
pub enum NetCommand {
    /// Start to read from an inbound connection.
    Adopt {
        socket: SocketId,
        /// Its id from now on.
        peer: PeerId,
    },
    /// Close an inbound connection: there is no slot for it, or its address is discouraged.
    Refuse { socket: SocketId },
    /// Open a connection; answer with [`NetEvent::Connected`](super::NetEvent::Connected) or
    /// [`NetEvent::ConnectFailed`](super::NetEvent::ConnectFailed).
    Connect {
        /// The id that the peer will have.
        peer: PeerId,
        target: Target,
        /// Begin with the encrypted protocol, and fall back to plain if the other side does not
        /// understand it.
        v2: bool,
    },
    /// Queue a message on the peer's connection.
    Send { peer: PeerId, command: Command, payload: PooledStream },
    /// Go on reading from a peer after a message that [stops reading](Command::stops_reading). Each
    /// of these messages is followed by exactly one such command, unless the peer is disconnected.
    ReadOn { peer: PeerId },
    /// Read nothing from a peer while more than this waits to be written to it, unless a block is
    /// expected from it. The limit is [`SEND_PAUSE`](super::SEND_PAUSE) before the first of these
    /// commands, and less while memory is short.
    PauseAbove {
        /// Bytes of messages that are not completely written, headers included.
        queued: usize,
    },
    /// Keep the payloads of `block` and `blocktxn` from this peer, or discard them as they arrive,
    /// as at first.
    ExpectBlock { peer: PeerId, expected: bool },
    /// The same for `cmpctblock`.
    ExpectCompact { peer: PeerId, expected: bool },
    /// Close the connection; what is queued on it need not be sent. The engine has forgotten the
    /// peer already: a [`NetEvent::Closed`](super::NetEvent::Closed) for it is not needed, and is
    /// ignored like frames that still arrive from it.
    Disconnect {
        peer: PeerId,
        /// The engine has logged it.
        why: DisconnectReason,
    },
}

/// What the engine asks of the chain.
#[derive(Debug)]
pub enum ChainRequest {
    /// Put headers into the index, in order, and answer with
    /// [`ChainEvent::HeadersJudged`](super::ChainEvent::HeadersJudged) *before handing in any other
    /// event*. The headers are continuous, have the proof of work that they claim, and the first
    /// one's parent is in the index.
    SubmitHeaders {
        peer: PeerId,
        /// Never empty; at most 2000, and after a pre-sync also those that it held back (below
        /// 20,000).
        headers: Vec<BlockHeader>,
    },
    /// Check and store a block; answer with [`ChainEvent::BlockJudged`](super::ChainEvent::BlockJudged),
    /// at any later time. Its header is in the index.
    SubmitBlock {
        peer: PeerId,
        /// Hash of its first 80 bytes.
        hash: BlockHash,
        /// The block as it arrived, not decoded.
        bytes: PooledStream,
    },
    /// Read a stored block; answer with [`ChainEvent::BlockRead`](super::ChainEvent::BlockRead), at any
    /// later time. At most one is outstanding per peer.
    ReadBlock {
        /// Returned with the answer.
        request: ReadId,
        /// The peer that the block is for; if it leaves, the answer is dropped.
        peer: PeerId,
        id: HeaderId,
        /// The bytes are sent as they are, so they need not be decoded.
        raw: bool,
    },
    /// Read of the index of filters; answer with
    /// [`ChainEvent::FiltersRead`](super::ChainEvent::FiltersRead), at any later time. It counts as a read
    /// of a block does.
    ReadFilters {
        /// Returned with the answer.
        request: ReadId,
        read: FilterRead,
    },
}

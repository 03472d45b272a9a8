//! What the driver reports to the engine.

use std::fmt;

use godwit_consensus::{Reject, Verdict};
use godwit_primitives::BlockHash;
use godwit_stream::PooledStream;

use super::action::{ReadId, SocketId};
use super::operator::NodeCommand;
use crate::frame::{Command, Frame};
use crate::index::HeaderId;
use crate::message::FilterData;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::permissions::Entrance;
use crate::transport::{Discard, Protocol, TransportError};

/// What happened. After each event the driver takes the actions and does them in order.
#[derive(Debug)]
pub enum Event {
    Net(NetEvent),
    Chain(ChainEvent),
    /// Time has passed: the engine does everything that is due. To be handed in at
    /// [`Peers::next_wakeup`](super::Peers::next_wakeup) and after other events.
    Tick {
        /// Bytes of blocks that the chain can take beyond those that it was given. The engine
        /// itself subtracts what is in flight.
        room: u64,
    },
    /// `-networkactive`: false disconnects all peers, abandons connections that are being opened,
    /// and opens no more.
    NetworkActive(bool),
    /// The operator wants something.
    Operator(NodeCommand),
}

impl NetEvent {
    /// The peer whose connection the event is about; `None` if the engine has not given it an id.
    pub fn peer(&self) -> Option<PeerId> {
        match self {
            Self::Connected { peer, .. }
            | Self::ConnectFailed { peer, .. }
            | Self::Protocol { peer, .. }
            | Self::Frame { peer, .. }
            | Self::Arriving { peer, .. }
            | Self::Receiving { peer, .. }
            | Self::Discarded { peer, .. }
            | Self::TransportFailed { peer, .. }
            | Self::Closed { peer }
            | Self::Sent { peer, .. } => Some(*peer),
            Self::Inbound { .. } | Self::Resolved { .. } => None,
        }
    }
}

impl From<NetEvent> for Event {
    fn from(event: NetEvent) -> Self {
        Self::Net(event)
    }
}

impl From<ChainEvent> for Event {
    fn from(event: ChainEvent) -> Self {
        Self::Chain(event)
    }
}

/// What happened on the network. Events of one peer are in order.
#[derive(Debug)]
pub enum NetEvent {
    /// An inbound connection; the engine answers with
    /// [`NetCommand::Adopt`](super::NetCommand::Adopt) or
    /// [`NetCommand::Refuse`](super::NetCommand::Refuse).
    Inbound {
        socket: SocketId,
        address: NetAddress,
        /// The address of ours to which it came, also where the listening socket has many.
        called: NetAddress,
        /// Of the listening socket.
        entrance: Entrance,
    },
    /// A connection that the engine asked for was opened; through a proxy, when the proxy says so.
    Connected {
        /// As in [`NetCommand::Connect`](super::NetCommand::Connect).
        peer: PeerId,
        /// The other end; `None` for a name that a proxy resolved.
        address: Option<NetAddress>,
    },
    /// A connection that the engine asked for failed.
    ConnectFailed {
        /// As in [`NetCommand::Connect`](super::NetCommand::Connect).
        peer: PeerId,
        why: ConnectFailure,
    },
    /// The protocol of the connection. Comes before its first message.
    Protocol { peer: PeerId, protocol: Protocol },
    /// A message arrived. After one that [stops reading](Command::stops_reading), none follows
    /// before [`NetCommand::ReadOn`](super::NetCommand::ReadOn).
    Frame { peer: PeerId, frame: Frame },
    /// More bytes of the payload of a `block` or `headers` message arrived. Comes before the
    /// message's [`Frame`](Self::Frame); all of them add up to the length of the payload. Rates are
    /// measured by this.
    Arriving { peer: PeerId, command: Command, bytes: usize },
    /// The memory that the peer's incomplete message takes by now. [`Frame`](Self::Frame) and
    /// [`Discarded`](Self::Discarded) reset it to zero.
    Receiving {
        peer: PeerId,
        /// Capacity of its buffer, in bytes.
        memory: usize,
    },
    /// A message was discarded as it arrived.
    Discarded { peer: PeerId, discard: Discard },
    /// The peer's bytes are not the protocol; nothing more is read from it.
    TransportFailed { peer: PeerId, error: TransportError },
    /// The other side closed the connection, or it failed.
    Closed { peer: PeerId },
    /// Bytes were written to the peer. A count and not the length of the queue: messages that are
    /// queued meanwhile cannot make a late report wrong.
    Sent {
        peer: PeerId,
        /// Bytes written since the last such event, message headers included.
        bytes: usize,
    },
    /// The lookup of a host name has ended.
    Resolved {
        host: String,
        /// Empty when the lookup failed. The ports do not matter.
        addresses: Vec<NetAddress>,
    },
}

/// What is known of the reason why a connection could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectFailure {
    /// This machine's network or proxy failed, which says nothing about the address.
    Local,
    /// This machine has no way to the address's network, or its line is down.
    NoRoute,
    /// Nothing came back in time, neither from the address nor from a proxy that was asked for it:
    /// there is nobody, or something is wrong on the way.
    Unanswered,
    /// The other side refused, or a proxy could not reach it.
    Refused,
}

impl fmt::Display for ConnectFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Local => "our own network or proxy is at fault",
            Self::NoRoute => "no route to its network",
            Self::Unanswered => "no answer",
            Self::Refused => "refused",
        })
    }
}

/// What happened to the chain: answers to a [`ChainRequest`](super::ChainRequest), and news.
#[derive(Debug)]
pub enum ChainEvent {
    /// Answer to [`SubmitHeaders`](super::ChainRequest::SubmitHeaders).
    HeadersJudged {
        peer: PeerId,
        /// The last header, new or known; or the one that was refused.
        result: Result<HeaderId, RefusedHeader>,
    },
    /// Answer to [`SubmitBlock`](super::ChainRequest::SubmitBlock).
    BlockJudged {
        hash: BlockHash,
        /// What the chain says of it; whether a stored block is valid shows when it is connected
        /// ([`TipChanged`](Self::TipChanged), [`BlockInvalid`](Self::BlockInvalid)).
        verdict: Verdict,
    },
    /// A stored block turned out invalid when it was connected.
    BlockInvalid { hash: BlockHash, reject: Reject },
    /// The bytes of a stored block are damaged: it is to be fetched and submitted again.
    BlockLost { hash: BlockHash },
    /// The index has another tip, or the initial download ended (or, in theory, began again). One
    /// event may stand for several blocks.
    TipChanged {
        /// The chain has not been up to date since the start.
        initial_download: bool,
    },
    /// Answer to [`ReadBlock`](super::ChainRequest::ReadBlock).
    BlockRead {
        request: ReadId,
        /// The bytes of the block; `None` when it could not be read.
        bytes: Option<PooledStream>,
    },
    /// Answer to [`ReadFilters`](super::ChainRequest::ReadFilters).
    FiltersRead {
        request: ReadId,
        /// What was asked for, of filters the first ones; `None` when something is missing.
        data: Option<FilterData>,
    },
}

/// The first header of a [`SubmitHeaders`](super::ChainRequest::SubmitHeaders) that the driver's
/// index refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RefusedHeader {
    pub reject: Reject,
    /// Its place among those submitted; the ones before it were accepted.
    pub index_of_bad: usize,
}

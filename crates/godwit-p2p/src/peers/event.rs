//! What the driver tells the engine.

use godwit_consensus::{Reject, Verdict};
use godwit_primitives::BlockHash;
use godwit_stream::PooledStream;

use super::action::{ReadId, SocketId};
use crate::frame::{Command, Frame};
use crate::index::HeaderId;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::transport::{Discard, Protocol, TransportError};

/// Something that happened. After each the driver takes the actions and does them in order.
#[derive(Debug)]
pub enum Event {
    /// On the network.
    Net(NetEvent),
    /// To the chain.
    Chain(ChainEvent),
    /// Time has passed: everything that is due is done. To be told at
    /// [`Peers::next_wakeup`](super::Peers::next_wakeup) and after other events.
    Tick {
        /// Bytes of blocks that the chain can take beyond those that were handed to it; what was
        /// requested is counted here.
        room: u64,
    },
    /// `-networkactive`: false disconnects everybody and opens nothing any more. Connections on their way
    /// are ended, too.
    NetworkActive(bool),
}

impl NetEvent {
    /// Whose connection it concerns, if the engine knows that by a name.
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

/// Something that happened on the network. Those of one peer come in order.
#[derive(Debug)]
pub enum NetEvent {
    /// Somebody connected; answered with [`NetCommand::Adopt`](super::NetCommand::Adopt) or
    /// [`NetCommand::Refuse`](super::NetCommand::Refuse).
    Inbound {
        /// The connection.
        socket: SocketId,
        /// The other end.
        address: NetAddress,
    },
    /// A connection that was asked for is there; through a proxy: the proxy said so.
    Connected {
        /// As in [`NetCommand::Connect`](super::NetCommand::Connect).
        peer: PeerId,
        /// To whom, where that is known: not for a name that a proxy resolved.
        address: Option<NetAddress>,
    },
    /// A connection that was asked for failed.
    ConnectFailed {
        /// As in [`NetCommand::Connect`](super::NetCommand::Connect).
        peer: PeerId,
        /// This machine's network or its proxy is at fault, so that it tells nothing about the address.
        local: bool,
    },
    /// How the connection is spoken; before the first message.
    Protocol {
        /// With whom.
        peer: PeerId,
        /// How.
        protocol: Protocol,
    },
    /// A message arrived. After one that [stops reading](Command::stops_reading) no other follows
    /// before [`NetCommand::ReadOn`](super::NetCommand::ReadOn).
    Frame {
        /// From whom.
        peer: PeerId,
        /// The message.
        frame: Frame,
    },
    /// So many more bytes of the payload of a `block` or `headers` message arrived, before the message is
    /// complete or with it. Told before its [`Frame`](Self::Frame), and altogether the payload's length:
    /// rates are measured by it.
    Arriving {
        /// From whom.
        peer: PeerId,
        /// Which of the two messages.
        command: Command,
        /// How many.
        bytes: usize,
    },
    /// The message that a peer is sending takes so much memory by now, complete or not. After a
    /// [`Frame`](Self::Frame) or a [`Discarded`](Self::Discarded) there is nothing of it.
    Receiving {
        /// From whom.
        peer: PeerId,
        /// Capacity of its buffer, in bytes.
        memory: usize,
    },
    /// A message was dropped while it was received.
    Discarded {
        /// From whom.
        peer: PeerId,
        /// The message.
        discard: Discard,
    },
    /// What the peer sends is not the protocol; nothing more is read from it.
    TransportFailed {
        /// The sender.
        peer: PeerId,
        /// Why.
        error: TransportError,
    },
    /// The connection ended, by the other side or by a failure.
    Closed {
        /// The other side.
        peer: PeerId,
    },
    /// Bytes were written to the peer. How much is still queued is reckoned from that and from what was
    /// sent, so that a report that is late takes nothing off that was queued after it.
    Sent {
        /// To whom.
        peer: PeerId,
        /// Bytes written since the last such event, message headers included.
        bytes: usize,
    },
    /// A host name was looked up, or could not be.
    Resolved {
        /// The name.
        host: String,
        /// Its addresses; none when it failed. Their ports do not matter.
        addresses: Vec<NetAddress>,
    },
}

/// Something that happened to the chain: answers to a [`ChainRequest`](super::ChainRequest), and news.
#[derive(Debug)]
pub enum ChainEvent {
    /// Answer to [`SubmitHeaders`](super::ChainRequest::SubmitHeaders).
    HeadersJudged {
        /// Who sent them.
        peer: PeerId,
        /// The last of them, taken now or before; or why one was refused.
        result: Result<HeaderId, HeaderFault>,
    },
    /// Answer to [`SubmitBlock`](super::ChainRequest::SubmitBlock).
    BlockJudged {
        /// The block.
        hash: BlockHash,
        /// What the chain says of it; whether a stored block is valid shows when it is connected
        /// ([`TipChanged`](Self::TipChanged), [`BlockInvalid`](Self::BlockInvalid)).
        verdict: Verdict,
    },
    /// A stored block turned out invalid when it was connected.
    BlockInvalid {
        /// The block.
        hash: BlockHash,
        /// The broken rule.
        reject: Reject,
    },
    /// The index has another tip, or the initial download ended (or, in theory, began again). Once for
    /// several blocks is enough.
    TipChanged {
        /// The chain was never up to date since the start.
        initial_download: bool,
    },
    /// Answer to [`ReadBlock`](super::ChainRequest::ReadBlock).
    BlockRead {
        /// As in the request.
        request: ReadId,
        /// The bytes of the block; `None` when they can not be had.
        bytes: Option<PooledStream>,
    },
}

/// Why the driver's index did not take all headers of a
/// [`SubmitHeaders`](super::ChainRequest::SubmitHeaders).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// The broken rule.
    pub reject: Reject,
    /// Place of the offending header among those submitted; the ones before were taken.
    pub index_of_bad: usize,
}

//! What the engine asks of its driver, in the words in which the sockets and the chain take it.

use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::PooledStream;

use super::fault::DisconnectReason;
use crate::frame::Command;
use crate::index::HeaderId;
use crate::peer_id::PeerId;
use crate::target::Target;

/// A connection that somebody opened to this node, until it has a [`PeerId`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// Names one [`ChainRequest::ReadBlock`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// What the driver has to do, in order.
#[derive(Debug)]
pub enum Action {
    /// On the network.
    Net(NetCommand),
    /// With the chain.
    Chain(ChainRequest),
    /// Look a host name up; answer with [`NetEvent::Resolved`](super::NetEvent::Resolved).
    Resolve {
        /// A seed's or a configured peer's name.
        host: String,
    },
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

/// What the network is to do, in order.
#[derive(Debug)]
pub enum NetCommand {
    /// Read from a connection that somebody opened.
    Adopt {
        /// The connection.
        socket: SocketId,
        /// Its name from now on.
        peer: PeerId,
    },
    /// Close a connection that somebody opened: there is no place, or its address is discouraged.
    Refuse {
        /// The connection.
        socket: SocketId,
    },
    /// Open a connection; answer with [`NetEvent::Connected`](super::NetEvent::Connected) or
    /// [`NetEvent::ConnectFailed`](super::NetEvent::ConnectFailed).
    Connect {
        /// The name that the peer will have.
        peer: PeerId,
        /// Where to.
        target: Target,
        /// Begin with the encrypted protocol; in plain if the other side does not understand that.
        v2: bool,
    },
    /// Queue a message on the peer's connection.
    Send {
        /// To whom.
        peer: PeerId,
        /// Message type.
        command: Command,
        /// Payload.
        payload: PooledStream,
    },
    /// What the peer sent behind its last message that [stops reading](Command::stops_reading) may be read.
    /// Exactly one follows each of these messages, unless the peer is disconnected.
    ReadOn {
        /// The sender.
        peer: PeerId,
    },
    /// Read nothing from peers for which more than this waits to be written, unless a block is expected
    /// of them; [`SEND_PAUSE`](super::SEND_PAUSE) before the first of these, less while memory is short.
    PauseAbove {
        /// Bytes of messages that are not written completely, headers included.
        queued: usize,
    },
    /// Payloads of `block` and `blocktxn` of this peer are to be kept (true) or skimmed off (false, as
    /// at the beginning).
    ExpectBlock {
        /// The sender.
        peer: PeerId,
        /// Whether to keep them.
        expected: bool,
    },
    /// The same for `cmpctblock`.
    ExpectCompact {
        /// The sender.
        peer: PeerId,
        /// Whether to keep them.
        expected: bool,
    },
    /// Close the connection; what is queued on it need not be sent. The engine has forgotten the peer
    /// already: no [`NetEvent::Closed`](super::NetEvent::Closed) for it is needed (one is ignored),
    /// frames that still arrive from it are ignored.
    Disconnect {
        /// The peer.
        peer: PeerId,
        /// Why; the engine has logged it.
        why: DisconnectReason,
    },
}

/// What is asked of the chain.
#[derive(Debug)]
pub enum ChainRequest {
    /// Put headers into the index, in order, and answer with
    /// [`ChainEvent::HeadersJudged`](super::ChainEvent::HeadersJudged) *before the next event is handed
    /// in*. They are continuous, keep their own proof of work, and the first one's parent is in the index.
    SubmitHeaders {
        /// Who sent them.
        peer: PeerId,
        /// Never empty; at most 2000, or after a pre-sync what that held back as well (below 20,000).
        headers: Vec<BlockHeader>,
    },
    /// Check and store a block; answer with [`ChainEvent::BlockJudged`](super::ChainEvent::BlockJudged),
    /// at any later time. Its header is in the index.
    SubmitBlock {
        /// Who sent it.
        peer: PeerId,
        /// Its hash: that of the first 80 bytes.
        hash: BlockHash,
        /// The block as it came; not decoded so far.
        bytes: PooledStream,
    },
    /// Read a stored block; answer with [`ChainEvent::BlockRead`](super::ChainEvent::BlockRead), at any
    /// later time. At most one is outstanding per peer.
    ReadBlock {
        /// To be given back with the answer.
        request: ReadId,
        /// For whom; the answer is dropped when it is gone.
        peer: PeerId,
        /// The block.
        id: HeaderId,
        /// The bytes go out as they are, without being decoded here.
        raw: bool,
    },
}

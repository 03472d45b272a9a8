//! What the node's logic and the network say to each other. Sockets stand behind it in the program, a
//! simulated network in tests.

use godwit_p2p::{
    Command, Discard, DisconnectReason, Frame, NetAddress, PeerId, Protocol, Target, TransportError,
};
use godwit_stream::PooledStream;

/// A connection that somebody opened to this node, until it has a [`PeerId`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SocketId(pub u64);

/// Something that happened on the network. Those of one peer come in order.
#[derive(Debug)]
pub enum NetEvent {
    /// Somebody connected; to be answered with [`NetCommand::Adopt`] or [`NetCommand::Refuse`].
    Inbound {
        /// The connection.
        socket: SocketId,
        /// Who.
        address: NetAddress,
    },
    /// A connection that was asked for is there.
    Connected {
        /// As in [`NetCommand::Connect`].
        peer: PeerId,
        /// To whom, where that is known: not for a name behind a proxy.
        address: Option<NetAddress>,
    },
    /// A connection that was asked for failed.
    ConnectFailed {
        /// As in [`NetCommand::Connect`].
        peer: PeerId,
        /// This machine's network or its proxy is at fault, not the other side.
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
    /// before [`NetCommand::ReadOn`].
    Frame {
        /// From whom.
        peer: PeerId,
        /// The message.
        frame: Frame,
    },
    /// So many more bytes of the payload of a `block` or `headers` message arrived.
    Arriving {
        /// From whom.
        peer: PeerId,
        /// Of which of the two.
        command: Command,
        /// How many.
        bytes: usize,
    },
    /// A message was dropped while it was received.
    Discarded {
        /// From whom.
        peer: PeerId,
        /// What.
        discard: Discard,
    },
    /// What the peer sends is not the protocol; nothing more is read from it.
    TransportFailed {
        /// Who.
        peer: PeerId,
        /// Why.
        error: TransportError,
    },
    /// The connection ended without our doing.
    Closed {
        /// Whose.
        peer: PeerId,
    },
    /// Bytes were written to the peer.
    Sent {
        /// To whom.
        peer: PeerId,
        /// Bytes written since the last such event.
        bytes: usize,
    },
    /// A host name was looked up, or could not be.
    Resolved {
        /// The name.
        host: String,
        /// Its addresses.
        addresses: Vec<NetAddress>,
    },
}

/// What the network is to do, in order.
#[derive(Debug)]
pub enum NetCommand {
    /// Read from a connection that somebody opened.
    Adopt {
        /// Which.
        socket: SocketId,
        /// Its name from now on.
        peer: PeerId,
    },
    /// Close a connection that somebody opened.
    Refuse {
        /// Which.
        socket: SocketId,
    },
    /// Open a connection.
    Connect {
        /// Its name.
        peer: PeerId,
        /// Where to.
        target: Target,
        /// Encrypted, and in plain if the other side does not understand that.
        v2: bool,
    },
    /// Queue a message.
    Send {
        /// To whom.
        peer: PeerId,
        /// Message type.
        command: Command,
        /// Payload.
        payload: PooledStream,
    },
    /// Read what the peer sent behind a message that [stops reading](Command::stops_reading).
    ReadOn {
        /// Of whom.
        peer: PeerId,
    },
    /// Keep blocks of this peer, or drop them as they come.
    ExpectBlock {
        /// Whose.
        peer: PeerId,
        /// Whether to keep them.
        expected: bool,
    },
    /// The same for compact blocks.
    ExpectCompact {
        /// Whose.
        peer: PeerId,
        /// Whether to keep them.
        expected: bool,
    },
    /// Close the connection; what is queued need not be sent. No event follows.
    Disconnect {
        /// Whose.
        peer: PeerId,
        /// Why; the engine has logged it.
        why: DisconnectReason,
    },
}

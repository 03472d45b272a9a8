//! What the engine asks of its driver.

use godwit_consensus::Reject;
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_stream::PooledStream;

use super::fault::DisconnectReason;
use crate::connection_kind::ConnectionKind;
use crate::frame::Command;
use crate::index::HeaderId;
use crate::peer_id::PeerId;
use crate::target::Target;

/// Names one [`Action::ReadBlock`]. Never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReadId(pub u64);

/// What the driver has to do, in order.
#[derive(Debug)]
pub enum Action {
    /// Queue a message on the peer's connection.
    Send {
        /// To whom.
        peer: PeerId,
        /// Message type.
        command: Command,
        /// Payload.
        payload: PooledStream,
    },
    /// Close the connection; what is queued on it need not be sent. The engine has forgotten the peer
    /// already: no [`Peers::closed`](super::Peers::closed) for it is needed (one is ignored), frames
    /// that still arrive from it are ignored.
    Disconnect {
        /// Whom.
        peer: PeerId,
        /// Why.
        why: DisconnectReason,
    },
    /// Open a connection; answer with [`Peers::connected`](super::Peers::connected) or
    /// [`Peers::connect_failed`](super::Peers::connect_failed).
    Connect {
        /// The name that the peer will have.
        peer: PeerId,
        /// Where to.
        target: Target,
        /// What for.
        kind: ConnectionKind,
        /// Begin with the encrypted protocol.
        v2: bool,
    },
    /// Look a host name up; answer with [`Peers::resolved`](super::Peers::resolved), with no addresses
    /// when it failed.
    Resolve {
        /// A seed's or a configured peer's name.
        host: String,
    },
    /// Put headers into the index, in order, and answer with
    /// [`Peers::headers_judged`](super::Peers::headers_judged) *before the next event is handed in*.
    /// They are continuous, keep their own proof of work, and the first one's parent is in the index.
    SubmitHeaders {
        /// Who sent them.
        peer: PeerId,
        /// Never empty; at most 2000, or after a pre-sync what that held back as well (below 20,000).
        headers: Vec<BlockHeader>,
    },
    /// Check and store a block; answer with [`Peers::block_judged`](super::Peers::block_judged), at
    /// any later time. Its header is in the index.
    SubmitBlock {
        /// Who sent it.
        peer: PeerId,
        /// Its hash: that of the first 80 bytes.
        hash: BlockHash,
        /// The block as it came; not decoded so far.
        bytes: PooledStream,
    },
    /// Read a stored block; answer with [`Peers::block_read`](super::Peers::block_read), at any later
    /// time. At most one is outstanding per peer.
    ReadBlock {
        /// To be given back with the answer.
        request: ReadId,
        /// For whom; the answer is dropped when it is gone.
        peer: PeerId,
        /// Which block.
        id: HeaderId,
        /// The bytes go out as they are, without being decoded here.
        raw: bool,
    },
    /// Payloads of `block` and `blocktxn` of this peer are to be kept (true) or skimmed off (false, as
    /// at the beginning).
    ExpectBlock {
        /// Whose.
        peer: PeerId,
        /// Whether.
        expected: bool,
    },
    /// The same for `cmpctblock`.
    ExpectCompact {
        /// Whose.
        peer: PeerId,
        /// Whether.
        expected: bool,
    },
}

/// Why the driver's index did not take all headers of an [`Action::SubmitHeaders`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderFault {
    /// The broken rule.
    pub reject: Reject,
    /// Place of the offending header among those submitted; the ones before were taken.
    pub index_of_bad: usize,
}

/// What became of an [`Action::SubmitBlock`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockJudgement {
    /// It is stored; whether it is valid shows when it is connected
    /// ([`Peers::tip_changed`](super::Peers::tip_changed),
    /// [`Peers::block_invalid`](super::Peers::block_invalid)).
    Stored,
    /// It had been stored before.
    Duplicate,
    /// It breaks a rule.
    Refused(Reject),
    /// The bytes are no block.
    Undecodable,
}

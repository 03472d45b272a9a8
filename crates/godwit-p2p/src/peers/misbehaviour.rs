//! Why connections end, and what is misbehaviour.

use std::fmt;

use godwit_consensus::{RejectReason, ResultClass};

use crate::frame::Command;

/// Why a peer was disconnected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DisconnectReason {
    /// It did what no honest peer does. Its address is discouraged unless it is local.
    Misbehaved(Misbehaviour),
    /// It shares the address of a peer that misbehaved.
    SharesDiscouragedAddress,
    /// `version` and `verack` did not arrive in time.
    HandshakeTimeout,
    /// A ping was not answered in time.
    PingTimeout,
    /// Nothing arrived for a long time.
    Idle,
    /// It is this node.
    SelfConnection,
    /// Its protocol version is too old.
    ObsoleteVersion(i32),
    /// It lacks services that an outbound peer must offer.
    MissingServices,
    /// A message that belongs before `verack` came after it.
    NegotiatedTooLate(Command),
    /// A locator longer than allowed.
    LocatorTooLong,
    /// It sends or announces transactions although it was told not to.
    UnwantedTransactions,
    /// We chose to call it, and it announces more blocks than there are.
    TooManyAnnouncements,
    /// It repeats known headers, or sends headers that lead nowhere, again and again.
    UselessHeaders,
    /// It asks for something that this node does not offer.
    NotOffered(Command),
    /// It asks for filters of an unknown block, of none or of too many.
    FilterRange(Command),
    /// It did not send the headers of a better chain in time, and other peers can.
    HeadersTimeout,
    /// It held up the download of blocks; another peer delivered.
    BlockStalled,
    /// No block arrived from it for a long time while other peers delivered.
    BlockTimeout,
    /// A block from it arrived damaged.
    CorruptBlock,
    /// Its best chain has less work than the network is known to have.
    LittleWork,
    /// Its best chain stayed behind ours.
    StaleChain,
    /// The operator said so.
    ByOperator,
    /// It was not heard again when our own line was back after an outage.
    LostWithLine,
    /// An extra connection, opened to look for a better chain, is no longer needed.
    Extra,
    /// Its slot was given to another inbound peer.
    Evicted,
    /// A feeler connection has shown that the address answers.
    FeelerDone,
    /// An addr-fetch connection delivered its addresses, or timed out.
    AddrFetchDone,
    /// It asks for old blocks and the upload target is reached.
    UploadTarget,
    /// It asks for a block older than a pruned node serves.
    PrunedBlock,
    /// A block that it asked for could not be read.
    BlockUnreadable,
    /// It does not read what it asked for.
    SendQueueFull,
    /// Memory for connections was short, and it held most of it.
    HoldsMemory,
    /// Bytes of another network or protocol.
    WrongMagic,
    /// Its encrypted bytes do not authenticate under the connection's keys.
    Undecryptable,
    /// A message longer than its kind may be.
    Oversized(Command),
    Io,
    /// `-networkactive=0`.
    NetworkInactive,
}

/// What only a broken or hostile peer does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Misbehaviour {
    /// More entries than a message of the kind may have.
    TooManyEntries(Command),
    /// A field with a value that the protocol forbids.
    ForbiddenValue(Command),
    /// A header whose hash does not meet the target that it claims.
    HeaderWithoutWork,
    /// Headers of one message that do not follow one another.
    HeadersNotContinuous,
    /// A header that breaks a rule.
    InvalidHeader(RejectReason),
    /// A block that breaks a rule.
    InvalidBlock(RejectReason),
    /// A `block` message whose payload does not decode.
    UndecodableBlock,
    /// A compact block, or its transactions, that no honest peer sends.
    InvalidCompactBlock,
    /// A request for transactions at positions that the block does not have.
    TransactionsOutOfRange,
}

impl fmt::Display for DisconnectReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Misbehaved(what) => return write!(f, "misbehaving: {what}"),
            Self::SharesDiscouragedAddress => "shares the address of a misbehaving peer",
            Self::HandshakeTimeout => "version handshake timeout",
            Self::PingTimeout => "ping timeout",
            Self::Idle => "nothing received for too long",
            Self::SelfConnection => "connected to self",
            Self::ObsoleteVersion(version) => {
                return write!(f, "obsolete protocol version {version}");
            }
            Self::MissingServices => "does not offer the expected services",
            Self::NegotiatedTooLate(command) => return write!(f, "{command} after verack"),
            Self::LocatorTooLong => "locator too long",
            Self::UnwantedTransactions => "transactions in violation of the protocol",
            Self::TooManyAnnouncements => "announces more blocks than there are",
            Self::UselessHeaders => "sends headers that bring nothing",
            Self::NotOffered(command) => return write!(f, "{command}, which is not offered"),
            Self::FilterRange(command) => {
                return write!(f, "{command} of an unknown block, of none or of too many");
            }
            Self::HeadersTimeout => "timeout downloading headers",
            Self::BlockStalled => "stalling the block download",
            Self::BlockTimeout => "timeout downloading blocks",
            Self::CorruptBlock => "sent a block with a wrong checksum",
            Self::LittleWork => "headers chain has insufficient work",
            Self::StaleChain => "has an old chain",
            Self::LostWithLine => "lost while there was no network",
            Self::Extra => "extra connection no longer needed",
            Self::Evicted => "evicted for another inbound peer",
            Self::FeelerDone => "feeler connection completed",
            Self::AddrFetchDone => "address fetch completed",
            Self::UploadTarget => "historical block serving limit reached",
            Self::PrunedBlock => "asks for a block below the pruned node's limit",
            Self::BlockUnreadable => "cannot load a block that it asked for",
            Self::SendQueueFull => "does not read what it asked for",
            Self::HoldsMemory => "holds too much memory while it is short",
            Self::WrongMagic => "wrong network magic",
            Self::Undecryptable => "v2 transport error",
            Self::Oversized(command) => return write!(f, "oversized {command} message"),
            Self::Io => "socket error",
            Self::NetworkInactive => "network is inactive",
            Self::ByOperator => "the operator wants it",
        })
    }
}

impl fmt::Display for Misbehaviour {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyEntries(command) => write!(f, "too many entries in {command}"),
            Self::ForbiddenValue(command) => write!(f, "forbidden value in {command}"),
            Self::HeaderWithoutWork => f.write_str("header with invalid proof of work"),
            Self::HeadersNotContinuous => f.write_str("non-continuous headers sequence"),
            Self::InvalidHeader(reason) => write!(f, "invalid header received: {reason}"),
            Self::InvalidBlock(reason) => write!(f, "invalid block received: {reason}"),
            Self::UndecodableBlock => f.write_str("undecodable block"),
            Self::InvalidCompactBlock => f.write_str("invalid compact block"),
            Self::TransactionsOutOfRange => {
                f.write_str("getblocktxn with out-of-bounds tx indices")
            }
        }
    }
}

/// What happens to a peer whose data were refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// Nothing: an honest peer can cause it.
    None,
    /// The connection ends and the address is discouraged.
    Discourage,
}

/// Where refused data came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// A compact block or its header, which BIP152 allows to relay before it is validated.
    pub(super) via_compact_block: bool,
    /// The peer connected to us.
    pub(super) inbound: bool,
}

/// What happens to a peer whose block or header was refused for a reason of this class (Core
/// `MaybePunishNodeForBlock`).
pub(super) fn blame(class: ResultClass, source: Source) -> Blame {
    match class {
        ResultClass::Consensus | ResultClass::Mutated => {
            if source.via_compact_block {
                Blame::None
            } else {
                Blame::Discourage
            }
        }
        // We chose our outbound peers: one on a chain that is known to be invalid is disconnected.
        // An inbound peer may follow other rules.
        ResultClass::CachedInvalid => {
            if source.via_compact_block || source.inbound {
                Blame::None
            } else {
                Blame::Discourage
            }
        }
        ResultClass::InvalidHeader | ResultClass::InvalidPrev | ResultClass::MissingPrev => {
            Blame::Discourage
        }
        // Clocks differ, and the work threshold is our own choice.
        ResultClass::TimeFuture | ResultClass::HeaderLowWork => Blame::None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blame_is_core_s() {
        use Blame::{Discourage, None};
        let source = |via_compact_block, inbound| Source { via_compact_block, inbound };
        // Columns: outbound, inbound, compact from outbound, compact from inbound.
        let table = [
            (ResultClass::Consensus, [Discourage, Discourage, None, None]),
            (ResultClass::Mutated, [Discourage, Discourage, None, None]),
            (ResultClass::CachedInvalid, [Discourage, None, None, None]),
            (ResultClass::InvalidHeader, [Discourage; 4]),
            (ResultClass::InvalidPrev, [Discourage; 4]),
            (ResultClass::MissingPrev, [Discourage; 4]),
            (ResultClass::TimeFuture, [None; 4]),
            (ResultClass::HeaderLowWork, [None; 4]),
        ];
        for (class, expected) in table {
            let columns = [(false, false), (false, true), (true, false), (true, true)];
            let found = columns.map(|(compact, inbound)| blame(class, source(compact, inbound)));
            assert_eq!(found, expected, "{class:?}");
        }
    }
}

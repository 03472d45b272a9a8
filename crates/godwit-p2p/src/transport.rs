//! Bytes of a connection to messages and back.
//!
//! [`Transport`] is all that the driver of a socket sees. It speaks the plain protocol ("v1", Core
//! `net.cpp` `V1Transport`); the encrypted one (BIP324) goes behind the same face.
//!
//! What a peer can make this keep is bounded by what it has sent: see [`Transport::receive`].

mod limits;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use godwit_stream::{BufferPool, PooledStream};

pub use limits::{MAX_SMALL_PAYLOAD, payload_limit};

use crate::{Command, Frame};
use receive::Receiver;
use send::Sender;

/// Both directions of one connection.
#[derive(Debug)]
pub struct Transport {
    receiver: Receiver,
    sender: Sender,
}

/// What is acceptable from the peer at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// The peer was asked for a block that it has not sent. Without that a `block` or `blocktxn` is
    /// dropped as it comes. Looked at when the message's header is complete.
    pub expects_block: bool,
    /// The peer was asked to announce by compact blocks. Without that a `cmpctblock` is dropped.
    pub expects_compact: bool,
}

/// What came of reading.
#[derive(Debug)]
pub enum Receive {
    /// A message; there may be more.
    Frame(Frame),
    /// The end of a message that was dropped; there may be more. Core drops these too and keeps the
    /// connection.
    Discarded(Discard),
    /// The source has nothing more for now.
    Pending,
    /// As many bytes were read as the caller allowed; the source may have more.
    BudgetUsed,
    /// The source has ended.
    Closed,
}

/// A message that was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Its name; not valid when that was the reason.
    pub command: Command,
    /// Length of its payload, in bytes.
    pub bytes: usize,
    /// Why.
    pub why: DiscardReason,
}

/// Why a message is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// The command has no meaning here; the payload was never kept.
    Unknown,
    /// The command is not printable ASCII padded with zeros; the payload was never kept.
    InvalidCommand,
    /// A block, whole, in parts or in compact form, from a peer that was not asked for it; the
    /// payload was never kept.
    UnexpectedBlock,
    /// The payload does not have the checksum that its header says.
    WrongChecksum,
}

/// What came of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Everything that was queued is written.
    Done,
    /// The sink takes nothing more for now.
    Pending,
    /// As many bytes were written as the caller allowed; the sink may take more.
    BudgetUsed,
    /// The sink takes nothing any more.
    Closed,
}

/// Why a connection can not go on.
#[derive(Debug)]
pub enum TransportError {
    /// The source failed.
    Io(io::Error),
    /// The message is not of this network, or the peer does not speak this protocol.
    WrongMagic([u8; 4]),
    /// The message's header announces more than its command allows. Nothing of it was kept.
    TooLarge {
        /// The message's name, as it came.
        command: Command,
        /// The announced length of its payload, in bytes.
        bytes: u32,
    },
}

impl fmt::Display for TransportError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(error) => error.fmt(f),
            Self::WrongMagic(magic) => {
                write!(f, "wrong network magic {:08x}", u32::from_be_bytes(*magic))
            }
            Self::TooLarge { command, bytes } => {
                write!(f, "{command} message of {bytes} bytes is too large")
            }
        }
    }
}

impl std::error::Error for TransportError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io(error) => Some(error),
            Self::WrongMagic(_) | Self::TooLarge { .. } => None,
        }
    }
}

impl Transport {
    /// The plain protocol of the network with that magic. Blocks are received into buffers of
    /// `pool`.
    pub fn new_v1(magic: [u8; 4], pool: BufferPool) -> Self {
        Self { receiver: Receiver::new(magic, pool), sender: Sender::new(magic) }
    }

    /// Reads from `source`, which should not block, until a message is complete, the source has no
    /// more, or `budget` bytes were read.
    ///
    /// Payloads go from the source straight into their buffer. The buffer is taken when the first
    /// byte of the payload is there, and its capacity is at most the greater of 64 KiB and twice
    /// what was received; only a buffer that the pool keeps for reuse, taken for a block that was
    /// asked for, may be larger. What will be dropped is never kept.
    ///
    /// After an error the connection is of no more use.
    pub fn receive(
        &mut self,
        source: &mut impl io::Read,
        limits: &ReceiveLimits,
        budget: usize,
    ) -> Result<Receive, TransportError> {
        self.receiver.receive(source, limits, budget)
    }

    /// Queues a message. The payload is what `payload` has left to read; it is not copied.
    pub fn send(&mut self, command: Command, payload: PooledStream) {
        self.sender.queue(command, payload);
    }

    /// Writes what is queued to `sink`, which should not block, but no more than `budget` bytes.
    pub fn write(&mut self, sink: &mut impl io::Write, budget: usize) -> io::Result<Write> {
        self.sender.write(sink, budget)
    }

    /// Size of the messages that are not written completely, in bytes.
    pub fn queued_bytes(&self) -> usize {
        self.sender.queued_bytes()
    }

    /// Memory of the message that is being received, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        self.receiver.buffered_bytes()
    }

    /// The message that is being received, once its header is complete: command, bytes of the
    /// payload received, bytes announced.
    pub fn incoming(&self) -> Option<(Command, usize, usize)> {
        self.receiver.incoming()
    }

    /// Bytes read from the source so far.
    pub fn total_received(&self) -> u64 {
        self.receiver.total()
    }

    /// Bytes written to the sink so far.
    pub fn total_sent(&self) -> u64 {
        self.sender.total()
    }
}

//! Turns the bytes of a connection into messages, and back.
//!
//! [`Transport`] is all that the driver of a socket sees. It speaks the plain protocol ("v1", Core
//! `net.cpp` `V1Transport`) or the encrypted one ("v2", BIP324), and detects which of them an
//! inbound peer speaks.
//!
//! The memory that a peer can make a transport hold is bounded by what it has sent: see
//! [`Transport::receive`].

mod buffer;
mod discarding;
mod encrypted;
mod limits;
mod receive;
mod send;
#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use godwit_primitives::BlockHash;
#[cfg(any(test, feature = "residue"))]
use godwit_secret::residue::{Needle, NeedleError};
use godwit_stream::{BufferPool, PooledStream};

pub(crate) use encrypted::MAX_CONTENTS;
pub use limits::payload_limit;
pub(crate) use send::{MESSAGE_BYTES, message_memory};

use crate::frame::{Command, Frame};
use crate::v2::{V2Error, V2Secrets};
use buffer::End;
use encrypted::{Advance, Encrypted};
use receive::Receiver;
use send::{Outgoing, Queue};

/// Cost of the end of a message or packet, in bytes of a [`Transport::receive`] budget. The
/// shortest packet takes 2 microseconds, as long as 2,000 bytes of a long one: with a budget of
/// bytes alone, a peer that sends only short ones could keep the thread a hundred times as long.
pub const PACKET_COST: usize = 256;

/// Both directions of one connection.
#[derive(Debug)]
pub struct Transport {
    magic: [u8; 4],
    pool: BufferPool,
    wire: Wire,
    queue: Queue,
    total_received: u64,
    total_cost: u64,
}

#[derive(Debug)]
enum Wire {
    Plain(Box<Receiver>),
    Encrypted(Box<Encrypted>),
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Not known yet, or the two sides have not agreed on keys.
    Detecting,
    /// Not encrypted.
    V1,
    /// Encrypted; the other side has shown that it has the same keys.
    V2 {
        /// Identifies the connection. If it is the same on both sides, there is no man in the
        /// middle.
        session_id: [u8; 32],
    },
}

/// The name in Core's `getpeerinfo` and log lines.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Detecting => "detecting",
            Self::V1 => "v1",
            Self::V2 { .. } => "v2",
        })
    }
}

/// Which large messages are accepted from the peer at the moment; by default none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReceiveLimits {
    /// A block is in flight from the peer. Otherwise a `block` or `blocktxn` is discarded as it
    /// arrives. This is decided when the message's header is complete.
    pub expects_block: bool,
    /// The peer was asked to announce by compact blocks. Otherwise a `cmpctblock` is discarded.
    pub expects_compact: bool,
}

/// Result of reading.
#[derive(Debug)]
pub enum Receive {
    /// A message; there may be more.
    Frame(Frame),
    /// The end of a discarded message; there may be more. Core also ignores these and keeps the
    /// connection.
    Discarded(Discard),
    /// The source has nothing more for now.
    Pending,
    /// The caller's budget is used up; the source may have more.
    BudgetUsed,
    /// The source has ended.
    Closed,
}

/// A message that was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Discard {
    /// Its name; not valid if that was the reason.
    pub command: Command,
    /// Length of its payload, in bytes.
    pub bytes: usize,
    pub why: DiscardReason,
    /// The hash of an unrequested `block` that was long enough to have a header. Nothing about it
    /// was checked.
    pub block: Option<BlockHash>,
}

/// Why a message was discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiscardReason {
    /// This node does not know the command. The payload was never kept.
    Unknown,
    /// The command is not printable ASCII padded with zeros. The payload was never kept.
    InvalidCommand,
    /// A block, whole, in parts or in compact form, from a peer that was not asked for it. The
    /// payload was never kept.
    UnexpectedBlock,
    /// Longer than any of its kind that is of use, and ignored for that. The payload was never kept.
    TooLong,
    /// The payload does not match the checksum in its header.
    WrongChecksum,
}

/// Result of writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Everything that was queued is written.
    Done,
    /// The sink takes nothing more for now.
    Pending,
    /// As many bytes were written as the caller allowed; the sink may take more.
    BudgetUsed,
    /// The sink was closed.
    Closed,
}

/// Why a connection cannot go on.
#[derive(Debug)]
pub enum TransportError {
    Io(io::Error),
    /// The message is not of this network, or the peer does not speak this protocol.
    WrongMagic([u8; 4]),
    /// An encrypted peer's garbage is too long.
    NoTerminator,
    /// A packet does not authenticate: it was changed on the way, or the peer has other keys.
    WrongTag,
    /// A packet says that its contents are longer than any message; their length in bytes.
    PacketTooLarge(u32),
    /// The message's header announces a longer payload than its command allows. Nothing of it was
    /// kept.
    TooLarge {
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
            Self::NoTerminator => f.write_str("missing garbage terminator"),
            Self::WrongTag => f.write_str("packet decryption failure"),
            Self::PacketTooLarge(bytes) => write!(f, "packet of {bytes} bytes is too large"),
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
            Self::WrongMagic(_)
            | Self::NoTerminator
            | Self::WrongTag
            | Self::PacketTooLarge(_)
            | Self::TooLarge { .. } => None,
        }
    }
}

impl Transport {
    /// The plain protocol of the network with this magic. Blocks are received into buffers of
    /// `pool`.
    pub fn new_v1(magic: [u8; 4], pool: BufferPool) -> Self {
        Self::new(magic, pool, Wire::Plain(Box::new(Receiver::new(magic))), Queue::default())
    }

    /// The encrypted protocol, on a connection that we opened.
    ///
    /// When a function of an encrypted transport returns, nothing secret is left on the stack.
    /// While it runs there is; a thread with a locked stack keeps that out of a swap file, too.
    pub fn new_v2_initiator(
        magic: [u8; 4],
        pool: BufferPool,
        secrets: V2Secrets,
    ) -> Result<Self, V2Error> {
        Self::new_v2(magic, pool, true, secrets)
    }

    /// The encrypted protocol on a connection that the other side opened, or the plain one if that
    /// is what it speaks.
    pub fn new_v2_responder(
        magic: [u8; 4],
        pool: BufferPool,
        secrets: V2Secrets,
    ) -> Result<Self, V2Error> {
        Self::new_v2(magic, pool, false, secrets)
    }

    fn new_v2(
        magic: [u8; 4],
        pool: BufferPool,
        initiator: bool,
        secrets: V2Secrets,
    ) -> Result<Self, V2Error> {
        let mut queue = Queue::default();
        let encrypted = Encrypted::new(magic, initiator, secrets, &mut queue)?;
        Ok(Self::new(magic, pool, Wire::Encrypted(Box::new(encrypted)), queue))
    }

    fn new(magic: [u8; 4], pool: BufferPool, wire: Wire, queue: Queue) -> Self {
        Self { magic, pool, wire, queue, total_received: 0, total_cost: 0 }
    }

    /// Reads from `source`, which should not block, until a message is complete, the source has no
    /// more, or `budget` is used up: by one for each byte and by [`PACKET_COST`] for each message
    /// or packet that ends, decoys included. No more than `budget` bytes are read.
    ///
    /// Payloads are read straight into their buffer, and decrypted there. The buffer is taken with
    /// the payload's first byte, and its capacity is at most the greater of 64 KiB and twice what
    /// was received; only a buffer from the pool, for a block in flight, may be larger. A payload
    /// that will be discarded has none.
    ///
    /// After an error the connection is of no more use.
    pub fn receive(
        &mut self,
        source: &mut impl io::Read,
        limits: &ReceiveLimits,
        budget: usize,
    ) -> Result<Receive, TransportError> {
        let mut left = budget;
        while left > 0 {
            let got = match &mut self.wire {
                Wire::Plain(receiver) => receiver.read(source, left, &self.pool),
                Wire::Encrypted(encrypted) => encrypted.read(source, left, &self.pool),
            };
            let got = got.map_err(TransportError::Io)?;
            self.total_received += got.bytes as u64;
            self.total_cost += got.bytes as u64;
            let advance = self.advance(limits)?;
            let packet = if matches!(advance, Advance::Nothing) { 0 } else { PACKET_COST };
            self.total_cost += packet as u64;
            left = left.saturating_sub(got.bytes + packet);
            if let Advance::Received(received) = advance {
                return Ok(received);
            }
            match got.end {
                Some(End::Pending) => return Ok(Receive::Pending),
                Some(End::Closed) => return Ok(Receive::Closed),
                None => {}
            }
        }
        Ok(Receive::BudgetUsed)
    }

    fn advance(&mut self, limits: &ReceiveLimits) -> Result<Advance, TransportError> {
        let encrypted = match &mut self.wire {
            Wire::Plain(receiver) => {
                let received = receiver.advance(limits)?;
                return Ok(received.map_or(Advance::Nothing, Advance::Received));
            }
            Wire::Encrypted(encrypted) => encrypted,
        };
        let advance = encrypted.advance(limits, &self.pool, &mut self.queue)?;
        if let Advance::Plain(first) = &advance {
            let waiting = encrypted.take_waiting();
            self.wire = Wire::Plain(Box::new(Receiver::resumed(self.magic, first)));
            for (command, payload) in waiting {
                self.send(command, payload);
            }
            return Ok(Advance::Nothing);
        }
        Ok(advance)
    }

    /// Queues a message. The payload is the unread part of `payload`; it is not copied, but
    /// encrypted in place.
    pub fn send(&mut self, command: Command, payload: PooledStream) {
        match &mut self.wire {
            Wire::Plain(_) => self.queue.push(Outgoing::plain(self.magic, command, payload)),
            Wire::Encrypted(encrypted) => encrypted.send(command, payload, &mut self.queue),
        }
    }

    /// Writes at most `budget` bytes of the queue to `sink`, which should not block. Messages of an
    /// encrypted connection wait for the other side's key.
    pub fn write(&mut self, sink: &mut impl io::Write, budget: usize) -> io::Result<Write> {
        self.queue.write(sink, budget)
    }

    /// The protocol of this connection.
    pub fn protocol(&self) -> Protocol {
        match &self.wire {
            Wire::Plain(_) => Protocol::V1,
            Wire::Encrypted(encrypted) => match encrypted.session_id() {
                Some(session_id) => Protocol::V2 { session_id },
                None => Protocol::Detecting,
            },
        }
    }

    /// Needles of the connection's current keys, which are replaced every 224 packets, for a search
    /// of memory. A needle reveals nothing of its key.
    #[cfg(any(test, feature = "residue"))]
    pub fn needles(&self) -> Result<Vec<Needle>, NeedleError> {
        match &self.wire {
            Wire::Plain(_) => Ok(Vec::new()),
            Wire::Encrypted(encrypted) => encrypted.needles(),
        }
    }

    /// To be called when the other side closed the connection. If it seems to understand the plain
    /// protocol only, returns the transport for another attempt in plain, with the messages that
    /// were to be sent (Core `ShouldReconnectV1`).
    pub fn fall_back(&mut self) -> Option<Self> {
        if !self.looks_refused() {
            return None;
        }
        let Wire::Encrypted(encrypted) = &mut self.wire else { return None };
        let mut plain = Self::new_v1(self.magic, self.pool.clone());
        for (command, payload) in encrypted.take_waiting() {
            plain.send(command, payload);
        }
        Some(plain)
    }

    /// Whether a closed connection would [`fall_back`](Self::fall_back).
    pub fn looks_refused(&self) -> bool {
        matches!(&self.wire, Wire::Encrypted(encrypted) if encrypted.looks_refused(self.queue.total()))
    }

    /// Whether there is something to write at once: the handshake can add bytes that are no
    /// message.
    pub fn wants_write(&self) -> bool {
        self.unwritten_bytes() > 0
    }

    /// Size of what could be written now, in bytes: without messages that wait for the other side's
    /// key, which has to be read first.
    pub fn unwritten_bytes(&self) -> usize {
        self.queue.queued_bytes()
    }

    /// Size of all messages that are not completely written, in bytes.
    pub fn queued_bytes(&self) -> usize {
        let waiting = match &self.wire {
            Wire::Plain(_) => 0,
            Wire::Encrypted(encrypted) => encrypted.waiting_bytes(),
        };
        self.queue.queued_bytes() + waiting
    }

    /// Memory of all messages that are not completely written, in bytes: the capacity of their
    /// buffers, and 384 bytes each.
    pub fn queued_memory(&self) -> usize {
        let waiting = match &self.wire {
            Wire::Plain(_) => 0,
            Wire::Encrypted(encrypted) => encrypted.waiting_memory(),
        };
        self.queue.memory() + waiting
    }

    /// Memory of the message that is being received, in bytes.
    pub fn buffered_bytes(&self) -> usize {
        match &self.wire {
            Wire::Plain(receiver) => receiver.buffered_bytes(),
            Wire::Encrypted(encrypted) => encrypted.buffered_bytes(),
        }
    }

    /// The message that is being received, once its header is complete: command, payload bytes
    /// received, payload bytes announced. Of an encrypted one this is not authenticated yet.
    pub fn incoming(&self) -> Option<(Command, usize, usize)> {
        match &self.wire {
            Wire::Plain(receiver) => receiver.incoming(),
            Wire::Encrypted(encrypted) => encrypted.incoming(),
        }
    }

    /// Bytes read from the source so far.
    pub fn total_received(&self) -> u64 {
        self.total_received
    }

    /// Sum of what was used up of the budgets so far.
    pub fn total_cost(&self) -> u64 {
        self.total_cost
    }

    /// Bytes written to the sink so far.
    #[cfg(test)]
    pub(crate) fn total_sent(&self) -> u64 {
        self.queue.total()
    }

    /// Bytes written so far, counted as if in the plain protocol: 24 bytes and the payload for each
    /// message, whatever its real size is. So the engine, which counts in this way what it queues,
    /// need not know the protocol.
    pub fn total_sent_plain(&self) -> u64 {
        self.queue.counted()
    }
}

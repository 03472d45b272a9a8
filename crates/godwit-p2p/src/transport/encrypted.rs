//! The encrypted protocol on a connection (BIP324, Core `net.cpp` `V2Transport`): the keys, the garbage
//! that hides them, then packets.

mod packets;

use std::fmt;
use std::io;
use std::mem;

#[cfg(any(test, feature = "residue"))]
use godwit_secret::residue::{Needle, NeedleError};
use godwit_stream::{BufferPool, PooledStream};

use super::buffer::{End, Got, read_once};
use super::send::{Outgoing, Queue, message_memory, plain_size};
use super::{Receive, ReceiveLimits, TransportError};
use crate::frame::Command;
use crate::frame::FRAME_HEADER_SIZE;
use crate::v2::{
    HEADER_SIZE, Handshake, LENGTH_SIZE, MAX_GARBAGE, MAX_NAME_SIZE, PUBLIC_KEY_SIZE, Session,
    TERMINATOR_SIZE, V2Error, V2Secrets, write_name,
};
pub(crate) use packets::MAX_CONTENTS;
use packets::{MIN_PACKET, Packets};

/// The command with which a plain connection starts, after the network's magic.
const VERSION_COMMAND: &[u8; 12] = b"version\0\0\0\0\0";

/// Bytes that distinguish a plain connection from an encrypted one: magic and command.
const PLAIN_PREFIX: usize = 16;

/// Both directions of one encrypted connection.
pub(super) struct Encrypted {
    magic: [u8; 4],
    initiator: bool,
    state: State,
    /// Our garbage: sent after the key, authenticated with the first packet.
    garbage: Vec<u8>,
    /// Messages to be sent once there are keys.
    waiting: Vec<(Command, PooledStream)>,
}

enum State {
    Key(KeyExchange),
    Garbage(GarbageSearch),
    Packets(Packets),
    /// An error was returned.
    Failed,
}

/// The other side's public key is arriving.
struct KeyExchange {
    handshake: Handshake,
    bytes: [u8; PUBLIC_KEY_SIZE],
    filled: usize,
    /// The connection may still turn out to be plain.
    maybe_plain: bool,
}

/// The other side's garbage and terminator are arriving, and the start of its first packet.
struct GarbageSearch {
    session: Session,
    received: Vec<u8>,
    /// Number of first positions at which the terminator does not start.
    searched: usize,
}

/// Result of processing what was read.
pub(super) enum Advance {
    /// More is needed.
    Nothing,
    /// A packet without a message ended.
    Passed,
    Received(Receive),
    /// The other side speaks the plain protocol; these are its first bytes.
    Plain([u8; PLAIN_PREFIX]),
}

impl fmt::Debug for Encrypted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            State::Key(_) => "Key",
            State::Garbage(_) => "Garbage",
            State::Packets(_) => "Packets",
            State::Failed => "Failed",
        };
        f.debug_struct("Encrypted").field("state", &state).finish_non_exhaustive()
    }
}

impl Encrypted {
    pub(super) fn new(
        magic: [u8; 4],
        initiator: bool,
        secrets: V2Secrets,
        queue: &mut Queue,
    ) -> Result<Self, V2Error> {
        let V2Secrets { key, encoding, garbage } = secrets;
        if garbage.len() > MAX_GARBAGE {
            return Err(V2Error::Garbage);
        }
        let handshake = Handshake::new(key, encoding, initiator, magic)?;
        let exchange = KeyExchange {
            handshake,
            bytes: [0; PUBLIC_KEY_SIZE],
            filled: 0,
            maybe_plain: !initiator,
        };
        if initiator {
            exchange.start_sending(&garbage, queue);
        }
        let state = State::Key(exchange);
        Ok(Self { magic, initiator, state, garbage, waiting: Vec::new() })
    }

    /// Needles of the keys, for a search of memory; none before there are keys.
    #[cfg(any(test, feature = "residue"))]
    pub(super) fn needles(&self) -> Result<Vec<Needle>, NeedleError> {
        match &self.state {
            State::Key(_) | State::Failed => Ok(Vec::new()),
            State::Garbage(search) => search.session.needles(),
            State::Packets(packets) => packets.keys().needles(),
        }
    }

    pub(super) fn send(&mut self, command: Command, payload: PooledStream, queue: &mut Queue) {
        match &mut self.state {
            State::Key(_) => self.waiting.push((command, payload)),
            State::Garbage(search) => queue.push(sealed(&mut search.session, command, payload)),
            State::Packets(packets) => queue.push(sealed(packets.session(), command, payload)),
            State::Failed => {}
        }
    }

    /// Reads up to `budget` bytes of what is being received.
    pub(super) fn read(
        &mut self,
        source: &mut impl io::Read,
        budget: usize,
        pool: &BufferPool,
    ) -> io::Result<Got> {
        match &mut self.state {
            State::Key(exchange) => exchange.read(source, budget),
            State::Garbage(search) => search.read(source, budget),
            State::Packets(packets) => packets.read(source, budget, pool),
            State::Failed => Ok(Got { bytes: 0, end: Some(End::Closed) }),
        }
    }

    /// Moves on when a key, the garbage or a packet is complete. After an error nothing more is
    /// received.
    pub(super) fn advance(
        &mut self,
        limits: &ReceiveLimits,
        pool: &BufferPool,
        queue: &mut Queue,
    ) -> Result<Advance, TransportError> {
        loop {
            self.state = match mem::replace(&mut self.state, State::Failed) {
                State::Key(mut exchange) => {
                    if let Some(plain) = self.check_plain(&mut exchange, queue)? {
                        return Ok(Advance::Plain(plain));
                    }
                    if exchange.filled < PUBLIC_KEY_SIZE {
                        self.state = State::Key(exchange);
                        return Ok(Advance::Nothing);
                    }
                    State::Garbage(self.agree(exchange, queue))
                }
                State::Garbage(search) => match search.find()? {
                    Found::Nothing(search) => {
                        self.state = State::Garbage(search);
                        return Ok(Advance::Nothing);
                    }
                    Found::Terminator(packets) => State::Packets(packets),
                },
                State::Packets(mut packets) => {
                    let advance = packets.advance(limits, pool)?;
                    self.state = State::Packets(packets);
                    return Ok(advance);
                }
                State::Failed => return Ok(Advance::Nothing),
            };
        }
    }

    /// Decides whether the connection is plain, as soon as the bytes tell.
    fn check_plain(
        &self,
        exchange: &mut KeyExchange,
        queue: &mut Queue,
    ) -> Result<Option<[u8; PLAIN_PREFIX]>, TransportError> {
        let (magic, command) = exchange.bytes[..PLAIN_PREFIX].split_at(self.magic.len());
        let complete = exchange.filled >= PLAIN_PREFIX;
        if exchange.maybe_plain {
            let prefix = [&self.magic[..], VERSION_COMMAND].concat();
            let compared = exchange.filled.min(PLAIN_PREFIX);
            if exchange.bytes[..compared] == prefix[..compared] {
                let plain = exchange.bytes.first_chunk().copied();
                return Ok(plain.filter(|_| complete));
            }
            exchange.maybe_plain = false;
            exchange.start_sending(&self.garbage, queue);
        } else if !self.initiator && complete && command == VERSION_COMMAND {
            // No public key looks like this: it is a plain connection of another network.
            let magic = magic.try_into().expect("four bytes");
            return Err(TransportError::WrongMagic(magic));
        }
        Ok(None)
    }

    /// The other side's public key is complete: computes the keys, and sends our terminator and the
    /// version packet, which authenticates our garbage.
    fn agree(&mut self, exchange: KeyExchange, queue: &mut Queue) -> GarbageSearch {
        let mut session = exchange.handshake.agree(&exchange.bytes);
        queue.push_bytes(session.send_terminator());
        let mut version = [0; LENGTH_SIZE + HEADER_SIZE];
        let tag = session.seal(&mut version, &mut [], &mem::take(&mut self.garbage));
        queue.push_bytes(&[&version[..], &tag].concat());
        for (command, payload) in mem::take(&mut self.waiting) {
            queue.push(sealed(&mut session, command, payload));
        }
        GarbageSearch { session, received: Vec::new(), searched: 0 }
    }

    /// Whether a connection that the other side has just closed should be tried again in plain: we
    /// opened it, sent enough for a plain peer to notice that it does not understand us, and
    /// received nothing (Core `ShouldReconnectV1`).
    pub(super) fn looks_refused(&self, sent: u64) -> bool {
        let nothing_came = matches!(&self.state, State::Key(exchange) if exchange.filled == 0);
        self.initiator && nothing_came && sent >= FRAME_HEADER_SIZE as u64
    }

    /// Takes the messages that wait for keys.
    pub(super) fn take_waiting(&mut self) -> Vec<(Command, PooledStream)> {
        mem::take(&mut self.waiting)
    }

    pub(super) fn waiting_bytes(&self) -> usize {
        self.waiting.iter().map(|(_, payload)| plain_size(payload)).sum()
    }

    pub(super) fn waiting_memory(&self) -> usize {
        self.waiting.iter().map(|(_, payload)| message_memory(payload)).sum()
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        match &self.state {
            State::Key(_) | State::Failed => 0,
            State::Garbage(search) => search.received.capacity(),
            State::Packets(packets) => packets.buffered_bytes(),
        }
    }

    pub(super) fn incoming(&self) -> Option<(Command, usize, usize)> {
        match &self.state {
            State::Packets(packets) => packets.incoming(),
            _ => None,
        }
    }

    /// Identifies the connection; `None` until the other side has shown that it has the same keys.
    pub(super) fn session_id(&self) -> Option<[u8; 32]> {
        match &self.state {
            State::Packets(packets) => packets.session_id(),
            _ => None,
        }
    }
}

impl KeyExchange {
    fn start_sending(&self, garbage: &[u8], queue: &mut Queue) {
        queue.push_bytes(&[&self.handshake.public_key()[..], garbage].concat());
    }

    /// Reads no more than could be handed to a plain receiver afterwards.
    fn read(&mut self, source: &mut impl io::Read, budget: usize) -> io::Result<Got> {
        let whole = if self.maybe_plain { PLAIN_PREFIX } else { PUBLIC_KEY_SIZE };
        let room = (whole - self.filled).min(budget);
        let got = read_once(source, &mut self.bytes[self.filled..][..room])?;
        self.filled += got.bytes;
        Ok(got)
    }
}

enum Found {
    Nothing(GarbageSearch),
    Terminator(Packets),
}

impl GarbageSearch {
    /// Reads no more than certainly belongs to the garbage, the terminator and the shortest packet.
    fn read(&mut self, source: &mut impl io::Read, budget: usize) -> io::Result<Got> {
        let mut bytes = [0; TERMINATOR_SIZE + MIN_PACKET];
        let terminator = self.session.receive_terminator();
        let begun = (0..TERMINATOR_SIZE).rev().find(|n| self.received.ends_with(&terminator[..*n]));
        let most = MAX_GARBAGE + bytes.len() - self.received.len();
        let room = most.min(bytes.len() - begun.expect("everything ends with nothing"));
        let got = read_once(source, &mut bytes[..room.min(budget)])?;
        self.received.extend_from_slice(&bytes[..got.bytes]);
        Ok(got)
    }

    fn find(mut self) -> Result<Found, TransportError> {
        let terminator = self.session.receive_terminator();
        let places = self.received.windows(TERMINATOR_SIZE).enumerate().take(MAX_GARBAGE + 1);
        // A peer that sends byte by byte must not have all positions compared each time.
        let found = places.skip(self.searched).find(|(_, window)| *window == terminator);
        let Some((place, _)) = found else {
            if self.received.len() >= MAX_GARBAGE + TERMINATOR_SIZE {
                return Err(TransportError::NoTerminator);
            }
            self.searched = self.received.len().saturating_sub(TERMINATOR_SIZE - 1);
            return Ok(Found::Nothing(self));
        };
        let start = self.received.split_off(place + TERMINATOR_SIZE);
        self.received.truncate(place);
        Ok(Found::Terminator(Packets::new(self.session, self.received, &start)))
    }
}

/// Encrypts a message in place.
fn sealed(session: &mut Session, command: Command, mut payload: PooledStream) -> Outgoing {
    let mut head = [0; LENGTH_SIZE + HEADER_SIZE + MAX_NAME_SIZE];
    let name = head.last_chunk_mut().expect("it ends with the name");
    let head_len = LENGTH_SIZE + HEADER_SIZE + write_name(command, name);
    let at = payload.as_slice().len() - payload.len();
    let contents = &mut payload.as_mut_slice()[at..];
    let tag = session.seal(&mut head[..head_len], contents, &[]);
    Outgoing::sealed(&head[..head_len], payload, tag)
}

#[cfg(test)]
mod tests;

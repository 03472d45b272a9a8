//! Receives packets.
//!
//! The first bytes of a packet decide what is done with the rest before its tag has been checked;
//! otherwise every packet would have to be kept to its end, up to 4 MB. But nothing that an
//! outsider could see follows from them until the tag is right: no message, no error, no end of the
//! connection.

use std::io;
use std::mem;

use godwit_stream::BufferPool;

use super::super::buffer::{Buffer, Got, read_once};
use super::super::discarding::{DISCARD_STEP, Discarding};
use super::super::limits::{Admission, admit};
use super::super::{DiscardReason, Receive, ReceiveLimits, TransportError};
use super::Advance;
use crate::frame::{Command, Frame, MAX_PAYLOAD};
use crate::v2::{
    EXPANSION, HEADER_SIZE, IGNORE, LENGTH_SIZE, MAX_NAME_SIZE, Name, Session, TAG_SIZE, parse_name,
};

/// Size of the shortest packet, in bytes.
pub(super) const MIN_PACKET: usize = EXPANSION;

/// The longest contents: a long name and the longest payload (Core `MAX_CONTENTS_LEN`).
pub(crate) const MAX_CONTENTS: usize = MAX_NAME_SIZE + MAX_PAYLOAD as usize;

/// Bytes of header and contents in the first [`MIN_PACKET`] bytes of a packet.
const FIRST_BODY: usize = MIN_PACKET - LENGTH_SIZE;

const _: () = assert!(FIRST_BODY >= HEADER_SIZE + MAX_NAME_SIZE);

pub(super) struct Packets {
    session: Session,
    /// The garbage before the first packet, which that packet authenticates.
    garbage: Vec<u8>,
    /// The other side's version packet has arrived: it has the same keys, and messages follow.
    established: bool,
    state: State,
}

enum State {
    /// The first `filled` bytes of a packet.
    Start {
        bytes: [u8; MIN_PACKET],
        filled: usize,
    },
    Rest(Rest),
}

/// The rest of a packet.
struct Rest {
    fate: Fate,
    /// Bytes of the contents that have not arrived.
    left: usize,
    tag: [u8; TAG_SIZE],
    tag_filled: usize,
}

enum Fate {
    Keep {
        command: Command,
        buffer: Buffer,
        length: usize,
    },
    /// Discarded as it arrives.
    Drop(Dropped),
}

#[derive(Clone, Copy)]
enum Dropped {
    Decoy,
    /// The version packet: the first one that is no decoy.
    Version,
    Message(Discarding),
    TooLarge {
        command: Command,
        bytes: u32,
    },
}

impl State {
    const START: Self = Self::Start { bytes: [0; MIN_PACKET], filled: 0 };
}

impl Packets {
    /// `start` are the first bytes of the first packet, at most [`MIN_PACKET`].
    pub(super) fn new(session: Session, garbage: Vec<u8>, start: &[u8]) -> Self {
        let mut bytes = [0; MIN_PACKET];
        bytes[..start.len()].copy_from_slice(start);
        let state = State::Start { bytes, filled: start.len() };
        Self { session, garbage, established: false, state }
    }

    pub(super) fn session(&mut self) -> &mut Session {
        &mut self.session
    }

    #[cfg(any(test, feature = "residue"))]
    pub(super) fn keys(&self) -> &Session {
        &self.session
    }

    pub(super) fn session_id(&self) -> Option<[u8; 32]> {
        self.established.then(|| *self.session.session_id())
    }

    pub(super) fn buffered_bytes(&self) -> usize {
        let buffer = match &self.state {
            State::Rest(Rest { fate: Fate::Keep { buffer, .. }, .. }) => buffer.capacity(),
            _ => 0,
        };
        self.garbage.capacity() + buffer
    }

    pub(super) fn incoming(&self) -> Option<(Command, usize, usize)> {
        let State::Rest(Rest { fate, left, .. }) = &self.state else { return None };
        let (command, length) = match fate {
            Fate::Keep { command, length, .. } => (*command, *length),
            Fate::Drop(Dropped::Message(discarding)) => (discarding.command, discarding.bytes),
            Fate::Drop(Dropped::TooLarge { command, bytes }) => (*command, *bytes as usize),
            Fate::Drop(Dropped::Decoy | Dropped::Version) => return None,
        };
        Some((command, length.saturating_sub(*left), length))
    }

    /// Reads up to `budget` bytes of the packet, and none of what follows it.
    pub(super) fn read(
        &mut self,
        source: &mut impl io::Read,
        budget: usize,
        pool: &BufferPool,
    ) -> io::Result<Got> {
        let rest = match &mut self.state {
            State::Start { bytes, filled } => {
                let room = bytes[*filled..].len().min(budget);
                let got = read_once(source, &mut bytes[*filled..][..room])?;
                *filled += got.bytes;
                return Ok(got);
            }
            State::Rest(rest) => rest,
        };
        let missing = rest.missing();
        match &mut rest.fate {
            Fate::Keep { buffer, .. } => {
                let before = buffer.len();
                let got = buffer.read(source, before + missing, budget, pool)?;
                let contents = got.bytes.min(rest.left);
                let (bytes, tag) = buffer.bytes_from(before).split_at_mut(contents);
                self.session.open(bytes);
                rest.tag[rest.tag_filled..][..tag.len()].copy_from_slice(tag);
                buffer.truncate(before + contents);
                rest.count(got.bytes);
                Ok(got)
            }
            Fate::Drop(dropping) => {
                let mut dropped = [0; DISCARD_STEP];
                let room = DISCARD_STEP.min(missing).min(budget);
                let got = read_once(source, &mut dropped[..room])?;
                let contents = got.bytes.min(rest.left);
                let (bytes, tag) = dropped[..got.bytes].split_at_mut(contents);
                self.session.open(bytes);
                if let Dropped::Message(discarding) = dropping {
                    discarding.pass(bytes);
                }
                rest.tag[rest.tag_filled..][..tag.len()].copy_from_slice(tag);
                rest.count(got.bytes);
                Ok(got)
            }
        }
    }

    /// Moves on when the packet's first bytes, or all of it, are complete; returns a message that
    /// was completed.
    pub(super) fn advance(
        &mut self,
        limits: &ReceiveLimits,
        pool: &BufferPool,
    ) -> Result<Advance, TransportError> {
        if let State::Start { bytes, filled: MIN_PACKET } = self.state {
            self.state = State::Rest(self.start(bytes, limits, pool)?);
        }
        if !matches!(&self.state, State::Rest(rest) if rest.missing() == 0) {
            return Ok(Advance::Nothing);
        }
        let State::Rest(rest) = mem::replace(&mut self.state, State::START) else {
            return Ok(Advance::Nothing);
        };
        if !self.session.finish(&rest.tag) {
            return Err(TransportError::WrongTag);
        }
        self.garbage = Vec::new();
        Ok(match rest.fate {
            Fate::Keep { command, buffer, .. } => {
                let payload = buffer.into_stream();
                Advance::Received(Receive::Frame(Frame { command, payload }))
            }
            Fate::Drop(Dropped::Message(discarding)) => {
                Advance::Received(Receive::Discarded(discarding.end()))
            }
            Fate::Drop(Dropped::TooLarge { command, bytes }) => {
                return Err(TransportError::TooLarge { command, bytes });
            }
            Fate::Drop(Dropped::Version) => {
                self.established = true;
                Advance::Passed
            }
            Fate::Drop(Dropped::Decoy) => Advance::Passed,
        })
    }

    /// Begins a packet whose first bytes are complete.
    fn start(
        &mut self,
        mut bytes: [u8; MIN_PACKET],
        limits: &ReceiveLimits,
        pool: &BufferPool,
    ) -> Result<Rest, TransportError> {
        let (length, body) = bytes.split_first_chunk_mut::<LENGTH_SIZE>().expect("it is longer");
        let length = self.session.open_length(*length);
        if length > MAX_CONTENTS {
            return Err(TransportError::PacketTooLarge(length as u32));
        }
        let (body, tag) = body.split_at_mut(FIRST_BODY.min(HEADER_SIZE + length));
        self.session.open_first(body, &self.garbage);
        let (header, contents) = body.split_at(HEADER_SIZE);
        let fate = if header[0] & IGNORE != 0 {
            Fate::Drop(Dropped::Decoy)
        } else if !self.established {
            Fate::Drop(Dropped::Version)
        } else {
            message(contents, length, limits, pool)
        };
        let mut rest =
            Rest { fate, left: length - contents.len(), tag: [0; TAG_SIZE], tag_filled: tag.len() };
        rest.tag[..tag.len()].copy_from_slice(tag);
        Ok(rest)
    }
}

impl Rest {
    /// Bytes of contents and tag that have not arrived.
    fn missing(&self) -> usize {
        self.left + TAG_SIZE - self.tag_filled
    }

    /// Counts bytes of contents and tag that arrived.
    fn count(&mut self, bytes: usize) {
        let contents = bytes.min(self.left);
        self.left -= contents;
        self.tag_filled += bytes - contents;
    }
}

/// Decides what is done with a message from the first bytes of its contents, which have `length`
/// bytes in all.
fn message(contents: &[u8], length: usize, limits: &ReceiveLimits, pool: &BufferPool) -> Fate {
    let Name::Command(command, name) = parse_name(contents) else {
        let (command, why) = (Command::from_bytes([0; 12]), DiscardReason::InvalidCommand);
        return Fate::Drop(Dropped::Message(Discarding::new(command, length, why)));
    };
    let bytes = length - name;
    match admit(command, bytes, limits) {
        Admission::TooLarge => Fate::Drop(Dropped::TooLarge { command, bytes: bytes as u32 }),
        Admission::Drop(why) => {
            let mut discarding = Discarding::new(command, bytes, why);
            discarding.pass(&contents[name..]);
            Fate::Drop(Dropped::Message(discarding))
        }
        Admission::Keep => {
            let mut buffer = Buffer::new(command);
            let first = &contents[name..];
            if !first.is_empty() {
                buffer.push(first, bytes + TAG_SIZE, pool);
            }
            Fate::Keep { command, buffer, length: bytes }
        }
    }
}

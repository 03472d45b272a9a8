//! Both sides by this transport, or one of them by hand.

mod handshake;
mod messages;
mod oracle;

use std::collections::VecDeque;
use std::io::{self, ErrorKind};

use godwit_primitives::BlockHash;
use godwit_primitives::sha256::sha256d;
use godwit_secret::SecretArray;
use godwit_stream::{BufferPool, DataStream, PoolLimits};

use super::super::*;
use crate::v2::{
    HEADER_SIZE, Handshake, LENGTH_SIZE, MAX_NAME_SIZE, Session, V2Secrets, write_name,
};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const BLOCK: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: true };
const NO_BLOCK: ReceiveLimits = ReceiveLimits { expects_block: false, expects_compact: false };
const ALL: usize = usize::MAX;

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 8, buffer_bytes: 8 << 20, total_bytes: 32 << 20 })
}

fn payload(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 251) as u8).collect()
}

fn key(byte: u8) -> SecretArray<32> {
    SecretArray::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory")
}

fn secrets(byte: u8, garbage: usize) -> V2Secrets {
    V2Secrets { key: key(byte), encoding: [byte; 32], garbage: payload(garbage) }
}

fn initiator(garbage: usize) -> Transport {
    Transport::new_v2_initiator(MAGIC, pool(), secrets(1, garbage)).expect("locked memory")
}

fn responder(garbage: usize) -> Transport {
    Transport::new_v2_responder(MAGIC, pool(), secrets(2, garbage)).expect("locked memory")
}

/// Gives its pieces one read at a time, then would block.
#[derive(Default)]
struct Source(VecDeque<Vec<u8>>);

impl Source {
    fn one(bytes: &[u8]) -> Self {
        Self::cut(bytes, &[usize::MAX])
    }

    fn cut(mut bytes: &[u8], sizes: &[usize]) -> Self {
        let pieces = sizes.iter().cycle().map_while(|&size| {
            let (piece, rest) = bytes.split_at(size.min(bytes.len()));
            bytes = rest;
            (!piece.is_empty()).then(|| piece.to_vec())
        });
        Self(pieces.collect())
    }
}

impl io::Read for Source {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let Some(mut piece) = self.0.pop_front() else { return Err(ErrorKind::WouldBlock.into()) };
        let count = piece.len().min(target.len());
        target[..count].copy_from_slice(&piece[..count]);
        let rest = piece.split_off(count);
        if !rest.is_empty() {
            self.0.push_front(rest);
        }
        Ok(count)
    }
}

/// Everything that comes of what the source has.
fn receive(transport: &mut Transport, source: &mut Source, limits: &ReceiveLimits) -> Vec<String> {
    receive_within(transport, source, limits, ALL)
}

fn receive_within(
    transport: &mut Transport,
    source: &mut Source,
    limits: &ReceiveLimits,
    budget: usize,
) -> Vec<String> {
    let mut seen = Vec::new();
    loop {
        seen.push(match transport.receive(source, limits, budget) {
            Ok(Receive::Frame(frame)) => named(frame.command, frame.payload.unread()),
            Ok(Receive::Discarded(Discard { command, bytes, why, .. })) => {
                format!("{command} {bytes} {why:?}")
            }
            Ok(Receive::BudgetUsed) => continue,
            Ok(Receive::Pending) => return seen,
            Ok(Receive::Closed) => panic!("the source does not end"),
            Err(error) => {
                seen.push(error.to_string());
                return seen;
            }
        });
    }
}

/// A message as [`receive`] names it.
fn named(command: Command, payload: &[u8]) -> String {
    format!("{command} {} {:x}", payload.len(), sha256d(payload)[0])
}

fn receive_bytes(transport: &mut Transport, bytes: &[u8]) -> Vec<String> {
    receive(transport, &mut Source::one(bytes), &BLOCK)
}

fn send(transport: &mut Transport, command: Command, payload: &[u8]) {
    transport.send(command, DataStream::from(payload).into());
}

/// What the transport writes.
fn written(transport: &mut Transport) -> Vec<u8> {
    let mut bytes = Vec::new();
    assert_eq!(transport.write(&mut bytes, ALL).expect("a vector takes it"), Write::Done);
    bytes
}

/// Lets both sides read what the other has written until nothing is left: what each has received.
fn exchange(ours: &mut Transport, theirs: &mut Transport) -> [Vec<String>; 2] {
    let mut seen = [Vec::new(), Vec::new()];
    loop {
        let (there, back) = (written(ours), written(theirs));
        if there.is_empty() && back.is_empty() {
            return seen;
        }
        seen[1].extend(receive_bytes(theirs, &there));
        seen[0].extend(receive_bytes(ours, &back));
    }
}

/// The other side of a transport, which can do everything wrong.
struct Hand {
    session: Session,
    /// What authenticates the next packet.
    additional: Vec<u8>,
}

impl Hand {
    /// A connection that the transport opened, and what is to be written to it first: the key and
    /// `garbage`, and nothing behind it.
    fn answering(transport: &mut Transport, garbage: &[u8]) -> (Self, Vec<u8>) {
        let sent = written(transport);
        let handshake = Handshake::new(key(9), [9; 32], false, MAGIC).expect("locked memory");
        let start = [&handshake.public_key()[..], garbage].concat();
        let session = handshake.agree(sent.first_chunk().expect("a key"));
        (Self { session, additional: garbage.to_vec() }, start)
    }

    /// The same with terminator and version packet; the transport has read it.
    fn answered(transport: &mut Transport) -> Self {
        let (mut hand, mut start) = Self::answering(transport, &[]);
        start.extend_from_slice(hand.session.send_terminator());
        start.extend(hand.packet(0, &[]));
        assert_eq!(receive_bytes(transport, &start), [""; 0]);
        hand
    }

    fn packet(&mut self, header: u8, contents: &[u8]) -> Vec<u8> {
        let mut head = [0, 0, 0, header];
        let mut contents = contents.to_vec();
        let additional = std::mem::take(&mut self.additional);
        let tag = self.session.seal(&mut head, &mut contents, &additional);
        [&head[..], &contents, &tag].concat()
    }

    fn message(&mut self, command: Command, payload: &[u8]) -> Vec<u8> {
        let mut name = [0; MAX_NAME_SIZE];
        let len = write_name(command, &mut name);
        self.packet(0, &[&name[..len], payload].concat())
    }
}

/// The same with the long name, which every message can have.
fn long_name(command: Command, payload: &[u8]) -> Vec<u8> {
    [&[0][..], &command.to_bytes(), payload].concat()
}

/// Size of a packet in bytes.
const fn packet_size(contents: usize) -> usize {
    LENGTH_SIZE + HEADER_SIZE + contents + crate::v2::TAG_SIZE
}

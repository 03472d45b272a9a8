//! What the targets of connections share: reading to the end, and what is to be expected of it.

use godwit_p2p::{
    Command, Discard, DiscardReason, FRAME_HEADER_SIZE, MAX_PAYLOAD, Receive, ReceiveLimits,
    Transport, TransportError, V2Secrets, Write, payload_limit,
};
use godwit_primitives::sha256::sha256d;
use godwit_primitives::{BlockHash, HEADER_SIZE};
use godwit_secret::SecretArray;
use godwit_stream::{BufferPool, PoolLimits};

use crate::input::Input;
use crate::source::Pieces;

/// Regtest's.
pub(crate) const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// Everything is acceptable.
pub(crate) const ALL: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: true };

/// Capacity that a message's first bytes may claim.
const FIRST_CAPACITY: usize = 64 << 10;

/// Of garbage, which may come before any message.
const GARBAGE_CAPACITY: usize = 16 << 10;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Frame(Command, Vec<u8>),
    Discarded(Discard),
    /// The end of the connection.
    Error(String),
}

/// No buffer is kept, so that none is larger than what was received explains.
pub(crate) fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 0, buffer_bytes: 0, total_bytes: 0 })
}

pub(crate) fn secrets(byte: u8, garbage: usize) -> V2Secrets {
    let key = SecretArray::from_plain_and_wipe(&mut [byte; 32]).expect("locked memory");
    V2Secrets { key, encoding: [byte; 32], garbage: vec![byte; garbage] }
}

pub(crate) fn limits(input: &mut Input<'_>) -> ReceiveLimits {
    let bits = input.u8();
    ReceiveLimits { expects_block: bits & 1 != 0, expects_compact: bits & 2 != 0 }
}

/// Reads all that the source has.
pub(crate) fn receive(
    transport: &mut Transport,
    source: &mut Pieces<'_>,
    limits: &ReceiveLimits,
    budget: usize,
) -> Vec<Seen> {
    let mut seen = Vec::new();
    loop {
        let (before, had) = (transport.total_received(), source.left());
        let received = transport.receive(source, limits, budget.max(1));
        let read = had - source.left();
        assert_eq!(transport.total_received() - before, read as u64, "every byte is counted");
        assert!(read <= budget.max(1), "{read} bytes read, {budget} allowed");
        let earned = FIRST_CAPACITY.max(2 * transport.total_received() as usize);
        assert!(transport.buffered_bytes() <= earned + GARBAGE_CAPACITY);
        if let Some((_, so_far, length)) = transport.incoming() {
            assert!(so_far <= length && length <= MAX_PAYLOAD as usize + 13);
        }
        match received {
            Ok(Receive::Frame(frame)) => {
                seen.push(Seen::Frame(frame.command, frame.payload.unread().to_vec()));
            }
            Ok(Receive::Discarded(discard)) => seen.push(Seen::Discarded(discard)),
            Ok(Receive::BudgetUsed) => {}
            Ok(Receive::Pending) if source.left() == 0 => return seen,
            Ok(other) => panic!("{other:?} though the source has more"),
            Err(TransportError::Io(error)) => panic!("the source does not fail: {error}"),
            Err(error) => {
                seen.push(Seen::Error(error.to_string()));
                return seen;
            }
        }
    }
}

/// What the transport writes.
pub(crate) fn written(transport: &mut Transport) -> Vec<u8> {
    let mut bytes = Vec::new();
    let written = transport.write(&mut bytes, usize::MAX).expect("a vector takes it");
    assert_eq!(written, Write::Done);
    bytes
}

/// Bytes of a `notfound` of 50,000 entries: a longer one is passed over.
const MAX_NOTFOUND: usize = 3 + 50_000 * 36;

/// What is to become of a message of that name and length, whose checksum or tag is right.
pub(crate) fn expected(command: Command, payload: &[u8], limits: &ReceiveLimits) -> Seen {
    let bytes = payload.len();
    let limit = payload_limit(command);
    if bytes > limit.unwrap_or(MAX_PAYLOAD) as usize {
        return Seen::Error(format!("{command} message of {bytes} bytes is too large"));
    }
    let dropped = |why| Seen::Discarded(Discard { command, bytes, why, block: None });
    // A block is named by its header.
    let header = payload.get(..HEADER_SIZE).filter(|_| command == Command::BLOCK);
    let block = header.map(|header| BlockHash::from_bytes(sha256d(header)));
    let unasked = match command.as_str() {
        "block" | "blocktxn" => !limits.expects_block,
        "cmpctblock" => !limits.expects_compact,
        _ => false,
    };
    match (command.is_valid(), limit) {
        (false, _) => dropped(DiscardReason::InvalidCommand),
        (true, None) => dropped(DiscardReason::Unknown),
        (true, Some(_)) if command == Command::NOTFOUND && bytes > MAX_NOTFOUND => {
            dropped(DiscardReason::TooLong)
        }
        (true, Some(_)) if unasked => {
            let why = DiscardReason::UnexpectedBlock;
            Seen::Discarded(Discard { command, bytes, why, block })
        }
        _ => Seen::Frame(command, payload.to_vec()),
    }
}

/// What is to be read from the bytes of a plain connection.
pub(crate) fn expected_plain(mut bytes: &[u8], limits: &ReceiveLimits) -> Vec<Seen> {
    let mut seen = Vec::new();
    while let Some((header, rest)) = bytes.split_first_chunk::<FRAME_HEADER_SIZE>() {
        let (magic, header) = header.split_first_chunk::<4>().expect("24 bytes");
        let (name, header) = header.split_first_chunk::<12>().expect("20 bytes");
        let (length, checksum) = header.split_first_chunk::<4>().expect("8 bytes");
        if *magic != MAGIC {
            let magic = u32::from_be_bytes(*magic);
            seen.push(Seen::Error(format!("wrong network magic {magic:08x}")));
            return seen;
        }
        let (command, length) = (Command::from_bytes(*name), u32::from_le_bytes(*length) as usize);
        if length > payload_limit(command).unwrap_or(MAX_PAYLOAD) as usize {
            let error = format!("{command} message of {length} bytes is too large");
            seen.push(Seen::Error(error));
            return seen;
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else { return seen };
        bytes = rest;
        seen.push(match expected(command, payload, limits) {
            Seen::Frame(command, payload) if sha256d(&payload)[..4] != *checksum => {
                let why = DiscardReason::WrongChecksum;
                Seen::Discarded(Discard { command, bytes: payload.len(), why, block: None })
            }
            other => other,
        });
    }
    seen
}

/// A message as it is on a plain connection.
pub(crate) fn frame(command: Command, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_le_bytes();
    [&MAGIC[..], &command.to_bytes(), &length, &sha256d(payload)[..4], payload].concat()
}

/// Writes the right magic and checksum into every header that the bytes hold, so that a fuzzer gets
/// past them.
pub(crate) fn mend_frames(bytes: &mut [u8]) {
    let mut at = 0;
    while let Some(header) = bytes.get_mut(at..at + FRAME_HEADER_SIZE) {
        header[..4].copy_from_slice(&MAGIC);
        let length = u32::from_le_bytes(*header[16..].first_chunk().expect("24 bytes")) as usize;
        let start = at + FRAME_HEADER_SIZE;
        let Some(payload) = bytes.get(start..start.saturating_add(length)) else { return };
        let checksum = sha256d(payload);
        bytes[at + 20..start].copy_from_slice(&checksum[..4]);
        at = start + length;
    }
}

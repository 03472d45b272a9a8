//! What an encrypted connection costs: locked memory, and time beside a plain one.

use std::time::{Duration, Instant};

use godwit_p2p::{Command, Receive, ReceiveLimits, Transport, V2Secrets, Write};
use godwit_secret::{SecretArray, process_pool};
use godwit_stream::{BufferPool, DataStream, PoolLimits};

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];
const EXPECTED: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: true };

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 2, buffer_bytes: 4 << 20, total_bytes: 8 << 20 })
}

fn secrets() -> V2Secrets {
    let key = SecretArray::random().expect("locked memory");
    V2Secrets { key, encoding: [5; 32], garbage: Vec::new() }
}

fn plain() -> [Transport; 2] {
    [(); 2].map(|()| Transport::new_v1(MAGIC, pool()))
}

fn encrypted() -> [Transport; 2] {
    let mut ours = Transport::new_v2_initiator(MAGIC, pool(), secrets()).expect("locked memory");
    let mut theirs = Transport::new_v2_responder(MAGIC, pool(), secrets()).expect("locked memory");
    let mut wire = Vec::new();
    for _ in 0..2 {
        assert!(carry(&mut ours, &mut theirs, &mut wire).is_none());
        assert!(carry(&mut theirs, &mut ours, &mut wire).is_none());
    }
    [ours, theirs]
}

/// Lets `to` read what `from` writes: the length of the message that came.
fn carry(from: &mut Transport, to: &mut Transport, wire: &mut Vec<u8>) -> Option<usize> {
    wire.clear();
    assert_eq!(from.write(wire, usize::MAX).expect("a vector takes it"), Write::Done);
    let mut source = wire.as_slice();
    match to.receive(&mut source, &EXPECTED, usize::MAX).expect("it is right") {
        Receive::Frame(frame) => Some(frame.payload.len()),
        _ => None,
    }
}

/// Time of encoding and decoding so many messages of a size.
fn time(sides: &mut [Transport; 2], size: usize, count: u32) -> Duration {
    let [ours, theirs] = sides;
    let (bytes, mut wire) = (vec![7; size], Vec::with_capacity(size + 64));
    let mut spent = Duration::ZERO;
    for _ in 0..count {
        let payload = DataStream::from(&bytes[..]);
        let started = Instant::now();
        ours.send(Command::BLOCK, payload.into());
        assert_eq!(carry(ours, theirs, &mut wire), Some(size));
        spent += started.elapsed();
    }
    spent
}

#[test]
fn an_encrypted_connection_takes_under_a_kilobyte_of_locked_memory() {
    let _alone = crate::alone();
    const CONNECTIONS: usize = 1_000;
    let before = process_pool().stats().used;
    let connections: Vec<[Transport; 2]> = (0..CONNECTIONS / 2).map(|_| encrypted()).collect();
    let each = (process_pool().stats().used - before) / CONNECTIONS;
    eprintln!("{each} bytes of locked memory for each of {CONNECTIONS} connections");
    assert!(each < 1_024, "{each}");
    drop(connections);
}

/// `cargo test --release -p godwit-p2p --test it -- --ignored --nocapture cost`
#[test]
#[ignore = "measures"]
fn cost_of_encryption_beside_the_plain_protocol() {
    let _alone = crate::alone();
    for (size, count) in [(1_000_000, 200), (100, 20_000)] {
        let (mut plain, mut encrypted) = (plain(), encrypted());
        for round in 0..3 {
            let [v1, v2] = [&mut plain, &mut encrypted]
                .map(|sides| time(sides, size, count).as_secs_f64() * 1e6 / f64::from(count));
            eprintln!("round {round}, {size} bytes: v1 {v1:.2} us, v2 {v2:.2} us, both ends");
        }
    }
    let started = Instant::now();
    (0..200).for_each(|_| drop(encrypted()));
    eprintln!("handshake of both ends: {:.0} us", started.elapsed().as_secs_f64() * 1e6 / 200.0);
}

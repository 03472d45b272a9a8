//! The cost of secrecy: locked memory compared with plain memory, signatures by a key in the arena with a key
//! in plain memory, and messages over an encrypted connection with the plain protocol.
//!
//! The first line of each group is the plain one, by which the others are divided. These lines run in
//! the benchmark's own process, with the plain policy.

use std::hint::black_box;

use godwit_keys::PrivateKey;
use godwit_p2p::{Command, Receive, ReceiveLimits, Transport, V2Secrets, Write};
use godwit_primitives::network::{Network, Params};
use godwit_secret::{LockError, SecretArray, SecretStream};
use godwit_store::BLOCK_BUFFERS;
use godwit_stream::{BufferPool, DataStream};
use secp256k1::{Keypair, Message, Secp256k1, SecretKey};

use crate::bench::Kind;
use crate::contenders::Contender;
use crate::harness::Subject;

/// A group: its name, and who makes its lines.
pub struct SecretGroup {
    /// The benchmark's name.
    pub name: &'static str,
    make: fn() -> Result<Vec<Contender>, LockError>,
}

pub const GROUPS: [SecretGroup; 4] = [
    SecretGroup { name: "Secrets: allocation of 32 bytes", make: allocations },
    SecretGroup { name: "Secrets: stream of 8,192 bytes", make: streams },
    SecretGroup { name: "Secrets: signature", make: signatures },
    SecretGroup { name: "Secrets: message of 1 MB", make: messages },
];

impl SecretGroup {
    /// The lines, prepared.
    ///
    /// # Errors
    ///
    /// When no memory can be locked.
    pub fn lines(&self) -> Result<Vec<Contender>, LockError> {
        (self.make)()
    }
}

/// Repetitions in one iteration, so that what it takes to call the body does not show.
const REPEATED: usize = 64;

const STREAM_BYTES: usize = 8192;
const MESSAGE_BYTES: usize = 1_000_000;

const KEY: [u8; 32] = [0x42; 32];
const DIGEST: [u8; 32] = [0x17; 32];

const LOCKED: &str = "the memory was locked before";

fn line(
    name: &str,
    kind: Kind,
    unit: &'static str,
    units: usize,
    body: impl FnMut() + 'static,
) -> Contender {
    Contender { name: name.to_owned(), kind, subject: Subject::new(unit, units as f64, body) }
}

/// Made, filled and dropped; the locked one is wiped then.
fn allocations() -> Result<Vec<Contender>, LockError> {
    drop(SecretArray::<32>::zeroed()?);
    let plain = || {
        for _ in 0..REPEATED {
            black_box(Box::new(black_box(KEY)));
        }
    };
    let locked = || {
        for _ in 0..REPEATED {
            let fill = |bytes: &mut [u8; 32]| *bytes = black_box(KEY);
            black_box(SecretArray::from_fn_in_place(fill).expect(LOCKED));
        }
    };
    Ok(vec![
        line("plain, Box<[u8; 32]>", Kind::Rival, "op", REPEATED, plain),
        line("locked, SecretArray<32>", Kind::Godwit, "op", REPEATED, locked),
    ])
}

/// Made with room, written once and dropped.
fn streams() -> Result<Vec<Contender>, LockError> {
    drop(SecretStream::with_capacity(STREAM_BYTES)?);
    let bytes = vec![0x5a; STREAM_BYTES];
    let same = bytes.clone();
    let plain = move || {
        for _ in 0..REPEATED {
            let mut stream = DataStream::with_capacity(STREAM_BYTES);
            stream.write(black_box(&bytes));
            black_box(&stream);
        }
    };
    let locked = move || {
        for _ in 0..REPEATED {
            let mut stream = SecretStream::with_capacity(STREAM_BYTES).expect(LOCKED);
            stream.write(black_box(&same)).expect(LOCKED);
            black_box(&stream);
        }
    };
    let units = REPEATED * STREAM_BYTES;
    Ok(vec![
        line("plain, DataStream", Kind::Godwit, "byte", units, plain),
        line("locked, SecretStream", Kind::Godwit, "byte", units, locked),
    ])
}

/// One signature each; godwit's run on a secret stack that is wiped after each, and are verified before
/// they are given out.
fn signatures() -> Result<Vec<Contender>, LockError> {
    let curve = Secp256k1::new();
    let key = SecretKey::from_slice(&KEY).expect("it is in range");
    let pair = Keypair::from_secret_key(&curve, &key);
    let number = SecretArray::from_plain_and_wipe(&mut KEY.clone())?;
    let ours = || -> Result<PrivateKey, LockError> {
        let copy = SecretArray::copy_of(&number)?;
        Ok(PrivateKey::from_secret(copy).expect("it is in range"))
    };
    let (ecdsa_key, schnorr_key) = (ours()?, ours()?);
    let other_curve = curve.clone();
    let plain_ecdsa = move || {
        let message = Message::from_digest(black_box(DIGEST));
        black_box(curve.sign_ecdsa_low_r(&message, &key));
    };
    let plain_schnorr = move || {
        let message = Message::from_digest(black_box(DIGEST));
        black_box(other_curve.sign_schnorr_with_aux_rand(&message, &pair, &[0; 32]));
    };
    let ecdsa = move || {
        black_box(ecdsa_key.sign_ecdsa(&black_box(DIGEST)).expect(LOCKED));
    };
    let schnorr = move || {
        black_box(schnorr_key.sign_schnorr(&black_box(DIGEST), None).expect(LOCKED));
    };
    Ok(vec![
        line("ECDSA, plain, secp256k1 crate", Kind::Rival, "op", 1, plain_ecdsa),
        line("ECDSA, locked, verified", Kind::Godwit, "op", 1, ecdsa),
        line("Schnorr, plain, secp256k1 crate", Kind::Rival, "op", 1, plain_schnorr),
        line("Schnorr, locked, verified", Kind::Godwit, "op", 1, schnorr),
    ])
}

/// A `block` message of any bytes: framed and written at one end, read and checked at the other.
fn messages() -> Result<Vec<Contender>, LockError> {
    let magic = Params::new(Network::Regtest).magic;
    let pool = BufferPool::new(BLOCK_BUFFERS);
    let plain = [(); 2].map(|()| Transport::new_v1(magic, pool.clone()));
    let secrets = || -> Result<V2Secrets, LockError> {
        let key = SecretArray::from_plain_and_wipe(&mut KEY.clone())?;
        Ok(V2Secrets { key, encoding: DIGEST, garbage: Vec::new() })
    };
    let handshake = "a handshake with itself";
    let mut initiator =
        Transport::new_v2_initiator(magic, pool.clone(), secrets()?).expect(handshake);
    let mut responder =
        Transport::new_v2_responder(magic, pool.clone(), secrets()?).expect(handshake);
    for _ in 0..2 {
        carry(&mut initiator, &mut responder, &mut Vec::new());
        carry(&mut responder, &mut initiator, &mut Vec::new());
    }
    let encrypted = [initiator, responder];
    Ok(vec![
        line("v1, both ends", Kind::Godwit, "byte", MESSAGE_BYTES, exchange(plain, pool.clone())),
        line("v2, both ends", Kind::Godwit, "byte", MESSAGE_BYTES, exchange(encrypted, pool)),
    ])
}

fn exchange([mut from, mut to]: [Transport; 2], pool: BufferPool) -> impl FnMut() {
    let bytes = vec![7; MESSAGE_BYTES];
    let mut wire = Vec::with_capacity(MESSAGE_BYTES + 64);
    move || {
        let mut payload = pool.take();
        payload.write(black_box(&bytes));
        from.send(Command::BLOCK, payload);
        assert_eq!(carry(&mut from, &mut to, &mut wire), Some(MESSAGE_BYTES));
    }
}

/// Lets `to` read what `from` writes; the length of the message that came.
fn carry(from: &mut Transport, to: &mut Transport, wire: &mut Vec<u8>) -> Option<usize> {
    const LIMITS: ReceiveLimits = ReceiveLimits { expects_block: true, expects_compact: false };
    wire.clear();
    assert_eq!(from.write(wire, usize::MAX).expect("memory takes every byte"), Write::Done);
    let mut unread: &[u8] = wire;
    match to.receive(&mut unread, &LIMITS, usize::MAX) {
        Ok(Receive::Frame(frame)) => Some(black_box(frame.payload).len()),
        Ok(_) => None,
        Err(error) => panic!("it was framed: {error:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::SECRETS;

    #[test]
    fn every_line_runs() {
        for group in GROUPS {
            assert!(group.name.starts_with(SECRETS));
            for mut line in group.lines().expect("locked memory") {
                (line.subject.body)();
                assert!(line.subject.units_per_iteration >= 1.0, "{}", line.name);
            }
        }
    }
}

//! An encrypted connection of two invented nodes, over memory instead of a socket.

use std::collections::VecDeque;
use std::io;

use bitcoin::hashes::{Hash, HashEngine, Hmac, HmacEngine, sha256};
use bitcoin::secp256k1::SecretKey;
use bitcoin::secp256k1::ellswift::{ElligatorSwift, ElligatorSwiftParty};
use godwit_p2p::{
    Command, MAX_GARBAGE, Protocol, Receive, ReceiveLimits, Transport, V2Secrets, Write,
};
use godwit_secret::residue::Needle;
use godwit_secret::{SecretArray, run_on_secret_stack};
use godwit_stream::{BufferPool, DataStream, PoolLimits};

use super::CheckError;
use super::case::Case;

/// Of BIP324's HKDF, before the magic.
const SALT: &[u8] = b"bitcoin_v2_shared_secret";
const MAGIC: [u8; 4] = [0xf9, 0xbe, 0xb4, 0xd9];
/// Enough for every key to be replaced twice: that happens after each 224 packets.
const PACKETS: usize = 500;
const POOL: PoolLimits = PoolLimits { buffers: 4, buffer_bytes: 1 << 20, total_bytes: 4 << 20 };
const LIMITS: ReceiveLimits = ReceiveLimits { expects_block: false, expects_compact: false };
/// Length in bytes of an encoded public key, the first thing that each side sends.
const PUBLIC_KEY_SIZE: usize = 64;

/// Handshake, packets and rekeys.
pub(super) fn connect(case: &mut Case<'_, '_>) -> Result<(), CheckError> {
    let our_key = case.number("private key of a connection")?;
    let copy = SecretArray::<32>::copy_of(&our_key)?;
    let their_key = case.number("private key of the other side")?;
    let pool = BufferPool::new(POOL);
    let mut ours = Transport::new_v2_initiator(MAGIC, pool.clone(), secrets(our_key, 1))?;
    let mut theirs = Transport::new_v2_responder(MAGIC, pool, secrets(their_key, 2))?;

    let mut to_them = Wire::default();
    let mut to_us = Wire::default();
    send(&mut ours);
    flush(&mut ours, &mut to_them, case)?;
    receive(&mut theirs, &mut to_them, case)?;
    flush(&mut theirs, &mut to_us, case)?;
    case.plant_all(shared_secret(copy, &to_them.first, &to_us.first, case)?);
    receive(&mut ours, &mut to_us, case)?;
    flush(&mut ours, &mut to_them, case)?;
    receive(&mut theirs, &mut to_them, case)?;
    if !matches!(ours.protocol(), Protocol::V2 { .. }) || ours.protocol() != theirs.protocol() {
        return Err(case.unexpected());
    }
    for packet in 0..PACKETS {
        // So the first keys, those after each replacement and the last ones are searched for.
        if packet % 200 == 0 || packet + 1 == PACKETS {
            case.plant_all(ours.needles()?);
            case.unlocked()?;
        }
        send(&mut ours);
        flush(&mut ours, &mut to_them, case)?;
        receive(&mut theirs, &mut to_them, case)?;
        send(&mut theirs);
        flush(&mut theirs, &mut to_us, case)?;
        receive(&mut ours, &mut to_us, case)?;
    }
    case.unlocked()
}

fn secrets(key: SecretArray<32>, side: u8) -> V2Secrets {
    let garbage = vec![side; MAX_GARBAGE / 4];
    V2Secrets { key, encoding: [side; 32], garbage }
}

/// Needles of the secret that both sides compute from each other's public keys and do not keep, and of what
/// HKDF makes all keys of.
fn shared_secret(
    our_key: SecretArray<32>,
    our_bytes: &[u8],
    their_bytes: &[u8],
    case: &Case<'_, '_>,
) -> Result<Vec<Needle>, CheckError> {
    let public = |bytes: &[u8]| -> Result<ElligatorSwift, CheckError> {
        let bytes: [u8; PUBLIC_KEY_SIZE] = bytes.try_into().map_err(|_| case.unexpected())?;
        Ok(ElligatorSwift::from_array(bytes))
    };
    let (ours, theirs) = (public(our_bytes)?, public(their_bytes)?);
    let secret = run_on_secret_stack(|| {
        our_key.expose_secret(|key| {
            let key = SecretKey::from_slice(key).ok()?;
            let party = ElligatorSwiftParty::A;
            let secret = ElligatorSwift::shared_secret(ours, theirs, key, party, None);
            Some(SecretArray::<32>::from_fn_in_place(|copy| *copy = secret.to_secret_bytes()))
        })
    })?;
    let secret = secret.ok_or_else(|| case.unexpected())??;
    let mut needles = vec![Needle::new("shared secret", &secret)?];
    let key = run_on_secret_stack(|| {
        secret.expose_secret(|secret| {
            let mut engine = HmacEngine::<sha256::Hash>::new(&[SALT, &MAGIC].concat());
            engine.input(secret);
            let key = Hmac::from_engine(engine).to_byte_array();
            SecretArray::<32>::from_fn_in_place(|copy| *copy = key)
        })
    })??;
    needles.push(Needle::new("key of HKDF", &key)?);
    for pad in [0x36, 0x5c] {
        let state = run_on_secret_stack(|| {
            key.expose_secret(|key| {
                let mut block = [pad; sha256::HashEngine::BLOCK_SIZE];
                block.iter_mut().zip(key).for_each(|(to, byte)| *to ^= byte);
                let mut engine = sha256::Hash::engine();
                engine.input(&block);
                let state = engine.midstate().to_byte_array();
                SecretArray::<32>::from_fn_in_place(|copy| *copy = state)
            })
        })??;
        needles.push(Needle::new("state of HKDF", &state)?);
    }
    Ok(needles)
}

fn send(transport: &mut Transport) {
    transport.send(Command::PING, DataStream::from(&[7; 8][..]).into());
}

fn flush(
    transport: &mut Transport,
    wire: &mut Wire,
    case: &Case<'_, '_>,
) -> Result<(), CheckError> {
    match transport.write(wire, usize::MAX)? {
        Write::Done => Ok(()),
        _ => Err(case.unexpected()),
    }
}

fn receive(
    transport: &mut Transport,
    wire: &mut Wire,
    case: &Case<'_, '_>,
) -> Result<(), CheckError> {
    loop {
        match transport.receive(wire, &LIMITS, usize::MAX)? {
            Receive::Frame(_) => {}
            Receive::Pending => return Ok(()),
            _ => return Err(case.unexpected()),
        }
    }
}

/// One direction of the connection.
#[derive(Default)]
struct Wire {
    bytes: VecDeque<u8>,
    /// The first bytes that went over it: the public key.
    first: Vec<u8>,
}

impl io::Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = PUBLIC_KEY_SIZE - self.first.len();
        self.first.extend(bytes.iter().take(room));
        io::Write::write(&mut self.bytes, bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl io::Read for Wire {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        match self.bytes.is_empty() {
            true => Err(io::ErrorKind::WouldBlock.into()),
            false => io::Read::read(&mut self.bytes, target),
        }
    }
}

//! The process is searched for the secrets of an encrypted connection.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use godwit_p2p::{Command, Protocol, Receive, ReceiveLimits, Transport, V2Secrets};
use godwit_secret::residue::{Finding, Needle, scan};
use godwit_secret::{Declassified, SecretArray, run_on_secret_stack};
use godwit_stream::{BufferPool, DataStream, PoolLimits};
use hkdf::Hkdf;
use secp256k1::SecretKey;
use secp256k1::ellswift::{ElligatorSwift, ElligatorSwiftParty, ElligatorSwiftSharedSecret};
use sha2::Sha256;
use sha2::block_api::compress256;

const MAGIC: [u8; 4] = [0xfa, 0xbf, 0xb5, 0xda];

/// The state with which SHA-256 begins.
const SHA256_START: [u32; 8] = [
    0x6a09_e667,
    0xbb67_ae85,
    0x3c6e_f372,
    0xa54f_f53a,
    0x510e_527f,
    0x9b05_688c,
    0x1f83_d9ab,
    0x5be0_cd19,
];

/// Packets that go in each direction: the keys are replaced twice.
const PACKETS: u64 = 500;

pub(crate) type Secret = SecretArray<32>;

fn pool() -> BufferPool {
    BufferPool::new(PoolLimits { buffers: 2, buffer_bytes: 1 << 20, total_bytes: 2 << 20 })
}

pub(crate) fn secret(fill: impl Fn(&mut [u8; 32]) + Sync) -> Secret {
    Secret::from_fn_in_place(fill).expect("locked memory")
}

fn copy(original: &Secret) -> Secret {
    original.expose_secret(|original| secret(|copy| copy.copy_from_slice(original)))
}

pub(crate) fn random() -> Secret {
    Secret::random().expect("locked memory")
}

/// A transport with that key, and the key it sends.
pub(crate) fn transport(key: &Secret, initiator: bool) -> (Transport, [u8; 64]) {
    let secrets = V2Secrets { key: copy(key), encoding: [5; 32], garbage: vec![7; 100] };
    let make = match initiator {
        true => Transport::new_v2_initiator,
        false => Transport::new_v2_responder,
    };
    let transport = make(MAGIC, pool(), secrets).expect("locked memory");
    // The same encoding again.
    let public = run_on_secret_stack(|| {
        let context = secp256k1::Secp256k1::new();
        key.expose_secret(|key| {
            let key = SecretKey::from_slice(key).expect("a key");
            Declassified(ElligatorSwift::from_seckey(&context, key, Some([5; 32])).to_array())
        })
    });
    (transport, public.expect("locked memory").0)
}

/// Lets `to` read what `from` writes: messages that came.
pub(crate) fn carry(from: &mut Transport, to: &mut Transport) -> usize {
    let mut bytes = Vec::new();
    from.write(&mut bytes, usize::MAX).expect("a vector takes it");
    let limits = ReceiveLimits { expects_block: true, expects_compact: true };
    let (mut source, mut messages) = (bytes.as_slice(), 0);
    loop {
        match to.receive(&mut source, &limits, usize::MAX).expect("it is right") {
            Receive::Frame(_) => messages += 1,
            Receive::Closed => return messages,
            other => panic!("{other:?}"),
        }
    }
}

pub(crate) fn send(transport: &mut Transport, command: Command, len: usize) {
    let mut payload = DataStream::new();
    (0..len).for_each(|_| payload.write_u8(9));
    transport.send(command, payload.into());
}

/// The keys of a connection by another way, each with its name. Those of the present are in use behind
/// so many packets each way.
pub(crate) struct Keys {
    pub(crate) passed: Vec<(String, Secret)>,
    pub(crate) present: Vec<(String, Secret)>,
}

pub(crate) fn keystream(key: &Secret, packet: u32, epoch: u64, from: u64) -> Secret {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&packet.to_le_bytes());
    nonce[4..].copy_from_slice(&epoch.to_le_bytes());
    key.expose_secret(|key| {
        secret(|bytes| {
            let mut cipher = ChaCha20::new(key.into(), &nonce.into());
            cipher.seek(from);
            cipher.apply_keystream(bytes);
        })
    })
}

pub(crate) fn keys(key: &Secret, public: [u8; 64], theirs: [u8; 64], packets: u64) -> Keys {
    let (mut passed, mut present) = (Vec::new(), Vec::new());
    let [ours, theirs] = [public, theirs].map(ElligatorSwift::from_array);
    let private =
        key.expose_secret(|key| Declassified(SecretKey::from_slice(key).expect("a key"))).0;
    let party = ElligatorSwiftParty::A;
    let point =
        ElligatorSwift::shared_secret_with_hasher(ours, theirs, private, party, |x, _, _| {
            ElligatorSwiftSharedSecret::from_secret_bytes(x)
        });
    passed.push(("point".into(), secret(|bytes| *bytes = point.to_secret_bytes())));
    let shared = ElligatorSwift::shared_secret(ours, theirs, private, party, None);
    let shared = secret(|bytes| *bytes = shared.to_secret_bytes());
    let salt = [&b"bitcoin_v2_shared_secret"[..], &MAGIC].concat();
    let (extracted, hkdf) =
        shared.expose_secret(|shared| Declassified(Hkdf::<Sha256>::extract(Some(&salt), shared))).0;
    passed.push(("shared".into(), shared));
    for (name, pad) in [("extracted", 0), ("inner pad", 0x36), ("outer pad", 0x5c)] {
        let padded = secret(|bytes| {
            bytes.iter_mut().zip(&extracted).for_each(|(byte, value)| *byte = value ^ pad);
        });
        passed.push((name.into(), padded));
    }
    // As good as the extracted key: what HMAC keeps of it.
    for (name, pad) in [("inner state", 0x36), ("outer state", 0x5c)] {
        let mut block = [pad; 64];
        block.iter_mut().zip(&extracted).for_each(|(byte, value)| *byte ^= value);
        let mut state = SHA256_START;
        compress256(&mut state, &[block]);
        let words = |bytes: &mut [u8; 32]| {
            let (words, _) = bytes.as_chunks_mut();
            words.iter_mut().zip(state).for_each(|(to, word)| *to = word.to_ne_bytes());
        };
        passed.push((name.into(), secret(words)));
    }
    for label in ["initiator_L", "initiator_P", "responder_L", "responder_P"] {
        let mut key = secret(|bytes| hkdf.expand(label.as_bytes(), bytes).expect("32 bytes"));
        for epoch in 0..packets / 224 {
            let next = match label.ends_with('L') {
                true => keystream(&key, 0, epoch, 3 * 224),
                false => keystream(&key, u32::MAX, epoch, 64),
            };
            passed.push((format!("{label} {epoch}"), key));
            key = next;
        }
        present.push((format!("{label} now"), key));
    }
    Keys { passed, present }
}

/// Also with its bytes in the opposite order, as numbers of 256 bits lie in memory.
pub(crate) fn needle((name, secret): &(String, Secret)) -> Needle {
    let needle = Needle::new(name, secret).expect("locked memory");
    let reversed = copy_reversed(secret);
    needle.form("reversed", &reversed).expect("locked memory")
}

fn copy_reversed(original: &Secret) -> Secret {
    original.expose_secret(|original| {
        secret(|copy| copy.iter_mut().zip(original.iter().rev()).for_each(|(to, from)| *to = *from))
    })
}

pub(crate) fn found(needles: &[Needle]) -> Vec<Finding> {
    scan(needles).expect("a process can be searched").findings
}

pub(crate) fn shown(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(ToString::to_string).collect()
}

#[test]
fn nothing_secret_of_an_encrypted_connection_lies_in_ordinary_memory() {
    let _alone = crate::alone();
    let (our_key, their_key) = (random(), random());
    let (mut ours, public) = transport(&our_key, true);
    let (mut theirs, other) = transport(&their_key, false);
    for _ in 0..2 {
        carry(&mut ours, &mut theirs);
        carry(&mut theirs, &mut ours);
    }
    assert!(matches!(ours.protocol(), Protocol::V2 { .. }));
    // The version packet was the first of each.
    for n in 1..PACKETS {
        send(&mut ours, Command::PING, n as usize % 300);
        send(&mut theirs, Command::PONG, n as usize % 300);
    }
    assert_eq!(carry(&mut ours, &mut theirs), PACKETS as usize - 1);
    assert_eq!(carry(&mut theirs, &mut ours), PACKETS as usize - 1);
    let named = [("our key".to_owned(), our_key), ("their key".to_owned(), their_key)];
    let Declassified((passed, present)) = run_on_secret_stack(move || {
        let Keys { passed, present } = keys(&named[0].1, public, other, PACKETS);
        let passed: Vec<Needle> = named.iter().chain(&passed).map(needle).collect();
        let present: Vec<Needle> = present.iter().map(needle).collect();
        Declassified((passed, present))
    })
    .expect("locked memory");
    assert_eq!((passed.len(), present.len()), (2 + 7 + 4 * 2, 4));

    // What is used up is nowhere, what is in use lies in locked memory, once for each side.
    assert_eq!(shown(&found(&passed)), [""; 0]);
    let findings = found(&present);
    assert!(findings.iter().all(|finding| finding.protected), "{:?}", shown(&findings));
    assert_eq!(findings.len(), 2 * present.len(), "{:?}", shown(&findings));

    drop((ours, theirs));
    assert_eq!(shown(&found(&present)), [""; 0]);
}

/// The search would find a key that a careless cipher keeps.
#[test]
fn a_key_in_a_plain_cipher_is_found() {
    let _alone = crate::alone();
    let key = random();
    let named = ("careless".to_owned(), key);
    let needles = [needle(&named)];
    let cipher = named
        .1
        .expose_secret(|key| Declassified(Box::new(ChaCha20::new(key.into(), &[0; 12].into()))))
        .0;
    drop(named);
    let findings = found(&needles);
    assert!(findings.iter().any(|finding| !finding.protected), "{:?}", shown(&findings));
    drop(cipher);
}

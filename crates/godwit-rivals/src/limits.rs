//! What the machine can do at most, for showing a figure as a share of it.

use std::hash::Hasher;
use std::hint::black_box;
use std::sync::LazyLock;

use memmap2::{Advice, MmapMut};
use secp256k1::{All, Keypair, Message, Secp256k1, SecretKey};
use sha2::{Digest, Sha256};
use siphasher::sip::{SipHasher13, SipHasher24};

use crate::{Subject, scrambled};

/// Fits the first level of every cache in use.
const IN_CACHE: usize = 8 << 10;
/// Fits the last level of few.
const OUT_OF_CACHE: usize = 64 << 20;
/// Of the long message to hash.
const LONG_MESSAGE: usize = 1 << 20;
/// An average transaction's size, and how many of them.
const SHORT_MESSAGE: usize = 250;
const SHORT_MESSAGES: usize = 4096;
const PAGE: usize = 4096;
/// 16 MiB: `mmap` and `munmap` themselves are lost in that many faults.
const PAGES: usize = 4096;
/// Hashes of outpoints in one iteration.
const OUTPOINTS: usize = 1024;
const OUTPOINT: usize = 36;

/// Memory, page faults, hashes, signatures. Takes 130 MiB for as long as the subjects live.
pub fn limit_subjects() -> Vec<Subject> {
    let mut subjects = vec![
        copy("memcpy 8 KiB, in cache", IN_CACHE, 512),
        copy("memcpy 64 MiB, out of cache", OUT_OF_CACHE, 1),
        page_faults(),
        sha256_long(),
        sha256_many(),
    ];
    subjects.extend(outpoint_hashes());
    subjects.extend(signatures());
    subjects
}

fn copy(name: &str, size: usize, times: usize) -> Subject {
    let from = vec![0x5a_u8; size];
    let mut to = vec![0xa5_u8; size];
    Subject::new(name, "byte", (size * times) as f64, move || {
        for _ in 0..times {
            to.copy_from_slice(black_box(&from));
            black_box(&mut to);
        }
    })
}

/// First writes to fresh anonymous pages, with what it takes to map and unmap them.
fn page_faults() -> Subject {
    Subject::new("page fault, fresh 4 KiB page", "op", PAGES as f64, || {
        let mut fresh = MmapMut::map_anon(PAGES * PAGE).expect("16 MiB of address space");
        // One fault must not bring 2 MiB. A kernel built without huge pages refuses, and needs none.
        fresh.advise(Advice::NoHugePage).ok();
        for page in fresh.chunks_exact_mut(PAGE) {
            page[0] = 1;
        }
        black_box(&mut fresh);
    })
}

fn sha256_long() -> Subject {
    let message = vec![0x5a_u8; LONG_MESSAGE];
    Subject::new("SHA-256 of 1 MiB, sha2 crate", "byte", LONG_MESSAGE as f64, move || {
        black_box(Sha256::digest(black_box(&message)));
    })
}

/// The `sha2` crate has no way to interleave messages, so this is what it makes of many: one after
/// the other.
fn sha256_many() -> Subject {
    let messages = vec![0x5a_u8; SHORT_MESSAGE * SHORT_MESSAGES];
    let bytes = messages.len() as f64;
    Subject::new("SHA-256 of 4096 × 250 bytes, sha2 crate", "byte", bytes, move || {
        for message in black_box(&messages).chunks_exact(SHORT_MESSAGE) {
            black_box(Sha256::digest(message));
        }
    })
}

/// Double SHA-256 of each transaction by the `sha2` crate, one after the other; given per `unit`, of
/// which all of them together are one.
pub fn transaction_hashes(unit: &'static str, transactions: Vec<Vec<u8>>) -> Subject {
    Subject::new("SHA-256d of the transactions, sha2 crate", unit, 1.0, move || {
        for transaction in black_box(&transactions) {
            black_box(Sha256::digest(Sha256::digest(transaction)));
        }
    })
}

fn outpoint_hashes() -> [Subject; 2] {
    const BYTES: usize = OUTPOINTS * OUTPOINT;
    static RANDOM: [u8; BYTES] = scrambled(4);
    let subject = |name, hash: fn(&[u8]) -> u64| {
        Subject::new(name, "op", OUTPOINTS as f64, move || {
            for outpoint in black_box(&RANDOM).chunks_exact(OUTPOINT) {
                black_box(hash(outpoint));
            }
        })
    };
    [
        subject("SipHash-2-4 of an outpoint", |outpoint| {
            let mut hasher = SipHasher24::new_with_keys(1, 2);
            hasher.write(outpoint);
            hasher.finish()
        }),
        subject("SipHash-1-3 of an outpoint", |outpoint| {
            let mut hasher = SipHasher13::new_with_keys(1, 2);
            hasher.write(outpoint);
            hasher.finish()
        }),
    ]
}

/// With the key parsed beforehand; a node parses it too.
fn signatures() -> [Subject; 2] {
    static CURVE: LazyLock<Secp256k1<All>> = LazyLock::new(Secp256k1::new);
    let secret = SecretKey::from_slice(&scrambled::<32>(5)).expect("below the group's order");
    let message = Message::from_digest(scrambled(6));
    let keypair = Keypair::from_secret_key(&CURVE, &secret);
    let public = keypair.public_key();
    let (x_only, _) = keypair.x_only_public_key();
    let ecdsa = CURVE.sign_ecdsa(&message, &secret);
    let schnorr = CURVE.sign_schnorr_no_aux_rand(&message, &keypair);
    [
        Subject::new("secp256k1 verify, ECDSA", "op", 1.0, move || {
            let verified = CURVE.verify_ecdsa(black_box(&message), &ecdsa, &public);
            verified.expect("signed above");
        }),
        Subject::new("secp256k1 verify, Schnorr", "op", 1.0, move || {
            let verified = CURVE.verify_schnorr(&schnorr, black_box(&message), &x_only);
            verified.expect("signed above");
        }),
    ]
}

//! What the hashes of an input take beside its signature: the most that computing them in lanes could save.

use std::time::Instant;

use godwit_primitives::sha256::{sha256, sha256d, sha256d_many};
use ripemd::{Digest, Ripemd160};

use crate::ROUNDS;

const INPUTS: usize = 4096;
/// Bytes of a message of BIP143 for SIGHASH_ALL of a key hash.
const MESSAGE: usize = 182;

pub(crate) fn report() {
    let keys: Vec<[u8; 33]> = (0..INPUTS).map(|i| [i as u8; 33]).collect();
    let messages: Vec<[u8; MESSAGE]> = (0..INPUTS).map(|i| [i as u8; MESSAGE]).collect();
    let spans: Vec<&[u8]> = messages.iter().map(|message| &message[..]).collect();
    let mut out = vec![[0; 32]; INPUTS];
    let mut found = 0;
    println!("| hashes of an input | microseconds |\n| --- | ---: |");
    let mut row = |name: &str, hash_all: &mut dyn FnMut(&mut [[u8; 32]])| {
        let round = |_| {
            let start = Instant::now();
            hash_all(&mut out);
            found ^= out[INPUTS - 1][0];
            start.elapsed().as_secs_f64() * 1e6 / INPUTS as f64
        };
        println!("| {name} | {:.3} |", (0..ROUNDS).map(round).fold(f64::MAX, f64::min));
    };
    row("HASH160 of a compressed key", &mut |out| {
        for (out, key) in out.iter_mut().zip(&keys) {
            out[..20].copy_from_slice(&Ripemd160::digest(sha256(key)));
        }
    });
    row("its SHA-256 alone", &mut |out| {
        out.iter_mut().zip(&keys).for_each(|(out, key)| *out = sha256(key));
    });
    row("message of BIP143, 182 bytes, one at a time", &mut |out| {
        out.iter_mut().zip(&messages).for_each(|(out, message)| *out = sha256d(message));
    });
    row("the same, all at once (sha256d_many)", &mut |out| sha256d_many(&spans, out));
    std::hint::black_box(found);
}

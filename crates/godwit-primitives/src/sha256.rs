//! SHA-256 and double SHA-256, one message at a time or many (FIPS 180-4).
//!
//! Transactions of a block and nodes of a merkle level are independent messages. On x86-64 several of
//! them are compressed at once, by SHA extensions or in the lanes of vector registers ([`choice`]);
//! elsewhere the `ring` crate, which knows the instructions of other CPUs, takes them one after another,
//! and everywhere it takes single messages. Where there are no instructions for SHA-256, its AVX2 code takes
//! 0.5 to 0.75 of the time of the `sha2` crate, which was here before.

use std::fmt;

use ring::digest::{Context, SHA256, digest};

#[cfg(target_arch = "x86_64")]
mod choice;
#[cfg(target_arch = "x86_64")]
mod groups;
#[cfg(target_arch = "x86_64")]
mod lanes;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
mod x86;

/// SHA-256 of `data`.
pub fn sha256(data: &[u8]) -> [u8; 32] {
    bytes(digest(&SHA256, data))
}

/// SHA-256 of the SHA-256 of `data`: Bitcoin's identifiers of blocks and transactions.
pub fn sha256d(data: &[u8]) -> [u8; 32] {
    sha256(&sha256(data))
}

fn bytes(digest: ring::digest::Digest) -> [u8; 32] {
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// SHA-256 of bytes that arrive in pieces.
#[derive(Clone)]
pub struct Sha256(Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Sha256 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sha256").finish_non_exhaustive()
    }
}

impl Sha256 {
    /// The hash of nothing yet.
    pub fn new() -> Sha256 {
        Sha256(Context::new(&SHA256))
    }

    /// Appends `data` to the message.
    pub fn update(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    /// SHA-256 of the message.
    pub fn finalize(self) -> [u8; 32] {
        bytes(self.0.finish())
    }

    /// SHA-256 of the SHA-256 of the message.
    pub fn finalize_double(self) -> [u8; 32] {
        sha256(&self.finalize())
    }
}

/// Double SHA-256 of each message, in order.
///
/// # Panics
/// When `messages` and `out` differ in length.
pub fn sha256d_many(messages: &[&[u8]], out: &mut [[u8; 32]]) {
    sha256d_spans_many(messages.len(), |i| [messages[i], &[], &[]], out);
}

/// Double SHA-256 of `n` messages, each the concatenation of three spans, any of which may be empty.
/// `spans` is asked once for each index, in order; the spans are hashed where they lie.
///
/// # Panics
/// When `out` does not have `n` entries.
pub fn sha256d_spans_many<'a>(
    n: usize,
    spans: impl Fn(usize) -> [&'a [u8]; 3],
    out: &mut [[u8; 32]],
) {
    assert_eq!(n, out.len(), "one digest for each message");
    #[cfg(target_arch = "x86_64")]
    choice::Compression::fastest().sha256d_spans(spans, out);
    #[cfg(not(target_arch = "x86_64"))]
    sha256d_spans_portable(spans, out);
}

fn sha256d_spans_portable<'a>(spans: impl Fn(usize) -> [&'a [u8]; 3], out: &mut [[u8; 32]]) {
    for (i, digest) in out.iter_mut().enumerate() {
        *digest = sha256d_of_spans(spans(i));
    }
}

fn sha256d_of_spans(spans: [&[u8]; 3]) -> [u8; 32] {
    let mut hasher = Sha256::new();
    for span in spans {
        hasher.update(span);
    }
    hasher.finalize_double()
}

/// One level of a merkle tree, in place: entry `i` becomes the double SHA-256 of entries `2i` and
/// `2i + 1`. The upper half, and an odd last entry, are left as they are or overwritten; only the
/// first `hashes.len() / 2` entries have a meaning afterwards.
pub fn sha256d_pairs(hashes: &mut [[u8; 32]]) {
    #[cfg(target_arch = "x86_64")]
    choice::Compression::fastest().sha256d_pairs(hashes);
    #[cfg(not(target_arch = "x86_64"))]
    sha256d_pairs_portable(0, hashes);
}

/// The pairs from the one of number `first` on.
fn sha256d_pairs_portable(first: usize, hashes: &mut [[u8; 32]]) {
    for i in first..hashes.len() / 2 {
        hashes[i] = sha256d(hashes[2 * i..2 * i + 2].as_flattened());
    }
}

/// What a message has been compressed to so far: A to H. (FIPS 180-4: the intermediate hash value.)
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug)]
struct Chaining([u32; 8]);

#[cfg(target_arch = "x86_64")]
impl Chaining {
    const INITIAL: Chaining = Chaining(INITIAL);

    /// The digest, if the message has ended: big-endian.
    fn to_digest(self) -> [u8; 32] {
        let mut digest = [0; 32];
        for (bytes, word) in digest.as_chunks_mut::<4>().0.iter_mut().zip(self.0) {
            *bytes = word.to_be_bytes();
        }
        digest
    }
}

#[cfg(target_arch = "x86_64")]
const INITIAL: [u32; 8] = [
    0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
];

#[cfg(target_arch = "x86_64")]
const K: [u32; 64] = [
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
];

/// What the rounds of the block that pads a message of 64 bytes add up: its words with the constants.
#[cfg(target_arch = "x86_64")]
const PADDING_AFTER_64: [u32; 64] = padding_rounds();

#[cfg(target_arch = "x86_64")]
const fn padding_rounds() -> [u32; 64] {
    let mut words = [0u32; 64];
    words[0] = 0x8000_0000;
    words[15] = 512;
    let mut i = 16;
    while i < 64 {
        let (early, late) = (words[i - 15], words[i - 2]);
        let s0 = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
        let s1 = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
        words[i] = words[i - 16].wrapping_add(s0).wrapping_add(words[i - 7]).wrapping_add(s1);
        i += 1;
    }
    let mut i = 0;
    while i < 64 {
        words[i] = words[i].wrapping_add(K[i]);
        i += 1;
    }
    words
}

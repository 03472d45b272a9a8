//! The ciphers of one direction of a connection: lengths and packets, each with keys of its own that
//! are replaced every [`REKEY_INTERVAL`] packets.
//!
//! Keys are kept in locked memory. Computing with them leaves copies on the stack: see
//! [`Transport::new_v2_initiator`](crate::Transport::new_v2_initiator).
//!
//! Source: BIP324 "Symmetric encryption", RFC 8439, Core `FSChaCha20`, `FSChaCha20Poly1305`.

use chacha20::ChaCha20;
use chacha20::cipher::{KeyIvInit, StreamCipher, StreamCipherSeek};
use godwit_secret::{Declassified, Releasable, SecretArray, SecretBox, Unprotected, cleanse};
use subtle::ConstantTimeEq;

use super::mac::{Mac, TAG_SIZE};

/// Packets for which a key is used.
pub(crate) const REKEY_INTERVAL: u32 = 224;

/// Length of a packet's encrypted length, in bytes.
pub(crate) const LENGTH_SIZE: usize = 3;

/// Position of a packet's bytes in its keystream: the first block is the tag's key.
const FIRST_BLOCK: u64 = 64;

/// Bytes that are authenticated and decrypted at a time, so that they stay in the first-level cache
/// between the two.
const STEP: usize = 8 << 10;

/// A key of 32 bytes.
pub(super) type Key = SecretArray<32>;

/// The next packet, and the key that it uses.
#[derive(Clone, Copy, Debug, Default)]
struct PacketCounter {
    packet: u32,
    /// Number of keys that were used up.
    epoch: u64,
}

impl PacketCounter {
    /// Counts a packet; returns whether the key is used up.
    fn advance(&mut self) -> bool {
        self.packet += 1;
        self.packet == REKEY_INTERVAL
    }

    fn next_epoch(&mut self) {
        *self = Self { packet: 0, epoch: self.epoch + 1 };
    }
}

fn nonce(packet: u32, epoch: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[..4].copy_from_slice(&packet.to_le_bytes());
    nonce[4..].copy_from_slice(&epoch.to_le_bytes());
    nonce
}

fn stream_of_key(key: &[u8; 32], nonce: [u8; 12], from: u64) -> ChaCha20 {
    let mut cipher = ChaCha20::new(key.into(), &nonce.into());
    cipher.seek(from);
    cipher
}

/// Replaces a key by bytes of its own keystream.
fn replace(key: &mut Key, nonce: [u8; 12], from: u64) {
    key.expose_secret_mut(|key| {
        let mut next = stream_of_key(key, nonce, from);
        cleanse(key);
        next.apply_keystream(key);
    });
}

/// Encrypts or decrypts the length of each packet.
pub(super) struct LengthCipher {
    key: Key,
    counter: PacketCounter,
}

impl LengthCipher {
    pub(super) fn new(key: Key) -> Self {
        Self { key, counter: PacketCounter::default() }
    }

    /// The key at the moment.
    #[cfg(any(test, feature = "residue"))]
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    /// Encrypts or decrypts the next packet's length.
    pub(super) fn apply(&mut self, length: &mut [u8; LENGTH_SIZE]) {
        let nonce = nonce(0, self.counter.epoch);
        // One keystream runs through all lengths of a key and into the next key.
        let from = |packet: u32| LENGTH_SIZE as u64 * u64::from(packet);
        let at = from(self.counter.packet);
        self.key.expose_secret_into(Unprotected(length), |key, length| {
            stream_of_key(key, nonce, at).apply_keystream(length.0);
        });
        if self.counter.advance() {
            replace(&mut self.key, nonce, from(REKEY_INTERVAL));
            self.counter.next_epoch();
        }
    }
}

/// The key of one direction's packets, and the next packet.
pub(super) struct PacketKey {
    key: Key,
    counter: PacketCounter,
}

impl PacketKey {
    fn new(key: Key) -> Self {
        Self { key, counter: PacketCounter::default() }
    }

    /// The key at the moment.
    #[cfg(any(test, feature = "residue"))]
    pub(super) fn key(&self) -> &Key {
        &self.key
    }

    fn nonce(&self) -> [u8; 12] {
        nonce(self.counter.packet, self.counter.epoch)
    }

    /// Shows the one-time key of the next packet's tag to `f`, which writes into `to`.
    pub(super) fn expose_tag_key<D: Releasable, R: Releasable>(
        &self,
        to: D,
        f: impl Fn(&[u8; 32], D) -> R + Sync,
    ) -> R {
        self.key.expose_secret_into(to, |key, to| {
            let mut tag_key = [0; 32];
            stream_of_key(key, self.nonce(), 0).apply_keystream(&mut tag_key);
            let result = f(&tag_key, to);
            cleanse(&mut tag_key);
            result
        })
    }

    /// Gives `f`, which writes into `to`, the keystream of the next packet from its byte `at` on.
    fn expose_stream<D: Releasable, R: Releasable>(
        &self,
        at: u64,
        to: D,
        f: impl Fn(&mut ChaCha20, D) -> R + Sync,
    ) -> R {
        self.key.expose_secret_into(to, |key, to| {
            f(&mut stream_of_key(key, self.nonce(), FIRST_BLOCK + at), to)
        })
    }

    fn advance(&mut self) {
        if self.counter.advance() {
            replace(&mut self.key, nonce(u32::MAX, self.counter.epoch), FIRST_BLOCK);
            self.counter.next_epoch();
        }
    }
}

pub(super) struct Sealer(PacketKey);

impl Sealer {
    pub(super) fn new(key: Key) -> Self {
        Self(PacketKey::new(key))
    }

    #[cfg(any(test, feature = "residue"))]
    pub(super) fn packet_key(&self) -> &PacketKey {
        &self.0
    }

    /// Encrypts the next packet, which consists of these parts, in place, and returns its tag.
    pub(super) fn seal(&mut self, parts: [&mut [u8]; 2], additional: &[u8]) -> [u8; TAG_SIZE] {
        let tag = self.0.expose_tag_key(Unprotected(parts), |key, parts| {
            let mut mac = Mac::new(key, additional);
            self.0.expose_stream(0, (parts, Unprotected(&mut mac)), |cipher, (parts, mac)| {
                let (parts, mac) = (parts.0, mac.0);
                for step in parts.into_iter().flat_map(|part| part.chunks_mut(STEP)) {
                    cipher.apply_keystream(step);
                    mac.update(step);
                }
            });
            Declassified(mac.finish())
        });
        self.0.advance();
        tag.0
    }

    /// A decryptor for the same packets.
    #[cfg(test)]
    pub(super) fn into_opener(self) -> Opener {
        let mac = SecretBox::new(Mac::idle()).expect("locked memory");
        Opener { key: self.0, mac, opened: 0 }
    }
}

/// Decrypts packets, each in pieces as they arrive.
pub(super) struct Opener {
    key: PacketKey,
    /// State of the tag of the packet that is arriving.
    mac: SecretBox<Mac>,
    /// Bytes of the packet so far.
    opened: u64,
}

impl Opener {
    /// `mac` is locked memory for the tag's state.
    pub(super) fn new(key: Key, mac: SecretBox<Mac>) -> Self {
        Self { key: PacketKey::new(key), mac, opened: 0 }
    }

    #[cfg(any(test, feature = "residue"))]
    pub(super) fn packet_key(&self) -> &PacketKey {
        &self.key
    }

    /// Begins the next packet.
    pub(super) fn begin(&mut self, additional: &[u8]) {
        self.opened = 0;
        self.key.expose_tag_key(&mut self.mac, |key, mac| {
            mac.expose_secret_mut(|mac| *mac = Mac::new(key, additional));
        });
    }

    /// Decrypts the next bytes of the packet in place. They must not be trusted before
    /// [`finish`](Self::finish).
    pub(super) fn open(&mut self, bytes: &mut [u8]) {
        let at = self.opened;
        self.opened += bytes.len() as u64;
        self.key.expose_stream(at, (&mut self.mac, Unprotected(bytes)), |cipher, (mac, bytes)| {
            mac.expose_secret_mut_into((Unprotected(cipher), bytes), |mac, (cipher, bytes)| {
                let (cipher, bytes) = (cipher.0, bytes.0);
                for step in bytes.chunks_mut(STEP) {
                    mac.update(step);
                    cipher.apply_keystream(step);
                }
            });
        });
    }

    /// Ends the packet; returns whether it is what the other side sent. The next one has to
    /// [`begin`](Self::begin).
    pub(super) fn finish(&mut self, tag: &[u8; TAG_SIZE]) -> bool {
        let is_sent = self.mac.expose_secret_mut(|mac| {
            let expected = mac.finish();
            *mac = Mac::idle();
            bool::from(expected.ct_eq(tag))
        });
        self.key.advance();
        is_sent
    }
}

#[cfg(test)]
mod tests;

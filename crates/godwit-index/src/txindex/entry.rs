//! Where one transaction lies, in twelve bytes.

use godwit_primitives::Txid;
use siphasher::sip::SipHasher13;
use std::hash::Hasher;

/// Bytes of an entry in a run.
pub(super) const ENTRY_SIZE: usize = 12;
/// Bits of a key. Of 1.3 billion transactions, one in 200,000 has a key that another one has too.
pub(super) const KEY_BITS: u32 = 48;
/// Bytes of a key.
const KEY_BYTES: usize = KEY_BITS as usize / 8;
/// Heights and offsets have three bytes.
pub(super) const MAX_FIELD: u32 = (1 << 24) - 1;

/// The part of a txid's keyed hash that is stored. A txid can be ground, its hash under a secret key cannot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key(pub(super) u64);

impl Key {
    pub(super) fn of(txid: &Txid, secret: &[u8; 16]) -> Self {
        let mut hasher = SipHasher13::new_with_key(secret);
        hasher.write(txid.as_bytes());
        Self(hasher.finish() >> (64 - KEY_BITS))
    }
}

/// Names a place where a transaction with this key was. In the order in which runs have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Entry {
    pub(super) key: Key,
    /// Height of its block, at most [`MAX_FIELD`].
    pub(super) height: u32,
    /// From the block's first byte, at most [`MAX_FIELD`]; blocks have at most 4,000,000 bytes.
    pub(super) offset: u32,
}

impl Entry {
    pub(super) fn to_bytes(self) -> [u8; ENTRY_SIZE] {
        let mut bytes = [0; ENTRY_SIZE];
        bytes[..KEY_BYTES].copy_from_slice(&self.key.0.to_be_bytes()[8 - KEY_BYTES..]);
        bytes[KEY_BYTES..KEY_BYTES + 3].copy_from_slice(&self.height.to_be_bytes()[1..]);
        bytes[KEY_BYTES + 3..].copy_from_slice(&self.offset.to_be_bytes()[1..]);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; ENTRY_SIZE]) -> Self {
        let number = |part: &[u8]| part.iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        Self {
            key: Key(number(&bytes[..KEY_BYTES])),
            height: number(&bytes[KEY_BYTES..KEY_BYTES + 3]) as u32,
            offset: number(&bytes[KEY_BYTES + 3..]) as u32,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_as_it_was_written() {
        for (key, height, offset) in [
            (0, 0, 0),
            (1, 2, 3),
            ((1 << KEY_BITS) - 1, MAX_FIELD, MAX_FIELD),
            (1 << 40, 900_000, 81),
        ] {
            let entry = Entry { key: Key(key), height, offset };
            assert_eq!(Entry::from_bytes(&entry.to_bytes()), entry);
        }
        let secret = [7; 16];
        let keys = [1, 2].map(|byte| Key::of(&Txid::from_bytes([byte; 32]), &secret));
        assert!(keys[0] != keys[1] && keys.iter().all(|key| key.0 < 1 << KEY_BITS));
    }
}

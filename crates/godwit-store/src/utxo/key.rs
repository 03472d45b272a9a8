//! The keyed hash of outpoints.
//!
//! An attacker chooses outpoints (a txid can be ground), but not their keyed hash: the store
//! partitions, sorts, fingerprints and filters by this hash alone.

use godwit_primitives::{OutPoint, Txid};

/// SipHash-1-3 of outpoints under the 128-bit key of one data directory.
#[derive(Clone, Copy)]
pub struct UtxoHasher {
    k0: u64,
    k1: u64,
}

/// An outpoint beside its keyed hash, so that it is hashed once and wherever there is time for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HashedOutPoint {
    /// [`UtxoHasher::key`] of `outpoint`.
    pub key: u64,
    pub outpoint: OutPoint,
}

impl std::fmt::Debug for UtxoHasher {
    /// Leaves the key out: logs get published, and who knows it can grind colliding outpoints.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UtxoHasher").finish_non_exhaustive()
    }
}

impl UtxoHasher {
    /// The hasher of the data directory whose random key this is.
    pub fn new(key: [u8; 16]) -> Self {
        let (low, high) = key.split_first_chunk().expect("16 bytes begin with 8");
        let high = high.first_chunk().expect("8 of 16 bytes are left");
        Self { k0: u64::from_le_bytes(*low), k1: u64::from_le_bytes(*high) }
    }

    /// SipHash-1-3 of the 36 bytes of the outpoint.
    #[inline]
    pub fn key(&self, outpoint: &OutPoint) -> u64 {
        self.after_txid(&outpoint.txid).finish(outpoint.vout)
    }

    /// The outputs of one transaction with their keys, whose common part is hashed once.
    #[inline]
    pub fn outputs(&self, txid: Txid) -> impl Fn(u32) -> HashedOutPoint + use<> {
        let state = self.after_txid(&txid);
        move |vout| HashedOutPoint { key: state.finish(vout), outpoint: OutPoint { txid, vout } }
    }

    #[inline]
    fn after_txid(&self, txid: &Txid) -> State {
        let mut state = State {
            v0: self.k0 ^ 0x736f_6d65_7073_6575,
            v1: self.k1 ^ 0x646f_7261_6e64_6f6d,
            v2: self.k0 ^ 0x6c79_6765_6e65_7261,
            v3: self.k1 ^ 0x7465_6462_7974_6573,
        };
        let (words, _) = txid.as_bytes().as_chunks::<8>();
        for word in words {
            state.absorb(u64::from_le_bytes(*word));
        }
        state
    }

    /// The outpoint with its key.
    #[inline]
    pub fn hash(&self, outpoint: OutPoint) -> HashedOutPoint {
        HashedOutPoint { key: self.key(&outpoint), outpoint }
    }

    /// A value that tells one key from another without giving the key away; run files carry it.
    pub(crate) fn fingerprint(&self) -> u64 {
        self.key(&OutPoint::NULL)
    }
}

#[derive(Clone, Copy)]
struct State {
    v0: u64,
    v1: u64,
    v2: u64,
    v3: u64,
}

impl State {
    #[inline]
    fn absorb(&mut self, word: u64) {
        self.v3 ^= word;
        self.round();
        self.v0 ^= word;
    }

    #[inline]
    fn finish(mut self, vout: u32) -> u64 {
        self.absorb((OutPoint::SIZE as u64) << 56 | u64::from(vout));
        self.v2 ^= 0xff;
        self.round();
        self.round();
        self.round();
        self.v0 ^ self.v1 ^ self.v2 ^ self.v3
    }

    #[inline]
    fn round(&mut self) {
        self.v0 = self.v0.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(13) ^ self.v0;
        self.v0 = self.v0.rotate_left(32);
        self.v2 = self.v2.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(16) ^ self.v2;
        self.v0 = self.v0.wrapping_add(self.v3);
        self.v3 = self.v3.rotate_left(21) ^ self.v0;
        self.v2 = self.v2.wrapping_add(self.v1);
        self.v1 = self.v1.rotate_left(17) ^ self.v2;
        self.v2 = self.v2.rotate_left(32);
    }
}

#[cfg(test)]
mod tests {
    use std::hash::Hasher;

    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    use super::*;

    proptest! {
        #[test]
        fn equals_the_general_siphash(key: [u8; 16], txid: [u8; 32], vout: u32) {
            let outpoint = OutPoint { txid: Txid::from_bytes(txid), vout };
            let mut naive = SipHasher13::new_with_key(&key);
            naive.write(&outpoint.to_bytes());
            prop_assert_eq!(UtxoHasher::new(key).key(&outpoint), naive.finish());
            let of_tx = UtxoHasher::new(key).outputs(outpoint.txid)(vout);
            prop_assert_eq!(of_tx, UtxoHasher::new(key).hash(outpoint));
        }
    }
}

//! Key pairs by number: key `n` of a ring is a hash of the ring's seed and `n`.

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::key::{Keypair, Secp256k1};
use bitcoin::secp256k1::{All, Message, PublicKey, SecretKey, XOnlyPublicKey, ecdsa, schnorr};

/// A practically endless set of distinct keys, none of which has to be stored.
pub struct KeyRing {
    secp: Secp256k1<All>,
    seed: [u8; 16],
}

impl KeyRing {
    /// The ring `ring` of the chain seed `seed`; rings share no keys.
    pub fn new(seed: u64, ring: u64) -> KeyRing {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        bytes[8..].copy_from_slice(&ring.to_le_bytes());
        KeyRing { secp: Secp256k1::new(), seed: bytes }
    }

    /// The curve context, for callers that tweak keys.
    pub fn secp(&self) -> &Secp256k1<All> {
        &self.secp
    }

    /// Secret key `number`.
    pub fn secret(&self, number: u64) -> SecretKey {
        SecretKey::from_slice(&self.bytes(b"key", number))
            .expect("a SHA-256 hash is below the group order but for one in 2^128")
    }

    /// Public key `number`.
    pub fn public(&self, number: u64) -> PublicKey {
        self.secret(number).public_key(&self.secp)
    }

    /// Both halves of key `number`.
    pub fn pair(&self, number: u64) -> Keypair {
        self.secret(number).keypair(&self.secp)
    }

    /// The x coordinate of public key `number` (BIP340).
    pub fn x_only(&self, number: u64) -> XOnlyPublicKey {
        self.pair(number).x_only_public_key().0
    }

    /// 32 bytes that depend on the ring, the number and the label alone.
    pub fn bytes(&self, label: &[u8], number: u64) -> [u8; 32] {
        let mut engine = sha256::Hash::engine();
        engine.input(&self.seed);
        engine.input(label);
        engine.input(&number.to_le_bytes());
        sha256::Hash::from_engine(engine).to_byte_array()
    }

    /// An ECDSA signature by key `number`. One key in eight grinds for a low R, as Bitcoin Core's
    /// wallet does since 0.17; more would cost generation time and save a quarter byte each.
    pub fn sign_ecdsa(&self, number: u64, message: &Message) -> ecdsa::Signature {
        let secret = self.secret(number);
        if number.is_multiple_of(8) {
            self.secp.sign_ecdsa_low_r(message, &secret)
        } else {
            self.secp.sign_ecdsa(message, &secret)
        }
    }

    /// A BIP340 signature without auxiliary randomness.
    pub fn sign_schnorr(&self, pair: &Keypair, message: &Message) -> schnorr::Signature {
        self.secp.sign_schnorr_no_aux_rand(message, pair)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_differ_by_seed_ring_and_number() {
        let key = KeyRing::new(1, 2).secret(3);
        assert_eq!(key, KeyRing::new(1, 2).secret(3));
        assert_ne!(key, KeyRing::new(2, 2).secret(3));
        assert_ne!(key, KeyRing::new(1, 3).secret(3));
        assert_ne!(key, KeyRing::new(1, 2).secret(4));
    }
}

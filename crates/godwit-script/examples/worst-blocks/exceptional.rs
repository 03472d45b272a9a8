//! Valid signatures that no lane proves: the last addition of the sum meets P = Q.
//!
//! The sum ends with the lowest window of u1's upper part: an odd digit D times 2^128 G. If R = 2 D 2^128 G,
//! what is added equals what is there. So a nonce of 2 D 2^128 and a u1 with that window will do. Of u1 the
//! windows are those of v = (u1 + (2^130 - 1) (1 + 2^128)) / 2, and D = 2 w - (2^13 - 1); see godwit-verify's
//! `digits.rs`.

use bitcoin::hashes::{Hash, HashEngine, sha256};
use bitcoin::key::Secp256k1;
use bitcoin::secp256k1::{All, Parity, SecretKey};
use num_bigint::BigUint;

const WINDOW: u32 = 13;

struct Curve {
    n: BigUint,
    half: BigUint,
    offset: BigUint,
    secp: Secp256k1<All>,
}

fn small(number: u64) -> BigUint {
    BigUint::from(number)
}

impl Curve {
    fn new() -> Self {
        let n = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141";
        let n = BigUint::parse_bytes(n.as_bytes(), 16).expect("digits");
        let half = (&n + 1_u32) >> 1;
        let bits = (small(1) << 130) - 1_u32;
        let offset = bits * ((small(1) << 128) + 1_u32) * &half % &n;
        Self { n, half, offset, secp: Secp256k1::new() }
    }

    fn inverse(&self, number: &BigUint) -> BigUint {
        number.modpow(&(&self.n - 2_u32), &self.n)
    }

    fn minus(&self, a: &BigUint, b: &BigUint) -> BigUint {
        (a + &self.n - b) % &self.n
    }

    fn secret(&self, number: &BigUint) -> SecretKey {
        SecretKey::from_slice(&bytes(number)).expect("not 0")
    }

    /// The nonce that window `w` asks for.
    fn nonce(&self, w: u64) -> BigUint {
        let digit = self.minus(&small(2 * w), &small((1 << WINDOW) - 1));
        (digit << 129) % &self.n
    }

    /// The lowest window of the upper part of u1.
    fn window(&self, u1: &BigUint) -> u64 {
        let v = (u1 * &self.half + &self.offset) % &self.n;
        let digits = (v >> 128_u32).to_u64_digits();
        digits.first().copied().unwrap_or_default() & ((1 << WINDOW) - 1)
    }

    /// A u1 with that window, and anything else.
    fn with_window(&self, w: u64, seed: usize) -> BigUint {
        let noise = sha256::Hash::hash(format!("u1 {seed}").as_bytes()).to_byte_array();
        let noise = BigUint::from_bytes_be(&noise) % &self.n;
        let low = &noise % (small(1) << 128);
        let v = ((noise >> (128 + WINDOW)) << (128 + WINDOW)) + (small(w) << 128) + low;
        let u1 = self.minus(&(v % &self.n), &self.offset) * 2_u32 % &self.n;
        assert_eq!(self.window(&u1), w);
        u1
    }
}

fn bytes(number: &BigUint) -> [u8; 32] {
    let digits = number.to_bytes_be();
    let mut bytes = [0; 32];
    bytes[32 - digits.len()..].copy_from_slice(&digits);
    bytes
}

/// Keys of 33 bytes, each with a signature of this message in DER without a hash type.
pub(crate) fn ecdsa(message: &[u8; 32], count: usize) -> Vec<(Vec<u8>, Vec<u8>)> {
    let curve = Curve::new();
    let message = BigUint::from_bytes_be(message);
    let signed = (0..count).map(|i| {
        let w = 4_200 + 7 * i as u64 % 3_900;
        let (nonce, u1) = (curve.nonce(w), curve.with_window(w, i));
        let sum = curve.secret(&nonce).public_key(&curve.secp).serialize();
        let r = BigUint::from_bytes_be(&sum[1..]) % &curve.n;
        let s = &message * curve.inverse(&u1) % &curve.n;
        let u2 = &r * curve.inverse(&s) % &curve.n;
        let key = curve.minus(&nonce, &u1) * curve.inverse(&u2) % &curve.n;
        let key = curve.secret(&key).public_key(&curve.secp);
        let compact = [bytes(&r), bytes(&s)].concat();
        let signature = bitcoin::secp256k1::ecdsa::Signature::from_compact(&compact);
        let der = signature.expect("in range").serialize_der().to_vec();
        (key.serialize().to_vec(), der)
    });
    signed.collect()
}

/// A search for Schnorr signatures by a given key: u1 is s, which the message decides.
pub(crate) struct SchnorrSearch {
    curve: Curve,
    key: [u8; 32],
    secret: BigUint,
    /// Nonces with an even y, and their x, by window.
    nonces: Vec<(BigUint, [u8; 32])>,
}

impl SchnorrSearch {
    pub(crate) fn new(secret: SecretKey) -> Self {
        let curve = Curve::new();
        let (key, parity) = secret.x_only_public_key(&curve.secp);
        let number = BigUint::from_bytes_be(&secret.secret_bytes());
        let secret = match parity {
            Parity::Even => number,
            Parity::Odd => curve.minus(&curve.n, &number),
        };
        let nonce = |w: u64| {
            let nonce = curve.nonce(w);
            let (x, parity) = curve.secret(&nonce).x_only_public_key(&curve.secp);
            (parity == Parity::Even).then(|| (nonce, x.serialize()))
        };
        let nonces = (0..1 << WINDOW).filter_map(nonce).collect();
        Self { key: key.serialize(), secret, nonces, curve }
    }

    /// A signature whose sum is exceptional; `None` for two of three messages.
    pub(crate) fn sign(&self, message: &[u8; 32]) -> Option<Vec<u8>> {
        let tag = sha256::Hash::hash(b"BIP0340/challenge").to_byte_array();
        let mut tagged = sha256::Hash::engine();
        tagged.input(&tag);
        tagged.input(&tag);
        self.nonces.iter().find_map(|(nonce, x)| {
            let mut challenge = tagged.clone();
            [&x[..], &self.key, message].iter().for_each(|part| challenge.input(part));
            let challenge = sha256::Hash::from_engine(challenge).to_byte_array();
            let s = (nonce + BigUint::from_bytes_be(&challenge) * &self.secret) % &self.curve.n;
            let exceptional = self.curve.nonce(self.curve.window(&s)) == *nonce;
            exceptional.then(|| [*x, bytes(&s)].concat())
        })
    }
}

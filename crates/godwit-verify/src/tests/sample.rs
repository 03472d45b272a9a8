//! Checks for tests: valid ones made with libsecp256k1, and what can be wrong with them.

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};
use secp256k1::{All, Keypair, Parity, PublicKey, Secp256k1, SecretKey};

use crate::check::{Check, KeyBytes, challenge};
use crate::scalar::{Factor, N, Scalar, half_inverses, words};

/// Keys, and nonces, that are in use at a time.
const POOL: usize = 256;
/// How often one is used on average before another takes its place.
const USES: u32 = 16;

/// A source of checks, from a seed. Keys and nonces are used several times: making their points would take
/// as long as verifying. Factors of the sum are new for every check, as messages are.
pub(crate) struct Samples {
    pub(crate) secp: Secp256k1<All>,
    pub(crate) rng: StdRng,
    keys: Vec<Keypair>,
    nonces: Vec<Nonce>,
}

/// The random number k of a signature, so chosen that y of k G is even.
#[derive(Clone, Copy)]
struct Nonce {
    k: Scalar,
    /// 1 / 2k.
    half_inverse: Factor,
    /// x of k G.
    x: [u8; 32],
}

impl Nonce {
    fn new(secp: &Secp256k1<All>, rng: &mut StdRng) -> Nonce {
        let (k, x) = even(&random_pair(secp, rng));
        let non_zero = k.non_zero().expect("from 1 to n - 1");
        Nonce { k, half_inverse: half_inverses(&[non_zero])[0], x }
    }
}

fn random_pair(secp: &Secp256k1<All>, rng: &mut StdRng) -> Keypair {
    Keypair::from_secret_key(secp, &secret_key(Scalar::reduced(rng.random())))
}

/// The secret key or its negative, whichever has a point with even y, and x of that.
fn even(pair: &Keypair) -> (Scalar, [u8; 32]) {
    let (x, parity) = pair.x_only_public_key();
    let secret = Scalar::reduced(words(&pair.secret_bytes()));
    let secret = if parity == Parity::Odd { secret.negated() } else { secret };
    (secret, x.serialize())
}

/// One of a pool that grows to [`POOL`], and in which new ones take the place of old ones.
fn draw<T: Copy>(pool: &mut Vec<T>, rng: &mut StdRng, new: impl FnOnce(&mut StdRng) -> T) -> T {
    let at = rng.random_range(0..POOL);
    if at >= pool.len() {
        let drawn = new(rng);
        pool.push(drawn);
        return drawn;
    }
    if rng.random_ratio(1, USES) {
        pool[at] = new(rng);
    }
    pool[at]
}

/// Bytes of a number.
pub(crate) fn to_bytes(words: &[u64; 4]) -> [u8; 32] {
    let mut bytes = [0; 32];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words.iter().rev()) {
        *bytes = word.to_be_bytes();
    }
    bytes
}

pub(crate) fn secret_key(scalar: Scalar) -> SecretKey {
    SecretKey::from_slice(&to_bytes(scalar.words())).expect("a number from 1 to n - 1")
}

pub(crate) fn joined(r: &[u8; 32], s: &[u8; 32]) -> [u8; 64] {
    let mut joined = [0; 64];
    joined[..32].copy_from_slice(r);
    joined[32..].copy_from_slice(s);
    joined
}

impl Samples {
    pub(crate) fn new(seed: u64) -> Samples {
        Samples {
            secp: Secp256k1::new(),
            rng: StdRng::seed_from_u64(seed),
            keys: Vec::new(),
            nonces: Vec::new(),
        }
    }

    pub(crate) fn bytes(&mut self) -> [u8; 32] {
        let mut bytes = [0; 32];
        self.rng.fill_bytes(&mut bytes);
        bytes
    }

    pub(crate) fn scalar(&mut self) -> Scalar {
        Scalar::reduced(words(&self.bytes()))
    }

    pub(crate) fn key_pair(&self, secret: Scalar) -> Keypair {
        Keypair::from_secret_key(&self.secp, &secret_key(secret))
    }

    fn nonce(&mut self) -> Nonce {
        draw(&mut self.nonces, &mut self.rng, |rng| Nonce::new(&self.secp, rng))
    }

    /// A valid signature, s of either half.
    pub(crate) fn ecdsa(&mut self, key: &Keypair, compressed: bool) -> Check {
        let (message, nonce) = (self.bytes(), self.nonce());
        let r = Scalar::reduced(words(&nonce.x));
        let secret = Scalar::reduced(words(&key.secret_bytes()));
        let half = Scalar::reduced(words(&message))
            .plus(r.times(&secret.factor()))
            .times(&nonce.half_inverse);
        let public = key.public_key();
        let key = match compressed {
            true => KeyBytes::Compressed(public.serialize()),
            false => KeyBytes::Full(public.serialize_uncompressed()),
        };
        let s = half.plus(half);
        Check::Ecdsa { key, signature: joined(&to_bytes(r.words()), &to_bytes(s.words())), message }
    }

    pub(crate) fn schnorr(&mut self, key: &Keypair) -> Check {
        let (message, nonce) = (self.bytes(), self.nonce());
        let (secret, key) = even(key);
        let challenge = Scalar::reduced(words(&challenge(&nonce.x, &key, &message)));
        let s = nonce.k.plus(challenge.times(&secret.factor()));
        Check::Schnorr { key, signature: joined(&nonce.x, &to_bytes(s.words())), message }
    }

    pub(crate) fn commitment(&mut self, key: &Keypair) -> Check {
        let internal = key.x_only_public_key().0;
        let tweak = to_bytes(self.scalar().words());
        let scalar = secp256k1::Scalar::from_be_bytes(tweak).expect("below n");
        let (output, parity) = internal.add_tweak(&self.secp, &scalar).expect("not infinity");
        Check::Commitment {
            internal_key: internal.serialize(),
            tweak,
            output_key: output.serialize(),
            odd: parity == Parity::Odd,
        }
    }

    pub(crate) fn valid(&mut self) -> Check {
        let key = draw(&mut self.keys, &mut self.rng, |rng| random_pair(&self.secp, rng));
        match self.rng.random_range(0..8) {
            0..3 => self.ecdsa(&key, true),
            3 => self.ecdsa(&key, false),
            4..7 => self.schnorr(&key),
            _ => self.commitment(&key),
        }
    }

    /// A valid check, or one with one thing changed; the change may be one that leaves it valid.
    pub(crate) fn any(&mut self) -> Check {
        let check = self.valid();
        match self.rng.random_range(0..6) {
            0..3 => check,
            alteration => self.alter(check, alteration - 3),
        }
    }

    /// The check with one thing changed.
    pub(crate) fn altered(&mut self, check: Check) -> Check {
        let alteration = self.rng.random_range(0..3);
        self.alter(check, alteration)
    }

    fn alter(&mut self, mut check: Check, alteration: u32) -> Check {
        match alteration {
            0 => self.flip_bit(&mut check),
            1 => self.replace_number(&mut check),
            _ => self.mirror(&mut check),
        }
        check
    }

    fn flip_bit(&mut self, check: &mut Check) {
        let mut fields = fields(check);
        let field = self.rng.random_range(0..fields.len());
        let bit = self.rng.random_range(0..8 * fields[field].len());
        fields[field][bit / 8] ^= 1 << (bit % 8);
    }

    /// Puts a number of note in place of one of the check.
    fn replace_number(&mut self, check: &mut Check) {
        const P: [u64; 4] = crate::field::P;
        let [n, p] = [to_bytes(&N), to_bytes(&P)];
        let mut near = if self.rng.random() { n } else { p };
        near[31] = near[31].wrapping_add(self.rng.random_range(0..3)).wrapping_sub(1);
        let small = to_bytes(&[self.rng.random_range(0..3), 0, 0, 0]);
        let number = match self.rng.random_range(0..3) {
            0 => near,
            1 => small,
            _ => [0xff; 32],
        };
        let mut fields = fields(check);
        let field = self.rng.random_range(0..fields.len());
        let field = &mut fields[field];
        let parts = field.len() / 32;
        // Behind the byte of the form, where a key has one.
        let start = field.len() % 32 + 32 * self.rng.random_range(0..parts);
        field[start..start + 32].copy_from_slice(&number);
    }

    /// The other root, the other half, the other parity.
    fn mirror(&mut self, check: &mut Check) {
        match check {
            Check::Ecdsa { key: KeyBytes::Compressed(key), .. } if self.rng.random() => key[0] ^= 1,
            Check::Ecdsa { key: KeyBytes::Full(key), .. } if self.rng.random() => {
                let public = PublicKey::from_slice(key).expect("a valid key");
                *key = public.negate(&self.secp).serialize_uncompressed();
            }
            Check::Ecdsa { signature, .. } | Check::Schnorr { signature, .. } => {
                let (_, s) = signature.split_at_mut(32);
                let number = words((&*s).try_into().expect("32 bytes"));
                s.copy_from_slice(&to_bytes(Scalar::reduced(number).negated().words()));
            }
            Check::Commitment { odd, .. } => *odd = !*odd,
        }
    }
}

fn fields(check: &mut Check) -> Vec<&mut [u8]> {
    match check {
        Check::Ecdsa { key: KeyBytes::Compressed(key), signature, message } => {
            vec![key, signature, message]
        }
        Check::Ecdsa { key: KeyBytes::Full(key), signature, message } => {
            vec![key, signature, message]
        }
        Check::Schnorr { key, signature, message } => vec![key, signature, message],
        Check::Commitment { internal_key, tweak, output_key, .. } => {
            vec![internal_key, tweak, output_key]
        }
    }
}

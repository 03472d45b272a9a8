//! What is checked, and how it is put into a lane.

use sha2::{Digest, Sha256};

use crate::digits::Digits;
use crate::field::{P, Words};
use crate::group::Group;
use crate::scalar::{HALF, N, NonZero, Scalar, half_inverses, is_below, plus, words};

/// A public key of ECDSA as script has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyBytes {
    /// 33 bytes, which should begin with 02 or 03.
    Compressed([u8; 33]),
    /// 65 bytes, which should begin with 04; hybrid keys (06, 07) are left to libsecp256k1.
    Full([u8; 65]),
}

impl KeyBytes {
    /// By length alone; `None` for any other length than 33 and 65.
    pub fn from_slice(bytes: &[u8]) -> Option<KeyBytes> {
        let compressed = bytes.try_into().map(KeyBytes::Compressed);
        compressed.or_else(|_| bytes.try_into().map(KeyBytes::Full)).ok()
    }

    pub fn as_slice(&self) -> &[u8] {
        match self {
            KeyBytes::Compressed(bytes) => bytes,
            KeyBytes::Full(bytes) => bytes,
        }
    }
}

/// One statement about the curve that is true or not. All numbers are big-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Check {
    /// An ECDSA signature. As in consensus, s may be in the upper half (Core's `CPubKey::Verify`).
    Ecdsa {
        key: KeyBytes,
        /// r and s; [`crate::parse_strict_der`] reads them from a script's signature.
        signature: [u8; 64],
        /// The hash that was signed.
        message: [u8; 32],
    },
    /// A Schnorr signature as of BIP340.
    Schnorr {
        /// x of the public key.
        key: [u8; 32],
        /// x of R, and s.
        signature: [u8; 64],
        /// The hash that was signed.
        message: [u8; 32],
    },
    /// That an output key is an internal key plus t G, as of BIP341.
    Commitment {
        /// x of the internal key.
        internal_key: [u8; 32],
        /// t: a tagged hash; not valid from n.
        tweak: [u8; 32],
        /// x of the output key.
        output_key: [u8; 32],
        /// Whether y of the output key is odd.
        odd: bool,
    },
}

/// A check that was parsed, with what it lacks for a lane: the inverse of s.
pub(crate) struct Parsed {
    key: [Words; 2],
    /// Whether y is to be odd, for a key that is x alone.
    compressed: Option<bool>,
    factors: Factors,
    expected: [Words; 2],
    /// Whether the sum's y is to be odd, where it counts.
    parity: Option<bool>,
}

enum Factors {
    /// u1 = m / s and u2 = r / s.
    Ecdsa {
        message: Scalar,
        r: Scalar,
        s: NonZero,
    },
    Known {
        u1: Scalar,
        u2: Scalar,
    },
}

/// Reads a check into numbers; `None` where it is doubtful or cannot be valid: an encoding other than the
/// usual ones, a number out of range.
pub(crate) fn parse(check: &Check) -> Option<Parsed> {
    match check {
        Check::Ecdsa { key, signature, message } => parse_ecdsa(key, signature, message),
        Check::Schnorr { key, signature, message } => parse_schnorr(key, signature, message),
        Check::Commitment { internal_key, tweak, output_key, odd } => Some(Parsed {
            key: [coordinate(internal_key)?, [0; 4]],
            compressed: Some(false),
            factors: Factors::Known { u1: Scalar::new(words(tweak))?, u2: Scalar::ONE },
            expected: [coordinate(output_key)?; 2],
            parity: Some(*odd),
        }),
    }
}

fn parse_ecdsa(key: &KeyBytes, signature: &[u8; 64], message: &[u8; 32]) -> Option<Parsed> {
    let (key, compressed) = match key {
        KeyBytes::Compressed([first @ (2 | 3), x @ ..]) => {
            ([coordinate(x)?, [0; 4]], Some(*first == 3))
        }
        KeyBytes::Full([4, xy @ ..]) => {
            let [x, y] = halves(xy);
            ([coordinate(x)?, coordinate(y)?], None)
        }
        _ => return None,
    };
    let [r, s] = halves(signature);
    let r = Scalar::new(words(r))?;
    r.non_zero()?;
    let s = Scalar::new(words(s))?.non_zero()?;
    // x of the sum is reduced modulo n, which is a little less than p: both r and r + n are possible.
    let r_plus_n = plus(r.words(), &N).filter(|sum| is_below(sum, &P));
    Some(Parsed {
        key,
        compressed,
        factors: Factors::Ecdsa { message: Scalar::reduced(words(message)), r, s },
        expected: [*r.words(), r_plus_n.unwrap_or(*r.words())],
        parity: None,
    })
}

fn parse_schnorr(key: &[u8; 32], signature: &[u8; 64], message: &[u8; 32]) -> Option<Parsed> {
    let [r, s] = halves(signature);
    let challenge = Scalar::reduced(words(&challenge(r, key, message)));
    Some(Parsed {
        key: [coordinate(key)?, [0; 4]],
        compressed: Some(false),
        factors: Factors::Known { u1: Scalar::new(words(s))?, u2: challenge.negated() },
        expected: [coordinate(r)?; 2],
        parity: Some(false),
    })
}

/// A number below p.
fn coordinate(bytes: &[u8; 32]) -> Option<Words> {
    Some(words(bytes)).filter(|words| is_below(words, &P))
}

fn halves(bytes: &[u8; 64]) -> [&[u8; 32]; 2] {
    let (halves, _) = bytes.as_chunks();
    [&halves[0], &halves[1]]
}

/// The tagged hash of BIP340 that a Schnorr signature answers.
pub(crate) fn challenge(r: &[u8; 32], key: &[u8; 32], message: &[u8; 32]) -> [u8; 32] {
    let tag = Sha256::digest(b"BIP0340/challenge");
    let mut hash = Sha256::new();
    for part in [&tag[..], &tag[..], r, key, message] {
        hash.update(part);
    }
    hash.finalize().into()
}

/// The digits of each check, with one inversion for all of them.
pub(crate) fn digits(checks: &[Parsed]) -> Vec<Option<Digits>> {
    let denominators: Vec<NonZero> = checks
        .iter()
        .filter_map(|check| match check.factors {
            Factors::Ecdsa { s, .. } => Some(s),
            Factors::Known { .. } => None,
        })
        .collect();
    let mut inverses = half_inverses(&denominators).into_iter();
    checks
        .iter()
        .map(|check| match &check.factors {
            Factors::Ecdsa { message, r, .. } => {
                // Another number in the place of a missing one would be that of another signature.
                let half_inverse = inverses.next()?;
                Digits::of_halves(message.times(&half_inverse), r.times(&half_inverse))
            }
            Factors::Known { u1, u2 } => Digits::of_halves(u1.times(&HALF), u2.times(&HALF)),
        })
        .collect()
}

impl Group {
    /// Puts a check into a lane that is empty.
    pub(crate) fn set(&mut self, lane: usize, check: &Parsed, digits: Digits) {
        for (coordinates, value) in self.key.iter_mut().zip(check.key) {
            coordinates[lane] = value;
        }
        for (numbers, value) in self.expected.iter_mut().zip(check.expected) {
            numbers[lane] = value;
        }
        self.compressed.insert(lane, check.compressed.is_some());
        self.odd_key.insert(lane, check.compressed == Some(true));
        self.with_parity.insert(lane, check.parity.is_some());
        self.odd_sum.insert(lane, check.parity == Some(true));
        self.digits[lane] = digits;
    }
}

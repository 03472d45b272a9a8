//! Checks at the borders of the arithmetic: factors with extreme digits and halves, keys and sums with
//! extreme coordinates or related to each other, sums that come near to exceptional ones, and what a forger
//! makes of them. The lanes alone answer, in random company, each answer held against libsecp256k1.

use std::collections::BTreeMap;

use num_bigint::BigUint;
use rand::Rng;
use rand::seq::{IndexedRandom, SliceRandom};
use secp256k1::PublicKey;

use super::adversarial::{
    ZERO, divide, number, point_with_x, related_steps, times, with_factors, with_sum,
};
use super::sample::{Samples, joined, secret_key, to_bytes};
use super::{all, real};
use crate::backend::Backend;
use crate::check::{Check, KeyBytes, challenge, parse};
use crate::field::{P, Words};
use crate::lanes::{Found, prove};
use crate::point::BETA;
use crate::scalar::{G1, G2, LAMBDA, N, Scalar, words};
use crate::single;

/// A check, whether it is valid, and of what sort it is.
struct Case {
    check: Check,
    valid: bool,
    sort: &'static str,
}

/// What lanes said of the checks of one sort.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    valid: usize,
    /// Of them, those that a lane did not prove.
    aside: usize,
    invalid: usize,
}

struct Maker {
    samples: Samples,
    coordinates: Vec<BigUint>,
    /// Points of the curve that have one of these, of none of which the discrete logarithm is known.
    points: Vec<PublicKey>,
}

fn big(words: &Words) -> BigUint {
    BigUint::from_bytes_be(&to_bytes(words))
}

fn words_of(number: &BigUint) -> Words {
    let mut words = [0; 4];
    words.iter_mut().zip(number.iter_u64_digits()).for_each(|(word, digit)| *word = digit);
    words
}

/// Numbers below p that are near a border of limbs or of the field, and what beta makes of them.
fn coordinates() -> Vec<BigUint> {
    let (p, beta) = (big(&P), big(&BETA));
    let mut numbers: Vec<BigUint> = Vec::new();
    let bases = (0..256).step_by(13).chain((0..256).step_by(29)).chain([8, 24, 48, 128, 232, 255]);
    for base in bases.map(|bit| BigUint::from(1_u32) << bit).chain([big(&N), &p - 1_u32]) {
        for near in 0..4_u32 {
            numbers.extend([(&base + near) % &p, (&base + &p - near) % &p, &p - &base + near]);
        }
    }
    let images = numbers.iter().flat_map(|x| [x * &beta % &p, x * &beta % &p * &beta % &p]);
    let images: Vec<BigUint> = images.collect();
    numbers.extend(images);
    numbers.retain(|x| *x < p);
    numbers
}

/// The point with this y, if there is one: x is a cube root.
fn point_with_y(y: &BigUint) -> Option<PublicKey> {
    let p = big(&P);
    let cube = (y * y + &p - 7_u32) % &p;
    // p is 7 modulo 9.
    let x = cube.modpow(&((&p + 2_u32) / 9_u32), &p);
    let mut key = [4; 65];
    key[1..33].copy_from_slice(&to_bytes(&words_of(&x)));
    key[33..].copy_from_slice(&to_bytes(&words_of(y)));
    PublicKey::from_slice(&key).ok()
}

impl Maker {
    fn new(seed: u64) -> Maker {
        let coordinates = coordinates();
        let with_x = coordinates.iter().filter_map(|x| point_with_x(&words_of(x)));
        let points = with_x.chain(coordinates.iter().filter_map(point_with_y)).collect();
        Maker { samples: Samples::new(seed), coordinates, points }
    }

    fn below(&mut self, limit: usize) -> usize {
        self.samples.rng.random_range(0..limit)
    }

    fn point(&mut self) -> PublicKey {
        let point = *self.points.choose(&mut self.samples.rng).expect("there are some");
        if self.samples.rng.random() { point } else { point.negate(&self.samples.secp) }
    }

    /// A number whose digits or halves are extreme, not zero.
    fn factor(&mut self) -> Scalar {
        let factor = match self.below(9) {
            0 => number(self.below(40) as u64),
            1 => self.near_power(),
            2 => times(number(1 + self.below(40) as u64), LAMBDA),
            // Halves near the longest ones.
            3 | 4 => {
                let (a, b) = (self.near_power(), self.near_power());
                a.plus(times(b, LAMBDA))
            }
            // Windows that are all the same, or but for a few.
            5 => {
                let pattern = [0, u64::MAX, u64::MAX / 3, 1 << 63, 1, self.samples.rng.random()];
                let word = |maker: &mut Maker| pattern[maker.below(pattern.len())];
                Scalar::reduced([word(self), word(self), word(self), word(self)])
            }
            // What the quotients of the split round up or down.
            6 => {
                let quotient = big(&[self.samples.rng.random(), self.samples.rng.random(), 0, 0]);
                let [g1, g2] = [&G1, &G2].map(big);
                let by = if self.samples.rng.random() { g1 } else { g2 };
                let at: BigUint =
                    ((quotient * 2_u32 + 1_u32) << 383) / by + BigUint::from(self.below(2));
                if at.bits() > 256 { number(5) } else { Scalar::reduced(words_of(&at)) }
            }
            7 => divide(number(1 + self.below(9) as u64), number(2 + self.below(9) as u64)),
            _ => self.samples.scalar(),
        };
        match (self.samples.rng.random(), factor == ZERO) {
            (_, true) => Scalar::ONE,
            (true, false) => factor,
            (false, false) => factor.negated(),
        }
    }

    /// A power of two, more or less, or less than nothing.
    fn near_power(&mut self) -> Scalar {
        let mut words = [0; 4];
        let bit = [self.below(256), 126 + self.below(4), self.below(131)][self.below(3)];
        words[bit / 64] = 1 << (bit % 64);
        let (power, near) = (Scalar::reduced(words), number(self.below(3) as u64));
        let near = if self.samples.rng.random() { power.plus(near) } else { power.minus(near) };
        if self.samples.rng.random() { near } else { near.negated() }
    }

    /// An image of the number under multiplication by something simple.
    fn relative(&mut self, of: Scalar) -> Scalar {
        let by = [
            Scalar::ONE,
            LAMBDA,
            times(LAMBDA, LAMBDA),
            number(2),
            number(3),
            divide(Scalar::ONE, number(2)),
            number(31),
        ][self.below(7)];
        let image = times(of, by);
        if self.samples.rng.random() { image } else { image.negated() }
    }

    /// u1 G + u2 Q; `None` at infinity.
    fn sum(&self, u1: Scalar, u2: Scalar, key: &PublicKey) -> Option<PublicKey> {
        let secp = &self.samples.secp;
        let scaled = |u2: Scalar| {
            let u2 = secp256k1::Scalar::from_be_bytes(to_bytes(u2.words())).expect("below n");
            key.mul_tweak(secp, &u2).expect("no factor is zero")
        };
        match (u1 == ZERO, u2 == ZERO) {
            (true, true) => None,
            (true, false) => Some(scaled(u2)),
            (false, true) => Some(secret_key(u1).public_key(secp)),
            (false, false) => scaled(u2).combine(&secret_key(u1).public_key(secp)).ok(),
        }
    }

    /// A check of ECDSA with these factors, which is valid if r is what x of the sum leaves modulo n.
    fn ecdsa(&mut self, u1: Scalar, u2: Scalar, key: &PublicKey, r: Scalar) -> Check {
        let s = divide(r, u2);
        let key = match self.below(4) {
            0 => KeyBytes::Full(key.serialize_uncompressed()),
            _ => KeyBytes::Compressed(key.serialize()),
        };
        Check::Ecdsa {
            key,
            signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
            message: to_bytes(times(u1, s).words()),
        }
    }

    /// Valid, with a key whose coordinates are of note.
    fn with_key(&mut self) -> Check {
        let (u1, u2, key) = (self.factor(), self.factor(), self.point());
        let Some(sum) = self.sum(u1, u2, &key) else { return self.samples.valid() };
        let r = x_modulo_n(&sum);
        self.ecdsa(u1, u2, &key, r)
    }

    /// Valid, with a sum whose coordinates are of note.
    fn with_noted_sum(&mut self) -> Check {
        let sum = self.point();
        let r = x_modulo_n(&sum);
        if r == ZERO { self.samples.valid() } else { with_sum(&mut self.samples, r, &sum) }
    }

    /// Valid; key and sum are related to each other or to G.
    fn related(&mut self) -> Check {
        let (key, u2) = (self.factor(), self.factor());
        let about = if self.samples.rng.random() { key } else { self.factor() };
        let sum = self.relative(about);
        with_factors(&self.samples, sum.minus(times(u2, key)), u2, key)
    }

    /// Valid, with factors and a key of note.
    fn with_extreme_factors(&mut self) -> Check {
        let (u1, u2, key) = (self.factor(), self.factor(), self.factor());
        match u1.plus(times(u2, key)) == ZERO {
            true => self.samples.valid(),
            false => with_factors(&self.samples, u1, u2, key),
        }
    }

    /// BIP340 with a key and a nonce of note: as it is to be, or with one of the four signs wrong.
    fn schnorr(&mut self, honest: bool) -> Check {
        let (key, nonce, message) = (self.factor(), self.factor(), self.samples.bytes());
        let (key, key_x) = even(&self.samples, key);
        let (nonce, r) = even(&self.samples, nonce);
        let e = times(Scalar::reduced(words(&challenge(&r, &key_x, &message))), key);
        let s = match if honest { 0 } else { 1 + self.below(4) } {
            0 => nonce.plus(e),
            // R has the right x, and y is odd.
            1 => nonce.negated().plus(e),
            2 => nonce.minus(e),
            3 => nonce.plus(e).negated(),
            // Infinity.
            _ => e,
        };
        Check::Schnorr { key: key_x, signature: joined(&r, &to_bytes(s.words())), message }
    }

    /// Infinity as R with any r, and as an output key.
    fn infinity(&mut self) -> Check {
        let key = self.factor();
        let at = self.below(self.coordinates.len());
        let x = to_bytes(&words_of(&self.coordinates[at]));
        let (even_key, key_x) = even(&self.samples, key);
        match self.below(3) {
            0 => {
                let e = Scalar::reduced(words(&challenge(&x, &key_x, &[9; 32])));
                let s = to_bytes(times(e, even_key).words());
                Check::Schnorr { key: key_x, signature: joined(&x, &s), message: [9; 32] }
            }
            1 => Check::Commitment {
                internal_key: key_x,
                tweak: to_bytes(even_key.negated().words()),
                output_key: x,
                odd: self.samples.rng.random(),
            },
            _ => {
                let (u2, r) = (self.factor(), self.factor());
                let key_point = secret_key(key).public_key(&self.samples.secp);
                self.ecdsa(times(u2, key).negated(), u2, &key_point, r)
            }
        }
    }

    /// An output key that is a noted point or a known one, and a tweak.
    fn commitment(&mut self) -> Check {
        let (tweak, known) = (self.factor(), self.factor());
        let internal = match self.samples.rng.random() {
            true => self.point(),
            false => secret_key(known).public_key(&self.samples.secp),
        };
        let (x, _) = internal.x_only_public_key();
        let even = PublicKey::from_x_only_public_key(x, secp256k1::Parity::Even);
        let Some(output) = self.sum(tweak, Scalar::ONE, &even) else { return self.infinity() };
        let (output, parity) = output.x_only_public_key();
        Check::Commitment {
            internal_key: x.serialize(),
            tweak: to_bytes(tweak.words()),
            output_key: output.serialize(),
            odd: parity == secp256k1::Parity::Odd,
        }
    }

    /// Keys that are no points, of other curves y^2 = x^3 + b too and of small order there.
    fn off_curve(&mut self) -> Check {
        let numbers = [ZERO, Scalar::ONE, self.factor(), self.samples.scalar()];
        let [mut x, mut y] = [numbers[self.below(4)], numbers[self.below(4)]];
        // Order two, order three.
        match self.below(4) {
            0 => y = ZERO,
            1 => x = ZERO,
            _ => {}
        }
        let r = [Scalar::ONE, x, self.factor()][self.below(3)];
        let r = if r == ZERO { Scalar::ONE } else { r };
        let (u1, u2) = (self.factor(), self.factor());
        let s = divide(r, u2);
        let [x, y] = [x, y].map(|number| to_bytes(number.words()));
        let key = match self.samples.rng.random() {
            true => KeyBytes::Full([&[4][..], &x, &y].concat().try_into().expect("65 bytes")),
            false => KeyBytes::Compressed([&[2][..], &x].concat().try_into().expect("33 bytes")),
        };
        Check::Ecdsa {
            key,
            signature: joined(&to_bytes(r.words()), &to_bytes(s.words())),
            message: to_bytes(times(u1, s).words()),
        }
    }

    /// So many, of every sort.
    fn cases(&mut self, count: usize) -> Vec<Case> {
        let relations = [
            number(2),
            LAMBDA,
            times(LAMBDA, LAMBDA),
            divide(Scalar::ONE, number(2)),
            number(3),
            number(self.below(1 << 16) as u64 + 4),
        ];
        let mut relations: Vec<Scalar> =
            relations.into_iter().flat_map(|by| [by, by.negated()]).collect();
        relations.shuffle(&mut self.samples.rng);
        let near = related_steps(&mut self.samples, &relations[..2]);
        let one = Scalar::ONE;
        let exceptional = related_steps(&mut self.samples, &[one, one.negated()]);
        let mut cases = Vec::new();
        while cases.len() < count {
            let (sort, check) = match self.below(24) {
                0..4 => ("small or extreme factors", self.with_extreme_factors()),
                4..7 => ("key and sum related", self.related()),
                7..10 => ("noted key", self.with_key()),
                10 | 11 => ("noted sum", self.with_noted_sum()),
                12..15 => ("Schnorr", self.schnorr(true)),
                15 => ("Schnorr, wrong signs", self.schnorr(false)),
                16..18 => ("commitment", self.commitment()),
                18 => ("infinity", self.infinity()),
                19 => ("off the curve", self.off_curve()),
                20 => ("exceptional", exceptional[self.below(exceptional.len())]),
                21 | 22 => ("near exceptional", near[self.below(near.len())]),
                _ => ("ordinary", self.samples.valid()),
            };
            let valid = single::verify(&check);
            cases.push(Case { check, valid, sort });
            // Of one valid check four that differ in little; they stand near it.
            if valid && self.below(3) == 0 {
                for _ in 0..4 {
                    let check = self.samples.altered(check);
                    cases.push(Case { check, valid: single::verify(&check), sort });
                }
            }
        }
        cases
    }
}

fn x_modulo_n(point: &PublicKey) -> Scalar {
    Scalar::reduced(words(point.serialize()[1..].try_into().expect("32 bytes")))
}

/// The number or its negative, whichever times G has an even y, and x of that.
fn even(samples: &Samples, secret: Scalar) -> (Scalar, [u8; 32]) {
    let point = secret_key(secret).public_key(&samples.secp).serialize();
    let secret = if point[0] == 3 { secret.negated() } else { secret };
    (secret, point[1..].try_into().expect("32 bytes"))
}

fn compare(backends: &[Backend], seed: u64, count: usize) -> BTreeMap<&'static str, Tally> {
    const AT_ONCE: usize = 4_096;
    let mut maker = Maker::new(seed);
    let mut tallies: BTreeMap<&'static str, Tally> = BTreeMap::new();
    for _ in 0..count.div_ceil(AT_ONCE) {
        let mut cases = maker.cases(AT_ONCE);
        for backend in backends {
            cases.shuffle(&mut maker.samples.rng);
            let mut rest = &cases[..];
            while !rest.is_empty() {
                let size = [64, 64, 3 + maker.below(62)][maker.below(3)].min(rest.len());
                let (batch, others) = rest.split_at(size);
                rest = others;
                let found = prove(*backend, batch.iter().map(|case| &case.check)).found;
                for (Case { check, valid, sort }, found) in batch.iter().zip(found) {
                    let kind = backend.kind();
                    assert!(*valid || found != Found::Proven, "a false yes by {kind:?}: {check:?}");
                    let tally = tallies.entry(sort).or_default();
                    tally.valid += usize::from(*valid);
                    tally.invalid += usize::from(!valid);
                    let aside = *valid && found == Found::Refused;
                    tally.aside += usize::from(aside);
                    assert!(!aside || parse(check).is_some());
                }
            }
        }
    }
    tallies
}

fn print(tallies: &BTreeMap<&'static str, Tally>) {
    for (sort, Tally { valid, aside, invalid }) in tallies {
        eprintln!("{sort}: {aside} of {valid} valid ones not proven, {invalid} invalid ones");
    }
}

#[test]
fn no_check_at_a_border_is_proven_that_is_not_valid() {
    let tallies = compare(&all(), 70, 4_096);
    print(&tallies);
    assert_eq!(tallies["ordinary"].aside, 0);
    let Tally { valid, aside, .. } = tallies["exceptional"];
    assert!(valid > 0 && aside > 0);
}

/// Rounds of a few million answers each.
#[test]
#[ignore = "millions of checks: an hour"]
fn no_check_of_many_at_a_border_is_proven_that_is_not_valid() {
    for seed in 7_000..7_010 {
        let tallies = compare(&real(), seed, 1 << 18);
        eprintln!("seed {seed}");
        print(&tallies);
    }
}

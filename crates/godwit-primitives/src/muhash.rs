//! MuHash3072: a hash of a set to which elements can be added and from which they can be removed, in
//! any order (Bitcoin Core's `crypto/muhash.h`).

mod chacha20;
mod num3072;
#[cfg(test)]
mod tests;

use crate::sha256::sha256;
use num3072::Num3072;

/// The hash of a set of byte strings.
///
/// Elements become numbers modulo a 3072-bit prime. Added ones are multiplied into a numerator,
/// removed ones into a denominator, so that only [`MuHash3072::finalize`] has to invert. Nothing
/// notices when an element is added twice, or removed without having been there.
#[derive(Clone, Debug)]
pub struct MuHash3072 {
    numerator: Num3072,
    denominator: Num3072,
}

impl Default for MuHash3072 {
    fn default() -> MuHash3072 {
        MuHash3072::new()
    }
}

impl MuHash3072 {
    /// The empty set.
    pub const fn new() -> MuHash3072 {
        MuHash3072 { numerator: Num3072::ONE, denominator: Num3072::ONE }
    }

    /// Adds an element.
    pub fn insert(&mut self, element: &[u8]) {
        self.numerator.multiply(&number_of(element));
    }

    /// Removes an element.
    pub fn remove(&mut self, element: &[u8]) {
        self.denominator.multiply(&number_of(element));
    }

    /// Adds what `other` holds and removes what it lacks: sets hashed apart, for instance by several
    /// threads, become one.
    pub fn combine(&mut self, other: &MuHash3072) {
        self.numerator.multiply(&other.numerator);
        self.denominator.multiply(&other.denominator);
    }

    /// The 32 bytes that stand for the set, in internal byte order; Core prints them reversed. Takes
    /// milliseconds.
    pub fn finalize(&self) -> [u8; 32] {
        let mut quotient = self.denominator.inverse();
        quotient.multiply(&self.numerator);
        sha256(&quotient.to_bytes())
    }

    /// What is left of each set when its numerator is divided by its denominator. One inversion does for all
    /// of them, instead of one each: the inverse of the product of all denominators, times those of the
    /// others, is the inverse of one (Montgomery's trick).
    pub fn quotients(sets: &[MuHash3072]) -> Vec<Quotient> {
        let mut product = Num3072::ONE;
        let mut before = Vec::with_capacity(sets.len());
        for set in sets {
            before.push(product);
            product.multiply(&set.denominator);
        }
        let mut inverse = product.inverse();
        let mut quotients = vec![Quotient::EMPTY; sets.len()];
        for ((set, before), quotient) in sets.iter().zip(before).zip(&mut quotients).rev() {
            let mut number = inverse;
            number.multiply(&before);
            number.multiply(&set.numerator);
            quotient.0 = number.to_bytes();
            inverse.multiply(&set.denominator);
        }
        quotients
    }
}

/// A set as one number, the little-endian bytes of its representative below the prime: enough to go on from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quotient(pub [u8; Self::SIZE]);

impl Quotient {
    /// In bytes.
    pub const SIZE: usize = Num3072::SIZE;

    /// That of the empty set.
    pub const EMPTY: Self = {
        let mut one = [0; Self::SIZE];
        one[0] = 1;
        Self(one)
    };

    /// As [`MuHash3072::finalize`] of the set.
    pub fn hash(&self) -> [u8; 32] {
        sha256(&self.0)
    }
}

impl From<&Quotient> for MuHash3072 {
    fn from(quotient: &Quotient) -> Self {
        Self { numerator: Num3072::from_bytes(&quotient.0), denominator: Num3072::ONE }
    }
}

fn number_of(element: &[u8]) -> Num3072 {
    let mut bytes = [0; Num3072::SIZE];
    chacha20::keystream(&sha256(element), bytes.as_chunks_mut().0);
    Num3072::from_bytes(&bytes)
}

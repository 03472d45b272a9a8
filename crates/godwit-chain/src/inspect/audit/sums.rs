//! Sums of tags of coins, by which two multisets of coins are compared that are never in order.
//!
//! 1. The tag of a coin is SipHash-2-4 of 128 bits over its outpoint and the bytes of its stored form, under
//!    a key that is drawn for one audit and written nowhere. Who made the files did not know it.
//! 2. The outpoint has a fixed length, the coin is all that follows, and what is stored has one encoding:
//!    coins that differ in anything are different messages.
//! 3. A sum is of integers, of the two halves of the tags, and cannot overflow: a coin that counts 2^k times
//!    too often is not lost, as it would be in a sum that wraps, nor twice, as under exclusive or.
//! 4. No part of a sum is told before all of it is known, so that nobody learns of the key from it.
//!
//! So a sum of coins that should cancel and do not is zero with a probability of 2^-128, or of whatever
//! advantage there is against SipHash as a pseudorandom function. A sum is kept for each of [`BUCKETS`]
//! ranges of the coins' hashed keys: those that are not zero say where to look.

use godwit_store::utxo::HashedOutPoint;
use siphasher::sip128::SipHasher24;

/// Bits of a key that name its bucket. The partitions of a coins store are ranges of fewer bits.
pub(in crate::inspect) const BUCKET_BITS: u32 = 14;
/// Half a megabyte of sums: main has 200,000 coins in each, ever created.
pub(in crate::inspect) const BUCKETS: usize = 1 << BUCKET_BITS;

/// The bucket of a coin.
pub(super) fn bucket(coin: &HashedOutPoint) -> usize {
    (coin.key >> (64 - BUCKET_BITS)) as usize
}

/// Makes tags of coins.
pub(super) struct Mac {
    hasher: SipHasher24,
    /// Of each half the bits that are kept: tests have short tags, which must fail as often as they should.
    kept: [u64; 2],
}

impl Mac {
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self { hasher: SipHasher24::new_with_key(&key), kept: [u64::MAX; 2] }
    }

    #[cfg(test)]
    pub(super) fn cut(key: [u8; 16], bits: u32) -> Self {
        Self { kept: [(1 << bits) - 1, 0], ..Self::new(key) }
    }

    /// The tag of a coin whose stored form is in two pieces. `message` is memory that is used again.
    fn tag(&self, coin: &HashedOutPoint, stored: [&[u8]; 2], message: &mut Vec<u8>) -> [u64; 2] {
        message.clear();
        message.extend_from_slice(coin.outpoint.txid.as_bytes());
        message.extend_from_slice(&coin.outpoint.vout.to_le_bytes());
        stored.iter().for_each(|part| message.extend_from_slice(part));
        let (high, low) = self.hasher.hash(message).as_u64();
        [high & self.kept[0], low & self.kept[1]]
    }
}

/// Which side of the comparison a coin is on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Created,
    /// Spent, or in the store.
    Gone,
}

/// One sum of each half of the tags. 2^63 coins would not make it overflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Cell([i128; 2]);

/// See the module's documentation.
pub(super) struct Sums {
    cells: Box<[Cell]>,
    message: Vec<u8>,
}

impl Sums {
    pub(super) fn new() -> Self {
        Self { cells: vec![Cell::default(); BUCKETS].into_boxed_slice(), message: Vec::new() }
    }

    /// Counts a coin whose stored form is in two pieces.
    pub(super) fn add(&mut self, mac: &Mac, coin: &HashedOutPoint, stored: [&[u8]; 2], side: Side) {
        let tag = mac.tag(coin, stored, &mut self.message);
        let cell = &mut self.cells[bucket(coin)];
        for (sum, half) in cell.0.iter_mut().zip(tag) {
            match side {
                Side::Created => *sum += i128::from(half),
                Side::Gone => *sum -= i128::from(half),
            }
        }
    }

    pub(super) fn merge(&mut self, other: &Self) {
        for (cell, other) in self.cells.iter_mut().zip(&other.cells) {
            cell.0.iter_mut().zip(other.0).for_each(|(sum, other)| *sum += other);
        }
    }

    /// The buckets whose coins do not cancel.
    pub(super) fn wrong(&self) -> Vec<u16> {
        let wrong = |cell: &Cell| *cell != Cell::default();
        (0..).zip(&self.cells).filter(|(_, cell)| wrong(cell)).map(|(n, _)| n).collect()
    }
}

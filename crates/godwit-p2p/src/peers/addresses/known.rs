//! Remembers which addresses a peer knows.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// Addresses in each of two generations, so that at least the last 2,500 and at most 5,000 are
/// remembered (Core: a rolling Bloom filter for 5,000). At most about 40 KiB per peer.
const GENERATION: usize = 2_500;

/// A bounded set of keyed hashes that forgets the oldest. Two addresses with the same 32 bits are
/// taken for one (once in a million), and then one of them is not relayed.
#[derive(Debug, Default)]
pub(super) struct KnownAddresses {
    young: HashSet<u32, BuildHasherDefault<Identity>>,
    old: HashSet<u32, BuildHasherDefault<Identity>>,
}

/// Hashes nothing: the values are keyed hashes already.
#[derive(Debug, Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only numbers of 32 bits are hashed");
    }

    fn write_u32(&mut self, n: u32) {
        // `HashSet` takes its tag from the high bits and its bucket from the low ones.
        self.0 = u64::from(n) << 32 | u64::from(n);
    }
}

impl KnownAddresses {
    /// Remembers a hash; returns whether it was remembered already.
    pub(super) fn insert(&mut self, hash: u64) -> bool {
        let key = hash as u32;
        if self.contains(hash) {
            return true;
        }
        if self.young.len() == GENERATION {
            std::mem::swap(&mut self.young, &mut self.old);
            self.young.clear();
        }
        self.young.insert(key);
        false
    }

    /// Whether it is remembered.
    pub(super) fn contains(&self, hash: u64) -> bool {
        let key = hash as u32;
        self.young.contains(&key) || self.old.contains(&key)
    }

    pub(super) fn clear(&mut self) {
        self.young.clear();
        self.old.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten_and_memory_is_bounded() {
        let mut known = KnownAddresses::default();
        for n in 0..20_000u64 {
            assert!(!known.insert(n));
            assert!(known.insert(n), "known now");
            for recent in n.saturating_sub(GENERATION as u64 - 1)..=n {
                assert!(n % 997 != 0 || known.contains(recent), "{recent} of {n}");
            }
            assert!(known.young.len() + known.old.len() <= 2 * GENERATION);
        }
        assert!(!known.contains(0));
        known.clear();
        assert!(!known.contains(19_999));
    }
}

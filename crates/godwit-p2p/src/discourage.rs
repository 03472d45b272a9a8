//! Hosts that misbehaved: no connection is opened to them, and theirs are evicted first when room
//! is needed.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher24;

use crate::net_address::Host;

/// At least this many of the last discouraged hosts are remembered (as in Core's rolling Bloom
/// filter), and never more than twice as many, at about 12 bytes each.
pub(crate) const DISCOURAGED_HOSTS: usize = 50_000;

/// The last discouraged hosts, by a keyed hash of 64 bits. They are forgotten at the end of the
/// run, as in Core: addresses change hands.
///
/// There are two generations: when the younger one is full, the older one is dropped. Insertion and
/// lookup take logarithmic time whatever peers do (CVE-2020-14198 was a list that grew and was
/// scanned each time).
pub(crate) struct Discouraged {
    key: [u8; 16],
    young: BTreeSet<u64>,
    old: BTreeSet<u64>,
}

impl Discouraged {
    /// Without hosts. The key must be secret: it would let an attacker find hosts with equal
    /// hashes.
    pub(crate) fn new(key: [u8; 16]) -> Self {
        Self { key, young: BTreeSet::new(), old: BTreeSet::new() }
    }

    /// Remembers a host.
    pub(crate) fn insert(&mut self, host: &Host) {
        let hash = self.hash(host);
        if self.young.len() == DISCOURAGED_HOSTS && !self.young.contains(&hash) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(hash);
    }

    /// Whether a host is remembered.
    pub(crate) fn contains(&self, host: &Host) -> bool {
        let hash = self.hash(host);
        self.young.contains(&hash) || self.old.contains(&hash)
    }

    /// How many hosts are remembered; one that came back may count twice.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }

    fn hash(&self, host: &Host) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        host.hash(&mut hasher);
        hasher.finish()
    }
}

#[cfg(test)]
mod tests;

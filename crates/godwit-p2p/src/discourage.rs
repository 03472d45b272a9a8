//! Hosts that misbehaved: no connection is opened to them, and theirs go first when room is needed.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};

use siphasher::sip::SipHasher24;

use crate::net_address::Host;

/// At least so many of the last discouraged hosts are remembered (Core's rolling Bloom filter holds
/// as many); never more than twice as many, at about 12 bytes each.
pub(crate) const DISCOURAGED_HOSTS: usize = 50_000;

/// The last discouraged hosts, by a keyed hash of 64 bits. Forgotten at the end of the run, as in
/// Core: an address changes hands.
///
/// Two generations: when the younger is full, the older one is dropped. Adding and asking are
/// logarithmic, whatever comes (CVE-2020-14198 was a list that grew and was scanned each time).
pub(crate) struct Discouraged {
    key: [u8; 16],
    young: BTreeSet<u64>,
    old: BTreeSet<u64>,
}

impl Discouraged {
    /// Nobody. The key is secret: with it, two hosts could be found that hash alike.
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

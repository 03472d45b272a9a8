//! Buckets, and the place in them that an address has.

use std::hash::Hasher;

use siphasher::sip::SipHasher24;

use super::entry::{EntryId, Source};
use crate::net_address::{AddressNetwork, NetAddress};
use crate::net_groups::NetGroups;

/// Buckets of new addresses (Core `ADDRMAN_NEW_BUCKET_COUNT`).
pub(super) const NEW_BUCKETS: usize = 1024;
/// Buckets of tried addresses (Core `ADDRMAN_TRIED_BUCKET_COUNT`).
pub(super) const TRIED_BUCKETS: usize = 256;
/// Places in a bucket (Core `ADDRMAN_BUCKET_SIZE`).
pub(super) const BUCKET_SIZE: usize = 64;

/// Tried buckets over which the addresses of one group spread (Core
/// `ADDRMAN_TRIED_BUCKETS_PER_GROUP`).
const TRIED_BUCKETS_PER_GROUP: u64 = 8;
/// New buckets over which the addresses from one group of sources spread (Core
/// `ADDRMAN_NEW_BUCKETS_PER_SOURCE_GROUP`).
const NEW_BUCKETS_PER_SOURCE_GROUP: u64 = 64;

/// A place in a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) bucket: usize,
    pub(super) position: usize,
}

/// What decides the places of addresses.
pub(super) struct Placing {
    /// Secret: without it an attacker cannot choose addresses that share a bucket.
    key: [u8; 32],
    groups: NetGroups,
}

/// What a hash is for: separates the hashes of different things.
#[derive(Clone, Copy)]
enum Purpose {
    TriedSpread = 0,
    TriedBucket = 1,
    TriedPosition = 2,
    NewSpread = 3,
    NewBucket = 4,
    NewPosition = 5,
}

impl Placing {
    pub(super) fn new(key: [u8; 32], groups: NetGroups) -> Self {
        Self { key, groups }
    }

    pub(super) fn key(&self) -> &[u8; 32] {
        &self.key
    }

    pub(super) fn groups(&self) -> &NetGroups {
        &self.groups
    }

    /// The place of a tried address, in one of the eight buckets of its group.
    pub(super) fn tried_place(&self, address: &NetAddress) -> Place {
        let key = address.key();
        let spread = self.hash(Purpose::TriedSpread, &[&key]) % TRIED_BUCKETS_PER_GROUP;
        let group = self.groups.of(address.host);
        let parts = [group.as_bytes(), &[spread as u8]];
        let bucket = (self.hash(Purpose::TriedBucket, &parts) % TRIED_BUCKETS as u64) as usize;
        self.place(Purpose::TriedPosition, bucket, &key)
    }

    /// The place of a new address from `source`, in one of the 64 buckets of the source's group.
    pub(super) fn new_place(&self, address: &NetAddress, source: Source) -> Place {
        let (group, source) = (self.groups.of(address.host), source.group(&self.groups));
        let parts = [group.as_bytes(), source.as_bytes()];
        let spread = self.hash(Purpose::NewSpread, &parts) % NEW_BUCKETS_PER_SOURCE_GROUP;
        let parts = [source.as_bytes(), &[spread as u8]];
        let bucket = (self.hash(Purpose::NewBucket, &parts) % NEW_BUCKETS as u64) as usize;
        self.place_in_new_bucket(address, bucket)
    }

    /// The only place that an address can have in a bucket.
    pub(super) fn place_in_new_bucket(&self, address: &NetAddress, bucket: usize) -> Place {
        self.place(Purpose::NewPosition, bucket, &address.key())
    }

    fn place(&self, purpose: Purpose, bucket: usize, key: &[u8]) -> Place {
        let hash = self.hash(purpose, &[&(bucket as u32).to_le_bytes(), key]);
        Place { bucket, position: (hash % BUCKET_SIZE as u64) as usize }
    }

    /// SipHash-2-4 under the first half of the key, hashed again under the second half, so that all
    /// 256 bits count.
    fn hash(&self, purpose: Purpose, parts: &[&[u8]]) -> u64 {
        let (first, second) = self.key.split_at(16);
        let keyed =
            |half: &[u8]| SipHasher24::new_with_key(half.try_into().expect("half of 32 bytes"));
        let mut inner = keyed(first);
        inner.write_u8(purpose as u8);
        for part in parts {
            inner.write_u8(part.len() as u8);
            inner.write(part);
        }
        let mut outer = keyed(second);
        outer.write_u64(inner.finish());
        outer.finish()
    }
}

/// The entry that holds a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Slot {
    pub(super) id: EntryId,
    pub(super) network: AddressNetwork,
}

/// A table of buckets.
pub(super) struct Table {
    slots: Vec<Option<Slot>>,
    /// Held places by network.
    counts: [usize; Self::NETWORKS],
    /// Held places by bucket.
    held: Vec<usize>,
    /// Buckets with a held place, in no order: a book has few addresses at first.
    occupied: Vec<usize>,
}

impl Table {
    const NETWORKS: usize = AddressNetwork::Cjdns as usize + 1;

    pub(super) fn new(buckets: usize) -> Self {
        Self {
            slots: vec![None; buckets * BUCKET_SIZE],
            counts: [0; Self::NETWORKS],
            held: vec![0; buckets],
            occupied: Vec::new(),
        }
    }

    /// The buckets with a held place.
    pub(super) fn occupied(&self) -> &[usize] {
        &self.occupied
    }

    pub(super) fn get(&self, place: Place) -> Option<Slot> {
        self.slots[place.bucket * BUCKET_SIZE + place.position]
    }

    pub(super) fn put(&mut self, place: Place, id: EntryId, network: AddressNetwork) {
        self.take(place);
        self.counts[network as usize] += 1;
        self.held[place.bucket] += 1;
        if self.held[place.bucket] == 1 {
            self.occupied.push(place.bucket);
        }
        self.slots[place.bucket * BUCKET_SIZE + place.position] = Some(Slot { id, network });
    }

    pub(super) fn take(&mut self, place: Place) -> Option<Slot> {
        let slot = self.slots[place.bucket * BUCKET_SIZE + place.position].take()?;
        self.counts[slot.network as usize] -= 1;
        self.held[place.bucket] -= 1;
        if self.held[place.bucket] == 0 {
            self.occupied.retain(|bucket| *bucket != place.bucket);
        }
        Some(slot)
    }

    /// Held places of a network.
    pub(super) fn count(&self, network: AddressNetwork) -> usize {
        self.counts[network as usize]
    }

    /// All held places.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.counts.iter().sum()
    }

    /// All held places, bucket by bucket.
    pub(super) fn held(&self) -> impl Iterator<Item = (Place, Slot)> {
        self.slots.iter().enumerate().filter_map(|(at, slot)| {
            let place = Place { bucket: at / BUCKET_SIZE, position: at % BUCKET_SIZE };
            slot.map(|slot| (place, slot))
        })
    }
}

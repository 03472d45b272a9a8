//! Chooses addresses: one to connect to, or many to send to a peer.

use std::ops::Range;

use rand::Rng;

use super::entry::EntryId;
use super::places::{BUCKET_SIZE, Place, Slot, Table};
use super::{AddressBook, AddressCount, SAMPLE_ADDRESSES, SAMPLE_PERCENT};
use crate::net_address::{AddressEntry, NetAddress};
use crate::services::Services;
use crate::target::Reachable;

/// An address to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub address: NetAddress,
    /// Services that it is said to offer.
    pub services: Services,
    /// When it was last tried, in unix seconds; 0 if not in this run.
    pub last_try: i64,
}

impl AddressBook {
    /// A random address on one of `networks`, new or tried with equal chance; `None` when there is
    /// none. Addresses that failed or were tried lately are less likely (Core `Select`).
    pub fn select(&mut self, now: i64, new_only: bool, networks: Reachable) -> Option<Candidate> {
        let has = |table: &Table| networks.networks().any(|network| table.count(network) > 0);
        let search_tried = match (has(&self.new), has(&self.tried) && !new_only) {
            (false, false) => return None,
            (true, true) => self.rng.random(),
            (_, tried) => tried,
        };
        let mut factor = 1.0;
        loop {
            let table = if search_tried { &self.tried } else { &self.new };
            // Core draws among all buckets, which takes long when the book has few addresses.
            let bucket = table.occupied()[self.rng.random_range(0..table.occupied().len())];
            let start = self.rng.random_range(0..BUCKET_SIZE);
            let Some(slot) = first_in_bucket(table, bucket, start, networks) else { continue };
            let chance = self.entries[&slot.id].chance(now);
            if self.rng.random::<f64>() < factor * chance {
                return Some(self.candidate(slot.id));
            }
            factor *= 1.2;
        }
    }

    /// An address to be tested, because another one claims its tried place (Core
    /// `SelectTriedCollision`).
    pub fn select_collision(&mut self) -> Option<Candidate> {
        if self.collisions.is_empty() {
            return None;
        }
        let at = self.rng.random_range(0..self.collisions.len());
        let id = *self.collisions.iter().nth(at).expect("below their number");
        let Some(newcomer) = self.entries.get(&id) else {
            self.collisions.remove(&id);
            return None;
        };
        let slot = self.tried.get(self.placing.tried_place(&newcomer.address))?;
        Some(self.candidate(slot.id))
    }

    /// Random addresses for an answer to `getaddr`, without terrible ones: at most
    /// [`SAMPLE_PERCENT`] of the book and [`SAMPLE_ADDRESSES`]. The caller gives the same answer to
    /// all peers for about a day (Core caches it); otherwise they could learn the whole book.
    pub(crate) fn sample(&mut self, now: i64) -> Vec<AddressEntry> {
        let most = (self.order.len() * SAMPLE_PERCENT / 100).min(SAMPLE_ADDRESSES);
        let mut sample = Vec::with_capacity(most);
        for at in 0..self.order.len() {
            if sample.len() == most {
                break;
            }
            let other = self.rng.random_range(at..self.order.len());
            self.swap_order(at, other);
            let entry = &self.entries[&self.order[at]];
            if !entry.is_terrible(now) {
                let (time, services, address) = (entry.time, entry.services, entry.address);
                sample.push(AddressEntry { time, services, address });
            }
        }
        sample
    }

    /// Those of some places of the book that are not terrible; `None` behind its end.
    pub(crate) fn worth_telling(
        &self,
        now: i64,
        places: Range<usize>,
    ) -> Option<Vec<AddressEntry>> {
        let end = places.end.min(self.order.len());
        let places = self.order.get(places.start..end).filter(|places| !places.is_empty())?;
        let entries = places.iter().map(|id| &self.entries[id]);
        let good = entries.filter(|entry| !entry.is_terrible(now));
        let good = good.map(|entry| AddressEntry {
            time: entry.time,
            services: entry.services,
            address: entry.address,
        });
        Some(good.collect())
    }

    /// How many there are of each network.
    pub(crate) fn counts(&self) -> Vec<AddressCount> {
        let mut counts: Vec<AddressCount> = Vec::new();
        for entry in self.entries.values() {
            let network = entry.address.network();
            let at = counts.iter().position(|count| count.network == network);
            let at = at.unwrap_or_else(|| {
                counts.push(AddressCount { network, new: 0, tried: 0 });
                counts.len() - 1
            });
            match entry.tried {
                true => counts[at].tried += 1,
                false => counts[at].new += 1,
            }
        }
        counts
    }

    fn swap_order(&mut self, a: usize, b: usize) {
        self.order.swap(a, b);
        for at in [a, b] {
            self.entries.get_mut(&self.order[at]).expect("it is in `order`").rank = at;
        }
    }

    fn candidate(&self, id: EntryId) -> Candidate {
        let entry = &self.entries[&id];
        let (address, services, last_try) = (entry.address, entry.services, entry.last_try);
        Candidate { address, services, last_try }
    }
}

/// The first held place of a bucket, from `start` on and around.
fn first_in_bucket(
    table: &Table,
    bucket: usize,
    start: usize,
    networks: Reachable,
) -> Option<Slot> {
    (start..BUCKET_SIZE)
        .chain(0..start)
        .filter_map(|position| table.get(Place { bucket, position }))
        .find(|slot| networks.contains(slot.network))
}

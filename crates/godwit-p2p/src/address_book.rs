//! Addresses of nodes, in buckets that keep one source from filling the book (Core `addrman.cpp`).
//!
//! An address that a peer or seed told us is *new*: it may be in up to eight of 1024 buckets of 64
//! places; in which ones depends on the groups of the address and of its source. An address that
//! answered is *tried*: it has one place in 256 buckets of 64. A hash with a secret key decides
//! buckets and places.
//!
//! Times are unix seconds. Every entry has at least one place, so there are never more than
//! [`MAX_ENTRIES`].

mod entry;
mod file;
mod places;
mod select;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub use entry::Source;
pub(crate) use select::Candidate;

use crate::net_address::{AddressEntry, AddressNetwork, NetAddress};
use crate::net_groups::{CoverageCount, MapCoverage, NetGroups};
use crate::services::Services;
use entry::{Entry, EntryId};
use places::{Place, Placing, Table};

/// Most entries: 1024 × 64 new and 256 × 64 tried ones, as many places as in Core. Each takes about
/// 250 bytes.
pub(crate) const MAX_ENTRIES: usize =
    (places::NEW_BUCKETS + places::TRIED_BUCKETS) * places::BUCKET_SIZE;

/// Most addresses in an answer to `getaddr` (Core `MAX_ADDR_TO_SEND`).
pub(crate) const SAMPLE_ADDRESSES: usize = 1000;
/// Share of the book in an answer to `getaddr`, in percent (Core `MAX_PCT_ADDR_TO_SEND`).
pub(crate) const SAMPLE_PERCENT: usize = 23;
/// Seconds that are subtracted from the times of gossiped addresses (Core `ProcessAddrs`), so that
/// first-hand ones are fresher.
pub(crate) const TIME_PENALTY: u32 = 2 * 60 * 60;

/// Most new buckets that one address may be in (Core `ADDRMAN_NEW_BUCKETS_PER_ADDRESS`).
const MAX_REFERENCES: u8 = 8;
/// Most collisions: addresses that wait until the holder of the tried place that they claim is
/// tested (Core `ADDRMAN_SET_TRIED_COLLISION_SIZE`).
const MAX_COLLISIONS: usize = 10;
/// A tried address that answered within this many seconds keeps its place (Core
/// `ADDRMAN_REPLACEMENT`).
const REPLACEMENT: i64 = 4 * 60 * 60;
/// How long a tested address has to answer, in seconds.
const TEST_TIME: i64 = 60;
/// If the holder could not be tested within this many seconds, the newcomer gets the place (Core
/// `ADDRMAN_TEST_WINDOW`).
const TEST_WINDOW: i64 = 40 * 60;
/// A connected peer's time is updated when it is this many seconds old.
const CONNECTED_INTERVAL: i64 = 20 * 60;

/// How many addresses of a network are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressCount {
    pub network: AddressNetwork,
    /// Those that never answered.
    pub new: usize,
    /// Those that did.
    pub tried: usize,
}

/// Addresses of nodes and what is known of them.
pub struct AddressBook {
    placing: Placing,
    rng: StdRng,
    entries: BTreeMap<EntryId, Entry>,
    ids: BTreeMap<NetAddress, EntryId>,
    /// All entries; drawing samples shuffles them.
    order: Vec<EntryId>,
    new: Table,
    tried: Table,
    next_id: EntryId,
    /// When an address last answered; 1 at first, so that 0, "never", is before it.
    last_good: i64,
    collisions: BTreeSet<EntryId>,
}

/// How far [`AddressBook::count_coverage`] is.
#[derive(Debug, Default)]
pub(crate) struct BookCoverage {
    hosts: CoverageCount,
    /// The last address that was looked at.
    up_to: Option<NetAddress>,
}

impl AddressBook {
    /// An empty book of hosts that are grouped by prefix. All its randomness comes from `seed`, including
    /// the secret key of the buckets.
    pub fn new(seed: [u8; 32]) -> Self {
        Self::with_groups(seed, NetGroups::default())
    }

    /// The same, of hosts that are grouped so.
    pub fn with_groups(seed: [u8; 32], groups: NetGroups) -> Self {
        let mut rng = StdRng::from_seed(seed);
        let placing = Placing::new(rng.random(), groups);
        Self::with_placing(placing, rng)
    }

    fn with_placing(placing: Placing, rng: StdRng) -> Self {
        Self {
            placing,
            rng,
            entries: BTreeMap::new(),
            ids: BTreeMap::new(),
            order: Vec::new(),
            new: Table::new(places::NEW_BUCKETS),
            tried: Table::new(places::TRIED_BUCKETS),
            next_id: EntryId::FIRST,
            last_good: 1,
            collisions: BTreeSet::new(),
        }
    }

    /// How its hosts are grouped, and thus those that connections are opened to.
    pub fn groups(&self) -> &NetGroups {
        self.placing.groups()
    }

    /// Goes on to count how well the map of systems covers its addresses of IPv4 and IPv6, by at most so many
    /// addresses; how well, at the end. What comes and goes meanwhile may be counted or not.
    pub(crate) fn count_coverage(
        &self,
        count: &mut BookCoverage,
        at_most: usize,
    ) -> Option<MapCoverage> {
        let from = count.up_to.map_or(Bound::Unbounded, Bound::Excluded);
        let mut left = at_most;
        for address in self.ids.range((from, Bound::Unbounded)).map(|(address, _)| address) {
            if left == 0 {
                return None;
            }
            left -= 1;
            count.up_to = Some(*address);
            if matches!(address.network(), AddressNetwork::Ipv4 | AddressNetwork::Ipv6) {
                count.hosts.add(self.groups(), address.host);
            }
        }
        Some(count.hosts.total())
    }

    /// Number of addresses.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are no addresses.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Adds addresses from `source`; returns how many got a place. `penalty` seconds are subtracted
    /// from each entry's time, except for the source's own address. Addresses that are not routable
    /// are skipped.
    pub fn add(
        &mut self,
        now: i64,
        entries: &[AddressEntry],
        source: Source,
        penalty: u32,
    ) -> usize {
        entries.iter().filter(|entry| self.add_one(now, entry, source, penalty)).count()
    }

    fn add_one(&mut self, now: i64, told: &AddressEntry, source: Source, penalty: u32) -> bool {
        if !told.address.is_routable() {
            return false;
        }
        let penalty = if source == Source::Host(told.address.host) { 0 } else { penalty };
        let id = match self.ids.get(&told.address) {
            None => self.create(told, source, penalty),
            Some(&id) => {
                if !self.refresh(now, id, told, penalty) {
                    return false;
                }
                id
            }
        };
        let place = self.placing.new_place(&told.address, source);
        self.put_new(now, id, place)
    }

    /// Updates a known address; returns whether it may get one more place.
    fn refresh(&mut self, now: i64, id: EntryId, told: &AddressEntry, penalty: u32) -> bool {
        let entry = self.entries.get_mut(&id).expect("named by `ids`");
        entry.refresh(now, told, penalty);
        if told.time <= entry.time || entry.tried || entry.references == MAX_REFERENCES {
            return false;
        }
        // With each place, the next one becomes half as likely.
        self.rng.random_range(0..1u32 << entry.references) == 0
    }

    fn create(&mut self, told: &AddressEntry, source: Source, penalty: u32) -> EntryId {
        let entry = Entry::new(told, source, penalty);
        self.insert(entry)
    }

    fn insert(&mut self, entry: Entry) -> EntryId {
        let id = self.next_id;
        self.next_id = id.next();
        self.ids.insert(entry.address, id);
        let entry = Entry { rank: self.order.len(), ..entry };
        self.entries.insert(id, entry);
        self.order.push(id);
        id
    }

    /// Puts a new address at its place, if that is free or its holder matters less. An address that
    /// is left without a place is forgotten.
    fn put_new(&mut self, now: i64, id: EntryId, place: Place) -> bool {
        let holder = self.new.get(place).map(|slot| slot.id);
        if holder == Some(id) {
            return false;
        }
        let first_place = self.entries[&id].references == 0;
        let free = holder.is_none_or(|holder| {
            let holder = &self.entries[&holder];
            holder.is_terrible(now) || (holder.references > 1 && first_place)
        });
        if free {
            self.clear_new(place);
            self.occupy_new(id, place);
        } else if first_place {
            self.forget(id);
        }
        free
    }

    fn occupy_new(&mut self, id: EntryId, place: Place) {
        let entry = self.entries.get_mut(&id).expect("the entry exists");
        entry.references += 1;
        self.new.put(place, id, entry.address.network());
    }

    /// Frees a place. An address that had only this one is forgotten.
    fn clear_new(&mut self, place: Place) {
        let Some(slot) = self.new.take(place) else { return };
        let entry = self.entries.get_mut(&slot.id).expect("it has a place");
        entry.references -= 1;
        if entry.references == 0 {
            self.forget(slot.id);
        }
    }

    fn forget(&mut self, id: EntryId) {
        let entry = self.entries.remove(&id).expect("the entry exists");
        self.ids.remove(&entry.address);
        self.order.swap_remove(entry.rank);
        if let Some(moved) = self.order.get(entry.rank) {
            self.entries.get_mut(moved).expect("it is in `order`").rank = entry.rank;
        }
    }

    /// A connection to the address is being attempted. `count_failure`: it counts against the
    /// address until it answers; false while our own link may be at fault.
    pub fn attempt(&mut self, now: i64, address: &NetAddress, count_failure: bool) {
        let last_good = self.last_good;
        let Some(entry) = self.find_mut(address) else { return };
        entry.last_try = now;
        if count_failure && entry.last_counted_try < last_good {
            entry.last_counted_try = now;
            entry.attempts = entry.attempts.saturating_add(1);
        }
    }

    /// The address answered like a node (Core `Good`); returns whether it has become a tried one.
    /// If its place is taken, the holder has to be tested first
    /// ([`resolve_collisions`](Self::resolve_collisions)).
    pub fn good(&mut self, now: i64, address: &NetAddress) -> bool {
        self.mark_good(now, address, true)
    }

    fn mark_good(&mut self, now: i64, address: &NetAddress, test_before_evict: bool) -> bool {
        self.last_good = now;
        let Some(&id) = self.ids.get(address) else { return false };
        let entry = self.entries.get_mut(&id).expect("named by `ids`");
        entry.last_success = now;
        entry.last_try = now;
        entry.attempts = 0;
        // `time` is not updated: it is gossiped, and would reveal our connections.
        if entry.tried {
            return false;
        }
        let place = self.placing.tried_place(address);
        if test_before_evict && self.tried.get(place).is_some() {
            if self.collisions.len() < MAX_COLLISIONS {
                self.collisions.insert(id);
            }
            return false;
        }
        self.make_tried(id, place);
        true
    }

    /// Moves an address from its new places to its tried one. The former holder goes back to a new
    /// place.
    fn make_tried(&mut self, id: EntryId, place: Place) {
        let entry = self.entries.get_mut(&id).expect("the entry exists");
        let first = self.placing.new_place(&entry.address, entry.source).bucket;
        for bucket in (first..places::NEW_BUCKETS).chain(0..first) {
            if entry.references == 0 {
                break;
            }
            let new_place = self.placing.place_in_new_bucket(&entry.address, bucket);
            if self.new.get(new_place).is_some_and(|slot| slot.id == id) {
                self.new.take(new_place);
                entry.references -= 1;
            }
        }
        entry.tried = true;
        let network = entry.address.network();
        if let Some(evicted) = self.tried.take(place) {
            let entry = self.entries.get_mut(&evicted.id).expect("it has a place");
            entry.tried = false;
            let back = self.placing.new_place(&entry.address, entry.source);
            self.clear_new(back);
            self.occupy_new(evicted.id, back);
        }
        self.tried.put(place, id, network);
    }

    /// An outbound connection to the address ended. Only then is its time updated: it is gossiped,
    /// and would reveal our connections.
    pub fn connected(&mut self, now: i64, address: &NetAddress) {
        if let Some(entry) = self.find_mut(address)
            && now.saturating_sub(entry.time.into()) > CONNECTED_INTERVAL
        {
            entry.time = u32::try_from(now).unwrap_or(u32::MAX);
        }
    }

    /// Services that the node is said to offer; `None` for an address that is not in the book.
    pub fn services(&self, address: &NetAddress) -> Option<Services> {
        Some(self.entries.get(self.ids.get(address)?)?.services)
    }

    /// Sets the services that the node itself told.
    pub fn set_services(&mut self, address: &NetAddress, services: Services) {
        if let Some(entry) = self.find_mut(address) {
            entry.services = services;
        }
    }

    /// Decides the collisions that can be decided: the holder of a place stays if it answered
    /// lately, and goes if it was tested and did not answer, or could not be tested for long.
    pub fn resolve_collisions(&mut self, now: i64) {
        for id in self.collisions.clone() {
            let verdict = self.judge_collision(now, id);
            if verdict == Verdict::Replace {
                let address = self.entries[&id].address;
                self.mark_good(now, &address, false);
            }
            if verdict != Verdict::Wait {
                self.collisions.remove(&id);
            }
        }
    }

    fn judge_collision(&self, now: i64, id: EntryId) -> Verdict {
        let Some(newcomer) = self.entries.get(&id) else { return Verdict::Keep };
        let place = self.placing.tried_place(&newcomer.address);
        let Some(slot) = self.tried.get(place) else { return Verdict::Replace };
        let holder = &self.entries[&slot.id];
        let since_try = now.saturating_sub(holder.last_try);
        if now.saturating_sub(holder.last_success) < REPLACEMENT {
            Verdict::Keep
        } else if since_try < REPLACEMENT {
            if since_try > TEST_TIME { Verdict::Replace } else { Verdict::Wait }
        } else if now.saturating_sub(newcomer.last_success) > TEST_WINDOW {
            Verdict::Replace
        } else {
            Verdict::Wait
        }
    }

    fn find_mut(&mut self, address: &NetAddress) -> Option<&mut Entry> {
        let id = self.ids.get(address)?;
        self.entries.get_mut(id)
    }

    /// Number of tried addresses.
    #[cfg(test)]
    pub(crate) fn tried_len(&self) -> usize {
        self.tried.len()
    }

    /// Whether the book has an address of the network.
    pub fn knows(&self, network: AddressNetwork) -> bool {
        self.new.count(network) > 0 || self.tried.count(network) > 0
    }
}

/// What becomes of a collision.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Keep,
    Replace,
    Wait,
}

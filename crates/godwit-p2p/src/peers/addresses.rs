//! Address gossip: stores addresses, relays few of them, answers `getaddr`, advertises our own.
//!
//! Source: Core `net_processing.cpp`, `ProcessAddrs`, `RelayAddress`, `MaybeSendAddr`; `net.cpp`,
//! `GetAddresses`, `GetLocalAddrForPeer`.

mod answers;
mod known;
pub(super) mod state;

use std::hash::{Hash, Hasher};
use std::time::Duration;

use log::{debug, info};
use rand::Rng;
use rand::seq::SliceRandom;
use siphasher::sip::SipHasher24;

use self::answers::{AddressAnswers, AskedAt};
use super::context::Context;
use super::misbehaviour::DisconnectReason;
use super::peer::Peer;
use crate::address_book::{BookCoverage, TIME_PENALTY};
use crate::connection_kind::ConnectionKind;
use crate::message::{MAX_ADDRESSES, Message};
use crate::net_address::{AddressEntry, NetAddress};
use crate::net_groups::MapCoverage;
use crate::own_addresses::OwnAddressSource;
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::services::Services;
use crate::time::exponential;

/// Mean time between messages with addresses to a peer (Core `AVG_ADDRESS_BROADCAST_INTERVAL`).
const BROADCAST_INTERVAL: Duration = Duration::from_secs(30);
/// Mean time between advertisements of our own address to a peer (Core
/// `AVG_LOCAL_ADDRESS_BROADCAST_INTERVAL`).
const OWN_ADDRESS_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// How long an address is relayed to the same peers, in seconds (Core
/// `ROTATE_ADDR_RELAY_DEST_INTERVAL`).
const ROTATE_INTERVAL: u64 = 24 * 60 * 60;
/// Peers to which a fresh address is relayed (Core: 2).
const RELAY_PEERS: usize = 2;
/// A message with more addresses is an answer and no news (Core: 10).
const MAX_NEWS: usize = 10;
/// An address that was seen within this many seconds is fresh (Core: ten minutes).
const FRESH: i64 = 10 * 60;
/// An address with an impossible time counts as seen five days ago (as in Core).
const UNKNOWN_AGE: i64 = 5 * 24 * 60 * 60;
/// Times before 1973 are impossible (as in Core).
const EARLIEST_TIME: i64 = 100_000_000;
/// How long the answer to `getaddr` stays the same, so that asking often reveals no more; up to six
/// hours are added (Core: 21 hours).
const ANSWER_LIFETIME: Duration = Duration::from_secs(21 * 60 * 60);
/// Most that is added to [`ANSWER_LIFETIME`], in seconds.
const ANSWER_LIFETIME_SPREAD: u64 = 6 * 60 * 60;
/// Time between two looks at how well the map of systems covers the book (Core
/// `ASMAP_HEALTH_CHECK_INTERVAL`).
const COVERAGE_INTERVAL: Duration = Duration::from_secs(24 * 60 * 60);
/// Addresses that are looked up at once for that, which takes a millisecond; the next ones with the next
/// maintenance. A full book is through in less than a minute.
const ADDRESSES_AT_ONCE: usize = 1_000;

/// See the module's documentation.
pub(super) struct AddressGossip {
    answers: AddressAnswers,
    /// Secret: whom an address is relayed to follows from a hash with this key.
    key: [u8; 16],
    /// When it is counted next how well the map of systems covers the book.
    next_coverage: Duration,
    /// The count that is under way.
    coverage: Option<BookCoverage>,
}

impl AddressGossip {
    pub(super) fn new(key: [u8; 16]) -> Self {
        let (answers, next_coverage) = (AddressAnswers::default(), Duration::ZERO);
        Self { answers, key, next_coverage, coverage: None }
    }

    /// Decides whether addresses are exchanged with the peer. Not with a block-relay peer:
    /// addresses would reveal that link.
    pub(super) fn set_up(&self, cx: &mut Context<'_>, id: PeerId) -> bool {
        let Some(peer) = cx.table.get_mut(id) else { return false };
        let excluded = matches!(peer.kind, ConnectionKind::BlockRelay | ConnectionKind::Feeler);
        peer.addresses.enabled |= !excluded;
        !excluded
    }

    pub(super) fn ask(&self, cx: &mut Context<'_>, id: PeerId) {
        cx.send(id, &Message::GetAddr);
        if let Some(peer) = cx.table.get_mut(id) {
            peer.addresses.asked = true;
            peer.addresses.allowance.grant(MAX_ADDRESSES as u64);
        }
    }

    /// An `addr` or `addrv2`.
    pub(super) fn on_addresses(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        mut entries: Vec<AddressEntry>,
    ) {
        if !self.set_up(cx, id) {
            return;
        }
        let now = cx.now;
        let number = entries.len();
        // Shuffled, so that the sender does not choose which are stored when there are too many.
        entries.shuffle(cx.rng);
        let Some(peer) = cx.table.get_mut(id) else { return };
        let is_unlimited = peer.may(Permissions::ADDR);
        let relay = &mut peer.addresses;
        if !is_unlimited {
            let allowed = relay.allowance.take_up_to(now.monotonic, number as u64);
            entries.truncate(usize::try_from(allowed).unwrap_or(number));
            relay.rate_limited += (number - entries.len()) as u64;
        }
        let news = !relay.asked && number <= MAX_NEWS;
        if number < MAX_ADDRESSES {
            relay.asked = false;
        }
        let (source, kind) = (peer.source(), peer.kind);
        let (mut kept, mut processed) = (Vec::with_capacity(entries.len()), 0);
        for mut entry in entries {
            if !is_useful(cx, entry.services) {
                continue;
            }
            entry.time = plausible_time(entry.time, now.unix);
            self.mark_known(cx, id, &entry.address);
            let host = &entry.address.host;
            if cx.table.discouraged().contains(host) || cx.table.bans().contains(host) {
                continue;
            }
            processed += 1;
            let fresh = i64::from(entry.time) > now.unix - FRESH;
            if fresh && news && entry.address.is_routable() {
                self.relay(cx, id, &entry);
            }
            if cx.config.reachable.contains(entry.address.network()) {
                kept.push(entry);
            }
        }
        if let Some(peer) = cx.table.get_mut(id) {
            peer.addresses.processed += processed;
        }
        if let Some(source) = source {
            cx.book.add(now.unix, &kept, source, TIME_PENALTY);
        }
        // A single address is the peer's own; the answer is still to come.
        if kind == ConnectionKind::AddrFetch && number > 1 {
            cx.disconnect(id, DisconnectReason::AddrFetchDone);
        }
    }

    fn address_hash(&self, address: &NetAddress) -> u64 {
        let mut hasher = SipHasher24::new_with_key(&self.key);
        address.hash(&mut hasher);
        hasher.finish()
    }

    fn mark_known(&self, cx: &mut Context<'_>, id: PeerId, address: &NetAddress) {
        let hash = self.address_hash(address);
        if let Some(peer) = cx.table.get_mut(id) {
            peer.addresses.known.insert(hash);
        }
    }

    /// Relays a fresh address to one or two peers, the same ones for a day, so that sending it
    /// again does not spread it further.
    fn relay(&self, cx: &mut Context<'_>, from: PeerId, entry: &AddressEntry) {
        let reachable = cx.config.reachable.contains(entry.address.network());
        let hash = self.address_hash(&entry.address);
        let time = u64::try_from(cx.now.unix).unwrap_or(0).wrapping_add(hash) / ROTATE_INTERVAL;
        let rank = |id: u64| {
            let mut hasher = SipHasher24::new_with_key(&self.key);
            (hash, time, id).hash(&mut hasher);
            hasher.finish()
        };
        // Addresses that we cannot reach ourselves go to one or two.
        let number = if reachable || rank(0) & 1 == 1 { RELAY_PEERS } else { 1 };
        let mut targets: Vec<(u64, PeerId)> = cx
            .table
            .iter()
            .filter(|peer| peer.addresses.enabled && peer.id != from && peer.established())
            .filter(|peer| understands(peer, &entry.address))
            .map(|peer| (rank(peer.id.0), peer.id))
            .collect();
        targets.sort_unstable_by(|a, b| b.cmp(a));
        for (_, id) in targets.into_iter().take(number) {
            self.queue(cx, id, *entry);
        }
    }

    /// Queues an address for the peer. Beyond the limit, it replaces a random one.
    fn queue(&self, cx: &mut Context<'_>, id: PeerId, entry: AddressEntry) {
        let hash = self.address_hash(&entry.address);
        let Some(peer) = cx.table.get_mut(id) else { return };
        let fits = entry.address.is_valid() && understands(peer, &entry.address);
        let relay = &mut peer.addresses;
        if !fits || relay.known.contains(hash) {
            return;
        }
        if relay.to_send.len() < MAX_ADDRESSES {
            relay.to_send.push(entry);
        } else {
            let place = cx.rng.random_range(0..MAX_ADDRESSES);
            relay.to_send[place] = entry;
        }
    }

    /// Answered once, and only to inbound peers: an outbound peer could recognise us by addresses
    /// that it had sent us before.
    pub(super) fn on_getaddr(&mut self, cx: &mut Context<'_>, id: PeerId) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        if !peer.inbound() || peer.addresses.answered {
            return;
        }
        peer.addresses.enabled = true;
        peer.addresses.answered = true;
        peer.addresses.to_send.clear();
        let asked_at = (peer.connected_through(), peer.addresses.called);
        let answer = match peer.may(Permissions::ADDR) {
            true => fresh_answer(cx),
            false => self.answer(cx, asked_at),
        };
        for entry in answer {
            self.queue(cx, id, entry);
        }
    }

    /// Says once a day how well the map of `-asmap` covers the addresses of the book. The chain waits
    /// meanwhile, so it is counted in parts.
    pub(super) fn watch_map(&mut self, cx: &Context<'_>) {
        if !cx.book.groups().are_by_system() {
            return;
        }
        if self.coverage.is_none() && cx.now.monotonic < self.next_coverage {
            return;
        }
        let count = self.coverage.get_or_insert_with(|| {
            self.next_coverage = cx.now.monotonic + COVERAGE_INTERVAL;
            BookCoverage::default()
        });
        let counted = cx.book.count_coverage(count, ADDRESSES_AT_ONCE);
        if let Some(MapCoverage { hosts, systems, unmapped }) = counted {
            self.coverage = None;
            info!(
                "ASMap Health Check: {hosts} clearnet peers are mapped to {systems} ASNs with {unmapped} \
                 peers being unmapped"
            );
        }
    }

    fn answer(&mut self, cx: &mut Context<'_>, asked_at: AskedAt) -> Vec<AddressEntry> {
        let now = cx.now;
        if let Some(answer) = self.answers.get(&asked_at, now.monotonic) {
            return answer.to_vec();
        }
        let answer = fresh_answer(cx);
        let spread = cx.rng.random_range(0..ANSWER_LIFETIME_SPREAD);
        let expires = now.monotonic + ANSWER_LIFETIME + Duration::from_secs(spread);
        self.answers.insert(asked_at, expires, answer.clone());
        answer
    }

    /// Sends the queued addresses when they are due, and advertises our own about once a day (Core
    /// `MaybeSendAddr`).
    pub(super) fn maintain(&self, cx: &mut Context<'_>, id: PeerId) {
        let now = cx.now;
        let enabled = |peer: &Peer| peer.addresses.enabled;
        if !cx.table.get(id).is_some_and(enabled) {
            return;
        }
        self.advertise_own_address(cx, id);
        let pause = exponential(BROADCAST_INTERVAL, cx.rng);
        let Some(peer) = cx.table.get_mut(id) else { return };
        if now.monotonic <= peer.addresses.next_send {
            return;
        }
        peer.addresses.next_send = now.monotonic + pause;
        let queued = std::mem::take(&mut peer.addresses.to_send);
        let hashes: Vec<u64> =
            queued.iter().map(|entry| self.address_hash(&entry.address)).collect();
        let Some(peer) = cx.table.get_mut(id) else { return };
        let mut entries = queued;
        let mut hashes = hashes.into_iter();
        entries.retain(|_| !peer.addresses.known.insert(hashes.next().expect("one for each")));
        if !entries.is_empty() {
            send_addresses(cx, id, entries);
        }
    }

    fn advertise_own_address(&self, cx: &mut Context<'_>, id: PeerId) {
        let now = cx.now;
        if cx.config.listen_port.is_none() || cx.initial_download {
            return;
        }
        let pause = exponential(OWN_ADDRESS_INTERVAL, cx.rng);
        let Some(peer) = cx.table.get_mut(id) else { return };
        if peer.addresses.next_own.is_some_and(|due| due >= now.monotonic) {
            return;
        }
        let first = peer.addresses.next_own.replace(now.monotonic + pause).is_none();
        if !first {
            // Otherwise our own address would not be sent again, as known.
            peer.addresses.known.clear();
        }
        let Some(address) = own_address(cx, id) else { return };
        if !cx.table.get(id).is_some_and(|peer| understands(peer, &address)) {
            return;
        }
        debug!("peer={}: told our address {address}", id.0);
        let time = u32::try_from(now.unix).unwrap_or(0);
        let entry = AddressEntry { time, services: cx.services(), address };
        if !first {
            self.queue(cx, id, entry);
        } else {
            // In a message of its own: other addresses could use up the peer's allowance.
            send_addresses(cx, id, vec![entry]);
        }
    }
}

/// Random addresses of the book (Core `GetAddressesUnsafe`).
fn fresh_answer(cx: &mut Context<'_>) -> Vec<AddressEntry> {
    let mut answer = cx.book.sample(cx.now.unix);
    answer.retain(|entry| !cx.table.is_shunned(&entry.address.host));
    answer
}

/// Whether an address with these services is worth storing: it may be connected to, or tried by a
/// feeler.
fn is_useful(cx: &Context<'_>, services: Services) -> bool {
    services.contains(Services::NETWORK)
        || services.contains(Services::NETWORK_LIMITED)
        || cx.has_desirable_services(services)
}

fn send_addresses(cx: &mut Context<'_>, id: PeerId, entries: Vec<AddressEntry>) {
    let Some(peer) = cx.table.get(id) else { return };
    let v2 = peer.handshake.wants_addrv2;
    let message = if v2 { Message::AddrV2(entries) } else { Message::Addr(entries) };
    cx.send(id, &message);
}

/// The address to advertise to the peer: the best one for it, and now and then the one under which it says
/// that it sees us, as it may know better (Core `GetLocalAddrForPeer`).
fn own_address(cx: &mut Context<'_>, id: PeerId) -> Option<NetAddress> {
    let listen_port = cx.config.listen_port?;
    let peer = cx.table.get(id)?;
    let host = peer.address.map(|address| address.host);
    let best = cx.own.best_for(host.as_ref(), peer.connected_through());
    let Some(seen) = seen_address(cx, peer) else { return best.map(|own| own.address) };
    // A peer that we connected to does not see the port on which we listen.
    let port = best.map_or(listen_port, |own| own.address.port);
    let seen = if peer.inbound() { seen } else { NetAddress { port, ..seen } };
    let Some(best) = best else { return Some(seen) };
    let one_in = if best.score > OwnAddressSource::Manual as u32 { 8 } else { 2 };
    let chosen = if cx.rng.random_range(0..one_in) == 0 { seen } else { best.address };
    Some(chosen)
}

/// The address under which the peer says that it sees us, if others may be able to call us there (Core
/// `IsPeerAddrLocalGood`).
fn seen_address(cx: &Context<'_>, peer: &Peer) -> Option<NetAddress> {
    let can_see = cx.own.discovers() && peer.known_host().is_some_and(|host| host.is_routable());
    let seen = peer.handshake.local.filter(|_| can_see)?;
    (seen.is_routable() && cx.config.reachable.contains(seen.network())).then_some(seen)
}

/// Whether the peer can decode the address.
fn understands(peer: &Peer, address: &NetAddress) -> bool {
    peer.handshake.wants_addrv2 || address.host.is_v1_compatible()
}

/// The time that a peer sent with an address, in seconds since 1970, or a guess if it is
/// impossible.
fn plausible_time(time: u32, now: i64) -> u32 {
    let told = i64::from(time);
    if told > EARLIEST_TIME && told <= now + FRESH {
        return time;
    }
    u32::try_from(now - UNKNOWN_AGE).unwrap_or(0)
}

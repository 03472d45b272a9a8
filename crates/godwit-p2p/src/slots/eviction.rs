//! Chooses the connection to close when another one needs its place.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::hash::Hasher;
use std::time::Duration;

use siphasher::sip::SipHasher24;

use crate::connection_kind::ConnectionKind;
use crate::net_address::{AddressNetwork, NetAddress};
use crate::net_groups::NetGroups;
use crate::peer_id::PeerId;

/// Peers kept by a keyed hash of their group: an attacker cannot tell which groups those are.
const KEPT_BY_GROUP: usize = 4;
/// Peers kept for the shortest round trip: an attacker would need machines nearby.
const KEPT_BY_PING: usize = 8;
/// Peers kept that want transactions announced. Core: those that sent the latest new ones, and of others
/// those that want them; nobody sends any here.
const KEPT_BY_TRANSACTIONS: usize = 4;
/// Block-relay peers kept because they sent the latest new blocks.
const KEPT_BY_BLOCK_RELAY: usize = 8;
/// Peers kept because they sent the latest new blocks: an attacker would have to be first, which
/// takes work.
const KEPT_BY_BLOCK: usize = 4;
/// How long an outbound peer beyond the limits has to prove itself, at least (Core
/// `MINIMUM_CONNECT_TIME`).
const MINIMUM_CONNECT_TIME: Duration = Duration::from_secs(30);

/// A peer that may be evicted. Times are monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EvictionCandidate {
    pub peer: PeerId,
    /// Only inbound ones are evicted.
    pub kind: ConnectionKind,
    pub address: NetAddress,
    /// It called the onion service: the address is Tor's.
    pub through_onion: bool,
    /// When it connected.
    pub connected: Duration,
    /// Shortest round trip so far; [`Duration::MAX`] for none.
    pub min_ping: Duration,
    /// When it last sent a block that was new and not yet known to be invalid; zero for never.
    pub last_block: Duration,
    /// It offers all services that this node wants.
    pub relevant_services: bool,
    /// It wants transactions announced, so it is no block-relay peer.
    pub relays_transactions: bool,
    /// It is discouraged.
    pub prefer_evict: bool,
    /// The operator trusts it.
    pub protected: bool,
}

/// The inbound peer to evict for a new one; `None` when every peer is protected.
///
/// Core `SelectNodeToEvict`, as with `-blocksonly`: no peer has sent a transaction or loaded a bloom
/// filter. `key` is secret and stays the same during a run.
pub(crate) fn select_to_evict(
    candidates: &[EvictionCandidate],
    key: [u8; 16],
    by: &NetGroups,
) -> Option<PeerId> {
    // Once for each: to look up a system takes longer than to compare two.
    let hashed = |candidate: &EvictionCandidate| {
        let mut hasher = SipHasher24::new_with_key(&key);
        hasher.write(by.of(candidate.address.host).as_bytes());
        (candidate.peer, hasher.finish())
    };
    let groups: BTreeMap<PeerId, u64> = candidates.iter().map(hashed).collect();
    let group = |candidate: &EvictionCandidate| groups[&candidate.peer];
    let mut left: Vec<_> = candidates
        .iter()
        .copied()
        .filter(|one| !one.protected && one.kind == ConnectionKind::Inbound)
        .collect();
    keep_last(&mut left, KEPT_BY_GROUP, |a, b| group(a).cmp(&group(b)), |_| true);
    keep_last(&mut left, KEPT_BY_PING, |a, b| b.min_ping.cmp(&a.min_ping), |_| true);
    keep_last(&mut left, KEPT_BY_TRANSACTIONS, by_transactions, |_| true);
    let block_relay = |one: &EvictionCandidate| !one.relays_transactions && one.relevant_services;
    keep_last(&mut left, KEPT_BY_BLOCK_RELAY, by_block_relay, block_relay);
    keep_last(&mut left, KEPT_BY_BLOCK, by_block, |_| true);
    keep_by_ratio(&mut left);
    if left.iter().any(|one| one.prefer_evict) {
        left.retain(|one| one.prefer_evict);
    }
    youngest_of_largest_group(&left, group)
}

/// Sorts, then removes (and so protects) those of the last `count` that fulfil a condition.
fn keep_last(
    left: &mut Vec<EvictionCandidate>,
    count: usize,
    order: impl Fn(&EvictionCandidate, &EvictionCandidate) -> Ordering,
    condition: impl Fn(&EvictionCandidate) -> bool,
) {
    left.sort_by(order);
    let first = left.len().saturating_sub(count);
    let kept = left.split_off(first);
    left.extend(kept.into_iter().filter(|one| !condition(one)));
}

/// A peer that has been connected longer is greater.
fn by_age(a: &EvictionCandidate, b: &EvictionCandidate) -> Ordering {
    b.connected.cmp(&a.connected)
}

/// Core `CompareNodeTXTime`, where no transaction has come and no filter was loaded.
fn by_transactions(a: &EvictionCandidate, b: &EvictionCandidate) -> Ordering {
    a.relays_transactions.cmp(&b.relays_transactions).then_with(|| by_age(a, b))
}

fn by_block(a: &EvictionCandidate, b: &EvictionCandidate) -> Ordering {
    let key = |one: &EvictionCandidate| (one.last_block, one.relevant_services);
    key(a).cmp(&key(b)).then_with(|| by_age(a, b))
}

fn by_block_relay(a: &EvictionCandidate, b: &EvictionCandidate) -> Ordering {
    b.relays_transactions.cmp(&a.relays_transactions).then_with(|| by_block(a, b))
}

/// A kind of peer whose round trips are long by nature.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Disadvantaged {
    Network(AddressNetwork),
    /// Peers that a hidden service on this machine forwards seem to be local.
    Localhost,
}

impl Disadvantaged {
    /// In the order in which they get places that others leave.
    const ALL: [Self; 4] = [
        Self::Network(AddressNetwork::Cjdns),
        Self::Network(AddressNetwork::I2p),
        Self::Localhost,
        Self::Network(AddressNetwork::Onion),
    ];

    fn includes(self, one: &EvictionCandidate) -> bool {
        match self {
            Self::Network(AddressNetwork::Onion) if one.through_onion => true,
            Self::Network(network) => one.address.host.network_class() == network,
            Self::Localhost => one.address.is_local(),
        }
    }
}

/// Protects half of the peers, those that have been connected longest; up to half of these places
/// go to the disadvantaged peers that have been connected longest (Core
/// `ProtectEvictionCandidatesByRatio`).
pub(super) fn keep_by_ratio(left: &mut Vec<EvictionCandidate>) {
    let before = left.len();
    let keep = before / 2;
    keep_disadvantaged(left, keep / 2);
    let kept = before - left.len();
    keep_last(left, keep - kept, by_age, |_| true);
}

fn keep_disadvantaged(left: &mut Vec<EvictionCandidate>, most: usize) {
    let present =
        |left: &[_], kind: Disadvantaged| left.iter().filter(|one| kind.includes(one)).count();
    let mut kinds = Disadvantaged::ALL.map(|kind| (kind, present(left, kind)));
    kinds.sort_by_key(|&(_, count)| count);
    let mut kept = 0;
    while kept < most {
        let with_peers = kinds.iter().filter(|(_, count)| *count > 0).count();
        if with_peers == 0 {
            return;
        }
        let each = ((most - kept) / with_peers).max(1);
        let kept_before = kept;
        for (kind, count) in kinds.iter_mut().filter(|(_, count)| *count > 0) {
            let before = left.len();
            let last = |a: &EvictionCandidate, b: &EvictionCandidate| {
                kind.includes(a).cmp(&kind.includes(b)).then_with(|| by_age(a, b))
            };
            keep_last(left, each, last, |one| kind.includes(one));
            let taken = before - left.len();
            kept += taken;
            *count -= taken;
            if kept >= most {
                return;
            }
        }
        if kept == kept_before {
            return;
        }
    }
}

/// The youngest peer of the group with most peers; of groups of equal size, of the one with the
/// youngest peer. `left` is sorted by age, youngest first.
fn youngest_of_largest_group(
    left: &[EvictionCandidate],
    group: impl Fn(&EvictionCandidate) -> u64,
) -> Option<PeerId> {
    let mut groups: BTreeMap<u64, (usize, &EvictionCandidate)> = BTreeMap::new();
    for one in left {
        groups.entry(group(one)).or_insert((0, one)).0 += 1;
    }
    let largest = groups.values().max_by_key(|(count, youngest)| (*count, youngest.connected));
    largest.map(|(_, youngest)| youngest.peer)
}

/// A peer to which this node connected. Times are monotonic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OutboundPeer {
    /// A higher id connected later.
    pub peer: PeerId,
    pub kind: ConnectionKind,
    /// Its address, if known.
    pub address: Option<NetAddress>,
    /// When it connected.
    pub connected: Duration,
    /// When it last sent a block that was new and not yet known to be invalid; zero for never.
    pub last_block: Duration,
    /// When it last announced a block that was new; zero for never.
    pub last_announcement: Duration,
    /// It is one of the few that are never closed for others (Core `m_chain_sync.m_protect`).
    pub protected: bool,
    /// Blocks in flight from it.
    pub in_flight: usize,
    /// The handshake is complete.
    pub ready: bool,
}

impl OutboundPeer {
    /// Whether it had its time and no block is in flight from it.
    fn may_go(&self, now: Duration) -> bool {
        now.saturating_sub(self.connected) >= MINIMUM_CONNECT_TIME && self.in_flight == 0
    }
}

/// The peers of a kind that have shown that they speak, if they are more than `limit`. One that is being
/// greeted may never do so: nobody goes for it, and it goes for nobody (Core `GetExtraFullOutboundCount`,
/// `GetExtraBlockRelayCount`, `ForEachNode`).
fn more_than(
    limit: usize,
    peers: &[OutboundPeer],
    kind: ConnectionKind,
) -> Option<Vec<&OutboundPeer>> {
    let ready: Vec<_> = peers.iter().filter(|peer| peer.kind == kind && peer.ready).collect();
    (ready.len() > limit).then_some(ready)
}

/// The block-relay peer to close when there are more than `limit`: the youngest, or the second
/// youngest if the youngest sent a block later than that (Core `EvictExtraOutboundPeers`).
pub(crate) fn extra_block_relay_peer(
    now: Duration,
    peers: &[OutboundPeer],
    limit: usize,
) -> Option<PeerId> {
    let mut relays = more_than(limit, peers, ConnectionKind::BlockRelay)?;
    relays.sort_by_key(|peer| Reverse(peer.peer));
    let loser = match relays[..] {
        [youngest, next, ..] if youngest.last_block > next.last_block => next,
        [youngest, ..] => youngest,
        [] => return None,
    };
    loser.may_go(now).then_some(loser.peer)
}

/// The full peer to close when there are more than `limit`: the one that announced its last block
/// the longest time ago, but no protected one nor the only full or manual one of its network (Core
/// `EvictExtraOutboundPeers`).
pub(crate) fn extra_full_peer(
    now: Duration,
    peers: &[OutboundPeer],
    limit: usize,
) -> Option<PeerId> {
    let full = more_than(limit, peers, ConnectionKind::OutboundFull)?;
    let network = |peer: &OutboundPeer| peer.address.map(|address| address.network());
    let alone = |one: &OutboundPeer| {
        let others = peers.iter().filter(|peer| {
            matches!(peer.kind, ConnectionKind::OutboundFull | ConnectionKind::Manual)
                && network(peer) == network(one)
        });
        others.count() <= 1
    };
    let loser = full
        .into_iter()
        .filter(|peer| !peer.protected && !alone(peer))
        .min_by_key(|peer| (peer.last_announcement, Reverse(peer.peer)))?;
    loser.may_go(now).then_some(loser.peer)
}

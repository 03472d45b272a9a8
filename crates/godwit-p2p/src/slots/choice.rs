//! Chooses the address of an automatic connection.

use std::collections::BTreeSet;

use super::{Situation, SlotPeer, Wanted, ports};
use crate::address_book::{AddressBook, Candidate};
use crate::connection_kind::ConnectionKind;
use crate::net_address::{AddressNetwork, Host, NetAddress, NetGroup};
use crate::net_groups::NetGroups;
use crate::services::Services;

/// Most addresses that are drawn from the book for one connection.
const MAX_TRIES: usize = 100;
/// Draws after which an address that was tried lately is accepted.
const TRIES_FOR_RECENT: usize = 30;
/// Draws after which a port of another service is accepted.
const TRIES_FOR_BAD_PORT: usize = 50;
/// "Lately" means within this many seconds.
const RECENT: i64 = 10 * 60;
/// With connections to this many groups the node is online, and a failed attempt is the other
/// side's fault.
const ONLINE_GROUPS: usize = 2;

/// The slots that are occupied, and what must not occupy one.
pub(super) struct Occupied {
    pub(super) full: usize,
    pub(super) block_relay: usize,
    /// All connections except manual and inbound ones.
    pub(super) automatic: usize,
    /// Groups of IPv4 and IPv6 with a lasting outbound connection. Addresses of other networks say
    /// nothing about who runs a node, or where.
    groups: BTreeSet<NetGroup>,
    /// Number of groups and of private peers with an open connection.
    proven: usize,
    /// Addresses of peers that the user adds. They have places of their own.
    added: BTreeSet<Host>,
}

impl Occupied {
    pub(super) fn new(peers: &[SlotPeer<'_>], by: &NetGroups, added: BTreeSet<Host>) -> Self {
        let count = |kind| peers.iter().filter(|peer| peer.kind == kind).count();
        let (full, block_relay) =
            (count(ConnectionKind::OutboundFull), count(ConnectionKind::BlockRelay));
        let short_lived = count(ConnectionKind::Feeler) + count(ConnectionKind::AddrFetch);
        let lasting = |ready: bool| {
            peers
                .iter()
                .filter(move |peer| is_lasting(peer.kind) && (peer.ready || !ready))
                .filter_map(|peer| peer.address)
        };
        let groups = |ready| {
            lasting(ready).filter(|address| !is_private(address)).map(|address| by.of(address.host))
        };
        let proven_groups: BTreeSet<_> = groups(true).collect();
        Self {
            full,
            block_relay,
            automatic: full + block_relay + short_lived,
            groups: groups(false).collect(),
            proven: proven_groups.len() + lasting(true).filter(is_private).count(),
            added,
        }
    }

    pub(super) fn is_online(&self) -> bool {
        self.proven >= ONLINE_GROUPS
    }
}

fn is_lasting(kind: ConnectionKind) -> bool {
    match kind {
        ConnectionKind::OutboundFull | ConnectionKind::BlockRelay | ConnectionKind::Manual => true,
        ConnectionKind::Inbound | ConnectionKind::Feeler | ConnectionKind::AddrFetch => false,
    }
}

fn is_private(address: &NetAddress) -> bool {
    matches!(address.network(), AddressNetwork::Onion | AddressNetwork::I2p | AddressNetwork::Cjdns)
}

/// An address for the wanted connection; `None` if none of [`MAX_TRIES`] draws will do.
pub(super) fn choose(
    now: i64,
    wanted: Wanted,
    situation: &Situation<'_>,
    occupied: &Occupied,
    book: &mut AddressBook,
) -> Option<NetAddress> {
    let feeler = wanted.kind == ConnectionKind::Feeler && !wanted.probe;
    for tries in 1..=MAX_TRIES {
        let candidate = match feeler {
            true => feeler_candidate(now, wanted, situation, book)?,
            false => book.select(now, false, wanted.networks)?,
        };
        let address = &candidate.address;
        let services_will_do = match feeler {
            true => has_address_book(candidate.services),
            false => are_desirable(candidate.services, situation.near_tip),
        };
        let near_another = !feeler
            && !wanted.probe
            && !is_private(address)
            && occupied.groups.contains(&book.groups().of(address.host));
        let recent = !wanted.probe
            && now.saturating_sub(candidate.last_try) < RECENT
            && tries < TRIES_FOR_RECENT;
        let bad_port =
            !is_private(address) && ports::is_bad(address.port) && tries < TRIES_FOR_BAD_PORT;
        if services_will_do
            && !near_another
            && !recent
            && !bad_port
            && wanted.networks.contains(address.network())
            && (wanted.probe || !is_connected(address, situation.peers))
            && !occupied.added.contains(&address.host)
            && !situation.discouraged.contains(&address.host)
            && !situation.bans.contains(&address.host)
            && !situation.own.contains(&address.host)
            && situation.exhausted.binary_search(&address.host).is_err()
        {
            return Some(*address);
        }
    }
    None
}

/// Whether an address that is not drawn from the book may be called, for a lasting connection.
pub(super) fn will_do(
    address: &NetAddress,
    services: Services,
    situation: &Situation<'_>,
    occupied: &Occupied,
    by: &NetGroups,
) -> bool {
    are_desirable(services, situation.near_tip)
        && situation.reachable.contains(address.network())
        && (is_private(address) || !occupied.groups.contains(&by.of(address.host)))
        && !is_connected(address, situation.peers)
        && !occupied.added.contains(&address.host)
        && !situation.bans.contains(&address.host)
        && !situation.own.contains(&address.host)
        && !situation.discouraged.contains(&address.host)
        && situation.exhausted.binary_search(&address.host).is_err()
}

/// An address to test: one whose place among the tried addresses another one claims; if there is
/// none, a new one.
fn feeler_candidate(
    now: i64,
    wanted: Wanted,
    situation: &Situation<'_>,
    book: &mut AddressBook,
) -> Option<Candidate> {
    if let Some(candidate) = book.select_collision() {
        if !is_connected(&candidate.address, situation.peers) {
            return Some(candidate);
        }
        // It is connected, so no test is needed, and none is possible.
        book.good(now, &candidate.address);
    }
    book.select(now, true, wanted.networks)
}

/// Whether these are the services that a lasting peer has to offer (Core
/// `GetDesirableServiceFlags`).
fn are_desirable(services: Services, near_tip: bool) -> bool {
    let limited = Services::NETWORK_LIMITED | Services::WITNESS;
    services.contains(Services::NETWORK | Services::WITNESS)
        || (near_tip && services.contains(limited))
}

/// Whether the peer is a node, which knows addresses (Core `MayHaveUsefulAddressDB`).
fn has_address_book(services: Services) -> bool {
    services.contains(Services::NETWORK) || services.contains(Services::NETWORK_LIMITED)
}

fn is_connected(address: &NetAddress, peers: &[SlotPeer<'_>]) -> bool {
    peers.iter().filter_map(|peer| peer.address).any(|other| other.host == address.host)
}

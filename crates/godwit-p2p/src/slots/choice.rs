//! Choosing the address of an automatic connection.

use std::collections::BTreeSet;

use super::{Situation, SlotPeer, SlotsConfig, Wanted, ports};
use crate::address_book::{AddressBook, Candidate};
use crate::connection_kind::ConnectionKind;
use crate::message::Services;
use crate::net_address::{AddressNetwork, NetAddress, NetGroup};
use crate::target::Target;

/// Addresses drawn from the book until the search is given up for now.
const MAX_TRIES: usize = 100;
/// Draws after which an address that was tried lately will do.
const TRIES_FOR_RECENT: usize = 30;
/// Draws after which a port of another service will do.
const TRIES_FOR_BAD_PORT: usize = 50;
/// How long ago, in seconds, "lately" is.
const RECENT: i64 = 10 * 60;
/// Groups with a connection that show that this node is online, so that a failure is the other side's.
const ONLINE_GROUPS: usize = 2;

/// The places that are taken.
pub(super) struct Occupied {
    pub(super) full: usize,
    pub(super) block_relay: usize,
    /// All but manual and inbound ones.
    pub(super) automatic: usize,
    /// IPv4 and IPv6 groups with a lasting outbound connection. In other networks, addresses tell
    /// nothing about who and where somebody is.
    groups: BTreeSet<NetGroup>,
    /// Groups and private peers that really are connected.
    proven: usize,
}

impl Occupied {
    pub(super) fn new(peers: &[SlotPeer<'_>]) -> Self {
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
            lasting(ready).filter(|address| !is_private(address)).map(|address| address.group())
        };
        let proven_groups: BTreeSet<_> = groups(true).collect();
        Self {
            full,
            block_relay,
            automatic: full + block_relay + short_lived,
            groups: groups(false).collect(),
            proven: proven_groups.len() + lasting(true).filter(is_private).count(),
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

/// An address for the connection that is wanted, if one of a hundred will do.
pub(super) fn choose(
    config: &SlotsConfig,
    now: i64,
    wanted: Wanted,
    situation: &Situation<'_>,
    occupied: &Occupied,
    book: &mut AddressBook,
) -> Option<NetAddress> {
    let feeler = wanted.kind == ConnectionKind::Feeler;
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
        let near_another =
            !feeler && !is_private(address) && occupied.groups.contains(&address.group());
        let recent = now.saturating_sub(candidate.last_try) < RECENT && tries < TRIES_FOR_RECENT;
        let bad_port =
            !is_private(address) && ports::is_bad(address.port) && tries < TRIES_FOR_BAD_PORT;
        if services_will_do
            && !near_another
            && !recent
            && !bad_port
            && wanted.networks.contains(address.network())
            && !is_connected(address, situation.peers)
            && !is_added(address, &config.add_nodes)
            && !situation.discouraged.contains(&address.host)
            && situation.exhausted.binary_search(&address.host).is_err()
        {
            return Some(*address);
        }
    }
    None
}

/// First an address whose tried place another one claims, else a new one.
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
        // A connection stands: no test is needed, and none is possible.
        book.good(now, &candidate.address);
    }
    book.select(now, true, wanted.networks)
}

/// What a peer has to offer that is to stay (Core `GetDesirableServiceFlags`).
fn are_desirable(services: Services, near_tip: bool) -> bool {
    let limited = Services::NETWORK_LIMITED | Services::WITNESS;
    services.contains(Services::NETWORK | Services::WITNESS)
        || (near_tip && services.contains(limited))
}

/// Whether it is a node, which knows addresses (Core `MayHaveUsefulAddressDB`).
fn has_address_book(services: Services) -> bool {
    services.contains(Services::NETWORK) || services.contains(Services::NETWORK_LIMITED)
}

fn is_connected(address: &NetAddress, peers: &[SlotPeer<'_>]) -> bool {
    peers.iter().filter_map(|peer| peer.address).any(|other| other.host == address.host)
}

/// Peers of `-addnode` do not take automatic slots.
fn is_added(address: &NetAddress, added: &[Target]) -> bool {
    added
        .iter()
        .any(|target| matches!(target, Target::Address(other) if other.host == address.host))
}

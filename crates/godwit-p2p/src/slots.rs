//! Decides which connections to open, and which to close in favour of others (Core `net.cpp`,
//! `node/eviction.cpp`).
//!
//! Nothing here connects: [`Slots::next`] compares the present connections with the slots and
//! returns which to open. Connections that are being opened count as present, so that no slot is
//! filled twice.

mod choice;
mod eviction;
mod manual;
mod ports;
mod seeding;
#[cfg(test)]
mod tests;

use std::time::Duration;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

pub(crate) use eviction::{
    EvictionCandidate, OutboundPeer, extra_block_relay_peer, extra_full_peer, select_to_evict,
};
pub use manual::{MAX_ADD_NODE_CONNECTIONS, MAX_TRIED_CONNECTIONS};

use crate::address_book::AddressBook;
use crate::anchors::Anchors;
use crate::bans::Bans;
use crate::connection_kind::ConnectionKind;
use crate::discourage::Discouraged;
use crate::net_address::{AddressEntry, Host, NetAddress};
use crate::net_groups::NetGroups;
use crate::own_addresses::OwnAddresses;
use crate::target::{Reachable, Target};
use crate::time::Now;
use crate::time::exponential;
use choice::Occupied;
use manual::Manual;
use seeding::Seeding;

/// Outbound full connections (Core `MAX_OUTBOUND_FULL_RELAY_CONNECTIONS`).
pub const MAX_OUTBOUND_FULL: usize = 8;
/// Outbound block-relay connections (Core `MAX_BLOCK_RELAY_ONLY_CONNECTIONS`).
pub const MAX_OUTBOUND_BLOCK_RELAY: usize = 2;
/// Feelers at a time (Core `MAX_FEELER_CONNECTIONS`).
pub(crate) const MAX_FEELERS: usize = 1;
/// Time between two looks at the slots; each opens at most one automatic connection.
const STEP: Duration = Duration::from_millis(500);
/// Mean time between feelers (Core `FEELER_INTERVAL`).
const FEELER_INTERVAL: Duration = Duration::from_secs(2 * 60);
/// Time between feelers while nothing arrives: connections that stand may have been lost, and only a
/// new one shows that our line is back.
const PROBE_INTERVAL: Duration = Duration::from_secs(15);
/// Mean time between connections to an extra block-relay peer, which shows whether the chain is
/// longer than the other peers say (Core `EXTRA_BLOCK_RELAY_ONLY_PEER_INTERVAL`).
const EXTRA_BLOCK_RELAY_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// Mean time between attempts to reach a network in which there is no peer (Core
/// `EXTRA_NETWORK_PEER_INTERVAL`).
const EXTRA_NETWORK_INTERVAL: Duration = Duration::from_secs(5 * 60);

/// How many connections of which kind to open, and to which targets.
#[derive(Clone, Debug)]
pub(crate) struct SlotsConfig {
    /// Full connections to keep open.
    pub max_full: usize,
    /// Block-relay connections to keep open.
    pub max_block_relay: usize,
    /// Connections at most of all kinds that the slots choose themselves, feelers among them (Core
    /// `m_max_automatic_connections`). With 0 nobody is asked for addresses either.
    pub max_automatic: usize,
    /// `-connect`: the only peers beside those of `add_nodes`; then there are no automatic
    /// connections and no seeds.
    pub connect_only: Option<Vec<Target>>,
    /// `-addnode`: peers to stay connected to.
    pub add_nodes: Vec<Target>,
    /// `-seednode`: peers that are asked for addresses.
    pub seed_nodes: Vec<Target>,
    /// Names of DNS seeds.
    pub dns_seeds: Vec<String>,
    /// Whether there are fixed seeds.
    pub fixed_seeds: bool,
}

/// A connection, open or being opened.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlotPeer<'a> {
    pub kind: ConnectionKind,
    /// The other side, if known.
    pub address: Option<NetAddress>,
    /// The target of [`SlotsConfig`] that it was opened for, if any.
    pub target: Option<&'a Target>,
    /// The handshake is complete.
    pub ready: bool,
}

#[derive(Clone, Copy)]
pub(crate) struct Situation<'a> {
    /// All connections, including those that are being opened.
    pub peers: &'a [SlotPeer<'a>],
    /// Networks to which connections can be opened.
    pub reachable: Reachable,
    /// The tip is stale: one more full connection is wanted (Core `SetTryNewOutboundPeer`).
    pub stale_tip: bool,
    /// The initial download is over.
    pub synced: bool,
    /// New connections are to show if our line is alive.
    pub line_probed: bool,
    /// The tip is not much older than a day (Core: 144 blocks), so that pruned peers will do.
    pub near_tip: bool,
    /// Hosts to which no connection is opened.
    pub discouraged: &'a Discouraged,
    pub bans: &'a Bans,
    pub own: &'a OwnAddresses,
    /// Hosts that have used up their allowance, in order. No connection is opened to them until
    /// they have more.
    pub exhausted: &'a [Host],
}

/// What to do about a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// Open a connection.
    Connect {
        /// Never the name of a DNS seed.
        target: Target,
        kind: ConnectionKind,
        /// To be passed to [`AddressBook::attempt`] when the connection is tried: whether this node
        /// is known to be online.
        count_failure: bool,
    },
    /// Ask a DNS seed: resolve [`filtered_name`](crate::filtered_name) and add
    /// [`dns_seed_entries`](crate::dns_seed_entries). If there is no answer, or names are resolved
    /// by a proxy, connect to the name itself and ask for addresses.
    AskDnsSeed { host: String },
    /// Add the [`fixed_seed_entries`](crate::fixed_seed_entries) of these networks.
    AddFixedSeeds {
        /// Reachable networks of which no address is known.
        networks: Reachable,
    },
}

/// See the module's documentation.
pub(crate) struct Slots {
    config: SlotsConfig,
    rng: StdRng,
    manual: Manual,
    seeding: Seeding,
    /// Those that were not called yet, the last one first.
    anchors: Vec<AddressEntry>,
    next_step: Duration,
    next_feeler: Duration,
    next_probe: Duration,
    next_extra_block_relay: Duration,
    next_extra_network: Duration,
}

/// A wanted automatic connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Wanted {
    kind: ConnectionKind,
    networks: Reachable,
    /// It is to show whether our line is alive: any address will do.
    probe: bool,
}

impl Slots {
    /// Slots without connections. All randomness comes from `seed`.
    pub(crate) fn new(config: SlotsConfig, now: Now, seed: [u8; 32]) -> Self {
        let mut rng = StdRng::from_seed(seed);
        let start = now.monotonic;
        Self {
            manual: Manual::new(&config),
            seeding: Seeding::new(&config, start, &mut rng),
            anchors: Vec::new(),
            next_step: start,
            next_feeler: start.saturating_add(exponential(FEELER_INTERVAL, &mut rng)),
            next_probe: start,
            next_extra_block_relay: start
                .saturating_add(exponential(EXTRA_BLOCK_RELAY_INTERVAL, &mut rng)),
            next_extra_network: start.saturating_add(exponential(EXTRA_NETWORK_INTERVAL, &mut rng)),
            config,
            rng,
        }
    }

    /// Stay connected to a peer.
    pub(crate) fn add_node(&mut self, target: &Target) {
        self.manual.add(target);
    }

    /// Do so no longer.
    pub(crate) fn remove_node(&mut self, target: &Target) {
        self.manual.remove(target);
    }

    /// Whether to connect to a peer that is to be tried once. The caller does so at once.
    pub(crate) fn try_node(&mut self, target: &Target, peers: &[SlotPeer<'_>]) -> bool {
        self.manual.try_once(target, peers)
    }

    /// Whether [`try_node`](Self::try_node) has no place for it.
    pub(crate) fn refuses_try(&self, target: &Target, peers: &[SlotPeer<'_>]) -> bool {
        self.manual.refuses_try(target, peers)
    }

    /// Whom to stay connected to, those of `-connect` aside.
    pub(crate) fn added_nodes(&self) -> Vec<Target> {
        self.manual.added()
    }

    /// Addresses to call before those of the book.
    pub(crate) fn call_first(&mut self, anchors: &Anchors) {
        self.anchors = anchors.entries().iter().rev().copied().collect();
    }

    /// What to do now; nothing within a [`STEP`] of the last call that looked. At most one
    /// automatic connection at a time. The caller has to do everything that is returned: it is not
    /// returned again soon.
    pub(crate) fn next(
        &mut self,
        now: Now,
        situation: &Situation<'_>,
        book: &mut AddressBook,
    ) -> Vec<Opening> {
        if now.monotonic < self.next_step {
            return Vec::new();
        }
        self.next_step = now.monotonic.saturating_add(STEP);
        let mut openings = self.manual.next(now.monotonic, situation.peers);
        if self.config.connect_only.is_some() || self.config.max_automatic == 0 {
            return openings;
        }
        let occupied = Occupied::new(situation.peers, book.groups(), self.manual.added_hosts());
        let mut free = self.most_automatic().saturating_sub(occupied.automatic);
        for opening in self.seeding.next(now.monotonic, situation, book) {
            if let Opening::Connect { .. } = opening {
                // A seed node that finds no slot is not asked, as in Core (`ProcessAddrFetch`).
                let Some(left) = free.checked_sub(1) else { continue };
                free = left;
            }
            openings.push(opening);
        }
        if free > 0 {
            openings.extend(self.automatic(now, situation, &occupied, book));
        }
        openings
    }

    fn automatic(
        &mut self,
        now: Now,
        situation: &Situation<'_>,
        occupied: &Occupied,
        book: &mut AddressBook,
    ) -> Option<Opening> {
        if let Some(opening) = self.anchor(situation, occupied, book.groups()) {
            return Some(opening);
        }
        let wanted = self.wanted(now.monotonic, situation, occupied, book)?;
        book.resolve_collisions(now.unix);
        let address = choice::choose(now.unix, wanted, situation, occupied, book)?;
        Some(Opening::Connect {
            target: Target::Address(address),
            kind: wanted.kind,
            count_failure: occupied.is_online(),
        })
    }

    /// Automatic connections at a time (Core `semOutbound`). Those beyond the limits of their kinds share
    /// the feeler's slot.
    fn most_automatic(&self) -> usize {
        let SlotsConfig { max_full, max_block_relay, max_automatic, .. } = self.config;
        (max_full + max_block_relay + MAX_FEELERS).min(max_automatic)
    }

    /// Calls the next anchor that will do; each is called once. As block-relay peers, if there are any.
    fn anchor(
        &mut self,
        situation: &Situation<'_>,
        occupied: &Occupied,
        by: &NetGroups,
    ) -> Option<Opening> {
        let SlotsConfig { max_full, max_block_relay, .. } = self.config;
        let kind = match max_block_relay {
            0 if occupied.full < max_full => ConnectionKind::OutboundFull,
            _ if occupied.block_relay < max_block_relay => ConnectionKind::BlockRelay,
            _ => return None,
        };
        while let Some(AddressEntry { services, address, .. }) = self.anchors.pop() {
            if choice::will_do(&address, services, situation, occupied, by) {
                let (target, count_failure) = (Target::Address(address), occupied.is_online());
                return Some(Opening::Connect { target, kind, count_failure });
            }
        }
        None
    }

    /// The kind of connection to open next (Core `ThreadOpenConnections`).
    fn wanted(
        &mut self,
        now: Duration,
        situation: &Situation<'_>,
        occupied: &Occupied,
        book: &AddressBook,
    ) -> Option<Wanted> {
        let (max_full, max_block_relay) = (self.config.max_full, self.config.max_block_relay);
        let networks = situation.reachable;
        let wanted = |kind| Some(Wanted { kind, networks, probe: false });
        if situation.line_probed && now > self.next_probe {
            self.next_probe = now.saturating_add(PROBE_INTERVAL);
            Some(Wanted { kind: ConnectionKind::Feeler, networks, probe: true })
        } else if occupied.full < max_full {
            wanted(ConnectionKind::OutboundFull)
        } else if occupied.block_relay < max_block_relay {
            wanted(ConnectionKind::BlockRelay)
        } else if situation.stale_tip {
            wanted(ConnectionKind::OutboundFull)
        } else if now > self.next_extra_block_relay && situation.synced {
            self.next_extra_block_relay =
                now.saturating_add(exponential(EXTRA_BLOCK_RELAY_INTERVAL, &mut self.rng));
            wanted(ConnectionKind::BlockRelay)
        } else if now > self.next_feeler {
            self.next_feeler = now.saturating_add(exponential(FEELER_INTERVAL, &mut self.rng));
            wanted(ConnectionKind::Feeler)
        } else if max_full == MAX_OUTBOUND_FULL && now > self.next_extra_network {
            let network = self.lonely_network(situation, book)?;
            self.next_extra_network =
                now.saturating_add(exponential(EXTRA_NETWORK_INTERVAL, &mut self.rng));
            Some(Wanted { kind: ConnectionKind::OutboundFull, networks: network, probe: false })
        } else {
            None
        }
    }

    /// A reachable network with known addresses and without a full or manual peer (Core
    /// `MaybePickPreferredNetwork`).
    fn lonely_network(
        &mut self,
        situation: &Situation<'_>,
        book: &AddressBook,
    ) -> Option<Reachable> {
        let served = |network| {
            situation.peers.iter().any(|peer| {
                matches!(peer.kind, ConnectionKind::OutboundFull | ConnectionKind::Manual)
                    && peer.address.is_some_and(|address| address.network() == network)
            })
        };
        let lonely: Vec<_> = situation
            .reachable
            .networks()
            .filter(|&network| book.knows(network) && !served(network))
            .collect();
        if lonely.is_empty() {
            return None;
        }
        let chosen = lonely[self.rng.random_range(0..lonely.len())];
        Some([chosen].into_iter().collect())
    }
}

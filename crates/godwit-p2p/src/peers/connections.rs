//! Opens, accepts and closes connections.

mod tip_watch;

use std::collections::BTreeMap;
use std::time::Duration;

use log::{debug, info};
use rand::Rng;
use rand::seq::SliceRandom;

use super::action::{Action, NetCommand, SocketId};
use super::context::Context;
use super::event::ConnectFailure;
use super::line;
use super::misbehaviour::DisconnectReason;
use super::peer::{Peer, Privileges};
use super::table::PeerTable;
use crate::address_book::Source;
use crate::anchors::Anchors;
use crate::connection_kind::ConnectionKind;
use crate::download::Downloads;
use crate::net_address::{AddressEntry, NetAddress};
use crate::peer_id::PeerId;
use crate::permissions::{Entrance, Permissions};
use crate::seeds::{FIXED_SEEDS, dns_seed_entries, filtered_name, fixed_seed_entries};
use crate::services::Services;
use crate::slots::{EvictionCandidate, Opening, Situation, SlotPeer, Slots, select_to_evict};
use crate::target::Target;
use crate::time::Now;
use tip_watch::TipWatch;

/// DNS seeds that were asked, by the name that is being looked up.
type AskedSeeds = BTreeMap<String, String>;

/// A connection that is being opened.
#[derive(Debug)]
pub(super) struct Attempt {
    pub(super) target: Target,
    pub(super) kind: ConnectionKind,
    /// Address, once it is known.
    pub(super) address: Option<NetAddress>,
    /// Further addresses of the name, for when this one cannot be reached.
    pub(super) left: Vec<NetAddress>,
    /// Nonce of our `version`.
    pub(super) nonce: u64,
    /// A failure counts against the address.
    pub(super) count_failure: bool,
    /// When its address, or before that its name, was first tried.
    pub(super) begun: Duration,
    /// The name is being looked up.
    pub(super) resolving: bool,
}

/// A slot for an inbound connection.
enum InboundSlot {
    Free,
    /// The slot of this peer, which is evicted.
    Of(PeerId),
}

/// See the module's documentation.
pub(super) struct Connections {
    slots: Slots,
    /// Connections that are being opened; no more than there are slots.
    connecting: BTreeMap<PeerId, Attempt>,
    asked_seeds: AskedSeeds,
    tip_watch: TipWatch,
    /// Secret: decides which groups of inbound peers are protected from eviction.
    group_key: [u8; 16],
    /// `-networkactive`.
    active: bool,
}

impl Connections {
    pub(super) fn new(slots: Slots, group_key: [u8; 16], now: Now) -> Self {
        Self {
            slots,
            connecting: BTreeMap::new(),
            asked_seeds: AskedSeeds::new(),
            tip_watch: TipWatch::new(now),
            group_key,
            active: true,
        }
    }

    pub(super) fn call_first(&mut self, anchors: &Anchors) {
        self.slots.call_first(anchors);
    }

    pub(super) fn add_node(&mut self, target: &Target) {
        self.slots.add_node(target);
    }

    pub(super) fn remove_node(&mut self, target: &Target) {
        self.slots.remove_node(target);
    }

    /// Connects to a peer at once, if there is a place and no connection to it. While the network is inactive
    /// nothing is tried, nor later (Core `OpenNetworkConnection`).
    pub(super) fn try_node(&mut self, cx: &mut Context<'_>, target: Target) {
        let peers = slot_peers(cx.table, &self.connecting);
        if self.active && self.slots.try_node(&target, &peers) {
            self.dial(cx, target, ConnectionKind::Manual, false);
        }
    }

    /// Whether [`try_node`](Self::try_node) has no place for it.
    pub(super) fn refuses_try(&self, table: &PeerTable, target: &Target) -> bool {
        self.slots.refuses_try(target, &slot_peers(table, &self.connecting))
    }

    pub(super) fn added_nodes(&self) -> Vec<Target> {
        self.slots.added_nodes()
    }

    /// Adopts or refuses an inbound connection. It is refused if its address is banned, or
    /// discouraged and slots are scarce, or there is no slot; it may evict another inbound peer.
    pub(super) fn on_inbound(
        &mut self,
        cx: &mut Context<'_>,
        socket: SocketId,
        address: NetAddress,
        called: NetAddress,
        entrance: Entrance,
    ) {
        let (host, permissions) = match entrance {
            Entrance::Direct(of_all) => {
                (Some(address.host), cx.config.whitelist.of_inbound(&address.host, of_all))
            }
            Entrance::Onion => (None, Permissions::NONE),
        };
        let is_trusted = permissions.contains(Permissions::NO_BAN);
        if !is_trusted && host.is_some_and(|host| cx.table.bans().contains(&host)) {
            debug!("connection from {address} dropped (banned)");
            return cx.out.push(NetCommand::Refuse { socket });
        }
        let discouraged = host.is_some_and(|host| cx.table.discouraged().contains(&host));
        let Some(inbound_slot) = self.inbound_slot(cx, address, discouraged && !is_trusted) else {
            return cx.out.push(NetCommand::Refuse { socket });
        };
        let id = cx.table.next_id();
        cx.out.push(NetCommand::Adopt { socket, peer: id });
        if let InboundSlot::Of(evicted) = inbound_slot {
            cx.disconnect(evicted, DisconnectReason::Evicted);
        }
        let mut peer = Peer::new(id, ConnectionKind::Inbound, cx.rng.random(), cx.now);
        peer.address = Some(address);
        peer.addresses.called = Some(called);
        let through_onion = entrance == Entrance::Onion;
        peer.privileges = Privileges { permissions, prefer_evict: discouraged, through_onion };
        peer.handshake.begun = cx.line.time();
        cx.table.insert(cx.now, peer);
        debug!("connection from {address} accepted, peer={}", id.0);
    }

    /// Finds a slot for an inbound connection; `None` if there is none.
    fn inbound_slot(
        &self,
        cx: &Context<'_>,
        address: NetAddress,
        discouraged: bool,
    ) -> Option<InboundSlot> {
        if !self.active {
            return None;
        }
        let inbound = cx.table.iter().filter(|peer| peer.inbound()).count();
        if discouraged && inbound + 1 >= cx.config.max_inbound {
            debug!("connection from {address} dropped (discouraged)");
            return None;
        }
        if inbound < cx.config.max_inbound {
            return Some(InboundSlot::Free);
        }
        let evicted = select_to_evict(&eviction_candidates(cx), self.group_key, cx.book.groups());
        if evicted.is_none() {
            debug!("connection from {address} dropped (full)");
        }
        evicted.map(InboundSlot::Of)
    }

    /// A connection was opened; false if it is no longer wanted. A host that was banned meanwhile is let
    /// go, unless the operator had it called.
    pub(super) fn on_connected(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        address: Option<NetAddress>,
    ) -> bool {
        let Some(attempt) = self.connecting.remove(&id) else { return false };
        note_attempt(cx, &attempt, attempt.count_failure);
        let address = address.or(attempt.address);
        let is_banned = address.is_some_and(|address| cx.table.bans().contains(&address.host));
        if is_banned && attempt.kind != ConnectionKind::Manual {
            debug!("peer={}: let go, banned meanwhile ({})", id.0, attempt.kind);
            let why = DisconnectReason::ByOperator;
            cx.out.push(NetCommand::Disconnect { peer: id, why });
            return false;
        }
        let mut peer = Peer::new(id, attempt.kind, attempt.nonce, cx.now);
        peer.handshake.begun = cx.line.time();
        peer.address = address;
        peer.target = Some(attempt.target);
        if let Some(address) = address.filter(|_| attempt.kind == ConnectionKind::Manual) {
            peer.privileges.permissions = cx.config.whitelist.of_manual(&address.host);
        }
        cx.table.insert(cx.now, peer);
        true
    }

    /// A connection could not be opened: the next address of its name is called, if there is one.
    pub(super) fn on_failed(&mut self, cx: &mut Context<'_>, id: PeerId, why: ConnectFailure) {
        let Some(attempt) = self.connecting.remove(&id) else { return };
        debug!("peer={}: connecting failed: {why} ({})", id.0, attempt.kind);
        note_failure(cx, &attempt, why);
        self.call_next(cx, id, attempt);
    }

    /// Calls the next address of a name, if there is one; but none while one of them is connected or being
    /// called: then the name is but another one of that peer's (Core `CConnman::ConnectNode`).
    fn call_next(&mut self, cx: &mut Context<'_>, id: PeerId, mut attempt: Attempt) {
        if let Some(open) = attempt.left.iter().find(|address| self.is_open(cx, address)) {
            let target = &attempt.target;
            return debug!("peer={}: already connected to {open}, one of {target:?}", id.0);
        }
        let Some(address) = attempt.left.pop() else { return };
        (attempt.address, attempt.begun) = (Some(address), cx.now.monotonic);
        let v2 = begins_with_v2(cx, attempt.kind, Some(address));
        self.connecting.insert(id, attempt);
        let target = Target::Address(address);
        cx.out.push(NetCommand::Connect { peer: id, target, v2 });
    }

    /// Whether there is a connection to an address, in either direction, or one is being opened.
    fn is_open(&self, cx: &Context<'_>, address: &NetAddress) -> bool {
        cx.table.iter().any(|peer| peer.address == Some(*address))
            || self.connecting.values().any(|attempt| attempt.address == Some(*address))
    }

    /// Opens the connections that are missing.
    pub(super) fn open_connections(&mut self, cx: &mut Context<'_>) {
        if !self.active {
            return;
        }
        for opening in self.openings(cx) {
            match opening {
                Opening::Connect { target, kind, count_failure } => {
                    self.dial(cx, target, kind, count_failure);
                }
                Opening::AskDnsSeed { host } => self.ask_seed(cx, host),
                Opening::AddFixedSeeds { networks } => {
                    let fixed = cx.config.fixed_seeds.iter().copied();
                    let wanted: Vec<NetAddress> =
                        fixed.filter(|address| networks.contains(address.network())).collect();
                    let entries = fixed_seed_entries(cx.now.unix, &wanted, cx.rng);
                    let source = Source::name(FIXED_SEEDS);
                    let added = cx.book.add(cx.now.unix, &entries, source, 0);
                    info!("Added {added} fixed seeds from reachable networks.");
                }
            }
        }
    }

    fn openings(&mut self, cx: &mut Context<'_>) -> Vec<Opening> {
        let near_tip = cx.near_tip();
        let peers = slot_peers(cx.table, &self.connecting);
        let exhausted = cx.table.exhausted(cx.now);
        let situation = Situation {
            peers: &peers,
            reachable: cx.config.reachable,
            stale_tip: self.tip_watch.extra_peer_wanted(),
            synced: self.tip_watch.synced(),
            line_probed: cx.line.is_probed(),
            near_tip,
            discouraged: cx.table.discouraged(),
            bans: cx.table.bans(),
            own: cx.own,
            exhausted: &exhausted,
        };
        self.slots.next(cx.now, &situation, cx.book)
    }

    fn dial(
        &mut self,
        cx: &mut Context<'_>,
        target: Target,
        kind: ConnectionKind,
        count_failure: bool,
    ) {
        let id = cx.table.next_id();
        let address = match &target {
            Target::Address(address) => Some(*address),
            Target::Name { .. } => None,
        };
        let nonce = cx.rng.random();
        let resolve = match &target {
            Target::Name { host, .. } if !cx.config.name_proxy => Some(host.clone()),
            _ => None,
        };
        let attempt = Attempt {
            target: target.clone(),
            kind,
            address,
            left: Vec::new(),
            nonce,
            count_failure,
            begun: cx.now.monotonic,
            resolving: resolve.is_some(),
        };
        self.connecting.insert(id, attempt);
        match resolve {
            Some(host) => cx.out.push(Action::Resolve { host }),
            None => {
                let v2 = begins_with_v2(cx, kind, address);
                cx.out.push(NetCommand::Connect { peer: id, target, v2 });
            }
        }
    }

    /// Asks a DNS seed. Where names go to a proxy, the seed is connected to and asked for addresses
    /// instead.
    fn ask_seed(&mut self, cx: &mut Context<'_>, seed: String) {
        if cx.config.name_proxy {
            return self.fetch_from_seed(cx, seed);
        }
        let host = filtered_name(&seed);
        self.asked_seeds.insert(host.clone(), seed);
        cx.out.push(Action::Resolve { host });
    }

    fn fetch_from_seed(&mut self, cx: &mut Context<'_>, seed: String) {
        let target = Target::Name { host: seed, port: cx.config.params.default_port };
        self.dial(cx, target, ConnectionKind::AddrFetch, false);
    }

    pub(super) fn on_resolved(
        &mut self,
        cx: &mut Context<'_>,
        host: &str,
        addresses: &[NetAddress],
    ) {
        if let Some(seed) = self.asked_seeds.remove(host) {
            self.seed_answered(cx, seed, addresses);
        }
        let waits = |attempt: &Attempt| {
            attempt.resolving
                && matches!(&attempt.target, Target::Name { host: name, .. } if name == host)
        };
        let waiting: Vec<PeerId> =
            self.connecting.iter().filter(|(_, one)| waits(one)).map(|(&id, _)| id).collect();
        for id in waiting {
            let Some(mut attempt) = self.connecting.remove(&id) else { continue };
            let Target::Name { port, .. } = &attempt.target else { continue };
            attempt.left = addresses.iter().map(|at| NetAddress::new(at.host, *port)).collect();
            attempt.left.shuffle(cx.rng);
            attempt.resolving = false;
            if attempt.left.is_empty() {
                debug!("peer={}: connecting failed: no address ({})", id.0, attempt.kind);
                note_failure(cx, &attempt, ConnectFailure::Local);
            }
            self.call_next(cx, id, attempt);
        }
    }

    fn seed_answered(&mut self, cx: &mut Context<'_>, seed: String, addresses: &[NetAddress]) {
        if addresses.is_empty() && !self.active {
            return;
        }
        if addresses.is_empty() {
            // Some seeds do not answer to the name with services in it, but are nodes themselves.
            return self.fetch_from_seed(cx, seed);
        }
        let port = cx.config.params.default_port;
        let told = dns_seed_entries(cx.now.unix, addresses, port, cx.rng);
        let reachable =
            |entry: &AddressEntry| cx.config.reachable.contains(entry.address.network());
        let entries: Vec<AddressEntry> = told.into_iter().filter(reachable).collect();
        let added = cx.book.add(cx.now.unix, &entries, Source::name(&seed), 0);
        info!("{added} addresses found from DNS seed {seed}");
    }

    /// The tip has changed, so it is not stale.
    pub(super) fn on_tip(&mut self, now: Now) {
        self.tip_watch.on_tip(now);
    }

    /// Closes extra outbound connections, and asks for one more when the tip is stale.
    pub(super) fn watch_tip(&mut self, cx: &mut Context<'_>, downloads: &Downloads) {
        self.tip_watch.check(cx, downloads, self.active);
    }

    #[cfg(test)]
    pub(super) fn attempts(&mut self) -> &mut BTreeMap<PeerId, Attempt> {
        &mut self.connecting
    }

    /// If false, disconnects all peers, abandons connections that are being opened, and opens no
    /// more.
    pub(super) fn set_active(&mut self, cx: &mut Context<'_>, active: bool) {
        self.active = active;
        if active {
            return;
        }
        let ids: Vec<PeerId> =
            cx.table.ids().into_iter().chain(self.connecting.keys().copied()).collect();
        self.connecting.clear();
        for id in ids {
            if cx.table.contains(id) {
                cx.disconnect(id, DisconnectReason::NetworkInactive);
            } else {
                let why = DisconnectReason::NetworkInactive;
                cx.out.push(NetCommand::Disconnect { peer: id, why });
            }
        }
    }
}

/// All connections, including those that are being opened.
fn slot_peers<'a>(
    table: &'a PeerTable,
    connecting: &'a BTreeMap<PeerId, Attempt>,
) -> Vec<SlotPeer<'a>> {
    let standing = table.iter().map(|peer| SlotPeer {
        kind: peer.kind,
        address: peer.address,
        target: peer.target.as_ref(),
        ready: peer.established(),
    });
    let underway = connecting.values().map(|attempt| SlotPeer {
        kind: attempt.kind,
        address: attempt.address,
        target: Some(&attempt.target),
        ready: false,
    });
    standing.chain(underway).collect()
}

fn eviction_candidates(cx: &Context<'_>) -> Vec<EvictionCandidate> {
    let candidate = |peer: &Peer| {
        Some(EvictionCandidate {
            peer: peer.id,
            kind: peer.kind,
            address: peer.address?,
            through_onion: peer.privileges.through_onion,
            connected: peer.connected_at,
            min_ping: peer.ping.shortest.unwrap_or(Duration::MAX),
            last_block: peer.fetch.last_block(),
            relevant_services: cx.has_desirable_services(peer.handshake.services),
            relays_transactions: peer.handshake.relay,
            prefer_evict: peer.privileges.prefer_evict,
            protected: peer.may(Permissions::NO_BAN),
        })
    };
    cx.table.iter().filter(|peer| peer.inbound()).filter_map(candidate).collect()
}

fn is_from_book(kind: ConnectionKind) -> bool {
    use ConnectionKind::{BlockRelay, Feeler, OutboundFull};
    matches!(kind, OutboundFull | BlockRelay | Feeler)
}

/// A peer that is connected answers a ping within this long.
const HEARD_LATELY: Duration = Duration::from_secs(2 * 60);

/// Whether a peer of another network than the address's was heard lately: then the line is up.
fn reaches_another(cx: &Context<'_>, attempt: &Attempt) -> bool {
    let Some(network) = attempt.address.map(|address| address.network()) else { return false };
    let is_of_another = |peer: &Peer| {
        line::watch::is_outside(peer)
            && cx.now.monotonic.saturating_sub(peer.last_received) < HEARD_LATELY
            && peer.address.is_some_and(|address| address.network() != network)
    };
    cx.table.iter().any(is_of_another)
}

/// A connection could not be opened. That counts against the address unless our own network or proxy is
/// at fault (Core `CConnman::ConnectNode`).
fn note_failure(cx: &mut Context<'_>, attempt: &Attempt, why: ConnectFailure) {
    let counts = attempt.count_failure;
    match why {
        // The address is of a network that this machine is not in, as IPv6 of many.
        ConnectFailure::NoRoute if reaches_another(cx, attempt) => {
            note_attempt(cx, attempt, counts);
        }
        ConnectFailure::Local | ConnectFailure::NoRoute => line::watch::failed_here(cx),
        ConnectFailure::Refused => {
            line::watch::heard(cx);
            note_attempt(cx, attempt, counts);
        }
        ConnectFailure::Unanswered => {
            note_attempt(cx, attempt, false);
            let address = attempt.address.filter(|_| counts && is_from_book(attempt.kind));
            line::watch::unanswered(cx, attempt.begun, address);
        }
    }
}

/// Counts an attempt in the address book, and as a failure if it `counts`. Called only once it is known
/// that our own side was not at fault: a dead proxy must not spoil the addresses.
fn note_attempt(cx: &mut Context<'_>, attempt: &Attempt, counts: bool) {
    if let Some(address) = attempt.address.filter(|_| is_from_book(attempt.kind)) {
        cx.book.attempt(cx.now.unix, &address, counts);
    }
}

/// Whether a connection begins with the encrypted protocol: to a peer that the user named, always;
/// to others if they are said to speak it (Core `ThreadOpenConnections`,
/// `ThreadOpenAddedConnections`, `ProcessAddrFetch`).
fn begins_with_v2(cx: &Context<'_>, kind: ConnectionKind, address: Option<NetAddress>) -> bool {
    let named = matches!(kind, ConnectionKind::Manual | ConnectionKind::AddrFetch);
    let known = |address| cx.book.services(&address).unwrap_or(Services::NONE);
    cx.config.services.contains(Services::P2P_V2)
        && (named || address.map_or(Services::NONE, known).contains(Services::P2P_V2))
}

//! How connections begin and end.

use std::collections::BTreeMap;

use log::{debug, info, warn};
use rand::Rng;

use super::connection::{Attempt, Peer};
use super::fault::Misbehaviour;
use super::{Action, DisconnectReason, Peers, View};
use crate::address_book::Source;
use crate::connection_kind::ConnectionKind;
use crate::message::Services;
use crate::net_address::NetAddress;
use crate::peer_id::PeerId;
use crate::seeds::{FIXED_SEEDS, dns_seed_entries, filtered_name, fixed_seed_entries};
use crate::slots::{EvictionCandidate, Opening, Situation, SlotPeer, select_to_evict};
use crate::target::Target;
use crate::time::Now;

/// DNS seeds that were asked, by the name that was asked for.
pub(super) type AskedSeeds = BTreeMap<String, String>;

impl Peers {
    pub(super) fn accept(&mut self, view: View<'_>, address: NetAddress) -> Option<PeerId> {
        if !self.network_active {
            return None;
        }
        let inbound = self.peers.values().filter(|peer| peer.inbound()).count();
        let discouraged = self.discouraged.contains(&address.host);
        if discouraged && inbound + 1 >= self.config.max_inbound {
            debug!("connection from {address} dropped (discouraged)");
            return None;
        }
        if inbound >= self.config.max_inbound {
            let Some(evicted) = select_to_evict(&self.eviction_candidates(view), self.group_key)
            else {
                debug!("connection from {address} dropped (full)");
                return None;
            };
            self.disconnect(view.now, evicted, DisconnectReason::Evicted);
        }
        let id = self.next_peer_id();
        let mut peer = Peer::new(id, ConnectionKind::Inbound, self.rng.random(), view.now);
        peer.address = Some(address);
        peer.prefer_evict = discouraged;
        self.restore_allowance(view.now, &mut peer);
        self.peers.insert(id, peer);
        debug!("connection from {address} accepted, peer={}", id.0);
        Some(id)
    }

    /// What it was allowed is not more for having connected once more.
    fn restore_allowance(&mut self, now: Now, peer: &mut Peer) {
        let left = |address: NetAddress| self.spent_headers.recall(now.monotonic, &address.host);
        if let Some(left) = peer.address.and_then(left) {
            peer.useless_headers = left;
        }
    }

    fn eviction_candidates(&self, view: View<'_>) -> Vec<EvictionCandidate> {
        let candidate = |peer: &Peer| {
            Some(EvictionCandidate {
                peer: peer.id,
                kind: peer.kind,
                address: peer.address?,
                connected: peer.connected_at,
                min_ping: peer.ping.shortest.unwrap_or(std::time::Duration::MAX),
                last_block: peer.last_block,
                relevant_services: self.has_desirable_services(view, peer.handshake.services),
                relays_transactions: peer.handshake.relay,
                prefer_evict: peer.prefer_evict,
                protected: false,
            })
        };
        self.peers.values().filter(|peer| peer.inbound()).filter_map(candidate).collect()
    }

    pub(super) fn open(&mut self, view: View<'_>, id: PeerId, address: Option<NetAddress>) {
        let Some(attempt) = self.connecting.remove(&id) else { return };
        self.note_attempt(view.now, &attempt);
        let mut peer = Peer::new(id, attempt.kind, attempt.nonce, view.now);
        peer.address = address.or(attempt.address);
        peer.target = Some(attempt.target);
        self.restore_allowance(view.now, &mut peer);
        self.peers.insert(id, peer);
        self.send_version(view, id);
    }

    pub(super) fn attempt_failed(&mut self, now: Now, id: PeerId, local: bool) {
        if let Some(attempt) = self.connecting.remove(&id) {
            if !local {
                self.note_attempt(now, &attempt);
            }
            debug!("peer={}: connecting failed ({} at {:?})", id.0, attempt.kind, now.monotonic);
        }
    }

    /// Only once it is known that our own side was not at fault: a dead proxy must not wear the
    /// addresses out.
    fn note_attempt(&mut self, now: Now, attempt: &Attempt) {
        let from_book = matches!(
            attempt.kind,
            ConnectionKind::OutboundFull | ConnectionKind::BlockRelay | ConnectionKind::Feeler
        );
        if let Some(address) = attempt.address.filter(|_| from_book) {
            self.book.attempt(now.unix, &address, attempt.count_failure);
        }
    }

    /// Ends a connection: forgets the peer and tells the driver.
    pub(super) fn disconnect(&mut self, now: Now, id: PeerId, why: DisconnectReason) {
        let Some(peer) = self.forget(now, id) else { return };
        // Outbound peers that are let go of are replaced, and may all be alike.
        let quiet = peer.inbound() || !peer.established();
        if quiet || !self.log_lines.take(now.monotonic, 1) {
            debug!("disconnecting {} peer={}: {why}", peer.kind, id.0);
        } else {
            info!("disconnecting {} peer={}: {why}", peer.kind, id.0);
        }
        self.actions.push_back(Action::Disconnect { peer: id, why });
    }

    /// What a peer was asked for is asked of others from now on.
    pub(super) fn forget(&mut self, now: Now, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        self.downloads.remove_peer(id, now);
        self.high_bandwidth.retain(|&other| other != id);
        if let Some(address) = peer.address {
            let left = peer.useless_headers.clone();
            self.spent_headers.remember(now.monotonic, address.host, left);
        }
        // Not for block relay peers: their links are nobody's business.
        if peer.established()
            && peer.kind != ConnectionKind::BlockRelay
            && !peer.inbound()
            && let Some(address) = peer.address
        {
            self.book.connected(now.unix, &address);
        }
        Some(peer)
    }

    /// Ends the connection and discourages the address, but for peers that the operator chose, and
    /// for local addresses, which many peers can share (Core `MaybeDiscourageAndDisconnect`).
    pub(super) fn misbehave(&mut self, now: Now, id: PeerId, what: Misbehaviour) {
        let Some(peer) = self.peers.get(&id) else { return };
        let (kind, address) = (peer.kind, peer.address);
        if kind == ConnectionKind::Manual {
            if self.may_log(now, id) {
                warn!("Not punishing manually connected peer {}: {what}", id.0);
            }
            return;
        }
        if self.may_log(now, id) {
            info!("Misbehaving: peer={}: {what}", id.0);
        }
        self.disconnect(now, id, DisconnectReason::Misbehaved(what));
        let Some(address) = address.filter(|address| !address.is_local()) else { return };
        self.discouraged.insert(&address.host);
        let shares = |peer: &&Peer| {
            let same = |other: NetAddress| other.host == address.host;
            peer.address.is_some_and(same) && peer.kind != ConnectionKind::Manual
        };
        let sharing: Vec<PeerId> = self.peers.values().filter(shares).map(|peer| peer.id).collect();
        for other in sharing {
            self.disconnect(now, other, DisconnectReason::SharesDiscouragedAddress);
        }
    }

    /// Opens what is missing.
    pub(super) fn open_connections(&mut self, view: View<'_>) {
        if !self.network_active {
            return;
        }
        for opening in self.openings(view) {
            match opening {
                Opening::Connect { target, kind, count_failure } => {
                    self.dial(target, kind, count_failure);
                }
                Opening::AskDnsSeed { host } => self.ask_seed(host),
                Opening::AddFixedSeeds { networks } => {
                    let fixed = self.config.fixed_seeds.iter().copied();
                    let wanted: Vec<NetAddress> =
                        fixed.filter(|address| networks.contains(address.network())).collect();
                    let entries = fixed_seed_entries(view.now.unix, &wanted, &mut self.rng);
                    let source = Source::name(FIXED_SEEDS);
                    let added = self.book.add(view.now.unix, &entries, source, 0);
                    info!("Added {added} fixed seeds from reachable networks.");
                }
            }
        }
    }

    fn openings(&mut self, view: View<'_>) -> Vec<Opening> {
        let near_tip = self.near_tip(view);
        let standing = self.peers.values().map(|peer| SlotPeer {
            kind: peer.kind,
            address: peer.address,
            target: peer.target.as_ref(),
            ready: peer.established(),
        });
        let underway = self.connecting.values().map(|attempt| SlotPeer {
            kind: attempt.kind,
            address: attempt.address,
            target: Some(&attempt.target),
            ready: false,
        });
        let peers: Vec<SlotPeer<'_>> = standing.chain(underway).collect();
        let exhausted = self.spent_headers.exhausted(view.now.monotonic);
        let situation = Situation {
            peers: &peers,
            stale_tip: self.tip_watch.extra_peer_wanted,
            synced: self.tip_watch.synced,
            near_tip,
            discouraged: &self.discouraged,
            exhausted: &exhausted,
        };
        self.slots.next(view.now, &situation, &mut self.book)
    }

    fn dial(&mut self, target: Target, kind: ConnectionKind, count_failure: bool) {
        let id = self.next_peer_id();
        let address = match &target {
            Target::Address(address) => Some(*address),
            Target::Name { .. } => None,
        };
        let nonce = self.rng.random();
        let resolve = match &target {
            Target::Name { host, .. } if !self.config.name_proxy => Some(host.clone()),
            _ => None,
        };
        let attempt = Attempt {
            target: target.clone(),
            kind,
            address,
            nonce,
            count_failure,
            resolving: resolve.is_some(),
        };
        self.connecting.insert(id, attempt);
        self.actions.push_back(match resolve {
            Some(host) => Action::Resolve { host },
            None => {
                Action::Connect { peer: id, target, kind, v2: self.begins_with_v2(kind, address) }
            }
        });
    }

    /// Whom the user named is offered the encrypted protocol, others if they are said to speak it
    /// (Core `ThreadOpenConnections`, `ThreadOpenAddedConnections`, `ProcessAddrFetch`).
    fn begins_with_v2(&self, kind: ConnectionKind, address: Option<NetAddress>) -> bool {
        let named = matches!(kind, ConnectionKind::Manual | ConnectionKind::AddrFetch);
        let known = |address| self.book.services(&address).unwrap_or(Services::NONE);
        self.config.services.contains(Services::P2P_V2)
            && (named || address.map_or(Services::NONE, known).contains(Services::P2P_V2))
    }

    /// A DNS seed is asked by the node; where names go to a proxy, it is itself asked for addresses.
    fn ask_seed(&mut self, seed: String) {
        if self.config.name_proxy {
            return self.fetch_from_seed(seed);
        }
        let host = filtered_name(&seed);
        self.asked_seeds.insert(host.clone(), seed);
        self.actions.push_back(Action::Resolve { host });
    }

    fn fetch_from_seed(&mut self, seed: String) {
        let target = Target::Name { host: seed, port: self.config.params.default_port };
        self.dial(target, ConnectionKind::AddrFetch, false);
    }

    pub(super) fn on_resolved(&mut self, now: Now, host: &str, addresses: &[NetAddress]) {
        if let Some(seed) = self.asked_seeds.remove(host) {
            self.seed_answered(now, seed, addresses);
        }
        let waits = |attempt: &Attempt| {
            attempt.resolving
                && matches!(&attempt.target, Target::Name { host: name, .. } if name == host)
        };
        let waiting: Vec<PeerId> =
            self.connecting.iter().filter(|(_, one)| waits(one)).map(|(&id, _)| id).collect();
        for id in waiting {
            let chosen = self.rng.random_range(0..addresses.len().max(1));
            let Some(attempt) = self.connecting.get_mut(&id) else { continue };
            let (Some(found), Target::Name { port, .. }) = (addresses.get(chosen), &attempt.target)
            else {
                self.attempt_failed(now, id, true);
                continue;
            };
            let address = NetAddress::new(found.host, *port);
            attempt.resolving = false;
            attempt.address = Some(address);
            let kind = attempt.kind;
            let target = Target::Address(address);
            let v2 = self.begins_with_v2(kind, Some(address));
            self.actions.push_back(Action::Connect { peer: id, target, kind, v2 });
        }
    }

    fn seed_answered(&mut self, now: Now, seed: String, addresses: &[NetAddress]) {
        if addresses.is_empty() {
            // Some seeds do not know the name with the services in it; they are nodes themselves.
            return self.fetch_from_seed(seed);
        }
        let port = self.config.params.default_port;
        let entries = dns_seed_entries(now.unix, addresses, port, &mut self.rng);
        let added = self.book.add(now.unix, &entries, Source::name(&seed), 0);
        info!("{added} addresses found from DNS seed {seed}");
    }

    pub(super) fn set_active(&mut self, view: View<'_>, active: bool) {
        self.network_active = active;
        if active {
            return;
        }
        let ids: Vec<PeerId> = self.peers.keys().chain(self.connecting.keys()).copied().collect();
        self.connecting.clear();
        for id in ids {
            if self.peers.contains_key(&id) {
                self.disconnect(view.now, id, DisconnectReason::NetworkInactive);
            } else {
                let why = DisconnectReason::NetworkInactive;
                self.actions.push_back(Action::Disconnect { peer: id, why });
            }
        }
    }
}

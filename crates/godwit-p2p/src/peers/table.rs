//! The table of connected peers, and the memory of hosts that outlives their connections.

use std::collections::{BTreeMap, BTreeSet};

use super::headers::allowance::USELESS_BURST;
use super::peer::Peer;
use super::traffic::TrafficTotals;
use crate::bans::Bans;
use crate::discourage::Discouraged;
use crate::host_allowances::HostAllowances;
use crate::net_address::Host;
use crate::peer_id::PeerId;
use crate::time::Now;

/// All connected peers.
///
/// A peer can leave in the middle of an event, since any message may overflow its queue. It is
/// removed from the table at once, so that code which looks it up again finds nothing. What parts
/// keep outside the table is forgotten after [`take_departed`](Self::take_departed).
pub(super) struct PeerTable {
    peers: BTreeMap<PeerId, Peer>,
    departed: Vec<PeerId>,
    /// Peers that came, left, or may have changed since [`take_touched`](Self::take_touched).
    touched: BTreeSet<PeerId>,
    discouraged: Discouraged,
    bans: Bans,
    /// What is left of hosts' allowances for useless headers.
    header_allowances: HostAllowances,
    last_id: u64,
    total_traffic: TrafficTotals,
}

impl PeerTable {
    /// An empty table. `key` is secret: it would let an attacker find hosts that count as
    /// discouraged.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            peers: BTreeMap::new(),
            departed: Vec::new(),
            touched: BTreeSet::new(),
            discouraged: Discouraged::new(key),
            bans: Bans::default(),
            header_allowances: HostAllowances::new(USELESS_BURST),
            last_id: 0,
            total_traffic: TrafficTotals::default(),
        }
    }

    /// The id of the next peer, or of the attempt to connect to it.
    pub(super) fn next_id(&mut self) -> PeerId {
        self.last_id += 1;
        PeerId(self.last_id)
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        let peer = self.peers.get_mut(&id)?;
        self.touched.insert(id);
        Some(peer)
    }

    pub(super) fn contains(&self, id: PeerId) -> bool {
        self.peers.contains_key(&id)
    }

    /// In the order of their names.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Peer> {
        self.peers.values()
    }

    /// In the order of their names.
    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Peer> {
        self.touched.extend(self.peers.keys());
        self.peers.values_mut()
    }

    /// All ids, in order: for loops in which peers may leave.
    pub(super) fn ids(&self) -> Vec<PeerId> {
        self.peers.keys().copied().collect()
    }

    /// Ids of the peers whose handshake is complete, in order.
    pub(super) fn established(&self) -> Vec<PeerId> {
        self.iter().filter(|peer| peer.established()).map(|peer| peer.id).collect()
    }

    /// Inserts a connected peer. It gets what is left of its host's allowance.
    pub(super) fn insert(&mut self, now: Now, mut peer: Peer) {
        let left = match peer.known_host() {
            Some(host) => self.header_allowances.recall(now.monotonic, &host),
            None if peer.privileges.through_onion => {
                self.header_allowances.recall_onion(now.monotonic)
            }
            None => None,
        };
        if let Some(left) = left {
            peer.allowances.useless_headers = left;
        }
        self.touched.insert(peer.id);
        self.peers.insert(peer.id, peer);
    }

    /// Removes a peer that is no longer connected, and returns it.
    pub(super) fn remove(&mut self, now: Now, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        let left = peer.allowances.useless_headers.clone();
        if let Some(host) = peer.known_host() {
            self.header_allowances.remember(now.monotonic, host, left);
        } else if peer.privileges.through_onion {
            self.header_allowances.remember_onion(now.monotonic, left);
        }
        self.departed.push(id);
        self.touched.insert(id);
        Some(peer)
    }

    /// Peers that have left since the last call, in order.
    pub(super) fn take_departed(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.departed)
    }

    /// Peers that came, left, or may have changed since the last call: nothing else changes what a peer
    /// is charged.
    pub(super) fn take_touched(&mut self) -> BTreeSet<PeerId> {
        std::mem::take(&mut self.touched)
    }

    pub(super) fn note_received(&mut self, bytes: usize) {
        self.total_traffic.received += bytes as u64;
    }

    pub(super) fn note_sent(&mut self, bytes: usize) {
        self.total_traffic.sent += bytes as u64;
    }

    pub(super) fn total_traffic(&self) -> TrafficTotals {
        self.total_traffic
    }

    pub(super) fn discourage(&mut self, host: &Host) {
        self.discouraged.insert(host);
    }

    pub(super) fn discouraged(&self) -> &Discouraged {
        &self.discouraged
    }

    /// Whether a host is banned or discouraged: nobody is told of it (Core `GetAddressesUnsafe`).
    pub(super) fn is_shunned(&self, host: &Host) -> bool {
        self.bans().contains(host) || self.discouraged().contains(host)
    }

    /// Hosts that the operator has banned.
    pub(super) fn bans(&self) -> &Bans {
        &self.bans
    }

    pub(super) fn bans_mut(&mut self) -> &mut Bans {
        &mut self.bans
    }

    /// Hosts that have used up most of their allowance for useless headers, in order.
    pub(super) fn exhausted(&self, now: Now) -> Vec<Host> {
        self.header_allowances.exhausted(now.monotonic)
    }

    #[cfg(test)]
    pub(super) fn name_from(&mut self, last_id: u64) {
        self.last_id = last_id;
    }
}

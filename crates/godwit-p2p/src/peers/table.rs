//! Who is connected, and what is remembered of the hosts of those who were.

use std::collections::BTreeMap;

use super::headers::allowance::USELESS_BURST;
use super::peer::Peer;
use crate::discourage::Discouraged;
use crate::net_address::Host;
use crate::peer_id::PeerId;
use crate::spent::SpentAllowances;
use crate::time::Now;

/// All connected peers.
///
/// A peer can leave in the middle of an event, since every message that is sent may fill its queue. It is
/// then gone from here at once, so that code that looks it up again ends; what parts keep of it outside
/// this table waits for [`take_departed`](Self::take_departed).
pub(super) struct PeerTable {
    peers: BTreeMap<PeerId, Peer>,
    departed: Vec<PeerId>,
    discouraged: Discouraged,
    /// What hosts have left of their allowance for headers that bring nothing.
    spent_headers: SpentAllowances,
    last_id: u64,
}

impl PeerTable {
    /// Without peers. `key` is secret: it decides which hosts are taken for the same.
    pub(super) fn new(key: [u8; 16]) -> Self {
        Self {
            peers: BTreeMap::new(),
            departed: Vec::new(),
            discouraged: Discouraged::new(key),
            spent_headers: SpentAllowances::new(USELESS_BURST),
            last_id: 0,
        }
    }

    /// A name for the next peer, or for the attempt to reach it.
    pub(super) fn next_id(&mut self) -> PeerId {
        self.last_id += 1;
        PeerId(self.last_id)
    }

    pub(super) fn get(&self, id: PeerId) -> Option<&Peer> {
        self.peers.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: PeerId) -> Option<&mut Peer> {
        self.peers.get_mut(&id)
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
        self.peers.values_mut()
    }

    /// The names of all, in order: for loops in which peers may leave.
    pub(super) fn ids(&self) -> Vec<PeerId> {
        self.peers.keys().copied().collect()
    }

    /// The names of those whose handshake is complete, in order.
    pub(super) fn established(&self) -> Vec<PeerId> {
        self.iter().filter(|peer| peer.established()).map(|peer| peer.id).collect()
    }

    /// A peer is connected. Its allowance is not more for its host having connected once more.
    pub(super) fn insert(&mut self, now: Now, mut peer: Peer) {
        let left = peer.address.and_then(|to| self.spent_headers.recall(now.monotonic, &to.host));
        if let Some(left) = left {
            peer.allowances.useless_headers = left;
        }
        self.peers.insert(peer.id, peer);
    }

    /// A peer is no longer connected; what is known of it, if it was.
    pub(super) fn remove(&mut self, now: Now, id: PeerId) -> Option<Peer> {
        let peer = self.peers.remove(&id)?;
        if let Some(address) = peer.address {
            let left = peer.allowances.useless_headers.clone();
            self.spent_headers.remember(now.monotonic, address.host, left);
        }
        self.departed.push(id);
        Some(peer)
    }

    /// Who has left since the last call, in order.
    pub(super) fn take_departed(&mut self) -> Vec<PeerId> {
        std::mem::take(&mut self.departed)
    }

    pub(super) fn discourage(&mut self, host: &Host) {
        self.discouraged.insert(host);
    }

    pub(super) fn discouraged(&self) -> &Discouraged {
        &self.discouraged
    }

    /// Hosts that have used up most of their allowance, in order.
    pub(super) fn exhausted(&self, now: Now) -> Vec<Host> {
        self.spent_headers.exhausted(now.monotonic)
    }

    #[cfg(test)]
    pub(super) fn name_from(&mut self, last_id: u64) {
        self.last_id = last_id;
    }
}

//! Peers that are let go of because others are more useful, and the watch over our tip.
//!
//! Source: Core `net_processing.cpp`, `ConsiderEviction`, `CheckForStaleTipAndEvictPeers`.

use std::time::Duration;

use log::info;

use super::connection::{ChainSync, Peer};
use super::headers::HEADERS_RESPONSE_TIME;
use super::{DisconnectReason, Peers, View};
use crate::index::{HeaderId, locator};
use crate::peer_id::PeerId;
use crate::slots::{OutboundPeer, extra_block_relay_peer, extra_full_peer};
use crate::time::Now;

/// An outbound peer must catch up with our tip within (Core `CHAIN_SYNC_TIMEOUT`).
const CHAIN_SYNC_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// How often that time begins anew because a pre-sync goes on: for the 900,000 headers of its first
/// pass that is enough at 5 kB/s.
const MAX_EXTENSIONS: u32 = 12;
/// Between checks for extra outbound peers (Core `EXTRA_PEER_CHECK_INTERVAL`).
const EXTRA_PEER_INTERVAL: Duration = Duration::from_secs(45);
/// Between checks for a stale tip (Core `STALE_CHECK_INTERVAL`).
const STALE_CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A tip is stale when none came for so many block spacings (Core: 3, half an hour).
const STALE_SPACINGS: u32 = 3;

/// Whether our chain goes on.
#[derive(Debug)]
pub(super) struct TipWatch {
    last_change: Duration,
    next_extra_check: Duration,
    next_stale_check: Duration,
    /// The tip is stale: one more outbound peer may know a better chain.
    pub(super) extra_peer_wanted: bool,
    /// The tip was recent once: extra block relay peers may be tried from now on.
    pub(super) synced: bool,
}

impl TipWatch {
    pub(super) fn new(now: Now) -> Self {
        Self {
            last_change: now.monotonic,
            next_extra_check: now.monotonic + EXTRA_PEER_INTERVAL,
            next_stale_check: now.monotonic + STALE_CHECK_INTERVAL,
            extra_peer_wanted: false,
            synced: false,
        }
    }

    pub(super) fn tip_changed(&mut self, now: Now) {
        self.last_change = now.monotonic;
    }
}

impl ChainSync {
    /// Headers came that are not stored before their work is known: the peer is slow at worst.
    fn presync_goes_on(&mut self, height: Option<u32>) -> bool {
        let Some(height) = height.filter(|&height| height > self.presync_height) else {
            return false;
        };
        self.presync_height = height;
        self.extensions += 1;
        self.extensions <= MAX_EXTENSIONS
    }
}

impl Peers {
    /// An outbound peer whose chain stays behind ours is asked once more, then let go of. False when
    /// it was.
    pub(super) fn attend_chain_sync(&mut self, view: View<'_>, id: PeerId) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let considered = !peer.chain.chain_sync.protected
            && peer.automatic_outbound()
            && !peer.chain.sync.may_begin();
        if !considered {
            return true;
        }
        let now = view.now.monotonic;
        let work = |id: HeaderId| view.index.get(id).chain_work;
        // An invalid chain counts for nothing, however much work is in it.
        let best = peer.chain.best_known.filter(|&best| !view.index.get(best).failed).map(work);
        let tip = view.index.get(view.index.tip());
        let presync_height = peer.chain.presync.as_ref().map(|presync| presync.height());
        let sync = &mut peer.chain.chain_sync;
        if best.is_some_and(|best| best >= tip.chain_work) {
            sync.deadline = None;
            sync.work_header = None;
            sync.sent_getheaders = false;
            return true;
        }
        let reached = sync.work_header.map(work).zip(best).is_some_and(|(work, best)| best >= work);
        match sync.deadline {
            Some(deadline) if !reached => {
                if now <= deadline {
                    return true;
                }
                if sync.presync_goes_on(presync_height) {
                    sync.deadline = Some(now + CHAIN_SYNC_TIMEOUT);
                    return true;
                }
                if sync.sent_getheaders {
                    self.disconnect(view.now, id, DisconnectReason::StaleChain);
                    return false;
                }
                sync.sent_getheaders = true;
                sync.deadline = Some(now + HEADERS_RESPONSE_TIME);
                let from = sync.work_header.unwrap_or(tip.id);
                let from = view.index.parent(from).unwrap_or(from);
                // When a question is open already, its answer will do.
                self.ask_for_headers(view, id, locator(view.index, from));
            }
            _ => {
                sync.deadline = Some(now + CHAIN_SYNC_TIMEOUT);
                sync.work_header = Some(tip.id);
                sync.sent_getheaders = false;
            }
        }
        true
    }

    /// Gives up extra outbound peers, and asks for one when the tip is stale.
    pub(super) fn watch_tip(&mut self, view: View<'_>) {
        let now = view.now.monotonic;
        if now < self.tip_watch.next_extra_check {
            return;
        }
        self.tip_watch.next_extra_check = now + EXTRA_PEER_INTERVAL;
        self.evict_extra_peers(view);
        if now > self.tip_watch.next_stale_check {
            self.tip_watch.next_stale_check = now + STALE_CHECK_INTERVAL;
            let spacing = Duration::from_secs(self.config.params.pow_target_spacing.into());
            let age = now.saturating_sub(self.tip_watch.last_change);
            let stale = age > spacing * STALE_SPACINGS && self.blocks_in_flight() == 0;
            self.tip_watch.extra_peer_wanted =
                stale && self.network_active && self.config.connect_only.is_none();
            if self.tip_watch.extra_peer_wanted {
                info!(
                    "Potential stale tip detected, will try using extra outbound peer (last tip \
                     update: {} seconds ago)",
                    age.as_secs()
                );
            }
        }
        self.tip_watch.synced |= self.tip_is_recent(view);
    }

    fn evict_extra_peers(&mut self, view: View<'_>) {
        let now = view.now;
        let peers: Vec<OutboundPeer> = self
            .peers
            .values()
            .filter(|peer| !peer.inbound())
            .map(|peer| self.outbound(peer))
            .collect();
        let limit = self.config.max_outbound_block_relay;
        if let Some(id) = extra_block_relay_peer(now.monotonic, &peers, limit) {
            self.disconnect(now, id, DisconnectReason::Extra);
        }
        let limit = self.config.max_outbound_full;
        if let Some(id) = extra_full_peer(now.monotonic, &peers, limit) {
            self.disconnect(now, id, DisconnectReason::Extra);
            // One was tried; the next stale tip may ask for another.
            self.tip_watch.extra_peer_wanted = false;
        }
    }

    fn outbound(&self, peer: &Peer) -> OutboundPeer {
        OutboundPeer {
            peer: peer.id,
            kind: peer.kind,
            address: peer.address,
            connected: peer.connected_at,
            last_block: peer.last_block,
            last_announcement: peer.chain.last_announcement,
            protected: peer.chain.chain_sync.protected,
            in_flight: self.downloads.in_flight(peer.id),
        }
    }
}

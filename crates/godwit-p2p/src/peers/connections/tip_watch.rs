//! Watches for a stale tip, and asks for extra outbound peers when it is.
//!
//! Source: Core `net_processing.cpp`, `CheckForStaleTipAndEvictPeers`.

use std::time::Duration;

use log::info;

use crate::download::Downloads;
use crate::peers::context::Context;
use crate::peers::misbehaviour::DisconnectReason;
use crate::peers::peer::Peer;
use crate::slots::{OutboundPeer, extra_block_relay_peer, extra_full_peer};
use crate::time::Now;

/// Time between checks for extra outbound peers (Core `EXTRA_PEER_CHECK_INTERVAL`).
const EXTRA_PEER_INTERVAL: Duration = Duration::from_secs(45);
/// Time between checks for a stale tip (Core `STALE_CHECK_INTERVAL`).
const STALE_CHECK_INTERVAL: Duration = Duration::from_secs(10 * 60);
/// A tip is stale when it has not changed for this many block spacings (Core: 3, half an hour).
const STALE_SPACINGS: u32 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct TipWatch {
    last_change: Duration,
    next_extra_check: Duration,
    next_stale_check: Duration,
    /// The tip is stale, and one more outbound peer may know a better chain.
    extra_peer_wanted: bool,
    /// The tip was recent once: from then on, extra block-relay peers may be tried.
    synced: bool,
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

    pub(super) fn extra_peer_wanted(&self) -> bool {
        self.extra_peer_wanted
    }

    pub(super) fn synced(&self) -> bool {
        self.synced
    }

    pub(super) fn on_tip(&mut self, now: Now) {
        self.last_change = now.monotonic;
    }

    /// Closes extra outbound connections; asks for one if the tip is stale and `active` allows
    /// connections.
    pub(super) fn check(&mut self, cx: &mut Context<'_>, downloads: &Downloads, active: bool) {
        let now = cx.now.monotonic;
        if now < self.next_extra_check {
            return;
        }
        self.next_extra_check = now + EXTRA_PEER_INTERVAL;
        self.evict_extra_peers(cx, downloads);
        if now > self.next_stale_check {
            self.next_stale_check = now + STALE_CHECK_INTERVAL;
            let spacing = Duration::from_secs(cx.config.params.pow_target_spacing.into());
            let age = now.saturating_sub(self.last_change);
            let in_flight = |peer: &Peer| downloads.in_flight(peer.id) > 0;
            let stale = age > spacing * STALE_SPACINGS && !cx.table.iter().any(in_flight);
            self.extra_peer_wanted = stale && active && cx.config.connect_only.is_none();
            if self.extra_peer_wanted {
                info!(
                    "Potential stale tip detected, will try using extra outbound peer (last tip \
                     update: {} seconds ago)",
                    age.as_secs()
                );
            }
        }
        self.synced |= cx.tip_is_recent();
    }

    fn evict_extra_peers(&mut self, cx: &mut Context<'_>, downloads: &Downloads) {
        let now = cx.now.monotonic;
        let outbound = cx.table.iter().filter(|peer| !peer.inbound());
        let peers: Vec<OutboundPeer> =
            outbound.map(|peer| candidate(peer, downloads.in_flight(peer.id))).collect();
        let limit = cx.config.max_outbound_block_relay;
        if let Some(id) = extra_block_relay_peer(now, &peers, limit) {
            cx.disconnect(id, DisconnectReason::Extra);
        }
        let limit = cx.config.max_outbound_full;
        if let Some(id) = extra_full_peer(now, &peers, limit) {
            cx.disconnect(id, DisconnectReason::Extra);
            // An extra peer was tried; the next stale tip may ask for another.
            self.extra_peer_wanted = false;
        }
    }
}

fn candidate(peer: &Peer, in_flight: usize) -> OutboundPeer {
    OutboundPeer {
        peer: peer.id,
        kind: peer.kind,
        address: peer.address,
        connected: peer.connected_at,
        last_block: peer.fetch.last_block(),
        last_announcement: peer.headers.last_announcement(),
        protected: peer.headers.is_protected(),
        in_flight,
        ready: peer.established(),
    }
}

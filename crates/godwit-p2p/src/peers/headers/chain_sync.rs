//! Disconnects outbound peers whose chain stays behind ours.
//!
//! Source: Core `net_processing.cpp`, `ConsiderEviction`.

use std::time::Duration;

use super::state::ChainSync;
use super::sync::{HEADERS_RESPONSE_TIME, ask_for_headers};
use crate::index::{HeaderId, locator};
use crate::peer_id::PeerId;
use crate::peers::context::Context;
use crate::peers::misbehaviour::DisconnectReason;

/// Time within which an outbound peer must catch up with our tip (Core `CHAIN_SYNC_TIMEOUT`).
const CHAIN_SYNC_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// How often that time begins again because a pre-sync goes on. Enough for a first pass over
/// 900,000 headers at 5 kB/s.
const MAX_EXTENSIONS: u32 = 12;
impl ChainSync {
    /// Extends the deadline if a pre-sync has advanced since the last extension: the peer is slow
    /// at worst. Returns whether it was extended.
    fn extend_for_presync(&mut self, height: Option<u32>) -> bool {
        let Some(height) = height.filter(|&height| height > self.presync_height) else {
            return false;
        };
        self.presync_height = height;
        self.extensions += 1;
        self.extensions <= MAX_EXTENSIONS
    }
}

/// Asks an outbound peer whose chain stays behind ours once more, then disconnects it. False when
/// it was disconnected.
pub(super) fn consider_eviction(cx: &mut Context<'_>, id: PeerId) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let considered = !peer.headers.chain_sync.protected
        && peer.automatic_outbound()
        && !peer.headers.stage.may_begin();
    if !considered {
        return true;
    }
    let now = cx.line.time();
    let work = |id: HeaderId| cx.index.get(id).chain_work;
    // An invalid chain counts for nothing, however much work is in it.
    let best = peer.known.best().filter(|&best| !cx.index.get(best).failed).map(work);
    let tip = cx.index.get(cx.index.tip());
    let presync_height = peer.headers.presync.as_ref().map(|presync| presync.height());
    let sync = &mut peer.headers.chain_sync;
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
            if sync.extend_for_presync(presync_height) {
                sync.deadline = Some(now + CHAIN_SYNC_TIMEOUT);
                return true;
            }
            if sync.sent_getheaders {
                cx.disconnect(id, DisconnectReason::StaleChain);
                return false;
            }
            sync.sent_getheaders = true;
            sync.deadline = Some(now + HEADERS_RESPONSE_TIME);
            let from = sync.work_header.unwrap_or(tip.id);
            let from = cx.index.parent(from).unwrap_or(from);
            // If a request is open already, its answer will do.
            ask_for_headers(cx, id, locator(cx.index, from));
        }
        _ => {
            sync.deadline = Some(now + CHAIN_SYNC_TIMEOUT);
            sync.work_header = Some(tip.id);
            sync.sent_getheaders = false;
        }
    }
    true
}

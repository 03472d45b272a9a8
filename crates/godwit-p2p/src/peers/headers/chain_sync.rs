//! Outbound peers that are let go of because their chain stays behind ours.
//!
//! Source: Core `net_processing.cpp`, `ConsiderEviction`.

use std::time::Duration;

use super::state::ChainSync;
use super::sync::{HEADERS_RESPONSE_TIME, ask_for_headers};
use crate::index::{HeaderId, locator};
use crate::peer_id::PeerId;
use crate::peers::context::Context;
use crate::peers::fault::DisconnectReason;

/// An outbound peer must catch up with our tip within (Core `CHAIN_SYNC_TIMEOUT`).
const CHAIN_SYNC_TIMEOUT: Duration = Duration::from_secs(20 * 60);
/// How often that time begins anew because a pre-sync goes on: for the 900,000 headers of its first
/// pass that is enough at 5 kB/s.
const MAX_EXTENSIONS: u32 = 12;
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

/// An outbound peer whose chain stays behind ours is asked once more, then let go of. False when
/// it was.
pub(super) fn catches_up(cx: &mut Context<'_>, id: PeerId) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let considered = !peer.headers.chain_sync.protected
        && peer.automatic_outbound()
        && !peer.headers.stage.may_begin();
    if !considered {
        return true;
    }
    let now = cx.now.monotonic;
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
            if sync.presync_goes_on(presync_height) {
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
            // When a question is open already, its answer will do.
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

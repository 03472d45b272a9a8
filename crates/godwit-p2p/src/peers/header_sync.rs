//! From whom headers are fetched, and how long that may take.
//!
//! Core asks one peer until the best header is a day old and waits for it a quarter of an hour and
//! more, asked or not. Here another one is begun as soon as the first is slow to answer, and all are
//! asked once one has told its whole chain: blocks can then be fetched from all of them, however old
//! the chain's end is.

use std::time::Duration;

use super::connection::{HeaderSync, Peer};
use super::headers::HEADERS_RESPONSE_TIME;
use super::{ConnectionKind, DisconnectReason, Peers, View};
use crate::{PeerId, locator};

/// For all headers of a chain (Core `HEADERS_DOWNLOAD_TIMEOUT_BASE`); after it, a peer that still
/// delivers counts as slow, and one that does not is left.
const SYNC_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// For each header that is expected, in addition (Core `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`).
const SYNC_TIMEOUT_PER_HEADER: Duration = Duration::from_millis(1);
/// Headers younger than this are fetched from everybody (Core: 24 hours), in seconds.
const RECENT: i64 = 24 * 60 * 60;
/// A first answer that takes longer makes the peer slow; each slow one doubles the next one's time,
/// so that a line that is slow itself is not filled with the same headers from all sides.
const SLOW_ANSWER: Duration = Duration::from_secs(5);
/// The longest that [`SLOW_ANSWER`] grows to.
const SLOWEST_ANSWER: Duration = Duration::from_secs(40);

impl Peers {
    /// Begins the header sync with the peer, when it is its turn.
    pub(super) fn attend_header_sync(&mut self, view: View<'_>, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        if peer.chain.sync != HeaderSync::Idle || !peer.serves_blocks() {
            return;
        }
        let best = view.index.get(view.index.best_header());
        let age = view.now.unix.saturating_sub(i64::from(best.header.time));
        let running = |peer: &Peer| matches!(peer.chain.sync, HeaderSync::Running { .. });
        let first = self.fetches_from(peer) && !self.peers.values().any(running);
        if !first && age >= RECENT && !self.some_chain_is_known(view) {
            return;
        }
        // From the parent: an up-to-date peer then answers with one header and not with none, which
        // tells what it has.
        let start = view.index.parent(best.id).unwrap_or(best.id);
        if !self.ask_for_headers(view, id, locator(view.index, start)) {
            return;
        }
        let expected = age.max(0) / i64::from(self.config.params.pow_target_spacing);
        let expected = u32::try_from(expected).unwrap_or(u32::MAX);
        let timeout = SYNC_TIMEOUT.saturating_add(SYNC_TIMEOUT_PER_HEADER * expected);
        let deadline = view.now.monotonic.saturating_add(timeout);
        let peer = self.peers.get_mut(&id).expect("it was asked");
        peer.chain.sync = HeaderSync::Running { deadline };
    }

    /// Some peer has told a whole chain, as good as any that is known.
    fn some_chain_is_known(&self, view: View<'_>) -> bool {
        let best = view.index.get(view.index.best_header());
        best.chain_work >= self.config.minimum_chain_work
            && self.peers.values().any(|peer| {
                let known = peer.chain.best_known.map(|known| view.index.get(known));
                peer.chain.sync == HeaderSync::CaughtUp
                    && known.is_some_and(|known| known.chain_work >= best.chain_work)
            })
    }

    /// Inbound peers are asked only when there is nobody else (Core
    /// `sync_blocks_and_headers_from_peer`).
    fn fetches_from(&self, peer: &Peer) -> bool {
        let preferred = |peer: &Peer| peer.established() && peer.preferred();
        preferred(peer)
            || (peer.kind != ConnectionKind::AddrFetch
                && (!self.peers.values().any(preferred) || self.blocks_in_flight() == 0))
    }

    /// Notices a sync that takes too long; false when the peer was disconnected.
    pub(super) fn attend_header_timeouts(&mut self, view: View<'_>, id: PeerId) -> bool {
        let slow = self.peers.values().filter(|peer| peer.chain.sync == HeaderSync::Slow).count();
        let allowed = SLOW_ANSWER.saturating_mul(1 << slow.min(8)).min(SLOWEST_ANSWER);
        let now = view.now.monotonic;
        let asked = |peer: &&Peer| peer.chain.getheaders_sent.is_some();
        let questions = self.peers.values().filter(asked).count();
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let unanswered = peer.chain.getheaders_sent.map(|sent| now.saturating_sub(sent));
        match peer.chain.sync {
            HeaderSync::Idle | HeaderSync::CaughtUp => true,
            HeaderSync::Running { deadline } => {
                if now > deadline || unanswered.is_some_and(|waited| waited > allowed) {
                    peer.chain.sync = HeaderSync::Slow;
                }
                true
            }
            HeaderSync::Slow => {
                // All answers share our line, and what else the peer sends may be what its answer waits
                // behind.
                let time = HEADERS_RESPONSE_TIME.saturating_mul(questions.min(32) as u32);
                let silent = unanswered.is_some_and(|waited| waited > time)
                    && now.saturating_sub(peer.last_received) > time;
                if !silent || !self.headers_are_missing(view, id) {
                    self.ask_again(view, id, time);
                    return true;
                }
                self.disconnect(view.now, id, DisconnectReason::HeadersTimeout);
                false
            }
        }
    }

    /// An answer can get lost, and this peer may be the only one. `time`: for all answers that are
    /// waited for.
    fn ask_again(&mut self, view: View<'_>, id: PeerId, time: Duration) {
        let Some(peer) = self.peers.get(&id) else { return };
        let waited = view.now.monotonic.saturating_sub(peer.chain.last_getheaders);
        if waited <= time {
            return;
        }
        let hashes = match &peer.chain.presync {
            Some(presync) => presync.next_locator(),
            None => {
                let best = view.index.best_header();
                locator(view.index, view.index.parent(best).unwrap_or(best))
            }
        };
        self.ask_for_headers(view, id, hashes);
    }

    /// Our headers are old, and another peer can be asked.
    fn headers_are_missing(&self, view: View<'_>, id: PeerId) -> bool {
        let best = view.index.get(view.index.best_header());
        let age = view.now.unix.saturating_sub(i64::from(best.header.time));
        let other = |peer: &Peer| peer.id != id && peer.established() && peer.preferred();
        age >= RECENT && self.peers.values().any(other)
    }
}

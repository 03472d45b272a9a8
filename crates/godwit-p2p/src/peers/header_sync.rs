//! From whom headers are fetched, and how long that may take.
//!
//! Core asks one peer until the best header is a day old and waits for it a quarter of an hour and
//! more, asked or not. Here the time that answers take is added up, and when it is too long for what
//! they brought, another peer is begun beside the first: a race. Who is at least twice as fast goes
//! on; else the line is slow, not the peer, the first one goes on and gets twice the time until the
//! next race. All are asked once one has told its whole chain: blocks can then be fetched from all of
//! them, however old the chain's end is.

use std::time::Duration;

use super::connection::{HeaderSync, Peer};
use super::headers::HEADERS_RESPONSE_TIME;
use super::{DisconnectReason, Peers, View};
use crate::connection_kind::ConnectionKind;
use crate::index::locator;
use crate::peer_id::PeerId;

/// For all headers of a chain (Core `HEADERS_DOWNLOAD_TIMEOUT_BASE`); after it, a peer that still
/// delivers counts as slow, and one that does not is left.
const SYNC_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// For each header that is expected, in addition (Core `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`).
const SYNC_TIMEOUT_PER_HEADER: Duration = Duration::from_millis(1);
/// Headers younger than this are fetched from everybody (Core: 24 hours), in seconds.
const RECENT: i64 = 24 * 60 * 60;
/// Time beyond [`USUAL_ANSWER`] that the answers of a peer may take together before it counts as
/// slow. Each slow peer doubles that of the next one, and each race that nobody else won that of the
/// next: a line that is slow itself is not filled with the same headers from all sides.
const SLOW_ANSWER: Duration = Duration::from_secs(5);
/// What each answer may take.
const USUAL_ANSWER: Duration = Duration::from_secs(1);
/// How often slow peers double [`SLOW_ANSWER`]: to 40 seconds.
const MAX_SLOW: u32 = 3;
/// How often races do: to 160 seconds.
const MAX_RACES: u32 = 5;
/// Whose answer takes this many times less wins a race.
const WINS_BY: u32 = 2;
/// Bytes a second at which an answer under way is waited for. A full one takes 20 seconds then, and
/// who lets it trickle in more slowly is taken for slow although it never falls silent.
const ANSWER_RATE: f64 = 8_000.0;
/// On a line where peers deliver blocks more slowly than that, what is this many times less than what
/// one of them delivers will do.
const ANSWER_SHARE: f64 = 4.0;
/// But it is never waited for at less, in bytes a second.
const LEAST_ANSWER_RATE: f64 = 100.0;

impl Peers {
    /// Begins the header sync with the peer, when it is its turn.
    pub(super) fn attend_header_sync(&mut self, view: View<'_>, id: PeerId) {
        let Some(peer) = self.peers.get(&id) else { return };
        if !peer.chain.sync.may_begin() || !peer.serves_blocks() {
            return;
        }
        let best = view.index.get(view.index.best_header());
        let age = view.now.unix.saturating_sub(i64::from(best.header.time));
        let first = self.fetches_from(peer) && self.running() == 0 && self.is_next(peer);
        if !first && age >= RECENT && !self.some_chain_is_known(view) {
            return;
        }
        // From the parent: an up-to-date peer then answers with one header and not with none, which
        // tells what it has.
        let start = view.index.parent(best.id).unwrap_or(best.id);
        if !self.ask_for_headers(view, id, locator(view.index, start)) {
            return;
        }
        self.run_headers(view, id);
    }

    /// The sync with the peer is under way from now on.
    fn run_headers(&mut self, view: View<'_>, id: PeerId) {
        let best = view.index.get(view.index.best_header());
        let age = view.now.unix.saturating_sub(i64::from(best.header.time));
        let expected = age.max(0) / i64::from(self.config.params.pow_target_spacing);
        let expected = u32::try_from(expected).unwrap_or(u32::MAX);
        let timeout = SYNC_TIMEOUT.saturating_add(SYNC_TIMEOUT_PER_HEADER * expected);
        let deadline = view.now.monotonic.saturating_add(timeout);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.chain.sync = HeaderSync::Running { deadline };
        (peer.chain.lost_time, peer.chain.slowest_answer) = (Duration::ZERO, Duration::ZERO);
    }

    pub(super) fn running(&self) -> usize {
        let running = |peer: &&Peer| matches!(peer.chain.sync, HeaderSync::Running { .. });
        self.peers.values().filter(running).count()
    }

    /// Of those that could be begun, none was asked longer ago: each has its turn.
    fn is_next(&self, peer: &Peer) -> bool {
        let asked = |peer: &Peer| (peer.chain.last_getheaders, peer.id);
        let before = |other: &&Peer| {
            asked(other) < asked(peer)
                && other.established()
                && other.chain.sync.may_begin()
                && other.chain.getheaders_sent.is_none()
                && other.serves_blocks()
        };
        !self.peers.values().filter(before).any(|other| self.fetches_from(other))
    }

    /// A full answer came `took` after the question. If the peer runs beside a slow one, that decides
    /// who goes on.
    pub(super) fn note_full_answer(&mut self, view: View<'_>, id: PeerId, took: Duration) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.chain.answer_time = Some(took);
        peer.chain.slowest_answer = peer.chain.slowest_answer.max(took);
        peer.chain.lost_time += took.saturating_sub(USUAL_ANSWER);
        if !matches!(peer.chain.sync, HeaderSync::Running { .. }) || self.running() != 1 {
            return;
        }
        let now = view.now.monotonic;
        let time = |peer: &Peer| {
            let waited = peer.chain.getheaders_sent.map(|sent| now.saturating_sub(sent));
            peer.chain.answer_time.max(waited).unwrap_or(Duration::MAX)
        };
        let rivals = self.peers.values().filter(|peer| peer.chain.sync == HeaderSync::Slow);
        let Some((rival, rivals_time)) =
            rivals.map(|peer| (peer.id, time(peer))).min_by_key(|(_, time)| *time)
        else {
            return;
        };
        if took.saturating_mul(WINS_BY) <= rivals_time {
            self.header_races = 0;
            return;
        }
        let chain = &self.peers[&rival].chain;
        if took.saturating_mul(WINS_BY) <= chain.slowest_answer {
            // Quick only while it is watched. What it has measured it may measure to the end.
            self.header_races = 0;
            if chain.presync.is_none() {
                self.rest_headers(rival);
            }
            return;
        }
        self.header_races = (self.header_races + 1).min(MAX_RACES);
        self.rest_headers(id);
        self.run_headers(view, rival);
    }

    /// Another peer goes on.
    pub(super) fn rest_headers(&mut self, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.chain.sync = HeaderSync::Resting;
        peer.chain.presync = None;
        peer.chain.chain_sync.deadline = None;
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
        let doubled = self.header_races.max((slow as u32).min(MAX_SLOW));
        let allowed = SLOW_ANSWER.saturating_mul(1 << doubled);
        let now = view.now.monotonic;
        let rate = self.answer_rate();
        let asked = |peer: &&Peer| peer.chain.getheaders_sent.is_some();
        let questions = self.peers.values().filter(asked).count();
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let arriving = peer.chain.arriving;
        let earned = Duration::from_secs_f64(arriving as f64 / rate);
        let waited = |sent| now.saturating_sub(sent).saturating_sub(earned);
        let unanswered = peer.chain.getheaders_sent.map(waited);
        match peer.chain.sync {
            HeaderSync::Idle | HeaderSync::Resting | HeaderSync::CaughtUp => true,
            HeaderSync::Running { deadline } => {
                let lost = peer.chain.lost_time.saturating_add(unanswered.unwrap_or_default());
                if now > deadline || lost > allowed {
                    peer.chain.sync = HeaderSync::Slow;
                }
                true
            }
            HeaderSync::Slow => {
                // All answers share our line, and what else the peer sends may be what its answer waits
                // behind; what comes of the answer itself has been counted.
                let time = HEADERS_RESPONSE_TIME.saturating_mul(questions.min(32) as u32);
                let silent = unanswered.is_some_and(|waited| waited > time)
                    && (arriving > 0 || now.saturating_sub(peer.last_received) > time);
                if !silent || !self.headers_are_missing(view, id) {
                    self.ask_again(view, id, time);
                    return true;
                }
                self.disconnect(view.now, id, DisconnectReason::HeadersTimeout);
                false
            }
        }
    }

    /// Bytes a second at which a running answer counts as coming.
    fn answer_rate(&self) -> f64 {
        let usual = self.downloads.usual_rate().map_or(ANSWER_RATE, |rate| rate / ANSWER_SHARE);
        usual.clamp(LEAST_ANSWER_RATE, ANSWER_RATE)
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

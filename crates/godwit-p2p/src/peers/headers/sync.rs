//! Which peers headers are fetched from, and how long that may take.
//!
//! Core asks one peer until the best header is less than a day old, and gives it a quarter of an
//! hour and more. Here the time that a peer's answers take is added up; when it is too long for
//! what they brought, a sync with another peer begins beside the first, a *race*. A peer that is at
//! least twice as fast wins and goes on alone. If none is, our link is slow and not the peer: the
//! first one goes on, with twice the time until the next race.
//!
//! All peers are asked once one has sent its whole chain: blocks can then be fetched from all of
//! them, however old the end of the chain is.

use std::time::Duration;

use godwit_primitives::BlockHash;

use super::state::SyncStage;
use crate::connection_kind::ConnectionKind;
use crate::index::locator;
use crate::message::{Locator, Message};
use crate::peer_id::PeerId;
use crate::peers::context::Context;
use crate::peers::misbehaviour::DisconnectReason;
use crate::peers::peer::Peer;
use crate::peers::table::PeerTable;
use crate::permissions::Permissions;

/// How long to wait for the answer to a `getheaders` before sending another (Core
/// `HEADERS_RESPONSE_TIME`).
pub(super) const HEADERS_RESPONSE_TIME: Duration = Duration::from_secs(2 * 60);

/// Time for all headers of a chain (Core `HEADERS_DOWNLOAD_TIMEOUT_BASE`). After it, a peer that
/// still delivers counts as slow, and one that does not is disconnected.
const SYNC_TIMEOUT: Duration = Duration::from_secs(15 * 60);
/// Additional time for each expected header (Core `HEADERS_DOWNLOAD_TIMEOUT_PER_HEADER`).
const SYNC_TIMEOUT_PER_HEADER: Duration = Duration::from_millis(1);
/// Once the best header is younger than this, in seconds, headers are fetched from all peers (Core:
/// 24 hours).
const RECENT: i64 = 24 * 60 * 60;
/// Time beyond [`USUAL_ANSWER`] that a peer's answers may take in all before it counts as slow.
/// Each slow peer doubles it, and so does each race that the challenger did not win: if our own
/// link is slow, it must not be filled with the same headers from all sides.
const SLOW_ANSWER: Duration = Duration::from_secs(5);
/// Time that each answer may take.
const USUAL_ANSWER: Duration = Duration::from_secs(1);
/// Most times that slow peers double [`SLOW_ANSWER`]: to 40 seconds.
const MAX_SLOW: u32 = 3;
/// Most times that races double it: to 160 seconds.
const MAX_RACES: u32 = 5;
/// A peer whose answer takes this many times less time wins a race.
const WINS_BY: u32 = 2;
/// Most times that answers without a use double the time until the next question: to half an hour.
const MAX_FRUITLESS: u32 = 4;
/// Bytes per second that excuse an answer that is arriving. A full one takes 20 seconds at this
/// rate; a peer that lets it trickle in more slowly counts as slow although it is never silent.
const ANSWER_RATE: f64 = 8_000.0;
/// Where peers deliver blocks more slowly than that, the rate is this many times less than what one
/// of them delivers.
const ANSWER_SHARE: f64 = 4.0;
/// The least such rate, in bytes per second.
const LEAST_ANSWER_RATE: f64 = 100.0;

/// What header sync needs to know about block fetch.
#[derive(Clone, Copy, Debug)]
pub(in crate::peers) struct FetchStatus {
    /// Blocks in flight.
    pub(in crate::peers) in_flight: usize,
    /// Average rate of peers that deliver blocks, in bytes per second; `None` before the first
    /// block.
    pub(in crate::peers) usual_rate: Option<f64>,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct HeaderSync {
    /// Number of races in a row that showed our link to be slow.
    races: u32,
}

impl HeaderSync {
    /// The open request, if there is one, was answered. `complete`: the peer has no more headers.
    pub(super) fn answered(&mut self, cx: &mut Context<'_>, id: PeerId, complete: bool) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        let sent = peer.headers.getheaders_sent.take();
        let running = matches!(peer.headers.stage, SyncStage::Running { .. } | SyncStage::Slow);
        if complete && running && peer.headers.presync.is_none() {
            peer.headers.stage = SyncStage::CaughtUp;
        }
        if let (false, Some(sent)) = (complete, sent) {
            let took = cx.line.time().saturating_sub(sent);
            self.note_full_answer(cx, id, took);
        }
    }

    /// A full answer took this long. If the peer races against a slow one, the winner goes on.
    fn note_full_answer(&mut self, cx: &mut Context<'_>, id: PeerId, took: Duration) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        peer.headers.answer_time = Some(took);
        peer.headers.slowest_answer = peer.headers.slowest_answer.max(took);
        peer.headers.lost_time += took.saturating_sub(USUAL_ANSWER);
        if !matches!(peer.headers.stage, SyncStage::Running { .. }) || running(cx.table) != 1 {
            return;
        }
        let now = cx.line.time();
        let time = |peer: &Peer| {
            let waited = peer.headers.getheaders_sent.map(|sent| now.saturating_sub(sent));
            peer.headers.answer_time.max(waited).unwrap_or(Duration::MAX)
        };
        // One whose headers were refused would go on with no open question.
        let rivals = cx
            .table
            .iter()
            .filter(|peer| peer.headers.stage == SyncStage::Slow && peer.headers.fruitless == 0);
        let Some((rival, rivals_time)) =
            rivals.map(|peer| (peer.id, time(peer))).min_by_key(|(_, time)| *time)
        else {
            return;
        };
        if took.saturating_mul(WINS_BY) <= rivals_time {
            self.races = 0;
            return;
        }
        let chain = &cx.table.get(rival).expect("it was found").headers;
        if took.saturating_mul(WINS_BY) <= chain.slowest_answer {
            // The rival was quick only while it was watched. But a pre-sync that it has begun may
            // go on.
            self.races = 0;
            if chain.presync.is_none() {
                rest(cx, rival);
            }
            return;
        }
        self.races = (self.races + 1).min(MAX_RACES);
        rest(cx, id);
        run(cx, rival);
    }

    /// Marks a sync that takes too long as slow, and disconnects a silent peer; false when it was
    /// disconnected.
    pub(super) fn enforce_sync_timeout(
        &self,
        cx: &mut Context<'_>,
        fetch: &FetchStatus,
        id: PeerId,
    ) -> bool {
        let slow = cx.table.iter().filter(|peer| peer.headers.stage == SyncStage::Slow).count();
        let doubled = self.races.max((slow as u32).min(MAX_SLOW));
        let allowed = SLOW_ANSWER.saturating_mul(1 << doubled);
        let now = cx.line.time();
        let heard = |peer: &Peer| cx.now.monotonic.saturating_sub(peer.last_received);
        let heard_before = cx.table.get(id).map_or(Duration::ZERO, heard);
        let rate = answer_rate(fetch);
        let asked = |peer: &&Peer| peer.headers.getheaders_sent.is_some();
        let questions = cx.table.iter().filter(asked).count();
        let Some(peer) = cx.table.get_mut(id) else { return false };
        let arriving = peer.headers.arriving;
        let earned = Duration::from_secs_f64(arriving as f64 / rate);
        let waited = |sent| now.saturating_sub(sent).saturating_sub(earned);
        let unanswered = peer.headers.getheaders_sent.map(waited);
        match peer.headers.stage {
            SyncStage::Idle | SyncStage::Resting | SyncStage::CaughtUp => true,
            SyncStage::Running { deadline } => {
                let lost = peer.headers.lost_time.saturating_add(unanswered.unwrap_or_default());
                if now > deadline || lost > allowed {
                    peer.headers.stage = SyncStage::Slow;
                }
                true
            }
            SyncStage::Slow => {
                // All answers share our link, and other messages of the peer may delay its answer;
                // bytes of the answer itself are counted already.
                let time = HEADERS_RESPONSE_TIME.saturating_mul(questions.clamp(1, 32) as u32);
                let silent = unanswered.is_some_and(|waited| waited > time)
                    && (arriving > 0 || heard_before > time);
                let is_trusted = cx.table.get(id).is_some_and(|peer| peer.may(Permissions::NO_BAN));
                if !silent || is_trusted || !headers_are_missing(cx, id) {
                    ask_again(cx, id, time);
                    return true;
                }
                cx.disconnect(id, DisconnectReason::HeadersTimeout);
                false
            }
        }
    }
}

/// Asks for the headers after a locator, unless a request is open; returns whether it did (Core
/// `MaybeSendGetHeaders`).
pub(super) fn ask_for_headers(cx: &mut Context<'_>, id: PeerId, hashes: Vec<BlockHash>) -> bool {
    let now = cx.judged();
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let open = |sent| now.monotonic.saturating_sub(sent) <= HEADERS_RESPONSE_TIME;
    if peer.headers.getheaders_sent.is_some_and(open) {
        return false;
    }
    peer.headers.getheaders_sent = Some(now.monotonic);
    peer.headers.last_getheaders = now.monotonic;
    cx.send(id, &Message::GetHeaders(Locator { hashes, stop: BlockHash::ZERO }));
    true
}

/// Asks for headers after the best header.
pub(super) fn ask_for_newer_headers(cx: &mut Context<'_>, id: PeerId) -> bool {
    ask_for_headers(cx, id, locator(cx.index, cx.index.best_header()))
}

/// Begins the header sync with the peer, when it is its turn.
pub(super) fn begin(cx: &mut Context<'_>, fetch: &FetchStatus, id: PeerId) {
    let Some(peer) = cx.table.get(id) else { return };
    if !peer.headers.stage.may_begin() || !peer.serves_blocks() {
        return;
    }
    let best = cx.index.get(cx.index.best_header());
    let age = cx.now.unix.saturating_sub(i64::from(best.header.time));
    let first = fetches_from(cx, fetch, peer) && running(cx.table) == 0 && is_next(cx, fetch, peer);
    if !first && age >= RECENT && !some_chain_is_known(cx) {
        return;
    }
    // From the parent, so that an up-to-date peer answers with one header, which tells that it has
    // it, and not with none.
    let start = cx.index.parent(best.id).unwrap_or(best.id);
    if !ask_for_headers(cx, id, locator(cx.index, start)) {
        return;
    }
    run(cx, id);
}

/// Begins to time the sync with the peer.
fn run(cx: &mut Context<'_>, id: PeerId) {
    let best = cx.index.get(cx.index.best_header());
    let age = cx.now.unix.saturating_sub(i64::from(best.header.time));
    let expected = age.max(0) / i64::from(cx.config.params.pow_target_spacing);
    let expected = u32::try_from(expected).unwrap_or(u32::MAX);
    let timeout = SYNC_TIMEOUT.saturating_add(SYNC_TIMEOUT_PER_HEADER * expected);
    let deadline = cx.line.time().saturating_add(timeout);
    let Some(peer) = cx.table.get_mut(id) else { return };
    peer.headers.stage = SyncStage::Running { deadline };
    (peer.headers.lost_time, peer.headers.slowest_answer) = (Duration::ZERO, Duration::ZERO);
}

fn running(table: &PeerTable) -> usize {
    let running = |peer: &&Peer| matches!(peer.headers.stage, SyncStage::Running { .. });
    table.iter().filter(running).count()
}

pub(super) fn is_resting(table: &PeerTable, id: PeerId) -> bool {
    table.get(id).is_some_and(|peer| peer.headers.stage == SyncStage::Resting)
}

/// Of a full message nothing, or not all, could be taken: what is above it cannot be, either. A pre-sync
/// ends, and the next question has time. Our clock may be wrong, and be put right.
pub(super) fn refused(cx: &mut Context<'_>, id: PeerId) {
    if let Some(peer) = cx.table.get_mut(id) {
        peer.headers.presync = None;
        peer.headers.fruitless = peer.headers.fruitless.saturating_add(1);
        no_progress(cx, id);
    }
}

/// The peer's headers lead nowhere, as far as can be seen: lets another sync begin beside it.
pub(super) fn no_progress(cx: &mut Context<'_>, id: PeerId) {
    let running = running(cx.table);
    let Some(peer) = cx.table.get_mut(id) else { return };
    match peer.headers.stage {
        SyncStage::Running { .. } => peer.headers.stage = SyncStage::Slow,
        SyncStage::Slow if running > 0 => rest(cx, id),
        _ => {}
    }
}

/// Ends the sync with the peer because another one is faster.
fn rest(cx: &mut Context<'_>, id: PeerId) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    peer.headers.stage = SyncStage::Resting;
    peer.headers.presync = None;
    peer.headers.chain_sync.deadline = None;
}

/// Whether no other peer that could be begun was asked longer ago: peers take turns.
fn is_next(cx: &Context<'_>, fetch: &FetchStatus, peer: &Peer) -> bool {
    let asked = |peer: &Peer| (peer.headers.last_getheaders, peer.id);
    let before = |other: &&Peer| {
        asked(other) < asked(peer)
            && other.established()
            && other.headers.stage.may_begin()
            && other.headers.getheaders_sent.is_none()
            && other.serves_blocks()
    };
    !cx.table.iter().filter(before).any(|other| fetches_from(cx, fetch, other))
}

/// Whether some peer has sent a whole chain, as good as the best that is known.
fn some_chain_is_known(cx: &Context<'_>) -> bool {
    let best = cx.index.get(cx.index.best_header());
    best.chain_work >= cx.config.minimum_chain_work
        && cx.table.iter().any(|peer| {
            let known = peer.known.best().map(|known| cx.index.get(known));
            peer.headers.stage == SyncStage::CaughtUp
                && known.is_some_and(|known| known.chain_work >= best.chain_work)
        })
}

/// Whether headers are fetched from this peer. Inbound ones are asked only when there is no other
/// (Core `sync_blocks_and_headers_from_peer`).
fn fetches_from(cx: &Context<'_>, fetch: &FetchStatus, peer: &Peer) -> bool {
    let preferred = |peer: &Peer| peer.established() && peer.preferred();
    preferred(peer)
        || (peer.kind != ConnectionKind::AddrFetch
            && (!cx.table.iter().any(preferred) || fetch.in_flight == 0))
}

/// The rate, in bytes per second, at which an answer counts as arriving.
fn answer_rate(fetch: &FetchStatus) -> f64 {
    let usual = fetch.usual_rate.map_or(ANSWER_RATE, |rate| rate / ANSWER_SHARE);
    usual.clamp(LEAST_ANSWER_RATE, ANSWER_RATE)
}

/// Sends a request again: an answer can get lost, and this peer may be the only one. `time` is
/// allowed for all open requests, and more after answers of which nothing could be taken.
fn ask_again(cx: &mut Context<'_>, id: PeerId, time: Duration) {
    let Some(peer) = cx.table.get(id) else { return };
    let waited = cx.line.time().saturating_sub(peer.headers.last_getheaders);
    let rest = HEADERS_RESPONSE_TIME.saturating_mul(1 << peer.headers.fruitless.min(MAX_FRUITLESS));
    // The answer to a question that is asked twice comes twice.
    if waited <= time.max(rest) || peer.headers.arriving > 0 {
        return;
    }
    let hashes = match &peer.headers.presync {
        Some(presync) => presync.next_locator(cx.index),
        None => {
            let best = cx.index.best_header();
            locator(cx.index, cx.index.parent(best).unwrap_or(best))
        }
    };
    ask_for_headers(cx, id, hashes);
}

/// Whether a peer can be let go because it owes headers.
pub(in crate::peers) fn owes_headers(cx: &Context<'_>, id: PeerId) -> bool {
    let Some(headers) = cx.table.get(id).map(|peer| &peer.headers) else { return false };
    let syncs = matches!(headers.stage, SyncStage::Running { .. } | SyncStage::Slow);
    headers.getheaders_sent.is_some()
        && (headers.chain_sync.sent_getheaders || syncs && headers_are_missing(cx, id))
}

/// Whether our headers are old and another peer can be asked.
fn headers_are_missing(cx: &Context<'_>, id: PeerId) -> bool {
    let best = cx.index.get(cx.index.best_header());
    let age = cx.now.unix.saturating_sub(i64::from(best.header.time));
    let other = |peer: &Peer| peer.id != id && peer.established() && peer.preferred();
    age >= RECENT && cx.table.iter().any(other)
}

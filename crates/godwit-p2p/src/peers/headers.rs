//! Headers: asking for them, checking what can be checked without the chain, and handing them on.
//!
//! Source: Core `net_processing.cpp`, `ProcessHeadersMessage` and what it calls.

use std::time::Duration;

use godwit_consensus::{ResultClass, check_proof_of_work};
use godwit_primitives::work::block_proof;
use godwit_primitives::{BlockHash, BlockHeader, Work};
use log::{debug, info, warn};
use rand::Rng;

use super::connection::{HeaderSync, Submission};
use super::fault::{Blame, Misbehaviour, Source, blame};
use super::{Action, DisconnectReason, HeaderFault, Peers, View};
use crate::connection_kind::ConnectionKind;
use crate::index::{HeaderId, HeaderInfo, is_ancestor, locator};
use crate::message::{Locator, MAX_HEADERS, Message};
use crate::peer_id::PeerId;
use crate::presync::Presync;
use crate::rate_limit::TokenBucket;
use crate::time::Now;

/// How long an answer to `getheaders` is waited for before another may be sent (Core
/// `HEADERS_RESPONSE_TIME`).
pub(super) const HEADERS_RESPONSE_TIME: Duration = Duration::from_secs(2 * 60);

/// Blocks behind our tip from which a fork is still stored without a pre-sync (Core: 144).
const FORK_BUFFER: u64 = 144;

/// Headers that bring nothing and that a peer may send at once: 25 full messages. Core has no limit.
pub(super) const USELESS_BURST: u64 = 50_000;

/// Headers that bring nothing and that a peer may send a second after that. Every peer announces each
/// block, so the whole network may have that many blocks a second (on regtest); 4 kB/s of our line.
const USELESS_PER_SECOND: u64 = 50;

/// Outbound peers that are never evicted for their chain (Core
/// `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`).
const MAX_PROTECTED: usize = 4;

/// For headers that bring nothing.
pub(super) fn useless_headers(now: Duration) -> TokenBucket {
    TokenBucket::new(now, USELESS_BURST, USELESS_PER_SECOND, Duration::from_secs(1))
}

impl Peers {
    /// Asks for the headers behind a locator, unless a question is open (Core `MaybeSendGetHeaders`).
    pub(super) fn ask_for_headers(
        &mut self,
        view: View<'_>,
        id: PeerId,
        hashes: Vec<BlockHash>,
    ) -> bool {
        let now = view.now;
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let open = |sent| now.monotonic.saturating_sub(sent) <= HEADERS_RESPONSE_TIME;
        if peer.chain.getheaders_sent.is_some_and(open) {
            return false;
        }
        peer.chain.getheaders_sent = Some(now.monotonic);
        peer.chain.last_getheaders = now.monotonic;
        self.send(now, id, &Message::GetHeaders(Locator { hashes, stop: BlockHash::ZERO }));
        true
    }

    /// Asks for what follows the best header.
    pub(super) fn ask_for_newer_headers(&mut self, view: View<'_>, id: PeerId) -> bool {
        self.ask_for_headers(view, id, locator(view.index, view.index.best_header()))
    }

    /// A `headers` message of at most [`MAX_HEADERS`].
    pub(super) fn on_headers(&mut self, view: View<'_>, id: PeerId, mut headers: Vec<BlockHeader>) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(first) = headers.first().copied() else {
            // Nothing more to tell; a sync that was under way ended somewhere else.
            peer.chain.presync = None;
            return self.headers_answered(view, id, true);
        };
        let asked = peer.chain.getheaders_sent.is_some();
        if self.repeats_known(view, id, &headers, asked) {
            return;
        }
        let hashes: Vec<BlockHash> = headers.iter().map(BlockHeader::block_hash).collect();
        if let Err(what) = self.check_headers(&headers, &hashes) {
            return self.misbehave(view.now, id, what);
        }
        let last_hash = *hashes.last().expect("not empty");
        let full = headers.len() == MAX_HEADERS;
        let measured = self.continue_presync(view, id, &mut headers);
        let Some(start) = headers.first().map(|header| header.prev_blockhash) else { return };
        let Some(start) = view.index.find(&start) else {
            if self.allows_useless(view.now, id, headers.len()) {
                self.unconnecting_headers(view, id, &first, last_hash);
            }
            return;
        };
        // A pre-sync that goes on has asked its next question already.
        if self.peers.get(&id).is_some_and(|peer| peer.chain.presync.is_none()) {
            self.headers_answered(view, id, !full);
        }
        let last_hash =
            if measured { headers.last().expect("not empty").block_hash() } else { last_hash };
        let last = view.index.find(&last_hash);
        let work_known = measured || last.is_some_and(|last| on_best_chain(view, last));
        if !work_known && self.low_work(view, id, &view.index.get(start), &headers) {
            return;
        }
        let presyncing = self.peers.get(&id).is_some_and(|peer| peer.chain.presync.is_some());
        let new = last.is_none();
        // What a pre-sync lets go was asked for, and can be known by now through another peer.
        let repeated = last.filter(|_| !measured);
        if repeated.is_some_and(|last| !self.allows_known(view, id, last, headers.len(), asked)) {
            return;
        }
        let submission = Submission { full, new, presyncing, ..Submission::default() };
        self.submit_headers(id, headers, submission);
    }

    /// A message whose last header lies on our best chain brings nothing; the others are then not even
    /// looked at. False when it is another one.
    fn repeats_known(
        &mut self,
        view: View<'_>,
        id: PeerId,
        headers: &[BlockHeader],
        asked: bool,
    ) -> bool {
        if self.peers.get(&id).is_none_or(|peer| peer.chain.presync.is_some()) {
            return false;
        }
        let hash = headers.last().expect("not empty").block_hash();
        let known = view.index.find(&hash).filter(|&last| on_best_chain(view, last));
        let Some(last) = known else { return false };
        let full = headers.len() == MAX_HEADERS;
        if !self.allows_known(view, id, last, headers.len(), asked) {
            return true;
        }
        if full && !asked {
            // No reason to ask for more, which would come beside what else was asked for.
            self.announced(view, id, hash);
            return true;
        }
        self.headers_answered(view, id, !full);
        self.headers_taken(view, id, last, Submission { full, ..Submission::default() });
        true
    }

    /// As [`Self::allows_useless`], but an answer is no waste as long as each tells more of the peer's
    /// chain: that of a peer far behind us is known to its end.
    fn allows_known(
        &mut self,
        view: View<'_>,
        id: PeerId,
        last: HeaderId,
        count: usize,
        asked: bool,
    ) -> bool {
        let work = |header| view.index.get(header).chain_work;
        let best_known = self.peers.get(&id).and_then(|peer| peer.chain.best_known);
        let tells_more = best_known.is_none_or(|best| work(last) > work(best));
        let useful = asked && (count < MAX_HEADERS || tells_more);
        useful || self.allows_useless(view.now, id, count)
    }

    /// Headers that bring nothing are ignored within an allowance; false when the peer was let go for
    /// them.
    fn allows_useless(&mut self, now: Now, id: PeerId, count: usize) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let allowed = peer.useless_headers.take(now.monotonic, count as u64);
        if !allowed {
            self.disconnect(now, id, DisconnectReason::UselessHeaders);
        }
        allowed
    }

    /// Hands headers to the driver, which answers before anything else happens.
    pub(super) fn submit_headers(
        &mut self,
        id: PeerId,
        headers: Vec<BlockHeader>,
        submission: Submission,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        peer.chain.submissions.push_back(submission);
        self.actions.push_back(Action::SubmitHeaders { peer: id, headers });
    }

    /// Each header has the work that it claims, and follows the one before (Core `CheckHeadersPoW`).
    fn check_headers(
        &self,
        headers: &[BlockHeader],
        hashes: &[BlockHash],
    ) -> Result<(), Misbehaviour> {
        let works = |(header, hash): (&BlockHeader, &BlockHash)| {
            check_proof_of_work(hash, header.bits, &self.config.params)
        };
        if !headers.iter().zip(hashes).all(works) {
            return Err(Misbehaviour::HeaderWithoutWork);
        }
        let mut pairs = hashes.iter().zip(&headers[1..]);
        if !pairs.all(|(hash, next)| next.prev_blockhash == *hash) {
            return Err(Misbehaviour::HeadersNotContinuous);
        }
        Ok(())
    }

    /// The open question, if any, has its answer. `complete`: the peer has no more than it told.
    fn headers_answered(&mut self, view: View<'_>, id: PeerId, complete: bool) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let sent = peer.chain.getheaders_sent.take();
        let running = matches!(peer.chain.sync, HeaderSync::Running { .. } | HeaderSync::Slow);
        if complete && running && peer.chain.presync.is_none() {
            peer.chain.sync = HeaderSync::CaughtUp;
        }
        if let (false, Some(sent)) = (complete, sent) {
            self.note_full_answer(view, id, view.now.monotonic.saturating_sub(sent));
        }
    }

    fn is_resting(&self, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| peer.chain.sync == HeaderSync::Resting)
    }

    /// What the peer told leads nowhere, as far as can be seen: another one is asked beside it.
    fn no_progress(&mut self, id: PeerId) {
        let running = self.running();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match peer.chain.sync {
            HeaderSync::Running { .. } => peer.chain.sync = HeaderSync::Slow,
            HeaderSync::Slow if running > 0 => self.rest_headers(id),
            _ => {}
        }
    }

    /// Headers that do not connect may be an announcement whose parent is unknown here, or too far
    /// ahead of our clock (Core `HandleUnconnectingHeaders`). `getheaders` is sent at most every two
    /// minutes, so a flood costs nothing more.
    fn unconnecting_headers(
        &mut self,
        view: View<'_>,
        id: PeerId,
        first: &BlockHeader,
        last_hash: BlockHash,
    ) {
        if self.ask_for_newer_headers(view, id) {
            debug!("peer={}: missing block {}, sending getheaders", id.0, first.prev_blockhash);
        }
        self.announced(view, id, last_hash);
    }

    /// Feeds a pre-sync that is under way (Core `IsContinuationOfLowWorkHeadersSync`). True when
    /// `headers` were replaced by those that are safe to store.
    fn continue_presync(
        &mut self,
        view: View<'_>,
        id: PeerId,
        headers: &mut Vec<BlockHeader>,
    ) -> bool {
        let Some(peer) = self.peers.get_mut(&id) else { return false };
        let Some(presync) = peer.chain.presync.as_mut() else { return false };
        let full = headers.len() == MAX_HEADERS;
        let outcome = presync.process(headers, full);
        if !outcome.success {
            peer.chain.presync = None;
            self.no_progress(id);
            return false;
        }
        let next = outcome.request_more.then(|| presync.next_locator());
        if next.is_none() {
            peer.chain.presync = None;
        }
        *headers = outcome.accepted;
        self.headers_answered(view, id, next.is_none() && !full);
        if let Some(hashes) = next
            && !self.is_resting(id)
        {
            self.ask_for_headers(view, id, hashes);
        }
        true
    }

    /// Whether the chain of these headers has too little work to be stored; if it may go on, its work
    /// is first found out without storing anything (Core `TryLowWorkHeadersSync`).
    fn low_work(
        &mut self,
        view: View<'_>,
        id: PeerId,
        start: &HeaderInfo,
        headers: &[BlockHeader],
    ) -> bool {
        let claimed = headers
            .iter()
            .fold(start.chain_work, |work, header| work.saturating_add(block_proof(header.bits)));
        let threshold = self.work_threshold(view);
        if claimed >= threshold {
            return false;
        }
        if headers.len() < MAX_HEADERS {
            if self.allows_useless(view.now, id, headers.len()) {
                debug!("peer={}: ignoring low-work chain from height {}", id.0, start.height);
            }
            return true;
        }
        if self.is_resting(id) {
            return true;
        }
        let params = &self.config.params;
        let offset = self.rng.random_range(0..params.headers_sync.commitment_period);
        let (median, salt) = (view.index.median_time_past(start.id), self.rng.random());
        let presync = Presync::new(params, start, median, threshold, salt, offset, view.now.unix);
        let Some(peer) = self.peers.get_mut(&id) else { return true };
        peer.chain.presync = Some(Box::new(presync));
        let mut headers = headers.to_vec();
        self.continue_presync(view, id, &mut headers);
        true
    }

    /// Work that a chain must have to be stored (Core `GetAntiDoSWorkThreshold`).
    pub(super) fn work_threshold(&self, view: View<'_>) -> Work {
        let tip = view.index.get(view.index.tip());
        let buffer = block_proof(tip.header.bits).saturating_mul(Work::from(FORK_BUFFER));
        tip.chain_work.saturating_sub(buffer).max(self.config.minimum_chain_work)
    }

    pub(super) fn judge_headers(
        &mut self,
        view: View<'_>,
        id: PeerId,
        result: Result<HeaderId, HeaderFault>,
    ) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let Some(submission) = peer.chain.submissions.pop_front() else { return };
        match result {
            Ok(last) => self.headers_taken(view, id, last, submission),
            Err(fault) => self.headers_refused(view, id, fault, submission),
        }
    }

    fn headers_refused(
        &mut self,
        view: View<'_>,
        id: PeerId,
        fault: HeaderFault,
        submission: Submission,
    ) {
        let Some(peer) = self.peers.get(&id) else { return };
        let inbound = peer.inbound();
        let source = Source { via_compact_block: submission.via_compact_block, inbound };
        if !inbound
            && fault.reject.class == ResultClass::CachedInvalid
            && self.may_log(view.now, id)
        {
            warn!(
                "Peer {} sent a header of a block that is known to be invalid. If this happens with \
                 all peers, consider corruption of the database or a consensus incompatibility.",
                id.0
            );
        }
        match blame(fault.reject.class, source) {
            Blame::None => {}
            Blame::Discourage => {
                let what = Misbehaviour::InvalidHeader(fault.reject.reason);
                self.misbehave(view.now, id, what);
            }
        }
    }

    fn headers_taken(
        &mut self,
        view: View<'_>,
        id: PeerId,
        last: HeaderId,
        submission: Submission,
    ) {
        let last = view.index.get(last);
        if submission.new && !self.initial_download && self.may_log(view.now, id) {
            let via = if submission.via_compact_block { "cmpctblock " } else { "" };
            info!("Saw new {via}header hash={} height={} peer={}", last.hash, last.height, id.0);
        }
        if submission.full && !submission.new {
            self.no_progress(id);
        }
        if submission.full && !submission.presyncing && !self.is_resting(id) {
            self.ask_for_headers(view, id, locator(view.index, last.id));
        }
        self.announced(view, id, last.hash);
        let tip = view.index.get(view.index.tip());
        if submission.new
            && last.chain_work > tip.chain_work
            && let Some(peer) = self.peers.get_mut(&id)
        {
            peer.chain.last_announcement = view.now.monotonic;
        }
        if self.initial_download && !submission.full && self.has_little_work(view, id) {
            return self.disconnect(view.now, id, DisconnectReason::LittleWork);
        }
        self.protect(view, id, tip.chain_work);
    }

    /// An outbound peer whose whole chain was told and has too little work (Core: during the initial
    /// download).
    fn has_little_work(&self, view: View<'_>, id: PeerId) -> bool {
        self.peers.get(&id).is_some_and(|peer| {
            let best = peer.chain.best_known.map(|best| view.index.get(best).chain_work);
            peer.automatic_outbound()
                && best.is_some_and(|work| work < self.config.minimum_chain_work)
        })
    }

    /// The first few full outbound peers with a chain as good as ours are kept for good.
    fn protect(&mut self, view: View<'_>, id: PeerId, tip_work: Work) {
        let protected = self.peers.values().filter(|peer| peer.chain.chain_sync.protected).count();
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let as_good = |best: HeaderId| view.index.get(best).chain_work >= tip_work;
        if protected < MAX_PROTECTED
            && peer.kind == ConnectionKind::OutboundFull
            && peer.chain.best_known.is_some_and(as_good)
        {
            peer.chain.chain_sync.protected = true;
        }
    }

    /// The peer has this block (Core `UpdateBlockAvailability`).
    pub(super) fn announced(&mut self, view: View<'_>, id: PeerId, hash: BlockHash) {
        self.update_availability(view, id);
        let Some(peer) = self.peers.get_mut(&id) else { return };
        match view.index.find(&hash) {
            Some(header) => self.set_best_known(view, id, header),
            None => peer.chain.last_unknown = Some(hash),
        }
    }

    /// Whether the block that the peer announced last has become known (Core
    /// `ProcessBlockAvailability`).
    pub(super) fn update_availability(&mut self, view: View<'_>, id: PeerId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let known = peer.chain.last_unknown.and_then(|hash| view.index.find(&hash));
        if let Some(header) = known {
            peer.chain.last_unknown = None;
            self.set_best_known(view, id, header);
        }
    }

    fn set_best_known(&mut self, view: View<'_>, id: PeerId, header: HeaderId) {
        let Some(peer) = self.peers.get_mut(&id) else { return };
        let better = peer.chain.best_known.is_none_or(|best| {
            let (old, new) = (view.index.get(best), view.index.get(header));
            // A chain that turned out invalid must not hide the one that the peer is on now.
            (old.failed && !new.failed) || new.chain_work >= old.chain_work
        });
        if better {
            peer.chain.best_known = Some(header);
            if peer.established() {
                self.downloads.set_best_known(id, header);
            }
        }
    }
}

/// Such a header uses no memory that is not used already, and tells nothing about us (Core
/// `IsAncestorOfBestHeaderOrTip`).
fn on_best_chain(view: View<'_>, header: HeaderId) -> bool {
    is_ancestor(view.index, header, view.index.best_header())
        || is_ancestor(view.index, header, view.index.tip())
}

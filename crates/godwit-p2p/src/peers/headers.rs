//! Header sync: requests headers, checks what can be checked without the chain, and submits them.
//!
//! Source: Core `net_processing.cpp`, `ProcessHeadersMessage` and what it calls.

pub(super) mod allowance;
mod chain_sync;
pub(super) mod state;
mod sync;

use godwit_consensus::{ResultClass, check_proof_of_work};
use godwit_primitives::work::block_proof;
use godwit_primitives::{BlockHash, BlockHeader, Work};
use log::{debug, info, warn};
use rand::Rng;

use super::action::ChainRequest;
use super::config::PeersConfig;
use super::context::Context;
use super::event::RefusedHeader;
use super::misbehaviour::{Blame, DisconnectReason, Misbehaviour, Source, blame};
use crate::connection_kind::ConnectionKind;
use crate::index::{HeaderId, HeaderIndex, HeaderInfo, is_ancestor, locator};
use crate::message::{MAX_HEADERS, Message};
use crate::peer_id::PeerId;
use crate::permissions::Permissions;
use crate::presync::Presync;
use state::{Submission, SyncStage};
use sync::{HeaderSync, ask_for_headers, ask_for_newer_headers, is_resting, no_progress, refused};

pub(super) use sync::{FetchStatus, owes_headers};

/// First protocol version with `sendheaders` (BIP130).
const SENDHEADERS_VERSION: i32 = 70_012;

/// A fork from at most this many blocks behind our tip is stored without a pre-sync (Core: 144).
const FORK_BUFFER: u64 = 144;

/// Number of outbound peers that are never disconnected for their chain (Core
/// `MAX_OUTBOUND_PEERS_TO_PROTECT_FROM_DISCONNECT`).
const MAX_PROTECTED: usize = 4;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Headers {
    sync: HeaderSync,
    /// The block whose `inv` last made us ask a peer with which no sync had begun.
    last_inv_follow_up: Option<BlockHash>,
}

impl Headers {
    /// Bytes of a `headers` message arrived.
    pub(super) fn on_bytes(&self, cx: &mut Context<'_>, id: PeerId, bytes: usize) {
        if let Some(peer) = cx.table.get_mut(id) {
            peer.headers.arriving = peer.headers.arriving.saturating_add(bytes as u64);
        }
    }

    /// The peer announced blocks by an `inv`. At most one `getheaders` follows, for the last
    /// unknown block (CVE-2024-52915 was one for each).
    pub(super) fn on_announced(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        hashes: impl Iterator<Item = BlockHash>,
    ) {
        let mut wanted = None;
        for hash in hashes {
            announced(cx, id, hash);
            if cx.index.find(&hash).is_none() {
                wanted = Some(hash);
            }
        }
        if let Some(hash) = wanted {
            self.follow_up(cx, id, hash);
        }
    }

    /// Asks for headers because of an `inv`. A peer whose sync has not begun is asked only once,
    /// and only one such peer for each block, so that a new block adds one peer to those that
    /// headers are fetched from.
    fn follow_up(&mut self, cx: &mut Context<'_>, id: PeerId, hash: BlockHash) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        if peer.headers.stage == SyncStage::Idle {
            if peer.headers.inv_triggered || self.last_inv_follow_up == Some(hash) {
                return;
            }
            peer.headers.inv_triggered = true;
            self.last_inv_follow_up = Some(hash);
        }
        if ask_for_newer_headers(cx, id) {
            debug!("peer={}: getheaders for announced block {hash}", id.0);
        }
    }

    /// A compact block whose parent is unknown.
    pub(super) fn on_unconnected(&self, cx: &mut Context<'_>, id: PeerId) {
        if !cx.initial_download {
            ask_for_newer_headers(cx, id);
        }
    }

    /// The header of a compact block. Its parent is known, and it has the work that it claims.
    pub(super) fn on_compact_header(&self, cx: &mut Context<'_>, id: PeerId, header: BlockHeader) {
        let new = cx.index.find(&header.block_hash()).is_none();
        let submission = Submission { new, via_compact_block: true, ..Submission::default() };
        submit(cx, id, vec![header], submission);
    }

    /// Disconnects a peer whose sync or chain falls behind; false when it was disconnected.
    pub(super) fn enforce_progress(
        &self,
        cx: &mut Context<'_>,
        fetch: &FetchStatus,
        id: PeerId,
    ) -> bool {
        self.sync.enforce_sync_timeout(cx, fetch, id) && chain_sync::consider_eviction(cx, id)
    }

    /// Begins the sync with the peer when it is its turn; asks it to announce blocks by headers.
    pub(super) fn maintain(&self, cx: &mut Context<'_>, fetch: &FetchStatus, id: PeerId) {
        ask_for_announcements(cx, id);
        sync::begin(cx, fetch, id);
    }

    /// A `headers` message of at most [`MAX_HEADERS`].
    pub(super) fn on_headers(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        mut headers: Vec<BlockHeader>,
    ) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        let Some(first) = headers.first().copied() else {
            // The peer has no more; a pre-sync that was under way has ended elsewhere.
            peer.headers.presync = None;
            return self.sync.answered(cx, id, true);
        };
        let asked = peer.headers.getheaders_sent.is_some();
        if self.try_known_headers(cx, id, &headers, asked) {
            return;
        }
        let hashes: Vec<BlockHash> = headers.iter().map(BlockHeader::block_hash).collect();
        if let Err(what) = check_headers(cx.config, &headers, &hashes) {
            return cx.misbehave(id, what);
        }
        let last_hash = *hashes.last().expect("not empty");
        let full = headers.len() == MAX_HEADERS;
        let measured = self.continue_presync(cx, id, &mut headers);
        let Some(start) = headers.first().map(|header| header.prev_blockhash) else { return };
        let Some(start) = cx.index.find(&start) else {
            if charge_useless_headers(cx, id, headers.len()) {
                unconnecting_headers(cx, id, &first, last_hash);
            }
            return;
        };
        // A pre-sync that goes on has sent its next request already.
        if cx.table.get(id).is_some_and(|peer| peer.headers.presync.is_none()) {
            self.sync.answered(cx, id, !full);
        }
        let last_hash =
            if measured { headers.last().expect("not empty").block_hash() } else { last_hash };
        let last = cx.index.find(&last_hash);
        let is_trusted = cx.table.get(id).is_some_and(|peer| peer.may(Permissions::NO_BAN));
        let work_known =
            measured || is_trusted || last.is_some_and(|last| on_best_chain(cx.index, last));
        let start = cx.index.get(start);
        if !work_known && self.try_low_work_sync(cx, id, &start, &headers, asked) {
            return;
        }
        let presyncing = cx.table.get(id).is_some_and(|peer| peer.headers.presync.is_some());
        let new = last.is_none();
        // Headers that a pre-sync releases were asked for, even if another peer has sent them
        // meanwhile.
        let repeated = last.filter(|_| !measured);
        if repeated.is_some_and(|last| !charge_known_headers(cx, id, last, headers.len(), asked)) {
            return;
        }
        let submission = Submission { full, new, presyncing, ..Submission::default() };
        submit(cx, id, headers, submission);
    }

    /// Handles a message whose last header is on our best chain, without looking at the other
    /// headers: they are known. False when it is not such a message.
    fn try_known_headers(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        headers: &[BlockHeader],
        asked: bool,
    ) -> bool {
        if cx.table.get(id).is_none_or(|peer| peer.headers.presync.is_some()) {
            return false;
        }
        let hash = headers.last().expect("not empty").block_hash();
        let known = cx.index.find(&hash).filter(|&last| on_best_chain(cx.index, last));
        let Some(last) = known else { return false };
        let full = headers.len() == MAX_HEADERS;
        if !charge_known_headers(cx, id, last, headers.len(), asked) {
            return true;
        }
        if full && !asked {
            // Unasked: no reason to ask for more, beside the requests that are under way.
            announced(cx, id, hash);
            return true;
        }
        self.sync.answered(cx, id, !full);
        headers_taken(cx, id, last, Submission { full, ..Submission::default() });
        true
    }

    /// Continues a pre-sync that is under way (Core `IsContinuationOfLowWorkHeadersSync`). True
    /// when `headers` were replaced by those that are safe to store.
    fn continue_presync(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        headers: &mut Vec<BlockHeader>,
    ) -> bool {
        let Some(peer) = cx.table.get_mut(id) else { return false };
        let Some(presync) = peer.headers.presync.as_mut() else { return false };
        let full = headers.len() == MAX_HEADERS;
        let outcome = presync.process(headers, full);
        if !outcome.success {
            refused(cx, id);
            return false;
        }
        let next = outcome.request_more.then(|| presync.next_locator(cx.index));
        if next.is_none() {
            peer.headers.presync = None;
        }
        *headers = outcome.accepted;
        self.sync.answered(cx, id, next.is_none() && !full);
        if let Some(hashes) = next
            && !is_resting(cx.table, id)
        {
            ask_for_headers(cx, id, hashes);
        }
        true
    }

    /// Handles headers whose chain has too little work to be stored (so far): begins a pre-sync if
    /// the peer may have more (Core `TryLowWorkHeadersSync`). False when there is enough work.
    fn try_low_work_sync(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        start: &HeaderInfo,
        headers: &[BlockHeader],
        asked: bool,
    ) -> bool {
        let claimed = headers
            .iter()
            .fold(start.chain_work, |work, header| work.saturating_add(block_proof(header.bits)));
        let threshold = work_threshold(cx);
        if claimed >= threshold {
            return false;
        }
        if headers.len() < MAX_HEADERS {
            // A peer of a lower chain that comes back again and again tells it to each question of ours.
            if asked || charge_useless_headers(cx, id, headers.len()) {
                debug!("peer={}: ignoring low-work chain from height {}", id.0, start.height);
            }
            return true;
        }
        if is_resting(cx.table, id) {
            return true;
        }
        let params = &cx.config.params;
        let offset = cx.rng.random_range(0..params.headers_sync.commitment_period);
        let (median, salt) = (cx.index.median_time_past(start.id), cx.rng.random());
        let presync = Presync::new(params, start, median, threshold, salt, offset, cx.now.unix);
        let Some(peer) = cx.table.get_mut(id) else { return true };
        peer.headers.presync = Some(Box::new(presync));
        let mut headers = headers.to_vec();
        self.continue_presync(cx, id, &mut headers);
        true
    }

    pub(super) fn on_judged(
        &mut self,
        cx: &mut Context<'_>,
        id: PeerId,
        result: Result<HeaderId, RefusedHeader>,
    ) {
        let Some(peer) = cx.table.get_mut(id) else { return };
        let Some(submission) = peer.headers.submissions.pop_front() else { return };
        match result {
            Ok(last) => headers_taken(cx, id, last, submission),
            Err(fault) => headers_refused(cx, id, fault, submission),
        }
    }
}

/// Whether the header is on our best chain. Such a header costs no more memory, and the answer
/// reveals nothing about us (Core `IsAncestorOfBestHeaderOrTip`).
fn on_best_chain(index: &dyn HeaderIndex, header: HeaderId) -> bool {
    is_ancestor(index, header, index.best_header()) || is_ancestor(index, header, index.tip())
}

/// As [`charge_useless_headers`], but an answer to our request is free as long as each tells more of the
/// peer's chain: the chain of a peer far behind us consists of known headers.
fn charge_known_headers(
    cx: &mut Context<'_>,
    id: PeerId,
    last: HeaderId,
    count: usize,
    asked: bool,
) -> bool {
    let work = |header| cx.index.get(header).chain_work;
    let best_known = cx.table.get(id).and_then(|peer| peer.known.best());
    let tells_more = best_known.is_none_or(|best| work(last) > work(best));
    let useful = asked && (count < MAX_HEADERS || tells_more);
    useful || charge_useless_headers(cx, id, count)
}

/// Charges useless headers to the peer's allowance; false when it was disconnected for them.
fn charge_useless_headers(cx: &mut Context<'_>, id: PeerId, count: usize) -> bool {
    let Some(peer) = cx.table.get_mut(id) else { return false };
    let allowed = peer.may(Permissions::NO_BAN)
        || peer.allowances.useless_headers.take(cx.now.monotonic, count as u64);
    if !allowed {
        cx.disconnect(id, DisconnectReason::UselessHeaders);
    }
    allowed
}

/// Submits headers to the driver, which answers before the next event.
fn submit(cx: &mut Context<'_>, id: PeerId, headers: Vec<BlockHeader>, submission: Submission) {
    let Some(peer) = cx.table.get_mut(id) else { return };
    peer.headers.submissions.push_back(submission);
    cx.out.push(ChainRequest::SubmitHeaders { peer: id, headers });
}

/// Checks that each header has the work that it claims and follows the one before (Core
/// `CheckHeadersPoW`).
fn check_headers(
    config: &PeersConfig,
    headers: &[BlockHeader],
    hashes: &[BlockHash],
) -> Result<(), Misbehaviour> {
    let works = |(header, hash): (&BlockHeader, &BlockHash)| {
        check_proof_of_work(hash, header.bits, &config.params)
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

/// Handles headers that do not connect: an announcement whose parent is unknown here or too far
/// ahead of our clock (Core `HandleUnconnectingHeaders`). `getheaders` is sent at most every two
/// minutes, so a flood costs no more.
fn unconnecting_headers(
    cx: &mut Context<'_>,
    id: PeerId,
    first: &BlockHeader,
    last_hash: BlockHash,
) {
    if ask_for_newer_headers(cx, id) {
        debug!("peer={}: missing block {}, sending getheaders", id.0, first.prev_blockhash);
    }
    announced(cx, id, last_hash);
}

/// Work that a chain must have to be stored (Core `GetAntiDoSWorkThreshold`).
pub(super) fn work_threshold(cx: &Context<'_>) -> Work {
    let tip = cx.index.get(cx.index.tip());
    let buffer = block_proof(tip.header.bits).saturating_mul(Work::from(FORK_BUFFER));
    tip.chain_work.saturating_sub(buffer).max(cx.config.minimum_chain_work)
}

fn headers_refused(cx: &mut Context<'_>, id: PeerId, fault: RefusedHeader, submission: Submission) {
    let Some(peer) = cx.table.get(id) else { return };
    let inbound = peer.inbound();
    let source = Source { via_compact_block: submission.via_compact_block, inbound };
    if !inbound && fault.reject.class == ResultClass::CachedInvalid && cx.take_log_line(id) {
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
            cx.misbehave(id, what);
        }
    }
    if submission.full {
        refused(cx, id);
    }
}

fn headers_taken(cx: &mut Context<'_>, id: PeerId, last: HeaderId, submission: Submission) {
    let last = cx.index.get(last);
    if submission.new && !cx.initial_download && cx.take_log_line(id) {
        let via = if submission.via_compact_block { "cmpctblock " } else { "" };
        info!("Saw new {via}header hash={} height={} peer={}", last.hash, last.height, id.0);
    }
    if submission.full && !submission.new {
        no_progress(cx, id);
    }
    if submission.new
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.headers.fruitless = 0;
    }
    if submission.full && !submission.presyncing && !is_resting(cx.table, id) {
        ask_for_headers(cx, id, locator(cx.index, last.id));
    }
    announced(cx, id, last.hash);
    let tip = cx.index.get(cx.index.tip());
    if submission.new
        && last.chain_work > tip.chain_work
        && let Some(peer) = cx.table.get_mut(id)
    {
        peer.headers.last_announcement = cx.now.monotonic;
    }
    if cx.initial_download && !submission.full && has_little_work(cx, id) {
        return cx.disconnect(id, DisconnectReason::LittleWork);
    }
    protect(cx, id, tip.chain_work);
}

/// Whether it is an outbound peer whose whole chain is known and has too little work (Core: during
/// the initial download).
fn has_little_work(cx: &Context<'_>, id: PeerId) -> bool {
    cx.table.get(id).is_some_and(|peer| {
        let best = peer.known.best().map(|best| cx.index.get(best).chain_work);
        peer.automatic_outbound() && best.is_some_and(|work| work < cx.config.minimum_chain_work)
    })
}

/// Protects the first few full outbound peers with a chain as good as ours for good.
fn protect(cx: &mut Context<'_>, id: PeerId, tip_work: Work) {
    let protected = cx.table.iter().filter(|peer| peer.headers.chain_sync.protected).count();
    let Some(peer) = cx.table.get_mut(id) else { return };
    let as_good = |best: HeaderId| cx.index.get(best).chain_work >= tip_work;
    if protected < MAX_PROTECTED
        && peer.kind == ConnectionKind::OutboundFull
        && peer.known.best().is_some_and(as_good)
    {
        peer.headers.chain_sync.protected = true;
    }
}

/// Records that the peer has this block.
fn announced(cx: &mut Context<'_>, id: PeerId, hash: BlockHash) {
    if let Some(peer) = cx.table.get_mut(id) {
        peer.known.announced(cx.index, hash);
    }
}

/// Asks for announcements by headers once our chain is good enough to connect them (Core
/// `MaybeSendSendHeaders`).
fn ask_for_announcements(cx: &mut Context<'_>, id: PeerId) {
    let minimum = cx.config.minimum_chain_work;
    let Some(peer) = cx.table.get_mut(id) else { return };
    let best = peer.known.best().map(|best| cx.index.get(best).chain_work);
    if !peer.headers.sent_sendheaders
        && peer.handshake.common_version >= SENDHEADERS_VERSION
        && best.is_some_and(|work| work > minimum)
    {
        peer.headers.sent_sendheaders = true;
        cx.send(id, &Message::SendHeaders);
    }
}

//! What the scheduler knows of one peer.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_primitives::BlockHash;

use super::PeerTraits;
use super::rate::Rate;
use crate::index::HeaderId;

/// Blocks that a peer is asked for before it has shown how fast it is, and the least later on: while
/// one is on its way the next is already asked for.
pub(super) const MIN_IN_FLIGHT: usize = 2;

/// The most blocks that a peer is asked for at once. Core: 16; but early blocks have 200 bytes, and
/// sixteen of them are 3 KB per round trip. Large blocks are limited by [`HORIZON`].
pub(super) const MAX_IN_FLIGHT: usize = 128;

/// Seconds of a peer's work that it is asked for ahead, or two round trips if they are longer. A
/// round trip covered twice lets the measured rate double with each one until the peer's real rate
/// is reached.
const HORIZON: f64 = 1.0;

/// The longest that the horizon gets, in seconds: an attacker's answer time is not trusted further.
const MAX_HORIZON: f64 = 10.0;

/// Bytes a second that a peer is taken for while no peer's rate is known.
const UNKNOWN_RATE: f64 = 1_000_000.0;

/// Pause after a block that is not there or no good, doubled with each until a good one comes.
const FIRST_REST: Duration = Duration::from_millis(250);

/// Doublings of [`FIRST_REST`]: 128 seconds.
const MAX_RESTS: u32 = 9;

/// Requests count as lost when none was answered for this many times what a block should take, and
/// [`LOST_SECONDS`] more, whatever else the peer sends.
const LOST_FACTOR: f64 = 4.0;

/// See [`LOST_FACTOR`].
const LOST_SECONDS: f64 = 5.0;

/// Seconds without any answer from anybody, at least, after which the bytes of others prove nothing.
const STUCK_SECONDS: f64 = 60.0;

/// Blocks that nobody asked for and that a peer may send between two that it was asked for.
const MAX_UNREQUESTED: u32 = 8;

/// Part of the newest answer time in the average.
const LATENCY_WEIGHT: f64 = 0.25;

/// One request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) hash: BlockHash,
    pub(super) asked: Duration,
    /// Something that was asked for later came before it.
    pub(super) skipped: bool,
    /// Another peer delivered it, at that time.
    pub(super) overtaken: Option<Duration>,
    /// On a chain that is still wanted: only then is it held against the peer.
    pub(super) wanted: bool,
}

/// What all peers together do.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// Bytes that came from any of them so far.
    pub(super) delivered: u64,
    /// How many are asked for something.
    pub(super) active: usize,
    /// When one answered a request last.
    pub(super) last_answer: Duration,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) traits: PeerTraits,
    pub(super) best_known: Option<HeaderId>,
    /// Requests in the order in which they were made, which is the order of the answers of all known
    /// software.
    pub(super) queue: VecDeque<Flight>,
    /// For each target the height up to which the peer has its chain.
    pub(super) reach: Vec<u32>,
    /// What its best known header was found to be; `None` while the peer has no chain to download.
    pub(super) best_height: Option<u32>,
    pub(super) rate: Rate,
    /// Seconds from a request to its first byte, when nothing was before it.
    latency: Option<f64>,
    probe: Option<Duration>,
    /// When something came last, or was first asked for after there was nothing to wait for.
    pub(super) last_bytes: Duration,
    /// When a request ended last, or was first made after there was nothing to wait for.
    last_end: Duration,
    /// What the line had delivered then.
    delivered_then: u64,
    /// Blocks that it may still send unasked. A request that was given up adds one: its answer may
    /// be on its way.
    tolerated: u32,
    /// Bytes of the message that is arriving.
    partial: u64,
    rests: u32,
    resting_until: Duration,
    pub(super) reported: bool,
}

impl Peer {
    pub(super) fn new(traits: PeerTraits, now: Duration) -> Self {
        Self {
            traits,
            best_known: None,
            queue: VecDeque::new(),
            reach: Vec::new(),
            best_height: None,
            rate: Rate::new(now),
            latency: None,
            probe: None,
            last_bytes: now,
            last_end: now,
            delivered_then: 0,
            tolerated: MAX_UNREQUESTED,
            partial: 0,
            rests: 0,
            resting_until: Duration::ZERO,
            reported: false,
        }
    }

    /// Lets the time up to `now` pass.
    pub(super) fn advance(&mut self, now: Duration) {
        self.rate.advance(now, !self.queue.is_empty());
    }

    pub(super) fn ask(&mut self, hash: BlockHash, now: Duration, delivered: u64) {
        self.advance(now);
        if self.queue.is_empty() {
            self.probe = Some(now);
            self.last_bytes = now;
            self.end(now, delivered);
            self.partial = 0;
        }
        let (skipped, overtaken, wanted) = (false, None, true);
        self.queue.push_back(Flight { hash, asked: now, skipped, overtaken, wanted });
    }

    /// A new wait begins.
    fn end(&mut self, now: Duration, delivered: u64) {
        (self.last_end, self.delivered_then) = (now, delivered);
    }

    pub(super) fn arrive(&mut self, bytes: u64, now: Duration) {
        self.advance(now);
        if bytes == 0 || self.queue.is_empty() {
            return;
        }
        if let Some(asked) = self.probe.take() {
            let sample = now.saturating_sub(asked).as_secs_f64();
            let latency = self.latency.get_or_insert(sample);
            *latency += (sample - *latency) * LATENCY_WEIGHT;
        }
        self.rate.add(bytes);
        self.partial = self.partial.saturating_add(bytes);
        self.last_bytes = now;
    }

    /// Ends a request with its answer.
    pub(super) fn complete(&mut self, hash: &BlockHash, now: Duration, delivered: u64) -> bool {
        self.advance(now);
        let Some(position) = self.position(hash) else { return false };
        for before in self.queue.range_mut(..position) {
            before.skipped = true;
        }
        self.queue.remove(position);
        self.partial = 0;
        self.last_bytes = now;
        self.end(now, delivered);
        self.tolerated = self.tolerated.max(MAX_UNREQUESTED);
        true
    }

    /// What arrived was not asked for: its bytes prove neither a rate nor that anything else is on
    /// its way.
    pub(super) fn take_back(&mut self, now: Duration) {
        self.advance(now);
        if self.queue.is_empty() {
            return;
        }
        self.rate.take_back(self.partial);
        self.partial = 0;
        self.last_bytes = self.last_end;
        self.tolerated = self.tolerated.saturating_sub(1);
    }

    /// It sends other blocks instead of those that it was asked for.
    pub(super) fn floods(&self) -> bool {
        self.tolerated == 0
    }

    /// Ends a request without an answer.
    pub(super) fn forget(&mut self, hash: &BlockHash, now: Duration, delivered: u64) -> bool {
        self.advance(now);
        let Some(position) = self.position(hash) else { return false };
        self.queue.remove(position);
        self.end(now, delivered);
        self.tolerated = self.tolerated.saturating_add(1);
        true
    }

    /// What the peer claims to have is doubtful.
    pub(super) fn rest(&mut self, now: Duration, delivered: u64) {
        self.resting_until = now + FIRST_REST * 2u32.pow(self.rests);
        self.rests = (self.rests + 1).min(MAX_RESTS);
        self.last_bytes = now;
        self.end(now, delivered);
    }

    pub(super) fn stop_resting(&mut self) {
        self.rests = 0;
    }

    pub(super) fn is_resting(&self, now: Duration) -> bool {
        self.resting_until > now
    }

    pub(super) fn position(&self, hash: &BlockHash) -> Option<usize> {
        self.queue.iter().position(|flight| flight.hash == *hash)
    }

    /// Seconds since anything came that was waited for.
    pub(super) fn silence(&self, now: Duration) -> f64 {
        now.saturating_sub(self.last_bytes).as_secs_f64()
    }

    /// Seconds since a request was answered, once they are so many that what is open counts as lost.
    /// Bytes that arrive need not be those that were asked for, and may belong to one message for
    /// ever. On a slow line the answers of all are late, and a block that is larger than usual takes
    /// longer than usual: so the others must have got several times as much in the same time, unless
    /// there are none or nobody answers at all.
    pub(super) fn held_up(&self, now: Duration, size: f64, usual: Option<f64>, line: &Line) -> f64 {
        let since = now.saturating_sub(self.last_end).as_secs_f64();
        let due = LOST_FACTOR * size / self.rate_or(usual) + LOST_SECONDS;
        if self.queue.is_empty() || since < due {
            return 0.0;
        }
        let passed = line.delivered.saturating_sub(self.delivered_then) as f64;
        let its_turn = LOST_FACTOR * line.active as f64 * size.max(self.partial as f64);
        let quiet = now.saturating_sub(line.last_answer).as_secs_f64();
        let stuck = quiet.min(since) > (LOST_FACTOR * due).max(STUCK_SECONDS);
        let alone = line.active == 1;
        if alone || passed >= its_turn || stuck { since } else { 0.0 }
    }

    fn rate_or(&self, usual: Option<f64>) -> f64 {
        self.rate.get().or(usual).unwrap_or(UNKNOWN_RATE).max(0.001)
    }

    /// How many blocks of `size` bytes may be asked of it at once.
    pub(super) fn share(&self, size: f64) -> usize {
        let Some(rate) = self.rate.get() else { return MIN_IN_FLIGHT };
        let horizon = (2.0 * self.latency.unwrap_or(0.0)).clamp(HORIZON, MAX_HORIZON);
        ((rate * horizon / size).ceil() as usize).clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT)
    }

    /// Seconds until the request at `position` should be answered; a `position` behind the queue
    /// stands for another request. `usual` is the rate of a peer of which none is known.
    pub(super) fn seconds_until(&self, position: usize, size: f64, usual: Option<f64>) -> f64 {
        let ahead = (position + 1) as f64 * size - (self.partial as f64).min(size * 0.9);
        let wait = if self.queue.is_empty() { self.latency.unwrap_or(0.0) } else { 0.0 };
        wait + ahead / self.rate_or(usual)
    }
}

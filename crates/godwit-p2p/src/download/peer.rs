//! What the scheduler knows about one peer.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_primitives::BlockHash;

use super::rate::Rate;
use crate::index::HeaderId;

/// What a peer can be asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PeerTraits {
    /// Chosen by us, so that one attacker can hardly be all of them (Core `fPreferredDownload`).
    /// Other peers are asked only for blocks that no preferred peer has or delivers in time.
    pub preferred: bool,
    /// Sends witnesses. Other peers are not asked for blocks from the activation of segwit on.
    pub witness: bool,
    /// Has the last 288 blocks only (BIP159).
    pub limited: bool,
}

/// Blocks in flight from a peer whose rate is not known yet, and the least from any peer: while one
/// arrives, the next is already requested.
pub(super) const MIN_IN_FLIGHT: usize = 2;

/// Most blocks in flight from a peer. Core: 16; but early blocks have 200 bytes, and sixteen of
/// them are 3 KB per round trip. With large blocks, [`HORIZON`] is the limit.
const MAX_IN_FLIGHT: usize = 128;

/// A peer is asked for as many blocks as it should deliver in this many seconds, or in two round
/// trips if those take longer. With two round trips in flight, the measured rate can double with
/// each until it reaches what the peer can really deliver.
const HORIZON: f64 = 1.0;

/// Longest horizon, in seconds: beyond that, a peer's answer time is not trusted, since an attacker
/// chooses it.
const MAX_HORIZON: f64 = 10.0;

/// Rate assumed of a peer while no peer's rate is known, in bytes per second.
const UNKNOWN_RATE: f64 = 1_000_000.0;

/// How long a peer rests after it failed to deliver a good block; doubled each time until it
/// delivers one.
const FIRST_REST: Duration = Duration::from_millis(250);

/// Most doublings of [`FIRST_REST`]: to 128 seconds.
const MAX_RESTS: u32 = 9;

/// A peer's requests count as lost when none was answered for this many times as long as a block
/// should take, and [`LOST_SECONDS`] more, whatever else the peer sends.
const LOST_FACTOR: f64 = 4.0;

/// See [`LOST_FACTOR`].
pub(super) const LOST_SECONDS: f64 = 5.0;

/// Least seconds without an answer from any peer after which it counts for nothing what the others
/// deliver.
const STUCK_SECONDS: f64 = 60.0;

/// Unrequested blocks that a peer may send between two requested ones.
const MAX_UNREQUESTED: u32 = 8;

/// Weight of the newest answer time in the moving average.
const LATENCY_WEIGHT: f64 = 0.25;

/// Why a block was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// It is of a window.
    Window,
    /// It was lost, and the peer has it as far as it is known.
    Lost,
    /// It was lost, or the operator wants it, and the peer need not have it: Core sends nothing then.
    Favour,
}

/// A request in flight.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flight {
    pub(super) hash: BlockHash,
    pub(super) purpose: Purpose,
    pub(super) asked: Duration,
    /// Headers that the peer was asked for before have not all come.
    behind_headers: bool,
    /// When bytes of those headers last arrived; zero for never.
    headers_came: Duration,
    /// A block that was requested later arrived before it.
    pub(super) skipped: bool,
    /// When another peer delivered it.
    pub(super) overtaken: Option<Duration>,
    /// It is on a chain that is still wanted.
    pub(super) wanted: bool,
}

impl Flight {
    /// Whether the peer is blamed for withholding it.
    pub(super) fn is_owed(&self) -> bool {
        self.wanted && self.purpose != Purpose::Favour
    }

    /// Up to when the peer could not send it, because headers came that it was asked for before: all known
    /// software answers in order. That is no excuse later than so many seconds after it was asked for, and
    /// none where a block came that was requested later.
    pub(super) fn excused_until(&self, most: f64) -> Duration {
        match self.skipped {
            true => Duration::ZERO,
            false => {
                self.headers_came.min(self.asked.saturating_add(Duration::from_secs_f64(most)))
            }
        }
    }
}

/// Our link to the network, which all peers share.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// Bytes of blocks that arrived from all peers so far.
    pub(super) delivered: u64,
    /// Number of peers with requests in flight.
    pub(super) active: usize,
    /// When a peer last answered a request.
    pub(super) last_answer: Duration,
}

/// When the rates were measured from which others are told what to expect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measured {
    Now,
    /// When each peer last answered a request. While nobody answers, all rates fall with the time; a peer of
    /// which nothing is measured would be expected to take longer and longer, and never be asked for what a
    /// single one withholds that has delivered before.
    AtAnswers,
}

/// What is assumed of a peer of which nothing is measured: what the others do on average. A better guess
/// would give every newcomer the blocks that hold up the window, and one that comes again and again with
/// worthless answers would get them each time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Usual {
    /// Bytes per second; `None` if no peer has a rate.
    pub(super) rate: Option<f64>,
    /// Seconds, as [`Peer::latency`].
    pub(super) latency: f64,
}

impl Usual {
    pub(super) fn of<'a>(
        peers: impl Iterator<Item = &'a Peer> + Clone,
        measured: Measured,
    ) -> Self {
        let rate = average(peers.clone().filter_map(|peer| peer.rate(measured)));
        Self { rate, latency: average(peers.filter_map(|peer| peer.latency)).unwrap_or(0.0) }
    }
}

fn average(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

/// The wait for the next answer.
#[derive(Clone, Copy, Debug)]
struct Wait {
    /// When a request last ended, or was sent with none in flight.
    since: Duration,
    /// [`Link::delivered`] at that time.
    delivered: u64,
}

/// For how long it is asked for nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Rest {
    /// How often it has rested since it delivered a good block.
    count: u32,
    until: Duration,
}

#[derive(Debug)]
pub(super) struct Peer {
    pub(super) traits: PeerTraits,
    pub(super) best_known: Option<HeaderId>,
    /// Requests in the order in which they were sent; all known software answers in this order.
    pub(super) queue: VecDeque<Flight>,
    /// For each target, the height up to which the peer has its chain.
    pub(super) reach: Vec<u32>,
    /// Height of its best known header, if there is one.
    pub(super) best_height: Option<u32>,
    pub(super) rate: Rate,
    /// Average seconds from a request to its first byte, of requests with none in flight before
    /// them.
    pub(super) latency: Option<f64>,
    probe: Option<Duration>,
    /// When bytes last arrived, or when a request was sent with none in flight.
    pub(super) last_bytes: Duration,
    wait: Wait,
    /// When it was asked for the headers that have not come, by another clock.
    headers_asked: Option<Duration>,
    /// When a request was last answered with its block.
    last_block: Duration,
    /// Unrequested blocks that it may still send. A request that was given up adds one: its answer
    /// may be on its way.
    tolerated: u32,
    /// Bytes of the message that is arriving.
    partial: u64,
    rest: Rest,
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
            wait: Wait { since: now, delivered: 0 },
            headers_asked: None,
            last_block: now,
            tolerated: MAX_UNREQUESTED,
            partial: 0,
            rest: Rest::default(),
            reported: false,
        }
    }

    /// Advances the peer's time to `now`.
    pub(super) fn advance(&mut self, now: Duration) {
        self.rate.advance(now, !self.queue.is_empty());
    }

    pub(super) fn ask(&mut self, hash: BlockHash, purpose: Purpose, now: Duration, delivered: u64) {
        self.advance(now);
        let does_favours = self.queue.iter().all(|flight| flight.purpose == Purpose::Favour);
        if self.queue.is_empty() {
            self.probe = Some(now);
            self.last_bytes = now;
            self.end(now, delivered);
            self.partial = 0;
        } else if does_favours && purpose != Purpose::Favour {
            // Its silence about those is none about this one. What comes first need not be an answer to this
            // one, and is no measure of how soon it answers.
            self.probe = None;
            self.last_bytes = now;
            self.end(now, delivered);
        }
        self.queue.push_back(Flight {
            hash,
            purpose,
            asked: now,
            behind_headers: self.headers_asked.is_some(),
            headers_came: Duration::ZERO,
            skipped: false,
            overtaken: None,
            wanted: true,
        });
    }

    /// When it was asked for the headers that have not come, if there are any.
    pub(super) fn set_headers_asked(&mut self, asked: Option<Duration>) {
        if self.headers_asked == asked {
            return;
        }
        self.headers_asked = asked;
        // What it is asked for from now on comes after the blocks.
        for flight in &mut self.queue {
            flight.behind_headers = false;
        }
    }

    /// Bytes of headers arrived.
    pub(super) fn headers_arrive(&mut self, now: Duration) {
        for flight in self.queue.iter_mut().filter(|flight| flight.behind_headers) {
            flight.headers_came = now;
        }
    }

    /// A request has ended, or the first one was sent: the wait for the next answer begins.
    fn end(&mut self, now: Duration, delivered: u64) {
        self.wait = Wait { since: now, delivered };
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

    /// Ends a request with its answer; `false` if there was none.
    pub(super) fn complete(&mut self, hash: &BlockHash, now: Duration, delivered: u64) -> bool {
        self.advance(now);
        let Some(position) = self.position(hash) else { return false };
        for before in self.queue.range_mut(..position) {
            before.skipped = true;
        }
        let ended = self.queue.remove(position);
        if ended.is_some_and(|ended| ended.behind_headers) {
            // It does not answer in order: what it sends of those headers delays no block.
            self.queue.iter_mut().for_each(|flight| flight.behind_headers = false);
        }
        self.rate.note_answer();
        self.partial = 0;
        (self.last_bytes, self.last_block) = (now, now);
        self.end(now, delivered);
        self.tolerated = self.tolerated.max(MAX_UNREQUESTED);
        true
    }

    /// The block that arrived was not requested: takes its bytes back, which prove neither a rate
    /// nor that requested blocks are on their way.
    pub(super) fn take_back(&mut self, now: Duration) {
        self.advance(now);
        if self.queue.is_empty() {
            return;
        }
        self.rate.take_back(self.partial);
        self.partial = 0;
        self.last_bytes = self.wait.since;
        self.tolerated = self.tolerated.saturating_sub(1);
    }

    /// Whether it sends other blocks instead of requested ones.
    pub(super) fn floods(&self) -> bool {
        self.tolerated == 0
    }

    /// Ends a request without an answer, and tells what it was for; `None` if there was none.
    pub(super) fn forget(
        &mut self,
        hash: &BlockHash,
        now: Duration,
        delivered: u64,
    ) -> Option<Purpose> {
        self.advance(now);
        let ended = self.queue.remove(self.position(hash)?)?;
        self.end(now, delivered);
        self.tolerated = self.tolerated.saturating_add(1);
        Some(ended.purpose)
    }

    /// Asks the peer for nothing for a while: it is doubtful that it has what it claims.
    pub(super) fn rest(&mut self, now: Duration, delivered: u64) {
        self.rest.until = now + FIRST_REST * 2u32.pow(self.rest.count);
        self.rest.count = (self.rest.count + 1).min(MAX_RESTS);
        self.last_bytes = now;
        self.end(now, delivered);
    }

    pub(super) fn stop_resting(&mut self) {
        self.rest.count = 0;
    }

    pub(super) fn is_resting(&self, now: Duration) -> bool {
        self.rest.until > now
    }

    pub(super) fn position(&self, hash: &BlockHash) -> Option<usize> {
        self.queue.iter().position(|flight| flight.hash == *hash)
    }

    /// When bytes last arrived that may be of this block, or when it was asked for. All known software
    /// answers in order; what was skipped is not on its way.
    pub(super) fn last_sign(&self, flight: &Flight) -> Duration {
        if flight.skipped { flight.asked } else { flight.asked.max(self.last_bytes) }
    }

    /// When bytes of a requested block arrived. `None` if it has sent none, and while it has not begun to
    /// answer a request that was sent with none in flight: to be asked is no sign that it delivers.
    pub(super) fn delivered(&self) -> Option<Duration> {
        let answers = self.rate.get().is_some() && self.probe.is_none();
        answers.then_some(self.last_bytes)
    }

    /// Seconds since bytes of a requested block arrived, or one was requested with none in flight.
    pub(super) fn silence(&self, now: Duration) -> f64 {
        now.saturating_sub(self.last_bytes).as_secs_f64()
    }

    /// Seconds since it could have sent this block: since it was asked, or has delivered another one. All
    /// known software answers in order; what was skipped is not on its way.
    pub(super) fn withheld(&self, flight: &Flight, now: Duration) -> f64 {
        let since = if flight.skipped { flight.asked } else { flight.asked.max(self.last_block) };
        now.saturating_sub(since).as_secs_f64()
    }

    /// Seconds since a request was answered, once they are so many that the requests in flight
    /// count as lost; otherwise 0. Silence is no measure: arriving bytes need not be of a requested
    /// block, and one message can take for ever.
    ///
    /// Over a slow link of ours all answers are late, and a block that is larger than usual takes
    /// longer than usual. So the requests count as lost only if all peers together have delivered
    /// several times what this peer's turn takes in the same time; or if no other peer has requests
    /// in flight, or no peer has answered for long.
    pub(super) fn held_up(&self, now: Duration, size: f64, usual: Usual, link: &Link) -> f64 {
        let since = now.saturating_sub(self.wait.since).as_secs_f64();
        let due = LOST_FACTOR * size / self.rate_or(usual) + LOST_SECONDS;
        if self.queue.is_empty() || since < due {
            return 0.0;
        }
        let passed = link.delivered.saturating_sub(self.wait.delivered) as f64;
        let its_turn = LOST_FACTOR * link.active as f64 * size.max(self.partial as f64);
        let quiet = now.saturating_sub(link.last_answer).as_secs_f64();
        let stuck = quiet.min(since) > (LOST_FACTOR * due).max(STUCK_SECONDS);
        let alone = link.active == 1;
        if alone || passed >= its_turn || stuck { since } else { 0.0 }
    }

    /// Bytes per second; `None` if it has sent none.
    pub(super) fn rate(&self, measured: Measured) -> Option<f64> {
        match measured {
            Measured::Now => self.rate.get(),
            Measured::AtAnswers => self.rate.at_answer(),
        }
    }

    fn rate_or(&self, usual: Usual) -> f64 {
        self.rate.get().or(usual.rate).unwrap_or(UNKNOWN_RATE).max(0.001)
    }

    /// How many blocks of `size` bytes may be in flight from it.
    pub(super) fn share(&self, size: f64) -> usize {
        let Some(rate) = self.rate.get() else { return MIN_IN_FLIGHT };
        let horizon = (2.0 * self.latency.unwrap_or(0.0)).clamp(HORIZON, MAX_HORIZON);
        ((rate * horizon / size).ceil() as usize).clamp(MIN_IN_FLIGHT, MAX_IN_FLIGHT)
    }

    /// Expected seconds until the request at `position` of the queue is answered; the position
    /// after the last stands for a new request.
    pub(super) fn seconds_until(&self, position: usize, size: f64, usual: Usual) -> f64 {
        let ahead = (position + 1) as f64 * size - (self.partial as f64).min(size * 0.9);
        let latency = self.latency.unwrap_or(usual.latency);
        let wait = if self.queue.is_empty() { latency } else { 0.0 };
        wait + ahead / self.rate_or(usual)
    }
}

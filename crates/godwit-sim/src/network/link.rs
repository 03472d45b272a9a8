//! One direction of a connection: bytes under way, bytes arrived, and how long they take.

use std::collections::VecDeque;
use std::time::Duration;

use crate::rng::Rng;

/// Largest segment, in bytes. Larger than TCP's: each costs an event.
const MAX_SEGMENT: u64 = 32 << 10;

/// In 1,000 segments, the number of those that are cut within the first bytes, so that headers and lengths
/// also arrive in pieces.
const TINY_SEGMENTS: u32 = 60;

/// How a link behaves, in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Time from one end to the other, without queueing.
    pub latency: Duration,
    /// Most that is added to the latency of a segment; segments never overtake each other.
    pub jitter: Duration,
    /// Bytes a second.
    pub rate: u64,
    /// Bytes that may be under way or unread; then the sender has to wait.
    pub window: usize,
}

impl LinkSpec {
    /// A link of some home or server: latencies of 2 to 250 ms, 40 KB/s to 5 MB/s.
    pub fn random(rng: &mut Rng) -> Self {
        Self {
            latency: Duration::from_millis(rng.log_between(2, 250)),
            jitter: Duration::from_millis(rng.below(20)),
            rate: rng.log_between(40_000, 5_000_000),
            window: rng.log_between(16 << 10, 512 << 10) as usize,
        }
    }
}

/// One direction.
#[derive(Debug)]
pub(super) struct Pipe {
    spec: LinkSpec,
    /// When everything accepted so far has left the sender.
    sent_at: Duration,
    /// When the last segment arrives.
    arrives_at: Duration,
    arrived: VecDeque<Vec<u8>>,
    /// Bytes of the first segment that were read.
    read: usize,
    unread: usize,
    under_way: usize,
    /// The sender found no room, and has to be told when there is some.
    pub(super) starved: bool,
    /// The sender's end has been closed and everything before that has arrived.
    pub(super) ended: bool,
    /// Nothing arrives any more.
    pub(super) dead: bool,
}

impl Pipe {
    pub(super) fn new(spec: LinkSpec) -> Self {
        Self {
            spec,
            sent_at: Duration::ZERO,
            arrives_at: Duration::ZERO,
            arrived: VecDeque::new(),
            read: 0,
            unread: 0,
            under_way: 0,
            starved: false,
            ended: false,
            dead: false,
        }
    }

    pub(super) fn latency(&self) -> Duration {
        self.spec.latency
    }

    /// Bytes that the sender may write now.
    pub(super) fn room(&self) -> usize {
        self.spec.window.saturating_sub(self.unread + self.under_way)
    }

    /// Accepts one segment of `bytes`: returns its length, and the time at which it arrives. `from` is when
    /// its first byte can leave.
    pub(super) fn accept(
        &mut self,
        from: Duration,
        bytes: usize,
        rng: &mut Rng,
    ) -> (usize, Duration) {
        // At a rate of one byte a second, a segment is one byte.
        let most = MAX_SEGMENT.min(self.spec.rate).max(1).min(bytes as u64);
        let len = match rng.chance(TINY_SEGMENTS) {
            true => rng.between(1, most.min(30)),
            false => rng.log_between(1, most).max(rng.between(1, most)),
        };
        let takes = Duration::from_nanos(len.saturating_mul(1_000_000_000) / self.spec.rate.max(1));
        self.sent_at = self.sent_at.max(from) + takes;
        let jitter = rng.below(self.spec.jitter.as_nanos() as u64 + 1);
        let arrival = self.sent_at + self.spec.latency + Duration::from_nanos(jitter);
        self.arrives_at = self.arrives_at.max(arrival);
        self.under_way += len as usize;
        (len as usize, self.arrives_at)
    }

    /// When the sender's closing is noticed.
    pub(super) fn end_arrives(&self, now: Duration) -> Duration {
        self.arrives_at.max(now + self.spec.latency)
    }

    pub(super) fn has_bytes_under_way(&self) -> bool {
        self.under_way > 0
    }

    pub(super) fn arrive(&mut self, segment: Vec<u8>) {
        self.under_way -= segment.len();
        self.unread += segment.len();
        self.arrived.push_back(segment);
    }

    /// Moves what fits to `out`; zero when nothing is there.
    pub(super) fn take(&mut self, out: &mut [u8]) -> usize {
        let mut filled = 0;
        while filled < out.len()
            && let Some(first) = self.arrived.front()
        {
            let rest = &first[self.read..];
            let len = rest.len().min(out.len() - filled);
            out[filled..filled + len].copy_from_slice(&rest[..len]);
            filled += len;
            self.read += len;
            if self.read == first.len() {
                self.arrived.pop_front();
                self.read = 0;
            }
        }
        self.unread -= filled;
        filled
    }

    /// Drops bytes that nobody will read.
    pub(super) fn drain(&mut self) {
        self.arrived.clear();
        (self.read, self.unread) = (0, 0);
    }
}

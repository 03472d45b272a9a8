//! The memory that one connection makes the driver hold.

use std::collections::VecDeque;
use std::time::Duration;

use crate::frame::Command;

/// A peer that moves fewer bytes per second than this falls behind. A third of a slow link (50
/// kB/s).
const LEAST_RATE: u64 = 16_000;

/// A peer that is this far behind stalls. The system buffers up to 4 MB for a connection and
/// accepts more only when a third of that is free: at 50 kB/s, nothing seems to move for half a
/// minute.
pub(in crate::peers) const STALLED: Duration = Duration::from_secs(60);

/// A copy of the transport's queue to a peer, in numbers: a message keeps its buffer until all of
/// it is written.
#[derive(Debug, Default)]
struct SendQueue {
    messages: VecDeque<Queued>,
    /// Bytes of the first message that are written.
    written: usize,
    /// Bytes that are not written, message headers included.
    bytes: usize,
    memory: usize,
    /// The part of `memory` that is [`Kind::Block`].
    blocks: usize,
}

/// Who decides when the memory of a message to a peer is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::peers) enum Kind {
    /// We: a block was read for it when it was the peer's turn. It is that block, whole, stripped or in
    /// compact form, or some of its transactions.
    Block,
    /// The peer, or a new tip: all other messages.
    Unscheduled,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    bytes: u32,
    memory: u32,
    kind: Kind,
}

impl Queued {
    fn block_memory(self) -> usize {
        if self.kind == Kind::Block { self.memory as usize } else { 0 }
    }
}

/// An empty queue keeps room for this many messages.
const IDLE_MESSAGES: usize = 16;

impl SendQueue {
    fn push(&mut self, kind: Kind, bytes: usize, memory: usize) {
        let short =
            |n: usize| u32::try_from(n).expect("a message has 4 MB and its buffer four times");
        let queued = Queued { bytes: short(bytes), memory: short(memory), kind };
        self.bytes += bytes;
        self.memory += memory;
        self.blocks += queued.block_memory();
        self.messages.push_back(queued);
    }

    fn written(&mut self, bytes: usize) {
        self.written += bytes;
        self.bytes = self.bytes.saturating_sub(bytes);
        while let Some(first) = self.messages.front() {
            if self.written < first.bytes as usize {
                return;
            }
            self.written -= first.bytes as usize;
            self.memory -= first.memory as usize;
            self.blocks -= first.block_memory();
            self.messages.pop_front();
        }
        self.written = 0;
        self.messages.shrink_to(IDLE_MESSAGES);
    }
}

/// What one connection makes the driver hold, and whether the peer makes progress.
#[derive(Debug)]
pub(in crate::peers) struct Footprint {
    queue: SendQueue,
    /// Memory of the incomplete message from the peer.
    receiving: usize,
    /// The time by which a peer at [`LEAST_RATE`] would be as far as this one.
    kept_up_to: Duration,
}

impl Footprint {
    pub(in crate::peers) fn new(now: Duration) -> Self {
        Self { queue: SendQueue::default(), receiving: 0, kept_up_to: now }
    }

    /// Bytes handed to the driver that it has not reported as written, message headers included.
    pub(in crate::peers) fn queued(&self) -> usize {
        self.queue.bytes
    }

    /// A message was handed to the driver.
    pub(in crate::peers) fn push(
        &mut self,
        now: Duration,
        kind: Kind,
        bytes: usize,
        memory: usize,
    ) {
        self.begin(now);
        self.queue.push(kind, bytes, memory);
    }

    /// Bytes of the queue were written.
    pub(in crate::peers) fn written(&mut self, now: Duration, bytes: usize) {
        self.moved(now, bytes);
        self.queue.written(bytes);
    }

    /// Bytes moved, in either direction.
    pub(in crate::peers) fn moved(&mut self, now: Duration, bytes: usize) {
        let micros = (bytes as u64).saturating_mul(1_000_000) / LEAST_RATE;
        self.kept_up_to = (self.kept_up_to + Duration::from_micros(micros)).min(now);
    }

    /// Sets the memory of the incomplete message from the peer.
    pub(in crate::peers) fn set_receiving(&mut self, now: Duration, memory: usize) {
        self.begin(now);
        self.receiving = memory;
    }

    /// A message from the peer is complete, kept or discarded.
    pub(in crate::peers) fn received(&mut self, now: Duration, command: Command, bytes: usize) {
        // Bytes of these were reported as they arrived.
        if command != Command::BLOCK && command != Command::HEADERS {
            self.moved(now, bytes);
        }
        self.receiving = 0;
    }

    /// Memory of the blocks in the queue, and of parts of blocks.
    pub(super) fn blocks(&self) -> usize {
        self.queue.blocks
    }

    /// Memory of all else in the queue.
    pub(super) fn unscheduled(&self) -> usize {
        self.queue.memory - self.queue.blocks
    }

    /// Memory of the incomplete message from the peer.
    pub(super) fn receiving(&self) -> usize {
        self.receiving
    }

    /// Restarts the clock of a peer that held nothing: it could make no progress.
    fn begin(&mut self, now: Duration) {
        if !self.is_at_work() {
            self.restart(now);
        }
    }

    /// Restarts the clock of a peer that owes us no block any longer.
    pub(in crate::peers) fn restart(&mut self, now: Duration) {
        self.kept_up_to = now;
    }

    fn is_at_work(&self) -> bool {
        !self.queue.messages.is_empty() || self.receiving > 0
    }

    /// Whether the peer neither takes what is queued for it nor sends what it has begun. One that
    /// waits for a block to be read does not stall. Of a peer that owes us a block this tells nothing:
    /// while the chain takes no blocks, we neither read from it nor hear what it has taken.
    pub(super) fn is_stalled(&self, now: Duration) -> bool {
        self.is_at_work() && now.saturating_sub(self.kept_up_to) > STALLED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Duration = Duration::from_secs(1_000);

    #[test]
    fn a_message_keeps_its_memory_until_all_of_it_is_written() {
        let mut queue = SendQueue::default();
        queue.push(Kind::Block, 100, 1_000);
        queue.push(Kind::Unscheduled, 50, 300);
        assert_eq!((queue.bytes, queue.memory, queue.blocks), (150, 1_300, 1_000));
        queue.written(99);
        assert_eq!((queue.bytes, queue.memory, queue.blocks), (51, 1_300, 1_000));
        queue.written(1);
        assert_eq!((queue.bytes, queue.memory, queue.blocks), (50, 300, 0));
        queue.push(Kind::Unscheduled, 10, 70);
        queue.written(60);
        assert_eq!((queue.bytes, queue.memory, queue.messages.len()), (0, 0, 0));
        for _ in 0..10_000 {
            queue.push(Kind::Unscheduled, 32, 400);
        }
        queue.written(320_000);
        assert!(queue.messages.capacity() < 100, "{}", queue.messages.capacity());
    }

    #[test]
    fn who_keeps_to_the_least_rate_never_stalls_and_who_does_not_does() {
        // A report every half minute, as of a system that buffers much.
        let stalls = |rate: u64| {
            let mut footprint = Footprint::new(NOW);
            footprint.push(NOW, Kind::Block, 1 << 30, 1 << 30);
            (1..=100).find(|n| {
                let now = NOW + Duration::from_secs(30 * n);
                let stalled = footprint.is_stalled(now);
                footprint.written(now, (30 * rate) as usize);
                stalled
            })
        };
        assert_eq!((stalls(50_000), stalls(LEAST_RATE)), (None, None));
        assert_eq!((stalls(0), stalls(LEAST_RATE / 2)), (Some(3), Some(4)));
    }

    #[test]
    fn the_time_of_a_stall_is_counted_from_when_there_was_something_to_do() {
        let mut footprint = Footprint::new(Duration::ZERO);
        footprint.push(NOW, Kind::Unscheduled, 10, 10);
        assert!(!footprint.is_stalled(NOW + STALLED));
        assert!(footprint.is_stalled(NOW + STALLED + Duration::from_nanos(1)));
        footprint.push(NOW + STALLED, Kind::Unscheduled, 10, 10);
        assert!(footprint.is_stalled(NOW + 2 * STALLED), "asking is not taking");
        footprint.written(NOW + 2 * STALLED, 20);
        let later = NOW + 9 * STALLED;
        footprint.set_receiving(later, 5);
        assert!(!footprint.is_stalled(later + STALLED));
        footprint.received(later, Command::INV, 1_000_000);
        assert_eq!(footprint.receiving, 0);
    }
}

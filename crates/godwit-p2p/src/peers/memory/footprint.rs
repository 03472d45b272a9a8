//! What one connection holds of the driver's memory.

use std::collections::VecDeque;
use std::time::Duration;

use crate::frame::Command;

/// A peer that moves fewer bytes in a second than this falls behind. A third of what a slow line brings
/// (50 kB/s).
const LEAST_RATE: u64 = 16_000;

/// A peer that is so far behind holds its memory for nothing. The system buffers up to 4 MB for a
/// connection and takes more only when a third of that is free: half a minute at 50 kB/s, in which nothing
/// is seen to move.
pub(in crate::peers) const STALLED: Duration = Duration::from_secs(60);

/// What was handed to the driver for a peer, as the transport has it: a message keeps its buffer until
/// all of it is written.
#[derive(Debug, Default)]
struct SendQueue {
    messages: VecDeque<Queued>,
    /// Bytes of the first one that are written.
    written: usize,
    /// Bytes that are not written, message headers included.
    bytes: usize,
    memory: usize,
}

#[derive(Clone, Copy, Debug)]
struct Queued {
    bytes: u32,
    memory: u32,
}

/// An empty queue keeps room for so many messages.
const IDLE_MESSAGES: usize = 16;

impl SendQueue {
    fn push(&mut self, bytes: usize, memory: usize) {
        self.bytes += bytes;
        self.memory += memory;
        let short =
            |n: usize| u32::try_from(n).expect("a message has 4 MB and its buffer four times");
        self.messages.push_back(Queued { bytes: short(bytes), memory: short(memory) });
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
            self.messages.pop_front();
        }
        self.written = 0;
        self.messages.shrink_to(IDLE_MESSAGES);
    }
}

/// What one connection holds of the driver's memory, and whether it lets go of it.
#[derive(Debug)]
pub(in crate::peers) struct Footprint {
    queue: SendQueue,
    /// Memory of the message that it is sending.
    receiving: usize,
    /// When it should have been as far as it is now, at [`LEAST_RATE`].
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
    pub(in crate::peers) fn push(&mut self, now: Duration, bytes: usize, memory: usize) {
        self.begin(now);
        self.queue.push(bytes, memory);
    }

    /// So many bytes of what was handed to the driver were written.
    pub(in crate::peers) fn written(&mut self, now: Duration, bytes: usize) {
        self.moved(now, bytes);
        self.queue.written(bytes);
    }

    /// So many bytes passed, in either direction.
    pub(in crate::peers) fn moved(&mut self, now: Duration, bytes: usize) {
        let micros = (bytes as u64).saturating_mul(1_000_000) / LEAST_RATE;
        self.kept_up_to = (self.kept_up_to + Duration::from_micros(micros)).min(now);
    }

    /// The message that it is sending takes so much by now.
    pub(in crate::peers) fn set_receiving(&mut self, now: Duration, memory: usize) {
        self.begin(now);
        self.receiving = memory;
    }

    /// A message of it is complete, kept or dropped.
    pub(in crate::peers) fn received(&mut self, now: Duration, command: Command, bytes: usize) {
        // Of these it was told while they came.
        if command != Command::BLOCK && command != Command::HEADERS {
            self.moved(now, bytes);
        }
        self.receiving = 0;
    }

    /// Memory of what is to be sent, and of what is half received.
    pub(super) fn memory(&self) -> usize {
        self.queue.memory + self.receiving
    }

    pub(super) fn receiving(&self) -> usize {
        self.receiving
    }

    /// The time of a peer that held nothing begins now: it had nothing to take.
    fn begin(&mut self, now: Duration) {
        if !self.is_at_work() {
            self.kept_up_to = now;
        }
    }

    fn is_at_work(&self) -> bool {
        !self.queue.messages.is_empty() || self.receiving > 0
    }

    /// A peer that waits for us does not stall.
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
        queue.push(100, 1_000);
        queue.push(50, 300);
        assert_eq!((queue.bytes, queue.memory), (150, 1_300));
        queue.written(99);
        assert_eq!((queue.bytes, queue.memory), (51, 1_300));
        queue.written(1);
        assert_eq!((queue.bytes, queue.memory), (50, 300));
        queue.push(10, 70);
        queue.written(60);
        assert_eq!((queue.bytes, queue.memory, queue.messages.len()), (0, 0, 0));
        for _ in 0..10_000 {
            queue.push(32, 400);
        }
        queue.written(320_000);
        assert!(queue.messages.capacity() < 100, "{}", queue.messages.capacity());
    }

    #[test]
    fn who_keeps_to_the_least_rate_never_stalls_and_who_does_not_does() {
        // A report every half minute, as of a system that buffers much.
        let stalls = |rate: u64| {
            let mut footprint = Footprint::new(NOW);
            footprint.push(NOW, 1 << 30, 1 << 30);
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
        footprint.push(NOW, 10, 10);
        assert!(!footprint.is_stalled(NOW + STALLED));
        assert!(footprint.is_stalled(NOW + STALLED + Duration::from_nanos(1)));
        footprint.push(NOW + STALLED, 10, 10);
        assert!(footprint.is_stalled(NOW + 2 * STALLED), "asking is not taking");
        footprint.written(NOW + 2 * STALLED, 20);
        let later = NOW + 9 * STALLED;
        footprint.set_receiving(later, 5);
        assert!(!footprint.is_stalled(later + STALLED));
        footprint.received(later, Command::INV, 1_000_000);
        assert_eq!(footprint.receiving, 0);
    }
}

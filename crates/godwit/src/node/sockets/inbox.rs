//! The queue of events from the sockets to the node, bounded in bytes: the sockets' thread stops
//! reading while it is full, and is woken when half of it is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use godwit_p2p::{Frame, NetEvent};
use mio::Waker;

/// Bytes of events between sockets and node, counted by the capacity of their buffers. A round of
/// messages from all peers fits, and the node takes them out faster than the network delivers them;
/// with a slow disk the sockets wait.
pub const INBOX_BYTES: u64 = 16 << 20;

/// Bytes that an event counts beside its payload.
const EVENT_BYTES: u64 = 256;

struct Budget {
    used: AtomicU64,
    /// The sockets' thread waits to be woken when there is room.
    starved: AtomicBool,
}

/// The end of the queue that the sockets' thread has.
pub(super) struct Outbox {
    sender: Sender<NetEvent>,
    budget: Arc<Budget>,
}

/// The end of the queue that the node has.
pub struct Inbox {
    receiver: Receiver<NetEvent>,
    budget: Arc<Budget>,
    waker: Arc<Waker>,
}

/// Both ends of the queue. `waker` wakes the thread that has the [`Outbox`].
pub(super) fn channel(waker: Arc<Waker>) -> (Outbox, Inbox) {
    let (sender, receiver) = unbounded();
    let budget = Arc::new(Budget { used: AtomicU64::new(0), starved: AtomicBool::new(false) });
    (Outbox { sender, budget: Arc::clone(&budget) }, Inbox { receiver, budget, waker })
}

impl Outbox {
    /// Whether more may be read from sockets. If not, the waker will wake the thread when there is
    /// room.
    pub(super) fn has_room(&self) -> bool {
        let room = || self.budget.used.load(Ordering::SeqCst) < INBOX_BYTES;
        if room() {
            return true;
        }
        self.budget.starved.store(true, Ordering::SeqCst);
        // Once more: the node may have emptied the queue before it could see the flag, and would
        // not wake the thread.
        room()
    }

    /// Queues an event; `false` when the node has ended.
    pub(super) fn send(&self, event: NetEvent) -> bool {
        let event = in_proportion(event);
        self.budget.used.fetch_add(cost(&event), Ordering::SeqCst);
        self.sender.send(event).is_ok()
    }
}

impl Inbox {
    /// The next event, if there is one.
    ///
    /// # Panics
    ///
    /// If the sockets' thread has ended. Before the node ends, only a panic ends that thread; a
    /// node that continued would have no peers and would spin.
    pub fn take(&self) -> Option<NetEvent> {
        let event = match self.receiver.try_recv() {
            Ok(event) => event,
            Err(TryRecvError::Empty) => return None,
            Err(TryRecvError::Disconnected) => panic!("the sockets' thread has ended"),
        };
        let cost = cost(&event);
        let left = self.budget.used.fetch_sub(cost, Ordering::SeqCst) - cost;
        if left <= INBOX_BYTES / 2
            && self.budget.starved.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("The sockets' thread can not be woken: {error}");
        }
        Some(event)
    }

    /// The queue itself, to wait on.
    pub fn receiver(&self) -> &Receiver<NetEvent> {
        &self.receiver
    }
}

fn cost(event: &NetEvent) -> u64 {
    match event {
        NetEvent::Frame { frame, .. } => EVENT_BYTES + frame.payload.capacity() as u64,
        _ => EVENT_BYTES,
    }
}

/// Moves a payload from a buffer that is much too large for it to one that fits: four small blocks
/// in buffers of the largest would fill the queue.
fn in_proportion(event: NetEvent) -> NetEvent {
    match event {
        NetEvent::Frame { peer, frame: Frame { command, payload } } => {
            NetEvent::Frame { peer, frame: Frame { command, payload: payload.in_proportion() } }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use godwit_p2p::{Command, PeerId};
    use godwit_stream::{BufferPool, PoolLimits};
    use mio::{Poll, Token};

    use super::*;

    const LARGEST: usize = 4 << 20;

    #[test]
    fn buffers_in_the_queue_are_bounded_whatever_lies_in_them() {
        for length in [1, 300, 100_000, LARGEST / 4 - 1, LARGEST / 4, LARGEST / 2, LARGEST] {
            let poll = Poll::new().expect("a poll");
            let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
            let (outbox, inbox) = channel(Arc::new(waker));
            let (buffers, total_bytes) = (32, 32 * LARGEST);
            let pool = BufferPool::new(PoolLimits { buffers, buffer_bytes: LARGEST, total_bytes });
            let mut count = 0;
            while outbox.has_room() {
                let mut payload = pool.take_for(LARGEST);
                payload.write(&vec![7; length]);
                let frame = Frame { command: Command::BLOCK, payload };
                assert!(outbox.send(NetEvent::Frame { peer: PeerId(1), frame }));
                count += 1;
            }
            let (mut held, mut payloads) = (0, 0);
            while let Some(NetEvent::Frame { frame, .. }) = inbox.take() {
                held += frame.payload.capacity() as u64;
                assert!(frame.payload.unread().iter().all(|byte| *byte == 7));
                payloads += usize::from(frame.payload.len() == length);
            }
            assert_eq!(payloads, count);
            assert!(held <= INBOX_BYTES + LARGEST as u64, "{held} bytes for {length} each");
            let fair = (length * 4) as u64 + EVENT_BYTES;
            assert!(count as u64 * fair >= INBOX_BYTES, "only {count} of {length} bytes");
            assert_eq!(inbox.budget.used.load(Ordering::SeqCst), 0);
        }
    }
}

//! The queue of events from the sockets to the node. It is bounded in bytes: whoever reads from
//! sockets stops while it is full, and is woken when half of it is free.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;

use crate::node::net::NetEvent;

/// Bytes of events between sockets and node. A round of messages from all peers fits, and the node
/// takes them out faster than a line brings them; a slow disk makes the sockets wait.
pub const INBOX_BYTES: u64 = 16 << 20;

/// What an event is counted for beside its payload.
const EVENT_BYTES: u64 = 256;

struct Budget {
    used: AtomicU64,
    /// The sockets' thread waits for room.
    starved: AtomicBool,
}

/// Events on their way out of the sockets' thread.
pub(super) struct Outbox {
    sender: Sender<NetEvent>,
    budget: Arc<Budget>,
}

/// Events on their way into the node.
pub struct Inbox {
    receiver: Receiver<NetEvent>,
    budget: Arc<Budget>,
    waker: Arc<Waker>,
}

/// Both ends. `waker` wakes the thread that has the [`Outbox`].
pub(super) fn channel(waker: Arc<Waker>) -> (Outbox, Inbox) {
    let (sender, receiver) = unbounded();
    let budget = Arc::new(Budget { used: AtomicU64::new(0), starved: AtomicBool::new(false) });
    (Outbox { sender, budget: Arc::clone(&budget) }, Inbox { receiver, budget, waker })
}

impl Outbox {
    /// Whether more may be read from sockets. After a `false` the waker tells when it may.
    pub(super) fn has_room(&self) -> bool {
        let room = || self.budget.used.load(Ordering::SeqCst) < INBOX_BYTES;
        if room() {
            return true;
        }
        self.budget.starved.store(true, Ordering::SeqCst);
        // The node may have taken everything before it could see the flag.
        room()
    }

    /// Queues an event; `false` when the node is gone.
    pub(super) fn send(&self, event: NetEvent) -> bool {
        self.budget.used.fetch_add(cost(&event), Ordering::SeqCst);
        self.sender.send(event).is_ok()
    }
}

impl Inbox {
    /// The next event, if there is one.
    pub fn take(&self) -> Option<NetEvent> {
        let event = self.receiver.try_recv().ok()?;
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

    /// For waiting.
    pub fn receiver(&self) -> &Receiver<NetEvent> {
        &self.receiver
    }
}

fn cost(event: &NetEvent) -> u64 {
    match event {
        NetEvent::Frame { frame, .. } => EVENT_BYTES + frame.payload.len() as u64,
        _ => EVENT_BYTES,
    }
}

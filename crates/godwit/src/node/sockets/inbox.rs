//! The queue of events from the sockets to the node, bounded in bytes: the sockets' thread stops
//! reading while it is full, and is woken when half of it is free.
//!
//! While the chain can take no more blocks, arriving blocks stay in the queue, and so does
//! everything that their senders sent after them, because the events of one peer are in order.
//! Peers that owe blocks, or sent one that has not been taken, have their own [`Share`] of the
//! queue, so that the other peers are not held up.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};
use godwit_p2p::{Command, Frame, NetEvent, PeerId, ReceiveLimits, Transport};
use mio::Waker;

/// Bytes of events between sockets and node, counted by the capacity of their buffers. A round of
/// messages from all peers fits, and the node takes them out faster than the network delivers them;
/// with a slow disk the sockets wait.
pub const INBOX_BYTES: u64 = 16 << 20;

/// The part of [`INBOX_BYTES`] for peers that owe no block.
const MESSAGES_BYTES: u64 = 4 << 20;

/// Bytes that an event counts beside its payload.
const EVENT_BYTES: u64 = 256;

/// Bytes of events at which no more is read from the connections of a share.
#[derive(Clone, Copy, Debug)]
pub struct InboxLimits {
    /// Of [`Share::Messages`].
    pub messages: u64,
    /// Of [`Share::Blocks`].
    pub blocks: u64,
}

impl InboxLimits {
    /// The limits of the product: together [`INBOX_BYTES`]. Tests use lower ones, which short chains
    /// reach.
    pub const PRODUCT: Self =
        Self { messages: MESSAGES_BYTES, blocks: INBOX_BYTES - MESSAGES_BYTES };
}

/// The part of the queue in which a connection's events count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Share {
    /// For peers that owe no block.
    Messages,
    /// For peers that owe a block that was requested, and peers that may announce blocks by sending
    /// them; and for a block that is kept while it arrives, or that the node has not taken, when its
    /// request was withdrawn.
    Blocks,
}

struct Budget {
    limit: u64,
    used: AtomicU64,
    /// The sockets' thread waits to be woken when there is room.
    starved: AtomicBool,
}

struct Budgets {
    messages: Budget,
    blocks: Budget,
    /// Events that carry blocks and were taken. They are taken in the order in which they were sent.
    blocks_taken: AtomicU64,
}

impl Budget {
    fn new(limit: u64) -> Self {
        Self { limit, used: AtomicU64::new(0), starved: AtomicBool::new(false) }
    }
}

impl Budgets {
    fn new(limits: InboxLimits) -> Self {
        Self {
            messages: Budget::new(limits.messages),
            blocks: Budget::new(limits.blocks),
            blocks_taken: AtomicU64::new(0),
        }
    }

    fn of(&self, share: Share) -> &Budget {
        match share {
            Share::Messages => &self.messages,
            Share::Blocks => &self.blocks,
        }
    }
}

/// An event, and the share in which it counts.
pub struct Queued {
    share: Share,
    event: NetEvent,
}

/// The end of the queue that the sockets' thread has.
pub struct Outbox {
    sender: Sender<Queued>,
    budgets: Arc<Budgets>,
    /// Events that carry blocks and were sent.
    blocks_sent: Cell<u64>,
}

/// The end of the queue for the events of one share.
#[derive(Clone, Copy)]
pub struct PeerOutbox<'a> {
    outbox: &'a Outbox,
    share: Share,
}

/// The last block of one connection that was queued: with what is being received, it decides in which
/// share the connection's events count.
#[derive(Clone, Copy, Debug, Default)]
pub struct LastBlock {
    /// Its [number](PeerOutbox::blocks_sent); 0: none.
    number: u64,
}

/// The end of the queue that the node's thread has.
pub struct Inbox {
    receiver: Receiver<Queued>,
    held: RefCell<Held>,
    budgets: Arc<Budgets>,
    waker: Arc<Waker>,
}

/// Events that wait for the chain: blocks, and everything that their senders sent after them.
#[derive(Default)]
struct Held {
    events: VecDeque<Queued>,
    /// Number of these events by peer; no entry is zero.
    peers: BTreeMap<PeerId, usize>,
}

/// Both ends of the queue. `waker` wakes the thread that has the [`Outbox`].
pub fn channel(waker: Arc<Waker>, limits: InboxLimits) -> (Outbox, Inbox) {
    // Unbounded in number: the budgets bound it in bytes.
    let (sender, receiver) = unbounded();
    let budgets = Arc::new(Budgets::new(limits));
    let outbox = Outbox { sender, budgets: Arc::clone(&budgets), blocks_sent: Cell::new(0) };
    (outbox, Inbox { receiver, held: RefCell::default(), budgets, waker })
}

impl Outbox {
    /// Whether more may be read from the sockets of this share. If not, the waker will wake the
    /// thread when there is room.
    pub fn poll_room(&self, share: Share) -> bool {
        let budget = self.budgets.of(share);
        let room = || budget.used.load(Ordering::SeqCst) < budget.limit;
        if room() {
            return true;
        }
        budget.starved.store(true, Ordering::SeqCst);
        // Once more: the node may have emptied the queue before it could see the flag, and would
        // not wake the thread.
        room()
    }

    /// The end of the queue for events of this share.
    pub fn of(&self, share: Share) -> PeerOutbox<'_> {
        PeerOutbox { outbox: self, share }
    }

    /// Whether the block with this [number](PeerOutbox::blocks_sent), or one before it, has not been
    /// taken. What its sender says behind it waits with it.
    fn holds_block(&self, number: u64) -> bool {
        self.budgets.blocks_taken.load(Ordering::SeqCst) < number
    }

    /// Queues an event in [`Share::Messages`]; `false` when the node has ended.
    pub fn send(&self, event: NetEvent) -> bool {
        self.of(Share::Messages).send(event)
    }
}

impl PeerOutbox<'_> {
    /// Queues an event; `false` when the node has ended.
    pub fn send(&self, event: NetEvent) -> bool {
        let (share, event) = (self.share, in_proportion(event));
        if carries_block(&event) {
            self.outbox.blocks_sent.set(self.blocks_sent() + 1);
        }
        self.outbox.budgets.of(share).used.fetch_add(cost(&event), Ordering::SeqCst);
        self.outbox.sender.send(Queued { share, event }).is_ok()
    }

    /// The number of the last event that carries a block, of all connections together.
    fn blocks_sent(&self) -> u64 {
        self.outbox.blocks_sent.get()
    }
}

impl LastBlock {
    /// The part of the node's inbox that the events of its connection take. A request that is withdrawn
    /// leaves a block that is kept while it arrives where it is, and behind it what its sender says.
    pub fn share(self, limits: &ReceiveLimits, transport: &Transport, out: &Outbox) -> Share {
        let owes = limits.expects_block || limits.expects_compact;
        let sends = || {
            let is_kept = transport.buffered_bytes() > 0;
            is_kept && transport.incoming().is_some_and(|(command, ..)| completes_block(command))
        };
        match owes || sends() || out.holds_block(self.number) {
            true => Share::Blocks,
            false => Share::Messages,
        }
    }

    /// Queues a message of its connection.
    pub fn send_frame(&mut self, peer: PeerId, frame: Frame, out: PeerOutbox<'_>) {
        let completes_block = completes_block(frame.command);
        out.send(NetEvent::Frame { peer, frame });
        if completes_block {
            self.number = out.blocks_sent();
        }
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
        let held = self.held.borrow_mut().pop();
        held.or_else(|| self.receive()).map(|queued| self.release(queued))
    }

    /// The next event that can be handled while the chain takes no block, if there is one. Blocks,
    /// and what their senders sent after them, are held back for [`take`](Self::take).
    ///
    /// # Panics
    ///
    /// As [`take`](Self::take).
    pub fn take_but_blocks(&self) -> Option<NetEvent> {
        while let Some(queued) = self.receive() {
            let free = self.held.borrow_mut().push_if_held(queued);
            if let Some(queued) = free {
                return Some(self.release(queued));
            }
        }
        None
    }

    /// Whether events are held back until the chain takes blocks again.
    pub fn holds_back(&self) -> bool {
        !self.held.borrow().events.is_empty()
    }

    fn receive(&self) -> Option<Queued> {
        match self.receiver.try_recv() {
            Ok(queued) => Some(queued),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => panic!("the sockets' thread has ended"),
        }
    }

    /// Takes an event off the count of its share, and wakes the sockets' thread if it waits for
    /// that.
    fn release(&self, Queued { share, event }: Queued) -> NetEvent {
        if carries_block(&event) {
            self.budgets.blocks_taken.fetch_add(1, Ordering::SeqCst);
        }
        let (cost, budget) = (cost(&event), self.budgets.of(share));
        let left = budget.used.fetch_sub(cost, Ordering::SeqCst) - cost;
        if left <= budget.limit / 2
            && budget.starved.swap(false, Ordering::SeqCst)
            && let Err(error) = self.waker.wake()
        {
            log::error!("The sockets' thread cannot be woken: {error}");
        }
        event
    }

    /// To wait for the next event.
    pub fn receiver(&self) -> &Receiver<Queued> {
        &self.receiver
    }
}

impl Held {
    /// Keeps an event that has to wait, and returns any other.
    fn push_if_held(&mut self, queued: Queued) -> Option<Queued> {
        let Some(peer) = queued.event.peer() else { return Some(queued) };
        if !carries_block(&queued.event) && !self.peers.contains_key(&peer) {
            return Some(queued);
        }
        *self.peers.entry(peer).or_default() += 1;
        self.events.push_back(queued);
        None
    }

    fn pop(&mut self) -> Option<Queued> {
        let queued = self.events.pop_front()?;
        if let Some(peer) = queued.event.peer()
            && let Some(count) = self.peers.get_mut(&peer)
        {
            *count -= 1;
            if *count == 0 {
                self.peers.remove(&peer);
            }
        }
        Some(queued)
    }
}

/// Whether the event may complete a block: it is one, whole or in compact form, or brings missing
/// transactions of one.
fn carries_block(event: &NetEvent) -> bool {
    matches!(event, NetEvent::Frame { frame, .. } if completes_block(frame.command))
}

/// Whether a message of this kind may complete a block.
fn completes_block(command: Command) -> bool {
    [Command::BLOCK, Command::CMPCTBLOCK, Command::BLOCKTXN].contains(&command)
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
    use godwit_stream::{BufferPool, DataStream, PoolLimits};
    use mio::{Poll, Token};

    use super::*;

    const LARGEST: usize = 4 << 20;

    fn ends() -> (Outbox, Inbox) {
        let poll = Poll::new().expect("a poll");
        let waker = Waker::new(poll.registry(), Token(0)).expect("a waker");
        channel(Arc::new(waker), InboxLimits::PRODUCT)
    }

    fn used(inbox: &Inbox, share: Share) -> u64 {
        inbox.budgets.of(share).used.load(Ordering::SeqCst)
    }

    #[test]
    fn buffers_in_the_queue_are_bounded_whatever_lies_in_them() {
        let lengths = [1, 300, 100_000, LARGEST / 4 - 1, LARGEST / 4, LARGEST / 2, LARGEST];
        for (length, share) in lengths
            .into_iter()
            .flat_map(|length| [(length, Share::Messages), (length, Share::Blocks)])
        {
            let (outbox, inbox) = ends();
            let (buffers, total_bytes) = (32, 32 * LARGEST);
            let pool = BufferPool::new(PoolLimits { buffers, buffer_bytes: LARGEST, total_bytes });
            let mut count = 0;
            while outbox.poll_room(share) {
                let mut payload = pool.take_for(LARGEST);
                payload.write(&vec![7; length]);
                let frame = Frame { command: Command::BLOCK, payload };
                assert!(outbox.of(share).send(NetEvent::Frame { peer: PeerId(1), frame }));
                count += 1;
            }
            let (mut held, mut payloads) = (0, 0);
            while let Some(NetEvent::Frame { frame, .. }) = inbox.take() {
                held += frame.payload.capacity() as u64;
                assert!(frame.payload.unread().iter().all(|byte| *byte == 7));
                payloads += usize::from(frame.payload.len() == length);
            }
            assert_eq!(payloads, count);
            let limit = inbox.budgets.of(share).limit;
            assert!(held <= limit + LARGEST as u64, "{held} bytes for {length} each");
            let fair = (length * 4) as u64 + EVENT_BYTES;
            assert!(count as u64 * fair >= limit, "only {count} of {length} bytes");
            assert_eq!(used(&inbox, share), 0);
        }
        let InboxLimits { messages, blocks } = InboxLimits::PRODUCT;
        assert_eq!(messages + blocks, INBOX_BYTES);
    }

    fn frame(peer: u64, command: Command) -> NetEvent {
        let frame = Frame { command, payload: DataStream::from(&[7; 1000][..]).into() };
        NetEvent::Frame { peer: PeerId(peer), frame }
    }

    fn names(events: impl IntoIterator<Item = NetEvent>) -> Vec<(u64, String)> {
        let name = |event| match event {
            NetEvent::Frame { peer, frame } => (peer.0, frame.command.to_string()),
            NetEvent::Closed { peer } => (peer.0, "closed".to_owned()),
            other => panic!("{other:?}"),
        };
        events.into_iter().map(name).collect()
    }

    #[test]
    fn who_sends_a_block_waits_for_the_chain_and_nobody_else() {
        let (outbox, inbox) = ends();
        let owes = outbox.of(Share::Blocks);
        for (peer, commands) in [
            (1, &[Command::PING, Command::BLOCK, Command::PING][..]),
            (2, &[Command::CMPCTBLOCK, Command::PING]),
            (3, &[Command::BLOCKTXN]),
        ] {
            assert!(commands.iter().all(|command| owes.send(frame(peer, *command))));
        }
        assert!(outbox.send(frame(4, Command::PING)));
        let now: Vec<NetEvent> = std::iter::from_fn(|| inbox.take_but_blocks()).collect();
        assert_eq!(names(now), [(1, "ping".to_owned()), (4, "ping".to_owned())]);
        assert!(inbox.holds_back());
        // What is held back is counted still.
        assert!(used(&inbox, Share::Blocks) > 5_000);
        assert_eq!(used(&inbox, Share::Messages), 0);
        // The order of each peer stays.
        assert!(owes.send(NetEvent::Closed { peer: PeerId(2) }));
        assert!(outbox.send(frame(4, Command::PONG)));
        let first = inbox.take();
        let now = std::iter::from_fn(|| inbox.take_but_blocks());
        assert_eq!(
            names(first.into_iter().chain(now)),
            [(1, "block".to_owned()), (4, "pong".to_owned())]
        );
        let rest = std::iter::from_fn(|| inbox.take());
        let expected =
            [(1, "ping"), (2, "cmpctblock"), (2, "ping"), (3, "blocktxn"), (2, "closed")];
        assert_eq!(names(rest), expected.map(|(peer, name)| (peer, name.to_owned())));
        assert!(!inbox.holds_back() && used(&inbox, Share::Blocks) == 0);
        assert!(inbox.held.borrow().peers.is_empty());
    }

    #[test]
    fn a_sender_of_blocks_is_told_which_of_them_wait() {
        let (outbox, inbox) = ends();
        let sender = outbox.of(Share::Blocks);
        assert!(!outbox.holds_block(sender.blocks_sent()));
        let mut numbers = Vec::new();
        for (peer, command) in [(1, Command::BLOCK), (2, Command::CMPCTBLOCK)] {
            assert!(sender.send(frame(peer, command)) && sender.send(frame(peer, Command::PING)));
            assert!(outbox.send(frame(3, Command::PING)));
            numbers.push(sender.blocks_sent());
        }
        let held = || numbers.iter().map(|&number| outbox.holds_block(number)).collect::<Vec<_>>();
        let free: Vec<NetEvent> = std::iter::from_fn(|| inbox.take_but_blocks()).collect();
        assert_eq!((free.len(), held()), (2, vec![true, true]));
        for expected in [[false, true], [false, true], [false, false]] {
            assert!(inbox.take().is_some());
            assert_eq!(held(), expected);
        }
    }

    #[test]
    fn blocks_that_wait_leave_room_for_messages() {
        let (outbox, inbox) = ends();
        let mut count = 0;
        while outbox.poll_room(Share::Blocks) {
            assert!(outbox.of(Share::Blocks).send(frame(1, Command::BLOCK)));
            count += 1;
        }
        assert!(outbox.poll_room(Share::Messages));
        assert!(inbox.take_but_blocks().is_none());
        assert!(!outbox.poll_room(Share::Blocks), "nothing was taken");
        while inbox.take().is_some() {
            count -= 1;
        }
        assert!(count == 0 && outbox.poll_room(Share::Blocks));
    }
}

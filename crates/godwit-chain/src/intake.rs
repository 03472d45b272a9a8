//! Blocks from peers: any number under way, in any order, with any content.
//!
//! [`Chain::receive_block`] hands a block's bytes to a worker, which decodes them and applies the
//! structural rules; [`Chain::poll`] accepts what came back (contextual rules, appended to the block
//! files) and moves the tip. The verdict on each is an event that carries the caller's ticket. A
//! malformed block leaves no trace, as with [`Chain::submit`]: its bytes may be a forged copy of a
//! good block.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select};
use godwit_primitives::BlockHash;
use godwit_store::{BlockPosition, StoreError};
use godwit_stream::{DataStream, PooledStream};

use crate::chain::{AcceptError, Chain};
use crate::error::ChainError;
use crate::event::Event;
use crate::message::{Message, report_from};
use crate::structure::{Received, structure};
use crate::tree::NodeId;
use crate::window::Step;

/// Bytes of received blocks that are being decoded or wait to be accepted, where the options say nothing
/// else ([`BlockMemory`](crate::BlockMemory)); what is left of it is the [`Chain::room`]. Sixteen blocks
/// of the largest size, some forty usual ones: a full pipe of a gigabit line over 0.5 s of round trip.
pub const RECEIVING_BYTES: u64 = 64 << 20;

/// What [`Chain::poll`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Poll {
    /// Something changed; there may be more to do.
    Progress,
    /// Nothing can be done before a worker or the commit thread reports.
    Waiting,
    /// Every received block has its verdict and the best candidate is the tip.
    Idle,
}

/// Blocks that workers decode or read at once. Each will send one message; what is more waits here, so
/// that the inbox never fills up however many there are.
const MAX_JOBS: usize = 256;

/// A received block with its worker's answer.
pub(crate) struct Arrival {
    ticket: u64,
    memory: u64,
    received: Received,
}

/// What a worker is to do.
enum Job {
    Decode { ticket: u64, bytes: PooledStream },
    Read { ticket: u64, position: BlockPosition },
}

/// Blocks that are under way to their verdict, or to whoever asked for them.
#[derive(Default)]
pub(crate) struct Feed {
    /// Memory of received blocks without a verdict.
    receiving: u64,
    /// Jobs that no worker has yet.
    queue: VecDeque<Job>,
    /// Jobs that workers have.
    jobs: usize,
    arrivals: VecDeque<Arrival>,
}

impl Feed {
    fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.jobs == 0 && self.arrivals.is_empty()
    }
}

impl Chain {
    /// Takes the bytes of one block from a peer; bytes behind it are ignored. The verdict comes as
    /// [`Event::Stored`] or [`Event::Refused`] with this ticket. Never waits; the caller heeds
    /// [`room`](Self::room), or memory grows.
    pub fn receive_block(&mut self, bytes: PooledStream, ticket: u64) {
        let bytes = bytes.in_proportion();
        self.feed.receiving += bytes.capacity() as u64;
        self.feed.queue.push_back(Job::Decode { ticket, bytes });
        self.start_jobs();
    }

    /// Bytes of blocks that can be taken now without exceeding [`BlockMemory::receiving`].
    ///
    /// [`BlockMemory::receiving`]: crate::BlockMemory::receiving
    pub fn room(&self) -> u64 {
        self.options.block_memory.receiving.saturating_sub(self.receiving())
    }

    /// Bytes of blocks that are decoded or wait to be accepted: as long as nothing is handed in without
    /// [`room`](Self::room), at most [`BlockMemory::receiving`] and one block.
    ///
    /// [`BlockMemory::receiving`]: crate::BlockMemory::receiving
    pub fn receiving(&self) -> u64 {
        self.feed.receiving
    }

    /// Memory of the received blocks that wait for their turn: at most [`BlockMemory::waiting`].
    ///
    /// [`BlockMemory::waiting`]: crate::BlockMemory::waiting
    pub fn waiting_memory(&self) -> usize {
        self.cache.memory()
    }

    /// Starts to read a stored block; the bytes come as [`Event::Read`]. Workers read, so that a slow
    /// disk does not hold up connecting.
    pub fn read_block(&mut self, id: NodeId, ticket: u64) {
        if id == self.tree.genesis() {
            let bytes = DataStream::from(&self.params.genesis_block()[..]);
            self.events.push_back(Event::Read { ticket, bytes: Some(bytes.into()) });
        } else if let Some(position) = self.tree.node(id).position {
            self.feed.queue.push_back(Job::Read { ticket, position });
            self.start_jobs();
        } else {
            self.events.push_back(Event::Read { ticket, bytes: None });
        }
    }

    /// Does what can be done without waiting, a little at a time.
    ///
    /// # Errors
    ///
    /// A fault of this node, after which the chain is to be dropped or closed.
    pub fn poll(&mut self) -> Result<Poll, ChainError> {
        if self.next_is_acceptable()
            && let Some(arrival) = self.feed.arrivals.pop_front()
        {
            self.take_in(arrival)?;
        }
        let step = self.step()?;
        self.start_jobs();
        Ok(match step {
            Step::Progress => Poll::Progress,
            _ if self.next_is_acceptable() => Poll::Progress,
            Step::Idle if self.feed.is_idle() => Poll::Idle,
            Step::Waiting | Step::Idle => Poll::Waiting,
        })
    }

    /// Waits until a worker or the commit thread has reported, `other` has a message (which stays
    /// there) or is closed, or the time is over.
    pub fn wait_with<T>(&mut self, other: &Receiver<T>, timeout: Duration) {
        let start = Instant::now();
        let mut select = Select::new();
        select.recv(&self.inbox);
        select.recv(other);
        // Whatever it was, the caller looks again.
        let (Ok(_) | Err(_)) = select.ready_timeout(timeout);
        self.times.wait += start.elapsed();
    }

    fn start_jobs(&mut self) {
        while self.feed.jobs < MAX_JOBS
            && let Some(job) = self.feed.queue.pop_front()
        {
            self.feed.jobs += 1;
            match job {
                Job::Decode { ticket, bytes } => self.start_decoding(ticket, bytes),
                Job::Read { ticket, position } => self.start_reading(ticket, position),
            }
        }
    }

    fn start_decoding(&self, ticket: u64, bytes: PooledStream) {
        let memory = bytes.capacity() as u64;
        let (params, hasher) = (Arc::clone(&self.params), self.hasher);
        report_from(&self.workers, &self.outbox, move || {
            let received = structure(bytes, &params, &hasher, None);
            Message::Arrived(Arrival { ticket, memory, received })
        });
    }

    fn start_reading(&self, ticket: u64, position: BlockPosition) {
        let store = Arc::clone(&self.store);
        report_from(&self.workers, &self.outbox, move || {
            let bytes = store.read_block(position);
            Message::Read { ticket, bytes }
        });
    }

    pub(crate) fn note_arrival(&mut self, arrival: Arrival) {
        self.feed.jobs -= 1;
        self.feed.arrivals.push_back(arrival);
    }

    /// A block that cannot be read is not served; if the chain needs it, it will say so itself.
    pub(crate) fn note_read(&mut self, ticket: u64, bytes: Result<PooledStream, StoreError>) {
        self.feed.jobs -= 1;
        let bytes = bytes.map_err(|error| match error.is_not_found() {
            true => log::debug!("A block was pruned before it was read: {error}"),
            false => log::error!("A stored block is not served: {error}"),
        });
        self.events.push_back(Event::Read { ticket, bytes: bytes.ok() });
    }

    /// Whether the first arrival may be stored now. One whose parent is not stored has to wait for the
    /// commit of an index that holds the headers below: after a crash it would be a block without a
    /// known parent, and be fetched again.
    fn next_is_acceptable(&mut self) -> bool {
        let Some(arrival) = self.feed.arrivals.front() else { return false };
        let Received::Structured(block) = &arrival.received else { return true };
        let parent = self.tree.find(&block.header().prev_blockhash);
        let named = parent.is_none_or(|parent| {
            parent.index() < self.durable_headers || self.tree.node(parent).position.is_some()
        });
        if !named && !self.committer.is_busy() {
            self.commit_index();
        }
        named
    }

    fn take_in(&mut self, arrival: Arrival) -> Result<(), ChainError> {
        let Arrival { ticket, memory, received } = arrival;
        self.feed.receiving -= memory;
        let refused = |hash, reject| Event::Refused { ticket, hash, reject };
        let event = match received {
            Received::Undecodable => refused(None, None),
            Received::Unjudged(error) => return Err(ChainError::Engine(error)),
            Received::Malformed { hash, reject, .. } => refused(Some(hash), Some(reject)),
            Received::Structured(block) => {
                let start = Instant::now();
                let accepted = self.accept_structured(&block, None);
                self.times.accept += start.elapsed();
                let hash: BlockHash = block.hash();
                match accepted {
                    Ok(stored) => Event::Stored { ticket, hash, new: stored.new },
                    Err(AcceptError::Rejected(reject)) => refused(Some(hash), Some(reject)),
                    Err(AcceptError::Chain(error)) => return Err(error),
                }
            }
        };
        self.events.push_back(event);
        Ok(())
    }
}

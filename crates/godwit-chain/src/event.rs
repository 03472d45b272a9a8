//! Events of the chain, for its driver.

use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use godwit_consensus::{Reject, Verdict};
use godwit_primitives::{BlockHash, BlockView, Txid};
use godwit_store::ChainPoint;
use godwit_stream::PooledStream;

use crate::apply::Resolved;
use crate::left_blocks::LeftBlocks;
use crate::tree::NodeId;
use crate::verify::Recorded;

/// Where a block came from; its verdict names this again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A peer; the number is the caller's ([`Chain::receive_block`](crate::Chain::receive_block)).
    Peer {
        /// The caller's number.
        ticket: u64,
    },
    /// A record of an import.
    Record {
        /// Its place in the order of the plan.
        sequence: u64,
    },
    /// A caller that waits ([`Chain::submit`](crate::Chain::submit)).
    Caller,
}

/// What happened to the active chain, or to a block that was handed in or requested.
pub enum Event {
    /// A block was connected: everything about it is verified, or was assumed valid.
    Connected(Connected),
    /// What is in the block whose [`Connected`](Self::Connected) follows, for a driver that asked to be shown
    /// ([`show_blocks`](crate::show_blocks)) and takes events in each turn.
    Contents(BlockContents),
    /// This block was disconnected; its parent is the tip.
    Disconnected(Disconnected),
    /// A block was found invalid when it was connected.
    Invalid { hash: BlockHash, reject: Reject },
    /// The bytes of a stored block are damaged: it is to be fetched and handed in again, if the driver does
    /// ([`Chain::expect_copies`](crate::Chain::expect_copies)); otherwise the chain ends. Or a block below
    /// the tip was missing when the chain was opened: no block is connected before it is handed in.
    Lost { hash: BlockHash },
    /// A block that was handed in has its verdict. One that is stored will be connected when its chain
    /// is complete and the best.
    Judged {
        /// Where it came from.
        source: Source,
        /// The block; `None` for bytes that are no block.
        hash: Option<BlockHash>,
        verdict: Verdict,
    },
    /// A stored block was read.
    Read {
        /// As given to [`Chain::read_block`](crate::Chain::read_block).
        ticket: u64,
        /// Exactly the block; `None` where it is not stored or could not be read.
        bytes: Option<PooledStream>,
    },
}

/// A connected block. The block itself is not part of it: events may wait for long, and blocks are
/// large.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Hash and height.
    pub point: ChainPoint,
    /// Length of the block in bytes.
    pub bytes: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disconnected {
    /// Hash and height.
    pub point: ChainPoint,
    /// What created its subsidy: transactions that spend it may have nothing to spend on another branch.
    pub coinbase: Txid,
}

/// A block that is being connected, with the memory that the window has had it in.
pub struct BlockContents(Arc<Resolved>);

impl BlockContents {
    pub fn view(&self) -> BlockView<'_> {
        self.0.block().view()
    }
}

/// Events that were not taken.
#[derive(Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    /// The driver is shown what is in blocks.
    pub(crate) shows_blocks: bool,
    /// What readers are shown that take no events.
    pub(crate) left: LeftBlocks,
}

impl Events {
    pub(crate) fn connected(&mut self, recorded: &Recorded, connected: Connected) {
        if self.shows_blocks {
            self.queue.push_back(Event::Contents(BlockContents(recorded.shared())));
        }
        self.queue.push_back(Event::Connected(connected));
    }

    pub(crate) fn disconnected(&mut self, id: NodeId, left: Disconnected) {
        self.left.note(id);
        self.queue.push_back(Event::Disconnected(left));
    }
}

impl Deref for Events {
    type Target = VecDeque<Event>;

    fn deref(&self) -> &Self::Target {
        &self.queue
    }
}

impl DerefMut for Events {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.queue
    }
}

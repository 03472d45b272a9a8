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

/// The origin of a block, which its verdict repeats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A peer, by the caller's number ([`Chain::receive_block`](crate::Chain::receive_block)).
    Peer {
        /// The caller's number.
        ticket: u64,
    },
    /// A record of an import.
    Record {
        /// Its place in the order of the plan.
        sequence: u64,
    },
    /// A caller that waits for the verdict ([`Chain::submit`](crate::Chain::submit)).
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
    /// The bytes of a stored block are damaged, or a block below the tip was missing when the chain was
    /// opened. A driver that fetches blocks has to fetch it and hand it in again
    /// ([`Chain::expect_copies`](crate::Chain::expect_copies)). If the driver fetches none, damage ends the
    /// chain; while a block is missing, none is connected.
    Lost { hash: BlockHash },
    /// A block that was handed in has its verdict. A stored block is connected once its chain is complete and
    /// the best.
    Judged {
        /// Where it came from.
        source: Source,
        /// The block's hash; `None` if the bytes are not a block.
        hash: Option<BlockHash>,
        verdict: Verdict,
    },
    /// A stored block was read.
    Read {
        /// The number given to [`Chain::read_block`](crate::Chain::read_block).
        ticket: u64,
        /// The block's bytes, nothing else; `None` if it is not stored or could not be read.
        bytes: Option<PooledStream>,
    },
}

/// A connected block, without its bytes: events may wait for long, and blocks are large.
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
    /// The id of its coinbase. On another branch, transactions that spend it may find nothing to spend.
    pub coinbase: Txid,
}

/// A block that is being connected; holds the memory that the window held for it.
pub struct BlockContents(Arc<Resolved>);

impl BlockContents {
    pub fn view(&self) -> BlockView<'_> {
        self.0.block().view()
    }
}

/// Events that the driver has not taken yet.
#[derive(Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    /// Whether the driver gets [`Event::Contents`].
    pub(crate) shows_blocks: bool,
    /// Blocks that were left, for readers that take no events.
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

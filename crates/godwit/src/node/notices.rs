//! Notices about the chain and the outbox for subscribers (`-zmqpub...`).

use std::cmp::Reverse;

use godwit_api::{Notice, NoticedBlock, Notices, Zmq, ZmqError};
use godwit_chain::{Chain, NodeId, StoredData, heading};
use godwit_primitives::{BlockHash, Work};

use crate::exit::Exit;
use crate::failure::{Failure, Fatal};
use crate::memory::{self, MemoryPlan};
use crate::options::Config;

impl Fatal for ZmqError {
    fn exit(&self) -> Exit {
        match self {
            Self::Bind(..) => Exit::CannotListen,
            Self::Start(_) => Exit::Failure,
        }
    }
}

/// The part of the answers' memory that messages have, where there are any.
const SHARE: usize = 2;

/// The memory of answers, and of messages that wait.
pub(super) fn memory(config: &Config) -> (usize, usize) {
    let answers = MemoryPlan::of(config, memory::available()).answers;
    let messages = if config.zmq.is_empty() { 0 } else { answers / SHARE };
    (answers - messages, messages)
}

/// Starts the publisher, if anything is to be published.
pub(super) fn start(config: &Config, chain: &Chain) -> Result<Option<(Zmq, Announcer)>, Failure> {
    if config.zmq.is_empty() {
        return Ok(None);
    }
    let reader = StoredData::of(chain).reader();
    let (zmq, notices) = Zmq::start(&config.zmq, reader, memory(config).1)?;
    Ok(Some((zmq, Announcer::new(notices))))
}

/// How good a tip is: it has more work, or as much and became connectable earlier.
type Rank = (Work, Reverse<u64>);

/// The best tip that was left for a better one: of the blocks on the way nobody is told that they are the tip
/// (Core announces where `ActivateBestChain` has come to).
#[derive(Debug, Default)]
struct Left {
    best: Option<Rank>,
    /// The block that was connected last has as much work and was there earlier: it is a new tip only if
    /// the way ends there (`ActivateBestChainStep` ends at more work, or at the end of its way).
    is_level: bool,
}

impl Left {
    /// A tip was left; one that is invalid is left for good.
    fn leave(&mut self, rank: Rank, is_invalid: bool) {
        self.is_level = false;
        if !is_invalid {
            self.best = self.best.max(Some(rank));
        }
    }

    /// A block was connected, and perhaps the chain goes no farther. Whether it is a new tip to others.
    fn connect(&mut self, rank: Rank, is_last: bool) -> bool {
        let is_better = self.best.is_none_or(|left| rank > left);
        let has_more_work = self.best.is_none_or(|left| rank.0 > left.0);
        self.is_level = is_better && !has_more_work;
        has_more_work && self.come() || is_last && self.rest()
    }

    /// There is a new tip.
    fn come(&mut self) -> bool {
        *self = Self::default();
        true
    }

    /// The chain goes no farther. Whether the block that was connected last is a new tip by that.
    fn rest(&mut self) -> bool {
        self.is_level && self.come()
    }
}

fn rank(chain: &Chain, id: NodeId) -> Rank {
    (chain.tree().chain_work(id), Reverse(chain.tree().node(id).sequence))
}

/// Notices that are held until what they tell is answered to those who ask: of a turn, or of all turns of a
/// reorganisation. Where there are more, those held are told at once.
const MAX_HELD: usize = 64;

/// Tells of blocks, and of what begins and ceases to wait for one.
#[derive(Default)]
pub(super) struct Announcer {
    /// Nobody, where nothing is published.
    to: Option<Notices>,
    /// Not told yet, oldest first.
    held: Vec<Notice>,
    /// Blocks on the way to a better tip than the one that was left. They are told of behind the transactions
    /// that wait no longer, and those that wait again (Core: `ActivateBestChain` tells of blocks at the end
    /// of each step, and the mempool of its changes during it).
    on_the_way: Vec<Notice>,
    left: Left,
}

impl Announcer {
    fn new(to: Notices) -> Self {
        Self { to: Some(to), ..Self::default() }
    }

    /// The block was connected; it is told of if `is_told`, as soon as the chain has [arrived](Self::arrive).
    /// Whether it is a new tip to others.
    pub(super) fn connected(&mut self, chain: &Chain, hash: &BlockHash, is_told: bool) -> bool {
        let Some(id) = chain.tree().find(hash) else { return false };
        let is_new_tip = self.left.connect(rank(chain, id), heading(chain) == id);
        if is_told {
            if self.on_the_way.len() == MAX_HELD {
                self.arrive();
            }
            self.on_the_way.push(Notice::Connected { block: noticed(chain, id), is_new_tip });
        }
        is_new_tip
    }

    /// The chain goes no farther than the block that was connected last: the next one is invalid, or there is
    /// none. Whether it is a new tip to others by that.
    pub(super) fn rested(&mut self) -> bool {
        let is_new_tip = self.left.rest();
        if is_new_tip && let Some(Notice::Connected { is_new_tip, .. }) = self.on_the_way.last_mut()
        {
            *is_new_tip = true;
        }
        is_new_tip
    }

    /// The block was disconnected; it is told of if `is_told`. Whether it is invalid, and left for good.
    pub(super) fn disconnected(&mut self, chain: &Chain, hash: &BlockHash, is_told: bool) -> bool {
        let Some(id) = chain.tree().find(hash) else { return false };
        let is_invalid = chain.tree().node(id).failed;
        self.left.leave(rank(chain, id), is_invalid);
        if is_told {
            self.arrive();
            self.hold(Notice::Disconnected(noticed(chain, id)));
        }
        is_invalid
    }

    /// The chain has come to where others may see it.
    pub(super) fn arrive(&mut self) {
        for notice in std::mem::take(&mut self.on_the_way) {
            self.hold(notice);
        }
    }

    /// Holds a notice until [`Self::tell`].
    pub(super) fn hold(&mut self, notice: Notice) {
        if self.held.len() == MAX_HELD {
            self.tell();
        }
        self.held.push(notice);
    }

    /// Tells what is held.
    pub(super) fn tell(&mut self) {
        for notice in self.held.drain(..) {
            if let Some(to) = &self.to {
                to.tell(notice);
            }
        }
    }
}

fn noticed(chain: &Chain, id: NodeId) -> NoticedBlock {
    let node = chain.tree().node(id);
    NoticedBlock {
        hash: node.hash,
        tx_count: node.tx_count,
        stored: StoredData::of(chain).block(id),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rank(work: u64, sequence: u64) -> Rank {
        (Work::from(work), Reverse(sequence))
    }

    #[test]
    fn on_the_way_to_a_better_tip_no_block_is_the_tip() {
        let mut left = Left::default();
        assert!(left.connect(rank(5, 1), false) && left.connect(rank(6, 2), true));
        // Down to 3, up to 7: 6 is as much, and came later.
        [6, 5, 4].into_iter().for_each(|n| left.leave(rank(n, n), false));
        let tips: Vec<bool> = (4..=8).map(|n| left.connect(rank(n, 10 + n), n == 8)).collect();
        assert_eq!(tips, [false, false, false, true, true]);
    }

    #[test]
    fn of_two_with_equal_work_the_earlier_one_is_better_and_the_same_one_is_not() {
        let mut left = Left::default();
        left.leave(rank(6, 3), false);
        assert!(!left.connect(rank(6, 3), true) && left.connect(rank(6, 2), true));
    }

    /// o1 of three blocks o0, o1, o2, when n2 of n0, n1, n2, which came later, is found invalid: it has the
    /// work of n1.
    #[test]
    fn with_equal_work_a_block_is_the_tip_only_if_the_chain_stays_there() {
        let left_for_earlier = || {
            let mut left = Left::default();
            left.leave(rank(3, 6), true);
            [2, 1].into_iter().for_each(|n| left.leave(rank(n, 3 + n), false));
            assert!(!left.connect(rank(1, 1), false) && !left.connect(rank(2, 2), false));
            left
        };
        let mut left = left_for_earlier();
        assert!(left.connect(rank(3, 3), true));
        assert!(!left.rest(), "of what is on the way nothing is told later");
        // The next one is invalid.
        let mut left = left_for_earlier();
        assert!(left.rest() && !left.rest());
        // It is left without that.
        let mut left = left_for_earlier();
        left.leave(rank(2, 2), false);
        assert!(!left.rest());
        // What has less work, or came later, is no tip where the chain is for a moment.
        let mut left = left_for_earlier();
        left.leave(rank(2, 2), false);
        assert!(!left.connect(rank(2, 9), false) && !left.rest());
    }

    #[test]
    fn an_invalid_tip_is_left_for_good() {
        let mut left = Left::default();
        [6, 5].into_iter().for_each(|n| left.leave(rank(n, n), true));
        assert!(left.connect(rank(5, 9), false) && left.connect(rank(6, 10), true));
    }
}

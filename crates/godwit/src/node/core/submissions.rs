//! Blocks that callers handed in and whose verdicts they still wait for.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::Sender;
use godwit_api::{BlockOutcome, Reject};
use godwit_chain::NodeId;
use godwit_primitives::BlockHash;

/// How long a caller waits for the chain to come to rest, once it is known what becomes of the block itself.
/// Core answers behind `ActivateBestChain`, however long that takes; here a download may be under way, whose
/// blocks are connected for days.
const SETTLING: Duration = Duration::from_secs(10);

/// Who handed a block in.
pub(super) enum Submitted {
    /// The engine, for a peer.
    Engine(BlockHash),
    /// A program that asks the node.
    Caller {
        caller: Sender<BlockOutcome>,
        /// The block, if it was pruned and is wanted again for the caller alone.
        returning: Option<NodeId>,
    },
}

/// A block that is stored, and whose caller is not answered before the chain is where it goes to.
struct Settling {
    hash: BlockHash,
    caller: Sender<BlockOutcome>,
    /// As far as it is known.
    outcome: BlockOutcome,
    until: Duration,
}

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Submissions {
    /// Those without a verdict, by ticket.
    waiting: HashMap<u64, Submitted>,
    next_ticket: u64,
    settling: Vec<Settling>,
}

/// Tells who handed a block in. He may be gone.
pub(super) fn tell_outcome(to: &Sender<BlockOutcome>, outcome: BlockOutcome) {
    if to.try_send(outcome).is_err() {
        log::debug!("nobody waits for the verdict on a block any more");
    }
}

impl Submissions {
    /// A block goes to the chain. Returns its ticket.
    pub(super) fn add(&mut self, from: Submitted) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.waiting.insert(ticket, from);
        ticket
    }

    /// The chain has its first verdict.
    ///
    /// # Panics
    ///
    /// Of a ticket that was taken before.
    pub(super) fn take(&mut self, ticket: u64) -> Submitted {
        self.waiting.remove(&ticket).expect("each ticket is answered once")
    }

    /// The block is stored, now or before; the caller is answered with [`Self::answer`].
    pub(super) fn settle(
        &mut self,
        now: Duration,
        hash: BlockHash,
        caller: Sender<BlockOutcome>,
        outcome: BlockOutcome,
    ) {
        self.settling.push(Settling { hash, caller, outcome, until: now + SETTLING });
    }

    /// The block has become the tip, if only for a moment.
    pub(super) fn connected(&mut self, now: Duration, hash: &BlockHash) {
        self.decided(now, hash, BlockOutcome::Connected);
    }

    /// The block was to become the tip, and breaks a rule.
    pub(super) fn rejected(&mut self, now: Duration, hash: &BlockHash, reject: Reject) {
        self.decided(now, hash, BlockOutcome::Rejected(reject));
    }

    fn decided(&mut self, now: Duration, hash: &BlockHash, outcome: BlockOutcome) {
        let is_it =
            |entry: &&mut Settling| entry.hash == *hash && entry.outcome == BlockOutcome::Stored;
        for entry in self.settling.iter_mut().filter(is_it) {
            (entry.outcome, entry.until) = (outcome, now + SETTLING);
        }
    }

    /// Whether anybody waits for the chain to come to rest.
    pub(super) fn is_settling(&self) -> bool {
        !self.settling.is_empty()
    }

    /// Answers those that need not wait any longer: the chain rests; or it goes on for long, and not to their
    /// blocks, as `leads_to` knows.
    pub(super) fn answer(
        &mut self,
        now: Duration,
        rests: bool,
        leads_to: impl Fn(&BlockHash) -> bool,
    ) {
        self.settling.retain(|entry| {
            let is_open = || entry.outcome == BlockOutcome::Stored && leads_to(&entry.hash);
            let waits = !rests && (now < entry.until || is_open());
            if !waits {
                tell_outcome(&entry.caller, entry.outcome);
            }
            waits
        });
    }
}

#[cfg(test)]
mod tests {
    use crossbeam_channel::{Receiver, TryRecvError, bounded};

    use super::*;

    const HASH: BlockHash = BlockHash::from_bytes([1; 32]);
    const START: Duration = Duration::from_secs(100);
    const BEFORE_END: Duration = Duration::from_millis(109_999);
    const END: Duration = Duration::from_secs(110);

    fn settling(outcome: BlockOutcome) -> (Submissions, Receiver<BlockOutcome>) {
        let (mut submissions, (caller, answer)) = (Submissions::default(), bounded(1));
        submissions.settle(START, HASH, caller, outcome);
        (submissions, answer)
    }

    /// The answer to the first caller after a turn at a moment.
    fn turn(
        (submissions, answer): &mut (Submissions, Receiver<BlockOutcome>),
        now: Duration,
        rests: bool,
        leads: bool,
    ) -> Result<BlockOutcome, TryRecvError> {
        submissions.answer(now, rests, |hash| *hash == HASH && leads);
        answer.try_recv()
    }

    #[test]
    fn a_caller_waits_until_the_chain_rests_whatever_becomes_of_the_block() {
        for connects in [false, true] {
            let mut of = settling(BlockOutcome::Stored);
            assert_eq!(turn(&mut of, START, false, true), Err(TryRecvError::Empty));
            if connects {
                of.0.connected(START, &HASH);
                of.0.connected(START, &BlockHash::ZERO);
            }
            assert_eq!(turn(&mut of, START, false, !connects), Err(TryRecvError::Empty));
            let expected = if connects { BlockOutcome::Connected } else { BlockOutcome::Stored };
            assert_eq!(turn(&mut of, START, true, !connects), Ok(expected));
            assert!(!of.0.is_settling());
        }
        // A copy stays one when the first one is connected.
        let mut of = settling(BlockOutcome::Duplicate);
        of.0.connected(START, &HASH);
        assert_eq!(turn(&mut of, START, true, false), Ok(BlockOutcome::Duplicate));
    }

    #[test]
    fn the_wait_for_other_blocks_is_bounded_and_that_for_the_own_verdict_is_not() {
        for outcome in [BlockOutcome::Stored, BlockOutcome::Duplicate] {
            let mut of = settling(outcome);
            assert_eq!(turn(&mut of, BEFORE_END, false, false), Err(TryRecvError::Empty));
            assert_eq!(turn(&mut of, END, false, false), Ok(outcome));
        }
        let mut of = settling(BlockOutcome::Stored);
        let later = START * 100;
        assert_eq!(turn(&mut of, later, false, true), Err(TryRecvError::Empty));
        of.0.connected(later, &HASH);
        assert_eq!(turn(&mut of, later, false, true), Err(TryRecvError::Empty));
        let end = later + SETTLING;
        assert_eq!(turn(&mut of, end, false, true), Ok(BlockOutcome::Connected));
    }
}

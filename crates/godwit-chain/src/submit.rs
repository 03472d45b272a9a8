//! One block at a time, to a verdict: what Core's `submitblock` does.

use std::sync::Arc;

use godwit_primitives::BlockHash;

use crate::chain::{AcceptError, Chain, Verdict};
use crate::error::ChainError;
use crate::event::Event;
use crate::structure::{Received, Structured};

impl Chain {
    /// Judges a block completely before it returns. Core checks the block by itself before it looks
    /// at its header's place, so a malformed block leaves no trace.
    pub fn submit(&mut self, received: Received) -> Result<Verdict, ChainError> {
        match received {
            Received::Undecodable => Ok(Verdict::Undecodable),
            Received::Unjudged(error) => Err(ChainError::Engine(error)),
            Received::Malformed { reject, .. } => Ok(Verdict::Rejected(reject)),
            Received::Structured(block) => self.submit_structured(&block),
        }
    }

    fn submit_structured(&mut self, block: &Arc<Structured>) -> Result<Verdict, ChainError> {
        let stored = match self.accept_structured(block, None) {
            Ok(stored) => stored,
            Err(AcceptError::Rejected(reject)) => return Ok(Verdict::Rejected(reject)),
            Err(AcceptError::Chain(error)) => return Err(error),
        };
        let first_new_event = self.events.len();
        self.settle()?;
        if !stored.new {
            return Ok(Verdict::Duplicate);
        }
        let hash = block.hash();
        let events = self.events.iter().skip(first_new_event);
        Ok(events.rev().find_map(|event| judged(event, hash)).unwrap_or(Verdict::Inconclusive))
    }
}

/// The verdict that an event holds on the block `hash`.
fn judged(event: &Event, hash: BlockHash) -> Option<Verdict> {
    match event {
        Event::Connected(connected) if connected.point.hash == hash => Some(Verdict::Accepted),
        Event::Invalid { hash: invalid, reject } if *invalid == hash => {
            Some(Verdict::Rejected(*reject))
        }
        _ => None,
    }
}

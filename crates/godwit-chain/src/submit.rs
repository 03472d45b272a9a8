//! One block at a time, to a verdict: what Core's `submitblock` does.

use godwit_consensus::Verdict;
use godwit_primitives::BlockHash;

use crate::chain::Chain;
use crate::error::ChainError;
use crate::event::{Event, Source};
use crate::intake::Arrival;
use crate::structure::Received;

impl Chain {
    /// Judges a block completely before it returns. Core checks the block by itself before it looks
    /// at its header's place, so a malformed block leaves no trace. `now` is in seconds since 1970.
    pub fn submit(&mut self, received: Received, now: i64) -> Result<Verdict, ChainError> {
        let first_new_event = self.events.len();
        let source = Source::Caller;
        self.intake.arrived(Arrival {
            source,
            received,
            ends_early: None,
            charge: 0,
            permit: None,
        });
        self.settle(now)?;
        let mut verdict = None;
        for event in self.events.iter().skip(first_new_event) {
            match event {
                Event::Judged { source: Source::Caller, hash, verdict: judged } => {
                    verdict = Some((*hash, *judged));
                }
                Event::Connected(connected) => {
                    replace(&mut verdict, connected.point.hash, Verdict::Connected);
                }
                Event::Invalid { hash, reject } => {
                    replace(&mut verdict, *hash, Verdict::Rejected(*reject));
                }
                _ => {}
            }
        }
        Ok(verdict.expect("every arrival is judged").1)
    }
}

/// A new block that is stored gets its last verdict from its being connected.
fn replace(verdict: &mut Option<(Option<BlockHash>, Verdict)>, of: BlockHash, by: Verdict) {
    if let Some((Some(hash), verdict)) = verdict
        && *hash == of
        && matches!(*verdict, Verdict::Stored | Verdict::Connected)
    {
        *verdict = by;
    }
}

//! The chains of a run: the best one, rivals, and chains that look better but are invalid.

use std::sync::Arc;

use super::branch::Branch;
use super::forge::{self, Flaw};
use crate::chain::generated;
use crate::hostile::reorganisations;
use crate::plan::ChainPlan;

/// Chains that are made once and shared by all runs.
#[derive(Debug)]
pub struct World {
    /// Name for messages.
    pub name: &'static str,
    /// The chain with the most work of the valid ones.
    pub best: Arc<Branch>,
    /// Valid chains with less work. None contains another.
    pub stale: Vec<Arc<Branch>>,
    /// Chains with more work than the best one, each with an invalid block.
    pub invalid: Vec<Arc<Branch>>,
    /// Height up to which headers must be linked before any is stored (`-minimumchainwork`).
    pub minimum_height: u32,
}

/// Blocks of an invalid branch above the height of the best one.
const LEAD: u32 = 3;

impl World {
    /// Two branches of more than a hundred blocks that spend the same coins, on a common base of as
    /// many: 216 blocks.
    pub fn reorganising() -> Self {
        let all = reorganisations();
        let reorganisation = all.iter().max_by_key(|case| case.depth).expect("there are some");
        let base = Branch::genesis().extended(reorganisation.base.clone());
        let best = base.extended(reorganisation.first.clone());
        let second = base.extended(reorganisation.second.clone());
        let late = best.height() - 9;
        let short = forge::extended_by_empty(&best.truncated(late), 8, 5);
        Self::with("reorganising", best, vec![second, short])
    }

    /// A chain of all script types with blocks of up to 30 KB: 208 blocks.
    pub fn mixed() -> Self {
        let plan = ChainPlan { empty_tail: 45, block_weight: 60_000, ..ChainPlan::small(3) };
        let best = Branch::genesis().extended(generated(&plan));
        let fork = |below, count, nonce| {
            forge::extended_by_empty(&best.truncated(best.height() - below), count, nonce)
        };
        let stale = vec![fork(2, 1, 1), fork(7, 5, 2), fork(60, 58, 3)];
        Self::with("mixed", best.clone(), stale)
    }

    /// More headers than fit a message, and a minimum of work that takes more than one: the headers
    /// are synchronised twice (Core `headerssync.h`).
    pub fn long() -> Self {
        let plan = ChainPlan { empty_tail: 2_250, block_weight: 20_000, ..ChainPlan::small(4) };
        let best = Branch::genesis().extended(generated(&plan));
        let fork = best.height() - 30;
        let stale = forge::extended_by_empty(&best.truncated(fork), 29, 1);
        let minimum_height = best.height() - 50;
        Self { minimum_height, ..Self::with("long", best, vec![stale]) }
    }

    fn with(name: &'static str, best: Branch, stale: Vec<Branch>) -> Self {
        let height = best.height();
        let signed = (0..height - 1)
            .rev()
            .find(|fork| forge::has_signature(&best.at(fork + 1).expect("below the tip").bytes));
        let signed = signed.expect("a chain with signatures");
        let flaws = [
            (height - 2, Flaw::Overpaid),
            (height / 2, Flaw::Overpaid),
            (signed, Flaw::Signature),
            (height - 5, Flaw::Height),
        ];
        let invalid = flaws.map(|(fork, flaw)| {
            Arc::new(forge::invalid_branch(&best, fork, flaw, height + LEAD - fork - 1))
        });
        Self {
            name,
            best: Arc::new(best),
            stale: stale.into_iter().map(Arc::new).collect(),
            invalid: invalid.into(),
            minimum_height: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worlds_have_200_blocks_rivals_and_invalid_chains_with_more_work() {
        for world in [World::reorganising(), World::mixed(), World::long()] {
            assert!(world.best.height() >= 200, "{}: {}", world.name, world.best.height());
            for stale in &world.stale {
                assert!(stale.height() < world.best.height(), "{}", world.name);
            }
            for invalid in &world.invalid {
                assert_eq!(invalid.height(), world.best.height() + LEAD, "{}", world.name);
            }
        }
    }
}

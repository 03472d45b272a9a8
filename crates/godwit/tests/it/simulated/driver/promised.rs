//! What must be there after a power cut: what was there a minute before.

use std::collections::VecDeque;
use std::time::Duration;

use godwit_chain::Validity;
use godwit_primitives::BlockHash;

use super::Driver;

/// What must survive a power cut that comes so much later.
pub(in crate::simulated) const BOUND: Duration = Duration::from_secs(60);

/// Time from one look at the node to the next.
const INTERVAL: Duration = Duration::from_secs(1);

/// The node at some time of its life.
#[derive(Clone, Copy, Debug)]
pub(in crate::simulated) struct Had {
    pub(in crate::simulated) at: Duration,
    stored: usize,
    best_header: BlockHash,
    /// The tip, which may be on the way to another one. Every block below is verified.
    verified: BlockHash,
}

/// The last minute of a node's life, and one look at what was before.
#[derive(Debug, Default)]
pub(in crate::simulated) struct Watch {
    looks: VecDeque<Had>,
}

impl Watch {
    fn take(&mut self, look: Had) {
        self.looks.push_back(look);
        while self.looks.get(1).is_some_and(|second| look.at - second.at >= BOUND) {
            self.looks.pop_front();
        }
    }
}

impl Driver {
    fn had(&self) -> Had {
        let chain = self.core.as_ref().expect("the node runs").chain();
        let tree = chain.tree();
        Had {
            at: self.crowd.now(),
            stored: tree.stored(),
            best_header: tree.node(tree.best_header()).hash,
            verified: chain.tip_point().hash,
        }
    }

    /// In a simulation with time.
    pub(super) fn watch(&mut self) {
        let last = self.watch.looks.back().map(|look| look.at);
        let is_due = last.is_none_or(|at| self.crowd.now() >= at + INTERVAL);
        if self.plan.delays.is_some() && is_due {
            let look = self.had();
            self.watch.take(look);
        }
    }

    /// What a power cut now must leave; `None` in the first minute of a life.
    pub(in crate::simulated) fn promised(&self) -> Option<Had> {
        let oldest = *self.watch.looks.front()?;
        (self.crowd.now() - oldest.at >= BOUND).then_some(oldest)
    }

    /// Behind a power cut, the next node having started.
    pub(in crate::simulated) fn check_promised(&mut self, promised: Had) {
        let tree = self.core().chain().tree();
        let stored = tree.stored();
        let verified = tree.find(&promised.verified).map(|id| tree.node(id));
        let is_verified = verified.is_some_and(|node| node.validity == Validity::Scripts);
        let is_known = tree.find(&promised.best_header).is_some();
        if stored < promised.stored || !is_known || !is_verified {
            self.fail(&format!(
                "of {promised:?} the cut left {stored} blocks; the header is known: {is_known}; \
                 verified: {verified:?}"
            ));
        }
    }
}

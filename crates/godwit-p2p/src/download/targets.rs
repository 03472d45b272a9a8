//! Which chains are downloaded, and how much of each a peer has.

use std::time::Duration;

use godwit_primitives::Work;

use super::branch::Branch;
use super::lost::LOST_DEADLINE;
use super::peer::{Flight, Peer, Purpose};
use super::{Downloads, assign};
use crate::index::{HeaderId, HeaderIndex, is_ancestor, last_common_ancestor};

/// Window of a chain that is downloaded beside the best header's, in blocks. There is at most one for each
/// peer: the one that it has told of last. Were there fewer, peers that withhold the blocks of theirs could
/// keep others from being downloaded.
const SIDE_WINDOW: usize = 128;

/// How long a request for a block of a window counts as in flight once its chain is abandoned.
const UNWANTED_EXPIRY: Duration = Duration::from_secs(60);

impl Downloads {
    /// Adapts targets, windows and what of them each peer has to the index.
    pub(super) fn choose_targets(&mut self, index: &dyn HeaderIndex, now: Duration) {
        let (best, history) = (index.best_header(), index.history().map(|span| span.base));
        let tip_work = index.get(index.tip()).chain_work;
        let least = tip_work.max(self.minimum_work);
        let outdone = |branch: &Branch| {
            Some(branch.target) != history
                && (index.get(branch.target).chain_work < least || index.get(branch.target).failed)
        };
        if self.chosen_for != Some((best, history)) || self.branches.iter().any(outdone) {
            let targets = self.targets(index, best, least);
            self.branches.truncate(targets.len());
            for (position, target) in targets.iter().enumerate() {
                if position == self.branches.len() {
                    self.branches.push(Branch::new(*target));
                }
            }
            self.chosen_for = Some((best, history));
            self.follow(index, &targets);
            self.measure_reach(index, &targets);
            self.sort_out(index, &targets);
        } else {
            let targets: Vec<HeaderId> = self.branches.iter().map(|branch| branch.target).collect();
            self.follow(index, &targets);
        }
        if self.some_unowed {
            self.expire(now);
        }
    }

    /// The best header, then the best headers of peers on other chains, by falling work. Only
    /// chains with at least the work of ours, as in Core: one with equal work may win if ours turns
    /// out invalid. While there is a history, only chains with the snapshot's block: others cannot be taken
    /// before it is validated (Core `FindNextBlocksToDownload`). Last the end of the history below a
    /// snapshot: of a peer it is asked when nothing of the others is left to ask.
    fn targets(&self, index: &dyn HeaderIndex, best: HeaderId, least: Work) -> Vec<HeaderId> {
        let (tip, history) = (index.tip(), index.history());
        let may_lead = |id: HeaderId| history.is_none_or(|span| is_ancestor(index, span.base, id));
        let useful = |id: HeaderId| {
            let info = index.get(id);
            !info.failed && info.chain_work >= least && !is_ancestor(index, id, tip) && may_lead(id)
        };
        let mut known: Vec<HeaderId> =
            self.peers.values().filter_map(|peer| peer.best_known).collect();
        known.sort_unstable();
        known.dedup();
        known.retain(|id| useful(*id));
        known.sort_by_key(|id| std::cmp::Reverse(index.get(*id).chain_work));
        let mut targets: Vec<HeaderId> = Vec::new();
        targets.extend(useful(best).then_some(best));
        for id in known {
            if !targets.iter().any(|target| is_ancestor(index, id, *target)) {
                targets.push(id);
            }
        }
        targets.extend(history.map(|span| span.base));
        targets
    }

    fn follow(&mut self, index: &dyn HeaderIndex, targets: &[HeaderId]) {
        let (limit, tip, history) = (self.window(), index.tip(), index.history());
        for (position, (branch, target)) in self.branches.iter_mut().zip(targets).enumerate() {
            match history.filter(|span| span.base == *target) {
                Some(span) => branch.follow(index, span.tip, *target, limit),
                None if position == 0 => branch.follow(index, tip, *target, limit),
                None => branch.follow(index, tip, *target, limit.min(SIDE_WINDOW)),
            }
        }
    }

    /// Length of the main window, in blocks.
    pub(super) fn window(&self) -> usize {
        assign::window_blocks(self.size)
    }

    fn measure_reach(&mut self, index: &dyn HeaderIndex, targets: &[HeaderId]) {
        for peer in self.peers.values_mut() {
            peer.best_height = peer.best_known.map(|best| index.get(best).height);
            peer.reach.clear();
            let Some(best) = peer.best_known else { continue };
            peer.reach.extend(targets.iter().map(|target| common_height(index, best, *target)));
        }
    }

    /// Marks the requests in flight that are on chains no longer wanted, so that no peer is blamed
    /// for them, and forgets missing blocks that are no longer of interest.
    fn sort_out(&mut self, index: &dyn HeaderIndex, targets: &[HeaderId]) {
        let tip_height = index.get(index.tip()).height;
        let wanted = |id: HeaderId| {
            let info = index.get(id);
            let on_target = || targets.iter().any(|target| is_ancestor(index, id, *target));
            !info.failed && (info.stored || on_target())
        };
        self.some_unowed = false;
        for (hash, block) in &self.blocks {
            if block.copies.is_empty() {
                continue;
            }
            let wanted = wanted(block.id);
            for peer in &block.copies {
                let peer = self.peers.get_mut(peer).expect("copies are of present peers");
                let position = peer.position(hash).expect("a copy is in its peer's queue");
                let flight = &mut peer.queue[position];
                flight.wanted = wanted;
                self.some_unowed |= !flight.is_owed();
            }
        }
        let is_history =
            |id: HeaderId| index.history().is_some_and(|span| is_ancestor(index, id, span.base));
        let passed = |id: HeaderId, height: u32| {
            index.get(id).stored
                || index.get(id).failed
                || height + assign::LIMITED_REQUESTED < tip_height && !is_history(id)
        };
        self.blocks.retain(|_, block| !block.is_missing() || !passed(block.id, block.height));
    }

    /// Withdraws requests from which nothing has come for long, and nothing is expected.
    fn expire(&mut self, now: Duration) {
        let mut expired = Vec::new();
        let is_over = |peer: &Peer, flight: &Flight| match flight.purpose {
            Purpose::Window => now.saturating_sub(flight.asked) >= UNWANTED_EXPIRY,
            // It may be arriving.
            Purpose::Lost | Purpose::Favour => {
                now.saturating_sub(peer.last_sign(flight)) >= LOST_DEADLINE
            }
        };
        for (id, peer) in &self.peers {
            let gone = peer.queue.iter().filter(|one| !one.is_owed() && is_over(peer, one));
            expired.extend(gone.map(|flight| (*id, flight.hash)));
        }
        for (peer, hash) in expired {
            self.peers.get_mut(&peer).expect("just seen").forget(&hash, now, self.link.delivered);
            self.update(hash, |block| block.copies.retain(|copy| *copy != peer));
        }
    }
}

/// Height of the last block that the chains of two headers share.
fn common_height(index: &dyn HeaderIndex, best: HeaderId, target: HeaderId) -> u32 {
    let (best_height, target_height) = (index.get(best).height, index.get(target).height);
    if index.ancestor(target, best_height) == Some(best) {
        return best_height;
    }
    if index.ancestor(best, target_height) == Some(target) {
        return target_height;
    }
    index.get(last_common_ancestor(index, best, target)).height
}

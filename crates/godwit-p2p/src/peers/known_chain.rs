//! What is known of a peer's chain.

use godwit_primitives::{BlockHash, Work};

use crate::index::{HeaderId, HeaderIndex, is_ancestor, last_common_ancestor};

/// The headers that a peer has, by what it announced and what we sent it.
#[derive(Debug, Default)]
pub(super) struct KnownChain {
    /// The best block that it announced (Core `pindexBestKnownBlock`).
    best: Option<HeaderId>,
    /// The last block that it announced and that is not in the index (Core `hashLastUnknownBlock`).
    last_unknown: Option<BlockHash>,
    /// The best header that we sent or announced to it (Core `pindexBestHeaderSent`).
    sent: Option<HeaderId>,
    /// The last block of its best chain up to which we have all, as of the last time when that chain was of
    /// use to us (Core `pindexLastCommonBlock`).
    common: Option<HeaderId>,
    /// Others were told of a new tip before its handshake was complete.
    missed_tip: bool,
}

/// Blocks by which [`KnownChain::common`] moves at once (Core `FindNextBlocks` looks at as many).
const STEPS: u32 = 128;

impl KnownChain {
    /// The best block that the peer announced and that is in the index.
    pub(super) fn best(&self) -> Option<HeaderId> {
        self.best
    }

    /// The peer announced this block (Core `UpdateBlockAvailability`).
    pub(super) fn announced(&mut self, index: &dyn HeaderIndex, hash: BlockHash) {
        self.update(index);
        match index.find(&hash) {
            Some(header) => self.raise(index, header),
            None => self.last_unknown = Some(hash),
        }
    }

    /// Looks whether the index knows the last announced block by now (Core
    /// `ProcessBlockAvailability`).
    pub(super) fn update(&mut self, index: &dyn HeaderIndex) {
        if let Some(header) = self.last_unknown.and_then(|hash| index.find(&hash)) {
            self.last_unknown = None;
            self.raise(index, header);
        }
    }

    fn raise(&mut self, index: &dyn HeaderIndex, header: HeaderId) {
        let better = self.best.is_none_or(|best| {
            let (old, new) = (index.get(best), index.get(header));
            // A chain that turned out invalid must not hide the one that the peer is on by now.
            (old.failed && !new.failed) || new.chain_work >= old.chain_work
        });
        if better {
            self.best = Some(header);
        }
    }

    /// The last block that we share with the peer; `None` as long as its chain has never been of use.
    pub(super) fn common(&self) -> Option<HeaderId> {
        self.common
    }

    /// Looks how much of the peer's chain we have, if it has no less work than `least` and our own: otherwise
    /// what was found before stays (Core `FindNextBlocksToDownload`).
    pub(super) fn find_common(&mut self, index: &dyn HeaderIndex, least: Work) {
        let Some(best) = self.best.filter(|best| self.common != Some(*best)) else { return };
        let (end, tip) = (index.get(best), index.get(index.tip()));
        let lacks_base =
            || index.history().is_some_and(|span| !is_ancestor(index, span.base, best));
        if end.chain_work < tip.chain_work.max(least) || lacks_base() {
            return;
        }
        let fork = match is_ancestor(index, tip.id, best) {
            true => tip,
            false => index.get(last_common_ancestor(index, best, tip.id)),
        };
        let stays = |common: &HeaderId| {
            index.get(*common).chain_work >= fork.chain_work && is_ancestor(index, *common, best)
        };
        let common = self.common.filter(stays).unwrap_or(fork.id);
        let from = index.get(common).height + 1;
        let above = (from..=end.height.min(from + STEPS - 1))
            .filter_map(|height| index.ancestor(best, height))
            .map(|id| index.get(id))
            .take_while(|block| block.stored && !block.failed)
            .map(|block| block.id);
        self.common = Some(above.last().unwrap_or(common));
    }

    /// Whether the peer has the header: it announced it or we did (Core `PeerHasHeader`).
    pub(super) fn has(&self, index: &dyn HeaderIndex, header: HeaderId) -> bool {
        let has = |best: HeaderId| is_ancestor(index, header, best);
        self.best.is_some_and(has) || self.sent.is_some_and(has)
    }

    /// Others are told of a new tip, and this peer cannot be as yet.
    pub(super) fn miss_tip(&mut self) {
        self.missed_tip = true;
    }

    /// Whether it has missed one; asked once.
    pub(super) fn take_missed_tip(&mut self) -> bool {
        std::mem::take(&mut self.missed_tip)
    }

    /// The header was sent or announced to the peer.
    pub(super) fn set_sent(&mut self, header: HeaderId) {
        self.sent = Some(header);
    }
}

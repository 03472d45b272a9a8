//! What is known of a peer's chain.

use godwit_primitives::BlockHash;

use crate::index::{HeaderId, HeaderIndex, is_ancestor};

/// The headers that a peer has, by what it announced and what we sent it.
#[derive(Debug, Default)]
pub(super) struct KnownChain {
    /// The best block that it announced (Core `pindexBestKnownBlock`).
    best: Option<HeaderId>,
    /// The last block that it announced and that is not in the index (Core `hashLastUnknownBlock`).
    last_unknown: Option<BlockHash>,
    /// The best header that we sent or announced to it (Core `pindexBestHeaderSent`).
    sent: Option<HeaderId>,
}

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

    /// Whether the peer has the header: it announced it or we did (Core `PeerHasHeader`).
    pub(super) fn has(&self, index: &dyn HeaderIndex, header: HeaderId) -> bool {
        let has = |best: HeaderId| is_ancestor(index, header, best);
        self.best.is_some_and(has) || self.sent.is_some_and(has)
    }

    /// The header was sent or announced to the peer.
    pub(super) fn set_sent(&mut self, header: HeaderId) {
        self.sent = Some(header);
    }
}

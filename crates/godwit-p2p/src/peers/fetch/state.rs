//! What the download of blocks remembers of one peer.

use std::time::Duration;

use crate::compact::PartialBlock;

/// What the peer gave, and what is expected of it.
#[derive(Default)]
pub(in crate::peers) struct FetchState {
    /// When it last gave a block that was stored; zero for never.
    pub(super) last_block: Duration,
    /// We asked it to announce with compact blocks (Core `m_bip152_highbandwidth_to`).
    pub(super) selected: bool,
    /// The last compact block that it sent. One at most.
    pub(super) partial: Partial,
}

impl FetchState {
    /// When the peer last gave a block that was stored; zero for never.
    pub(in crate::peers) fn last_block(&self) -> Duration {
        self.last_block
    }

    #[cfg(test)]
    pub(in crate::peers) fn holds_partial(&self) -> bool {
        self.partial.block().is_some()
    }
}

/// A compact block on its way to a block.
#[derive(Default)]
pub(super) enum Partial {
    #[default]
    None,
    /// Nothing was asked for so far.
    Held(Box<PartialBlock>),
    /// Its transactions were asked for.
    Requested(Box<PartialBlock>),
}

impl Partial {
    pub(super) fn block(&self) -> Option<&PartialBlock> {
        match self {
            Self::None => None,
            Self::Held(block) | Self::Requested(block) => Some(block),
        }
    }
}

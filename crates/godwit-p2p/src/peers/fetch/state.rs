//! What block fetch remembers of one peer.

use std::time::Duration;

use crate::compact::PartialBlock;

/// See the module's documentation.
#[derive(Default)]
pub(in crate::peers) struct FetchState {
    /// When it last sent a block that was stored; zero for never.
    pub(super) last_block: Duration,
    /// We asked it to announce by compact blocks (Core `m_bip152_highbandwidth_to`).
    pub(super) selected: bool,
    /// The last compact block that it sent.
    pub(super) partial: Partial,
}

impl FetchState {
    /// When the peer last sent a block that was stored; zero for never.
    pub(in crate::peers) fn last_block(&self) -> Duration {
        self.last_block
    }

    /// Whether we asked it to announce by compact blocks.
    pub(in crate::peers) fn is_selected(&self) -> bool {
        self.selected
    }

    #[cfg(test)]
    pub(in crate::peers) fn holds_partial(&self) -> bool {
        self.partial.block().is_some()
    }
}

/// A compact block that is not complete.
#[derive(Default)]
pub(super) enum Partial {
    #[default]
    None,
    /// Its missing transactions were not requested.
    Held(Box<PartialBlock>),
    /// Its missing transactions are in flight.
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

//! What header sync remembers of one peer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::index::HeaderId;
use crate::presync::Presync;

/// What is known of the sync with one peer.
#[derive(Default)]
pub(in crate::peers) struct HeaderState {
    pub(super) stage: SyncStage,
    /// When `getheaders` was sent that has no answer so far.
    pub(super) getheaders_sent: Option<Duration>,
    /// When `getheaders` was sent last, answered or not.
    pub(super) last_getheaders: Duration,
    /// How long its last full answer to `getheaders` took.
    pub(super) answer_time: Option<Duration>,
    /// And the longest one since its sync was begun.
    pub(super) slowest_answer: Duration,
    /// By how much its answers were late since its sync was begun, together.
    pub(super) lost_time: Duration,
    /// Bytes of the `headers` message that is under way.
    pub(super) arriving: u64,
    pub(super) presync: Option<Box<Presync>>,
    /// An `inv` made us ask it for headers before the sync with it began.
    pub(super) inv_triggered: bool,
    /// Headers that are with the driver; one answer each. The driver answers before the next event,
    /// so there is hardly ever more than one.
    pub(super) submissions: VecDeque<Submission>,
    /// When it last gave a new header with more work than our tip; zero for never.
    pub(super) last_announcement: Duration,
    pub(super) chain_sync: ChainSync,
    /// We asked it to announce blocks by headers.
    pub(super) sent_sendheaders: bool,
}

impl HeaderState {
    /// A whole message has arrived, or was dropped.
    pub(in crate::peers) fn message_ended(&mut self) {
        self.arriving = 0;
    }

    pub(in crate::peers) fn last_announcement(&self) -> Duration {
        self.last_announcement
    }

    /// Never evicted for its chain.
    pub(in crate::peers) fn is_protected(&self) -> bool {
        self.chain_sync.protected
    }

    /// Memory of a pre-sync that is under way, in bytes.
    pub(in crate::peers) fn presync_memory(&self) -> usize {
        self.presync.as_ref().map_or(0, |presync| presync.memory())
    }

    #[cfg(test)]
    pub(in crate::peers) fn presync(&self) -> Option<&Presync> {
        self.presync.as_deref()
    }
}

/// How far the header sync with a peer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SyncStage {
    /// It was not begun (Core: `fSyncStarted` false).
    #[default]
    Idle,
    /// Under way; as long as one is, no other is begun for headers that are far behind.
    Running {
        /// When it is taken for slow, however much it delivers.
        deadline: Duration,
    },
    /// It takes too long: others are begun beside it.
    Slow,
    /// It was begun and another one is better: asked again when it is its turn.
    Resting,
    /// The peer told all that it has.
    CaughtUp,
}

impl SyncStage {
    /// Nothing is under way, and there may be more to learn.
    pub(super) fn may_begin(self) -> bool {
        matches!(self, Self::Idle | Self::Resting)
    }
}

/// Headers that were handed to the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Submission {
    /// The message had as many headers as fit: there may be more.
    pub(super) full: bool,
    /// The last one was not known before.
    pub(super) new: bool,
    /// A pre-sync goes on, and asks for more itself.
    pub(super) presyncing: bool,
    pub(super) via_compact_block: bool,
}

/// Core `ChainSyncTimeoutState`: an outbound peer must catch up with our tip.
#[derive(Debug, Default)]
pub(super) struct ChainSync {
    pub(super) deadline: Option<Duration>,
    /// A header with the work that the peer has to show.
    pub(super) work_header: Option<HeaderId>,
    pub(super) sent_getheaders: bool,
    /// How far a pre-sync had come when the deadline was moved last, and how often it was moved.
    pub(super) presync_height: u32,
    pub(super) extensions: u32,
    /// Never evicted for its chain.
    pub(super) protected: bool,
}

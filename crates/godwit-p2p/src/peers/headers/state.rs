//! What header sync remembers of one peer.

use std::collections::VecDeque;
use std::time::Duration;

use crate::index::HeaderId;
use crate::presync::Presync;

/// See the module's documentation. Times are those of the line, by which answers are judged.
#[derive(Default)]
pub(in crate::peers) struct HeaderState {
    pub(super) stage: SyncStage,
    /// When the `getheaders` was sent that has no answer yet.
    pub(super) getheaders_sent: Option<Duration>,
    /// When `getheaders` was sent last, answered or not.
    pub(super) last_getheaders: Duration,
    /// How long its last full answer to `getheaders` took.
    pub(super) answer_time: Option<Duration>,
    /// The longest such time since its sync began.
    pub(super) slowest_answer: Duration,
    /// Time by which its answers were late since its sync began, in all.
    pub(super) lost_time: Duration,
    /// Full answers in a row of which nothing new could be taken.
    pub(super) fruitless: u32,
    /// Bytes of the `headers` message that is arriving.
    pub(super) arriving: u64,
    pub(super) presync: Option<Box<Presync>>,
    /// An `inv` made us ask it for headers before the sync with it began.
    pub(super) inv_triggered: bool,
    /// Submissions that the driver has not answered. It answers before the next event, so there is
    /// hardly ever more than one.
    pub(super) submissions: VecDeque<Submission>,
    /// When it last sent a new header with more work than our tip, on the usual clock; zero for never.
    pub(super) last_announcement: Duration,
    pub(super) chain_sync: ChainSync,
    /// We asked it to announce blocks by headers.
    pub(super) sent_sendheaders: bool,
}

impl HeaderState {
    /// A whole message arrived or was discarded.
    pub(in crate::peers) fn message_ended(&mut self) {
        self.arriving = 0;
    }

    /// When the `getheaders` was sent that has no answer yet.
    pub(in crate::peers) fn asked(&self) -> Option<Duration> {
        self.getheaders_sent
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

    pub(in crate::peers) fn presync(&self) -> Option<&Presync> {
        self.presync.as_deref()
    }
}

/// The stage of the header sync with a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum SyncStage {
    /// Not begun (Core: `fSyncStarted` false).
    #[default]
    Idle,
    /// Under way. Meanwhile no other sync begins while our headers are far behind.
    Running {
        /// When it counts as slow, however much it delivers.
        deadline: Duration,
    },
    /// It takes too long: other syncs may begin beside it.
    Slow,
    /// It was begun, but another peer is faster. It begins again when it is its turn.
    Resting,
    /// The peer has sent all headers that it has.
    CaughtUp,
}

impl SyncStage {
    /// Whether a sync may begin: none is under way, and the peer may have more headers.
    pub(super) fn may_begin(self) -> bool {
        matches!(self, Self::Idle | Self::Resting)
    }
}

/// Headers that were submitted to the driver.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Submission {
    /// The message was full: there may be more.
    pub(super) full: bool,
    /// The last header was unknown.
    pub(super) new: bool,
    /// A pre-sync goes on and has asked for more itself.
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
    /// Height of the pre-sync when the deadline was last extended; `extensions` counts how often.
    pub(super) presync_height: u32,
    pub(super) extensions: u32,
    /// Never evicted for its chain.
    pub(super) protected: bool,
}

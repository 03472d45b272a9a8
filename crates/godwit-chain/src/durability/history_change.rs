//! A change in what is known about the history below a snapshot, on its way into a commit.

use godwit_store::HistoryCommit;

use super::Durability;
use crate::durability::pruning::Pruning;

/// What of the history is closed before a commit: its files are removed behind it.
pub(crate) type Closed = Box<dyn Send>;

/// One at a time: the history waits for each.
#[derive(Default)]
pub(super) enum HistoryChange {
    #[default]
    None,
    /// The next commit takes it along, and closes this before.
    Waiting(HistoryCommit, Option<Closed>),
    /// A commit is under way with it.
    Committing(CommittedHistory),
    Committed(CommittedHistory),
}

/// What a commit has said of the history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CommittedHistory {
    /// That it is validated.
    pub(crate) is_validated: bool,
}

impl HistoryChange {
    /// What the commit that is put together has to say, and what is to be closed before it.
    pub(super) fn begin(
        &mut self,
        pruning: &mut Pruning,
    ) -> Option<(HistoryCommit, Option<Closed>)> {
        match std::mem::take(self) {
            Self::Waiting(commit, closed) => {
                let is_validated = matches!(commit, HistoryCommit::Validated);
                *self = Self::Committing(CommittedHistory { is_validated });
                match &commit {
                    HistoryCommit::Coins(coins) => pruning.note_history(coins.tip.height),
                    HistoryCommit::Forgotten | HistoryCommit::Doubted(_) => pruning.note_history(0),
                    HistoryCommit::Validated | HistoryCommit::Refuted(_) => {}
                }
                Some((commit, closed))
            }
            other => {
                *self = other;
                None
            }
        }
    }

    /// A commit has returned.
    pub(super) fn end(&mut self) {
        if let Self::Committing(committed) = *self {
            *self = Self::Committed(committed);
        }
    }
}

impl Durability {
    /// Has something said of the history in the next commit, whose job drops `closed` first.
    pub(crate) fn commit_history(&mut self, commit: HistoryCommit, closed: Option<Closed>) {
        self.history = HistoryChange::Waiting(commit, closed);
        self.want_commit();
    }

    /// What a commit has said since the last call, once it has returned.
    pub(crate) fn take_committed_history(&mut self) -> Option<CommittedHistory> {
        let HistoryChange::Committed(committed) = self.history else { return None };
        self.history = HistoryChange::None;
        if committed.is_validated {
            self.pruning.end_history();
        }
        Some(committed)
    }
}

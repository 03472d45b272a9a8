//! The engine's output: actions for the driver, and the common allowance of log lines.

use std::collections::VecDeque;

use super::action::{Action, ReadId};
use crate::rate_limit::TokenBucket;
use crate::time::Now;

pub(super) struct Outbox {
    actions: VecDeque<Action>,
    log_lines: TokenBucket,
    last_read: u64,
}

impl Outbox {
    pub(super) fn new(now: Now) -> Self {
        Self { actions: VecDeque::new(), log_lines: TokenBucket::log(now.monotonic), last_read: 0 }
    }

    pub(super) fn push(&mut self, action: impl Into<Action>) {
        self.actions.push_back(action.into());
    }

    pub(super) fn take(&mut self) -> VecDeque<Action> {
        std::mem::take(&mut self.actions)
    }

    /// Spends a log line of the allowance that all peers share; false when it is used up.
    pub(super) fn take_log_line(&mut self, now: Now) -> bool {
        self.log_lines.take(now.monotonic, 1)
    }

    /// The id of the next read.
    pub(super) fn next_read(&mut self) -> ReadId {
        self.last_read += 1;
        ReadId(self.last_read)
    }
}

//! The recovery: blocks found after the committed ends of the block files when the chain was opened
//! ([`RecoveredBlock`]). They are read back and judged like blocks that arrive, alongside everything else.
//!
//! 1. They are judged in the order of the files. Their headers were placed before, when the chain was
//!    opened: blocks of a download lie in the files in any order.
//! 2. Until the last one is judged, nothing is committed: a commit names the ends of the files, and what
//!    lies before them without an entry in the index would never be found again.
//! 3. Until then no other block is accepted, so that none is stored twice.

use std::collections::{BTreeMap, VecDeque};

use godwit_store::exec::Priority;
use godwit_store::{RecoveredBlock, StoreError};

use crate::environment::Environment;
use crate::found_block::FoundBlock;
use crate::job_sender::JobSender;
use crate::limits::RECOVERY_JOBS;

/// A block that was read back.
pub(crate) struct Answer {
    sequence: u64,
    read: Result<FoundBlock, StoreError>,
}

/// See the module's documentation.
pub(crate) struct Recovery {
    waiting: VecDeque<RecoveredBlock>,
    /// Blocks that were read before their turn; with those being read at most [`RECOVERY_JOBS`].
    read: BTreeMap<u64, FoundBlock>,
    /// Numbers of the next block to be read and to be judged.
    next_read: u64,
    next: u64,
    env: Environment,
    job_sender: JobSender<Answer>,
}

impl Recovery {
    pub(crate) fn new(
        env: &Environment,
        found: Vec<RecoveredBlock>,
        job_sender: JobSender<Answer>,
    ) -> Self {
        if !found.is_empty() {
            log::info!("{} blocks had arrived after the last commit.", found.len());
        }
        let (read, env) = (BTreeMap::new(), env.clone());
        Self { waiting: found.into(), read, next_read: 0, next: 0, env, job_sender }
    }

    /// Whether every block is judged.
    pub(crate) fn is_done(&self) -> bool {
        self.waiting.is_empty() && self.next == self.next_read
    }

    /// Number of blocks that are not judged yet.
    pub(crate) fn left(&self) -> usize {
        self.waiting.len() + (self.next_read - self.next) as usize
    }

    /// Starts to read what may be read ahead.
    pub(crate) fn start(&mut self) {
        while self.next_read - self.next < RECOVERY_JOBS as u64
            && let Some(found) = self.waiting.pop_front()
        {
            let (sequence, env) = (self.next_read, self.env.clone());
            self.next_read += 1;
            self.job_sender.run(Priority::Urgent, "recover", move || {
                let read = FoundBlock::read(&env.store, &env.params, &env.hasher, found);
                Answer { sequence, read }
            });
        }
    }

    /// A block was read.
    pub(crate) fn answered(&mut self, answer: Answer) -> Result<(), StoreError> {
        let Answer { sequence, read } = answer;
        self.read.insert(sequence, read?);
        Ok(())
    }

    /// Takes the next block that is to be judged.
    pub(crate) fn take_next(&mut self) -> Option<FoundBlock> {
        let next = self.read.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }
}

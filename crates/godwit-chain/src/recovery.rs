//! The recovery: blocks that were found behind the committed ends of the block files when the chain was
//! opened ([`RecoveredBlock`]), read back and judged like blocks that arrive, beside everything else.
//!
//! 1. They are judged in the order of the files. Their headers were placed before, when the chain was
//!    opened: blocks of a download lie in the files in any order.
//! 2. Until the last one is judged, nothing is committed: a commit names the ends of the files, and what
//!    lies before them without an entry in the index would never be found again.
//! 3. Until then no other block is accepted, so that none is stored twice.

use std::collections::{BTreeMap, VecDeque};

use godwit_store::exec::Priority;
use godwit_store::{BlockChecksum, BlockPosition, RecoveredBlock, StoreError};

use crate::chain::Chain;
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::Acceptance;
use crate::job_sender::JobSender;
use crate::limits::RECOVERY_JOBS;
use crate::structure::{Received, structure};

/// A block that was read back.
pub(crate) struct Answer {
    sequence: u64,
    found: RecoveredBlock,
    read: Result<ReadBlock, StoreError>,
}

/// A block and what its bytes are known by.
struct ReadBlock {
    received: Received,
    checksum: BlockChecksum,
}

/// See the module's documentation.
pub(crate) struct Recovery {
    waiting: VecDeque<RecoveredBlock>,
    /// Blocks that were read before their turn; with those being read at most [`RECOVERY_JOBS`].
    read: BTreeMap<u64, (RecoveredBlock, ReadBlock)>,
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
                let read = read_back(&env, found.position);
                Answer { sequence, found, read }
            });
        }
    }

    /// A block was read.
    pub(crate) fn answered(&mut self, answer: Answer) -> Result<(), StoreError> {
        let Answer { sequence, found, read } = answer;
        self.read.insert(sequence, (found, read?));
        Ok(())
    }

    /// Takes the next block that is to be judged.
    fn take_next(&mut self) -> Option<(RecoveredBlock, ReadBlock)> {
        let next = self.read.remove(&self.next)?;
        self.next += 1;
        Some(next)
    }
}

/// Reads a block. One that the medium does not give back is fetched again, like a torn one: it must not keep
/// all others from being found.
fn read_back(env: &Environment, at: BlockPosition) -> Result<ReadBlock, StoreError> {
    match env.store.read_block(at) {
        Ok(bytes) => {
            let checksum = BlockChecksum::of(bytes.as_slice());
            let received = structure(bytes, &env.params, &env.hasher, None);
            Ok(ReadBlock { received, checksum })
        }
        Err(error) if error.is_unreadable() => {
            log::error!(
                "A block that no commit names cannot be read, and is fetched again: {error}"
            );
            Ok(ReadBlock { received: Received::Undecodable, checksum: BlockChecksum::of(&[]) })
        }
        Err(error) => Err(error),
    }
}

impl Chain {
    /// Judges the blocks that an earlier process had received and not committed, as they are read back.
    pub(crate) fn recover(&mut self) -> Result<bool, ChainError> {
        self.recovery.start();
        let mut any = false;
        while let Some((found, read)) = self.recovery.take_next() {
            any = true;
            let block = match read.received {
                Received::Structured(block) => block,
                Received::Unjudged(error) => return Err(ChainError::Engine(error)),
                // A torn record whose length happens to fit.
                Received::Undecodable | Received::Malformed { .. } => continue,
            };
            if let Acceptance::New(accepted) = self.index.accept(block, self.now) {
                let stored = self.index.receive_recovered(accepted, &found, read.checksum);
                self.durability.note_stored(&self.index, &stored);
                self.lookahead.keep(&self.index, &stored, self.window.applied());
            }
        }
        Ok(any)
    }
}

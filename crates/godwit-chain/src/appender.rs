//! The appender: the only writer of block and undo bytes, beside connecting.
//!
//! Four states of a record's bytes:
//!
//! ```text
//! reserved ──write job──▶ written ──note_written──▶ noted ──take_appended, fsync, redb──▶ durable
//! (place known,           (page cache,              (in the index,                        (named by
//!  nothing names it)       nothing names it)         the next commit names it)             the database)
//! ```
//!
//! 1. Places are reserved on the connector's thread, in the order in which the records arrive, and one job at
//!    a time writes the records of each kind in that order. So the written part of each file is a prefix of
//!    its reserved part.
//! 2. A record enters the index only after its write has returned, in the turn in which the store takes note
//!    of it. So a commit names only written bytes, and every block before the ends of files that it names has
//!    an entry.
//! 3. Bytes that are reserved but not written lie behind the committed ends: after a crash they are found
//!    again or cut off.
//! 4. The first failed write closes the store: nothing is written after it, and the chain ends with that
//!    error. None of the blocks in the failed job gets a verdict, so no peer is blamed.
//!
//! Everything gathered while a job runs is the next job: one block with a fast disk, many with a
//! slow one. Undo records go first: until they are written, their blocks hold places in the window
//! and the memtable cannot be rotated, so connecting would wait behind every block that peers are
//! sending. A block's coins are fetched once it is stored, so its write adds to the latency of a
//! single block at the tip, but not to that of blocks in a row.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::Duration;

use godwit_store::exec::Priority;
use godwit_store::{
    BlockChecksum, BlockPosition, Store, StoreError, UndoPosition, WrittenBlock, WrittenUndo,
};

use crate::environment::Environment;
use crate::error::ChainError;
use crate::event::Source;
use crate::history_files::BlockFileMix;
use crate::index::Accepted;
use crate::job_sender::JobSender;
use crate::limits::APPEND_BATCH;
use crate::status::ChainStatus;
use crate::tree::NodeId;
use crate::verify::{Recorded, Verified};

/// A record that waits to be written.
enum Append {
    Block {
        accepted: Accepted,
        sender: Sender,
        place: BlockPosition,
    },
    Undo {
        verified: Verified,
        place: UndoPosition,
    },
    /// A copy of a stored block whose bytes are damaged.
    Copy {
        accepted: Accepted,
        sender: Sender,
        place: BlockPosition,
    },
}

/// The source of a block, and the bytes that the block is charged there until it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) source: Source,
    pub(crate) charge: u64,
}

/// A record whose write has returned.
pub(crate) enum Appended {
    Block {
        accepted: Accepted,
        sender: Sender,
        written: WrittenBlock,
    },
    /// The undo record of a verified block.
    Undo {
        recorded: Recorded,
        written: WrittenUndo,
    },
    /// A copy that replaced a damaged block at its place, and is durable.
    Copy {
        accepted: Accepted,
        sender: Sender,
        checksum: BlockChecksum,
    },
}

/// The records that a job wrote.
pub(crate) struct Answer {
    appended: Result<Vec<Appended>, StoreError>,
    took: Duration,
}

/// See the module's documentation.
pub(crate) struct Appender {
    /// Blocks that wait for the next job. Bounded: each is charged in the intake until it is
    /// stored, or holds a permit of the import.
    blocks: Vec<Append>,
    /// Undo records that wait for the next job. Bounded: they belong to blocks of the window.
    undo: Vec<Append>,
    /// A job is writing.
    running: bool,
    /// Blocks that are being written, each with the senders of further copies.
    writing: BTreeMap<NodeId, Vec<Sender>>,
    /// Bytes that are being written.
    bytes: u64,
    /// Bytes that were written.
    written: u64,
    /// Records that are written and not yet in the index.
    returned: Vec<Appended>,
    /// Time that jobs spent.
    took: Duration,
    /// The mix of blocks in the last block file.
    file_mix: BlockFileMix,
    job_sender: JobSender<Answer>,
}

impl Append {
    fn bytes(&self) -> u64 {
        match self {
            Self::Block { place, .. } | Self::Copy { place, .. } => place.len.into(),
            Self::Undo { place, .. } => place.len.into(),
        }
    }

    fn write(self, store: &Store) -> Result<Appended, StoreError> {
        Ok(match self {
            Self::Block { accepted, sender, place } => {
                let written = store.write_block(place, accepted.block().view().bytes())?;
                Appended::Block { accepted, sender, written }
            }
            Self::Undo { verified, place } => {
                let (recorded, written) = verified.write_undo(store, place)?;
                Appended::Undo { recorded, written }
            }
            Self::Copy { accepted, sender, place } => {
                let bytes = accepted.block().view().bytes();
                store.rewrite_block(place, bytes)?;
                Appended::Copy { checksum: BlockChecksum::of(bytes), accepted, sender }
            }
        })
    }
}

impl Appender {
    pub(crate) fn new(job_sender: JobSender<Answer>) -> Self {
        Self {
            blocks: Vec::new(),
            undo: Vec::new(),
            running: false,
            writing: BTreeMap::new(),
            bytes: 0,
            written: 0,
            returned: Vec::new(),
            took: Duration::ZERO,
            file_mix: BlockFileMix::default(),
            job_sender,
        }
    }

    /// Queues an accepted block for writing. If the block is already being written, only the sender is
    /// remembered. `is_history` tells, where the blocks of a history are kept in files of their own, whether
    /// this is one of them.
    pub(crate) fn append_block(
        &mut self,
        env: &Environment,
        accepted: Accepted,
        sender: Sender,
        is_history: Option<bool>,
    ) -> Result<(), StoreError> {
        if self.begin_writing(accepted.id(), sender) {
            let len = accepted.block().view().bytes().len();
            let begins_file =
                is_history.is_some_and(|is| self.file_mix.needs_new_file(is, len as u64));
            let place = env.store.reserve_block(len, begins_file)?;
            if let Some(is_history) = is_history {
                self.file_mix.note_reserved(place.file, is_history, len as u64);
            }
            self.gather(Append::Block { accepted, sender, place });
        }
        Ok(())
    }

    /// Queues a copy of a stored block for writing at its old place. A copy of another length shows that the
    /// index is damaged.
    pub(crate) fn append_copy(
        &mut self,
        accepted: Accepted,
        sender: Sender,
        place: BlockPosition,
    ) -> Result<(), ChainError> {
        let block = accepted.block();
        if block.view().bytes().len() != place.len as usize {
            return Err(ChainError::DamagedIndex(block.hash()));
        }
        if self.begin_writing(accepted.id(), sender) {
            self.gather(Append::Copy { accepted, sender, place });
        }
        Ok(())
    }

    /// Marks the block as being written. Returns `false` if it was already, and then remembers the sender.
    fn begin_writing(&mut self, id: NodeId, sender: Sender) -> bool {
        match self.writing.entry(id) {
            Entry::Occupied(mut copies) => {
                copies.get_mut().push(sender);
                false
            }
            Entry::Vacant(first) => {
                first.insert(Vec::new());
                true
            }
        }
    }

    fn gather(&mut self, append: Append) {
        self.bytes += append.bytes();
        self.blocks.push(append);
    }

    /// Queues the undo record of a verified block, whose own bytes are at `block`. Returns the block at once
    /// if its record is on disk already.
    pub(crate) fn append_undo(
        &mut self,
        env: &Environment,
        verified: Verified,
        block: BlockPosition,
    ) -> Option<Recorded> {
        match verified.recorded_before() {
            Ok(recorded) => Some(recorded),
            Err(verified) => {
                let place = verified.reserve_undo(&env.store, block);
                let append = Append::Undo { verified, place };
                self.bytes += append.bytes();
                self.undo.push(append);
                None
            }
        }
    }

    /// Starts a job for the gathered records, unless one is running.
    pub(crate) fn start(&mut self, env: &Environment) {
        if self.running || (self.undo.is_empty() && self.blocks.is_empty()) {
            return;
        }
        let mut batch = std::mem::take(&mut self.undo);
        let mut bytes = batch.iter().map(Append::bytes).sum::<u64>();
        let in_batch = |append: &&Append| {
            let fits = bytes < APPEND_BATCH;
            bytes += append.bytes();
            fits
        };
        let count = self.blocks.iter().take_while(in_batch).count();
        batch.extend(self.blocks.drain(..count));
        self.running = true;
        let env = env.clone();
        self.job_sender.run(Priority::Urgent, "append", move || {
            let start = env.now();
            let appended = batch.into_iter().map(|append| append.write(&env.store)).collect();
            Answer { appended, took: env.now() - start }
        });
    }

    /// Takes the answer of a job.
    pub(crate) fn answered(&mut self, answer: Answer) -> Result<(), StoreError> {
        self.running = false;
        self.took += answer.took;
        let appended = answer.appended?;
        for record in &appended {
            let bytes = match record {
                Appended::Block { written, .. } => u64::from(written.position().len),
                Appended::Undo { written, .. } => u64::from(written.position().len),
                Appended::Copy { accepted, .. } => accepted.block().view().bytes().len() as u64,
            };
            self.bytes -= bytes;
            self.written += bytes;
        }
        self.returned.extend(appended);
        Ok(())
    }

    /// Records written since the last call, in order.
    pub(crate) fn take_returned(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.returned)
    }

    /// Senders of other copies of a block that was just stored.
    pub(crate) fn take_copies(&mut self, id: NodeId) -> Vec<Sender> {
        self.writing.remove(&id).unwrap_or_default()
    }

    /// Whether a block is being written.
    pub(crate) fn is_writing(&self, id: NodeId) -> bool {
        self.writing.contains_key(&id)
    }

    pub(crate) fn is_idle(&self) -> bool {
        !self.running && self.blocks.is_empty() && self.undo.is_empty() && self.returned.is_empty()
    }

    /// Bytes of blocks and undo records that were written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    pub(crate) fn status(&self, status: &mut ChainStatus) {
        status.memory.appending = self.bytes;
        status.written.appended = self.written;
        status.times.append = self.took;
    }
}

//! The one writer of block and undo bytes, beside connecting.
//!
//! Four states of a record's bytes:
//!
//! ```text
//! reserved ──write job──▶ written ──note_written──▶ noted ──take_appended, fsync, redb──▶ durable
//! (place known,           (page cache,              (in the index,                        (named by
//!  nothing names it)       nothing names it)         the next commit names it)             the database)
//! ```
//!
//! 1. Places are reserved on the connector's thread, in the order in which the records come here, and
//!    one job at a time writes those of either kind in that order. So what is written of each file is a
//!    prefix of what is reserved.
//! 2. A record enters the index only when its write has returned, in the turn in which the store takes
//!    note of it. So a commit names only written bytes, and every block before the ends that it names
//!    has its entry.
//! 3. What is reserved and not written lies behind the committed ends: after a crash it is found again
//!    or cut off.
//! 4. The first failed write closes the store, nothing after it is written, and the chain ends with that
//!    error. None of the blocks that were on their way got a verdict, so no peer is blamed.
//!
//! All that is gathered while a job runs is the next job: one block with a fast disk, many with a slow
//! one. Undo records go first, since their blocks hold places in the window until they are written, and
//! the memtable is not rotated before: behind all blocks that peers may have on their way they would
//! hold up connecting. A block's coins are fetched when it is stored, so its write adds to the latency
//! of a block at the tip, though not to that of one in a row.

use std::collections::BTreeMap;
use std::time::Duration;

use godwit_store::exec::Priority;
use godwit_store::{BlockPosition, Store, StoreError, UndoPosition, WrittenBlock, WrittenUndo};

use crate::desk::Desk;
use crate::event::Source;
use crate::index::Accepted;
use crate::limits::APPEND_BATCH;
use crate::site::Site;
use crate::status::ChainStatus;
use crate::tree::NodeId;
use crate::verify::{Recorded, Verified};

/// A record on its way to its file.
enum Append {
    Block { accepted: Accepted, sender: Sender, place: BlockPosition },
    Undo { verified: Verified, place: UndoPosition },
}

/// Who handed in a block, and what it counts there until it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sender {
    pub(crate) source: Source,
    pub(crate) charge: u64,
}

/// A record whose write has returned.
pub(crate) enum Appended {
    /// A block.
    Block { accepted: Accepted, sender: Sender, written: WrittenBlock },
    /// The undo record of a verified block.
    Undo { recorded: Recorded, written: WrittenUndo },
}

/// What a job has written.
pub(crate) struct Answer {
    appended: Result<Vec<Appended>, StoreError>,
    took: Duration,
}

/// See the module's documentation.
pub(crate) struct Appender {
    /// Blocks that wait for the job. They count in the intake until they are stored, or hold permits of
    /// an import.
    blocks: Vec<Append>,
    /// Undo records that wait for it, of blocks in the window.
    undo: Vec<Append>,
    /// A job writes what was gathered before.
    running: bool,
    /// Blocks on their way, each with those who handed in another copy meanwhile.
    writing: BTreeMap<NodeId, Vec<Sender>>,
    /// Bytes on their way.
    bytes: u64,
    /// Bytes that were written.
    written: u64,
    /// What was written and is not yet in the index.
    returned: Vec<Appended>,
    /// Time that jobs spent.
    took: Duration,
    desk: Desk<Answer>,
}

impl Append {
    fn bytes(&self) -> u64 {
        match self {
            Self::Block { place, .. } => place.len.into(),
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
        })
    }
}

impl Appender {
    pub(crate) fn new(desk: Desk<Answer>) -> Self {
        Self {
            blocks: Vec::new(),
            undo: Vec::new(),
            running: false,
            writing: BTreeMap::new(),
            bytes: 0,
            written: 0,
            returned: Vec::new(),
            took: Duration::ZERO,
            desk,
        }
    }

    /// Takes an accepted block that is to be stored. Another copy of one that is on its way is only
    /// remembered, with who sent it.
    pub(crate) fn append_block(
        &mut self,
        site: &Site,
        accepted: Accepted,
        sender: Sender,
    ) -> Result<(), StoreError> {
        if let Some(copies) = self.writing.get_mut(&accepted.id()) {
            copies.push(sender);
            return Ok(());
        }
        let place = site.store.reserve_block(accepted.block().view().bytes().len())?;
        self.writing.insert(accepted.id(), Vec::new());
        let append = Append::Block { accepted, sender, place };
        self.bytes += append.bytes();
        self.blocks.push(append);
        Ok(())
    }

    /// Takes a verified block whose undo record is to be stored; its own bytes lie at `block`. Gives it
    /// back where the record is stored already.
    pub(crate) fn append_undo(
        &mut self,
        site: &Site,
        verified: Verified,
        block: BlockPosition,
    ) -> Option<Recorded> {
        match verified.recorded_before() {
            Ok(recorded) => Some(recorded),
            Err(verified) => {
                let place = verified.reserve_undo(&site.store, block);
                let append = Append::Undo { verified, place };
                self.bytes += append.bytes();
                self.undo.push(append);
                None
            }
        }
    }

    /// Starts to write what was gathered, if no job is at it.
    pub(crate) fn start(&mut self, site: &Site) {
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
        let site = site.clone();
        self.desk.run(Priority::Urgent, "append", move || {
            let start = site.now();
            let appended = batch.into_iter().map(|append| append.write(&site.store)).collect();
            Answer { appended, took: site.now() - start }
        });
    }

    /// A job has written what it was given.
    pub(crate) fn answered(&mut self, answer: Answer) -> Result<(), StoreError> {
        self.running = false;
        self.took += answer.took;
        let appended = answer.appended?;
        for record in &appended {
            let bytes = match record {
                Appended::Block { written, .. } => u64::from(written.position().len),
                Appended::Undo { written, .. } => u64::from(written.position().len),
            };
            self.bytes -= bytes;
            self.written += bytes;
        }
        self.returned.extend(appended);
        Ok(())
    }

    /// What is written since the last call, in order.
    pub(crate) fn take_returned(&mut self) -> Vec<Appended> {
        std::mem::take(&mut self.returned)
    }

    /// A block was stored: those who sent other copies of it meanwhile.
    pub(crate) fn take_copies(&mut self, id: NodeId) -> Vec<Sender> {
        self.writing.remove(&id).unwrap_or_default()
    }

    /// Whether a block is on its way to its file.
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

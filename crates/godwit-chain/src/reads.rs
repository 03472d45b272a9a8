//! Reads stored blocks for peers, on workers, so that a slow disk does not hold up connecting; and for
//! RPC methods, on the thread of the method ([`BlockReader`]).
//!
//! A peer gets the block as it was written, or nothing: it would take a block that a disk has damaged for an
//! attack by this node. The checksum in the index tells them apart. Blocks stored under schema 1 have no
//! checksum; such a block is checked like one from a peer, at the cost of hashing it, and gets a checksum
//! then.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_primitives::network::{Deployment, Params};
use godwit_store::error::Remedy;
use godwit_store::exec::Priority;
use godwit_store::utxo::UtxoHasher;
use godwit_store::{
    BlockChecksum, BlockPosition, BlockUndo, Store, StoreError, UndoPosition, undo_remedy,
};
use godwit_stream::PooledStream;

use crate::environment::Environment;
use crate::index::BlockIndex;
use crate::job_sender::JobSender;
use crate::limits::READ_JOBS;
use crate::structure::{Structured, WitnessCheck};
use crate::tree::{Node, NodeId};

/// A block that was read.
pub(crate) struct Answer {
    ticket: u64,
    block: StoredBlock,
    read: Result<Intact, ReadError>,
}

/// The outcome of a read.
pub(crate) struct Read {
    pub(crate) ticket: u64,
    pub(crate) bytes: Result<PooledStream, BlockUnreadable>,
}

/// The bytes of a block as they were written.
pub(crate) struct Intact {
    bytes: PooledStream,
    pub(crate) checksum: BlockChecksum,
}

/// Why a block is not served.
pub(crate) enum ReadError {
    Store(StoreError),
    /// The bytes at its place are not the block.
    Damaged(BlockPosition),
}

impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The place of a stored block, as the chain knew it at some moment.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock {
    id: NodeId,
    hash: BlockHash,
    pub(crate) position: BlockPosition,
    checksum: Option<BlockChecksum>,
    /// How a block without checksum is checked.
    witnesses: WitnessCheck,
    /// The place of its undo record, and the hash of the block before, which the record's checksum covers.
    undo: Option<UndoPosition>,
    prev: BlockHash,
}

impl StoredBlock {
    pub(crate) fn new(params: &Params, id: NodeId, node: &Node, position: BlockPosition) -> Self {
        let witnesses = match params.is_active(Deployment::Segwit, node.height) {
            true => WitnessCheck::Segwit,
            false => WitnessCheck::BeforeSegwit,
        };
        let (hash, prev) = (node.hash, node.header.prev_blockhash);
        Self { id, hash, position, checksum: node.checksum, witnesses, undo: node.undo, prev }
    }

    /// Bytes of the block.
    pub fn size(&self) -> usize {
        self.position.len as usize
    }

    /// Bytes of its undo record; zero where none is stored.
    pub fn undo_size(&self) -> usize {
        self.undo.map_or(0, |undo| undo.len as usize)
    }

    pub(crate) fn read(&self, store: &Store, hasher: &UtxoHasher) -> Result<Intact, ReadError> {
        let checksum = match self.checksum {
            Some(checksum) => checksum,
            None => {
                let bytes = store.read_block(self.position)?;
                let checksum = BlockChecksum::of(bytes.as_slice());
                Structured::from_own_file(bytes, self.hash, self.witnesses, hasher)
                    .ok_or(ReadError::Damaged(self.position))?;
                checksum
            }
        };
        let bytes = store.read_intact_block(self.position, checksum)?;
        Ok(Intact { bytes, checksum })
    }
}

/// Reads stored blocks and undo records on the caller's thread, which may be any but the chain's: that one
/// waits for no disk. The chain goes on meanwhile, and may prune what is being read.
#[derive(Clone)]
pub struct BlockReader {
    store: Arc<Store>,
    hasher: UtxoHasher,
}

/// A stored block that could not be read, and why. Pass it to [`note_unreadable`](crate::note_unreadable):
/// the chain knows whether the block was pruned meanwhile, and reports any other cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockUnreadable {
    pub(crate) id: NodeId,
    /// The place that was read.
    pub(crate) position: BlockPosition,
    is_lost: bool,
    why: String,
}

impl BlockUnreadable {
    fn new(store: &Store, block: &StoredBlock, error: &ReadError) -> Self {
        let (is_lost, why) = match error {
            ReadError::Store(error) => (error.is_rotten(), error.to_string()),
            ReadError::Damaged(at) => {
                let (path, offset) = (store.block_file(at.file), at.offset);
                (true, format!("{} at byte {offset} is damaged", path.display()))
            }
        };
        Self { id: block.id, position: block.position, is_lost, why }
    }

    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Whether the stored bytes are gone or damaged. If not, another attempt may succeed.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }
}

impl fmt::Display for BlockUnreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.why)
    }
}

impl BlockReader {
    pub(crate) fn new(env: &Environment) -> Self {
        Self { store: Arc::clone(&env.store), hasher: env.hasher }
    }

    /// The bytes of a block, as they were written.
    ///
    /// # Errors
    ///
    /// The bytes are damaged or cannot be read.
    pub fn block(&self, stored: &StoredBlock) -> Result<PooledStream, BlockUnreadable> {
        let read = stored.read(&self.store, &self.hasher);
        read.map(|intact| intact.bytes)
            .map_err(|error| BlockUnreadable::new(&self.store, stored, &error))
    }

    /// The coins that a block spent; `None` if no undo record is stored.
    ///
    /// # Errors
    ///
    /// The record cannot be read, or is damaged.
    pub fn undo(&self, stored: &StoredBlock) -> Result<Option<BlockUndo>, StoreError> {
        stored.undo.map(|undo| self.store.read_undo(undo, &stored.prev)).transpose()
    }

    /// What can rebuild an undo record that [`Self::undo`] did not give, for this error or because there is
    /// none; `None` if another attempt may read it.
    pub fn undo_remedy(&self, error: Option<&StoreError>) -> Option<Remedy> {
        let is_lost = error.is_none_or(StoreError::is_rotten);
        is_lost.then(|| undo_remedy(&self.store))
    }
}

/// What a worker is to read.
struct Wanted {
    ticket: u64,
    block: StoredBlock,
}

/// Reads under way and reads that wait for a worker.
pub(crate) struct Reads {
    /// Reads that wait. The caller bounds them: it has few requests open.
    queue: VecDeque<Wanted>,
    jobs: usize,
    job_sender: JobSender<Answer>,
}

impl Reads {
    pub(crate) fn new(job_sender: JobSender<Answer>) -> Self {
        Self { queue: VecDeque::new(), jobs: 0, job_sender }
    }

    /// Reads a block when a worker is free.
    pub(crate) fn read(&mut self, env: &Environment, ticket: u64, block: StoredBlock) {
        self.queue.push_back(Wanted { ticket, block });
        self.start(env);
    }

    fn start(&mut self, env: &Environment) {
        while self.jobs < most_jobs(env.workers)
            && let Some(wanted) = self.queue.pop_front()
        {
            self.jobs += 1;
            let (store, hasher) = (Arc::clone(&env.store), env.hasher);
            self.job_sender.run(Priority::Urgent, "read", move || {
                let Wanted { ticket, block } = wanted;
                Answer { ticket, block, read: block.read(&store, &hasher) }
            });
        }
    }

    /// Takes a worker's answer. A block that cannot be read, or is damaged, is not served.
    pub(crate) fn answered(
        &mut self,
        env: &Environment,
        index: &mut BlockIndex,
        answer: Answer,
    ) -> Read {
        self.jobs -= 1;
        self.start(env);
        let Answer { ticket, block, read } = answer;
        let bytes = match read {
            Ok(Intact { bytes, checksum }) => {
                if index.node(block.id).checksum.is_none() {
                    index.set_checksum(block.id, checksum);
                }
                Ok(bytes)
            }
            Err(error) => Err(BlockUnreadable::new(&env.store, &block, &error)),
        };
        Read { ticket, bytes }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.jobs == 0
    }
}

/// Reads at once: they leave a worker to what the chain itself waits for, which a slow disk would keep
/// waiting otherwise. (A worker that is the only one reads for peers, too.)
fn most_jobs(workers: usize) -> usize {
    workers.saturating_sub(1).clamp(1, READ_JOBS)
}

#[cfg(test)]
impl Reads {
    pub(crate) fn job_sender(&self) -> JobSender<Answer> {
        self.job_sender.clone()
    }
}

//! Reads stored blocks for peers, on workers, so that a slow disk does not hold up connecting; and for
//! RPC methods, on the thread of the method ([`BlockReader`]).
//!
//! What goes to a peer is what was written, or nothing: a peer would take a block that a disk has damaged
//! for an attack of ours. The checksum in the index tells. A block that schema 1 has stored has none; it is
//! checked as one from a peer is, at the cost of hashing it, and has one from then on.

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

/// What came of a read.
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

/// Where a block lies that is stored, as of the moment at which the chain said so.
#[derive(Clone, Copy, Debug)]
pub struct StoredBlock {
    id: NodeId,
    hash: BlockHash,
    pub(crate) position: BlockPosition,
    checksum: Option<BlockChecksum>,
    /// How a block without checksum is checked.
    witnesses: WitnessCheck,
    /// Its undo record, and the hash of the block before, which that covers.
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

/// Reads what the chain said is stored, on the caller's thread: any but the chain's, which waits for no
/// disk. The chain goes on meanwhile, and may prune what is to be read.
#[derive(Clone)]
pub struct BlockReader {
    store: Arc<Store>,
    hasher: UtxoHasher,
}

/// A stored block that could not be read, and why. [`note_unreadable`](crate::note_unreadable) is to be
/// told: the chain knows whether the block was pruned meanwhile, and says what is wrong otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockUnreadable {
    pub(crate) id: NodeId,
    /// Where it was to be read.
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

    /// Whether what was written is not there any more; otherwise another attempt may read it.
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

    /// The bytes of a block, if they are those that were written.
    ///
    /// # Errors
    ///
    /// They are not, or there are none.
    pub fn block(&self, stored: &StoredBlock) -> Result<PooledStream, BlockUnreadable> {
        let read = stored.read(&self.store, &self.hasher);
        read.map(|intact| intact.bytes)
            .map_err(|error| BlockUnreadable::new(&self.store, stored, &error))
    }

    /// The coins that a block spent; `None` where no record is stored.
    ///
    /// # Errors
    ///
    /// The record cannot be read, or is damaged.
    pub fn undo(&self, stored: &StoredBlock) -> Result<Option<BlockUndo>, StoreError> {
        stored.undo.map(|undo| self.store.read_undo(undo, &stored.prev)).transpose()
    }

    /// What makes an undo record again that [`Self::undo`] did not read, with this error or because there is
    /// none; `None` where another attempt may read it.
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
    /// Reads that wait. Bounded by the caller, which has few requests open.
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

    /// A worker has answered. A block that cannot be read, or is not what was written, is not served.
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

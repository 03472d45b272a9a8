//! Reads stored blocks for peers, on workers, so that a slow disk does not hold up connecting.
//!
//! What goes to a peer is what was written, or nothing: a peer would take a block that a disk has damaged
//! for an attack of ours. The checksum in the index tells. A block that schema 1 has stored has none; it is
//! checked as one from a peer is, at the cost of hashing it, and has one from then on.

use std::collections::VecDeque;
use std::sync::Arc;

use godwit_primitives::BlockHash;
use godwit_primitives::network::Deployment;
use godwit_store::exec::Priority;
use godwit_store::utxo::UtxoHasher;
use godwit_store::{BlockChecksum, BlockPosition, Store, StoreError};
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
    id: NodeId,
    read: Result<Intact, ReadError>,
}

/// What came of a read.
pub(crate) struct Read {
    pub(crate) ticket: u64,
    /// The block; `None` where it is not served.
    pub(crate) bytes: Option<PooledStream>,
    /// The block, if its bytes are damaged.
    pub(crate) damaged: Option<NodeId>,
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

/// A stored block, and how it is told whether it is what was written.
#[derive(Clone, Copy)]
pub(crate) struct StoredBlock {
    hash: BlockHash,
    pub(crate) position: BlockPosition,
    checksum: Option<BlockChecksum>,
    /// How a block without checksum is checked.
    witnesses: WitnessCheck,
}

/// What a worker is to read.
struct Wanted {
    ticket: u64,
    id: NodeId,
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

    /// Reads the block at `position` when a worker is free.
    pub(crate) fn read(
        &mut self,
        env: &Environment,
        ticket: u64,
        (id, node): (NodeId, &Node),
        position: BlockPosition,
    ) {
        let block = StoredBlock::new(env, node, position);
        self.queue.push_back(Wanted { ticket, id, block });
        self.start(env);
    }

    fn start(&mut self, env: &Environment) {
        while self.jobs < most_jobs(env.workers)
            && let Some(wanted) = self.queue.pop_front()
        {
            self.jobs += 1;
            let (store, hasher) = (Arc::clone(&env.store), env.hasher);
            self.job_sender.run(Priority::Urgent, "read", move || {
                let Wanted { ticket, id, block } = wanted;
                Answer { ticket, id, read: block.read(&store, &hasher) }
            });
        }
    }

    /// A worker has answered. A block that cannot be read, or is not what was written, is only not
    /// served; if the chain needs it, its own read will fail.
    pub(crate) fn answered(
        &mut self,
        env: &Environment,
        index: &mut BlockIndex,
        answer: Answer,
    ) -> Read {
        self.jobs -= 1;
        self.start(env);
        let Answer { ticket, id, read } = answer;
        match read {
            Ok(Intact { bytes, checksum }) => {
                if index.node(id).checksum.is_none() {
                    index.set_checksum(id, checksum);
                }
                return Read { ticket, bytes: Some(bytes), damaged: None };
            }
            Err(ReadError::Store(error)) if error.is_not_found() => {
                log::debug!("A block was pruned before it was read: {error}");
            }
            Err(ReadError::Store(error)) => {
                log::error!("A stored block is not served: {error}");
                let damaged = error.is_rotten().then_some(id);
                return Read { ticket, bytes: None, damaged };
            }
            Err(ReadError::Damaged(at)) => {
                let path = env.store.block_file(at.file);
                let (path, offset) = (path.display(), at.offset);
                log::error!("A stored block is not served: {path} at byte {offset} is damaged");
                return Read { ticket, bytes: None, damaged: Some(id) };
            }
        }
        Read { ticket, bytes: None, damaged: None }
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

impl StoredBlock {
    /// Block `node`, which lies at `position`.
    pub(crate) fn new(env: &Environment, node: &Node, position: BlockPosition) -> Self {
        let witnesses = match env.params.is_active(Deployment::Segwit, node.height) {
            true => WitnessCheck::Segwit,
            false => WitnessCheck::BeforeSegwit,
        };
        Self { hash: node.hash, position, checksum: node.checksum, witnesses }
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

#[cfg(test)]
impl Reads {
    pub(crate) fn job_sender(&self) -> JobSender<Answer> {
        self.job_sender.clone()
    }
}

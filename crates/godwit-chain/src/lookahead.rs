//! The look-ahead: the next blocks for the tip, read back from their files if they are not in
//! memory, with their coins fetched from below the memtable before their turn.

mod fetch;
pub(crate) mod near_blocks;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use godwit_primitives::network::Deployment;
use godwit_store::StoreError;
use godwit_store::exec::Priority;
use godwit_store::utxo::UtxoStore;

use crate::apply::{CoinReads, Prefetched, Ready};
use crate::environment::Environment;
use crate::error::ChainError;
use crate::index::{BlockIndex, Stored};
use crate::job_sender::JobSender;
use crate::limits::{AHEAD_BLOCKS, AHEAD_JOBS};
use crate::lookahead::fetch::Fetch;
use crate::lookahead::near_blocks::NearBlocks;
use crate::second_look::Search;
use crate::status::ChainStatus;
use crate::structure::{Structured, WitnessCheck};
use crate::tree::{NodeId, Validity};

/// Most inputs of the queued blocks, not counting the last block: those of about ten full blocks.
/// Bounds the memory of their coins, whose scripts may have 10,000 bytes each.
const AHEAD_INPUTS: usize = 64 << 10;

/// Inputs of the blocks whose coins one job fetches, not counting the last block.
const FETCH_INPUTS: usize = AHEAD_INPUTS / 2;

/// Bytes of runs up to which blocks are gathered for one job, and that not at once: their coins are then so
/// close to each other in the runs that many are read together. In larger runs each is read by itself, and
/// several jobs are the sooner done. Tests have few coins.
pub(crate) const GATHER_BELOW: u64 = if cfg!(test) { 512 << 10 } else { 256 << 20 };

/// Bytes of a block per input, to guess the number of inputs of a block that is still being read.
const TYPICAL_INPUT_BYTES: usize = 128;

/// Memory of a block for each of its bytes, to guess that of a block that is still being read: its ids and
/// keys take as much as its bytes where its transactions are usual ones.
const TYPICAL_MEMORY_PER_BYTE: usize = 2;

/// A queued block.
struct Ahead {
    id: NodeId,
    /// Distinguishes a job's answer from that of an earlier job for the same block.
    token: u64,
    /// It gets a second look: nothing of it is taken from memory.
    again: bool,
    stage: Stage,
}

enum Stage {
    /// Being read back from its file.
    Loading,
    /// Its coins will be fetched together with those of its neighbours.
    Gathered(Arc<Structured>),
    /// Its coins are being fetched.
    Fetching(Arc<Structured>),
    /// Its coins are fetched; usable while their pin is covered.
    Ready(Arc<Structured>, Prefetched),
}

/// What a job found for the queued blocks with these tokens.
pub(crate) struct Answer {
    tokens: Vec<u64>,
    found: Found,
}

enum Found {
    /// The block, read back; `None` when it is damaged.
    Block(Result<Option<Arc<Structured>>, StoreError>),
    /// Their coins below the memtable, as far as there was time.
    Coins(Result<Box<Fetch>, StoreError>),
    /// More of them, at a second look.
    Search(Result<Box<Search>, StoreError>),
}

/// Why an answer cannot be used.
#[derive(Debug)]
pub(crate) enum LookaheadError {
    /// The bytes of a stored block are not what was written.
    Damaged(NodeId),
    /// A read failed.
    Store(StoreError),
}

/// See the module's documentation.
pub(crate) struct Lookahead {
    queue: VecDeque<Ahead>,
    /// Stored blocks in memory that are next or nearly next.
    near: NearBlocks,
    next_token: u64,
    /// Jobs that have not answered, including those for blocks that left the queue.
    jobs: usize,
    /// Number of blocks whose coins were fetched again because their pin was no longer covered.
    refetched: u64,
    /// Most memory of the queued blocks and their coins, not counting the last block.
    bytes_limit: usize,
    /// Time that workers spent on BIP30 probes.
    probe_time: Duration,
    /// Since this was last asked.
    reads: CoinReads,
    env: Environment,
    job_sender: JobSender<Answer>,
}

impl Lookahead {
    /// An empty look-ahead with at most `near_bytes` of blocks in memory, of which the queued ones take half.
    pub(crate) fn new(env: &Environment, near_bytes: usize, job_sender: JobSender<Answer>) -> Self {
        Self {
            queue: VecDeque::new(),
            near: NearBlocks::new(near_bytes),
            next_token: 0,
            jobs: 0,
            refetched: 0,
            bytes_limit: near_bytes / 2,
            probe_time: Duration::ZERO,
            reads: CoinReads::default(),
            env: env.clone(),
            job_sender,
        }
    }

    /// Keeps a stored block in memory if it may be queued. A block of an import is kept only if it
    /// is next or follows one that is kept: a block that waits for another would hold the budget
    /// that the other one needs to be read.
    pub(crate) fn keep(&mut self, index: &BlockIndex, stored: &Stored, applied: NodeId) {
        let (id, node) = (stored.id(), index.node(stored.id()));
        let Some(parent) = node.parent() else { return };
        let near = match stored.block().holds_permit() {
            true => {
                parent == applied
                    || self.near.contains((node.height - 1, parent))
                    || self.queue.back().is_some_and(|last| last.id == parent)
            }
            false => index.tree().is_ancestor(applied, id),
        };
        if near && !node.failed {
            let queued_bytes = self.bytes(index);
            self.near.insert((node.height, id), Arc::clone(stored.block()), queued_bytes);
        }
    }

    /// Fills the queue towards `target`, a descendant of the last applied block; `doubted` gets a second
    /// look.
    ///
    /// # Errors
    ///
    /// [`ChainError::DamagedIndex`] where a block on the way is not stored: the caller has made sure of it.
    pub(crate) fn fill(
        &mut self,
        index: &BlockIndex,
        coins: &UtxoStore,
        applied: NodeId,
        target: NodeId,
        doubted: Option<NodeId>,
    ) -> Result<(), ChainError> {
        let last = self.queue.back().map_or(applied, |ahead| ahead.id);
        if !index.tree().is_ancestor(last, target) {
            self.queue.clear();
        }
        let target_height = index.height(target);
        while self.queue.len() < AHEAD_BLOCKS
            && self.jobs < AHEAD_JOBS
            && self.inputs(index) < AHEAD_INPUTS
            && (self.queue.is_empty() || self.bytes(index) < self.bytes_limit)
        {
            let last = self.queue.back().map_or(applied, |ahead| ahead.id);
            let height = index.height(last) + 1;
            if height > target_height {
                break;
            }
            let id = index.tree().ancestor(target, height).expect("below the target");
            if index.is_lost(id) {
                break;
            }
            self.next_token += 1;
            let token = self.next_token;
            let (again, near) = (doubted == Some(id), self.near.remove((height, id)));
            let stage = match near.filter(|_| !again) {
                Some(block) => Stage::Gathered(block),
                None => self.load(index, token, id)?,
            };
            self.queue.push_back(Ahead { id, token, again, stage });
        }
        self.update_ready(index, coins);
        self.fetch_gathered(index, coins);
        Ok(())
    }

    /// Brings what was fetched up to the newest seal, while the memtables are in memory that were sealed
    /// since: so none is kept for it, nor is it fetched again because memory was short.
    fn update_ready(&mut self, index: &BlockIndex, coins: &UtxoStore) {
        for Ahead { id, again, stage, .. } in &mut self.queue {
            if let Stage::Ready(block, prefetched) = stage
                && !*again
            {
                prefetched.update(coins, block, index.enforces_bip30(*id));
            }
        }
    }

    /// Has the coins of gathered blocks fetched, unless it is better to wait for more.
    fn fetch_gathered(&mut self, index: &BlockIndex, coins: &UtxoStore) {
        let gathered = |ahead: &Ahead| match &ahead.stage {
            Stage::Gathered(block) => Some(block.spends().len()),
            _ => None,
        };
        if !self.queue.iter().any(|ahead| gathered(ahead).is_some()) {
            return;
        }
        let layers = coins.layers();
        let limit = if layers.bytes() <= GATHER_BELOW { FETCH_INPUTS } else { 1 };
        let is_next = self.queue.front().is_some_and(|ahead| gathered(ahead).is_some());
        let inputs: usize = self.queue.iter().filter_map(gathered).sum();
        if !is_next && inputs < limit && !layers.is_empty() {
            return;
        }
        let mut at = 0;
        while at < self.queue.len() && self.jobs < AHEAD_JOBS {
            let mut fetch = Fetch::new(Arc::clone(&layers));
            while at < self.queue.len() && (fetch.is_empty() || fetch.inputs() < limit) {
                let Ahead { id, token, stage, .. } = &mut self.queue[at];
                at += 1;
                let Stage::Gathered(block) = stage else { continue };
                let (block, bip30) = (Arc::clone(block), index.enforces_bip30(*id));
                if layers.is_empty() || block.spends().is_empty() && !bip30 {
                    *stage = Stage::Ready(block, Prefetched::nothing(layers.pin()));
                    continue;
                }
                fetch.add(*token, Arc::clone(&block), bip30);
                *stage = Stage::Fetching(block);
            }
            if !fetch.is_empty() {
                self.fetch_on(fetch);
            }
        }
    }

    /// Takes the first block from the queue, if it is ready: memory and what was fetched for it
    /// together know all its coins.
    ///
    /// If memory ran out meanwhile, the coins of all queued blocks whose pin is no longer covered
    /// are fetched again, all at once: one after the other, they would cost a round trip each. This
    /// ends, because nothing is applied meanwhile, and so nothing is flushed but what is sealed
    /// already.
    pub(crate) fn take_ready(&mut self, index: &BlockIndex, coins: &UtxoStore) -> Option<Ready> {
        let Stage::Ready(_, prefetched) = &self.queue.front()?.stage else { return None };
        if !coins.covers(&prefetched.pin) {
            self.refetch_uncovered(index, coins);
            return None;
        }
        let front = self.queue.pop_front()?;
        match front.stage {
            Stage::Ready(block, prefetched) => {
                Some(Ready { id: front.id, block, prefetched, again: front.again })
            }
            _ => unreachable!("just seen"),
        }
    }

    fn refetch_uncovered(&mut self, index: &BlockIndex, coins: &UtxoStore) {
        for at in 0..self.queue.len() {
            let Ahead { id, token, again, stage } = &self.queue[at];
            if let Stage::Ready(block, prefetched) = stage
                && !coins.covers(&prefetched.pin)
                && self.jobs < AHEAD_JOBS
            {
                let (id, token, again, block) = (*id, *token, *again, Arc::clone(block));
                self.refetched += 1;
                self.queue[at].stage = match again {
                    true => self.search(index, coins, token, id, block),
                    false => Stage::Gathered(block),
                };
            }
        }
        self.fetch_gathered(index, coins);
    }

    fn inputs(&self, index: &BlockIndex) -> usize {
        let inputs = |ahead: &Ahead| match &ahead.stage {
            Stage::Gathered(block) | Stage::Fetching(block) | Stage::Ready(block, _) => {
                block.spends().len()
            }
            Stage::Loading => {
                let position = index.node(ahead.id).position;
                position.map_or(0, |position| position.len as usize / TYPICAL_INPUT_BYTES)
            }
        };
        self.queue.iter().map(inputs).sum()
    }

    /// Memory of the queued blocks and of what was fetched for them. Blocks of an import are within its
    /// budget.
    fn bytes(&self, index: &BlockIndex) -> usize {
        let charged = |block: &Structured| if block.holds_permit() { 0 } else { block.memory() };
        let bytes = |ahead: &Ahead| match &ahead.stage {
            Stage::Gathered(block) | Stage::Fetching(block) => charged(block),
            Stage::Ready(block, prefetched) => charged(block) + prefetched.memory,
            Stage::Loading => {
                let position = index.node(ahead.id).position;
                position.map_or(0, |position| position.len as usize * TYPICAL_MEMORY_PER_BYTE)
            }
        };
        self.queue.iter().map(bytes).sum()
    }

    fn load(&mut self, index: &BlockIndex, token: u64, id: NodeId) -> Result<Stage, ChainError> {
        let node = index.node(id);
        let position = node.position.ok_or(ChainError::DamagedIndex(node.hash))?;
        let (hash, hasher) = (node.hash, self.env.hasher);
        // The witnesses of a block that was verified before are not checked again: its scripts do
        // not run.
        let witnesses = if node.validity >= Validity::Scripts {
            WitnessCheck::Skip
        } else if self.env.params.is_active(Deployment::Segwit, node.height) {
            WitnessCheck::Segwit
        } else {
            WitnessCheck::BeforeSegwit
        };
        let store = Arc::clone(&self.env.store);
        self.jobs += 1;
        self.job_sender.run(Priority::Urgent, "load", move || {
            let block = store.read_block(position).map(|bytes| {
                Structured::from_own_file(bytes, hash, witnesses, &hasher).map(Arc::new)
            });
            Answer { tokens: vec![token], found: Found::Block(block) }
        });
        Ok(Stage::Loading)
    }

    fn fetch_on(&mut self, fetch: Fetch) {
        self.jobs += 1;
        let env = self.env.clone();
        self.job_sender.run(Priority::Urgent, "prefetch", move || Answer {
            tokens: fetch.tokens(),
            found: Found::Coins(fetch.go_on(&env).map(Box::new)),
        });
    }

    /// Has the coins of a block searched for, without what memory holds of runs.
    fn search(
        &mut self,
        index: &BlockIndex,
        coins: &UtxoStore,
        token: u64,
        id: NodeId,
        block: Arc<Structured>,
    ) -> Stage {
        let search = Search::new(Arc::clone(&block), coins.layers(), index.enforces_bip30(id));
        self.search_on(token, search);
        Stage::Fetching(block)
    }

    fn search_on(&mut self, token: u64, search: Search) {
        self.jobs += 1;
        self.job_sender.run(Priority::Urgent, "search", move || Answer {
            tokens: vec![token],
            found: Found::Search(search.go_on().map(Box::new)),
        });
    }

    /// A job has answered.
    ///
    /// # Errors
    ///
    /// The block is damaged, or a read failed. An error about a block that has left the queue is
    /// ignored, since its file may have been pruned; unless the store is closed.
    pub(crate) fn answered(
        &mut self,
        index: &BlockIndex,
        coins: &UtxoStore,
        answer: Answer,
    ) -> Result<(), LookaheadError> {
        self.jobs -= 1;
        let Answer { tokens, found } = answer;
        let place = |token: u64| self.queue.iter().position(|ahead| ahead.token == token);
        let Some(at) = tokens.iter().find_map(|token| place(*token)) else {
            return found.stale();
        };
        let Ahead { id, token, again, .. } = self.queue[at];
        match found {
            Found::Block(Err(error)) if error.is_rotten() => {
                log::error!("A stored block cannot be read: {error}");
                return Err(LookaheadError::Damaged(id));
            }
            Found::Block(block) => {
                let block =
                    block.map_err(LookaheadError::Store)?.ok_or(LookaheadError::Damaged(id))?;
                self.queue[at].stage = match again {
                    true => self.search(index, coins, token, id, block),
                    false => Stage::Gathered(block),
                };
            }
            Found::Search(search) => {
                let search = search.map_err(LookaheadError::Store)?;
                if !search.is_done() {
                    self.search_on(token, *search);
                } else if let Stage::Fetching(block) = &self.queue[at].stage {
                    let block = Arc::clone(block);
                    self.queue[at].stage = Stage::Ready(block, search.into_found());
                }
            }
            Found::Coins(fetch) => {
                let fetch = fetch.map_err(LookaheadError::Store)?;
                if fetch.is_done() { self.fetched_coins(*fetch) } else { self.fetch_on(*fetch) }
            }
        }
        Ok(())
    }

    /// The coins of blocks are fetched, of which some may have left the queue.
    fn fetched_coins(&mut self, fetch: Fetch) {
        let (found, costs) = fetch.into_found();
        self.probe_time += costs.probe_time;
        self.reads.coins += costs.reads.coins;
        self.reads.time += costs.reads.time;
        for (token, prefetched) in found {
            let ahead = self.queue.iter_mut().find(|ahead| ahead.token == token);
            if let Some(Ahead { stage, .. }) = ahead
                && let Stage::Fetching(block) = stage
            {
                *stage = Stage::Ready(Arc::clone(block), prefetched);
            }
        }
    }

    /// The reads since the last call.
    pub(crate) fn take_reads(&mut self) -> CoinReads {
        std::mem::take(&mut self.reads)
    }

    /// Empties the queue: it is to lead to another block.
    pub(crate) fn clear_queue(&mut self) {
        self.queue.clear();
    }

    /// As [`Self::new`] sets the memory of blocks.
    pub(crate) fn set_limit(&mut self, near_bytes: usize) {
        self.near.set_limit(near_bytes);
        self.bytes_limit = near_bytes / 2;
    }

    /// Forgets every block.
    pub(crate) fn clear(&mut self) {
        self.queue.clear();
        self.near.clear();
    }

    /// Forgets the kept blocks: they are read back when their turn comes.
    pub(crate) fn clear_near(&mut self) {
        self.near.clear();
    }

    /// Forgets blocks that turned out to be invalid.
    pub(crate) fn forget(&mut self, index: &BlockIndex, failed: &[NodeId]) {
        if failed.is_empty() {
            return;
        }
        for id in failed {
            self.near.remove((index.height(*id), *id));
        }
        self.queue.clear();
    }

    /// Forgets kept blocks up to the height of a block that was applied.
    pub(crate) fn forget_up_to(&mut self, height: u32) {
        self.near.forget_up_to(height);
    }

    /// Forgets kept blocks of an import, so that it can read on.
    pub(crate) fn release_permits(&mut self) {
        self.near.release_permits();
    }

    /// The coins that were fetched for the queued blocks, to be changed as a fault would; none of a second
    /// look.
    #[cfg(test)]
    pub(crate) fn fetched(&mut self) -> Vec<&mut godwit_store::utxo::CompressedCoins> {
        let ready = self.queue.iter_mut().filter_map(|ahead| match &mut ahead.stage {
            Stage::Ready(_, prefetched) if !ahead.again => Some(&mut prefetched.coins),
            _ => None,
        });
        ready.collect()
    }

    pub(crate) fn status(&self, status: &mut ChainStatus) {
        let memory = |ahead: &Ahead| match &ahead.stage {
            Stage::Loading => 0,
            Stage::Gathered(block) | Stage::Fetching(block) => block.memory(),
            Stage::Ready(block, prefetched) => block.memory() + prefetched.memory,
        };
        status.memory.lookahead = self.queue.iter().map(memory).sum();
        status.memory.near = self.near.memory();
        status.refetched = self.refetched;
        status.times.bip30 = self.probe_time;
    }
}

impl Found {
    fn stale(self) -> Result<(), LookaheadError> {
        let error = match self {
            Self::Block(block) => block.err(),
            Self::Coins(coins) => coins.err(),
            Self::Search(search) => search.err(),
        };
        match error {
            Some(error @ StoreError::Closed(_)) => Err(LookaheadError::Store(error)),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;

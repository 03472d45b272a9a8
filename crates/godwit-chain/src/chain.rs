//! The chain: header tree, stored blocks, coins and the tip that they describe.
//!
//! One thread, the connector, owns it. Blocks enter through [`Chain::submit`] (one at a time, to a
//! verdict), [`import`](crate::import()) (from files) or [`Chain::receive_block`] (from peers, many
//! at once); [`Chain::poll`] moves the tip towards the best candidate. What may run beside
//! connecting runs on workers and on the commit thread and comes back through the inbox.
//!
//! Two ends. `applied` is the last block applied to the coins, `tip` the last whose scripts have
//! passed too. They differ by the window, whose blocks are taken back when one of them fails; only
//! the tip is ever told to the world or written to disk.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crossbeam_channel::{Receiver, Sender, bounded};
use godwit_consensus::{
    PrevContext, Reject, RejectReason, ResultClass, check_header, contextual_check_block,
    contextual_check_header,
};
use godwit_primitives::network::Params;
use godwit_primitives::{BlockHash, BlockHeader};
use godwit_store::exec::{Executor, Priority, Workers};
use godwit_store::utxo::{CacheMinima, SealId, UtxoHasher, UtxoStore};
use godwit_store::{BlockPosition, ChainPoint, Store, StoreError};
use godwit_stream::BufferPool;

use crate::durability::committer::Committer;
use crate::durability::pruning::Pruning;
use crate::error::ChainError;
use crate::event::{Event, StageTimes};
use crate::index::candidates::Candidates;
use crate::intake::{Feed, RECEIVING_BYTES};
use crate::lookahead::Ahead;
use crate::lookahead::kept::{WAITING_MEMORY, Waiting};
use crate::message::{INBOX_LIMIT, Message};
use crate::structure::{Received, Structured};
use crate::tree::{HeaderTree, NodeId, Validity};
use crate::verify::{Outcome, Resolved};

/// How a chain is to be run.
pub struct ChainOptions {
    /// Rules and constants of the network.
    pub params: Arc<Params>,
    /// The block below which scripts are taken as valid, if any (`-assumevalid`).
    pub assume_valid: Option<BlockHash>,
    /// Where jobs run.
    pub executor: Arc<dyn Executor>,
    /// Worker threads (`-par`).
    pub workers: usize,
    /// Bytes for the coins store (`-dbcache`).
    pub cache_bytes: u64,
    /// Below what the coins store does not go. For tests, which then flush and merge few coins.
    pub cache_minima: CacheMinima,
    /// Stop connecting at this height (`-stopatheight`).
    pub stop_at_height: Option<u32>,
    /// Bytes that block and undo files together should not exceed (`-prune`); `None` keeps all.
    pub prune_bytes: Option<u64>,
    /// Memory for blocks from peers.
    pub block_memory: BlockMemory,
    /// Seconds since 1970.
    /// It judges the times of headers and says when a checkpoint is due.
    pub clock: fn() -> i64,
}

/// What blocks from peers may take of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockMemory {
    /// Bytes that are being decoded or wait to be accepted, one block more at worst.
    pub receiving: u64,
    /// Bytes of accepted blocks that wait for their turn, indexes included.
    pub waiting: usize,
}

impl Default for BlockMemory {
    fn default() -> Self {
        Self { receiving: RECEIVING_BYTES, waiting: WAITING_MEMORY }
    }
}

/// Jobs that wait for a worker: what an import, blocks from peers and the look-ahead have on their way,
/// all of which the inbox has room for, and the parts of a window of the largest blocks.
const QUEUED_JOBS: [usize; Priority::COUNT] = [INBOX_LIMIT, 32 * 520];

/// A block that is this near to the clock is placed by its height, not by its time.
const RECENT_SECONDS: u64 = 2 * 60 * 60;

/// A block that is applied to the coins and not yet retired.
pub(crate) struct Applied {
    pub(crate) id: NodeId,
    /// Tells its outcome from that of an earlier application of the same block.
    pub(crate) token: u64,
    pub(crate) resolved: Arc<Resolved>,
    /// Memory of the coins that it spent.
    pub(crate) coin_bytes: usize,
    pub(crate) outcome: Option<Outcome>,
}

/// A sealed memtable on its way to disk, and the tip whose coins it completes.
pub(crate) struct Flush {
    pub(crate) seal: SealId,
    pub(crate) tip: NodeId,
}

/// See the module's documentation.
pub struct Chain {
    /// First, so that it is dropped first: jobs and commits that still run when the chain is dropped
    /// then report to nobody instead of waiting for room, while the drop waits for them.
    pub(crate) inbox: Receiver<Message>,
    pub(crate) params: Arc<Params>,
    pub(crate) options: ChainOptions,
    pub(crate) store: Arc<Store>,
    pub(crate) hasher: UtxoHasher,
    pub(crate) utxo: UtxoStore,
    pub(crate) tree: HeaderTree,
    pub(crate) candidates: Candidates,
    /// Stored blocks that wait for an ancestor, by parent.
    pub(crate) unlinked: HashMap<NodeId, Vec<NodeId>>,
    pub(crate) next_sequence: u64,
    pub(crate) applied: NodeId,
    /// The last block that an earlier run verified, until its coins are applied again.
    pub(crate) replay: Option<NodeId>,
    /// Nothing is connected but what an earlier run verified.
    pub(crate) known_only: bool,
    pub(crate) tip: NodeId,
    pub(crate) window: VecDeque<Applied>,
    /// A block that could not be applied. It is judged when the window is empty: where an ancestor
    /// turns out to be invalid, nothing is said of it.
    pub(crate) refused: Option<(NodeId, Reject)>,
    pub(crate) ahead: VecDeque<Ahead>,
    /// Accepted blocks in memory that are next or nearly next in line.
    pub(crate) cache: Waiting,
    pub(crate) feed: Feed,
    pub(crate) workers: Arc<Workers>,
    pub(crate) committer: Committer,
    /// Records of an import that are decoded and wait for their turn, by sequence.
    pub(crate) arrivals: BTreeMap<u64, Received>,
    pub(crate) flush: Option<Flush>,
    pub(crate) pruning: Pruning,
    pub(crate) blocks_since_commit: u32,
    /// Headers that the block index on disk holds: those before this place in the tree.
    pub(crate) durable_headers: u32,
    /// Those that it will hold after the commit that is under way.
    pub(crate) headers_in_commit: u32,
    /// By the chain's clock.
    pub(crate) last_commit: i64,
    pub(crate) cancelled: Arc<AtomicBool>,
    /// A thread panicked, and what it was to report will never come.
    pub(crate) panicked: bool,
    pub(crate) outbox: Sender<Message>,
    pub(crate) next_token: u64,
    pub(crate) events: VecDeque<Event>,
    pub(crate) times: StageTimes,
    pub(crate) assumed: Option<godwit_store::AssumedSnapshot>,
    pub(crate) script_state: Option<bool>,
}

/// A chain that is given up, for a fault or by a signal, waits for no script that has not started.
impl Drop for Chain {
    fn drop(&mut self) {
        self.cancel();
    }
}

/// The verdict on a submitted block, as Core's `submitblock` gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Connected; it is or was the tip.
    Accepted,
    /// Stored, and not itself judged as the new tip.
    Inconclusive,
    /// Stored before.
    Duplicate,
    /// The bytes are no block.
    Undecodable,
    /// It breaks a rule.
    Rejected(Reject),
}

/// What became of a block that was accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    pub(crate) id: NodeId,
    /// Whether it was not stored before.
    pub(crate) new: bool,
}

/// Why a block was not accepted.
#[derive(Debug)]
pub(crate) enum AcceptError {
    Rejected(Reject),
    Chain(ChainError),
}

impl From<StoreError> for AcceptError {
    fn from(error: StoreError) -> Self {
        Self::Chain(error.into())
    }
}

impl Chain {
    pub(crate) fn assemble(
        options: ChainOptions,
        store: Arc<Store>,
        hasher: UtxoHasher,
        utxo: UtxoStore,
        tree: HeaderTree,
        tip: NodeId,
        assumed: Option<godwit_store::AssumedSnapshot>,
    ) -> Result<Self, ChainError> {
        let (outbox, inbox) = bounded(INBOX_LIMIT);
        let (durable_headers, now) = (tree.len() as u32, (options.clock)());
        let workers =
            Workers::start(&*options.executor, "godwit-worker", options.workers, QUEUED_JOBS);
        Ok(Self {
            inbox,
            params: Arc::clone(&options.params),
            workers: Arc::new(workers.map_err(ChainError::Spawn)?),
            committer: Committer::start(Arc::clone(&store), outbox.clone())?,
            pruning: Pruning::new(options.prune_bytes, tip),
            cache: Waiting::new(options.block_memory.waiting),
            options,
            store,
            hasher,
            utxo,
            tree,
            candidates: Candidates::default(),
            unlinked: HashMap::new(),
            next_sequence: 1,
            applied: tip,
            replay: None,
            known_only: false,
            tip,
            window: VecDeque::new(),
            refused: None,
            ahead: VecDeque::new(),
            feed: Feed::default(),
            arrivals: BTreeMap::new(),
            flush: None,
            blocks_since_commit: 0,
            durable_headers,
            headers_in_commit: durable_headers,
            last_commit: now,
            cancelled: Arc::new(AtomicBool::new(false)),
            panicked: false,
            outbox,
            next_token: 0,
            events: VecDeque::new(),
            times: StageTimes::default(),
            assumed,
            script_state: None,
        })
    }

    /// The keyed hash of this datadir's coins store.
    pub fn hasher(&self) -> UtxoHasher {
        self.hasher
    }

    /// The header tree.
    pub fn tree(&self) -> &HeaderTree {
        &self.tree
    }

    /// The last connected block.
    pub fn tip(&self) -> NodeId {
        self.tip
    }

    /// Hash and height of the last connected block.
    pub fn tip_point(&self) -> ChainPoint {
        self.point(self.tip)
    }

    /// The network's parameters.
    pub fn params(&self) -> &Arc<Params> {
        &self.params
    }

    /// The disk that the chain lies on.
    pub fn disk(&self) -> &godwit_store::disk::StoreDisk {
        self.store.disk()
    }

    /// The buffers that blocks are read into, from wherever they come.
    pub fn block_buffers(&self) -> &BufferPool {
        self.store.block_buffers()
    }

    /// Time spent by stage since the chain was opened.
    pub fn stage_times(&self) -> StageTimes {
        self.times
    }

    /// Counters of the coins store.
    pub fn utxo(&self) -> &UtxoStore {
        &self.utxo
    }

    /// The snapshot that the coins below it were loaded from, unverified, if any.
    pub fn assumed(&self) -> Option<&godwit_store::AssumedSnapshot> {
        self.assumed.as_ref()
    }

    /// Connects nothing from now on but blocks that were connected before: for commands that look at
    /// the coins, which must neither move the tip nor run scripts.
    pub fn connect_known_only(&mut self) {
        self.known_only = true;
    }

    /// What happened since the last call, oldest first.
    pub fn take_events(&mut self) -> VecDeque<Event> {
        std::mem::take(&mut self.events)
    }

    /// Estimated share of the network's transactions that the chain up to `id` holds, from 0 to 1
    /// (Core `GuessVerificationProgress`). `now` is in seconds since 1970.
    pub fn verification_progress(&self, id: NodeId, now: i64) -> f64 {
        let (node, data) = (self.tree.node(id), &self.params.chain_tx_data);
        let best = self.tree.node(self.tree.best_header());
        let mut time = i64::from(node.header.time);
        if now.abs_diff(time) <= RECENT_SECONDS {
            let missing = i64::from(best.height.saturating_sub(node.height));
            time = now - missing * i64::from(self.params.pow_target_spacing);
        }
        let known = node.chain_tx_count <= data.tx_count;
        let (base, since) =
            if known { (data.tx_count, data.time) } else { (node.chain_tx_count, time) };
        let total = base as f64 + (now - since) as f64 * data.tx_rate;
        let share = node.chain_tx_count as f64 / total;
        if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 }
    }

    /// Bytes of the stored blocks of the best header's chain that are not connected yet.
    pub fn stored_ahead(&self) -> u64 {
        let best = self.tree.best_header();
        let (fork, mut walk) = (self.tree.fork(self.tip, best), best);
        let mut bytes = 0;
        while walk != fork {
            let node = self.tree.node(walk);
            bytes += node.position.map_or(0, |position| u64::from(position.len));
            walk = node.parent().expect("the fork lies below");
        }
        bytes
    }

    pub(crate) fn point(&self, id: NodeId) -> ChainPoint {
        let node = self.tree.node(id);
        ChainPoint { hash: node.hash, height: node.height }
    }

    pub(crate) fn token(&mut self) -> u64 {
        self.next_token += 1;
        self.next_token
    }

    /// Adds a header to the tree (Core `AcceptBlockHeader`).
    pub fn accept_header(&mut self, new: &BlockHeader, hash: BlockHash) -> Result<NodeId, Reject> {
        if let Some(known) = self.tree.find(&hash) {
            let failed = self.tree.node(known).failed;
            let reject = Reject::new(RejectReason::DuplicateInvalid);
            return if failed { Err(reject) } else { Ok(known) };
        }
        check_header(&hash, new, &self.params)?;
        let parent = self.tree.find(&new.prev_blockhash);
        let parent = parent.ok_or(Reject::new(RejectReason::PrevBlkNotFound))?;
        if self.tree.node(parent).failed {
            return Err(Reject::new(RejectReason::BadPrevblk));
        }
        let now = (self.options.clock)();
        self.with_prev_context(parent, |context, params| {
            contextual_check_header(new, context, params, now)
        })?;
        Ok(self.tree.insert(*new, hash, parent))
    }

    fn with_prev_context<T>(
        &self,
        parent: NodeId,
        check: impl FnOnce(&PrevContext<'_>, &Params) -> T,
    ) -> T {
        let node = self.tree.node(parent);
        // The 20-minute rule walks down one by one, through a whole period on testnet3.
        let cursor = Cell::new(parent);
        let ancestor = |height| {
            let above = self.tree.node(cursor.get());
            let id = match above.parent() {
                Some(below) if above.height == height + 1 => below,
                _ => {
                    let id = self.tree.ancestor(parent, height);
                    id.expect("asked for heights up to the parent's")
                }
            };
            cursor.set(id);
            self.tree.node(id).header
        };
        let context = PrevContext {
            height: node.height,
            header: node.header,
            median_time_past: self.tree.median_time_past(parent),
            ancestor: &ancestor,
        };
        check(&context, &self.params)
    }

    /// Stores a block whose structure holds (Core `AcceptBlock`). Where it lies already on disk,
    /// `position` says where.
    pub(crate) fn accept_structured(
        &mut self,
        new: &Arc<Structured>,
        position: Option<BlockPosition>,
    ) -> Result<Stored, AcceptError> {
        let id = self.accept_header(new.header(), new.hash()).map_err(AcceptError::Rejected)?;
        let node = self.tree.node(id);
        let Some(parent) = node.parent() else {
            return Ok(Stored { id, new: false });
        };
        if self.has_block(id) {
            return Ok(Stored { id, new: false });
        }
        let checked = self.with_prev_context(parent, |context, params| {
            contextual_check_block(new.view(), context, params)
        });
        if let Err(reject) = checked {
            self.fail(id, reject);
            return Err(AcceptError::Rejected(reject));
        }
        let position = match position {
            Some(position) => position,
            None => {
                let bytes = new.view().bytes();
                let written =
                    self.store.write_block(self.store.reserve_block(bytes.len())?, bytes)?;
                let position = written.position();
                self.store.note_written(written);
                position
            }
        };
        self.received(id, new.view().tx_count(), position);
        self.keep_if_near(id, new);
        Ok(Stored { id, new: true })
    }

    /// A block arrived and is stored (Core `ReceivedBlockTransactions`).
    fn received(&mut self, id: NodeId, tx_count: usize, position: BlockPosition) {
        let node = self.tree.node_mut(id);
        node.tx_count = tx_count as u32;
        node.position = Some(position);
        node.validity = node.validity.max(Validity::Structured);
        self.pruning.note_stored(id, node.height, position.file);
        self.link(id);
    }

    /// Gives a stored block, and those that waited for it, their place among the candidates, if the
    /// chain below is complete.
    pub(crate) fn link(&mut self, id: NodeId) {
        let parent = self.tree.node(id).parent().expect("genesis is never received");
        if !self.tree.node(parent).has_chain() && !self.leaves_assumed_history(parent, id) {
            self.unlinked.entry(parent).or_default().push(id);
            return;
        }
        let mut queue = VecDeque::from([id]);
        while let Some(id) = queue.pop_front() {
            let parent = self.tree.node(id).parent().expect("genesis is never received");
            let before = self.tree.node(parent).chain_tx_count;
            let sequence = self.next_sequence;
            self.next_sequence += 1;
            let node = self.tree.node_mut(id);
            // The base of an assumed snapshot is a candidate before its block is there.
            if !node.has_chain() {
                node.sequence = sequence;
            }
            node.chain_tx_count = before + u64::from(node.tx_count);
            if !node.failed {
                self.candidates.add(&self.tree, id, self.tip);
            }
            queue.extend(self.unlinked.remove(&id).unwrap_or_default());
        }
    }

    /// Whether a branch leaves, between `parent` and `id`, the chain that ends in the block of an
    /// assumed snapshot. Nothing below that block is waited for. Such a branch is a candidate like any
    /// other, so that one with more work than the tip is noticed: it cannot become the tip
    /// ([`ChainError::ForkBelowSnapshot`]), for the coins at its fork are not there.
    fn leaves_assumed_history(&self, parent: NodeId, id: NodeId) -> bool {
        let base = self.assumed.as_ref().and_then(|assumed| self.tree.find(&assumed.base.hash));
        base.is_some_and(|base| {
            self.tree.is_ancestor(parent, base) && !self.tree.is_ancestor(id, base)
        })
    }

    /// Lets chains start at the block of an assumed snapshot: its descendants need nothing below.
    pub(crate) fn adopt_assumed_base(&mut self, base: NodeId) {
        let hash = self.tree.node(base).hash;
        let compiled_in = self.params.assumeutxo.iter().find(|known| known.blockhash == hash);
        // Without a known number of transactions counting starts at the base.
        let chain_tx_count = compiled_in.map_or(1, |known| known.chain_tx_count);
        // Its place among the candidates depends on its sequence.
        self.candidates.remove(&self.tree, base);
        let node = self.tree.node_mut(base);
        node.chain_tx_count = node.chain_tx_count.max(chain_tx_count);
        // It is the tip before its block comes: a branch of equal work never came earlier.
        node.sequence = 0;
        self.candidates.prune(&self.tree, self.tip);
        self.candidates.add(&self.tree, base, self.tip);
    }

    /// Links the stored blocks that waited for the block of an assumed snapshot or for one below it.
    pub(crate) fn link_above_assumed_history(&mut self, base: NodeId) {
        let parents = self.unlinked.keys().filter(|parent| self.tree.is_ancestor(**parent, base));
        let mut parents: Vec<NodeId> = parents.copied().collect();
        parents.sort_unstable();
        for parent in parents {
            for child in self.unlinked.remove(&parent).unwrap_or_default() {
                self.link(child);
            }
        }
    }

    /// Marks a block and its descendants as invalid, unless only these bytes are at fault (Core
    /// `InvalidBlockFound`).
    pub(crate) fn fail(&mut self, id: NodeId, reject: Reject) {
        if reject.class == ResultClass::Mutated {
            return;
        }
        for failed in self.tree.mark_failed(id) {
            self.candidates.remove(&self.tree, failed);
            self.cache.remove((self.tree.node(failed).height, failed));
        }
        self.ahead.clear();
        let ChainPoint { hash, height } = self.point(id);
        log::warn!("InvalidChainFound: invalid block={hash} height={height} reason={reject}");
    }
}

#[cfg(test)]
mod tests;

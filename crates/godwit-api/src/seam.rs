//! The interface between methods and the node: questions in one direction, snapshots in the other.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use godwit_chain::{BlockUnreadable, Chain, CoinsView, NodeId};
use godwit_consensus::Reject;
use godwit_index::Indexes;
use godwit_p2p::{FilterData, NodeCommand, Now, OutboxTx, PeerId, Peers, ReadId};
use godwit_primitives::{BlockHash, BlockHeader, Params, Txid, Work};
use godwit_rpc::{RpcError, code};
use godwit_stream::PooledStream;

use crate::snapshot_load::{LOADING, SnapshotLoad};
use crate::sync::SyncReport;

/// Questions that wait for the node's thread; a method that has another one waits for a place.
pub(crate) const MAX_QUESTIONS: usize = 128;

/// Between two looks of a waiting method whether the node ends.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Between two looks of a waiting method whether its client still waits.
const CALLER_INTERVAL: Duration = Duration::from_secs(1);

/// The node as a question sees it, on the node's thread.
pub trait NodeState {
    fn chain(&self) -> &Chain;
    fn peers(&self) -> &Peers;
    fn now(&self) -> Now;
    /// Whether connections to peers are wanted.
    fn network_active(&self) -> bool;
    /// Takes a header whose parent is known.
    ///
    /// # Errors
    ///
    /// It breaks a rule.
    fn accept_header(&mut self, header: &BlockHeader) -> Result<(), Reject>;
    /// A stored block could not be read.
    fn note_unreadable(&mut self, unreadable: &BlockUnreadable);
    /// Has the engine do something.
    fn command(&mut self, command: NodeCommand);
    /// Whether the chain has nothing to do.
    fn is_idle(&self) -> bool;
    /// Has the chain take the operator's verdict on a block, instead of its own.
    ///
    /// # Errors
    ///
    /// Nothing has changed.
    fn overrule(&mut self, hash: &BlockHash, overrule: Overrule) -> Result<(), OverruleRefusal>;
    /// Asks a peer for a block, which is stored when it comes, also where it was pruned.
    fn fetch_block(&mut self, peer: PeerId, id: NodeId);
    /// Keeps the blocks above a height from pruning, until an index has read them.
    fn keep_above(&mut self, reader: &'static str, height: Option<u32>);
    /// Filters were read for a peer.
    fn filters_read(&mut self, request: ReadId, data: Option<FilterData>);
    /// Has block and undo files deleted that have no block above a height.
    fn prune_to(&mut self, height: u32);
    /// Puts transactions into the outbox.
    ///
    /// # Errors
    ///
    /// Nothing has changed.
    fn send_transactions(&mut self, judged: JudgedTxs) -> Result<(), SendRefusal>;
    /// Has a transaction of the outbox announced again.
    fn announce_again(&mut self, txid: &Txid);
    /// Sends the coins of the tip once they are on disk, unless the sender has been dropped by then.
    fn view_coins(&mut self, to: Weak<Sender<CoinsView>>);
    /// Has the node end its run, load a snapshot and start again.
    ///
    /// # Errors
    ///
    /// Another one is to be loaded.
    fn load_snapshot(&mut self, load: SnapshotLoad) -> Result<(), LoadPending>;
    /// Hands in a block, which is stored even if it was pruned. Its outcome is sent to `outcome`; nobody has
    /// to receive it.
    fn submit_block(&mut self, bytes: PooledStream, outcome: Sender<BlockOutcome>);
}

/// How the operator changes the verdict on a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overrule {
    /// It is taken for invalid.
    Invalidate,
    /// It may be valid again.
    Reconsider,
    /// It is taken to have come before the others of its work.
    Prefer,
}

/// Transactions that were judged, and over what.
#[derive(Debug)]
pub struct JudgedTxs {
    pub tip: BlockHash,
    /// The version of the outbox.
    pub outbox: u64,
    /// Parents before children.
    pub txs: Vec<OutboxTx>,
    /// The transactions of the outbox that they replace.
    pub replaced: Vec<Txid>,
}

/// Why transactions were not put into the outbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendRefusal {
    /// The tip or the outbox is not the one that they were judged over.
    Moved,
    /// The outbox has no room.
    Full,
}

/// A snapshot is about to be loaded already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadPending;

/// Why the verdict on a block stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverruleRefusal {
    /// No header has this hash.
    UnknownBlock,
    /// The genesis block has no verdict.
    Genesis,
    /// The chain cannot go where it would have to.
    Refused(String),
}

/// How peers are reached. In which networks, the engine knows ([`Peers::reachable`]).
#[derive(Clone, Copy, Debug)]
pub struct Proxies {
    /// The proxy to IPv4 and IPv6.
    pub clearnet: Option<SocketAddr>,
    /// The proxy to onion addresses.
    pub onion: Option<SocketAddr>,
}

/// The outcome of a block that was handed in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlockOutcome {
    /// It became the tip.
    Connected,
    /// It is stored, and the node does not want to connect it at present.
    Stored,
    /// It was stored before.
    Duplicate,
    /// The bytes are no block.
    Undecodable,
    /// It breaks a rule.
    Rejected(Reject),
}

/// Something to be asked of the node. It must neither wait nor take long: the chain stands still meanwhile.
pub type Question = Box<dyn FnOnce(&mut dyn NodeState) + Send>;

/// The end of the queue that the node's thread has.
pub struct Questions(Receiver<Question>);

impl Questions {
    /// The next question, if any.
    pub fn take(&self) -> Option<Question> {
        self.0.try_recv().ok()
    }

    /// How many wait.
    pub fn waiting(&self) -> usize {
        self.0.len()
    }

    /// To wait for the next one.
    pub fn receiver(&self) -> &Receiver<Question> {
        &self.0
    }
}

/// The state of the node at the end of a turn.
#[derive(Clone, Debug)]
pub struct Snapshot {
    pub tip: TipFacts,
    /// How many blocks were connected and left since the start.
    pub left: u64,
    /// Height of the best header.
    pub headers: u32,
    /// Estimated share of the network's transactions, from 0 to 1.
    pub progress: f64,
    pub initial_download: bool,
    /// Bytes of block and undo files.
    pub bytes_on_disk: u64,
    /// The lowest height from which on all blocks are there: 0 unless some were deleted, or lie below a
    /// snapshot and are not validated.
    pub prune_height: u32,
    pub pruning: Option<Pruning>,
    /// While the history below a loaded snapshot is validated.
    pub history: Option<HistoryFacts>,
    pub network_active: bool,
    /// The warnings of Bitcoin Core that apply, in its words and order.
    pub warnings: Vec<String>,
    /// A note for the operator about coins that come from a snapshot.
    pub unvalidated: Option<String>,
    /// The sync report; at most a second old.
    pub sync: Arc<SyncReport>,
}

impl Snapshot {
    /// All that the operator is warned of.
    pub(crate) fn all_warnings(&self) -> impl Iterator<Item = &String> {
        self.warnings.iter().chain(&self.unvalidated)
    }

    /// The one warning that Core gives to callers that take only one; godwit's own only if there is no other.
    pub(crate) fn last_warning(&self) -> Option<&str> {
        self.warnings.last().or(self.unvalidated.as_ref()).map(String::as_str)
    }
}

/// The last connected block.
#[derive(Clone, Debug, PartialEq)]
pub struct TipFacts {
    pub hash: BlockHash,
    pub height: u32,
    pub header: BlockHeader,
    pub median_time: u32,
    pub chain_work: Work,
}

/// How far the history below a loaded snapshot is validated.
#[derive(Clone, Debug, PartialEq)]
pub struct HistoryFacts {
    /// The last block that is.
    pub tip: TipFacts,
    /// Height of the snapshot's block.
    pub base: u32,
    /// Estimated share of the transactions up to the snapshot's block, from 0 to 1.
    pub progress: f64,
    /// Memory of its coins, in bytes.
    pub coins: u64,
}

/// The pruning of a node that deletes blocks, or has deleted some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pruning {
    /// The lowest height from which on all blocks are there.
    pub height: u32,
    /// `-prune`, in bytes; `None` where blocks are deleted on request, or were in an earlier run.
    pub target: Option<u64>,
}

struct Published {
    snapshot: Mutex<Arc<Snapshot>>,
    changed: Condvar,
    ending: AtomicBool,
    /// The node starts again behind this end.
    pausing: AtomicBool,
}

impl Published {
    /// Held to exchange a pointer.
    fn lock(&self) -> MutexGuard<'_, Arc<Snapshot>> {
        self.snapshot.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The node's side of the snapshots.
pub struct Publisher(Arc<Published>);

impl Publisher {
    /// The latest one.
    pub fn current(&self) -> Arc<Snapshot> {
        Arc::clone(&self.0.lock())
    }

    /// Publishes a new one.
    pub fn publish(&self, snapshot: Snapshot) {
        *self.0.lock() = Arc::new(snapshot);
        self.0.changed.notify_all();
    }

    /// Methods that wait are told that the node starts again.
    pub fn pause(self) {
        self.0.pausing.store(true, Ordering::SeqCst);
    }
}

/// Methods that wait are told that nothing will come any more.
impl Drop for Publisher {
    fn drop(&mut self) {
        self.0.ending.store(true, Ordering::SeqCst);
        drop(self.0.lock());
        self.0.changed.notify_all();
    }
}

/// The methods' side.
#[derive(Clone)]
pub struct Seam {
    questions: Sender<Question>,
    published: Arc<Published>,
    params: Arc<Params>,
    /// Changes when Tor reports its proxy.
    proxies: Arc<Mutex<Proxies>>,
    indexes: Indexes,
}

/// Both sides; `first` is published to begin with.
pub fn seam(
    params: Arc<Params>,
    proxies: Proxies,
    indexes: Indexes,
    first: Snapshot,
) -> (Seam, Questions, Publisher) {
    let (sender, receiver) = bounded(MAX_QUESTIONS);
    let published = Arc::new(Published {
        snapshot: Mutex::new(Arc::new(first)),
        changed: Condvar::new(),
        ending: AtomicBool::new(false),
        pausing: AtomicBool::new(false),
    });
    let publisher = Publisher(Arc::clone(&published));
    let proxies = Arc::new(Mutex::new(proxies));
    let seam = Seam { questions: sender, published, params, proxies, indexes };
    (seam, Questions(receiver), publisher)
}

impl Seam {
    pub(crate) fn params(&self) -> &Arc<Params> {
        &self.params
    }

    pub(crate) fn proxies(&self) -> Proxies {
        *self.proxies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Onion addresses are reached through this proxy from now on.
    pub fn set_onion_proxy(&self, proxy: SocketAddr) {
        self.proxies.lock().unwrap_or_else(PoisonError::into_inner).onion = Some(proxy);
    }

    /// The optional indexes that the node keeps.
    pub(crate) fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    pub(crate) fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.published.lock())
    }

    /// Whether the node ends.
    pub fn is_ending(&self) -> bool {
        self.published.ending.load(Ordering::SeqCst)
    }

    /// What is said to those whom the node does not answer any more: as long as it is not there, those who
    /// come then are told the same.
    pub(crate) fn ended(&self) -> RpcError {
        match self.published.pausing.load(Ordering::SeqCst) {
            true => RpcError::new(code::IN_WARMUP, LOADING),
            false => RpcError::new(code::CLIENT_NOT_CONNECTED, "Shutting down"),
        }
    }

    /// # Errors
    ///
    /// The node ends.
    pub(crate) fn check_running(&self) -> Result<(), RpcError> {
        if self.is_ending() { Err(self.ended()) } else { Ok(()) }
    }

    /// # Errors
    ///
    /// The node ends and starts again: what it last published may be taken back.
    pub(crate) fn check_not_pausing(&self) -> Result<(), RpcError> {
        if self.published.pausing.load(Ordering::SeqCst) { Err(self.ended()) } else { Ok(()) }
    }

    /// Asks the node, and waits for the answer.
    ///
    /// # Errors
    ///
    /// The node ends.
    pub fn ask<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn NodeState) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let (sender, answer) = bounded(1);
        let question: Question = Box::new(move |node| {
            // Who asked may be gone.
            let (Ok(()) | Err(_)) = sender.send(question(node));
        });
        self.questions.send(question).map_err(|_| self.ended())?;
        self.wait_for(&answer, &|| false)
    }

    /// Asks a question whose answer comes by another way, and does not wait.
    ///
    /// # Errors
    ///
    /// The node ends.
    pub fn post(
        &self,
        question: impl FnOnce(&mut dyn NodeState) + Send + 'static,
    ) -> Result<(), RpcError> {
        self.questions.send(Box::new(question)).map_err(|_| self.ended())
    }

    /// Asks for a change, and returns when the snapshot has it: a second question is answered behind the one
    /// of the first's turn.
    ///
    /// # Errors
    ///
    /// The node ends.
    pub(crate) fn change<T: Send + 'static>(
        &self,
        question: impl FnOnce(&mut dyn NodeState) -> T + Send + 'static,
    ) -> Result<T, RpcError> {
        let answer = self.ask(question)?;
        self.ask(|_| ())?;
        Ok(answer)
    }

    /// Waits for a message of the node's thread as long as a client waits for it. A question that the thread
    /// no longer takes stays in the queue and keeps its answer's channel open, so this also checks now and
    /// then whether the node ends.
    pub(crate) fn wait_for<T>(
        &self,
        answer: &Receiver<T>,
        is_gone: &dyn Fn() -> bool,
    ) -> Result<T, RpcError> {
        loop {
            match answer.recv_timeout(LOOK_INTERVAL) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout) if !self.is_ending() && !is_gone() => {}
                // It may have come since.
                Err(_) => return answer.try_recv().map_err(|_| self.ended()),
            }
        }
    }

    /// Waits until the tip is another one than this, or more blocks were left on the way back to it, for a
    /// second at most.
    pub fn wait_for_move(&self, known: BlockHash, left: u64) {
        let deadline = Instant::now() + CALLER_INTERVAL;
        let has_moved = |now: &Snapshot| now.tip.hash != known || now.left != left;
        self.wait_until(Some(deadline), &|| false, has_moved);
    }

    /// Waits until the snapshot is as wanted, the time is over, no client waits any more, or the node ends.
    /// Returns the latest snapshot.
    pub(crate) fn wait_until(
        &self,
        deadline: Option<Instant>,
        is_gone: &dyn Fn() -> bool,
        mut holds: impl FnMut(&Snapshot) -> bool,
    ) -> Arc<Snapshot> {
        let mut current = self.published.lock();
        loop {
            let left = deadline.map_or(CALLER_INTERVAL, |deadline| {
                deadline.saturating_duration_since(Instant::now()).min(CALLER_INTERVAL)
            });
            if holds(&current) || self.is_ending() || left.is_zero() || is_gone() {
                return Arc::clone(&current);
            }
            let waited = self.published.changed.wait_timeout(current, left);
            current = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
